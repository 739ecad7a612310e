//! Nix: optimistic semaphores with a non-deterministic choice.

use crate::row::{Paper, Row, on_two_processors};
use chappe_bench::nix;
use chappe_bench::sync::choice;
use chappe_bench::tube::between;

/// Its tables and figures, in order.
pub const ROWS: &[Row] = &[
    Row {
        id: "nix-11",
        paper: Paper::Nix,
        part: "figure 11",
        title: "a locked increment and a spin lock",
        note: "The paper: 1 to 100 processes on 32 processors; here one thread, and two.",
        seconds: (3, 15),
        measure: |lab| {
            nix::increments(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "nix-alpha",
        paper: Paper::Nix,
        part: "figures 16 to 18",
        title: "experiment 1, a mutex: time-sharing cores",
        note: "The paper has 32 processors. With fewer than processes, a strong semaphore passes each turn on to the longest waiter, which is a change of process; sem_t and a barging one let the running process go on.",
        seconds: (15, 80),
        measure: |lab| {
            nix::alpha(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "nix-alpha-ac",
        paper: Paper::Nix,
        part: "figure 19",
        title: "experiment 1, a mutex: application cores",
        note: "As many processes as processors, each on its own, spinning. The paper has up to 32.",
        seconds: (4, 30),
        measure: |lab| on_two_processors(|| nix::alpha_application(lab.rounds)),
        ..Row::PLAIN
    },
    Row {
        id: "nix-beta",
        paper: Paper::Nix,
        part: "figure 20",
        title: "ratios of the critical section to the rest: time-sharing cores",
        note: "As figures 16 to 18.",
        seconds: (12, 60),
        measure: |lab| {
            nix::beta(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "nix-beta-ac",
        paper: Paper::Nix,
        part: "figure 21",
        title: "ratios of the critical section to the rest: application cores",
        note: "As figure 19.",
        seconds: (4, 30),
        measure: |lab| on_two_processors(|| nix::beta_application(lab.rounds)),
        ..Row::PLAIN
    },
    Row {
        id: "nix-gamma",
        paper: Paper::Nix,
        part: "figure 23",
        title: "experiment 2, a choice of semaphores",
        note: "The paper compares with a program that simulates a choice by a central semaphore; the peer here is the kernel's own wait for several words. examples/c/nix_experiments.c is the paper's program to the letter: docs/nix-experiments.md.",
        seconds: (5, 100),
        measure: |lab| {
            choice::measure(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "nix-epsilon",
        paper: Paper::Nix,
        part: "figure 25",
        title: "experiment 3, tubes between processes: asleep",
        note: "Beside the kernel's pipes, sockets and message queues.",
        seconds: (9, 90),
        measure: |lab| {
            between::measure(lab.rounds);
            Ok(())
        },
        shows: |title| title.starts_with("half a round trip") && title.contains("same processor"),
        ..Row::PLAIN
    },
    Row {
        id: "nix-epsilon-ac",
        paper: Paper::Nix,
        part: "figure 26",
        title: "experiment 3, tubes between processes: application cores",
        note: "One process on each of two processors.",
        seconds: (9, 90),
        measure: |lab| on_two_processors(|| drop(between::measure(lab.rounds))),
        shows: |title| title.contains("two processors") || title.starts_with("one way"),
        ..Row::PLAIN
    },
];
