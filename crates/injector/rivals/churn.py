"""One round of a storm on an object of Python's `multiprocessing`; the standard library alone is needed.

    python3 churn.py lock|queue|queue-steady|pipe-steady [--kills N] [--seed N] [--limit SECONDS]

Locks and queues of `multiprocessing` have no names: they are made here, and used by forked processes, as its manual has
it. `lock` and `queue` kill anybody anywhere; the `steady` ones only senders that have been attached, in mid-stream: of one
queue that all have in common, or each with a pipe of its own. After each burst of one to three kills a witness, a process just
forked, must lock and unlock, or send and receive, within the limit. What was found is printed, one `key value` a line.
"""

import argparse
import ctypes
import multiprocessing
import multiprocessing.connection
import multiprocessing.sharedctypes
import os
import platform
import queue
import random
import signal
import sys
import time

WORKERS = 4
WITNESS = WORKERS
KEEPER = WORKERS + 1
PLACES = WORKERS + 2
PR_SET_PDEATHSIG = 1
fork = multiprocessing.get_context("fork")


class Board:
    """Words that all share: no lock among them, so that a killed process leaves them whole."""

    def __init__(self):
        def words():
            return multiprocessing.sharedctypes.RawArray(ctypes.c_uint64, PLACES)

        self.turns, self.refused, self.ready, self.heard = words(), words(), words(), words()
        self.over = multiprocessing.sharedctypes.RawValue(ctypes.c_uint64, 0)
        # What the last process that was refused says.
        self.said = multiprocessing.sharedctypes.RawArray(ctypes.c_char, 400)

    def say(self, words):
        self.said.value = words.replace("\n", " ").encode()[:399]


def message(place, number):
    return place, number, ~number


def read(it):
    place, number, check = it
    if check != ~number:
        raise ValueError(f"torn: {it}")
    return place, number


class Lock:
    """Workers lock, count twice, unlock."""

    steady = False

    def __init__(self, board, limit):
        self.board, self.limit = board, limit
        self.lock = fork.Lock()

    def turn(self, place):
        if not self.lock.acquire(timeout=self.limit):
            raise TimeoutError(f"the lock was not to be had for {self.limit:g} s")
        time.sleep(random.random() * 200e-6)
        self.lock.release()
        time.sleep(random.random() * 200e-6)

    def prove(self):
        self.turn(WITNESS)

    def work(self, place):
        turns(self.board, place, self.turn)


class Queue:
    """Workers put one and get one."""

    steady = False

    def __init__(self, board, limit):
        self.board, self.limit = board, limit
        self.queue = fork.Queue()
        self.number = 0

    def turn(self, place):
        self.number += 1
        self.queue.put(message(place, self.number))
        # Messages that killed workers have left are received, too.
        for _ in range(2):
            try:
                read(self.queue.get(timeout=0.001))
            except queue.Empty:
                return

    def prove(self):
        self.queue.put(message(WITNESS, 1))
        try:
            read(self.queue.get(timeout=self.limit))
        except queue.Empty:
            raise TimeoutError(f"nothing was received for {self.limit:g} s") from None
        self.queue.close()
        self.queue.join_thread()

    def work(self, place):
        turns(self.board, place, self.turn)


class SteadyQueue(Queue):
    """Workers put, one that is never killed gets."""

    steady = True

    def work(self, place):
        number = self.board.heard[place]
        while not self.board.over.value:
            number += 1
            self.queue.put(message(place, number))
            self.board.turns[place] += 1
            time.sleep(random.random() * 30e-6)
            # It may be killed once its stream has begun.
            self.board.ready[place] = 1

    def keep(self):
        self.board.ready[KEEPER] = 1
        while not self.board.over.value:
            try:
                place, number = read(self.queue.get(timeout=0.01))
            except queue.Empty:
                continue
            self.board.heard[place] = number
            self.board.turns[KEEPER] += 1

    def prove(self):
        be_heard(self.board, self.queue.put)


class SteadyPipe:
    """Each worker has a pipe of its own; the director, which is never killed, has the other ends of all."""

    steady = True

    def __init__(self, board, limit):
        self.board, self.limit = board, limit
        self.ends = {}

    def before(self, place):
        """In the director, before a process is forked: its pipe. What its predecessor sent last is received first."""
        self.listen(0)
        reader, writer = fork.Pipe(duplex=False)
        self.ends[reader] = place
        self.writer = writer

    def after(self):
        """In the director, when it has been forked."""
        self.writer.close()

    def listen(self, seconds):
        for reader in multiprocessing.connection.wait(list(self.ends), seconds):
            try:
                place, number = read(reader.recv())
                self.board.heard[place] = number
                self.board.turns[KEEPER] += 1
            except (EOFError, OSError):
                # Its sender has gone, perhaps in the middle of a message: which is nobody else's.
                del self.ends[reader]
                reader.close()

    def work(self, place):
        number = self.board.heard[place]
        while not self.board.over.value:
            number += 1
            self.writer.send(message(place, number))
            self.board.turns[place] += 1
            time.sleep(random.random() * 30e-6)
            self.board.ready[place] = 1

    def prove(self):
        be_heard(self.board, self.writer.send)


def be_heard(board, send):
    number = board.heard[WITNESS] + 1
    send(message(WITNESS, number))
    while board.heard[WITNESS] != number:
        time.sleep(50e-6)


def turns(board, place, turn):
    board.ready[place] = 1
    while not board.over.value:
        try:
            turn(place)
            board.turns[place] += 1
        except Exception as e:
            board.refused[place] += 1
            board.say(repr(e))
            time.sleep(0.001)


class Director:
    def __init__(self, what, kills, seed, limit):
        self.board = Board()
        self.object = what(self.board, limit)
        self.kills_wanted, self.limit = kills, limit
        self.dice = random.Random(seed)
        self.kills = self.fell = 0
        self.workers, self.since, self.seen = [None] * WORKERS, [0.0] * WORKERS, [None] * WORKERS

    def start(self, place, life, *args):
        if hasattr(self.object, "before"):
            self.object.before(place)
        seed = self.dice.random()

        def live():
            # The director is gone: no worker is left over.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            random.seed(seed)
            try:
                life(*args)
            except Exception as e:
                self.board.say(repr(e))
                sys.exit(1)

        process = fork.Process(target=live)
        process.start()
        if hasattr(self.object, "after"):
            self.object.after()
        return process

    def worker(self, place):
        self.board.ready[place] = 0
        self.workers[place] = self.start(place, self.object.work, place)
        self.since[place], self.seen[place] = time.monotonic(), None

    def pause(self, seconds):
        """Meanwhile what comes is received, if that is the director's part."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if hasattr(self.object, "listen"):
                self.object.listen(left)
            else:
                time.sleep(left)

    def wait(self, process, limit):
        """Whether it has ended in time."""
        end = time.monotonic() + limit
        while process.exitcode is None and time.monotonic() < end:
            self.pause(0.0005)
        return process.exitcode is not None

    def strike(self):
        place = self.dice.randrange(WORKERS)
        process = self.workers[place]
        if self.board.ready[place] and process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            self.kills += 1
            self.worker(place)

    def look(self):
        for place, process in enumerate(self.workers):
            turns = self.board.turns[place] + self.board.refused[place]
            if process.exitcode is not None:
                self.fell += 1
                self.worker(place)
            elif turns != self.seen[place]:
                self.since[place], self.seen[place] = time.monotonic(), turns
            elif time.monotonic() - self.since[place] > self.limit:
                return "one of the processes hangs"
        return None

    def witness(self):
        """Witnesses, until one has done it or the time is over. Nothing, or why not."""
        end = time.monotonic() + self.limit
        while True:
            process = self.start(WITNESS, self.object.prove)
            # One that says itself that its time is over may say so.
            if not self.wait(process, end - time.monotonic() + 0.5):
                process.kill()
                process.join()
                return "no answer: it hangs"
            if process.exitcode == 0:
                return None
            if time.monotonic() > end:
                return self.board.said.value.decode(errors="replace")

    def keeper(self):
        if not hasattr(self.object, "keep"):
            return None
        process = self.start(KEEPER, self.object.keep)
        end = time.monotonic() + self.limit
        while not self.board.ready[KEEPER] and time.monotonic() < end:
            time.sleep(0.001)
        return process

    def go(self):
        keeper = self.keeper()
        for place in range(WORKERS):
            self.worker(place)
        said = None
        while said is None and self.kills < self.kills_wanted:
            self.pause(self.dice.uniform(500e-6, 6e-3))
            for _ in range(self.dice.randrange(1, 4)):
                self.strike()
            if keeper is not None and keeper.exitcode is not None:
                said = "the process that keeps it ended by itself"
            else:
                said = self.look() or self.witness()
        self.board.over.value = 1
        rest = self.workers + ([keeper] if keeper else [])
        end = time.monotonic() + self.limit
        for process in rest:
            if not self.wait(process, end - time.monotonic()):
                process.kill()
                process.join()
        stays = None
        if said is not None:
            self.board.over.value = 0
            keeper = self.keeper()
            stays = self.witness() is not None
            if keeper is not None:
                keeper.kill()
                keeper.join()
        print("python", platform.python_version())
        print("kills", self.kills)
        print("turns", sum(self.board.turns))
        print("refused", sum(self.board.refused))
        print("fell", self.fell)
        if self.board.said.value:
            print("last", self.board.said.value.decode(errors="replace"))
        if said is not None:
            print("wedged", said)
            print("stays", int(stays))


OBJECTS = {"lock": Lock, "queue": Queue, "queue-steady": SteadyQueue, "pipe-steady": SteadyPipe}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("object", choices=OBJECTS)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=10)
    args = parser.parse_args()
    Director(OBJECTS[args.object], args.kills, args.seed, args.limit).go()


if __name__ == "__main__":
    main()
