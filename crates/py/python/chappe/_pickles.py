"""Pickles in which no descriptor goes as a number, which would be another file's elsewhere."""

import copyreg
import io
import pickle
import sys
from pickle import dumps

from ._chappe import unconnected

__all__ = ["Table", "kept", "pickled"]


def _refused(obj):
    raise TypeError(
        f"a {type(obj).__name__} is a descriptor of this process, and cannot go along: an argument or a result of `mp.Pool`, "
        "`mp.ProcessPoolExecutor` and `mp.Process`, and an object of `mp.Queue` may hold a Connection or a socket itself"
    )


class Table(dict):
    """How a pickler reduces objects of a type: as `copyreg` has it, but a connection, whose own way is its number."""

    def __missing__(self, cls):
        found = copyreg.dispatch_table.get(cls)
        if found is not None:
            return found
        module = sys.modules.get("multiprocessing.connection")
        if module is not None and issubclass(cls, module._ConnectionBase):
            return _refused
        raise KeyError(cls)


_TABLE = Table()


def pickled(obj, table, protocol, buffer_callback=None):
    """The pickle of an object by a table."""
    into = io.BytesIO()
    pickler = pickle.Pickler(into, protocol, buffer_callback=buffer_callback)
    # Of the pickler itself: one of a class of its own would not be looked at.
    pickler.dispatch_table = table
    pickler.dump(obj)
    return into.getvalue()


def looked_at(obj, data):
    """The pickle of an object, if it holds no connection: TypeError otherwise."""
    if unconnected(obj, b"", data) is None:
        # It may be a text alone.
        pickled(obj, _TABLE, 5, lambda _: None)
    return data


def kept(obj):
    """The pickle of an object that stays in memory, for whichever process reads it."""
    return looked_at(obj, dumps(obj, 5))
