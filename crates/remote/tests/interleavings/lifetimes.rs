//! Deadlines against the engine's clock: renewals that are late, overtake each other, or are lost, at every moment.

use chappe_remote::life::Life;
use std::collections::HashSet;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(200);
const TTL: Duration = Duration::from_secs(2);

/// A renewal under way: when it was sent, and whether the engine has had it.
type Sent = (u32, bool);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lives {
    now: u32,
    life: Life,
    under_way: Vec<Sent>,
    /// When the engine ends the lease; `None`: it has.
    ends: Option<u32>,
    /// The holder has seen that it is over.
    over: bool,
}

fn at(tick: u32) -> Duration {
    TICK * tick
}

impl Lives {
    fn next(&self) -> Vec<Lives> {
        let mut all = Vec::new();
        let mut later = self.clone();
        later.now += 1;
        later.over = later.life.is_over(at(later.now));
        later.ends = later.ends.filter(|ends| later.now < *ends);
        all.push(later);
        if self.under_way.len() < 2 {
            let mut sends = self.clone();
            sends.under_way.push((self.now, false));
            all.push(sends);
        }
        for (i, (sent, had)) in self.under_way.iter().enumerate() {
            let mut next = self.clone();
            if *had {
                next.under_way.remove(i);
                next.life.renewed(at(*sent), at(self.now), TTL);
                next.over = next.life.is_over(at(self.now));
            } else if self.ends.is_some() {
                next.under_way[i].1 = true;
                next.ends = Some(self.now + 10);
            } else {
                next.under_way.remove(i);
                next.life.ended();
                next.over = true;
            }
            all.push(next);
        }
        all
    }
}

#[test]
fn no_holder_believes_in_a_permit_that_the_engine_may_have_given_away() {
    let first = Lives { now: 0, life: Life::new(at(0), TTL), under_way: vec![], ends: Some(10), over: false };
    let (mut seen, mut todo, mut renewed) = (HashSet::new(), vec![first], 0);
    while let Some(lives) = todo.pop() {
        if lives.now > 16 || !seen.insert(lives.clone()) {
            continue;
        }
        assert!(lives.over || lives.ends.is_some(), "the lease has ended, and its holder does not know: {lives:?}");
        renewed = renewed.max(lives.life.deadline().as_millis() / TICK.as_millis());
        for next in lives.next() {
            assert!(!lives.over || next.over, "it was over, and is not any more: {lives:?}, {next:?}");
            todo.push(next);
        }
    }
    // One that never renews anything would pass all of that.
    assert!(renewed > 20, "the deadline came to tick {renewed}");
}
