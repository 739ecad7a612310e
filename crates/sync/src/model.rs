//! Placeholder while the explorer is built.
