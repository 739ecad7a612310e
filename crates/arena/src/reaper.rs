//! The reaper: one thread for each process and arena in which the process has a waiter. It detects
//! deaths, and recovers dead members for all processes. (Terms: `book/src/glossary.md`. A *robust*
//! word is one that the kernel marks when the thread that owns it ends.)
//!
//! A waiter sleeps on its own wait word and can see nothing else. The deaths that it cannot see (of the holder it waits for, of the poster
//! that granted it and had not yet woken it, of a recoverer) are seen by a reaper. One reaper of an arena is its *watcher*: it watches the
//! members for all processes. The others *stand by*: they sleep until the watcher dies. So a waiting process costs next to nothing, however
//! many there are.
//!
//! ```text
//!     header.watch, a robust word: owned by the watcher's thread      header.call
//!          |  marked by the kernel at its death                            |  "look, all of you": orphaned leases,
//!          v                                                               v   members that the watcher cannot judge
//!     reapers that stand by sleep on watch, baton (for the death of one of them, I4), call
//!
//!     the watcher's process: one thread a group of 60 member slots (group.rs), which sleeps on their life words and
//!     on the group's roster (somebody has joined). The watcher itself is the thread of group 0.
//! ```
//!
//! - I1: before it sleeps, a reaper has looked at everything that it watches, and it passes the values that it saw to the sleep: a death in
//!   between makes the kernel refuse the sleep. So it does not matter for which word a wake was reported, or that futex_waitv swallows some
//!   wakes.
//! - I2: the kernel wakes one sleeper on a marked word, and never another for that death. A thread that takes the wake and dies before it
//!   has recovered must pass it on.
//! - I3: watching threads pass it on by a robust word of their own: the kernel marks that after
//!   they have left the futex. The watcher owns `watch`, and its successor looks at everything. The
//!   threads of the other groups are members of the arena (`MemberKind::Reaper`), and a thread that
//!   sweeps one of them makes every group look once more. If they die after the watcher of their
//!   process, its successor watches the group in which they are members. (A thread of a group that
//!   finds no free member slot watches without one: if it takes a wake and dies, the death is found
//!   only when another watching thread's sleep ends by time.)
//! - I4: a reaper that stands by passes it on by the kernel's pending entry (`PassOn`): when it dies, the kernel wakes one sleeper on
//!   `baton`. That sleeper finds `watch` marked and takes it, or finds the watcher alive. So the death of a reaper that stands by wakes one
//!   other, for a few instructions.
//! - I5: a reaper that is awake and stands by does not sleep for long while no living thread owns
//!   `watch`. It takes `watch`; or, if another thread is in the gate that this needs (gate.rs), it
//!   tries again at once, and then after each millisecond.
//! - I6: a watcher that is *stopped* finds nothing. It counts `beat` up at least once a second, and
//!   each reaper that stands by checks that at intervals: a second, or, if that is longer, 8 ms
//!   times the number of members (33 s at most), so that all of them together cost little. If
//!   `beat` stands still at a check, and a member is dead, the reaper waits for 5 ms. If the member
//!   is still not recovered, the reaper watches as well from then on, until it becomes the watcher.
//!   So with a stopped watcher a death is found at the second check after it at the latest. This is
//!   the backstop; tests count how often it finds anything: `backstops`. A reaper also watches
//!   beside, without a check, if `watch` cannot be claimed, because the gates cannot be had or the
//!   word is damaged.
//!
//! A watcher in another PID namespace may be unable to tell whether a process is gone. It calls (`header.call`), and the reapers of that
//! process's namespace look.
//!
//! - I7: where the system refuses the thread of a group, the reaper itself looks at the members of all groups that have none, twenty times a second,
//!   and tries again each time: no member is unwatched because another thread was refused.
//!
//! A private arena's members are threads of one process: its reaper watches at once.
//!
//! Without futex_waitv (before Linux 5.16, or forced off) a watching thread polls the processes by pidfd, and looks at the words twenty
//! times a second for deaths of single threads.

mod group;
mod pace;
mod tally;

use crate::gate;
use crate::layout::REMOVED;
use crate::map::{Map, Standing};
use chappe_plat::atomic::Ordering;
use chappe_plat::futex::{self, Scope, Wait};
use chappe_plat::life::{Claim, PassOn};
use chappe_plat::{Life, clock, light, process, quiet, step, thread};
use group::Group;
use pace::{BACKSTOP_NS, CONFIRM_NS, ENOUGH, POLL_NS, patience, soon};
use std::io;
use std::sync::{Mutex, PoisonError};
use tally::Tally;

/// After this time a reaper tries again to become the watcher.
const AGAIN_NS: u64 = 1_000_000;
/// In one of so many looks a reaper that stands by does what the watcher does in each.
const SELDOM: u32 = 8;
/// The reapers of a process, and their counts.
pub struct Watch {
    /// The arenas that have a reaper, and in which incarnation of the process: a forked child has its parent's list, but not its parent's
    /// threads.
    maps: Mutex<Vec<(u64, &'static Map)>>,
    tally: Tally,
}

impl Default for Watch {
    fn default() -> Self {
        Watch::new()
    }
}

impl Watch {
    /// Watches nothing yet.
    pub const fn new() -> Watch {
        Watch { maps: Mutex::new(Vec::new()), tally: Tally::new() }
    }

    /// Makes sure that this process has a reaper for the arena.
    ///
    /// # Errors
    /// The system's, when it refuses a thread.
    pub fn add(&'static self, map: &'static Map) -> io::Result<()> {
        let mut maps = light::lock(&self.maps);
        let here = process::incarnation();
        maps.retain(|(of, _)| *of == here);
        if !maps.iter().any(|(_, m)| std::ptr::eq(*m, map)) {
            thread::background("chappe-reaper", move || {
                let _serves = quiet::serves_others();
                watch(self, map);
                let mut maps = light::lock(&self.maps);
                maps.retain(|(_, m)| !std::ptr::eq(*m, map));
            })?;
            maps.push((here, map));
        }
        Ok(())
    }

    /// Waits until no thread of this process holds the lock of this list, and keeps it held while the answer lives.
    pub fn quiet(&'static self) -> impl Sized + 'static {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many dead members were found.
    pub fn sweeps(&self) -> u64 {
        self.tally.sweeps()
    }

    /// How many times only the backstop found something.
    pub fn backstops(&self) -> u64 {
        self.tally.backstops()
    }
}

/// The body of an arena's reaper thread. It ends some time after the arena was removed, when all waiters have been told.
pub fn watch(w: &'static Watch, map: &'static Map) {
    let private = map.scope() == Scope::Private;
    let mut me = Reaper {
        w: &w.tally,
        map,
        role: if private { Role::Watcher } else { Role::StandingBy },
        pass_on: PassOn::of_this_thread(),
        group: Group::new(map, 0),
        groups: 1,
        called: None,
        // Acquire: as in `look_after_the_watcher`.
        beat: map.header().beat.load(Ordering::Acquire),
        looks: 0,
        trusted: 0,
        looked: clock::now(),
        rest_looked: 0,
        rest_known: Vec::new(),
        removed: 0,
        missed: false,
    };
    while me.removed < ENOUGH {
        if !private && me.role != Role::Watcher {
            me.compete();
        }
        match me.role {
            Role::StandingBy => me.stand_by(),
            Role::Watcher | Role::Too => me.serve(),
        }
    }
    map.end_presence();
}

/// The role of a reaper.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It sleeps until the watcher dies.
    StandingBy,
    /// It watches, and owns `watch` where several processes have the arena.
    Watcher,
    /// It watches beside a watcher that is stopped, or because `watch` cannot be claimed.
    Too,
}

struct Reaper {
    w: &'static Tally,
    map: &'static Map,
    role: Role,
    pass_on: PassOn,
    group: Group,
    /// How many groups are watched by threads of this process.
    groups: u32,
    /// The last call that was heeded.
    called: Option<u32>,
    /// The watcher's beat as it was at the last look.
    beat: u32,
    /// How many looks at processes that only this reaper can judge were in vain; 0: there are no such processes.
    looks: u32,
    /// At how many checks in a row the watcher's beat had advanced.
    trusted: u32,
    /// When it last checked the watcher, or looked at the arena as a whole.
    looked: u64,
    /// When it last looked at the members of groups without a thread, and the deaths that it found there.
    rest_looked: u64,
    rest_known: Vec<(u32, u32)>,
    /// How many of these looks found the arena removed.
    removed: u32,
    /// The last attempt to sleep on the watcher found no living watcher.
    missed: bool,
}

impl Reaper {
    /// I5: becomes the watcher, if there is none.
    fn compete(&mut self) {
        let (lock, map) = (&self.map.header().watch, self.map);
        if matches!(lock.probe(), Life::Alive(_)) {
            return;
        }
        let gates = map.gates();
        if let Ok(gates) = &gates
            && let Some(_pass) = gates.try_pass(gate::WATCH)
            // G2 of the gates.
            && !matches!(lock.probe(), Life::Alive(_))
            && lock.try_claim() != Claim::Busy
        {
            self.pass_on.to_nobody();
            // Relaxed: a wrong value is corrected by the next call.
            map.header().watcher.store(process::namespace(), Ordering::Relaxed);
            step!("watches from now on, has not yet looked");
            self.role = Role::Watcher;
            // At once, however many groups there are: each has a thread, and soon looks once more.
            let mut found = 0;
            map.recover_each(|_, _| found += 1);
            self.w.found(found);
        } else if gates.is_err() || !lock.is_whole() {
            self.role = Role::Too;
        }
    }

    /// Sleeps until there may be no watcher any more, or a call comes.
    fn stand_by(&mut self) {
        let header = self.map.header();
        // By the clock: a reaper that is woken all the time checks all the same.
        if self.looks == 0 && clock::now() - self.looked >= patience(self.map) {
            self.look_after_the_watcher();
            if self.role != Role::StandingBy {
                return;
            }
        }
        // Acquire: pairs with `call_reapers`; before the look at the call's cause, I1.
        let call = header.call.load(Ordering::Acquire);
        if self.called != Some(call) || self.looks > 0 {
            (self.map.hooks.leases)(self.map);
            self.judge_kin();
            self.called = Some(call);
        }
        // I4: before the sleep, and until `watch` is owned or slept on again.
        self.pass_on.to(&header.baton);
        let Some(watcher) = header.watch.watch() else {
            // The watcher has just died: this reaper may be the next. If not, another thread is in the gate, or has given up there.
            if !std::mem::replace(&mut self.missed, true) {
                return;
            }
            futex::wait(&header.baton, 0, Some(clock::now() + AGAIN_NS), Scope::Shared);
            return;
        };
        self.missed = false;
        let at_most = if self.looks > 0 { soon(self.looks) } else { patience(self.map) };
        // The baton before the watcher's word: whoever is woken for that one's death may die before this reaper sleeps on the words that follow.
        let words = [(&header.baton, 0), (&header.call, call), (header.watch.word(), watcher)];
        if futex::wait_any(&words, Some(clock::now() + at_most), Scope::Shared) == Wait::Unsupported {
            futex::wait(header.watch.word(), watcher, Some(clock::now() + POLL_NS), Scope::Shared);
        }
    }

    /// Recovers the dead processes of this PID namespace that a watcher in another namespace cannot judge.
    fn judge_kin(&mut self) {
        // Relaxed, both: see `compete`; published by ident.
        let is_kin = |i: &u32| self.map.member(*i).namespace.load(Ordering::Relaxed) == process::namespace();
        // Relaxed: as above.
        if self.map.header().watcher.load(Ordering::Relaxed) == process::namespace() {
            self.looks = 0;
            return;
        }
        let mut unsure = false;
        for i in (0..self.map.members_used()).filter(is_kin) {
            // First: a process that goes between the two looks is found dead by the second one, or by a look that this one asks for.
            unsure |= self.map.unconfirmed(i);
            if let Some(generation) = self.map.dead(i) {
                self.w.found(1);
                self.map.sweep(i, generation);
            }
        }
        self.looks = if unsure { self.looks + 1 } else { 0 };
    }

    /// Looks at the arena as a whole: whether it is being removed, or its file is gone.
    fn look_after_the_arena(&mut self) {
        let map = self.map;
        self.looked = clock::now();
        // SeqCst: the remover may have died before it had told all waiters.
        if map.header().state.load(Ordering::SeqCst) == REMOVED {
            map.notify_all_dead();
            self.removed += 1;
        } else if !map.is_lasting() && map.is_unlinked() && map.standing() == Standing::Serving {
            // Two arenas of one name must not both serve: this one stops.
            // SeqCst: before the burial looks for waiters.
            map.header().state.store(REMOVED, Ordering::SeqCst);
            map.notify_all_dead();
        } else if map.mark() == Standing::Undecided {
            // A remover that died undecided is undone; a living one is not waited for.
            map.standing_within(std::time::Duration::ZERO);
        }
    }

    /// I6: if the watcher does nothing, and a death stays undetected for it, watches as well from now on.
    fn look_after_the_watcher(&mut self) {
        self.looked = clock::now();
        // Acquire: what the watcher has done before.
        let beat = self.map.header().beat.load(Ordering::Acquire);
        let is_watched = std::mem::replace(&mut self.beat, beat) != beat;
        self.trusted = if is_watched { self.trusted + 1 } else { 0 };
        // Now and then in any case: the watcher may be unable to see the file.
        if self.trusted.is_multiple_of(SELDOM) || self.map.mark() == Standing::Removed {
            self.look_after_the_arena();
            (self.map.hooks.leases)(self.map);
            #[cfg(not(feature = "sim"))]
            self.map.mark_all_lost(true);
        }
        if is_watched {
            return;
        }
        let map = self.map;
        let unfound: Vec<(u32, u32)> = (0..map.members_used()).filter_map(|i| Some((i, map.dead(i)?))).collect();
        if unfound.is_empty() {
            return;
        }
        // The watcher may be about to.
        futex::wait(&map.header().baton, 0, Some(clock::now() + CONFIRM_NS), Scope::Shared);
        if unfound.iter().any(|(i, generation)| map.dead(*i) == Some(*generation)) {
            self.w.missed();
            self.role = Role::Too;
        }
    }

    /// Watches, and makes sure that each group is watched.
    fn serve(&mut self) {
        let header = self.map.header();
        // Acquire: pairs with `call_reapers`; before the look at the call's cause, I1.
        let call = header.call.load(Ordering::Acquire);
        let thorough = clock::now() - self.looked >= BACKSTOP_NS;
        if thorough {
            self.look_after_the_arena();
        }
        if thorough || self.called != Some(call) {
            (self.map.hooks.leases)(self.map);
            self.called = Some(call);
        }
        let roster = self.group.roster();
        // After the roster was read: a member that joins in a group without a thread rings this roster.
        self.begin_groups();
        self.look_at_the_rest(thorough);
        if self.role == Role::Watcher {
            // Release: after what was done.
            header.beat.fetch_add(1, Ordering::Release);
            self.group.round(self.w, roster, &[(&header.call, call)], None);
            return;
        }
        self.group.take_attachment();
        let mut words = vec![(&header.call, call), (&header.baton, 0)];
        words.extend(header.watch.watch().map(|watcher| (header.watch.word(), watcher)));
        self.group.round(self.w, roster, &words, Some((&self.pass_on, &header.baton)));
    }

    /// I7: looks at the members of the groups that have no thread.
    fn look_at_the_rest(&mut self, thorough: bool) {
        let map = self.map;
        let rest = self.groups * map.group()..map.members_used();
        self.group.hurries = !rest.is_empty();
        // However often it is woken meanwhile.
        if rest.is_empty() || !thorough && self.rest_looked != 0 && clock::now() - self.rest_looked < POLL_NS {
            return;
        }
        self.rest_looked = clock::now();
        let mut found = Vec::new();
        for i in rest {
            #[cfg(not(feature = "sim"))]
            if thorough {
                map.mark_lost(i);
            }
            map.notice_exec(i);
            if let Some(generation) = map.dead(i) {
                found.push((i, generation));
                map.sweep(i, generation);
            }
            if map.unconfirmed(i) {
                self.group.call_for(i);
            }
        }
        self.w.found(found.iter().filter(|death| !self.rest_known.contains(death)).count());
        self.rest_known = found;
    }

    /// Starts a thread for each group that has members and no thread yet. If the system refuses, the next round tries again: I7.
    fn begin_groups(&mut self) {
        let (w, map) = (self.w, self.map);
        while self.groups < map.members_used().div_ceil(map.group()) {
            let index = self.groups;
            if thread::background("chappe-watcher", move || group::watch(w, map, index)).is_err() {
                break;
            }
            self.groups += 1;
        }
    }
}
