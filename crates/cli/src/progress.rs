//! How far a command has come with what it reads, on a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar, of so many bytes, or one that shows only that it goes on.
pub fn bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, style) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {bytes_per_sec}, {elapsed}"),
    };
    bar.with_style(ProgressStyle::with_template(style).expect("a template that can be read"))
}
