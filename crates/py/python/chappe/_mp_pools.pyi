import concurrent.futures
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Optional

from typing_extensions import Self

__all__ = ["Pool", "ProcessPoolExecutor"]

class _Result:
    def __init__(
        self,
        futures: list[concurrent.futures.Future[Any]],
        made: Callable[[list[Any]], Any],
        callback: Optional[Callable[[Any], object]] = None,
        error_callback: Optional[Callable[[BaseException], object]] = None,
    ) -> None: ...
    def ready(self) -> bool: ...
    def successful(self) -> bool: ...
    def wait(self, timeout: Optional[float] = None) -> None: ...
    def get(self, timeout: Optional[float] = None) -> Any: ...

class _Items(Iterator[Any]):
    def __init__(self, futures: Iterable[concurrent.futures.Future[Any]]) -> None: ...
    def next(self, timeout: Optional[float] = None) -> Any: ...
    def __next__(self, timeout: Optional[float] = None) -> Any: ...

class Pool:
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
    def apply(self, func: Callable[..., Any], args: Iterable[Any] = (), kwds: Mapping[str, Any] = {}) -> Any: ...
    def apply_async(
        self,
        func: Callable[..., Any],
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] = {},
        callback: Optional[Callable[[Any], object]] = None,
        error_callback: Optional[Callable[[BaseException], object]] = None,
    ) -> _Result: ...
    def map(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: Optional[int] = None) -> list[Any]: ...
    def map_async(
        self,
        func: Callable[[Any], Any],
        iterable: Iterable[Any],
        chunksize: Optional[int] = None,
        callback: Optional[Callable[[Any], object]] = None,
        error_callback: Optional[Callable[[BaseException], object]] = None,
    ) -> _Result: ...
    def starmap(
        self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: Optional[int] = None
    ) -> list[Any]: ...
    def starmap_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: Optional[int] = None,
        callback: Optional[Callable[[Any], object]] = None,
        error_callback: Optional[Callable[[BaseException], object]] = None,
    ) -> _Result: ...
    def imap(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int = 1) -> _Items: ...
    def imap_unordered(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int = 1) -> _Items: ...
    def close(self) -> None: ...
    def terminate(self) -> None: ...
    def join(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

class ProcessPoolExecutor(concurrent.futures.Executor):
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
