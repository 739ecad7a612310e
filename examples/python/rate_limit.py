"""Workers of a web server (gunicorn's, uvicorn's) that share one limit of calls a second: a semaphore that is refilled by a clock.

    python examples/python/rate_limit.py

In an application of FastAPI the limit is a dependency:

    LIMIT = chappe.Semaphore("api-calls", 0)

    async def limited():
        try:
            await aio.down(LIMIT, timeout=1)
        except TimeoutError:
            raise HTTPException(429)
"""

import multiprocessing
import threading
import time

import chappe

RATE, TIME = 50, 1.0


def refill(limit, over):
    """Sees to it that there are at most RATE calls in store, and RATE more a second."""
    while not over.wait(1 / RATE):
        if limit.value < RATE:
            limit.up()


def serve(limit, served):
    """A worker: answers as many requests as it may."""
    end = time.monotonic() + TIME
    while time.monotonic() < end:
        if limit.acquire(timeout=0.05):
            served.update_value("calls", lambda n: n + 1, 0)


def main():
    """Four workers and the clock."""
    limit, served, over = chappe.Semaphore(value=0), chappe.Map(), threading.Event()
    clock = threading.Thread(target=refill, args=(limit, over))
    workers = [multiprocessing.get_context("fork").Process(target=serve, args=(limit, served)) for _ in range(4)]
    for worker in workers:
        worker.start()
    clock.start()
    for worker in workers:
        worker.join()
    over.set()
    clock.join()
    print(f"{served.get('calls', 0)} calls by four workers in about {TIME} s; the limit is {RATE} a second")


if __name__ == "__main__":
    main()
