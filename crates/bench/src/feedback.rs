//! Synthesis, chapter 6: what a step of a loop takes, and after how many events it is locked.
//!
//! The thesis says that its FLL is within 10 % after 50 events of the reference (6.2.2); what steers a pipeline is judged in `docs/feedback.md`.

use crate::table::{Case, Table, Unit};
use chappe::feedback::locked::{Fll, Ill};
use chappe::feedback::{Dll, Law, Seen, Share};
use std::hint::black_box;

const COUNT: u32 = 10_000;

/// After how many events of a reference of 50 Hz a loop that begins at `factor` times what is right stays within 10 %.
fn events(factor: f64) -> f64 {
    let right = 200.0;
    let mut fll = Fll::new(4, right * factor);
    let (mut next, mut reference, mut last) = (0.0, 0.0, 0u32);
    for event in 1..=500 {
        while next < reference {
            next += fll.output();
        }
        let frequency = fll.reference();
        if (frequency - right).abs() > right / 10.0 {
            last = event;
        }
        reference += 0.02;
    }
    f64::from(last)
}

/// Measures and prints.
pub fn measure(rounds: u32) {
    let (mut fll, mut ill) = (Fll::new(4, 200.0), Ill::new(4, 0.005));
    let (mut dll, mut share) = (Dll::new(2.0, 0.02), Share::new(Law::default()));
    let (mut now, mut late) = (0.0, 0.0);
    let cases = vec![
        Case::repeat("Fll: an event of the reference, four of its own", COUNT, || {
            (0..4).for_each(|_| {
                black_box(fll.output());
            });
            fll.reference()
        }),
        Case::repeat("Ill: an event of the reference", COUNT, || {
            now += 0.02;
            ill.reference(now)
        }),
        Case::repeat("Dll: a period of the device", COUNT, || {
            late += 0.02;
            dll.update(late)
        }),
        Case::repeat("Share: a look at a stage", COUNT, || {
            share.next(black_box(Seen { used: 0.15, fill_in: 0.05, ..Seen::default() }))
        }),
    ];
    print!("{}", Table::measure("a step of a loop", rounds * 4, cases).report());
    let from = [("a tenth of what is right", 0.1), ("half", 0.5), ("twice", 2.0), ("ten times", 10.0)];
    let rows = from.map(|(from, factor)| (format!("Fll, from {from}"), vec![events(factor)]));
    let title = "events of the reference until within 10 % for good (the thesis: 50)";
    print!("{}", Table::counted(title, Unit::Count, rows.into()).report());
}
