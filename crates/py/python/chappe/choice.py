"""Waiting for several things at once."""

from typing import Any, NamedTuple

from ._chappe import _select
from .errors import Disconnected

__all__ = ["Choice", "select"]


class Choice(NamedTuple):
    """What a choice came to: the number of the arm, and what it gave: a permit, a lock, a record, a moment, or None."""

    index: int
    value: Any


def select(*arms, timeout=None):
    """Waits until one of several things can be done, does that one alone, and answers which, with what it gave.

    An arm is `pool.acquire`, `lock.acquire`, `semaphore.down`, `tube.recv`, `tube.get`, `(tube.send, data)`, `(tube.put, object)`,
    `subscription.recv` (of a `Broadcast`: ready for what its filter wants, and when all publishers have gone), `arrival.wait` (of
    `arrival = barrier.arrive()`, which stands whatever is chosen), `clock.recv`, a file that is to be read, or `(file, "w")`. Of several that can be done each is
    as likely. Named arms are in one arena.

    Raises TimeoutError if none could be done in time, Disconnected if the arm chosen is a tube whose other end has gone (of a subscription
    SenderDied first, once, if one of its publishers has not ended well).

    >>> import chappe
    >>> stop, jobs = chappe.Semaphore(value=0), chappe.Tube()
    >>> jobs.put({"epoch": 1})
    >>> choice = chappe.select(stop.down, jobs.get, timeout=1)
    >>> choice.index, choice.value
    (1, {'epoch': 1})
    """
    chosen = _select(_given(arms), timeout)
    if chosen is None:
        raise TimeoutError("nothing to choose was ready in time")
    return _made(arms, chosen)


def _given(arms):
    """The arms, as the compiled part takes them."""
    given = []
    for arm in arms:
        if isinstance(arm, tuple) and len(arm) == 2:
            encode = getattr(getattr(arm[0], "__self__", None), "_encode", None)
            if encode is not None:
                arm = (arm[0], encode(arm[0].__name__, arm[1]))
        else:
            as_arm = getattr(getattr(arm, "__self__", None), "_arm", None)
            if as_arm is not None:
                arm = as_arm(arm.__name__)
        given.append(arm)
    return given


def _made(arms, chosen):
    """What the choice came to."""
    index, how, value = chosen
    if how == "ended":
        raise Disconnected(32, f"arm {index} of the choice: the other end of the tube has gone, or it was removed")
    if how == "record":
        value = arms[index].__self__._decode(arms[index].__name__, value)
    return Choice(index, value)
