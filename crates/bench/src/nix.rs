//! The contests of nix-semaphores-tubes, section 4, as far as this machine has processors: figures 11, and 16 to 21.
//!
//! The paper counts iterations of a loop; here the same three sizes are 100 ns, 1 us and 10 us inside. Its machine had 32 processors: with two, five
//! processes and more wait for each other's turns. *Application cores*: each process has a processor for itself and spins.
//!
//! The paper's "standard semaphores" made a system call for each operation, as System V's do. `sem_t` stays out of the kernel as the paper's new ones.

use crate::contend::{Board, Contest};
use crate::guarded::{Apart, InPlace};
use crate::handoff::Sides;
use crate::machine::processors;
use crate::peers::{Semaphore, SysV};
use crate::ras::both::{one, two};
use crate::raw::Scope;
use crate::spin::SpinLock;
use crate::sync::contended::{Contender, pit};
use crate::table::Table;
use chappe::{Mutex, Role, set_role};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Figure 11: a locked increment against a spin lock around a plain one.
///
/// # Panics
/// When an object cannot be made.
pub fn increments(rounds: u32) {
    let count = AtomicU64::new(0);
    // SAFETY: all zeroes are an unlocked one.
    let spin = unsafe { InPlace::<SpinLock>::zeroed() };
    let (mutex, parking) = (Mutex::private(0u64).expect("a mutex"), parking_lot::Mutex::new(0u64));
    let locked = || count.fetch_add(1, Ordering::SeqCst); // SeqCst: as dear as any other in a locked operation.
    let under_spin = || crate::guarded::Guarded::with(&spin, |n| *n += 1);
    let under_mutex = || *mutex.lock().expect("no holder dies here") += 1;
    let under_parking = || *parking.lock() += 1;
    for (who, both) in [("1 thread", false), ("2 threads, each on a processor", true)] {
        if both && processors() < 2 {
            println!("\nfigure 11, {who}: this machine has one");
            continue;
        }
        let cases = if both {
            vec![
                two("locked increment", locked),
                two("spin lock", under_spin),
                two("parking_lot::Mutex", under_parking),
                two("mutex, private", under_mutex),
            ]
        } else {
            vec![
                one("locked increment", locked),
                one("spin lock", under_spin),
                one("parking_lot::Mutex", under_parking),
                one("mutex, private", under_mutex),
            ]
        };
        print!("{}", Table::measure(format!("figure 11: an increment, {who}"), rounds * 2, cases).report());
    }
}

/// Inside and outside, and what they are called.
type Sizes = (&'static str, fn(usize) -> u64, u64);

const ALPHA: [Sizes; 3] =
    [("CSS 100 ns", |_| 100, 10_000), ("CSS 1 us", |_| 1_000, 10_000), ("CSS 10 us", |_| 10_000, 10_000)];
const BETA: [Sizes; 3] =
    [("CSS/NSS 1/100", |_| 1_000, 100_000), ("CSS/NSS 1/10", |_| 1_000, 10_000), ("CSS/NSS 1", |_| 1_000, 1_000)];

fn contest(figure: &str, sizes: &[Sizes], workers: &[usize], application: bool, rounds: u32) {
    let (board, rounds) = (Board::make(), (rounds / 3).max(1));
    let make = |semaphore: Result<chappe::Semaphore, _>| Apart::new(semaphore.expect("a semaphore"));
    // Of what the figure is called, what a name may have.
    let plain: String = figure.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = |kind: &str| format!("nix-{kind}-{plain}");
    let strong = make(chappe::Semaphore::create(&name("strong"), 1));
    let barging = make(chappe::Semaphore::create_barging(&name("barging"), 1));
    let (posix, system) = (Semaphore::new(1, Scope::Shared), Apart::new(SysV::new(1, false)));
    for (size, inside, outside) in sizes {
        for workers in workers {
            let contest = Contest {
                sides: Sides::Processes,
                workers: *workers,
                inside: *inside,
                outside: *outside,
                pinned: application,
                time: Duration::from_millis(if *workers > 8 { 50 } else { 25 }),
                timed: false,
            };
            let contenders = [
                Contender::new("semop, System V", &system, board),
                Contender::new("sem_t, process-shared", &posix, board),
                Contender::new("semaphore, named", &strong, board),
                Contender::new("semaphore, named, barging", &barging, board),
            ];
            // Forked workers have the role of the thread that forks them.
            set_role(if application { Role::Spin } else { Role::TimeSharing });
            pit(format!("{figure}: {workers} processes, {size}"), rounds, contest, &contenders);
            set_role(Role::TimeSharing);
        }
    }
}

/// Figures 16 to 18: alpha graphs, time-sharing.
///
/// # Panics
/// When an object cannot be made, or a lock does not lock.
pub fn alpha(rounds: u32) {
    contest("alpha", &ALPHA, &[5, 10, 20], false, rounds);
}

/// Figure 19: alpha graphs, application cores: as many processes as processors.
///
/// # Panics
/// As [`alpha`].
pub fn alpha_application(rounds: u32) {
    contest("alpha, application cores", &ALPHA, &[processors().min(8)], true, rounds);
}

/// Figure 20: beta graphs, time-sharing.
///
/// # Panics
/// As [`alpha`].
pub fn beta(rounds: u32) {
    contest("beta", &BETA, &[5, 20], false, rounds);
}

/// Figure 21: beta graphs, application cores.
///
/// # Panics
/// As [`alpha`].
pub fn beta_application(rounds: u32) {
    contest("beta, application cores", &BETA, &[processors().min(8)], true, rounds);
}
