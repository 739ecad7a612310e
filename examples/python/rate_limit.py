"""Workers of a web server that share one limit of calls a second: a semaphore that a clock refills. The worker that has the clock is killed.

    python examples/python/rate_limit.py                                        # FastAPI under uvicorn, or plain processes without them
    uvicorn --workers 4 --app-dir examples/python rate_limit:app                # the same application by itself; or under gunicorn

One worker at a time has the clock: a permit of a pool of one. If that worker is killed the permit comes back, and another has the clock.
"""

import contextlib
import http.client
import importlib.util
import multiprocessing
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import chappe
from chappe import aio

RATE, TIME = 50, 2.0
NAME = os.environ.get("RATE_LIMIT", "api-calls")


def limit():
    """The calls in store: at most RATE of them, and RATE more a second."""
    return chappe.Semaphore(NAME, 0)


def clock():
    """The holder of the permit refills the store."""
    return chappe.Pool(f"{NAME}-clock", 1)


def refill():
    """What each worker runs in a thread: waits until it has the clock, and then refills the store at each tick."""
    store = limit()
    with clock().acquire():
        for _ in chappe.tick(1 / RATE):
            if store.value < RATE:
                store.up()


@contextlib.asynccontextmanager
async def started(_app):
    """The life of a worker."""
    threading.Thread(target=refill, daemon=True).start()
    yield


def application():
    """The application of FastAPI."""
    from fastapi import FastAPI, HTTPException

    made, store = FastAPI(lifespan=started), limit()

    @made.get("/")
    async def answer():
        try:
            await aio.down(store, timeout=0.1)
        except TimeoutError:
            raise HTTPException(429, "too many calls") from None
        return {"worker": os.getpid()}

    return made


def __getattr__(name):
    if name == "app":
        return application()
    raise AttributeError(name)


def serve(served, end):
    """A plain worker: answers as many requests as it may."""
    threading.Thread(target=refill, daemon=True).start()
    store = limit()
    while time.monotonic() < end:
        if store.acquire(timeout=0.1):
            served.up()


def plain(served):
    """Four workers without a web server."""
    end = time.monotonic() + TIME
    workers = [multiprocessing.get_context("fork").Process(target=serve, args=(served, end)) for _ in range(4)]
    for worker in workers:
        worker.start()
    killed = kill_the_clock()
    for worker in workers:
        worker.join()
    return f"{served.value} calls by four workers", killed


def ask(address, end, served, refused):
    """A client: asks as fast as it is answered."""
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("localhost", timeout=30)
        try:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(address)
            connection.request("GET", "/")
            (served if connection.getresponse().status == 200 else refused).up()
        except (OSError, http.client.HTTPException):
            # Its worker was killed just then.
            time.sleep(0.01)
        finally:
            connection.close()


def web(served):
    """Two workers of FastAPI, and four clients."""
    refused = chappe.Semaphore(value=0)
    with tempfile.TemporaryDirectory() as folder:
        address = os.path.join(folder, "socket")
        program = [sys.executable, "-m", "uvicorn", "--workers", "2", "--uds", address, "--log-level", "error"]
        program += ["--app-dir", str(pathlib.Path(__file__).parent), "rate_limit:app"]
        server = subprocess.Popen(program, env={**os.environ, "RATE_LIMIT": NAME}, stderr=subprocess.DEVNULL)
        try:
            while not os.path.exists(address) or clock().available:
                if server.poll() is not None:
                    raise SystemExit("uvicorn did not start: run it by hand, as the head of this file says")
                time.sleep(0.01)
            end = time.monotonic() + TIME
            clients = [threading.Thread(target=ask, args=(address, end, served, refused)) for _ in range(4)]
            for client in clients:
                client.start()
            killed = kill_the_clock()
            for client in clients:
                client.join()
        finally:
            server.terminate()
            server.wait()
    return f"{served.value} calls answered and {refused.value} refused by two workers of FastAPI", killed


def kill_the_clock():
    """Kills the worker that has the clock, and waits until another has it; answers the pid of the dead."""
    time.sleep(TIME / 2)
    _permit, pid, _label, _seconds = clock().holders()[0]
    os.kill(pid, signal.SIGKILL)
    while pid in {holder for _, holder, *_ in clock().holders()} or clock().available:
        time.sleep(0.001)
    return pid


def main():
    """The workers, and what they served."""
    global NAME
    NAME = f"api-calls-{os.getpid()}"
    served, begun = chappe.Semaphore(value=0), time.monotonic()
    here = all(map(importlib.util.find_spec, ("fastapi", "uvicorn")))
    text, killed = (web if here else plain)(served)
    took = time.monotonic() - begun
    for name in (NAME, f"{NAME}-clock"):
        chappe.remove(name, force=True)
    print(f"{text} in {took:.1f} s; the limit is {RATE} a second. Worker {killed} had the clock and was killed")
    # What was in store, and what came in since; how many are asked for depends on the machine.
    assert 0 < served.value <= RATE * (took + 1), served.value


if __name__ == "__main__":
    main()
