"""Frames as arrays from a camera to two consumers, without a copy; one consumer is killed, and its frame comes again.

    python examples/python/frames.py
"""

import multiprocessing
import os
import signal

import chappe

FRAMES = 40


def consume(frames, seen, dies):
    """Marks each frame that it has seen."""
    while True:
        try:
            with frames.borrow() as frame:
                if dies:
                    os.kill(os.getpid(), signal.SIGKILL)
                seen[f"{frame[0, 0]}"] = True
        except chappe.Disconnected:
            return


def main():
    """The camera, and its consumers."""
    try:
        frames = chappe.Tube(slots=8, dtype="u1", shape=(480, 640))
    except ImportError:
        print("this example needs numpy")
        return
    seen = chappe.Map(entries=FRAMES)
    # The camera is a receiver, too: so there is one while a consumer has died and the next has not come yet.
    frames.try_recv()
    workers = [multiprocessing.Process(target=consume, args=(frames, seen, dies), daemon=True) for dies in (True, False)]
    for number in range(FRAMES):
        with frames.reserve() as frame:
            frame[:] = number
        if number == 0:
            workers[0].start()
            workers[0].join()
            workers[1].start()
    frames.close()
    workers[1].join()
    print(f"{len(seen)} of {FRAMES} frames seen; the consumers ended with {[w.exitcode for w in workers]}")
    assert len(seen) == FRAMES


if __name__ == "__main__":
    main()
