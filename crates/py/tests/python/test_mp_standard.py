"""What a program finds that has changed one import: all that is public in the standard modules is here, and is called as there."""

import concurrent.futures
import concurrent.futures.process
import gc
import importlib
import inspect
import itertools
import multiprocessing
import multiprocessing.managers
import multiprocessing.pool
import multiprocessing.shared_memory
import sys
import traceback
import types
import unittest
import warnings
from unittest import mock

from chappe import mp
from house import Case

# What others read of the standard objects, by name: dask, joblib, loky, pebble, mpire and torch.
READ = {
    "Pool": ["_cache", "_ctx", "_initargs", "_initializer", "_maxtasksperchild", "_pool", "_processes", "_state"],
    "ProcessPoolExecutor": [
        "_broken", "_executor_manager_thread", "_initargs", "_initializer", "_max_workers", "_mp_context", "_processes",
        "_shutdown_thread",
    ],
    "Queue": ["_closed", "_maxsize"],
}  # fmt: skip

# Modules with classes that programs look for, `from multiprocessing import pool`.
STANDARD = [
    importlib.import_module(f"multiprocessing.{name}")
    for name in ("connection", "context", "managers", "pool", "process", "queues", "shared_memory", "sharedctypes", "synchronize")
]

EMPTY, POSITIONAL = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD


def parameters(of):
    """Those of a callable but the object's own; None if it does not say."""
    try:
        found = [*inspect.signature(of).parameters.values()]
    except (TypeError, ValueError):
        if not isinstance(of, type) or sys.version_info >= (3, 11):
            return None
        found = [*inspect.signature(of.__new__).parameters.values()]
    return [p for p in found if p.name not in ("self", "cls")]


def refused(standard, ours):
    """Why a call of the standard one would not be one of ours."""
    theirs, here = parameters(standard), parameters(ours)
    if theirs is None or here is None:
        return "it does not say how it is called" if theirs is not None else None
    if {p.kind for p in theirs} == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        # It does not say, either: it calls something else.
        return None
    kinds = {p.kind for p in here}
    named = {p.name: p for p in here}
    takes_all = inspect.Parameter.VAR_POSITIONAL in kinds and inspect.Parameter.VAR_KEYWORD in kinds
    for at, p in enumerate(theirs):
        if p.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            if p.kind not in kinds:
                return f"{p} is not taken"
            continue
        if p.name == "ctx" and p.kind is inspect.Parameter.KEYWORD_ONLY:
            # What the standard context hands to its classes itself.
            continue
        same = named.get(p.name)
        if same is None:
            return None if takes_all else f"there is no {p.name}"
        if p.kind is POSITIONAL and (same.kind is not POSITIONAL or here.index(same) != at):
            return f"{p.name} stands elsewhere"
        if p.default is not EMPTY and same.default != p.default:
            return f"{p.name} is {same.default!r} if it is left out, not {p.default!r}"
    more = [p.name for p in here if p.default is EMPTY and p.name not in {q.name for q in theirs}
            and p.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)]  # fmt: skip
    return f"{', '.join(more)} must be given" if more else None


def members(standard, ours, called, but=()):
    """The differences of two classes or objects, by name."""
    special = {"__enter__", "__exit__", "__iter__", "__next__", "__len__", "__class_getitem__"}
    for name in sorted(set(dir(standard)) | set(getattr(standard, "__dict__", ()))):
        if (name.startswith("_") and name not in special) or name in but:
            continue
        there = inspect.getattr_static(standard, name)
        if not hasattr(ours, name):
            yield f"{called}.{name}", "it is not there"
            continue
        theirs, here = getattr(standard, name), getattr(ours, name)
        if theirs is here or (isinstance(there, property) and not callable(theirs)):
            continue
        if callable(theirs):
            # The interpreter alone calls that one, by place.
            why = "it cannot be called" if not callable(here) else None if name == "__exit__" else refused(theirs, here)
        else:
            why = None if type(theirs) is type(here) else f"it is a {type(here).__name__}"
        if why:
            yield f"{called}.{name}", why


def made(context):
    """One of each object of a context."""
    for name, arguments in (
        ("Lock", ()), ("RLock", ()), ("Semaphore", (2,)), ("BoundedSemaphore", (2,)), ("Condition", ()), ("Event", ()),
        ("Barrier", (1,)), ("Queue", ()), ("JoinableQueue", ()), ("SimpleQueue", ()),
    ):  # fmt: skip
        yield name, getattr(context, name)(*arguments)


def refused_one(cls, make):
    """The object whose constructor raised: one that prints a traceback with the local variables finds it there."""
    try:
        make()
    except Exception as error:
        found = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
        traceback.clear_frames(error.__traceback__)
        return next(it for it in found if isinstance(it, cls))
    raise AssertionError(f"{cls.__name__} was made")


class Compared(Case):
    def differences(self, found):
        self.assertEqual(dict(found), {})

    def test_all_names_are_there_and_called_alike(self):
        def walk():
            for standard, ours in (
                (multiprocessing, mp),
                (multiprocessing.pool, mp.pool),
                (multiprocessing.managers, mp.managers),
                (multiprocessing.shared_memory, mp.shared_memory),
            ):
                names = set(getattr(standard, "__all__", ())) | {name for name in vars(standard) if not name.startswith("_")}
                for name in sorted(names):
                    called, theirs = f"{standard.__name__}.{name}", getattr(standard, name)
                    if not hasattr(ours, name):
                        yield called, "it is not there"
                        continue
                    here = getattr(ours, name)
                    if here is theirs or isinstance(theirs, types.ModuleType):
                        continue
                    if callable(theirs):
                        why = refused(theirs, here)
                        if why:
                            yield called, why
                    if isinstance(theirs, type):
                        if not issubclass(here, theirs):
                            yield called, "it is no child of the standard one"
                        yield from members(theirs, here, called)
            # All else of `concurrent.futures.process` is imported from there as before.
            theirs, here = concurrent.futures.process.ProcessPoolExecutor, mp.ProcessPoolExecutor
            self.assertTrue(issubclass(here, theirs) and issubclass(mp.WorkerDied, concurrent.futures.process.BrokenProcessPool))
            yield from members(theirs, here, "ProcessPoolExecutor")
            why = refused(theirs, here)
            if why:
                yield "ProcessPoolExecutor", why

        self.differences(walk())

    def test_each_subclass_in_the_standard_library_is_one_here(self):
        found = {}
        for standard in (multiprocessing, *STANDARD):
            ours = mp if standard is multiprocessing else getattr(mp, standard.__name__.rpartition(".")[2])
            for name, theirs in vars(standard).items():
                if isinstance(theirs, type) and not name.startswith("_"):
                    found[standard.__name__, name] = theirs, getattr(ours, name)
        missing = [
            f"{'.'.join(child)} is no child of {'.'.join(parent)}"
            for (child, (theirs, here)), (parent, (above, ours)) in itertools.product(found.items(), found.items())
            if issubclass(theirs, above) and not issubclass(here, ours)
        ]
        self.assertEqual(missing, [])

    def test_a_star_imports_what_it_did(self):
        self.assertEqual(set(multiprocessing.__all__) - set(mp.__all__), set())

    def test_contexts_and_what_they_make_are_children_of_the_standard_ones(self):
        def walk():
            for method in multiprocessing.get_all_start_methods():
                standard, ours = multiprocessing.get_context(method), mp.get_context(method)
                self.assertIsInstance(ours, type(standard))
                yield from members(standard, ours, "context")
                if method == "spawn":
                    for (name, theirs), (_, here) in zip(made(standard), made(ours)):
                        if not isinstance(here, type(theirs)):
                            yield name, f"it is no {type(theirs).__name__} of {type(theirs).__module__}"
                        yield from members(theirs, here, name)

        self.differences(walk())

    def test_a_manager_has_what_the_standard_one_has(self):
        def walk():
            with multiprocessing.Manager() as theirs, mp.Manager() as here:
                if not isinstance(here, multiprocessing.managers.SyncManager):
                    yield "Manager", "it is no SyncManager"
                yield from members(theirs, here, "Manager")

        self.differences(walk())

    def test_nothing_is_inherited_that_works_on_what_is_not_there(self):
        # What the standard classes do by themselves with what they have here, too.
        shared = {
            "Pool": {"Process", "apply", "map", "map_async", "starmap", "starmap_async", "__enter__"},
            "ProcessPoolExecutor": {"map", "__enter__", "__exit__"},
        }
        ours = [(name, type(it)) for name, it in made(mp.get_context("spawn")) if name != "SimpleQueue"]
        for name, cls in [*ours, ("Pool", mp.Pool), ("ProcessPoolExecutor", mp.ProcessPoolExecutor)]:
            for member in dir(cls):
                if member.startswith("_") and member not in ("__init__", "__enter__", "__exit__", "__del__", "__reduce__"):
                    continue
                owner = next(base for base in cls.__mro__ if member in vars(base))
                if not callable(getattr(cls, member)) or owner is object or owner.__module__.split(".")[0] == "chappe":
                    continue
                if member in ("__reduce__",) and name in ("Pool", "ProcessPoolExecutor"):
                    continue
                self.assertIn(member, shared.get(name, ()), f"{name}.{member} is {owner.__module__}'s")

    def test_attributes_that_other_libraries_read_exist(self):
        with mp.Pool(1) as pool, mp.ProcessPoolExecutor(1) as executor:
            executor.submit(abs, -1).result(60)
            line = mp.Queue()
            for name, it in (("Pool", pool), ("ProcessPoolExecutor", executor), ("Queue", line)):
                for attribute in READ[name]:
                    self.assertTrue(hasattr(it, attribute), f"{name}.{attribute}")
            self.assertIsInstance(pool, multiprocessing.pool.Pool)
            self.assertIsInstance(executor, concurrent.futures.ProcessPoolExecutor)
            self.assertEqual((pool._processes, len(pool._pool), pool._state), (1, 1, multiprocessing.pool.RUN))
            self.assertEqual((executor._max_workers, len(executor._processes)), (1, 1))
            self.assertIsInstance(pool.apply_async(abs, (1,)), multiprocessing.pool.AsyncResult)
            self.assertEqual([pool._pool[0].daemon, *executor._processes], [True, executor._processes.popitem()[1].pid])
            self.assertIn("PoolWorker", pool._pool[0].name)
            pool.close()
            self.assertEqual(pool._state, multiprocessing.pool.CLOSE)
        self.assertIn(pool._state, (multiprocessing.pool.CLOSE, multiprocessing.pool.TERMINATE))

    def test_a_refused_construction_has_a_repr_and_is_finalised_in_silence(self):
        manager = mp.Manager(entries=1 << 40)
        for cls, make, shown in (
            (mp.Pool, lambda: mp.Pool(0), "state=INIT pool_size=0"),
            (mp.Pool, lambda: mp.Pool(1, maxtasksperchild=0), "state=INIT pool_size=0"),
            (mp.Pool, lambda: mp.Pool(1, on_death="never"), "state=INIT pool_size=0"),
            (mp.ProcessPoolExecutor, lambda: mp.ProcessPoolExecutor(0), "ProcessPoolExecutor"),
            (mp.Queue, lambda: mp.Queue("many"), "of None"),
            (mp.JoinableQueue, lambda: mp.JoinableQueue("many"), "of None"),
            (type(mp.Manager().dict()), manager.dict, "of None"),
        ):
            with self.subTest(shown, cls=cls.__name__), warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                it = refused_one(cls, make)
                self.assertIn(shown, repr(it))
                str(it)
                with mock.patch("sys.unraisablehook") as told:
                    del it
                    gc.collect()
                self.assertEqual(([str(w.message) for w in warned], told.mock_calls), ([], []))

    def test_a_chunksize_that_cannot_be_is_refused_before_anything_is_read(self):
        # Of a pool that is made up, as billiard's tests have it.
        for cls, method, size in itertools.product((multiprocessing.pool.Pool, mp.Pool), ("imap", "imap_unordered"), (0, -1)):
            with self.subTest(cls.__module__, method=method, size=size):
                read, pool = iter([1, 2]), mock.Mock(_state=multiprocessing.pool.RUN, _cache={})
                with self.assertRaisesRegex(ValueError, r"Chunksize must be 1\+"):
                    getattr(cls, method)(pool, abs, read, chunksize=size)
                self.assertEqual(([*read], pool._cache), ([1, 2], {}))

    def test_locks_are_taken_as_the_standard_ones(self):
        for name in ("Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition"):
            for module in (multiprocessing, mp):
                lock = getattr(module, name)()
                with self.subTest(name, module=module.__name__):
                    self.assertTrue(lock.acquire(block=True, timeout=None))
                    lock.release()
                    self.assertTrue(lock.acquire(True, 5))
                    lock.release()
                    self.assertTrue(lock.acquire(False))
                    if not name.endswith(("RLock", "Condition")):
                        # A time that has been is no wait.
                        for how in ((False,), (True, 0), (True, -1), (True, -0.5), (False, 5)):
                            self.assertFalse(lock.acquire(*how), how)
                        self.assertFalse(lock.acquire(timeout=0))
                    lock.release()
                    if name not in ("Semaphore", "Condition"):
                        with self.assertRaises(AssertionError if name == "RLock" else ValueError):
                            lock.release()
                    if name == "Condition":
                        for act in (lock.wait, lock.notify, lock.notify_all):
                            with self.assertRaises(AssertionError):
                                act()


if __name__ == "__main__":
    unittest.main()
