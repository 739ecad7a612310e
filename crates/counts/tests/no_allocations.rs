//! Uncontended operations allocate nothing, and neither does waiting.
//!
//! The allocator of this program counts, for each thread, what it is asked for. A control shows that it does.

use chappe::tube::broadcast::{Broadcast, BroadcastOptions, Subscribe};
use chappe::tube::named::{NotReceived, Tube, TubeOptions};
use chappe::tube::{bounded, mpsc, never, spmc, spsc, unbounded};
use chappe::{Condvar, Mutex, Pool, Role, Select, Semaphore, acquire_any, select, set_role};
use chappe_counts::house::House;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is left to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending may ask, too.
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How often a thousand runs of the operation ask for memory, after ten to get used to it.
fn allocations(mut operation: impl FnMut()) -> u64 {
    (0..10).for_each(|_| operation());
    let before = COUNT.get();
    (0..1000).for_each(|_| operation());
    COUNT.get() - before
}

#[test]
fn the_allocator_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1000);
    assert_eq!(allocations(|| ()), 0);
}

#[test]
fn an_uncontended_pair_and_a_choice_ask_for_none() {
    let _house = House::new("allocations");
    for kind in ["private", "named"] {
        let make = |name: &str, n| if kind == "private" { Pool::private(n) } else { Pool::create(name, n) };
        for n in [1, 4, 64] {
            let pool = make(&format!("p{n}"), n).unwrap();
            assert_eq!(allocations(|| pool.acquire().unwrap().release()), 0, "{kind}, N = {n}");
            assert_eq!(allocations(|| pool.try_acquire().unwrap().release()), 0, "try_acquire, {kind}, N = {n}");
        }
        let pools: Vec<Pool> = (0..4).map(|n| make(&format!("arm{n}"), 1).unwrap()).collect();
        let arms: Vec<&Pool> = pools.iter().collect();
        let _held = [arms[0].acquire().unwrap(), arms[1].acquire().unwrap(), arms[3].acquire().unwrap()];
        assert_eq!(allocations(|| acquire_any(&arms).unwrap().1.release()), 0, "choice, {kind}");
        let mut select = Select::new();
        for arm in &arms {
            select.acquire(arm);
        }
        assert_eq!(allocations(|| drop(select.wait().unwrap())), 0, "Select, {kind}");
    }
}

#[test]
fn semaphores_mutexes_and_several_permits_ask_for_none() {
    let _house = House::new("allocations-sync");
    for private in [true, false] {
        let kind = if private { "private" } else { "named" };
        let semaphore = |n| if private { Semaphore::private(n) } else { Semaphore::create(&format!("s{n}"), n) };
        let (one, zero) = (semaphore(1).unwrap(), semaphore(0).unwrap());
        let down_and_up = || {
            one.down().unwrap();
            assert!(one.try_down().is_err());
            one.up().unwrap();
        };
        assert_eq!(allocations(down_and_up), 0, "semaphore, {kind}");
        let mutex = if private { Mutex::private(0) } else { Mutex::create("m", 0) }.unwrap();
        assert_eq!(allocations(|| *mutex.lock().unwrap() += 1), 0, "mutex, {kind}");
        let condvar = if private { Condvar::private() } else { Condvar::create("c") }.unwrap();
        assert_eq!(allocations(|| condvar.notify_all()), 0, "condition variable, {kind}");
        let pool = if private { Pool::private(64) } else { Pool::create("p", 64) }.unwrap();
        for n in [1, 4, 8] {
            assert_eq!(allocations(|| pool.acquire_many(n).unwrap().release()), 0, "{n} permits, {kind}");
        }
        let mut select = Select::new();
        select.down(&zero);
        let (down, acquire) = (select.down(&one), select.acquire(&pool));
        let choose = || {
            let chosen = select.wait().unwrap();
            if chosen.index() == down {
                one.up().unwrap();
            } else {
                assert_eq!(chosen.index(), acquire);
                chosen.permit(&pool).unwrap().release();
            }
        };
        assert_eq!(allocations(choose), 0, "Select, {kind}");
        one.down().unwrap();
        let _all = pool.acquire_many(64).unwrap();
        assert_eq!(allocations(|| assert!(select.try_wait().is_err())), 0, "Select, none ready, {kind}");
    }
}

#[test]
fn a_look_into_an_empty_named_tube_asks_for_none() {
    let _house = House::new("allocations-empty");
    let tube = Tube::<u64>::create("tube", &TubeOptions::default()).unwrap();
    let (_sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    assert_eq!(allocations(|| assert!(matches!(receiver.try_recv(), Err(NotReceived::Empty)))), 0, "named tube");
    let topic = Broadcast::<u64>::create("topic", &BroadcastOptions::default()).unwrap();
    let (_publisher, heard) = (topic.publisher().unwrap(), topic.subscribe(Subscribe::to_all()).unwrap());
    assert_eq!(allocations(|| assert!(matches!(heard.try_recv(), Err(NotReceived::Empty)))), 0, "broadcast tube");
}

#[test]
fn waiting_asks_for_none() {
    let _house = House::new("allocations-waiting");
    for private in [true, false] {
        let kind = if private { "private" } else { "named" };
        let semaphore = |name| if private { Semaphore::private(0) } else { Semaphore::create(name, 0) };
        let (there, back) = (semaphore("there").unwrap(), semaphore("back").unwrap());
        let (turn, turned) = if private {
            (Mutex::private(0u64).unwrap(), Condvar::private().unwrap())
        } else {
            (Mutex::create("turn", 0u64).unwrap(), Condvar::create("turned").unwrap())
        };
        // Ten runs to get used to it, and a thousand, of each of three.
        std::thread::scope(|s| {
            s.spawn(|| {
                for _ in 0..2 * 1010 {
                    there.down().unwrap();
                    back.up().unwrap();
                }
                for n in 0..1010 {
                    let mut seen = turn.lock().unwrap();
                    while *seen != 2 * n + 1 {
                        seen = turned.wait(seen).unwrap();
                    }
                    *seen += 1;
                    turned.notify_one();
                }
            });
            // At once, so that it does wait; and it has waited before, for the semaphore and the condition variable.
            set_role(Role::Sleeper);
            assert!(back.down_timeout(Duration::from_millis(1)).is_err());
            drop(turned.wait_timeout(turn.lock().unwrap(), Duration::from_millis(1)));
            let mut counts = Vec::new();
            let there_and_back = || {
                there.up().unwrap();
                back.down().unwrap();
            };
            counts.push((allocations(there_and_back), "down"));
            let mut select = Select::new();
            select.down(&back);
            let choose = || {
                there.up().unwrap();
                assert_eq!(select.wait().unwrap().index(), 0);
            };
            counts.push((allocations(choose), "Select"));
            let take_turns = || {
                let mut seen = turn.lock().unwrap();
                *seen += 1;
                let next = *seen + 1;
                turned.notify_one();
                while *seen != next {
                    seen = turned.wait(seen).unwrap();
                }
            };
            counts.push((allocations(take_turns), "condition variable"));
            // Last, when the other thread is done: it would wait for this one.
            for (count, what) in counts {
                assert_eq!(count, 0, "{what}, {kind}");
            }
        });
    }
}

#[test]
fn tubes_and_choices_over_them_ask_for_none() {
    macro_rules! pairs {
        ($($name:literal $make:expr),*) => {$(
            let (tx, rx) = $make;
            // An unbounded one has two runs of slots by then.
            (0..100).for_each(|n| {
                tx.send(n).unwrap();
                rx.recv().unwrap();
            });
            assert_eq!(allocations(|| {
                tx.send(1u64).unwrap();
                assert_eq!(rx.recv(), Ok(1));
                assert!(rx.try_recv().is_err());
            }), 0, $name);
        )*};
    }
    pairs!("bounded" bounded(4), "unbounded" unbounded(), "spsc" spsc(4), "mpsc" mpsc(4), "spmc" spmc(4));
    let (tx, rx) = unbounded();
    // It has held as many before.
    (0..1000).for_each(|n| tx.send(n).unwrap());
    assert_eq!(rx.try_iter().count(), 1000);
    let burst = || {
        (0..1000).for_each(|n| tx.send(n).unwrap());
        assert_eq!(rx.try_iter().count(), 1000);
    };
    assert_eq!(allocations(burst), 0, "unbounded, a thousand at a time");

    let tubes: Vec<_> = (0..4).map(|_| bounded::<u64>(1)).collect();
    let (mut both, semaphore) = (Select::new(), Semaphore::private(0).unwrap());
    for (_, rx) in &tubes {
        both.recv(rx);
    }
    both.send(&tubes[3].0);
    both.down(&semaphore);
    let choose = || {
        tubes[2].0.send(7).unwrap();
        for _ in 0..2 {
            let chosen = both.select();
            match chosen.index() {
                4 => chosen.send(&tubes[3].0, 8).unwrap(),
                at => _ = chosen.recv(&tubes[at].1).unwrap(),
            }
        }
        tubes.iter().for_each(|(_, rx)| _ = rx.try_recv());
    };
    assert_eq!(allocations(choose), 0, "Select");
    let by_macro = || {
        tubes[1].0.send(7).unwrap();
        let got = select! {
            recv(tubes[0].1) -> m => m,
            recv(tubes[1].1) -> m => m,
            recv(never()) -> m => m,
            down(semaphore) -> r => panic!("{r:?}"),
        };
        assert_eq!(got, Ok(7));
        assert_eq!(select! { recv(tubes[0].1) -> m => m, default => Ok(0) }, Ok(0));
    };
    // `never` makes a tube.
    assert_eq!(allocations(by_macro), 1000, "select!");
}

#[test]
fn waiting_for_tubes_asks_for_none() {
    set_role(Role::Sleeper);
    for slots in [0, 1] {
        let ((there, question), (answer, back)) = (bounded::<u64>(slots), bounded::<u64>(slots));
        let (_idle, idle) = bounded::<u64>(1);
        // The first wait at an end makes the slot of its waiters. Which round waits first is up to the scheduler, so each end waits here.
        let moment = Duration::from_millis(1);
        assert!(back.recv_timeout(moment).is_err() && question.recv_timeout(moment).is_err());
        for end in [&there, &answer] {
            while end.send_timeout(0, moment).is_ok() {}
        }
        assert_eq!((question.try_iter().count(), back.try_iter().count()), (slots, slots));
        std::thread::scope(|s| {
            s.spawn(move || {
                set_role(Role::Sleeper);
                question.iter().for_each(|n| answer.send(n).unwrap());
            });
            let ping = || {
                there.send(1).unwrap();
                assert_eq!(back.recv(), Ok(1));
            };
            assert_eq!(allocations(ping), 0, "recv, {slots} slots");
            let mut select = Select::new();
            select.recv(&idle);
            select.recv(&back);
            // A thread's first choice that waits for a meeting makes the packet of all its later ones.
            assert!(select.select_timeout(moment).is_err());
            let ping = || {
                there.send(2).unwrap();
                assert_eq!(select.select().recv(&back), Ok(2));
            };
            assert_eq!(allocations(ping), 0, "Select, {slots} slots");
            let ping = || {
                select! { send(there, 3) -> sent => sent.unwrap(), recv(idle) -> _ => unreachable!() }
                select! { recv(back) -> m => assert_eq!(m, Ok(3)), recv(idle) -> _ => unreachable!() }
            };
            assert_eq!(allocations(ping), 0, "select!, {slots} slots");
            drop(there);
        });
    }
}
