//! Inactive lists: stages that are out of use, for those that are made later (synthesis, 4.1.2).
//!
//! A stage whose making is dear (tables of a filter, the plan of a transform) belongs to a [`Class`]. When its graph
//! has ended, it goes to the inactive list of its class, and the next stage of the same values is that one, begun anew:
//! it gives the same as a new one. A list has a bound of [`ROOM`] stages and [`BYTES`] bytes; the oldest goes first.
//!
//! Nothing waits here: a list that another thread uses just then is passed by (so is one that a fork left locked), and
//! the stage is made, or freed. The lists are this process's own.

use crate::stage::{Fault, Out, Stage};
use crate::types::Block;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

/// How many stages a class keeps at most.
pub const ROOM: usize = 16;
/// How many bytes they have together at most.
pub const BYTES: usize = 16 << 20;

/// A stage that can be used again.
pub trait Renew {
    /// What its making depends on.
    type Key: PartialEq + Send;

    /// Forgets everything that it was given: it does from here on what a new one does.
    fn renew(&mut self);

    /// About how many bytes it has.
    fn bytes(&self) -> usize;
}

/// A class of stages, with its inactive list.
pub struct Class<S: Renew>(Mutex<VecDeque<(S::Key, S)>>);

impl<S: Renew> Default for Class<S> {
    fn default() -> Class<S> {
        Class::new()
    }
}

impl<S: Renew> Class<S> {
    /// With an empty list.
    pub const fn new() -> Class<S> {
        Class(Mutex::new(VecDeque::new()))
    }

    /// A stage for these values: from the list, or made.
    pub fn create(&'static self, key: S::Key, make: impl FnOnce() -> S) -> Active<S> {
        let kept = self.0.try_lock().ok().and_then(|mut list| {
            let at = list.iter().rposition(|(of, _)| *of == key)?;
            list.remove(at)
        });
        let stage = match kept {
            Some((_, mut stage)) => {
                stage.renew();
                stage
            }
            None => make(),
        };
        Active { class: self, of: Some((key, stage)) }
    }

    /// Into the list.
    fn keep(&self, of: (S::Key, S)) {
        if of.1.bytes() > BYTES {
            return;
        }
        let Ok(mut list) = self.0.try_lock() else { return };
        list.push_back(of);
        while list.len() > ROOM || list.iter().map(|(_, stage)| stage.bytes()).sum::<usize>() > BYTES {
            list.pop_front();
        }
    }
}

/// A stage of a class, in use. It goes to the inactive list when it is dropped.
pub struct Active<S: Renew + 'static> {
    class: &'static Class<S>,
    of: Option<(S::Key, S)>,
}

const IN_USE: &str = "only its drop takes it";

impl<S: Renew> Deref for Active<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.of.as_ref().expect(IN_USE).1
    }
}

impl<S: Renew> DerefMut for Active<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.of.as_mut().expect(IN_USE).1
    }
}

impl<S: Renew> Drop for Active<S> {
    fn drop(&mut self) {
        if let Some(of) = self.of.take().filter(|_| !std::thread::panicking()) {
            self.class.keep(of);
        }
    }
}

impl<S: Renew + Stage> Stage for Active<S> {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        (**self).put(block, out)
    }

    fn alters(&self) -> bool {
        (**self).alters()
    }

    fn alter(&mut self, block: &mut Block) {
        (**self).alter(block);
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        (**self).end(out)
    }

    fn fill(&mut self, fill: f64) {
        (**self).fill(fill);
    }

    fn says(&self) -> Option<String> {
        (**self).says()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Table(usize, Cell<u32>);

    impl Renew for Table {
        type Key = usize;

        fn renew(&mut self) {
            self.1.set(0);
        }

        fn bytes(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn a_dropped_value_is_used_again_within_the_lists_bounds() {
        static CLASS: Class<Table> = Class::new();
        let made = Cell::new(0);
        let create = |bytes: usize| {
            CLASS.create(bytes, || {
                made.set(made.get() + 1);
                Table(bytes, Cell::new(0))
            })
        };
        let first = create(1);
        first.1.set(7);
        let second = create(1);
        assert_eq!((made.get(), second.1.get()), (2, 0), "one that is in use is nobody else's");
        drop((first, second));
        let again = (create(1), create(1));
        assert_eq!((made.get(), again.0.1.get(), again.1.1.get()), (2, 0, 0), "both come again, and know nothing");
        drop(again);
        drop(create(2));
        assert_eq!(made.get(), 3, "other values are another stage");
        // As many as there is room for; the oldest has gone.
        (10..10 + ROOM).for_each(|bytes| drop(create(bytes)));
        made.set(0);
        (10..10 + ROOM).for_each(|bytes| drop(create(bytes)));
        assert_eq!(made.get(), 0);
        drop(create(1));
        assert_eq!(made.get(), 1);
        // One of more bytes than there may be is not kept, and the others stay.
        drop(create(BYTES + 1));
        made.set(0);
        drop((create(1), create(BYTES + 1)));
        assert_eq!(made.get(), 1);
        // A list that another thread holds is passed by.
        let held = CLASS.0.lock();
        drop(create(1));
        assert_eq!(made.get(), 2);
        drop(held);
    }
}
