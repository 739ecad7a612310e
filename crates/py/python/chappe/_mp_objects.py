"""The synchronisation objects of `chappe.mp`: those of the package, under the standard names and with the standard errors."""

from . import _chappe
from .maps import Map

__all__ = ["Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "Manager", "RLock", "Semaphore"]


class Lock(_chappe.Lock):
    """As `multiprocessing.Lock`; it comes back from a killed process. Only the process that holds it may release it."""


class RLock(_chappe.RLock):
    """As `multiprocessing.RLock`; it comes back from a killed process."""


class Condition(_chappe.Condition):
    """As `multiprocessing.Condition`."""

    def __new__(cls, lock=None, name=None):
        return super().__new__(cls, RLock() if lock is None else lock, name)

    @property
    def _sleeping_count(self):
        # What the standard tests ask where it is kept in a semaphore.
        raise NotImplementedError


class Event(_chappe.Event):
    """As `multiprocessing.Event`."""

    def __repr__(self):
        return f"<Event at {self.name} {'set' if self.is_set() else 'unset'}>"


class Barrier(_chappe.Barrier):
    """As `multiprocessing.Barrier`; a waiter that dies breaks it."""


class Semaphore(_chappe.Semaphore):
    """As `multiprocessing.Semaphore`."""

    def __new__(cls, name=None, value=1):
        return super().__new__(cls, name, value)

    def get_value(self):
        """How many wake-ups are saved."""
        return self.value

    # The standard module's queues, which the standard executor has, ask these of their semaphore.
    @property
    def _semlock(self):
        return self

    def _is_zero(self):
        return self.value == 0

    def _get_value(self):
        return self.value


class BoundedSemaphore(Semaphore):
    """As `multiprocessing.BoundedSemaphore`: ValueError if it is released more often than acquired."""

    def __new__(cls, name=None, value=1, bound=None):
        made = super().__new__(cls, name, value)
        made._bound = value if bound is None else bound
        return made

    def release(self, n=1):
        """As of the standard one."""
        if self.value + n > self._bound:
            raise ValueError("Semaphore released too many times")
        super().release(n)

    def __exit__(self, *_raised):
        self.release()

    def __reduce__(self):
        cls, (name, value) = super().__reduce__()
        return cls, (name, value, self._bound)


class Manager:
    """As `multiprocessing.Manager()`, without a server for what needs none: `dict`, locks, events, queues.

    A `dict` has room for `entries` entries, whose keys and values pickle to up to `key` and `value` bytes. `list`, `Namespace`, `Value`
    and `Array` are the standard manager's, whose process is started when one of them is first asked for.
    """

    def __init__(self, context, entries=4096, key=128, value=512):
        self._context, self._room, self._server = context, (entries, key, value), None

    def dict(self, *given, **named):
        """A `chappe.Map` whose keys and values are whatever pickles."""
        entries, key, value = self._room
        made = Map(entries=entries, key=key, value=value, codec="objects")
        made.update(*given, **named)
        return made

    def Queue(self, maxsize=0):
        """A queue."""
        return self._context.Queue(maxsize)

    JoinableQueue = Queue

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Event", "Barrier"):
            return getattr(self._context, name)
        if self._server is None:
            from multiprocessing.managers import SyncManager

            self._server = SyncManager(ctx=self._context)
            self._server.start()
        return getattr(self._server, name)

    def shutdown(self):
        """Ends the server, if one was started."""
        if self._server is not None:
            self._server.shutdown()

    def __enter__(self):
        return self

    def __exit__(self, *_raised):
        self.shutdown()
