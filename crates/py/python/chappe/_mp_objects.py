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

    def __new__(cls, value=1, name=None):
        return super().__new__(cls, name, value)

    def __reduce__(self):
        cls, (name, value) = super().__reduce__()
        return cls, (value, name)

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

    def __new__(cls, value=1, name=None, bound=None):
        made = super().__new__(cls, value, name)
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
        cls, (value, name) = super().__reduce__()
        return cls, (value, name, self._bound)


class Manager:
    """As `multiprocessing.Manager()`, without a server for what needs none: `dict`, locks, events, queues.

    A `dict` has room for `entries` entries, whose keys and values pickle to up to `key` and `value` bytes. `list`, `Namespace`, `Value`
    and `Array` are the standard manager's, whose process is started when one of them is first asked for.
    """

    def __init__(self, entries=4096, key=128, value=512, *, ctx=None):
        self._room, self._server = (entries, key, value), None
        if ctx is None:
            from .mp import get_context

            ctx = get_context()
        self._context = ctx

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

    def start(self, initializer=None, initargs=()):
        """As of the standard one, which calls the initializer in its server: here that is started when it is needed, without any."""
        if initializer is not None:
            raise TypeError("a manager without a server calls no initializer: give it to a SyncManager")

    def shutdown(self):
        """Ends the server, if one was started."""
        if self._server is not None:
            self._server.shutdown()

    def join(self, timeout=None):
        """Waits until the server has ended, if one was started."""
        if self._server is not None:
            self._server.join(timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_raised):
        self.shutdown()
