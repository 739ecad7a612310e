"""Terminals: programs that are asked and answer."""

import signal
import unittest

import chappe
from chappe import term
from house import PATIENCE, Case


class Asked(Case):
    def terminal(self, name, script):
        made = term.Terminal.run(name, "sh", "-c", script, size=(40, 10))
        self.addCleanup(lambda: made.ended is not None or made.kill(9))
        return made

    def test_a_program_is_asked_and_answers(self):
        shell = self.terminal("sh", 'while read -r line; do echo "got $line"; done; exit 3')
        mark = shell.send("one", enter=True)
        found = shell.wait("[a-z]* one", after=mark, timeout=PATIENCE)
        self.assertEqual((found.text, found.match, found.lost), ("got one", "got one", 0))
        self.assertEqual(shell.show(), "one\ngot one\n")
        self.assertIsNone(shell.ended)
        with self.assertRaises(TimeoutError):
            shell.wait("never", timeout=0.001)
        with self.assertRaises(ValueError):
            shell.wait("a(b")
        with self.assertRaises(ValueError):
            shell.press("Nonsense")
        shell.resize(60, 20)
        shell.paste("two\n")
        shell.wait("got two", timeout=PATIENCE)
        with self.assertRaises(chappe.InUse):
            shell.remove()
        shell.press("C-d")
        self.assertEqual(shell.wait_exit(timeout=PATIENCE), 3)
        self.assertEqual(shell.ended, 3)
        with self.assertRaises(EOFError):
            shell.wait("never", timeout=PATIENCE)
        with self.assertRaises(chappe.Disconnected):
            shell.send("x")
        shell.remove()
        with self.assertRaises(chappe.NotFound):
            term.Terminal("sh")

    def test_an_exception_from_a_handler_ends_a_send(self):
        deaf = self.terminal("deaf", "stty raw -echo; echo ready; exec sleep 1000")
        deaf.wait("ready", timeout=PATIENCE)

        def raises(*_):
            raise InterruptedError("asked")

        before = signal.signal(signal.SIGALRM, raises)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with self.assertRaisesRegex(InterruptedError, "asked"):
            deaf.send("x" * 200_000, timeout=None)

    def test_a_program_that_cannot_be_run_is_reported(self):
        self.terminal("taken", "read x")
        with self.assertRaises(FileExistsError):
            term.Terminal.run("taken", "true")
        with self.assertRaises(FileNotFoundError):
            term.Terminal.run("x", "no-such-command")

    def test_a_text_an_end_a_permit_a_message_and_a_time_are_in_one_choice(self):
        shell = self.terminal("choice", 'read x; echo "said $x"; read x')
        gpu, tube = chappe.Pool("gpu", 1), chappe.Tube("news", slots=1)
        text, ended = shell.text("^said"), shell.exit()
        with gpu.acquire():
            with self.assertRaises(TimeoutError):
                chappe.select(text, ended, gpu.acquire, tube.get, timeout=0.01)
            tube.put("news")
            self.assertEqual(chappe.select(text, ended, gpu.acquire, tube.get, timeout=PATIENCE), (3, "news"))
            shell.send("hello", enter=True)
            self.assertEqual(chappe.select(text, ended, gpu.acquire, tube.get, timeout=PATIENCE).index, 0)
            self.assertEqual(text.result().text, "said hello")
            shell.kill(9)
            self.assertEqual(chappe.select(ended, gpu.acquire, timeout=PATIENCE).index, 0)
            self.assertEqual(ended.result(), -9)


if __name__ == "__main__":
    unittest.main()
