import concurrent.futures
import multiprocessing.pool
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional

__all__ = ["Pool", "ProcessPoolExecutor", "ThreadPool"]

ThreadPool = multiprocessing.pool.ThreadPool

class Pool(multiprocessing.pool.Pool):
    def __init__(
        self,
        processes: Optional[int] = None,
        initializer: Optional[Callable[..., object]] = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: Optional[int] = None,
        context: Any = None,
        *,
        on_death: str = "again",
    ) -> None: ...
    def pids(self) -> list[int]: ...
    def apply_async(
        self,
        func: Callable[..., Any],
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] = {},
        callback: Optional[Callable[[Any], object]] = None,
        error_callback: Optional[Callable[[BaseException], object]] = None,
    ) -> multiprocessing.pool.AsyncResult[Any]: ...
    def imap(
        self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: Optional[int] = 1
    ) -> multiprocessing.pool.IMapIterator[Any]: ...
    def imap_unordered(
        self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: Optional[int] = 1
    ) -> multiprocessing.pool.IMapIterator[Any]: ...
    def close(self) -> None: ...
    def terminate(self) -> None: ...
    def join(self) -> None: ...

class ProcessPoolExecutor(concurrent.futures.ProcessPoolExecutor):
    def __init__(
        self,
        max_workers: Optional[int] = None,
        mp_context: Any = None,
        initializer: Optional[Callable[..., object]] = None,
        initargs: Iterable[Any] = (),
        *,
        max_tasks_per_child: Optional[int] = None,
        on_death: str = "again",
    ) -> None: ...
    def pids(self) -> list[int]: ...
    def terminate_workers(self) -> None: ...
    def kill_workers(self) -> None: ...
