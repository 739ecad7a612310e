//! What the linker makes itself: queues, pumps, forks and joins; and the sink that counts.

use crate::kind::{Anew, End, Kind, Plan, Role, WhenFull, Wrong};
use crate::stage::{Fault, Out, Stage, stage};
use crate::types::Block;

struct Null;

impl Stage for Null {
    fn put(&mut self, _: Block, _: &mut dyn Out) -> Result<(), Fault> {
        Ok(())
    }
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new("queue", "[SLOTS] [full=wait|drop|drop-old]", "a queue of blocks between two threads", |call| {
            let slots = call.number_or(0, "slots", (1.0, 65_536.0), 8.0)? as usize;
            let full = match call.choice(1, "full", &["wait", "drop", "drop-old"])? {
                Some("drop") => WhenFull::DropNew,
                Some("drop-old") => WhenFull::DropOld,
                _ => WhenFull::Wait,
            };
            Ok(Plan::link(call.input()?.clone(), End::Passive, End::Passive, Role::Queue { slots, full }))
        }),
        Kind::new("pump", "", "a thread that takes from before and hands on", |call| {
            Ok(Plan::link(call.input()?.clone(), End::Active, End::Active, Role::Pump))
        }),
        Kind::new("tee", "(LINE) ...", "each block goes to every branch, and on", |call| {
            Ok(Plan::link(call.input()?.clone(), End::Follows, End::Follows, Role::Tee))
        }),
        Kind::new("share", "(LINE) ...", "each block goes to one branch, in turn or to the one that is free", |call| {
            Ok(Plan::link(call.input()?.clone(), End::Follows, End::Follows, Role::Share))
        }),
        Kind::new("merge", "(LINE) ...", "blocks of several lines, as they come", |call| {
            let Some(first) = call.inputs.first() else { return Err(Wrong::new("`merge` needs something before it")) };
            match call.inputs.iter().find(|t| *t != first) {
                Some(other) => {
                    Err(Wrong::new(format!("`merge` takes inputs of one type, and has {first} and {other}")))
                }
                None => Ok(Plan::link(first.clone(), End::Passive, End::Follows, Role::Merge)),
            }
        })
        .gathering(),
        Kind::new("null", "", "takes everything, and counts it", |call| {
            call.input()?;
            Ok(Plan::sink(|| stage(Null)).anew(Anew::Fresh))
        }),
    ]
}
