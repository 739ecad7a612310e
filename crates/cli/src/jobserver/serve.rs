//! The thread that serves: it hears of the fifos, keeps their accounts, and has every free token where it may be wanted.
//!
//! A client's wish cannot be seen, only that it took what was offered. So with more clients than free tokens, the tokens
//! go round: one that was not taken for a moment is offered to the next. A client that gives one back keeps it offered
//! for that moment, too: it is the most likely to want it.
//!
//! Of chappe's own pool, all tokens are offered at all times, as far as the fifos have room. Of a shared one, one is; the next is asked for when it was taken, and it is
//! given back when others wait for it and no client here takes it.

use super::accounts::{Account, Accounts, State};
use super::fifo::{Fifo, Place};
use super::pipe::{self, Losses};
use super::scan;
use super::tokens::Tokens;
use crate::ended::say;
use crate::said::tell;
use crate::within;
use anyhow::Result;
use serde_json::json;
use std::collections::HashSet;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// For how long a token is offered to one client, at least and at most.
const PACE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));
/// What happens within this is looked at at once.
const GATHER: Duration = Duration::from_millis(2);
/// How often it is looked whether dead clients' jobs, or clients that closed their fifo, have ended.
const MOURN: Duration = Duration::from_millis(50);
/// For how long a second spare token of a shared pool is kept. Thrice in it, it is seen whether others wait.
const SPARE: Duration = Duration::from_millis(30);
/// When a permit is asked for again after that failed: processes end, and make room.
const AGAIN: Duration = Duration::from_millis(200);
/// After so many looks in a row that saw nothing it is said aloud.
const BLIND: u32 = 3;

/// The server, as its starter has it.
pub struct Server {
    stop: UnixStream,
    job: Sender<i32>,
    thread: JoinHandle<Served>,
}

/// What was served.
pub struct Served {
    /// The permits.
    pub tokens: Tokens,
    /// How many of them are still behind tokens that a client has.
    pub out: usize,
    /// How many clients there were.
    pub clients: u64,
    /// How many tokens came back from dead clients.
    pub recovered: u64,
    /// How many slots were in use at once, the command's own among them.
    pub most: u64,
}

impl Server {
    /// Prepares to serve, with the first fifo for all makes that inherit it, and the second for the next client that opens the name. `wake` is readable when a permit came. It begins when it is told the job: a child of ours that did not call exec yet has every fifo, and would pass for a client.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(place: Place, fifos: [Fifo; 2], tokens: Tokens, wake: UnixStream, json: bool) -> Result<Server> {
        let (stop, stopped) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (job, of) = channel();
        let (ready, is_ready) = channel();
        let thread = within::thread("chappe-jobs", move || {
            let mut work = Work::new(place, fifos, tokens, json);
            // A process that is chappe's child already is no orphan of the job's.
            work.look();
            // If they are not there any more, nothing is to be done.
            let _ = ready.send(());
            match of.recv() {
                Ok(job) => work.serve(job, &stopped, wake),
                Err(_) => work.done(),
            }
        })?;
        let _ = is_ready.recv();
        Ok(Server { stop, job, thread })
    }

    /// Tells it the job's first process, which has called exec.
    pub fn job_is(&self, pid: i32) {
        // It ends only when it is told to.
        let _ = self.job.send(pid);
    }

    /// Ends it.
    ///
    /// # Panics
    /// If it did.
    pub fn end(self) -> Served {
        drop((self.stop, self.job));
        self.thread.join().expect("the serving thread does not panic")
    }
}

struct Work {
    place: Place,
    tokens: Tokens,
    job: i32,
    json: bool,
    books: Accounts,
    /// Orphans at the last look.
    orphans: Rc<HashSet<scan::Id>>,
    looked: Instant,
    /// When the next look may be: they are to take a fifth of the time at most.
    rested: Instant,
    pace: Duration,
    /// Since when there is more than one spare token of a shared pool, or one that others wait for.
    extra: Option<Instant>,
    /// When the pool may be asked again.
    ask_after: Instant,
    /// Whether others waited, and when that was seen.
    others: (bool, Instant),
    /// It was said that permits cannot be had.
    complained: bool,
    /// How many looks in a row saw nothing.
    blind: u32,
    /// What dead clients of the inherited fifo seem to have had.
    losses: Losses,
}

impl Work {
    fn new(place: Place, fifos: [Fifo; 2], tokens: Tokens, json: bool) -> Work {
        let now = Instant::now();
        let mut books = Accounts::default();
        for (at, fifo) in fifos.into_iter().enumerate() {
            if let Some(account) = books.next(|| Ok(fifo)) {
                (account.state, account.inherited) = (State::Next, at == 0);
            }
        }
        Work {
            losses: Losses::default(),
            place,
            tokens,
            job: 0,
            json,
            books,
            orphans: Rc::default(),
            looked: now,
            rested: now,
            pace: PACE.0,
            extra: None,
            ask_after: now,
            others: (false, now),
            complained: false,
            blind: 0,
        }
    }

    fn serve(mut self, job: i32, stop: &UnixStream, mut wake: UnixStream) -> Served {
        self.job = job;
        loop {
            let patience = self.step();
            let mut list = [stop.as_raw_fd(), self.place.as_fd().as_raw_fd(), wake.as_fd().as_raw_fd()]
                .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            let ms = patience.map_or(-1, |p| i32::try_from(p.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
            // SAFETY: the list is valid for its length.
            unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, ms) };
            if list[0].revents != 0 {
                break;
            }
            // Nothing there is no error.
            let _ = wake.read(&mut [0; 64]);
        }
        self.done()
    }

    fn done(mut self) -> Served {
        for account in &mut self.books.all {
            account.withdraw();
        }
        let out = usize::try_from(self.books.given()).unwrap_or(0);
        let (clients, recovered, most) = (self.books.clients, self.books.recovered, self.books.most);
        Served { tokens: self.tokens, out, clients, recovered, most }
    }

    /// Does what there is to do; answers for how long there will be nothing.
    fn step(&mut self) -> Option<Duration> {
        self.hear();
        if self.books.count(Instant::now()) {
            self.pace = PACE.0;
        }
        if self.look_at().is_some_and(|at| at <= Instant::now()) {
            self.look();
            self.books.count(Instant::now());
        }
        let next = self.share();
        let at = [next, self.look_at()].into_iter().flatten().min()?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    fn hear(&mut self) {
        let news = self.place.news();
        self.books.hear(&news, &self.orphans);
        if !self.books.all.iter().any(|a| a.state == State::Next) {
            // If there is none, the next client shares the last one's.
            if let Some(next) = self.books.next(|| self.place.fifo())
                && self.place.show(&next.fifo).is_ok()
            {
                next.state = State::Next;
            }
        }
    }

    /// When /proc is to be looked at, if it is.
    fn look_at(&self) -> Option<Instant> {
        let soon = self.books.all.iter().any(Account::is_unclear);
        let late = !self.books.mourned.is_empty() || self.books.all.iter().any(|a| a.state == State::Away || a.dark);
        let shared = self.books.inherited() > 0;
        let at = [
            shared.then(|| self.looked + pipe::PACE),
            soon.then(|| self.looked.max(self.books.heard) + GATHER),
            late.then(|| self.looked + MOURN),
        ];
        at.into_iter().flatten().min().map(|at| at.max(self.rested))
    }

    fn look(&mut self) {
        let began = Instant::now();
        let before: Vec<_> = self.books.all.iter().map(|a| (a.opens, a.closes)).collect();
        let seen = scan::look(std::process::id() as i32, self.job, super::fifo::PREFIX);
        self.hear();
        self.books.count(Instant::now());
        if let Some(seen) = seen {
            let mut back = self.books.judge(&seen, &before);
            let losses = &mut self.losses;
            back += self.books.write_off(|inode, out| losses.look(&seen, inode, out));
            self.orphans = Rc::new(seen.orphans);
            if back > 0 && self.json {
                tell(json!({ "event": "recovered", "tokens": back }));
            }
            self.blind = 0;
        } else {
            self.blind = self.blind.saturating_add(1);
            if self.blind == BLIND {
                say(
                    self.json,
                    "cannot tell who has which job slot: /proc cannot be read, or processes come and go too fast; until \
                     that ends, killed clients' slots stay away and new clients get none beyond their own",
                );
            }
        }
        self.looked = Instant::now();
        self.rested = self.looked + 4 * (self.looked - began);
    }

    /// Puts the free tokens where they may be wanted. Answers when that is to be done again.
    fn share(&mut self) -> Option<Instant> {
        let now = Instant::now();
        while match self.tokens.come() {
            Ok(more) => more,
            Err(e) => self.complain(&e),
        } {}
        let mut at = if self.tokens.is_shared() { self.trim(now) } else { None };
        let busy = self.books.all.iter().any(|a| a.state == State::Busy);
        loop {
            let spare = self.hand() + self.books.offered();
            if spare > 0 || !busy || now < self.ask_after || !self.tokens.may_ask() {
                break;
            }
            if let Err(e) = self.tokens.ask() {
                self.complain(&e);
            }
        }
        at = at.into_iter().chain(self.books.visit(now)).min();
        // Levelled at most as often as there are clients: each time one more has some.
        for _ in 0..=self.books.all.len() {
            while self.hand() > 0 && self.books.offer(self.hand(), now) > 0 {}
            if !self.books.level() {
                break;
            }
        }
        if self.books.is_uneven() {
            let mut turned = false;
            while self.books.turn(now, self.pace) {
                turned = true;
            }
            if turned {
                self.pace = (self.pace * 5 / 4).min(PACE.1);
            }
            at = at.into_iter().chain([now + self.pace]).min();
        }
        if now < self.ask_after {
            at = at.into_iter().chain([self.ask_after]).min();
        }
        at
    }

    /// Of a shared pool, gives back what no client here seems to want. Answers when to ask again.
    fn trim(&mut self, now: Instant) -> Option<Instant> {
        let busy = self.books.all.iter().filter(|a| a.state == State::Busy).count();
        let mut spare = self.hand() + self.books.offered();
        let keep = i64::from(busy > 0);
        if spare == 0 {
            self.extra = None;
            return None;
        }
        if self.others.1 + SPARE / 3 <= now {
            self.others = (self.tokens.others_wait(), now);
        }
        let others = self.others.0;
        while spare > keep && (others || busy == 0 || self.extra.is_some_and(|since| since + SPARE <= now)) {
            if self.hand() == 0 && !self.books.withdraw_one() {
                break;
            }
            self.tokens.give_back();
            spare -= 1;
        }
        // Every client here has had a chance to take it.
        let round = SPARE.max(self.pace * u32::try_from(busy).unwrap_or(u32::MAX));
        if others && spare == 1 && self.books.idle_since().is_some_and(|since| since + round <= now) {
            if self.hand() > 0 || self.books.withdraw_one() {
                self.tokens.give_back();
                self.ask_after = now + SPARE;
            }
            self.others.0 = false;
            self.extra = None;
            return None;
        }
        self.extra = if spare > keep { self.extra.or(Some(now)) } else { None };
        Some(now + SPARE)
    }

    /// Tokens that are in no fifo, and with no client.
    fn hand(&self) -> i64 {
        i64::try_from(self.tokens.count()).unwrap_or(i64::MAX) - self.books.given()
    }

    /// A permit could not be had; the next may be. Answers that none came.
    fn complain(&mut self, e: &anyhow::Error) -> bool {
        self.ask_after = Instant::now() + AGAIN;
        if !self.complained {
            self.complained = true;
            say(self.json, &format!("no more job slots for now, it is tried again: {e}"));
        }
        false
    }
}
