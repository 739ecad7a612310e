"""What a worker does (`_mp_workers.py`): the process's end of it."""

import itertools
import os
import signal

from ._mp_lines import DONE, READY, Line, Message, of_error, text_of, untold

__all__ = ["work"]


def _pass(_number, _frame):
    """The worker's handler of Ctrl-C, which its parent answers. Unlike one that is ignored, a program that a task starts does not inherit it."""


def _leave_interrupts_to_the_parent():
    found = signal.getsignal(signal.SIGINT)
    if found in (signal.SIG_IGN, None):
        # As for a program that is started in the background: its children are to ignore it, too.
        return
    signal.signal(signal.SIGINT, _pass)
    signal.siginterrupt(signal.SIGINT, False)

    def restore():
        if signal.getsignal(signal.SIGINT) is _pass:
            signal.signal(signal.SIGINT, found)

    os.register_at_fork(after_in_child=restore)


def work(end, initializer, initargs, most, wraps):
    """Does what comes over a socket, until there is no more. `wraps`: a result that does not pickle is told as a pool tells it."""
    _leave_interrupts_to_the_parent()
    line = Line(end)
    if initializer is not None:
        try:
            initializer(*initargs)
        except BaseException as error:
            import logging

            logging.getLogger("concurrent.futures").critical("Exception in initializer:", exc_info=True)
            _send(line, of_error(0, error))
            return
    if not _send(line, Message(READY, 0)):
        return
    for _ in itertools.count() if most is None else range(most):
        call = line.get()
        if call is None or not _send(line, _answer(call, wraps)):
            return


def _send(line, message):
    """False if nobody is there to read it."""
    sent = line.post(message, 0)
    message.close()
    return sent


def _answer(call, wraps):
    try:
        function, arguments, named = call.load()
        call.close()
        call.data = None
        value = function(*arguments, **named)
    except BaseException as error:
        return of_error(call.number, error)
    # Nothing of a task stays while the next one is waited for.
    function = arguments = named = None
    try:
        return Message.of(DONE, call.number, value)
    except BaseException as error:
        if wraps and isinstance(error, Exception):
            # In the words of the standard pool.
            error = untold(error, text_of(value))
        return of_error(call.number, error)
