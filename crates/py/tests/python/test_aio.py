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
            # The threads that still wait give back what they get.
            for _ in range(1000):
                if pool.available and semaphore.value:
                    break
                await asyncio.sleep(0.01)
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

    def test_one_of_the_two_gives_back_what_a_cancelled_task_had_taken(self):
        from chappe.aio import _Turn

        for first in ("answer", "leave"):
            taken, undone, may_answer = threading.Event(), [], threading.Event()

            def act(taken=taken, may_answer=may_answer):
                taken.set()
                may_answer.wait()
                return 7

            turn = _Turn(act, undone.append)
            thread = threading.Thread(target=turn.run)
            thread.start()
            taken.wait()
            if first == "answer":
                may_answer.set()
                thread.join()
                turn.leave()
            else:
                turn.leave()
                may_answer.set()
                thread.join()
            self.assertEqual(undone, [7], first)
        # A turn whose task has gone before it begins does nothing.
        turn = _Turn(self.fail, undone.append)
        turn.leave()
        turn.run()

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

    def test_a_cancellation_that_comes_with_an_answer_loses_neither(self):
        async def main(goes_on):
            tube, got = chappe.Tube(slots=4), []
            before, inside = threading.Event(), threading.Event()

            def slowly(seconds):
                inside.set()
                before.wait()
                return tube.try_recv()

            async def take():
                got.append(await aio._in_thread(lambda: slowly(1), None))
                if goes_on:
                    await asyncio.Event().wait()
                return got[0]

            wait = asyncio.create_task(take())
            await asyncio.get_running_loop().run_in_executor(None, inside.wait)
            tube.send(b"x")
            wait.cancel()
            asyncio.get_running_loop().call_soon(before.set)
            (ended,) = await asyncio.gather(wait, return_exceptions=True)
            self.assertEqual(got, [b"x"])
            if goes_on and hasattr(wait, "cancelling"):
                self.assertEqual(wait.cancelling(), 1)
            return type(ended)

        self.assertEqual(self.run_(main(False)), bytes)
        self.assertEqual(self.run_(main(True)), asyncio.CancelledError)

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
