"""Workers whose deaths cost nothing but the time: `Pool` and `ProcessPoolExecutor`.

Each worker has a pipe of its own, and one task at a time. One thread of the parent gives out tasks, takes results, and sees deaths:

    tasks --> [thread] == pipe ==> worker      a death: its pipe ends; what it had is given to another, or fails;
                 ^======= pipe =====+          a worker takes its place

So no lock and no pipe is anybody's but the two at its ends: who is killed, at whatever instruction, holds up nobody else.
"""

import collections
import concurrent.futures
import itertools
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import traceback
import warnings
import weakref
from multiprocessing import connection
from multiprocessing.pool import MaybeEncodingError, RemoteTraceback

from .errors import _log

__all__ = ["Pool", "ProcessPoolExecutor", "WorkerDied"]

# How many workers in a row may die with one task before it fails.
_TRIES = 5


class WorkerDied(RuntimeError):
    """The worker process that ran a task died."""


class _Remote(Exception):
    """An exception of a worker, with the text of its traceback."""

    def __init__(self, error, text):
        super().__init__(text)
        self.error = error
        self.text = text

    def raised(self):
        """The exception, as it is raised in the parent."""
        self.error.__cause__ = RemoteTraceback(f'\n"""\n{self.text}"""')
        return self.error


def _work(pipe, initializer, initargs, most):
    """What a worker does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if initializer is not None:
        initializer(*initargs)
    for _ in itertools.count() if most is None else range(most):
        try:
            number, call = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        if number is None:
            return
        try:
            function, arguments, named = pickle.loads(call)
            answer = (number, True, function(*arguments, **named))
        except BaseException as error:
            answer = (number, False, (error, traceback.format_exc()))
        try:
            data = pickle.dumps(answer)
        except Exception as error:
            wrong = MaybeEncodingError(error, answer[2])
            data = pickle.dumps((number, False, (wrong, traceback.format_exc())))
        try:
            pipe.send_bytes(data)
        except OSError:
            return


class _Task:
    __slots__ = ("call", "deaths", "future", "number")

    def __init__(self, number, call, future):
        self.number, self.call, self.future, self.deaths = number, call, future, 0


class _Worker:
    __slots__ = ("pipe", "process", "task", "tasks")

    def __init__(self, process, pipe):
        self.process, self.pipe, self.task, self.tasks = process, pipe, None, 0


class _Workers:
    """The workers, their tasks, and the thread that brings them together."""

    def __init__(self, context, count, initializer, initargs, most, on_death):
        if count < 1:
            raise ValueError("Number of processes must be at least 1")
        if on_death not in ("again", "fail"):
            raise ValueError(f'on_death is "again" or "fail", not {on_death!r}')
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._context, self._count, self._most, self._on_death = context, count, most, on_death
        self._start = (initializer, initargs)
        self._lock = threading.Lock()
        self._tasks = collections.deque()
        self._numbers = itertools.count()
        self._workers = []
        self._state = "run"
        self._pid = os.getpid()
        self._bell, self._ring = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._ring, False)
        for _ in range(count):
            self._hire()
        self.thread = threading.Thread(target=self._run, daemon=True, name="chappe-workers")
        self.thread.start()

    def _hire(self):
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, *self._start, self._most), daemon=True)
        process.start()
        theirs.close()
        self._workers.append(_Worker(process, ours))

    def call(self, function, arguments, named):
        """A future for a call."""
        future = concurrent.futures.Future()
        data = pickle.dumps((function, arguments, named))
        with self._lock:
            if self._state != "run":
                raise ValueError("Pool not running")
            self._tasks.append(_Task(next(self._numbers), data, future))
        self._wake()
        return future

    def _wake(self):
        try:
            os.write(self._ring, b"x")
        except (BlockingIOError, OSError):
            pass

    def end(self, at_once=False):
        """No more calls: those that were made are done first, unless `at_once`."""
        with self._lock:
            if self._state != "dead":
                self._state = "kill" if at_once else "close"
        self._wake()

    def pids(self):
        """Those of the workers."""
        with self._lock:
            return [worker.process.pid for worker in self._workers]

    def _run(self):
        try:
            while self._turn():
                pass
        finally:
            self._over()

    def _turn(self):
        with self._lock:
            if self._state == "kill":
                return False
            for worker in self._workers:
                if worker.task is None:
                    self._give(worker)
            if self._state == "close" and not self._tasks and all(w.task is None for w in self._workers):
                return False
            # A pipe alone does not tell: a process that is forked meanwhile may have a copy of its other end.
            waits = {end: worker for worker in self._workers for end in (worker.pipe, worker.process.sentinel)}
        ready = connection.wait([self._bell, *waits])
        if self._bell in ready:
            try:
                os.read(self._bell, 4096)
            except BlockingIOError:
                pass
        for worker in {waits[end] for end in ready if end in waits}:
            self._hear(worker)
        return True

    def _give(self, worker):
        while self._tasks:
            task = self._tasks.popleft()
            if task.deaths == 0 and not task.future.set_running_or_notify_cancel():
                continue
            worker.task = task
            try:
                worker.pipe.send_bytes(pickle.dumps((task.number, task.call)))
            except OSError:
                # It has died, and its pipe says so to whoever listens next.
                pass
            return

    def _hear(self, worker):
        try:
            if not worker.pipe.poll():
                raise EOFError
            number, well, value = pickle.loads(worker.pipe.recv_bytes())
        except (EOFError, OSError, pickle.UnpicklingError):
            self._bury(worker)
            return
        except Exception as error:
            # The answer is whole, and cannot be made again here.
            task, worker.task = worker.task, None
            task.future.set_exception(error)
            return
        task, worker.task = worker.task, None
        if task is None or task.number != number:
            return
        worker.tasks += 1
        if well:
            task.future.set_result(value)
        else:
            task.future.set_exception(_Remote(*value).raised())

    def _bury(self, worker):
        worker.process.join()
        worker.pipe.close()
        task, fails = worker.task, None
        with self._lock:
            self._workers.remove(worker)
            if task is not None:
                task.deaths += 1
                if self._on_death == "again" and task.deaths < _TRIES:
                    self._tasks.appendleft(task)
                else:
                    fails = task
            if self._state == "run" or self._tasks:
                self._hire()
        if task is not None:
            what = "the task fails" if fails else "the task is run again"
            text = f"worker process {worker.process.pid} died (exit code {worker.process.exitcode}) while it ran a task"
            _log(f"{text}: {what}")
        if fails is not None:
            fails.future.set_exception(WorkerDied(text))

    def _over(self):
        with self._lock:
            killed, self._state = self._state == "kill", "dead"
            tasks, self._tasks = list(self._tasks), collections.deque()
            workers, self._workers = self._workers, []
        tasks += [worker.task for worker in workers if worker.task is not None]
        for worker in workers:
            if killed:
                worker.process.terminate()
            else:
                try:
                    worker.pipe.send_bytes(pickle.dumps((None, b"")))
                except OSError:
                    # It has died.
                    pass
            worker.pipe.close()
        for worker in workers:
            worker.process.join()
        for task in tasks:
            if not task.future.cancel():
                task.future.set_exception(WorkerDied("the pool was terminated"))
        os.close(self._bell)
        os.close(self._ring)


def _star(function, arguments):
    return function(*arguments)


def _chunk(function, items):
    return [function(item) for item in items]


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
    `WorkerDied` (`"fail"`). A task that five workers have died of fails in any case.
    """

    def __init__(
        self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None, *, on_death="again"
    ):
        context = context or multiprocessing.get_context()
        processes = processes if processes is not None else os.cpu_count() or 1
        self._workers = _Workers(context, processes, initializer, initargs, maxtasksperchild, on_death)
        self._processes = processes
        self._finalizer = weakref.finalize(self, _Workers.end, self._workers, True)

    def __del__(self, _warn=warnings.warn):
        # `_state` is what the standard pool calls it, for whoever has written it there.
        if "_workers" in self.__dict__ and getattr(self, "_state", self._workers._state).lower() == "run":
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
        from functools import partial

        return self._mapped(partial(_star, func), iterable, chunksize, callback, error_callback)

    @property
    def _pool(self):
        # As the standard pool calls its processes.
        return [worker.process for worker in self._workers._workers]

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
        if self._workers._state == "run":
            raise ValueError("Pool is still running")
        self._workers.thread.join()

    def __enter__(self):
        if self._workers._state != "run":
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
        self._workers = _Workers(context, count, initializer, initargs, max_tasks_per_child, on_death)
        self._finalizer = weakref.finalize(self, _Workers.end, self._workers, False)

    def submit(self, fn, /, *args, **kwargs):
        """Calls it in a worker; answers a future."""
        try:
            return self._workers.call(fn, args, kwargs)
        except ValueError:
            raise RuntimeError("cannot schedule new futures after shutdown") from None

    def map(self, fn, *iterables, timeout=None, chunksize=1):
        """The results in order, as they come."""
        return super().map(fn, *iterables, timeout=timeout)

    def pids(self):
        """Those of the workers."""
        return self._workers.pids()

    def shutdown(self, wait=True, *, cancel_futures=False):
        """No more calls; waits for those that were made."""
        if cancel_futures:
            with self._workers._lock:
                for task in self._workers._tasks:
                    task.future.cancel()
        self._workers.end()
        if wait:
            self._workers.thread.join()
