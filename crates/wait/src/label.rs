//! What this process calls itself.

use chappe_plat::process;
use std::sync::{Mutex, PoisonError};

/// The label, once it was set.
#[doc(hidden)]
pub static LABEL: Mutex<Option<String>> = Mutex::new(None);

/// What this process calls itself in listings from now on; its first 63 bytes are kept.
pub fn set_label(text: &str) {
    *LABEL.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
}

/// The label: the one that was set, or the program's name.
#[doc(hidden)]
pub fn label() -> String {
    let set = LABEL.lock().unwrap_or_else(PoisonError::into_inner).clone();
    set.or_else(|| process::name(process::pid())).unwrap_or_default()
}
