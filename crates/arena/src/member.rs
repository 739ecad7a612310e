//! Members: joining an arena, detecting a member's death, and recovering what a dead member held.
//!
//! A member is a slot whose life word a thread owns for as long as it is attached. The kernel marks the word at any death of the thread.
//! There is no heartbeat and no daemon. The system is asked only where a mark may be missing, or is not enough: see lost marks and
//! process members, below.
//!
//! `ident` names the occupant: `generation:32 | thread id:32`. What a member owns elsewhere (a cell, a reservation) carries the
//! generation, so that a later occupant of the slot is a different owner. Generations use 24 bits and then begin again at 1; 0 means
//! never used.
//!
//! ```text
//!               claim life              store ident(g+1, me)
//!   clean g ----------------> joining ----------------------> member g+1
//!     ^ ^                        |                              |     |
//!     | |  death: kernel marks   |                              |     | death: kernel marks
//!     | +------------------------+                              |     v
//!     |   (if g was not yet swept: unswept g)                   |   unswept g+1
//!     +-- clean g+1 <---- leave: swept = g+1, release ----------+     |
//!     +-- clean g+1 <---- sweep: recover, clear bits, swept = g+1, release
//! ```
//!
//! - I1: only the owner of `life` writes `ident`, `swept` and the slot's wait bits (but see I5). A slow recoverer can never clear the bit
//!   of a later occupant, because it clears bits only after it has claimed the life word.
//! - I2: generation g is dead if `ident` is still g's, `swept` is not g, and the life word is marked, names another thread (which is
//!   joining), or names nobody, or the tgid word tells of an exec (I7). Of a process member the process must be gone as well (below). `ident`
//!   is read before the word, and a joiner claims the word before it stores `ident`: a living g is never taken for dead.
//! - I3: what generation g owned is given back by compare-and-swap on the exact word by which g owned it. Any number of recoverers, dead or
//!   stopped at any step, give it back once.
//! - I4: `swept = g` is stored only by the owner of `life`, after all of g's belongings were given back. Until then every thread that looks
//!   for the dead recovers g again.
//! - I5: a thread that claims the life word of an unswept slot takes the thread id out of `ident`: before the claim, in the slot's gate,
//!   by a swap of this generation's `ident`; where there are no gates, after the claim. Thread ids are reused: the claimer's id may equal
//!   the dead thread's, and the dead generation would seem alive, or seem to have called exec.
//! - I6: `kind` stays the dead occupant's until the slot is swept. Whether the occupant's process must be gone as well depends on the dead
//!   occupant's kind, not on the next one's.
//! - I7: a marked tgid word belongs to the current occupant if `ident` is the same before and after the look and the life word names its thread.
//!   Otherwise the slot is being cleaned. The thread that marks the life word for the tgid word is in the slot's gate, so that nobody joins
//!   meanwhile. (A private arena has no gates; there no thread outlives an exec.)
//! - I8: a thread id is valid in its own PID namespace only. Words are claimed and released in the slot's gate (gate.rs), so that the
//!   kernel marks them at their owner's death alone, whatever ids the threads of other namespaces have. Before the claim the dead thread's
//!   id is taken out of `ident` (I5), because the claimer's id may be the same.
//!
//! Exec: a thread that is not its process's leader and calls exec takes the leader's id before the kernel walks its robust list. Its life
//! word would stay unmarked. So it owns a second word, its `tgid_word`, that names the process (tgid_word.rs).
//!
//! Lost marks: the kernel marks at most 2,048 words of a thread, those that it claimed last. A thread that locks so many robust locks of
//! its own after joining dies without a mark, and no thread is woken. So each reaper, once a second, and each thread that looks for the
//! dead asks the system whether the threads of unmarked words still exist (repair.rs): about all of them, or about a few where there are
//! many. Threads of another PID namespace are checked by a reaper there, or when `doctor` looks.
//!
//! A process member (owned permits) is a slot whose life word is held by a background thread of this library that never ends before the
//! process. The thread's mark may come while a sibling still runs. So I2 also requires that the process be gone: its pidfd is readable, its
//! start time differs, or (exec) it no longer maps the arena. What cannot be determined is no evidence that it is gone. The claimer of the
//! life word checks again after its claim: such a member may have joined, and been marked, since the claimer looked.
//!
//! For a process of another PID namespace the process id is useless. There its *presence* tells: one byte of the arena's file, which the
//! process keeps locked by a descriptor of its own. The kernel unlocks it when the last thread of the process has ended, or at exec. A
//! forked child gives up its copy of that descriptor. A child made without the C library keeps the parent's presence until the child ends,
//! and the permit stays held until then, unless a process of the parent's namespace looks. A program that closes descriptors that it does
//! not know gives up its presence. Then the mark of the word alone counts, as for a thread.
//!
//! Death at each step of joining: before the claim, at most the dead thread's id is gone from `ident` (I5). After it, the word is marked
//! and `ident` still names the old generation, swept or not. After `ident`, there is a dead member that owns nothing.
//!
//! A member that leaves in good order gives back what it owns, clears its bits, and stores `swept`; then, in the slot's gate, it gives up
//! its presence (of a process), its tgid word and its life word. If it dies before it has stored `swept`, others recover it like any dead
//! member. If it dies afterwards, the kernel marks its words, and nothing is left to recover. If it cannot pass the gate, it keeps its
//! words, and the slot stays taken until the thread ends.

use crate::error::ArenaError;
use crate::gate::{self, Gates, Pass};
use crate::layout::{INLINE_MEMBERS, MemberKind, REMOVED};
use crate::map::{Map, Standing, Visitor};
use crate::tgid_word;
use chappe_plat::atomic::{Ordering, fence};
use chappe_plat::futex;
use chappe_plat::later::Busy;
use chappe_plat::life::Claim;
use chappe_plat::{Life, probe, process, step};

/// A member slot that this thread owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Which slot.
    pub index: u32,
    /// Which use of the slot.
    pub generation: u32,
    /// Whether it owns the slot's tgid word.
    tgid_word: bool,
}

/// Whether a member is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeState {
    /// Alive, as far as the kernel has reported.
    Alive,
    /// Dead; what it held is being given back.
    Dead,
}

/// A member, described for display.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Who {
    /// Its slot.
    pub member: u32,
    /// Its process.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// When its process started, in clock ticks since boot.
    pub start_time: u64,
    /// The PID namespace of `pid`.
    pub namespace: u64,
    /// The label that it gave itself.
    pub label: String,
    /// Whether it is alive.
    pub life: LifeState,
    /// Whether it stands for a whole process.
    pub process: bool,
}

impl Who {
    /// Describes a process that is no member: a job that outlived its holder.
    pub fn job(pid: u32, start_time: u64, label: String) -> Who {
        let life = LifeState::Alive;
        Who { member: u32::MAX, pid, tid: pid, start_time, namespace: 0, label, life, process: true }
    }

    /// The PID namespace to which `pid` and `tid` belong, if it is not the caller's. In the caller's namespace these numbers name another
    /// process, or none.
    pub fn elsewhere(&self) -> Option<u64> {
        (self.namespace != 0 && self.namespace != process::namespace()).then_some(self.namespace)
    }

    /// Whether it is the calling process, or a thread of it. (Its `pid` alone does not say so: a process of another PID namespace may have the same.)
    pub fn is_of_this_process(&self) -> bool {
        self.pid == process::pid() && self.elsewhere().is_none()
    }
}

impl Map {
    /// Takes a member slot for the calling thread.
    ///
    /// # Errors
    /// `Removed`, `Undecided`, `Unwatched`, `Unreachable`, `NoSpace` for a slot that no member has had, or `MembersFull` when every slot has a
    /// living owner; slots of dead members are recovered and reused.
    pub fn join(&'static self, kind: MemberKind, label: &str) -> Result<Joined, ArenaError> {
        // A reaper never calls exec itself.
        self.join_by(kind, label, process::tid() != process::pid() && kind != MemberKind::Reaper)
    }

    /// The same for a kernel thread that never calls exec itself, and so needs no tgid word: each join would move those of all its slots.
    ///
    /// # Errors
    /// As for [`Map::join`].
    pub fn join_without_exec(&'static self, kind: MemberKind, label: &str) -> Result<Joined, ArenaError> {
        self.join_by(kind, label, false)
    }

    /// `may_exec`: the thread may call exec, and does not lead its process. (A thread that another one's exec ends is marked under its own id.)
    fn join_by(&'static self, kind: MemberKind, label: &str, may_exec: bool) -> Result<Joined, ArenaError> {
        self.fit()?;
        // Wakers that a dead member's end brings about are called when the slot has its new occupant.
        let _busy = Busy::begin();
        let (capacity, gates) = (self.geometry().members, self.gates()?);
        for i in 0..capacity {
            if i >= self.members_used() {
                self.open_slot(i)?;
            }
            self.notice_exec(i);
            let m = self.member(i);
            if matches!(m.life.probe(), Life::Alive(_)) || self.unconfirmed(i) {
                continue;
            }
            // To the end of the block: then no word of the slot is pending any more.
            let Some(_pass) = gates.try_pass(gate::slot(i)).filter(|pass| self.claim(i, pass)) else { continue };
            step!("life word claimed, old generation not yet swept");
            chappe_plat::recovering(|| self.clean(i));
            // SeqCst: before the look at the arena's state, so that a remover that sees the claim also sees its purpose.
            m.kind.store(kind as u32, Ordering::SeqCst);
            // Relaxed: the last occupant's value; only a thread that wakes this occupant reads it, later.
            m.bell_of.store(0, Ordering::Relaxed);
            // SeqCst: the C library's claim alone is only an acquire.
            fence(Ordering::SeqCst);
            // E1 of the map's head: the claim is a locked operation; `standing` loads after it.
            let standing = self.standing();
            if standing != Standing::Serving {
                m.life.release();
                let name = self.name().into();
                return Err(match standing {
                    Standing::Undecided => ArenaError::Undecided { name },
                    _ => ArenaError::Removed { name },
                });
            }
            let tgid_word = may_exec && m.tgid_word.try_claim() != Claim::Busy;
            if tgid_word {
                tgid_word::claimed(self, i);
            } else if m.tgid_word.try_claim() != Claim::Busy {
                m.tgid_word.release();
            }
            if kind == MemberKind::Process {
                self.show_presence(i);
            }
            let joined = self.settle(i, label, tgid_word);
            self.ring_roster(i);
            return Ok(joined);
        }
        Err(ArenaError::MembersFull { name: self.name().into(), capacity })
    }

    /// Counts slot `i` in. Any number of threads may do so at once, and die at any step: all write the same.
    pub(crate) fn open_slot(&self, i: u32) -> Result<(), ArenaError> {
        if i >= INLINE_MEMBERS && i.is_multiple_of(INLINE_MEMBERS) && !self.is_private() {
            self.back_members(i)?;
            step!("storage behind more members, none of them counted");
        }
        let m = self.member(i);
        // In zeros that nobody has touched: what was not used has no storage, and no lock.
        m.life.make();
        m.tgid_word.make();
        // SeqCst: raised before any bit of the slot can be set; pairs with `members_used`.
        self.header().members_high.fetch_max(i + 1, Ordering::SeqCst);
        Ok(())
    }

    /// Writes the caller's identity into a slot whose life word it owns, and so becomes the slot's next generation.
    fn settle(&self, i: u32, label: &str, tgid_word: bool) -> Joined {
        let m = self.member(i);
        let pid = process::pid();
        // Relaxed, these: for display only; the store of `ident` publishes them.
        m.pid.store(pid, Ordering::Relaxed); // Relaxed: as above.
        m.start_time.store(process::start_time(pid).unwrap_or(0), Ordering::Relaxed); // Relaxed: as above.
        m.namespace.store(process::namespace(), Ordering::Relaxed); // Relaxed: as above.
        let mut bytes = [0u8; 64];
        let mut end = label.len().min(63);
        while !label.is_char_boundary(end) {
            end -= 1;
        }
        bytes[..end].copy_from_slice(&label.as_bytes()[..end]);
        for (word, part) in m.label.iter().zip(bytes.chunks_exact(8)) {
            let value = u64::from_le_bytes(part.try_into().expect("eight bytes"));
            word.store(value, Ordering::Relaxed); // Relaxed: as above.
        }
        // Relaxed: only the owner of the life word changes it, and that is the caller.
        let last = (m.ident.load(Ordering::Relaxed) >> 32) as u32;
        let generation = next_generation(last);
        step!("about to become a member");
        // Release: publishes the slot's new occupant, I2.
        m.ident.store(u64::from(generation) << 32 | u64::from(process::tid()), Ordering::Release);
        Joined { index: i, generation, tgid_word }
    }

    /// Gives the slot up, after giving back whatever the member still owned.
    pub fn leave(&'static self, joined: Joined) {
        let m = self.member(joined.index);
        let mut me = self.visitor_in(joined.index);
        (self.hooks.recover)(self, joined.index, joined.generation, &mut me);
        (self.hooks.clear)(self, joined.index, &mut me);
        drop(me);
        self.clear_bits(joined.index);
        // Release: nothing of this generation is left, I4.
        m.swept.store(joined.generation, Ordering::Release);
        self.die(joined);
    }

    /// Gives up the member's life words, which the calling thread holds. Unless it was swept before, the member is dead from now on, and what it
    /// had is to be recovered: it may be that of a light thread that has died.
    pub fn die(&'static self, joined: Joined) {
        let Ok(gates) = self.gates() else { return };
        // G1 of the gates. A thread that cannot pass keeps its words, and with them the slot, until it ends.
        let Some(_pass) = self.pass_soon(&gates, gate::slot(joined.index)) else { return };
        self.hide_presence(joined.index);
        if joined.tgid_word {
            tgid_word::release(self, joined.index);
        }
        self.member(joined.index).life.release();
    }

    /// Passes the gate of the caller's own slot. Another thread is in it only by mistake, and for a few instructions.
    fn pass_soon<'a>(&self, gates: &'a Gates, at: u64) -> Option<Pass<'a>> {
        let tries = if cfg!(feature = "sim") { 1 } else { 1000 };
        (0..tries).find_map(|n| {
            if n > 0 {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            gates.try_pass(at)
        })
    }

    /// Refuses a thread whose death the kernel would not report.
    fn fit(&self) -> Result<(), ArenaError> {
        chappe_plat::life::fit().map_err(|why| ArenaError::Unwatched { name: self.name().into(), why })
    }

    /// Whether a generation of slot `i` is the last one, and not yet swept: while a thread makes up for its death, whether that is still to be
    /// done.
    pub fn is_unswept(&self, i: u32, generation: u32) -> bool {
        let m = self.member(i);
        // Acquire, both: after what the caller has read, which a later occupant changes after its own `ident`.
        (m.ident.load(Ordering::Acquire) >> 32) as u32 == generation && m.swept.load(Ordering::Acquire) != generation
    }

    /// The last generation of slot `i`, if it is dead and not yet swept.
    pub fn dead(&self, i: u32) -> Option<u32> {
        if i >= self.geometry().members {
            // No word of this arena names it.
            return None;
        }
        let m = self.member(i);
        // Acquire: read before the life word, I2.
        let ident = m.ident.load(Ordering::Acquire);
        let (generation, tid) = ((ident >> 32) as u32, ident as u32);
        // Acquire: pairs with the sweeper's store.
        if generation == 0 || m.swept.load(Ordering::Acquire) == generation {
            return None;
        }
        match m.life.probe() {
            Life::Alive(t) if t == tid && !tgid_word::says_exec(m) => None,
            // Acquire: the attachment was written before ident.
            _ if m.kind.load(Ordering::Acquire) == MemberKind::Process as u32 && !self.process_gone(i) => None,
            _ => Some(generation),
        }
    }

    /// Whether slot `i` can have a member at all: its two lock words are intact.
    pub fn is_intact(&self, i: u32) -> bool {
        let m = self.member(i);
        m.life.is_whole() && m.tgid_word.is_whole()
    }

    /// Whether slot `i` is a process member whose word no thread holds any more although its process still seems to exist.
    pub fn unconfirmed(&self, i: u32) -> bool {
        !matches!(self.member(i).life.probe(), Life::Alive(_)) && self.is_of_a_process_there(i)
    }

    /// Whether slot `i` is unswept and its last occupant a process that still seems to exist.
    fn is_of_a_process_there(&self, i: u32) -> bool {
        let m = self.member(i);
        // Acquire: as in `dead`.
        let generation = (m.ident.load(Ordering::Acquire) >> 32) as u32;
        // Acquire: as in `dead`.
        m.kind.load(Ordering::Acquire) == MemberKind::Process as u32
            // Acquire: as in `dead`.
            && m.swept.load(Ordering::Acquire) != generation
            && !self.process_gone(i)
    }

    /// Claims the life word of a slot without a living occupant, in the slot's gate. False: another thread was faster, or a process member
    /// has joined, and lost the thread that stands for it, since the caller looked. Then the word is free again, and the slot waits for
    /// that process's end.
    pub(crate) fn claim(&self, i: u32, pass: &Pass<'_>) -> bool {
        let life = &self.member(i).life;
        if pass.counts() {
            // G2, G5 of the gates.
            if matches!(life.probe(), Life::Alive(_)) || self.is_walked_through(i) {
                return false;
            }
            self.forget_number(i);
        }
        if life.try_claim() == Claim::Busy {
            return false;
        }
        self.forget_visit(i);
        step!("life word claimed, its last owner's end not yet confirmed");
        let ours = !self.is_of_a_process_there(i);
        if !ours {
            life.release();
        }
        ours
    }

    /// G5 of the gates: whether the kernel may still be on its way through the life word of slot `i`, and would take the caller's id for
    /// that of the thread that has called exec.
    fn is_walked_through(&self, i: u32) -> bool {
        let m = self.member(i);
        // Relaxed, all: in the gate no other thread changes them.
        tgid_word::says_exec(m)
            && m.namespace.load(Ordering::Relaxed) != process::namespace() // Relaxed: as above.
            && m.pid.load(Ordering::Relaxed) == process::tid() // Relaxed: as above.
    }

    /// I5, before the claim: a thread of another namespace often has the dead thread's id. Any number of threads may do this, since a dead
    /// generation stays dead.
    fn forget_number(&self, i: u32) {
        let m = self.member(i);
        // Acquire: as in `dead`, which looks after it.
        let ident = m.ident.load(Ordering::Acquire);
        if ident as u32 != 0 && self.dead(i) == Some((ident >> 32) as u32) {
            // AcqRel: of that generation only.
            let _ = m.ident.compare_exchange(ident, ident & !0xffff_ffff, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Makes this process keep the presence of slot `i` locked for as long as it lives. The caller is in the slot's gate.
    fn show_presence(&self, i: u32) {
        if let Some(kept) = self.gates().ok().and_then(|gates| gates.keep(gate::presence(i))) {
            self.keep_presence(kept);
        }
    }

    fn hide_presence(&self, i: u32) {
        // Relaxed: the caller's own `kind`.
        if self.member(i).kind.load(Ordering::Relaxed) == MemberKind::Process as u32
            && let Some(kept) = self.take_presence(true)
        {
            chappe_plat::dir::give_up(kept, self.inode(), gate::presence(i), true);
        }
    }

    /// The arena was removed: no process need know any more whether this one lives. Else its file would stay open.
    pub fn end_presence(&self) {
        if let Some(kept) = self.take_presence(true) {
            // The lock goes with the file.
            chappe_plat::dir::give_up(kept, self.inode(), 0, false);
        }
    }

    /// In a forked child: gives up its copy of the parent's presence, so that the parent does not seem to live as long as the child.
    pub fn forget_parents_presence(&self) {
        if let Some(kept) = self.take_presence(false) {
            chappe_plat::dir::give_up(kept, self.inode(), 0, false);
        }
    }

    fn process_gone(&self, i: u32) -> bool {
        let m = self.member(i);
        // Relaxed: published by `ident`, which the caller has read with acquire.
        let pid = m.pid.load(Ordering::Relaxed);
        // Relaxed: as above.
        if m.namespace.load(Ordering::Relaxed) != process::namespace() {
            // The process id is useless here. The kernel gives the presence up when all threads of the process have ended, or at its exec.
            return self.gates().is_ok_and(|gates| !gates.is_present(i));
        }
        // Relaxed: as above.
        let started = m.start_time.load(Ordering::Relaxed);
        if process::has_ended(pid, started) || pid == process::pid() {
            // The caller's own process: the thread that held the word ends only with its process or its program, and this process runs. So it called
            // exec, and this is the new program.
            return true;
        }
        let gone = match process::watch_exit(pid) {
            Ok(fd) => process::poll_readable(&[&fd], 0)[0],
            // ESRCH: no such process in this namespace. Other errors: it cannot be watched.
            Err(e) => e.raw_os_error() == Some(3),
        };
        if gone {
            return true;
        }
        self.inode() != 0 && !process::maps_inode(pid, self.inode())
    }

    /// Recovers what this process's former program owned before it called exec. Other processes take that program for alive, since the
    /// process maps the arena.
    pub(crate) fn recover_former_self(&'static self) {
        for i in 0..self.members_used() {
            // Relaxed: if the number is wrong, `dead` decides.
            let is_it = self.member(i).pid.load(Ordering::Relaxed) == process::pid();
            if is_it && let Some(generation) = self.dead(i) {
                self.sweep(i, generation);
            }
        }
    }

    /// Recovers every dead member whose words show its death. Answers how many it found.
    ///
    /// About unmarked members it asks the system for a few only (repair.rs), however many there are: N joins make some N system calls in
    /// all, not N each.
    pub fn recover_dead(&'static self) -> u32 {
        #[cfg(not(feature = "sim"))]
        self.mark_all_lost(true);
        self.recover_marked()
    }

    /// As [`Map::recover_dead`], but asks the system about every member: a system call for each. For callers that look at the arena as a
    /// whole, or find no room in it.
    pub fn recover_all(&'static self) -> u32 {
        #[cfg(not(feature = "sim"))]
        self.mark_all_lost(false);
        self.recover_marked()
    }

    fn recover_marked(&'static self) -> u32 {
        let mut found = 0;
        self.recover_each(|_, _| found += 1);
        found
    }

    /// Recovers every dead member, and reports each to `tell`: slot and generation.
    ///
    /// A dead member whose slot another thread has claimed and not yet cleaned is reported each time, though nothing of it is left.
    pub fn recover_each(&'static self, mut tell: impl FnMut(u32, u32)) {
        for i in 0..self.members_used() {
            self.notice_exec(i);
            if let Some(generation) = self.dead(i) {
                tell(i, generation);
                self.sweep(i, generation);
            }
        }
    }

    /// Gives back what the dead generation held. Then, unless another thread is doing so, clears its wait bits.
    pub fn sweep(&'static self, i: u32, generation: u32) {
        // Wakers are called when the dead member's life word is free again.
        let _busy = Busy::begin();
        // Relaxed: for observers; the next occupant writes it before its own `ident`.
        probe::death(&self.header().name, i, generation, || self.member(i).pid.load(Ordering::Relaxed));
        chappe_plat::recovering(|| self.sweep_out(i, generation));
    }

    fn sweep_out(&'static self, i: u32, generation: u32) {
        let mut me = self.visitor();
        self.make_up_for(i, generation, &mut me);
        step!("recovered, bits not yet cleared");
        // What a visitor without a word left out, others do: the cleaner of a slot has one.
        if me.has_left_out() || self.dead(i) != Some(generation) {
            return;
        }
        // A sweeper that cannot pass leaves the slot to others: nothing is left that any thread waits for.
        let Ok(gates) = self.gates() else { return };
        if let Some(_pass) = gates.try_pass(gate::slot(i)).filter(|pass| self.claim(i, pass)) {
            self.clean(i);
            self.member(i).life.release();
        }
    }

    /// Gives back what the dead generation held, and finishes what it left undone.
    fn make_up_for(&'static self, i: u32, generation: u32, me: &mut Visitor<'_>) {
        if self.is_reaper(i) {
            // It may have taken a wake along: I3 of the reaper. This precedes the sweep, so that every sweeper has done it. The threads that watch
            // the slot's own group are woken by the mark.
            let groups = 0..self.members_used().div_ceil(self.group());
            groups.filter(|group| *group != i / self.group()).for_each(|group| self.ring_group(group));
        }
        (self.hooks.recover)(self, i, generation, me);
        (self.hooks.wake_after_death)(self);
        // SeqCst: the dead member may have been burying the arena.
        if self.header().state.load(Ordering::SeqCst) == REMOVED {
            self.notify_all_dead();
        }
    }

    /// The caller owns the life word. Makes sure that nothing of the last generation is left.
    fn clean(&'static self, i: u32) {
        let m = self.member(i);
        // Relaxed: the caller owns the life word, I1.
        let last = (m.ident.load(Ordering::Relaxed) >> 32) as u32;
        // Relaxed: as above.
        let unswept = m.swept.load(Ordering::Relaxed) != last;
        if unswept {
            // Release: I5, before the tgid word is marked.
            m.ident.store(u64::from(last) << 32, Ordering::Release);
            // Release: after that. An owner that died while it moved its tgid word leaves this to the cleaner.
            m.moving.store(0, Ordering::Release);
        }
        // The kernel marks a tgid word only after an exec; after any other death it still names the dead process. Its owner is gone, since the
        // caller owns the life word.
        if let Life::Alive(gone) = m.tgid_word.probe() {
            m.tgid_word.mark_dead(gone);
        }
        if unswept {
            let mut me = self.visitor_in(i);
            self.make_up_for(i, last, &mut me);
            (self.hooks.clear)(self, i, &mut me);
            self.clear_bits(i);
            // Release: I4.
            m.swept.store(last, Ordering::Release);
        }
    }

    fn clear_bits(&self, i: u32) {
        if let Some(enlisting) = self.enlisting(i) {
            // Relaxed: the owner of the life word sets no bit just now.
            enlisting.store(0, Ordering::Relaxed);
        }
        self.end_joining(i);
        let (word, bit) = (i as usize / 64, 1u64 << (i % 64));
        for o in 0..self.objects_used() {
            let w = self.waiting(o, word);
            // Relaxed: I1, only the owner of the life word sets or clears this bit.
            if w.load(Ordering::Relaxed) & bit != 0 {
                // AcqRel: the bit goes after all that was done while it was set.
                w.fetch_and(!bit, Ordering::AcqRel);
            }
        }
    }

    /// If the tgid word of slot `i` is marked: its owner called exec without being the leader. Marks its life word. Answers whether it did.
    pub(crate) fn notice_exec(&self, i: u32) -> bool {
        let m = self.member(i);
        if !tgid_word::says_exec(m) {
            return false;
        }
        // In the gate nobody joins: the mark is this occupant's, however long the caller is stopped.
        let Ok(gates) = self.gates() else { return false };
        let Some(_pass) = gates.try_pass(gate::slot(i)) else { return false };
        // Acquire: I7, before the tgid word is looked at: an occupant has claimed it before it stores `ident`.
        let ident = m.ident.load(Ordering::Acquire);
        let (generation, tid) = ((ident >> 32) as u32, ident as u32);
        let called = tgid_word::says_exec(m)
            // Acquire: as in `dead`.
            && m.swept.load(Ordering::Acquire) != generation
            && m.life.probe() == Life::Alive(tid)
            // Acquire: I5, another thread with the same id has not claimed the slot meanwhile.
            && m.ident.load(Ordering::Acquire) == ident;
        if called {
            m.life.mark_dead(tid);
        }
        called
    }

    /// Tells the watcher of slot `i`'s group that a member has joined, and the watcher of group 0, which starts a thread for each group.
    pub fn ring_roster(&self, i: u32) {
        let group = i / self.group();
        self.ring_group(group);
        if group > 0 {
            self.ring_group(0);
        }
    }

    /// Makes the threads that watch a group of slots look at it.
    pub(crate) fn ring_group(&self, group: u32) {
        let roster = self.roster(group);
        // Release: a thread that sees the new number sees the new member.
        roster.fetch_add(1, Ordering::Release);
        futex::wake(roster, u32::MAX, futex::Scope::Shared);
    }

    /// Makes every process's reaper look: there is something that perhaps not all of them can judge.
    pub fn call_reapers(&self) {
        let call = &self.header().call;
        // Release: a reaper that sees the new number sees its cause.
        call.fetch_add(1, Ordering::Release);
        futex::wake(call, u32::MAX, futex::Scope::Shared);
    }

    /// Describes the occupant of slot `i`.
    pub fn who(&self, i: u32) -> Who {
        if i >= self.geometry().members {
            return Who::job(0, 0, "nobody: the word that names it is damaged".into());
        }
        let m = self.member(i);
        // Acquire: publishes the rest.
        let ident = m.ident.load(Ordering::Acquire);
        let mut bytes = [0u8; 64];
        for (part, word) in bytes.chunks_exact_mut(8).zip(&m.label) {
            // Relaxed: for display; if the occupant changes meanwhile, the result is a mixture, no more.
            part.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(64);
        Who {
            member: i,
            // Relaxed, this and the next: as above.
            pid: m.pid.load(Ordering::Relaxed),
            tid: ident as u32,
            // Relaxed: as above.
            start_time: m.start_time.load(Ordering::Relaxed),
            // Relaxed: as above.
            namespace: m.namespace.load(Ordering::Relaxed),
            label: String::from_utf8_lossy(&bytes[..end]).into_owned(),
            life: if self.dead(i).is_some() { LifeState::Dead } else { LifeState::Alive },
            // Relaxed: as above.
            process: m.kind.load(Ordering::Relaxed) == MemberKind::Process as u32,
        }
    }

    /// Every attached member, and the dead members that are not yet swept.
    pub fn members(&self) -> Vec<Who> {
        (0..self.members_used())
            .filter(|i| {
                let m = self.member(*i);
                // Acquire: as in `dead`.
                let generation = (m.ident.load(Ordering::Acquire) >> 32) as u32;
                // Acquire: as in `dead`.
                generation != 0 && m.swept.load(Ordering::Acquire) != generation && !self.is_reaper(*i)
            })
            .map(|i| self.who(i))
            .collect()
    }

    /// Whether slot `i` is, or last was, a reaper's.
    pub(crate) fn is_reaper(&self, i: u32) -> bool {
        // SeqCst: after the look at the life word; pairs with `join`.
        self.member(i).kind.load(Ordering::SeqCst) == MemberKind::Reaper as u32
    }
}

/// The generation after `last`. Generations have 24 bits where a cell keeps them; 0 means never used.
pub fn next_generation(last: u32) -> u32 {
    let next = last.wrapping_add(1) & 0x00ff_ffff;
    if next == 0 { 1 } else { next }
}
