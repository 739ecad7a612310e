"""What the tests have in common: an arena directory of their own, and processes that are waited for."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

# Far longer than anything takes: only what hangs is stopped by it.
PATIENCE = 120


def own_directory():
    """Sets CHAPPE_DIR to a new directory on the shared-memory file system; answers it."""
    base = "/dev/shm" if os.path.isdir("/dev/shm") else None
    made = tempfile.mkdtemp(prefix="chappe-py-test-", dir=base)
    os.environ["CHAPPE_DIR"] = made
    return made


def without_forkserver():
    """Ends the process that forks children, where there is one: it would have this directory after the next class has made its own."""
    forkserver = sys.modules.get("multiprocessing.forkserver")
    if forkserver is not None:
        forkserver._forkserver._stop()


class Case(unittest.TestCase):
    """A test case with an arena directory of its own."""

    @classmethod
    def setUpClass(cls):
        cls.directory = own_directory()
        cls.addClassCleanup(shutil.rmtree, cls.directory, True)
        cls.addClassCleanup(without_forkserver)

    def forked(self, act):
        """The pid of a child that does something and ends."""
        pid = os.fork()
        if pid:
            self.addCleanup(self.killed_if_there, pid)
            return pid
        status = 1
        try:
            act()
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)

    def killed_if_there(self, pid):
        """Leaves no child behind a test that failed."""
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
        except ChildProcessError:
            pass

    def ended(self, pid):
        """The exit status of a child."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        self.fail(f"process {pid} hangs")

    def until(self, is_so):
        """Waits until something is so."""
        end = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > end:
                self.fail("it never came to that")
            time.sleep(0.002)

    def script(self, text, *arguments, **named):
        """Runs a program of its own."""
        return subprocess.run(
            [sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=PATIENCE, **named
        )
