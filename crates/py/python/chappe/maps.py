"""Maps: dictionaries that processes share."""

import pickle
from collections.abc import MutableMapping

from . import _chappe
from ._pickles import kept
from .errors import _UNPICKLED, _named

__all__ = ["Map"]


def _text(key):
    if not isinstance(key, str):
        raise TypeError(f"a key of this map is a string, not {type(key).__name__}")
    return key.encode()


def _raw(data):
    if isinstance(data, str):
        raise TypeError("keys and values of this map are bytes, not a string")
    return data


# What a map keeps, and what it is in Python: how a key and a value are written, and read.
_CODECS = {
    "pickle": (_text, lambda key: str(key, "utf-8"), kept, pickle.loads),
    "text": (_text, lambda key: str(key, "utf-8"), _text, lambda v: str(v, "utf-8")),
    "objects": (kept, pickle.loads, kept, pickle.loads),
    "bytes": (_raw, lambda key: key, _raw, lambda v: v),
}


def _made(cls, name, codec):
    return cls(name, codec=codec)


class Map(_chappe.Map, MutableMapping):
    """A dictionary of fixed room that processes share. No operation waits for another process; a process that is killed in the
    middle of a change has made it, or has not.

    Keys are strings, and values whatever pickles (`codec="pickle"`), strings (`"text"`, as `chappe map` in the shell has them) or
    both are bytes (`"bytes"`). With `"objects"` keys are whatever pickles, too: equal keys must pickle to the same bytes. It is made for at most `entries` entries, keys of up to `key` and values of up to `value` bytes.

    Raises NoSpace if it is full, ValueError if a key or a value is too long.

    >>> import chappe
    >>> done = chappe.Map(entries=100)
    >>> done["shard-7"] = {"rows": 1000}
    >>> done.update_value("count", lambda n: (n or 0) + 1)
    1
    >>> sorted(done.items())
    [('count', 1), ('shard-7', {'rows': 1000})]
    """

    def __new__(cls, name=None, entries=None, *, key=64, value=256, codec="pickle", create=None):
        if codec not in _CODECS:
            raise ValueError(f"a map's codec is one of {', '.join(_CODECS)}, not {codec!r}")
        made = super().__new__(cls, name, entries, key=key, value=value, create=create)
        made.codec = codec
        made._key, made._of_key, made._value, made._of_value = _CODECS[codec]
        return made

    def _written(self, value):
        # What does not pickle is told with the map's name.
        try:
            return self._value(value)
        except _UNPICKLED as error:
            raise _named(error, f"map `{self.name}`") from error

    def __getitem__(self, key):
        found = self._get(self._key(key))
        if found is None:
            raise KeyError(key)
        return self._of_value(found)

    def __setitem__(self, key, value):
        self._put(self._key(key), self._written(value))

    def __delitem__(self, key):
        if self._remove(self._key(key)) is None:
            raise KeyError(key)

    def __contains__(self, key):
        return self._get(self._key(key)) is not None

    def __iter__(self):
        return iter([self._of_key(key) for key, _ in self._items()])

    def __len__(self):
        return _chappe.Map.__len__(self)

    def __repr__(self):
        return _chappe.Map.__repr__(self)

    def items(self):
        """All entries, each as it was at one moment."""
        return [(self._of_key(key), self._of_value(value)) for key, value in self._items()]

    def values(self):
        """All values."""
        return [self._of_value(value) for _, value in self._items()]

    def keys(self):
        """All keys."""
        return list(self)

    def pop(self, key, *default):
        """Removes a key and answers its value; if several remove it at once, one of them gets the value."""
        had = self._remove(self._key(key))
        if had is not None:
            return self._of_value(had)
        if default:
            return default[0]
        raise KeyError(key)

    def popitem(self):
        """Removes some entry: the process that removes it gets it, and no other."""
        for key in self:
            value = self.pop(key, self)
            if value is not self:
                return key, value
        raise KeyError(f"map `{self.name}` is empty")

    def copy(self):
        """A dictionary of this process, of all entries, each as it was at one moment."""
        return dict(self.items())

    def setdefault(self, key, default=None):
        """The value of a key, which is `default` if nobody has written one."""
        return self._of_value(self._put_new(self._key(key), self._written(default))[0])

    def compare_exchange(self, key, expected, new):
        """Writes `new` if the value is `expected`; answers whether. Values are compared as what they are written as."""
        return self._swap(self._key(key), self._written(expected), self._written(new))

    def update_value(self, key, function, default=None):
        """Writes what `function` makes of the value (of `default`, if there is none), as one step; answers it.

        The function is called again each time that another process was faster.
        """
        written = self._key(key)
        while True:
            old = self._get(written)
            made = function(default if old is None else self._of_value(old))
            if self._swap(written, old, self._written(made)):
                return made

    def wait_changed(self, key=None, timeout=None):
        """Waits until the map, or one key, is changed after this call began; false: the time was up."""
        return self._changed(None if key is None else self._key(key), timeout)

    def __reduce__(self):
        return _made, (type(self), self._sent(), self.codec)
