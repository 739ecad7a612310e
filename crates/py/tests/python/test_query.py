"""Questions over a tube's records, in the language of `chappe query`."""

import signal
import struct
import subprocess
import sys

import chappe
from house import Case

SCHEMA = "ts: i64, px: f64?, sym: str[4]"


def record(ts, px, sym):
    return struct.pack("<qdB4s3x", ts, px or 0.0, px is not None, sym.encode())


ROWS = [(1, 10.5, "A"), (2, 9.0, "B"), (3, None, "A"), (12, 12.25, "A"), (13, 11.0, "C"), (25, 1.0, "B")]


class Questions(Case):
    def tube(self, rows=ROWS):
        tube = chappe.Tube(slots=64, schema=SCHEMA)
        self.assertEqual(tube.size, 24)
        tube.attach(recv=True)
        for row in rows:
            tube.send(record(*row))
        tube.close(recv=False)
        return tube

    def test_rows_sums_and_windows(self):
        asked = lambda text, **params: list(self.tube().query(text, **params))
        self.assertEqual(
            asked("where px > $least select sym, px * 2.0 as twice", least=10),
            [{"sym": "A", "twice": 21.0}, {"sym": "A", "twice": 24.5}, {"sym": "C", "twice": 22.0}],
        )
        self.assertEqual(
            asked("select sym, sum(px) as s, count() as n by sym order sym"),
            [{"sym": "A", "s": 22.75, "n": 3}, {"sym": "B", "s": 10.0, "n": 2}, {"sym": "C", "s": 11.0, "n": 1}],
        )
        self.assertEqual(
            asked("select count() as n, max(px) as most every 10 on ts"),
            [{"window": 0, "n": 3, "most": 10.5}, {"window": 10, "n": 2, "most": 12.25}, {"window": 20, "n": 1, "most": 1.0}],
        )
        self.assertEqual(asked("where ts == 3 select px"), [{"px": None}])
        self.assertEqual(asked("where sym == 'C'"), [{"ts": 13, "px": 11.0, "sym": "C"}])
        self.assertEqual([row["ts"] for row in asked("select ts order ts desc top 2")], [25, 13])
        self.assertEqual([row["ts"] for row in asked("select ts top 2")], [1, 2])

    def test_an_invalid_query_is_refused_before_anything_is_received(self):
        tube = self.tube()
        for text, says in [("selec ts", "begins with"), ("select pxx", "is it `px`?"), ("where px > $p", "`\\$p` has no value")]:
            with self.assertRaisesRegex(ValueError, says):
                tube.query(text)
        self.assertEqual(len(tube), len(ROWS))
        with self.assertRaisesRegex(ValueError, "has no schema"):
            chappe.Tube(slots=4, size=8).query("select a")
        most = 2**63 - 1
        with self.assertRaisesRegex(OverflowError, "`s` does not fit"):
            list(self.tube([(most, None, "A"), (1, None, "A")]).query("select sum(ts) as s"))

    def test_a_sender_that_dies_and_one_that_is_slow(self):
        with chappe.Tube("asked", slots=64, schema=SCHEMA, create=True) as tube:
            tube.attach(recv=True)
            program = "import chappe, time; from test_query import *; t = chappe.Tube('asked'); t.send(record(7, 1.0, 'A')); print('sent', flush=True); time.sleep(600)"
            sender = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
            self.assertEqual(sender.stdout.readline(), b"sent\n")
            rows = tube.query("select sum(ts) as s", timeout=0.01)
            self.assertEqual(next(rows), {"s": 7})
            with self.assertRaises(TimeoutError):
                next(rows)
            rows = tube.query("select count() as n")
            sender.send_signal(signal.SIGKILL)
            sender.wait()
            sender.stdout.close()
            with self.assertRaises(chappe.SenderDied):
                list(rows)
        chappe.remove("asked")
