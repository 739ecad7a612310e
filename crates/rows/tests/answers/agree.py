"""Answers questions in SQL: `agree.py sqlite|duckdb`, tables and questions as JSON on stdin, rows as JSON on stdout."""

import json
import sys

asked = json.load(sys.stdin)
if sys.argv[1] == "sqlite":
    import sqlite3

    db = sqlite3.connect(":memory:")
    kinds = {"int": "INTEGER", "double": "REAL", "text": "TEXT"}
else:
    import duckdb

    db = duckdb.connect()
    kinds = {"int": "BIGINT", "double": "DOUBLE", "text": "VARCHAR"}
for name, rows in asked["tables"].items():
    columns = ", ".join(f"{column} {kinds[kind]}" for column, kind in asked["columns"])
    db.execute(f"CREATE TABLE {name} ({columns})")
    if rows:
        places = ", ".join("?" for _ in asked["columns"])
        db.executemany(f"INSERT INTO {name} VALUES ({places})", rows)
answers = []
for question in asked["questions"]:
    try:
        rows = db.execute(question).fetchall()
        answers.append([[v if v is None or isinstance(v, (int, str)) else float(v) for v in row] for row in rows])
    except Exception as why:
        answers.append(f"{question}: {why}")
json.dump(answers, sys.stdout)
