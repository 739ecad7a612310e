//! Records what threads do to an object at once, and checks that it is linearizable.

#![allow(dead_code, reason = "not every program uses all of it")]

use crate::history::{Event, Model, assert_linearizable};
use crate::house::Dice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

/// Ends the program if its thread panics: the others would wait for it at the barrier for ever.
struct AllOrNobody;

impl Drop for AllOrNobody {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Records and checks so many histories of three threads with four operations each. `begin` makes the object as it is before each, and says how that is.
pub fn recorded<M>(
    histories: usize,
    begin: impl Fn() -> M + Sync,
    choose: impl Fn(&mut Dice) -> M::Op + Sync,
    act: impl Fn(&M::Op) -> M::Answer + Sync,
) where
    M: Model + Send,
    M::Op: Send,
    M::Answer: Send,
{
    const THREADS: usize = 3;
    let (clock, barrier) = (AtomicU64::new(0), Barrier::new(THREADS));
    let noted = Mutex::new(Vec::new());
    let initial = Mutex::new(begin());
    std::thread::scope(|s| {
        for who in 0..THREADS {
            let (clock, barrier, noted, initial) = (&clock, &barrier, &noted, &initial);
            let (begin, choose, act) = (&begin, &choose, &act);
            s.spawn(move || {
                let _all = AllOrNobody;
                let mut dice = Dice(who as u64 + 11);
                for _ in 0..histories {
                    let ops: Vec<M::Op> = (0..4).map(|_| choose(&mut dice)).collect();
                    let mut mine = Vec::with_capacity(ops.len());
                    barrier.wait();
                    for what in ops {
                        let begun = clock.fetch_add(1, Ordering::SeqCst);
                        let answer = Some(act(&what));
                        mine.push(Event { who, what, answer, begun, ended: clock.fetch_add(1, Ordering::SeqCst) });
                    }
                    noted.lock().unwrap().extend(mine);
                    if barrier.wait().is_leader() {
                        let history = std::mem::take(&mut *noted.lock().unwrap());
                        let mut initial = initial.lock().unwrap();
                        assert_linearizable(initial.clone(), &history);
                        *initial = begin();
                    }
                }
            });
        }
    });
}
