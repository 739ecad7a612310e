//! An uncontended acquire and release allocates nothing.
//!
//! The allocator of this program counts, for each thread, what it is asked for. A control shows that it does.

use chappe::{Pool, Select, acquire_any};
use chappe_bench::house::House;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

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
        assert_eq!(allocations(|| select.wait().unwrap().permit().release()), 0, "Select, {kind}");
    }
}
