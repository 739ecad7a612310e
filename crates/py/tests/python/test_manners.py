"""The package among others: its stubs, its log, anyio and trio, pytest-xdist, gunicorn; and that a million operations leak nothing.

What is not installed is not tested, and says so.
"""

import asyncio
import importlib.util
import logging
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import chappe
from chappe import aio, mp
from house import PATIENCE, Case


def needs(*modules):
    """Skips a test, and says why, where a module is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Stubs(Case):
    @needs("mypy")
    def test_the_stubs_are_what_is_there(self):
        package = pathlib.Path(chappe.__file__).parent
        # An installed package lies beside others, which mypy takes for ours if they are in its directory.
        installed = "site-packages" in package.parts
        made = subprocess.run(
            [sys.executable, "-m", "mypy.stubtest", "chappe", "--ignore-missing-stub"],
            cwd=self.directory if installed else package.parent, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)

    @needs("mypy")
    def test_a_program_is_checked_by_them(self):
        program = """
            import chappe
            from chappe import mp
            lock: chappe.Lock = chappe.Lock("x", on_death="raise")
            taken: bool = lock.acquire(timeout=1.5)
            with chappe.Pool("p", ["a"]).acquire() as value: print(value)
            index, what = chappe.select(chappe.Tube().recv, timeout=1)
            done: chappe.Map = chappe.Map(entries=3)
            chappe.Lock(7)
            lock.acquire(tiemout=1)
            mp.Pool(2, on_death=3)
        """
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "program.py")
            file.write_text(textwrap.dedent(program))
            made = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", str(file)],
                cwd=folder, capture_output=True, text=True, timeout=600,
            )  # fmt: skip
        wrong = {line.split(":")[1] for line in made.stdout.splitlines() if ": error:" in line}
        self.assertEqual(wrong, {"9", "10", "11"}, made.stdout + made.stderr)


class Logs(Case):
    def test_a_death_is_logged(self):
        lock = chappe.Lock("logged", on_death="ignore")
        self.ended(self.forked(lambda: (lock.acquire(), die())))
        with self.assertLogs("chappe", logging.WARNING) as seen:
            self.assertTrue(lock.acquire(timeout=60))
        self.assertIn("logged", seen.output[0])
        with self.assertLogs("chappe", logging.WARNING) as seen, mp.Pool(1, on_death="fail") as pool:
            with self.assertRaises(mp.WorkerDied):
                pool.apply(die)
        self.assertIn("exit code -9", seen.output[0])

    def test_show_lists_the_objects(self):
        import io

        pool, shown = chappe.Pool("here", 2), io.StringIO()
        with pool.acquire():
            chappe.show(file=shown)
        self.assertIn("here: pool", shown.getvalue())


class Loops(Case):
    """What a loop of any kind can do with all of it."""

    async def all_of_it(self, sleep, together):
        tube, back = chappe.Tube(slots=2, size=64), chappe.Tube(slots=2, size=64)

        async def echo():
            async for record in aio.records(tube):
                await aio.send(back, record)

        async def ask():
            for n in range(20):
                await aio.send(tube, b"%d" % n)
                self.assertEqual(await aio.recv(back, 60), b"%d" % n)
            tube.seal()
            tube.close(send=True, recv=False)

        await together(echo, ask)
        with self.assertRaises(TimeoutError):
            await aio.recv(chappe.Tube(), 0.01)
        pool, lock, limit, rw = chappe.Pool(None, ["a"]), chappe.Lock(), chappe.Semaphore(), chappe.RwLock()
        async with aio.acquire(pool) as value, aio.acquire(lock), aio.read(rw):
            self.assertEqual((value, pool.available), ("a", 0))
            with self.assertRaises(TimeoutError):
                async with aio.write(rw, 0.01):
                    pass
        await aio.down(limit)
        condition, event, seen = chappe.Condition(chappe.Lock()), chappe.Event(), []

        async def waits():
            async with aio.acquire(condition):
                seen.append("waits")
                self.assertTrue(await aio.wait(condition, 60))

        async def tells():
            while not seen:
                await sleep(0.001)
            async with aio.acquire(condition):
                condition.notify()
            event.set()
            self.assertTrue(await aio.wait(event))

        await together(waits, tells)
        barrier = chappe.Barrier(2)

        async def passes():
            await aio.wait(barrier, 60)

        await together(passes, passes)
        self.assertEqual((await aio.select(back.recv, pool.acquire, timeout=60)).index, 1)
        self.assertFalse(await aio.wait(chappe.Event(), 0.01))

    def test_asyncio(self):
        async def together(*tasks):
            await asyncio.gather(*(task() for task in tasks))

        asyncio.run(asyncio.wait_for(self.all_of_it(asyncio.sleep, together), PATIENCE))

    @needs("trio")
    def test_trio(self):
        import trio

        async def together(*tasks):
            async with trio.open_nursery() as nursery:
                for task in tasks:
                    nursery.start_soon(task)

        async def main():
            with trio.fail_after(PATIENCE):
                await self.all_of_it(trio.sleep, together)

        trio.run(main)

    @needs("anyio", "trio")
    def test_anyio_on_both(self):
        import anyio

        async def together(*tasks):
            async with anyio.create_task_group() as group:
                for task in tasks:
                    group.start_soon(task)

        async def main():
            with anyio.fail_after(PATIENCE):
                await self.all_of_it(anyio.sleep, together)

        for backend in ("asyncio", "trio"):
            with self.subTest(backend):
                anyio.run(main, backend=backend)

    @needs("trio")
    def test_a_cancelled_wait_of_trio_has_taken_nothing(self):
        import trio

        pool, tube = chappe.Pool(), chappe.Tube()

        async def take():
            async with aio.acquire(pool):
                raise AssertionError("it was taken")

        async def main():
            with pool.acquire():
                with trio.move_on_after(0.01) as scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(take)
                        nursery.start_soon(aio.recv, tube)
                self.assertTrue(scope.cancelled_caught)
            tube.send(b"x")
            self.assertEqual((pool.available, len(tube)), (1, 1))

        trio.run(main)


class Hosts(Case):
    @needs("fastapi", "httpx")
    def test_a_web_server_shares_its_gpus_with_other_processes(self):
        import httpx

        example = pathlib.Path(__file__).parents[4] / "examples/python/gpu_api.py"
        spec = importlib.util.spec_from_file_location("gpu_api", example)
        api = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(api)
        ready, go = os.pipe(), os.pipe()

        def job():
            with chappe.Pool("gpu").acquire(), chappe.Pool("gpu").acquire():
                os.write(ready[1], b"x")
                os.read(go[0], 1)

        child = self.forked(job)
        os.read(ready[0], 1)

        async def main():
            server = httpx.ASGITransport(app=api.app)
            async with httpx.AsyncClient(transport=server, base_url="http://gpu", timeout=PATIENCE) as client:
                late = await client.get("/ask", params={"text": "now", "patience": 0.01})
                self.assertEqual((late.status_code, "`gpu`" in late.text), (503, True), late.text)
                asked = [asyncio.create_task(client.get("/ask", params={"text": f"q{n}"})) for n in range(5)]
                await asyncio.sleep(0)
                os.write(go[1], b"x")
                return [answer.json()["answer"] for answer in await asyncio.gather(*asked)]

        answers = asyncio.run(main())
        self.assertEqual([answer.split(" on ")[0] for answer in answers], [f"q{n}" for n in range(5)])
        self.assertTrue(all(answer.endswith(("cuda:0", "cuda:1")) for answer in answers), answers)
        self.assertEqual((self.ended(child), api.gpus.available), (0, 2))

    @needs("pytest", "xdist")
    def test_the_workers_of_xdist_share_a_pool(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "test_shared.py").write_text(
                "import chappe, pytest\n"
                "@pytest.mark.parametrize('n', range(12))\n"
                "def test_one(n):\n"
                "    with chappe.Pool('xdist', ['a', 'b']).acquire(timeout=60) as which:\n"
                "        assert which in 'ab'\n"
                "    chappe.Map('xdist-seen', entries=50)[str(n)] = n\n"
            )
            made = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-n", "3", "-p", "no:cacheprovider", folder],
                cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
            )  # fmt: skip
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        self.assertEqual((len(chappe.Map("xdist-seen")), chappe.Pool("xdist").available), (12, 2))

    @needs("gunicorn")
    def test_the_workers_of_gunicorn_share_a_limit_and_one_may_be_killed(self):
        limit, served = chappe.Semaphore("gunicorn-limit", 5), chappe.Map("gunicorn-served", entries=50)
        with tempfile.TemporaryDirectory() as folder:
            # What the master made before it forked is used, and so is what each worker opens.
            pathlib.Path(folder, "app.py").write_text(
                "import os, chappe\n"
                "limit, served = chappe.Semaphore('gunicorn-limit'), chappe.Map('gunicorn-served')\n"
                "def app(environ, start):\n"
                "    well = limit.acquire(timeout=0.01)\n"
                "    served.update_value(str(os.getpid()), lambda n: n + 1, 0)\n"
                "    start('200 OK' if well else '429 Too Many Requests', [])\n"
                "    return [str(os.getpid()).encode()]\n"
            )
            address = os.path.join(folder, "port")
            program = [
                sys.executable, "-m", "gunicorn", "--preload", "-w", "2", "-b", f"unix:{address}", "--no-control-socket", "app:app",
            ]  # fmt: skip
            server = subprocess.Popen(program, cwd=folder, stderr=subprocess.PIPE, text=True)
            self.addCleanup(server.stderr.close)
            self.addCleanup(server.kill)
            self.until(lambda: os.path.exists(address) or server.poll() is not None)
            self.assertIsNone(server.poll(), server.poll() and server.stderr.read())
            answers = [self.asked(address) for _ in range(8)]
            self.assertEqual(sorted(code for code, _ in answers), [200] * 5 + [429] * 3)
            os.kill(answers[0][1], signal.SIGKILL)
            limit.up()
            self.assertEqual(self.asked(address)[0], 200)
            self.assertEqual(sum(served.values()), 9)
            server.terminate()
            self.assertEqual(server.wait(PATIENCE), 0)

    def asked(self, address):
        """The status and the pid that a server answers with; asked again if its worker was killed just then."""
        import http.client
        import socket

        end = time.monotonic() + PATIENCE
        while True:
            try:
                connection = http.client.HTTPConnection("localhost", timeout=60)
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.connect(address)
                connection.request("GET", "/")
                answer = connection.getresponse()
                return answer.status, int(answer.read())
            except (OSError, http.client.HTTPException):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            finally:
                connection.close()


    @needs("fastapi", "uvicorn")
    def test_fastapi_workers_share_a_limit_that_survives_a_kill_of_its_clock(self):
        from test_documentation import book

        # The example says by itself whether it is right.
        made = self.script(f"import runpy; runpy.run_path({str(book() / 'examples/python/rate_limit.py')!r}, run_name='__main__')")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("workers of FastAPI", made.stdout)

    @needs("torch", "numpy")
    def test_the_workers_of_a_data_loader_share_a_pool_and_one_may_be_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "load.py")
            program.write_text(LOADER)
            # Each worker that is spawned imports torch first, which takes long.
            made = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=5 * PATIENCE)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        self.assertEqual(made.stdout.split(), ["fork", "spawn", "forkserver", "killed", "2", "2"])


# Workers of torch that share a pool, a map and a tube of frames with the loader; and one that is killed with its permit.
LOADER = """
import os, signal
import chappe, numpy as np, torch
from torch.utils.data import DataLoader, Dataset

class Frames(Dataset):
    def __init__(self, dies=None):
        self.pool, self.seen, self.dies = chappe.Pool(None, ["a", "b"]), chappe.Map(entries=200), dies
        self.frames = chappe.Tube(slots=64, dtype=np.float32, shape=(4,))
    def __len__(self):
        return 32
    def __getitem__(self, at):
        with self.pool.acquire(timeout=60) as which:
            if at == self.dies:
                os.kill(os.getpid(), signal.SIGKILL)
            self.seen[str(at)] = which
            with self.frames.reserve() as frame:
                frame[:] = at
            return torch.full((4,), float(at))

def main():
    for method in ("fork", "spawn", "forkserver"):
        data = Frames()
        data.frames.attach(recv=True)
        loader = DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context=method)
        got = sorted(int(row[0]) for batch in loader for row in batch)
        assert got == list(range(32)), got
        assert len(data.seen) == 32 and set(data.seen.values()) <= {"a", "b"} and data.pool.available == 2
        assert sorted(int(data.frames.recv(60)[0]) for _ in range(32)) == list(range(32))
        print(method, flush=True)
    data = Frames(dies=9)
    data.frames.attach(recv=True)
    try:
        for batch in DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context="fork"):
            pass
    except RuntimeError as told:
        assert "killed" in str(told) or "exited unexpectedly" in str(told), told
        print("killed", flush=True)
    with data.pool.acquire(timeout=60), data.pool.acquire(timeout=60):
        print(len(data.pool.values), flush=True)
    print(data.pool.available)

if __name__ == "__main__":
    main()
"""


class Ends(Case):
    def test_waits_under_way_do_not_hold_up_the_end_of_the_interpreter(self):
        made = self.script("""
import threading, time, chappe
s, l, t, e, p = chappe.Semaphore(value=0), chappe.Lock(), chappe.Tube(), chappe.Event(), chappe.Pool()
c, b, m = chappe.Condition(chappe.Lock()), chappe.Barrier(2), chappe.Map()
l.acquire(); held = p.acquire()
def waits_on_condition():
    with c: c.wait()
def begins_again():
    while True: s.acquire(timeout=0.001)
waits = (s.down, l.acquire, t.recv, e.wait, p.acquire, waits_on_condition, b.wait, m.wait_changed, begins_again,
         lambda: chappe.select(s.down, t.recv))
for wait in waits: threading.Thread(target=wait, daemon=True).start()
time.sleep(0.2)
print("end")
""")
        self.assertEqual((made.returncode, made.stdout), (0, "end\n"), made.stderr)

    def test_a_child_forked_in_a_section_has_nothing_and_breaks_nothing(self):
        tube, lock, pool = chappe.Tube(size=64), chappe.Lock("section"), chappe.Pool()

        def child():
            for give in (lock.release, lambda: reserved._it.commit(4)):
                with self.assertRaisesRegex(RuntimeError, "parent"):
                    give()
            self.assertEqual((pool.available, lock.acquire(False)), (0, False))

        reserved = tube.reserve(length=4)
        with lock, pool.acquire(), reserved as slot:
            self.assertEqual(self.ended(self.forked(child)), 0)
            slot[:] = b"four"
        self.assertEqual((tube.recv(), pool.available, lock.locked()), (b"four", 1, False))

    def test_numbers_that_cannot_be_say_of_what(self):
        for make, what in [
            (lambda: chappe.Tube(slots=-1), "slots"),
            (lambda: chappe.Map(entries=-1), "entries"),
            (lambda: chappe.Semaphore("few").up(-1), "few"),
            (lambda: chappe.Semaphore(value=1 << 40), "initial value"),
            (lambda: chappe.Pool(None, -1), "permits"),
            (lambda: chappe.RwLock(readers=-1), "readers"),
        ]:
            with self.assertRaisesRegex(ValueError, what):
                make()

    def test_quick_methods_are_the_generated_ones_but_for_their_speed(self):
        lock = chappe.Lock()
        for wrong in (lambda: lock.acquire(nonsense=1), lambda: lock.acquire(1, 2, 3), lambda: lock.release(1)):
            with self.assertRaises(TypeError):
                wrong()
        self.assertTrue(lock.acquire(True, 5) and not lock.acquire(blocking=False))
        self.assertEqual(lock.acquire.__doc__.split()[0], "Takes")
        self.assertIn("blocking=True", lock.acquire.__text_signature__)
        with self.assertRaises(TypeError):
            chappe.Lock.acquire(chappe.Semaphore())
        lock.release()


class Leaks(Case):
    """Operations by the hundred thousand leave no memory and no objects behind. `CHAPPE_PY_LEAKS=1000000` for as many."""

    count = int(os.environ.get("CHAPPE_PY_LEAKS", "20000"))

    def grows(self, act, count):
        """By how many KiB the process grows over so many operations, after as many to warm up."""

        def size():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize() // 1024

        for _ in range(count // 10 + 1000):
            act()
        before = size()
        for _ in range(count):
            act()
        return size() - before

    def test_nothing_grows(self):
        lock, rlock, semaphore, pool = chappe.Lock(), chappe.RLock(), chappe.Semaphore(), chappe.Pool(None, ["a"])
        tube, entries, event, rw = chappe.Tube(), chappe.Map(), chappe.Event(), chappe.RwLock()
        line, condition = mp.Queue(), chappe.Condition(chappe.Lock())

        def section(of):
            with of:
                pass

        def record():
            with tube.reserve(length=8) as slot:
                slot[:] = b"8 octets"
            with tube.borrow() as seen:
                bytes(seen)

        def refused():
            with lock:
                lock.acquire(False)
            try:
                lock.release()
            except RuntimeError:
                pass

        def notified():
            with condition:
                condition.notify_all()

        def chosen():
            tube.send(b"x")
            chappe.select(tube.recv, (tube.send, b"y"))
            while tube.try_recv() is not None:
                pass

        operations = [
            lambda: section(lock), lambda: section(rlock), lambda: section(semaphore), lambda: section(pool.acquire()),
            lambda: section(rw.read()), lambda: section(rw.write()), refused, notified, record,
            lambda: (tube.put([1]), tube.get()), lambda: (line.put("x"), line.get()), lambda: entries.update(a=1),
            lambda: entries.update_value("n", lambda n: n + 1, 0), lambda: (event.set(), event.wait(), event.clear()),
            chosen, lambda: tube.try_recv(),
        ]  # fmt: skip
        grown = {at: self.grows(act, self.count) for at, act in enumerate(operations)}
        # Far less than a byte an operation: what an allocator keeps is not counted as a leak.
        self.assertLess(max(grown.values()), 1024, grown)

    def test_no_reference_is_kept(self):
        if not hasattr(sys, "gettotalrefcount"):
            self.skipTest("the interpreter counts no references: it needs a debug build")
        lock, pool, tube, entries = chappe.Lock(), chappe.Pool(None, ["a"]), chappe.Tube(), chappe.Map()

        def act():
            with lock, pool.acquire():
                lock.acquire(False)
            tube.put({"a": [1]})
            tube.get()
            entries.update_value("n", lambda n: n + 1, 0)
            chappe.select(pool.acquire).value.release()
            for wrong in (lock.release, lambda: lock.acquire(1, 2, 3), lambda: chappe.Tube(slots=-1)):
                try:
                    wrong()
                except (RuntimeError, TypeError, ValueError):
                    pass

        for _ in range(200):
            act()
        before = sys.gettotalrefcount()
        for _ in range(2000):
            act()
        self.assertLess(sys.gettotalrefcount() - before, 200)


if __name__ == "__main__":
    unittest.main()
