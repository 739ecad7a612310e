from concurrent.futures.process import BrokenProcessPool

__all__ = ["WorkerDied"]

class WorkerDied(BrokenProcessPool): ...
