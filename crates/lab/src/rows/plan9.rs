//! Semaphores in Plan 9.

use crate::row::{Paper, Row};
use chappe_bench::sync::plan9;
use chappe_bench::thread::Rows;

/// Its tables and figures, in order.
pub const ROWS: &[Row] = &[
    Row {
        id: "plan9-1",
        paper: Paper::Plan9,
        part: "table 1",
        title: "semaphore system calls",
        note: "A round trip of the ping-pong has four operations; the time is that of one.",
        seconds: (4, 25),
        figures: Some((
            "microseconds a system call",
            &[
                "machine|ping-pong|semacquire|semrelease",
                "PentiumIII/Xeon, 598 MHz, 1 cpu|2.18|1.35|1.91",
                "PentiumIII/Xeon, 797 MHz, 2 cpus|0.887|0.949|1.38",
                "PentiumIV/Xeon, 2196 MHz, 4 cpus|0.970|1.38|1.84",
                "AMD64, 2201 MHz, 2 cpus|1.08|0.266|0.326",
            ],
        )),
        measure: |lab| {
            plan9::table_1(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "plan9-2",
        paper: Paper::Plan9,
        part: "table 2",
        title: "spin locks and semaphore locks",
        note: "A bare contest, then a thousand threads that talk over channels under one lock, as McIlroy's power series do.",
        seconds: (14, 90),
        figures: Some((
            "microseconds a lock operation",
            &[
                "machine|spin locks|semaphore locks",
                "PentiumIII/Xeon, 598 MHz, 1 cpu|5.4|5.4",
                "PentiumIII/Xeon, 797 MHz, 2 cpus|18.2|5.6",
                "AMD64, 2201 MHz, 2 cpus|22.6|2.5",
                "PentiumIV/Xeon, 2196 MHz, 4 cpus|43.8|4.9",
            ],
        )),
        measure: |lab| {
            plan9::table_2(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "plan9-series",
        paper: Paper::Plan9,
        part: "section 4, the power series",
        title: "McIlroy's power series, a thread a coefficient",
        note: "The paper: 1,000 processes, 207,631 lock calls, of which 127 to 490 waited; it names no time. Go is today's heir of those threads.",
        seconds: (5, 40),
        measure: |lab| {
            Rows::new(&lab.program, lab.go.clone()).series((lab.rounds / 3).max(1));
            Ok(())
        },
        wants_go: true,
        ..Row::PLAIN
    },
];
