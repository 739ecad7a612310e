//! What is typed into a terminal, explored: its holder is killed at each step, and so is the process that sends. The program gets of each text a
//! beginning, all of it where the sender is told so, and never a byte twice or out of order.

use crate::term_words::Typing;
use chappe_crashsim::{Search, Shared, World, reached};
use chappe_plat::atomic::{AtomicU64, Ordering::SeqCst, pause};
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
