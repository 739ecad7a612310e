//! What happens when an event is chosen: the model of the kernel.
//!
//! Death of a thread: it vanishes from every queue where it sleeps, so that a wake it was given is lost. Then, as events of their own that
//! may come at any later time, the kernel walks the robust words it held, the latest first: a word that still names the thread becomes
//! OWNER_DIED, keeping WATCHED, and if WATCHED was set one sleeper is woken. Last comes the pending entry, the word that the thread was
//! claiming or releasing: if the word has no owner, one sleeper is woken (Linux 6.2; before, only if the word is 0). When all threads of a
//! process are dead and all words are marked, the process goes: its directory locks are dropped, its pidfd becomes readable, it maps
//! nothing.
//!
//! SIGKILL of a process with several threads: one dies at once, each sibling by an event of its own, before which it may make further steps
//! (as a thread in a system call on another processor does).

use crate::coverage;
use crate::event::{Anchor, Event};
use crate::report::Fault;
use crate::state::{Block, Engine, Next, Sleeper, State, Woken};
use crate::trace::{CLOCK, PROCESS, QUEUE, Touch};
use crate::turn::progressed;

/// The part of a robust word that names its owner.
pub(crate) const TID_MASK: u32 = 0x3fff_ffff;
/// Set when the owner has died.
pub(crate) const OWNER_DIED: u32 = 0x4000_0000;
/// Set when a thread sleeps on the word.
pub(crate) const WATCHED: u32 = 0x8000_0000;

/// Reads a word as the kernel does.
fn peek(word: usize) -> u32 {
    // SAFETY: the address is that of a word which a thread of this world claimed or slept on; the memory of a world
    // lives until the schedule has ended, and nothing else runs at the same time.
    unsafe { (word as *const u32).read_volatile() }
}

fn poke(word: usize, value: u32) {
    // SAFETY: as in `peek`; the word is an atomic, so writing through a shared place is allowed.
    unsafe { (word as *mut u32).write_volatile(value) };
}

impl Engine {
    /// Makes an event happen.
    pub fn apply(&mut self, event: Event) -> Next {
        self.record.push(event);
        self.anchor.turn += 1;
        self.excused = None;
        if !matches!(event, Event::Run(_) | Event::Hold(_)) {
            self.calm();
        }
        if !matches!(event, Event::Flush(_) | Event::Hold(_)) {
            for p in &mut self.processes {
                p.dirty = false;
            }
        }
        match event {
            Event::Run(t) => return self.run(usize::from(t)),
            Event::Die(t) => return self.die(usize::from(t)),
            Event::Mark(t) => self.mark(usize::from(t)),
            Event::Gone(p) => self.go(usize::from(p)),
            Event::Fire(t) => self.fire(usize::from(t)),
            Event::Spurious(t) => {
                let t = usize::from(t);
                self.counts.spurious += 1;
                self.trace.befall(t, 3);
                self.rouse(t, Woken::ByChance);
                self.tell(|e| format!("{}'s sleep is interrupted", e.title(t)));
            }
            Event::Kill(p) => return self.kill(usize::from(p)),
            Event::Stop(p) => {
                let p = usize::from(p);
                self.counts.stops += 1;
                self.drain_process(p);
                self.processes[p].stopped = true;
                self.trace.befall(self.processes[p].threads[0], 4);
                self.tell(|e| format!("== {} is stopped", e.processes[p].name));
            }
            Event::Resume(p) => {
                let p = usize::from(p);
                self.processes[p].stopped = false;
                self.trace.befall(self.processes[p].threads[0], 5);
                self.tell(|e| format!("== {} goes on", e.processes[p].name));
            }
            Event::Start(t) => {
                self.threads[usize::from(t)].state = State::Ready;
                self.tell(|e| format!("== all others are done: {} begins", e.title(usize::from(t))));
            }
            Event::Flush(t) => self.flush(usize::from(t)),
            Event::Hold(t) => self.hold(usize::from(t)),
            Event::End => {
                self.ended = true;
                return Next::End;
            }
        }
        Next::Again
    }

    fn run(&mut self, t: usize) -> Next {
        self.steps += 1;
        if self.steps > self.limits.steps {
            let who: Vec<_> = (0..self.threads.len()).filter(|t| self.runnable(*t)).map(|t| self.title(t)).collect();
            let asleep: Vec<_> = self.sleepers().into_iter().map(|s| s.1).collect();
            let asleep = if asleep.is_empty() { "nobody sleeps".to_owned() } else { asleep.join("; ") };
            let text =
                format!("no progress after {} steps: {} still at it; {asleep}", self.limits.steps, who.join(", "));
            self.fail(Fault::NoProgress, text);
            return Next::End;
        }
        if progressed() {
            self.calm();
        }
        self.yielded = 0;
        if self.cur == t {
            self.run = self.run.saturating_add(1);
        } else {
            self.cur = t;
            self.run = 0;
        }
        let thread = &mut self.threads[t];
        thread.steps += 1;
        let p = &mut self.processes[thread.process];
        p.steps += 1;
        p.recovery += u32::from(thread.recovers > 0);
        p.dirty = true;
        self.anchor = Anchor { thread: t as u8, steps: thread.steps, turn: 0 };
        if let Some(cpu) = self.threads[t].cpu {
            self.preempt(cpu, t);
        }
        // A step that touches nothing is a step all the same: the state behind it is another.
        self.trace.befall(t, 17);
        Next::Run(t)
    }

    /// Something was changed: a spinning thread may find what it waits for.
    fn calm(&mut self) {
        self.spun = 0;
        self.tick = 0;
    }

    /// A thread gives way. If all runnable threads only do that, time passes, faster and faster.
    pub fn give_way(&mut self, t: usize) {
        self.yielded |= 1 << t;
        self.spun |= 1 << t;
        if (0..self.threads.len()).all(|t| self.spun & 1 << t != 0 || !self.runnable(t)) {
            self.spun = 0;
            self.tick = (self.tick * 2).clamp(1_000, 1_000_000_000);
            self.now += self.tick;
            self.trace.touch(t, CLOCK, 2, Touch::Write);
        }
    }

    fn fire(&mut self, t: usize) {
        let thread = &self.threads[t];
        let deadline = thread.deadline.expect("a wait with a deadline");
        let backstop = thread.backstop;
        if self.done() {
            self.idle_jumps += 1;
        }
        if deadline > self.now {
            self.now = deadline;
            self.trace.touch(t, CLOCK, 1, Touch::Write);
        }
        self.trace.befall(t, 6);
        self.rouse(t, Woken::ByTime);
        self.counts.timeouts += 1;
        self.tell(|e| {
            format!("-- the time of {}'s wait is up{}", e.title(t), if backstop { " (a backstop)" } else { "" })
        });
        if backstop {
            self.counts.backstops += 1;
            if self.counts.backstops > u64::from(self.limits.backstops) {
                let asleep: Vec<_> = self.sleepers().into_iter().map(|s| s.1).collect();
                let text = format!(
                    "only a backstop gets the world on: {} has slept for a second or more, and still {}",
                    self.title(t),
                    if asleep.is_empty() { "nobody else sleeps".to_owned() } else { asleep.join("; ") }
                );
                self.fail(Fault::Backstop, text);
            }
        }
    }

    /// Ends a thread's sleep; it stays in the queues until it runs, and goes on swallowing wakes there.
    fn rouse(&mut self, t: usize, by: Woken) {
        let thread = &mut self.threads[t];
        thread.state = State::Ready;
        thread.woken = by;
        self.processes[thread.process].dirty = true;
    }

    fn kill(&mut self, p: usize) -> Next {
        self.counts.kills += 1;
        self.counts.doubles += u64::from(self.recovers(p));
        for t in &self.processes[p].threads {
            if !self.threads[*t].over() {
                coverage::killed(*t, self.threads[*t].recovers > 0);
            }
        }
        self.processes[p].killed = true;
        self.processes[p].stopped = false;
        self.tell(|e| format!("== {} is killed", e.processes[p].name));
        let living: Vec<_> = self.processes[p].threads.iter().copied().filter(|t| !self.threads[*t].over()).collect();
        for t in &living {
            self.threads[*t].doomed = true;
        }
        let first = if living.contains(&self.cur) { Some(self.cur) } else { living.first().copied() };
        first.map_or(Next::Again, |t| self.die(t))
    }

    /// A thread ends where it stands.
    fn die(&mut self, t: usize) -> Next {
        if self.processes[self.threads[t].process].threads.len() > 1 {
            self.tell(|e| format!("== {} dies", e.title(t)));
        }
        self.queue.retain(|s| s.thread != t);
        self.threads[t].state = State::Dead;
        self.trace.befall(t, 7);
        self.end_thread(t);
        let killed = self.processes[self.threads[t].process].killed;
        let calls = std::mem::take(&mut self.threads[t].on_death);
        if killed && !calls.is_empty() { Next::Call(calls) } else { Next::Again }
    }

    /// A thread's body has returned.
    pub fn finish(&mut self, t: usize) {
        self.tell(|e| format!("{} ends", e.title(t)));
        self.threads[t].state = State::Finished;
        self.trace.befall(t, 8);
        self.end_thread(t);
    }

    fn end_thread(&mut self, t: usize) {
        let thread = &mut self.threads[t];
        thread.deadline = None;
        thread.doomed = false;
        thread.marks = thread.held.drain(..).rev().map(|w| (w, false)).collect();
        thread.marks.extend(thread.pending.take().map(|w| (w, true)));
        self.yielded &= !(1 << t);
        let p = thread.process;
        let threads = self.processes[p].threads.clone();
        if threads.iter().all(|t| self.threads[*t].over() || self.threads[*t].daemon) {
            // The last of its own threads has returned: exit takes the others with it.
            for t in &threads {
                if !self.threads[*t].over() {
                    self.threads[*t].doomed = true;
                }
            }
        }
        if threads.iter().all(|t| self.threads[*t].over()) {
            self.processes[p].ended = true;
        }
    }

    fn mark(&mut self, t: usize) {
        self.drain(t);
        let (word, only_wake) = self.threads[t].marks.remove(0);
        let tid = self.threads[t].tid;
        let old = peek(word);
        if old & TID_MASK == tid {
            let new = (old & WATCHED) | OWNER_DIED;
            poke(word, new);
            self.trace.touch(t, word, 9, Touch::Write);
            self.tell(|e| format!("-- the kernel marks {} of dead {}", e.names.of(word), e.title(t)));
            if old & WATCHED != 0 {
                self.wake(t, 0, word, 1);
            }
        } else {
            self.trace.touch(t, word, 10, Touch::Read);
            if only_wake && old & TID_MASK == 0 {
                self.tell(|e| {
                    format!("-- the kernel wakes one for {} in place of dead {}", e.names.of(word), e.title(t))
                });
                self.wake(t, 0, word, 1);
            }
        }
        // How far the kernel has come is part of the state.
        self.trace.befall(t, 11);
    }

    fn go(&mut self, p: usize) {
        self.drain_process(p);
        self.processes[p].gone = true;
        let main = self.processes[p].threads[0];
        self.trace.touch(main, PROCESS + p, 12, Touch::Write);
        self.tell(|e| format!("-- {} is gone from the system", e.processes[p].name));
        self.files.release_all(p);
        for next in 0..self.processes.len() {
            if self.processes[next].after == Some(p) {
                self.processes[next].after = None;
                for t in self.processes[next].threads.clone() {
                    // One without a body stays idle.
                    if self.threads[t].state == State::Unborn {
                        self.threads[t].state = State::Ready;
                    }
                }
                self.trace.follow(self.processes[next].threads[0], main);
                self.tell(|e| {
                    format!("-- {} begins, with the number of {}", e.processes[next].name, e.processes[p].name)
                });
            }
        }
        for t in 0..self.threads.len() {
            if matches!(self.threads[t].state, State::Blocked(Block::Exit | Block::Lock)) {
                self.rouse(t, Woken::ByWake);
            }
        }
    }

    /// Wakes all waiters for the lock of a directory, to look again.
    pub fn unlocked(&mut self) {
        for t in 0..self.threads.len() {
            if self.threads[t].state == State::Blocked(Block::Lock) {
                self.rouse(t, Woken::ByWake);
            }
        }
    }

    /// Puts a thread in the queue of a word.
    pub fn enqueue(&mut self, t: usize, scope: u32, word: usize) {
        self.queue.push(Sleeper { scope, word, thread: t });
        self.trace.touch(t, word | QUEUE, 13, Touch::Write);
    }

    /// Takes a thread out of all queues. Answers whether it was missing from one of them: it was woken there.
    pub fn dequeue(&mut self, t: usize, entered: usize) -> bool {
        let before = self.queue.len();
        if self.trace.on {
            let words: Vec<_> = self.queue.iter().filter(|s| s.thread == t).map(|s| s.word).collect();
            for w in words {
                self.trace.touch(t, w | QUEUE, 14, Touch::Write);
            }
        }
        self.queue.retain(|s| s.thread != t);
        before - self.queue.len() < entered
    }

    /// FUTEX_WAKE by thread `by`: takes the first `count` sleepers out of the word's queue. Answers how many.
    pub fn wake(&mut self, by: usize, scope: u32, word: usize, count: u32) -> u32 {
        self.trace.touch(by, word | QUEUE, 15, Touch::Write);
        let mut woken = 0;
        while woken < count {
            let Some(at) = self.queue.iter().position(|s| s.word == word && s.scope == scope) else { break };
            let t = self.queue.remove(at).thread;
            woken += 1;
            self.trace.follow(t, by);
            if self.threads[t].state == State::Blocked(Block::Futex) {
                self.rouse(t, Woken::ByWake);
                self.tell(|e| format!("   which wakes {}", e.title(t)));
            } else {
                self.tell(|e| format!("   which {} swallows", e.title(t)));
            }
            let p = self.threads[t].process;
            self.processes[p].dirty = true;
        }
        woken
    }
}
