//! The ring under loom: every stale read that the orders allow. The asymmetric fence is two full ones here. Messages
//! themselves are plain memory, which loom does not see; data that is written before a send stands for them.

use crate::loom::{three_reach, two_reach};
use chappe_plat::explore::{Data, together};
use chappe_structures::ring::{Claim, Ring};

#[derive(Clone, Copy)]
struct Scene {
    ring: &'static Ring<u64>,
    /// Claimed while the scene was set up, by a sender that was stopped then.
    claimed: u64,
    data: Data,
}

impl Scene {
    fn new(capacity: usize, claims: bool) -> Scene {
        let ring: &'static Ring<u64> = Box::leak(Box::new(Ring::new(capacity)));
        for _ in 0..capacity {
            // Every word is touched while the scene is set up.
            ring.push(0).expect("a hole");
            ring.take().expect("a message");
        }
        let claimed = if claims { ring.claim().expect("a hole").number() } else { 0 };
        Scene { ring, claimed, data: Data::new() }
    }

    fn take(&self) -> u64 {
        self.ring.take().unwrap_or(0)
    }

    fn claim(&self) -> Claim<'static, u64> {
        // SAFETY: the ring is leaked; each execution uses it once to send.
        unsafe { Claim::of_lap(self.claimed, 1) }
    }

    /// The stopped sender goes on.
    fn finish(&self, message: u64) {
        if let Err(message) = self.claim().fill(message) {
            self.ring.push(message).expect("a hole");
        }
    }

    /// What is left, sorted: digits of one number.
    fn rest(&self) -> u64 {
        let mut all: Vec<u64> = std::iter::from_fn(|| self.ring.take()).collect();
        all.sort_unstable();
        all.into_iter().fold(0, |sum, message| sum * 10 + message)
    }
}

/// From the claim on: of a thread that loads a word before it swaps it loom tries fewer orders.
fn publish(s: Scene) -> u64 {
    s.data.set(1);
    s.finish(1);
    0
}

fn receive_it(s: Scene) -> u64 {
    let got = s.take();
    assert!(got == 0 || s.data.get() == 1);
    got
}

#[test]
fn a_write_before_the_send_is_visible_to_the_receiver() {
    two_reach(3, || Scene::new(2, true), |s| together(s, [publish, receive_it])[1], [0, 1]);
}

/// A sender is stopped before its message; another message is behind it. It goes on while that one is received.
fn half_sent() -> Scene {
    let scene = Scene::new(3, true);
    scene.ring.push(2).expect("a hole");
    scene
}

fn finish(s: Scene) -> u64 {
    s.finish(1);
    0
}

#[test]
fn a_passed_over_sender_finds_out() {
    let execution = |s: Scene| (together(s, [finish, |s| s.take()])[1], s.rest());
    // It was there first, or was passed over: then it comes after the other.
    two_reach(3, half_sent, execution, [(1, 2), (2, 1)]);
}

#[test]
fn two_pass_one_over_and_miss_nothing() {
    let execution = |s: Scene| {
        let mut got = together(s, [finish, |s| s.take(), |s| s.take()]);
        got.sort_unstable();
        (got[1], got[2], s.rest())
    };
    three_reach(1, half_sent, execution, [(0, 2, 1), (1, 2, 0)]);
}

fn begin_to_pass(s: Scene) -> u64 {
    Ring::<u64>::begin_to_pass(&s.claim());
    0
}

#[test]
fn a_receiver_stopped_while_it_passes_one_over_loses_nothing() {
    let execution = |s: Scene| (together(s, [finish, begin_to_pass, |s| s.take()])[2], s.rest());
    three_reach(2, half_sent, execution, [(1, 2), (2, 1)]);
}

/// As above, and the other message has been received: a sender comes to the same slot in the next lap.
fn passed_over() -> Scene {
    let scene = Scene::new(2, true);
    scene.ring.push(2).expect("a hole");
    assert_eq!(scene.take(), 2);
    scene
}

#[test]
fn a_sender_passes_one_over_that_goes_on() {
    let execution = |s: Scene| (together(s, [finish, |s| s.ring.push(3).is_ok().into()])[1], s.rest());
    two_reach(3, passed_over, execution, [(1, 13)]);
}

/// One thread only claims, or sends; another sends, then receives: it finds its own message at least, wherever the
/// hints lead.
fn send_and_take(s: Scene) -> u64 {
    s.ring.push(5).expect("a hole");
    s.take()
}

/// And does not go on.
fn claim_only(s: Scene) -> u64 {
    u64::from(s.ring.claim().is_none())
}

fn send_another(s: Scene) -> u64 {
    s.ring.push(3).expect("a hole");
    0
}

#[test]
fn a_receiver_led_on_by_a_hint_finds_its_own_message() {
    two_reach(3, || Scene::new(3, false), |s| together(s, [claim_only, send_and_take])[1], [5]);
    two_reach(3, || Scene::new(3, false), |s| together(s, [send_another, send_and_take])[1], [3, 5]);
}

/// Two messages, no hole: each of two takes one, and then there is a hole for it.
fn full() -> Scene {
    let scene = Scene::new(2, false);
    (1..3).for_each(|message| scene.ring.push(message).expect("a hole"));
    scene
}

fn take_and_send(s: Scene) -> u64 {
    // What it gets is plain memory, which keeps what an earlier execution wrote.
    assert!(s.take() > 0);
    s.ring.push(5).is_ok().into()
}

#[test]
fn a_sender_led_on_by_a_hint_finds_its_own_hole() {
    two_reach(3, full, |s| together(s, [|s| s.take(), take_and_send])[1], [1]);
}
