"""Tubes: bounded channels of records between processes, with and without copies."""

import atexit
import functools
import os
import pickle
import struct
import sys
import weakref
from pickle import dumps

from . import _chappe
from ._chappe import unconnected
from ._pickles import looked_at
from .errors import _UNPICKLED, Disconnected, SenderDied, _named

__all__ = ["Borrowed", "Reserved", "Tube"]

# A pickled object: this byte, the pickle. With buffers: the other one, how many, the length of the pickle and of each; the pickle;
# each buffer, at a multiple of 8.
_PLAIN, _BUFFERS = b"\0", b"\1"


# Tubes of this process: at its end they are given up, so that a process that ends in an orderly way is not taken for dead.
_open = weakref.WeakSet()
# `multiprocessing` tells us of the ends of its children.
_handed_on = False
# Whether this is a child of `multiprocessing` whose status says that it has failed.
_has_failed = False


def _leave():
    # What ends a child of `multiprocessing`: before 3.13 that is still being raised; and what the interpreter has printed the traceback of,
    # where no prompt has gone on since.
    raised = sys.exc_info()[1]
    failed = _has_failed or raised is not None
    if isinstance(raised, SystemExit):
        failed = raised.code not in (None, 0)
    if getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1"):
        failed = True
    for tube in list(_open):
        tube._leave(failed)


def _leave_with_child(_=None):
    # After what queues have yet to send.
    sys.modules["multiprocessing.util"].Finalize(None, _leave, exitpriority=-100)


def _see_to_children():
    global _handed_on
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not _handed_on:
        _handed_on = True
        _leave_with_child()
        # A child that is forked forgets all finalizers before it begins.
        util.register_after_fork(_leave_with_child, _leave_with_child)
        _see_status(sys.modules["multiprocessing.process"].BaseProcess)


def _see_status(cls):
    # From 3.13 on a child's finalizers run when its exception has been dealt with: then its status says whether there was one.
    bootstrap = cls._bootstrap

    @functools.wraps(bootstrap)
    def seen(*arguments, **named):
        global _has_failed
        status = bootstrap(*arguments, **named)
        _has_failed = status != 0
        return status

    cls._bootstrap = seen


atexit.register(_leave)
os.register_at_fork(before=_see_to_children)


def _memory(at, size, writable):
    """A view of so many bytes at an address, which the arena never gives up."""
    import ctypes

    view = memoryview((ctypes.c_ubyte * size).from_address(at)).cast("B")
    return view if writable else view.toreadonly()


class _InPlace:
    """What both ways to look at a record in place have in common."""

    __slots__ = ("_it", "_made", "_timeout", "_token", "_tube")

    def __init__(self, tube, timeout):
        self._tube, self._timeout = tube, timeout
        self._it = self._made = self._token = None

    def _view(self, writable, length=None):
        at, size = self._it._at()
        tube = self._tube
        if tube.dtype is None:
            self._made = _memory(at, size if length is None else length, writable)
            return self._made
        made, self._token = tube._arrays(at, size, writable)
        return made

    def _gone(self):
        if self._token is not None:
            self._token[0] = False
        if self._made is not None:
            self._made.release()
        self._it = self._made = self._token = None


class Reserved(_InPlace):
    """A slot of a tube: `with tube.reserve() as a:` sends what was written to `a`, unless the block raises."""

    __slots__ = ("_length",)

    def __init__(self, tube, length, timeout):
        super().__init__(tube, timeout)
        size = self._length = tube.size
        if length is None:
            return
        if not 0 <= length <= size:
            raise ValueError(f"a record of tube `{tube.name}` has up to {size} bytes, not {length}")
        if tube.dtype is not None and length != size:
            raise ValueError(f"each record of tube `{tube.name}` has {size} bytes, not {length}")
        self._length = length

    def __enter__(self):
        self._it = self._tube._reserve(self._timeout)
        return self._view(True, self._length)

    def __exit__(self, raised, *_rest):
        it = self._it
        try:
            self._gone()
        finally:
            if raised is None:
                it.commit(self._length)
            else:
                it.give_up()


class Borrowed(_InPlace):
    """A record where it lies: `with tube.borrow() as a:` receives it, unless the block raises: then it comes once more."""

    __slots__ = ("again",)

    def __enter__(self):
        self._it = self._tube._borrow(self._timeout)
        self.again = self._it.again
        return self._view(False)

    def __exit__(self, raised, *_rest):
        it = self._it
        try:
            self._gone()
        finally:
            if raised is None:
                it.release()
            else:
                it.put_back()


def _made(cls, name, dtype, shape, schema=None):
    return cls(name, dtype=dtype, shape=shape, schema=schema)


class _Closing:
    """What is closed at the end of its `with`."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, *_raised):
        self.close()


class _Receiving(_Closing):
    """What gives records until nobody sends any more."""

    __slots__ = ()

    def __iter__(self):
        """Records, until all senders have gone; SenderDied if one of them has not ended well."""
        while True:
            try:
                yield self.recv()
            except SenderDied:
                raise
            except Disconnected:
                return


# Of the class itself: `super()` makes an object for each call.
_send, _try_send = _chappe.Tube.send, _chappe.Tube.try_send


def _come(tube, most, timeout):
    """Records that are there, so many at most; if there is none, the next one."""
    at_once, come = _chappe.Tube.try_recv, []
    try:
        while len(come) < most:
            record = at_once(tube)
            if record is None:
                break
            come.append(record)
        if not come:
            come.append(_chappe.Tube.recv(tube, timeout))
    except (Disconnected, TimeoutError) as why:
        return come, why
    return come, None


def _answered(tube, asked, timeout):
    size, why = asked.size, None
    while why is None and not asked.enough:
        ends_in = asked.ends_in
        limits = [limit for limit in (timeout, ends_in) if limit is not None]
        come, why = _come(tube, 512, min(limits, default=None))
        if isinstance(why, TimeoutError) and ends_in is not None and (timeout is None or ends_in < timeout):
            # A window has ended.
            why = None
        yield from asked.add(b"".join(record[:size] for record in come))
    yield from asked.finish()
    if isinstance(why, (SenderDied, TimeoutError)):
        raise why


class Tube(_Receiving, _chappe.Tube):
    """A bounded channel of records between any number of processes, of up to `slots` records of up to `size` bytes.

    `send` and `recv` carry bytes; `put` and `get` any object that pickles, its large buffers beside the pickle. With a `dtype` (and a
    `shape`) each record is an array of numpy; a process that opens the tube with another one gets `Mismatch`. A structured `dtype` without a shape is
    the tube's schema: `chappe show` prints it, programs in other languages open the tube by it, and `recv` gives one record. `schema=False`
    makes a tube of such records without one; `schema` as text (`"price: f64, sym: str[8]"`) one of records that stay bytes. Over a schema,
    `recv(where="price > $limit", limit=100)` receives what an expression wants. `reserve` and `borrow` are for records where they lie, without a copy.

    What is sent is received at least once; twice only if a receiver died with it. When all senders have gone or died, receivers get
    what is there, and then `Disconnected`; iterating ends there. If one of them has not ended well they get `SenderDied` first, once,
    which iterating raises: it was killed, left by `os._exit`, or by an exception that nobody caught, or by `sys.exit` of a status other
    than 0 (in a child of `multiprocessing`). A process that ends otherwise has ended well, with or without `close()`.

    >>> import chappe
    >>> tube = chappe.Tube(slots=8, size=64)
    >>> tube.send(b"a record"); tube.put(["an", "object"])
    >>> tube.recv(), tube.get()
    (b'a record', ['an', 'object'])
    >>> with tube.reserve(length=5) as slot:
    ...     slot[:] = b"hello"
    >>> with tube.borrow() as record:
    ...     bytes(record)
    b'hello'
    """

    def __new__(
        cls,
        name=None,
        slots=None,
        size=None,
        *,
        dtype=None,
        shape=(),
        kind="mpmc",
        drops=False,
        schema=None,
        create=None,
    ):
        called, align, fields = None, 8, None
        if dtype is not None:
            from ._arrays import InSlots, described, layout

            if isinstance(schema, str):
                raise TypeError("the dtype is the schema: give one of them")
            dtype, shape, called, wanted = layout(dtype, shape)
            if size is not None and size != wanted:
                raise ValueError(f"records of {dtype} and shape {shape} have {wanted} bytes, not {size}")
            size, align = wanted, 64
            fields = described(dtype, shape, schema)
            if fields is not None:
                called = None
        elif isinstance(schema, str):
            fields = schema
        elif schema:
            raise TypeError("a schema is text, or made of a structured dtype: give `dtype`, too")
        tube = super().__new__(
            cls, name, slots, size, kind=kind, drops=drops, align=align, called=called, schema=fields, create=create
        )
        tube.dtype, tube.shape, tube._described = dtype, shape, schema
        if dtype is not None:
            tube._arrays = InSlots(tube.name, dtype, shape, _memory)
        _open.add(tube)
        _see_to_children()
        return tube

    def send(self, data, timeout=None):
        """Sends a record: bytes, whatever has the buffer protocol, or an array if the tube has a dtype.

        Waits while there is no room, at most `timeout` seconds: TimeoutError then, Disconnected if all receivers have gone.
        """
        super().send(self._encode("send", data), timeout)

    def try_send(self, data):
        """Sends a record if there is room now; answers whether."""
        return super().try_send(self._encode("send", data))

    def recv(self, timeout=None, *, where=None, **params):
        """Receives a record: bytes, or an array if the tube has a dtype.

        Waits for one, at most `timeout` seconds: TimeoutError then, Disconnected if there is none and all senders have gone.

        With `where`, the next record for which an expression over the tube's schema holds (the guide's chapter on queries); `$name` in it is a
        parameter, given by name. A tube gives each record to one receiver: those that come first and for which it does not hold are
        received too, and dropped, as by `chappe recv --where`. A `Broadcast` gives each subscriber what it wants. ValueError tells what is
        wrong with the expression, with the column.
        """
        return self._decode("recv", super().recv(timeout, where, params))

    def query(self, text, /, timeout=None, **params):
        """The answer to a question over this tube's records, row by row, each a dict, in the language of `chappe query`.

        `query("where px > $least select sym, sum(qty) as q by sym every 10s", least=10)`: what of each record, or sums over all or over windows
        (the guide's chapter on queries). All records are received, as by `recv`. Rows of windows come when those end, sums of all when all senders have
        gone; then it ends. One that has not ended well: SenderDied, behind what came. TimeoutError when no record has come for `timeout` seconds,
        behind the sums of those that have. Times are ints of nanoseconds since 1970; no value is None. ValueError tells what is wrong with the
        question, before any record is received.
        """
        if self.schema is None:
            raise ValueError(f"tube `{self.name}` has no schema that a question could be over")
        return _answered(self, _chappe.Query(self.schema, text, params), timeout)

    def recv_redelivered(self, timeout=None, *, where=None, **params):
        """As `recv`, with whether a receiver died that had it before."""
        data, again = super().recv_redelivered(timeout, where, params)
        return self._decode("recv", data), again

    def try_recv(self, *, where=None, **params):
        """A record if there is one now (for which `where` holds: others are dropped); else None."""
        data = super().try_recv(where, params)
        return None if data is None else self._decode("recv", data)

    def put(self, obj, timeout=None):
        """Sends any object that pickles. As `send` otherwise; ValueError if it takes more than `size` bytes."""
        _send(self, self._pickled(obj), timeout)

    def try_put(self, obj):
        """Sends an object if there is room now; answers whether."""
        return _try_send(self, self._pickled(obj))

    def get(self, timeout=None):
        """Receives an object that was `put`. As `recv` otherwise."""
        return self._decode("get", super().recv(timeout))

    def reserve(self, length=None, timeout=None):
        """A slot to write a record into where receivers will read it: a context manager that gives a writable view or array.

        What it holds at first is anything. It belongs to the thread. If the process dies, nothing was sent.
        """
        return Reserved(self, length, timeout)

    def borrow(self, timeout=None):
        """A record where it lies: a context manager that gives a view or array to be read.

        It belongs to the thread. If the process dies, or the block raises, it comes once more, and `again` says so.
        """
        return Borrowed(self, timeout)

    def _encode(self, how, data):
        if how == "put":
            return self._pickled(data)
        if self.dtype is not None:
            from ._arrays import checked

            return checked(self, data)
        return data

    def _pickled(self, obj):
        if self.dtype is not None:
            raise TypeError(f"tube `{self.name}` carries arrays of {self.dtype}: send them")
        buffers = []
        try:
            data = dumps(obj, 5, buffer_callback=buffers.append)
            if not buffers:
                return unconnected(obj, _PLAIN, data) or _PLAIN + looked_at(obj, data)
            looked_at(obj, data)
        except _UNPICKLED as error:
            raise _named(error, f"tube `{self.name}` carries what pickles") from error
        return _with_buffers(data, [b.raw() for b in buffers])

    def _decode(self, how, data):
        if how == "get":
            return _unpickled(data)
        if self.dtype is not None:
            from ._arrays import array

            return array(data, self.dtype, self.shape)
        return data

    def __reduce__(self):
        dtype = None if self.dtype is None else self.dtype
        return _made, (type(self), self._sent(), dtype, self.shape, self._described)


def _with_buffers(data, raw):
    head = struct.pack(f"<xxxIQ{len(raw)}Q", len(raw), len(data), *[len(r) for r in raw])
    parts, at = [_BUFFERS, head, data], 1 + len(head) + len(data)
    for part in raw:
        gap = -at % 8
        parts += [bytes(gap), part]
        at += gap + len(part)
    return b"".join(parts)


def _unpickled(record):
    if record[:1] == _PLAIN:
        return pickle.loads(memoryview(record)[1:])
    if record[:1] != _BUFFERS:
        raise pickle.UnpicklingError("this record was not put: receive it by `recv`")
    count, size = struct.unpack_from("<IQ", record, 4)
    lengths = struct.unpack_from(f"<{count}Q", record, 16)
    at, whole = 16 + 8 * count, memoryview(record)
    data = whole[at : at + size]
    at += size
    buffers = []
    for length in lengths:
        at += -at % 8
        # A copy of its own: what is unpickled may be written to.
        buffers.append(bytearray(whole[at : at + length]))
        at += length
    return pickle.loads(data, buffers=buffers)
