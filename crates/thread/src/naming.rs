//! What a light thread says of itself after it has begun, and what others see of it.

use crate::record::current;
use crate::thread::Thread;
use chappe_plat::atomic::Ordering;

/// Gives the calling light thread another name, for listings and reports; a kernel thread keeps its own.
///
/// ```
/// let worker = chappe_thread::spawn(|| {
///     chappe_thread::set_name("parser");
///     chappe_thread::name()
/// });
/// assert_eq!(worker.join().unwrap().as_deref(), Some("parser"));
/// ```
pub fn set_name(name: impl Into<String>) {
    let Some(me) = current() else { return };
    let (name, extra) = (name.into(), me.extra());
    // A reader in another process finds no name meanwhile, or the new one: the length is 0 until the address is set.
    extra.name_len = 0;
    extra.name_at = name.as_ptr() as usize;
    extra.name_len = name.len();
    extra.name = Some(name);
}

impl Thread {
    /// Whether its proc is with it just now: it computes, or is in a call that blocks the proc. A look: it may be otherwise at once.
    pub fn is_running(&self) -> bool {
        // Relaxed: a look.
        self.record.proc().running.load(Ordering::Relaxed) == std::ptr::from_ref(self.record) as u64
    }
}
