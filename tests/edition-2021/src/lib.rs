//! What a program of the edition before may write: suites of `tests/channels`, in that edition.
