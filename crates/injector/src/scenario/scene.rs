//! Which other processes there are beside the victim.

/// The surroundings of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// Nobody else.
    Alone,
    /// Two processes wait in the queue.
    Waiters,
    /// Another process comes while the victim is stopped at its point.
    Met,
    /// The victim is stopped at its point, and others must get on.
    Stopped,
    /// The same, and a process waits ahead of the victim, or for what it has.
    StoppedWaiter,
}

impl Scene {
    /// How many helpers it has.
    pub fn helpers(self) -> usize {
        match self {
            Scene::Alone | Scene::Stopped => 0,
            Scene::Met | Scene::StoppedWaiter => 1,
            Scene::Waiters => 2,
        }
    }

    /// Whether helpers wait from the start.
    pub fn waits(self) -> bool {
        matches!(self, Scene::Waiters | Scene::StoppedWaiter)
    }
}
