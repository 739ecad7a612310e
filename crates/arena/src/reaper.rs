//! The reaper: one thread in each process that has a waiter, which sees deaths and recovers on behalf of all.
//!
//! A waiter sleeps on its own wait word and can see nothing else. What it cannot see (the holder it waits for
//! dies, the poster that granted it dies before the wake, a recoverer dies) is seen here: the reaper sleeps on
//! the life words of all members of all arenas of the process, on each arena's roster (it changes when
//! somebody joins or there is a new thing to watch) and on a word of its own.
//!
//! - I1: before it sleeps it has looked at everything with the values it sleeps on: a death in between makes
//!   the kernel refuse the sleep. So it does not matter which word a wake was reported for, or that futex_waitv
//!   swallows some.
//! - I2: the kernel wakes one sleeper on a marked word, and never another for that death. A reaper that takes the wake
//!   and dies before it has recovered must pass it on.
//! - I3: so a reaper is itself a member of each named arena it watches. Its own word is marked after it has left the
//!   futex, and wakes another reaper, which looks at everything. (The words of its process's other threads do not
//!   do: they may have been marked, and looked at, before it took the wake.)
//! - A reaper that is *stopped* after taking the one wake leaves the others asleep until their backstop, one
//!   second. Tests count how often that finds anything: `backstops`.
//!
//! 126 words fit beside the roster and the kick. Beyond that a second thread watches the other members'
//! processes by pidfd, level-triggered. Without futex_waitv (before Linux 5.16, or forced off) the reaper itself
//! does that for all, and looks at the words twenty times a second for deaths of single threads.

use crate::layout::Member;
use crate::map::{Map, Standing};
use crate::member::Seat;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::futex::{self, Scope, Wait};
use chappe_plat::{clock, process};
use std::sync::{Mutex, PoisonError};

/// How long a reaper sleeps at most.
pub const BACKSTOP_NS: u64 = 1_000_000_000;
/// How soon it looks again whether a process is gone.
const CONFIRM_NS: u64 = 5_000_000;
/// After so many looks in vain it waits twice as long.
const OFTEN: u32 = 64;
const POLL_MS: i32 = 50;

/// What one reaper watches, and what it has seen.
pub struct Watch {
    maps: Mutex<Vec<&'static Map>>,
    kick: AtomicU32,
    overflow: Mutex<Overflow>,
    /// Counted up when the overflow is another one: its watcher sleeps on this while there is none.
    overflows: AtomicU32,
    sweeps: AtomicU64,
    backstops: AtomicU64,
}

/// Processes beyond what fits into one sleep.
struct Overflow {
    /// The process whose second thread looks after them; 0 for none yet.
    watcher: u64,
    pids: Vec<u32>,
}

impl Default for Watch {
    fn default() -> Self {
        Watch::new()
    }
}

impl Watch {
    /// Watches nothing yet.
    pub const fn new() -> Watch {
        Watch {
            maps: Mutex::new(Vec::new()),
            kick: AtomicU32::new(0),
            overflow: Mutex::new(Overflow { watcher: 0, pids: Vec::new() }),
            overflows: AtomicU32::new(0),
            sweeps: AtomicU64::new(0),
            backstops: AtomicU64::new(0),
        }
    }

    /// Adds an arena; the reaper looks at once.
    pub fn add(&self, map: &'static Map) {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        if maps.iter().any(|m| std::ptr::eq(*m, map)) {
            return;
        }
        maps.push(map);
        drop(maps);
        self.kick();
    }

    /// Waits until no thread of this process is within its short sections, and keeps it so while the answer lives.
    pub fn quiet(&'static self) -> impl Sized + 'static {
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        (maps, self.overflow.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the reaper look again.
    pub fn kick(&self) {
        // Release: what was changed before is seen by the reaper's look.
        self.kick.fetch_add(1, Ordering::Release);
        futex::wake(&self.kick, u32::MAX, Scope::Shared);
    }

    /// How many dead members it found.
    pub fn sweeps(&self) -> u64 {
        // Relaxed: a count.
        self.sweeps.load(Ordering::Relaxed)
    }

    /// How many times only the backstop found something.
    pub fn backstops(&self) -> u64 {
        // Relaxed: a count.
        self.backstops.load(Ordering::Relaxed)
    }

    fn maps(&self) -> Vec<&'static Map> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The reaper's life: never returns.
pub fn watch(w: &'static Watch) -> ! {
    let (mut slept, mut looked, mut unsure) = (None, clock::now(), 0);
    let (mut seated, mut known) = (Vec::new(), Vec::new());
    loop {
        take_seats(w, &mut seated);
        // By the clock, too: who is woken all the time comes to it all the same.
        let thorough = slept.is_some() || clock::now() - looked >= BACKSTOP_NS;
        if thorough {
            looked = clock::now();
        }
        slept = round(w, slept, thorough, &mut known, &mut unsure);
    }
}

/// A sleep that only the backstop ended: the words that were slept on, and whether each said the same still by then. Who dies after
/// that would have woken the reaper, and is found by the look that follows all the same.
struct Late(Vec<(*const AtomicU32, bool)>);

impl Late {
    /// Whether that is all there is to a death that is found now: its life word was slept on, and nothing had happened to it.
    fn came_first(&self, m: &Member) -> bool {
        let same = |word: &AtomicU32| self.0.iter().find(|w| std::ptr::eq(w.0, word)).map(|w| w.1);
        same(m.life.word()) == Some(true) && same(m.twin.word()) != Some(false)
    }
}

/// A death: arena, slot, generation.
type Death = (u64, u32, u32);

/// I3. Where all slots are taken, the reaper does without: then only the backstop passes on a wake that it took along.
fn take_seats(w: &'static Watch, seated: &mut Vec<&'static Map>) {
    for map in w.maps() {
        let there = map.scope() == Scope::Private || seated.iter().any(|m| std::ptr::eq(*m, map));
        // Of one that is being removed, or was, none: to join it would be to wait for its remover.
        if !there && map.mark() == Standing::Serving && map.join(Seat::Reaper, "chappe-reaper").is_ok() {
            seated.push(map);
        }
    }
}

/// Looks at everything, recovers, sleeps. Answers whether the sleep ended by the backstop.
///
/// `known` are the deaths that the last round found: one that is found again, because whoever claimed the slot has
/// not got on, is nothing new, and no reason not to sleep.
fn round(
    w: &'static Watch,
    late: Option<Late>,
    thorough: bool,
    known: &mut Vec<Death>,
    looks: &mut u32,
) -> Option<Late> {
    // Acquire: pairs with `kick`.
    let mut words = vec![(&w.kick, w.kick.load(Ordering::Acquire))];
    let mut peers = Vec::new();
    let (mut unsure, mut again, mut missed) = (false, false, false);
    let mut found: Vec<Death> = Vec::new();
    let maps = w.maps();
    // All rosters before any member: the first words are those that are slept on for certain.
    for map in &maps {
        let roster = &map.header().roster;
        // Acquire: pairs with `ring_roster`; read before the look at the members, I1.
        words.push((roster, roster.load(Ordering::Acquire)));
    }
    // Named arenas first: of a private one's members this process is the only one to die.
    let (named, private): (Vec<&Map>, Vec<&Map>) = maps.iter().partition(|m| m.scope() == Scope::Shared);
    for map in named.into_iter().chain(private) {
        // SeqCst: whoever removed it may have died before it had told everybody.
        if thorough && map.header().state.load(Ordering::SeqCst) == crate::layout::REMOVED {
            map.bury_all();
        } else if thorough && !map.is_lasting() && map.is_unlinked() && map.standing() == Standing::Serving {
            // Two arenas of one name must not both serve: this one stops.
            // SeqCst: before the burial looks at who waits.
            map.header().state.store(crate::layout::REMOVED, Ordering::SeqCst);
            map.bury_all();
        } else if thorough && map.mark() == Standing::Undecided {
            // A remover that died undecided is undone; one that lives is not waited for.
            map.standing_within(std::time::Duration::ZERO);
        }
        #[cfg(not(feature = "sim"))]
        if thorough {
            map.mark_all_lost(true);
        }
        map.recover_each(|member, generation| {
            let death = (map.id(), member, generation);
            missed |= !known.contains(&death) && late.as_ref().is_some_and(|l| !l.came_first(map.member(member)));
            found.push(death);
        });
        (map.hooks.leases)(map);
        for i in 0..map.members_used() {
            let m = map.member(i);
            let mut watched = [false; 2];
            for (lock, watched) in [&m.life, &m.twin].into_iter().zip(&mut watched) {
                if let Some(value) = lock.watch() {
                    *watched = true;
                    words.push((lock.word(), value));
                    // Relaxed: a wrong number is corrected by the roster's ring.
                    peers.push(m.pid.load(Ordering::Relaxed));
                }
            }
            unsure |= map.unconfirmed(i);
            // Died since we looked: a word that was marked, or free, wakes nobody. Whoever has claimed it since then may die too.
            // (A slot that has been written over is nobody's for ever.)
            if !watched[0]
                && map.is_seat(i)
                && let Some(generation) = map.dead(i)
            {
                // One that two rounds have found cannot be cleaned for now: a thread stands in the slot's gate, or this one may
                // not claim its words. What it held has been given back.
                let death = (map.id(), i, generation);
                let is_stuck = known.contains(&death) && found.contains(&death);
                unsure |= is_stuck;
                again |= !is_stuck;
            }
            again |= map.notice_exec(i);
        }
    }
    let fresh = found.iter().filter(|death| !known.contains(death)).count();
    *known = found;
    // Relaxed: a count.
    w.sweeps.fetch_add(fresh as u64, Ordering::Relaxed);
    if missed {
        w.backstops.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
    }
    if fresh > 0 || again {
        // What was recovered may have been all that kept something from being seen: look once more.
        return None;
    }
    // As soon as the kernel has taken a process down, all is clear; of one that cannot be looked into nothing may be for long.
    *looks = if unsure { *looks + 1 } else { 0 };
    let soon = (CONFIRM_NS << (*looks / OFTEN).min(8)).min(BACKSTOP_NS);
    let slept = sleep(w, &words, peers, if unsure { soon } else { BACKSTOP_NS });
    slept.filter(|_| !unsure)
}

fn sleep(w: &'static Watch, words: &[(&AtomicU32, u32)], mut peers: Vec<u32>, at_most: u64) -> Option<Late> {
    let deadline = Some(clock::now() + at_most);
    let fixed = words.len() - peers.len();
    if futex::wait_any_supported() {
        let fits = futex::WAIT_ANY_MAX.saturating_sub(fixed).min(peers.len());
        let mut rest = peers.split_off(fits);
        rest.sort_unstable();
        rest.dedup();
        overflow(w, rest);
    }
    let first = &words[..words.len().min(futex::WAIT_ANY_MAX)];
    match futex::wait_any(first, deadline, Scope::Shared) {
        Wait::TimedOut => {
            // Acquire: as whoever looks at them.
            let same =
                |(word, seen): &(&AtomicU32, u32)| (std::ptr::from_ref(*word), word.load(Ordering::Acquire) == *seen);
            Some(Late(words.iter().map(same).collect()))
        }
        Wait::Unsupported => {
            poll_exits(&peers);
            None
        }
        _ => None,
    }
}

/// Has a second thread look after these processes, and after no others.
fn overflow(w: &'static Watch, rest: Vec<u32>) {
    let mut overflow = w.overflow.lock().unwrap_or_else(PoisonError::into_inner);
    // A forked child has its parent's list, and not its parent's thread. A refusal leaves the backstop.
    let here = process::incarnation();
    let wanted = !rest.is_empty() && overflow.watcher != here;
    if overflow.pids != rest {
        overflow.pids = rest;
        // Release: the watcher finds the new list.
        w.overflows.fetch_add(1, Ordering::Release);
        futex::wake(&w.overflows, 1, Scope::Shared);
    }
    if wanted && chappe_plat::thread::background("chappe-exits", move || watch_exits(w)).is_ok() {
        overflow.watcher = here;
    }
}

/// Sleeps until one of the processes ends, at most [`POLL_MS`]. Answers whether one did.
fn poll_exits(pids: &[u32]) -> bool {
    let mut pids = pids.to_vec();
    pids.sort_unstable();
    pids.dedup();
    pids.retain(|p| *p != process::pid());
    let fds: Vec<_> = pids.iter().filter_map(|p| process::watch_exit(*p).ok()).collect();
    let gone = fds.len() < pids.len();
    let list: Vec<_> = fds.iter().collect();
    process::poll_readable(&list, if gone { 1 } else { POLL_MS }).contains(&true) || gone
}

fn watch_exits(w: &'static Watch) {
    loop {
        // Acquire: before the list is read.
        let seen = w.overflows.load(Ordering::Acquire);
        let pids = w.overflow.lock().unwrap_or_else(PoisonError::into_inner).pids.clone();
        if pids.is_empty() {
            futex::wait(&w.overflows, seen, None, Scope::Shared);
        } else if poll_exits(&pids) {
            w.kick();
        }
    }
}

#[cfg(all(test, not(feature = "sim")))]
mod tests {
    use super::*;

    /// A list that stays is polled for good, every millisecond once one of its processes has ended.
    #[test]
    fn processes_that_fit_into_one_sleep_again_are_polled_no_more() {
        if !futex::wait_any_supported() {
            return;
        }
        let w: &'static Watch = Box::leak(Box::default());
        let word = AtomicU32::new(0);
        let watched = || w.overflow.lock().unwrap_or_else(PoisonError::into_inner).pids.clone();
        // No sleep: none holds what is expected.
        let sleep_on = |peers: usize| sleep(w, &vec![(&word, 1); peers + 2], vec![process::pid(); peers], 1);
        sleep_on(200);
        assert_eq!(watched(), [process::pid()], "the watcher has what is beyond");
        sleep_on(100);
        assert_eq!(watched(), [0; 0], "all fit into the sleep");
    }
}
