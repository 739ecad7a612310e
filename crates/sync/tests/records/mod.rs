//! The stage on which rings of records are explored: the ring, its members, what each has noted, and what must hold at the end.

#![allow(dead_code, reason = "each suite uses a part of it")]

use chappe_arena::Visit;
use chappe_crashsim::{Fate, Process, Report, Search, Shared, World, process, reached, robust};
use chappe_plat::atomic::AtomicU32;
use chappe_structures::record::{Borrowed, Ring, Shape, Slot, Unsent, bytes_needed, in_words};
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Members at most; the last one looks when all is over.
pub const MEMBERS: usize = 6;
pub const LAST: u16 = 9;

/// What one member has done. A message's hundreds are its sender's number, the rest rises.
#[derive(Default)]
pub struct Journal {
    /// What may be under way.
    begun: Vec<u64>,
    /// What was sent for sure.
    pub sent: Vec<u64>,
    /// What came, and whether it was marked as delivered before.
    pub got: Vec<(u64, bool)>,
    /// What was released for sure.
    released: Vec<u64>,
    /// It is just copying out, or releasing.
    ending: bool,
    /// It is just borrowing, or has borrowed.
    borrowing: bool,
    /// It is just committing what it wrote in place: it may have two slots then.
    committing: bool,
}

#[derive(Clone, Copy)]
pub struct Stage {
    pub ring: Ring<'static>,
    pub shape: Shape,
    journals: Shared<Vec<RefCell<Journal>>>,
    /// Two for each member: two recoverers see each death.
    lives: Shared<[[AtomicU32; MEMBERS]; 2]>,
    who: Shared<RefCell<Vec<(u16, Process)>>>,
}

/// Sixteen bytes, or twelve, that say whether they belong together.
pub fn record(message: u64) -> ([u8; 16], usize) {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&message.to_le_bytes());
    bytes[8..].copy_from_slice(&(!message).to_le_bytes());
    (bytes, if message.is_multiple_of(2) { 16 } else { 12 })
}

/// The message in these bytes.
pub fn message(bytes: &[u8]) -> u64 {
    let message = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let (whole, len) = record(message);
    assert_eq!(bytes, &whole[..len], "torn");
    message
}

/// Receives by copying out.
pub fn receive(ring: &Ring<'_>) -> Option<(u64, bool)> {
    let mut buffer = [MaybeUninit::new(0u8); 16];
    let got = ring.try_recv(&mut buffer)?;
    // SAFETY: they were there from the start.
    let bytes = buffer.map(|b| unsafe { b.assume_init() });
    Some((message(&bytes[..got.len as usize]), got.again))
}

/// Reads a record in place.
pub fn look(ring: &Ring<'_>, borrowed: &Borrowed) -> u64 {
    let (place, len) = ring.record(borrowed);
    // SAFETY: so many bytes, that are ours.
    message(unsafe { std::slice::from_raw_parts(place, len as usize) })
}

/// Writes a record in place. Answers its length.
pub fn fill(ring: &Ring<'_>, slot: &Slot, message: u64) -> u32 {
    let (bytes, len) = record(message);
    // SAFETY: as many bytes as a slot has, and ours.
    unsafe { ring.place(slot).copy_from_nonoverlapping(bytes.as_ptr(), len) };
    len as u32
}

/// A ring in memory that all share, whose first lap is this one.
pub fn ring(world: &World, shape: Shape, lap: u64) -> Ring<'static> {
    let place = world.zeroed(bytes_needed(shape.slots, shape.size, shape.align));
    // SAFETY: so many bytes, zeroed, until the schedule's end; no other process knows of them.
    let ring: Ring<'static> = unsafe { Ring::new(NonNull::new(place).expect("memory"), shape) };
    ring.begin_at(lap);
    for slot in 0..shape.slots {
        world.name_with(ring.word_of(slot), format!("slot {slot}"), in_words);
    }
    world.name(ring.hints().0, "tail");
    world.name(ring.hints().1, "head");
    ring
}

impl Stage {
    pub fn new(world: &World, shape: Shape, lap: u64) -> Stage {
        Stage {
            ring: ring(world, shape, lap),
            shape,
            journals: world.share((0..=usize::from(LAST)).map(|_| RefCell::default()).collect()),
            lives: world.share(Default::default()),
            who: world.share(RefCell::default()),
        }
    }

    pub fn journal(&self, me: u16) -> std::cell::RefMut<'_, Journal> {
        self.journals[usize::from(me)].borrow_mut()
    }

    /// A member whose death the recoverers see. It does not end with what it does.
    pub fn member(&self, world: &World, name: &str, me: u16) -> Process {
        let p = world.prepare(name);
        let lives = self.lives;
        p.before(|| {
            lives.iter().for_each(|l| assert_eq!(robust::try_claim(&l[usize::from(me)]), robust::Claim::Fresh))
        });
        self.who.borrow_mut().push((me, p));
        p
    }

    pub fn does(&self, world: &World, name: &str, me: u16, body: impl FnOnce(Stage) + 'static) -> Process {
        let stage = *self;
        self.member(world, name, me).run(move || {
            body(stage);
            process::linger();
        })
    }

    /// Two processes that recover the dead: one sees a death in each of the lives.
    pub fn recoverers(&self, world: &World, members: &[u16], both: bool) {
        for (i, name) in ["recoverer", "another"].into_iter().enumerate().take(1 + usize::from(both)) {
            let p = world.prepare(name);
            for me in members.iter().copied() {
                let stage = *self;
                p.daemon(&format!("of {me}"), move || {
                    robust::claim(&stage.lives[i][usize::from(me)]);
                    chappe_plat::recovering(|| stage.ring.recover(&Visit::of_own_memory(), me, || true, |_| ()));
                    process::linger();
                });
            }
        }
    }

    /// Beforehand.
    pub fn prefill(&self, messages: u64) {
        for i in 0..messages {
            assert!(self.send(LAST, 900 + i));
        }
    }

    pub fn send(&self, me: u16, message: u64) -> bool {
        self.journal(me).begun.push(message);
        let (bytes, len) = record(message);
        let sent = self.ring.try_send(me, &bytes[..len]);
        self.ended(me, message, sent)
    }

    fn ended(&self, me: u16, message: u64, sent: bool) -> bool {
        let mut journal = self.journal(me);
        journal.begun.retain(|m| *m != message);
        if sent {
            journal.sent.push(message);
        } else {
            reached("full");
        }
        sent
    }

    /// Sends from a reserved slot; `None` where there is none.
    pub fn send_in_place(&self, me: u16, message: u64) -> Option<bool> {
        let slot = self.ring.reserve(me)?;
        self.journal(me).begun.push(message);
        let len = fill(&self.ring, &slot, message);
        chappe_plat::step!("filled");
        self.journal(me).committing = true;
        let sent = self.commit(slot, len);
        self.journal(me).committing = false;
        Some(self.ended(me, message, sent))
    }

    pub fn commit(&self, slot: Slot, len: u32) -> bool {
        match self.ring.commit(slot, len) {
            Ok(()) => true,
            Err(Unsent::Full(slot)) => {
                reached("full at commit");
                self.ring.abandon(slot);
                false
            }
            Err(e) => panic!("{e:?}"),
        }
    }

    pub fn receive(&self, me: u16) -> Option<u64> {
        self.journal(me).ending = true;
        let got = receive(&self.ring);
        let mut journal = self.journal(me);
        journal.ending = false;
        let Some((message, again)) = got else {
            reached("empty");
            return None;
        };
        self.note_again(again);
        journal.got.push((message, again));
        journal.released.push(message);
        Some(message)
    }

    pub fn borrow(&self, me: u16) -> Option<Borrowed> {
        self.journal(me).borrowing = true;
        let Some(borrowed) = self.ring.borrow(me) else {
            self.journal(me).borrowing = false;
            return None;
        };
        self.note_again(borrowed.again());
        let message = look(&self.ring, &borrowed);
        self.journal(me).got.push((message, borrowed.again()));
        Some(borrowed)
    }

    fn note_again(&self, again: bool) {
        if again {
            reached("again");
        }
    }

    pub fn release(&self, me: u16, borrowed: Borrowed) {
        let message = look(&self.ring, &borrowed);
        self.journal(me).ending = true;
        assert!(self.ring.release(borrowed), "it was ours");
        let mut journal = self.journal(me);
        (journal.ending, journal.borrowing) = (false, false);
        journal.released.push(message);
    }

    pub fn borrow_and_release(&self, me: u16) -> bool {
        let Some(borrowed) = self.borrow(me) else { return false };
        chappe_plat::step!("looked at");
        self.release(me, borrowed);
        true
    }

    /// When all is over: what must hold.
    pub fn finally(&self, world: &World) {
        let stage = *self;
        world.prepare("last").last().run(move || stage.settled());
    }

    fn settled(&self) {
        let who = self.who.borrow().clone();
        let of = |fate| who.iter().filter(|(_, p)| p.fate() == fate).map(|(m, _)| *m).collect::<Vec<_>>();
        let (killed, stopped) = (of(Fate::Killed), of(Fate::Stopped));
        for me in &killed {
            self.ring.recover(&Visit::of_own_memory(), *me, || true, |_| ());
        }
        while self.receive(LAST).is_some() {}
        self.nothing_lost(&killed, &stopped);
        if !stopped.is_empty() {
            reached("past a stopped one");
        }
        if !killed.is_empty() {
            reached("past a dead one");
        }
        // The only one may not be replaced while it lives.
        if stopped.is_empty() || (!self.shape.one_sender && !self.shape.one_receiver) {
            let two = stopped.iter().filter(|m| self.journal(**m).committing).count();
            self.has_all_slots((stopped.len() + two) as u32);
        }
    }

    fn nothing_lost(&self, killed: &[u16], stopped: &[u16]) {
        let journals: Vec<_> = self.journals.iter().map(RefCell::borrow).collect();
        let sent: Vec<u64> = journals.iter().flat_map(|j| j.sent.iter().copied()).collect();
        let begun: Vec<u64> = journals.iter().flat_map(|j| j.begun.iter().copied()).collect();
        for (me, journal) in journals.iter().enumerate() {
            let mut firsts = [0; 16];
            for (message, again) in &journal.got {
                assert!(sent.contains(message) || begun.contains(message), "{message} was never sent");
                let others = journals.iter().enumerate().filter(|(other, _)| *other != me);
                let others: Vec<_> = others.filter(|(_, j)| j.got.iter().any(|g| g.0 == *message)).collect();
                for (other, theirs) in &others {
                    let theirs_again = theirs.got.contains(&(*message, true));
                    assert!(*again != theirs_again, "{message} came twice, both times as if it were the same time");
                    let first = if *again { (other, *theirs) } else { (&me, journal) };
                    assert!(
                        killed.contains(&(*first.0 as u16)) && !first.1.released.contains(message),
                        "{message} came again, and {} had received it",
                        first.0
                    );
                }
                assert!(others.len() < 2 && journal.got.iter().filter(|g| g.0 == *message).count() == 1);
                assert!(!again || !killed.is_empty(), "{message} came again, and nobody had died");
                if !again {
                    let last = &mut firsts[(message / 100) as usize];
                    assert!(*message > *last, "{message} came too late: {:?}", journal.got);
                    *last = *message;
                }
            }
        }
        let ended = |message| journals.iter().any(|j| j.released.contains(message));
        let missing: Vec<_> = sent.iter().filter(|message| !ended(message)).collect();
        let doubtful = |members: &[u16]| members.iter().filter(|m| journals[usize::from(**m)].ending).count();
        let held = |m: &&u16| journals[usize::from(**m)].ending || journals[usize::from(**m)].borrowing;
        let dropped = self.ring.dropped() as usize;
        let most = dropped + doubtful(killed) + stopped.iter().filter(held).count();
        assert!(missing.len() <= most, "{missing:?} are lost, {dropped} dropped");
        let sure = doubtful(killed) == 0 && stopped.is_empty() && begun.is_empty();
        if sure {
            assert_eq!(missing.len(), dropped, "{missing:?} are missing");
        }
        if dropped > 0 {
            reached("dropped");
        }
        let deaths = if self.shape.drops { 1 } else { 2 };
        assert!(dropped * deaths <= killed.len(), "{dropped} were dropped for {killed:?}");
    }

    /// All slots but those of the stopped can be used.
    fn has_all_slots(&self, stopped: u32) {
        let room = u64::from(self.shape.slots.saturating_sub(stopped));
        for round in 0..2 {
            for i in 0..room {
                let (bytes, len) = record(800 + i);
                assert!(
                    self.ring.has_hole() && self.ring.try_send(LAST, &bytes[..len]),
                    "round {round}: {i} of {room}"
                );
            }
            assert_eq!(self.ring.len() as u64, room);
            for i in 0..room {
                assert!(self.ring.has_message());
                assert_eq!(receive(&self.ring), Some((800 + i, false)), "round {round}");
            }
            assert!(!self.ring.has_message() && receive(&self.ring).is_none(), "round {round}");
        }
    }
}

/// Which searches: by depth, and with so many killed.
pub struct Way {
    pub kills: u32,
    pub schedules: u64,
}

/// Several searches of one world.
pub fn explored(name: &str, way: &Way, world: impl Fn(&World) + Sync, outcomes: &[&str]) {
    let Way { kills, schedules } = *way;
    let all: Vec<Report> = [
        Search::depth(&format!("{name}_depth"), 3).schedules(schedules),
        Search::sweep(&format!("{name}_kill")).kills(1),
        Search::sweep(&format!("{name}_kills")).kills(kills).schedules(schedules),
        Search::depth(&format!("{name}_kill_depth"), 2).kills(1).schedules(schedules),
        Search::priorities(&format!("{name}_kills_pct"), 5).kills(kills).schedules(schedules / 2),
        Search::uniform(&format!("{name}_buffers")).kills(1).store_buffers(4).schedules(schedules / 4),
        Search::sweep(&format!("{name}_stop")).stops(1),
        Search::depth(&format!("{name}_stop_depth"), 2).stops(1).schedules(schedules),
        Search::priorities(&format!("{name}_stop_pct"), 5).stops(1).kills(1).schedules(schedules / 2),
        Search::priorities(&format!("{name}_resume_pct"), 5).stops(2).kills(1).resume().schedules(schedules / 2),
    ]
    .iter()
    .map(|search| search.run(&world))
    .collect();
    for report in &all {
        report.assert_clean();
    }
    for outcome in outcomes {
        assert!(
            all.iter().any(|r| r.outcomes().contains_key(*outcome)) || std::env::var_os("CRASHSIM_REPLAY").is_some(),
            "{name} never came to `{outcome}`"
        );
    }
}
