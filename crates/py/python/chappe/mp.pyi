from multiprocessing import (
    Array as Array,
    AuthenticationError as AuthenticationError,
    BufferTooShort as BufferTooShort,
    Pipe as Pipe,
    Process as Process,
    ProcessError as ProcessError,
    RawArray as RawArray,
    RawValue as RawValue,
    TimeoutError as TimeoutError,
    Value as Value,
    active_children as active_children,
    allow_connection_pickling as allow_connection_pickling,
    cpu_count as cpu_count,
    current_process as current_process,
    freeze_support as freeze_support,
    get_all_start_methods as get_all_start_methods,
    get_logger as get_logger,
    get_start_method as get_start_method,
    log_to_stderr as log_to_stderr,
    parent_process as parent_process,
    set_executable as set_executable,
    set_forkserver_preload as set_forkserver_preload,
    set_start_method as set_start_method,
)
from multiprocessing import reducer as reducer
from multiprocessing.queues import SimpleQueue as _SimpleQueue
from typing import Any, Optional

from . import _mp_pools as pool
from ._mp_containers import Manager as Manager
from ._mp_objects import (
    Barrier as Barrier,
    BoundedSemaphore as BoundedSemaphore,
    Condition as Condition,
    Event as Event,
    Lock as Lock,
    RLock as RLock,
    Semaphore as Semaphore,
)
from ._mp_queues import JoinableQueue as JoinableQueue, Queue as Queue
from ._mp_pools import Pool as Pool, ProcessPoolExecutor as ProcessPoolExecutor
from ._mp_workers import WorkerDied as WorkerDied

__all__ = [
    "Array",
    "AuthenticationError",
    "Barrier",
    "BoundedSemaphore",
    "BufferTooShort",
    "Condition",
    "Event",
    "JoinableQueue",
    "Lock",
    "Manager",
    "Pipe",
    "Pool",
    "Process",
    "ProcessError",
    "ProcessPoolExecutor",
    "Queue",
    "RLock",
    "RawArray",
    "RawValue",
    "Semaphore",
    "SimpleQueue",
    "TimeoutError",
    "Value",
    "WorkerDied",
    "active_children",
    "allow_connection_pickling",
    "cpu_count",
    "current_process",
    "freeze_support",
    "get_all_start_methods",
    "get_context",
    "get_logger",
    "get_start_method",
    "log_to_stderr",
    "parent_process",
    "reducer",
    "set_executable",
    "set_forkserver_preload",
    "set_start_method",
]

def SimpleQueue() -> _SimpleQueue[Any]: ...
def get_context(method: Optional[str] = None) -> Any: ...
