"""Objects on an engine that many machines share: CHAPPE_ENGINE is its URL, without a namespace."""

import os
import signal
import subprocess
import sys
import threading
import unittest

import chappe
from house import PATIENCE, Case

ENGINE = os.environ.get("CHAPPE_ENGINE")


@unittest.skipUnless(ENGINE, "it needs an engine")
class Shared(Case):
    def lab(self, namespace):
        from chappe.remote import Remote

        return Remote(f"{ENGINE}/{namespace}", label="test")

    def test_a_permit_has_a_token_and_is_an_arm_of_a_choice(self):
        lab, other = self.lab("pools"), self.lab("pools")
        lab.create_pool("a")
        lab.create_pool("b", 3)
        with self.assertRaises(FileExistsError):
            lab.create_pool("a")
        with lab.acquire("a", "b") as first, other.acquire("a", "b", timeout=PATIENCE) as second:
            self.assertEqual((first.which, first.name, second.which, second.name), (0, "a", 1, "b"))
            self.assertLess(first.check(), second.check())
            self.assertGreater(first.left(), 1)
            self.assertEqual(lab.look_at_pool("b"), (3, 1, 0))
            with self.assertRaises(TimeoutError):
                lab.acquire("a", timeout=0)
            with self.assertRaises(TimeoutError):
                lab.acquire("b", permits=3, timeout=0.001)
            for wrong in [lambda: lab.acquire("a", permits=2), lambda: lab.acquire("a", "b", permits=2), lambda: lab.acquire()]:
                with self.assertRaises(ValueError):
                    wrong()
            with self.assertRaises(chappe.NotFound):
                lab.acquire("nothing")
            with self.assertRaises(chappe.InUse):
                lab.remove("a")
            lab.resize_pool("b", 1)
        self.assertEqual(lab.look_at_pool("b").permits, 1)
        taken = lab.acquire("a")
        other.remove("a", force=True)
        self.assertEqual(chappe.select(taken, timeout=PATIENCE).index, 0)
        with self.assertRaises(chappe.Lost):
            taken.check()
        with self.assertRaises(chappe.Lost):
            taken.release()

    def test_a_section_that_raises_is_told_to_the_next_holder_of_a_mutex(self):
        lab = self.lab("mutexes")
        lab.create_mutex("m")
        with self.assertRaises(KeyError), lab.lock("m") as guard:
            self.assertFalse(guard.owner_died)
            raise KeyError
        with self.assertRaises(chappe.OwnerDied):
            lab.lock("m")
        with lab.lock("m", mends=True) as guard:
            self.assertTrue(guard.owner_died and guard.check())
            guard.consistent()
        with lab.lock("m", timeout=0):
            pass
        with self.assertRaises(chappe.Mismatch):
            lab.acquire("m", timeout=0)

    def test_units_are_added_and_taken(self):
        lab = self.lab("units")
        lab.create_semaphore("s", 1)
        lab.down("s")
        with self.assertRaises(TimeoutError):
            lab.down("s", timeout=0)
        waiter = threading.Thread(target=self.lab("units").down, args=["s", PATIENCE])
        waiter.start()
        lab.up("s", 2)
        waiter.join()
        self.assertEqual(lab.value("s"), 1)

    def test_records_come_to_one_receiver_each_and_again_after_a_section_that_raises(self):
        lab = self.lab("tubes")
        lab.create_tube("t", pages=4, size=100)
        receiver = lab.receiver("t")
        with self.assertRaises(TimeoutError):
            receiver.recv(timeout=0)
        with lab.sender("t") as sender:
            sender.send(b"a")
            sender.send_all([b"b", b"c"])
            self.assertEqual(receiver.recv()[::2], (b"a", False))
            with self.assertRaises(KeyError), receiver:
                self.assertEqual(receiver.recv().bytes, b"b")
                raise KeyError
            with self.assertRaises(ValueError):
                receiver.recv()
            with self.assertRaises(ValueError):
                sender.send(bytes(101))
            receiver = lab.receiver("t", follows=True)
            self.assertEqual([receiver.recv()[::2] for _ in range(2)], [(b"b", True), (b"c", True)])
            receiver.check()
        with self.assertRaises(KeyError), lab.sender("t") as sender:
            sender.send(b"d")
            raise KeyError
        self.assertEqual(receiver.recv().bytes, b"d")
        receiver.abandon()
        lab.seal("t")
        receiver = lab.receiver("t")
        self.assertEqual(receiver.recv()[::2], (b"d", True))
        with self.assertRaises(chappe.SenderDied):
            receiver.recv()
        self.assertEqual(list(receiver), [])
        with self.assertRaises(chappe.Disconnected):
            lab.sender("t").send(b"d")

    def test_a_unit_that_comes_while_a_handler_raises_is_given_back(self):
        lab, other = self.lab("signals"), self.lab("signals")
        lab.create_semaphore("s", 0)

        def handler(number, frame):
            other.up("s")
            raise KeyError

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, handler))
        # Also where the signal comes before it waits, the unit is there.
        timer = threading.Timer(1, signal.pthread_kill, [threading.get_ident(), signal.SIGUSR1])
        timer.start()
        with self.assertRaises(KeyError):
            lab.down("s")
        timer.join()
        self.assertEqual(lab.value("s"), 1)

    def test_an_end_that_an_exception_drops_has_not_finished(self):
        lab = self.lab("dropped")
        lab.create_mutex("m")
        lab.create_tube("t", pages=4, size=100)
        with lab.sender("t") as sender:
            sender.send(b"a")

        def works():
            kept = lab.lock("m"), lab.sender("t"), lab.receiver("t")
            self.assertEqual(kept[2].recv().bytes, b"a")
            raise KeyError

        with self.assertRaises(KeyError):
            works()
        with lab.receiver("t") as receiver:
            self.assertEqual(receiver.recv()[::2], (b"a", True))
            with self.assertRaises(chappe.SenderDied):
                receiver.recv()
        with lab.lock("m", mends=True) as guard:
            self.assertTrue(guard.owner_died)
            guard.consistent()
        script = f"from chappe.remote import Remote; guard = Remote({ENGINE + '/dropped'!r}).lock('m'); raise KeyError"
        ended = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, timeout=PATIENCE)
        self.assertIn(b"KeyError", ended.stderr)
        with lab.lock("m", timeout=0, mends=True) as guard:
            self.assertTrue(guard.owner_died)

    def test_a_forked_child_has_nothing_of_its_parents(self):
        lab = self.lab("forks")
        lab.create_pool("a")
        permit = lab.acquire("a")

        def child():
            for act in (permit.check, lambda: lab.acquire("a")):
                try:
                    act()
                except RuntimeError:
                    continue
                raise AssertionError("it is the parent's")

        pid = self.forked(child)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        permit.release()
