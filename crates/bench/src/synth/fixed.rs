//! Section 7.4.1 of the thesis: a number that is printed by fixed-point arithmetic, beside the C library, Rust's own, and the shortest text that reads
//! back as the same number (which is another task: it has as many digits as it needs).

use crate::table::{Case, Table};
use chappe::synth::{FIXED_BYTES, fixed};
use std::hint::black_box;
use std::io::Write;

const NUMBERS: usize = 1000;

/// Numbers as prices and measurements are: up to six digits before the point, any number behind it.
fn numbers() -> Vec<f64> {
    let mut bits = 1u64;
    let mut next = || {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (bits >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..NUMBERS).map(|_| (next() - 0.5) * 10f64.powf(6.0 * next())).collect()
}

/// Nanoseconds a number.
fn each(numbers: &[f64], print: impl Fn(f64) -> usize) -> f64 {
    let began = std::time::Instant::now();
    for number in numbers {
        black_box(print(black_box(*number)));
    }
    began.elapsed().as_nanos() as f64 / numbers.len() as f64
}

/// Measures and prints.
pub fn measure(rounds: u32) {
    let numbers = numbers();
    for places in [3u32, 9] {
        let width = places as usize;
        let cases = vec![
            Case::new("fixed-point", || {
                let print = |x| fixed(x, places, &mut [0; FIXED_BYTES]).map_or(0, <[u8]>::len);
                each(&numbers, print)
            }),
            Case::new("glibc snprintf", || {
                each(&numbers, |x| {
                    let mut room = [0u8; 64];
                    // SAFETY: room of that size; the format has a number and a double.
                    let bytes = unsafe { libc::snprintf(room.as_mut_ptr().cast(), 64, c"%.*f".as_ptr(), places, x) };
                    bytes.unsigned_abs() as usize
                })
            }),
            Case::new("std::fmt", || {
                each(&numbers, |x| {
                    let mut room = [0u8; 64];
                    let mut left = &mut room[..];
                    write!(left, "{x:.width$}").map_or(0, |()| 64 - left.len())
                })
            }),
            Case::new("ryu, the shortest text", || each(&numbers, |x| ryu::Buffer::new().format_finite(x).len())),
        ];
        let title = format!("a number with {places} places");
        println!("{}", Table::measure(title, rounds * 3, cases).report());
    }
}
