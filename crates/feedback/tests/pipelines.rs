//! The controller on pipelines at random: nothing is lost that need not be, steps and ramps are followed, and little is reserved in vain.

use chappe_feedback::Law;
use chappe_feedback::model::{Cost, Plan, Random, run};

const PERIODS: usize = 1_000;
const CHANGE: usize = 400;

/// What a pipeline does at period [`CHANGE`].
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Nothing,
    Step,
    /// Over 100 periods.
    Ramp,
}

/// One to six stages of 1 % to 45 % of a processor, pipes of 20 to 80 ms, up to 8 blocks a period; one stage changes to at most 70 %.
fn pipeline(seed: u64) -> (Plan, Change) {
    let mut random = Random::new(seed);
    let stages = 1 + random.any() as usize % 6;
    let rate = random.within(1.0, 8.0);
    let change = [Change::Nothing, Change::Step, Change::Ramp][random.any() as usize % 3];
    let who = random.any() as usize % stages;
    let costs = (0..stages).map(|at| -> Cost {
        let before = random.within(0.01, 0.45);
        let after = if at == who { random.within(0.01, 0.7) } else { before };
        Box::new(move |k| {
            let part = match change {
                Change::Nothing => 0.0,
                Change::Step => f64::from(u8::from(k >= CHANGE)),
                Change::Ramp => (k.saturating_sub(CHANGE) as f64 / 100.0).min(1.0),
            };
            (before + part * (after - before)) / rate
        })
    });
    let costs: Vec<Cost> = costs.collect();
    let (noise, delay) = (random.within(0.0, 0.3), random.any() as usize % 3);
    // A pipe holds what comes while nobody has looked yet.
    let shortest = 5.0 + 1.5 * delay as f64;
    let room = (0..stages).map(|_| (rate * random.within(shortest, 20.0)).ceil() as usize + 1).collect();
    (
        Plan { rate, room, costs, noise, delay, processors: f64::INFINITY, lends: false, law: Law::default(), seed },
        change,
    )
}

/// What is wrong with it, if anything is.
fn judge(seed: u64) -> Result<(), String> {
    let (plan, change) = pipeline(seed);
    let all = run(&plan, PERIODS);
    let told =
        format!("seed {seed}: {change:?}, {} stages, rate {:.2}, delay {}", plan.costs.len(), plan.rate, plan.delay);
    let lost = |from: usize, to: usize| all[from..to].iter().map(|p| p.lost).sum::<u32>();
    // Where nothing changes nothing is lost.
    let quiet = if change == Change::Step { vec![(0, CHANGE), (CHANGE + 50, PERIODS)] } else { vec![(0, PERIODS)] };
    for (from, to) in quiet {
        if lost(from, to) > 0 {
            return Err(format!("{told}: {} lost from {from} to {to}", lost(from, to)));
        }
    }
    // Behind a step no more than what comes in a period.
    if f64::from(lost(CHANGE, CHANGE + 50)) > plan.rate.max(2.0) {
        return Err(format!("{told}: {} lost after the change", lost(CHANGE, CHANGE + 50)));
    }
    // In the end all pipes are as empty as before, and the reservations are what is used and a little more.
    let last = &all[PERIODS - 250..];
    let (used, reserved) = (last.iter().map(|p| p.used).sum::<f64>(), last.iter().map(|p| p.reserved).sum::<f64>());
    // With a block or two in a period, how many fall into a window differs much.
    let margin = if plan.rate < 2.0 { 1.4 } else { 1.3 };
    let allowed = margin * used + 250.0 * 0.006 * plan.costs.len() as f64;
    if reserved > allowed {
        return Err(format!("{told}: reserved {:.3} of {:.3}", reserved / 250.0, used / 250.0));
    }
    let calls = last.iter().map(|p| p.told).sum::<u32>() as usize;
    if calls > 250 * plan.costs.len() / 5 {
        return Err(format!("{told}: the scheduler was told {calls} times in a second"));
    }
    Ok(())
}

fn all(seeds: std::ops::Range<u64>) {
    let count = seeds.end - seeds.start;
    let wrong: Vec<String> = seeds.filter_map(|seed| judge(seed).err()).collect();
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
}

#[test]
fn pipelines_at_random_lose_nothing_and_reserve_little() {
    all(0..150);
}

#[test]
#[ignore = "storm: ten thousand pipelines of four seconds each"]
fn ten_thousand_pipelines_at_random_lose_nothing_and_reserve_little() {
    all(0..10_000);
}

#[test]
fn a_law_without_margin_and_gain_is_found_out() {
    let (mut plan, _) = pipeline(3);
    plan.law = Law { margin: -0.1, gain: 0.0, ..Law::default() };
    assert!(run(&plan, PERIODS).iter().map(|p| p.lost).sum::<u32>() > 0);
}
