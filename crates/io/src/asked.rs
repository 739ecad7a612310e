//! What `chappe run` says of the run, in one variable of the environment: `SINCE:PROCESSES:TIMES:FOLDER`, the facts of
//! [`Run`](chappe_pipes::Run) and the folder where lanes begin. Copied when the library is loaded: the program may change its environment.

use chappe_pipes::{Meeting, Run};
use libc::c_char;
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

const VARIABLE: &[u8] = b"CHAPPE_RUN_IO=";

struct Asked(UnsafeCell<(Run, [u8; 256])>);

// SAFETY: written once, before the program runs.
unsafe impl Sync for Asked {}

static ASKED: Asked = Asked(UnsafeCell::new((Run { since: 0, processes: 0, times: 0 }, [0; 256])));
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

fn parse(said: &[u8]) -> Option<(Run, [u8; 256])> {
    let mut parts = std::str::from_utf8(said).ok()?.splitn(4, ':');
    let mut number = || parts.next()?.parse().ok();
    let run = Run { since: number()?, processes: number()?, times: number()? };
    let folder = parts.next()?.as_bytes();
    let mut room = [0; 256];
    // One byte is left for the end.
    room[..255].get_mut(..folder.len())?.copy_from_slice(folder);
    (!folder.is_empty()).then_some((run, room))
}

/// Whether the run is one with pipes through memory.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed) // Relaxed: stored before the program has begun.
}

fn asked() -> &'static (Run, [u8; 256]) {
    // SAFETY: as the type has it.
    unsafe { &*ASKED.0.get() }
}

/// The run.
pub fn run() -> Run {
    asked().0
}

/// Where lanes begin.
pub fn meeting() -> Meeting<'static> {
    Meeting(CStr::from_bytes_until_nul(&asked().1).unwrap_or_default())
}
