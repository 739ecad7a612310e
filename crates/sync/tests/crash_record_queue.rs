//! The histories of a ring of records are a queue's: whatever overlaps, there is an order of all that was sent and received, and of each answer that
//! nothing is there, in which a queue would have answered the same. Some processes are stopped beforehand and go on, some are killed; redelivered
//! records, which are marked, are not counted a second time.

use crate::records::{fill, look, receive, record, ring};
use chappe_arena::Visit;
use chappe_crashsim::{Search, Shared, World, process, reached, robust};
use chappe_plat::atomic::AtomicU32;
use chappe_structures::record::{Borrowed, Ring, Shape, Slot};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Push(u64),
    /// There was no hole, or so it was reported (I4 of the ring); or it is no step of the queue.
    Refused,
    /// Under way.
    Take,
    Took(u64),
    Nothing,
}

/// What a process did, and between which moments.
#[derive(Clone, Copy, Debug)]
struct Call {
    act: Act,
    from: u32,
    to: u32,
}

/// It has not ended.
const LATER: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Scene {
    ring: Ring<'static>,
    calls: Shared<RefCell<Vec<Call>>>,
    now: Shared<Cell<u32>>,
}

impl Scene {
    fn tick(&self) -> u32 {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }

    fn begin(&self, act: Act) -> usize {
        let call = Call { act, from: self.tick(), to: LATER };
        self.calls.borrow_mut().push(call);
        self.calls.borrow().len() - 1
    }

    fn end(&self, call: usize, act: Act) {
        let to = self.tick();
        let call = &mut self.calls.borrow_mut()[call];
        (call.act, call.to) = (act, to);
    }

    fn push(&self, me: u16, message: u64) {
        let call = self.begin(Act::Push(message));
        let (bytes, len) = record(message);
        let act = if self.ring.try_send(me, &bytes[..len]) { Act::Push(message) } else { Act::Refused };
        self.end(call, act);
    }

    fn took(&self, call: usize, got: Option<(u64, bool)>) {
        let act = match got {
            Some((_, true)) => Act::Refused,
            Some((message, false)) => Act::Took(message),
            None => Act::Nothing,
        };
        self.end(call, act);
    }

    fn take(&self) -> bool {
        let call = self.begin(Act::Take);
        let got = receive(&self.ring);
        self.took(call, got);
        got.is_some()
    }

    fn borrow(&self, me: u16) -> Option<Borrowed> {
        let call = self.begin(Act::Take);
        let borrowed = self.ring.borrow(me);
        self.took(call, borrowed.as_ref().map(|b| (look(&self.ring, b), b.again())));
        borrowed
    }

    /// A process that was stopped after its reservation goes on: it began to send at the very beginning.
    fn finish(&self, slot: Slot, message: u64) {
        let call = self.begin(Act::Push(message));
        self.calls.borrow_mut()[call].from = 0;
        let len = fill(&self.ring, &slot, message);
        let sent = self.ring.commit(slot, len);
        if sent.is_err() {
            reached("full at commit");
        }
        self.end(call, if sent.is_ok() { Act::Push(message) } else { Act::Refused });
    }

    fn is_queue(&self) -> bool {
        let calls: Vec<Call> = self.calls.borrow().iter().copied().filter(|c| c.act != Act::Refused).collect();
        explained(&calls, 0, &[], &mut HashSet::new())
    }
}

/// Whether the calls that are not done can follow in some order, from this queue on.
fn explained(calls: &[Call], done: u32, queue: &[u64], seen: &mut HashSet<(u32, Vec<u64>)>) -> bool {
    let left = || (0..calls.len()).filter(|i| done >> i & 1 == 0);
    let until = left().map(|i| calls[i].to).min().unwrap_or(LATER);
    // What is under way need not have happened.
    if until == LATER {
        return true;
    }
    if !seen.insert((done, queue.to_vec())) {
        return false;
    }
    left().filter(|i| calls[*i].from <= until).any(|i| {
        let mut queue = queue.to_vec();
        let fits = match calls[i].act {
            Act::Push(message) => {
                queue.push(message);
                true
            }
            Act::Nothing => queue.is_empty(),
            Act::Took(message) => queue.first() == Some(&message) && queue.remove(0) == message,
            Act::Take => queue.is_empty() || queue.remove(0) > 0,
            Act::Refused => true,
        };
        fits && explained(calls, done | 1 << i, &queue, seen)
    })
}

/// What is done beforehand, and by each process: p send, t receive, c reserve and no more, f go on from the next such
/// reservation, a give it up, b borrow and no more, r release the next such loan, l borrow and release.
struct Plan {
    name: &'static str,
    capacity: u32,
    before: &'static str,
    processes: &'static [&'static str],
}

const PLANS: [Plan; 10] = [
    Plan { name: "two", capacity: 2, before: "", processes: &["pp", "pt", "tt"] },
    Plan { name: "three", capacity: 3, before: "cpt", processes: &["f", "pt", "pt", "t"] },
    Plan { name: "stale", capacity: 3, before: "cpt", processes: &["f", "c", "ptpt", "tt"] },
    Plan { name: "behind", capacity: 3, before: "ccpt", processes: &["ff", "ptp", "ptt"] },
    Plan { name: "ahead", capacity: 3, before: "cpp", processes: &["f", "tt", "tpt"] },
    Plan { name: "small", capacity: 2, before: "cp", processes: &["fp", "tpt", "pt"] },
    Plan { name: "given", capacity: 3, before: "ccpp", processes: &["af", "tpt", "ptt"] },
    Plan { name: "loan", capacity: 2, before: "ppb", processes: &["r", "pp", "tt", "lt"] },
    Plan { name: "loans", capacity: 3, before: "pppbcb", processes: &["rf", "ppt", "ltt"] },
    Plan { name: "one", capacity: 1, before: "", processes: &["pt", "pl", "pt"] },
];

fn play(world: &World, plan: &Plan) {
    let ring = ring(world, Shape::many(plan.capacity, 16, 8), (1 << 45) - 1);
    let scene = Scene { ring, calls: world.share(RefCell::default()), now: world.share(Cell::new(0)) };
    let lives = world.share([const { AtomicU32::new(0) }; 4]);
    let (mut slots, mut loans) = (Vec::new(), Vec::new());
    for (i, what) in (1..).zip(plan.before.chars()) {
        match what {
            'p' => scene.push(9, 900 + i),
            't' => assert!(scene.take()),
            'b' => loans.push(scene.borrow(1).expect("a record")),
            // Where it may be, there is no more.
            _ => slots.extend(ring.reserve(1)),
        }
    }
    let recoverer = world.prepare("recoverer");
    for (n, acts) in (1..).zip(plan.processes.iter().copied()) {
        let (mut slots, mut loans) =
            if n == 1 { (std::mem::take(&mut slots), std::mem::take(&mut loans)) } else { Default::default() };
        let life = usize::from(n) - 1;
        let p = world.prepare(["one", "two", "three", "four"][life]);
        p.before(|| assert_eq!(robust::try_claim(&lives[life]), robust::Claim::Fresh));
        p.run(move || {
            for (i, act) in (1..).zip(acts.chars()) {
                match act {
                    'p' => scene.push(n, u64::from(n) * 10 + i),
                    't' => _ = scene.take(),
                    'c' => _ = scene.ring.reserve(n),
                    'a' => scene.ring.abandon(slots.remove(0)),
                    'r' => assert!(scene.ring.release(loans.remove(0)), "it was ours"),
                    'l' => {
                        if let Some(borrowed) = scene.borrow(n) {
                            assert!(scene.ring.release(borrowed), "it was ours");
                        }
                    }
                    _ if !slots.is_empty() => scene.finish(slots.remove(0), u64::from(n) * 10 + i),
                    _ => {}
                }
            }
            process::linger();
        });
        recoverer.daemon(&format!("of {n}"), move || {
            robust::claim(&lives[life]);
            scene.ring.recover(&Visit::of_own_memory(), n, || true, |_| ());
            process::linger();
        });
    }
    world.prepare("last").last().run(move || {
        while scene.take() {}
        assert!(scene.is_queue(), "no queue does this: {:?}", scene.calls.borrow());
    });
}

#[test]
fn its_histories_are_those_of_a_queue() {
    for plan in &PLANS {
        let name = |how| format!("record_queue_{}_{how}", plan.name);
        for search in [
            Search::depth(&name("depth"), 3).schedules(15_000),
            Search::priorities(&name("pct"), 7).schedules(15_000),
            Search::priorities(&name("stop"), 4).stops(2).schedules(10_000),
            Search::priorities(&name("kill"), 4).kills(2).schedules(10_000),
            Search::uniform(&name("buffers")).kills(1).store_buffers(4).schedules(5_000),
        ] {
            search.run(|world: &World| play(world, plan)).assert_clean();
        }
    }
}
