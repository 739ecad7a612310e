//! Uncontended acquire and release, one after the other, by one thread.
//!
//! A pool is compared with what would guard as many permits between processes: the robust mutex (one holder; the
//! baseline), `sem_t` (returns nothing at a death), a System V semaphore with undo, flock(2).

use crate::house::House;
use crate::peers::{FileLock, Flavour, Lock, PthreadMutex, Semaphore, SysV, flock};
use crate::process::pin;
use crate::raw::Scope;
use crate::table::{Aim, Case, Table, times};
use chappe::{Pool, acquire_any};

const SIZES: [u32; 3] = [1, 4, 64];
/// Short runs, and many of them: a run that others interrupt is told apart from one that they do not.
const MANY: u32 = 10_000;
const FEW: u32 = 500;
const MORE: u32 = 8;

/// A lock and unlock.
pub fn guarded<'a, L: Lock>(name: &str, count: u32, lock: &'a L) -> Case<'a> {
    Case::repeat(name, count, || {
        lock.lock();
        lock.unlock();
    })
}

/// Measures and prints; the aims.
///
/// # Panics
/// When a pool cannot be made.
pub fn measure(house: &House, rounds: u32) -> Vec<Aim> {
    let private = SIZES.map(|n| Pool::private(n).expect("a private pool"));
    let named = SIZES.map(|n| Pool::create(&format!("pair{n}"), n).expect("a named pool"));
    let (mutex, file) = (PthreadMutex::new(Flavour::Robust, Scope::Shared), FileLock::new(house.path()));
    let (semaphore, undo) = (Semaphore::new(1, Scope::Shared), SysV::new(1, true));
    let fd = file.descriptor();
    let table = std::thread::scope(|s| {
        let measured = s.spawn(|| {
            pin(0);
            let mut cases = vec![guarded("robust pthread mutex", MANY, &mutex)];
            for (kind, pools) in [("private", &private), ("named", &named)] {
                for pool in pools {
                    let name = format!("pool, {kind}, N = {}", pool.permits());
                    cases.push(Case::repeat(name, MANY, || pool.acquire().expect("it is free").release()));
                }
            }
            for (kind, pools) in [("private", &private), ("named", &named)] {
                let one = [&pools[0]];
                let name = format!("choice of one pool, {kind}, N = 1");
                cases.push(Case::repeat(name, MANY, move || acquire_any(&one).expect("it is free").1.release()));
            }
            cases.push(guarded("sem_t, process-shared", MANY, &semaphore));
            cases.push(guarded("System V semaphore, SEM_UNDO", FEW, &undo));
            cases.push(Case::repeat("flock(2)", FEW, || {
                flock(fd, libc::LOCK_EX);
                flock(fd, libc::LOCK_UN);
            }));
            Table::measure("uncontended acquire and release", rounds * MORE, cases)
        });
        measured.join().expect("the measuring thread")
    });
    print!("{}", table.report());
    let sizes = ["private", "named"].iter().flat_map(|k| SIZES.map(|n| format!("pool, {k}, N = {n}")));
    sizes.map(|n| Aim::at_most(format!("pair, {n}, to robust mutex"), 0.8, table.ratio(&n), times)).collect()
}
