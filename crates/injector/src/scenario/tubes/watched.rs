//! Descriptors of ends, and second handles of them: nothing of either stays behind.

use chappe::tube::named::Kind;

use super::super::Scene::{Alone, Met, Stopped, Waiters};
use super::super::messages::{HELPER, KEEPER, Part};
use super::super::{Operation, Reason};
use super::setting::{SLOTS, check, receiver, sender};

/// Asked for the first time it starts a thread, which is another member; made ready again it tells that thread. The tube is empty,
/// or full: there is something to wait for.
fn descriptor(first: bool, sends: bool) -> Operation {
    Operation::of(
        match (first, sends) {
            (true, _) => "tube descriptor, first",
            (false, true) => "tube rearm, full",
            (false, false) => "tube rearm, empty",
        },
        if first { &[Alone, Waiters, Stopped] } else { &[Alone, Met, Stopped] },
    )
    .retold(|_| {
        // What its thread does meanwhile does not depend on the instruction.
        true
    })
    .build(move |w| {
        w.make("p", 1)?;
        w.make_tube("t", Kind::Mpmc, SLOTS)?;
        w.receive_from("t")?;
        w.send_to("t")?;
        if sends { w.post_all("t", KEEPER, SLOTS) } else { Ok(()) }
    })
    .perform(move |w| {
        if sends {
            let out = sender(w);
            assert!(out.descriptor().is_ok(), "a descriptor");
            w.stage().begin();
            let armed = out.rearm();
            w.stage().end(armed);
            std::mem::forget(out);
            return;
        }
        let into = receiver(w);
        if !first {
            assert!(into.descriptor().is_ok(), "a descriptor");
        }
        w.stage().begin();
        let armed = if first { into.descriptor().is_ok() } else { into.rearm() };
        w.stage().end(armed);
        std::mem::forget(into);
    })
    .wait(|w| w.fetch_slowly("t").map(drop))
    // What the armed end waits for comes.
    .meet(move |w| if sends { w.fetch_slowly("t").map(drop) } else { w.post_slowly("t", HELPER) })
    .others(move |w| {
        if sends {
            w.fetch_all("t", 2)?;
            return w.post_all("t", KEEPER, 2);
        }
        w.messages_pass("t", 2, 2)
    })
    .bereaved(|w| if w.scene() == Waiters { w.post_all("t", KEEPER, 2) } else { Ok(()) })
    .check(|w| check(w, SLOTS, Part::Nothing))
}

/// Both handles are of one member: they go with it.
fn another(sends: bool) -> Operation {
    Operation::of(if sends { "tube another sender" } else { "tube another receiver" }, &[Alone, Met, Stopped])
        .held_up_by(Reason::Arena)
        .build(|w| {
            w.make("p", 1)?;
            w.make_tube("t", Kind::Mpmc, SLOTS)
        })
        .perform(move |w| {
            let done = if sends {
                let end = sender(w);
                w.stage().begin();
                let other = end.another();
                let done = other.is_ok();
                std::mem::forget((end, other));
                done
            } else {
                let end = receiver(w);
                w.stage().begin();
                let other = end.another();
                let done = other.is_ok();
                std::mem::forget((end, other));
                done
            };
            w.stage().end(done);
        })
        // Another comes to the same end.
        .meet(move |w| if sends { w.send_to("t") } else { w.receive_from("t") })
        .check(|w| check(w, SLOTS, Part::Nothing))
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![descriptor(true, false), descriptor(false, false), descriptor(false, true), another(true), another(false)]
}
