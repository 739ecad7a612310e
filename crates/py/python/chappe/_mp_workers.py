"""Workers whose deaths cost nothing but the time: what `Pool` and `ProcessPoolExecutor` (`_mp_pools.py`) give their tasks to.

Each worker has a socket of its own (`_mp_lines.py`), and one task at a time. One thread of the parent gives out tasks, takes results, and sees deaths:

    inputs, calls --> [thread] == socket ==> worker    a death: its pidfd, or the end of its socket; what it had is given to another, or
                         ^======= socket ====+          fails; a worker takes its place

So no lock and no socket is anybody's but the two at its ends: a worker that is killed, at whatever instruction, holds up nobody else. The thread
never waits for one worker alone: what a worker does not take now, or has sent a part of, stays in a buffer. Others may have a killed
worker's end open (its own children, a process that was forked meanwhile), and then neither its socket nor the standard module's sentinel,
which is a pipe, says that it is dead.

A task is pickled when a worker is free for it. An input is read when there are fewer of its tasks than workers: by the thread, if that runs
nobody's code, else by a thread of the input's own, as an input may wait for whatever it likes.

A worker says first that its initializer is done; one that dies before has not begun its task. One whose initializer raises, or five in a row
that die before they say so, end the whole: each task fails, and so does each call from then on.
"""

import collections
import concurrent.futures
import functools
import itertools
import os
import select
import socket
import threading
import weakref
from concurrent.futures.process import BrokenProcessPool

from ._mp_lines import CALL, DONE, READY, Line, Message, to_error
from ._mp_tasks import Input, Task, tell
from ._mp_work import work
from .errors import _log

__all__ = ["WorkerDied"]

# How many workers in a row may die with one task before it fails, or before any of them is ready.
_TRIES = 5
# How many seconds a worker has to end once it was told to at once.
_PATIENCE = 5


class WorkerDied(BrokenProcessPool):
    """The worker process that ran a task died. A child of the standard executor's exception; here it is about this task alone."""


class NotRunning(ValueError):
    """There are no more calls."""

    def __init__(self):
        super().__init__("Pool not running")


class _Worker:
    """A worker, and the parent's end of its socket."""

    __slots__ = ("died", "failed", "line", "process", "ready", "task", "tasks")

    def __init__(self, process, line):
        self.process, self.line = process, line
        # `failed`: what its initializer raised.
        self.task, self.tasks, self.ready, self.failed = None, 0, False, None
        try:
            self.died = os.pidfd_open(process.pid)
        except (AttributeError, OSError):
            # Not on this system, or it is dead already.
            self.died = os.dup(process.sentinel)

    def wants(self):
        """What its socket is looked at for."""
        return select.POLLIN | (select.POLLOUT if self.line.is_behind() else 0)

    def close(self):
        """The parent's end is no longer needed."""
        self.line.close()
        os.close(self.died)

    def has_ended(self, seconds):
        """Whether it is dead, at the latest in so many seconds."""
        poll = select.poll()
        poll.register(self.died, select.POLLIN)
        return bool(poll.poll(1000 * seconds))


# The parent's ends of this process. No child has one: it would keep a worker from seeing that its parent was killed.
_lines = weakref.WeakSet()


def _forget():
    for line in list(_lines):
        line.forget()


os.register_at_fork(after_in_child=_forget)

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

    `start` makes a process of a context. `lazy`: the workers are started as there are tasks for them, and what was called is done before the
    interpreter ends (an executor's). Otherwise all are started at once, and end with it (a pool's).
    """

    def __init__(self, context, start, count, initializer, initargs, most, on_death, *, lazy, traceback):
        if on_death not in ("again", "fail"):
            raise ValueError(f'on_death is "again" or "fail", not {on_death!r}')
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._context, self._start, self.count, self._most, self._on_death = context, start, count, most, on_death
        self._lazy, self._traceback = lazy, traceback
        self._begin = (initializer, tuple(initargs), most, not lazy)
        # Taken by finalizers, too, which may run in a thread that has it.
        self.lock = threading.RLock()
        # An input that the thread reads itself stands in the line of tasks. The others have threads, which wait for room.
        self.tasks, self._numbers = collections.deque(), itertools.count(1)
        self._inputs, self._room = set(), threading.Condition(self.lock)
        # What those threads have for jobs, which the thread alone tells.
        self._news = collections.deque()
        self.workers, self.state, self.killed = [], "run", False
        # Why no task can be done any more, if so, and the exception that is to blame.
        self.broken, self._cause = None, None
        self._unready_deaths, self.pid = 0, os.getpid()
        self._bell, self._ring = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self._ring, False)
        try:
            for _ in range(0 if lazy else count):
                self._hire()
            self.thread = threading.Thread(target=self._run, daemon=True, name="chappe-workers")
            self.thread.start()
        except BaseException:
            for worker in self.workers:
                worker.process.terminate()
                worker.close()
                worker.process.join()
            os.close(self._bell)
            os.close(self._ring)
            raise
        if lazy:
            _until_exit.add(self)

    def _hire(self):
        ours, theirs = socket.socketpair()
        line = Line(ours)
        _lines.add(line)
        # A worker of an executor may have children of its own.
        try:
            process = self._start(self._context, target=work, args=(theirs, *self._begin), daemon=not self._lazy)
            if not self._lazy:
                process.name = process.name.replace("Process", "PoolWorker")
            process.start()
        except BaseException:
            line.close()
            raise
        finally:
            theirs.close()
        self.workers.append(_Worker(process, line))

    def _is_free(self, worker):
        return worker.task is None and (self._most is None or worker.tasks < self._most)

    def _hire_for_tasks(self):
        # As many as there are tasks that no worker is free for, as of the standard one; by fork all.
        wanted = len(self.tasks) - sum(self._is_free(worker) for worker in self.workers)
        if wanted > 0 and self._context.get_start_method() == "fork":
            wanted = self.count
        for _ in range(min(wanted, self.count - len(self.workers))):
            self._hire()

    def check(self):
        """An exception if there can be no more calls."""
        if os.getpid() != self.pid:
            raise RuntimeError(f"these workers are those of process {self.pid}, which forked this one: make others here")
        if self.broken is not None:
            raise BrokenProcessPool(self.broken) from self._cause
        if self.state != "run":
            raise NotRunning

    def call(self, job, function, arguments, named):
        """A call for a job, which is told of it as the standard pool tells its results: `_set(0, (well, value))`."""
        with self.lock:
            self.check()
            self.tasks.append(Task(next(self._numbers), job, 0, (function, arguments, named)))
            if self._lazy:
                self._hire_for_tasks()
        self._wake()

    def read(self, job, calls, plain):
        """Calls for a job, one after the other. `plain`: to read them runs nobody's code."""
        made = Input(job, calls)
        with self.lock:
            self.check()
            if plain:
                self.tasks.append(made)
            else:
                self._inputs.add(made)
        if plain:
            self._wake()
        else:
            threading.Thread(target=self._read, args=(made,), daemon=True, name="chappe-input").start()

    def _read(self, made):
        """The thread of an input."""
        is_over = False
        while not is_over:
            with self._room:
                self._room.wait_for(lambda: made.waiting < self.count or made not in self._inputs)
            try:
                call, error = made.next(), None
            except BaseException as raised:
                call, error = None, raised
            is_over = call is None
            with self.lock:
                if made not in self._inputs:
                    # The pool has ended, and has told the job so.
                    return
                if is_over:
                    self._inputs.discard(made)
                    self._news.append(functools.partial(made.ends, error))
                else:
                    self._take_in(made, *call)
            call = None
            self._wake()

    def _take_in(self, made, index, call):
        made.read += 1
        if isinstance(call, BaseException):
            self._news.append(functools.partial(tell, made.job, index, False, call))
            return
        made.waiting += 1
        self.tasks.append(Task(next(self._numbers), made.job, index, call, made))

    def _wake(self):
        # With the lock: once it is closed, its number is another file's.
        with self.lock:
            if self._ring is not None:
                try:
                    os.write(self._ring, b"x")
                except BlockingIOError:
                    pass

    def end(self, at_once=False):
        """No more calls: those that were made are done first, unless `at_once`."""
        if os.getpid() != self.pid:
            return
        with self.lock:
            if self.state != "dead":
                self.state = "kill" if at_once else "close"
        self._wake()

    def processes(self):
        """Those of the workers."""
        with self.lock:
            return [worker.process for worker in self.workers]

    def _run(self):
        try:
            while self._turn():
                pass
        except Exception as error:
            self._break(f"no worker can be started: {error}", error)
        finally:
            self._over()

    def _is_done(self):
        return not self.tasks and not self._inputs and not self._news and all(worker.task is None for worker in self.workers)

    def _turn(self):
        poll, ends = select.poll(), {self._bell: None}
        self._give_all()
        with self.lock:
            if self.state == "kill" or self.broken is not None or (self.state == "close" and self._is_done()):
                return False
            poll.register(self._bell, select.POLLIN)
            for worker in self.workers:
                # A socket alone does not tell: others may have a copy of its other end.
                for end, events in ((worker.line.fileno(), worker.wants()), (worker.died, select.POLLIN)):
                    poll.register(end, events)
                    ends[end] = worker
        ready = {end: events for end, events in poll.poll()}
        if ready.pop(self._bell, None) is not None:
            try:
                os.read(self._bell, 4096)
            except BlockingIOError:
                pass
        for worker in {ends[end] for end in ready}:
            self._hear(worker, worker.died in ready, ready.get(worker.line.fileno(), 0))
        return True

    def _give_all(self):
        # Without the lock: a pickle, and a callback of a job, run their objects' code.
        while True:
            while self._news:
                self._news.popleft()()
            with self.lock:
                if self.state in ("kill", "dead") or self.broken is not None:
                    return
                worker = next(filter(self._is_free, self.workers), None)
                task = None if worker is None else self._next()
                if task is None and not self._news:
                    return
                if task is not None:
                    worker.task = task
            if task is not None:
                self._give(worker, task)

    def _next(self):
        """The next task of the line."""
        while self.tasks:
            head = self.tasks[0]
            if isinstance(head, Input):
                call = head.next()
                if call is not None:
                    head.read += 1
                    return Task(next(self._numbers), head.job, *call)
                self._news.append(head.ends)
            self.tasks.popleft()
            if isinstance(head, Task):
                if head.input is not None:
                    head.input.waiting -= 1
                    head.input = None
                    self._room.notify_all()
                if head.begins():
                    return head
        return None

    def _give(self, worker, task):
        if task.message is None:
            try:
                task.message = Message.of(CALL, task.number, task.call)
            except BaseException as error:
                # As of the standard ones: the wait for the result raises it.
                worker.task = None
                task.ends(False, error)
                return
            task.call = None
        worker.line.post(task.message)

    def _hear(self, worker, has_died, events):
        if events & select.POLLOUT:
            worker.line.flush()
        # Of one that has died all is there to be read.
        messages, ended = worker.line.messages() if has_died or events & ~select.POLLOUT else ((), False)
        for message in messages:
            self._answered(worker, message)
            message.close()
        if ended or has_died:
            self._bury(worker)

    def _answered(self, worker, message):
        if message.kind == READY:
            worker.ready, self._unready_deaths = True, 0
            return
        if message.number == 0:
            # It may have more to do before it ends: what it has logged goes its way.
            worker.failed = to_error(message, self._traceback)
            return
        task = worker.task
        if task is None or task.number != message.number:
            return
        worker.tasks += 1
        self._unready_deaths = 0
        try:
            well = message.kind == DONE
            value = message.load() if well else to_error(message, self._traceback)
        except BaseException as error:
            # The answer is whole, and cannot be made again here.
            well, value = False, error
        # Free before its result is seen: the next call may come at once.
        worker.task = None
        task.ends(well, value)

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
            task, worker.task = worker.task, None
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
            elif self.state == "run" or not self._is_done():
                self._hire()
        if task is not None:
            what = "the task fails" if fails else "the task is run again"
            text = f"worker process {worker.process.pid} died (exit code {worker.process.exitcode}) while it ran a task"
            _log(f"{text}: {what}")
        if fails is not None:
            fails.ends(False, WorkerDied(text))

    def _over(self):
        with self.lock:
            killed = self.killed = self.state == "kill" or self.broken is not None
            self.state = "dead"
            line, self.tasks = list(self.tasks), collections.deque()
            workers, self.workers = self.workers, []
            inputs, self._inputs = [*self._inputs, *(one for one in line if isinstance(one, Input))], set()
            self._room.notify_all()
        tasks = [one for one in line if isinstance(one, Task)] + [worker.task for worker in workers if worker.task is not None]
        self._dismiss(workers, killed)
        while self._news:
            self._news.popleft()()

        def error():
            made = BrokenProcessPool(self.broken) if self.broken else WorkerDied("the pool was terminated")
            made.__cause__ = self._cause
            return made

        for task in tasks:
            if self.broken is None and isinstance(task.job, concurrent.futures.Future) and task.job.cancel():
                continue
            task.ends(False, error())
        for one in inputs:
            one.ends(error())
        with self.lock:
            ring, self._ring = self._ring, None
            os.close(self._bell)
            os.close(ring)

    def _dismiss(self, workers, killed):
        for worker in workers:
            if killed:
                worker.process.terminate()
            # The end of its socket is its end.
            worker.line.hang_up()
        for worker in workers:
            if killed and not worker.has_ended(_PATIENCE):
                # It is stopped, or wants no end.
                worker.process.kill()
            worker.process.join()
            worker.close()
