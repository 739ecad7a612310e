"""The queues of `chappe.mp`, on tubes.

An object is pickled by who puts it, and goes into the tube as one record: whoever is killed in the middle has put it or not, and one who
is killed while it gets has taken it or not. What is longer than a record goes by way of a file, whose name is the record. What an unbounded
queue has no room for stays with the process that put it, whose thread sends it on.
"""

import collections
import io
import os
import pickle
import queue
import tempfile
import threading
from copyreg import dispatch_table
from multiprocessing import util
from multiprocessing.reduction import ForkingPickler

from . import _chappe
from ._chappe import Words
from .tubes import Tube

__all__ = ["JoinableQueue", "Queue"]

_SLOTS, _SIZE = 1024, 2048
# A record is a pickle, whose first byte says so; or this byte and the path of a file that has it.
_PICKLED, _FILE = 0x80, b"\1"
# Types whose pickles nobody can have told `multiprocessing` to make otherwise.
_PLAIN = frozenset((int, str, bytes, float, bool, type(None)))


class _Pickler(pickle.Pickler):
    """As `ForkingPickler`, which makes a table of its own for each object."""

    dispatch_table = collections.ChainMap(ForkingPickler._extra_reducers, dispatch_table)


def _dumps(obj, dumps=pickle.dumps):
    if type(obj) in _PLAIN:
        return dumps(obj, 4)
    into = io.BytesIO()
    _Pickler(into, 4).dump(obj)
    return into.getvalue()


def _directory():
    base = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
    made = os.path.join(base, f"chappe-py-{os.getuid()}")
    os.makedirs(made, mode=0o700, exist_ok=True)
    return made


_loads = pickle.loads


def _written(data):
    """The record for an object's pickle."""
    if len(data) <= _SIZE:
        return data
    handle, path = tempfile.mkstemp(dir=_directory())
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return _FILE + path.encode()


def _read(record):
    """The object of a file that a record names."""
    path = record[1:].decode()
    with open(path, "rb") as file:
        data = file.read()
    os.unlink(path)
    return pickle.loads(data)


class Queue:
    """As `multiprocessing.Queue`; it goes on, whoever is killed while it puts or gets."""

    def __init__(self, maxsize=0, *, ctx=None, _tube=None):
        self._maxsize = max(maxsize, 0)
        self._tube = _tube or Tube(slots=self._maxsize or _SLOTS, size=_SIZE)
        # Past what a tube does for other kinds of records.
        self._try_send = _chappe.Tube.try_send.__get__(self._tube)
        self._try_recv = _chappe.Tube.try_recv.__get__(self._tube)
        self._after_fork()
        util.register_after_fork(self, Queue._after_fork)

    def _after_fork(self):
        # Each of them counts at both ends, so that nobody is told that the others have gone.
        self._tube.attach(send=True, recv=True)
        self._closed = False
        self._waiting = collections.deque()
        self._changed = threading.Condition(threading.Lock())
        self._thread = None

    def put(self, obj, block=True, timeout=None):
        """Puts an object; queue.Full if there was no room in time. What does not pickle is told at once."""
        data = _dumps(obj)
        # The commonest case at once. What waits already is sent before.
        if self._closed or self._waiting or len(data) > _SIZE or not self._try_send(data):
            self._put(data, block, timeout)

    def _put(self, data, block, timeout):
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        record = _written(data)
        try:
            # What waits already is sent before.
            if not self._waiting and self._try_send(record):
                return
            if self._maxsize:
                if not block:
                    raise queue.Full
                self._tube.send(record, timeout)
                return
            with self._changed:
                if self._waiting or not self._tube.try_send(record):
                    self._waiting.append(record)
                    self._changed.notify()
                    if self._thread is None:
                        self._start()
        except (TimeoutError, queue.Full):
            if record[:1] == _FILE:
                os.unlink(record[1:])
            raise queue.Full from None

    def _start(self):
        self._thread = threading.Thread(target=self._feed, daemon=True, name="QueueFeederThread")
        self._thread.start()
        util.Finalize(self, Queue._drained, (self._thread,), exitpriority=-5)

    @staticmethod
    def _drained(thread):
        thread.join()

    def _feed(self):
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    return
                record = self._waiting[0]
            self._tube.send(record)
            with self._changed:
                if self._waiting:
                    self._waiting.popleft()

    def get(self, block=True, timeout=None):
        """Gets an object; queue.Empty if there was none in time."""
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        record = self._try_recv()
        if record is None:
            if not block:
                raise queue.Empty
            try:
                record = self._tube.recv(timeout)
            except TimeoutError:
                raise queue.Empty from None
        return _loads(record) if record[0] == _PICKLED else _read(record)

    def get_nowait(self):
        """As `get(False)`."""
        return self.get(False)

    def put_nowait(self, obj):
        """As `put(obj, False)`."""
        return self.put(obj, False)

    def qsize(self):
        """How many objects are in it, those aside that a process has no room for yet."""
        return len(self._tube)

    def empty(self):
        """Whether none is in it."""
        return len(self._tube) == 0

    def full(self):
        """Whether there is no room."""
        return len(self._tube) >= self._tube.slots

    def close(self):
        """This process puts nothing more."""
        self._closed = True

    def join_thread(self):
        """Waits until all that this process has put is in the queue."""
        assert self._closed, f"Queue {self!r} not closed"
        thread = self._thread
        if thread is not None:
            thread.join()

    def cancel_join_thread(self):
        """What is not in the queue yet may be lost when this process ends."""
        with self._changed:
            self._waiting.clear()

    def __repr__(self):
        return f"<chappe.mp.{type(self).__name__} of {self._tube!r}>"

    def __reduce__(self):
        return _queue, (type(self), self._maxsize, self._tube)


def _queue(cls, maxsize, tube):
    return cls(maxsize, _tube=tube)


class JoinableQueue(Queue):
    """As `multiprocessing.JoinableQueue`."""

    def __init__(self, maxsize=0, *, ctx=None, _tube=None, _rest=None):
        from ._mp_objects import Condition

        self._count, self._done = _rest or (Words(), Condition())
        super().__init__(maxsize, _tube=_tube)

    def put(self, obj, block=True, timeout=None):
        """As of a queue; and it is one more that is to be done."""
        data = _dumps(obj)
        self._count.add(0, 1)
        try:
            self._put(data, block, timeout)
        except BaseException:
            self._count.add(0, -1)
            raise

    def task_done(self):
        """One more is done. A worker that is killed before it says so leaves it undone: for that, `Pool`."""
        with self._done:
            if self._count[0] == 0:
                raise ValueError("task_done() called too many times")
            if self._count.add(0, -1) == 1:
                self._done.notify_all()

    def join(self):
        """Waits until all that was put is done."""
        with self._done:
            self._done.wait_for(lambda: self._count[0] == 0)

    def __reduce__(self):
        return _joinable, (type(self), self._maxsize, self._tube, (self._count, self._done))


def _joinable(cls, maxsize, tube, rest):
    return cls(maxsize, _tube=tube, _rest=rest)


