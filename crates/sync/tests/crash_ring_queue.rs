//! The ring's histories are a queue's: whatever overlaps, there is an order of all that was sent and received, and of each
//! answer that nothing is there, in which a queue would have answered the same. Senders are stopped beforehand, and go on.

use chappe_crashsim::{Search, Shared, World, reached};
use chappe_plat::atomic::Ordering::SeqCst;
use chappe_structures::ring::{Claim, Ring};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Push(u64),
    /// There was no hole, or so it was said: see the ring's I5.
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

fn claim(number: u64) -> Claim<'static, u64> {
    // SAFETY: the world's ring outlives its processes, and each claim is used once.
    unsafe { Claim::of(number) }
}

/// It has not ended.
const LATER: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Scene {
    ring: Shared<Ring<u64>>,
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
        // SeqCst: for an outside observer a call has ended when what it stored is visible.
        chappe_plat::atomic::fence(SeqCst);
        let to = self.tick();
        let call = &mut self.calls.borrow_mut()[call];
        (call.act, call.to) = (act, to);
    }

    fn push(&self, message: u64) {
        let call = self.begin(Act::Push(message));
        let act = if self.ring.push(message).is_ok() { Act::Push(message) } else { Act::Refused };
        self.end(call, act);
    }

    fn take(&self) -> bool {
        let call = self.begin(Act::Take);
        let got = self.ring.take();
        self.end(call, got.map_or(Act::Nothing, Act::Took));
        got.is_some()
    }

    /// A process that was stopped after its claim goes on: it began to send at the very beginning.
    fn finish(&self, claimed: u64, message: u64) {
        let call = self.begin(Act::Push(message));
        self.calls.borrow_mut()[call].from = 0;
        let sent = claim(claimed).fill(message).or_else(|message| {
            reached("taken back");
            self.ring.push(message)
        });
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

/// What is done beforehand, and by each process: p send, t receive, c claim and no more, f go on from the next such claim.
struct Plan {
    name: &'static str,
    capacity: usize,
    before: &'static str,
    processes: &'static [&'static str],
}

const PLANS: [Plan; 8] = [
    Plan { name: "two", capacity: 2, before: "", processes: &["pp", "pt", "tt"] },
    Plan { name: "three", capacity: 3, before: "cpt", processes: &["f", "pt", "pt", "t"] },
    Plan { name: "stale", capacity: 3, before: "cpt", processes: &["f", "c", "ptpt", "tt"] },
    Plan { name: "behind", capacity: 3, before: "ccpt", processes: &["ff", "ptp", "ptt"] },
    Plan { name: "ahead", capacity: 3, before: "cpp", processes: &["f", "tt", "tpt"] },
    Plan { name: "small", capacity: 2, before: "cp", processes: &["fp", "tpt", "pt"] },
    Plan { name: "four", capacity: 4, before: "ccpt", processes: &["ff", "pp", "tp", "tt"] },
    Plan { name: "one", capacity: 1, before: "", processes: &["pt", "pt", "pt"] },
];

fn play(world: &World, plan: &Plan) {
    let ring = world.share(Ring::new(plan.capacity));
    let scene = Scene { ring, calls: world.share(RefCell::default()), now: world.share(Cell::new(0)) };
    let mut claims = Vec::new();
    for (i, what) in (1..).zip(plan.before.chars()) {
        match what {
            'p' => scene.push(900 + i),
            't' => assert!(scene.take()),
            _ => claims.push(ring.claim().expect("a hole").number()),
        }
    }
    for (n, acts) in (1..).zip(plan.processes.iter().copied()) {
        let mut claims = if acts.contains('f') { std::mem::take(&mut claims) } else { Vec::new() };
        world.process(["one", "two", "three", "four"][n as usize - 1], move || {
            for (i, act) in (1..).zip(acts.chars()) {
                match act {
                    'p' => scene.push(n * 10 + i),
                    't' => _ = scene.take(),
                    'c' => _ = scene.ring.claim(),
                    _ => scene.finish(claims.remove(0), n * 10 + i),
                }
            }
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
        let name = |how| format!("ring_queue_{}_{how}", plan.name);
        for search in [
            Search::depth(&name("depth"), 3).schedules(15_000),
            Search::priorities(&name("pct"), 7).schedules(15_000),
            Search::priorities(&name("stop"), 4).stops(2).schedules(10_000),
            Search::uniform(&name("buffers")).store_buffers(4).schedules(5_000),
        ] {
            search.run(|world: &World| play(world, plan)).assert_clean();
        }
    }
}

/// One sender sends twice, each time as a process of its own; a hint is led back in between to a position that was
/// passed over. A process that comes when it is of no interest ends at once: fewer orders.
fn led_back(world: &World) {
    let ring = world.share(Ring::new(3));
    let slow = ring.claim().expect("a hole").number();
    ring.push(10).expect("a hole");
    assert_eq!(ring.take(), Some(10));
    let step = world.share(Cell::new([false; 6]));
    let [slow_begins, slow_ends, stale_begins, stale_ends, again_begins, again_ends] = [0, 1, 2, 3, 4, 5];
    let set = move |what: usize| {
        let mut all = step.get();
        all[what] = true;
        step.set(all);
    };
    let between = move |from: usize, to: usize| step.get()[from] && !step.get()[to];
    let sent = world.share(Cell::new(false));
    let got = world.share(RefCell::new(Vec::new()));
    world.process("stale", move || {
        set(stale_begins);
        let _unused = ring.claim();
        set(stale_ends);
    });
    world.process("slow", move || {
        set(slow_begins);
        let _back = claim(slow).fill(99);
        set(slow_ends);
    });
    world.process("first", move || {
        if between(slow_begins, slow_ends) && between(stale_begins, stale_ends) {
            sent.set(ring.push(11).is_ok());
        }
    });
    world.process("again", move || {
        if sent.get() && step.get()[slow_ends] && step.get()[stale_ends] {
            set(again_begins);
            let _sent = ring.push(12);
            set(again_ends);
        }
    });
    world.process("receiver", move || {
        if between(again_begins, again_ends) {
            got.borrow_mut().extend(ring.take());
        }
    });
    world.prepare("last").last().run(move || {
        let mut got = got.borrow_mut();
        got.extend(std::iter::from_fn(|| ring.take()));
        let at = |message| got.iter().position(|m| *m == message);
        if let (Some(first), Some(second)) = (at(11), at(12)) {
            reached("both came");
            assert!(first < second, "12 has overtaken 11: {got:?}");
        }
    });
}

#[test]
fn a_sender_led_back_by_a_hint_overtakes_no_message() {
    Search::depth("ring_led_back", 3).schedules(1_200_000).run(led_back).assert_clean().assert_reached(&["both came"]);
}
