//! What this process calls itself.

use chappe_plat::{light, process};
use std::sync::Mutex;

/// The label, once it was set.
#[doc(hidden)]
pub static LABEL: Mutex<Option<String>> = Mutex::new(None);

/// What this process calls itself in listings from now on; its first 63 bytes are kept.
pub fn set_label(text: &str) {
    *light::lock(&LABEL) = Some(text.to_owned());
}

/// The label: the one that was set, or the program's name.
#[doc(hidden)]
pub fn label() -> String {
    let set = light::lock(&LABEL).clone();
    set.or_else(|| process::name(process::pid())).unwrap_or_default()
}
