"""Two training programs on one machine: each has a GPU of its own, and their loaders' workers share the machine's decoders.

    python examples/python/loader.py

A `DataLoader` of PyTorch forks its workers and calls `worker_init_fn` in each. Where PyTorch is not installed, processes are forked in its place.
"""

import multiprocessing
import os

import chappe

try:
    from torch.utils.data import DataLoader
except ImportError:
    DataLoader = None

FRAMES = 12
decoders = chappe.Pool(None, ["nvdec:0", "nvdec:1"])


class Frames:
    """A map-style data set: an item is decoded when it is asked for, under a permit."""

    def __len__(self):
        return FRAMES

    def __getitem__(self, index):
        with decoders.acquire() as decoder:
            return f"{index} by {decoder}"


def begin(_worker):
    """`worker_init_fn`: a worker begins with the GPU of its parent in its environment, and holds nothing."""
    assert "CUDA_VISIBLE_DEVICES" in os.environ
    assert decoders.available <= 2


def loaded():
    """All items, by two workers."""
    if DataLoader is not None:
        return list(DataLoader(Frames(), batch_size=None, num_workers=2, worker_init_fn=begin))
    with multiprocessing.get_context("fork").Pool(2, begin, (None,)) as workers:
        return workers.map(Frames().__getitem__, range(FRAMES))


def train(gpus, done):
    """One training program: the GPU is its own until it ends, in whatever way."""
    with gpus.acquire() as gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
        done[str(os.getpid())] = len(loaded())


def main():
    """Both programs."""
    gpus = chappe.Pool(None, ["0", "1"])
    done = chappe.Map(entries=8)
    context = multiprocessing.get_context("fork")
    programs = [context.Process(target=train, args=(gpus, done)) for _ in range(2)]
    for program in programs:
        program.start()
    for program in programs:
        program.join()
    counts = [int(count) for count in done.values()]
    print(f"{counts} frames; {gpus.available} GPUs and {decoders.available} decoders are free")
    assert counts == [FRAMES, FRAMES] and gpus.available == 2 and decoders.available == 2


if __name__ == "__main__":
    main()
