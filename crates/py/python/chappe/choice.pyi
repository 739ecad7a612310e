from typing import Any, NamedTuple, Optional

__all__ = ["Choice", "select"]

class Choice(NamedTuple):
    index: int  # type: ignore[assignment]
    value: Any

def select(*arms: Any, timeout: Optional[float] = None) -> Choice: ...
