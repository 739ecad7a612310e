//! What is typed into a terminal, explored: its holder is killed at each step, and so is the process that sends. The program gets of each text a
//! beginning, all of it where the sender is told so, and never a byte twice or out of order.
//!
//! And how its program ends, while keeper and holder are killed: a viewer is told how, unless the keeper was killed before it said so, and the screen is
//! called complete only when it is.

use crate::term_words::{End, Typing};
use chappe_crashsim::{Search, Shared, World, reached};
use chappe_plat::Life;
use chappe_plat::atomic::{AtomicU64, Ordering::SeqCst, pause};
use chappe_plat::life::LifeLock;
use std::cell::Cell;

/// The texts that are sent, one behind the other: their bytes.
const TEXTS: [&[u64]; 2] = [&[1, 2, 3], &[4, 5]];
/// How much of the ring is written at once, and typed at once.
const PIECE: u64 = 2;
/// How many bytes the ring has.
const RING: u64 = 4;

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
            typing.gives(end);
            // The kernel takes one byte at a time: a holder can be killed between two.
            for at in given..end {
                let byte = self.ring[(at % RING) as usize].load(SeqCst);
                let len = self.len.load(SeqCst);
                self.got[len as usize].store(byte, SeqCst);
                self.len.store(len + 1, SeqCst);
            }
            typing.gave(end - given);
        }
    }

    /// Sends a text as `Writer::type_bytes` does. What becomes of it.
    fn send(&self, text: &[u64]) -> u64 {
        let typing = self.typing();
        while typing.is_closing() {
            pause();
        }
        let (begin, doubts) = typing.open();
        let end = begin + text.len() as u64;
        let mut at = begin;
        loop {
            let Some(given) = typing.typed(doubts) else { return DOUBT };
            let next = end.min(at + PIECE);
            if at < next && next - given <= RING {
                for at in at..next {
                    self.ring[(at % RING) as usize].store(text[(at - begin) as usize], SeqCst);
                }
                if !typing.add(at, next) {
                    return DOUBT;
                }
                at = next;
            } else if given >= end {
                return TYPED;
            } else {
                pause();
            }
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

#[derive(Default)]
struct Ending {
    status: AtomicU64,
    time: AtomicU64,
    over: AtomicU64,
    /// What the kernel has: how many bytes were written, and whether the program has ended.
    written: AtomicU64,
    ended: AtomicU64,
    /// How many of them are on the screen.
    screen: AtomicU64,
}

impl Ending {
    fn end(&self) -> End<'_> {
        End { status: &self.status, time: &self.time, over: &self.over }
    }

    fn write(&self) {
        (1..=WRITTEN).for_each(|count| self.written.store(count, SeqCst));
        self.ended.store(1, SeqCst);
    }

    /// The keeper waits for its program, and says how it ended.
    fn keep(&self) {
        while self.ended.load(SeqCst) == 0 {
            pause();
        }
        self.end().say(HOW, HOW);
    }

    fn hold(&self, is_orphan: impl Fn() -> bool) {
        loop {
            let is_said = self.end().is_said();
            // The kernel says that the program's side is closed when all that was written is read.
            let is_closed = self.ended.load(SeqCst) == 1;
            let written = self.written.load(SeqCst);
            let is_new = written != self.screen.load(SeqCst);
            self.screen.store(written, SeqCst);
            if is_new {
                continue;
            }
            if is_said {
                self.end().reach(1);
            }
            if is_closed && (is_said || is_orphan()) {
                self.end().reach(2);
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
}

/// Whether the process that has claimed it lives.
fn lives(lock: &LifeLock) -> bool {
    matches!(lock.probe(), Life::Alive(_))
}

fn endings(world: &World) {
    let all = world.share(Ending::default());
    let locks: [Shared<LifeLock>; 2] = std::array::from_fn(|_| {
        let place = world.zeroed(size_of::<LifeLock>()).cast::<LifeLock>();
        // SAFETY: zeroed bytes of the schedule are a free lock, and stay as long as it.
        world.share(unsafe { place.read() })
    });
    world.prepare("program").immortal().run(move || all.write());
    let keeper = world.prepare("keeper").only_kills();
    let holder = world.prepare("holder").only_kills();
    keeper.before(move || _ = locks[0].try_claim());
    holder.before(move || _ = locks[1].try_claim());
    keeper.run(move || all.keep());
    holder.run(move || all.hold(|| !lives(&locks[0])));
    world.prepare("viewer").immortal().run(move || all.look(&|| lives(&locks[0]) || lives(&locks[1])));
}

#[test]
fn a_viewer_learns_how_a_program_ended_unless_its_keeper_was_killed_before() {
    let deep = Search::depth("term_endings", 2).kills(2).schedules(20_000).run(endings);
    deep.assert_clean().assert_reached(&["known", "runs", "complete"]);
    let random = Search::priorities("term_endings_pct", 4).kills(2).schedules(3_000).run(endings);
    random.assert_clean().assert_reached(&["not known", "known", "runs", "complete"]);
}
