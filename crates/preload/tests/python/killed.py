"""Workers that share a lock; some are killed while they hold it. With the C library alone this hangs at the first."""
import multiprocessing as mp
import os
import signal
import sys


def turns(lock, count, n):
    for _ in range(n):
        with lock:
            count.value += 1


def dies(lock):
    lock.acquire()
    os.kill(os.getpid(), signal.SIGKILL)


def main(method):
    ctx = mp.get_context(method)
    lock, count = ctx.Lock(), ctx.Value("l", 0, lock=False)
    for _ in range(20):
        victim = ctx.Process(target=dies, args=(lock,))
        others = [ctx.Process(target=turns, args=(lock, count, 1)) for _ in range(3)] if method == "fork" else []
        for p in [victim] + others:
            p.start()
        victim.join()
        assert victim.exitcode == -signal.SIGKILL, victim.exitcode
        if method == "spawn":
            turns(lock, count, 3)
        for p in others:
            p.join()
            assert p.exitcode == 0, p.exitcode
    assert lock.acquire(timeout=10)
    print(f"{method}: 20 workers killed with the lock, {count.value} turns since")


if __name__ == "__main__":
    main(sys.argv[1])
