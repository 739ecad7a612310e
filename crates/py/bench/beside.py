"""The package beside `multiprocessing`, in one run: `cargo xtask bench python [--quick] [ROW...]`; of the rows, those that have one of the words.

Each figure is the median of several rounds, of which the rivals take turns. faster-fifo and iceoryx2 have theirs if they are installed.
"""

import asyncio
import importlib.util
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["CHAPPE_DIR"] = tempfile.mkdtemp(prefix="chappe-bench-", dir="/dev/shm")

import chappe
from chappe import aio, mp

ROUNDS = 3 if "--quick" in sys.argv else 7
ROWS = [word for word in sys.argv[1:] if not word.startswith("--")]
SIZE = 1 << 20


def each(act, n):
    """Nanoseconds for one of `n`. What is between processes begins to count when the other one is there: it says then since when."""
    begun = time.perf_counter_ns()
    since = act(n)
    return (time.perf_counter_ns() - (since or begun)) / n


def pairs(lock):
    """Takes a lock and gives it back."""

    def act(n):
        acquire, release = lock.acquire, lock.release
        for _ in range(n):
            acquire()
            release()

    return act


def carried(queue, start):
    """Small objects from a process to this one."""

    def act(n):
        process, get = start(_putter, queue, n), queue.get
        get()
        since = time.perf_counter_ns()
        for _ in range(n):
            get()
        return joined(process, since)

    return act


def joined(process, since):
    """The end of a rival's process counts as little as its beginning."""
    took = time.perf_counter_ns() - since
    process.join()
    return time.perf_counter_ns() - took


def _putter(queue, n):
    put = queue.put
    for i in range(n + 1):
        put(i)


def _start(function, *arguments):
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    return process


def arrays_queue(n):
    """Arrays by multiprocessing.Queue."""
    queue = multiprocessing.Queue(4)
    process = _start(_arrays_put, queue, n)
    total = -int(queue.get()[0])
    since = time.perf_counter_ns()
    for _ in range(n):
        total += int(queue.get()[0])
    since = joined(process, since)
    assert total == n - 1, total
    return since


def _arrays_put(queue, n):
    import numpy as np

    made = np.zeros(SIZE, np.uint8)
    for _ in range(n + 1):
        made[0] = 1
        queue.put(made)


def arrays_tube(n):
    """Arrays where they lie."""
    import numpy as np

    tube = chappe.Tube(slots=4, dtype=np.uint8, shape=(SIZE,))
    tube.attach(recv=True)
    process = _start(_arrays_written, tube, n)
    with tube.borrow() as a:
        total = -int(a[0])
    since = time.perf_counter_ns()
    for _ in range(n):
        with tube.borrow() as a:
            total += int(a[0])
    since = joined(process, since)
    assert total == n - 1, total
    return since


def _arrays_written(tube, n):
    for _ in range(n + 1):
        with tube.reserve() as a:
            a[0] = 1


def iceoryx2_service():
    """A service of iceoryx2 that drops nothing: four arrays on their way, as in the tube. Who keeps the node keeps the service."""
    import ctypes

    import iceoryx2

    iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
    node = iceoryx2.NodeBuilder.new().signal_handling_mode(iceoryx2.SignalHandlingMode.Disabled).create(iceoryx2.ServiceType.Ipc)
    made = node.service_builder(iceoryx2.ServiceName.new(f"chappe bench {os.environ['CHAPPE_DIR']}"))
    made = made.publish_subscribe(iceoryx2.Slice[ctypes.c_uint8]).enable_safe_overflow(False).history_size(0)
    return node, made.subscriber_max_buffer_size(4).max_publishers(1).max_subscribers(1).open_or_create()


def arrays_iceoryx2(n):
    """Arrays by iceoryx2, whose receivers look again and again: it has no wait for a sample alone."""
    import numpy as np

    node, service = iceoryx2_service()
    subscriber = service.subscriber_builder().create()
    process = _start(_arrays_published, n)

    def received():
        while (sample := subscriber.receive()) is None:
            pass
        first = int(np.frombuffer(sample.payload().as_memory_view(), np.uint8)[0])
        sample.delete()
        return first

    total, since = -received(), time.perf_counter_ns()
    for _ in range(n):
        total += received()
    took = time.perf_counter_ns() - since
    subscriber.delete()
    process.join()
    assert total == n - 1, total
    del service, node
    return time.perf_counter_ns() - took


def _arrays_published(n):
    import iceoryx2
    import numpy as np

    node, service = iceoryx2_service()
    made = service.publisher_builder().initial_max_slice_len(SIZE).max_loaned_samples(1)
    publisher = made.backpressure_strategy(iceoryx2.BackpressureStrategy.RetryUntilDelivered).create()

    def sent():
        sample = publisher.loan_slice_uninit(SIZE)
        np.frombuffer(sample.payload().as_memory_view(), np.uint8)[0] = 1
        return sample.assume_init().send()

    for _ in range(n + 1):
        # To how many it went: where there was no room (0), the strategy notwithstanding, it is made anew.
        while not sent():
            pass
    # What it has sent goes with it: it stays until all of it was received.
    parent = os.getppid()
    while service.dynamic_config.number_of_subscribers and os.getppid() == parent:
        time.sleep(0.0002)
    publisher.delete()
    del service, node


def round_pipe(n):
    """There and back by a pipe."""
    ours, theirs = multiprocessing.Pipe()
    process = _start(_echo_pipe, theirs, n)
    ours.send_bytes(b"x")
    ours.recv_bytes()
    since = time.perf_counter_ns()
    for _ in range(n):
        ours.send_bytes(b"x")
        ours.recv_bytes()
    return joined(process, since)


def _echo_pipe(pipe, n):
    for _ in range(n + 1):
        pipe.send_bytes(pipe.recv_bytes())


def round_tube(n):
    """There and back by two tubes."""
    there, back = chappe.Tube(size=16), chappe.Tube(size=16)
    process = _start(_echo_tube, there, back, n)
    there.send(b"x")
    back.recv()
    since = time.perf_counter_ns()
    for _ in range(n):
        there.send(b"x")
        back.recv()
    return joined(process, since)


def _echo_tube(there, back, n):
    for _ in range(n + 1):
        back.send(there.recv())


def round_asyncio(n):
    """There and back between two tasks, by asyncio.Queue."""

    async def run():
        there, back = asyncio.Queue(), asyncio.Queue()

        async def echo():
            for _ in range(n):
                await back.put(await there.get())

        task = asyncio.create_task(echo())
        for _ in range(n):
            await there.put(1)
            await back.get()
        await task

    asyncio.run(run())


def sections(make, enter, tasks):
    """Sections of so many tasks, one after the other or, of a semaphore of 8, some at once; each lets the others run."""

    def act(n):
        async def run():
            of = make()

            async def work():
                for _ in range(n // tasks):
                    async with enter(of):
                        await asyncio.sleep(0)

            await asyncio.gather(*(work() for _ in range(tasks)))

        asyncio.run(run())

    return act


def round_aio(n):
    """The same by tubes."""

    async def run():
        there, back = chappe.Tube(size=16), chappe.Tube(size=16)

        async def echo():
            for _ in range(n):
                await aio.send(back, await aio.recv(there))

        task = asyncio.create_task(echo())
        for _ in range(n):
            await aio.send(there, b"x")
            await aio.recv(back)
        await task

    asyncio.run(run())


def carried_by_tasks(make, put, get, tasks=8):
    """From so many tasks to as many."""

    def act(n):
        async def run():
            queue = make()

            async def puts():
                for i in range(n // tasks):
                    await put(queue, i)

            async def gets():
                for _ in range(n // tasks):
                    await get(queue)

            await asyncio.gather(*(side() for _ in range(tasks) for side in (gets, puts)))

        asyncio.run(run())

    return act


def chosen_by_task(make, give, choose):
    """A choice of two that a task waits for, and another gives one of."""

    def act(n):
        async def run():
            both = make(), make()

            async def gives():
                for i in range(n):
                    give(both[i % 2])
                    await asyncio.sleep(0)

            giver = asyncio.create_task(gives())
            for _ in range(n):
                await choose(*both)
            await giver

        asyncio.run(run())

    return act


async def choice_of_two(one, other):
    """The same of ours."""
    await aio.select(one.down, other.down)


async def first_of(one, other):
    """One of two semaphores of asyncio's, as its documentation has it; the other's task is cancelled."""
    waits = {asyncio.create_task(one.acquire()), asyncio.create_task(other.acquire())}
    done, left = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in left:
        wait.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    # Both may have been taken: one goes back.
    if len(done) == 2:
        other.release()


def turned(make, wait, tasks=8):
    """Rounds of a barrier."""

    def act(n):
        async def run():
            barrier = make(tasks)

            async def passes():
                for _ in range(n // tasks):
                    await wait(barrier)

            await asyncio.gather(*(passes() for _ in range(tasks)))

        asyncio.run(run())

    return act


def imported(module):
    """Milliseconds that an import takes, more than an interpreter does."""

    def once(what):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", what], check=True)
        return time.perf_counter() - begun

    return statistics.median(once(f"import {module}") for _ in range(9)) - statistics.median(
        once("pass") for _ in range(9)
    )


def beside(what, wanted, n, *rivals):
    """One row: the medians of all, and ours in terms of the first rival's."""
    if ROWS and not any(word in what for word in ROWS):
        return
    times = {name: [] for name, _ in rivals}
    for _ in range(ROUNDS):
        for name, act in rivals:
            times[name].append(each(act, n))
    medians = {name: statistics.median(t) for name, t in times.items()}
    ours, first = medians["chappe"], medians[rivals[1][0]]
    text = ", ".join(f"{name} {m:,.0f} ns" for name, m in medians.items())
    print(f"{what:34} {text}; time {ours / first:.2f} x, speed {first / ours:.1f} x (wanted: {wanted})", flush=True)


def main():
    """All rows."""
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors; medians of {ROUNDS}")
    lock = chappe.Lock()
    beside(
        "lock and release",
        "time <= 0.8 x",
        100_000,
        ("chappe", pairs(lock)),
        ("multiprocessing", pairs(multiprocessing.Lock())),
    )
    rivals = [("chappe", carried(mp.Queue(), _start)), ("multiprocessing", carried(multiprocessing.Queue(), _start))]
    try:
        import faster_fifo

        rivals.append(("faster-fifo", carried(faster_fifo.Queue(), _start)))
    except ImportError:
        print("not measured: faster-fifo: it is not installed")
    beside("queue of small objects", "speed >= 3 x", 20_000, *rivals)
    try:
        import numpy  # noqa: F401

        rivals = [("chappe", arrays_tube), ("multiprocessing", arrays_queue)]
        if importlib.util.find_spec("iceoryx2"):
            rivals.append(("iceoryx2", arrays_iceoryx2))
        else:
            print("not measured: iceoryx2: it is not installed")
        beside("array of 1 MiB", "speed >= 10 x, and iceoryx2's", 500, *rivals)
    except ImportError:
        print("not measured: arrays: numpy is not installed")
    beside("round trip", "time <= 1.2 x", 5_000, ("chappe", round_tube), ("multiprocessing", round_pipe))
    beside("round trip of tasks", "beside", 2_000, ("chappe", round_aio), ("asyncio", round_asyncio))
    for what, tasks, own, theirs in (
        ("lock of one task", 1, chappe.Lock, asyncio.Lock),
        ("lock of 64 tasks", 64, chappe.Lock, asyncio.Lock),
        ("semaphore of 64 tasks", 64, lambda: chappe.Semaphore(value=8), lambda: asyncio.Semaphore(8)),
    ):
        rivals = ("chappe", sections(own, aio.acquire, tasks)), ("asyncio", sections(theirs, lambda of: of, tasks))
        beside(what, "beside", 6_400, *rivals)
    beside(
        "records of 8 tasks to 8",
        "beside",
        6_400,
        ("chappe", carried_by_tasks(lambda: chappe.Tube(slots=64), aio.put, aio.get)),
        ("asyncio", carried_by_tasks(lambda: asyncio.Queue(64), asyncio.Queue.put, asyncio.Queue.get)),
    )
    beside(
        "choice of 2 of a task",
        "beside",
        2_000,
        ("chappe", chosen_by_task(lambda: chappe.Semaphore(value=0), chappe.Semaphore.up, choice_of_two)),
        ("asyncio", chosen_by_task(lambda: asyncio.Semaphore(0), asyncio.Semaphore.release, first_of)),
    )
    if hasattr(asyncio, "Barrier"):
        rivals = ("chappe", turned(chappe.Barrier, aio.wait)), ("asyncio", turned(asyncio.Barrier, asyncio.Barrier.wait))
        beside("barrier of 8 tasks", "beside", 6_400, *rivals)
    if not ROWS or "import" in ROWS:
        print(f"import: {imported('chappe') * 1e3:.1f} ms (wanted: <= 30)")


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(os.environ["CHAPPE_DIR"], True)
