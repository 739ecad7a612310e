//! `chappe term`.

use crate::size;
use crate::time::parse;
#[cfg(feature = "term")]
use chappe::term::{screen::fit, search::After};
use clap::Subcommand;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Builds without terminals take the arguments, and say that they have none.
#[cfg(not(feature = "term"))]
type After = String;

/// As above: any size.
#[cfg(not(feature = "term"))]
fn fit(columns: usize, rows: usize) -> (usize, usize) {
    (columns, rows)
}

/// The end of its help.
pub const END: &str = "\
Examples:
  chappe term run build -- make -j4
  chappe term wait --exit build && chappe term show build
  chappe term attach build";

/// `chappe term`.
#[derive(Subcommand, Debug)]
pub enum TermCommand {
    /// Run a command in a new terminal, and return at once
    ///
    /// The command gets TERM=xterm-256color and the terminal's name in CHAPPE_TERM. It goes on when this shell ends. What stands in the terminal stays
    /// when the command has ended, until `chappe term rm`.
    ///
    /// JSON: {"name": TEXT, "pid": N}
    #[command(after_help = RUN_SHORT, after_long_help = RUN_END)]
    Run {
        /// The terminal's name: letters, digits and ._@:+-
        name: String,
        /// How many columns and rows it has; without it, as this command's terminal, or 80x24
        #[arg(long, value_name = "COLUMNSxROWS", value_parser = parse_size)]
        size: Option<(u16, u16)>,
        /// How many bytes of lines that have left the screen are kept (1M, 64M; at least 64K)
        #[arg(long, value_name = "BYTES", default_value = "4M", value_parser = size::parse)]
        history: u64,
        /// Let no other user look at it, where users share the directory of arenas
        #[arg(long)]
        private: bool,
        /// Record it into a new file, as `chappe term log` does, to its end
        ///
        /// The recorder is a process of its own: killed, or without room, it ends, and the command goes on (`chappe term show --json`: "recorded"). `chappe term wait --exit` waits until the recording is whole.
        #[arg(long, value_name = "FILE")]
        log: Option<PathBuf>,
        /// Attach to it at once
        #[arg(long)]
        attach: bool,
        /// The command to run and its arguments
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Print the screen of a terminal, also when its command has ended
    ///
    /// JSON: {"name": TEXT, "user": UID, "command": TEXT, "state": "running", "waiting", "exited", "killed", "hung-up" or "unknown", "place": N or null, "pools": [TEXT] or null,
    ///   "status": N or null, "signal": N or null, "began": SECONDS, "ended": SECONDS or null, "columns": N, "rows": N, "cursor": {"row": N, "column": N, "line": N, "visible": BOOL},
    ///   "title": TEXT, "alternate": BOOL, "bells": N, "lost": N, "lines": [{"line": N, "text": TEXT, "wraps": BOOL}],
    ///   "keeper": PID or null, "holder": PID or null, "pid": PID or null, "holders": N, "recorded": BOOL}
    #[command(verbatim_doc_comment, after_help = SHOW_SHORT)]
    Show {
        /// The terminal
        name: String,
        /// Print this many of the lines before the screen, too
        #[arg(long, value_name = "N", default_value_t = 0)]
        history: u64,
        /// Print colours, for a terminal
        #[arg(long)]
        ansi: bool,
        /// Write a picture of the screen into this file, as PNG; nothing is printed
        #[arg(long, value_name = "FILE", conflicts_with_all = ["history", "ansi"])]
        png: Option<PathBuf>,
    },
    /// Record a terminal from now on, as asciinema plays it (asciicast, version 2)
    ///
    /// Writes to stdout until the command has ended. What the screen shows is recorded, 60 times a second at most and only what has changed: so a recording
    /// of a flood has few bytes, and what is overwritten between two pictures is not in it. What is typed is recorded only as far as the program shows it. The terminal is not held up,
    /// also when this is stopped or killed.
    #[command(after_help = LOG_END)]
    Log {
        /// The terminal
        name: String,
        /// Stop, and exit with 1, when so many bytes are written (64M, 1G)
        #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = size::parse)]
        limit: u64,
    },
    /// Type into a terminal; prints a mark, for `chappe term wait --after`
    ///
    /// It is typed in one piece: what others type comes before or behind. Waits until the program's side of the terminal has taken it; exits with 124 if it has not in time: up to
    /// 64 KiB of what is left are typed when the program reads. Of a line, a program that reads whole lines gets 4,095 bytes. Exits with 1 if the terminal has ended, or if the process that types was killed meanwhile: then the program has got a
    /// beginning of it, or nothing.
    ///
    /// The mark is the number of the cursor's line, a dot, and more that says what was there when the text was typed.
    ///
    /// JSON: {"name": TEXT, "line": N, "mark": TEXT}
    #[command(after_help = SEND_SHORT, after_long_help = SEND_END)]
    Send {
        /// The terminal
        name: String,
        /// The text, after `--` if it begins with `-`; several are typed with spaces between. `-`, or no text, --key and --enter: what comes on stdin, which --key and --enter alone leave there (--key - types a dash)
        text: Vec<String>,
        /// Press Enter after the text
        #[arg(long)]
        enter: bool,
        /// Press this key after that: Enter, Tab, Up, F5, C-c, M-x; may be given several times
        #[arg(long, value_name = "KEY")]
        key: Vec<String>,
        /// Paste the text, so that programs do not take it for commands
        #[arg(long)]
        paste: bool,
        /// Wait at most this long (500ms, 30s, 5m, 1h, or seconds)
        #[arg(long, value_name = "DURATION", value_parser = parse, default_value = "10s")]
        timeout: Duration,
    },
    /// Wait for a text in a terminal, or for the end of its command
    ///
    /// Prints the first line that has the text. It sleeps: nothing is looked at in turns, and no line is missed between two looks; a line that is
    /// longer than a row is one line. Lines that left the history before they were looked at are counted on stderr.
    ///
    /// JSON: {"line": N, "text": TEXT, "match": TEXT, "lost": N}, with --exit {"status": N or null, "signal": N or null}
    #[command(after_help = WAIT_SHORT, after_long_help = WAIT_END)]
    Wait {
        /// The terminal
        name: String,
        /// A regular expression
        #[arg(required_unless_present = "exit", conflicts_with = "exit")]
        regex: Option<String>,
        /// Only what was written behind this mark, which `chappe term send` has printed; or only lines behind the one of this number. Without it, lines on the screen and later ones
        #[arg(long, value_name = "MARK")]
        after: Option<After>,
        /// Wait for the command's end, and exit with its status
        #[arg(long)]
        exit: bool,
        /// Wait at most this long (500ms, 30s, 5m, 1h, or seconds), then exit with 124
        #[arg(long, value_name = "DURATION", value_parser = parse)]
        timeout: Option<Duration>,
    },
    /// Show a terminal on this one, and type into it; Ctrl-] leaves it
    ///
    /// It gets this terminal's size as long as it is shown. Exits with 0 when it is left, and with 1 if it cannot be shown; at the command's end, with its status.
    Attach {
        /// The terminal
        name: String,
    },
    /// List the terminals: this user's, and those of others that may be looked at
    ///
    /// The state of a job (`chappe submit`) that has no permit yet is its place in the pool's line, and whose.
    ///
    /// JSON: [{"name": TEXT, "user": UID, "command": TEXT, "state": TEXT, "place": N or null, "pools": [TEXT] or null, "status": N or null, "signal": N or null, "began": SECONDS, "ended": SECONDS or null}]
    Ls,
    /// Remove terminals whose commands have ended, with their screens
    ///
    /// JSON, a line for each: {"removed": TEXT, "kind": "terminal"}
    Rm {
        /// The terminals
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Send a signal to the command of a terminal, and to what it has in the foreground
    ///
    /// When the command has ended: to all processes that it has left, also those in sessions of their own.
    ///
    /// JSON: {"name": TEXT, "signal": N, "processes": N}, with how many process groups or processes it was sent to
    Kill {
        /// The terminal
        name: String,
        /// Which, by its number or name: HUP, TERM, INT, KILL
        #[arg(long, short, default_value = "HUP", value_parser = parse_signal)]
        signal: i32,
    },
    /// Give a terminal another size
    ///
    /// JSON: {"name": TEXT, "columns": N, "rows": N}, as it is then
    Resize {
        /// The terminal
        name: String,
        /// How many columns and rows
        #[arg(value_name = "COLUMNSxROWS", value_parser = parse_size)]
        size: (u16, u16),
    },
}

/// Reads `120x40`.
fn parse_size(text: &str) -> Result<(u16, u16), String> {
    let wrong = || format!("`{text}` is not a size: write COLUMNSxROWS, as 80x24");
    let (columns, rows) = text.split_once(['x', 'X']).ok_or_else(wrong)?;
    let number = |part: &str| part.parse::<u16>().ok().filter(|n| *n > 0);
    let (columns, rows) = number(columns).zip(number(rows)).ok_or_else(wrong)?;
    let (most, least) = fit(columns.into(), rows.into());
    if (most, least) != (columns.into(), rows.into()) {
        return Err(format!("`{text}` is too large: {most}x{least} is the next size that a terminal can have"));
    }
    Ok((columns, rows))
}

/// Reads `9`, `KILL` or `SIGKILL`.
fn parse_signal(text: &str) -> Result<i32, String> {
    const NAMES: [(&str, i32); 10] = [
        ("HUP", libc::SIGHUP),
        ("INT", libc::SIGINT),
        ("QUIT", libc::SIGQUIT),
        ("KILL", libc::SIGKILL),
        ("TERM", libc::SIGTERM),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
        ("STOP", libc::SIGSTOP),
        ("CONT", libc::SIGCONT),
        ("WINCH", libc::SIGWINCH),
    ];
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let number = named.or_else(|| text.parse().ok().filter(|n| (1..=64).contains(n)));
    number.ok_or_else(|| format!("`{text}` is no signal: write HUP, INT, TERM, KILL, or a number"))
}

const RUN_SHORT: &str = "\
Examples:
  chappe term run build -- make -j4
  chappe term wait --exit build && chappe term show build";

const RUN_END: &str = "\
Examples:
  chappe term run build -- make -j4
  chappe term wait --exit build && chappe term show build
  chappe term run py -- python3 -q
  chappe term run --size 120x40 --attach edit -- vim notes
  chappe term run --log demo.cast demo -- sh demo.sh; asciinema play demo.cast

When something is killed:
  the holder (`chappe term show --json` has its process id) reads the
    command and types into it. Another one is started; it comes to the same
    screen, and no byte of the command is lost. Of what was just being typed
    the command has got a beginning or nothing, and `chappe term send` says
    so.
  the keeper started the command. The holder goes on; how the command ends
    is then not known.
  both: the command gets SIGHUP, as when a window is closed. The screen
    stays, and `show` and `wait` say what happened.
  a container whose first process this is: all that is in it ends with its
    first process. So this stays there until the command ends, and exits
    with its status; `--attach` in a container with a terminal.
  what looks, waits or types: nothing happens to the terminal.

Exit status:
  0 it runs; 1 it runs, and its name cannot be written to stdout; 125 it
  could not be made; 126, 127 the command cannot be run, is not found; with
  --attach, as `chappe term attach`";

const LOG_END: &str = "\
Examples:
  chappe term log build > build.cast
  asciinema play build.cast
  chappe term run --log demo.cast demo -- sh demo.sh";

const SHOW_SHORT: &str = "\
Examples:
  chappe term show build
  chappe term show build --history 1000 | grep error
  chappe term show --png build.png build";

const SEND_SHORT: &str = "\
Examples:
  chappe term send py --enter 'print(6 * 7)'
  chappe term send py --key C-d";

const SEND_END: &str = "\
Examples:
  mark=$(chappe term send py --enter 'print(6 * 7)')
  chappe term wait py --after \"$mark\" 42
  chappe term send py --key C-d
  chappe term send edit --paste < notes
  date | chappe term send py --enter -

Keys:
  Enter Tab Escape Space Backspace Up Down Left Right Home End PageUp
  PageDown Insert Delete F1 to F12, any character; before them C-, M- and
  S- for Ctrl, Alt and Shift";

const WAIT_SHORT: &str = "\
Examples:
  chappe term wait build 'error|warning' --timeout 5m
  chappe term wait --exit build

Exit status: 0 the text came; 124 not in time; 1 the command ended without it";

const WAIT_END: &str = "\
Examples:
  chappe term wait build 'error|warning' --timeout 5m
  mark=$(chappe term send sh --enter 'make; echo done')
  chappe term wait sh --after \"$mark\" '^done$'
  chappe term wait --exit build

Exit status:
  0 a line has the text; 124 none has in time; 1 the command has ended, and
  none has; 2 the expression is wrong. With --exit: the command's status,
  128 + N if signal N ended it, 125 if that is not known";
