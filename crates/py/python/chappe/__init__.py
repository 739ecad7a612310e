"""Pools, semaphores, locks, tubes and maps for the processes of a Linux machine, that survive kill -9.

>>> import chappe
>>> gpus = chappe.Pool(None, ["cuda:0", "cuda:1"])      # a name instead of None: for any process of this user
>>> with gpus.acquire(timeout=5) as gpu:                # comes back when it is left, or the process is killed
...     print(gpu)
cuda:0

`Pool`, `Semaphore`, `Lock`, `RLock`, `RwLock`, `Condition`, `Event`, `Barrier`, `Tube`, `Broadcast` and `Map` have a name, and then any process that
may use their arena has them, too; or they have none, and belong to this process, those that it forks, and those that they are
pickled to. `select` waits for several at once, `tick` and `after` make clocks to wait for. `chappe.aio` has all of it for asyncio;
`chappe.mp` stands in for `multiprocessing`.

A wait gives up the GIL, and Ctrl-C ends it. What goes wrong is an exception of `chappe.errors`, each a child of the standard one.
"""

import os as _os

from ._chappe import (
    Arrival,
    Barrier,
    Clock,
    Condition,
    Event,
    Lock,
    Permit,
    Pool,
    RLock,
    RwLock,
    Semaphore,
    _before_fork,
    _show,
    after,
    remove,
    set_label,
    tick,
)
from .broadcasts import Broadcast, Subscription
from .choice import Choice, select
from .errors import (
    BrokenBarrierError,
    Disconnected,
    InUse,
    Lost,
    Mismatch,
    NoSpace,
    NotFound,
    OwnerDied,
    OwnerDiedWarning,
    PartyDied,
    Removed,
    SenderDied,
    Unsure,
)
from .maps import Map
from .tubes import Tube

__all__ = [
    "Arrival",
    "Barrier",
    "Broadcast",
    "BrokenBarrierError",
    "Choice",
    "Clock",
    "Condition",
    "Disconnected",
    "Event",
    "InUse",
    "Lock",
    "Lost",
    "Map",
    "Mismatch",
    "NoSpace",
    "NotFound",
    "OwnerDied",
    "OwnerDiedWarning",
    "PartyDied",
    "Permit",
    "Pool",
    "RLock",
    "Removed",
    "RwLock",
    "Semaphore",
    "SenderDied",
    "Subscription",
    "Tube",
    "Unsure",
    "after",
    "remove",
    "select",
    "set_label",
    "show",
    "tick",
]

_os.register_at_fork(before=_before_fork)


def show(arena="default", file=None):
    """Prints what there is in an arena: name, kind, state, and how many wait.

    Raises NotFound if there is no such arena.
    """
    for name, kind, waiting, state in _show(arena):
        print(f"{name}: {kind}, {waiting} waiting, {state}", file=file)
