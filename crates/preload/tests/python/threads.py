"""Each of threading's tools once."""
import queue
import threading


def main():
    lock, rlock, total = threading.Lock(), threading.RLock(), [0]

    def locked():
        for _ in range(500):
            with lock, rlock, rlock:
                total[0] += 1

    threads = [threading.Thread(target=locked) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert total[0] == 2000
    assert lock.acquire(timeout=1) and not lock.acquire(timeout=0.01) and not lock.acquire(blocking=False)
    lock.release()

    jobs, results, barrier = queue.Queue(2), queue.Queue(), threading.Barrier(3)
    event, limit = threading.Event(), threading.BoundedSemaphore(2)

    def work():
        event.wait()
        while (job := jobs.get()) is not None:
            with limit:
                results.put(job * job)
        barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    event.set()
    for n in range(100):
        jobs.put(n)
    for _ in threads:
        jobs.put(None)
    barrier.wait()
    for t in threads:
        t.join()
    assert sorted(results.get() for _ in range(100)) == [n * n for n in range(100)]
    # More locks than the table has room for.
    many = [threading.Lock() for _ in range(70_000)]
    for lock in many:
        with lock:
            pass
    print("all well")


if __name__ == "__main__":
    main()
