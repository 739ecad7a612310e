//! What an attempt at a test-and-set came to.

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was clear.
    Clear,
    /// It was set.
    Set,
    /// Nothing was done.
    Again,
}
