"""`Pool` and `ProcessPoolExecutor`: the standard ones' interfaces to workers whose deaths cost nothing but the time (`_mp_workers.py`).

Both are children of the standard classes: their methods make calls and results as they do there, and the workers tell the results.
"""

import abc
import concurrent.futures
import itertools
import multiprocessing
import multiprocessing.pool as _standard
import os
import warnings
import weakref
from concurrent.futures.process import _RemoteTraceback

from ._mp_workers import NotRunning, WorkerDied, Workers

__all__ = ["Pool", "ProcessPoolExecutor", "ThreadPool"]

ThreadPool = _standard.ThreadPool
# What nobody's code runs in when it is read.
_PLAIN = (list, tuple, range)


def _processors():
    return getattr(os, "process_cpu_count", os.cpu_count)() or 1


def _items(pool, kind, func, iterable, chunksize):
    """What `imap` answers. No method: others call that of a pool that they have made up."""
    pool._check_running()
    if chunksize < 1:
        raise ValueError(f"Chunksize must be 1+, not {chunksize!r}")
    result = kind(pool)
    if chunksize == 1:
        pool._read(result, iterable, iterable, func)
        return result
    pool._read(result, iterable, pool._get_tasks(func, iterable, chunksize), _standard.mapstar)
    return (item for chunk in result for item in chunk)


class Pool(_standard.Pool, metaclass=abc.ABCMeta):
    """As `multiprocessing.Pool`. The task of a worker that dies is given to another (`on_death="again"`; it may have begun), or fails with
    `WorkerDied` (`"fail"`). A task that five workers have died of fails in any case. If the initializer raises, or five workers in a row die
    in it, the pool is broken: its tasks fail with `BrokenProcessPool`, where the standard one would start workers for ever.
    """

    # Of one whose constructor raised, which is printed and collected all the same.
    _workers = _written = None

    def __init__(
        self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None, *, on_death="again"
    ):
        # The standard results are in it until they are there.
        self._cache = {}
        self._ctx = context or multiprocessing.get_context()
        self._initializer, self._initargs, self._maxtasksperchild = initializer, initargs, maxtasksperchild
        self._processes = processes if processes is not None else _processors()
        if self._processes < 1:
            raise ValueError("Number of processes must be at least 1")
        if maxtasksperchild is not None and (not isinstance(maxtasksperchild, int) or maxtasksperchild < 1):
            raise ValueError("maxtasksperchild must be a positive int or None")
        self._workers = Workers(
            self._ctx, self.Process, self._processes, initializer, initargs, maxtasksperchild, on_death, lazy=False,
            traceback=_standard.RemoteTraceback,
        )  # fmt: skip
        self._terminate = weakref.finalize(self, Workers.end, self._workers, True)

    def __del__(self, _warn=warnings.warn):
        if self._state == _standard.RUN:
            _warn(f"unclosed running multiprocessing pool {self!r}", ResourceWarning, source=self)

    # As the standard pool calls them.
    @property
    def _state(self):
        now, workers = self._written, self._workers
        if workers is None:
            return _standard.INIT
        if now is None:
            now = {"run": _standard.RUN, "close": _standard.CLOSE}.get(workers.state, _standard.TERMINATE)
            if workers.state == "dead" and not workers.killed:
                now = _standard.CLOSE
        return now

    @_state.setter
    def _state(self, now):
        self._written = now

    @property
    def _pool(self):
        return self._workers.processes() if self._workers else []

    def _check_running(self):
        self._workers.check()

    def pids(self):
        """Those of the workers."""
        return [process.pid for process in self._workers.processes()]

    def apply_async(self, func, args=(), kwds={}, callback=None, error_callback=None):
        """Calls it in a worker."""
        self._check_running()
        result = _standard.ApplyResult(self, callback, error_callback)
        self._workers.call(result, func, args, kwds)
        return result

    def _map_async(self, func, iterable, mapper, chunksize=None, callback=None, error_callback=None):
        self._check_running()
        if not hasattr(iterable, "__len__"):
            iterable = list(iterable)
        size = len(iterable)
        if chunksize is None or size == 0:
            chunksize = -(-size // (self._processes * 4))
        result = _standard.MapResult(self, chunksize, size, callback, error_callback=error_callback)
        if size:
            self._read(result, iterable, self._get_tasks(func, iterable, chunksize), mapper)
        return result

    def _read(self, result, iterable, calls, mapper):
        self._workers.read(result, self._guarded_task_generation(result._job, mapper, calls), type(iterable) in _PLAIN)

    def imap(self, func, iterable, chunksize=1):
        """The results in order, as they come."""
        return _items(self, _standard.IMapIterator, func, iterable, chunksize)

    def imap_unordered(self, func, iterable, chunksize=1):
        """The results in whatever order they come."""
        return _items(self, _standard.IMapUnorderedIterator, func, iterable, chunksize)

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

    def __exit__(self, exc_type, exc_val, exc_tb):
        self.terminate()
        self.join()


# One of threads is a pool for those that look for a child of `Pool`, too.
Pool.register(ThreadPool)


class _Future(concurrent.futures.Future):
    """What the workers tell as they tell the results of a pool."""

    def _set(self, _index, outcome):
        well, value = outcome
        if well:
            self.set_result(value)
        else:
            self.set_exception(value)


class ProcessPoolExecutor(concurrent.futures.ProcessPoolExecutor):
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
        self._mp_context = mp_context or multiprocessing.get_context()
        self._max_workers = max_workers if max_workers is not None else _processors()
        if self._max_workers < 1:
            raise ValueError("max_workers must be greater than 0")
        if max_tasks_per_child is not None:
            if not isinstance(max_tasks_per_child, int):
                raise TypeError("max_tasks_per_child must be an integer")
            if max_tasks_per_child < 1:
                raise ValueError("max_tasks_per_child must be >= 1")
        self._initializer, self._initargs, self._max_tasks_per_child = initializer, initargs, max_tasks_per_child
        self._workers = Workers(
            self._mp_context, _standard.Pool.Process, self._max_workers, initializer, initargs, max_tasks_per_child, on_death, lazy=True,
            traceback=_RemoteTraceback,
        )  # fmt: skip
        self._finalizer = weakref.finalize(self, Workers.end, self._workers, False)

    # As the standard executor calls them.
    @property
    def _processes(self):
        return {process.pid: process for process in self._workers.processes()}

    @property
    def _broken(self):
        return self._workers.broken or False

    @property
    def _shutdown_thread(self):
        return self._workers.state != "run"

    @property
    def _executor_manager_thread(self):
        return self._workers.thread

    def submit(self, fn, /, *args, **kwargs):
        """Calls it in a worker; answers a future."""
        future = _Future()
        try:
            self._workers.call(future, fn, args, kwargs)
        except NotRunning:
            raise RuntimeError("cannot schedule new futures after shutdown") from None
        return future

    def pids(self):
        """Those of the workers."""
        return [*self._processes]

    def shutdown(self, wait=True, *, cancel_futures=False):
        """No more calls; waits for those that were made."""
        if cancel_futures:
            with self._workers.lock:
                # What a worker is there for has begun, as with the standard one, whose thread may come as late.
                free = sum(worker.task is None for worker in self._workers.workers)
                waiting = [task.job for task in itertools.islice(self._workers.tasks, free, None)]
            for future in waiting:
                future.cancel()
        self._workers.end()
        if wait:
            self._workers.thread.join()

    def _end_each(self, how):
        # From 3.14 on.
        processes = self._workers.processes()
        self.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            getattr(process, how)()
        self._workers.end(True)

    def terminate_workers(self):
        """Ends all workers by SIGTERM, and so what they run; no more calls."""
        self._end_each("terminate")

    def kill_workers(self):
        """Ends all workers by SIGKILL, and so what they run; no more calls."""
        self._end_each("kill")


def __getattr__(name):
    # As `multiprocessing.pool`.
    return getattr(_standard, name)
