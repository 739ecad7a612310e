//! What `chappe run` asks of this library beside the semaphores: its options, by the program's environment.

use std::sync::atomic::{AtomicU8, Ordering};

/// An option: on if its variable is 1 when it is first asked for.
pub struct Asked {
    variable: &'static str,
    /// 0: not looked yet; 1: no; 2: yes.
    // Ordering: Relaxed: each thread that looks finds the same.
    seen: AtomicU8,
}

/// `--owned`: semaphores that start at 1 are locks (`ends`).
pub static OWNED: Asked = Asked::by("CHAPPE_RUN_OWNED");
/// `--barging`: a thread that runs may overtake waiters (`place`).
pub static BARGING: Asked = Asked::by("CHAPPE_RUN_BARGING");

impl Asked {
    const fn by(variable: &'static str) -> Asked {
        Asked { variable, seen: AtomicU8::new(0) }
    }

    /// Whether it is on. The library looks when it is loaded, before the program can change its environment.
    pub fn is_on(&self) -> bool {
        match self.seen.load(Ordering::Relaxed) {
            0 => {
                let on = std::env::var_os(self.variable).is_some_and(|v| v == "1");
                self.seen.store(1 + u8::from(on), Ordering::Relaxed);
                on
            }
            known => known == 2,
        }
    }
}
