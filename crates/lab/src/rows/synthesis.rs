//! Synthesis: what the thesis measures of its kernel, its threads and its programs.

use crate::row::{Absent, Paper, Row};
use chappe_bench::emulated;
use chappe_bench::far;
use chappe_bench::feedback;
use chappe_bench::kernel;
use chappe_bench::objects;
use chappe_bench::realtime::several;
use chappe_bench::ring;
use chappe_bench::size;
use chappe_bench::stream::{cat, cook, shown};
use chappe_bench::synth;
use chappe_bench::synth::{fixed, period};
use chappe_bench::thread::{Rows, late};
use chappe_bench::tube::footprint;
use std::time::Duration;

/// Its tables and figures, in order.
pub const ROWS: &[Row] = &[
    Row {
        id: "synthesis-2-1",
        paper: Paper::Synthesis,
        part: "tables 2.1 and 2.2",
        title: "pipes, files, the shortest system call, a context switch",
        note: "Files are in memory: no disk is in the way.",
        seconds: (3, 15),
        figures: Some((
            "microseconds; UNIX 4.0C on a Sony NEWS, and Mach 2.1 on a NeXT, both 68030 at 25 MHz",
            &[
                "function|UNIX, 1 B|UNIX, 1,024 B|Mach, 1 B|Mach, 1,024 B",
                "write to a pipe|260|450|470|740",
                "write to a file|340|420|370|600",
                "read from a pipe|190|610|550|760",
                "read from a file|380|460|350|580",
                "getpid|40||88|",
                "context switch|170||510|",
            ],
        )),
        measure: |lab| {
            kernel::overheads(&lab.house, lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-3-1",
        paper: Paper::Synthesis,
        part: "table 3.1",
        title: "putting into a buffer",
        note: "Code made for what stays the same: here a subscriber's condition, where the paper has a buffer's put.",
        seconds: (1, 15),
        figures: Some((
            "cycles of a 68030",
            &["code|cold cache|warm cache", "synthesised|29|20", "hand-crafted assembly|37|28"],
        )),
        measure: |lab| {
            synth::measure(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-3-2",
        paper: Paper::Synthesis,
        part: "table 3.2",
        title: "putchar",
        note: "",
        seconds: (0, 0),
        figures: Some((
            "seconds for ten million",
            &[
                "function|time|bytes a call",
                "UNIX putchar, macro|21.4|132",
                "Synthesis putchar, macro|13.0|30",
                "Synthesis putchar, function|19.0|8",
            ],
        )),
        measure: |_| Err(Absent::new("it is C against the C library: `cargo xtask bench c` compiles and prints it")),
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-3-3",
        paper: Paper::Synthesis,
        part: "table 3.3",
        title: "a context switch by what is live",
        note: "Whole switches, scheduler included, in processor time. Floating-point registers need no saving here: the compiler's rules say that no call keeps them.",
        seconds: (15, 80),
        figures: Some((
            "microseconds",
            &[
                "kind|time",
                "integer registers|10.5",
                "floating point|52",
                "integer, another address space|16",
                "floating point, another address space|56",
                "null procedure call|1.4",
                "Sony NEWS, UNIX|170",
                "NeXT, Mach|510",
            ],
        )),
        measure: |lab| {
            Rows::new(&lab.program, lab.go.clone()).switches((lab.rounds / 3).max(1));
            Ok(())
        },
        wants_go: true,
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-3-4",
        paper: Paper::Synthesis,
        part: "table 3.4",
        title: "interrupt handlers rewritten as sources come and go",
        note: "The callback of a device with one input and one output, 64 samples a period, in place of an interrupt a sample. Machine code only where the feature `jit` is built in.",
        seconds: (3, 8),
        figures: Some((
            "microseconds",
            &[
                "handler|CD-in|CD+DA",
                "synthesised|3.7|5.1",
                "assembler|6.0|7.7",
                "C|9.7|11.3",
                "C and UNIX|17.1|18.9",
                "null interrupt|2.0|",
            ],
        )),
        measure: |lab| {
            period::measure(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-3-5",
        paper: Paper::Synthesis,
        part: "table 3.5",
        title: "a null system call by each way",
        note: "A ring that a kernel thread polls is the kernel core of the Nix paper: the caller's processor makes no system call.",
        seconds: (1, 15),
        figures: Some((
            "microseconds",
            &[
                "way|cold cache|warm cache",
                "C procedure call|1.2|1.0",
                "null trap|1.9|1.6",
                "kernel call, general dispatch|4.2|3.5",
                "general, in line|3.5|2.9",
                "cached trap|3.5|2.7",
                "cached and in line|2.7|2.1",
                "UNIX getpid|40|",
                "Mach getpid|88|",
            ],
        )),
        measure: |lab| {
            ring::measure(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-3-6",
        paper: Paper::Synthesis,
        part: "table 3.6",
        title: "what each object takes of memory",
        note: "Bytes, not time. The paper's kernel takes 140 KiB, a thread 0.4 KiB and a stack; a graph of stages is missing.",
        seconds: (3, 15),
        measure: |lab| {
            footprint::measure();
            Rows::new(&lab.program, lab.go.clone()).memory();
            Ok(())
        },
        wants_go: true,
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-3-4-1",
        paper: Paper::Synthesis,
        part: "section 3.4.1",
        title: "text and data of each crate",
        note: "Bytes, not time: of the command `chappe` beside this program, or of this program where that is missing. The paper's kernel: 64 KiB for all of it.",
        seconds: (1, 1),
        measure: |lab| {
            let command = lab.program.with_file_name("chappe");
            size::measure(if command.exists() { &command } else { &lab.program }).map_err(Absent::new)
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-5-1",
        paper: Paper::Synthesis,
        part: "table 5.1",
        title: "lock-free structures, and locked ones",
        note: "Nobody else is about, as in the paper. Its retry is another compare-and-swap; lists in order are missing, a table of keys stands for them.",
        seconds: (3, 30),
        figures: Some((
            "microseconds",
            &[
                "operation|not synchronised|locked|lock-free, no retry|one retry",
                "increment|0.3|2.4|1.3|2.3",
                "list insert|0.6|2.7|1.4|2.3",
                "list delete|1.0|3.2|2.1|4.1",
                "queue insert|2.0|4.2|3.3|6.0",
                "queue delete|2.1|4.3|3.3|6.0",
                "stack push|0.7|2.8|2.0|3.5",
                "stack pop|0.7|2.8|2.0|3.5",
            ],
        )),
        measure: |lab| {
            objects::measure(lab.rounds);
            several::measure(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-5-2",
        paper: Paper::Synthesis,
        part: "tables 5.2 and 5.3",
        title: "thread operations and switches",
        note: "Suspend, resume, signal and step are there (crates/thread), and have no benchmark yet; switches are in table 3.3.",
        seconds: (6, 50),
        figures: Some((
            "microseconds",
            &[
                "operation|time",
                "create, shared vector table|19.2",
                "destroy|2.2 + 6.1",
                "suspend|2.2 + 3.7",
                "resume|3.0 or 6.6",
                "signal|4.6 + 4.4",
                "step|25",
                "switch, integer registers|14",
                "switch, floating point|56",
            ],
        )),
        measure: |lab| {
            Rows::new(&lab.program, lab.go.clone()).operations((lab.rounds / 3).max(1));
            Ok(())
        },
        wants_go: true,
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-6",
        paper: Paper::Synthesis,
        part: "chapter 6",
        title: "the frequency-locked loop and the scheduler that listens to the data",
        note: "In simulation. What the loop makes of pipelines, step by step, is in docs/feedback.md; streams over real devices are missing.",
        seconds: (1, 10),
        measure: |lab| {
            feedback::measure(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-6-4-3",
        paper: Paper::Synthesis,
        part: "section 6.4.3",
        title: "a clock that is locked to another machine's, over a link with a millisecond of jitter",
        note: "The other machine is a thread on loopback whose clock is 80 ppm fast; a relay puts 0.1 to 1.1 ms on each question and each answer, by a seed, and keeps what it put there. The second half counts; a quick run of four seconds does not learn the rate. The aim is 50 us; the paper has no figure.",
        seconds: (8, 85),
        measure: |lab| {
            far::measure(Duration::from_secs(if lab.rounds > 1 { 40 } else { 4 }));
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-6-5",
        paper: Paper::Synthesis,
        part: "section 6.5",
        title: "late blocks, where threads that would be late are passed to an idle proc first",
        note: "In simulation, with the scheduler's own queues and rule: 20 runs of 20 s. The paper has no figure.",
        seconds: (1, 2),
        measure: |_| {
            late::measure();
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-7-1",
        paper: Paper::Synthesis,
        part: "table 7.1",
        title: "the loops of appendix A",
        note: "The seven programs as printed, compiled, by the kernel and unmodified under `chappe run --io`: processor time of a run, with the start of \
                   its process. Beside it tubes that a program calls itself. Only pipes are emulated. 1 computes, and shows that the rest costs nothing. 5 to 7 are the \
                   kernel's: a file read from a mapping would take 0.05 of a read, but each read would have to ask how long the file is now (a shorter one is SIGBUS), which takes as long \
                   as the read, and its position is shared with other processes; an open of /dev/null that makes no system call would need a descriptor that the kernel does not \
                   know, which fork, exec, poll and the limit on descriptors would have to be told of.",
        seconds: (20, 90),
        figures: Some((
            "seconds; SUN 3/160, and Synthesis' emulator of it",
            &[
                "program|SUNOS|Synthesis|ratio",
                "1 compute|20.3|21.42|0.95",
                "2 pipe, 1 B|10.0|0.18|56",
                "3 pipe, 1,024 B|15.1|2.42|6.2",
                "4 pipe, 4,096 B|37.9|9.64|3.9",
                "5 file|20.6|2.91|7.1",
                "6 open /dev/null, close|17.8|0.69|26",
                "7 open /dev/tty, close|42.6|0.88|48",
            ],
        )),
        measure: |lab| {
            kernel::programs(lab.rounds);
            emulated::measure(&lab.house, &lab.program.with_file_name("chappe"), lab.rounds).map_err(Absent::new)
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-7-2",
        paper: Paper::Synthesis,
        part: "table 7.2",
        title: "cat of a long file into a terminal window",
        note: "The terminal answers a question behind the file: so all of it was taken in. No one looks at the screens of chappe and tmux; xterm draws on a display in memory.",
        seconds: (1, 15),
        figures: Some((
            "seconds for 110,620 bytes",
            &[
                "system|machine|time",
                "Synthesis|Sony NEWS, 68030|2.9",
                "UNIX, X11 R5|Sony NEWS, 68030|23",
                "UNIX, console|Sony NEWS, 68030|127",
                "Mach, NextStep|NeXT, 68030|55",
                "Mach, NextStep|NeXT, 68040|13",
                "SUNOS, X11 R5|SparcStation II|6.5",
            ],
        )),
        measure: |lab| cat::measure(&lab.house, &lab.program.with_file_name("chappe"), lab.rounds).map_err(Absent::new),
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-7-3",
        paper: Paper::Synthesis,
        part: "table 7.3",
        title: "files and devices",
        note: "The kernel alone.",
        seconds: (2, 10),
        figures: Some((
            "microseconds; native Synthesis, and by its emulation of SUNOS",
            &[
                "operation|native|emulated",
                "open /dev/null|43|49",
                "open /dev/tty|62|68",
                "open a file|73|85",
                "close|18|22",
                "read 1 byte from a file|9|10",
                "read N bytes from a file|9+N/8|10+N/8",
                "read N from /dev/null|6|8",
            ],
        )),
        measure: |lab| {
            kernel::devices(&lab.house, lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-7-4",
        paper: Paper::Synthesis,
        part: "table 7.4",
        title: "faults and pages",
        note: "The kernel alone, and a record of a page through a tube: chappe manages no memory.",
        seconds: (1, 10),
        figures: Some((
            "microseconds a page of 4 KiB",
            &[
                "operation|time",
                "service a translation fault|13.6",
                "allocate a page, zeroed before|16.0",
                "allocate a page that needs zeroing|166",
                "copy a page|274",
                "free a page|1.6",
            ],
        )),
        measure: |lab| {
            kernel::memory(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-7-5",
        paper: Paper::Synthesis,
        part: "table 7.5",
        title: "the parts of a window system",
        note: "A window is drawn by a thread of its own, at most 60 times a second: that is not in its figure, as each picture has what came since the last one.",
        seconds: (8, 10),
        figures: Some((
            "microseconds",
            &[
                "quaject|create|write",
                "TTY cooker|27|2.3 + 2.1 a character",
                "VT-100|532|14.2 + 1.3 a character",
                "text window|71|23.9 + 27.7 a character",
            ],
        )),
        measure: |lab| cook::measure(lab.rounds).map_err(Absent::new),
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-7-4-1",
        paper: Paper::Synthesis,
        part: "section 7.4.1",
        title: "numbers printed by fixed-point arithmetic",
        note: "The paper's is 1.5 times as fast as the instruction of a 68882 that makes decimal digits without their form. All but ryu print the same bytes: ryu prints as many digits as the number needs.",
        seconds: (1, 3),
        measure: |lab| {
            fixed::measure(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "synthesis-7-5-fft",
        paper: Paper::Synthesis,
        part: "sections 6.3.2 and 7.5",
        title: "a Fourier transform of 88,200 points a second, shown as it sounds",
        note: "Processor time of the command for a second of sound, on a pseudo-terminal; at most 50 ms, 5 %, are wanted, and no point may be dropped. The paper says that it can be done, on a 68030.",
        seconds: (4, 4),
        measure: |lab| shown::measure(&lab.program.with_file_name("chappe"), lab.rounds).map_err(Absent::new),
        ..Row::PLAIN
    },
];
