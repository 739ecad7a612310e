//! What other processes may do here: call what the program offers them, and let go on what they have suspended.

use crate::record::Handler;
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_plat::light;
use std::sync::{Arc, Mutex};

/// Another process has suspended a thread, and may resume it.
pub(crate) static SUSPENDED: AtomicU32 = AtomicU32::new(0);

/// Whether another process may let a thread go on, or begin one: it has suspended one, or the program has offered it something to call.
pub(crate) fn may_act() -> bool {
    SUSPENDED.load(Ordering::SeqCst) != 0 || offers() // SeqCst: before the thread is.
}

/// Procedures that others may name: see `offer`.
static OFFERS: Mutex<Vec<(String, Handler)>> = Mutex::new(Vec::new());

/// Says under which name `chappe threads PID --create NAME` begins this as a light thread, and `--interrupt N=NAME` has thread N run it. The same
/// name again replaces it.
pub fn offer(name: impl Into<String>, procedure: impl Fn() + Send + Sync + 'static) {
    let (name, procedure): (String, Handler) = (name.into(), Arc::new(procedure));
    let mut all = light::lock(&OFFERS);
    all.retain(|(n, _)| *n != name);
    all.push((name, procedure));
}

/// Whether anything was offered.
fn offers() -> bool {
    !light::lock(&OFFERS).is_empty()
}

/// What was offered under that name.
pub(crate) fn offered(name: &str) -> Option<Handler> {
    let all = light::lock(&OFFERS);
    all.iter().find(|(n, _)| n == name).map(|(_, procedure)| Arc::clone(procedure))
}
