"""`Pool` and `ProcessPoolExecutor`: the standard ones' interfaces to workers whose deaths cost nothing but the time (`_mp_workers.py`)."""

import concurrent.futures
import itertools
import multiprocessing
import os
import queue
import threading
import warnings
import weakref
from concurrent.futures.process import _RemoteTraceback
from functools import partial
from multiprocessing.pool import RemoteTraceback

from ._mp_workers import NotRunning, WorkerDied, Workers

__all__ = ["Pool", "ProcessPoolExecutor"]


def _star(function, arguments):
    return function(*arguments)


def _chunk(function, items):
    return [function(item) for item in items]


def _from_chunks(chunks):
    """Their items, of which no reference is kept."""
    for chunk in chunks:
        chunk.reverse()
        while chunk:
            yield chunk.pop()


class _Result:
    """As `multiprocessing.pool.AsyncResult`, of futures."""

    def __init__(self, futures, made, callback=None, error_callback=None):
        self._futures, self._made = futures, made
        self._callbacks = (callback, error_callback)
        self._left, self._lock, self._ready = len(futures), threading.Lock(), threading.Event()
        self._value, self._error = None, None
        for future in futures:
            future.add_done_callback(self._one)
        if not futures:
            self._end()

    def _one(self, future):
        with self._lock:
            self._left -= 1
            error = None if future.cancelled() else future.exception()
            if future.cancelled():
                error = WorkerDied("the pool was terminated")
            if error is not None and self._error is None:
                self._error = error
            if self._left:
                return
        self._end()

    def _end(self):
        if self._error is None:
            self._value = self._made([future.result() for future in self._futures])
        callback, error_callback = self._callbacks
        try:
            if self._error is None and callback is not None:
                callback(self._value)
            elif self._error is not None and error_callback is not None:
                error_callback(self._error)
        finally:
            self._ready.set()

    def ready(self):
        """Whether it is there."""
        return self._ready.is_set()

    def successful(self):
        """Whether it is there and no exception."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return self._error is None

    def wait(self, timeout=None):
        """Waits for it."""
        self._ready.wait(timeout)

    def get(self, timeout=None):
        """The value; multiprocessing.TimeoutError if it was not there in time."""
        if not self._ready.wait(timeout):
            raise multiprocessing.TimeoutError
        if self._error is not None:
            raise self._error
        return self._value



class _Items:
    """The results of `imap`, one after the other."""

    def __init__(self, futures):
        self._futures = iter(futures)

    def __iter__(self):
        return self

    def next(self, timeout=None):
        """The next one; multiprocessing.TimeoutError if it was not there in time."""
        future = next(self._futures)
        try:
            return future.result(timeout)
        except concurrent.futures.TimeoutError:
            self._futures = itertools.chain([future], self._futures)
            raise multiprocessing.TimeoutError from None

    __next__ = next


class Pool:
    """As `multiprocessing.Pool`. The task of a worker that dies is given to another (`on_death="again"`; it may have begun), or fails with
    `WorkerDied` (`"fail"`). A task that five workers have died of fails in any case. If the initializer raises, or five workers in a row die
    in it, the pool is broken: its tasks fail with `BrokenProcessPool`, where the standard one would start workers for ever.
    """

    def __init__(
        self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None, *, on_death="again"
    ):
        context = context or multiprocessing.get_context()
        processes = processes if processes is not None else os.cpu_count() or 1
        if processes < 1:
            raise ValueError("Number of processes must be at least 1")
        if maxtasksperchild is not None and (not isinstance(maxtasksperchild, int) or maxtasksperchild < 1):
            raise ValueError("maxtasksperchild must be a positive int or None")
        self._workers = Workers(
            context, processes, initializer, initargs, maxtasksperchild, on_death, lazy=False, traceback=RemoteTraceback
        )
        self._processes = processes
        self._finalizer = weakref.finalize(self, Workers.end, self._workers, True)

    def __del__(self, _warn=warnings.warn):
        # `_state` is what the standard pool calls it, for a program that has written it there.
        if "_workers" in self.__dict__ and getattr(self, "_state", self._workers.state).lower() == "run":
            _warn(f"unclosed running multiprocessing pool {self!r}", ResourceWarning, source=self)

    def pids(self):
        """Those of the workers."""
        return self._workers.pids()

    def apply(self, func, args=(), kwds={}):
        """Calls it in a worker, and waits for the result."""
        return self.apply_async(func, args, kwds).get()

    def apply_async(self, func, args=(), kwds={}, callback=None, error_callback=None):
        """Calls it in a worker."""
        future = self._workers.call(func, tuple(args), dict(kwds))
        return _Result([future], lambda made: made[0], callback, error_callback)

    def _chunks(self, iterable, chunksize):
        items = list(iterable)
        size = chunksize or max(1, -(-len(items) // (self._processes * 4)))
        return [items[at : at + size] for at in range(0, len(items), size)]

    def _mapped(self, func, iterable, chunksize, callback, error_callback):
        futures = [self._workers.call(_chunk, (func, c), {}) for c in self._chunks(iterable, chunksize)]
        return _Result(futures, lambda made: list(itertools.chain.from_iterable(made)), callback, error_callback)

    def map(self, func, iterable, chunksize=None):
        """The results for all items."""
        return self.map_async(func, iterable, chunksize).get()

    def map_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        """The same, later."""
        return self._mapped(func, iterable, chunksize, callback, error_callback)

    def starmap(self, func, iterable, chunksize=None):
        """As `map`, with the arguments of each call."""
        return self.starmap_async(func, iterable, chunksize).get()

    def starmap_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        """The same, later."""
        return self._mapped(partial(_star, func), iterable, chunksize, callback, error_callback)

    @property
    def _pool(self):
        # As the standard pool calls its processes.
        return [worker.process for worker in self._workers.workers]

    def _each(self, func, iterable, chunksize):
        """A future for each item; if the iterable raises, the last one raises that, in the place of the chunk that was not whole."""
        futures = []
        try:
            for item in iterable:
                futures.append(self._workers.call(func, (item,), {}))
        except Exception as error:
            whole = len(futures) - len(futures) % chunksize
            for future in futures[whole:]:
                future.cancel()
            del futures[whole:]
            failed = concurrent.futures.Future()
            failed.set_exception(error)
            futures.append(failed)
        return futures

    def imap(self, func, iterable, chunksize=1):
        """The results in order, as they come."""
        return _Items(self._each(func, iterable, chunksize))

    def imap_unordered(self, func, iterable, chunksize=1):
        """The results in whatever order they come."""
        futures, done = self._each(func, iterable, chunksize), queue.SimpleQueue()
        for future in futures:
            future.add_done_callback(done.put)
        return _Items(done.get() for _ in futures)

    def close(self):
        """No more calls; those that were made are done."""
        self._workers.end()

    def terminate(self):
        """Ends at once."""
        self._workers.end(True)

    def join(self):
        """Waits for the end of the workers, after `close` or `terminate`."""
        if self._workers.state == "run":
            raise ValueError("Pool is still running")
        self._workers.thread.join()

    def __enter__(self):
        self._workers.check()
        if self._workers.state != "run":
            raise ValueError("Pool not running")
        return self

    def __exit__(self, *_raised):
        self.terminate()
        self.join()

    def __reduce__(self):
        raise NotImplementedError("pool objects cannot be passed between processes or pickled")


class ProcessPoolExecutor(concurrent.futures.Executor):
    """As `concurrent.futures.ProcessPoolExecutor`; a worker that dies breaks nothing: its task is run again, or fails with `WorkerDied`."""

    def __init__(
        self,
        max_workers=None,
        mp_context=None,
        initializer=None,
        initargs=(),
        *,
        max_tasks_per_child=None,
        on_death="again",
    ):
        context = mp_context or multiprocessing.get_context()
        count = max_workers if max_workers is not None else os.cpu_count() or 1
        if count < 1:
            raise ValueError("max_workers must be greater than 0")
        if max_tasks_per_child is not None:
            if not isinstance(max_tasks_per_child, int):
                raise TypeError("max_tasks_per_child must be an integer")
            if max_tasks_per_child < 1:
                raise ValueError("max_tasks_per_child must be >= 1")
        self._workers = Workers(
            context, count, initializer, initargs, max_tasks_per_child, on_death, lazy=True, traceback=_RemoteTraceback
        )
        self._finalizer = weakref.finalize(self, Workers.end, self._workers, False)

    def submit(self, fn, /, *args, **kwargs):
        """Calls it in a worker; answers a future."""
        try:
            return self._workers.call(fn, args, kwargs)
        except NotRunning:
            raise RuntimeError("cannot schedule new futures after shutdown") from None

    def map(self, fn, *iterables, timeout=None, chunksize=1):
        """The results in order, as they come."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        items = zip(*iterables)
        chunks = iter(lambda: [*itertools.islice(items, chunksize)], [])
        return _from_chunks(super().map(partial(_chunk, partial(_star, fn)), chunks, timeout=timeout))

    def pids(self):
        """Those of the workers."""
        return self._workers.pids()

    def shutdown(self, wait=True, *, cancel_futures=False):
        """No more calls; waits for those that were made."""
        if cancel_futures:
            with self._workers.lock:
                for task in self._workers.tasks:
                    task.future.cancel()
        self._workers.end()
        if wait:
            self._workers.thread.join()
