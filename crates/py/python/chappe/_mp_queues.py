"""The queues of `chappe.mp`, on tubes.

The putter pickles an object, and puts it into the tube as one record: a putter that is killed in the middle has put it, or has not, and a getter
that is killed has taken it, or has not. An object that is longer than a record goes by way of a file, whose name is the record. Objects that an
unbounded queue has no room for stay with the process that put them, whose thread sends them on. They are in a store as well (`_mp_stores.py`): if
that process has died, a getter that finds the queue empty takes the store over.
"""

import collections
import os
import pickle
import queue
import tempfile
import threading
import time
import weakref
from multiprocessing import queues as _standard
from multiprocessing import util

from . import _chappe
from ._chappe import Words
from ._mp_lines import dumps
from ._mp_stores import LONG, Store, adopted, directory, key, path_of
from .errors import _UNPICKLED, Disconnected, NoSpace, _log, _named
from .tubes import Tube, _memory

__all__ = ["JoinableQueue", "Queue"]

_SLOTS, _SIZE = 1024, 2048
# How often a getter looks for stores whose owners have died: while there are stores, and while there are none.
_TURN, _TURN_WITHOUT = 0.1, 1.0
# A record is a pickle, whose first byte says so; or this byte and the path of a file that has it.
_PICKLED, _FILE = 0x80, b"\1"
_loads = pickle.loads


def _written(data):
    """The record for an object's pickle."""
    if len(data) <= _SIZE:
        return data
    handle, path = tempfile.mkstemp(dir=directory())
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError as error:
        os.unlink(path)
        raise NoSpace(error.errno, f"an object of {len(data)} bytes for a queue: {error.strerror} in {directory()}") from error
    return _FILE + path.encode()


def _read(record):
    """The object of a file that a record names."""
    path = record[1:].decode()
    with open(path, "rb") as file:
        data = file.read()
    os.unlink(path)
    return pickle.loads(data)


# The queues of this process. A child that is forked, however, has none of what waits: that is its parent's.
_queues = weakref.WeakSet()


def _forget():
    for made in list(_queues):
        made._forget()


os.register_at_fork(after_in_child=_forget)


class Queue(_standard.Queue):
    """As `multiprocessing.Queue`; it goes on when a process is killed while it puts or gets."""

    # Of one whose constructor raised, which is printed all the same.
    _tube = None

    def __init__(self, maxsize=0, *, ctx=None, _tube=None, _key=None):
        self._maxsize = max(maxsize, 0)
        # What tells it from all other queues, and where its stores are, if it has any.
        self._key = _key or key()
        self._folder = path_of(self._key)
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
        self._forget()
        _queues.add(self)

    def _forget(self):
        # Records, each with the store that it is in as well: this process's, and those of processes that have died.
        self._waiting, self._found = collections.deque(), collections.deque()
        self._changed = threading.Condition(threading.Lock())
        self._store = self._thread = None
        self._waited_for = False

    def put(self, obj, block=True, timeout=None):
        """Puts an object; queue.Full if there was no room in time. What does not pickle is told at once."""
        try:
            data = dumps(obj)
        except _UNPICKLED as error:
            raise _named(error, f"{self!r} carries what pickles") from error
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
                if self._waiting or not self._try_send(record):
                    store = self._store
                    if store is None or store.end > LONG:
                        store = self._store = Store(self._folder)
                    store.add(record)
                    self._waiting.append((record, store))
                    if self._thread is None:
                        self._start()
        except (TimeoutError, queue.Full):
            if record[:1] == _FILE:
                os.unlink(record[1:])
            raise queue.Full from None

    def _start(self):
        self._thread = threading.Thread(target=self._feed, daemon=True, name="QueueFeederThread")
        self._thread.start()
        if not self._waited_for:
            self._waited_for = True
            util.Finalize(self, Queue._drained, (self._changed, self._waiting), exitpriority=-5)

    @staticmethod
    def _drained(changed, waiting):
        # Objects that were found may stay in their store, for the next process that finds it.
        with changed:
            changed.wait_for(lambda: not waiting)

    def _feed(self):
        while True:
            with self._changed:
                line = self._waiting or self._found
                while line and self._try_send(line[0][0]):
                    self._sent(*line.popleft())
                self._changed.notify_all()
                if not self._waiting and not self._found:
                    self._thread = None
                    return
            # Room first: then no wait comes between what is sent and what its store says of it.
            try:
                slot = self._tube._reserve()
            except Disconnected:
                # This process is one that receives: so it ends, and has given up its tubes. What is left is in its store.
                return
            with self._changed:
                line = self._waiting or self._found
                if not line:
                    # `cancel_join_thread` has come between.
                    slot.give_up()
                    continue
                record, store = line.popleft()
                _memory(slot._at()[0], len(record), True)[:] = record
                slot.commit(len(record))
                self._sent(record, store)

    def _sent(self, record, store):
        store.take(record)
        if store.is_empty():
            store.close()
            if store is self._store:
                self._store = None

    def _adopt(self):
        """Sends on what processes that have died had put, and the queue had no room for. Answers whether there are any stores."""
        stores, any_left = adopted(self._folder)
        for store in stores:
            records = store.records()
            if not records:
                store.close()
                continue
            _log(
                f"process {store.pid} died with {len(records)} objects that a queue had no room for: they are put for it; "
                "the first of them may have been put already"
            )
            with self._changed:
                self._found.extend((record, store) for record in records)
                if self._thread is None:
                    self._start()
        return any_left

    def _wait(self, timeout):
        """A record, of whomever; TimeoutError."""
        if self._maxsize:
            return self._tube.recv(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            turn = _TURN if self._adopt() else _TURN_WITHOUT
            left = None if end is None else max(end - time.monotonic(), 0)
            try:
                return self._tube.recv(turn if left is None else min(turn, left))
            except TimeoutError:
                if left is not None and left <= turn:
                    raise

    def get(self, block=True, timeout=None):
        """Gets an object; queue.Empty if there was none in time."""
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        record = self._try_recv()
        if record is None:
            try:
                record = self._wait(timeout if block else 0)
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
        self._drained(self._changed, self._waiting)

    def cancel_join_thread(self):
        """What is not in the queue yet is lost."""
        with self._changed:
            for store in {id(store): store for _, store in self._waiting}.values():
                store.close()
            self._waiting.clear()
            self._store = None
            self._changed.notify_all()

    def __repr__(self):
        return f"<chappe.mp.{type(self).__name__} of {self._tube!r}>"

    def __reduce__(self):
        return _queue, (type(self), self._maxsize, self._tube, self._key)


def _queue(cls, maxsize, tube, called):
    return cls(maxsize, _tube=tube, _key=called)


class JoinableQueue(Queue, _standard.JoinableQueue):
    """As `multiprocessing.JoinableQueue`."""

    def __init__(self, maxsize=0, *, ctx=None, _tube=None, _key=None, _rest=None):
        from ._mp_objects import Condition

        self._count, self._done = _rest or (Words(), Condition())
        super().__init__(maxsize, _tube=_tube, _key=_key)

    def put(self, obj, block=True, timeout=None):
        """As of a queue; and it is one more that is to be done."""
        try:
            data = dumps(obj)
        except _UNPICKLED as error:
            raise _named(error, f"{self!r} carries what pickles") from error
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
        return _joinable, (type(self), self._maxsize, self._tube, self._key, (self._count, self._done))


def _joinable(cls, maxsize, tube, called, rest):
    return cls(maxsize, _tube=tube, _key=called, _rest=rest)


