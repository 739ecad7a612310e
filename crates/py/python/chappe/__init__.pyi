from typing import IO, Optional

from ._chappe import (
    Arrival as Arrival,
    Barrier as Barrier,
    Clock as Clock,
    Condition as Condition,
    Event as Event,
    Lock as Lock,
    Permit as Permit,
    Pool as Pool,
    RLock as RLock,
    RwLock as RwLock,
    Semaphore as Semaphore,
    after as after,
    remove as remove,
    set_label as set_label,
    tick as tick,
)
from .broadcasts import Broadcast as Broadcast, Subscription as Subscription
from .choice import Choice as Choice, select as select
from .errors import (
    BrokenBarrierError as BrokenBarrierError,
    Disconnected as Disconnected,
    InUse as InUse,
    Lost as Lost,
    Mismatch as Mismatch,
    NoSpace as NoSpace,
    NotFound as NotFound,
    OwnerDied as OwnerDied,
    OwnerDiedWarning as OwnerDiedWarning,
    PartyDied as PartyDied,
    Removed as Removed,
    SenderDied as SenderDied,
    Unsure as Unsure,
)
from .maps import Map as Map
from .tubes import Tube as Tube

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

def show(arena: str = "default", file: Optional[IO[str]] = None) -> None: ...
