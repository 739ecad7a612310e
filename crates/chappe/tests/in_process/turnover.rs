//! What onlookers count: how often a pool's permits have become free.

use crate::house::House;
use chappe::{Arena, ArenaOptions, ObjectState, Pool, PoolInfo};

fn look(arena: &Arena) -> PoolInfo {
    match arena.object("p").unwrap().state {
        ObjectState::Pool(info) => info,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_permit_that_is_given_back_counts_once() {
    let _house = House::new("turnover");
    let arena = Arena::create("a", &ArenaOptions::default()).unwrap();
    let pool = Pool::create("a/p", 3).unwrap();
    let before = look(&arena);
    let held = pool.acquire().unwrap();
    for _ in 0..100 {
        drop(pool.acquire_many(2).unwrap());
    }
    // What is held has not been given back.
    assert_eq!(look(&arena).turnover_since(&before), 200);
    drop(held);
    let after = look(&arena);
    assert_eq!((after.turnover_since(&before), after.turnover_since(&after)), (201, 0));
    // The count begins anew after 2^24.
    assert_eq!(before.turnover_since(&after), (1 << 24) - 201);
}
