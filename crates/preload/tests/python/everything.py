"""Each of multiprocessing's tools once, with processes begun in the way that is named."""
import multiprocessing as mp
import sys


def locked(lock, rlock, total, again):
    for _ in range(200):
        with lock:
            total.value += 1
        with rlock:
            with rlock:
                again.value += 1


def limited(semaphore, inside, most):
    for _ in range(50):
        with semaphore:
            with inside.get_lock():
                inside.value += 1
                most.value = max(most.value, inside.value)
            with inside.get_lock():
                inside.value -= 1


def told(condition, ready, barrier, event, queue, n):
    event.wait()
    with condition:
        while not ready.value:
            condition.wait()
    queue.put((n, barrier.wait()))


def consumer(jobs, results):
    while True:
        job = jobs.get()
        if job is not None:
            results.put(job * job)
        jobs.task_done()
        if job is None:
            return


def square(x):
    return x * x


def run(ctx, target, *args, n=3):
    all_of_them = [ctx.Process(target=target, args=args) for _ in range(n)]
    for p in all_of_them:
        p.start()
    return all_of_them


def end(processes):
    for p in processes:
        p.join()
        assert p.exitcode == 0, p.exitcode


def main(method):
    ctx = mp.get_context(method)
    lock, rlock = ctx.Lock(), ctx.RLock()
    total, again = ctx.Value("l", 0, lock=False), ctx.Value("l", 0, lock=False)
    end(run(ctx, locked, lock, rlock, total, again))
    assert total.value == again.value == 600, (total.value, again.value)
    assert lock.acquire(timeout=1) and not lock.acquire(timeout=0.01) and not lock.acquire(block=False)
    lock.release()

    for kind in ctx.Semaphore, ctx.BoundedSemaphore:
        semaphore, inside, most = kind(2), ctx.Value("i", 0), ctx.Value("i", 0, lock=False)
        end(run(ctx, limited, semaphore, inside, most))
        assert 1 <= most.value <= 2 and inside.value == 0 and semaphore.get_value() == 2
    try:
        semaphore.release()
        raise AssertionError("a bounded semaphore was released too often")
    except ValueError:
        pass

    condition, ready, barrier = ctx.Condition(), ctx.Value("i", 0, lock=False), ctx.Barrier(4)
    event, queue = ctx.Event(), ctx.Queue()
    processes = [ctx.Process(target=told, args=(condition, ready, barrier, event, queue, n)) for n in range(3)]
    for p in processes:
        p.start()
    event.set()
    with condition:
        ready.value = 1
        condition.notify_all()
    mine = barrier.wait()
    got = [queue.get() for _ in processes]
    assert sorted(n for n, _ in got) == [0, 1, 2] and sorted([mine] + [b for _, b in got]) == [0, 1, 2, 3]
    end(processes)

    jobs, results = ctx.JoinableQueue(), ctx.Queue()
    processes = run(ctx, consumer, jobs, results)
    for n in range(50):
        jobs.put(n)
    for _ in processes:
        jobs.put(None)
    jobs.join()
    assert sorted(results.get() for _ in range(50)) == [n * n for n in range(50)]
    end(processes)

    with ctx.Pool(3) as pool:
        assert pool.map(square, range(100)) == [n * n for n in range(100)]
    with ctx.Manager() as manager:
        shared, its = manager.list(range(3)), manager.Lock()
        with its:
            shared.append(3)
        assert list(shared) == [0, 1, 2, 3]
    print(f"{method}: all well")


if __name__ == "__main__":
    main(sys.argv[1])
