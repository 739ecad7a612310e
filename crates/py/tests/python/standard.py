"""Runs CPython's own tests of multiprocessing against `chappe.mp`: `python standard.py METHOD [TestClass...]`.

They are in the `test` package of the interpreter. Only the classes of processes are run: those of threads and managers test the standard
module. What does not apply is listed here, with why.
"""

import multiprocessing
import shutil
import sys
import unittest

from house import own_directory

NOT_APPLICABLE = {
    "test_queue_feeder_donot_stop_onexc": "`put` tells at once what does not pickle, instead of printing it in a thread",
}

TESTS = ["_TestQueue", "_TestLock", "_TestSemaphore", "_TestCondition", "_TestEvent", "_TestBarrier", "_TestPool"]


def classes(method):
    """The test classes, over the types of a context. At the top of the module, as processes that are spawned look for them there."""
    from test import _test_multiprocessing as standard

    from chappe import mp

    context, mixin = mp.get_context(method), standard.ProcessesMixin
    for name in ("Queue", "JoinableQueue", "Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition", "Event"):
        setattr(mixin, name, staticmethod(getattr(context, name)))
    mixin.Barrier, mixin.Pool = staticmethod(context.Barrier), staticmethod(context.Pool)
    for base in TESTS:
        made = type("WithProcesses" + base[5:], (getattr(standard, base), mixin, unittest.TestCase), {})
        made.__module__, made.__qualname__ = __name__, made.__name__
        globals()[made.__name__] = made


def main():
    """Runs them."""
    directory = own_directory()
    method, only = sys.argv[1], sys.argv[2:]
    multiprocessing.set_start_method(method, force=True)
    classes(method)
    suite = unittest.TestSuite()
    for base in only or TESTS:
        for test in unittest.defaultTestLoader.loadTestsFromTestCase(globals()["WithProcesses" + base[5:]]):
            if test._testMethodName not in NOT_APPLICABLE:
                suite.addTest(test)
    well = unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful()
    shutil.rmtree(directory, True)
    sys.exit(not well)


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":
    classes(sys.argv[1])
