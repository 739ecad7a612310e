"""Runs other projects' whole test suites twice, with `multiprocessing` and with `chappe.mp` in its place, and compares test by test.

`python suites.py [--work DIR] [--limit SECONDS] [--pytest ARGUMENT]... [SUITE[/FILE]...]`, with chappe on PYTHONPATH; DIR (default
/tmp/chappe-suites) keeps what pip has fetched. Each file of tests is a run of pytest of its own, with a limit for each test and for the whole
(`--limit`): what a file has told by then is compared, the rest counts as unfinished. In the changed run, what the project's own modules and
its tests import as `multiprocessing` is `chappe.mp`, and `ProcessPoolExecutor` is its: the one line that the guide tells a program to change.
The exit status is 1 if any test's outcome differs, or if the numbers of tests do.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

# For each: what pip installs beside it, the modules whose import is changed, the files of tests in its source. Of one whose tests are not on the
# package index the place is given by `--source SUITE=DIR`; torch itself is that of the interpreter.
SUITES = {
    "pebble": ((), "pebble test_", "test/test_*.py"),
    "loky": (("cloudpickle", "psutil"), "loky tests", "tests/test_*.py"),
    "joblib": (("threadpoolctl", "numpy"), "joblib", "joblib/test/test_*.py"),
    "mpire": (("dill", "multiprocess", "numpy", "tqdm", "pygments"), "mpire tests", "tests/test_*.py"),  # not in what pip fetches
    "dask": (("numpy", "cloudpickle"), "dask", "dask/tests/test_[mtlbd]*.py dask/bag/tests/test_*.py"),
    "torch": ((), "torch test_dataloader", "test/test_dataloader.py"),
    "pytest-xdist": (("filelock",), "xdist acceptance_test conftest test_", "testing/*test*.py"),
}
HOOK = '''
import builtins, os, types

real, targets = builtins.__import__, tuple(os.environ["CHAPPE_SUITE"].split())


def ours():
    return real("chappe.mp", None, None, ("mp",), 0)


def changed(name, globals=None, locals=None, fromlist=(), level=0):
    got = real(name, globals, locals, fromlist, level)
    if level == 0 and globals and (globals.get("__name__") or "").partition(".")[0].startswith(targets):
        if name == "multiprocessing" or name.startswith("multiprocessing.") and not fromlist:
            return ours()
        if name == "concurrent.futures" and "ProcessPoolExecutor" in (fromlist or ()):
            made = types.ModuleType(name)
            made.__dict__.update(vars(got), ProcessPoolExecutor=ours().ProcessPoolExecutor)
            return made
    return got


builtins.__import__ = changed
'''
# Says what became of each test as soon as that is known, so that a file that hangs later has told of those before.
TELLS = '''
import os

OUT = open(os.environ["CHAPPE_OUTCOMES"], "a", 1)


def pytest_collection_finish(session):
    for item in session.items:
        print("unfinished", ascii(item.nodeid), file=OUT)


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        print(report.outcome, ascii(report.nodeid), file=OUT)


def pytest_collectreport(report):
    if report.outcome != "passed":
        print(report.outcome, ascii(report.nodeid), file=OUT)
'''
# Seconds for a test.
TEST = 120


class Run:
    """One interpreter with what the suites need, and their sources."""

    def __init__(self, work, sources, arguments, limit):
        self.work, self.sources, self.arguments, self.limit = pathlib.Path(work).resolve(), sources, arguments, limit
        self.python = self.work / "venv/bin/python"
        self.hook = self.work / "hook"
        self.tells = self.work / "tells"
        for into, name, text in ((self.hook, "sitecustomize.py", HOOK), (self.tells, "chappe_tells.py", TELLS)):
            into.mkdir(parents=True, exist_ok=True)
            (into / name).write_text(text)
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", self.work / "venv"], check=True)
            self.pip("install", "pytest", "pytest-timeout")

    def pip(self, *arguments):
        """Runs pip."""
        subprocess.run([self.python, "-m", "pip", "--quiet", *arguments], check=True)

    def source(self, suite):
        """The directory of a suite's source, of the version that is installed."""
        needs = [*SUITES[suite][0], *(() if suite in self.sources else (suite,))]
        if needs:
            self.pip("install", *needs)
        if suite in self.sources:
            return self.sources[suite]
        into = self.work / suite
        if not into.exists():
            with tempfile.TemporaryDirectory() as fetched:
                self.pip("download", "--no-deps", "--no-binary", suite, "--dest", fetched, suite)
                (archive,) = os.listdir(fetched)
                with tarfile.open(os.path.join(fetched, archive)) as file:
                    file.extractall(into)
        (made,) = into.iterdir()
        return made

    def outcomes(self, suite, source, path, changed):
        """What became of each test of a file: `{name: outcome}`."""
        report = self.work / f"outcomes-{os.getpid()}"
        report.write_text("")
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", CHAPPE_OUTCOMES=str(report))
        environment["PYTHONPATH"] = str(self.tells)
        if changed:
            environment["CHAPPE_SUITE"] = SUITES[suite][1]
            environment["PYTHONPATH"] = os.pathsep.join([str(self.hook), str(self.tells), os.environ["PYTHONPATH"]])
        how = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "chappe_tells", f"--timeout={TEST}", "--override-ini=addopts=", *self.arguments]
        with open(self.work / f"{suite}-{'chappe' if changed else 'standard'}-{path.stem}.log", "wb") as log:
            run = subprocess.Popen(
                [self.python, *how, path], cwd=source, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                run.wait(self.limit)
            except subprocess.TimeoutExpired:
                pass
            finally:
                try:
                    os.killpg(run.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                run.wait()
        told = [line.partition(" ") for line in report.read_text().splitlines()]
        # What failed stays so, whatever a later part of the test says.
        made = {}
        for outcome, _, name in told:
            if made.get(name) != "failed":
                made[name] = outcome
        return made or {"the whole file": "was killed"}


def compared(run, wanted):
    """Runs a suite, or one file of it; prints its row and what differs. Answers whether both runs are equal."""
    suite, _, only = wanted.partition("/")
    source, counts, differences = run.source(suite), {False: {}, True: {}}, []
    for path in sorted(p for pattern in SUITES[suite][2].split() for p in source.glob(pattern)):
        if only and path.stem != only:
            continue
        both = {changed: run.outcomes(suite, source, path, changed) for changed in (False, True)}
        for changed, outcomes in both.items():
            for outcome in outcomes.values():
                counts[changed][outcome] = counts[changed].get(outcome, 0) + 1
        for name in sorted(both[False].keys() | both[True].keys()):
            was, made = both[False].get(name, "not collected"), both[True].get(name, "not collected")
            if was != made:
                differences.append(f"  {path.stem}: {name}: {was} with multiprocessing, {made} with chappe.mp")
    for changed, label in ((False, "multiprocessing"), (True, "chappe.mp")):
        shown = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts[changed].items()))
        print(f"{wanted:16} {label:16} {sum(counts[changed].values()):5} collected: {shown}", flush=True)
    if not counts[False]:
        differences.append(f"  {wanted}: no test was found in {source}")
    print(*differences, sep="\n", flush=True) if differences else None
    return not differences


def main():
    """As the head says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", default="/tmp/chappe-suites")
    parser.add_argument("--source", action="append", default=[], metavar="SUITE=DIR")
    parser.add_argument("--limit", type=float, default=1500, metavar="SECONDS")
    parser.add_argument("--pytest", action="append", default=[], metavar="ARGUMENT")
    parser.add_argument("suites", nargs="*", default=[suite for suite in SUITES if suite != "torch"])
    given = parser.parse_args()
    # The suites send it to themselves; begun in the background, all of this would ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sources = {name: pathlib.Path(at) for name, _, at in (source.partition("=") for source in given.source)}
    run = Run(given.work, sources, given.pytest, given.limit)
    equal = [compared(run, suite) for suite in given.suites]
    sys.exit(not all(equal))


if __name__ == "__main__":
    main()
