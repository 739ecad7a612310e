//! Plan 9's semaphores under loom: their words alone order what is given with a unit, and no rescue is needed.

use crate::loom::{three_reach, two_reach};
use chappe_plat::atomic::AtomicI32;
use chappe_plat::explore::{Data, sleeps, together};
use chappe_sync::plan9::{Lock, Usem, rescues, semacquire, semrelease};

#[derive(Clone, Copy)]
struct Scene {
    word: &'static AtomicI32,
    usem: &'static Usem,
    lock: &'static Lock,
    data: Data,
}

fn scene() -> Scene {
    let word = Box::leak(Box::new(AtomicI32::new(0)));
    let usem = Box::leak(Box::new(Usem::new(0)));
    Scene { word, usem, lock: Box::leak(Box::new(Lock::new())), data: Data::new() }
}

#[test]
fn a_write_before_a_release_is_visible_after_the_acquire() {
    let both = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    s.data.set(1);
                    semrelease(s.word, 1).expect("room");
                },
                |s: Scene| {
                    assert_eq!(semacquire(s.word, true), Ok(true));
                    assert_eq!(s.data.get(), 1);
                },
            ],
        );
        assert_eq!(rescues(), 0);
        sleeps()
    };
    two_reach(3, scene, both, [0, 1]);
}

#[test]
fn a_release_of_two_wakes_two() {
    let all = |s: Scene| {
        let acquire = |s: Scene| assert_eq!(semacquire(s.word, true), Ok(true));
        let release = |s: Scene| assert!(semrelease(s.word, 2).is_ok());
        together(s, [acquire, acquire, release]);
        assert_eq!(semacquire(s.word, false), Ok(false));
        sleeps()
    };
    three_reach(2, scene, all, [0, 1, 2]);
}

#[test]
fn a_usem_says_what_was_written_before() {
    let both = |s: Scene| {
        together(
            s,
            [
                |s: Scene| {
                    s.data.set(1);
                    s.usem.release().expect("room");
                },
                |s: Scene| {
                    s.usem.acquire().expect("a semaphore");
                    assert_eq!(s.data.get(), 1);
                },
            ],
        );
        assert!(!s.usem.try_acquire());
        sleeps()
    };
    two_reach(3, scene, both, [0, 1]);
}

#[test]
fn a_lock_is_held_by_one_after_the_other() {
    let all = |s: Scene| {
        let add = |s: Scene| {
            s.lock.lock();
            s.data.set(s.data.get() + 1);
            s.lock.unlock();
        };
        together(s, [add, add, add]);
        assert_eq!(s.data.get(), 3);
        sleeps()
    };
    three_reach(2, scene, all, [0, 1, 2]);
}
