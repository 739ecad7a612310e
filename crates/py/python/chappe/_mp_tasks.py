"""What workers are given (`_mp_workers.py`): calls one by one, and inputs of calls; and how their jobs are told.

A job is a result of the standard pool, or a future with the same `_set(index, (well, value))`.
"""

import concurrent.futures
import logging
from multiprocessing.pool import _helper_reraises_exception  # type: ignore[attr-defined]

__all__ = ["Input", "Task", "tell"]


class Task:
    """A call for a job: a standard result, or a future. It is pickled once, for as many workers as it takes."""

    __slots__ = ("call", "deaths", "index", "input", "job", "message", "number")

    def __init__(self, number, job, index, call, input=None):
        self.number, self.job, self.index, self.call, self.input = number, job, index, call, input
        self.message, self.deaths = None, 0

    def begins(self):
        """Whether nobody has cancelled it."""
        future = self.job
        return not isinstance(future, concurrent.futures.Future) or future.running() or future.set_running_or_notify_cancel()

    def ends(self, well, value):
        """Tells the job."""
        self.call = None
        if self.message is not None:
            self.message.close()
        tell(self.job, self.index, well, value)


def tell(job, index, well, value):
    try:
        job._set(index, (well, value))
    except concurrent.futures.InvalidStateError:
        # It was cancelled meanwhile.
        pass
    except Exception:
        # A callback of a result, which is there all the same.
        logging.getLogger("concurrent.futures").exception("exception calling callback for %r", job)
        job._cache.pop(job._job, None)
        job._pool = None
        job._event.set()


class Input:
    """Calls that are read as there is room for them: those that the standard pool's task thread takes."""

    __slots__ = ("calls", "job", "left", "read", "waiting")

    def __init__(self, job, calls):
        self.job, self.calls, self.read, self.waiting = job, iter(calls), 0, 0
        # How many results the job counts on, where it knows that beforehand.
        self.left = getattr(job, "_number_left", None)

    def next(self):
        """The next call and its place; None at the end. Its exception, if the input raised one, instead of the call."""
        if self.read == self.left:
            return None
        call = next(self.calls, None)
        if call is None:
            return None
        _, index, function, arguments, named = call
        return index, arguments[0] if function is _helper_reraises_exception else (function, arguments, named)

    def ends(self, error=None):
        """Tells the job that there is no more; `error`: because of that."""
        if self.left is None:
            if error is not None:
                tell(self.job, self.read, False, error)
                self.read += 1
            self.job._set_length(self.read)
            return
        error = error or ValueError("the input ended before as many came as its `len` had said")
        while self.read < self.left:
            tell(self.job, self.read, False, error)
            self.read += 1
