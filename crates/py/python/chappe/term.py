"""Terminals whose programs are asked, and answer: what pexpect is used for.

>>> from chappe import term
>>> shell = term.Terminal.run("shell", "env", "PS1=> ", "sh", "-i")     # it goes on when this process ends
>>> shell.wait("^>", timeout=60).line
0
>>> mark = shell.send("echo $((6 * 7))", enter=True)
>>> shell.wait("^[0-9]+$", after=mark, timeout=60).text                 # not the echo of what was typed
'42'
>>> _ = shell.press("C-d")
>>> shell.wait_exit(timeout=60)
0
>>> shell.remove()

`text` and `exit` are arms of `chappe.select`, beside pools, locks, tubes and clocks. Screen, history and end stay when the program has ended, until `remove`.
Terminals are made by the command `chappe`, built with the feature `term`; see "Terminals that outlive their programs" in the guide.
"""

import subprocess
from typing import NamedTuple

from . import _command
from ._chappe import Awaited as _Awaited
from ._chappe import Terminal as _Terminal
from .choice import select

__all__ = ["Found", "Terminal"]


class Found(NamedTuple):
    """A line that has the text: its number, what counts of it, what matched, and how many lines left the history before they were looked at."""

    line: int
    text: str
    match: str
    lost: int


class _Arm:
    """What is waited for: an arm of `select`, and then its answer."""

    def __init__(self, awaited):
        self._awaited: _Awaited = awaited

    def fileno(self):
        return self._awaited.fileno()

    def result(self, timeout=None):
        """The answer, once; waits for it, at most `timeout` seconds."""
        select(self, timeout=timeout)
        found, ended = self._awaited._take()
        if found is None and ended is None:
            raise RuntimeError("the answer was taken already")
        return ended if found is None else Found(*found)


class Terminal(_Terminal):
    """A terminal that is there, by its name. `Terminal.run` makes one.

    Any number of processes may use it; what one types comes whole before or behind what others type.
    """

    @classmethod
    def run(cls, name, *command, size=(80, 24), history=None, private=False):
        """Runs a command in a new terminal, and waits until it runs. `history`: how many bytes of lines that have left the screen are kept. `private`: no other user
        may look at it, also in a directory that several users share.

        Raises FileExistsError if the name is taken, FileNotFoundError without the command, or without the command `chappe`.
        """
        own = _command.find()
        if own is None:
            raise FileNotFoundError(2, "terminals are made by the command `chappe`, which is not there: put it into the PATH, or set CHAPPE_COMMAND")
        words = [own, "term", "run", f"--size={size[0]}x{size[1]}"]
        words += [] if history is None else [f"--history={history}"]
        words += ["--private"] if private else []
        done = subprocess.run([*words, name, "--", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            said = said[len("chappe: ") :] if said.startswith("chappe: ") else said
            kinds = {127: (FileNotFoundError, 2), 126: (PermissionError, 13)}
            kind, number = kinds.get(done.returncode, (OSError, 5))
            if kind is OSError and "already" in said:
                kind, number = FileExistsError, 17
            raise kind(number, said)
        return cls(name)

    def send(self, text, enter=False, timeout=10):
        """Types a text (str or bytes), and with `enter` the Enter key behind it. Answers a mark: the moment, for `after`.

        Raises TimeoutError if the program has not read it in `timeout` seconds (None: waits for ever): up to 64 KiB of it are typed when it does; Disconnected if it
        has ended. What a signal's handler raises, as Ctrl-C does, ends the wait; then, too, the program may have got a part of it.
        """
        data = text if isinstance(text, bytes) else text.encode()
        return self._type(data + b"\r" if enter else data, timeout)

    def press(self, key, timeout=10):
        """As `send`, a key: Enter, Tab, Escape, Up, F5, C-c, M-x or a character."""
        return self._type(bytes(self._key(key)), timeout)

    def paste(self, text, timeout=10):
        """As `send`, a text that is pasted: programs do not take it for commands."""
        return self._type(bytes(self._paste(text)), timeout)

    def text(self, regex, after=None):
        """What waits for a line that has a text: on the screen or later, or written `after` a mark (or behind the line of a number). An arm of `select`, whose
        `result()` is a `Found`; it raises Disconnected when the command ends without it. The expressions are those of the Rust crate `regex`."""
        return _Arm(self._text(regex, None if after is None else str(after)))

    def exit(self):
        """What waits for the command's end. An arm of `select`, whose `result()` is as `wait_exit` has it."""
        return _Arm(self._exit())

    def wait(self, regex, after=None, timeout=None):
        """Waits for a line that has a text, as `text` says, at most `timeout` seconds."""
        try:
            return self.text(regex, after).result(timeout)
        except TimeoutError:
            raise TimeoutError(f"terminal `{self.name}`: no line has {regex!r} in time") from None

    def wait_exit(self, timeout=None):
        """Waits for the command's end: its status, or minus the signal that ended it."""
        try:
            return self.exit().result(timeout)
        except TimeoutError:
            raise TimeoutError(f"terminal `{self.name}`: its command has not ended in time") from None

    def kill(self, signal=1):
        """Sends a signal to the command and to what it has in the foreground, as `chappe term kill` does. Raises Disconnected if it has ended and has left nothing."""
        self._kill(int(signal))

    def __repr__(self):
        return f"<chappe.term.Terminal {self.name}>"
