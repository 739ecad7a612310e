"""Light threads of chappe, in gdb.

    (gdb) source examples/gdb/chappe_threads.py
    (gdb) chappe threads          every light thread: number, name, state, proc, what it waits for
    (gdb) chappe thread 7         from now on backtraces go on with thread 7's stack, from frame 1 on
    (gdb) bt
    (gdb) up                      its innermost frame, with its variables
    (gdb) chappe thread           back to the kernel thread's own stack

Works on a process, and on a core that has its anonymous memory. Nothing in the process is changed. A thread that is running is where its kernel
thread is: `chappe threads` says which proc, and `info threads` knows that as chappe-proc-N.
"""

import struct

import gdb
from gdb.unwinder import Unwinder

MAGIC = b"CHAPPE\r\t"
VERSION = 6
RECORD = 128
STACK = 128 * 1024
MOST = 1 << 24
FEWEST = 1 << 12
# Of a record; crates/thread/src/image.rs checks them.
TOKEN, WAITS, CONTROL, AT, SP, PROC, EXTRA, LEVEL, AWAY, LIVES = 8, 16, 20, 24, 48, 56, 88, 104, 106, 107
STOPPED, HELD = 2, 4
PARKED, ASLEEP = 1, 3
WAITING = {
    1: "to send on tube {:#x}", 2: "to receive from tube {:#x}", 3: "for one of {} arms", 4: "until a moment", 5: "for thread {} to end",
    6: "for a private semaphore, pool or lock", 7: "for descriptor {}", 8: "parked", 9: "for the other side of a meeting",
    10: "for something named, as member {}", 11: "for events {:#x}",
}


def read(at, length):
    return bytes(gdb.selected_inferior().read_memory(at, length))


def word(at):
    return struct.unpack("<Q", read(at, 8))[0]


def ranges():
    """The mappings: of a process from /proc, of a core from its sections."""
    pid = gdb.selected_inferior().pid
    try:
        with open(f"/proc/{pid}/maps") as maps:
            for line in maps:
                span, rights = line.split()[:2]
                if rights == "rw-p":
                    yield tuple(int(part, 16) for part in span.split("-"))
            return
    except OSError:
        pass
    for line in gdb.execute("maintenance info sections", to_string=True).splitlines():
        parts = line.replace("->", " ").split()
        numbers = [int(part, 16) for part in parts if part.startswith("0x")]
        if "load" in line and len(numbers) >= 2:
            yield numbers[0], numbers[1]


def header(at):
    try:
        magic, version, fresh, most, stacks = struct.unpack("<8sIIQQ", read(at, 32))
    except gdb.MemoryError:
        return None
    return (at, fresh, stacks) if magic == MAGIC and version == VERSION and fresh <= most <= MOST else None


def table():
    for start, end in ranges():
        places, most = [start], MOST
        while most >= FEWEST:
            places += [end - most * RECORD, start + most * STACK]
            most //= 4
        for at in places:
            found = header(at) if start <= at < end else None
            if found:
                return found
    raise gdb.GdbError("there are no light threads here, or a chappe of another version made them")


class Light:
    def __init__(self, number, at):
        record = read(at, RECORD)
        half = lambda where: struct.unpack_from("<I", record, where)[0]
        whole = lambda where: struct.unpack_from("<Q", record, where)[0]
        self.number, self.at, self.lives, self.level, self.sp = number, at, record[LIVES] == 1, record[LEVEL], whole(SP)
        token, control, self.proc = half(TOKEN) & 3, half(CONTROL), whole(PROC)
        self.waits = WAITING.get(half(WAITS), "").format(whole(AT)) if token in (PARKED, ASLEEP) else ""
        if record[AWAY] == 1:
            self.state = "blocking"
        elif control & STOPPED:
            self.state = "stopped" if control & HELD else "suspended"
        elif token in (PARKED, ASLEEP):
            self.state = "waiting"
        else:
            self.state = "running or ready"
        self.name = ""
        if self.lives and whole(EXTRA):
            try:
                name, length = struct.unpack("<QQ", read(whole(EXTRA), 16))
                self.name = read(name, min(length, 256)).decode(errors="replace") if length else ""
            except gdb.MemoryError:
                pass


def threads():
    at, fresh, _ = table()
    lights = (Light(number, at + number * RECORD) for number in range(1, fresh))
    return [light for light in lights if light.lives]


class OfLight(Unwinder):
    """The caller of the kernel thread's innermost frame: the light thread that was chosen."""

    def __init__(self):
        super().__init__("chappe")
        self.chosen = None

    def __call__(self, pending):
        if self.chosen is None:
            return None
        sp, begin = int(pending.read_register("sp")), self.chosen
        if sp != begin["from"]:
            return None
        info = pending.create_unwind_info(FrameId(pending.read_register("sp"), pending.read_register("pc")))
        for name, value in begin["registers"].items():
            info.add_saved_register(name, gdb.Value(value).cast(pending.read_register(name).type))
        return info


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


UNWINDER = OfLight()
gdb.unwinder.register_unwinder(None, UNWINDER, replace=True)


def choose(number):
    light = next((light for light in threads() if light.number == number), None)
    if light is None:
        raise gdb.GdbError(f"there is no light thread {number}")
    if light.state in ("running or ready", "blocking"):
        gdb.write(f"thread {number} is {light.state}: if it runs, its stack is its kernel thread's, and what follows is old\n")
    UNWINDER.chosen = None
    gdb.invalidate_cached_frames()
    frame = gdb.newest_frame()
    if "aarch64" in frame.architecture().name():
        registers = {"pc": word(light.sp), "sp": light.sp + 32, "x29": word(light.sp + 24)}
    else:
        registers = {"rip": word(light.sp), "rsp": light.sp + 24, "rbx": word(light.sp + 8), "rbp": word(light.sp + 16)}
    UNWINDER.chosen = {"from": int(frame.read_register("sp")), "registers": registers}
    gdb.invalidate_cached_frames()


class Chappe(gdb.Command):
    """Light threads: `chappe threads`, `chappe thread N`, `chappe thread`."""

    def __init__(self):
        super().__init__("chappe", gdb.COMMAND_STACK, prefix=True)


class Threads(gdb.Command):
    """Lists the light threads."""

    def __init__(self):
        super().__init__("chappe threads", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        procs = []
        gdb.write(f"{'THREAD':>8} {'NAME':<16} {'STATE':<16} PROC LEVEL  WAITS\n")
        for light in threads():
            if light.proc not in procs:
                procs.append(light.proc)
            line = f"{light.number:>8} {light.name or '-':<16} {light.state:<16} {procs.index(light.proc):>4} {light.level:>5}  {light.waits}"
            gdb.write(line.rstrip() + "\n")


class Thread(gdb.Command):
    """Goes on with a light thread's stack behind frame 0; without a number, with the kernel thread's own."""

    def __init__(self):
        super().__init__("chappe thread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if argument.strip():
            choose(int(argument))
        else:
            UNWINDER.chosen = None
            gdb.invalidate_cached_frames()


Chappe()
Threads()
Thread()
