"""The same for asyncio: each wait is awaited, and a task that is cancelled has taken nothing.

>>> import asyncio, chappe
>>> from chappe import aio
>>> async def main():
...     tube, pool = chappe.Tube(), chappe.Pool(None, ["cuda:0"])
...     await aio.put(tube, "job")
...     async with aio.acquire(pool) as gpu:
...         return await aio.get(tube), gpu
>>> asyncio.run(main())
('job', 'cuda:0')

Tubes are waited for by their descriptors, without a thread of Python's. All else is waited for by a thread of the loop's executor,
in turns of a quarter of a second, so that a cancelled wait ends.
"""

import asyncio
import contextlib

from ._chappe import Semaphore

__all__ = ["acquire", "down", "get", "put", "recv", "send", "wait"]

_TURN = 0.25


async def _in_turns(act, undo, timeout):
    """What `act(seconds)` answers, which is None if the time was up."""
    loop = asyncio.get_running_loop()
    end = None if timeout is None else loop.time() + timeout
    while True:
        left = _TURN if end is None else max(0.0, min(_TURN, end - loop.time()))
        turn = loop.run_in_executor(None, act, left)
        try:
            got = await asyncio.shield(turn)
        except asyncio.CancelledError:
            # What the thread still takes goes back.
            turn.add_done_callback(lambda t: t.exception() is None and t.result() is not None and undo(t.result()))
            raise
        if got is not None:
            return got
        if end is not None and loop.time() >= end:
            raise TimeoutError("the time was up")


def _taken(of):
    """How something is taken for at most so long, and given back: a pool's permit, a lock, or a semaphore's wake-up."""
    if hasattr(of, "values"):

        def permit(seconds):
            try:
                return of.acquire(seconds)
            except TimeoutError:
                return None

        return permit, lambda permit: permit.release()
    return lambda seconds: of.acquire(timeout=seconds) or None, lambda _: of.release()


@contextlib.asynccontextmanager
async def acquire(of, timeout=None):
    """`async with acquire(pool) as value:`, or of a `Lock` or a `Semaphore`. TimeoutError if the time was up."""
    if type(of).__name__ == "RLock":
        raise TypeError("an RLock belongs to a thread, and tasks share theirs: take a Lock")
    take, undo = _taken(of)
    got = await _in_turns(take, undo, timeout)
    try:
        yield got.value if hasattr(got, "value") else got
    finally:
        undo(got)


async def down(semaphore, timeout=None):
    """Consumes a wake-up. TimeoutError if none came in time."""
    if not isinstance(semaphore, Semaphore):
        raise TypeError(f"not a semaphore: {semaphore!r}")
    await _in_turns(*_taken(semaphore), timeout)


async def wait(event, timeout=None):
    """Waits for an `Event`; answers whether it is set."""
    try:
        return await _in_turns(lambda seconds: event.wait(seconds) or None, lambda _: None, timeout)
    except TimeoutError:
        return False


async def _ready(tube, sends, attempt):
    """Tries until it is done, and sleeps on the tube's descriptor in between."""
    while True:
        done = attempt()
        if done is not None:
            return done
        descriptor = tube._descriptor(sends)
        if not tube._rearm(sends):
            continue
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        # Tasks that wait for the same end share its descriptor: each is woken, and tries.
        waiting = _WAITING.setdefault((loop, descriptor), set())
        if not waiting:
            loop.add_reader(descriptor, _wake, loop, descriptor)
        waiting.add(woken)
        try:
            await woken.wait()
        finally:
            waiting.discard(woken)
            if not waiting and _WAITING.get((loop, descriptor)) is waiting:
                del _WAITING[loop, descriptor]
                loop.remove_reader(descriptor)


_WAITING = {}


def _wake(loop, descriptor):
    loop.remove_reader(descriptor)
    for woken in _WAITING.pop((loop, descriptor), ()):
        woken.set()


async def recv(tube, timeout=None):
    """As `tube.recv`."""
    return await asyncio.wait_for(_ready(tube, False, tube.try_recv), timeout)


async def send(tube, data, timeout=None):
    """As `tube.send`."""
    await asyncio.wait_for(_ready(tube, True, lambda: tube.try_send(data) or None), timeout)


async def get(tube, timeout=None):
    """As `tube.get`."""

    def attempt():
        record = tube._try_record()
        # In a tuple: None may be what was put.
        return None if record is None else (tube._decode("get", record),)

    return (await asyncio.wait_for(_ready(tube, False, attempt), timeout))[0]


async def put(tube, obj, timeout=None):
    """As `tube.put`."""
    data = tube._encode("put", obj)
    await asyncio.wait_for(_ready(tube, True, lambda: tube._try_send_record(data) or None), timeout)
