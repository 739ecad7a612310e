//! The accounts: which tokens are in which fifo, and with which client.
//!
//! ```text
//!              a client opens it               no process has it open, and its clients are dead
//!   NEXT ----------------------------> BUSY ------------------------------------------------> FREE -> NEXT
//!    (the name stands for it)            |  no process has it open, tokens are out,             ^
//!                                        +- and a client lives ------------------------> AWAY -+
//! ```
//!
//! - I1: what the server put into a fifo less what it took out (`given`) is what is in it and what its clients have. No other process has
//!   any: what is `given` and not in it when its clients are dead is lost, and comes back.
//! - I2: a lost token comes back when the job it was for has ended, too: a killed make's compilers go on, as orphans. As many tokens stay
//!   away as there are orphans that were not there when the client was last seen alive. A daemon that was born at that time keeps one until
//!   it ends or the job does: late, but never too early.
//! - I3: what is in a fifo and was not given was written by a client that did not read it there. The client may have read it from another
//!   fifo, which it has closed (AWAY), or still has open, because the name moved on between a make's two opens, for reading and for
//!   writing. Then it is now given here, and no longer there. Otherwise it is taken out.
//! - I4: a token is offered only when it is known which processes have the fifo open: otherwise a client that closes it at once and lives
//!   on would pass for dead.
//! - R1: two clients that open the name before it stands for another fifo share one. Then a token comes back when both are dead. The same
//!   holds for clients that their children share the descriptor with.
//! - R2: a client may have resolved the name and not yet opened the fifo, however long. So no fifo is ever closed or removed while the
//!   server runs: it is used again, and a late client comes to wherever it is by then.
//! - R3: a fifo that was opened and whose descriptor is not in its process's table yet is not seen. So a fifo is judged only after it was
//!   closed by a process.
//!
//! One fifo is *inherited* by all of the job, for makes that know no other form, and mostly there is none. Before a token was ever taken
//! from it, and while there are other clients, it has a token for a short time now and then. A fifo that is open for writing alone is offered none: a client that opens
//! the name twice, as ninja does, reads from another one.

use super::fifo::{Fifo, News};
use super::scan::{Id, Seen};
use std::collections::HashSet;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How many tokens are in one fifo at most, so that its clients always have room to give theirs back: half of what the kernel has room for.
const MOST_OFFERED: i64 = 32 << 10;
/// For how long a fifo of which nobody has ever taken a token is offered one, and for how long it then is not.
const TURN: Duration = Duration::from_millis(16);
const REST: Duration = Duration::from_millis(250);

/// What a fifo is for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// For the next client.
    Next,
    /// Clients have it.
    Busy,
    /// No process has it open; a client of it lives, and has tokens.
    Away,
    /// For no client.
    Free,
}

/// One fifo's account.
pub struct Account {
    /// The fifo.
    pub fifo: Fifo,
    /// What it is for now.
    pub state: State,
    /// How many tokens are in it or with its clients.
    pub given: i64,
    /// How many were in it when it was last looked at.
    pub bytes: i64,
    /// How often it was opened, and how often closed, at least.
    pub opens: u64,
    /// See `opens`.
    pub closes: u64,
    /// Up to which of its `closes` it was judged.
    judged: u64,
    /// A process in the job may not be inspected, and may have it open.
    pub dark: bool,
    /// All of the job has it, and whether it is used cannot be told before it is.
    pub inherited: bool,
    /// A token was taken from it.
    used: bool,
    /// A process has it open for reading.
    reads: bool,
    /// The processes that have been seen to have it open.
    clients: HashSet<Id>,
    /// Since it was opened last.
    known: bool,
    /// Orphans that were there when its clients were last alive.
    before: Rc<HashSet<Id>>,
    /// When it was last offered a token, or changed.
    touched: Instant,
}

impl Account {
    /// Whether /proc is to be asked about it.
    pub fn is_unclear(&self) -> bool {
        self.state == State::Busy && !self.dark && (self.judged != self.closes || !self.known)
    }

    /// I4: whether a token can be offered there: it is known which processes have it, and that a client can take it.
    fn is_known(&self) -> bool {
        self.known && self.reads || self.dark
    }

    /// Puts so many tokens in, or as many as there is room for. Answers how many.
    fn put(&mut self, tokens: i64, now: Instant) -> i64 {
        let tokens = tokens.min(MOST_OFFERED - self.bytes);
        let done = usize::try_from(tokens).map_or(0, |n| self.fifo.put(n)) as i64;
        self.given += done;
        self.bytes += done;
        self.touched = now;
        done
    }

    /// Takes so many out, if they are there. Answers how many.
    fn take(&mut self, tokens: i64) -> i64 {
        let done = usize::try_from(tokens).map_or(0, |n| self.fifo.take(n)) as i64;
        self.given -= done;
        self.bytes -= done;
        done
    }

    /// Takes out all that is in it.
    pub fn withdraw(&mut self) {
        while self.given > 0 && self.take(self.given.min(MOST_OFFERED)) > 0 {}
        self.bytes = 0;
    }

    fn end(&mut self) -> i64 {
        self.state = State::Free;
        self.inherited = false;
        self.clients.clear();
        std::mem::take(&mut self.given)
    }
}

/// Tokens of dead clients, some of whose jobs go on.
#[derive(Debug)]
pub struct Mourned {
    lost: i64,
    before: Rc<HashSet<Id>>,
}

/// All accounts.
pub struct Accounts {
    /// One a fifo.
    pub all: Vec<Account>,
    /// Lost tokens that cannot come back yet.
    pub mourned: Vec<Mourned>,
    /// When there was news last.
    pub heard: Instant,
    /// How many clients there were.
    pub clients: u64,
    /// How many tokens came back from dead clients.
    pub recovered: u64,
    /// How many slots were in use at once.
    pub most: u64,
}

impl Default for Accounts {
    fn default() -> Accounts {
        let heard = Instant::now();
        Accounts { all: Vec::new(), mourned: Vec::new(), heard, clients: 0, recovered: 0, most: 1 }
    }
}

impl Accounts {
    /// Takes note of what happened to the fifos. `orphans`: those known now.
    pub fn hear(&mut self, news: &[News], orphans: &Rc<HashSet<Id>>) {
        for n in news {
            for a in self.all.iter_mut().filter(|a| n.watch == -1 || a.fifo.watch == n.watch) {
                if n.opened || n.watch == -1 && a.state == State::Next {
                    a.opens += 1;
                    self.heard = Instant::now();
                    a.known = false;
                    if a.state != State::Busy {
                        a.state = State::Busy;
                        a.before = orphans.clone();
                        self.clients += u64::from(!a.inherited);
                    }
                }
                if n.closed || n.watch == -1 {
                    a.closes += 1;
                    self.heard = Instant::now();
                }
            }
        }
    }

    /// A fifo for the next client: one that is free, or one that `make` makes.
    pub fn next(&mut self, make: impl FnOnce() -> io::Result<Fifo>) -> Option<&mut Account> {
        let at = match self.all.iter().position(|a| a.state == State::Free) {
            Some(at) => at,
            None => {
                self.all.push(Account {
                    fifo: make().ok()?,
                    state: State::Free,
                    given: 0,
                    bytes: 0,
                    opens: 0,
                    closes: 0,
                    judged: 0,
                    dark: false,
                    inherited: false,
                    used: false,
                    reads: false,
                    clients: HashSet::new(),
                    known: false,
                    before: Rc::default(),
                    touched: Instant::now(),
                });
                self.all.len() - 1
            }
        };
        Some(&mut self.all[at])
    }

    /// Looks into every fifo. True if clients took or gave.
    pub fn count(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for a in &mut self.all {
            let bytes = a.fifo.bytes();
            if bytes != a.bytes {
                if bytes < a.bytes {
                    self.heard = now;
                    a.used = true;
                }
                moved = true;
                a.touched = now;
                a.bytes = bytes;
                a.take(a.bytes.min(a.given) - MOST_OFFERED);
            }
        }
        for at in 0..self.all.len() {
            while self.all[at].bytes > self.all[at].given && self.settle(at) {}
        }
        let out: i64 = self.all.iter().map(|a| a.given - a.bytes).sum();
        self.most = self.most.max(1 + u64::try_from(out).unwrap_or(0));
        moved
    }

    /// I3, for one token too many. False: it is not known yet whose it is.
    fn settle(&mut self, at: usize) -> bool {
        let clients = &self.all[at].clients;
        let is_payer = |a: &Account| match a.state {
            State::Away => a.given > 0,
            _ => a.given > a.bytes && a.clients.iter().any(|c| clients.contains(c)),
        };
        if let Some(payer) = self.all.iter().position(is_payer) {
            self.all[at].given += 1;
            self.all[payer].given -= 1;
            if self.all[payer].state == State::Away && self.all[payer].given == 0 {
                self.all[payer].end();
            }
            return true;
        }
        if self.all.iter().any(|a| a.state == State::Busy && !a.known && a.given != a.bytes) {
            return false;
        }
        let taken = self.all[at].fifo.take(1) as i64;
        self.all[at].bytes -= taken;
        taken > 0
    }

    /// Draws the conclusions from what was seen. `before`: the opens and closes of each when the look began. Answers how
    /// many tokens came back from the dead.
    pub fn judge(&mut self, seen: &Seen, before: &[(u64, u64)]) -> i64 {
        let orphans = Rc::new(seen.orphans.clone());
        for (a, (opens, closes)) in self.all.iter_mut().zip(before) {
            if !matches!(a.state, State::Busy | State::Away) {
                continue;
            }
            let holders = seen.holders(a.fifo.inode);
            a.dark = holders.is_none();
            let Some(holders) = holders else { continue };
            let had = a.state == State::Busy && !holders.is_empty();
            if had {
                a.reads = seen.is_read(a.fifo.inode);
                // A child that has its parent's and did not call exec yet is no client.
                let has = |pid| holders.iter().any(|h| h.pid == pid);
                a.clients.extend(holders.iter().filter(|h| !seen.parent(h).is_some_and(has)));
                a.before = orphans.clone();
            }
            // R3: also when it was opened during the look.
            let closed = a.state == State::Away || a.judged != *closes;
            let opened = a.opens != *opens;
            a.known |= had && !opened;
            if had || !closed || opened {
                a.judged = if opened { a.judged } else { *closes };
                continue;
            }
            a.judged = *closes;
            a.withdraw();
            if a.given > 0 && a.clients.iter().any(|c| seen.lives(c)) {
                a.state = State::Away;
                a.before = orphans.clone();
                continue;
            }
            let before = a.before.clone();
            let lost = a.end();
            if lost > 0 {
                self.mourned.push(Mourned { lost, before });
            }
        }
        // I2.
        let mut back = 0;
        self.mourned.retain_mut(|m| {
            let alive = orphans.iter().filter(|o| !m.before.contains(o)).count();
            let stay = m.lost.min(i64::try_from(alive).unwrap_or(i64::MAX));
            back += m.lost - stay;
            m.lost = stay;
            stay > 0
        });
        self.recovered += u64::try_from(back).unwrap_or(0);
        back
    }

    /// How many tokens the clients of the inherited fifo have.
    pub fn inherited(&self) -> i64 {
        let shared = self.all.iter().find(|a| a.inherited && a.state == State::Busy && a.known);
        shared.map_or(0, |a| a.given - a.bytes)
    }

    /// Takes back what the clients of the inherited fifo have lost: `lost` tells, of how many that are out. Answers how many.
    pub fn write_off(&mut self, lost: impl FnOnce((u64, u64), i64) -> i64) -> i64 {
        let out = self.inherited();
        let Some(a) = self.all.iter_mut().find(|a| a.inherited && out > 0) else { return 0 };
        let back = lost(a.fifo.inode, out).clamp(0, out);
        a.given -= back;
        self.recovered += u64::try_from(back).unwrap_or(0);
        back
    }

    /// How many tokens are in fifos, with clients, or lost and not yet back.
    pub fn given(&self) -> i64 {
        self.all.iter().map(|a| a.given).sum::<i64>() + self.mourned.iter().map(|m| m.lost).sum::<i64>()
    }

    /// How many tokens are in fifos.
    pub fn offered(&self) -> i64 {
        self.all.iter().map(|a| a.bytes).sum()
    }

    /// Since when no token was taken or given, where some are offered.
    pub fn idle_since(&self) -> Option<Instant> {
        self.all.iter().filter(|a| a.state == State::Busy).map(|a| a.touched).max()
    }

    fn busy(&mut self) -> impl Iterator<Item = &mut Account> {
        self.all.iter_mut().filter(|a| a.state == State::Busy)
    }

    /// Whether it may be that nobody uses this one.
    fn is_idle(&self, a: &Account) -> bool {
        let is_another = |other: &Account| other.state == State::Busy && !other.inherited && other.is_known();
        a.inherited && !a.used && self.all.iter().any(is_another)
    }

    /// Gives the fifo that perhaps nobody uses a token when it is its turn, and takes back what lies there when that is over. Answers when to ask
    /// again.
    pub fn visit(&mut self, now: Instant) -> Option<Instant> {
        let at = self.all.iter().position(|a| a.state == State::Busy && a.is_known() && self.is_idle(a))?;
        let idle = &mut self.all[at];
        if idle.bytes > 0 {
            let until = idle.touched + TURN;
            idle.take(idle.bytes - i64::from(until > now));
            if until > now {
                return Some(until);
            }
            idle.touched = now;
        }
        let next = idle.touched + REST;
        if next > now {
            return Some(next);
        }
        let from = self.busy().max_by_key(|a| a.bytes)?;
        if from.take(from.bytes.min(1)) == 0 {
            return None;
        }
        self.all[at].put(1, now);
        Some(now + TURN)
    }

    /// Offers some of so many tokens to the client that is offered fewest. Answers how many: 0 if there is no client, or no room.
    pub fn offer(&mut self, tokens: i64, now: Instant) -> i64 {
        let may = |a: &Account| a.is_known() && a.state == State::Busy && a.bytes < MOST_OFFERED && !self.is_idle(a);
        let to = || self.all.iter().enumerate().filter(|(_, a)| may(a));
        let Some((at, _)) = to().min_by_key(|(_, a)| (a.bytes, a.touched)) else { return 0 };
        let tokens = (tokens / to().count() as i64).max(1);
        self.all[at].put(tokens, now)
    }

    /// Whether a client that could take a token is offered none, while others are.
    pub fn is_uneven(&self) -> bool {
        self.offered() > 0
            && self.all.iter().any(|a| a.state == State::Busy && a.is_known() && a.bytes == 0 && !self.is_idle(a))
    }

    /// Takes one out of where there are most.
    pub fn withdraw_one(&mut self) -> bool {
        self.busy().max_by_key(|a| a.bytes).is_some_and(|a| a.take(1) > 0)
    }

    /// Takes half of the most that a client is offered, if another one is offered none. True if it did.
    pub fn level(&mut self) -> bool {
        // A client to which it could not be offered would not get it; it would come back.
        let mut busy = self.all.iter().filter(|a| a.state == State::Busy);
        let none = busy.any(|a| a.is_known() && a.bytes == 0 && !self.is_idle(a));
        let from = self.busy().max_by_key(|a| a.bytes).filter(|a| none && a.bytes > 1);
        from.is_some_and(|a| a.take(a.bytes / 2) > 0)
    }

    /// Takes one that was offered for `pace` to no avail to the next. True if it did.
    pub fn turn(&mut self, now: Instant, pace: Duration) -> bool {
        let from = self.busy().filter(|a| a.bytes > 0).min_by_key(|a| a.touched);
        let Some(from) = from.filter(|a| a.touched + pace <= now) else { return false };
        from.touched = now;
        from.take(1) > 0 && self.offer(1, now) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::fifo::Place;
    use super::*;

    /// Accounts of fifos that are there, and clients that are not: what a client would do to its fifo is done here.
    struct Books {
        all: Accounts,
        place: Place,
    }

    impl Books {
        fn new() -> Books {
            Books { all: Accounts::default(), place: Place::make().unwrap() }
        }

        /// A process opens the next fifo; it is not known yet which.
        fn opened(&mut self) -> usize {
            let next = self.all.next(|| self.place.fifo()).unwrap();
            next.state = State::Next;
            let watch = next.fifo.watch;
            self.all.hear(&[News { watch, opened: true, closed: false }], &Rc::default());
            self.all.all.iter().position(|a| a.fifo.watch == watch).unwrap()
        }

        /// `pid` opens the next fifo, is seen, and is offered so many tokens.
        fn client(&mut self, pid: i32, tokens: i64) -> usize {
            let at = self.opened();
            self.look(&[(at, &[pid])], &[], &[]);
            assert!(tokens == 0 || self.all.all[at].put(tokens, Instant::now()) == tokens);
            at
        }

        /// The fifo that all of the job inherits.
        fn inherited(&mut self) -> usize {
            let at = self.opened();
            self.all.all[at].inherited = true;
            self.look(&[(at, &[20, 21])], &[], &[]);
            at
        }

        fn closed(&mut self, at: usize) {
            let watch = self.all.all[at].fifo.watch;
            self.all.hear(&[News { watch, opened: false, closed: true }], &Rc::default());
        }

        /// A look in which these have these fifos open, these live without one, and these are orphans. Answers how many
        /// tokens came back.
        fn look(&mut self, holders: &[(usize, &[i32])], living: &[i32], orphans: &[i32]) -> i64 {
            let holders: Vec<_> = holders.iter().map(|(at, pids)| (self.all.all[*at].fifo.inode, *pids)).collect();
            let before: Vec<_> = self.all.all.iter().map(|a| (a.opens, a.closes)).collect();
            self.all.count(Instant::now());
            self.all.judge(&Seen::made_up(&holders, living, orphans), &before)
        }

        fn takes(&mut self, at: usize) {
            assert_eq!(self.all.all[at].fifo.take(1), 1);
            self.all.count(Instant::now());
        }

        fn gives(&mut self, at: usize) {
            assert_eq!(self.all.all[at].fifo.put(1), 1);
            self.all.count(Instant::now());
        }

        /// Of one fifo: what is given and what is in it, by the books, and what is really in it.
        fn of(&self, at: usize) -> (i64, i64, i64) {
            let a = &self.all.all[at];
            (a.given, a.bytes, a.fifo.bytes())
        }
    }

    #[test]
    fn i1_what_a_dead_client_had_comes_back_and_what_it_left_is_taken_out() {
        let mut books = Books::new();
        let at = books.client(20, 3);
        books.takes(at);
        books.takes(at);
        assert_eq!((books.of(at), books.all.most), ((3, 1, 1), 3));
        books.closed(at);
        assert_eq!(books.look(&[], &[], &[]), 2);
        assert_eq!((books.of(at), books.all.all[at].state), ((0, 0, 0), State::Free));
        assert_eq!((books.all.given(), books.all.recovered), (0, 2));
    }

    #[test]
    fn i1_nothing_comes_back_while_a_client_has_the_fifo_open_or_lives() {
        let mut books = Books::new();
        let at = books.client(20, 1);
        books.takes(at);
        // One of two clients that share it closes it.
        books.closed(at);
        assert_eq!((books.look(&[(at, &[20])], &[], &[]), books.all.all[at].state), (0, State::Busy));
        books.closed(at);
        assert_eq!((books.look(&[], &[20], &[]), books.all.all[at].state), (0, State::Away));
        assert_eq!(books.all.given(), 1);
        assert_eq!((books.look(&[], &[], &[]), books.all.given()), (1, 0));
    }

    #[test]
    fn i1_who_opens_it_while_it_is_looked_at_is_not_judged() {
        let mut books = Books::new();
        let at = books.client(20, 1);
        books.takes(at);
        books.closed(at);
        let before: Vec<_> = books.all.all.iter().map(|a| (a.opens, a.closes)).collect();
        let watch = books.all.all[at].fifo.watch;
        books.all.hear(&[News { watch, opened: true, closed: false }], &Rc::default());
        assert_eq!(books.all.judge(&Seen::default(), &before), 0);
        assert_eq!((books.all.all[at].state, books.all.given()), (State::Busy, 1));
        assert!(books.all.all[at].is_unclear());
    }

    #[test]
    fn i2_a_lost_token_stays_away_as_long_as_an_orphan_that_was_not_there() {
        let mut books = Books::new();
        let at = books.opened();
        books.look(&[(at, &[20])], &[], &[7]);
        for _ in 0..2 {
            assert_eq!(books.all.offer(1, Instant::now()), 1);
            books.takes(at);
        }
        books.closed(at);
        assert_eq!((books.look(&[], &[], &[7, 21]), books.all.given()), (1, 1));
        assert_eq!((books.look(&[], &[], &[7]), books.all.given()), (1, 0));
    }

    #[test]
    fn i3_what_nobody_was_given_is_taken_out() {
        let mut books = Books::new();
        let at = books.client(20, 1);
        for _ in 0..3 {
            books.gives(at);
        }
        assert_eq!((books.of(at), books.all.given()), ((1, 1, 1), 1));
    }

    #[test]
    fn i3_a_token_may_be_given_back_in_another_fifo() {
        // By a client that has both.
        let mut books = Books::new();
        let (one, two) = (books.client(20, 1), books.client(20, 0));
        books.takes(one);
        books.gives(two);
        assert_eq!((books.of(one), books.of(two)), ((0, 0, 0), (1, 1, 1)));
        // By a client that closed the fifo from which it was taken.
        let mut books = Books::new();
        let one = books.client(20, 1);
        books.takes(one);
        books.closed(one);
        books.look(&[], &[20], &[]);
        let two = books.client(20, 0);
        assert_eq!(books.all.all[one].state, State::Away);
        books.gives(two);
        assert_eq!((books.all.all[one].state, books.of(one), books.of(two)), (State::Free, (0, 0, 0), (1, 1, 1)));
    }

    #[test]
    fn i3_whose_a_token_is_is_not_decided_before_it_is_known_who_has_the_fifos() {
        let mut books = Books::new();
        let one = books.client(20, 1);
        books.takes(one);
        // Opened again, by an unknown process; it may be the one that gives now in another.
        let watch = books.all.all[one].fifo.watch;
        books.all.hear(&[News { watch, opened: true, closed: false }], &Rc::default());
        let two = books.client(30, 0);
        books.gives(two);
        assert_eq!((books.of(one), books.of(two)), ((1, 0, 0), (0, 1, 1)));
        books.look(&[(one, &[30])], &[], &[]);
        books.all.count(Instant::now());
        assert_eq!((books.of(one), books.of(two)), ((0, 0, 0), (1, 1, 1)));
    }

    #[test]
    fn i4_nothing_is_offered_before_it_is_known_who_has_the_fifo() {
        let mut books = Books::new();
        let at = books.opened();
        assert_eq!(books.all.offer(1, Instant::now()), 0);
        books.look(&[(at, &[20])], &[], &[]);
        assert_eq!(books.all.offer(1, Instant::now()), 1);
        assert_eq!(books.of(at), (1, 1, 1));
    }

    #[test]
    fn a_fifo_that_perhaps_nobody_uses_has_a_seldom_turn_beside_others() {
        let (mut books, now) = (Books::new(), Instant::now());
        let shared = books.inherited();
        assert_eq!(books.all.offer(7, now), 7, "there is no other client");
        let other = books.client(30, 0);
        let later = now + Duration::from_secs(1);
        assert_eq!(books.all.visit(later), Some(later + REST));
        assert_eq!((books.all.offer(7, later), books.of(shared).0, books.of(other).0), (7, 0, 7));
        for (at, has) in [(later + REST, 1), (later + REST + TURN / 2, 1), (later + REST + TURN, 0)] {
            assert!(books.all.visit(at) > Some(at));
            assert_eq!((books.of(shared).0, books.of(other).0), (has, 6));
        }
        // Once it was used, it is a client like the others.
        books.all.all[other].withdraw();
        books.all.all[shared].put(1, now);
        books.takes(shared);
        assert_eq!(books.all.visit(later + Duration::from_secs(9)), None);
        assert_eq!(books.all.offer(6, now), 3);
        assert_eq!(books.all.offer(3, now), 1);
        assert!(books.of(shared).1 > 0 && books.of(other).1 > 0);
    }

    #[test]
    fn a_fifo_that_is_only_written_to_is_offered_nothing() {
        let mut books = Books::new();
        let (reads, writes) = (books.client(20, 0), books.client(20, 0));
        books.all.all[writes].reads = false;
        assert_eq!((books.all.offer(2, Instant::now()), books.of(reads).0, books.of(writes).0), (2, 2, 0));
        assert!(!books.all.is_uneven());
    }

    #[test]
    fn a_fifo_has_room_for_what_its_client_gives_back() {
        let mut books = Books::new();
        let at = books.client(20, 0);
        assert_eq!(books.all.offer(65_535, Instant::now()), MOST_OFFERED);
        assert_eq!(books.all.offer(1, Instant::now()), 0);
        // It takes them all, is offered more, takes those, and gives all back.
        for _ in 0..2 {
            assert_eq!(books.all.all[at].fifo.take(MOST_OFFERED as usize) as i64, MOST_OFFERED);
            books.all.count(Instant::now());
            books.all.offer(MOST_OFFERED, Instant::now());
        }
        for _ in 0..3 {
            books.all.all[at].fifo.put(20_000);
            books.all.count(Instant::now());
            assert!(books.of(at).2 <= MOST_OFFERED);
        }
    }
}
