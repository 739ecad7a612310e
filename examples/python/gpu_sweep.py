"""A hyperparameter sweep over two GPUs: each job has one of them, and a killed job's GPU goes to the next.

    python examples/python/gpu_sweep.py
"""

import multiprocessing
import os
import signal

import chappe


def train(gpus, rate, done):
    """One job. The one with the worst rate is killed in the middle, as by the kernel for want of memory."""
    with gpus.acquire() as gpu:
        if rate == 0.3:
            os.kill(os.getpid(), signal.SIGKILL)
        done[f"{rate}"] = gpu


def main():
    """The sweep."""
    gpus = chappe.Pool(None, ["cuda:0", "cuda:1"])
    done = chappe.Map(entries=100)
    jobs = [multiprocessing.Process(target=train, args=(gpus, rate / 10, done)) for rate in range(1, 9)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    # The killed job's permit, too: the waiter for it gets it.
    with gpus.acquire(timeout=60) as one, gpus.acquire(timeout=60) as two:
        print(f"{len(done)} of {len(jobs)} jobs done; {one} and {two} are free")
    assert len(done) == 7


if __name__ == "__main__":
    main()
