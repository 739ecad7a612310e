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
        for text, says in (("price > qty +", "column"), ("prize > 3", "prize"), ("price > 'A'", "column")):
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

    def test_a_slow_subscriber_loses_as_it_chose(self):
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

    def test_a_choice_waits_for_a_subscription_and_other_things(self):
        tube, stop = chappe.Broadcast("chosen", schema=SCHEMA), chappe.Semaphore("stop", 0)
        tube.attach()
        dear, everything = tube.subscribe("price > $limit", limit=5), tube.subscribe()
        with self.assertRaises(TimeoutError):
            chappe.select(stop.down, dear.recv, timeout=0)
        tube.send(record(5))
        # What its filter does not want does not make it ready.
        with self.assertRaises(TimeoutError):
            chappe.select(stop.down, dear.recv, timeout=0.01)
        self.assertEqual(price(chappe.select(everything.recv, dear.recv).value), 5)
        tube.send(record(6))
        choice = chappe.select(stop.down, dear.recv)
        self.assertEqual((choice.index, price(choice.value)), (1, 6))
        stop.up()
        self.assertEqual(chappe.select(dear.recv, stop.down), (1, None))
        # What another arm took it has not.
        tube.send(record(7))
        stop.up()
        got = [chappe.select(stop.down, dear.recv).value for _ in range(2)]
        self.assertEqual([price(data) for data in got if data is not None], [7])
        self.assertEqual([price(everything.recv()) for _ in range(2)], [6, 7])
        with self.assertRaisesRegex(RuntimeError, "another arm"):
            chappe.select(dear.recv, dear.recv, timeout=0)
        # Nothing stays lent where a later arm is refused.
        with self.assertRaisesRegex(TypeError, "an arm is"):
            chappe.select(dear.recv, print, timeout=0)
        with self.assertRaisesRegex(TypeError, "only `recv`"):
            chappe.select(dear.try_recv, timeout=0)
        self.assertIsNone(dear.try_recv())
        tube.close()
        with self.assertRaises(chappe.Disconnected):
            chappe.select(stop.down, dear.recv)
        dear.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            chappe.select(stop.down, dear.recv)
        self.assertRaisesRegex(ValueError, "closed", len, dear)

    def test_a_choice_is_told_of_a_death(self):
        tube = chappe.Broadcast("told", schema=SCHEMA)
        sub, stop = tube.subscribe(), chappe.Semaphore("stop2", 0)

        def act():
            tube.send(record(1))
            os.kill(os.getpid(), signal.SIGKILL)

        os.waitpid(self.forked(act), 0)
        self.assertEqual(price(chappe.select(stop.down, sub.recv).value), 1)
        with self.assertRaises(chappe.SenderDied):
            chappe.select(stop.down, sub.recv)
        with self.assertRaises(chappe.Disconnected):
            chappe.select(stop.down, sub.recv)

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


class Wanted(Case):
    """Filters of a receiver: what it does not want is received too, and gone."""

    def test_a_receiver_drops_what_it_does_not_want(self):
        tube = chappe.Tube("wanted", slots=16, schema=SCHEMA)
        for n in range(10):
            tube.send(record(n, 10 * n))
        self.assertEqual(price(tube.recv(where="price > $min && qty < 1000", min=3)), 4)
        # Others are gone, and those behind it are there.
        self.assertEqual(len(tube), 5)
        self.assertEqual(price(tube.recv()), 5)
        self.assertEqual(price(tube.recv(where="price > $min && qty < 1000", min=6)), 7)
        data, again = tube.recv_redelivered(where="qty == 90")
        self.assertEqual((price(data), again), (9, False))
        for n in range(3):
            tube.send(record(n))
        self.assertIsNone(tube.try_recv(where="price > 5"))
        self.assertEqual(len(tube), 0)
        with self.assertRaises(TimeoutError):
            tube.recv(where="price > 5", timeout=0.01)
        tube.send(record(6))
        self.assertEqual(price(tube.try_recv(where="price > 5")), 6)
        # Many that nobody wants, and one at their end.
        sent = threading.Thread(target=lambda: [tube.send(record(n)) for n in range(2000)])
        sent.start()
        self.assertEqual(price(tube.recv(where="price == 1999", timeout=PATIENCE)), 1999)
        sent.join()
        tube.close(recv=False)
        with self.assertRaises(chappe.Disconnected):
            tube.recv(where="price > 5")

    def test_a_wrong_filter_receives_nothing(self):
        tube = chappe.Tube("wrongly", schema=SCHEMA)
        tube.send(record(1))
        for given, kind, says in (
            ({"where": "price > qty +"}, ValueError, "column"),
            ({"where": "prize > 3"}, ValueError, "prize"),
            ({"where": "price > $limit"}, ValueError, "limit"),
            ({"where": "price > $limit", "limit": [1]}, TypeError, "parameter `limit`"),
            ({"where": "price > 3", "limit": 1}, ValueError, "limit"),
            ({"limit": 1}, TypeError, "where"),
        ):
            with self.assertRaisesRegex(kind, says):
                tube.recv(timeout=0, **given)
        self.assertEqual(price(tube.recv(where="price > $limit", limit=0)), 1)
        # A filter that is kept is as it was where its new parameters do not fit.
        tube.send(record(2))
        with self.assertRaisesRegex(ValueError, "limit"):
            tube.recv(where="price > $limit", limit="much", timeout=0)
        self.assertEqual(price(tube.recv(where="price > $limit", limit=1)), 2)
        plain = chappe.Tube()
        plain.send(b"x")
        with self.assertRaisesRegex(ValueError, "no schema"):
            plain.recv(where="price > 3")
        self.assertEqual(plain.recv(), b"x")
        with self.assertRaisesRegex(TypeError, "schema"):
            chappe.Tube(schema=True)
        with self.assertRaises(chappe.Mismatch):
            chappe.Tube("wrongly", schema="price: i64")

    def test_a_signal_ends_a_wait_for_what_is_wanted(self):
        tube = chappe.Tube("signalled", schema=SCHEMA)
        tube.attach(send=True)

        def raises(*_):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, raises)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with self.assertRaises(KeyboardInterrupt):
                tube.recv(where="price > 5")
        finally:
            signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    unittest.main()
