//! Whether an object is opened, made, or either.

/// How an object is to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Had {
    /// It is there.
    Opened,
    /// It is made.
    Created,
    /// Either.
    Either,
}

impl Had {
    /// The same for the crate's own interface.
    pub fn raw(self) -> chappe::raw::Had {
        match self {
            Had::Opened => chappe::raw::Had::Opened,
            Had::Created => chappe::raw::Had::Created,
            Had::Either => chappe::raw::Had::Either,
        }
    }

    /// From `create=`: `True`, `False`, or `None` for either.
    pub fn of(create: Option<bool>) -> Had {
        match create {
            None => Had::Either,
            Some(true) => Had::Created,
            Some(false) => Had::Opened,
        }
    }
}
