//! What looks at a terminal: snapshots of its screen, lines of its history, and waits for changes. It writes nothing, and holds nothing up.

use crate::feed::Emulator;
use crate::holder::{self, FRAME, WRAPS};
use crate::layout;
use crate::line;
use crate::place::Place;
use crate::screen::{Screen, fit};
use crate::store::{self, Beside};
use chappe_plat::atomic::{AtomicU32, Ordering, low_half};
use chappe_plat::futex::{self, Scope, Wait};
use chappe_plat::{clock, lease, process, thread};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// With this status.
    Exited(u8),
    /// By this signal.
    Killed(i32),
    /// Not known: the keeper was killed, or the holder with it, and the program got SIGHUP. One that ignores it runs on: [`Place::left`] has it.
    Unknown,
}

/// A screen as it was at one moment.
pub struct Snapshot {
    /// The screen.
    pub screen: Screen,
    /// Where its history lies, and when it was.
    pub beside: Beside,
    /// Its version: the higher, the later.
    pub version: u64,
    /// Lines between the history and the screen: of a terminal whose keeper and holder were killed, what they had not come to.
    pub unsaved: Vec<Line>,
}

/// A line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its number.
    pub number: u64,
    /// Its text, with the sequences of its styles.
    pub encoded: Vec<u8>,
    /// Whether it goes on in the next one.
    pub wraps: bool,
    /// How many bytes the program had written when one of them last changed it.
    pub changed: u64,
}

impl Line {
    /// Its text alone; without the spaces at its end, unless it goes on in the next one.
    pub fn text(&self) -> String {
        if self.wraps { line::written(&self.encoded) } else { line::plain(&self.encoded) }
    }
}

/// Some lines, the last ones those of the screen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lines {
    /// How many of those that were asked for are not in the history any more.
    pub lost: u64,
    /// The others, in order.
    pub lines: Vec<Line>,
}

impl Place {
    /// The screen now; None as long as no holder has begun.
    pub fn snapshot(&self) -> Option<Snapshot> {
        loop {
            let version = self.versions().last(); // E1.
            if version == 0 {
                return None;
            }
            let words = self.copy(version);
            if self.versions().stood(version) {
                let (mut emulator, beside) = store::load(&words)?;
                let unsaved = self.finish(&mut emulator, beside.parsed);
                return Some(Snapshot { screen: emulator.into_screen(), beside, version, unsaved });
            }
        }
    }

    /// What the dead had taken from the program and not come to: onto the screen. The lines that leave it.
    fn finish(&self, emulator: &mut Emulator, parsed: u64) -> Vec<Line> {
        // E5 acquire. Where it cannot be known, it lives.
        if self.word(layout::OVER).load(Ordering::Acquire) == 2 || self.is_alive().unwrap_or(true) {
            return Vec::new();
        }
        // Acquire: the last holder is dead.
        let counted = self.word(layout::TAKEN).load(Ordering::Acquire);
        let end = counted.saturating_add(holder::found(self, counted));
        let first = emulator.screen().base();
        if end.saturating_sub(parsed) > layout::TAKEN_BYTES as u64 {
            return Vec::new();
        }
        for at in parsed..end {
            let byte = self.bytes_at(layout::TAKEN_AT * 8 + (at % layout::TAKEN_BYTES as u64) as usize);
            // SAFETY: within the ring; no process writes there any more.
            emulator.feed(&[unsafe { *byte }]);
        }
        let scrolled = emulator.screen_mut().take_scrolled();
        let mut from = 0;
        let line = |((number, (end, wraps)), changed): ((u64, &(usize, bool)), &u64)| {
            let encoded = scrolled.text[std::mem::replace(&mut from, *end)..*end].to_vec();
            Line { number, encoded, wraps: *wraps, changed: *changed }
        };
        (first..).zip(&scrolled.ends).zip(&scrolled.changed).map(line).collect()
    }

    /// The words of a state, as far as they are in use; the others are 0.
    pub(crate) fn copy(&self, version: u64) -> Vec<u64> {
        let state = self.state(version);
        let load = |at: usize| state[at].load(Ordering::Relaxed); // Relaxed: E2.
        let size = load(0);
        let (columns, rows) = fit(size as u32 as usize, (size >> 32) as usize);
        let len = store::words_for(columns, rows).min(state.len());
        let mut words = vec![0; len];
        for part in store::parts(&|at| load(at)) {
            let part = part.start.min(len)..part.end.min(len);
            words[part.clone()].iter_mut().zip(part).for_each(|(word, at)| *word = load(at));
        }
        words
    }

    /// The lines from this number on: of the history, and of the screen that is shown.
    pub fn lines(&self, of: &Snapshot, from: u64) -> Lines {
        let mut lines = self.past_lines(of, from);
        // Between the one that was asked for and the first that is there.
        let behind = of.screen.base() - of.unsaved.len() as u64;
        let first = lines.last().map_or(behind, |line| line.number);
        let lost = first.saturating_sub(from).min(of.screen.base().saturating_sub(from));
        lines.reverse();
        lines.extend(of.unsaved.iter().filter(|line| line.number >= from).cloned());
        let shown = of.screen.shown();
        for row in 0..shown.rows() {
            let number = of.screen.base() + row as u64;
            if number >= from {
                let mut encoded = Vec::new();
                line::encode(shown.row(row), &of.screen.styles, &of.screen.clusters, &mut encoded);
                lines.push(Line { number, encoded, wraps: shown.wraps(row), changed: shown.changed(row) });
            }
        }
        Lines { lost, lines }
    }

    /// The lines of the history from this number on, the last one first.
    fn past_lines(&self, of: &Snapshot, from: u64) -> Vec<Line> {
        let (mut lines, mut at) = (Vec::new(), of.beside.end);
        let load = |at: u64| self.past(at).load(Ordering::Relaxed); // Relaxed: E3.
        // Whether what lies from here on was not overwritten before it was read.
        let is_there = |at: u64| self.floor().stood(at); // E3.
        while at > of.beside.first {
            let size = load(at - 1);
            let Some(start) = at
                .checked_sub(size)
                .filter(|start| (FRAME..=self.history() as u64).contains(&size) && *start >= of.beside.first)
            else {
                break;
            };
            let (head, number, changed) = (load(start), load(start + 1), load(start + 2));
            if !is_there(start) || number < from || number >= of.screen.base() {
                break;
            }
            let mut encoded: Vec<u8> = (start + FRAME - 1..at - 1).flat_map(|at| load(at).to_le_bytes()).collect();
            if !is_there(start) {
                break;
            }
            encoded.truncate((head & !WRAPS) as usize);
            lines.push(Line { number, encoded, wraps: head & WRAPS != 0, changed });
            at = start;
        }
        lines
    }

    /// How many bytes the history can have.
    pub fn history_bytes(&self) -> u64 {
        self.history() as u64 * 8
    }

    /// When the terminal was made, in nanoseconds since 1970.
    pub fn began(&self) -> u64 {
        self.word(layout::BEGAN).load(Ordering::Relaxed) // Relaxed: written before it had a name.
    }

    /// How many holders there have been.
    pub fn holders(&self) -> u64 {
        self.word(layout::HOLDERS).load(Ordering::Relaxed) // Relaxed: a count, to be shown.
    }

    /// How the program ended, and when, in nanoseconds since 1970 (0: not known); None: it runs.
    ///
    /// # Errors
    /// The system's: then it cannot be determined.
    pub fn ended(&self) -> io::Result<Option<(Ended, u64)>> {
        let Some((now, time)) = self.end().seen(|| self.is_alive())? else { return Ok(None) };
        Ok(Some(match now >> 32 {
            1 => (Ended::Exited(now as u8), time),
            2 => (Ended::Killed(now as i32), time),
            _ => (Ended::Unknown, 0),
        }))
    }

    /// Whether all that the program wrote until it ended is on the screen.
    ///
    /// # Errors
    /// The system's.
    pub fn is_complete(&self) -> io::Result<bool> {
        self.end().is_complete(|| self.is_alive())
    }
}

/// How long the keeper and the holder of a command that has ended are waited for.
const LAST_WORDS: u64 = 1_000_000_000;

impl Place {
    /// Waits for the keeper and the holder of a command that has ended: they end just behind it. Not for those of one that runs. Where they were killed,
    /// for what the hang-up ends. Blocks for a second at most.
    ///
    /// # Errors
    /// The system's.
    pub fn await_last_words(&self) -> io::Result<()> {
        let (mut watch, until) = (Watch::begin(self)?, clock::now() + LAST_WORDS);
        loop {
            watch.look();
            if watch.is_gone() {
                break;
            }
            if self.ended()?.is_none() || !watch.sleep(Some(until)) {
                return Ok(());
            }
        }
        for pid in self.session()? {
            let left = until.saturating_sub(clock::now()) / 1_000_000;
            if let Ok(its) = process::watch_exit(pid) {
                process::poll_readable(&[&its], left as i32);
            }
        }
        Ok(())
    }
}

/// Waits for changes of a terminal. One thread of the process sleeps until the terminal's keeper and holder have ended, however many watches there are.
pub struct Watch<'a> {
    place: &'a Place,
    gone: Arc<AtomicU32>,
    seen: u32,
    goes_on: Option<&'a dyn Fn() -> bool>,
}

/// How often what a watch was given by [`Watch::as_long_as`] is asked, in nanoseconds.
const ASKED: u64 = 50_000_000;

/// How long a wait is where the kernel cannot wait for two words at once: then it looks again.
const BACKSTOP: u64 = 1_000_000_000;

/// So many nanoseconds; of what is too long for that, all there are.
pub fn nanos(patience: Duration) -> u64 {
    u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX)
}

/// The process's incarnation, a terminal's file, and when it was made.
type Which = (u64, u64, u64);

/// The terminals that a thread of this process watches, and the word that the thread sets.
static WATCHED: Mutex<Vec<(Which, Arc<AtomicU32>)>> = Mutex::new(Vec::new());

/// How often, and how long each time, the lock of [`WATCHED`] is waited for: it is held for the start of a thread. In a forked child another thread of the
/// parent may have it for ever; then each watch has a thread of its own.
const LOCKED: (u32, Duration) = (200, Duration::from_millis(1));

/// The word that is set when a terminal's keeper and holder have ended.
fn watched(place: &Place) -> io::Result<Arc<AtomicU32>> {
    let own = (process::incarnation(), place.inode()?, place.began());
    let locked = || {
        let tried = WATCHED.try_lock().ok();
        tried.or_else(|| {
            std::thread::sleep(LOCKED.1);
            None
        })
    };
    let known = (0..LOCKED.0).find_map(|_| locked());
    if let Some(known) = &known
        && let Some((_, gone)) = known.iter().find(|(which, _)| *which == own)
    {
        return Ok(Arc::clone(gone));
    }
    let gone = Arc::new(AtomicU32::new(0));
    let (to, file, listed) = (Arc::clone(&gone), place.file().try_clone()?, known.is_some());
    thread::background("term-watch", move || {
        // Where it cannot be waited for, the terminal seems to live.
        if lease::wait_unlocked(&file, layout::ALIVE_BYTE, 1).is_ok() {
            to.store(1, Ordering::Release); // Release: the last words of the dead come before.
            futex::wake(&to, u32::MAX, Scope::Private);
        }
        // Before the file is closed: from then on its number can be another's. In a forked child the lock may be held for ever.
        if listed {
            WATCHED.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, gone)| !Arc::ptr_eq(gone, &to));
        }
        drop(file);
    })?;
    if let Some(mut known) = known {
        // Those of a parent, whose threads a forked child does not have.
        known.retain(|((of, ..), _)| *of == own.0);
        known.push((own, Arc::clone(&gone)));
    }
    Ok(gone)
}

impl<'a> Watch<'a> {
    /// Watches from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(place: &'a Place) -> io::Result<Watch<'a>> {
        Ok(Watch { place, gone: watched(place)?, seen: 0, goes_on: None })
    }

    /// Its sleeps end, as when the time is up, within 50 ms of the moment at which this says false.
    #[must_use]
    pub fn as_long_as(self, goes_on: &'a dyn Fn() -> bool) -> Watch<'a> {
        Watch { goes_on: Some(goes_on), ..self }
    }

    /// Whether keeper and holder have ended: nothing changes any more.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire) != 0 // Acquire: pairs with the thread's release.
    }

    /// Before a look: what changes from now on ends the next [`Watch::sleep`].
    pub fn look(&mut self) {
        self.seen = self.place.word(layout::EVENT).load(Ordering::Acquire) as u32; // E5 acquire.
    }

    /// As [`Watch::sleep`], at most for so long.
    pub fn sleep_for(&self, patience: Option<Duration>) -> bool {
        self.sleep(patience.map(|patience| clock::now().saturating_add(nanos(patience))))
    }

    /// Sleeps until something has changed since [`Watch::look`]; false: the deadline (monotonic, nanoseconds) has passed.
    pub fn sleep(&self, deadline: Option<u64>) -> bool {
        let Some(goes_on) = self.goes_on else { return self.sleep_unless(None, deadline) };
        while goes_on() {
            let (now, end) = (clock::now(), deadline.unwrap_or(u64::MAX));
            if self.sleep_unless(None, Some(end.min(now.saturating_add(ASKED)))) {
                return true;
            }
            if clock::now() >= end {
                break;
            }
        }
        false
    }

    /// As [`Watch::sleep`], and until a word of this process is not 0 any more.
    pub fn sleep_unless(&self, stop: Option<&AtomicU32>, deadline: Option<u64>) -> bool {
        let event = low_half(self.place.word(layout::EVENT));
        let words = [
            (event, self.seen, Scope::Shared),
            (&*self.gone, 0, Scope::Private),
            (stop.unwrap_or(&self.gone), 0, Scope::Private),
        ];
        let words = &words[..if stop.is_some() { 3 } else { 2 }];
        match futex::wait_any_of(words, deadline) {
            Wait::TimedOut => false,
            Wait::Unsupported => {
                let again = clock::now() + BACKSTOP;
                let until = deadline.map_or(again, |deadline| deadline.min(again));
                futex::wait(event, self.seen, Some(until), Scope::Shared);
                deadline.is_none_or(|deadline| clock::now() < deadline)
            }
            _ => true,
        }
    }
}
