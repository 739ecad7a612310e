//! Sixteen sequences of this program's own, for `rasctl`: figure 1 of netbsd-restartable-sequences, once for each.
//!
//! A body takes the word's address as its second argument: what it answers comes in the register of the first on some machines, and a
//! restarted run must find its arguments where they were.

use chappe::ras::rasctl::{self, RasError};
use std::sync::atomic::AtomicU32;

/// As many as may be installed at a time.
const MOST: usize = rasctl::MOST;

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.chappe_bench_bodies, \"ax\", @progbits",
    ".globl chappe_bench_bodies",
    ".hidden chappe_bench_bodies",
    ".balign 16",
    "chappe_bench_bodies:",
    ".rept {most}",
    "mov eax, dword ptr [rsi]",
    "mov dword ptr [rsi], 1",
    ".endr",
    ".globl chappe_bench_bodies_end",
    ".hidden chappe_bench_bodies_end",
    "chappe_bench_bodies_end:",
    "ret",
    ".popsection",
    most = const MOST,
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.chappe_bench_bodies, \"ax\", %progbits",
    ".globl chappe_bench_bodies",
    ".hidden chappe_bench_bodies",
    ".balign 16",
    "chappe_bench_bodies:",
    ".rept {most}",
    "ldr w0, [x1]",
    "mov w2, #1",
    "str w2, [x1]",
    ".endr",
    ".globl chappe_bench_bodies_end",
    ".hidden chappe_bench_bodies_end",
    "chappe_bench_bodies_end:",
    "ret",
    ".popsection",
    most = const MOST,
);

/// Where the bodies lie, one behind the other, all as long.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn bodies() -> (*const u8, usize) {
    // SAFETY: only where they lie is used.
    unsafe extern "C" {
        static chappe_bench_bodies: u8;
        static chappe_bench_bodies_end: u8;
    }
    let (from, to) = (&raw const chappe_bench_bodies, &raw const chappe_bench_bodies_end);
    (from, (to as usize - from as usize) / MOST)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn bodies() -> (*const u8, usize) {
    (std::ptr::null(), 0)
}

type Body = extern "C" fn(usize, *mut u32) -> u32;

/// Some that are installed, each called in turn. It is for one thread, and for words of one processor.
pub struct Installed {
    entries: Vec<Body>,
    at: usize,
    word: AtomicU32,
}

impl Installed {
    /// Installs so many.
    ///
    /// # Errors
    /// Those of `rasctl`.
    pub fn new(count: usize) -> Result<Installed, RasError> {
        let (from, len) = bodies();
        let install = |n: usize| {
            let addr = from.wrapping_add(n * len);
            // SAFETY: the body is position-independent, and stores once, last.
            let entry = match unsafe { rasctl::install(addr, len) } {
                Err(RasError::Overlap) => rasctl::entry(addr).ok_or(RasError::Overlap)?,
                other => other?,
            };
            // SAFETY: it takes a word's address, second, and answers what it held, where C's functions do.
            Ok(unsafe { std::mem::transmute::<*const (), Body>(entry) })
        };
        let entries = (0..count).map(install).collect::<Result<_, _>>()?;
        Ok(Installed { entries, at: 0, word: AtomicU32::new(0) })
    }

    /// Runs the next of them, if there are any; what the word was.
    pub fn run_next(&mut self) -> u32 {
        self.at = (self.at + 1) % self.entries.len().max(1);
        self.entries.get(self.at).map_or(0, |body| body(0, self.word.as_ptr()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Child;
    use chappe::ras::mechanism::tas::{self, Sequences};

    #[test]
    fn each_of_sixteen_sets_the_word_and_one_more_is_refused() {
        if Sequences::there().is_none() {
            println!("not tested: each_of_sixteen_sets_the_word_and_one_more_is_refused: no sequences");
            return;
        }
        // In a process of its own: what is installed is the whole process's.
        let child = Child::fork(|| {
            let mut installed = Installed::new(MOST).expect("they are installed");
            for _ in 0..MOST {
                installed.word.store(0, std::sync::atomic::Ordering::SeqCst);
                assert_eq!([installed.run_next(), installed.run_next()], [0, 1]);
            }
            assert!(Installed::new(MOST + 1).is_err() && tas::synthesised().is_err());
        });
        assert_eq!(child.end(), 0);
    }
}
