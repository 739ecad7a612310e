//! What a keeper and its parts call the objects between them.

use std::fmt::Display;

/// The variable that says which part of which graph a process is.
pub const VARIABLE: &str = "CHAPPE_GRAPH_PART";
/// Bytes of what a part tells at a time.
pub const TOLD: usize = 4_096;

/// An object of a graph's arena.
pub fn object(arena: &str, what: &str, number: impl Display) -> String {
    format!("{arena}/{what}-{number}")
}

/// The tube by which a part tells how it ended.
pub fn told_of(arena: &str, number: impl Display) -> String {
    object(arena, "told", number)
}
