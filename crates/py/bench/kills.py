"""Kills workers at random moments while they use an object, until something hangs: `python kills.py [KILLS]` (1,000).

The same program runs over `chappe.mp` and over `multiprocessing`, and prints a table: how many kills each object stood, what ended it, and
what became of everything that was given to it. Each item of a queue and each task of a pool has a number, and each number is accounted for in
memory that all workers share: it was received; or it went with the worker that had received it and was killed before it could say so, at
most one a kill; or it was received twice; or it is lost. An object that loses an item, or hands one out twice without saying so, fails here.
Something hangs if it makes no progress for ten seconds.
"""

import concurrent.futures
import logging
import mmap
import multiprocessing
import os
import queue
import random
import shutil
import signal
import struct
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
# As many items as there is room for in a row's account.
MOST = 1 << 22


class Hangs(Exception):
    """Nothing went on for as long as one has patience."""


def late(*_):
    """Ends a call that should have ended by itself."""
    raise Hangs


class Account:
    """A byte for each number, in memory that the workers share. No two of them ever have the same number at the same time."""

    def __init__(self):
        self._marks = mmap.mmap(-1, MOST)

    def mark(self, number):
        """It has come once more."""
        self._marks[number] = min(self._marks[number] + 1, 255)

    def times(self, number):
        """How many times it has come."""
        return self._marks[number]

    def missing(self, numbers):
        """Those that have not come."""
        return [n for n in numbers if not self._marks[n]]

    def twice(self, numbers):
        """How many more times than once they have come."""
        return sum(self._marks[n] - 1 for n in numbers if self._marks[n] > 1)


class Cells:
    """A few counters in memory that the workers share, each written by one worker at a time.

    A word is written by one store: `struct.pack_into` writes zeros first, and a worker that is killed in between leaves them.
    """

    def __init__(self, count):
        self._words = memoryview(mmap.mmap(-1, 8 * count)).cast("q")

    def __getitem__(self, at):
        return self._words[at]

    def __setitem__(self, at, value):
        self._words[at] = value


class Told(logging.Handler):
    """Counts the lines of the log that say something."""

    def __init__(self, what):
        super().__init__()
        self.what, self.count = what, 0

    def emit(self, record):
        """A line."""
        self.count += self.what in record.getMessage()


def started(act, place):
    """The pid of a child that does something for ever, at one of two places."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0)
        while True:
            act(place)
    finally:
        os._exit(1)


def killed(act, goes_on, settled, kills):
    """Kills one of two workers at a time, and looks after each kill whether others can go on. Says after how many they could not, and
    what became of what was given to the object.
    """
    places = [started(act, place) for place in range(2)]
    done, said = 0, "goes on"
    try:
        for done in range(1, kills + 1):
            # At once, too: while what came last is being worked on.
            time.sleep(random.choice((0, random.uniform(0, 0.0005), random.uniform(0, 0.004))))
            at = random.randrange(2)
            os.kill(places[at], signal.SIGKILL)
            os.waitpid(places[at], 0)
            places[at] = started(act, at)
            # Twice the patience of what looks at the time itself: some calls never look.
            signal.setitimer(signal.ITIMER_REAL, 2 * PATIENCE)
            goes_on()
            signal.setitimer(signal.ITIMER_REAL, 0)
    except (Hangs, queue.Empty):
        said = "hangs"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for worker in places:
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
    try:
        signal.setitimer(signal.ITIMER_REAL, 4 * PATIENCE)
        # Those that were killed at the end are two more.
        account = settled(done + 2)
    except (Hangs, queue.Empty):
        account = "what it still has DOES NOT COME"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return f"{done} kills, {said}; {account}"


def accounted(what, given, gone, twice, lost):
    """An account in words. Nothing may be lost, or come twice."""
    bad = f"; {lost:,} LOST" if lost else ", 0 lost"
    bad += f"; {twice:,} TWICE" if twice else ", 0 twice"
    return f"{given:,} {what}: {gone:,} went with the killed worker that had them{bad}"


def lock_of(made, deaths):
    """A lock: a killed holder's must come to somebody else, who is told of it if the section was left in the middle."""
    cells = Cells(5)  # what the section changes, both equal outside of it; how often they were not; sections; who is in it

    def section():
        if cells[0] != cells[1]:
            cells[2] += 1
            cells[1] = cells[0]
        cells[0] += 1
        cells[1] += 1
        cells[3] += 1

    def act(_place):
        with made:
            section()

    def goes_on():
        if not made.acquire(timeout=PATIENCE):
            raise Hangs
        section()
        made.release()

    def settled(_kills):
        if not made.acquire(timeout=PATIENCE):
            raise Hangs
        section()
        made.release()
        torn, told = cells[2], deaths(made)
        if told is None:
            return f"{cells[3]:,} sections, {torn} left in the middle and nobody told"
        untold = f"; {torn - told} UNTOLD" if torn > told else ", 0 untold"
        return f"{cells[3]:,} sections, {torn} left in the middle, {told} deaths told{untold}"

    return act, goes_on, settled


def queue_of(made, ahead=None):
    """A queue whose putters are killed: all that they have put must come, and in their order; once, but where the log says otherwise.

    `ahead`: how far a putter may be before what has come. With more than the queue has room for, a killed putter leaves some behind.
    """
    said, came, half = Account(), Account(), MOST // 2
    # Of each place: how many its putters began to put, and the next that is to come.
    begun, next_of, order, told = Cells(2), Cells(2), {"wrong": 0}, Told("may have been put already")
    logging.getLogger("chappe").addHandler(told)

    def act(place):
        number = begun[place]
        if ahead is not None and number - next_of[place] > ahead:
            time.sleep(0.0005)
            return
        begun[place] = number + 1
        made.put(place * half + number)
        said.mark(place * half + number)

    def got(number):
        place, at = divmod(number, half)
        # One that comes twice is counted as that.
        if at < next_of[place] and not came.times(number):
            order["wrong"] += 1
        next_of[place] = max(next_of[place], at + 1)
        came.mark(number)

    def goes_on():
        for _ in range(20 if ahead is None else 500):
            got(made.get(timeout=PATIENCE))

    def settled(_kills):
        try:
            while True:
                got(made.get(timeout=1))
        except queue.Empty:
            pass
        given = [place * half + n for place in range(2) for n in range(begun[place])]
        put = [n for n in given if said.times(n)]
        lost, twice = len(came.missing(put)), came.twice(given)
        unbounded = f", {told.count} killed with some that there was no room for, and told" if told.count else ""
        # What the dead left behind comes after what others of their place have put since.
        wrong = f"; {order['wrong']} OUT OF ORDER" if order["wrong"] and not told.count else ""
        again = f", {min(twice, told.count)} of them twice, as told" if twice and told.count else ""
        return accounted("items", len(put), 0, max(twice - told.count, 0), lost) + unbounded + again + wrong

    return act, goes_on, settled


def getters_of(made, get, again=None):
    """A queue whose getters are killed: all that is put comes to others, but what a killed one had received.

    With `again`, what a killed one had not done with comes once more, and says so: then nothing goes with it.
    """
    account, given = Account(), [0]
    repeats = Cells(2)

    def act(place):
        get(made, account, repeats, place)

    def goes_on():
        first, end = given[0], time.monotonic() + PATIENCE
        for _ in range(20):
            made.put(given[0])
            given[0] += 1
        # At least one of those just put, or those before it, must come to somebody.
        while len(account.missing(range(first, given[0]))) == 20:
            if time.monotonic() > end:
                raise Hangs
            time.sleep(0.0005)

    def settled(kills):
        # Two that are not killed take the rest.
        rest = [started(act, place) for place in range(2)]
        try:
            # Until all have come, or nothing has for as long as nothing takes.
            left, since = None, time.monotonic()
            while left != 0 and time.monotonic() < since + PATIENCE / 4:
                time.sleep(0.01)
                before, left = left, len(account.missing(range(given[0])))
                if left != before:
                    since = time.monotonic()
            if made.qsize():
                raise Hangs
        finally:
            for pid in rest:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        numbers = range(given[0])
        missing, twice = len(account.missing(numbers)), account.twice(numbers)
        if again:
            told, dropped = repeats[0] + repeats[1], made.dropped()
            return (
                accounted("items", given[0], 0, max(twice - told, 0), max(missing - dropped, 0))
                + f" ({told} came again, and said so; {dropped} had killed two, and were dropped and counted)"
            )
        return accounted("items", given[0], min(missing, kills), twice, max(missing - kills, 0))

    return act, goes_on, settled


def get_one(made, account, _repeats, _place):
    """Receives an item, and says so."""
    account.mark(made.get())


class Borrowed:
    """A tube of numbers, for those who have an item until they are done with it."""

    def __init__(self):
        self.tube = chappe.Tube(slots=64, size=8)
        self.tube.attach(send=True, recv=True)

    def put(self, number):
        """One more."""
        self.tube.send(struct.pack("<q", number))

    def qsize(self):
        """How many there are."""
        return len(self.tube)

    def dropped(self):
        """How many do not come again, since a second worker died with them."""
        return self.tube.deaths[1]


def borrow_one(made, account, repeats, place):
    """Looks at an item where it lies, marks it, and lets go of it. One that comes again and was marked before is told of."""
    taken = made.tube.borrow()
    with taken as record:
        (number,) = struct.unpack("<q", record)
        if taken.again and account.times(number):
            repeats[place] += 1
        account.mark(number)


def counted(entries, add):
    """A dictionary in which workers count: it must stay readable, and no count that was made may be lost."""
    said = Cells(2)

    def act(place):
        add(entries)
        said[place] += 1

    def goes_on():
        before, end = entries.get("n", 0), time.monotonic() + PATIENCE
        while entries.get("n", 0) == before:
            if time.monotonic() > end:
                raise Hangs
            time.sleep(0.001)

    def settled(kills):
        there, told = entries.get("n", 0), said[0] + said[1]
        # One that was killed may have counted, and not said so.
        lost, more = max(told - there, 0), max(there - told - kills, 0)
        wrong = f"; {lost} LOST" if lost else ", 0 lost"
        wrong += f"; {more} MORE" if more else ""
        return f"{told:,} changes told, {there - told} made by workers that were killed before they told{wrong}"

    return act, goes_on, settled


def square(n):
    """What the pools' workers do."""
    RUNS.mark(n)
    return n * n


RUNS = Account()


def workers(submit, result, pids, kills):
    """Kills a worker of a pool at each turn; each task's result must come all the same, and no task may run twice and nobody told."""
    done, given, came, said, told = 0, 0, 0, "goes on", Told("run again")
    logging.getLogger("chappe").addHandler(told)
    for done in range(1, kills + 1):
        numbers = range(given, given + 8)
        given += 8
        try:
            results = [submit(n) for n in numbers]
            there = pids()
            if there:
                try:
                    os.kill(random.choice(there), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            for n, r in zip(numbers, results):
                if result(r) != n * n:
                    said = "wrong results"
                came += 1
        except (multiprocessing.TimeoutError, concurrent.futures.TimeoutError):
            said = "hangs"
        except concurrent.futures.process.BrokenProcessPool:
            said = "is broken for good"
        if said != "goes on":
            break
    twice = RUNS.twice(range(given))
    untold = f"; {twice - told.count} of them UNTOLD" if twice > told.count else ""
    lost = f"; {given - came} LOST" if given > came else ", 0 lost"
    return f"{done} kills, {said}; {given:,} tasks: {twice} begun twice, {told.count} told to run again{untold}{lost}"


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


def one_more(entries):
    """Adds one, in one step."""
    entries.update_value("n", lambda n: n + 1, 0)


def rows(kills):
    """Each object, and the two ways to have it."""

    def row(made):
        return lambda: killed(*made(), kills)

    standard = multiprocessing
    yield (
        "Lock",
        row(lambda: lock_of(mp.Lock(on_death="ignore"), lambda lock: lock.deaths)),
        row(lambda: lock_of(standard.Lock(), lambda _: None)),
    )
    yield "Queue, putters killed", row(lambda: queue_of(mp.Queue(64))), row(lambda: queue_of(standard.Queue(64)))
    yield (
        "Queue without a bound, putters killed",
        row(lambda: queue_of(mp.Queue(), 4000)),
        row(lambda: queue_of(standard.Queue(), 4000)),
    )
    yield (
        "Queue, getters killed",
        row(lambda: getters_of(mp.Queue(), get_one)),
        row(lambda: getters_of(standard.Queue(), get_one)),
    )
    yield "Tube, borrowers killed", row(lambda: getters_of(Borrowed(), borrow_one, True)), None
    yield "Pool", lambda: pool(mp, kills), lambda: pool(standard, kills)
    yield (
        "ProcessPoolExecutor",
        lambda: executor(mp.ProcessPoolExecutor(2), kills),
        lambda: executor(concurrent.futures.ProcessPoolExecutor(2), kills),
    )
    yield (
        "Map / Manager().dict() under a Lock",
        row(lambda: counted(chappe.Map(), one_more)),
        row(lambda: counted(standard.Manager().dict(), under(standard.Lock()))),
    )


def alone(act):
    """Runs a row in a process of its own, which can be thrown away with all that hangs in it. Says what it says."""
    if act is None:
        return "has none"
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.setsid()
        os.close(read)
        signal.signal(signal.SIGALRM, late)
        global RUNS
        RUNS = Account()
        try:
            os.write(write, act().encode())
        except BaseException:
            traceback.print_exc()
            os.write(write, b"an ERROR")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        # Its children have the pipe too; one answer is all there is.
        said = os.read(answer.fileno(), 1000)
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(pid, 0)
    return said.decode() or "an ERROR: ended without an answer"


def main():
    """Prints the table. The exit status is 1 if an object of ours hung, lost something, or said not all of it."""
    numbers = [a for a in sys.argv[1:] if a.isdigit()]
    kills, only = int(numbers[0]) if numbers else 1000, [a for a in sys.argv[1:] if not a.isdigit()]
    multiprocessing.set_start_method("fork")
    print("| object | `chappe.mp` | `multiprocessing` |\n|---|---|---|", flush=True)
    well = True
    try:
        for name, ours, theirs in rows(kills):
            if only and not any(part in name for part in only):
                continue
            said = alone(ours)
            # What is wrong is said in capitals.
            well &= "goes on" in said and said.lower() == said
            print(f"| {name} | {said} | {alone(theirs)} |", flush=True)
    finally:
        shutil.rmtree(os.environ["CHAPPE_DIR"], True)
    sys.exit(not well)


if __name__ == "__main__":
    main()
