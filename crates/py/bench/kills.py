"""Kills workers at random moments while they use an object, until something hangs: `python kills.py [KILLS]` (1,000).

The same program runs over `chappe.mp` and over `multiprocessing`, and prints a table: how many kills each object stood, and what ended it.
Something hangs if it makes no progress for ten seconds.
"""

import concurrent.futures
import multiprocessing
import os
import queue
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings

os.environ["CHAPPE_DIR"] = tempfile.mkdtemp(prefix="chappe-kills-", dir="/dev/shm")

import chappe
from chappe import mp

warnings.simplefilter("ignore")
PATIENCE = 10


class Hangs(Exception):
    """Nothing went on for as long as one has patience."""


def started(act):
    """The pid of a child that does something for ever."""
    pid = os.fork()
    if pid:
        return pid
    try:
        while True:
            act()
    finally:
        os._exit(1)


def killed(act, goes_on, kills):
    """Kills one of two workers at a time, and looks after each kill whether others can go on. Says after how many they could not."""
    workers = [started(act) for _ in range(2)]
    done = 0
    try:
        for done in range(1, kills + 1):
            time.sleep(random.uniform(0, 0.004))
            at = random.randrange(2)
            os.kill(workers[at], signal.SIGKILL)
            os.waitpid(workers[at], 0)
            workers[at] = started(act)
            goes_on()
    except (Hangs, queue.Empty):
        return done, "hangs"
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
    return done, "goes on"


def lock_of(made):
    """A lock: a killed holder's must come to somebody else."""

    def act():
        with made:
            pass

    def goes_on():
        if not made.acquire(timeout=PATIENCE):
            raise Hangs
        made.release()

    return act, goes_on


def queue_of(made):
    """A queue whose putters are killed: what others put must come."""

    def act():
        made.put("item")

    def goes_on():
        for _ in range(20):
            made.get(timeout=PATIENCE)

    return act, goes_on


def getters_of(made):
    """A queue whose getters are killed: what is put must come to others."""
    lost = multiprocessing.Value("l", 0, lock=False)

    def act():
        made.get()
        lost.value += 1

    def goes_on():
        before, end = lost.value, time.monotonic() + PATIENCE
        for _ in range(20):
            made.put("item")
        while lost.value == before:
            if time.monotonic() > end:
                raise Hangs
            time.sleep(0.001)

    return act, goes_on


def counted(entries, add):
    """A dictionary in which workers count: it must stay readable, and what it counts must go on."""

    def act():
        add(entries)

    def goes_on():
        before, end = entries.get("n", 0), time.monotonic() + PATIENCE
        while entries.get("n", 0) == before:
            if time.monotonic() > end:
                raise Hangs
            time.sleep(0.001)

    return act, goes_on


def square(n):
    """What the pools' workers do."""
    return n * n


def workers(submit, result, pids, kills):
    """Kills a worker of a pool at each turn; each task's result must come all the same."""
    done = 0
    for done in range(1, kills + 1):
        results = [submit(n) for n in range(8)]
        there = pids()
        if there:
            try:
                os.kill(random.choice(there), signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            if [result(r) for r in results] != [n * n for n in range(8)]:
                return done, "wrong results"
        except (multiprocessing.TimeoutError, concurrent.futures.TimeoutError):
            return done, "hangs"
        except concurrent.futures.process.BrokenProcessPool:
            return done, "is broken for good"
    return done, "goes on"


def pool(module, kills):
    """A pool. Nobody ends it: the standard one's `terminate` hangs, too, and the whole process is thrown away."""
    made = module.Pool(2)
    pids = getattr(made, "pids", None) or (lambda: [p.pid for p in made._pool])
    return workers(lambda n: made.apply_async(square, (n,)), lambda r: r.get(PATIENCE), pids, kills)


def executor(made, kills):
    """An executor, likewise."""
    pids = getattr(made, "pids", None) or (lambda: list(made._processes or {}))
    return workers(lambda n: made.submit(square, n), lambda r: r.result(PATIENCE), pids, kills)


def under(lock):
    """Adds one under a lock, as a manager's dictionary needs it."""

    def add(entries):
        with lock:
            entries["n"] = entries.get("n", 0) + 1

    return add


def rows(kills):
    """Each object, and the two ways to have it."""
    yield "Lock", (lambda: killed(*lock_of(mp.Lock(on_death="ignore")), kills), lambda: killed(*lock_of(multiprocessing.Lock()), kills))
    yield "Queue, putters killed", (lambda: killed(*queue_of(mp.Queue(64)), kills), lambda: killed(*queue_of(multiprocessing.Queue(64)), kills))
    yield "Queue, getters killed", (lambda: killed(*getters_of(mp.Queue()), kills), lambda: killed(*getters_of(multiprocessing.Queue()), kills))
    yield "Pool", (lambda: pool(mp, kills), lambda: pool(multiprocessing, kills))
    yield (
        "ProcessPoolExecutor",
        (lambda: executor(mp.ProcessPoolExecutor(2), kills), lambda: executor(concurrent.futures.ProcessPoolExecutor(2), kills)),
    )
    ours = lambda: counted(chappe.Map(), lambda entries: entries.update_value("n", lambda n: n + 1, 0))
    theirs = lambda: counted(multiprocessing.Manager().dict(), under(multiprocessing.Lock()))
    yield "Map / Manager().dict() under a Lock", (lambda: killed(*ours(), kills), lambda: killed(*theirs(), kills))


def alone(act):
    """Runs a row in a process of its own, which can be thrown away with all that hangs in it. Says what it says."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.setsid()
        os.close(read)
        try:
            done, said = act()
            os.write(write, f"{done} kills, {said}".encode())
        except BaseException:
            traceback.print_exc()
            os.write(write, b"an error")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        said = b""
        # Its children have the pipe too; one answer is all there is.
        said = os.read(answer.fileno(), 200)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(pid, 0)
    return said.decode() or "ended without an answer"


def main():
    """Prints the table."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    multiprocessing.set_start_method("fork")
    print("| object | `chappe.mp` | `multiprocessing` |\n|---|---|---|", flush=True)
    try:
        for name, ways in rows(kills):
            print(f"| {name} | " + " | ".join(alone(way) for way in ways) + " |", flush=True)
    finally:
        shutil.rmtree(os.environ["CHAPPE_DIR"], True)


if __name__ == "__main__":
    main()
