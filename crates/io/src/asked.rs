//! What `chappe run` says of the run, in one variable of the environment: `SINCE:PROCESSES:TIMES:REPORT:FOLDER`, the facts of
//! [`Run`](chappe_pipes::Run), 1 if there is to be a report, and the folder where lanes begin. Copied when the library is loaded: the program may
//! change its environment.

use chappe_pipes::{EndRow, Meeting, Report, Run};
use libc::c_char;
use std::cell::{OnceCell, UnsafeCell};
use std::ffi::CStr;
use std::fmt::Arguments;
use std::sync::atomic::{AtomicBool, Ordering};

const VARIABLE: &[u8] = b"CHAPPE_RUN_IO=";

struct Of {
    run: Run,
    has_report: bool,
    folder: [u8; 256],
    report: OnceCell<Report>,
}

struct Asked(UnsafeCell<Of>);

// SAFETY: written once, before the program runs, but for the report, which its only thread opens then.
unsafe impl Sync for Asked {}

static ASKED: Asked = Asked(UnsafeCell::new(Of {
    run: Run { since: 0, processes: 0, times: 0 },
    has_report: false,
    folder: [0; 256],
    report: OnceCell::new(),
}));
/// The above is there.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// Whether the run is one with pipes through memory.
///
/// # Safety
/// An environment; the program has not begun.
pub unsafe fn look(environment: *const *const c_char) -> bool {
    let mut at = environment;
    // SAFETY: strings, behind the last of which is none.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            if let Some(said) = CStr::from_ptr(*at).to_bytes().strip_prefix(VARIABLE)
                && let Some(asked) = parse(said)
            {
                *ASKED.0.get() = asked;
                IS_ON.store(true, Ordering::Relaxed); // Relaxed: there is one thread.
                return true;
            }
            at = at.add(1);
        }
    }
    false
}

fn parse(said: &[u8]) -> Option<Of> {
    let mut parts = std::str::from_utf8(said).ok()?.splitn(5, ':');
    let mut number = || parts.next()?.parse().ok();
    let run = Run { since: number()?, processes: number()?, times: number()? };
    let has_report = number()? != 0;
    let folder = parts.next()?.as_bytes();
    let mut room = [0; 256];
    // One byte is left for the end.
    room[..255].get_mut(..folder.len())?.copy_from_slice(folder);
    (!folder.is_empty()).then_some(Of { run, has_report, folder: room, report: OnceCell::new() })
}

/// Whether the run is one with pipes through memory.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed) // Relaxed: stored before the program has begun.
}

fn asked() -> &'static Of {
    // SAFETY: as the type has it.
    unsafe { &*ASKED.0.get() }
}

/// The run.
pub fn run() -> Run {
    asked().run
}

/// Where lanes begin.
pub fn meeting() -> Meeting<'static> {
    Meeting(folder())
}

fn folder() -> &'static CStr {
    CStr::from_bytes_until_nul(&asked().folder).unwrap_or_default()
}

/// Where this process tells of its pipes, if anybody wants to know. It is opened by the first that has something to tell, with signals kept out.
fn report() -> Option<Report> {
    let asked = asked();
    if asked.has_report && asked.report.get().is_none() {
        // Another user's process may not: it is not in the report.
        let _ = asked.report.set(Report::open(folder()).ok()?);
    }
    asked.report.get().copied()
}

/// Where an end of a pipe is counted. None: nobody wants to know.
pub fn row(pipe: u64, writes: bool) -> Option<&'static EndRow> {
    report()?.end(pipe, writes, name())
}

/// Tells why the program is left as it is.
pub fn left_alone(why: Arguments) {
    if let Some(report) = report() {
        report.program(name(), why);
    }
}

/// The program's.
fn name() -> &'static CStr {
    // SAFETY: the C library's, set before any code of a library runs.
    unsafe extern "C" {
        static program_invocation_short_name: *const c_char;
    }
    // SAFETY: as above: a string, which is the program's own.
    unsafe { program_invocation_short_name.as_ref().map_or(c"", |name| CStr::from_ptr(name)) }
}
