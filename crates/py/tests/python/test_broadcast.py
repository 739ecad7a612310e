"""Broadcast tubes: filters, slow subscribers, deaths. Without numpy."""

import os
import pickle
import signal
import threading
import unittest

import chappe
from house import PATIENCE, Case

SCHEMA = "price: i32, qty: i32"


def record(price, qty=0):
    return price.to_bytes(4, "little", signed=True) + qty.to_bytes(4, "little", signed=True)


def price(data):
    return int.from_bytes(data[:4], "little", signed=True)


class Broadcasts(Case):
    def test_each_gets_what_it_wants(self):
        tube = chappe.Broadcast("quotes", schema=SCHEMA, slots=32)
        everything, dear = tube.subscribe(), tube.subscribe("price > $min", min=5)
        for n in range(10):
            tube.send(record(n))
        self.assertEqual([price(everything.recv()) for _ in range(10)], list(range(10)))
        self.assertEqual([price(dear.recv()) for _ in range(4)], [6, 7, 8, 9])
        self.assertIsNone(dear.try_recv())
        with self.assertRaises(TimeoutError):
            dear.recv(timeout=0.01)
        dear.set(min=100)
        tube.send(record(50))
        self.assertIsNone(dear.try_recv())
        self.assertEqual(tube.subscribers, 2)
        dear.close()
        self.assertEqual(tube.subscribers, 1)
        with self.assertRaisesRegex(ValueError, "closed"):
            dear.recv()

    def test_a_wrong_filter_is_told_with_its_column(self):
        tube = chappe.Broadcast(schema=SCHEMA)
        for text, says in (("price > qty +", "column"), ("prize > 3", "prize"), ("price > 1.5", "column")):
            with self.assertRaisesRegex(ValueError, says):
                tube.subscribe(text)
        with self.assertRaisesRegex(ValueError, "no value|limit"):
            tube.subscribe("price > $limit")
        with self.assertRaisesRegex(TypeError, "parameter `limit`"):
            tube.subscribe("price > $limit", limit=[1])
        with self.assertRaisesRegex(ValueError, "64 bits"):
            tube.subscribe("price > $limit", limit=1 << 70)
        with self.assertRaisesRegex(TypeError, "where"):
            tube.subscribe(limit=1)
        with self.assertRaisesRegex(ValueError, "drop-newest:N"):
            tube.subscribe(slow="drop-newest")
        with self.assertRaisesRegex(ValueError, "no schema"):
            chappe.Broadcast().subscribe("price > 3")
        with self.assertRaisesRegex(ValueError, "8|short"):
            tube.send(b"abc")

    def test_what_is_too_slow_loses_as_it_said(self):
        tube = chappe.Broadcast(schema=SCHEMA, slots=4)
        oldest, newest = tube.subscribe(slow="drop-oldest"), tube.subscribe(slow="drop-newest:2")
        for n in range(10):
            tube.send(record(n))
        self.assertEqual([price(newest.recv()), price(newest.recv()), newest.try_recv()], [0, 1, None])
        self.assertEqual(newest.lost, 8)
        got = [price(data) for data in iter(oldest.try_recv, None)]
        # Slots that are kept for the other one are not overwritten.
        self.assertEqual((got, got[-1], oldest.lost), (sorted(got), 9, 10 - len(got)))
        blocks = tube.subscribe()
        while tube.try_send(record(1)):
            pass
        with self.assertRaises(TimeoutError):
            tube.send(record(1), timeout=0.01)
        blocks.close()
        tube.send(record(1))

    def test_it_goes_between_processes(self):
        tube = chappe.Broadcast(schema=SCHEMA)
        mine = tube.subscribe("price == 7")
        again = pickle.loads(pickle.dumps(tube))
        self.assertEqual(again.schema, tube.schema)
        tube.send(record(1))                            # this process publishes before it forks

        def act():
            tube.send(record(7))

        self.assertEqual(self.ended(self.forked(act)), 0)
        self.assertEqual(price(mine.recv(timeout=PATIENCE)), 7)

    def test_a_killed_subscriber_is_nobody(self):
        tube = chappe.Broadcast("killed", schema=SCHEMA, slots=4)
        ready = chappe.Semaphore(value=0)

        def act():
            _kept = tube.subscribe("price > 0")
            ready.up()
            signal.pause()

        child = self.forked(act)
        ready.down()
        self.assertEqual(tube.subscribers, 1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for n in range(1, 100):
            tube.send(record(n), timeout=PATIENCE)
        self.assertEqual(tube.subscribers, 0)

    def test_iterating_ends_with_the_publishers(self):
        tube = chappe.Broadcast("ends", schema=SCHEMA)
        sub = tube.subscribe()
        with tube:
            tube.send(record(1))
            tube.send(record(2))
        self.assertEqual([price(data) for data in sub], [1, 2])
        with self.assertRaises(chappe.Disconnected):
            sub.recv()

    def test_a_second_thread_is_refused(self):
        tube = chappe.Broadcast(schema=SCHEMA)
        tube.attach()
        sub = tube.subscribe()
        got = []
        thread = threading.Thread(target=lambda: got.append(sub.recv(timeout=PATIENCE)))
        thread.start()
        refused = False
        # Until the other thread is in the middle of it; a message in between would end its wait.
        for _ in range(10_000):
            try:
                self.assertIsNone(sub.try_recv())
            except RuntimeError as error:
                refused = "another thread" in str(error)
                break
        tube.send(record(3))
        thread.join()
        self.assertTrue(refused)
        self.assertEqual(price(got[0]), 3)

    def test_it_is_removed(self):
        tube = chappe.Broadcast("removed", schema=SCHEMA)
        sub = tube.subscribe()
        with self.assertRaises(chappe.InUse):
            chappe.remove("removed")
        chappe.remove("removed", force=True)
        with self.assertRaises(chappe.Removed):
            sub.recv()
        with self.assertRaises(chappe.Removed):
            tube.send(record(1))


if __name__ == "__main__":
    unittest.main()
