"""Two terms over the records of `cargo xtask bench synth`, by NumPy and by polars: a line for each that is installed.

Arguments: the file of records, and how many rounds. Of each round: nanoseconds for a record.
"""

import sys
import time

path, rounds = sys.argv[1], int(sys.argv[2])
FIELDS = [("price", "<f8"), ("volume", "<f8"), ("qty", "<i4"), ("id", "<u4"), ("venue", "<i8"), ("sym", "S8"), ("rest", "S24")]
AGAIN = 16


def measured(name, count, work):
    """Prints a row."""
    work()
    samples = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(AGAIN):
            work()
        samples.append((time.perf_counter_ns() - start) / AGAIN / count)
    print(name, " ".join(f"{ns:.3f}" for ns in samples), sep="\t")


try:
    import numpy
except ImportError:
    sys.exit()
records = numpy.fromfile(path, dtype=FIELDS)
measured(
    "NumPy, over the records",
    len(records),
    lambda: numpy.flatnonzero((records["price"] > 10.0) & (records["qty"] < 50)),
)
price, qty = records["price"].copy(), records["qty"].copy()
measured("NumPy, over columns of their own", len(records), lambda: numpy.flatnonzero((price > 10.0) & (qty < 50)))
try:
    import polars
except ImportError:
    sys.exit()
frame = polars.DataFrame({"price": price, "qty": qty}).lazy()
wanted = frame.select(((polars.col("price") > 10.0) & (polars.col("qty") < 50)).arg_true())
measured("polars, over columns of their own", len(records), wanted.collect)
