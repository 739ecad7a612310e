//! Restartable atomic sequences on NetBSD.

use crate::row::{Paper, Row};
use chappe_bench::ras::again::Again;
use chappe_bench::ras::applications;
use chappe_bench::ras::locks::Locks;
use chappe_bench::ras::mechanisms;
use chappe_bench::ras::switches;

/// Its tables and figures, in order.
pub const ROWS: &[Row] = &[
    Row {
        id: "netbsd-1",
        paper: Paper::Netbsd,
        part: "tables 1 and 2",
        title: "a test-and-set by each mechanism, and the index M",
        note: "The row's text has the index M = 100 (t_NI - t) / t_NI of each mechanism.",
        seconds: (3, 15),
        figures: Some((
            "microseconds a test-and-set",
            &[
                "system|RAS|system call",
                "DECstation 5000/25|0.40|35.6",
                "100MHz i486DX|0.32|21.5",
                "DECstation 5000/260|0.17|9.7",
                "Alchemy Pb1000 EVB|0.04|2.4",
                "Broadcom BCM91250A EVB|0.04|1.4",
            ],
        )),
        measure: |lab| {
            mechanisms::measure(lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "netbsd-3",
        paper: Paper::Netbsd,
        part: "figure 3",
        title: "what registered sequences cost a context switch",
        note: "Needs processes of another environment: with the C library's area, with one of chappe's own, and with none.",
        seconds: (5, 40),
        measure: |lab| {
            switches::measure(&Again::new(&lab.program), lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "netbsd-lu",
        paper: Paper::Netbsd,
        part: "section 5, LU decomposition",
        title: "a program that locks often",
        note: "The paper: about 14,000 lock operations a thread, and no difference.",
        seconds: (6, 60),
        measure: |lab| {
            applications::decomposition(&Locks::new(), lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
    Row {
        id: "netbsd-web",
        paper: Paper::Netbsd,
        part: "section 5, a web server",
        title: "a program that mostly does something else",
        note: "The paper: no difference.",
        seconds: (4, 40),
        measure: |lab| {
            applications::server(&Locks::new(), lab.rounds);
            Ok(())
        },
        ..Row::PLAIN
    },
];
