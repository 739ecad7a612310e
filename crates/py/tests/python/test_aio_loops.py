"""The loops that are woken for all that their tasks wait for: asyncio's, uvloop's and trio's. What is not installed is not tested, and says so."""

import asyncio
import gc
import importlib.util
import os
import random
import threading
import unittest

import chappe
from chappe import aio
from house import PATIENCE, Case


def needs(*modules):
    """Skips a test, and says why, where a module is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"not tested: not installed: {', '.join(missing)}")


def threads():
    """The names of this process's threads."""
    names = []
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm") as file:
                names.append(file.read().strip())
        except OSError:
            pass
    return names


async def turns(count=3):
    """Lets the other tasks go on, and those that were woken."""
    for _ in range(count):
        await asyncio.sleep(0)


async def holds(of, go):
    async with aio.acquire(of):
        await go.wait()


class Loops(Case):
    new_loop = staticmethod(asyncio.new_event_loop)

    def run_(self, made):
        loop = self.new_loop()
        try:
            return loop.run_until_complete(asyncio.wait_for(made, PATIENCE))
        finally:
            loop.close()

    def test_a_loop_awaits_all_without_a_thread_of_its_own(self):
        async def main():
            def refuse(*_):
                raise AssertionError("a worker thread was asked for")

            asyncio.get_running_loop().run_in_executor = refuse
            pool, lock, both = chappe.Pool("all/pool"), chappe.Lock("all/lock"), chappe.RwLock("all/both")
            units, event, changes = chappe.Semaphore("all/units", value=0), chappe.Event("all/event"), chappe.Map("all/map")
            condition = chappe.Condition(chappe.Lock("all/its"), "all/condition")
            full, empty = chappe.Tube("all/full", slots=2), chappe.Tube("all/empty", kind="spsc")
            barrier, stop = chappe.Barrier(2, name="all/barrier"), chappe.Semaphore("all/stop", value=0)
            while full.try_send(b"first"):
                pass
            go, seen = asyncio.Event(), []

            async def section(made):
                async with made:
                    seen.append("section")

            async def notified():
                async with aio.acquire(condition):
                    seen.append(await aio.wait(condition))

            async def told(made):
                seen.append(await made)

            with pool.acquire(), lock, both.write(0):
                waits = [section(aio.acquire(pool)), section(aio.acquire(lock)), section(aio.read(both)), section(aio.write(both))]
                waits += [told(aio.down(units)), told(aio.wait(event)), told(aio.wait_changed(changes)), notified()]
                waits += [told(aio.send(full, b"last")), told(aio.get(empty))]
                waits += [told(aio.wait(barrier)), told(aio.select(stop.down, pool.acquire, timeout=60))]
                waits = [asyncio.create_task(wait) for wait in waits]
                await turns()
                self.assertEqual((seen, units.waiting, stop.waiting), ([], 1, 1))
            stop.up()
            barrier.wait()
            units.up()
            event.set()
            changes["a"] = 1
            full.recv()
            empty.put("got")
            async with aio.acquire(condition):
                condition.notify()
            await asyncio.gather(*waits)
            go.set()
            self.assertEqual((pool.available, units.value, lock.locked(), event.is_set()), (1, 0, False, True))
            self.assertEqual([full.try_recv() for _ in range(len(full))][-1], b"last")
            return sorted(map(str, seen))

        before = threads().count("chappe-tasks")
        seen = self.run_(main())
        self.assertEqual(seen, ["1", "Choice(index=0, value=None)", "None", "None", "True", "True", "True", "got", "section", "section", "section", "section"])
        # One for the arena, which calls no Python.
        self.assertLessEqual(threads().count("chappe-tasks"), before + 1)

    def test_another_process_hands_over_to_a_task(self):
        pool, back = chappe.Pool(), chappe.Semaphore(value=0)
        ready, go = os.pipe(), os.pipe()

        def holder():
            with pool.acquire():
                os.write(ready[1], b"x")
                os.read(go[0], 1)
            back.up(3)

        child = self.forked(holder)
        os.read(ready[0], 1)

        async def main():
            async def take():
                async with aio.acquire(pool):
                    return "had"

            waits = [asyncio.create_task(made) for made in (take(), take(), *(aio.down(back) for _ in range(3)))]
            await turns()
            self.assertFalse(any(wait.done() for wait in waits))
            os.write(go[1], b"x")
            return await asyncio.gather(*waits)

        self.assertEqual(self.run_(main())[:2], ["had", "had"])
        self.assertEqual(self.ended(child), 0)
        self.assertEqual((pool.available, back.value), (1, 0))
        for end in (*ready, *go):
            os.close(end)

    def test_the_death_of_a_holder_wakes_a_task(self):
        pool, (ready, tells) = chappe.Pool(), os.pipe()

        def holder():
            _kept = pool.acquire()
            os.write(tells, b"x")
            while True:
                os.read(os.pipe()[0], 1)

        child = self.forked(holder)
        os.read(ready, 1)

        async def main():
            async with aio.acquire(pool):
                return pool.holders()[0][1]

        async def killed():
            wait = asyncio.create_task(main())
            await turns()
            os.kill(child, 9)
            return await wait

        self.assertEqual(self.run_(killed()), os.getpid())
        os.waitpid(child, 0)
        os.close(ready), os.close(tells)

    def test_a_wait_granted_and_cancelled_at_once_gives_the_grant_on(self):
        async def main():
            pool, units, lock = chappe.Pool(), chappe.Semaphore(value=0), chappe.Lock()
            took = []

            async def take(of, waiter):
                async with aio.acquire(of):
                    took.append(waiter)

            async def down(waiter):
                await aio.down(units)
                took.append(waiter)

            held = pool.acquire()
            lock.acquire()
            first = [asyncio.create_task(made) for made in (take(pool, "first"), take(lock, "first"), down("first"))]
            await turns()
            second = [asyncio.create_task(made) for made in (take(pool, "second"), take(lock, "second"), down("second"))]
            await turns()
            held.release()
            lock.release()
            units.up()
            # Granted, and not polled since.
            for wait in first:
                wait.cancel()
            ended = await asyncio.gather(*first, return_exceptions=True)
            self.assertTrue(all(isinstance(end, asyncio.CancelledError) for end in ended), ended)
            await asyncio.gather(*second)
            return took, pool.available, units.value, lock.locked()

        self.assertEqual(self.run_(main()), (["second"] * 3, 1, 0, False))

    def test_a_cancelled_wait_for_a_notification_has_the_lock_and_passes_it_on(self):
        async def main():
            lock = chappe.Lock()
            condition, seen = chappe.Condition(lock), []

            async def waits(waiter):
                async with aio.acquire(condition):
                    try:
                        seen.append((waiter, await aio.wait(condition)))
                    except asyncio.CancelledError:
                        seen.append((waiter, "cancelled", lock.locked()))
                        raise

            first, second = (asyncio.create_task(waits(waiter)) for waiter in "ab")
            await turns()
            async with aio.acquire(lock):
                condition.notify()
                # Notified, and cancelled before it runs: the other one is notified.
                first.cancel()
                await turns()
                first.cancel()
                await turns()
                self.assertEqual(seen, [])
            await asyncio.gather(first, second, return_exceptions=True)
            self.assertFalse(lock.locked())
            self.assertFalse(await asyncio.create_task(timed(condition)))
            return sorted(seen)

        async def timed(condition):
            async with aio.acquire(condition):
                return await aio.wait(condition, 0.01)

        self.assertEqual(self.run_(main()), [("a", "cancelled", True), ("b", True)])

    def test_a_loop_that_was_closed_and_dropped_leaves_no_wait(self):
        pool, units = chappe.Pool(), chappe.Semaphore(value=0)
        held, loop = pool.acquire(), self.new_loop()
        loop.set_exception_handler(lambda *_: None)
        loop.create_task(holds(pool, asyncio.Event()))
        waits = aio.down(units)
        loop.create_task(waits)
        loop.run_until_complete(turns())
        self.assertEqual(units.waiting, 1)
        loop.close()
        del loop, waits
        gc.collect()
        self.assertEqual(units.waiting, 0)
        held.release()
        units.up()
        self.assertEqual((pool.available, units.value), (1, 1))

    def test_two_loops_in_two_threads_share_a_pool(self, rounds=200):
        pool, had = chappe.Pool(None, 2), []

        async def main():
            async def take():
                async with aio.acquire(pool) as value:
                    had.append(value)
                    await asyncio.sleep(0)

            await asyncio.gather(*(take() for _ in range(rounds)))

        runs = [threading.Thread(target=self.run_, args=(main(),)) for _ in range(2)]
        for thread in runs:
            thread.start()
        for thread in runs:
            thread.join(PATIENCE)
        self.assertEqual((len(had), pool.available), (2 * rounds, 2))

    def test_a_forked_child_has_no_tasks_of_its_parent(self):
        units, pool = chappe.Semaphore(value=0), chappe.Pool()

        def of_child():
            async def main():
                await aio.down(units, PATIENCE)
                async with aio.acquire(pool):
                    pass

            self.run_(main())

        async def main():
            wait = asyncio.create_task(aio.down(units))
            await turns()
            self.assertEqual(units.waiting, 1)
            child = self.forked(of_child)
            units.up()
            await wait
            # The next is the child's, which came later.
            units.up()
            self.assertEqual(await asyncio.get_running_loop().run_in_executor(None, self.ended, child), 0)
            return units.value, pool.available

        self.assertEqual(self.run_(main()), (0, 1))

    def test_tasks_are_served_in_the_order_in_which_they_came(self):
        async def main(count=300):
            units, order = chappe.Semaphore(value=0), []

            async def down(n):
                await aio.down(units)
                order.append(n)

            waits = [asyncio.create_task(down(n)) for n in range(count)]
            await turns()
            for had in range(count):
                units.up()
                while len(order) == had:
                    await asyncio.sleep(0)
            await asyncio.gather(*waits)
            return order == list(range(count)) and units.value == 0

        self.assertTrue(self.run_(main()))

    def test_time_runs_out_and_says_for_what(self):
        async def main():
            units, changes = chappe.Semaphore("times/units", value=0), chappe.Map()
            with self.assertRaisesRegex(TimeoutError, "times/units"):
                await aio.down(units, 0.01)
            self.assertFalse(await aio.wait_changed(changes, "a", 0.01))
            with self.assertRaisesRegex(TypeError, "not an event"):
                await aio.wait(units)
            return units.waiting

        self.assertEqual(self.run_(main()), 0)

    def test_the_interpreter_ends_while_tasks_wait(self):
        text = (
            "import asyncio, chappe\nfrom chappe import aio\n"
            "async def main():\n"
            "    global kept\n"
            "    pool, units = chappe.Pool('ends/pool'), chappe.Semaphore('ends/units', value=0)\n"
            "    held = pool.acquire()\n"
            "    kept = [asyncio.ensure_future(made) for made in (aio.down(units), aio.acquire(pool).__aenter__())]\n"
            "    await asyncio.sleep(0)\n"
            "    print(units.waiting)\n"
            "loop = asyncio.new_event_loop()\n"
            "loop.run_until_complete(main())\n"
        )
        done = self.script(text)
        self.assertEqual((done.returncode, done.stdout), (0, "1\n"), done.stderr)
        pool, units = chappe.Pool("ends/pool"), chappe.Semaphore("ends/units")
        with pool.acquire(PATIENCE):
            units.up()
        units.down(PATIENCE)

    def test_nothing_is_lost_by_random_cancels(self):
        cancels = int(os.environ.get("CHAPPE_PY_CANCELS", "2000"))
        dice = random.Random(46)

        async def main():
            pool, units, lock, both = chappe.Pool(None, 3), chappe.Semaphore(value=2), chappe.Lock(), chappe.RwLock(readers=4)
            condition, tube = chappe.Condition(lock), chappe.Tube(slots=2)
            done = cut = sent = had = 0

            async def section(made):
                async with made:
                    await turns(dice.randrange(3))

            async def down():
                await aio.down(units)
                units.up()

            async def notified():
                async with aio.acquire(condition):
                    await aio.wait(condition, 0.001)
                    condition.notify()

            async def send():
                nonlocal sent
                await aio.put(tube, sent)
                sent += 1

            async def receive():
                nonlocal had
                await aio.get(tube)
                had += 1

            kinds = (
                lambda: section(aio.acquire(pool)), lambda: section(aio.acquire(lock)), lambda: section(aio.read(both)),
                lambda: section(aio.write(both)), down, notified, send, receive,
            )  # fmt: skip
            while cut < cancels:
                chosen = [dice.choice(kinds) for _ in range(50)]
                waits = [asyncio.create_task(kind()) for kind in chosen]
                for wait in waits:
                    if dice.random() < 0.7:
                        await turns(dice.randrange(3))
                        wait.cancel()
                while left := [kind for kind, wait in zip(chosen, waits) if not wait.done()]:
                    # Those that were not cut may have no partner among them.
                    if receive in left and len(tube) == 0 and tube.try_put(None):
                        sent += 1
                    elif send in left and len(tube) == tube.slots and tube.try_recv():
                        had += 1
                    await asyncio.sleep(0)
                ends = await asyncio.gather(*waits, return_exceptions=True)
                self.assertEqual(len(tube), sent - had)
                self.assertTrue(all(end is None or isinstance(end, asyncio.CancelledError) for end in ends), ends)
                done += sum(end is None for end in ends)
                cut += sum(end is not None for end in ends)
                self.assertEqual((pool.available, units.value, lock.locked(), units.waiting), (3, 2, False, 0))
                both.write(0).release()
            return done

        self.assertGreater(self.run_(main()), 0)

    def test_nothing_is_lost_when_a_process_whose_tasks_wait_is_killed(self):
        kills, dice = int(os.environ.get("CHAPPE_PY_KILLS", "5")), random.Random(46)
        pool = chappe.Pool(None, 2)

        def child():
            async def take():
                while True:
                    async with aio.acquire(pool):
                        await asyncio.sleep(0)

            async def all_of_them():
                await asyncio.gather(*(take() for _ in range(20)))

            self.run_(all_of_them())

        for _ in range(kills):
            children = [self.forked(child) for _ in range(2)]
            self.until(lambda: pool.holders())
            for _ in range(dice.randrange(200)):
                pool.acquire(PATIENCE).release()
            for pid in children:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
            both = [pool.acquire(PATIENCE) for _ in range(2)]
            self.assertEqual((sorted(permit.index for permit in both), pool.available), ([0, 1], 0))
            for permit in both:
                permit.release()


@needs("uvloop")
class Uvloop(Loops):
    @staticmethod
    def new_loop():
        import uvloop

        return uvloop.new_event_loop()


@needs("trio")
class Trio(Case):
    def run_(self, main):
        import trio

        async def in_time():
            with trio.fail_after(PATIENCE):
                return await main(trio)

        return trio.run(in_time)

    def test_a_cancel_scope_that_closes_gives_the_grant_on(self):
        async def main(trio):
            pool, units, took = chappe.Pool(), chappe.Semaphore(value=0), []
            held, first, second = pool.acquire(), [], []

            async def take(scopes, waiter):
                with trio.CancelScope() as scope:
                    scopes.append(scope)
                    async with aio.acquire(pool):
                        took.append(waiter)

            async def down(scopes, waiter):
                with trio.CancelScope() as scope:
                    scopes.append(scope)
                    await aio.down(units)
                    took.append(waiter)

            async with trio.open_nursery() as nursery:
                for scopes, waiter in ((first, "first"), (second, "second")):
                    nursery.start_soon(take, scopes, waiter)
                    nursery.start_soon(down, scopes, waiter)
                    await trio.testing.wait_all_tasks_blocked()
                held.release()
                units.up()
                for scope in first:
                    scope.cancel()
            self.assertEqual([scope.cancelled_caught for scope in first + second], [True, True, False, False])
            return took, pool.available, units.value

        import trio.testing  # noqa: F401

        self.assertEqual(self.run_(main), (["second"] * 2, 1, 0))

    def test_a_call_under_a_cancelled_scope_takes_nothing(self):
        async def main(trio):
            pool, units = chappe.Pool(), chappe.Semaphore(value=1)
            with trio.CancelScope() as scope:
                scope.cancel()
                await aio.down(units)
            with trio.CancelScope() as other:
                other.cancel()
                async with aio.acquire(pool):
                    pass
            return scope.cancelled_caught, other.cancelled_caught, units.value, pool.available

        self.assertEqual(self.run_(main), (True, True, 1, 1))

    def test_a_cancelled_wait_for_a_notification_has_the_lock_again(self):
        async def main(trio):
            lock = chappe.Lock()
            condition, seen = chappe.Condition(lock), []

            async def waits(scope):
                with scope:
                    async with aio.acquire(condition):
                        try:
                            await aio.wait(condition)
                        finally:
                            seen.append(lock.locked())

            async with trio.open_nursery() as nursery:
                scope = trio.CancelScope()
                nursery.start_soon(waits, scope)
                await trio.testing.wait_all_tasks_blocked()
                async with aio.acquire(lock):
                    scope.cancel()
                    await trio.testing.wait_all_tasks_blocked()
                    self.assertEqual(seen, [])
            return seen, scope.cancelled_caught, lock.locked()

        import trio.testing  # noqa: F401

        self.assertEqual(self.run_(main), ([True], True, False))

    def test_a_system_task_that_waits_at_the_end_of_the_run_has_its_lock_again(self):
        seen = []

        async def main(trio):
            lock = chappe.Lock()
            condition = chappe.Condition(lock)

            async def waits():
                async with aio.acquire(condition):
                    try:
                        await aio.wait(condition)
                    finally:
                        seen.append(lock.locked())

            async def holds_on():
                async with aio.acquire(lock):
                    try:
                        await trio.sleep_forever()
                    finally:
                        with trio.CancelScope(shield=True):
                            # The other one was cancelled, too, and wants the lock by now.
                            await trio.testing.wait_all_tasks_blocked()
                            seen.append("released")

            for made in (waits, holds_on):
                trio.lowlevel.spawn_system_task(made)
                await trio.testing.wait_all_tasks_blocked()

        import trio.testing  # noqa: F401

        self.run_(main)
        self.assertEqual(seen, ["released", True])

    def test_a_generator_that_is_left_at_the_end_of_the_run_awaits_all_the_same(self):
        had = []

        async def main(trio):
            global left
            units = chappe.Semaphore(value=0)

            async def numbers():
                try:
                    yield 1
                finally:
                    with trio.CancelScope(shield=True):
                        thread = threading.Timer(0, units.up)
                        thread.start()
                        await aio.down(units)
                        thread.join()
                        had.append(units.value)

            left = numbers()
            await left.__anext__()

        self.run_(main)
        self.assertEqual(had, [0])

    def test_one_of_those_that_sleep_calls_another_to_the_descriptor(self):
        async def main(trio):
            units, order = chappe.Semaphore(value=0), []

            async def down(waiter, scope):
                with scope:
                    await aio.down(units)
                    order.append(waiter)

            async with trio.open_nursery() as nursery:
                scopes = [trio.CancelScope() for _ in range(5)]
                for waiter, scope in enumerate(scopes):
                    nursery.start_soon(down, waiter, scope)
                    await trio.testing.wait_all_tasks_blocked()
                # The first waits for the descriptor; the next is called, and cancelled before it goes there.
                scopes[0].cancel()
                scopes[1].cancel()
                await trio.testing.wait_all_tasks_blocked()
                for had in range(3):
                    units.up()
                    while len(order) == had:
                        await trio.sleep(0)
            return order

        import trio.testing  # noqa: F401

        self.assertEqual(self.run_(main), [2, 3, 4])

    def test_nothing_is_lost_by_random_cancels(self):
        cancels, dice = int(os.environ.get("CHAPPE_PY_CANCELS", "1000")), random.Random(46)

        async def main(trio):
            pool, units, lock = chappe.Pool(None, 2), chappe.Semaphore(value=1), chappe.Lock()
            came = cut = 0

            async def section(of, scope):
                with scope:
                    async with aio.acquire(of):
                        await trio.sleep(0)

            while came < cancels:
                scopes = [trio.CancelScope() for _ in range(50)]
                async with trio.open_nursery() as nursery:
                    for scope in scopes:
                        nursery.start_soon(section, dice.choice((pool, units, lock)), scope)
                    for scope in dice.sample(scopes, 35):
                        for _ in range(dice.randrange(3)):
                            await trio.sleep(0)
                        scope.cancel()
                came += 35
                cut += sum(scope.cancelled_caught for scope in scopes)
                self.assertEqual((pool.available, units.value, lock.locked(), units.waiting), (2, 1, False, 0))
            return cut

        self.assertGreater(self.run_(main), 0)


if __name__ == "__main__":
    unittest.main()
