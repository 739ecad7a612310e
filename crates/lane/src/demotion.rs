//! The end of a lane: its ring's bytes go behind the kernel's, and all calls are the kernel's from then on. The protocol is told at the
//! head of the crate.

use super::words::{FULL, INSIDE, Lane, OFF, OPEN, PLAIN, PUSHING, Pipe, REAL, position};
use chappe_plat::Life;
use chappe_plat::atomic::{AtomicU32, Ordering, low_half};
use chappe_plat::futex::{self, Scope, Wait};
use chappe_plat::life::{Claim, PassOn};
use chappe_plat::thread::undisturbed;
use chappe_plat::{clock, process};

/// How much is pushed at once.
const PIECE: usize = 4096;
/// How often a thread looks that no wake may reach: where it cannot sleep at several words, and where another may have had the only one.
const LOOK_NS: u64 = 1_000_000;

impl<P: Pipe> Lane<'_, P> {
    /// Makes the pipe the kernel's for good, with nothing lost, doubled or out of order. Any number of threads may call it, owners of ends as
    /// well, and be killed in it. No signal handler runs in the calling thread meanwhile. Blocks as the crate's head says under "progress".
    ///
    /// # Errors
    /// The ring has bytes that this caller may not push. They stay there, and the next caller tries again: until one has succeeded, nobody may
    /// use the pipe.
    pub fn demote(self) -> Result<(), P::Error> {
        undisturbed(|| self.demote_in_quiet())
    }

    /// A handler that came to this pipe would wait for its own thread.
    fn demote_in_quiet(self) -> Result<(), P::Error> {
        self.leave_read();
        if !self.guard() {
            return Ok(());
        }
        self.close();
        // Acquire: a dead demoter's, or one's to which a push was refused.
        if self.words.stage.load(Ordering::Acquire) == OPEN && self.comes_to_rest() {
            let held = self.pipe.held();
            self.words.stage.store(PUSHING | held << 2, Ordering::Release); // Release: before the first push.
        }
        let pushed = self.push();
        if pushed.is_ok() {
            self.words.stage.store(PLAIN, Ordering::Release); // Release: E3.
            self.wake_all();
        }
        self.words.guard.release();
        if pushed.is_err() {
            // Behind the release: each of them finds the guard free, or another one's. A release alone wakes one.
            self.wake_all();
        }
        pushed
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
                sleep(&[(low_half(&words.stage), stage as u32), (words.guard.word(), alive), (&words.baton, 0)], None);
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

    /// The thread that is here is not in its read(2), and nobody is to wait for it: I12. The mark may also be that of a dead owner before it.
    fn leave_read(self) {
        let head = &self.words.head.0;
        // Acquire: E4.
        if head.load(Ordering::Acquire) & INSIDE != 0 && self.words.reader.probe() == Life::Alive(process::tid()) {
            let was = head.fetch_and(!INSIDE, Ordering::AcqRel); // AcqRel: E4.
            self.tell_demoter(was);
        }
    }

    /// Waits until the reader is out of its read(2), if R has bytes to be pushed. Whether it has.
    fn comes_to_rest(self) -> bool {
        let words = self.words;
        loop {
            let head = words.head.0.load(Ordering::Acquire); // Acquire: E4.
            let (start, end) = self.rest();
            if start == end || head & INSIDE == 0 {
                return start < end;
            }
            match words.reader.watch() {
                Some(alive) => {
                    // The kernel wakes one sleeper at a death. That may be a writer that finds no room, which waits for this thread next.
                    let look = clock::now() + LOOK_NS;
                    sleep(&[(low_half(&words.head.0), head as u32), (words.reader.word(), alive)], Some(look));
                }
                // Acquire: what the dead one has done. It may have come out, and another one be in.
                None if !matches!(words.reader.probe(), Life::Alive(_)) => return true,
                None => {}
            }
        }
    }

    /// What is not yet behind the kernel's bytes: I8.
    fn push(self) -> Result<(), P::Error> {
        let stage = self.words.stage.load(Ordering::Acquire); // Acquire: as above.
        if stage & PUSHING == 0 {
            return Ok(());
        }
        let (start, end) = self.rest();
        let mut at = start + self.pipe.held().saturating_sub(stage >> 2);
        let mut piece = [0; PIECE];
        while at < end {
            let count = piece.len().min((end - at) as usize);
            self.pipe.get(at, &mut piece[..count]);
            match self.pipe.push(&piece[..count])? {
                0 => return Ok(()),
                pushed => at += pushed as u64,
            }
        }
        Ok(())
    }
}

/// Until one of the words changes, or then. Without futex_waitv at the first of them, for a while.
fn sleep(words: &[(&AtomicU32, u32)], until: Option<u64>) {
    if futex::wait_any(words, until, Scope::Shared) == Wait::Unsupported {
        futex::wait(words[0].0, words[0].1, Some(clock::now() + LOOK_NS), Scope::Shared);
    }
}
