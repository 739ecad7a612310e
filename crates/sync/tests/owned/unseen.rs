//! A process that can be no member, and an owned semaphore.

use crate::crash::{searched_in, stopped_in};
use crate::owned::{Doing, Owned, more};
use chappe_crashsim::{World, reached};
use std::cell::Cell;

/// A process that is no member takes what is there, and keeps it; two use it as a lock.
fn unseen(world: &World) {
    let (stage, s) = Owned::new(world, 12);
    let it = s.it;
    let p = world.prepare("unseen");
    let doing = world.share(Cell::new(Doing::Nothing));
    p.on_death(move || {
        if doing.get() == Doing::Waits {
            more(&s.books.perhaps_waits);
        }
    });
    p.run(move || {
        doing.set(Doing::Waits);
        let got = it.try_wait_unseen();
        doing.set(Doing::Nothing);
        if got.is_err() {
            return reached("nothing unseen");
        }
        more(&s.books.waits);
        assert!(it.is_plain(), "nobody would return it, and it is a lock still");
        reached("taken unseen");
    });
    s.locker(world, &stage, "one", "one done");
    s.locker(world, &stage, "other", "other done");
    s.may_wait_for_nothing(world);
    s.last(world);
}

#[test]
fn a_non_member_takes_only_a_free_unit() {
    let wanted = ["taken unseen", "nothing unseen", "one done", "other done"];
    searched_in(3_000, "owned_unseen", unseen, &wanted);
    stopped_in(1_000, "owned_unseen", unseen);
}
