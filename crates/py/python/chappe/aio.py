"""The same for asyncio and trio (so for anyio on either): each wait is awaited, and a task that is cancelled has taken nothing.

>>> import asyncio, chappe
>>> from chappe import aio
>>> async def main():
...     tube, pool = chappe.Tube(), chappe.Pool(None, ["cuda:0"])
...     await aio.put(tube, "job")
...     async with aio.acquire(pool) as gpu:
...         return await aio.get(tube), gpu
>>> asyncio.run(main())
('job', 'cuda:0')

Tubes and subscriptions are waited for by their descriptors, without a thread of Python's. What else is not to be had at once is waited for by a worker thread of the
loop, in turns of a quarter of a second, so that a few threads serve many tasks. Under asyncio a cancelled wait leaves the line at once, and one at a `Barrier` breaks it;
trio waits for the end of the turn.
"""

import asyncio
import contextlib
import os
import sys
import threading
import time

from ._chappe import Arrival, Barrier, Condition, RLock, Semaphore
from ._chappe import Ender as _Ender
from .broadcasts import Subscription
from .choice import select as _select
from .errors import Disconnected, SenderDied

__all__ = ["acquire", "down", "get", "put", "read", "records", "recv", "select", "send", "wait", "write"]

_TURN = 0.25


def _trio():
    """The module trio, if the caller runs under it; `None` under asyncio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # No loop of asyncio runs in this thread: it is trio's, or nobody's.
        if "trio" in sys.modules:
            return sys.modules["trio"]
        raise
    return None


def _left(end):
    return None if end is None else max(0.0, end - time.monotonic())


def _end(timeout):
    return None if timeout is None else time.monotonic() + timeout


class _Turn:
    """One wait in a worker thread, and the task that it is made for. One lock decides which of the two gives back what was taken:

        thread: waits ... under the lock: the task has gone? give it back : keep it as the answer
        task:   is cancelled ... under the lock: there is an answer? give it back : it has gone; end the wait

    So nothing that is taken depends on what the loop hears of it: the loop may be closed before it hears, and its callbacks with it.
    """

    def __init__(self, act, undo):
        self._act, self._undo = act, undo or (lambda _: None)
        self._lock, self._ender = threading.Lock(), _Ender()
        self._has_gone, self._answer, self._error = False, None, None

    def run(self):
        """In the worker thread. Answers nothing, and raises nothing: a task that has gone asks for neither."""
        with self._lock:
            if self._has_gone:
                return
        answer = error = None
        try:
            answer = self._ender.run(self._act)
        except BaseException as raised:
            error = raised
        with self._lock:
            if not self._has_gone:
                self._answer, self._error = answer, error
                return
        if answer is not None:
            self._undo(answer)

    def leave(self):
        """The task has gone: what was taken, or still is, goes back."""
        with self._lock:
            self._has_gone = True
        if self._answer is not None:
            self._undo(self._answer)
        self.end()

    def end(self):
        """Ends the wait, if it has begun; a condition's, which takes its lock again, goes on to its time."""
        self._ender.end()

    def result(self):
        """What it answered, once it has run: the task's from now on."""
        if self._error is not None:
            raise self._error
        return self._answer


async def _in_thread(act, undo):
    """What `act()` answers in a worker thread.

    If the task is cancelled meanwhile, its wait ends, and what it has taken is undone, unless it is None. What cannot be undone is waited
    for, and answered.
    """
    trio = _trio()
    if trio is not None:
        # It waits for the thread in any case; the next checkpoint is where a cancelled task ends.
        return await trio.to_thread.run_sync(act)
    turn = _Turn(act, undo)
    thread = asyncio.get_running_loop().run_in_executor(None, turn.run)
    try:
        await asyncio.shield(thread)
    except BaseException as cancelled:
        if undo is not None or not isinstance(cancelled, asyncio.CancelledError):
            turn.leave()
            raise
        turn.end()
        # However often it is cancelled meanwhile: nobody else would get the answer.
        while not thread.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([thread])
        answer = turn.result()
        if answer is None:
            raise
        _cancel_later()
        return answer
    return turn.result()


def _cancel_later():
    """The running task goes on with its answer, and is cancelled where it awaits next: not at once, as a task that ends first would lose what it
    answers. One request stays one; one that was taken back meanwhile (an `asyncio.timeout` whose block has ended) is none.
    """
    task = asyncio.current_task()

    def deliver():
        if hasattr(task, "uncancel"):
            if not task.cancelling():
                return
            task.uncancel()
        task.cancel()

    asyncio.get_running_loop().call_soon(deliver)


async def _in_turns(act, undo, timeout, at_once=True):
    """What `act(seconds)` answers, at once or in a worker thread, which is None if the time was up."""
    end = _end(timeout)
    got = act(0) if at_once else None
    while got is None:
        left = _left(end)
        if left == 0.0:
            raise TimeoutError("the time was up")
        seconds = _TURN if left is None else min(_TURN, left)
        got = await _in_thread(lambda seconds=seconds: act(seconds), undo)
    return got


def _or_none(act):
    """The same, with `None` where the time was up."""

    def tried(seconds):
        try:
            return act(seconds)
        except TimeoutError:
            return None

    return tried


def _taken(of):
    """How something is taken for at most so long, and given back: a pool's permit, a lock, or a semaphore's wake-up."""
    if isinstance(of, RLock) or (isinstance(of, Condition) and isinstance(of._lock, RLock)):
        raise TypeError("an RLock belongs to a thread, and tasks share theirs: take a Lock, or Condition(Lock())")
    if hasattr(of, "values"):
        return _or_none(of.acquire), lambda permit: permit.release()
    return lambda seconds: of.acquire(timeout=seconds) or None, lambda _: of.release()


@contextlib.asynccontextmanager
async def _section(take, undo, timeout):
    got = await _in_turns(take, undo, timeout)
    try:
        yield got.value if hasattr(got, "value") else got
    finally:
        undo(got)


def acquire(of, timeout=None):
    """`async with acquire(pool) as value:`, or of a `Lock`, a `Condition` of a `Lock`, or a `Semaphore`. TimeoutError if the time was up."""
    return _section(*_taken(of), timeout)


def read(lock, timeout=None):
    """`async with read(rwlock):`. TimeoutError if the time was up."""
    return _section(_or_none(lock.read), lambda section: section.release(), timeout)


def write(lock, timeout=None):
    """`async with write(rwlock):`. TimeoutError if the time was up."""
    return _section(_or_none(lock.write), lambda section: section.release(), timeout)


async def down(semaphore, timeout=None):
    """Consumes a wake-up. TimeoutError if none came in time."""
    if not isinstance(semaphore, Semaphore):
        raise TypeError(f"not a semaphore: {semaphore!r}")
    await _in_turns(*_taken(semaphore), timeout)


async def wait(of, timeout=None):
    """Waits for an `Event`, answers whether it is set; for a notification of a `Condition` whose `Lock` is held, answers whether it came;
    or at a `Barrier`, answers the number there.
    """
    if isinstance(of, Barrier):
        return await _at_barrier(of, timeout)
    # A condition's lock is held between two turns, so no notification comes there; and a cancelled task has it again.
    is_condition = isinstance(of, Condition) and _taken(of)
    undo = None if is_condition else lambda _: None
    try:
        return await _in_turns(lambda seconds: of.wait(seconds) or None, undo, timeout, not is_condition)
    except TimeoutError:
        return False


async def _at_barrier(of, timeout):
    has_come = False

    def come():
        nonlocal has_come
        has_come = True
        return of.wait(timeout)

    try:
        return await _in_thread(come, lambda _: None)
    except asyncio.CancelledError:
        # The end of a wait breaks the barrier, unless all have come before: then it is the next ones'.
        if not has_come:
            of.abort()
        raise


async def select(*arms, timeout=None):
    """As `chappe.select`. A record that comes in the moment in which the task is cancelled is answered, and the task is cancelled where
    it awaits next. Not with `arrival.wait`: an arrival is a thread's; `wait(barrier)` in a task of its own.
    """
    if any(isinstance(getattr(arm, "__self__", None), Arrival) for arm in arms):
        raise TypeError("an arrival is a thread's, and tasks share theirs: wait(barrier) in a task of its own")
    tried = _or_none(lambda seconds: _select(*arms, timeout=seconds))
    return await _in_turns(tried, None, timeout)


async def _ready(tube, sends, attempt, timeout):
    """Tries until it is done, and sleeps on a copy of the tube's descriptor in between.

    A copy, since another thread may close the original at any time: a poller of that would sleep for good. A closing makes the copy
    readable.
    """
    done = attempt()
    if done is not None:
        return done
    end, trio = _end(timeout), _trio()
    while True:
        copy = tube._descriptor(sends)
        try:
            if tube._rearm(sends):
                left = _left(end)
                if left == 0.0:
                    what = "room" if sends else "record"
                    raise TimeoutError(f"no {what} in tube `{tube.name}` in time")
                await (_readable(copy, left) if trio is None else _readable_trio(trio, copy, left))
        finally:
            os.close(copy)
        done = attempt()
        if done is not None:
            return done


async def _readable_trio(trio, descriptor, left):
    with trio.move_on_after(float("inf") if left is None else left):
        await trio.lowlevel.wait_readable(descriptor)


async def _readable(descriptor, left):
    loop = asyncio.get_running_loop()
    woken = loop.create_future()
    loop.add_reader(descriptor, _done, woken)
    timer = None if left is None else loop.call_later(left, _done, woken)
    try:
        await woken
    finally:
        if timer is not None:
            timer.cancel()
        loop.remove_reader(descriptor)


def _done(woken):
    if not woken.done():
        woken.set_result(None)


async def recv(tube, timeout=None, *, where=None, **params):
    """As `tube.recv`; or as that of a `Subscription` (which has its filter already)."""
    if isinstance(tube, Subscription):
        if where is not None or params:
            raise TypeError("a subscription has its filter from `subscribe`, and parameters by `set`")
        return await _ready(tube, False, tube.try_recv, timeout)
    return await _ready(tube, False, lambda: tube.try_recv(where=where, **params), timeout)


async def send(tube, data, timeout=None):
    """As `tube.send`."""
    await _ready(tube, True, lambda: tube.try_send(data) or None, timeout)


async def get(tube, timeout=None):
    """As `tube.get`."""

    def attempt():
        record = tube._try_record()
        # In a tuple: None may be what was put.
        return None if record is None else (tube._decode("get", record),)

    return (await _ready(tube, False, attempt, timeout))[0]


async def put(tube, obj, timeout=None):
    """As `tube.put`."""
    data = tube._encode("put", obj)
    await _ready(tube, True, lambda: tube._try_send_record(data) or None, timeout)


async def records(tube):
    """`async for record in records(tube):`, or of a `Subscription`, until all senders have gone; SenderDied if one of them has not ended well."""
    while True:
        try:
            record = await recv(tube)
        except SenderDied:
            raise
        except Disconnected:
            return
        yield record
