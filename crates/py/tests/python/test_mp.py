"""What stands in for multiprocessing, with workers that are killed."""

import concurrent.futures
import gc
import multiprocessing
import os
import pickle
import queue
import random
import signal
import threading
import time
import unittest
import unittest.mock
import warnings

import chappe
from chappe import _mp_stores, mp
from house import Case


def square(n):
    return n * n


def die_once(path):
    """Dies the first time."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "lived"
    os.kill(os.getpid(), signal.SIGKILL)


def die(_=None):
    os.kill(os.getpid(), signal.SIGKILL)


def take_and_die(lock):
    lock.acquire()
    die()


def echo(into, out):
    for item in iter(into.get, None):
        out.put(item)


def work(into):
    for item in iter(into.get, None):
        into.task_done()


def fail(*_):
    raise ZeroDivisionError("mine")


def fork_and_sleep(path):
    """Leaves a child that has the worker's socket open; then the worker waits to be killed, the first time."""
    if os.path.exists(path):
        return "lived"
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    with open(path, "w") as file:
        file.write(f"{os.getpid()} {child}")
    signal.pause()


def raised(error):
    raise error("when it was made")


def change(entries, long):
    entries["large"] = "small"
    entries[long] = [b"y" * 5000]
    entries["there"] = 1
    for n in range(2000):
        assert entries[n] == n


def nest(outer):
    outer["list"].append("there")
    outer["in"]["deep"][0]["b"] = [2]
    outer["space"].x = outer["both"][0]["new"] = one_more(outer, y=3)
    with outer["both"][1]["lock"]:
        pass


def one_more(outer, **entries):
    """One more of the same manager, in a process that has no manager."""
    return type(outer)(outer._home, **entries)


def take_all(locks):
    locks[0].acquire()
    # Held by the parent until it has seen that this one is held here.
    with locks[1], locks[2]:
        pass
    locks[0].release()


class RaisesWhenMade:
    """Its pickle cannot be read."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        return raised, (self.error,)


class Standing(Case):
    def test_a_killed_workers_lock_comes_back_by_each_start_method(self):
        for method in ("fork", "spawn", "forkserver"):
            context = mp.get_context(method)
            lock = context.Lock()
            process = context.Process(target=take_and_die, args=(lock,))
            process.start()
            process.join()
            with self.assertWarns(chappe.OwnerDiedWarning, msg=method):
                self.assertTrue(lock.acquire(timeout=60))
            lock.release()

    def test_queues_carry_all_objects(self):
        for method in ("fork", "spawn"):
            context = mp.get_context(method)
            into, out = context.Queue(), context.Queue(2)
            process = context.Process(target=echo, args=(into, out))
            process.start()
            given = [1, "a", b"x" * 100_000, {"k": [1, 2]}]
            for item in given:
                into.put(item)
            self.assertEqual([out.get(timeout=60) for _ in given], given)
            into.put(None)
            process.join()
            self.assertEqual(process.exitcode, 0)
            with self.assertRaises(queue.Empty):
                out.get(timeout=0.01)
            out.put(1)
            out.put(2)
            with self.assertRaises(queue.Full):
                out.put(3, timeout=0.01)
            self.assertTrue(out.full())

    def test_an_unbounded_queue_takes_more_than_it_has_room_for(self):
        line = mp.Queue()
        for n in range(3000):
            line.put(n)
        self.assertEqual([line.get(timeout=60) for _ in range(3000)], list(range(3000)))

    def overflow(self, line, count, how):
        """A child puts more than there is room for, and ends."""

        def child():
            for n in range(count):
                line.put((os.getpid(), n))
            how()

        return self.forked(child)

    def test_the_overflow_of_a_killed_process_is_delivered(self):
        line = mp.Queue()
        with self.assertLogs("chappe", "WARNING") as told:
            child = self.overflow(line, 3000, die)
            self.assertEqual(self.ended(child), -signal.SIGKILL)
            got = [line.get(timeout=60) for _ in range(3000)]
        # The one that was being sent may come again, and the log says so.
        self.assertEqual(sorted(got), [(child, n) for n in range(3000)])
        self.assertIn("put for it", told.output[0])
        self.until(lambda: not os.path.exists(line._folder))

    def test_a_getter_that_waits_already_has_what_a_killed_process_left(self):
        line, seen = mp.Queue(), chappe.Semaphore(value=0)

        def getter():
            for _ in range(1500):
                line.get(timeout=60)
                seen.up()

        getters = [self.forked(getter) for _ in range(2)]
        self.ended(self.overflow(line, 3000, die))
        self.assertEqual([self.ended(pid) for pid in getters], [0, 0])
        self.assertEqual(seen.value, 3000)

    def test_a_killed_successor_has_a_successor(self):
        line = mp.Queue()
        self.ended(self.overflow(line, 3000, die))

        def takes_over():
            for _ in range(1500):
                line.get(timeout=60)
            die()

        self.assertEqual(self.ended(self.forked(takes_over)), -signal.SIGKILL)
        got = []
        try:
            while True:
                got.append(line.get(timeout=2))
        except queue.Empty:
            pass
        # Each process that was killed may have put one twice.
        self.assertIn(len(got), (1500, 1501))
        self.assertEqual(sorted(set(n for _, n in got))[-1500:], list(range(1500, 3000)))

    def test_a_child_that_is_forked_while_a_store_is_closed_has_nothing_of_it(self):
        # It once closed the number again, when that was the file of a store of its own: then others took that for an orphan's.
        stores, ends = _mp_stores, []
        close, before = os.close, stores._ours

        def closes_and_forks(handle):
            close(handle)
            if not ends:
                ends.append(None)
                ends[0] = self.forked(child)

        def child():
            self.assertNotEqual(stores._ours, before)
            self.assertEqual([store._handle for store in stores._stores], [None] * len(stores._stores))

        store, other = stores.Store(mp.Queue()._folder), stores.Store(mp.Queue()._folder)
        with unittest.mock.patch.object(stores.os, "close", closes_and_forks):
            store.close()
        self.assertEqual(self.ended(ends[0]), 0)
        other.close()

    def test_a_process_that_is_killed_while_it_makes_a_store_leaves_no_file(self):
        folder = mp.Queue()._folder
        steps = {"fcntl.flock": 2, "os.posix_fallocate": 2, "os.link": 1, "os.makedirs": 1}
        for step, times in steps.items():
            for after in range(times):
                module, name = step.split(".")
                real = getattr(getattr(_mp_stores, module), name)

                def dies(*args, real=real, after=after, **named):
                    if after:
                        real(*args, **named)
                    die()

                def child():
                    with unittest.mock.patch.object(getattr(_mp_stores, module), name, dies):
                        _mp_stores.Store(folder)

                self.assertEqual(self.ended(self.forked(child)), -signal.SIGKILL, step)
                self.assertEqual(_mp_stores.adopted(folder), ([], False), step)
                self.assertFalse(os.path.exists(folder), step)
        _mp_stores.Store(folder).close()
        self.assertFalse(os.path.exists(folder))

    def test_a_finished_queue_leaves_no_store(self):
        line = mp.Queue()
        for n in range(3000):
            line.put(n)
        self.assertTrue(os.listdir(line._folder))
        self.assertEqual([line.get(timeout=60) for _ in range(3000)], list(range(3000)))
        self.until(lambda: not os.path.exists(line._folder))
        for n in range(3000):
            line.put(n)
        line.cancel_join_thread()
        self.until(lambda: not os.path.exists(line._folder))
        # A child that is forked meanwhile has nothing of it to send.
        for n in range(3000):
            line.put("again")
        process = mp.get_context("fork").Process(target=line.put, args=("from a child",))
        process.start()
        self.assertIn("from a child", iter(lambda: line.get(timeout=60), None))
        process.join()
        line.cancel_join_thread()

    def test_a_joinable_queue_is_joined(self):
        line = mp.JoinableQueue()
        process = mp.Process(target=work, args=(line,))
        process.start()
        for n in range(10):
            line.put(n)
        line.join()
        line.put(None)
        process.join()
        line.task_done()
        with self.assertRaises(ValueError):
            line.task_done()

    def test_a_killed_workers_task_is_run_again(self):
        with mp.Pool(2) as pool:
            path = os.path.join(self.directory, "once")
            self.assertEqual(pool.apply(die_once, (path,)), "lived")
            self.assertEqual(pool.map(square, range(20)), [n * n for n in range(20)])
            with self.assertRaises(mp.WorkerDied):
                pool.apply(die)

    def test_or_it_fails(self):
        with mp.Pool(2, on_death="fail") as pool:
            with self.assertRaises(mp.WorkerDied):
                pool.apply(die_once, (os.path.join(self.directory, "fails"),))
            self.assertEqual(pool.apply(square, (3,)), 9)
            with self.assertRaises(ZeroDivisionError):
                pool.apply(divmod, (1, 0))

    def test_an_executor_goes_on(self):
        with mp.ProcessPoolExecutor(2) as executor:
            path = os.path.join(self.directory, "executor")
            futures = [executor.submit(die_once, path), *[executor.submit(square, n) for n in range(10)]]
            self.assertEqual([f.result(60) for f in futures], ["lived", *[n * n for n in range(10)]])
            self.assertEqual([*executor.map(square, range(5))], [0, 1, 4, 9, 16])

    def test_the_standard_executor_takes_the_context(self):
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=mp.get_context("spawn")) as executor:
            self.assertEqual(executor.submit(square, 4).result(60), 16)

    def test_calls_are_as_before_after_one_changed_import(self):
        self.assertEqual(mp.Semaphore(3).get_value(), 3)
        limited = mp.BoundedSemaphore(2)
        with self.assertRaises(ValueError):
            limited.release()
        with mp.Manager() as manager:
            self.assertEqual(manager.dict(a=1).copy(), {"a": 1})
        self.assertIs(mp.get_context("fork").get_context("spawn"), mp.get_context("spawn"))
        contexts = multiprocessing.context._concrete_contexts
        contexts["theirs"] = multiprocessing.context.SpawnContext()
        self.addCleanup(contexts.pop, "theirs")
        self.assertIs(mp.get_context("theirs"), contexts["theirs"])
        with self.assertRaises(ValueError):
            mp.get_context("nobody's")
        self.assertTrue(issubclass(mp.WorkerDied, concurrent.futures.process.BrokenProcessPool))

    def test_an_initializer_that_fails_ends_the_pool_and_says_so(self):
        broken = concurrent.futures.process.BrokenProcessPool
        pool = mp.Pool(2, fail)
        # The second call, at the latest, is made when it is known.
        for _ in range(2):
            with self.assertRaisesRegex(broken, "mine"):
                pool.map(square, range(10))
        pool.terminate()
        pool.join()
        with mp.ProcessPoolExecutor(2, initializer=die) as executor:
            with self.assertRaisesRegex(broken, "before they were ready"):
                executor.submit(square, 1).result(60)

    def test_an_answer_that_cannot_be_made_again_fails_its_task_alone(self):
        # The first two once looked like a worker's death; the last one ended the thread.
        for error in (EOFError, OSError, ValueError, SystemExit):
            with mp.Pool(1) as pool:
                with self.assertRaises(error):
                    pool.apply_async(RaisesWhenMade, (error,)).get(60)
                self.assertEqual(pool.apply_async(square, (3,)).get(60), 9)

    def test_a_killed_workers_own_child_holds_nobody_up(self):
        path, large = os.path.join(self.directory, "forks"), b"x" * (8 << 20)
        with mp.Pool(1) as pool:
            result = pool.apply_async(fork_and_sleep, (path,))
            self.until(lambda: os.path.exists(path) and os.path.getsize(path) > 3)
            with open(path) as file:
                worker, child = map(int, file.read().split())
            self.addCleanup(os.kill, child, signal.SIGKILL)
            os.kill(worker, signal.SIGKILL)
            self.assertEqual(result.get(60), "lived")
            self.assertEqual(pool.apply_async(len, (large,)).get(60), len(large))
            self.assertEqual(len(pool.apply_async(bytes, (8 << 20,)).get(60)), 8 << 20)

    def test_a_process_that_cannot_be_started_leaves_none_behind(self):
        context, made = mp.get_context("fork"), []

        class Refusing:
            def Process(self, **named):
                if len(made) == 2:
                    raise OSError("no more of them")
                made.append(context.Process(**named))
                return made[-1]

        with self.assertRaisesRegex(OSError, "no more of them"):
            mp.Pool(4, context=Refusing())
        self.assertEqual([process.is_alive() for process in made], [False, False])

    def test_workers_whose_thread_cannot_be_started_are_not_left_behind(self):
        before = len(os.listdir("/proc/self/fd"))
        refuses = unittest.mock.patch.object(threading.Thread, "start", side_effect=RuntimeError)
        for made in (lambda: mp.Pool(2, context=mp.get_context("fork")), mp.ProcessPoolExecutor):
            try:
                with refuses:
                    made()
            except RuntimeError:
                # While the traceback has all that was made: nothing ends by being forgotten.
                self.assertEqual(multiprocessing.active_children(), [])
            else:
                self.fail("it was made without a thread")
            gc.collect()
            self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_workers_that_have_done_their_share_cost_no_task(self):
        with mp.Pool(2, maxtasksperchild=1, on_death="fail") as pool:
            self.assertEqual(pool.map(square, range(12), 1), [n * n for n in range(12)])
        with mp.ProcessPoolExecutor(1, max_tasks_per_child=2, on_death="fail") as executor:
            self.assertEqual(len({executor.submit(os.getpid).result(60) for _ in range(6)}), 3)

    def test_an_executors_tasks_are_done_before_the_end_of_the_program(self):
        made = self.script("""
import os, time
from chappe import mp
def late(n): time.sleep(0.2); os.write(1, b"%d " % n)
executor = mp.ProcessPoolExecutor(2, mp.get_context("fork"))
for n in range(3): executor.submit(late, n)
""")
        self.assertEqual((made.returncode, sorted(made.stdout.split())), (0, ["0", "1", "2"]), made.stderr)

    def test_a_pool_that_was_forked_is_its_parents(self):
        with mp.Pool(1) as pool:

            def child():
                with self.assertRaisesRegex(RuntimeError, str(os.getppid())):
                    pool.apply(square, (1,))

            self.assertEqual(self.ended(self.forked(child)), 0)
            self.assertEqual(pool.apply(square, (2,)), 4)

    def test_a_task_that_a_free_worker_can_run_is_not_cancelled(self):
        executor = mp.ProcessPoolExecutor(2, mp.get_context("fork"))
        # The thread that gives the tasks to the workers is late.
        with executor._workers.lock:
            futures = [executor.submit(abs, -n) for n in range(10)]
            executor.shutdown(wait=False, cancel_futures=True)
        executor.shutdown()
        self.assertEqual([future.cancelled() for future in futures], [False] * 2 + [True] * 8)
        self.assertEqual([future.result() for future in futures[:2]], [0, 1])

    def test_an_executor_maps_in_chunks(self):
        with mp.ProcessPoolExecutor(2) as executor:
            self.assertEqual([*executor.map(pow, range(7), range(7), chunksize=3)], [n**n for n in range(7)])
            with self.assertRaises(ValueError):
                executor.map(square, [1], chunksize=0)

    def test_an_object_that_does_not_pickle_is_reported_with_the_queue(self):
        with self.assertRaisesRegex((AttributeError, TypeError, pickle.PicklingError), "Queue"):
            mp.Queue().put(lambda: 0)
        with mp.Pool(1) as pool:
            result = pool.apply_async(lambda: 0)
            with self.assertRaises((AttributeError, TypeError, pickle.PicklingError)):
                result.get(60)

    def test_a_managers_dictionary_has_no_server(self):
        with mp.get_context("fork").Manager() as manager:
            entries = manager.dict({1: "a"})
            entries[(2, 3)] = [4]
            process = mp.Process(target=entries.update, args=({"from": "there"},))
            process.start()
            process.join()
            self.assertEqual(dict(entries), {1: "a", (2, 3): [4], "from": "there"})


    def test_a_dictionary_grows_and_has_values_and_keys_of_any_size(self):
        with mp.Manager() as manager:
            entries, long = manager.dict(), ("k" * 1000, 1)
            for n in range(2000):
                entries[n] = n
            entries["large"] = b"x" * (1 << 20)
            entries[long] = "long"
            process = mp.Process(target=change, args=(entries, long))
            process.start()
            process.join()
            self.assertEqual(process.exitcode, 0)
            self.assertEqual((len(entries), entries["large"], entries[long]), (2003, "small", [b"y" * 5000]))
            # In the order of insertion, whatever was changed since.
            self.assertEqual(list(entries), [*range(2000), "large", long, "there"])
            # The files of what is no more are gone.
            self.assertEqual(len(os.listdir(entries._home.folder)), 1)
            self.assertEqual((entries.popitem(), entries.pop(long)), (("there", 1), [b"y" * 5000]))
            self.assertEqual(os.listdir(entries._home.folder), [])
            with self.assertRaises(KeyError):
                entries[long]
            self.assertEqual((entries.setdefault(5, 6), entries.setdefault("new", 7), entries["new"]), (5, 7, 7))
            entries.clear()
            self.assertEqual(entries.copy(), {})

    def test_proxies_are_in_each_other(self):
        for method in ("fork", "spawn", "forkserver"):
            context = mp.get_context(method)
            with context.Manager() as manager:
                outer = manager.dict()
                outer["list"], outer["in"], outer["space"] = manager.list(), manager.dict(), manager.Namespace()
                outer["in"]["deep"] = manager.list([manager.dict(a=1)])
                outer["both"] = [outer["in"], {"lock": manager.Lock()}]
                process = context.Process(target=nest, args=(outer,))
                process.start()
                process.join()
                self.assertEqual(process.exitcode, 0)
                self.assertEqual(list(outer["list"]), ["there"])
                self.assertEqual(outer["in"]["deep"][0].copy(), {"a": 1, "b": [2]})
                self.assertEqual(outer["space"].x.copy(), {"y": 3})
                # What nothing refers to any more is the server's no more.
                count = manager._number_of_objects()
                outer["list"] = None
                self.assertEqual(manager._number_of_objects(), count - 1)

    def test_there_is_room_for_thousands_of_locks_and_what_is_freed_comes_back(self):
        def arenas():
            return [name for name in os.listdir(self.directory) if name.startswith("family-")]

        for method in ("fork", "spawn"):
            locks = [mp.Lock() for _ in range(10_000)]
            there, picked = len(arenas()), [locks[n] for n in (0, 5_000, 9_999)]
            process = mp.get_context(method).Process(target=take_all, args=(picked,))
            with picked[1]:
                process.start()
                while picked[0].acquire(False):
                    picked[0].release()
                self.assertFalse(picked[0].acquire(False))
            process.join()
            self.assertEqual(process.exitcode, 0)
            del locks
        self.assertLessEqual(len(arenas()), there)
        semaphores = [mp.Semaphore(n % 3) for n in range(10_000)]
        self.assertEqual([s.get_value() for s in semaphores[-3:]], [9_997 % 3, 9_998 % 3, 9_999 % 3])
        self.assertLessEqual(len(arenas()), there)
        queues = [mp.Queue() for _ in range(200)]
        for n, queue in enumerate(queues):
            queue.put(n)
        self.assertEqual([queue.get() for queue in queues], [*range(200)])


class Kills(Case):
    """Workers are killed at random moments; nothing hangs, and nothing is lost but what is reported."""

    kills = int(os.environ.get("CHAPPE_PY_KILLS", "20"))

    def killed(self, start, kills):
        """Keeps two workers going and kills them at random."""
        workers = [self.forked(start) for _ in range(2)]
        for _ in range(kills):
            time.sleep(random.uniform(0, 0.004))
            at = random.randrange(2)
            os.kill(workers[at], signal.SIGKILL)
            self.assertEqual(self.ended(workers[at]), -signal.SIGKILL)
            workers[at] = self.forked(start)
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
            self.ended(worker)

    def test_locks(self):
        lock = mp.Lock(on_death="ignore")

        def forever():
            while True:
                with lock:
                    pass

        self.killed(forever, self.kills)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertTrue(lock.acquire(timeout=60))

    def test_maps(self):
        entries, acknowledged = chappe.Map(), chappe.Semaphore(value=0)

        def forever():
            while True:
                entries.update_value("n", lambda n: n + 1, 0)
                acknowledged.up()

        self.killed(forever, self.kills)
        said = acknowledged.value
        # Each that was killed may have counted and not said so; nobody said so and had not counted.
        self.assertLessEqual(said, entries["n"])
        self.assertLessEqual(entries["n"], said + self.kills + 2)

    def test_queues(self):
        line, sent = mp.Queue(), chappe.Semaphore(value=0)

        def forever():
            while True:
                line.put("item")
                sent.up()

        got = 0
        workers = [self.forked(forever) for _ in range(2)]
        for _ in range(self.kills):
            for _ in range(random.randrange(50)):
                self.assertEqual(line.get(timeout=60), "item")
                got += 1
            at = random.randrange(2)
            os.kill(workers[at], signal.SIGKILL)
            self.ended(workers[at])
            workers[at] = self.forked(forever)
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
            self.ended(worker)
        try:
            while True:
                line.get(timeout=0.05)
                got += 1
        except queue.Empty:
            pass
        # What a killed process had no room for in the queue goes with it; all that is in the queue comes.
        self.assertGreaterEqual(got, 1)
        line.put("on")
        self.assertEqual(line.get(timeout=60), "on")

    def test_pools(self):
        with mp.Pool(2) as pool:
            for turn in range(self.kills):
                results = [pool.apply_async(square, (n,)) for n in range(8)]
                pids = pool.pids()
                if pids:
                    try:
                        os.kill(random.choice(pids), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                self.assertEqual([r.get(60) for r in results], [n * n for n in range(8)], turn)

    def test_executors(self):
        with mp.ProcessPoolExecutor(2) as executor:
            for turn in range(self.kills):
                results = [executor.submit(square, n) for n in range(8)]
                pids = executor.pids()
                if pids:
                    try:
                        os.kill(random.choice(pids), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                self.assertEqual([r.result(60) for r in results], [n * n for n in range(8)], turn)


if __name__ == "__main__":
    unittest.main()
