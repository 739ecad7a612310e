"""What goes to a worker, and what comes back: descriptors, inputs, exceptions, signals; and how long a pool lives."""

import dataclasses
import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import traceback
import unittest
import warnings
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from multiprocessing.reduction import DupFd, ForkingPickler

import chappe
from chappe import mp
from house import Case

METHODS = ("fork", "spawn", "forkserver")


@dataclasses.dataclass
class Box:
    inner: object


class Open:
    """An open file, which `multiprocessing` has been told how to send."""

    def __init__(self, fd):
        self.fd = fd


def reopened(wrapped):
    return Open(wrapped.detach())


def register():
    ForkingPickler.register(Open, lambda it: (reopened, (DupFd(it.fd),)))


register()


class Sub(Connection):
    """One that nobody has told anybody how to send."""


def say(box, text):
    """Uses what it was given; a descriptor by its number would be the worker's own."""
    inner = box.inner["all"][0]
    if isinstance(inner, Connection):
        inner.send_bytes(text)
    elif isinstance(inner, socket.socket):
        inner.sendall(text)
    else:
        os.write(inner.fd, text)
    return os.getpid()


def back(box):
    """Gives back what it was given, in something else."""
    return {"all": (box.inner["all"][0],)}


def raises_with(box):
    raise ValueError("with it", box)


KEPT = []


def keep(it):
    KEPT.append(it)


def say_kept(text):
    KEPT[0].send_bytes(text)


def pass_on(into, out):
    for it in iter(into.get, None):
        out.put(it)


def receive(end, given):
    return given.recv_bytes() + end


def die_with(box, path):
    """Dies the first time, when it has had what it was given."""
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return say(box, b"second")


def open_files():
    """What this process has open, by number. The directory's own number is the lowest that is free."""
    return {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")}


def square(n):
    return n * n


def actions(_=None):
    """What a program that a task starts does about signals: those that it ignores, and those that are blocked."""
    program = "print(open('/proc/self/status').read())"
    text = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    return {line.split(":")[0]: int(line.split(":")[1], 16) for line in text.splitlines() if line[:6] in ("SigIgn", "SigBlk")}


def forked_action(_=None):
    """What a child that a task forks does about Ctrl-C."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(w, repr(signal.getsignal(signal.SIGINT)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return os.read(r, 200).decode()


def state(pid):
    """That of a process; X if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")")[-1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


class Unpicklable(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class Unmade(Exception):
    """Its pickle cannot be read: it is made of two, and pickled as one."""

    def __init__(self, text, more):
        super().__init__(text)


class Another(Exception):
    def __reduce__(self):
        return str, ("no exception",)


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    text: str

    def __reduce__(self):
        return Frozen, (self.text,)


class Unshown(Exception):
    def __repr__(self):
        raise RuntimeError("no repr")

    def __reduce__(self):
        raise TypeError("no pickle")


def raises(cls):
    raise cls("original text", 2) if cls is Unmade else cls("original text")


class Quiet(Case):
    def setUp(self):
        # Of sockets that are left to the collector, of pools that are to be.
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.simplefilter("ignore", ResourceWarning)


class Descriptors(Quiet):
    """Whatever `multiprocessing` can send goes, to each kind of worker, in anything; what cannot is an error of that call."""

    def ends(self):
        """Pairs of what is sent, and how to read what was written to it."""
        r, w = mp.Pipe(False)
        yield w, r.recv_bytes
        ours, theirs = socket.socketpair()
        yield theirs, lambda: ours.recv(100)
        r2, w2 = os.pipe()
        yield Open(w2), lambda: os.read(r2, 100)
        for it in (r, w, ours, theirs):
            it.close()
        os.close(r2)
        os.close(w2)

    def test_they_go_to_tasks_and_come_back(self):
        for method in METHODS:
            context = mp.get_context(method)
            with context.Pool(1, register) as pool, mp.ProcessPoolExecutor(1, context, register) as executor:
                ways = {
                    "apply": lambda f, *a: pool.apply(f, a),
                    "map": lambda f, *a: pool.starmap(f, [a])[0],
                    "imap": lambda f, *a: next(pool.imap(f, a[:1])) if len(a) == 1 else pool.apply(f, a),
                    "submit": lambda f, *a: executor.submit(f, *a).result(60),
                }
                for it, read in self.ends():
                    for way, call in ways.items():
                        with self.subTest(method, way=way, it=type(it).__name__):
                            self.assertNotEqual(call(say, Box({"all": [it]}), b"one"), os.getpid())
                            self.assertEqual(read(), b"one")
                            say(Box(call(back, Box({"all": [it]}))), b"two")
                            self.assertEqual(read(), b"two")
                            with self.assertRaisesRegex(ValueError, "with it") as raised:
                                call(raises_with, Box({"all": [it]}))
                            say(raised.exception.args[1], b"three")
                            self.assertEqual(read(), b"three")

    def test_they_go_to_initializers_and_through_queues(self):
        for method in METHODS:
            context = mp.get_context(method)
            r, w = context.Pipe(False)
            with context.Pool(1, keep, (w,)) as pool, mp.ProcessPoolExecutor(1, context, keep, (w,)) as executor:
                pool.apply(say_kept, (b"pool",))
                self.assertEqual(r.recv_bytes(), b"pool")
                executor.submit(say_kept, b"executor").result(60)
                self.assertEqual(r.recv_bytes(), b"executor")
            for into, out in ((context.Queue(), context.JoinableQueue(3)), (context.SimpleQueue(), context.Queue())):
                child = context.Process(target=pass_on, args=(into, out))
                child.start()
                for it in (w, {"in": [Box(w)]}):
                    into.put(it)
                    got = out.get()
                    (got if it is w else got["in"][0].inner).send_bytes(b"queue")
                    self.assertEqual(r.recv_bytes(), b"queue")
                into.put(None)
                child.join()
                self.assertEqual(child.exitcode, 0)

    def test_an_argument_that_cannot_be_sent_fails_that_call_alone(self):
        r, w = mp.Pipe()
        sub = Sub(os.dup(w.fileno()))
        for it in (sub, sys.stderr, threading.Lock()):
            with mp.get_context("fork").Pool(1) as pool, self.subTest(it=type(it).__name__):
                with self.assertRaises(TypeError):
                    pool.apply(square, (Box([it]),))
                self.assertEqual(pool.apply(square, (3,)), 9)
                with self.assertRaises(TypeError):
                    mp.Queue().put({"in": [it]})
        # In what stays in memory, or goes to whomever, there is no descriptor at all.
        tube, entries = chappe.Tube(), chappe.Map(value=4096)
        for it in (w, sub, Box([w])):
            with self.assertRaisesRegex(TypeError, "descriptor"):
                tube.put(it)
            with self.assertRaisesRegex(TypeError, "descriptor"):
                entries["it"] = it
        self.assertEqual((len(tube), len(entries)), (0, 0))
        # A text with the name of a connection's field is no connection.
        for it in ({"_readable": True}, ["_readable", bytearray(b"_readable")], "_readable", b"_readable"):
            tube.put(it)
            entries["it"] = it
            self.assertEqual((tube.get(), entries["it"]), (it, it))

    def test_the_search_for_connections_adds_one_call_to_a_put(self):
        program = """
            import sys, chappe
            tube, calls = chappe.Tube(slots=4, size=4096), []

            def calls_of(act):
                calls.clear()
                sys.setprofile(lambda frame, event, arg: calls.append(event) if event in ("call", "c_call") else None)
                act({"a": 1, "b": [1, 2, 3], "c": "text"})
                sys.setprofile(None)
                tube.get()
                # `setprofile` itself is the last.
                return len(calls) - 1

            without = calls_of(tube.put)
            import multiprocessing.connection
            # `put` and `_pickled`; the pickle, the search, the sending.
            print(without, calls_of(tube.put))
        """
        done = self.script(textwrap.dedent(program))
        self.assertEqual(done.stdout.split(), ["5", "5"], done.stderr)

    def test_a_task_that_is_run_again_has_them_again(self):
        r, w = mp.Pipe(False)
        with mp.get_context("fork").Pool(1) as pool:
            result = pool.apply_async(die_with, (Box({"all": [w]}), os.path.join(self.directory, "once")))
            self.assertNotEqual(result.get(60), os.getpid())
            self.assertEqual(r.recv_bytes(), b"second")

    def test_none_stays_open(self):
        r, w = mp.Pipe(False)
        with mp.get_context("fork").Pool(1) as pool:
            # More than go at once, in one message; and the same again and again.
            pool.apply(back, (Box({"all": [[w] * 3]}),))
            # What earlier tests have left goes now, not in between.
            gc.collect()
            before, there = open_files(), pool.apply(open_files)
            for _ in range(5):
                many = [socket.socket() for _ in range(300)]
                self.assertEqual(pool.apply(len, (many,)), 300)
                for it in many:
                    it.close()
                with self.assertRaises(TypeError):
                    pool.apply(len, ([w, threading.Lock()],))
                gc.collect()
            self.assertEqual(open_files(), before)
            self.assertEqual(pool.apply(open_files), there)


class Lives(Quiet):
    def test_a_pool_that_has_ended_writes_to_no_file(self):
        # It once rang its bell by a number that was another file's by then.
        pool = mp.get_context("fork").Pool(1)
        pool.close()
        pool.join()
        pipes = [os.pipe() for _ in range(50)]
        pool.terminate()
        pool.close()
        for r, w in pipes:
            os.close(w)
            self.assertEqual(os.read(r, 1), b"")
            os.close(r)

    def test_a_pool_that_only_its_result_refers_to_lives_until_it_is_there(self):
        context = mp.get_context("fork")
        self.assertEqual(context.Pool(2).map_async(square, range(4)).get(60), [0, 1, 4, 9])
        self.assertEqual(context.Pool(2).apply_async(square, (3,)).get(60), 9)
        self.assertEqual([*context.Pool(2).imap(square, range(4))], [0, 1, 4, 9])
        self.assertEqual(sorted(context.Pool(2).imap_unordered(square, iter(range(4)), 3)), [0, 1, 4, 9])
        self.assertEqual(context.Pool(2).starmap_async(pow, [(2, 3)]).get(60), [8])

    def test_and_no_longer(self):
        pool = mp.get_context("fork").Pool(1)
        processes, result = pool._pool, pool.apply_async(square, (3,))
        del pool
        self.assertEqual(result.get(60), 9)
        self.until(lambda: gc.collect() is not None and not processes[0].is_alive())

    def test_workers_end_when_their_parent_is_killed(self):
        for method in METHODS:
            program = f"""
import os, signal
from chappe import mp
if __name__ == "__main__":
    pool = mp.get_context({method!r}).Pool(2)
    executor = mp.ProcessPoolExecutor(2, mp.get_context({method!r}))
    print(*pool.pids(), executor.submit(os.getpid).result(), *executor.pids(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
            file = os.path.join(self.directory, "killed.py")
            with open(file, "w") as out:
                out.write(program)
            made = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=120)
            self.assertEqual(made.returncode, -signal.SIGKILL, made.stderr)
            for pid in set(map(int, made.stdout.split())):
                self.until(lambda: state(pid) in "ZX")


class Inputs(Case):
    def test_an_input_may_wait_for_the_results(self):
        with mp.get_context("fork").Pool(2) as pool:
            for how in (pool.imap, pool.imap_unordered):
                for size in (1, 3):
                    seen, came = threading.Semaphore(size), []

                    def lazily():
                        for n in range(3 * size):
                            self.assertTrue(seen.acquire(timeout=60))
                            yield n

                    for value in how(square, lazily(), size):
                        came.append(value)
                        seen.release()
                    self.assertEqual(sorted(came), [n * n for n in range(3 * size)])
            # One's results are another's input, and a call is made of each.
            chained = pool.imap(square, (pool.apply(square, (n,)) for n in pool.imap(square, iter(range(5)))))
            self.assertEqual([*chained], [n**8 for n in range(5)])

    def test_an_input_is_read_as_there_is_room_for_it(self):
        ahead = []

        class Counted:
            """What knows how many it has, and makes them as they are asked for."""

            read = given = 0

            def __iter__(self):
                return self

            def __len__(self):
                return 400

            def __next__(self):
                if self.read == len(self):
                    raise StopIteration
                self.read += 1
                return Noted(self)

        class Noted:
            def __init__(self, of):
                self.of = of

            def __reduce__(self):
                self.of.given += 1
                ahead.append((self.of.read - self.of.given))
                return int, (7,)

        with mp.get_context("fork").Pool(2) as pool:
            for call in (
                lambda it: pool.map(square, it, 1),
                lambda it: [*pool.imap(square, it)],
                lambda it: [*pool.imap_unordered(square, iter(it))],
            ):
                ahead.clear()
                self.assertEqual(call(Counted()), [49] * 400)
                self.assertEqual(len(ahead), 400)
                # So many are read and not pickled as there are workers, at most, and the one that was read for the next room.
                self.assertLessEqual(max(ahead), 4)
            # Those of a list are pickled one by one as well: nothing is pickled that no worker takes.
            it = Counted()
            results = [pool.apply_async(square, (Noted(it),)) for _ in range(100)]
            self.assertEqual([result.get(60) for result in results], [49] * 100)
            it = Counted()
            self.assertEqual(pool.map(square, [*it]), [49] * 400)

    def test_calls_do_not_wait_for_an_input(self):
        stop = threading.Event()

        def endless():
            yield 2
            stop.wait(60)

        with mp.get_context("fork").Pool(2) as pool:
            squares = pool.imap(square, endless())
            self.assertEqual(next(squares), 4)
            self.assertEqual(pool.apply(square, (3,)), 9)
            self.assertEqual(pool.map(square, [1, 2]), [1, 4])
            stop.set()
            self.assertEqual([*squares], [])

    def test_an_inputs_exception_is_the_last_result(self):
        def breaks():
            yield 2
            raise Unpicklable("of the input")

        class Short(list):
            def __len__(self):
                return 9

        with mp.get_context("fork").Pool(2) as pool:
            squares = pool.imap(square, breaks())
            self.assertEqual(next(squares), 4)
            with self.assertRaisesRegex(Unpicklable, "of the input"):
                next(squares)
            self.assertEqual([*squares], [])
            with self.assertRaisesRegex(Unpicklable, "of the input"):
                self.assertEqual([*pool.imap_unordered(square, breaks())], [4])
            with self.assertRaisesRegex(ValueError, "ended before"):
                pool.map_async(square, Short([1]), 1).get(60)
            with self.assertRaises(TypeError):
                pool.map(square, 5)

    def test_a_pools_end_is_told_to_what_still_reads(self):
        stop = threading.Event()

        def endless():
            while not stop.wait(0.001):
                yield 1

        pool = mp.get_context("fork").Pool(2)
        squares = pool.imap(square, endless())
        self.assertEqual(next(squares), 1)
        pool.terminate()
        pool.join()
        with self.assertRaises(mp.WorkerDied):
            for value in squares:
                self.assertEqual(value, 1)
        stop.set()


class Exceptions(Case):
    def test_each_fails_its_task_alone_and_says_what_it_was(self):
        for method in ("fork", "spawn"):
            context = mp.get_context(method)
            with context.Pool(1) as pool, mp.ProcessPoolExecutor(1, context) as executor:
                ways = {
                    "apply": lambda *a: pool.apply(*a),
                    "map": lambda f, a: pool.map(f, a),
                    "imap": lambda f, a: [*pool.imap(f, a)],
                    "submit": lambda f, a: executor.submit(f, *a).result(60),
                }
                for cls in (Unpicklable, Unmade, Another, Frozen, Unshown):
                    for way, call in ways.items():
                        with self.subTest(method, cls=cls.__name__, way=way):
                            before = pool.pids(), executor.pids()
                            with self.assertRaises(Exception) as raised:
                                call(raises, (cls,))
                            text = "".join(traceback.format_exception(None, raised.exception, None))
                            self.assertIn("original text", text)
                            self.assertIn("in raises", text)
                            if cls not in (Unshown, Frozen):
                                self.assertIn("original text", str(raised.exception))
                            if cls is Frozen:
                                self.assertIsInstance(raised.exception, Frozen)
                            self.assertEqual((pool.pids(), executor.pids()[: len(before[1])]), before)
                            self.assertEqual([*map(square, (1, 2))], call(square, (3,)) and pool.map(square, (1, 2)))

    def test_an_initializers_is_told_too(self):
        for cls in (Unpicklable, Unmade, Another):
            with mp.get_context("fork").Pool(1, raises, (cls,)) as pool, self.assertRaisesRegex(BrokenProcessPool, "original text"):
                pool.apply_async(square, (1,)).get(60)


class Signals(Case):
    def test_programs_that_tasks_start_have_the_default_actions(self):
        for method in METHODS:
            context = mp.get_context(method)
            with context.Pool(1) as pool, mp.ProcessPoolExecutor(1, context) as executor:
                # As they would be without a pool.
                self.assertEqual(pool.apply(actions), actions(), method)
                self.assertEqual(executor.submit(actions).result(60), actions(), method)
                self.assertEqual(pool.apply(actions)["SigIgn"] & 1 << signal.SIGINT - 1, 0)
                self.assertIn("default_int_handler", pool.apply(forked_action))

    def test_those_of_a_program_in_the_background_ignore_it_too(self):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with mp.get_context("fork").Pool(1) as pool:
                self.assertNotEqual(pool.apply(actions)["SigIgn"] & 1 << signal.SIGINT - 1, 0)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_a_worker_leaves_an_interrupt_to_its_parent(self):
        with mp.get_context("fork").Pool(1) as pool:
            pid = pool.apply(os.getpid)
            for _ in range(3):
                os.kill(pid, signal.SIGINT)
                self.assertEqual(pool.apply(os.getpid), pid)


if __name__ == "__main__":
    unittest.main()
