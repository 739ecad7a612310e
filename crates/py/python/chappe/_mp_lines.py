"""Lines: the two ends of a worker's socket, and the messages that go over it.

A message is a pickle, and the descriptors of the objects in it, which the kernel hands over beside it:

    | size of the pickle, number, kind, count of descriptors | a byte for up to 253 descriptors: how many go with it | the pickle |

Objects are pickled as `multiprocessing` pickles them, so whatever has a reducer there (a connection, a socket, a type of
`ForkingPickler.register`) travels. The standard module has such a descriptor fetched from a thread of the sender, once. Here it goes with the message:
no receiver waits for a sender that has ended meanwhile, and the sender can send the message again.
"""

import array
import collections
import errno
import functools
import io
import os
import pickle
import socket
import struct
import threading
import traceback
from multiprocessing.pool import MaybeEncodingError  # type: ignore[attr-defined]
from multiprocessing.reduction import ForkingPickler
from multiprocessing.resource_sharer import DupFd

from ._pickles import Table, pickled

__all__ = ["CALL", "DONE", "RAISED", "READY", "Line", "Message", "dumps", "of_error", "text_of", "to_error", "untold"]

# Kinds of messages: a call to a worker; a worker's initializer is done; a call's result; what a call (or with number 0 the initializer) raised.
CALL, READY, DONE, RAISED = range(4)
_HEAD = struct.Struct("<QQBI")
# How many descriptors the kernel takes at once, and the room that they take.
_MOST = 253
_ROOM = socket.CMSG_SPACE(_MOST * array.array("i").itemsize)
# How much is read at once; and up to which size two parts are better copied than sent one by one.
_READ, _SMALL = 1 << 18, 1 << 16


class _Table(Table):
    def __missing__(self, cls):
        return ForkingPickler._extra_reducers.get(cls) or super().__missing__(cls)


# Types whose pickles nobody can have told otherwise.
_PLAIN = frozenset((int, str, bytes, float, bool, type(None)))


class _Pickler(pickle.Pickler):
    dispatch_table = _Table()


def dumps(obj):
    """As `ForkingPickler.dumps`, which copies its tables for each object; but no descriptor goes as a number."""
    if type(obj) in _PLAIN:
        return pickle.dumps(obj, 4)
    into = io.BytesIO()
    _Pickler(into, 4).dump(obj)
    return into.getvalue()


def _beside(fds, wrapped):
    # What a reducer got from `reduction.DupFd`: the descriptor itself goes with the message instead.
    fds.append(wrapped.detach())
    return _received, (len(fds) - 1,)


class _Fd:
    """A descriptor that came with a message, for the one that makes an object of it: as `reduction.DupFd` is used."""

    def __init__(self, fd):
        self._fd = fd

    def detach(self):
        """The descriptor, which is the caller's from now on."""
        fd, self._fd = self._fd, None
        return fd

    def __del__(self):
        if self._fd is not None:
            os.close(self._fd)


# The descriptors of the message that a thread reads.
_reading = threading.local()


def _received(at):
    fds = _reading.fds
    fd, fds[at] = fds[at], None
    if fd is None:
        raise OSError(errno.EMFILE, "a descriptor did not arrive: this process has too many open files (`ulimit -n`)")
    return _Fd(fd)


class Message:
    """A pickle and its descriptors, which are closed with it."""

    __slots__ = ("data", "fds", "kind", "number")

    def __init__(self, kind, number, data=b"", fds=()):
        self.kind, self.number, self.data, self.fds = kind, number, data, fds

    @classmethod
    def of(cls, kind, number, obj):
        """That of an object, which raises what does not pickle."""
        made = cls(kind, number, fds=[])
        made.data = pickled(obj, _Table({DupFd: functools.partial(_beside, made.fds)}), 4)
        return made

    def load(self, data=None):
        """The object of it, or of a pickle that was made with it."""
        before, _reading.fds = getattr(_reading, "fds", None), self.fds
        try:
            return pickle.loads(self.data if data is None else data)
        finally:
            _reading.fds = before

    def close(self):
        """Its descriptors are no longer needed."""
        fds, self.fds = self.fds, ()
        for fd in fds:
            if fd is not None:
                os.close(fd)

    __del__ = close


def untold(why, text):
    """The exception in the place of one that could not travel: with why, and with its text."""
    made = MaybeEncodingError(None, None)
    made.exc, made.value = text_of(why), text
    made.args = (made.exc, text)
    return made


def text_of(value):
    """What `repr` says of it, if anything."""
    try:
        return repr(value)
    except Exception as error:
        return f"<a {type(value).__name__}, whose repr raised {type(error).__name__}>"


def of_error(number, error):
    """The message of an exception that is being handled: with its text and its traceback, in case that it cannot be made again."""
    text, trace = text_of(error), traceback.format_exc()
    try:
        message = Message.of(RAISED, number, error)
    except BaseException as why:
        message = Message.of(RAISED, number, untold(why, text))
    message.data = pickle.dumps((text, trace, message.data))
    return message


def to_error(message, cause):
    """The exception of such a message; `cause` makes of its traceback what it was raised from."""
    text, trace, data = pickle.loads(message.data)
    try:
        error = message.load(data)
        if not isinstance(error, BaseException):
            raise TypeError(f"its pickle makes a {type(error).__name__}, which is no exception")
    except BaseException as why:
        error = untold(why, text)
    # One whose class lets nothing be set has it all the same.
    BaseException.__dict__["__cause__"].__set__(error, cause(f'\n"""\n{trace}"""'))
    return error


class Line:
    """One end of a worker's socket. Used by one thread."""

    def __init__(self, end):
        self._socket, self._out = end, collections.deque()
        self._into, self._fds, self._came = bytearray(), collections.deque(), collections.deque()

    def fileno(self):
        """That of the socket."""
        return self._socket.fileno()

    def is_behind(self):
        """Whether there is more to be sent."""
        return bool(self._out)

    def post(self, message, flags=socket.MSG_DONTWAIT):
        """Sends what there is room for, and keeps the rest; false if nobody is there. The message's descriptors stay open until it is sent."""
        data, fds, out = message.data, message.fds, self._out
        head = _HEAD.pack(len(data), message.number, message.kind, len(fds))
        if not fds and len(data) < _SMALL:
            out.append((head + data, ()))
        else:
            out.append((head, ()))
            out.extend((bytes([len(some)]), some) for some in (fds[at : at + _MOST] for at in range(0, len(fds), _MOST)))
            out.append((data, ()))
        return self.flush(flags)

    def flush(self, flags=socket.MSG_DONTWAIT):
        """Sends more of it. A receiver that has died is seen by what waits for it."""
        out = self._out
        try:
            while out:
                data, fds = out[0]
                if fds:
                    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
                    sent = self._socket.sendmsg([data], rights, flags | socket.MSG_NOSIGNAL)
                else:
                    sent = self._socket.send(data, flags | socket.MSG_NOSIGNAL)
                if sent == len(data):
                    out.popleft()
                else:
                    out[0] = (memoryview(data)[sent:], ())
        except BlockingIOError:
            pass
        except OSError:
            # It has died; or the kernel takes no more descriptors, and then it is to end.
            out.clear()
            self.hang_up()
            return False
        return True

    def messages(self, flags=socket.MSG_DONTWAIT):
        """The whole messages that have come, and whether that was the end. Without flags it waits for at least a part of one."""
        ended = False
        try:
            while True:
                data, rights, told, _ = self._socket.recvmsg(_READ, _ROOM, flags | socket.MSG_CMSG_CLOEXEC)
                if rights or told & socket.MSG_CTRUNC:
                    self._keep(rights, data[-1])
                self._into += data
                if not data:
                    ended = True
                if ended or not flags:
                    break
        except BlockingIOError:
            pass
        except OSError:
            ended = True
        return self._whole(), ended

    def _keep(self, rights, count):
        # A read ends with the byte that descriptors came with. Those that this process had no room for are missing at the end.
        came = array.array("i")
        for level, kind, data in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                came.frombytes(data[: len(data) - len(data) % came.itemsize])
        self._fds.extend([*came, *[None] * (count - len(came))])

    def _whole(self):
        made, at = [], 0
        with memoryview(self._into) as view:
            while len(view) - at >= _HEAD.size:
                size, number, kind, count = _HEAD.unpack_from(view, at)
                begin = at + _HEAD.size - (-count // _MOST)
                if len(view) < begin + size:
                    break
                at = begin + size
                made.append(Message(kind, number, bytes(view[begin:at]), [self._fds.popleft() for _ in range(count)]))
        del self._into[:at]
        return made

    def get(self):
        """Waits for the next message; None at the end."""
        while not self._came:
            messages, ended = self.messages(0)
            self._came.extend(messages)
            if ended and not messages:
                return None
        return self._came.popleft()

    def hang_up(self):
        """Tells the other end that there is no more, even if others have a copy of this one."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # It has gone before.
            pass

    def forget(self):
        """This process has no part in it: others go on with it."""
        self._socket.close()

    def close(self):
        """This end is no longer needed."""
        self.hang_up()
        self.forget()
        self._out.clear()
        for fd in self._fds:
            if fd is not None:
                os.close(fd)
        self._fds.clear()
