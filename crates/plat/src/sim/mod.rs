//! The explorer in place of Linux.
