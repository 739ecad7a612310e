//! Pools against a sequential model: random operations of one thread must answer as the model does; random
//! arrivals and withdrawals must be served in order; a choice takes exactly one permit.

use chappe::{AcquireError, Permit, Pool, PoolError, try_acquire_any};
use proptest::prelude::*;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const POOLS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Try(usize),
    TryAny(Vec<usize>),
    Release(usize),
    Resize(usize, u32),
    Force(usize, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let pool = 0..POOLS;
    prop_oneof![
        4 => pool.clone().prop_map(Step::Try),
        3 => proptest::collection::vec(pool.clone(), 1..5).prop_map(Step::TryAny),
        4 => (0usize..20).prop_map(Step::Release),
        1 => (pool.clone(), 1u32..70).prop_map(|(p, n)| Step::Resize(p, n)),
        1 => (pool, 0u32..6).prop_map(|(p, i)| Step::Force(p, i)),
    ]
}

/// What a pool should be: how many permits, and which are out.
#[derive(Debug)]
struct Model {
    permits: u32,
    out: std::collections::BTreeSet<u32>,
}

impl Model {
    fn free(&self) -> bool {
        (0..self.permits).any(|i| !self.out.contains(&i))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn answers_as_the_model_does(
        sizes in proptest::collection::vec(1u32..5, POOLS),
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let pools: Vec<Pool> = sizes.iter().map(|n| Pool::private(*n).unwrap()).collect();
        let mut models: Vec<Model> =
            sizes.iter().map(|n| Model { permits: *n, out: Default::default() }).collect();
        let mut held: Vec<(usize, Permit<'_>)> = Vec::new();
        for step in steps {
            match step {
                Step::Try(p) => match pools[p].try_acquire() {
                    Ok(permit) => {
                        prop_assert!(permit.index() < models[p].permits);
                        prop_assert!(models[p].out.insert(permit.index()), "one permit, two holders");
                        held.push((p, permit));
                    }
                    Err(AcquireError::WouldBlock) => prop_assert!(!models[p].free(), "{:?}", models[p]),
                    Err(e) => prop_assert!(false, "{e}"),
                },
                Step::TryAny(which) => {
                    let arms: Vec<&Pool> = which.iter().map(|p| &pools[*p]).collect();
                    match try_acquire_any(&arms) {
                        Ok((arm, permit)) => {
                            prop_assert!(models[which[arm]].out.insert(permit.index()), "one permit, two holders");
                            held.push((which[arm], permit));
                        }
                        Err(AcquireError::WouldBlock) => prop_assert!(which.iter().all(|p| !models[*p].free())),
                        Err(e) => prop_assert!(false, "{e}"),
                    }
                }
                Step::Release(i) if !held.is_empty() => {
                    let (p, permit) = held.swap_remove(i % held.len());
                    let index = permit.index();
                    if permit.is_valid() {
                        prop_assert!(models[p].out.remove(&index));
                    }
                    permit.release();
                }
                Step::Release(_) => {}
                Step::Resize(p, n) => {
                    pools[p].resize(n).unwrap();
                    models[p].permits = n;
                }
                Step::Force(p, i) => match pools[p].force_release(i) {
                    Ok(who) => {
                        prop_assert_eq!(who.pid, std::process::id());
                        prop_assert!(models[p].out.remove(&i));
                    }
                    Err(PoolError::NotHeld { .. }) => prop_assert!(!models[p].out.contains(&i)),
                    Err(e) => prop_assert!(false, "{e}"),
                },
            }
            for (pool, model) in pools.iter().zip(&models) {
                let free = (0..model.permits).filter(|i| !model.out.contains(i)).count() as u32;
                prop_assert_eq!(pool.available(), free);
                prop_assert_eq!(pool.permits(), model.permits);
                let holders: Vec<u32> = pool.holders().iter().map(|h| h.index).collect();
                prop_assert_eq!(holders, model.out.iter().copied().collect::<Vec<_>>());
            }
        }
    }
}

/// A thread that waits when it is told to.
struct Customer {
    tell: Sender<Option<Duration>>,
    heard: Receiver<bool>,
}

#[derive(Clone, Debug)]
enum Arrival {
    /// Stays until served.
    Patient,
    /// Gives up by itself.
    Hasty,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..Default::default() })]

    #[test]
    fn waiters_are_served_in_the_order_of_arrival(
        arrivals in proptest::collection::vec(
            prop_oneof![3 => Just(Arrival::Patient), 1 => Just(Arrival::Hasty)], 1..10),
        permits in 1u32..4,
    ) {
        let pool = Pool::private(permits).unwrap();
        let served = Mutex::new(Vec::new());
        std::thread::scope(|s| {
            let held: Vec<_> = (0..permits).map(|_| pool.acquire().unwrap()).collect();
            let mut customers = Vec::new();
            let mut waiting = 0;
            for (number, arrival) in arrivals.iter().enumerate() {
                let (tell, told) = channel::<Option<Duration>>();
                let (say, heard) = channel();
                let (pool, served) = (&pool, &served);
                s.spawn(move || {
                    let permit = match told.recv().unwrap() {
                        Some(limit) => pool.acquire_timeout(limit).ok(),
                        None => pool.acquire().ok(),
                    };
                    if permit.is_some() {
                        served.lock().unwrap().push(number);
                    }
                    say.send(permit.is_some()).unwrap();
                    // Keeps it until told: the next is served by the thread that gives back.
                    let _ = told.recv();
                    drop(permit);
                });
                let hasty = matches!(arrival, Arrival::Hasty);
                tell.send(hasty.then_some(Duration::from_millis(2))).unwrap();
                let customer = Customer { tell, heard };
                if hasty {
                    // It came, it went; no waiter behind it lost anything.
                    assert!(!customer.heard.recv().unwrap());
                } else {
                    waiting += 1;
                    while pool.waiters().len() < waiting {
                        std::thread::yield_now();
                    }
                    customers.push((number, customer));
                }
            }
            drop(held);
            for (at, (number, customer)) in customers.iter().enumerate() {
                assert!(customer.heard.recv().unwrap());
                // Threads that are served at once may report it in any order; the set is the first ones.
                if permits == 1 {
                    assert_eq!(served.lock().unwrap()[at], *number);
                }
                customer.tell.send(None).unwrap();
            }
        });
        prop_assert_eq!(pool.available(), permits);
        prop_assert!(pool.waiters().is_empty());
    }
}
