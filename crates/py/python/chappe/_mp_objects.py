"""The synchronisation objects of `chappe.mp`: those of the package, under the standard names and with the standard arguments and errors.

Each is a child of the standard class, too, whose methods are all replaced.
"""

from multiprocessing import synchronize as _standard

from . import _chappe

__all__ = ["Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"]


class _Made:
    """Made by `__new__`: the standard classes' `__init__` makes what is not there."""

    __slots__ = ()
    __init__ = object.__init__


def _taken(acquire):
    """`acquire` with the standard arguments: a time that has been is no wait, also if it is -1."""

    def taken(self, block=True, timeout=None):
        if block and timeout is None:
            return acquire(self)
        return acquire(self, block, None if timeout is None else max(timeout, 0))

    taken.__name__, taken.__doc__ = "acquire", "As of the standard one: takes it, and answers whether it was had in time."
    return taken


class Lock(_Made, _chappe.Lock, _standard.Lock):
    """As `multiprocessing.Lock`; it comes back from a killed process. Only the process that holds it may release it."""

    acquire = _taken(_chappe.Lock.acquire)


class RLock(_Made, _chappe.RLock, _standard.RLock):
    """As `multiprocessing.RLock`; it comes back from a killed process."""

    acquire = _taken(_chappe.RLock.acquire)


class Condition(_Made, _chappe.Condition, _standard.Condition):
    """As `multiprocessing.Condition`."""

    acquire = _taken(_chappe.Condition.acquire)

    def __new__(cls, lock=None, name=None):
        return super().__new__(cls, RLock() if lock is None else lock, name)

    @property
    def _sleeping_count(self):
        # What the standard tests ask where it is kept in a semaphore.
        raise NotImplementedError


class Event(_Made, _chappe.Event, _standard.Event):
    """As `multiprocessing.Event`."""

    def __repr__(self):
        return f"<Event at {self.name} {'set' if self.is_set() else 'unset'}>"


class Barrier(_Made, _chappe.Barrier, _standard.Barrier):
    """As `multiprocessing.Barrier`; a waiter that dies breaks it."""


class Semaphore(_Made, _chappe.Semaphore, _standard.Semaphore):
    """As `multiprocessing.Semaphore`."""

    acquire = _taken(_chappe.Semaphore.acquire)

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


class BoundedSemaphore(Semaphore, _standard.BoundedSemaphore):
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
