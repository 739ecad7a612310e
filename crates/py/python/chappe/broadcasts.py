"""Broadcast tubes: each subscriber gets each message that it wants."""

from . import _chappe
from .tubes import _Closing, _open, _Receiving, _see_to_children

__all__ = ["Broadcast", "Subscription"]


def _made(cls, name, dtype, schema):
    return cls(name, dtype=dtype, schema=schema)


class Broadcast(_Closing, _chappe.Broadcast):
    """A bounded tube that gives each message to every subscription that wants it, of any process.

    Messages are bytes of up to `size`; with a structured `dtype` each is one record of numpy, and the dtype is the tube's schema, as of a
    `Tube`. `schema` is the same as text (`"price: f64, sym: str[8]"`), for messages that stay bytes.

    A message is visible to all at one instant, or, if its publisher is killed before that, to none. When all publishers have gone,
    subscribers get what is there and then `Disconnected`, or first, once, `SenderDied` if one of them has not ended well. A subscription
    whose process is killed has gone: nobody waits for it.

    >>> import chappe
    >>> trades = chappe.Broadcast(schema="price: i32, qty: i32")
    >>> dear = trades.subscribe("price > $limit", limit=100)
    >>> for price in (99, 101, 102):
    ...     trades.send(price.to_bytes(4, "little") + bytes(4))
    >>> int.from_bytes(dear.recv()[:4], "little")
    101
    >>> dear.set(limit=102)                             # for what is there already, too
    >>> dear.try_recv() is None
    True
    """

    def __new__(cls, name=None, slots=None, size=None, *, dtype=None, schema=None, subscribers=16, create=None):
        fields, align = schema, 8
        if dtype is not None:
            from ._arrays import described, layout

            if isinstance(schema, str):
                raise TypeError("the dtype is the schema: give one of them")
            dtype, _, _, wanted = layout(dtype, ())
            if size is not None and size != wanted:
                raise ValueError(f"records of {dtype} have {wanted} bytes, not {size}")
            size, align = wanted, 64
            fields = described(dtype, (), schema)
        elif schema is not None and not isinstance(schema, str):
            raise TypeError(f"a schema is text, or a dtype as `dtype`, not {schema!r}")
        tube = super().__new__(
            cls, name, slots, size, subscribers=subscribers, align=align, schema=fields, create=create
        )
        tube.dtype, tube.shape, tube._described = dtype, (), schema
        _open.add(tube)
        _see_to_children()
        return tube

    def send(self, data, timeout=None):
        """Sends a message to every subscription that wants it: bytes, or a record if the tube has a dtype.

        Waits while a subscription that blocks has no room, at most `timeout` seconds: TimeoutError then. A message that nobody wants is
        not even copied.
        """
        super().send(self._encode(data), timeout)

    def try_send(self, data):
        """Sends a message if no subscription that blocks is in the way; answers whether."""
        return super().try_send(self._encode(data))

    def subscribe(self, where=None, /, *, slow="block", **params):
        """A `Subscription` to what is sent from now on: to all of it, or to messages for which an expression over the schema holds.

        The expression is a subset of CEL (the guide's chapter on queries); `$name` in it is a parameter, given by name. It travels to the
        publishers: for a message that does not pass, nothing is copied and this process is not woken. ValueError tells what is wrong with
        it, with the column.

        `slow` says what becomes of messages for which this is too slow: "block" (publishers wait), "drop-oldest", "drop-newest:N".
        """
        return Subscription(self, self._subscribe(where, params, slow))

    def _encode(self, data):
        if self.dtype is None:
            return data
        from ._arrays import checked

        return checked(self, data)

    def __reduce__(self):
        return _made, (type(self), self._sent(), self.dtype, self._described)


class Subscription(_Receiving):
    """The messages of a `Broadcast` that one subscriber wants: `subscribe` makes it. It belongs to its process, and to one thread at a time.

    It goes with `close()`, with its last reference, or when its process is killed. Iterating ends when all publishers have gone.

    `chappe.select(stop.down, subscription.recv)` waits for it and for other things; `await aio.recv(subscription)` in a coroutine.
    """

    def __init__(self, tube, ear):
        self._tube, self._ear = tube, ear

    @property
    def name(self):
        """The name of its tube."""
        return self._tube.name

    def recv(self, timeout=None):
        """The next message that it wants: bytes, or a record if the tube has a dtype.

        Waits for one, at most `timeout` seconds: TimeoutError then, Disconnected if there is none and all publishers have gone.
        """
        return self._decode("recv", self._ear.recv(timeout))

    def try_recv(self):
        """A message if there is one now; else None."""
        data = self._ear.try_recv()
        return None if data is None else self._decode("recv", data)

    def set(self, **params):
        """Gives parameters of its filter other values: for what is sent from here on, and for what is there already."""
        self._ear.set(**params)

    @property
    def lost(self):
        """How many messages it has lost because it was too slow."""
        return self._ear.lost

    def close(self):
        """Ends it: nobody waits for it any more. A task that awaits a message of it gets ValueError."""
        # Copies of its descriptor become readable: tasks that wait for them try again, and are told.
        self._ear.close()

    def _descriptor(self):
        return self._ear._descriptor()

    def _rearm(self):
        return self._ear._rearm()

    def _arm(self, how):
        # What a choice takes as its arm.
        if how != "recv":
            raise TypeError(f"of a subscription only `recv` is an arm of a choice, not `{how}`")
        return self._ear.recv

    def _decode(self, _how, data):
        if self._tube.dtype is None:
            return data
        from ._arrays import array

        return array(data, self._tube.dtype, ())

    def __len__(self):
        """How many messages are there for it."""
        return len(self._ear)

    def __bool__(self):
        return True

    def __repr__(self):
        return repr(self._ear)
