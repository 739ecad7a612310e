//! The reasons for which a newcomer may have to wait for the stopped victim.

/// What the other waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A permit of pool `p`, which the victim has.
    Permit,
    /// Permits of pool `p`, behind the head of its queue, which wants more than there are.
    Head,
    /// A permit of pool `p`, which the keeper has.
    Keeper,
    /// Mutex `m`, which the victim has locked.
    Mutex,
    /// A unit of semaphore `s`, of which there is none left.
    Unit,
    /// Owned semaphore `o`, which the victim holds.
    Owned,
    /// The victim's arrival at barrier `b`, and nothing else.
    Party,
    /// A message of tube `t`, which the victim has, or is to send.
    Message,
    /// The lock under which an arena's objects, and ends of tubes, come and go. It comes free with a death, and is not
    /// taken from the living.
    Arena,
    /// The lock under which a directory's arenas come and go. The same.
    Directory,
}

impl Reason {
    /// For the table.
    pub fn why(self) -> &'static str {
        match self {
            Reason::Permit => "it comes for the permit that the stopped one has",
            Reason::Head => "it comes behind the head of the queue, which is stopped, and wants more than there is",
            Reason::Keeper => "it comes for the permit that a third has",
            Reason::Mutex => "it comes for the mutex that the stopped one has locked",
            Reason::Unit => "it comes for a unit, and the stopped one has taken the last",
            Reason::Owned => "it comes for the owned semaphore that the stopped one holds",
            Reason::Party => "it comes to the barrier, and the stopped one has not arrived",
            Reason::Message => "it comes for the message that the stopped one has, or is to send",
            Reason::Arena => "the stopped one has the arena's lock, under which objects and ends of tubes come and go",
            Reason::Directory => "the stopped one has the directory's lock, under which arenas come and go",
        }
    }
}
