//! The end of a lane: its ring's bytes go behind the kernel's, and all calls are the kernel's from then on. The protocol is told at the
//! head of the crate.

use super::ends::End;
use super::words::{FULL, INSIDE, Lane, OFF, OPEN, PLAIN, PUSHING, Pipe, REAL, position};
use chappe_plat::Life;
use chappe_plat::atomic::{Ordering, low_half};
use chappe_plat::futex::{self, Scope};
use chappe_plat::life::{Claim, PassOn};
use chappe_plat::thread::undisturbed;

/// How much is pushed at once.
const PIECE: usize = 4096;

impl<P: Pipe> Lane<'_, P> {
    /// Makes the pipe the kernel's for good, with nothing lost, doubled or out of order. The calling thread owns no end: an owner calls
    /// [`Reader::demote`](super::Reader::demote). Any number of threads may call it, and be killed in it. No signal handler runs in the
    /// calling thread meanwhile. Blocks as the crate's head says under "progress".
    pub fn demote(self) {
        self.demote_as(None);
    }

    /// `own`: the end that the calling thread owns. It is not waited for: it is here.
    pub(super) fn demote_as(self, own: Option<End>) {
        undisturbed(|| self.demote_in_quiet(own));
    }

    /// A handler that came to this pipe would wait for its own thread.
    fn demote_in_quiet(self, own: Option<End>) {
        if self.guard() {
            self.close();
            // Acquire: a dead demoter's.
            if self.words.stage.load(Ordering::Acquire) == OPEN && self.comes_to_rest(own) {
                let held = self.pipe.held();
                self.words.stage.store(PUSHING | held << 2, Ordering::Release); // Release: before the first push.
            }
            self.push();
            self.words.stage.store(PLAIN, Ordering::Release); // Release: E3.
            self.wake_all();
            self.words.guard.release();
        }
    }

    /// The threads that wait for the demoter.
    fn wake_all(self) {
        futex::wake(low_half(&self.words.stage), u32::MAX, Scope::Shared);
    }

    /// Becomes the demoter. False: all is done.
    fn guard(self) -> bool {
        let words = self.words;
        let pass_on = PassOn::of_this_thread();
        let mut has_slept = false;
        loop {
            let stage = words.stage.load(Ordering::Acquire); // Acquire: E3.
            if stage == PLAIN {
                if has_slept {
                    // The demoter may have died before it woke all, and the kernel has woken this thread alone.
                    self.wake_all();
                    pass_on.to_nobody();
                }
                return false;
            }
            if words.guard.try_claim() != Claim::Busy {
                // Acquire: E3. The last one may have ended between the two.
                if words.stage.load(Ordering::Acquire) != PLAIN {
                    return true;
                }
                self.wake_all();
                words.guard.release();
                return false;
            }
            pass_on.to(&words.baton);
            has_slept = true;
            if let Some(alive) = words.guard.watch() {
                let sleep = [(low_half(&words.stage), stage as u32), (words.guard.word(), alive), (&words.baton, 0)];
                futex::wait_any(&sleep, None, Scope::Shared);
            }
        }
    }

    /// No byte goes into the ring from here on, nor out of it.
    fn close(self) {
        let word = &self.words.head.0;
        self.words.tail.fetch_or(OFF, Ordering::AcqRel); // AcqRel: E4.
        let head = word.fetch_or(OFF, Ordering::AcqRel); // AcqRel: E4.
        if head & FULL != 0 {
            futex::wake(low_half(word), u32::MAX, Scope::Shared);
        }
    }

    /// The positions of R.
    fn rest(self) -> (u64, u64) {
        // Acquire: E1, I5, E4.
        let tail = self.words.tail.load(Ordering::Acquire);
        let kernel_end = self.words.kernel_end.load(Ordering::Acquire); // Acquire: as above.
        let start = position(self.words.head.0.load(Ordering::Acquire)).max(kernel_end); // Acquire: as above.
        // I6.
        if tail & REAL != 0 { (start, start) } else { (start, position(tail).max(start)) }
    }

    /// Waits until the reader is out of its read(2), if R has bytes to be pushed. Whether it has.
    fn comes_to_rest(self, own: Option<End>) -> bool {
        let words = self.words;
        loop {
            let head = words.head.0.load(Ordering::Acquire); // Acquire: E4.
            let (start, end) = self.rest();
            if start == end || head & INSIDE == 0 || own == Some(End::Reader) {
                return start < end;
            }
            match words.reader.watch() {
                Some(alive) => {
                    let sleep = [(low_half(&words.head.0), head as u32), (words.reader.word(), alive)];
                    futex::wait_any(&sleep, None, Scope::Shared);
                }
                // Acquire: what the dead one has done. It may have come out, and another one be in.
                None if !matches!(words.reader.probe(), Life::Alive(_)) => return true,
                None => {}
            }
        }
    }

    /// What is not yet behind the kernel's bytes: I8.
    fn push(self) {
        let stage = self.words.stage.load(Ordering::Acquire); // Acquire: a dead demoter's.
        if stage & PUSHING == 0 {
            return;
        }
        let (start, end) = self.rest();
        let mut at = start + self.pipe.held().saturating_sub(stage >> 2);
        let mut piece = [0; PIECE];
        while at < end {
            let count = piece.len().min((end - at) as usize);
            self.pipe.get(at, &mut piece[..count]);
            match self.pipe.push(&piece[..count]) {
                0 => return,
                pushed => at += pushed as u64,
            }
        }
    }
}
