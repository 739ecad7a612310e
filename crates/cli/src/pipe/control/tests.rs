//! The loop without a real scheduler, and who is left alone.

use super::*;
use crate::asleep::Asleep;
use std::process::Stdio;

#[test]
fn a_stage_that_takes_all_is_left_alone_unless_it_catches_up() {
    let mut taker = Taker::new(false);
    let told: Vec<bool> = (0..1_000).filter_map(|_| taker.next(true, 1.0, false, 1)).collect();
    assert_eq!(told, [true]);
    let mut taker = Taker::new(false);
    // Its input gets emptier by a hundredth a period, and then it needs less.
    assert!((0..70).all(|k| taker.next(true, 0.9 - 0.01 * f64::from(k), false, 1).is_none()));
    assert!((0..1_000).all(|_| taker.next(false, 0.1, true, 1).is_none()));
    let mut taker = Taker::new(true);
    assert!((0..1_000).all(|_| taker.next(true, 1.0, false, 1).is_none()));
}

#[test]
fn a_stage_wrongly_taken_back_is_left_alone_ever_longer() {
    let mut taker = Taker::new(false);
    let mut changes = Vec::new();
    for k in 0..2_000 {
        // It waits while it is alone, and takes all when it is not.
        if taker.next(true, 1.0, true, 1).is_some() {
            changes.push(k);
        }
    }
    let waits: Vec<i32> = changes.chunks_exact(2).map(|c| c[1] - c[0]).collect();
    assert_eq!(waits[..4], [64, 128, 256, 512]);
}

#[test]
fn a_stage_that_takes_all_leaves_the_whole_pipeline_to_the_scheduler_until_it_waits() {
    use super::super::kernel::fake::Fake;
    let children = [0, 1].map(|_| Asleep::new(Stdio::null(), Stdio::null()));
    let roots: Vec<Vec<i32>> = children.iter().map(|c| vec![c.pid()]).collect();
    let mut kernel = Fake::new(&[roots[0][0], roots[1][0]]);
    let (tell, told) = std::sync::mpsc::channel();
    let mut controller = Controller::new(&roots, Law::default(), false, Kind::Deadline, tell);
    let policies = |kernel: &Fake| [0, 1].map(|at: usize| kernel.tasks[&roots[at][0]].policy);
    let period = Duration::from_nanos(PERIOD);
    (0..4).for_each(|tick| controller.period(tick, period, &mut kernel));
    assert_eq!(policies(&kernel), [super::super::kernel::DEADLINE; 2]);
    controller.stages[1].taker.alone = true;
    controller.period(4, period, &mut kernel);
    assert!(controller.alone);
    assert_eq!(policies(&kernel), [0; 2]);
    controller.period(5, period, &mut kernel);
    assert_eq!(policies(&kernel), [0; 2]);
    let looks: Vec<bool> = told
        .try_iter()
        .filter_map(|e| if let Event::Look { stages, .. } = e { Some(stages.iter().all(|s| s.alone)) } else { None })
        .collect();
    assert_eq!(looks, [true; 2]);
    controller.stages[1].taker.alone = false;
    (6..9).for_each(|tick| controller.period(tick, period, &mut kernel));
    assert_eq!(policies(&kernel), [super::super::kernel::DEADLINE; 2]);
}

#[test]
fn initial_reservations_are_steered_and_given_back() {
    use super::super::kernel::fake::Fake;
    let children = [Stdio::null(), Stdio::piped(), Stdio::piped()].map(|stdin| Asleep::new(stdin, Stdio::null()));
    let roots: Vec<Vec<i32>> = children.iter().map(|c| vec![c.pid()]).collect();
    let mut kernel = Fake::new(&[0, roots[0][0], roots[1][0], roots[2][0]]);
    let (tell, _told) = std::sync::mpsc::channel();
    let firsts = [true, false, false].map(|source| first(Kind::Deadline, Law::default(), source, &mut kernel));
    for (first, root) in firsts.iter().flatten().zip(&roots) {
        first.take(|to| kernel.set_attributes(root[0], to));
    }
    let mut controller = Controller::new(&roots, Law::default(), false, Kind::Deadline, tell);
    controller.adopt(&firsts, &mut kernel);
    let shares = |kernel: &Fake| {
        let all = roots.iter().map(|root| kernel.tasks[&root[0]]);
        all.map(|a| (a.period, a.runtime * 1000 / a.period)).collect::<Vec<_>>()
    };
    let period = Duration::from_nanos(PERIOD);
    controller.period(0, period, &mut kernel);
    assert_eq!(shares(&kernel), [(SOURCE, 250), (PERIOD, 250), (PERIOD, 250)]);
    (1..1_000).for_each(|tick| controller.period(tick, period, &mut kernel));
    // None uses anything: each comes down to the least, and only a stage without a pipe before it is a source.
    let all = shares(&kernel);
    assert!(all[0].0 == SOURCE && (100..120).contains(&all[0].1), "{all:?}");
    assert!(all[1..].iter().all(|(period, share)| *period == PERIOD && *share < 10), "{all:?}");
    controller.stages.iter_mut().for_each(|s| s.means.give_back(&mut kernel));
    assert!(roots.iter().all(|root| kernel.tasks[&root[0]] == super::super::kernel::Attributes::fair(0, 0)));
}

/// Ticks that a source misses in `ticks` milliseconds, each of which takes it `cost` microseconds, where nothing but its own reservation holds it up: the
/// scheduler's constant bandwidth server, which lends nothing here, and the controller with its look each 4 ms.
fn missed((law, period): (Law, u64), ticks: u64, mut cost: impl FnMut() -> f64) -> u64 {
    let period = period as f64 / 1e3;
    let mut share = Share::new(law);
    let (mut left, mut deadline, mut now, mut used) = (0.0f64, 0.0f64, 0.0f64, 0.0);
    let (mut seen, mut missed, mut looks) = (0, 0, 1.0);
    while seen < ticks {
        // It sleeps until a tick that it has not seen, and sees all that were until then.
        now = now.max((seen + 1) as f64 * 1e3);
        let tick = (now / 1e3) as u64;
        missed += tick - seen - 1;
        seen = tick;
        if deadline <= now || left > (deadline - now) * share.told() {
            (left, deadline) = (share.told() * period, now + period);
        }
        let mut to_do = cost();
        while to_do > 0.0 {
            let runs = to_do.min(left.max(0.0));
            (to_do, left, now, used) = (to_do - runs, left - runs, now + runs, used + runs);
            if to_do > 0.0 {
                now = now.max(deadline);
                (left, deadline) = (left + share.told() * period, deadline + period);
            }
        }
        while now >= looks * 4e3 {
            let fill_in = f64::from(u8::from(used / 4e3 >= 0.9 * share.told()));
            share.next(Seen { used: used / 4e3, fill_in, fill_out: 0.0, turnover: 0.0 });
            (used, looks) = (0.0, looks + 1.0);
        }
    }
    missed
}

#[test]
fn a_source_misses_no_tick_by_its_own_reservation() {
    let all = Law::default();
    let (mut ours, mut of_others) = (0, 0);
    for seed in 1..=40u32 {
        // From 5 to 200 us a tick, half as much again at most; each hundredth takes 150 us more.
        let (mut random, mut tick) = (u64::from(seed), 0);
        let mut cost = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            tick += 1;
            let more = if tick % 100 == 99 { 150.0 } else { 0.0 };
            5.0 * f64::from(seed) * (0.5 + (random >> 33) as f64 / (1u64 << 31) as f64) + more
        };
        ours += missed(law(all, true), 4_000, &mut cost);
        of_others += missed(law(all, false), 4_000, &mut cost);
    }
    assert_eq!(ours, 0);
    assert!(of_others > 1_000, "{of_others}: then this shows nothing");
}

#[test]
fn a_refused_stage_goes_on_with_the_next_means() {
    use super::super::kernel::fake::Fake;
    let child = Asleep::new(Stdio::null(), Stdio::null());
    let pid = child.pid();
    let mut kernel = Fake::new(&[pid]);
    kernel.refuses_groups = true;
    let (tell, told) = std::sync::mpsc::channel();
    let mut controller = Controller::new(&[vec![pid]], Law::default(), true, Kind::Deadline, tell);
    let period = Duration::from_nanos(PERIOD);
    (0..4).for_each(|tick| controller.period(tick, period, &mut kernel));
    let stage = &mut controller.stages[0];
    assert_eq!((stage.means.kind(), stage.refused), (Kind::Deadline, 0));
    // It uses a tenth of a processor, all it has, and the system has no more.
    (stage.reserved, stage.short, stage.smooth_fill, stage.smooth) = (0.1, true, 1.0, 0.1);
    for _ in 0..=2 * QUARTER {
        (stage.smooth, stage.smooth_fill) = (0.1, 1.0);
        stage.takes_all(0.1);
    }
    controller.stages[0].smooth = 0.2;
    controller.period(5, period, &mut kernel);
    assert_eq!(controller.stages[0].means.kind(), Kind::Nice);
    let why = told
        .try_iter()
        .find_map(|e| if let Event::Means { refused: Some((Kind::Deadline, why)), .. } = e { Some(why) } else { None });
    assert_eq!(why.as_deref(), Some("the system has no more than 10 % of a processor left to reserve for it"));
}
