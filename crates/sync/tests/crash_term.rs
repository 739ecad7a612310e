//! What is typed into a terminal, explored: its holder is killed at each step, and so is the process that sends. The program gets of each text a
//! beginning, all of it where the sender is told so, and never a byte twice or out of order.
//!
//! And how its program ends, while keeper and holder are killed: a viewer is told how, unless the keeper was killed before it said so, and the screen is
//! called complete only when it is. A keeper that is not killed comes to a whole screen, whatever holders are.
//!
//! The loops are those of terminals: the writer's, a step of the holder's, and the keeper's.

use crate::term_words::{Desk, End, House, How, Read, Typing, Unsent, keep};
use chappe_crashsim::{Search, Shared, World, reached};
use chappe_plat::Life;
use chappe_plat::atomic::{AtomicU64, Ordering::SeqCst, pause};
use chappe_plat::life::LifeLock;
use std::cell::Cell;

/// The texts that are sent, one behind the other: their bytes.
const TEXTS: [&[u64]; 2] = [&[1, 2, 3, 4], &[5, 6]];
/// How much is typed at once.
const PIECE: u64 = 2;
/// How many bytes the ring has: fewer than a text, and more than are typed at once. So a writer puts the end of a text while its middle is typed.
const RING: u64 = 3;

/// A text's outcome.
const OPEN: u64 = 0;
const TYPED: u64 = 1;
const DOUBT: u64 = 2;

#[derive(Default)]
struct Terminal {
    put: AtomicU64,
    given: AtomicU64,
    giving: AtomicU64,
    doubts: AtomicU64,
    ring: [AtomicU64; RING as usize],
    /// What the program has got.
    got: [AtomicU64; 16],
    len: AtomicU64,
    outcomes: [AtomicU64; TEXTS.len()],
    /// How many texts are settled.
    done: AtomicU64,
    /// The holder settles what a dead one has left.
    settles: Cell<bool>,
}

impl Terminal {
    fn typing(&self) -> Typing<'_> {
        Typing { put: &self.put, given: &self.given, giving: &self.giving, doubts: &self.doubts }
    }

    /// A holder's life, from its start to the end of all texts.
    fn hold(&self) {
        let typing = self.typing();
        self.settles.set(true);
        typing.settle();
        self.settles.set(false);
        loop {
            let is_last = self.done.load(SeqCst) == TEXTS.len() as u64;
            let (given, put) = typing.ready();
            if given >= put {
                if is_last {
                    return;
                }
                pause();
                continue;
            }
            let end = put.min(given + PIECE);
            let typed: Result<u64, ()> = typing.pass(end, || {
                // The kernel takes one byte at a time: a holder can be killed between two.
                for at in given..end {
                    let byte = self.ring[(at % RING) as usize].load(SeqCst);
                    let len = self.len.load(SeqCst);
                    self.got[len as usize].store(byte, SeqCst);
                    self.len.store(len + 1, SeqCst);
                }
                Ok(end - given)
            });
            assert_eq!(typed, Ok(end - given));
        }
    }

    /// Sends a text. What becomes of it.
    fn send(&self, text: &[u64]) -> u64 {
        match self.typing().send(text.len() as u64, RING, &mut Text { to: self, text }) {
            Ok(_) => TYPED,
            Err(Unsent::Doubt) => DOUBT,
            Err(Unsent::Over | Unsent::Late { .. }) => unreachable!("holders come as long as there are texts"),
        }
    }

    /// Sends those from this one on.
    fn send_from(&self, first: usize) {
        for (n, text) in TEXTS.iter().enumerate().skip(first) {
            self.outcomes[n].store(self.send(text), SeqCst);
            self.done.store(n as u64 + 1, SeqCst);
        }
    }

    /// What the program has got is a beginning of each text, in order.
    fn is_sound(&self) {
        let len = self.len.load(SeqCst) as usize;
        let got: Vec<u64> = self.got[..len].iter().map(|byte| byte.load(SeqCst)).collect();
        let mut rest = &got[..];
        for (n, text) in TEXTS.iter().enumerate() {
            let same = rest.iter().zip(*text).take_while(|(got, sent)| got == sent).count();
            let outcome = self.outcomes[n].load(SeqCst);
            assert!(outcome != TYPED || same == text.len(), "text {n} was said to be typed, and {got:?} was");
            match outcome {
                DOUBT if same == text.len() => reached("all of it, in doubt"),
                DOUBT if same > 0 => reached("a beginning, in doubt"),
                DOUBT => reached("nothing, in doubt"),
                OPEN => reached("a dead sender's"),
                _ => {}
            }
            rest = &rest[same..];
        }
        assert!(rest.is_empty(), "no beginnings of the texts: {got:?}");
    }
}

/// A text on its way into the ring. Its terminal has holders to the end.
struct Text<'a> {
    to: &'a Terminal,
    text: &'a [u64],
}

impl Desk for Text<'_> {
    fn look(&mut self) {}

    fn is_gone(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        false
    }

    fn begin(&mut self, _: u64) {}

    fn write(&mut self, position: u64, from: u64, to: u64) {
        for (at, byte) in (position..).zip(&self.text[from as usize..to as usize]) {
            self.to.ring[(at % RING) as usize].store(*byte, SeqCst);
        }
    }

    fn ring(&mut self) {}

    fn is_come_to(&self) -> bool {
        true
    }

    fn sleep(&mut self) -> bool {
        pause();
        true
    }
}

fn made(world: &World) -> Shared<Terminal> {
    let terminal = world.share(Terminal::default());
    world.check(move || terminal.is_sound());
    terminal
}

/// The holder is killed, and another takes over; that one is killed, too, also while it settles.
fn holders(world: &World) {
    let terminal = made(world);
    let holder = world.prepare("holder").run(move || terminal.hold());
    let next = world.successor("next holder", holder).run(move || terminal.hold());
    next.on_death(move || {
        if terminal.settles.take() {
            reached("killed as it settles");
        }
    });
    world.successor("last holder", next).immortal().run(move || terminal.hold());
    world.prepare("sender").immortal().run(move || terminal.send_from(0));
}

/// The sender is killed, or stopped for ever; the next one has its lock.
fn senders(world: &World) {
    let terminal = made(world);
    let holder = world.prepare("holder").run(move || terminal.hold());
    world.successor("next holder", holder).immortal().run(move || terminal.hold());
    let sender = world.prepare("sender").only_kills().run(move || terminal.send_from(0));
    world.successor("next sender", sender).immortal().run(move || {
        let done = terminal.done.load(SeqCst) as usize;
        terminal.send_from((done + 1).min(TEXTS.len()));
        terminal.done.store(TEXTS.len() as u64, SeqCst);
    });
}

#[test]
fn a_program_gets_a_beginning_of_each_text_whatever_holder_is_killed() {
    let deep = Search::depth("term_holders", 1).kills(2).schedules(40_000).run(holders);
    deep.assert_clean().assert_reached(&["all of it, in doubt", "a beginning, in doubt", "nothing, in doubt"]);
    let twice = Search::sweep("term_holders_sweep").kills(2).run(holders);
    twice.assert_clean().assert_reached(&["killed as it settles"]);
    Search::priorities("term_holders_pct", 4).kills(2).schedules(3_000).run(holders).assert_clean();
}

#[test]
fn a_killed_sender_leaves_a_beginning_and_the_next_one_goes_on() {
    let deep = Search::depth("term_senders", 1).kills(2).schedules(10_000).run(senders);
    deep.assert_clean().assert_reached(&["a dead sender's"]);
    Search::priorities("term_senders_pct", 4).kills(2).schedules(3_000).run(senders).assert_clean();
}

/// How many bytes the program writes before it ends, and how it ends.
const WRITTEN: u64 = 2;
const HOW: u64 = 7;

/// How many holders there can be.
const HOLDERS: usize = 3;
/// The program's number. Holders have the others, from 1 on.
const PROGRAM: i32 = 9;

#[derive(Default)]
struct Ending {
    status: AtomicU64,
    time: AtomicU64,
    over: AtomicU64,
    /// What the kernel has: how many bytes were written, whether the program has ended, how many holders were started, and which of them have exited.
    written: AtomicU64,
    ended: AtomicU64,
    started: AtomicU64,
    exited: [AtomicU64; HOLDERS],
    /// How many bytes are on the screen.
    screen: AtomicU64,
    /// The keeper has come to its end, and was not killed.
    kept: AtomicU64,
}

impl Ending {
    fn end(&self) -> End<'_> {
        End { status: &self.status, time: &self.time, over: &self.over }
    }

    fn write(&self) {
        (1..=WRITTEN).for_each(|count| self.written.store(count, SeqCst));
        self.ended.store(1, SeqCst);
    }

    /// A holder's life: it begins when the keeper starts it.
    fn hold(&self, number: usize, is_orphan: impl Fn() -> bool) {
        while self.started.load(SeqCst) <= number as u64 {
            if is_orphan() {
                return;
            }
            pause();
        }
        loop {
            let is_said = self.end().is_said();
            // The kernel says that the program's side is closed when all that was written is read.
            let is_closed = self.ended.load(SeqCst) == 1;
            let written = self.written.load(SeqCst);
            let read = match written != self.screen.load(SeqCst) {
                true => Read::More,
                false if is_closed => Read::Closed,
                false => Read::Empty,
            };
            self.screen.store(written, SeqCst);
            let level = End::level(is_said, read, is_orphan());
            if level > 0 {
                self.end().reach(level);
            }
            if level == 2 {
                self.exited[number].store(1, SeqCst);
                return;
            }
            pause();
        }
    }

    /// Looks a few times, whenever that is.
    fn look(&self, is_alive: &dyn Fn() -> bool) {
        for _ in 0..3 {
            let told = self.end().seen(|| Ok::<_, ()>(is_alive()));
            let is_sound = match told {
                Ok(None | Some((HOW, HOW))) => true,
                // No process is left that could say it.
                Ok(Some((0, _))) => self.status.load(SeqCst) == 0,
                _ => false,
            };
            assert!(is_sound, "{told:?}");
            reached(match told {
                Ok(Some((0, _))) => "not known",
                Ok(Some(_)) => "known",
                _ => "runs",
            });
            if self.end().is_complete(|| Ok::<_, ()>(is_alive())) == Ok(true) && self.over.load(SeqCst) > 0 {
                reached("complete");
                assert_eq!(self.screen.load(SeqCst), WRITTEN);
            }
        }
    }

    /// A keeper that was not killed has said how the program ended, and leaves a whole screen, whatever holders were killed.
    fn is_kept(&self) {
        if self.kept.load(SeqCst) == 1 {
            assert_eq!((self.status.load(SeqCst), self.over.load(SeqCst)), (HOW, 2));
            assert_eq!(self.screen.load(SeqCst), WRITTEN);
            let all = self.started.load(SeqCst);
            reached(if all > 1 { "kept by a later holder" } else { "kept by the first holder" });
        }
    }
}

/// The keeper's children, as the kernel has them.
struct Children {
    all: Shared<Ending>,
    holders: [Shared<LifeLock>; HOLDERS],
    /// Which child was waited for.
    is_waited: [bool; HOLDERS + 1],
}

impl House for Children {
    fn start(&mut self) -> Option<i32> {
        // The number of the holder that begins by it.
        Some(self.all.started.fetch_add(1, SeqCst) as i32 + 1)
    }

    fn wait(&mut self, patiently: bool) -> Option<(i32, How)> {
        assert!(patiently, "there always was a process for a holder");
        loop {
            if !self.is_waited[HOLDERS] && self.all.ended.load(SeqCst) == 1 {
                self.is_waited[HOLDERS] = true;
                return Some((PROGRAM, Ok(HOW as u8)));
            }
            for number in 0..self.all.started.load(SeqCst) as usize {
                if !self.is_waited[number] && !lives(&self.holders[number]) {
                    self.is_waited[number] = true;
                    let how = if self.all.exited[number].load(SeqCst) == 1 { Ok(0) } else { Err(9) };
                    return Some((number as i32 + 1, how));
                }
            }
            pause();
        }
    }

    fn pause(&mut self, _: u32) {}

    fn was_of_use(&mut self) -> bool {
        true
    }

    fn heir(&mut self, _: i32) -> Option<i32> {
        None
    }

    fn ended(&mut self, how: How) {
        let how = how.expect("it exits").into();
        self.all.end().say(how, how);
    }
}

/// Whether the process that has claimed it lives.
fn lives(lock: &LifeLock) -> bool {
    matches!(lock.probe(), Life::Alive(_))
}

/// The keeper is killed, or a holder and its successor, which the keeper starts.
fn endings(world: &World) {
    let all = world.share(Ending::default());
    world.check(move || all.is_kept());
    let lock = || {
        let place = world.zeroed(size_of::<LifeLock>()).cast::<LifeLock>();
        // SAFETY: zeroed bytes of the schedule are a free lock, and stay as long as it.
        world.share(unsafe { place.read() })
    };
    let (keeps, holders): (_, [Shared<LifeLock>; HOLDERS]) = (lock(), std::array::from_fn(|_| lock()));
    world.prepare("program").immortal().run(move || all.write());
    let keeper = world.prepare("keeper").only_kills();
    keeper.before(move || _ = keeps.try_claim());
    keeper.run(move || {
        keep(PROGRAM, &mut Children { all, holders, is_waited: [false; HOLDERS + 1] });
        all.kept.store(1, SeqCst);
    });
    let mut last = None;
    for (number, own) in holders.into_iter().enumerate() {
        let holder = match last {
            None => world.prepare("holder"),
            Some(last) => world.successor("next holder", last),
        };
        let holder = if number + 1 < HOLDERS { holder.only_kills() } else { holder.immortal() };
        holder.before(move || _ = own.try_claim());
        last = Some(holder.run(move || all.hold(number, || !lives(&keeps))));
    }
    world.prepare("viewer").immortal().run(move || {
        let started = || all.started.load(SeqCst) as usize;
        all.look(&|| lives(&keeps) || holders[..started()].iter().any(|holder| lives(holder)));
    });
}

#[test]
fn a_viewer_learns_how_a_program_ended_unless_its_keeper_was_killed_before() {
    let swept = Search::sweep("term_endings_sweep").kills(2).run(endings);
    swept.assert_clean().assert_reached(&["not known", "known", "runs", "kept by a later holder"]);
    let wide = Search::priorities("term_endings_pct", 4).kills(2).schedules(10_000).run(endings);
    wide.assert_clean().assert_reached(&["not known", "known", "runs", "complete"]);
    wide.assert_reached(&["kept by the first holder", "kept by a later holder"]);
    Search::depth("term_endings", 2).kills(2).schedules(20_000).run(endings).assert_clean();
}
