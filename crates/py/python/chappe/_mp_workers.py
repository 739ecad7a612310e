"""Workers whose deaths cost nothing but the time: what `Pool` and `ProcessPoolExecutor` (`_mp_pools.py`) give their tasks to.

Each worker has a socket of its own, and one task at a time. One thread of the parent gives out tasks, takes results, and sees deaths:

    tasks --> [thread] == socket ==> worker    a death: its pidfd, or the end of its socket; what it had is given to another, or fails;
                 ^======= socket ====+          a worker takes its place

So no lock and no socket is anybody's but the two at its ends: a worker that is killed, at whatever instruction, holds up nobody else. The thread
never waits for one worker alone: what a worker does not take now, or has sent a part of, stays in a buffer. Others may have a killed
worker's end open (its own children, a process that was forked meanwhile), and then neither its socket nor the standard module's sentinel,
which is a pipe, says that it is dead.

A worker says first that its initializer is done; one that dies before has not begun its task. One whose initializer raises, or five in a row
that die before they say so, end the whole: each task fails, and so does each call from then on.
"""

import collections
import concurrent.futures
import itertools
import os
import pickle
import select
import signal
import socket
import struct
import threading
import traceback
import weakref
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from multiprocessing.pool import MaybeEncodingError

from .errors import _log

__all__ = ["WorkerDied"]

# How many workers in a row may die with one task before it fails, or before any of them is ready.
_TRIES = 5
# How many seconds a worker has to end once it was told to at once.
_PATIENCE = 5
# How much is read at once.
_READ = 1 << 18


class WorkerDied(BrokenProcessPool):
    """The worker process that ran a task died. A child of the standard executor's exception; here it is about this task alone."""


class NotRunning(ValueError):
    """There are no more calls."""

    def __init__(self):
        super().__init__("Pool not running")


def _work(pipe, initializer, initargs, most, wraps):
    """What a worker does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if initializer is not None:
        try:
            initializer(*initargs)
        except BaseException as error:
            import logging

            logging.getLogger("concurrent.futures").critical("Exception in initializer:", exc_info=True)
            _answer(pipe, (None, False, (error, traceback.format_exc())))
            return
    if not _answer(pipe, (None, True, None)):
        return
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
        # Nothing of a task stays while the next one is waited for.
        function = arguments = named = call = None
        if not _answer(pipe, answer, wraps):
            return
        answer = None


def _answer(pipe, answer, wraps=False):
    """Sends an answer; false if nobody is there to read it. `wraps`: what does not pickle is told as a pool tells it."""
    try:
        data = pickle.dumps(answer)
    except BaseException as error:
        wrong = MaybeEncodingError(error, answer[2]) if wraps and isinstance(error, Exception) else error
        try:
            data = pickle.dumps((answer[0], False, (wrong, traceback.format_exc())))
        except Exception:
            data = pickle.dumps((answer[0], False, (RuntimeError(repr(error)), traceback.format_exc())))
    try:
        pipe.send_bytes(data)
    except OSError:
        return False
    return True


class _Task:
    __slots__ = ("call", "deaths", "future", "number")

    def __init__(self, number, call, future):
        self.number, self.call, self.future, self.deaths = number, call, future, 0


class _Worker:
    """A worker, and the parent's end of its socket: messages as `multiprocessing.connection` frames them."""

    __slots__ = ("_into", "_out", "_socket", "died", "failed", "process", "ready", "task", "tasks")

    def __init__(self, process, ours):
        self.process, self._socket = process, ours
        # `failed`: what its initializer raised.
        self.task, self.tasks, self.ready, self.failed = None, 0, False, None
        self._out, self._into = bytearray(), bytearray()
        try:
            self.died = os.pidfd_open(process.pid)
        except (AttributeError, OSError):
            # Not on this system, or it is dead already.
            self.died = os.dup(process.sentinel)

    def fileno(self):
        """That of the socket."""
        return self._socket.fileno()

    def wants(self):
        """What its socket is looked at for."""
        return select.POLLIN | (select.POLLOUT if self._out else 0)

    def send(self, message):
        """Sends what there is room for, and keeps the rest."""
        data = pickle.dumps(message)
        head = struct.pack("!i", len(data)) if len(data) <= 0x7FFFFFFF else struct.pack("!iQ", -1, len(data))
        self._out += head
        self._out += data
        self.flush()

    def flush(self):
        """Sends more of it. A worker that has died is seen by what waits for it."""
        try:
            while self._out:
                del self._out[: self._socket.send(self._out, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)]
        except BlockingIOError:
            pass
        except OSError:
            self._out.clear()

    def messages(self):
        """The whole messages that have come, and whether that was the end."""
        ended = False
        try:
            while True:
                data = self._socket.recv(_READ, socket.MSG_DONTWAIT)
                self._into += data
                if not data:
                    ended = True
                    break
        except BlockingIOError:
            pass
        except OSError:
            ended = True
        return self._whole(), ended

    def _whole(self):
        made = []
        while len(self._into) >= 4:
            (size,) = struct.unpack_from("!i", self._into)
            head = 4
            if size == -1:
                if len(self._into) < 12:
                    break
                (size,), head = struct.unpack_from("!Q", self._into, 4), 12
            if len(self._into) < head + size:
                break
            made.append(bytes(self._into[head : head + size]))
            del self._into[: head + size]
        return made

    def hang_up(self):
        """Tells the worker that there is no more, even if others have a copy of the parent's end."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The worker has gone before.
            pass

    def close(self):
        """The parent's end is no longer needed."""
        self.hang_up()
        self._socket.close()
        os.close(self.died)

    def has_ended(self, seconds):
        """Whether it is dead, at the latest in so many seconds."""
        poll = select.poll()
        poll.register(self.died, select.POLLIN)
        return bool(poll.poll(1000 * seconds))


# Those whose tasks are done before the interpreter ends, as of the standard executor.
_until_exit = weakref.WeakSet()


def _exit():
    pid, all_of_them = os.getpid(), [workers for workers in _until_exit if workers.pid == os.getpid()]
    for workers in all_of_them:
        workers.end()
    for workers in all_of_them:
        if workers.pid == pid:
            workers.thread.join()


threading._register_atexit(_exit)


class Workers:
    """The workers, their tasks, and the thread that brings them together.

    `lazy`: the workers are started as there are tasks for them, and what was called is done before the interpreter ends (an executor's).
    Otherwise all are started at once, and end with it (a pool's).
    """

    def __init__(self, context, count, initializer, initargs, most, on_death, *, lazy, traceback):
        if on_death not in ("again", "fail"):
            raise ValueError(f'on_death is "again" or "fail", not {on_death!r}')
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._context, self.count, self._most, self._on_death = context, count, most, on_death
        self._lazy, self._traceback = lazy, traceback
        self._start = (initializer, tuple(initargs), most, not lazy)
        # Taken by finalizers, too, which may run in a thread that has it.
        self.lock = threading.RLock()
        self.tasks, self._numbers = collections.deque(), itertools.count()
        self.workers, self.state = [], "run"
        # Why no task can be done any more, if so, and the exception that is to blame.
        self.broken, self._cause = None, None
        self._unready_deaths, self.pid = 0, os.getpid()
        self._bell, self._ring = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._ring, False)
        try:
            for _ in range(0 if lazy else count):
                self._hire()
        except BaseException:
            for worker in self.workers:
                worker.process.terminate()
                worker.close()
                worker.process.join()
            os.close(self._bell)
            os.close(self._ring)
            raise
        self.thread = threading.Thread(target=self._run, daemon=True, name="chappe-workers")
        self.thread.start()
        if lazy:
            _until_exit.add(self)

    def _hire(self):
        ours, theirs = socket.socketpair()
        pipe = connection.Connection(theirs.detach())
        # A worker of an executor may have children of its own.
        try:
            process = self._context.Process(target=_work, args=(pipe, *self._start), daemon=not self._lazy)
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            pipe.close()
        self.workers.append(_Worker(process, ours))

    def _is_free(self, worker):
        return worker.task is None and (self._most is None or worker.tasks < self._most)

    def _hire_for_tasks(self, more=0):
        # As many as there are tasks that no worker is free for, as of the standard one; by fork all.
        wanted = len(self.tasks) + more - sum(worker.ready and self._is_free(worker) for worker in self.workers)
        if wanted > 0 and self._context.get_start_method() == "fork":
            wanted = self.count
        for _ in range(min(wanted, self.count - len(self.workers))):
            self._hire()

    def check(self):
        """BrokenProcessPool if no task can be done any more."""
        if self.broken is not None:
            raise BrokenProcessPool(self.broken) from self._cause

    def call(self, function, arguments, named):
        """A future for a call."""
        future = concurrent.futures.Future()
        if os.getpid() != self.pid:
            raise RuntimeError(f"these workers are those of process {self.pid}, which forked this one: make others here")
        try:
            data = pickle.dumps((function, arguments, named))
        except Exception as error:
            # As of the standard ones: the wait for the result raises it.
            future.set_running_or_notify_cancel()
            future.set_exception(error)
            data = None
        with self.lock:
            self.check()
            if self.state != "run":
                raise NotRunning
            if data is not None:
                self.tasks.append(_Task(next(self._numbers), data, future))
            if self._lazy:
                self._hire_for_tasks(data is None)
            self._give_all()
        self._wake()
        return future

    def _wake(self):
        try:
            os.write(self._ring, b"x")
        except (BlockingIOError, OSError):
            pass

    def end(self, at_once=False):
        """No more calls: those that were made are done first, unless `at_once`."""
        if os.getpid() != self.pid:
            return
        with self.lock:
            if self.state != "dead":
                self.state = "kill" if at_once else "close"
        self._wake()

    def pids(self):
        """Those of the workers."""
        with self.lock:
            return [worker.process.pid for worker in self.workers]

    def _run(self):
        try:
            while self._turn():
                pass
        except Exception as error:
            self._break(f"no worker can be started: {error}", error)
        finally:
            self._over()

    def _turn(self):
        poll, ends = select.poll(), {self._bell: None}
        with self.lock:
            if self.state == "kill" or self.broken is not None:
                return False
            self._give_all()
            if self.state == "close" and not self.tasks and all(w.task is None for w in self.workers):
                return False
            poll.register(self._bell, select.POLLIN)
            for worker in self.workers:
                # A socket alone does not tell: others may have a copy of its other end.
                for end, events in ((worker.fileno(), worker.wants()), (worker.died, select.POLLIN)):
                    poll.register(end, events)
                    ends[end] = worker
        ready = {end: events for end, events in poll.poll()}
        if ready.pop(self._bell, None) is not None:
            try:
                os.read(self._bell, 4096)
            except BlockingIOError:
                pass
        for worker in {ends[end] for end in ready}:
            self._hear(worker, worker.died in ready, ready.get(worker.fileno(), 0))
        return True

    def _give_all(self):
        for worker in self.workers:
            if not self.tasks:
                break
            if self._is_free(worker):
                self._give(worker)

    def _give(self, worker):
        while self.tasks:
            task = self.tasks.popleft()
            if not task.future.running() and not task.future.set_running_or_notify_cancel():
                continue
            worker.task = task
            worker.send((task.number, task.call))
            return

    def _hear(self, worker, has_died, events):
        if events & select.POLLOUT:
            with self.lock:
                worker.flush()
        # Of one that has died all is there to be read.
        messages, ended = worker.messages() if has_died or events & ~select.POLLOUT else ((), False)
        for data in messages:
            self._answered(worker, data)
        if ended or has_died:
            self._bury(worker)

    def _answered(self, worker, data):
        try:
            answer = pickle.loads(data)
        except BaseException as error:
            # The answer is whole, and cannot be made again here.
            task, worker.task = worker.task, None
            worker.tasks += 1
            if task is not None:
                task.future.set_exception(error)
            return
        number, well, value = answer
        if number is None:
            if well:
                worker.ready, self._unready_deaths = True, 0
            else:
                value[0].__cause__ = self._traceback(f'\n"""\n{value[1]}"""')
                # It may have more to do before it ends: what it has logged goes its way.
                worker.failed = value[0]
            return
        task = worker.task
        if task is None or task.number != number:
            return
        worker.tasks += 1
        self._unready_deaths = 0
        # Free before its result is seen: the next call may come at once.
        worker.task = None
        if well:
            task.future.set_result(value)
            return
        value[0].__cause__ = self._traceback(f'\n"""\n{value[1]}"""')
        task.future.set_exception(value[0])

    def _break(self, why, cause=None):
        with self.lock:
            if self.broken is None:
                self.broken, self._cause = why, cause
        _log(f"{why}: the pool is broken, and all its tasks fail")

    def _bury(self, worker):
        worker.close()
        worker.process.join()
        fails = None
        with self.lock:
            self.workers.remove(worker)
            task = worker.task
            if task is not None and not worker.ready:
                # It has not begun.
                self.tasks.appendleft(task)
                task = None
            elif task is not None:
                task.deaths += 1
                if self._on_death == "again" and task.deaths < _TRIES:
                    self.tasks.appendleft(task)
                else:
                    fails = task
            if not worker.ready:
                self._unready_deaths += 1
            if worker.failed is not None:
                self._break(f"the initializer of a worker raised {worker.failed!r}", worker.failed)
            elif self._unready_deaths >= _TRIES and not any(other.ready for other in self.workers):
                self._break(f"{_TRIES} workers in a row died before they were ready (exit code {worker.process.exitcode})")
            elif self._lazy:
                self._hire_for_tasks()
            elif self.state == "run" or self.tasks:
                self._hire()
        if task is not None:
            what = "the task fails" if fails else "the task is run again"
            text = f"worker process {worker.process.pid} died (exit code {worker.process.exitcode}) while it ran a task"
            _log(f"{text}: {what}")
        if fails is not None:
            fails.future.set_exception(WorkerDied(text))

    def _over(self):
        with self.lock:
            killed, self.state = self.state == "kill" or self.broken is not None, "dead"
            tasks, self.tasks = list(self.tasks), collections.deque()
            workers, self.workers = self.workers, []
        tasks += [worker.task for worker in workers if worker.task is not None]
        self._dismiss(workers, killed)
        for task in tasks:
            if self.broken is None and task.future.cancel():
                continue
            error = BrokenProcessPool(self.broken) if self.broken else WorkerDied("the pool was terminated")
            error.__cause__ = self._cause
            try:
                task.future.set_exception(error)
            except concurrent.futures.InvalidStateError:
                # It was cancelled meanwhile.
                pass
        os.close(self._bell)
        os.close(self._ring)

    def _dismiss(self, workers, killed):
        for worker in workers:
            if killed:
                worker.process.terminate()
            # The end of its socket is its end.
            worker.hang_up()
        for worker in workers:
            if killed and not worker.has_ended(_PATIENCE):
                # It is stopped, or wants no end.
                worker.process.kill()
            worker.process.join()
            worker.close()
