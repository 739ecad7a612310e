"""Each object does what it says: alone, between processes, after a death, pickled, and asked for nonsense."""

import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings

import chappe
from house import PATIENCE, Case


# In a small /dev/shm: each kind of object until there is no room, and a long object of a queue; then what there is goes on.
FULL = """
import os, chappe
from chappe import mp
lock, line = chappe.Lock(), mp.Queue(4)
def until(make):
    kept = []
    try:
        while True: kept.append(make())
    except chappe.NoSpace as told: print(type(told).__name__)
until(lambda: chappe.Tube(slots=4, size=1 << 18))
until(lambda: chappe.Map(entries=5000))
until(lambda: chappe.Tube(slots=64, size=1024))
def long():
    line.put(bytes(1 << 22))
until(long)
print("left:", len(os.listdir(f"/dev/shm/chappe-py-{os.getuid()}")))
with lock: line.put("on")
print(line.get())
"""


class Pools(Case):
    def test_a_permit_is_its_value_and_comes_back(self):
        pool = chappe.Pool("gpu", ["cuda:0", "cuda:1"])
        with pool.acquire(timeout=5) as one, pool.acquire() as two:
            self.assertEqual((one, two), ("cuda:0", "cuda:1"))
            self.assertIsNone(pool.try_acquire())
            with self.assertRaises(TimeoutError):
                pool.acquire(timeout=0.01)
        self.assertEqual(pool.available, 2)

    def test_a_killed_holders_permit_goes_to_the_next(self):
        pool = chappe.Pool(None, 1)
        ready, told = os.pipe()

        def hold():
            permit = pool.acquire()
            os.write(told, b"x")
            signal.pause()
            permit.release()

        child = self.forked(hold)
        os.read(ready, 1)
        self.assertIn(str(child), repr(pool))
        os.kill(child, signal.SIGKILL)
        pool.acquire(timeout=60).release()
        self.assertEqual(self.ended(child), -signal.SIGKILL)

    def test_a_permit_may_be_given_back_by_another_thread(self):
        pool = chappe.Pool()
        permit = pool.acquire()
        thread = threading.Thread(target=permit.release)
        thread.start()
        thread.join()
        self.assertEqual((pool.available, permit.valid, permit.value), (1, False, None))

    def test_a_permit_of_before_a_fork_is_the_parents(self):
        pool = chappe.Pool()
        with pool.acquire():
            child = self.forked(lambda: self.assertEqual(pool.available, 0))
            self.assertEqual(self.ended(child), 0)
            self.assertEqual(pool.available, 0)

    def test_names_are_strings_or_paths(self):
        self.assertEqual(chappe.Pool(pathlib.PurePath("by-path"), 3).name, "by-path")
        for bad, error in [(7, TypeError), ("", ValueError), ("a b", ValueError), (b"x", TypeError)]:
            with self.assertRaises(error, msg=repr(bad)):
                chappe.Pool(bad, 1)

    def test_an_impossible_open_raises_with_the_name(self):
        chappe.Pool("three", 3)
        with self.assertRaisesRegex(chappe.Mismatch, "three"):
            chappe.Pool("three", 4)
        with self.assertRaisesRegex(chappe.Mismatch, "three"):
            chappe.Semaphore("three")
        with self.assertRaisesRegex(chappe.NotFound, "nowhere"):
            chappe.Pool("nowhere", create=False)
        with self.assertRaisesRegex(FileExistsError, "three"):
            chappe.Pool("three", 3, create=True)
        with self.assertRaises(ValueError):
            chappe.Pool(None, 0)
        with self.assertRaises(ValueError):
            chappe.Pool().acquire(timeout=float("nan"))

    def test_an_invalid_name_or_count_is_refused(self):
        class Path:
            def __fspath__(self):
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            chappe.Pool(Path(), 1)
        with self.assertRaisesRegex(ValueError, "not a valid name"):
            chappe.Pool("a\udc80b", 1)
        with self.assertRaisesRegex(TypeError, "permits"):
            chappe.Pool(None, 1.5)
        barrier = chappe.Barrier(2, name="two")
        with self.assertRaisesRegex(chappe.Mismatch, "`two` is there with 2 parties.*not 3"):
            chappe.Barrier(3, name=barrier.name)
        with self.assertRaisesRegex(OSError, "descriptor 1048575"):
            chappe.select((1048575, "w"), timeout=60)
        with chappe.Pool("used", 1).acquire(), self.assertRaisesRegex(chappe.InUse, "force=True"):
            chappe.remove("used")

    def test_an_object_that_does_not_pickle_is_reported_with_the_tube(self):
        wrong = (AttributeError, TypeError, pickle.PicklingError)
        with self.assertRaisesRegex(wrong, "tube `told`"):
            chappe.Tube("told").put(lambda: 0)
        with self.assertRaisesRegex(TypeError, "tube `told`"):
            chappe.Tube("told").send("text")
        with self.assertRaisesRegex(wrong, "map `told-map`"):
            chappe.Map("told-map")["a"] = lambda: 0

    def test_a_directory_of_another_user_is_a_permission_error(self):
        if os.getuid() != 0:
            self.skipTest("only root can become another user")
        os.chmod(self.directory, 0o700)

        def other():
            os.setuid(65534)
            for make in (lambda: chappe.Pool("ours", 1), lambda: chappe.Tube("ours-too", create=False)):
                with self.assertRaisesRegex(PermissionError, "arena|directory"):
                    make()

        self.assertEqual(self.ended(self.forked(other)), 0)

    @unittest.skipUnless(os.getuid() == 0, "only root can mount")
    def test_a_full_file_system_is_an_exception(self):
        made = subprocess.run(
            ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=3m none /dev/shm && exec " + f"{sys.executable} -c '{FULL}'"],
            capture_output=True, text=True, timeout=PATIENCE, env={k: v for k, v in os.environ.items() if k != "CHAPPE_DIR"},
        )  # fmt: skip
        if "permitted" in made.stderr or "must be superuser" in made.stderr:
            self.skipTest(made.stderr)
        self.assertEqual((made.returncode, made.stdout.split()), (0, ["NoSpace"] * 4 + ["left:", "0", "on"]), made.stderr)

    def test_a_removed_pool_says_so(self):
        pool = chappe.Pool("gone", 1)
        chappe.remove("gone")
        with self.assertRaisesRegex(chappe.Removed, "gone"):
            pool.acquire()


class Interrupts(Case):
    def waits(self, what):
        """Each wait of the main thread ends by what a signal's handler raises."""
        program = f"""
import os, signal, threading, time, chappe
def stop():
    ready.wait()
    # A signal between the last look and the sleep is seen by the next one.
    while not over:
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
over = False
{what[0]}
ready = threading.Event()
threading.Thread(target=stop, daemon=True).start()
try:
    ready.set()
    {what[1]}
except KeyboardInterrupt:
    over = True
    print("interrupted")
"""
        made = self.script(program)
        self.assertIn("interrupted", made.stdout, made.stderr)

    def test_ctrl_c_ends_each_wait(self):
        for what in [
            ("p = chappe.Pool(); q = p.acquire()", "p.acquire()"),
            ("s = chappe.Semaphore(value=0)", "s.down()"),
            ("s = chappe.Semaphore(value=0)", "s.acquire(timeout=100)"),
            ("l = chappe.Lock(); l.acquire()", "l.acquire()"),
            ("w = chappe.RwLock(); r = w.read()", "w.write()"),
            ("c = chappe.Condition(); c.acquire()", "c.wait_for(lambda: False)"),
            ("e = chappe.Event()", "e.wait()"),
            ("b = chappe.Barrier(2)", "b.wait()"),
            ("b = chappe.Barrier(2, print)", "b.wait()"),
            ("b = chappe.Barrier(2)", "chappe.select(b.arrive().wait)"),
            ("t = chappe.Tube()", "t.recv()"),
            ("t = chappe.Tube(slots=1); t.send(b'')", "t.send(b'')"),
            ("m = chappe.Map()", "m.wait_changed()"),
            ("s = chappe.Semaphore(value=0)", "chappe.select(s.down)"),
            ("l = chappe.RLock(); threading.Thread(target=l.acquire).start()", "l.acquire()"),
            ("l = chappe.Lock(); l.acquire()", "l.recover()"),
            ("w = chappe.RwLock(); r = w.write()", "w.read(timeout=100)"),
            ("t = chappe.Tube(slots=1); t.send(b'')", "t.reserve().__enter__()"),
            ("t = chappe.Tube()", "t.borrow().__enter__()"),
            ("t = chappe.Tube()", "next(iter(t))"),
            ("c = chappe.after(100)", "c.recv()"),
            ("c = chappe.tick(100)", "next(c)"),
            ("from chappe import mp; q = mp.Queue()", "q.get()"),
            ("from chappe import mp; q = mp.Queue(1); q.put(1)", "q.put(2)"),
            ("from chappe import mp; q = mp.JoinableQueue(); q.put(1)", "q.join()"),
            ("from chappe import mp; p = mp.Pool(1)", "p.apply(time.sleep, (100,))"),
        ]:
            with self.subTest(what[1]):
                self.waits(what)

    def test_a_handler_that_raises_nothing_lets_the_wait_go_on(self):
        made = self.script("""
import os, signal, threading, time, chappe
s, seen = chappe.Semaphore(value=0), []
def handler(*_):
    seen.append(1)
    s.up()
signal.signal(signal.SIGUSR1, handler)
over = threading.Event()
def send():
    while not over.wait(0.05):
        os.kill(os.getpid(), signal.SIGUSR1)
threading.Thread(target=send, daemon=True).start()
s.down()
over.set()
print(bool(seen))
""")
        self.assertEqual(made.stdout, "True\n", made.stderr)

    def test_other_threads_run_while_one_waits(self):
        semaphore = chappe.Semaphore(value=0)
        thread = threading.Thread(target=semaphore.up)
        waiter = threading.Thread(target=semaphore.down)
        waiter.start()
        self.until(lambda: semaphore.waiting == 1)
        thread.start()
        waiter.join(60)
        self.assertFalse(waiter.is_alive())


class Locks(Case):
    def test_it_is_a_lock(self):
        for lock in (chappe.Lock(), chappe.RLock()):
            with lock:
                self.assertTrue(lock.locked())
                thread = threading.Thread(target=lambda lock=lock: self.assertFalse(lock.acquire(timeout=0.01)))
                thread.start()
                thread.join()
            self.assertFalse(lock.locked())
            with self.assertRaises(RuntimeError):
                lock.release()

    def test_a_recursive_one_is_taken_again(self):
        lock = chappe.RLock()
        with lock, lock:
            self.assertEqual(lock.depth, 2)
            child = self.forked(lambda: self.assertFalse(lock.acquire(False)))
            self.assertEqual(self.ended(child), 0)
        self.assertFalse(lock.locked())
        self.assertFalse(chappe.Lock(lock.name).locked())

    def killed(self, lock):
        child = self.forked(lambda: (lock.acquire(), os.kill(os.getpid(), signal.SIGKILL)))
        self.assertEqual(self.ended(child), -signal.SIGKILL)

    def test_a_killed_holder_is_warned_of(self):
        for lock in (chappe.Lock(), chappe.RLock()):
            self.killed(lock)
            with self.assertWarns(chappe.OwnerDiedWarning):
                self.assertTrue(lock.acquire(timeout=60))
            self.assertEqual(lock.deaths, 1)
            lock.release()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with lock:
                    pass

    def test_a_killed_holder_is_raised_until_it_is_mended(self):
        lock = chappe.Lock(on_death="raise")
        self.killed(lock)
        for _ in range(2):
            with self.assertRaises(chappe.OwnerDied):
                lock.acquire(timeout=60)
            self.assertFalse(lock.locked())
        with self.assertRaises(ZeroDivisionError), lock.recover():
            raise ZeroDivisionError
        with self.assertRaises(chappe.OwnerDied), lock:
            pass
        with lock.recover():
            pass
        with lock:
            pass

    def test_a_warning_made_an_error_leaves_the_lock_free(self):
        lock = chappe.Lock()
        self.killed(lock)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(chappe.OwnerDiedWarning):
                lock.acquire()
        self.assertFalse(lock.locked())

    def test_a_fork_in_a_section_leaves_the_lock_to_the_parent(self):
        lock = chappe.Lock("forked-in")

        def child():
            with self.assertRaisesRegex(RuntimeError, "forked-in.*parent"):
                lock.release()

        with lock:
            self.assertEqual(self.ended(self.forked(child)), 0)
            self.assertTrue(lock.locked())

    def test_readers_share_and_a_writer_does_not(self):
        lock = chappe.RwLock()
        with lock.read(), lock.read():
            with self.assertRaises(TimeoutError):
                lock.write(timeout=0.01)
        with lock.write():
            with self.assertRaises(TimeoutError):
                lock.read(timeout=0.01)
        child = self.forked(lambda: (lock.write(), os.kill(os.getpid(), signal.SIGKILL)))
        self.ended(child)
        with self.assertWarns(chappe.OwnerDiedWarning):
            lock.write(timeout=60).release()
        with lock.read(timeout=60):
            pass


class Conditions(Case):
    def test_a_waiter_is_notified(self):
        condition, ready = chappe.Condition(chappe.Lock()), []
        with self.assertRaises(RuntimeError):
            condition.notify()

        def waiter():
            with condition:
                ready.append(1)
                self.assertTrue(condition.wait(60))
                ready.append(2)

        threads = [threading.Thread(target=waiter) for _ in range(3)]
        for thread in threads:
            thread.start()
        self.until(lambda: len(ready) == 3)
        with condition:
            condition.notify(1)
        self.until(lambda: len(ready) == 4)
        with condition:
            condition.notify_all()
        for thread in threads:
            thread.join()
        with condition:
            self.assertFalse(condition.wait(0.01))
            self.assertEqual(condition.wait_for(lambda: 7), 7)

    def test_a_recursive_lock_is_given_up_and_had_again_whole(self):
        condition = chappe.Condition()
        with condition, condition:
            child = self.forked(lambda: (condition.acquire(), condition.notify(), condition.release()))
            self.assertTrue(condition.wait(60))
            self.assertEqual(self.ended(child), 0)

    def test_an_event_is_seen_by_all(self):
        event = chappe.Event("go")
        children = [self.forked(lambda: self.assertTrue(chappe.Event("go").wait(60))) for _ in range(3)]
        event.set()
        self.assertEqual([self.ended(child) for child in children], [0, 0, 0])
        event.clear()
        self.assertFalse(event.wait(0.01))


class Tubes(Case):
    def test_records_and_objects_go_through(self):
        tube = chappe.Tube(slots=4, size=1000)
        for data in (b"bytes", bytearray(b"array"), memoryview(b"a view")):
            tube.send(data)
            self.assertEqual(tube.recv(), bytes(data))
        for value in (None, [1, 2], {"a": "b" * 100}):
            tube.put(value)
            self.assertEqual(tube.get(), value)
        self.assertIsNone(tube.try_recv())
        with self.assertRaises(TimeoutError):
            tube.recv(timeout=0.01)
        with self.assertRaisesRegex(ValueError, "too long"):
            tube.send(bytes(1001))
        with self.assertRaises(TypeError):
            tube.send("text")
        with self.assertRaises((AttributeError, TypeError, pickle.PicklingError)):
            tube.put(lambda: 0)

    def test_an_out_of_band_buffer_comes_back_whole(self):
        tube = chappe.Tube(slots=2, size=1 << 16)
        data = pickle.PickleBuffer(bytearray(range(256)) * 100)
        tube.put(data)
        self.assertEqual(bytes(tube.get()), bytes(range(256)) * 100)

    def test_an_iteration_ends_when_all_senders_have_gone(self):
        tube = chappe.Tube("lines")
        child = self.forked(lambda: [*(tube.send(b"%d" % n) for n in range(10)), tube.close()])
        self.assertEqual([*tube], [b"%d" % n for n in range(10)])
        self.assertEqual(self.ended(child), 0)
        with self.assertRaises(EOFError):
            tube.recv()

    def test_a_sender_is_told_that_nobody_receives(self):
        tube = chappe.Tube(slots=1)
        tube.attach(recv=True)
        tube.close(recv=True)
        with self.assertRaises(BrokenPipeError):
            for _ in range(3):
                tube.send(b"x")

    def test_a_view_is_no_use_after_its_block(self):
        tube = chappe.Tube(size=16)
        with tube.reserve(length=4) as slot:
            slot[:] = b"four"
        with self.assertRaises(ValueError):
            slot[0]
        with tube.borrow() as record:
            self.assertEqual(bytes(record), b"four")
            with self.assertRaises(TypeError):
                record[0] = 1
        with self.assertRaises(ValueError):
            bytes(record)

    def test_a_block_that_raises_sends_nothing_and_receives_nothing(self):
        tube = chappe.Tube(size=16)
        with self.assertRaises(ZeroDivisionError), tube.reserve():
            raise ZeroDivisionError
        self.assertEqual(len(tube), 0)
        tube.send(b"once")
        with self.assertRaises(ZeroDivisionError), tube.borrow():
            raise ZeroDivisionError
        self.assertEqual(tube.recv_redelivered(), (b"once", True))

    def test_a_record_whose_borrower_was_killed_comes_again(self):
        tube = chappe.Tube(size=16)
        tube.send(b"again")

        def die():
            with tube.borrow():
                os.kill(os.getpid(), signal.SIGKILL)

        self.assertEqual(self.ended(self.forked(die)), -signal.SIGKILL)
        with tube.borrow(timeout=60) as record:
            self.assertEqual(bytes(record), b"again")

    def test_threads_share_one_handle(self):
        tube, got = chappe.Tube(slots=4), []

        def work():
            for _ in range(100):
                got.append(tube.get(timeout=60))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for n in range(400):
            tube.put(n, timeout=60)
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(got), list(range(400)))


class Maps(Case):
    def test_it_is_a_dictionary(self):
        entries = chappe.Map("shards", 100)
        entries["a"] = [1]
        entries.update(b=2, c=3)
        self.assertEqual((entries["a"], entries.get("z"), len(entries), "b" in entries), ([1], None, 3, True))
        self.assertEqual((entries.pop("b"), entries.setdefault("c", 9), sorted(entries)), (2, 3, ["a", "c"]))
        with self.assertRaises(KeyError):
            entries["b"]
        with self.assertRaises(KeyError):
            del entries["b"]
        with self.assertRaises(TypeError):
            entries[7] = 1
        with self.assertRaisesRegex(ValueError, "shards"):
            entries["k" * 100] = 1
        self.assertEqual(chappe.Map("shards")["a"], [1])

    def test_a_full_one_says_so(self):
        entries = chappe.Map(entries=1)
        entries["a"] = 1
        with self.assertRaises(chappe.NoSpace):
            entries["b"] = 1

    def test_counting_loses_nothing(self):
        entries = chappe.Map()
        count = lambda: [entries.update_value("n", lambda n: n + 1, 0) for _ in range(200)]
        children = [self.forked(count) for _ in range(3)]
        self.assertEqual([self.ended(child) for child in children], [0, 0, 0])
        self.assertEqual(entries["n"], 600)


class Choices(Case):
    def test_one_thing_is_done(self):
        tube, stop, pool, lock = chappe.Tube(), chappe.Semaphore(value=0), chappe.Pool(), chappe.Lock()
        held = pool.acquire()
        lock.acquire()
        with self.assertRaises(TimeoutError):
            chappe.select(tube.recv, stop.down, pool.acquire, lock.acquire, timeout=0.01)
        tube.send(b"x")
        self.assertEqual(chappe.select(tube.recv, stop.down, pool.acquire), (0, b"x"))
        stop.up()
        self.assertEqual(chappe.select(tube.recv, stop.down, pool.acquire).index, 1)
        held.release()
        choice = chappe.select(tube.recv, stop.down, pool.acquire, lock.acquire)
        self.assertEqual((choice.index, choice.value.value), (2, 0))
        lock.release()
        choice = chappe.select(stop.down, lock.acquire)
        self.assertIs(choice.value, lock)
        lock.release()
        self.assertEqual(chappe.select((tube.put, "y"), stop.down).index, 0)
        self.assertEqual(chappe.select(tube.get), (0, "y"))

    def test_files_are_arms(self):
        out, into = os.pipe()
        stop = chappe.Semaphore(value=0)
        self.assertEqual(chappe.select(stop.down, (into, "w")).index, 1)
        os.write(into, b"x")
        self.assertEqual(chappe.select(stop.down, out).index, 1)
        os.close(out)
        os.close(into)

    def test_an_object_that_is_no_arm_is_refused(self):
        for bad in ("x", chappe.Event().wait, -1, (1, 2, 3), object()):
            with self.assertRaises(TypeError, msg=repr(bad)):
                chappe.select(bad)
        with self.assertRaises(ValueError):
            chappe.select()


class Clocks(Case):
    def test_a_clock_strikes_in_time(self):
        begun = time.monotonic()
        clock, moments = chappe.tick(0.01), []
        for moment in clock:
            moments.append(moment)
            if len(moments) == 3:
                break
        self.assertEqual(moments, sorted(moments))
        # Some digits are lost between the two scales.
        self.assertGreaterEqual(moments[0], begun + 0.01 - 1e-4)
        self.assertGreaterEqual(moments[2], begun + 0.03 - 1e-4)
        once = chappe.after(0)
        self.assertGreaterEqual(once.recv(60), begun)
        self.assertIsNone(once.try_recv())
        with self.assertRaisesRegex(TimeoutError, "after 0 s"):
            once.recv(timeout=0.01)
        choice = chappe.select(chappe.Semaphore(value=0).down, chappe.after(0.01).recv)
        self.assertEqual((choice.index, choice.value >= begun + 0.01 - 1e-4), (1, True))

    def test_an_invalid_time_is_refused(self):
        for make in (
            lambda: chappe.tick(0),
            lambda: chappe.tick(-1),
            lambda: chappe.after(-1),
            lambda: chappe.after(float("nan")),
            lambda: chappe.tick(float("inf")),
        ):
            with self.assertRaisesRegex(ValueError, "seconds"):
                make()
        with self.assertRaises(TypeError):
            pickle.dumps(chappe.tick(1))


class Pickles(Case):
    def test_everything_is_the_same_when_unpickled(self):
        lock = chappe.Lock(on_death="raise")
        for made in (
            chappe.Pool(None, ["a", "b"]),
            chappe.Pool("named", 2),
            chappe.Semaphore(value=3),
            lock,
            chappe.RLock("rl"),
            chappe.RwLock(readers=3),
            chappe.Condition(lock),
            chappe.Event(),
            chappe.Barrier(2),
            chappe.Tube(slots=3, size=10),
            chappe.Map(entries=3, codec="text"),
        ):
            again = pickle.loads(pickle.dumps(made))
            self.assertEqual((type(again), again.name), (type(made), made.name))
        self.assertEqual(pickle.loads(pickle.dumps(chappe.Pool(None, ["a"]))).values, ("a",))
        for held in (chappe.Pool().acquire(), chappe.RwLock().read()):
            with self.assertRaises(TypeError):
                pickle.dumps(held)

    def test_a_program_of_its_own_has_the_same_object(self):
        tube = chappe.Tube("there")
        program = "import sys, pickle, chappe; pickle.loads(bytes.fromhex(sys.argv[1])).put('from there')"
        made = self.script(program, pickle.dumps(tube).hex())
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(tube.get(timeout=60), "from there")

    def test_an_unnamed_object_goes_with_its_last_handle(self):
        pool = chappe.Pool()
        name, arena = pool.name, pool.name.split("/")[0]

        def count():
            from chappe._chappe import _show

            return len(_show(arena))

        before = count()
        made = [chappe.Lock(), chappe.Tube(), chappe.Map(), chappe.Barrier(2), chappe.Condition(), chappe.Event()]
        self.assertGreater(count(), before)
        del made
        self.assertEqual(count(), before)
        child = self.forked(lambda: (time.sleep(0), pool.acquire()))
        del pool
        self.assertEqual(self.ended(child), 0)
        self.assertIn(name.split("/")[1], [n for n, *_ in __import__("chappe")._chappe._show(arena)])


if __name__ == "__main__":
    unittest.main()
