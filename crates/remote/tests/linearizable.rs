//! What programs see of a mutual exclusion and of a semaphore, whichever of them the engine serves next and whatever answers are lost: some order of all
//! that they did explains each answer.

use both::{Act, Answer, Both, Event, assert_linearizable, is_linearizable};
use chappe_remote::acquire::{self, Acquire, Grant, Of, Outcome, Want};
use chappe_remote::add::{self, Add};
use chappe_remote::engine::{EngineError, LeaseId, Op, Txn, TxnReply};
use chappe_remote::grant::{Attempt, End, Own};
use chappe_remote::keys::{self, Object, Space, Who};
use chappe_remote::release::{self, Release};
use model::Model;

#[path = "engine/both.rs"]
mod both;
#[path = "interleavings/model.rs"]
#[expect(dead_code, reason = "the interleavings use the rest")]
mod model;

const PROGRAMS: usize = 4;
/// What each does.
const ACTS: usize = 10;

/// What a program is at.
enum At {
    Takes(Acquire),
    Gives(Release),
    Adds(Add),
    Spends(Acquire),
}

struct Program {
    number: usize,
    space: Space,
    begun: usize,
    held: Option<Grant>,
    at: Option<(Act, u64, At)>,
}

impl Program {
    /// Begins something, by this random number.
    fn begins(&mut self, random: u64, now: u64) {
        self.begun += 1;
        let lease = LeaseId(self.number as i64 + 1);
        let who = Who { host: "here".into(), pid: self.number as u32, label: "test".into() };
        let (space, by) = (self.space.clone(), Attempt { id: keys::attempt(lease, self.begun as u32), lease, who });
        let tries = |of: Of, name: &str, by: Attempt| {
            let want = Want { of, pools: vec![name.to_owned()], n: 1, wait: false };
            Acquire::new(space.clone(), by, want)
        };
        self.at = Some(match (random % 4, self.held.take()) {
            (0 | 1, None) => (Act::Take(self.number), now, At::Takes(tries(Of::Pools, "p", by))),
            (0 | 1, Some(grant)) => {
                let own = Own { pool: "p".into(), token: grant.token, end: End::Left };
                let waited_for = random & 16 != 0;
                (Act::Give(self.number), now, At::Gives(Release::new(space, own, grant.indices, waited_for)))
            }
            (other, held) => {
                self.held = held;
                let n = 1 + (random >> 8) as u32 % 2;
                match other {
                    2 => (Act::Up(n), now, At::Adds(Add::new(space, by, "s".into(), n))),
                    _ => (Act::Down, now, At::Spends(tries(Of::Units, "s", by))),
                }
            }
        });
    }

    /// One step of it: a call, which `asks` makes, or the end, with what it was told.
    fn goes_on(&mut self, asks: impl FnOnce(&Txn) -> Result<TxnReply, EngineError>) -> Option<(Act, u64, Answer)> {
        let (act, begun, at) = self.at.as_mut()?;
        let answer = match at {
            At::Takes(machine) | At::Spends(machine) => match machine.step() {
                acquire::Step::Call(txn) => {
                    machine.answered(&asks(&txn));
                    return None;
                }
                acquire::Step::Done(Outcome::Granted(grant)) => {
                    self.held = (!grant.indices.is_empty()).then_some(grant).or(self.held.take());
                    Answer::Done
                }
                acquire::Step::Done(Outcome::WouldBlock) => Answer::WouldBlock,
                other => panic!("{other:?}"),
            },
            At::Gives(machine) => match machine.step() {
                release::Step::Call(txn) | release::Step::Glance(txn) => {
                    machine.answered(&asks(&txn));
                    return None;
                }
                release::Step::Done(end) => {
                    assert_eq!(end, Ok(vec![]), "nobody takes it away");
                    Answer::Done
                }
            },
            At::Adds(machine) => match machine.step() {
                add::Step::Call(txn) => {
                    machine.answered(&asks(&txn));
                    return None;
                }
                add::Step::Done(add::Outcome::Added(value)) => Answer::Value(value),
                add::Step::Done(other) => panic!("{other:?}"),
            },
        };
        let ended = (*act, *begun, answer);
        self.at = None;
        Some(ended)
    }
}

/// Programs that take turns by chance; of each eighth call the answer is lost, whether it was done or not.
fn history(seed: u64) -> Vec<Event<Act, Answer>> {
    let (space, mut engine, mut random) =
        (Space::new("n").unwrap(), Model::new(), seed.wrapping_mul(2).wrapping_add(1));
    let mut dice = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for (name, object) in [("p", Object::Pool { permits: 1 }), ("s", Object::Sem { value: 0 })] {
        let put = Op::Put { key: space.size(name), value: keys::write(&object), lease: None };
        assert!(engine.txn(&Txn::of(vec![put])).0.is_ok());
    }
    let program = |number| Program { number, space: space.clone(), begun: 0, held: None, at: None };
    let (mut programs, mut all): (Vec<Program>, Vec<_>) = ((0..PROGRAMS).map(program).collect(), Vec::new());
    (1..=PROGRAMS).for_each(|lease| engine.grant(LeaseId(lease as i64)));
    for now in 0.. {
        programs.retain(|program| program.begun < ACTS || program.at.is_some());
        let Some(last) = programs.len().checked_sub(1) else { break };
        let (turn, chance) = (dice() as usize % (last + 1), dice());
        let program = &mut programs[turn];
        if program.at.is_none() {
            program.begins(chance, now);
            continue;
        }
        let ended = program.goes_on(|txn| match chance >> 32 & 15 {
            0 => engine.txn(txn).0.and(Err(EngineError::Unknown("lost".into()))),
            1 => Err(EngineError::Unknown("not done".into())),
            _ => engine.txn(txn).0,
        });
        let event =
            |(what, begun, answer)| Event { who: program.number, what, answer: Some(answer), begun, ended: now };
        all.extend(ended.map(event));
    }
    all
}

#[test]
fn histories_of_permits_and_units_are_linearizable_whatever_answers_are_lost() {
    let mut told = [0; 3];
    for seed in 0..400 {
        let all = history(seed);
        assert_eq!(all.len(), PROGRAMS * ACTS);
        assert_linearizable(Both::default(), &all);
        for event in &all {
            told[match (event.what, event.answer) {
                (Act::Take(_), Some(Answer::Done)) => 0,
                (Act::Take(_), _) => 1,
                _ => 2,
            }] += 1;
        }
        // Two that have it at once are found out.
        let last = all.iter().map(|event| event.ended).max().unwrap();
        let take = |begun| Event { who: 9, what: Act::Take(9), answer: Some(Answer::Done), begun, ended: begun + 1 };
        assert!(!is_linearizable(Both::default(), &[all, vec![take(last + 1), take(last + 3)]].concat()));
    }
    assert!(told.iter().all(|times| *times > 500), "granted, refused, and all else: {told:?}");
}
