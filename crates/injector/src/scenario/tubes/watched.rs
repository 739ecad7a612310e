//! Descriptors of ends, and second handles of them: nothing of either stays behind.

use chappe::tube::named::Kind;

use super::super::Scene::{Alone, Met, Stopped, Waiters};
use super::super::messages::{HELPER, KEEPER, Part};
use super::super::world::World;
use super::super::{Operation, Reason, Row, Scene};
use super::{SLOTS, check, receiver, sender};
use crate::board::Verdict;

/// All of them.
pub fn all() -> Vec<Box<dyn Operation>> {
    vec![
        Box::new(Descriptor { first: true, sends: false }),
        Box::new(Descriptor { first: false, sends: false }),
        Box::new(Descriptor { first: false, sends: true }),
        Box::new(Another { sends: true }),
        Box::new(Another { sends: false }),
    ]
}

/// Asked for the first time it starts a thread, which is another member; made ready again it tells that thread. The tube is empty,
/// or full: there is something to wait for.
struct Descriptor {
    first: bool,
    sends: bool,
}

impl Operation for Descriptor {
    fn row(&self) -> Row {
        Row::of(
            match (self.first, self.sends) {
                (true, _) => "tube descriptor, first",
                (false, true) => "tube rearm, full",
                (false, false) => "tube rearm, empty",
            },
            if self.first { &[Alone, Waiters, Stopped] } else { &[Alone, Met, Stopped] },
        )
    }
    fn retold(&self, _scene: Scene) -> bool {
        // What its thread does meanwhile does not depend on the instruction.
        true
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1)?;
        w.make_tube("t", Kind::Mpmc, SLOTS)?;
        w.receive_from("t")?;
        w.send_to("t")?;
        if self.sends { w.post_all("t", KEEPER, SLOTS) } else { Ok(()) }
    }
    fn perform(&self, w: &World) {
        if self.sends {
            let out = sender(w);
            assert!(out.descriptor().is_ok(), "a descriptor");
            w.stage().begin();
            let armed = out.rearm();
            w.stage().end(armed);
            std::mem::forget(out);
            return;
        }
        let into = receiver(w);
        if !self.first {
            assert!(into.descriptor().is_ok(), "a descriptor");
        }
        w.stage().begin();
        let armed = if self.first { into.descriptor().is_ok() } else { into.rearm() };
        w.stage().end(armed);
        std::mem::forget(into);
    }
    fn wait(&self, w: &World, _which: usize) -> Verdict {
        w.fetch_slowly("t").map(drop)
    }
    /// What the armed end waits for comes.
    fn meet(&self, w: &World) -> Verdict {
        if self.sends { w.fetch_slowly("t").map(drop) } else { w.post_slowly("t", HELPER) }
    }
    fn others(&self, w: &mut World) -> Verdict {
        if self.sends {
            w.fetch_all("t", 2)?;
            return w.post_all("t", KEEPER, 2);
        }
        w.messages_pass("t", 2, 2)
    }
    fn bereaved(&self, w: &mut World) -> Verdict {
        if w.scene() == Waiters { w.post_all("t", KEEPER, 2) } else { Ok(()) }
    }
    fn check(&self, w: &mut World) -> Verdict {
        check(w, SLOTS, Part::Nothing)
    }
}

/// Both handles are of one member: they go with it.
struct Another {
    sends: bool,
}

impl Operation for Another {
    fn row(&self) -> Row {
        Row {
            held_up_by: Some(Reason::Arena),
            ..Row::of(if self.sends { "tube another sender" } else { "tube another receiver" }, &[Alone, Met, Stopped])
        }
    }
    fn build(&self, w: &mut World) -> Verdict {
        w.make("p", 1)?;
        w.make_tube("t", Kind::Mpmc, SLOTS)
    }
    fn perform(&self, w: &World) {
        let done = if self.sends {
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
    }
    /// Another comes to the same end.
    fn meet(&self, w: &World) -> Verdict {
        if self.sends { w.send_to("t") } else { w.receive_from("t") }
    }
    fn check(&self, w: &mut World) -> Verdict {
        check(w, SLOTS, Part::Nothing)
    }
}
