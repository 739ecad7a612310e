//! The same operations by a light thread: it waits in an attachment that its proc has lent it, and what is granted rings the proc's doorbell. The
//! victim is the proc's kernel thread, with all that it does between the operation's steps: it takes threads from its queue, looks round, and sleeps.

use super::world::World;
use super::{Deed, Operation, permits, semaphores, tubes};

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

/// All of them.
pub fn all() -> Vec<Operation> {
    let light = |inner: Operation| {
        let (_, name) = SOME.into_iter().find(|(name, _)| *name == inner.name)?;
        // A share has the same protocol by a kernel thread.
        let long = Operation { name, ..inner }.long(true);
        let perform = long.perform;
        Some(Operation { perform: Box::new(move |w| run(&perform, w)), ..long })
    };
    let others = [permits::all(), semaphores::all(), tubes::all()];
    let found: Vec<_> = others.into_iter().flatten().filter_map(light).collect();
    assert_eq!(found.len(), SOME.len(), "an operation has another name now");
    found
}

/// What the victim performs, given to its light thread.
struct Part<'p>(&'p Deed, &'p World<'p>);

// SAFETY: the thread that gives it away waits until the other has done with it, and uses it no more.
unsafe impl Send for Part<'_> {}

impl Part<'_> {
    fn perform(self) {
        self.0(self.1);
    }
}

fn run(perform: &Deed, w: &World) {
    let part = Part(perform, w);
    chappe::thread::Runtime::new(1).expect("a runtime").run(move || part.perform());
}
