r"""A manager's dictionary: one that grows, of keys and values of any size, without a server.

    level 0 | key -> record | ... | b"\0" -> the next level, which has four times the room, and so on
    record: kind, place in the order of insertion, then the value's pickle, or the path of a file that has it

A key is in one level. The value of a key that is there is changed by one swap of its record; a key that is new is added under a lock of the manager, in a level that
has room: so no two processes add it to two levels, and a process that is killed in the middle has added it, or has not. A key whose pickle is longer than a level's keys is there by a
digest, and its record has the key, too.

Whoever replaces or removes a record removes its file; a reader that finds no file any more reads the record again. A record whose value has proxies of a standard
manager in it holds them in that manager's server, until it is replaced or removed.
"""

import hashlib
import io
import os
import pickle
import threading
from collections.abc import MutableMapping
from multiprocessing import managers

from ._mp_homes import Home
from ._pickles import Table
from .errors import _UNPICKLED, NoSpace, _named
from .maps import Map

__all__ = ["Dict", "Manager"]

_NEXT = b"\0"
_FILE, _HOLDS = 1, 2
# Kind, and place in the order.
_HEAD = 9
_DIGEST = b"\2"


_TABLE = Table()


class _Dumps(pickle.Pickler):
    """Says whether there are proxies in what it pickles, and holds each."""

    held = ()

    def reducer_override(self, obj):
        if isinstance(obj, managers.BaseProxy):
            _tell(obj, "incref")
            self.held = (*self.held, obj)
        return NotImplemented


class _Loads(pickle.Unpickler):
    """Notes the proxies that it makes."""

    def __init__(self, file):
        super().__init__(file)
        self.proxies = []

    def find_class(self, module, name):
        found = super().find_class(module, name)
        if found is not managers.RebuildProxy:
            return found

        # Not of this object, which has the function: a cycle would keep the proxies.
        proxies = self.proxies

        def rebuilt(*arguments):
            made = found(*arguments)
            proxies.append(made)
            return made

        return rebuilt


def _tell(proxy, what):
    """Counts a use of what a proxy stands for, which is not this process's, or one less. A server that has ended counts nothing."""
    try:
        with proxy._Client(proxy._token.address, authkey=proxy._authkey) as connection:
            managers.dispatch(connection, None, what, (proxy._id,))
    except (OSError, EOFError):
        pass


class Dict(MutableMapping):
    """As a manager's `dict`. Keys that are equal must pickle to the same bytes. Iterations are over the entries of one moment."""

    # Of one whose constructor raised, which is printed all the same.
    _levels = ()

    def __init__(self, home, *given, _first=None, **named):
        self._home, self._levels = home, [_first or self._made(*home.room)]
        # The level that new keys go to.
        self._fills = self._levels[0]
        if given or named:
            self.update(*given, **named)

    def _made(self, entries, key, value):
        made = Map(entries=entries + 1, key=key, value=max(value, 128) + _HEAD, codec="bytes")
        made._put(_NEXT, b"")
        return made

    def _next(self):
        """Whether there was one more level than this handle knew."""
        link = self._levels[-1]._get(_NEXT) if self._levels else None
        if not link:
            return False
        self._levels.append(pickle.loads(link))
        return True

    def _found(self, stored):
        """The level and the record of a key; None and None."""
        at = 0
        while at < len(self._levels) or self._next():
            record = self._levels[at]._get(stored)
            if record is not None:
                return self._levels[at], record
            at += 1
        return None, None

    def _stored(self, key):
        try:
            into = io.BytesIO()
            pickler = pickle.Pickler(into, 4)
            pickler.dispatch_table = _TABLE
            # Equal keys are one, whether or not parts of them are the same object.
            pickler.fast = True
            pickler.dump(key)
        except _UNPICKLED as error:
            raise _named(error, f"{self!r} has keys that pickle") from error
        data = into.getvalue()
        hash(key)
        return data if len(data) <= self._home.room[1] else _DIGEST + hashlib.blake2b(data, digest_size=32).digest()

    def _written(self, stored, key, value):
        """What a record has of a value: its kind, and the rest."""
        into = io.BytesIO()
        pickler = _Dumps(into, 4)
        pickler.dispatch_table = _TABLE
        try:
            pickler.dump((key, value) if stored[:1] == _DIGEST else value)
        except BaseException as error:
            for proxy in pickler.held:
                _tell(proxy, "decref")
            if isinstance(error, _UNPICKLED):
                raise _named(error, f"{self!r} has values that pickle") from error
            raise
        data, kind = into.getvalue(), _HOLDS if pickler.held else 0
        if len(data) > max(self._home.room[2], 128):
            kind, data = kind | _FILE, self._home.file(data)
        return bytes([kind]), data

    def _data(self, record):
        """The pickle of a record; None if it is not the key's any more."""
        if not record[0] & _FILE:
            return record[_HEAD:]
        try:
            with open(record[_HEAD:], "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _dropped(self, record):
        """The record was replaced or removed, by this process."""
        if record[0] & _HOLDS and (data := self._data(record)) is not None:
            loads = _Loads(io.BytesIO(data))
            loads.load()
            for proxy in loads.proxies:
                _tell(proxy, "decref")
        if record[0] & _FILE:
            os.unlink(record[_HEAD:])

    def _entry(self, stored, record):
        """The key and the value of a record; None."""
        data = self._data(record)
        if data is None:
            return None
        made = pickle.loads(data)
        return made if stored[:1] == _DIGEST else (None, made)

    def _value(self, stored, record):
        while True:
            entry = self._entry(stored, record)
            if entry is not None:
                return entry[1]
            _, record = self._found(stored)
            if record is None:
                raise KeyError

    def __getitem__(self, key):
        stored = self._stored(key)
        _, record = self._found(stored)
        try:
            if record is not None:
                return self._value(stored, record)
        except KeyError:
            pass
        raise KeyError(key)

    def _swap(self, level, stored, old, kind, data):
        if not level._swap(stored, old, kind + old[1:_HEAD] + data):
            return False
        self._dropped(old)
        return True

    def __setitem__(self, key, value):
        stored = self._stored(key)
        kind, data = self._written(stored, key, value)
        while True:
            level, old = self._found(stored)
            if level is None:
                if self._add(stored, kind, data) is None:
                    return
            elif self._swap(level, stored, old, kind, data):
                return

    def _add(self, stored, kind, data):
        """Adds a key that is new; answers the record that is there, if it is not."""
        with self._home.lock:
            _, record = self._found(stored)
            if record is not None:
                return record
            record = kind + self._home.words.add(0, 1).to_bytes(8, "big") + data
            try:
                self._fills._put(stored, record)
            except NoSpace:
                self._fills = self._roomy()
                self._fills._put(stored, record)
        return None

    def _roomy(self):
        """A level with room: one of which a quarter is free, or a new one."""
        while self._next():
            pass
        for level in self._levels:
            if 4 * len(level) <= 3 * level.room[0]:
                return level
        entries, key, _ = self._levels[-1].room
        made = self._made(4 * (entries - 1), key, self._home.room[2])
        self._levels[-1]._put(_NEXT, pickle.dumps(made))
        self._levels.append(made)
        return made

    def _taken(self, stored):
        """Removes a key; the record that it had, or None."""
        while True:
            level, record = self._found(stored)
            if level is None or level._swap(stored, record, None):
                return record

    def __delitem__(self, key):
        record = self._taken(self._stored(key))
        if record is None:
            raise KeyError(key)
        self._dropped(record)

    def pop(self, key, *default):
        """Removes a key and answers its value; if several remove it at once, one of them gets the value."""
        stored = self._stored(key)
        record = self._taken(stored)
        if record is not None:
            value = self._value(stored, record)
            self._dropped(record)
            return value
        if default:
            return default[0]
        raise KeyError(key)

    def popitem(self):
        """Removes the entry that was added last: the process that removes it gets it, and no other."""
        for key, _ in reversed(self.items()):
            value = self.pop(key, self)
            if value is not self:
                return key, value
        raise KeyError("popitem(): dictionary is empty")

    def setdefault(self, key, default=None):
        """The value of a key, which is `default` if nobody has written one."""
        stored, written = self._stored(key), None
        while True:
            _, record = self._found(stored)
            if record is None:
                written = written or self._written(stored, key, default)
                record = self._add(stored, *written)
                if record is None:
                    return default
            try:
                value = self._value(stored, record)
            except KeyError:
                continue
            if written is not None:
                self._dropped(written[0] + bytes(8) + written[1])
            return value

    def _records(self):
        """All: the place in the order, the stored key, and the record."""
        made, at = {}, 0
        while at < len(self._levels) or self._next():
            made.update((stored, record) for stored, record in self._levels[at]._items() if stored != _NEXT)
            at += 1
        return sorted(made.items(), key=lambda entry: entry[1][1:_HEAD])

    def items(self):
        """All entries, each as it was at one moment, in the order in which they were added."""
        made = []
        for stored, record in self._records():
            entry = self._entry(stored, record)
            while entry is None and record is not None:
                _, record = self._found(stored)
                entry = record and self._entry(stored, record)
            if entry is not None:
                made.append((entry[0] if stored[:1] == _DIGEST else pickle.loads(stored), entry[1]))
        return made

    def keys(self):
        """All keys."""
        return [key for key, _ in self.items()]

    def values(self):
        """All values."""
        return [value for _, value in self.items()]

    def copy(self):
        """A dictionary of this process, of all entries."""
        return dict(self.items())

    _getvalue = copy

    def clear(self):
        """Removes all entries that are there."""
        for stored, _ in self._records():
            record = self._taken(stored)
            if record is not None:
                self._dropped(record)

    def __contains__(self, key):
        return self._found(self._stored(key))[0] is not None

    def __iter__(self):
        return iter(self.keys())

    def __len__(self):
        at = 0
        while at < len(self._levels) or self._next():
            at += 1
        return sum(len(level) - 1 for level in self._levels)

    def __repr__(self):
        return f"<{type(self).__name__} of {self._levels[0] if self._levels else None!r}>"

    def __str__(self):
        return str(self.copy())

    def __reduce__(self):
        return _dict, (type(self), self._home, self._levels[0])


def _dict(cls, home, first):
    return cls(home, _first=first)


class Manager(managers.SyncManager):
    """As `multiprocessing.Manager()`, without a server for what needs none: `dict`, locks, events, queues.

    A `dict` begins with room for `entries` entries, whose keys and values pickle to up to `key` and `value` bytes, and grows; a larger value
    is in a file. `list`, `Namespace`, `Value`, `Array`, `Pool`, and what was registered, are the standard manager's, whose process is started when the first of
    them is asked for. All of them may be in each other.
    """

    def __init__(self, entries=64, key=128, value=512, *, ctx=None):
        if ctx is None:
            from .mp import get_context

            ctx = get_context()
        super().__init__(ctx=ctx)
        self._home, self._starting = Home((entries, key, value)), threading.Lock()
        self._process = None

    def dict(self, *given, **named):
        """A dictionary whose keys and values are whatever pickles."""
        return Dict(self._home, *given, **named)

    def _started(self):
        with self._starting:
            if self._state.value == managers.State.INITIAL:
                self.start()

    def _create(self, typeid, /, *args, **kwds):
        self._started()
        return super()._create(typeid, *args, **kwds)

    @property
    def address(self):
        """The server's."""
        self._started()
        return self._address

    def shutdown(self):
        """Ends the server, if one was started."""

    def __enter__(self):
        return self


def _of_context(name):
    def made(self, *arguments, **named):
        return getattr(self._ctx, name)(*arguments, **named)

    made.__name__, made.__doc__ = name, "That of the context: it needs no server."
    return made


for _name in "Lock RLock Condition Semaphore BoundedSemaphore Event Barrier Queue JoinableQueue".split():
    setattr(Manager, _name, _of_context(_name))
