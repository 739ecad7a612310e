//! What a look at an object says of the next look.

/// What a look finds at an arm: see `lull`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// There is something: by now, or at this very moment.
    Something,
    /// There is nothing. If a later look finds the same number, there was nothing in between either.
    Nothing(u64),
}

impl From<bool> for Mark {
    /// A look that says nothing of the next look.
    fn from(is_there: bool) -> Mark {
        if is_there { Mark::Something } else { Mark::Nothing(0) }
    }
}
