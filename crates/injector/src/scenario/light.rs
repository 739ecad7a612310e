//! The same operations by a light thread: it waits in an attachment that its proc has lent it, and what is granted rings the proc's doorbell. The
//! victim is the proc's kernel thread, with all that it does between the operation's steps: it takes threads from its queue, looks round, and sleeps.

use super::world::World;
use super::{Operation, Row};
use crate::board::Verdict;

/// Operations that are killed in a light thread, too: those that may wait for something named, and what ends such waits.
const SOME: [(&str, &str); 8] = [
    ("acquire", "acquire, light"),
    ("release", "release, light"),
    ("choice of 3", "choice of 3, light"),
    ("down", "down, light"),
    ("tube send, mpmc", "tube send, mpmc, light"),
    ("tube send, full, mpmc", "tube send, full, mpmc, light"),
    ("tube recv, mpmc", "tube recv, mpmc, light"),
    ("tube recv, empty, mpmc", "tube recv, empty, mpmc, light"),
];

/// All of them, of these operations.
pub fn all(others: impl Iterator<Item = Box<dyn Operation>>) -> Vec<Box<dyn Operation>> {
    let light = |inner: Box<dyn Operation>| {
        let (_, name) = SOME.into_iter().find(|(name, _)| *name == inner.row().name)?;
        Some(Box::new(Light { name, inner }) as Box<dyn Operation>)
    };
    let found: Vec<_> = others.filter_map(light).collect();
    assert_eq!(found.len(), SOME.len(), "an operation has another name now");
    found
}

struct Light {
    name: &'static str,
    inner: Box<dyn Operation>,
}

/// What the victim performs, given to its light thread.
struct Part<'p>(&'p dyn Operation, &'p World<'p>);

// SAFETY: the thread that gives it away waits until the other has done with it, and uses it no more.
unsafe impl Send for Part<'_> {}

impl Part<'_> {
    fn perform(self) {
        self.0.perform(self.1);
    }
}

impl Operation for Light {
    fn row(&self) -> Row {
        // A share has the same protocol by a kernel thread.
        Row { name: self.name, long: true, ..self.inner.row() }
    }
    fn build(&self, w: &mut World) -> Verdict {
        self.inner.build(w)
    }
    fn perform(&self, w: &World) {
        let part = Part(&*self.inner, w);
        chappe::thread::Runtime::new(1).expect("a runtime").run(move || part.perform());
    }
    fn wait(&self, w: &World, which: usize) -> Verdict {
        self.inner.wait(w, which)
    }
    fn meet(&self, w: &World) -> Verdict {
        self.inner.meet(w)
    }
    fn others(&self, w: &mut World) -> Verdict {
        self.inner.others(w)
    }
    fn asleep(&self, w: &mut World) -> Verdict {
        self.inner.asleep(w)
    }
    fn provide(&self, w: &World) {
        self.inner.provide(w);
    }
    fn bereaved(&self, w: &mut World) -> Verdict {
        self.inner.bereaved(w)
    }
    fn check(&self, w: &mut World) -> Verdict {
        self.inner.check(w)
    }
    fn make_up(&self, w: &World) {
        self.inner.make_up(w);
    }
}
