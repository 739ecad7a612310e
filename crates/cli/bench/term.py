"""Terminals beside tmux, screen, dtach and pexpect, in one run: `cargo xtask bench term [--quick] [ROW...]`; of the rows, those that have one of the
words.

Each figure is the median of several rounds, of which the rivals take turns, and the least one. Processor time is that of all processes that were
started for it: this one is their subreaper. A rival that is not installed is left out.
"""

import ctypes
import glob
import os
import pty
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import termios
import threading
import time
import struct
import fcntl

CHAPPE, RATES, LOOKS_INSIDE = sys.argv[1:4]
QUICK = "--quick" in sys.argv
ROWS = [word for word in sys.argv[4:] if not word.startswith("--")]
ROUNDS = 1 if QUICK else 3
FLOOD = (5 if QUICK else 100) << 20
LOOKS = 20 if QUICK else 200
HOME = tempfile.mkdtemp(prefix="chappe-bench-", dir="/dev/shm")
os.environ.update(CHAPPE_DIR=HOME + "/arenas", TERM="xterm-256color", SCREENDIR=HOME + "/screen", TMUX_TMPDIR=HOME)
os.mkdir(HOME + "/screen", 0o700)
os.mkdir(HOME + "/arenas", 0o700)
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wanted(row):
    return not ROWS or any(word in row for word in ROWS)


def reap():
    """Waits for all that was started; the processor seconds that they took."""
    used = 0.0
    while True:
        try:
            _, _, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return used
        used += usage.ru_utime + usage.ru_stime


def in_terminal(command):
    """Runs a command on a terminal of 80x24 that is always read: seconds, processor seconds, bytes that came out."""
    began = time.perf_counter()
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    count = 0
    while True:
        try:
            got = os.read(fd, 1 << 16)
        except OSError:
            break
        if not got:
            break
        count += len(got)
    elapsed = time.perf_counter() - began
    os.close(fd)
    return elapsed, reap(), count


def rivals(file):
    number = iter(range(10**9))
    yield "raw", lambda: ["cat", file]
    yield "chappe", lambda: [CHAPPE, "term", "run", f"b{next(number)}-{os.path.basename(file)}", "--attach", "--", "cat", file]
    if shutil.which("tmux"):
        yield "tmux", lambda: ["tmux", "-L", f"b{next(number)}", "-f", "/dev/null", "new-session", "cat " + file]
    if shutil.which("screen"):
        yield "screen", lambda: ["screen", "-q", "-c", "/dev/null", "cat", file]
    if shutil.which("dtach"):
        yield "dtach", lambda: ["dtach", "-A", f"{HOME}/d{next(number)}", "-z", "cat", file]


def flood(title, file):
    """One file through all of them."""
    size = os.path.getsize(file)
    print(f"\n{title}: {size:,} bytes; seconds, processor seconds (least), MB out, and the medians' ratios to tmux")
    all_of_them = list(rivals(file))
    figures = {name: [] for name, _ in all_of_them}
    for turn in range(ROUNDS):
        for name, command in all_of_them:
            # It needs half a minute for a hundred megabytes.
            if name == "screen" and turn > 0 and size > 10 << 20:
                continue
            figures[name].append(in_terminal(command()))
            for left in glob.glob(f"{HOME}/arenas/.term-b*") + glob.glob(f"{HOME}/arenas/.typed-*"):
                os.unlink(left)
    middle = {name: [statistics.median(part) for part in zip(*rounds)] for name, rounds in figures.items()}
    base = middle.get("tmux")
    for name, (elapsed, used, out) in middle.items():
        least = [min(part) for part in zip(*figures[name])]
        ratio = f"  {elapsed / base[0]:5.2f} {used / base[1]:5.2f}" if base else ""
        print(f"  {name:8} {elapsed:7.3f} ({least[0]:.3f})  {used:7.3f} ({least[1]:.3f})  {out / 1e6:9.3f}{ratio}")
    elapsed, _, out = middle["chappe"]
    print(f"  bytes out of chappe to 2 screens x 60 x seconds: {out / (2 * 80 * 24 * 60 * max(elapsed, 1 / 60)):.2f}")


def inputs():
    """Five files as programs write them."""
    made = {}

    def file(name, text, size):
        made[name] = f"{HOME}/{name}"
        with open(made[name], "wb") as to:
            to.write((text * (size // len(text) + 1))[:size])

    names = sorted(os.listdir("/usr/bin"))
    ls = "".join(f"\x1b[01;32m{name}\x1b[0m  " + ("\r\n" if at % 4 == 3 else "") for at, name in enumerate(names))
    lines = [f"   \x1b[1m\x1b[32mCompiling\x1b[0m {name} v0.{at % 40}.{at % 7} (/work/{name}/src)\r\n" for at, name in enumerate(names)]
    draws = "".join(f"\x1b[{at % 23 + 1};{at % 60 + 1}H\x1b[K\x1b[38;5;{at % 256}m{name}\x1b[m\x1b[24;1H{at}" for at, name in enumerate(names))
    plain = "".join(f"{at:8} {name} lies in /usr/bin and is a program of this machine\r\n" for at, name in enumerate(names))
    entries = [os.path.basename(path) for path in glob.glob("/lib/terminfo/*/*") + glob.glob("/usr/share/terminfo/*/*")]
    caps = b"".join(subprocess.run(["infocmp", "-C", "-r", entry], capture_output=True).stdout for entry in entries)
    file("ls", ls.encode(), 8 << 20)
    file("compile", "".join(lines).encode(), 8 << 20)
    file("draws", draws.encode(), 8 << 20)
    file("plain", plain.encode(), 8 << 20)
    file("termcap", caps.replace(b"\n", b"\r\n") or plain.encode(), 2_190_000)
    return made


def percentiles(what, seconds):
    seconds = sorted(seconds)
    at = lambda part: seconds[min(int(len(seconds) * part), len(seconds) - 1)] * 1e3
    print(f"  {what:52} median {at(0.5):7.2f} ms   p99 {at(0.99):7.2f}   least {at(0):7.2f}   of {len(seconds)}")


def chappe(*words):
    return subprocess.run([CHAPPE, "term", *words], check=True, capture_output=True, text=True).stdout


ANSWERER = """
import os, select, sys, termios, time, tty
tty.setraw(0)
flood, log = sys.argv[1] == "flood", open(sys.argv[2], "wb", 0)
block = b"a line of a flood that goes on and on\\r\\n" * 20
os.write(1, b"ready\\r\\n")
while True:
    there = select.select([0], [], [], 0 if flood else None)[0]
    if there:
        got = os.read(0, 4096)
        log.write(b"%d\\n" % time.monotonic_ns())
        os.write(1, b"\\r\\n<" + got + b">\\r\\n")
    elif flood:
        os.write(1, block)
"""


def latencies():
    print("\nlatencies")
    with open(HOME + "/answerer.py", "w") as to:
        to.write(ANSWERER)
    for mode in ("idle", "flood"):
        name, log = f"l-{mode}", f"{HOME}/log-{mode}"
        open(log, "w").close()
        chappe("run", name, "--size", "80x24", "--", sys.executable, HOME + "/answerer.py", mode, log)
        chappe("wait", name, "ready|flood", "--timeout", "20")
        typed, woken, lost = [], [], 0
        for at in range(LOOKS):
            # The waiter sleeps before anything is typed; it is measured to its last word.
            waiter = subprocess.Popen([CHAPPE, "term", "wait", name, f"<key{at}>", "--timeout", "5"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            time.sleep(0.02)
            sent = time.monotonic_ns()
            chappe("send", name, f"key{at}")
            waiter.stdout.read()
            ended = time.monotonic_ns()
            # In a flood the line may leave the history before a waiter that is held up looks.
            if waiter.wait() != 0:
                lost += 1
                continue
            came = int(open(log).read().split()[-1])
            typed.append((came - sent) / 1e9)
            woken.append((ended - came) / 1e9)
        percentiles(f"{mode}: text written to the waiter's output; {lost} left before", woken or [float("nan")])
        percentiles(f"{mode}: `term send` begun to the key in the program", typed)
        inside(mode, name, log)
        chappe("kill", name, "--signal", "KILL")
    reap()


def inside(mode, name, log):
    """The same for a program that has the library: no process is started."""
    figures = subprocess.run([LOOKS_INSIDE, HOME + "/arenas", name, log, str(LOOKS)], capture_output=True, text=True, check=True).stdout
    rows = ["a key typed to the key in the program", "text written to the waiter", "a look at the screen"]
    for what, line in zip(rows, figures.splitlines()):
        median, p99, least = (int(ns) / 1e6 for ns in line.split())
        print(f"  {mode + ', library: ' + what:52} median {median:9.4f} ms   p99 {p99:9.4f}   least {least:9.4f}")


def looks():
    print("\na look, as a command")
    chappe("run", "look", "--size", "80x24", "--", "sh", "-c", "seq 1000; sleep 1000")
    figures = {"chappe term show": lambda: [CHAPPE, "term", "show", "look"]}
    if shutil.which("tmux"):
        tmux = ["tmux", "-L", "look", "-f", "/dev/null"]
        subprocess.run([*tmux, "new-session", "-d", "-x", "80", "-y", "24", "sh -c 'seq 1000; sleep 1000'"], check=True)
        figures["tmux capture-pane -p"] = lambda: [*tmux, "capture-pane", "-p"]
    time.sleep(0.5)
    times = {name: [] for name in figures}
    for _ in range(LOOKS):
        for name, command in figures.items():
            began = time.perf_counter()
            subprocess.run(command(), check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - began)
    for name, of_it in times.items():
        percentiles(name, of_it)
    chappe("kill", "look", "--signal", "KILL")
    if "tmux capture-pane -p" in figures:
        subprocess.run([*tmux, "kill-server"])
    reap()


def expect():
    print("\na text behind 5 MB: seconds (least)")
    file, end = HOME + "/plain", "THE-END"
    command = f"head -c 5000000 {file}; echo; echo {end}"
    times = {"chappe": []}
    try:
        import pexpect

        times["pexpect"] = []
    except ImportError:
        print("  pexpect is not installed")
    for at in range(ROUNDS):
        began = time.perf_counter()
        chappe("run", f"e{at}", "--size", "80x24", "--", "sh", "-c", command)
        chappe("wait", f"e{at}", f"^{end}$", "--timeout", "60")
        times["chappe"].append(time.perf_counter() - began)
        if "pexpect" in times:
            began = time.perf_counter()
            child = pexpect.spawn("sh", ["-c", command], timeout=120)
            child.expect(end)
            times["pexpect"].append(time.perf_counter() - began)
            child.close()
    reap()
    for name, of_it in times.items():
        print(f"  {name:8} {statistics.median(of_it):7.3f} ({min(of_it):.3f})")
    if "pexpect" in times:
        print(f"  ratio {statistics.median(times['chappe']) / statistics.median(times['pexpect']):.3f}")


def pss(pid):
    """Its share of the memory, and what of it is of no file, in kB."""
    lines = open(f"/proc/{pid}/smaps_rollup").read().splitlines()
    figure = lambda key: sum(int(line.split()[1]) for line in lines if line.startswith(key + ":"))
    return figure("Pss"), figure("Pss_Anon")


def memory():
    print("\nmemory with a screen of 80x24, behind 8 MB of lines, in kB: share of all, of no file")
    import json

    chappe("run", "mem", "--size", "80x24", "--", "sh", "-c", f"cat {HOME}/plain; sleep 1000")
    time.sleep(2)
    view = json.loads(chappe("show", "--json", "mem"))
    for what in ("keeper", "holder"):
        print(f"  chappe's {what:7} {pss(view[what])}")
    print(f"  its file         {os.stat(os.path.join(HOME, 'arenas', '.term-mem')).st_blocks // 2} with 4,096 of history")
    chappe("kill", "mem", "--signal", "KILL")
    if shutil.which("tmux"):
        tmux = ["tmux", "-L", "mem", "-f", "/dev/null"]
        subprocess.run([*tmux, "new-session", "-d", "-x", "80", "-y", "24", f"sh -c 'cat {HOME}/plain; sleep 1000'"], check=True)
        time.sleep(2)
        server = subprocess.run([*tmux, "display-message", "-p", "#{pid}"], capture_output=True, text=True).stdout
        print(f"  tmux's server    {pss(int(server))} with 2,000 lines of history")
        subprocess.run([*tmux, "kill-server"])
    reap()


def main():
    files = inputs()
    print(f"load {os.getloadavg()[0]:.2f}; {os.cpu_count()} processors; {ROUNDS} rounds")
    if wanted("parse"):
        print("\nparse: MB/s, the best of 5")
        print(subprocess.run([RATES, *files.values()], capture_output=True, text=True, check=True).stdout.replace(HOME + "/", "  "), end="")
    if wanted("flood"):
        whole = b"".join(open(files[name], "rb").read() for name in ("ls", "compile", "plain"))
        with open(HOME + "/flood", "wb") as to:
            to.write((whole * (FLOOD // len(whole) + 1))[:FLOOD])
        flood("flood", HOME + "/flood")
        os.unlink(HOME + "/flood")
    if wanted("termcap"):
        flood("termcap", files["termcap"])
    for row, act in [("looks", looks), ("latencies", latencies), ("expect", expect), ("memory", memory)]:
        if wanted(row):
            act()


# What it has started is ended then, too.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
try:
    main()
finally:
    for left in glob.glob(f"{HOME}/arenas/.term-*"):
        subprocess.run([CHAPPE, "term", "kill", "--signal", "KILL", os.path.basename(left)[6:]], capture_output=True)
    shutil.rmtree(HOME, ignore_errors=True)
