//! Serving by priority: in which order threads get what they wait for. Each test gives something back only when all are seen in line.

use crate::house::{House, eventually};
use chappe::{Discipline, Pool, Priority, Semaphore, Waiter, set_priority};
use std::sync::Mutex;
use std::time::Duration;

const STRICT: Discipline = Discipline::Priority { aging: None };

/// Threads with these priorities come one by one, and wait; then `give` is called.
fn served(priorities: &[u8], waiters: impl Fn() -> Vec<Waiter>, take: impl Fn() + Sync, give: impl FnOnce()) {
    std::thread::scope(|scope| {
        for (i, priority) in priorities.iter().enumerate() {
            let take = &take;
            scope.spawn(move || {
                set_priority(Priority(*priority));
                take();
            });
            eventually("all are in line", || waiters().len() == i + 1);
        }
        give();
    });
}

/// The priorities, in the order in which they had the permit.
fn served_by(pool: &Pool, priorities: &[u8]) -> Vec<u8> {
    let order = Mutex::new(Vec::new());
    let held = pool.acquire().unwrap();
    let take = || {
        let permit = pool.acquire().unwrap();
        order.lock().unwrap().push(Priority::current().0);
        drop(permit);
    };
    served(priorities, || pool.waiters(), take, || drop(held));
    order.into_inner().unwrap()
}

#[test]
fn a_pool_serves_the_highest_first_and_equals_by_arrival() {
    let _house = House::new("priority-pool");
    for pool in [Pool::private_by(1, STRICT).unwrap(), Pool::create_by("p", 1, Discipline::PRIORITY).unwrap()] {
        assert!(pool.discipline().is_by_priority());
        assert_eq!(served_by(&pool, &[0, 7, 255, 7, 1]), [255, 7, 7, 1, 0]);
    }
    let fifo = Pool::private(1).unwrap();
    assert_eq!(fifo.discipline(), Discipline::Fifo);
    assert_eq!(served_by(&fifo, &[0, 7, 255, 7, 1]), [0, 7, 255, 7, 1], "elsewhere a priority means nothing");
}

#[test]
fn a_semaphore_hands_each_unit_to_the_highest() {
    let _house = House::new("priority-semaphore");
    for semaphore in [Semaphore::private_by(0, STRICT).unwrap(), Semaphore::create_by("s", 0, STRICT).unwrap()] {
        let take = || semaphore.down().unwrap();
        served(
            &[3, 9, 3, 200],
            || semaphore.waiters(),
            take,
            || {
                for left in [&[200, 9, 3, 3][..], &[9, 3, 3], &[3, 3], &[3], &[]] {
                    let shown = || semaphore.waiters().iter().map(|w| w.priority).collect::<Vec<_>>();
                    assert_eq!(shown(), left, "in the order in which they will be served");
                    if !left.is_empty() {
                        semaphore.up().unwrap();
                    }
                }
            },
        );
    }
}

#[test]
fn several_permits_are_for_the_highest_though_some_were_set_aside_for_another() {
    let pool = Pool::private_by(2, STRICT).unwrap();
    let (one, two) = (pool.acquire().unwrap(), pool.acquire().unwrap());
    std::thread::scope(|scope| {
        let low = scope.spawn(|| pool.acquire_many(2).map(|all| all.len()).unwrap());
        eventually("the first is in line", || pool.waiters().len() == 1);
        drop(one);
        // One permit is set aside for it. A waiter of a higher priority that needs one has that one.
        Priority(1).during(|| drop(pool.acquire().unwrap()));
        assert_eq!(Priority::current(), Priority(0), "for one call");
        drop(two);
        assert_eq!(low.join().unwrap(), 2);
    });
}

#[test]
fn a_waiter_past_the_aging_time_is_not_overtaken() {
    let aging = Duration::from_millis(20);
    let pool = Pool::private_by(1, Discipline::Priority { aging: Some(aging) }).unwrap();
    let held = pool.acquire().unwrap();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (pool, order) = (&pool, &order);
        let come = |priority: u8| {
            scope.spawn(move || {
                set_priority(Priority(priority));
                let permit = pool.acquire().unwrap();
                order.lock().unwrap().push(priority);
                drop(permit);
            });
        };
        come(1);
        // The clock of waits goes by ticks.
        eventually("it has waited for long", || pool.waiters().first().is_some_and(|w| w.waiting > aging * 2));
        come(200);
        eventually("both are in line", || pool.waiters().len() == 2);
        drop(held);
    });
    assert_eq!(order.into_inner().unwrap(), [1, 200]);
}

#[test]
fn a_priority_pool_keeps_its_order_when_it_is_resized() {
    let _house = House::new("priority-resized");
    let pool = Pool::create_by("p", 1, Discipline::PRIORITY).unwrap();
    pool.resize(3).unwrap();
    assert_eq!((pool.permits(), pool.discipline()), (3, Discipline::PRIORITY));
    assert_eq!(pool.acquire_many(3).unwrap().len(), 3);
}
