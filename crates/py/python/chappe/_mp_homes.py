"""Where a manager's dictionaries (`_mp_containers.py`) have what they share: a lock, a count of insertions, and a directory of files.

Each process with one of the dictionaries has the directory locked (shared). The last manager or dictionary of a process removes it, unless another process has it locked, and the next manager
removes those of processes that were killed.
"""

import fcntl
import os
import secrets
import shutil
import threading
import weakref

from ._chappe import Words
from ._mp_stores import directory
from .errors import NoSpace

__all__ = ["Home"]

_PREFIX = "manager-"


class Home:
    """What the dictionaries of a manager have in common: the lock, the count of insertions, and the directory of files."""

    def __init__(self, room, name=None, lock=None, words=None):
        from ._mp_objects import Lock

        self.room, self.name = room, name or f"{_PREFIX}{secrets.token_hex(12)}"
        self.lock, self.words = lock or Lock(on_death="ignore"), words or Words()
        self.folder = os.path.join(directory(), self.name)
        with _homes_lock:
            if name is None:
                _sweep()
            _hold(self.folder)
            _homes[self.name] = self
        weakref.finalize(self, _leave, self.folder)

    def file(self, data):
        """The path of a new file that has this."""
        path = os.path.join(self.folder, secrets.token_hex(12))
        try:
            with open(path, "xb") as file:
                file.write(data)
        except OSError as error:
            text = f"a value of {len(data)} bytes for a manager's dictionary: {error.strerror} in {self.folder}"
            raise NoSpace(error.errno, text) from error
        return path.encode()

    def __reduce__(self):
        return _home, (self.room, self.name, self.lock, self.words)


def _home(room, name, lock, words):
    with _homes_lock:
        return _homes.get(name) or Home(room, name, lock, words)


# Those that there are in this process, and the directories that it has locked. No process is forked in between: what a child has open, it shares.
_homes, _held, _homes_lock = weakref.WeakValueDictionary(), {}, threading.RLock()
os.register_at_fork(
    before=_homes_lock.acquire, after_in_parent=_homes_lock.release, after_in_child=_homes_lock.release
)


def _hold(folder):
    while folder not in _held:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        fcntl.flock(handle, fcntl.LOCK_SH)
        # Another process may have removed it before it was locked.
        if os.path.exists(folder) and os.path.samestat(os.fstat(handle), os.stat(folder)):
            _held[folder] = handle
        else:
            os.close(handle)


def _leave(folder):
    with _homes_lock:
        # One that was unpickled meanwhile has it still in use.
        if os.path.basename(folder) not in _homes and folder in _held:
            os.close(_held.pop(folder))
            _remove_unused(folder)


def _remove_unused(folder):
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass
    finally:
        os.close(handle)


def _sweep():
    for name in os.listdir(directory()):
        path = os.path.join(directory(), name)
        if name.startswith(_PREFIX) and path not in _held:
            _remove_unused(path)
