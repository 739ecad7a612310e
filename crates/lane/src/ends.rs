//! The two ends of a lane: what takes the place of write(2) and read(2). The protocol is told at the head of the crate.

use super::words::{ASLEEP, FLAGS, FULL, INSIDE, Lane, OFF, Pipe, REAL, RING, SHIFT, position};
use chappe_plat::Life;
use chappe_plat::atomic::{Ordering, low_half};
use chappe_plat::futex::{self, Scope, Wait};
use chappe_plat::life::{Claim, LifeLock};
use chappe_plat::{clock, process, sections};
use std::cell::Cell;
use std::marker::PhantomData;

/// How long a writer waits for half of the ring, where less would do: one wake then brings many bytes.
const PATIENCE_NS: u64 = 1_000_000;

/// The writing end, owned by the calling thread.
pub struct Writer<'a, P> {
    lane: Lane<'a, P>,
    own: Own,
    /// The thread copies bytes into the ring: I10.
    is_putting: Cell<bool>,
}

/// The reading end, owned by the calling thread.
pub struct Reader<'a, P> {
    lane: Lane<'a, P>,
    own: Own,
}

/// Belongs to one thread, which has no copy in a forked child.
struct Own {
    process: u64,
    _thread: PhantomData<*const ()>,
}

impl Own {
    fn new() -> Own {
        Own { process: process::incarnation(), _thread: PhantomData }
    }

    /// False in a forked child: its parent owns the end.
    #[inline]
    fn is_here(&self) -> bool {
        self.process == process::incarnation()
    }
}

/// What one step of a write came to.
enum Step<E> {
    /// So many bytes are written.
    Moved(usize),
    /// Something has changed: look again.
    Again,
    /// This is the call's answer, but for what was written before.
    Last(Result<usize, E>),
}

impl<'a, P: Pipe> Lane<'a, P> {
    /// Owns the writing end, until the thread ends or [`Writer::release`]. None: the lane is demoted, and all calls are the kernel's.
    ///
    /// # Errors
    /// Those of [`Lane::demote`].
    pub fn writer(self) -> Result<Option<Writer<'a, P>>, P::Error> {
        if !self.own(&self.words.writer)? {
            return Ok(None);
        }
        // A writer that finds the ring full sleeps at two words.
        if !(futex::wait_any_supported() && self.pipe.is_stream()) {
            return self.decline(&self.words.writer);
        }
        Ok(Some(Writer { lane: self, own: Own::new(), is_putting: Cell::new(false) }))
    }

    /// Owns the reading end, until the thread ends or [`Reader::release`]. None: the lane is demoted, and all calls are the kernel's.
    ///
    /// # Errors
    /// Those of [`Lane::demote`].
    pub fn reader(self) -> Result<Option<Reader<'a, P>>, P::Error> {
        if !self.own(&self.words.reader)? {
            return Ok(None);
        }
        // Acquire: what an earlier reader has done.
        if self.words.tail.load(Ordering::Acquire) & RING == 0 {
            if !(futex::wait_any_supported() && self.pipe.widen()) {
                return self.decline(&self.words.reader);
            }
            self.words.tail.fetch_or(RING, Ordering::AcqRel); // AcqRel: the reader's word and the pipe's size come before.
        }
        Ok(Some(Reader { lane: self, own: Own::new() }))
    }

    /// The owner of this end can have no lane.
    fn decline<T>(self, lock: &LifeLock) -> Result<Option<T>, P::Error> {
        let demoted = self.demote();
        lock.release();
        demoted.map(|()| None)
    }

    /// Whether the end is the caller's, and the lane open.
    fn own(self, lock: &LifeLock) -> Result<bool, P::Error> {
        let claim = lock.try_claim();
        // Acquire: E4.
        let is_open = claim == Claim::Fresh && self.words.tail.load(Ordering::Acquire) & OFF == 0;
        if is_open {
            return Ok(true);
        }
        let demoted = self.demote();
        if claim != Claim::Busy {
            lock.release();
        }
        demoted.map(|()| false)
    }

    /// A demoter sleeps until the reader is out of its read(2): `was` is the head as the reader left it.
    pub(super) fn tell_demoter(self, was: u64) {
        if was & OFF != 0 {
            futex::wake(low_half(&self.words.head.0), u32::MAX, Scope::Shared);
        }
    }
}

impl<P: Pipe> Writer<'_, P> {
    /// As write(2): blocks while the ring is full, unless [`Pipe::refusal`] says otherwise. Answers how many bytes were written, fewer than
    /// there are where the rest failed.
    ///
    /// # Errors
    /// Those of the kernel's write(2), and of [`Lane::demote`], where nothing was written.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, P::Error> {
        if bytes.is_empty() {
            return self.lane.pipe.write(bytes);
        }
        if !self.own.is_here() {
            self.lane.demote()?;
            return self.lane.pipe.write(bytes);
        }
        let mut done = 0;
        loop {
            match self.step(&bytes[done..], bytes.len()) {
                Step::Moved(count) if done + count < bytes.len() => done += count,
                Step::Moved(count) => return Ok(done + count),
                Step::Again => {}
                Step::Last(Err(_)) if done > 0 => return Ok(done),
                Step::Last(last) => return last.map(|count| done + count),
            }
        }
    }

    /// `whole`: how many bytes the call has.
    fn step(&self, rest: &[u8], whole: usize) -> Step<P::Error> {
        let Lane { words, pipe } = self.lane;
        let seen = words.tail.load(Ordering::Acquire); // Acquire: E4, and RING behind what the reader has prepared.
        let is_ours = seen & (OFF | REAL) == 0;
        if is_ours && seen & RING == 0 {
            return self.real(seen, rest).map_or(Step::Again, Step::Last);
        }
        // REAL: this thread has jumped out of an earlier write(2), or is in it.
        if !is_ours || self.is_putting.get() || !matches!(words.reader.probe(), Life::Alive(_)) {
            return Step::Last(self.demote().and_then(|()| pipe.write(rest)));
        }
        if seen & ASLEEP != 0 {
            return match self.real(seen, &rest[..rest.len().min(pipe.atomic())]) {
                Some(Ok(count)) => Step::Moved(count),
                Some(error) => Step::Last(error),
                None => Step::Again,
            };
        }
        let head = words.head.0.load(Ordering::Acquire); // Acquire: E2, E4.
        let at = position(seen);
        let room = self.room(at, position(head));
        let least = if whole <= pipe.atomic() { rest.len() } else { 1 };
        if room < least as u64 {
            return self.wait(at, least as u64);
        }
        let count = rest.len().min(room as usize);
        self.is_putting.set(true);
        sections::light();
        // A handler that came before the mark has put its bytes where these would go (I10). Relaxed: this thread's own store is seen.
        if words.tail.load(Ordering::Relaxed) != seen {
            self.is_putting.set(false);
            return Step::Again;
        }
        pipe.put(at, &rest[..count]);
        sections::light();
        self.is_putting.set(false);
        // Release: E1; nobody but this writer moves it: I3. Relaxed where it fails: it is loaded again.
        let put =
            words.tail.compare_exchange(seen, seen + ((count as u64) << SHIFT), Ordering::Release, Ordering::Relaxed);
        if put.is_ok() { Step::Moved(count) } else { Step::Again }
    }

    /// How many bytes the ring takes at the position `at` while the reader is at `head`: I9.
    fn room(&self, at: u64, head: u64) -> u64 {
        let kernel_end = self.kernel_end();
        let (held, ring) = (kernel_end.saturating_sub(head), at.saturating_sub(head.max(kernel_end)));
        self.lane.pipe.size().saturating_sub(ring + 2 * held) // I7.
    }

    /// Where the reader is once there is so much room.
    fn head_with(&self, room: u64, at: u64) -> u64 {
        let kernel_end = self.kernel_end();
        let (most, ring) = (self.lane.pipe.size() - room, at.saturating_sub(kernel_end));
        if ring < most { kernel_end.saturating_sub((most - ring) / 2) } else { at.saturating_sub(most) }
    }

    fn kernel_end(&self) -> u64 {
        self.lane.words.kernel_end.load(Ordering::Relaxed) // Relaxed: writers alone write it, and hand it on with their lock.
    }

    /// A write(2), with its bytes counted. None: something has changed before it.
    fn real(&self, seen: u64, bytes: &[u8]) -> Option<Result<usize, P::Error>> {
        let Lane { words, pipe } = self.lane;
        // AcqRel: E1, and the sleeper is this writer's to wake: I2. Relaxed where it fails: it is loaded again.
        let claimed = (seen & !ASLEEP) | REAL;
        words.tail.compare_exchange(seen, claimed, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        let result = pipe.write(bytes);
        let count = *result.as_ref().unwrap_or(&0) as u64;
        let end = position(seen) + count;
        if count > 0 {
            words.kernel_end.store(end, Ordering::Release); // Release: I5, E1 behind it.
        }
        let unanswered = if count == 0 { seen & ASLEEP } else { 0 };
        let mut now = words.tail.load(Ordering::Relaxed); // Relaxed: the swap decides.
        loop {
            let next = end << SHIFT | (now & FLAGS & !REAL) | unanswered;
            // AcqRel: E1, E4. Relaxed where it fails: as above.
            match words.tail.compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(result),
                Err(other) => now = other,
            }
        }
    }

    /// There is no room for `least` bytes: sleeps until the reader has made some, or is dead. A reader that is slow, or that waits for what
    /// the writer does next, may never free half of the ring: so that is waited for only a while.
    fn wait(&self, at: u64, least: u64) -> Step<P::Error> {
        let pipe = self.lane.pipe;
        if let Some(refusal) = pipe.refusal() {
            return Step::Last(Err(refusal));
        }
        let mut end = self.sleep(self.head_with(pipe.size() / 2, at), Some(clock::now() + PATIENCE_NS));
        if end == Wait::TimedOut {
            end = self.sleep(self.head_with(least, at), None);
        }
        if end == Wait::Interrupted { Step::Last(Err(pipe.interrupted())) } else { Step::Again }
    }

    /// Until the reader is at `wake_at`.
    fn sleep(&self, wake_at: u64, deadline: Option<u64>) -> Wait {
        let words = self.lane.words;
        let head = words.head.0.load(Ordering::Acquire); // Acquire: E4.
        if head & OFF != 0 || position(head) >= wake_at {
            return Wait::Changed;
        }
        words.wake_at.store(wake_at, Ordering::Relaxed); // Relaxed: E5.
        let full = head | FULL;
        // Release: E5, also where FULL stands already. Relaxed where it fails: the caller looks again.
        if words.head.0.compare_exchange(head, full, Ordering::Release, Ordering::Relaxed).is_err() {
            return Wait::Changed;
        }
        let Some(alive) = words.reader.watch() else { return Wait::Changed };
        let sleep = [(low_half(&words.head.0), full as u32), (words.reader.word(), alive)];
        futex::wait_any(&sleep, deadline, Scope::Shared)
    }

    /// As [`Lane::demote`].
    ///
    /// # Errors
    /// As there.
    pub fn demote(&self) -> Result<(), P::Error> {
        self.lane.demote()
    }

    /// Gives the end back, between two calls: the next owner goes on with the lane.
    pub fn release(self) {
        self.lane.words.writer.release();
    }
}

impl<P: Pipe> Reader<'_, P> {
    /// As read(2): sleeps there while there is nothing to read. 0: end of file.
    ///
    /// # Errors
    /// Those of the kernel's read(2), and of [`Lane::demote`].
    pub fn read(&self, into: &mut [u8]) -> Result<usize, P::Error> {
        let Lane { words, pipe } = self.lane;
        if into.is_empty() {
            return pipe.read(into);
        }
        if !self.own.is_here() {
            self.lane.demote()?;
            return pipe.read(into);
        }
        loop {
            let head = words.head.0.load(Ordering::Acquire); // Acquire: E4.
            let seen = words.tail.load(Ordering::Acquire); // Acquire: E1.
            let kernel_end = words.kernel_end.load(Ordering::Acquire); // Acquire: I5, behind `tail`.
            // INSIDE: this thread has jumped out of an earlier read(2).
            if head & (OFF | INSIDE) != 0 || seen & OFF != 0 {
                self.demote()?;
                return pipe.read(into);
            }
            let (at, end) = (position(head), position(seen));
            let answer = if at < kernel_end && seen & REAL == 0 {
                if self.is_sure(head, seen, kernel_end) { self.read_kernel(head, None, into) } else { None }
            } else if at < end && kernel_end <= at {
                self.take(head, end, into).map(Ok)
            } else {
                self.read_kernel(head, Some(seen), into)
            };
            if let Some(answer) = answer {
                return answer;
            }
        }
    }

    /// Out of the ring. None: something has changed before it.
    fn take(&self, head: u64, end: u64, into: &mut [u8]) -> Option<usize> {
        let at = position(head);
        let count = into.len().min((end - at) as usize);
        self.lane.pipe.get(at, &mut into[..count]);
        self.advance(head, head & FLAGS, at + count as u64).then_some(count)
    }

    /// Swaps `head`, and wakes the writer where it wants to be.
    fn advance(&self, head: u64, flags: u64, to: u64) -> bool {
        let words = self.lane.words;
        let word = &words.head.0;
        // AcqRel: E2, E4, E5. Relaxed where it fails: it is loaded again.
        if word.compare_exchange(head, to << SHIFT | flags, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        // Relaxed: E5.
        if head & FULL != 0 && to >= words.wake_at.load(Ordering::Relaxed) {
            word.fetch_and(!FULL, Ordering::AcqRel); // AcqRel: E4.
            futex::wake(low_half(word), u32::MAX, Scope::Shared);
        }
        true
    }

    /// By read(2). `nothing`: the tail with which there was nothing to read, and with which read(2) may sleep. None: something has changed
    /// before it.
    fn read_kernel(&self, head: u64, nothing: Option<u64>, into: &mut [u8]) -> Option<Result<usize, P::Error>> {
        let Lane { words, pipe } = self.lane;
        // AcqRel: E4. Relaxed where it fails: it is loaded again.
        words.head.0.compare_exchange(head, head | INSIDE, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // AcqRel: E1, I2. Relaxed where it fails: as above.
        let is_asleep =
            |seen| words.tail.compare_exchange(seen, seen | ASLEEP, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let result = nothing.is_none_or(is_asleep).then(|| pipe.read(into));
        if nothing.is_some() && result.is_some() {
            words.tail.fetch_and(!ASLEEP, Ordering::AcqRel); // AcqRel: E1.
        }
        let count = result.as_ref().and_then(|r| r.as_ref().ok()).map_or(0, |count| *count as u64);
        loop {
            let now = words.head.0.load(Ordering::Relaxed); // Relaxed: the swap decides.
            if self.advance(now, now & FLAGS & !INSIDE, position(now) + count) {
                self.lane.tell_demoter(now);
                return result;
            }
        }
    }

    /// Whether the reader's position counts what was read. Others may have read, before this one or since: then the kernel knows how many
    /// bytes are left, and the position is mended.
    fn is_sure(&self, head: u64, seen: u64, kernel_end: u64) -> bool {
        let Lane { words, pipe } = self.lane;
        let start = kernel_end.saturating_sub(pipe.held());
        if start <= position(head) {
            return true;
        }
        // Acquire: no write(2) has begun meanwhile.
        if words.tail.load(Ordering::Acquire) == seen {
            self.advance(head, head & FLAGS, start);
        }
        false
    }

    /// As [`Lane::demote`].
    ///
    /// # Errors
    /// As there.
    pub fn demote(&self) -> Result<(), P::Error> {
        self.lane.demote()
    }

    /// Gives the end back, between two calls: the next owner goes on with the lane. A writer that comes to it before demotes it.
    pub fn release(self) {
        self.lane.words.reader.release();
    }
}
