//! What a look at an object says of the next look.

/// What a look finds at an arm from which nothing could be taken: see `lull`.
pub(crate) enum Mark {
    /// There is something: by now, or at this very moment.
    Something,
    /// There is nothing. If a later look finds the same number, there was nothing in between either.
    Nothing(u64),
    /// A look says nothing of the next look; but a thread that stands in the queue is told of what comes.
    InQueue,
    /// A look says nothing of the next look.
    Blind,
}
