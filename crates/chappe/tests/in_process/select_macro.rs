//! `select!` as a construct of the language: its arms' forms, what its bodies may do, what its operands may be.

use crate::house::House;
use chappe::{AcquireError, DownError, Permit, Pool, Semaphore, select, select_biased};
use std::sync::Arc;
use std::time::Duration;

fn empty() -> Semaphore {
    Semaphore::private(0).unwrap()
}

fn full() -> Semaphore {
    Semaphore::private(1).unwrap()
}

#[test]
fn every_form_of_an_arm() {
    let (no, yes, pool) = (empty(), full(), Pool::private(1).unwrap());
    // Blocks without commas, blocks with, expressions, with and without a comma at the end.
    let one = select! {
        down(no) -> _ => { 1 }
        down(yes) -> r => { r.unwrap(); 2 },
        acquire(pool) -> _ => 3
    };
    assert!(one == 2 || one == 3);
    if one == 3 {
        yes.down().unwrap();
    }
    assert_eq!(select! { down(no) -> _ => 1, default => 2 }, 2);
    assert_eq!(select! { down(no) -> _ => 1, default => { 2 } }, 2);
    assert_eq!(select! { default => 5, down(no) -> _ => 1, }, 5);
    assert_eq!(select! { default => { 5 } acquire(pool) -> _ => { 6 } }, 6);
    assert_eq!(select! { default(Duration::from_millis(1)) => 7, down(no) -> r => r.map_or(1, |()| 2) }, 7);
    assert_eq!(select! { down(no) -> _r => { 1 } default(Duration::ZERO) => { 8 } }, 8);
    assert_eq!(select! { default => 9 }, 9);
    assert_eq!(select! { default(Duration::from_millis(1)) => 10, }, 10);
    yes.up().unwrap();
    select! { down(yes) -> r => r.unwrap() }
    select_biased! {
        acquire(pool) -> mut permit => {
            let permit: &mut Permit<'_> = permit.as_mut().unwrap();
            assert_eq!(permit.index(), 0);
        }
        default => panic!("it was free"),
    }
    assert_eq!((no.value(), yes.value(), pool.available()), (0, 0, 1));
}

#[test]
fn biased_takes_the_first_that_is_ready() {
    let (first, second) = (Semaphore::private(50).unwrap(), Semaphore::private(50).unwrap());
    for at in 0..100 {
        let which = select_biased! {
            down(first) -> r => r.map(|()| 1),
            down(second) -> r => r.map(|()| 2),
        };
        assert_eq!(which.unwrap(), if at < 50 { 1 } else { 2 });
    }
}

#[test]
fn break_continue_and_return_are_the_callers() {
    let semaphore = Semaphore::private(10).unwrap();
    let stop = empty();
    let mut turns = 0;
    let ended = 'outer: loop {
        for _ in 0..3 {
            turns += 1;
            select_biased! {
                down(stop) -> _ => break 'outer "stopped",
                down(semaphore) -> _ => continue,
                default => stop.up().unwrap(),
            }
        }
    };
    assert_eq!((ended, turns, semaphore.value(), stop.value()), ("stopped", 12, 0, 0));
    fn waits(semaphore: &Semaphore) -> Result<&'static str, DownError> {
        loop {
            select! {
                down(semaphore) -> r => { r?; return Ok("returned") }
                default => semaphore.up().unwrap(),
            }
        }
    }
    assert_eq!(waits(&semaphore).unwrap(), "returned");
    assert_eq!(semaphore.value(), 0);
}

struct Holder {
    all: Vec<Semaphore>,
    pool: Arc<Pool>,
}

impl Holder {
    fn at(&self, at: usize) -> &Semaphore {
        &self.all[at]
    }
}

#[test]
fn operands_are_any_expressions() {
    let holder = Holder { all: vec![empty(), full()], pool: Arc::new(Pool::private(1).unwrap()) };
    let (boxed, shared) = (Box::new(empty()), Arc::new(empty()));
    let which = 1;
    let got = select_biased! {
        down(boxed) -> _ => 0,
        down(shared) -> _ => 1,
        down(&*shared) -> _ => 2,
        down(holder.all[0]) -> _ => 3,
        down(holder.at(which)) -> _ => 4,
        acquire(holder.pool) -> _ => 5,
    };
    assert_eq!(got, 4);
    // Temporaries live as long as the choice does.
    assert_eq!(select! { down(empty()) -> _ => 1, down(full()) -> r => { r.unwrap(); 2 } }, 2);
    assert_eq!(select! { acquire(Pool::private(3).unwrap()) -> p => p.unwrap().pool().permits(), default => 0 }, 3);
    // Operands are looked at once, in their order, also those behind the one that is taken.
    let mut seen = Vec::new();
    let mut look = |n: u32| {
        seen.push(n);
        Semaphore::private(1).unwrap()
    };
    select_biased! { down(look(1)) -> _ => (), down(look(2)) -> _ => (), down(look(3)) -> _ => () }
    assert_eq!(seen, [1, 2, 3]);
}

#[test]
fn a_permit_outlives_the_choice() {
    let pool = Pool::private(1).unwrap();
    let permit = select! { acquire(pool) -> permit => permit.unwrap() };
    assert_eq!(pool.available(), 0);
    drop(permit);
    assert_eq!(pool.available(), 1);
    // One that is not kept is given back before the body is over.
    select! { acquire(pool) -> _ => assert_eq!(pool.available(), 1) }
}

#[test]
fn choices_nest() {
    let (outer, inner) = (full(), full());
    let got = select! {
        down(outer) -> r => {
            r.unwrap();
            select! { down(outer) -> _ => 1, down(inner) -> _ => 2 }
        }
        down(empty()) -> _ => 3,
    };
    assert_eq!((got, outer.value(), inner.value()), (2, 0, 0));
}

#[test]
fn a_dead_object_is_an_error_in_its_own_arm() {
    let _house = House::new("macro-dead");
    let (semaphore, pool, other) = (Semaphore::create("s", 0).unwrap(), Pool::create("p", 1).unwrap(), empty());
    Semaphore::remove("s", true).unwrap();
    let e = select_biased! { down(other) -> _ => panic!("empty"), down(semaphore) -> r => r.unwrap_err() };
    assert!(matches!(e, DownError::Dead { .. }), "{e}");
    Pool::remove("p", true).unwrap();
    let e = select! { down(other) -> _ => panic!("empty"), acquire(pool) -> r => r.map(drop).unwrap_err() };
    assert!(matches!(e, AcquireError::Dead { .. }), "{e}");
    // While it waits, too.
    let semaphore = Semaphore::create("s", 0).unwrap();
    std::thread::scope(|s| {
        let chooser = s.spawn(|| select! { down(other) -> _ => false, down(semaphore) -> r => r.is_err() });
        while semaphore.waiters().is_empty() || other.waiters().is_empty() {
            std::thread::yield_now();
        }
        Semaphore::remove("s", true).unwrap();
        assert!(chooser.join().unwrap());
    });
    assert!(other.waiters().is_empty());
}

#[test]
fn two_arenas_are_refused_in_clear_words() {
    let _house = House::new("macro-arenas");
    let (one, other) = (Semaphore::create("x/s", 1).unwrap(), Semaphore::create("y/s", 1).unwrap());
    let refused = std::panic::catch_unwind(|| select! { down(one) -> _ => 1, down(other) -> _ => 2, default => 3 });
    let message = *refused.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("two arenas, `x` and `y`"), "{message}");
    assert_eq!((one.value(), other.value()), (1, 1));
}
