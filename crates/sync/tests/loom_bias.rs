//! A biased mutex under loom: the owner's plain stores and the revoker's fence order what both do inside.

#[allow(dead_code, reason = "two threads are enough here")]
use crate::arena::arena;
use crate::loom::two_reach;
use chappe_plat::explore::{Data, together};
use chappe_sync::model::{Actor, Locking, MutexAt};

#[derive(Clone, Copy)]
struct Scene {
    who: [Actor; 3],
    mutex: MutexAt,
    data: Data,
}

/// The first has the bias, and is not inside.
fn scene() -> Scene {
    let (map, who) = arena();
    let mutex = MutexAt::biased(map).expect("room");
    assert_eq!(who[0].try_lock(mutex), Locking::Locked);
    assert!(who[0].unlock(mutex));
    assert_eq!(mutex.bias(), Some(who[0].member()));
    Scene { who, mutex, data: Data::new() }
}

/// Adds one to what is there, if no thread is inside.
fn add(s: Scene, me: usize) -> u64 {
    match s.who[me].try_lock(s.mutex) {
        Locking::Locked => {
            s.data.set(s.data.get() + 1);
            assert!(s.who[me].unlock(s.mutex));
            1
        }
        other => {
            assert_eq!(other, Locking::Busy);
            0
        }
    }
}

#[test]
fn the_owner_and_another_are_never_inside_at_once() {
    let both = |s: Scene| {
        let [first, second] = together(s, [|s: Scene| add(s, 0), |s: Scene| add(s, 1)]);
        assert_eq!(s.data.get(), first + second);
        assert_eq!(s.who[1].try_lock(s.mutex), Locking::Locked);
        assert!(s.who[1].unlock(s.mutex));
        (first, second)
    };
    two_reach(3, scene, both, [(1, 1), (1, 0), (0, 1)]);
}

#[test]
fn the_owner_again_and_again() {
    let both = |s: Scene| {
        let twice = |s: Scene| add(s, 0) + add(s, 0);
        let [first, second] = together(s, [twice, |s: Scene| add(s, 1)]);
        assert_eq!(s.data.get(), first + second);
        (first, second)
    };
    two_reach(2, scene, both, [(2, 1), (2, 0), (1, 1), (0, 1)]);
}
