"""Pickles in which no descriptor goes as a number, which would be another file's elsewhere."""

import copyreg
import io
import pickle
import sys

__all__ = ["CONNECTIONS", "Table", "kept", "looked_at", "pickled"]

# The module that has made every connection of a process.
CONNECTIONS = "multiprocessing.connection"


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
        module = sys.modules.get(CONNECTIONS)
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
    """Refuses an object that holds a connection, where one can be; of a pickle that says so it is looked at closely."""
    # A field of each connection. By `find`: `in` takes bytes for a number first, and costs as much as a small pickle.
    if data.find(b"_readable") >= 0:
        pickled(obj, _TABLE, 5, lambda _: None)


def kept(obj):
    """The pickle of an object that stays in memory, for whichever process reads it."""
    data = pickle.dumps(obj, 5)
    if CONNECTIONS in sys.modules:
        looked_at(obj, data)
    return data
