"""Stores: what an unbounded queue has no room for, in shared memory, until it has.

Each process that puts more than there is room for has a file for each such queue, in a directory of that queue's:

    | where the first record is | where the last one ends | size, record | size, record | ...

The owner adds a record, and then moves the end; it moves the beginning once the record is in the queue. Each is one store of a word, so
an owner that is killed has done it, or has not. If the owner is killed after it has sent a record and before it has moved the beginning,
the record comes twice, and the log has said that it was put for the dead. The owner holds a lock of the open file, which goes when the
process ends, as a child that it forks closes its own: a process that can take that lock has found an orphan, and owns it from then on.
A file that has grown long is followed by another.

A file gets its name once it is whole and locked: none is taken for an orphan before, and a process that is killed before leaves no file. In a full
file system, in one without nameless files (O_TMPFILE), and without /proc, records stay in the process alone.
"""

import fcntl
import mmap
import os
import secrets
import tempfile
import threading
import weakref

__all__ = ["LONG", "Store", "adopted", "directory", "key", "path_of"]

_FIRST, _END, _HEAD = 0, 1, 16
_SIZE = 1 << 16
# Where the last record of a file ends that another one should follow.
LONG = 1 << 24


def directory():
    """That of this user: files of queues."""
    base = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
    made = os.path.join(base, f"chappe-py-{os.getuid()}")
    os.makedirs(made, mode=0o700, exist_ok=True)
    return made


def key():
    """What a queue's directory is called: that of no other queue, ever."""
    return f"queue-{secrets.token_hex(12)}"


def path_of(called):
    """The directory of a queue's stores, which is there as long as there are some."""
    return os.path.join(directory(), called)


def _listed(folder):
    """The stores of a queue. Without one there is no directory: a process that is killed before it names its first file leaves an empty one."""
    try:
        names = os.listdir(folder)
        if not names:
            os.rmdir(folder)
        return names
    except OSError:
        return []


# Those of this process.
_stores: "weakref.WeakSet[Store]" = weakref.WeakSet()


def _begin():
    # A pid alone may be that of a process that has died.
    global _ours, _adopting
    _ours, _adopting = f"{os.getpid()}-{secrets.token_hex(4)}-", threading.Lock()


# No process is forked between the opening of a file and its place in a store, or while one is closed: a child knows all that it has open, and
# closes nothing else that has got the same number since. A finalizer may need it in the thread that has it.
_handles = threading.RLock()


def _forked():
    try:
        # A lock is its file's as long as anybody has that open, and these are the parent's.
        for store in list(_stores):
            store.forget()
        _begin()
    finally:
        _handles.release()


_begin()
os.register_at_fork(before=_handles.acquire, after_in_parent=_handles.release, after_in_child=_forked)


def _called():
    return f"{_ours}{secrets.token_hex(4)}"


def adopted(folder):
    """Those of a queue's stores whose owners have died, which are this process's from now on; and whether there are any stores."""
    if not _listed(folder):
        return [], False
    with _adopting:
        names = _listed(folder)
        return list(_orphans(folder, names)), bool(names)


def _orphans(folder, names):
    for name in names:
        if name.startswith(_ours):
            continue
        path = os.path.join(folder, name)
        with _handles:
            try:
                handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # One that another process was quicker to take has another name by now, or none.
                mine = os.path.join(folder, _called())
                os.rename(path, mine)
            except OSError:
                os.close(handle)
                continue
            found = Store(folder, handle, mine, name.split("-")[0])
        yield found


class Store:
    """One of them. Used by its owner alone, one thread at a time."""

    def __init__(self, folder, handle=None, path=None, pid=None):
        self.pid, self._folder = pid, folder
        self._handle, self._path, self._memory = handle, path, None
        _stores.add(self)
        # Where the last record ends, as the file says it, too.
        self.end = _HEAD
        if handle is None:
            self._make()
        else:
            self._map(os.fstat(handle).st_size)
            self.end = self._words[_END]

    def _make(self):
        try:
            with _handles:
                self._handle = os.open(directory(), os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
            self._grow(_SIZE)
            self._words[_FIRST] = self._words[_END] = _HEAD
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._name()
        except OSError:
            self.close()

    def _name(self):
        self._path = os.path.join(self._folder, _called())
        for last in (False, False, True):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            try:
                # Only with a directory's number the call follows the link in /proc; a whole path needs no directory.
                os.link(f"/proc/self/fd/{self._handle}", self._path, src_dir_fd=self._handle)
                return
            except FileNotFoundError:
                # The process that was done with the last of the other files has removed the directory.
                if last:
                    raise

    def _grow(self, size):
        # The memory is there before it is written to: a write without it would be the process's end.
        os.posix_fallocate(self._handle, 0, size)
        self._map(size)

    def _map(self, size):
        self._unmap()
        self._memory, self._size = mmap.mmap(self._handle, size), size
        self._view = memoryview(self._memory)
        self._words = self._view[:_HEAD].cast("Q")

    def _unmap(self):
        if self._memory is not None:
            self._words.release()
            self._view.release()
            self._memory.close()
            self._memory = None

    def add(self, record):
        """One more record. Without room for it there is no store any more."""
        if self._handle is None:
            return
        data = len(record).to_bytes(8, "little") + record
        at = self.end
        end = at + len(data)
        if end > self._size:
            try:
                self._grow(max(2 * self._size, end))
            except OSError:
                self.close()
                return
        self._memory[at:end] = data
        self._words[_END] = self.end = end

    def take(self, record):
        """The first record is in the queue."""
        if self._handle is not None:
            self._words[_FIRST] += 8 + len(record)

    def is_empty(self):
        """Whether all records are in the queue."""
        return self._handle is None or self._words[_FIRST] == self._words[_END]

    def records(self):
        """Those that are in it."""
        made, at, end = [], self._words[_FIRST], self._words[_END]
        while at < end:
            size = int.from_bytes(self._memory[at : at + 8], "little")
            made.append(self._memory[at + 8 : at + 8 + size])
            at += 8 + size
        return made

    def close(self):
        """It is no longer needed."""
        self._unmap()
        if self._handle is not None:
            if self._path is not None:
                try:
                    os.unlink(self._path)
                except FileNotFoundError:
                    pass
            self._close_handle()
        try:
            os.rmdir(self._folder)
        except OSError:
            # Others' are there, or nothing was ever made.
            pass

    def forget(self):
        """Gives the file up: a process that finds it may take it over."""
        self._unmap()
        self._close_handle()

    def _close_handle(self):
        with _handles:
            handle, self._handle = self._handle, None
            if handle is not None:
                os.close(handle)

    __del__ = forget
