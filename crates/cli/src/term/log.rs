//! `chappe term log`: a recording of a terminal, as asciinema plays it (asciicast, version 2).
//!
//! It is a viewer like others: it looks when something has changed, at most 60 times a second, and writes what brings a player's screen from
//! the last picture to this one. So a recording of a flood has two screens for each picture at most, a killed or stopped recorder changes
//! nothing, and what is overwritten between two pictures is not in it. What is typed is not recorded, only what the program shows of it.
//!
//! A line is written whole or not at all: where there is no room for it, the file is cut behind the one before, and the recording goes on with a
//! whole picture when there is.

use super::attach::{BACK, PICTURE};
use super::found::{find, wrong};
use crate::said::{Failure, failed, tell, unwritten};
use anyhow::{Result, anyhow};
use chappe::term::paint::Picture;
use chappe::term::place::Place;
use chappe::term::screen::Screen;
use chappe::term::view::Watch;
use serde_json::json;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// `chappe term log`: writes to stdout until the terminal is over.
///
/// # Errors
/// There is no such terminal; there is no room.
pub fn log(name: &str, limit: u64) -> Result<u8, Failure> {
    let place = find(name, false).map_err(failed)?;
    let mut watch = Watch::begin(&place).map_err(wrong)?;
    let _recorded = place.record().map_err(wrong)?;
    let mut out = Out::begin(limit).map_err(|e| unwritten(&e))?;
    let (mut cast, mut is_told) = (None, false);
    loop {
        watch.look();
        let began = Instant::now();
        let is_over = place.ended().map_err(wrong)?.is_some() && place.is_complete().map_err(wrong)?;
        let mut has_room = true;
        if let Some(now) = place.snapshot() {
            let cast = cast.get_or_insert_with(|| Cast::begin(&place, &now.screen));
            for line in cast.lines(&now.screen, is_over) {
                match out.line(&line) {
                    Ok(true) => cast.is_begun = true,
                    Ok(false) => {
                        return Err(failed(anyhow!(
                            "the recording of terminal `{name}` ends here: it has --limit bytes"
                        )));
                    }
                    // Its reader has seen enough.
                    Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
                    Err(e) if !is_over && matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) => {
                        if !std::mem::replace(&mut is_told, true) {
                            tell(format_args!(
                                "chappe: {e}: the recording of terminal `{name}` goes on when there is room"
                            ));
                        }
                        cast.again();
                        has_room = false;
                        break;
                    }
                    Err(e) => return Err(unwritten(&e)),
                }
            }
        }
        if is_over {
            return Ok(0);
        }
        if !has_room {
            watch.sleep_for(Some(AGAIN));
            std::thread::sleep(AGAIN);
            continue;
        }
        watch.sleep(None);
        std::thread::sleep(PICTURE.saturating_sub(began.elapsed()));
    }
}

/// Makes a file for a recording; one that is there is not written over.
///
/// # Errors
/// The system's.
pub fn create(path: &Path) -> io::Result<File> {
    File::create_new(path)
}

/// How long a recorder may take to begin, and to write the last picture.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a recorder waits for room.
const AGAIN: Duration = Duration::from_millis(500);

/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(1);

/// Waits until no process records a terminal that is over: what is recorded is whole then.
pub fn await_end(place: &Place) {
    let until = Instant::now() + PATIENCE;
    while place.is_recorded().unwrap_or(false) && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
}

/// Begins a process that records a terminal into a file, to its end, and waits until it does.
///
/// # Errors
/// The system's.
pub fn begin(name: &str, to: File) -> Result<()> {
    let place = find(name, false)?;
    // The shell's pipes and locks are not to live as long as the recorder.
    let open =
        std::fs::read_dir("/proc/self/fd")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    // SAFETY: a plain call; of what is not open any more it fails.
    open.filter(|fd| *fd > 2).for_each(|fd| _ = unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) });
    let mut command = Command::new("/proc/self/exe");
    command.arg0("chappe").args(["term", "log", name]).stdin(Stdio::null()).stdout(to).stderr(Stdio::null());
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(|| {
            // The shell's hang-up does not reach a session of its own.
            libc::setsid();
            Ok(())
        });
    }
    let (mut recorder, until) = (command.spawn()?, Instant::now() + PATIENCE);
    while !place.is_recorded()? && recorder.try_wait()?.is_none() && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// A recording.
struct Cast {
    began: Instant,
    head: String,
    /// The head is written.
    is_begun: bool,
    picture: Picture,
    size: (usize, usize),
}

impl Cast {
    fn begin(place: &Place, screen: &Screen) -> Cast {
        let size = (screen.columns(), screen.rows());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let head = json!({
            "version": 2, "width": size.0, "height": size.1, "timestamp": now, "command": place.command(),
            "title": place.name(), "env": { "TERM": "xterm-256color" },
        });
        let picture = Picture::new(size.0, size.1);
        Cast { began: Instant::now(), head: head.to_string(), is_begun: false, picture, size }
    }

    /// A line was not written: the next ones say the size, and draw the picture from nothing.
    fn again(&mut self) {
        self.size = (0, 0);
    }

    /// What is to be written for a screen; for the last one something in any case, as players end there.
    fn lines(&mut self, screen: &Screen, is_last: bool) -> Vec<String> {
        let mut lines: Vec<String> = (!self.is_begun).then(|| self.head.clone()).into_iter().collect();
        let at = self.began.elapsed().as_micros() as f64 / 1e6;
        let size = (screen.columns(), screen.rows());
        if size != self.size {
            self.size = size;
            lines.push(json!([at, "r", format!("{}x{}", size.0, size.1)]).to_string());
            // Lines that turned modes off may be those that were not written.
            let mut all = BACK.to_vec();
            all.extend(b"\x1b[2J");
            lines.push(json!([at, "o", String::from_utf8_lossy(&all)]).to_string());
            self.picture = Picture::new(size.0, size.1);
        }
        let picture = self.picture.paint(screen);
        if !picture.is_empty() || is_last {
            lines.push(json!([at, "o", String::from_utf8_lossy(&picture)]).to_string());
        }
        lines
    }
}

/// Where lines go, as many as fit.
struct Out {
    to: File,
    left: u64,
    /// It is a file, and lines go to its end.
    is_last: bool,
}

impl Out {
    fn begin(limit: u64) -> io::Result<Out> {
        let mut to = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let facts = to.metadata()?;
        // SAFETY: a plain call on an open descriptor.
        let appends = unsafe { libc::fcntl(to.as_raw_fd(), libc::F_GETFL) } & libc::O_APPEND != 0;
        // Where something lies behind, nothing is cut off.
        let is_last = facts.is_file() && (appends || to.stream_position()? == facts.len());
        Ok(Out { left: limit, is_last, to })
    }

    /// Writes a line; false: no more than the limit is written, and this line is not.
    fn line(&mut self, line: &str) -> io::Result<bool> {
        let line = format!("{line}\n");
        let Some(left) = self.left.checked_sub(line.len() as u64) else { return Ok(false) };
        // Another process may have written since the last line.
        let len = if self.is_last { self.to.metadata()?.len() } else { 0 };
        let done = self.to.write_all(line.as_bytes());
        if done.is_ok() {
            self.left = left;
        } else if self.is_last && self.to.metadata().is_ok_and(|now| now.len() < len + line.len() as u64) {
            // A half line is none. Where it cannot be cut off, it stays. What another process appends in this moment goes with it.
            drop(self.to.set_len(len).and_then(|()| self.to.seek(SeekFrom::Start(len))));
        }
        done.map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe::term::feed::Emulator;

    #[test]
    fn a_recording_plays_to_the_same_screen() {
        let (mut it, mut shown) = (Emulator::new(20, 5), Emulator::new(20, 5));
        let size = (20, 5);
        let picture = Picture::new(20, 5);
        let mut cast = Cast { began: Instant::now(), head: String::new(), is_begun: true, picture, size };
        for stream in ["one\r\n\x1b[31mtwo \u{e4}\"\\", "\x1b[?1049hx", "\x1b[?1049l\u{4e2d}"] {
            it.feed(stream.as_bytes());
            for line in cast.lines(it.screen(), false) {
                let event: serde_json::Value = serde_json::from_str(&line).unwrap();
                shown.feed(event[2].as_str().unwrap().as_bytes());
            }
            for row in 0..5 {
                assert_eq!(shown.screen().encoded(row), it.screen().encoded(row), "{stream:?}");
            }
        }
        assert!(cast.lines(it.screen(), false).is_empty());
        it.screen_mut().resize(30, 4);
        let lines = cast.lines(it.screen(), false);
        assert!(lines[0].ends_with(r#""r","30x4"]"#), "{lines:?}");
    }
}
