"""The forms for asyncio: each waits without blocking the loop, and a cancelled one has taken nothing."""

import asyncio
import os
import threading
import unittest

import chappe
from chappe import aio
from house import Case


class Awaited(Case):
    def run_(self, made):
        return asyncio.run(asyncio.wait_for(made, 60))

    def test_tubes_are_awaited_by_many_tasks(self):
        async def main():
            tube = chappe.Tube(slots=2)
            got = [asyncio.create_task(aio.get(tube)) for _ in range(10)]
            await asyncio.sleep(0)
            for n in range(10):
                await aio.put(tube, n)
            return sorted(await asyncio.gather(*got))

        self.assertEqual(self.run_(main()), list(range(10)))

    def test_none_is_an_object_like_any_other(self):
        async def main():
            tube = chappe.Tube()
            await aio.put(tube, None)
            return await aio.get(tube)

        self.assertIsNone(self.run_(main()))

    def test_a_cancelled_wait_has_taken_nothing(self):
        async def main():
            pool, semaphore, tube = chappe.Pool(), chappe.Semaphore(value=0), chappe.Tube()
            held = pool.acquire()

            async def take():
                async with aio.acquire(pool):
                    raise AssertionError("it was taken")

            waits = [asyncio.create_task(w) for w in (take(), aio.down(semaphore), aio.recv(tube))]
            await asyncio.sleep(0.01)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
            held.release()
            semaphore.up()
            tube.send(b"x")
            return pool.available, semaphore.value, len(tube)

        self.assertEqual(self.run_(main()), (1, 1, 1))

    def test_a_cancelled_wait_has_left_the_line_at_once(self):
        async def main():
            pool, lock = chappe.Pool(), chappe.Lock()
            held = pool.acquire()

            async def take(of):
                async with aio.acquire(of):
                    raise AssertionError("it was taken")

            with lock:
                waits = [asyncio.create_task(take(of)) for _ in range(49) for of in (pool, lock)]
                await asyncio.sleep(0)
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)
            held.release()
            # The loop has not turned since: no cancelled wait has got it.
            return pool.available, lock.locked()

        self.assertEqual(self.run_(main()), (1, False))

    def test_a_grant_after_the_loop_was_closed_is_not_taken(self):
        pool, semaphore, lock, both = chappe.Pool(), chappe.Semaphore(value=0), chappe.Lock(), chappe.RwLock()

        async def take(made):
            async with made:
                raise AssertionError("it was taken")

        with pool.acquire(), lock, both.read():
            loop = asyncio.new_event_loop()
            waits = [aio.down(semaphore), *map(take, (aio.acquire(pool), aio.acquire(lock), aio.write(both)))]
            waits = [loop.create_task(wait) for wait in waits]
            loop.run_until_complete(asyncio.sleep(0))
            for wait in waits:
                wait.cancel()
            loop.run_until_complete(asyncio.gather(*waits, return_exceptions=True))
            loop.close()
        semaphore.up()
        self.assertEqual((pool.available, semaphore.value, lock.locked()), (1, 1, False))
        both.write(0).release()

    def test_a_choice_of_a_task_does_one_thing_of_any_kind(self):
        async def main():
            pool, lock, units = chappe.Pool(None, ["a", "b"]), chappe.Lock(), chappe.Semaphore(value=0)
            full, tube, cast = chappe.Tube(slots=2), chappe.Tube(slots=2), chappe.Broadcast()
            heard = cast.subscribe()
            while full.try_send(b"old"):
                pass
            read, write = os.pipe()
            arms = [pool.acquire, lock.acquire, units.down, tube.get, (full.send, b"new"), heard.recv, read]
            makes = [
                lambda: held.pop().release(),
                lock.release,
                units.up,
                lambda: tube.put({"n": 1}),
                lambda: full.recv(),
                lambda: cast.send(b"told"),
                lambda: os.write(write, b"x"),
            ]
            wanted = [None, lock, None, {"n": 1}, None, b"told", None]
            held = [pool.acquire(), pool.acquire()]
            lock.acquire()
            for at, make in enumerate(makes):
                choice = asyncio.create_task(aio.select(*arms))
                await asyncio.sleep(0)
                make()
                index, value = await choice
                self.assertEqual(index, at)
                if at == 0:
                    self.assertIn(value.value, "ab")
                    held.append(value)
                else:
                    self.assertEqual(value, wanted[at])
                if at == 6:
                    self.assertEqual(os.read(read, 9), b"x")
            # Those that were not chosen are as they were.
            for permit in held:
                permit.release()
            lock.release()
            self.assertEqual((pool.available, units.value, len(tube), len(heard)), (2, 0, 0, 0))
            # What is there at once, and the time.
            self.assertEqual((await aio.select(chappe.after(0).recv)).index, 0)
            self.assertEqual((await aio.select(tube.recv, chappe.after(0.01).recv)).index, 1)
            for timeout in 0, 0.01:
                with self.assertRaises(TimeoutError):
                    await aio.select(tube.recv, units.down, timeout=timeout)
            with self.assertRaises(TypeError):
                await aio.select(tube.recv, object())
            # What a refused choice had lent was given back.
            tube.put(2)
            self.assertEqual(tube.get(), 2)
            for fd in read, write:
                os.close(fd)

        self.run_(main())

    def test_a_choice_of_a_task_says_what_was_removed_or_has_gone(self):
        async def main():
            pool, tube, units = chappe.Pool("gone/pool"), chappe.Tube("gone/tube", slots=2), chappe.Semaphore("gone/units", value=0)
            with pool.acquire():
                choice = asyncio.create_task(aio.select(pool.acquire, units.down))
                await asyncio.sleep(0)
                chappe.remove("gone/units", force=True)
                with self.assertRaisesRegex(chappe.Removed, "arm 1"):
                    await choice
            self.assertEqual(pool.available, 1)
            tube.attach(send=True)
            choice = asyncio.create_task(aio.select(tube.recv, pool.acquire, tube.get))
            index, permit = await choice
            self.assertEqual(index, 1)
            choice = asyncio.create_task(aio.select(tube.recv))
            await asyncio.sleep(0)
            tube.close(recv=False)
            with self.assertRaises(chappe.Disconnected):
                await choice
            permit.release()

        self.run_(main())

    def test_a_choice_that_is_cancelled_gives_back_what_it_was_granted(self):
        async def main():
            pool, lock, units, tube = chappe.Pool(), chappe.Lock(), chappe.Semaphore(value=0), chappe.Tube(slots=2)
            for n in range(400):
                permit = pool.acquire()
                lock.acquire()
                choice = asyncio.create_task(aio.select(pool.acquire, lock.acquire, units.down, tube.recv))
                for _ in range(n // 4 % 3):
                    await asyncio.sleep(0)
                [permit.release, lock.release, units.up, lambda: tube.send(b"x")][n % 4]()
                choice.cancel()
                (over,) = await asyncio.gather(choice, return_exceptions=True)
                self.assertIsInstance(over, asyncio.CancelledError)
                if n % 4 != 0:
                    permit.release()
                if n % 4 != 1:
                    lock.release()
                if n % 4 == 2:
                    units.down(0)
                if n % 4 == 3:
                    tube.recv(0)
                self.assertEqual((pool.available, lock.locked(), units.value, len(tube)), (1, False, 0, 0))

        self.run_(main())

    def test_tasks_and_threads_turn_the_rounds_of_a_barrier(self):
        async def main(action):
            barrier, told = chappe.Barrier(3, action), []
            loop = asyncio.get_running_loop()
            for _ in range(20):
                thread = loop.run_in_executor(None, barrier.wait)
                told.append(sorted(await asyncio.gather(aio.wait(barrier), aio.wait(barrier), thread)))
            self.assertEqual((told, barrier.n_waiting), ([[0, 1, 2]] * 20, 0))

        acted = []
        self.run_(main(None))
        self.run_(main(lambda: acted.append(1)))
        self.assertEqual(len(acted), 20)

    def test_a_task_that_leaves_a_barrier_breaks_it_unless_all_have_come(self):
        async def main():
            barrier = chappe.Barrier(2)
            waits = asyncio.create_task(aio.wait(barrier))
            await asyncio.sleep(0)
            self.assertEqual(barrier.n_waiting, 1)
            waits.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waits
            self.assertEqual((barrier.n_waiting, barrier.broken), (0, True))
            with self.assertRaises(chappe.BrokenBarrierError):
                await aio.wait(barrier)
            barrier.reset()
            # It is cancelled behind the turn, before it goes on.
            waits = asyncio.create_task(aio.wait(barrier))
            await asyncio.sleep(0)
            self.assertEqual(await aio.wait(barrier), 0)
            waits.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waits
            self.assertEqual((barrier.n_waiting, barrier.broken), (0, False))
            for late in aio.wait(barrier, 0), aio.wait(barrier, 0.01), aio.wait(chappe.Barrier(2, timeout=0.01)):
                with self.assertRaises(chappe.BrokenBarrierError):
                    await late
                barrier.reset()
            # Others are told by one that breaks.
            waits = asyncio.create_task(aio.wait(barrier))
            await asyncio.sleep(0)
            barrier.abort()
            with self.assertRaises(chappe.BrokenBarrierError):
                await waits

        self.run_(main())

    def test_the_action_of_a_barrier_of_tasks_may_fail_or_die(self):
        async def main():
            barrier = chappe.Barrier(2, lambda: 1 // 0)
            over = await asyncio.gather(aio.wait(barrier), aio.wait(barrier), return_exceptions=True)
            self.assertEqual([type(e) for e in over], [chappe.BrokenBarrierError, ZeroDivisionError])
            # Another process dies in the action: its round breaks.
            barrier = chappe.Barrier(2, lambda: os._exit(0))
            waits = asyncio.create_task(aio.wait(barrier))
            await asyncio.sleep(0)
            self.assertEqual(self.ended(self.forked(lambda: barrier.wait(60))), 0)
            with self.assertRaises(chappe.BrokenBarrierError):
                await waits
            # One that waits at the gate while the action runs leaves the round alone.
            begun, done = threading.Event(), threading.Event()
            barrier = chappe.Barrier(1, lambda: (begun.set(), done.wait(60)))
            thread = asyncio.get_running_loop().run_in_executor(None, barrier.wait)
            self.assertTrue(begun.wait(60))
            with self.assertRaises(chappe.BrokenBarrierError):
                await aio.wait(barrier, 0.01)
            waits = asyncio.create_task(aio.wait(barrier))
            await asyncio.sleep(0)
            waits.cancel()
            await asyncio.gather(waits, return_exceptions=True)
            self.assertFalse(barrier.broken)
            done.set()
            self.assertEqual(await thread, 0)

        self.run_(main())

    def test_a_choice_that_is_cancelled_twice_loses_no_record(self):
        async def main(count=300):
            tube, got = chappe.Tube(slots=4), []

            async def take():
                got.append((await aio.select(tube.get)).value)

            for n in range(count):
                wait = asyncio.create_task(take())
                for _ in range(n % 4):
                    await asyncio.sleep(0)
                await aio.put(tube, n)
                for _ in range(2):
                    wait.cancel()
                    await asyncio.sleep(0)
                await asyncio.gather(wait, return_exceptions=True)
                while (left := tube.try_recv()) is not None:
                    got.append(n)
                    self.assertTrue(left)
            return got

        self.assertEqual(self.run_(main()), list(range(300)))

    def test_nothing_is_lost_by_many_cancels(self):
        cancels = int(os.environ.get("CHAPPE_PY_CANCELS", "100000"))

        async def main():
            pool, lock, semaphore = chappe.Pool(None, 2), chappe.Lock(), chappe.Semaphore(value=1)
            event, rounds, took = chappe.Event(), cancels // 1000, 0

            async def section(made):
                nonlocal took
                async with made:
                    took += 1
                    await asyncio.sleep(0)

            async def down():
                await aio.down(semaphore)
                semaphore.up()

            kinds = (
                lambda: section(aio.acquire(pool)),
                lambda: section(aio.acquire(lock)),
                lambda: aio.wait(event),
                down,
            )
            for n in range(rounds):
                # What is held when the cancels come differs from round to round.
                held = pool.acquire(0) if n % 3 else None
                if n % 2:
                    semaphore.down()
                waits = [asyncio.create_task(kinds[k % 4]()) for k in range(1000)]
                for _ in range(n % 5):
                    await asyncio.sleep(0)
                for wait in waits:
                    wait.cancel()
                    if wait is waits[500]:
                        semaphore.up() if n % 2 else None
                        held.release() if held else None
                await asyncio.gather(*waits, return_exceptions=True)
                self.assertEqual((pool.available, semaphore.value, lock.locked()), (2, 1, False), n)
            return took

        # Not as under `-X dev`, where each task notes where it was made.
        self.assertGreater(asyncio.run(main(), debug=False), 0)

    def test_subscriptions_are_awaited(self):
        def record(n):
            return n.to_bytes(4, "little")

        async def main():
            tube = chappe.Broadcast(schema="n: i32")
            tube.attach()
            wanted, everything = tube.subscribe("n > $least", least=1), tube.subscribe()
            first = asyncio.create_task(aio.recv(wanted))
            either = asyncio.create_task(aio.select(everything.recv))
            await asyncio.sleep(0)
            for n in range(4):
                tube.send(record(n))
            got = [await first, await aio.recv(wanted), (await either).value]
            # A wait that was cancelled has taken nothing: what comes later is there.
            cut = asyncio.create_task(aio.recv(wanted))
            await asyncio.sleep(0)
            cut.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await cut
            tube.send(record(5))
            got.append(await aio.recv(wanted))
            with self.assertRaises(TimeoutError):
                await aio.recv(wanted, timeout=0)
            with self.assertRaisesRegex(TypeError, "subscribe"):
                await aio.recv(wanted, where="n > 1")
            tube.close()
            got += [data async for data in aio.records(everything)]
            return [int.from_bytes(data, "little") for data in got]

        self.assertEqual(self.run_(main()), [2, 3, 0, 5, 1, 2, 3, 5])

    def test_subscriptions_are_awaited_without_a_thread(self):
        async def main():
            tube = chappe.Broadcast(schema="n: i32")
            tube.attach()
            all_of_them = [tube.subscribe("n % 8 == $which", which=which) for which in range(8)]
            loop = asyncio.get_running_loop()

            def refuse(*_):
                raise AssertionError("a worker thread was asked for")

            loop.run_in_executor = refuse
            waits = [asyncio.create_task(aio.recv(one)) for one in all_of_them]
            await asyncio.sleep(0.01)
            for n in range(16, 24):
                tube.send(n.to_bytes(4, "little"))
            got = [int.from_bytes(await wait, "little") for wait in waits]
            with self.assertRaises(TimeoutError):
                await aio.recv(all_of_them[0], timeout=0.01)
            # A task whose subscription is closed meanwhile is told.
            cut = asyncio.create_task(aio.recv(all_of_them[0]))
            await asyncio.sleep(0.01)
            all_of_them[0].close()
            with self.assertRaisesRegex(ValueError, "closed"):
                await asyncio.wait_for(cut, 60)
            # A task that waits is told when all publishers have gone.
            last = asyncio.create_task(aio.recv(all_of_them[2]))
            await asyncio.sleep(0.01)
            tube.close()
            with self.assertRaises(chappe.Disconnected):
                await asyncio.wait_for(last, 60)
            return got

        self.assertEqual(self.run_(main()), list(range(16, 24)))

    def test_a_task_is_told_that_another_thread_closes_its_subscription(self):
        class Ear:
            """The subscription's inner object, with something that happens around one of its methods."""

            def __init__(self, inner, **around):
                self.inner, self.around = inner, around

            def __getattr__(self, name):
                method = getattr(self.inner, name)
                around = self.around.get(name)
                return method if around is None else lambda *args: around(method, *args)

        def elsewhere(act):
            thread = threading.Thread(target=act)
            thread.start()
            thread.join()

        async def told(subscription):
            with self.assertRaisesRegex(ValueError, "closed"):
                await asyncio.wait_for(aio.recv(subscription), 60)

        async def main():
            tube = chappe.Broadcast(schema="n: i32")
            tube.attach()
            loop = asyncio.get_running_loop()
            # The loop's thread does nothing until it is closed.
            first = tube.subscribe()
            waits = asyncio.create_task(told(first))
            await asyncio.sleep(0.01)
            elsewhere(first.close)
            await waits
            # The loop goes round several times after the closing has begun, and does not poll while the subscription goes.
            second, turned, closed = tube.subscribe(), threading.Event(), threading.Event()

            async def turn():
                for _ in range(10):
                    await asyncio.sleep(0)
                turned.set()
                closed.wait(60)

            def slowly(close):
                asyncio.run_coroutine_threadsafe(turn(), loop)
                self.assertTrue(turned.wait(60))
                close()
                closed.set()

            second._ear = Ear(second._ear, close=slowly)
            waits = asyncio.create_task(told(second))
            await asyncio.sleep(0.01)
            closes = loop.run_in_executor(None, second.close)
            await waits
            await closes
            # It is closed after the task's last look, and before the task sleeps: before and after the descriptor is armed.
            for when in ("_descriptor", "_rearm"):
                third = tube.subscribe()
                inner = third._ear

                def then_closed(method, close=inner.close):
                    answer = method()
                    elsewhere(close)
                    return answer

                third._ear = Ear(inner, **{when: then_closed})
                await told(third)
            # Several tasks wait for one subscription: each is told.
            last = tube.subscribe()
            waits = [asyncio.create_task(told(last)) for _ in range(3)]
            await asyncio.sleep(0.01)
            elsewhere(last.close)
            await asyncio.gather(*waits)

        self.run_(main())
        # No copy of a descriptor is left: there were seven.
        before = len(os.listdir("/proc/self/fd"))
        self.run_(main())
        self.assertLess(len(os.listdir("/proc/self/fd")), before + 4)

    def test_a_receiver_awaits_what_passes_its_filter(self):
        async def main():
            tube = chappe.Tube(slots=4, schema="n: i32")
            tube.attach(send=True)
            got = asyncio.create_task(aio.recv(tube, where="n > $least", least=5))
            await asyncio.sleep(0)
            for n in range(8):
                await aio.send(tube, n.to_bytes(4, "little"))
            return int.from_bytes(await got, "little"), int.from_bytes(await aio.recv(tube), "little")

        self.assertEqual(self.run_(main()), (6, 7))

    def test_time_runs_out(self):
        async def main():
            with self.assertRaises((TimeoutError, asyncio.TimeoutError)):
                await aio.recv(chappe.Tube(), 0.01)
            with self.assertRaises(TimeoutError):
                await aio.down(chappe.Semaphore(value=0), 0.01)
            self.assertFalse(await aio.wait(chappe.Event(), 0.01))
            lock = chappe.Lock()
            async with aio.acquire(lock):
                self.assertTrue(lock.locked())
            self.assertFalse(lock.locked())
            with self.assertRaises(TypeError):
                async with aio.acquire(chappe.RLock()):
                    pass

        self.run_(main())


if __name__ == "__main__":
    unittest.main()
