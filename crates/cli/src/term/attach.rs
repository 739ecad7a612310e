//! `chappe term attach`: a terminal on this one.
//!
//! One thread draws, at most 60 times a second, what has changed; the other types what comes from the keyboard. Neither is ever waited for by the
//! terminal: its holder writes its states whether they are looked at or not.

use super::cut;
use super::found::{find, status_of, unknown, wrong};
use super::keyboard::Keyboard;
use crate::ended::FAILED;
use crate::said::{Failure, failed, tell};
use crate::signals::{self, Set, heeded};
use crate::{terminal, within};
use anyhow::{Result, anyhow, bail};
use chappe::term::modes;
use chappe::term::paint::Picture;
use chappe::term::place::{Place, Role};
use chappe::term::typed::TypeError;
use chappe::term::view::{Ended, Watch};
use std::io::{self, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a picture stands at least.
pub const PICTURE: Duration = Duration::from_micros(16_600);

/// The size of a terminal that does not know its own.
const USUAL: (u16, u16) = (80, 24);

/// How many bytes of the keyboard are kept that the terminal has no room for.
const MOST_IN_HAND: usize = 1 << 16;

/// How long the rest of a mark of what is pasted may take, in milliseconds.
const REST: i32 = 50;

/// How long the program may leave what is typed unread.
const PATIENCE: Duration = Duration::from_millis(200);

/// What ends it, other than the key: then this terminal is put back first.
const ENDS: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// What puts a terminal back, whatever modes the other one had: mice, focus, paste, keys, the cursor, styles; the main screen.
pub const BACK: &[u8] =
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[0 q\
    \x1b[0m\x1b[?7h\x1b[?25h\x1b[?2026l\x1b[?1049l";

/// How it ended.
enum How {
    /// By the key, or the end of what is typed.
    Left,
    /// The terminal is over.
    Over,
    /// By a signal.
    Signal(i32),
}

/// What both threads know: the size of this terminal; None when nothing is to be drawn any more.
type Size = Arc<Mutex<Option<(u16, u16)>>>;

/// Attaches until the key comes, or the terminal is over.
///
/// # Errors
/// This is no terminal, or the other is not this user's.
pub fn attach(name: &str) -> Result<u8, Failure> {
    let place = find(name, true).map_err(failed)?;
    // SAFETY: a plain call.
    let session = unsafe { libc::getsid(0) };
    if place.process(Role::Program).is_some_and(|program| i32::try_from(program) == Ok(session)) {
        return Err(failed(anyhow!("this is terminal `{name}` itself")));
    }
    // Before the terminal is another: a signal in between would leave it so. One that is ignored stays so.
    let resized = Set::of(&[&[libc::SIGWINCH][..], &heeded(&ENDS)].concat());
    resized.block();
    let before = RawMode::begin().map_err(failed)?;
    let done = both(name, &place, &resized);
    drop(before);
    let how = done.map_err(failed)?;
    if let How::Signal(signal) = how {
        signals::die_by(signal);
    }
    if let How::Left = how {
        tell(format_args!("chappe: left terminal `{name}`; `chappe term attach {name}` comes back"));
        return Ok(0);
    }
    match place.ended().map_err(wrong)? {
        Some((Ended::Unknown, _)) | None => Err(Failure { status: FAILED, why: unknown(&place) }),
        Some((how, _)) => {
            let how_it_ended = match how {
                Ended::Killed(signal) => format!("by signal {signal}"),
                how => format!("with {}", status_of(how)),
            };
            tell(format_args!(
                "chappe: the command of terminal `{name}` has ended {how_it_ended}; `chappe term show {name}` has its screen"
            ));
            Ok(status_of(how))
        }
    }
}

/// This terminal without its line editing, on its alternate screen; put back on drop.
struct RawMode {
    before: libc::termios,
}

impl RawMode {
    fn begin() -> Result<RawMode> {
        // SAFETY: plain calls.
        if unsafe { libc::isatty(0) == 0 || libc::isatty(1) == 0 } {
            bail!("this is no terminal to attach to: `chappe term show`, `send` and `wait` need none");
        }
        // SAFETY: an all-zero termios is a valid value, and a valid place for the call to fill in.
        let before = unsafe {
            let mut now: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(0, &mut now) != 0 {
                bail!("cannot read the settings of this terminal: {}", io::Error::last_os_error());
            }
            let mut raw = now;
            libc::cfmakeraw(&mut raw);
            libc::tcsetattr(0, libc::TCSADRAIN, &raw);
            now
        };
        cut::first_give_back(before, BACK);
        show(b"\x1b[?1049h\x1b[?2004h\x1b[2J");
        Ok(RawMode { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        show(BACK);
        // SAFETY: the settings that were read at the beginning.
        unsafe { libc::tcsetattr(0, libc::TCSADRAIN, &self.before) };
    }
}

fn show(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    // A terminal that is gone: the keyboard's thread sees that.
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Draws and types.
fn both(name: &str, place: &Place, resized: &Set) -> Result<How> {
    let resized = resized.descriptor()?;
    let size: Size = Arc::new(Mutex::new(Some(terminal::size(0).unwrap_or(USUAL))));
    let (over, tells) = io::pipe()?;
    let looker = find(name, false)?;
    let shared = Arc::clone(&size);
    let drawing = within::thread("chappe-draw", move || draw(&looker, &shared, tells))?;
    let mut watch = Watch::begin(place)?;
    let before = cells(place);
    let mut own = fit(place, &size, &mut watch);
    // What is typed, and the terminal has not taken yet.
    let (mut keys, mut hand) = (Keyboard::default(), Vec::new());
    let how = loop {
        let of = |fd: i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // With more in hand the keyboard waits, as it does for any terminal whose program does not read.
        let keyboard = if hand.len() < MOST_IN_HAND { 0 } else { -1 };
        let mut fds = [of(keyboard), of(resized.as_raw_fd()), of(over.as_raw_fd())];
        let patience = if keys.is_waiting() { REST } else { -1 };
        // SAFETY: the descriptors are valid for the call.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), 3, if hand.is_empty() { patience } else { 0 }) };
        if ready == 0 && hand.is_empty() {
            keys.give_up(&mut hand);
        }
        if fds[1].revents != 0 {
            let mut info = [0u8; 128];
            // SAFETY: the buffer is this long.
            unsafe { libc::read(resized.as_raw_fd(), info.as_mut_ptr().cast(), info.len()) };
            // Its first word is the signal's number.
            let signal = i32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
            if ENDS.contains(&signal) {
                break How::Signal(signal);
            }
            own = fit(place, &size, &mut watch);
        }
        if fds[2].revents != 0 {
            break How::Over;
        }
        if fds[0].revents != 0 {
            let mut typed = [0u8; 4096];
            // SAFETY: the buffer is this long.
            let got = unsafe { libc::read(0, typed.as_mut_ptr().cast(), typed.len()) };
            let Some(typed) = usize::try_from(got).ok().filter(|got| *got > 0).map(|got| &typed[..got]) else {
                break How::Left;
            };
            let is_marked = place.snapshot().is_some_and(|now| now.screen.modes().has(modes::PASTE));
            if !keys.take(typed, is_marked, &mut hand) {
                // What it does not take now is not typed.
                let _ = type_some(place, &mut hand, &mut watch);
                break How::Left;
            }
        }
        if !hand.is_empty() && !type_some(place, &mut hand, &mut watch)? {
            break How::Over;
        }
    };
    // From here on it draws nothing.
    *size.lock().unwrap_or_else(PoisonError::into_inner) = None;
    match how {
        // It has drawn the last picture.
        How::Over => _ = drawing.join(),
        // The size that it had, unless another has changed it since.
        How::Left | How::Signal(_) => {
            if let Some((columns, rows)) = before.filter(|_| own.is_some() && cells(place) == own) {
                give(place, columns, rows, &mut watch);
            }
        }
    }
    Ok(how)
}

/// Types what is in hand, as far as the terminal takes it by now; false: it is over.
fn type_some(place: &Place, hand: &mut Vec<u8>, watch: &mut Watch<'_>) -> Result<bool> {
    let done = place.writer(PATIENCE).and_then(|writer| writer.type_bytes(hand, Some(PATIENCE), watch));
    let rest = match done {
        Ok(_) => 0,
        // What it keeps is typed when the program reads.
        Err(TypeError::Unread { left, kept, .. }) => (left - kept) as usize,
        Err(TypeError::Busy) => hand.len(),
        Err(TypeError::Doubt) => {
            // The user sees what has come of it.
            show(b"\x07");
            0
        }
        Err(TypeError::Over) => return Ok(false),
        Err(e) => return Err(anyhow!(e)),
    };
    hand.drain(..hand.len() - rest);
    Ok(true)
}

/// The terminal's size.
fn cells(place: &Place) -> Option<(u16, u16)> {
    place.snapshot().map(|now| (now.screen.columns() as u16, now.screen.rows() as u16))
}

/// Gives the terminal this one's size; what it has then.
fn fit(place: &Place, size: &Size, watch: &mut Watch<'_>) -> Option<(u16, u16)> {
    let (columns, rows) = terminal::size(0)?;
    *size.lock().unwrap_or_else(PoisonError::into_inner) = Some((columns, rows));
    give(place, columns, rows, watch);
    cells(place)
}

fn give(place: &Place, columns: u16, rows: u16, watch: &mut Watch<'_>) {
    if let Ok(writer) = place.writer(PATIENCE) {
        // Where it cannot have it, a part of it is shown.
        let _ = writer.resize(columns, rows, Some(PATIENCE), watch);
    }
}

/// Draws until the terminal is over.
fn draw(place: &Place, size: &Size, tells: PipeWriter) -> Result<()> {
    let mut watch = Watch::begin(place)?;
    let mut known = None;
    let mut picture = Picture::new(0, 0);
    loop {
        watch.look();
        let began = Instant::now();
        let is_over = place.ended()?.is_some() && place.is_complete()?;
        if let Some(now) = place.snapshot() {
            let size = size.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((columns, rows)) = *size else { return Ok(()) };
            if known.replace((columns, rows)) != Some((columns, rows)) {
                show(&picture.leave());
                show(b"\x1b[2J");
                picture = Picture::new(columns.into(), rows.into());
            }
            show(&picture.paint(&now.screen));
        }
        if is_over {
            show(&picture.leave());
            drop(tells);
            return Ok(());
        }
        watch.sleep(None);
        std::thread::sleep(PICTURE.saturating_sub(began.elapsed()));
    }
}
