//! What terminal is to be made.

use std::ffi::OsString;

/// What terminal is to be made.
pub struct Wanted<'a> {
    /// The terminal's name.
    pub name: &'a str,
    /// Its size, if one is asked for.
    pub size: Option<(u16, u16)>,
    /// How many bytes of history it has.
    pub history: u64,
    /// The command.
    pub command: &'a [OsString],
    /// What it is called in listings.
    pub label: String,
    /// Where it runs; None: as this process does.
    pub within: Option<&'a Within>,
    /// What is kept beside it.
    pub note: &'a [u8],
    /// Whether no other user may look at it.
    pub private: bool,
    /// Whether SIGXFSZ is to have its default action in it.
    pub file_size: bool,
}

/// Where a command runs.
pub struct Within {
    /// Its directory.
    pub directory: OsString,
    /// All of its environment.
    pub environment: Vec<(OsString, OsString)>,
}
