"""How a process leaves the ends of a tube: a process that ends in an orderly way has ended well, with or without `close()`."""

import multiprocessing
import os
import signal
import subprocess
import sys

import chappe
from house import Case


def leave(tube, how):
    tube.send(how.encode())
    if how == "raises":
        sys.stderr = open(os.devnull, "w")
        raise ValueError
    if how == "kills itself":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "os._exit":
        os._exit(0)
    if how.startswith("exits "):
        sys.exit(int(how[6:]))


ENDS = {"returns": True, "exits 0": True, "exits 3": False, "raises": False, "os._exit": False, "kills itself": False}


class Ends(Case):
    def ended_well(self, tube, how):
        self.assertEqual(tube.recv(timeout=60), how.encode())
        try:
            self.assertEqual(list(tube), [])
        except chappe.SenderDied as told:
            self.assertIn("died, or broke off", str(told))
            # Once.
            with self.assertRaises(chappe.Disconnected) as gone:
                tube.recv(timeout=60)
            self.assertNotIsInstance(gone.exception, chappe.SenderDied)
            return False
        return True

    def test_a_child_of_multiprocessing(self):
        for method in "fork", "spawn":
            context = multiprocessing.get_context(method)
            for how, well in ENDS.items():
                with self.subTest(method=method, how=how):
                    tube = chappe.Tube(slots=4, size=64)
                    tube.attach(recv=True)
                    child = context.Process(target=leave, args=(tube, how))
                    child.start()
                    self.assertEqual(self.ended_well(tube, how), well)
                    child.join()

    def test_a_program(self):
        tube = chappe.Tube("ended", slots=4, size=64, create=True)
        tube.attach(recv=True)
        for how, well in ENDS.items():
            with self.subTest(how=how):
                program = f"from test_tube_ends import *; leave(chappe.Tube('ended'), {how!r})"
                subprocess.run([sys.executable, "-c", program], check=False)
                # The status of a program is nothing that it knows itself.
                self.assertEqual(self.ended_well(tube, how), well or how == "exits 3")
        del tube
        chappe.remove("ended")

    def test_a_queues_children_say_nothing(self):
        from chappe import mp

        queue = mp.Queue()
        children = [mp.Process(target=queue.put, args=(n,)) for n in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        self.assertEqual(sorted(queue.get(timeout=60) for _ in children), [0, 1, 2])
        self.assertTrue(queue.empty())
