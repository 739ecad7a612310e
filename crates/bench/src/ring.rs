//! A null system call by each way: table 3.5 of the Synthesis thesis, and the kernel core role of the Nix paper.
//!
//! What the thesis saves at the trap, a ring saves by having none: requests lie in memory that the kernel reads. Either the caller enters
//! the kernel for many at once, or a kernel thread on a processor of its own polls the ring: then the caller's processor makes no system
//! call at all, as on an application core of Nix, and the kernel thread's is a kernel core.

use crate::table::{Case, Table};
use chappe_counts::ring::Polled;
use io_uring::{IoUring, opcode::Nop};
use std::hint::black_box;

const MANY: u32 = 2_000;
const BATCH: u32 = 16;

fn entered(ring: &mut IoUring, count: u32) {
    for _ in 0..count {
        // SAFETY: a request without memory.
        unsafe { ring.submission().push(&Nop::new().build()).expect("an empty ring") };
    }
    ring.submit_and_wait(count as usize).expect("a ring that works");
    assert_eq!(ring.completion().count(), count as usize);
}

#[inline(never)]
fn procedure(n: u32) -> u32 {
    black_box(n)
}

/// Prints the table. Rows that this kernel does not permit are left out, and named.
pub fn measure(rounds: u32) {
    let mut cases = vec![
        Case::repeat("system call (getppid)", MANY, || {
            // SAFETY: takes nothing, cannot fail.
            unsafe { libc::getppid() }
        }),
        Case::repeat("procedure call", MANY, || procedure(black_box(1))),
    ];
    match (IoUring::new(BATCH), IoUring::new(BATCH)) {
        (Ok(mut one), Ok(mut many)) => {
            cases.push(Case::repeat("ring, entered for each", MANY, move || entered(&mut one, 1)));
            cases.push(Case::new("ring, entered for 16", move || {
                let start = std::time::Instant::now();
                for _ in 0..MANY / BATCH {
                    entered(&mut many, BATCH);
                }
                start.elapsed().as_nanos() as f64 / f64::from(MANY / BATCH * BATCH)
            }));
        }
        (Err(e), _) | (_, Err(e)) => println!("no rings here (io_uring): {e}"),
    }
    match Polled::new() {
        Ok(mut polled) => cases.push(Case::repeat("ring, polled by a kernel core", MANY, move || polled.nothing())),
        Err(e) => println!("no polled ring here (io_uring): {e}"),
    }
    print!("{}", Table::measure("a null system call by each way (table 3.5 of synthesis)", rounds, cases).report());
}
