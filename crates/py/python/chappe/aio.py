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

A task waits in the same line as the threads of all processes, and no thread waits for it: what it waits for wakes the loop by one descriptor, whatever the number of
its tasks. A task that is cancelled, or collected, or whose loop was closed, leaves the line: what it was granted in that moment goes to the next waiter. What a task was
granted is kept for it until its loop runs it. Subscriptions wake the loop by descriptors of their own.

A task that is cancelled while it waits at a `Barrier` breaks it, unless all have come. The action of one runs in the loop.

With trio each call is a checkpoint. A forked child has no tasks of its parent.
"""

import asyncio
import contextlib
import os
import sys
import time
import weakref

from ._chappe import Barrier, Condition, Event, RLock, Semaphore, _select_task
from ._chappe import Task as _Task
from ._chappe import Woken as _Woken
from .broadcasts import Subscription
from .choice import _given, _made
from .errors import Disconnected, SenderDied

__all__ = ["acquire", "down", "get", "put", "read", "records", "recv", "select", "send", "wait", "wait_changed", "write"]


def _here():
    """The running loop of asyncio and `None`, or `None` and the module trio, if the caller runs under that."""
    try:
        return asyncio.get_running_loop(), None
    except RuntimeError:
        # No loop of asyncio runs in this thread: it is trio's, or nobody's.
        if "trio" in sys.modules:
            return None, sys.modules["trio"]
        raise


def _trio():
    return _here()[1]


def _left(end):
    return None if end is None else max(0.0, end - time.monotonic())


def _end(timeout):
    return None if timeout is None else time.monotonic() + timeout


class _Desk:
    """Where the tasks of a loop wait: the descriptor that wakes it, and what is to be called for each that was woken."""

    def __init__(self):
        self.woken, self.calls, self._last = _Woken(), {}, 0
        # Under trio: whether one of the tasks waits for the descriptor.
        self.is_led = False

    def number(self):
        self._last += 1
        return self._last

    def call(self):
        """In the loop, once the descriptor is readable."""
        for number in self.woken.take():
            call = self.calls.pop(number, None)
            if call is not None:
                call()


# That of each loop of asyncio. The loop has it while it is open: a loop that was closed, and its tasks, can be collected.
_desks = weakref.WeakKeyDictionary()
# That of each run of trio.
_desk_of_run = None


def _desk(loop):
    """That of a loop of asyncio."""
    desk = _desks.get(loop, lambda: None)()
    if desk is None or not desk.woken.is_here():
        desk = _Desk()
        _desks[loop] = weakref.ref(desk)
        loop.add_reader(desk.woken.fileno(), desk.call)
    return desk


def _trio_desk(trio):
    """That of the present run of trio."""
    global _desk_of_run
    if _desk_of_run is None:
        _desk_of_run = trio.lowlevel.RunVar("chappe.aio", default=None)
    desk = _desk_of_run.get()
    if desk is None or not desk.woken.is_here():
        desk = _Desk()
        _desk_of_run.set(desk)
    return desk


async def _sleep(here, desk, number, left):
    """Until the task was woken, or the time is up."""
    loop, trio = here
    if trio is not None:
        await _sleep_trio(trio, desk, number, left)
        return
    woken = loop.create_future()
    desk.calls[number] = lambda: _done(woken)
    try:
        await _within(loop, woken, left)
    finally:
        desk.calls.pop(number, None)


async def _sleep_trio(trio, desk, number, left):
    """The same. One of the tasks that sleep waits for the descriptor, for all of them, and calls the next one to it when it leaves. So a task that may sleep
    (shielded, or of trio's own at the end of its run) is woken: no other task must be there for it.
    """

    def call_to_lead():
        nonlocal called
        desk.calls[number] = (called := trio.Event()).set

    called = None
    call_to_lead()
    try:
        with trio.move_on_after(float("inf") if left is None else left):
            # Who was woken has no call any more.
            while number in desk.calls:
                if desk.is_led:
                    await called.wait()
                    if number in desk.calls:
                        call_to_lead()
                    continue
                desk.is_led = True
                try:
                    await trio.lowlevel.wait_readable(desk.woken.fileno())
                finally:
                    desk.is_led = False
                desk.call()
    finally:
        desk.calls.pop(number, None)
        if not desk.is_led:
            for call in desk.calls.values():
                call()
                break


async def _begun(task):
    """Where a wait goes on: its loop, desk, and number there; and what it answers if it need not wait."""
    # Asked once: the answer costs a system call.
    loop, trio = here = _here()
    if trio is None:
        desk = _desk(loop)
    else:
        await trio.lowlevel.checkpoint_if_cancelled()
        desk = _trio_desk(trio)
    number = desk.number()
    got = task.poll(desk.woken, number)
    if got is not None and trio is not None:
        await trio.lowlevel.cancel_shielded_checkpoint()
    return here, desk, number, got


async def _over(task, timeout):
    """What a wait answers. TimeoutError if the time was up."""
    here, desk, number, got = await _begun(task)
    end = _end(timeout)
    try:
        while got is None:
            left = _left(end)
            if left == 0.0:
                task.expire()
            else:
                await _sleep(here, desk, number, left)
            got = task.poll(desk.woken, number)
        return got
    finally:
        task.end()


async def _now_or_over(begin, arguments, timeout):
    """What was done at once, or what the wait answers."""
    trio = _trio()
    if trio is not None:
        await trio.lowlevel.checkpoint_if_cancelled()
    done = begin(*arguments)
    if isinstance(done, _Task):
        return await _over(done, timeout)
    if trio is not None:
        await trio.lowlevel.cancel_shielded_checkpoint()
    return done


async def _notified(task, timeout):
    """The same of a wait for a notification, which has the lock again before it ends: however often it is cancelled meanwhile."""
    here, desk, number, got = await _begun(task)
    trio = here[1]
    end, is_ending, cancelled = _end(timeout), False, None
    try:
        while got is None:
            left = None if is_ending else _left(end)
            try:
                if is_ending and trio is not None:
                    with trio.CancelScope(shield=True):
                        await _sleep(here, desk, number, None)
                elif left != 0.0:
                    await _sleep(here, desk, number, left)
                else:
                    is_ending = True
            except asyncio.CancelledError if trio is None else trio.Cancelled as error:
                is_ending, cancelled = True, error
            if is_ending:
                task.stop()
            got = task.poll(desk.woken, number)
    finally:
        task.end()
    if cancelled is not None:
        # A notification that was heard is answered: nobody else would hear it.
        if not got:
            raise cancelled
        if trio is None:
            _cancel_later()
    return got


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


def _taken(of):
    """The wait for what can be taken, and how that is given back: a pool's permit, a lock, or a semaphore's wake-up."""
    if isinstance(of, RLock) or (isinstance(of, Condition) and isinstance(of._lock, RLock)):
        raise TypeError("an RLock belongs to a thread, and tasks share theirs: take a Lock, or Condition(Lock())")
    if isinstance(of, Condition):
        of = of._lock
    return of._task, (lambda permit: permit.release()) if hasattr(of, "values") else (lambda _: of.release())


@contextlib.asynccontextmanager
async def _section(task, undo, timeout):
    got = await _over(task(), timeout)
    try:
        yield got.value if hasattr(got, "value") else got
    finally:
        undo(got)


def acquire(of, timeout=None):
    """`async with acquire(pool) as value:`, or of a `Lock`, a `Condition` of a `Lock`, or a `Semaphore`. TimeoutError if the time was up."""
    return _section(*_taken(of), timeout)


def read(lock, timeout=None):
    """`async with read(rwlock):`. TimeoutError if the time was up."""
    return _section(lambda: lock._task(False), lambda section: section.release(), timeout)


def write(lock, timeout=None):
    """`async with write(rwlock):`. TimeoutError if the time was up."""
    return _section(lambda: lock._task(True), lambda section: section.release(), timeout)


async def down(semaphore, timeout=None):
    """Consumes a wake-up. TimeoutError if none came in time."""
    if not isinstance(semaphore, Semaphore):
        raise TypeError(f"not a semaphore: {semaphore!r}")
    await _over(semaphore._task(), timeout)


async def wait(of, timeout=None):
    """Waits for an `Event`, answers whether it is set; for a notification of a `Condition` whose `Lock` is held, answers whether it came;
    or at a `Barrier`, answers the number there. A task that is cancelled while it waits for a notification has the lock again.
    """
    if isinstance(of, Barrier):
        task, usual = of._task()
        return await _over(task, usual if timeout is None else timeout)
    if isinstance(of, Condition):
        _taken(of)
        return await _notified(of._task(), timeout)
    if not isinstance(of, Event):
        raise TypeError(f"not an event, a condition or a barrier: {of!r}")
    try:
        return await _over(of._task(), timeout)
    except TimeoutError:
        return False


async def wait_changed(map_, key=None, timeout=None):
    """As `map.wait_changed`: waits until the map, or one key, is changed after this call began; answers whether it was."""
    try:
        return await _over(map_._task(None if key is None else map_._key(key)), timeout)
    except TimeoutError:
        return False


async def select(*arms, timeout=None):
    """As `chappe.select`. A task that is cancelled has done nothing of it. Not with `arrival.wait`: an arrival is a thread's; `wait(barrier)` in a task
    of its own.
    """
    return _made(arms, await _now_or_over(_select_task, (_given(arms),), timeout))


async def _heard(subscription, timeout):
    """The next message. Tries until there is one, and sleeps on a copy of the subscription's descriptor in between.

    A copy, since another thread may close the original at any time: a poller of that would sleep for good. A closing makes the copy
    readable.
    """
    end, trio = _end(timeout), _trio()
    while (message := subscription.try_recv()) is None:
        copy = subscription._descriptor()
        try:
            if subscription._rearm():
                left = _left(end)
                if left == 0.0:
                    raise TimeoutError(f"no message for this subscription of `{subscription.name}` in time")
                await (_readable(copy, left) if trio is None else _readable_trio(trio, copy, left))
        finally:
            os.close(copy)
    return message


async def _readable_trio(trio, descriptor, left):
    with trio.move_on_after(float("inf") if left is None else left):
        await trio.lowlevel.wait_readable(descriptor)


async def _readable(descriptor, left):
    loop = asyncio.get_running_loop()
    woken = loop.create_future()
    loop.add_reader(descriptor, _done, woken)
    try:
        await _within(loop, woken, left)
    finally:
        loop.remove_reader(descriptor)


async def _within(loop, woken, left):
    """Until it is done, or the time is up."""
    timer = None if left is None else loop.call_later(left, _done, woken)
    try:
        await woken
    finally:
        if timer is not None:
            timer.cancel()


def _done(woken):
    if not woken.done():
        woken.set_result(None)


async def recv(tube, timeout=None, *, where=None, **params):
    """As `tube.recv`; or as that of a `Subscription` (which has its filter already)."""
    if isinstance(tube, Subscription):
        if where is not None or params:
            raise TypeError("a subscription has its filter from `subscribe`, and parameters by `set`")
        return await _heard(tube, timeout)
    return tube._decode("recv", await _now_or_over(tube._receives, (where, params), timeout))


async def send(tube, data, timeout=None):
    """As `tube.send`."""
    await _now_or_over(tube._sends, (tube._encode("send", data),), timeout)


async def get(tube, timeout=None):
    """As `tube.get`."""
    return tube._decode("get", await _now_or_over(tube._receives, (), timeout))


async def put(tube, obj, timeout=None):
    """As `tube.put`."""
    await _now_or_over(tube._sends, (tube._encode("put", obj),), timeout)


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
