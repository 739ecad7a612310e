from multiprocessing import synchronize as _standard
from typing import Optional, Union

from typing_extensions import Self

from . import _chappe
from ._chappe import _Name

__all__ = ["Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"]

class Lock(_chappe.Lock, _standard.Lock):  # type: ignore[misc]
    def acquire(self, block: bool = True, timeout: Optional[float] = None) -> bool: ...  # type: ignore[override]

class RLock(_chappe.RLock, _standard.RLock):  # type: ignore[misc]
    def acquire(self, block: bool = True, timeout: Optional[float] = None) -> bool: ...  # type: ignore[override]

class Condition(_chappe.Condition, _standard.Condition):  # type: ignore[misc]
    def acquire(self, block: bool = True, timeout: Optional[float] = None) -> bool: ...  # type: ignore[override]
    def __new__(cls, lock: Union[_chappe.Lock, _chappe.RLock, None] = None, name: _Name = None) -> Self: ...

class Event(_chappe.Event, _standard.Event): ...  # type: ignore[misc]
class Barrier(_chappe.Barrier, _standard.Barrier): ...  # type: ignore[misc]

class Semaphore(_chappe.Semaphore, _standard.Semaphore):  # type: ignore[misc]
    def acquire(self, block: bool = True, timeout: Optional[float] = None) -> bool: ...  # type: ignore[override]
    def __new__(cls, value: int = 1, name: _Name = None) -> Self: ...
    def get_value(self) -> int: ...

class BoundedSemaphore(Semaphore, _standard.BoundedSemaphore):  # type: ignore[misc]
    def __new__(cls, value: int = 1, name: _Name = None, bound: Optional[int] = None) -> Self: ...
    def release(self, n: int = 1) -> None: ...
    def __exit__(self, *_raised: object) -> None: ...
