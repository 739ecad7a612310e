"""Runs CPython's own tests of multiprocessing and of the executor against `chappe.mp`: `python standard.py METHOD [TestClass...]`.

They are in the `test` package of the interpreter. Of the module's tests, run are those of each type that `chappe.mp` has, in processes, and of a
manager's types; those of threads, of `Value` and `Array`, and of servers test the standard module alone. What does not apply is listed here,
with why.
"""

import functools
import importlib
import importlib.util
import multiprocessing
import multiprocessing.pool
import os
import shutil
import sys
import types
import unittest

from house import own_directory

# By class, or "*": the test, and why it does not apply.
NOT_APPLICABLE = {
    "_TestQueue": {
        "test_queue_feeder_donot_stop_onexc": "`put` tells at once what does not pickle, instead of printing it in a thread",
        "test_closed_queue_empty_exceptions": "whether a closed queue is empty can be asked, also after its process has put something",
    },
    "_TestContainers": {
        "test_dict_iter": "an iteration is over the entries of one moment: what others change meanwhile is no error",
    },
    "TestInitializers": {
        "test_manager_initializer": "it tests the standard manager",
    },
    "TestPoolNotLeakOnFailure": {
        "test_release_unused_processes": "its processes are made up, without a pid: `test_mp.py` has the same with some that are not",
    },
    "TestSyncManagerTypes": {
        "test_lock": "a lock belongs to the process that took it: no other may release it",
    },
    "ProcessPoolExecutorTest": {
        "test_killed_child": "a killed worker breaks nothing: its task is run again",
        "test_max_tasks_per_child": "its workers may be replaced under fork too, and under fork as many as there may be are started at once",
        "test_max_tasks_per_child_defaults_to_spawn_context": "the same: it has the context that it would have without",
        "test_python_finalization_error": "it makes the standard executor's own threads fail",
    },
    "ExecutorDeadlockTest": {
        "test_exit_at_task_unpickle": "what a task raises while it is made in the worker is that task's exception, and breaks nothing",
        "test_error_at_task_unpickle": "the same",
        "test_error_during_result_unpickle_in_result_handler": "what a result raises while it is made here is that task's exception",
        "test_exit_during_result_unpickle_in_result_handler": "the same",
        "test_gh105829_should_not_deadlock_if_wakeup_pipe_full": "it stops the standard executor's own thread",
    },
}

# Of `_test_multiprocessing`: those that take what they test from a mixin, and those that take it from the module.
MIXED = [
    "_TestQueue", "_TestLock", "_TestSemaphore", "_TestCondition", "_TestEvent", "_TestBarrier", "_TestPool", "_TestPoolWorkerErrors",
    "_TestPoolWorkerLifetime", "_TestConnection", "_TestPoll", "_TestContainers",
]  # fmt: skip
WHOLE = ["TestSimpleQueue", "TestInitializers", "TestPoolNotLeakOnFailure", "TestSyncManagerTypes"]
# Of `test_concurrent_futures`, where the interpreter has it as a package: the modules and their classes.
EXECUTOR = {
    "test_process_pool": "ProcessPoolExecutorTest",
    "test_shutdown": "ProcessPoolShutdownTest",
    "test_deadlock": "ExecutorDeadlockTest",
    "test_init": "InitializerMixin FailingInitializerMixin",
    "test_wait": "WaitTests",
    "test_as_completed": "AsCompletedTests",
}
# Where a program of a test's own imports what it tests.
IMPORTS = {
    "from multiprocessing import": "from chappe.mp import",
    "from concurrent.futures import ProcessPoolExecutor": "from chappe.mp import ProcessPoolExecutor",
}


def changed(run):
    """Runs a test's own program with what is here."""

    @functools.wraps(run)
    def with_ours(option, program, **named):
        for standard, ours in IMPORTS.items():
            program = program.replace(standard, ours)
        # With a variable the interpreter looks at its environment, too.
        return run(option, program, **{"PYTHONPATH": os.pathsep.join(sys.path), **named})

    return with_ours


class Module:
    """The module `multiprocessing`, as a program has it that has changed one import."""

    def __init__(self, context):
        from chappe import mp

        self.context = context
        self.pool = types.ModuleType("pool")
        self.pool.__dict__.update({**vars(multiprocessing.pool), "Pool": pool_of(mp.Pool)})
        self.Pool = lambda *arguments, **named: self.pool.Pool(*arguments, **{"context": context, **named})

    def __getattr__(self, name):
        from chappe import mp

        # Each context gives the others.
        return getattr(self.context if name in mp.__all__ else multiprocessing, name)


def pool_of(cls):
    """A pool that has what the tests ask of the standard one's inner parts."""

    class Pool(cls):
        def _repopulate_pool(self):
            """It is done as soon as a worker ends."""

    return Pool


def executor_of(cls):
    """An executor that has what the tests ask of the standard one's inner parts."""

    class ProcessPoolExecutor(cls):
        _call_queue = types.SimpleNamespace(join_thread=lambda: None)

    return ProcessPoolExecutor


def classes(method):
    """The test classes, over the types of a context. At the top of the module, as processes that are spawned look for them there."""
    from test import _test_multiprocessing as standard
    from test.support import script_helper

    from chappe import mp

    context, mixin = mp.get_context(method), standard.ProcessesMixin
    module = standard.multiprocessing = Module(context)
    script_helper.assert_python_ok = changed(script_helper.assert_python_ok)
    for name in ("Queue", "JoinableQueue", "Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition", "Event", "Barrier", "Pipe"):
        setattr(mixin, name, staticmethod(getattr(context, name)))
    mixin.Pool = staticmethod(module.Pool)
    for base in MIXED:
        bases = (getattr(standard, base), mixin, unittest.TestCase)
        made = type("With" + base, bases, {} if base != "_TestContainers" else managed(context))
        made.__module__, made.__qualname__ = __name__, made.__name__
        globals()[made.__name__] = made
    for base in WHOLE:
        if hasattr(standard, base):
            globals()["With" + base] = made = type("With" + base, (getattr(standard, base),), {})
            made.__module__, made.__qualname__, made.manager_class = __name__, made.__name__, context.Manager
    found = importlib.util.find_spec("test.test_concurrent_futures")
    if found is not None and found.submodule_search_locations:
        executors(method, module)


def managed(context):
    """What the tests of containers have from their manager."""
    manager = context.Manager()
    return {
        "TYPE": "manager",
        "dict": staticmethod(manager.dict),
        "list": staticmethod(lambda *given: manager.list(*given)),
        "Namespace": staticmethod(manager.Namespace),
        "Queue": staticmethod(manager.Queue),
        "tearDownClass": classmethod(lambda cls: manager.shutdown()),
    }


def executors(method, module):
    """Those of the executor. They are in modules of their own, where processes that are spawned find them."""
    from concurrent import futures

    from chappe import mp

    util = importlib.import_module("test.test_concurrent_futures.util")
    util.multiprocessing = module
    ours = executor_of(mp.ProcessPoolExecutor)
    for name, bases in EXECUTOR.items():
        tests = importlib.import_module(f"test.test_concurrent_futures.{name}")
        changed_futures = types.ModuleType("futures")
        changed_futures.__dict__.update({**vars(futures), "ProcessPoolExecutor": ours, "process": futures.process})
        tests.futures = changed_futures
        mixin = {"fork": "ProcessPoolForkMixin", "spawn": "ProcessPoolSpawnMixin", "forkserver": "ProcessPoolForkserverMixin"}[method]
        for base in bases.split():
            made = type("With" + base, (getattr(tests, base), getattr(util, mixin), util.BaseTestCase), {"executor_type": ours})
            made.__module__, made.__qualname__ = __name__, made.__name__
            globals()[made.__name__] = made


def main():
    """Runs them."""
    directory = own_directory()
    method, only = sys.argv[1], sys.argv[2:]
    multiprocessing.set_start_method(method, force=True)
    classes(method)
    every = MIXED + WHOLE + [base for bases in EXECUTOR.values() for base in bases.split()]
    suite, left_out = unittest.TestSuite(), []
    for base in only or every:
        if "With" + base not in globals():
            left_out.append(f"{base}: this interpreter does not have it")
            continue
        why = NOT_APPLICABLE.get(base, {})
        for test in unittest.defaultTestLoader.loadTestsFromTestCase(globals()["With" + base]):
            if test._testMethodName in why:
                left_out.append(f"{base}.{test._testMethodName}: {why[test._testMethodName]}")
            else:
                suite.addTest(test)
    print(f"{method}, Python {sys.version.split()[0]}; not applicable:", *left_out, sep="\n  ", file=sys.stderr)
    well = unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful()
    shutil.rmtree(directory, True)
    sys.exit(not well)


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__":
    classes(sys.argv[1])
