"""Pools, mutexes, semaphores and tubes on an engine, etcd, that many machines share.

    from chappe.remote import Remote

    lab = Remote("@lab")                                  # of remotes.toml; or "etcd://h1,h2,h3/lab"
    with lab.acquire("gpu0", "gpu1", timeout=60) as gpu:   # whichever is free first
        for step in range(100):
            store.write(gpu.check(), train(step))          # the token; raises Lost if the permit is not certainly held

What is held goes with a lease, which a thread of the package renews. It is lost when this process is stopped or cut off for longer than the lease's time to
live, or when somebody takes it away: then another may hold it. So its token is had by `check` alone, which asks this machine's clock and nobody else. A permit is
an arm of `chappe.select`, which ends from the loss on. A forked child opens its own Remote. In a package that was built with the feature `remote`:
`pip install ./crates/py -C build-args="--features remote"`. See "Many machines" in the guide.
"""

from typing import NamedTuple

from .errors import OwnerDied

try:
    from ._chappe import Remote as _Remote
    from ._chappe import RemotePermit, RemoteReceiver, RemoteSender
except ImportError as e:
    raise ImportError('this package was built without `remote`: pip install ./crates/py -C build-args="--features remote"') from e

__all__ = ["Permit", "PoolInfo", "Receiver", "Record", "Remote", "Sender"]


class PoolInfo(NamedTuple):
    """A pool as it was at one moment."""

    permits: int
    held: int
    waiting: int


class Record(NamedTuple):
    """What was received. `again`: it was given to a receiver before, which did not finish with it."""

    bytes: bytes
    token: int
    again: bool


class Permit:
    """
    What is held: permits of a pool, or a mutex. A section that raises has not finished with a mutex, nor has one that nobody released before it was
    dropped, as by an exception that ends its function or the program: the next holder is told.
    """

    def __init__(self, held):
        self._held: RemotePermit = held

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is None:
            self._held.release()
        else:
            self._held.abandon()

    def __getattr__(self, name):
        """`which`, `name`, `indices`, `owner_died`, `check`, `fileno`, `left`, `consistent`, `release`, `abandon`: those of the compiled part."""
        return getattr(self._held, name)


class Sender:
    """
    A sender of a tube. While it is open, receivers wait for more. A section that raises has not finished, nor has one that nobody closed before it was
    dropped: receivers are told that a sender died.
    """

    def __init__(self, end):
        self._end: RemoteSender = end

    def send(self, record, timeout=None):
        """Sends a record: it is there, whole and once, when this returns. Waits while the tube is full."""
        self._end.send_all([record], timeout)

    def send_all(self, records, timeout=None):
        """Sends records in their order, many in one transaction."""
        self._end.send_all(list(records), timeout)

    def close(self):
        """It has finished."""
        self._end._close()

    def abandon(self):
        """It has not finished: receivers are told that a sender died."""
        self._end._close(True)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self._end._close(kind is not None)


class Receiver:
    """
    A receiver of a tube: an iterator over records. A section that raises has not finished with the last one, nor has one that nobody closed before it was
    dropped: it comes to another.
    """

    def __init__(self, end):
        self._end: RemoteReceiver = end

    def recv(self, timeout=None):
        """The next record; None at the end. It counts as done when what comes after those that came with it is asked for, or this is closed."""
        got = self._end._recv(timeout)
        return None if got is None else Record(bytes(got[0]), *got[1:])

    def close(self):
        """It has finished with what it was given."""
        self._end._close()

    def abandon(self):
        """It has not finished with what it was given last, which comes to another."""
        self._end._close(True)

    def check(self):
        """Whether what it was given last certainly comes to no other; raises Lost if not. Asks this machine's clock, and nobody else."""
        self._end.check()

    def __iter__(self):
        return iter(self.recv, None)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self._end._close(kind is not None)


class Remote(_Remote):
    """A namespace of an engine: `@NAME` of remotes.toml, `@` for that of CHAPPE_ON, or a URL. `label` is what others see of this process."""

    def look_at_pool(self, name):
        """What a pool is now."""
        return PoolInfo(*super().look_at_pool(name))

    def acquire(self, *pools, permits=1, timeout=None):
        """Waits for `permits` of one pool, or for one of whichever of several has one first."""
        return Permit(super().acquire(*pools, permits=permits, timeout=timeout))

    def lock(self, name, timeout=None, *, mends=False):
        """
        Waits for a mutex. If its last holder died: raises OwnerDied, and leaves the warning to the next; with `mends` returns it, `owner_died` says so,
        and `consistent` ends the warning.
        """
        guard = Permit(super()._lock(name, timeout))
        if guard.owner_died and not mends:
            guard.abandon()
            raise OwnerDied(f"the last holder of mutex `{name}` died: what it guards may be half-changed; lock it with mends=True to mend that")
        return guard

    def sender(self, tube):
        """A sender of a tube."""
        return Sender(super().sender(tube))

    def receiver(self, tube, follows=False):
        """A receiver of a tube; with `follows` it goes on until the tube is sealed."""
        return Receiver(super().receiver(tube, follows))
