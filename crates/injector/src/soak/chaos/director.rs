//! The director: keeps the processes alive, and kills and stops them. It has one thread, and never touches chappe.
//!
//! Every few milliseconds it kills one, or several in one moment, and has another life begin in its place. In the second part of a visit it
//! stops one instead, now and then kills another meanwhile, and lets it go on, or kills it too, once all that it cannot hold up have made a
//! turn: those that wait for nothing that the stopped one may have, by what both say that they are at. So how long one is stopped is for
//! the others to say, and none of it depends on time.
//!
//! A process that makes no turn for as long as the watchdog allows is wedged: that ends the visit, with a look at what all are at.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::board::{CLOSER, Found, PLACES, POSTS, WORKERS};
use super::processes;
use super::starved::Want;
use super::worker::Chaos;
use crate::child::Child;
use crate::patience::within;
use crate::scenario::REST;
use crate::soak::dice::Dice;
use crate::step;

/// One that lives.
struct Process {
    child: Child,
    /// What it will be short of.
    want: Option<Want>,
    born: Instant,
    /// Since when it is another program.
    left: Option<Instant>,
}

/// When a worker was last seen to come on.
#[derive(Clone, Copy)]
struct Seen {
    number: u32,
    turns: u64,
    at: Instant,
}

/// What one part of a visit came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Processes killed by the director.
    pub kills: u64,
    /// Processes stopped.
    pub stops: u64,
    /// Programs that were exec'd, and what they had has come back.
    pub execs: u64,
    /// Processes that ended by themselves: short of something, or in the middle of anything.
    pub ends: u64,
    /// Turns made.
    pub turns: u64,
    /// Lives begun.
    pub births: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.kills += other.kills;
        self.stops += other.stops;
        self.execs += other.execs;
        self.ends += other.ends;
        self.turns += other.turns;
        self.births += other.births;
    }
}

/// A process that has not looked for so long was not running.
const SLEPT: Duration = Duration::from_secs(2);

/// The director of one visit.
pub struct Director<'z> {
    chaos: &'z Chaos,
    dice: Dice,
    limit: Duration,
    posts: [Option<Process>; POSTS],
    seen: [[Seen; WORKERS]; PLACES],
    tally: Tally,
    /// When it last looked.
    looked: Instant,
    /// Something has gone so wrong that the visit ends.
    broken: bool,
}

impl<'z> Director<'z> {
    /// With no process there.
    pub fn new(chaos: &'z Chaos, seed: u64, limit: Duration) -> Director<'z> {
        chaos.board.director.store(std::process::id(), SeqCst);
        let seen = [[Seen { number: 0, turns: 0, at: Instant::now() }; WORKERS]; PLACES];
        let posts = std::array::from_fn(|_| None);
        Director {
            chaos,
            dice: Dice::new(seed),
            limit,
            posts,
            seen,
            tally: Tally::default(),
            looked: Instant::now(),
            broken: false,
        }
    }

    /// A round: so many kills, or so long, then all end. False: the visit is to end.
    pub fn round(&mut self, kills: u64, time: Duration, stops: bool) -> (Tally, bool) {
        self.tally = Tally::default();
        self.chaos.board.forget();
        (0..POSTS).for_each(|post| self.start(post));
        let end = Instant::now() + time;
        while self.tally.kills < kills && Instant::now() < end && !self.broken && !self.chaos.board.is_full() {
            let pause = Instant::now() + Duration::from_micros(500 + self.dice.roll(6_000));
            while Instant::now() < pause {
                std::thread::sleep(Duration::from_micros(500));
                self.look();
            }
            match self.dice.roll(16) {
                0 | 1 if stops => self.stop(),
                2 => (0..3).for_each(|_| self.strike()),
                _ => self.strike(),
            }
        }
        self.calm();
        (self.tally, !self.broken)
    }

    fn start(&mut self, post: usize) {
        let (chaos, seed) = (self.chaos, self.dice.seed());
        let want = processes::want(chaos, post, self.dice.roll(2));
        let number = chaos.board.life(0);
        chaos.board.places[post].number.store(number, SeqCst);
        self.tally.births += 1;
        let child = Child::fork(|| {
            if let Err(e) = processes::live(chaos, post, seed, want) {
                chaos.tell(&format!("in post {post}: {e}"));
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(1) };
            }
        });
        self.posts[post] = Some(Process { child, want, born: Instant::now(), left: None });
    }

    /// It has ended: what it left undecided is counted.
    fn settle(&mut self, place: usize) {
        let turns =
            self.chaos.board.places[place].workers.iter().map(|worker| worker.turns.swap(0, SeqCst)).sum::<u64>();
        self.tally.turns += turns;
        self.chaos.board.settle(place);
    }

    /// Kills one of them, and has another begin.
    fn strike(&mut self) {
        let post = self.dice.roll(POSTS as u64) as usize;
        // One that has just begun has nothing in hand: now and then that is tried too.
        if self.chaos.board.places[post].workers[0].number.load(SeqCst) != 0 || self.dice.roll(8) == 0 {
            self.kill(post);
        }
    }

    fn kill(&mut self, post: usize) {
        let place = &self.chaos.board.places[post];
        let Some(mut process) = self.posts[post].take() else { return };
        if place.leaves.load(SeqCst) != 0 {
            // What it had must come back while it lives.
            self.posts[post] = Some(process);
            return;
        }
        self.chaos.board.condemn(place.number.load(SeqCst));
        process.child.kill();
        self.tally.kills += 1;
        self.settle(post);
        self.start(post);
    }

    // ---- looking ----

    /// A process that has ended is followed by another; one that makes no progress is found.
    fn look(&mut self) {
        for post in 0..POSTS {
            if self.see_to(post) {
                self.start(post);
            }
        }
        self.orphans();
        self.find_the_wedged();
    }

    /// Whether no process is in a post any more.
    fn see_to(&mut self, post: usize) -> bool {
        let Some(process) = self.posts[post].as_mut() else { return true };
        let place = &self.chaos.board.places[post];
        if let Some(status) = process.child.ended() {
            let want = process.want;
            self.ended(post, status, want);
            return true;
        }
        if place.leaves.load(SeqCst) != 0 {
            return self.see_to_another_program(post);
        }
        false
    }

    /// Somebody has ended without us.
    fn ended(&mut self, post: usize, status: i32, want: Option<Want>) {
        let board = self.chaos.board;
        let number = board.places[post].number.load(SeqCst);
        let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL && board.is_gone(number);
        let aborted = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT || status == 1 << 8;
        if status != 0 && !killed && !(want == Some(Want::Memory) && aborted) {
            let text = format!("in post {post} ({want:?}) one ended with status {status:#x}");
            self.chaos.found(Found::Failed, &text);
            // The next one would end so, too.
            self.broken = true;
        }
        board.condemn(number);
        self.posts[post] = None;
        self.tally.ends += 1;
        self.settle(post);
    }

    /// One has called exec: once all it had is others', it may go.
    fn see_to_another_program(&mut self, post: usize) -> bool {
        let (board, limit) = (self.chaos.board, self.limit);
        let Some(process) = self.posts[post].as_mut() else { return true };
        let since = *process.left.get_or_insert_with(Instant::now);
        let number = board.places[post].number.load(SeqCst);
        let line = std::fs::read(format!("/proc/{}/cmdline", process.child.pid())).unwrap_or_default();
        let is_another = line.split(|b| *b == 0).any(|word| word == REST.as_bytes());
        // A look that takes in what it had until then.
        if is_another && !board.has_something(number) {
            self.tally.execs += 1;
        } else if since.elapsed() > limit {
            let text = format!("what life {number} had has not come back since it called exec (has it? {is_another})");
            self.chaos.found(Found::Lost, &text);
            self.broken = true;
        } else {
            return false;
        }
        process.child.kill();
        self.posts[post] = None;
        self.settle(post);
        true
    }

    /// Forked children whose parents have gone are ours.
    fn orphans(&mut self) {
        let board = self.chaos.board;
        for at in POSTS..CLOSER {
            let place = &board.places[at];
            let (pid, parent) = (place.pid.load(SeqCst), place.parent.load(SeqCst));
            let has_parent = board.places[..POSTS].iter().any(|p| p.number.load(SeqCst) == parent);
            if pid == 0 || parent == 0 || has_parent {
                continue;
            }
            let mut status = 0;
            // SAFETY: `status` is a valid place for the duration of the call.
            let reaped = unsafe { libc::waitpid(pid as i32, &mut status, libc::WNOHANG) };
            if reaped == 0 {
                continue;
            }
            let number = place.number.load(SeqCst);
            let condemned = number != 0 && board.is_gone(number);
            if reaped == pid as i32 && status != 0 && !(status == libc::SIGKILL && condemned) {
                self.chaos.found(Found::Failed, &format!("a forked child ended with status {status:#x}"));
            }
            // If it was not ours, its parent had reaped it, and died before it had said so.
            self.settle(at);
        }
    }

    fn find_the_wedged(&mut self) {
        if self.looked.elapsed() > SLEPT {
            // All of us have been stopped, or the machine has.
            self.seen.iter_mut().flatten().for_each(|seen| seen.at = Instant::now());
        }
        self.looked = Instant::now();
        let mut wedged = Vec::new();
        for (at, place) in self.chaos.board.places.iter().enumerate() {
            for (seen, worker) in self.seen[at].iter_mut().zip(&place.workers) {
                let (number, turns) = (worker.number.load(SeqCst), worker.turns.load(SeqCst));
                let idle = number == 0 || place.leaves.load(SeqCst) != 0;
                if idle || (number, turns) != (seen.number, seen.turns) {
                    *seen = Seen { number, turns, at: Instant::now() };
                } else if seen.at.elapsed() > self.limit {
                    wedged.push(number);
                }
            }
        }
        for number in wedged {
            self.chaos.found(Found::Wedged, &format!("life {number} makes no turn"));
            self.broken = true;
        }
        let limit = self.limit;
        let unborn = |post: usize| {
            let process = self.posts[post].as_ref();
            let begun = self.chaos.board.places[post].workers[0].number.load(SeqCst) != 0;
            process.is_some_and(|a| !begun && a.born.elapsed() > limit)
        };
        if let Some(post) =
            (0..POSTS).find(|post| unborn(*post) && self.chaos.board.places[*post].leaves.load(SeqCst) == 0)
        {
            self.chaos.found(Found::Wedged, &format!("the one in post {post} does not begin"));
            self.broken = true;
        }
        if self.broken {
            self.describe();
        }
    }

    /// What all are at.
    fn describe(&self) {
        let board = self.chaos.board;
        for (at, place) in board.places.iter().enumerate() {
            let pid = match self.posts.get(at) {
                Some(process) => process.as_ref().map_or(0, |a| a.child.pid() as u32),
                None => place.pid.load(SeqCst),
            };
            for (worker, seen) in place.workers.iter().zip(&self.seen[at]) {
                let number = worker.number.load(SeqCst);
                if number == 0 {
                    continue;
                }
                let tid = worker.tid.load(SeqCst);
                let kernel = |file: &str| {
                    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).unwrap_or_default();
                    text.lines().take(4).map(str::trim).collect::<Vec<_>>().join(" < ")
                };
                let state = step::state(tid as i32).map_or('-', char::from);
                self.chaos.tell(&format!(
                    "place {at}, process {pid}, thread {tid}, life {number}: {} for {:.1} s, state {state}, in {} ({})",
                    worker.describe(),
                    seen.at.elapsed().as_secs_f64(),
                    kernel("wchan"),
                    kernel("stack")
                ));
            }
        }
        let chaos = self.chaos;
        let mut vet = Child::fork(|| processes::examine(chaos));
        within(Duration::from_secs(5), || vet.ended().is_some());
    }

    // ---- stopping ----

    /// Stops one until all that it cannot hold up have made progress.
    fn stop(&mut self) {
        let post = self.dice.roll(POSTS as u64) as usize;
        let board = self.chaos.board;
        let place = &board.places[post];
        let Some(pid) = self.posts[post].as_ref().map(|process| process.child.pid()) else { return };
        if place.leaves.load(SeqCst) != 0 || place.workers[0].number.load(SeqCst) == 0 || !stopped(pid) {
            return;
        }
        self.tally.stops += 1;
        // All its workers stand still: so do their notes. Others may need one that has not begun.
        let begun = place.workers.iter().filter(|worker| worker.number.load(SeqCst) != 0).count();
        let bars = match self.posts[post].as_ref() {
            Some(process) if begun == processes::workers(post, process.want) => {
                place.workers.iter().fold(0, |all, worker| all | worker.bars())
            }
            _ => u32::MAX,
        };
        let other = self.dice.roll(POSTS as u64) as usize;
        if other != post && self.dice.roll(2) == 0 {
            self.kill(other);
        }
        self.others_come_on(post, bars);
        if self.dice.roll(3) == 0 {
            self.kill(post);
        } else {
            // SAFETY: our child, stopped.
            unsafe { libc::kill(pid, libc::SIGCONT) };
        }
        // A process that waited for it waits from here on.
        self.seen.iter_mut().flatten().for_each(|seen| seen.at = Instant::now());
    }

    /// Waits until each worker that needs nothing of the stopped one has made a turn.
    fn others_come_on(&mut self, post: usize, bars: u32) {
        let board = self.chaos.board;
        let now = || {
            board.places.iter().flat_map(|place| &place.workers).map(|l| (l.number.load(SeqCst), l.turns.load(SeqCst)))
        };
        let before: Vec<(u32, u64)> = now().collect();
        let stopped = board.places[post].number.load(SeqCst);
        // Its forked children may have ended, which only it can say.
        let is_its = |at: usize| at == post || board.places[at].parent.load(SeqCst) == stopped;
        let mut come_on: Vec<bool> = (0..before.len()).map(|at| is_its(at / WORKERS) || before[at].0 == 0).collect();
        let end = Instant::now() + self.limit;
        while Instant::now() < end {
            for post in (0..POSTS).filter(|other| *other != post) {
                if self.see_to(post) {
                    self.start(post);
                }
            }
            self.orphans();
            for (at, now) in now().enumerate() {
                let worker = &board.places[at / WORKERS].workers[at % WORKERS];
                let excused = board.places[at / WORKERS].leaves.load(SeqCst) != 0 || worker.needs() & bars != 0;
                // Another life in its place counts, too.
                come_on[at] |= now != before[at] || excused;
            }
            if come_on.iter().all(|it| *it) {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        for at in (0..come_on.len()).filter(|at| !come_on[*at]) {
            let worker = &board.places[at / WORKERS].workers[at % WORKERS];
            let text = format!("life {} waits for the stopped one in post {post}: {}", before[at].0, worker.describe());
            self.chaos.found(Found::HeldUp, &text);
        }
        self.describe();
        self.broken = true;
    }

    // ---- the end of a round ----

    /// No life begins any more; all end by themselves.
    fn calm(&mut self) {
        let (chaos, board) = (self.chaos, self.chaos.board);
        board.over.store(1, SeqCst);
        if !self.broken {
            board.places[CLOSER].number.store(board.life(0), SeqCst);
            let seed = self.dice.seed();
            let mut closer = Child::fork(|| {
                if let Err(e) = processes::closer(chaos, seed) {
                    chaos.tell(&format!("the closing process: {e}"));
                    // SAFETY: ends this process at once.
                    unsafe { libc::_exit(1) };
                }
            });
            let end = Instant::now() + self.limit * 2;
            let is_child = |at: usize| board.places[at].pid.load(SeqCst) != 0;
            while Instant::now() < end && !self.broken {
                let left = (0..POSTS).filter(|post| !self.see_to(*post)).count();
                self.orphans();
                if left == 0 && !(POSTS..CLOSER).any(is_child) {
                    break;
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            if self.posts.iter().any(Option::is_some) || (POSTS..CLOSER).any(is_child) {
                chaos.found(Found::Wedged, "somebody does not end");
                self.broken = true;
                self.describe();
            }
            board.over.store(2, SeqCst);
            within(self.limit, || closer.ended().is_some());
            if closer.ended() != Some(0) {
                chaos.found(Found::Failed, &format!("the closing process ended with {:x?}", closer.ended()));
                self.broken = true;
            }
            self.settle(CLOSER);
        }
        for post in 0..POSTS {
            if let Some(mut process) = self.posts[post].take() {
                process.child.kill();
                self.settle(post);
            }
        }
    }
}

/// Stops a child. False: it has ended, which is still to be heard.
fn stopped(pid: libc::pid_t) -> bool {
    // SAFETY: an all-zero siginfo is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let what = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
    // SAFETY: our child, which only this process reaps; a valid place for what became of it.
    let heard = unsafe {
        libc::kill(pid, libc::SIGSTOP) == 0 && libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, what) == 0
    };
    heard && info.si_code == libc::CLD_STOPPED
}
