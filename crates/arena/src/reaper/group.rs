//! Watching a group of members: as many as one sleep (futex_waitv) has room for.
//!
//! `I1` to `I3` are those of the reaper's head.

use super::pace::{BACKSTOP_NS, ENOUGH, POLL_NS, patience, soon};
use super::tally::Tally;
use crate::layout::Member;
use crate::layout::MemberKind;
use crate::map::{Map, Standing};
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::futex::{self, Scope, Wait};
use chappe_plat::life::PassOn;
use chappe_plat::{clock, process, quiet};

/// A death: slot, generation.
type Death = (u32, u32);

/// A sleep that only the backstop ended: the words that were slept on, and whether each still had the same value then. A later death would
/// have woken the reaper, and is found by the look that follows in any case.
struct Late(Vec<(*const AtomicU32, bool)>);

impl Late {
    /// Whether this explains a death that is found now: its life word was slept on, and had not changed.
    fn came_first(&self, m: &Member) -> bool {
        let same = |word: &AtomicU32| self.0.iter().find(|w| std::ptr::eq(w.0, word)).map(|w| w.1);
        same(m.life.word()) == Some(true) && same(m.tgid_word.word()) != Some(false)
    }
}

/// What one thread watches.
pub(super) struct Group {
    map: &'static Map,
    index: u32,
    /// Whether it is itself a member of the arena.
    attached: bool,
    late: Option<Late>,
    /// The deaths that the last round found. A death that is found again, because the claimer of the slot makes no progress, is nothing
    /// new, and no reason not to sleep.
    known: Vec<Death>,
    /// When it last looked for members that died unmarked.
    #[cfg(not(feature = "sim"))]
    looked: u64,
    /// How many looks at a process that may be gone were in vain.
    looks: u32,
    /// The members of other PID namespaces that it cannot judge, and for which it has called.
    called_for: Vec<Death>,
    /// There are members that no thread watches: it must not sleep for long.
    pub hurries: bool,
}

/// The body of a thread that watches a group. It ends some time after the arena was removed.
pub(super) fn watch(w: &'static Tally, map: &'static Map, index: u32) {
    let _serves = quiet::serves_others();
    let mut group = Group::new(map, index);
    let mut removed = 0;
    while removed < ENOUGH {
        group.take_attachment();
        let roster = group.roster();
        group.round(w, roster, &[], None);
        removed += u32::from(group.late.is_some() && map.mark() == Standing::Removed);
    }
}

impl Group {
    pub fn new(map: &'static Map, index: u32) -> Group {
        Group {
            map,
            index,
            attached: false,
            late: None,
            known: Vec::new(),
            #[cfg(not(feature = "sim"))]
            looked: clock::now(),
            looks: 0,
            called_for: Vec::new(),
            hurries: false,
        }
    }

    /// I3. If all slots are taken, it watches without an attachment: then only the backstop passes on a wake that it took along.
    pub fn take_attachment(&mut self) {
        // Not in an arena that is being removed, or was: a joiner would wait for the remover.
        let may = self.map.scope() == Scope::Shared && self.map.mark() == Standing::Serving;
        self.attached = self.attached || may && self.map.join(MemberKind::Reaper, "chappe-reaper").is_ok();
    }

    /// The roster's number, which changes when a member joins: read before the look at the members, I1.
    pub fn roster(&self) -> u32 {
        // Acquire: pairs with `ring_group`.
        self.map.roster(self.index).load(Ordering::Acquire)
    }

    /// Looks at all members of the group, recovers the dead, and sleeps: on their words, the roster as it was, and `others`. If the thread
    /// dies in that sleep, the kernel wakes one sleeper on `baton`.
    pub fn round(
        &mut self,
        w: &Tally,
        roster: u32,
        others: &[(&AtomicU32, u32)],
        baton: Option<(&PassOn, &AtomicU32)>,
    ) {
        let map = self.map;
        let mut words = vec![(map.roster(self.index), roster)];
        words.extend_from_slice(others);
        let (mut unsure, mut again, mut missed) = (false, false, false);
        let (late, mut found) = (self.late.take(), Vec::new());
        let first = self.index * map.group();
        let members = first..map.members_used().min(first + map.group());
        #[cfg(not(feature = "sim"))]
        if clock::now() - self.looked >= BACKSTOP_NS {
            self.looked = clock::now();
            // A member that died unmarked wakes no thread (repair.rs).
            members.clone().for_each(|i| _ = map.mark_lost(i));
        }
        for i in members.clone() {
            map.notice_exec(i);
            if let Some(generation) = map.dead(i) {
                let death = (i, generation);
                missed |= !self.known.contains(&death) && late.as_ref().is_some_and(|l| !l.came_first(map.member(i)));
                found.push(death);
                map.sweep(i, generation);
            }
        }
        for i in members.clone() {
            let m = map.member(i);
            let mut watched = [false; 2];
            for (lock, watched) in [&m.life, &m.tgid_word].into_iter().zip(&mut watched) {
                if let Some(value) = lock.watch() {
                    *watched = true;
                    words.push((lock.word(), value));
                }
            }
            if map.unconfirmed(i) {
                unsure = true;
                self.call_for(i);
            }
            // Died since the look above: a word that was marked, or free, wakes no thread. A thread that has claimed it since then may die
            // too. (A slot that was written over has no owner, ever.)
            if !watched[0]
                && map.is_intact(i)
                && let Some(generation) = map.dead(i)
            {
                // A death that two rounds have found cannot be cleaned for now: a thread is in the slot's gate, or this one may not claim
                // its words. What the member held has been given back.
                let is_stuck = self.known.contains(&(i, generation)) && found.contains(&(i, generation));
                unsure |= is_stuck;
                again |= !is_stuck;
            }
            again |= map.notice_exec(i);
        }
        let fresh = found.iter().filter(|death| !self.known.contains(death)).count();
        self.known = found;
        w.found(fresh);
        if missed {
            w.missed();
        }
        if fresh > 0 || again {
            // What was recovered may have been all that kept another death from being seen: look once more.
            return;
        }
        self.looks = if unsure { self.looks + 1 } else { 0 };
        // There are a sixtieth as many of these threads as reapers that stand by: they may look twice as often.
        let longest = if self.index == 0 { BACKSTOP_NS } else { (patience(map) / 2).max(BACKSTOP_NS) };
        let longest = if self.hurries { POLL_NS } else { longest };
        let at_most = if unsure { soon(self.looks) } else { longest };
        if let Some((pass_on, word)) = baton {
            pass_on.to(word);
        }
        self.late = self.sleep(&words, at_most, members).filter(|_| !unsure);
    }

    /// Calls the reapers for a process of another PID namespace whose word no thread holds any more: only those of its namespace can judge
    /// it.
    pub fn call_for(&mut self, i: u32) {
        let m = self.map.member(i);
        // Acquire: as in `dead`.
        let case = (i, (m.ident.load(Ordering::Acquire) >> 32) as u32);
        // Relaxed: published by ident.
        if m.namespace.load(Ordering::Relaxed) != process::namespace() && !self.called_for.contains(&case) {
            self.called_for.retain(|(of, _)| *of != i);
            self.called_for.push(case);
            self.map.call_reapers();
        }
    }

    fn sleep(&self, words: &[(&AtomicU32, u32)], at_most: u64, members: std::ops::Range<u32>) -> Option<Late> {
        match futex::wait_any(words, Some(clock::now() + at_most), Scope::Shared) {
            Wait::TimedOut => {
                // Acquire: as every look at them.
                let same = |(word, seen): &(&AtomicU32, u32)| {
                    (std::ptr::from_ref(*word), word.load(Ordering::Acquire) == *seen)
                };
                Some(Late(words.iter().map(same).collect()))
            }
            Wait::Unsupported => {
                // Relaxed: a wrong id is corrected by the roster's ring.
                poll_exits(members.map(|i| self.map.member(i).pid.load(Ordering::Relaxed)).collect());
                None
            }
            _ => None,
        }
    }
}

/// Sleeps until one of the processes ends, at most [`POLL_NS`].
fn poll_exits(mut pids: Vec<u32>) {
    pids.sort_unstable();
    pids.dedup();
    pids.retain(|p| *p != 0 && *p != process::pid());
    let fds: Vec<_> = pids.iter().filter_map(|p| process::watch_exit(*p).ok()).collect();
    let gone = fds.len() < pids.len();
    let list: Vec<_> = fds.iter().collect();
    process::poll_readable(&list, if gone { 1 } else { (POLL_NS / 1_000_000) as i32 });
}
