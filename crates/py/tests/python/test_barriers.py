"""Barriers: rounds, actions, deaths, choice, names."""

import concurrent.futures
import os
import signal
import threading
import unittest

import chappe
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

    def test_a_barrier_is_an_arm_of_a_choice(self):
        barrier, stop = chappe.Barrier(2), chappe.Semaphore(value=1)
        self.assertEqual(chappe.select(barrier.wait, stop.down).index, 1)
        self.assertEqual((barrier.n_waiting, barrier.broken), (0, False))
        with self.assertRaises(TimeoutError):
            chappe.select(barrier.wait, stop.down, timeout=0.01)
        self.assertEqual((barrier.n_waiting, barrier.broken), (0, False))
        with concurrent.futures.ThreadPoolExecutor() as threads:
            other = threads.submit(barrier.wait, 60)
            index, number = chappe.select(stop.down, barrier.wait, timeout=60)
            self.assertEqual((index, number + other.result(60)), (1, 1))
        barrier.abort()
        with self.assertRaises(chappe.BrokenBarrierError):
            chappe.select(barrier.wait, stop.down)
        with self.assertRaisesRegex(ValueError, "has an action"):
            chappe.select(chappe.Barrier(2, print).wait)

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
