"""Stands in for `multiprocessing`, for programs whose workers may be killed.

>>> from chappe import mp
>>> with mp.Pool(2) as pool:
...     pool.map(abs, [-1, -2, -3])
[1, 2, 3]

`Lock`, `RLock`, `Condition` come back from a killed process, with an `OwnerDiedWarning` (or `OwnerDied`: `Lock(on_death="raise")`);
`Event`, `Semaphore`, `BoundedSemaphore`, `Barrier`; `Queue`, `JoinableQueue` go on when a process is killed while it puts or gets;
`Pool` and `ProcessPoolExecutor` run a killed worker's task again, or fail it with `WorkerDied`; `Manager().dict()` has no server
process to lose. All else is that of `multiprocessing`: `Process`, `Pipe`, `Value`...

`get_context("spawn")` (or "fork", "forkserver") has the same names; the standard `ProcessPoolExecutor` takes it as its `mp_context`.
What differs: `Queue.put` pickles at once, and so tells at once what does not pickle.
"""

import importlib as _importlib
import multiprocessing as _standard
import sys as _sys
from multiprocessing import context as _context

from . import _mp_pools as pool
from ._mp_containers import Manager
from ._mp_objects import (
    Barrier,
    BoundedSemaphore,
    Condition,
    Event,
    Lock,
    RLock,
    Semaphore,
)
from ._mp_pools import Pool, ProcessPoolExecutor
from ._mp_queues import JoinableQueue, Queue
from ._mp_workers import WorkerDied

__all__ = sorted({*_standard.__all__, "ProcessPoolExecutor", "WorkerDied"})

# For `import chappe.mp.pool`, too.
_sys.modules[f"{__name__}.pool"] = pool


class _Objects:
    """What a context makes here instead of what the standard one makes."""

    def get_context(self, method=None):
        """The context of a start method, of those here; this one of none."""
        return self if method is None else get_context(method)

    def Lock(self, *, on_death="warn"):
        """As `multiprocessing.Lock`; it comes back from a killed process."""
        return Lock(on_death=on_death)

    def RLock(self, *, on_death="warn"):
        """As `multiprocessing.RLock`; it comes back from a killed process."""
        return RLock(on_death=on_death)

    def Condition(self, lock=None):
        """As `multiprocessing.Condition`."""
        return Condition(lock)

    def Semaphore(self, value=1):
        """As `multiprocessing.Semaphore`. What a killed process had taken stays taken: for that, `chappe.Pool`."""
        return Semaphore(value=value)

    def BoundedSemaphore(self, value=1):
        """As `multiprocessing.BoundedSemaphore`."""
        return BoundedSemaphore(value=value)

    def Event(self):
        """As `multiprocessing.Event`."""
        return Event()

    def Barrier(self, parties, action=None, timeout=None):
        """As `multiprocessing.Barrier`; a waiter that dies breaks it."""
        return Barrier(parties, action, timeout)

    def Queue(self, maxsize=0):
        """As `multiprocessing.Queue`; it goes on when a process is killed while it puts or gets."""
        return Queue(maxsize)

    def JoinableQueue(self, maxsize=0):
        """As `multiprocessing.JoinableQueue`."""
        return JoinableQueue(maxsize)

    def SimpleQueue(self):
        """The standard one, with locks that come back."""
        from multiprocessing.queues import SimpleQueue

        return SimpleQueue(ctx=self)

    def Pool(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, *, on_death="again"):
        """As `multiprocessing.Pool`; the task of a killed worker is run again (`on_death="again"`), or fails (`"fail"`)."""
        return Pool(processes, initializer, initargs, maxtasksperchild, context=self, on_death=on_death)

    def Manager(self, **room):
        """As `multiprocessing.Manager`: its `dict` needs no server, and begins with the room given (entries, key, value)."""
        return Manager(**room, ctx=self)


class _ForkContext(_Objects, _context.ForkContext):
    pass


class _SpawnContext(_Objects, _context.SpawnContext):
    pass


class _ForkServerContext(_Objects, _context.ForkServerContext):
    pass


_CONTEXTS = {"fork": _ForkContext(), "spawn": _SpawnContext(), "forkserver": _ForkServerContext()}


def get_context(method=None):
    """The context of a start method; of none, that of the standard module's."""
    method = method or _standard.get_start_method()
    if method not in _CONTEXTS:
        # Another library's own (loky's), or the standard error.
        return _standard.get_context(method)
    return _CONTEXTS[method]


def SimpleQueue():
    """The standard one, with locks that come back."""
    return get_context().SimpleQueue()


def __getattr__(name):
    # What is not here is the standard module's: also its modules that nobody has imported yet.
    try:
        return getattr(_standard, name)
    except AttributeError:
        if name.startswith("_"):
            raise
    try:
        return _importlib.import_module(f"multiprocessing.{name}")
    except ModuleNotFoundError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
