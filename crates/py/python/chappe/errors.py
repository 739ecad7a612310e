"""What the package raises, and warns of. Each is a child of the standard exception that says the same."""

import pickle
from threading import BrokenBarrierError

__all__ = [
    "BrokenBarrierError",
    "Disconnected",
    "InUse",
    "Lost",
    "Mismatch",
    "NoSpace",
    "NotFound",
    "NotHeld",
    "OwnerDied",
    "OwnerDiedWarning",
    "PartyDied",
    "Removed",
    "SenderDied",
    "Unsure",
]


class NotFound(FileNotFoundError):
    """There is no object of this name; the message lists those that are there."""


class NotHeld(RuntimeError, ValueError, AssertionError):
    """A lock was to be released, or its condition to be used, and is not held here: what `threading` and `multiprocessing` raise then."""


class Mismatch(TypeError, ValueError):
    """The object is there, and is of another kind, type, shape or size."""


class Removed(RuntimeError):
    """The object was removed while it was in use."""


class InUse(RuntimeError):
    """The object is in use; the message says by which process."""


class Disconnected(BrokenPipeError, EOFError):
    """The other end of a tube has gone, or died."""


class SenderDied(Disconnected):
    """All senders of a tube have gone, and one of them died, or failed, in the middle: what came may be a part. Raised once."""


class NoSpace(OSError):
    """An arena, a map, or the memory for them is full. Nothing was changed."""


class OwnerDied(RuntimeError):
    """The process that held a lock died in its section: what the lock guards may be half-changed."""


class OwnerDiedWarning(RuntimeWarning):
    """As OwnerDied, where a warning is enough."""


class Lost(RuntimeError):
    """What was held on an engine is held no longer, and may be another's: this process was stopped or cut off, or it was taken away."""


class Unsure(RuntimeError):
    """An engine's answer was lost, and it is not known whether it was done: look before it is done again."""


class PartyDied(RuntimeError):
    """
    A round of a barrier turned without a party that died: the wait is over, and each of the others is told once. A barrier that Python has made
    breaks instead: this one was made by the command, or by a program of another language.
    """


def _log(text):
    """A line in the log `chappe`: of deaths, whatever else is done about them. Without a handler nothing is printed."""
    import logging

    log = logging.getLogger("chappe")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    log.warning("%s", text)


# What pickle raises of an object that it cannot write; all of them take a text.
_UNPICKLED = (pickle.PicklingError, TypeError, AttributeError)


def _named(error, what):
    """The same exception, with the name of the object that it came to; one that would not be the same is as it was."""
    if type(error) in _UNPICKLED:
        return type(error)(f"{what}: {error}")
    return error


def _lock(cls, name, on_death):
    return cls(name, on_death=on_death)


def _rw_lock(cls, name, readers):
    return cls(name, readers=readers)
