//! Saturation and cheating (synthesis, 6.3.4), in virtual time: the laws of `sched` on one simulated processor.
//!
//! Pipelines of stages with queues of eight blocks; a device of 1 kHz before each, which loses what finds the first queue full, and counts it. Threads take turns; a turn
//! is as long as the thread's quantum, or as there is something to do.

use chappe_stream::sched::{Turns, beside};
use std::collections::VecDeque;

const SLOTS: usize = 8;
const DEVICE: f64 = 1e6;

/// What a thread of the simulation is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Is {
    /// The stage of a pipeline, and what it takes for a block.
    Stage(usize, usize, f64),
    /// It computes, and takes no block out of its full queue.
    Hoards,
    /// It puts its blocks into its own queue, and takes them again: a block takes so long.
    Circles(f64),
    /// It computes beside the graphs, as `background` does.
    Computes,
}

#[derive(Clone, Debug)]
struct Thread {
    is: Is,
    turns: Turns,
    had: f64,
    done: usize,
}

/// What came of so many seconds: of each thread its part of the processor, and its blocks a second; of each pipeline what its device lost, of all.
struct Came {
    shares: Vec<f64>,
    rates: Vec<f64>,
    lost: Vec<f64>,
}

/// Runs pipelines, given as their stages' nanoseconds for a block, beside others.
fn simulated(pipelines: &[Vec<f64>], others: &[Is], seconds: f64) -> Came {
    let stages = pipelines
        .iter()
        .enumerate()
        .flat_map(|(p, all)| all.iter().enumerate().map(move |(s, ns)| Is::Stage(p, s, *ns)));
    let mut threads: Vec<Thread> = stages
        .chain(others.iter().copied())
        .map(|is| Thread { is, turns: Turns::default(), had: 0.0, done: 0 })
        .collect();
    let mut queues: Vec<Vec<usize>> = pipelines.iter().map(|all| vec![0; all.len()]).collect();
    let (mut lost, mut due) = (vec![0u32; pipelines.len()], vec![0u32; pipelines.len()]);
    let mut ring: VecDeque<usize> = (0..threads.len()).collect();
    let (mut now, mut device, mut pressure) = (0.0, DEVICE, 0.0f64);
    let fill = |blocks: usize| blocks as f64 / SLOTS as f64;
    while now < seconds * 1e9 {
        let ready = |is: Is, queues: &[Vec<usize>]| match is {
            Is::Stage(p, s, _) => queues[p][s] > 0 && queues[p].get(s + 1).is_none_or(|q| *q < SLOTS),
            _ => true,
        };
        let run = match ring.iter().position(|at| ready(threads[*at].is, &queues)) {
            None => device - now,
            Some(at) => {
                let at = ring.remove(at).unwrap();
                ring.push_back(at);
                let thread = &mut threads[at];
                let run = match thread.is {
                    Is::Stage(p, s, ns) => {
                        let room = queues[p].get(s + 1).map_or(usize::MAX, |q| SLOTS - q);
                        let blocks = ((thread.turns.ns() / ns) as usize).max(1).min(queues[p][s]).min(room);
                        queues[p][s] -= blocks;
                        thread.done += blocks;
                        if let Some(next) = queues[p].get_mut(s + 1) {
                            *next += blocks;
                        }
                        let out = queues[p].get(s + 1).map_or(0.0, |q| fill(*q));
                        thread.turns.next(fill(queues[p][s]), out);
                        pressure = pressure.max(fill(queues[p][s]));
                        blocks as f64 * ns
                    }
                    Is::Hoards => {
                        let run = thread.turns.ns();
                        thread.turns.next(1.0, 0.0);
                        pressure = 1.0;
                        run
                    }
                    Is::Circles(ns) => {
                        let run = ((thread.turns.ns() / ns) as usize).max(1) as f64 * ns;
                        thread.turns.next(0.5, 0.5);
                        run
                    }
                    Is::Computes => {
                        pressure *= 0.75;
                        beside(pressure)
                    }
                };
                threads[at].had += run;
                run
            }
        };
        now += run;
        while device <= now {
            device += DEVICE;
            for (p, queue) in queues.iter_mut().enumerate() {
                due[p] += 1;
                if queue[0] < SLOTS { queue[0] += 1 } else { lost[p] += 1 }
            }
        }
    }
    Came {
        shares: threads.iter().map(|t| t.had / now).collect(),
        rates: threads.iter().map(|t| t.done as f64 / now * 1e9).collect(),
        lost: lost.iter().zip(&due).map(|(l, d)| f64::from(*l) / f64::from(*d)).collect(),
    }
}

/// A number is another, give or take such a part.
fn about(a: f64, b: f64, part: f64) -> bool {
    (a - b).abs() <= part * b
}

#[test]
fn an_overload_lowers_all_shares_alike_and_the_device_counts_the_rest() {
    // Together they want half as much again: two thirds of the blocks go through, and a third is counted.
    for costs in [vec![300_000.0; 5], vec![100_000.0, 700_000.0, 200_000.0, 500_000.0]] {
        let came = simulated(std::slice::from_ref(&costs), &[], 4.0);
        let whole: f64 = costs.iter().sum();
        assert!(about(came.lost[0], 1.0 / 3.0, 0.03), "{:?}", came.lost);
        for (share, cost) in came.shares.iter().zip(&costs) {
            assert!(about(*share, cost / whole, 0.03), "{:?}", came.shares);
        }
        // Nothing is lost on the way.
        assert!(came.rates.iter().all(|r| about(*r, 1e9 / whole, 0.03)), "{:?}", came.rates);
    }
}

#[test]
fn of_two_pipelines_that_want_too_much_neither_starves() {
    let came = simulated(&[vec![250_000.0; 3], vec![250_000.0; 3]], &[], 4.0);
    let shares: Vec<f64> = came.shares.chunks(3).map(|all| all.iter().sum()).collect();
    assert!(shares.iter().all(|s| about(*s, 0.5, 0.1)), "{shares:?}");
    assert!(came.lost.iter().all(|l| *l > 0.2), "{:?}", came.lost);
}

#[test]
fn those_who_compute_have_little_beside_saturated_stages_and_are_not_starved() {
    let came = simulated(&[vec![300_000.0; 5]], &[Is::Computes; 4], 4.0);
    let (stages, computing) = (came.shares[..5].iter().sum::<f64>(), &came.shares[5..]);
    assert!(stages > 0.7 && computing.iter().all(|s| *s > 0.01), "{stages} {computing:?}");
}

#[test]
fn a_thread_that_games_the_scheduler_takes_nothing_from_others() {
    let pipeline = [vec![100_000.0; 5]];
    for cheat in [Is::Hoards, Is::Circles(50_000.0)] {
        let came = simulated(&pipeline, &[cheat], 4.0);
        assert_eq!(came.lost[0], 0.0, "{cheat:?}");
        assert!(about(came.shares[5], 0.5, 0.02), "it has what is left: {:?}", came.shares);
        // Four of them want four times as much, and have hardly more than four threads of nine.
        let came = simulated(&pipeline, &[cheat; 4], 4.0);
        let cheats: f64 = came.shares[5..].iter().sum();
        assert!(came.lost[0] < 0.12 && cheats < 0.6, "{cheat:?}: {:?} {cheats}", came.lost);
    }
}
