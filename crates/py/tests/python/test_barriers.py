"""Barriers: rounds, actions, deaths, choice, names."""

import asyncio
import concurrent.futures
import gc
import os
import pickle
import signal
import subprocess
import threading
import unittest

import chappe
from chappe import aio
from house import Case


class Barriers(Case):
    def test_a_barrier_lets_all_go_at_once(self):
        barrier, numbers = chappe.Barrier(3), []
        for _ in range(20):
            threads = [threading.Thread(target=lambda: numbers.append(barrier.wait(60))) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(sorted(numbers), sorted([0, 1, 2] * 20))

    def test_a_death_at_a_barrier_breaks_it(self):
        barrier = chappe.Barrier(3)
        child = self.forked(barrier.wait)
        self.until(lambda: barrier.n_waiting == 1)
        os.kill(child, signal.SIGKILL)
        self.ended(child)
        with self.assertRaises(chappe.BrokenBarrierError):
            barrier.wait(60)
        self.assertTrue(barrier.broken)
        barrier.reset()
        self.assertEqual(barrier.n_waiting, 0)
        with self.assertRaises(chappe.BrokenBarrierError):
            barrier.wait(0.01)

    def test_a_death_breaks_a_barrier_at_once_for_one_that_waits(self):
        for action in None, list:
            barrier = chappe.Barrier(3, action)
            child = self.forked(barrier.wait)
            self.until(lambda barrier=barrier: barrier.n_waiting == 1)
            with concurrent.futures.ThreadPoolExecutor() as threads:
                waits = threads.submit(barrier.wait, 60)
                self.until(lambda barrier=barrier: barrier.n_waiting == 2)
                os.kill(child, signal.SIGKILL)
                self.ended(child)
                self.assertIsInstance(waits.exception(60), chappe.BrokenBarrierError)

    def test_an_action_is_run_by_the_last_before_all_go_on(self):
        begun, done, gone = threading.Event(), threading.Event(), []

        def action():
            is_first = not begun.is_set()
            begun.set()
            self.assertTrue(done.wait(60))
            self.assertFalse(is_first and gone)

        barrier = chappe.Barrier(2, action)
        threads = [threading.Thread(target=lambda: gone.append(barrier.wait(60))) for _ in range(4)]
        for thread in threads:
            thread.start()
        self.assertTrue(begun.wait(60))
        self.assertEqual((barrier.n_waiting, barrier.parties, gone), (1, 2, []))
        done.set()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(gone), [0, 0, 1, 1])

    def test_an_action_that_raises_breaks_the_barrier(self):
        barrier = chappe.Barrier(2, lambda: 1 // 0)
        with concurrent.futures.ThreadPoolExecutor() as threads:
            other = threads.submit(barrier.wait, 60)
            self.until(lambda: barrier.n_waiting == 1)
            with self.assertRaises(ZeroDivisionError):
                barrier.wait(60)
            self.assertIsInstance(other.exception(60), chappe.BrokenBarrierError)
        barrier.reset()
        self.assertFalse(barrier.broken)

    def test_a_reset_in_the_action_ends_its_round(self):
        barrier = chappe.Barrier(2, lambda: barrier.reset())
        with concurrent.futures.ThreadPoolExecutor() as threads:
            other = threads.submit(barrier.wait, 60)
            self.until(lambda: barrier.n_waiting == 1)
            with self.assertRaises(chappe.BrokenBarrierError):
                barrier.wait(60)
            self.assertIsInstance(other.exception(60), chappe.BrokenBarrierError)
        self.assertEqual((barrier.broken, barrier.n_waiting), (False, 0))

    def test_a_death_in_the_action_breaks_the_barrier(self):
        barrier = chappe.Barrier(2, lambda: os._exit(0))
        with concurrent.futures.ThreadPoolExecutor() as threads:
            waits = threads.submit(barrier.wait, 60)
            self.until(lambda: barrier.n_waiting == 1)
            self.assertEqual(self.ended(self.forked(barrier.wait)), 0)
            self.assertIsInstance(waits.exception(60), chappe.BrokenBarrierError)
        # One that comes to the gate later finds it, too, though nobody waits.
        barrier = chappe.Barrier(1, lambda: os._exit(0))
        self.assertEqual(self.ended(self.forked(barrier.wait)), 0)
        with self.assertRaises(chappe.BrokenBarrierError):
            barrier.wait(60)

    def test_an_arrival_is_an_arm_of_a_choice_and_stands_whatever_is_chosen(self):
        barrier, stop = chappe.Barrier(2), chappe.Semaphore(value=1)
        with barrier.arrive() as arrival:
            self.assertEqual(chappe.select(arrival.wait, stop.down).index, 1)
            with self.assertRaises(TimeoutError):
                chappe.select(arrival.wait, stop.down, timeout=0.01)
            with self.assertRaises(TypeError):
                chappe.select(arrival.wait, object())
            self.assertEqual((barrier.n_waiting, barrier.broken, arrival.is_over()), (1, False, False))
            with concurrent.futures.ThreadPoolExecutor() as threads:
                other = threads.submit(barrier.wait, 60)
                index, number = chappe.select(stop.down, arrival.wait, timeout=60)
                self.assertEqual((index, number + other.result(60)), (1, 1))
        # Twice: the outcome was told.
        with self.assertRaises(chappe.InUse):
            arrival.wait()
        with barrier.arrive() as arrival:
            barrier.abort()
            with self.assertRaises(chappe.BrokenBarrierError):
                chappe.select(arrival.wait, stop.down)
        with self.assertRaisesRegex(ValueError, "has an action"):
            chappe.Barrier(2, print).arrive()

    def test_to_wait_at_a_barrier_is_no_arm_as_it_arrives(self):
        barrier, stop = chappe.Barrier(2), chappe.Semaphore(value=1)
        with concurrent.futures.ThreadPoolExecutor() as threads:
            other = threads.submit(barrier.wait, 60)
            self.until(lambda: barrier.n_waiting == 1)
            with self.assertRaisesRegex(TypeError, "Arrive first"):
                chappe.select(barrier.wait, stop.down)
            self.assertEqual((barrier.n_waiting, stop.value), (1, 1))
            self.assertEqual(barrier.wait(60) + other.result(60), 1)

    def test_an_arrival_is_a_threads_and_goes_when_it_lets_go(self):
        barrier = chappe.Barrier(2)
        arrival = barrier.arrive()
        with concurrent.futures.ThreadPoolExecutor() as threads:
            for use in arrival.wait, arrival.take_back, arrival.is_over, lambda: chappe.select(arrival.wait):
                self.assertIsInstance(threads.submit(use).exception(60), RuntimeError)
        with self.assertRaises(TypeError):
            asyncio.run(aio.select(arrival.wait, timeout=0))
        with self.assertRaises(TypeError):
            pickle.dumps(arrival)
        with self.assertRaises(chappe.InUse):
            barrier.wait(0)
        self.assertEqual((barrier.n_waiting, barrier.broken), (1, False))
        del arrival, use
        gc.collect()
        self.assertEqual(barrier.n_waiting, 0)
        with barrier.arrive() as arrival:
            self.assertTrue(arrival.take_back())
        with barrier.arrive():
            self.assertEqual(barrier.n_waiting, 1)
        self.assertEqual((barrier.n_waiting, barrier.broken), (0, False))
        # One whose thread has ended, or is the parent's, is let go of.
        kept = []
        thread = threading.Thread(target=lambda: kept.append(barrier.arrive()))
        thread.start()
        thread.join()
        # Python's thread ends a little before the system's.
        self.until(lambda: barrier.n_waiting == 0)
        kept.clear()
        with barrier.arrive() as arrival:

            def child():
                nonlocal arrival
                with self.assertRaises(RuntimeError):
                    arrival.wait()
                arrival = None

            self.assertEqual(self.ended(self.forked(child)), 0)
            self.assertEqual((barrier.n_waiting, arrival.is_over()), (1, False))

    def test_a_handler_that_raises_after_the_turn_breaks_nothing(self):
        barrier, turned, begun = chappe.Barrier(2), [], threading.Event()

        def handler(*_):
            if begun.is_set():
                return
            begun.set()
            thread = threading.Thread(target=lambda: turned.append(barrier.wait(60)))
            thread.start()
            thread.join()
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            me = threading.main_thread().ident

            def send():
                self.until(lambda: barrier.n_waiting)
                # Again and again: one that comes just before the sleep ends no wait.
                while not begun.wait(0.05):
                    signal.pthread_kill(me, signal.SIGUSR1)

            sends = threading.Thread(target=send)
            sends.start()
            with self.assertRaises(KeyboardInterrupt):
                barrier.wait(60)
            sends.join()
        finally:
            signal.signal(signal.SIGUSR1, before)
        self.assertEqual((turned, barrier.broken), ([0], False))

    def test_one_whose_time_is_up_while_an_action_runs_leaves_its_round_alone(self):
        begun, done = threading.Event(), threading.Event()
        barrier = chappe.Barrier(2, lambda: (begun.set(), done.wait(60)))
        with concurrent.futures.ThreadPoolExecutor() as threads:
            waits = [threads.submit(barrier.wait, 60) for _ in range(2)]
            self.assertTrue(begun.wait(60))
            with self.assertRaises(chappe.BrokenBarrierError):
                barrier.wait(0.01)
            self.assertFalse(barrier.broken)
            done.set()
            self.assertEqual(sorted(wait.result(60) for wait in waits), [0, 1])

    @unittest.skipUnless(os.environ.get("CHAPPE_COMMAND"), "nothing else removes an object without its parts")
    def test_an_object_that_is_made_anew_has_nothing_of_the_removed_one(self):
        def remove(name):
            subprocess.run([os.environ["CHAPPE_COMMAND"], "rm", "--force", name], check=True, stdout=subprocess.DEVNULL)

        # The one before died in its action.
        self.assertEqual(self.ended(self.forked(lambda: chappe.Barrier(1, lambda: os._exit(0), name="anew").wait(60))), 0)
        remove("anew")
        barrier = chappe.Barrier(1, name="anew")
        self.assertEqual(barrier.wait(60), 0)
        with barrier.arrive() as arrival:
            self.assertEqual(chappe.select(arrival.wait).value, 0)
        # One that is in its action while the barrier is removed holds up no newer one.
        begun, done = threading.Event(), threading.Event()
        remove("anew")
        old = chappe.Barrier(1, lambda: (begun.set(), done.wait(60)), name="anew")
        with concurrent.futures.ThreadPoolExecutor() as threads:
            waits = threads.submit(old.wait, 60)
            self.assertTrue(begun.wait(60))
            remove("anew")
            barrier = chappe.Barrier(1, list, name="anew")
            self.assertEqual(barrier.wait(60), 0)
            done.set()
            self.assertIsInstance(waits.exception(60), chappe.Removed)
        self.assertEqual(barrier.wait(60), 0)
        # So it is with an event and a lock.
        event = chappe.Event("flag")
        event.set()
        remove("flag")
        newer = chappe.Event("flag")
        self.assertEqual((newer.is_set(), event.is_set()), (False, False))
        with self.assertRaises(chappe.Removed):
            event.set()
        self.assertFalse(newer.is_set())
        self.assertEqual(self.ended(self.forked(lambda: (chappe.Lock("lock").acquire(), os._exit(0)))), 0)
        remove("lock")
        lock = chappe.Lock("lock", on_death="raise")
        with lock:
            self.assertEqual(lock.deaths, 0)
        lock.acquire()
        remove("lock")
        with chappe.Lock("lock", on_death="raise") as _:
            lock.release()
        for name in "anew", "flag", "lock":
            chappe.remove(name, force=True)

    @unittest.skipUnless(os.environ.get("CHAPPE_COMMAND"), "without the command nobody makes such a barrier")
    def test_a_death_at_a_barrier_that_does_not_break_is_told_once(self):
        subprocess.run([os.environ["CHAPPE_COMMAND"], "barrier", "create", "whole", "-n", "2"], check=True)
        barrier = chappe.Barrier(2, name="whole", create=False)
        child = self.forked(lambda: chappe.Barrier(2, name="whole", create=False).wait())
        self.until(lambda: barrier.n_waiting == 1)
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            # Joins, and is told.
            self.assertIn(threads.submit(barrier.wait, 60).result(60), (0, 1))
            self.assertEqual(self.ended(child), 0)
            with self.assertRaises(chappe.PartyDied) as told:
                threads.submit(barrier.wait, 60).result(60)
            self.assertNotIsInstance(told.exception, OSError)
            self.assertEqual((threads.submit(barrier.wait, 60).result(60), barrier.broken), (0, False))

    def test_a_named_barrier_is_one_object_of_its_arena(self):
        barrier = chappe.Barrier(2, name="step")
        self.assertIn(("step", "barrier"), [(name, kind) for name, kind, *_ in chappe._show("default")])
        child = self.forked(lambda: chappe.Barrier(2, name="step", create=False).wait(60))
        self.assertIn(barrier.wait(60), (0, 1))
        self.assertEqual(self.ended(child), 0)
        with self.assertRaises(FileExistsError):
            chappe.Barrier(2, name="step", create=True)
        with self.assertRaisesRegex(ValueError, "between 1 and"):
            chappe.Barrier(0)
        chappe.remove("step")
        with self.assertRaises(chappe.Removed):
            barrier.wait(60)
        self.assertEqual([name for name, *_ in chappe._show("default") if name.startswith("step")], [])


if __name__ == "__main__":
    unittest.main()
