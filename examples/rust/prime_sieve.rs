//! The prime sieve: a light thread for each prime, which keeps its multiples back.
//!
//! ```sh
//! cargo run --release --example prime_sieve -- 1000
//! ```
//!
//! After McIlroy's coroutines and Hoare's CSP (1978).

use chappe::{thread, tube};
use std::process::ExitCode;

fn primes(most: usize) -> Vec<u32> {
    let (tx, mut numbers) = tube::bounded(0);
    thread::spawn(move || (2u32..).take_while(|n| tx.send(*n).is_ok()).for_each(drop));
    let mut primes = Vec::new();
    while primes.len() < most {
        let prime = numbers.recv().expect("there is always another number");
        primes.push(prime);
        let (tx, left) = tube::bounded(0);
        let from = std::mem::replace(&mut numbers, left);
        thread::spawn(move || {
            from.iter().filter(|n| n % prime != 0).take_while(|n| tx.send(*n).is_ok()).for_each(drop)
        });
    }
    primes
}

#[chappe::main]
fn main() -> ExitCode {
    let Ok(most) = std::env::args().nth(1).map_or(Ok(100), |word| word.parse()) else {
        eprintln!("usage: prime_sieve [HOW-MANY]");
        return ExitCode::from(2);
    };
    let primes = primes(most);
    println!("{} primes, the last {}", primes.len(), primes.last().copied().unwrap_or(0));
    ExitCode::SUCCESS
}

#[test]
fn the_first_primes_come_out() {
    let found = primes(100);
    assert_eq!(found[..10], [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
    assert_eq!(found[99], 541);
}
