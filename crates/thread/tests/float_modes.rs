//! Floating-point modes of light threads: `Builder::own_float_modes`. One proc, so that the order is known, and each thread runs between two waits of the others.

use chappe_sync::tube;
use chappe_thread::{Builder, JoinHandle, Runtime, block_in_place, spawn, yield_now};
use std::ffi::{c_double, c_int};

// SAFETY: as the C library declares them.
#[link(name = "m")]
unsafe extern "C" {
    fn fegetround() -> c_int;
    fn fesetround(mode: c_int) -> c_int;
    fn rint(x: c_double) -> c_double;
}

#[cfg(target_arch = "x86_64")]
const WAYS: [(c_int, f64); 4] = [(0, 2.0), (0x400, 2.0), (0x800, 3.0), (0xc00, 2.0)];
#[cfg(target_arch = "aarch64")]
const WAYS: [(c_int, f64); 4] = [(0, 2.0), (0x80_0000, 2.0), (0x40_0000, 3.0), (0xc0_0000, 2.0)];
const NEAREST: usize = 0;
const DOWN: usize = 1;
const UP: usize = 2;
const TO_ZERO: usize = 3;

fn round(way: usize) {
    // SAFETY: a number of a mode.
    assert_eq!(unsafe { fesetround(WAYS[way].0) }, 0);
}

/// Which way numbers are rounded: as the registers say, and as the library does.
fn rounds() -> usize {
    // SAFETY: takes nothing.
    let (mode, up) = unsafe { (fegetround(), rint(std::hint::black_box(2.5))) };
    let way = WAYS.iter().position(|(number, _)| *number == mode).unwrap();
    assert_eq!(up, WAYS[way].1);
    way
}

/// The x87's control word, and MXCSR.
#[cfg(target_arch = "x86_64")]
fn words() -> (u16, u32) {
    let (mut x87, mut sse) = (0u16, 0u32);
    // SAFETY: writes these two.
    unsafe { std::arch::asm!("fnstcw [{}]", "stmxcsr [{}]", in(reg) &raw mut x87, in(reg) &raw mut sse) };
    (x87, sse & !0x3f)
}

/// The product of the least normal number and a half, by the processor: not by the compiler.
#[cfg(target_arch = "x86_64")]
fn half_of_the_least() -> f32 {
    let mut product = f32::MIN_POSITIVE;
    // SAFETY: one multiplication.
    unsafe { std::arch::asm!("mulss {}, {}", inout(xmm_reg) product, in(xmm_reg) 0.5f32, options(nomem, nostack)) };
    product
}

fn own<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().own_float_modes().spawn(body).unwrap()
}

fn one<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    Runtime::new(1).unwrap().run(body)
}

/// A thread with its own modes that rounds so, and looks at that after each yield.
fn keeps(way: usize, yields: usize) -> JoinHandle<()> {
    own(move || {
        assert_eq!(rounds(), NEAREST, "it begins with those of the thread that begins it");
        round(way);
        for _ in 0..yields {
            yield_now();
            assert_eq!(rounds(), way);
        }
    })
}

/// One of those that share.
fn shares(way: usize, yields: usize) -> JoinHandle<()> {
    spawn(move || {
        for _ in 0..yields {
            assert_eq!(rounds(), way);
            yield_now();
        }
    })
}

#[test]
fn each_keeps_its_own_over_yields_and_the_others_share_theirs() {
    one(|| {
        let threads = [keeps(UP, 9), shares(NEAREST, 12), keeps(DOWN, 7), keeps(TO_ZERO, 8), shares(NEAREST, 12)];
        for _ in 0..20 {
            yield_now();
            assert_eq!(rounds(), NEAREST);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(rounds(), NEAREST);
        // The records are others' now, which share.
        let threads: Vec<_> = (0..5).map(|_| shares(NEAREST, 3)).collect();
        let next = keeps(UP, 3);
        for thread in threads {
            thread.join().unwrap();
        }
        next.join().unwrap();
    });
}

#[test]
fn a_shared_float_mode_survives_a_thread_with_its_own() {
    one(|| {
        let own = keeps(UP, 5);
        spawn(|| round(DOWN)).join().unwrap();
        let others = [shares(DOWN, 6), shares(DOWN, 6)];
        own.join().unwrap();
        assert_eq!(rounds(), DOWN);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(rounds(), DOWN);
        round(NEAREST);
    });
}

#[test]
fn waits_of_all_kinds_and_the_end_keep_them_apart() {
    one(|| {
        let (to, from) = tube::bounded(0);
        let (done, all_done) = tube::bounded::<()>(1);
        let keeper = own(move || {
            round(UP);
            for expected in 0..4 {
                // It idles on its own stack when all wait.
                assert_eq!((from.recv(), rounds()), (Ok(expected), UP));
                let inner = block_in_place(rounds);
                assert_eq!((inner, rounds()), (UP, UP));
            }
            drop(done);
        });
        for n in 0..4 {
            to.send(n).unwrap();
            assert_eq!(rounds(), NEAREST);
            // Another kernel thread may run this proc now.
            block_in_place(|| assert_eq!(rounds(), NEAREST));
            yield_now();
        }
        assert!(all_done.recv().is_err());
        assert_eq!(rounds(), NEAREST);
        keeper.join().unwrap();
        // Its last wait is over, and nobody is ready: the kernel thread goes on with the modes that all share.
        own(|| round(DOWN)).join().unwrap();
        block_in_place(|| assert_eq!(rounds(), NEAREST));
        assert_eq!(rounds(), NEAREST);
    });
}

#[test]
fn a_thread_that_waits_in_its_end_keeps_them_to_the_last() {
    one(|| {
        struct Yields;
        impl Drop for Yields {
            fn drop(&mut self) {
                for _ in 0..3 {
                    yield_now();
                    assert_eq!(rounds(), UP);
                }
            }
        }
        let ends = own(|| {
            round(UP);
            Yields
        });
        // Nobody wants what it comes to: it drops that itself, after it has ended for all others.
        drop(ends);
        for _ in 0..8 {
            yield_now();
            assert_eq!(rounds(), NEAREST);
        }
        shares(NEAREST, 2).join().unwrap();
    });
}

#[test]
fn a_destroyed_and_a_suspended_one_leave_the_others_alone() {
    one(|| {
        let thread = own(|| {
            round(UP);
            loop {
                yield_now();
            }
        });
        yield_now();
        thread.thread().suspend().unwrap();
        while !thread.thread().is_out() {
            yield_now();
            assert_eq!(rounds(), NEAREST);
        }
        thread.thread().resume().unwrap();
        yield_now();
        thread.thread().destroy().unwrap();
        assert!(thread.join().is_err());
        assert_eq!(rounds(), NEAREST);
        // One that has begun nothing yet.
        let thread = keeps(UP, 1);
        thread.thread().destroy().unwrap();
        assert!(thread.join().is_err());
        assert_eq!(rounds(), NEAREST);
    });
}

#[test]
fn two_procs_keep_them_too() {
    Runtime::new(2).unwrap().run(|| {
        let threads: Vec<_> = (0..12).map(|n| if n % 2 == 0 { keeps(UP, 40) } else { shares(NEAREST, 40) }).collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[cfg(target_arch = "x86_64")]
#[test]
fn flush_to_zero_and_the_precision_of_the_x87_are_modes_too() {
    one(|| {
        let before = words();
        assert!(half_of_the_least() > 0.0);
        let thread = own(|| {
            let (single, flush) = (words().0 & !0x300, words().1 | 0x8000);
            for _ in 0..4 {
                // SAFETY: changes modes; no arithmetic of Rust's follows.
                unsafe {
                    std::arch::asm!("fldcw [{}]", "ldmxcsr [{}]", in(reg) &raw const single, in(reg) &raw const flush);
                }
                yield_now();
                assert_eq!((words(), half_of_the_least()), ((single, flush), 0.0));
            }
        });
        while !thread.is_finished() {
            yield_now();
            assert_eq!(words(), before);
            assert!(half_of_the_least() > 0.0);
        }
        thread.join().unwrap();
    });
}
