//! The mechanism of mutual exclusion, chosen once at start-up through function pointers.
//!
//! netbsd-restartable-sequences, section 5: the thread library's test-and-set "invokes the underlying test-and-set mechanism
//! through function pointers. The initialisation function checks for a multiprocessor system with the `hw.ncpu` sysctl variable."
//!
//! | mechanism | what it is | right | chosen by itself |
//! |---|---|---|---|
//! | [`Mechanism::Sequence`] | the paper's test-and-set, restarted by the kernel | on one processor | where the machine can have one only |
//! | [`Mechanism::Biased`] | a lock biased towards a processor, by sequences | everywhere | else, where there are sequences |
//! | [`Mechanism::Interlocked`] | compare-and-swap and futex | everywhere | else |
//! | [`Mechanism::SystemCall`] | two system calls | everywhere | never |
//!
//! `CHAPPE_RAS=sequence`, `biased`, `interlocked` or `system-call` in the environment forces one for the whole program, as does [`force`]
//! before the first use. An unknown name, or a mechanism that is not available, is not replaced by another: it is an error that says why
//! ([`try_chosen`]), and creating a [`Flag`] panics with it.
//!
//! - I1: a flag is used under one table only: it keeps the table's address from its creation on.
//! - I2: `Sequence` is right only where all threads that use a flag run on one processor. It is chosen by itself only where no second
//!   processor can ever be plugged in. If it is forced, the asking thread must be confined to one processor (`taskset -c 0`, or
//!   `sched_setaffinity` before threads are started, which inherit it). The caller must ensure that the thread's siblings are confined,
//!   too, and that none is let go elsewhere later.
//!
//! As the paper says, a call through a pointer is not inlined, and that is part of what the choice costs.

pub(crate) mod biased;
pub(crate) mod interlocked;
mod sequence;
mod system_call;
pub mod tas;

use crate::gate;
use crate::lock::RawLock;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::topology;
use std::fmt;
use std::str::FromStr;
use tas::Sequences;

/// What forces a mechanism.
pub const VARIABLE: &str = "CHAPPE_RAS";

/// By what one excludes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A restartable sequence, on one processor.
    Sequence,
    /// A lock that is biased towards a processor.
    Biased,
    /// Interlocked instructions.
    Interlocked,
    /// System calls.
    SystemCall,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Mechanism; 4] =
        [Mechanism::Sequence, Mechanism::Biased, Mechanism::Interlocked, Mechanism::SystemCall];

    /// As the environment has it.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Sequence => "sequence",
            Mechanism::Biased => "biased",
            Mechanism::Interlocked => "interlocked",
            Mechanism::SystemCall => "system-call",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = MechanismError;

    fn from_str(name: &str) -> Result<Mechanism, MechanismError> {
        let found = Mechanism::ALL.into_iter().find(|m| m.name() == name);
        found.ok_or_else(|| MechanismError::Unknown(name.to_owned()))
    }
}

/// Why there is no mechanism.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MechanismError {
    /// No mechanism has this name.
    #[error("`{0}` is no mechanism: {VARIABLE} is sequence, biased, interlocked or system-call")]
    Unknown(String),
    /// It is not there.
    #[error("the mechanism `{mechanism}` is not there: {why}")]
    Unavailable {
        /// Which.
        mechanism: Mechanism,
        /// Why.
        why: String,
    },
    /// It is another one already.
    #[error("the mechanism is `{0}` already: force one before the first flag is made")]
    Late(Mechanism),
}

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Why it.
    pub why: String,
}

type Choice = Result<Chosen, MechanismError>;

/// Where what was chosen is; 0: nothing yet. No lock, that a child forked meanwhile would find held: the first choice is kept, and stays.
static CHOSEN: AtomicU64 = AtomicU64::new(0);

/// The choice that was kept, or this one if there was none.
fn kept(choose: impl FnOnce() -> Choice) -> &'static Choice {
    // SAFETY: from a box that was never freed.
    let at = |place: u64| unsafe { &*(place as usize as *const Choice) };
    // Acquire: with what it points to.
    let first = CHOSEN.load(Ordering::Acquire);
    if first != 0 {
        return at(first);
    }
    let ours = Box::into_raw(Box::new(choose()));
    // AcqRel: what it points to comes before. Acquire: as above.
    match CHOSEN.compare_exchange(0, ours as usize as u64, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => at(ours as usize as u64),
        Err(theirs) => {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(ours) });
            at(theirs)
        }
    }
}

/// The program's mechanism, which the first call chooses.
///
/// # Panics
/// With [`try_chosen`]'s error.
pub fn chosen() -> Chosen {
    try_chosen().unwrap_or_else(|e| panic!("{e}"))
}

/// As [`chosen`], for a caller that reports what is wrong.
///
/// # Errors
/// The environment names no mechanism, or one that is not there. It stays so.
pub fn try_chosen() -> Result<Chosen, MechanismError> {
    kept(choose).clone()
}

/// Forces a mechanism, whatever the environment says: for tests, before the first use of one.
///
/// # Errors
/// It is not there, or another was chosen already.
pub fn force(mechanism: Mechanism) -> Result<(), MechanismError> {
    is_there(mechanism)?;
    let forced = || Ok(Chosen { mechanism, why: "forced by the program".to_owned() });
    match kept(forced) {
        Ok(chosen) if chosen.mechanism == mechanism => Ok(()),
        Ok(chosen) => Err(MechanismError::Late(chosen.mechanism)),
        Err(e) => Err(e.clone()),
    }
}

fn choose() -> Result<Chosen, MechanismError> {
    if let Some(name) = std::env::var_os(VARIABLE) {
        let mechanism = name.to_string_lossy().parse()?;
        is_there(mechanism)?;
        return Ok(Chosen { mechanism, why: format!("forced by {VARIABLE}={mechanism}") });
    }
    let (mechanism, why) = if !gate::sequences() {
        (Mechanism::Interlocked, "there are no restartable sequences here".to_owned())
    } else if topology::possible() == 1 {
        (Mechanism::Sequence, "this machine can have one processor only".to_owned())
    } else {
        match biased::is_there() {
            Ok(()) => (Mechanism::Biased, format!("this machine can have {} processors", topology::possible())),
            Err(why) => (Mechanism::Interlocked, why.to_owned()),
        }
    };
    Ok(Chosen { mechanism, why })
}

/// Whether a mechanism is there, for the calling thread.
///
/// # Errors
/// [`MechanismError::Unavailable`] says why not.
pub fn is_there(mechanism: Mechanism) -> Result<(), MechanismError> {
    let sequences =
        || gate::sequences().then_some(()).ok_or_else(|| "there are no restartable sequences here".to_owned());
    let there = match mechanism {
        Mechanism::Sequence => sequences().and_then(|()| one_processor()),
        Mechanism::Biased => sequences().and_then(|()| biased::is_there().map_err(str::to_owned)),
        Mechanism::Interlocked => Ok(()),
        Mechanism::SystemCall => {
            system_call::is_there().map_err(|why| format!("the kernel does not take and give up locks: {why:?}"))
        }
    };
    there.map_err(|why| MechanismError::Unavailable { mechanism, why })
}

/// I2.
fn one_processor() -> Result<(), String> {
    if topology::possible() == 1 {
        return Ok(());
    }
    match topology::allowed() {
        Ok(on) if on.len() == 1 => Ok(()),
        Ok(on) => Err(format!(
            "this thread may run on {} processors, and a sequence excludes threads of the same one only: keep the program to one \
             (`taskset -c {} ...`)",
            on.len(),
            on.first().copied().unwrap_or(0)
        )),
        Err(e) => Err(format!("it cannot be seen on which processors this thread may run: {e}")),
    }
}

/// What a flag has, for all mechanisms: each uses what it needs.
struct Words {
    word: AtomicU32,
    waiters: AtomicU32,
    biased: biased::RawCpuLock,
}

/// A mechanism's operations.
struct Table {
    mechanism: Mechanism,
    try_acquire: fn(&Words) -> bool,
    acquire: fn(&Words),
    /// The caller has it.
    release: unsafe fn(&Words),
}

/// Proof for the table of sequences, which is given away only where there are sequences.
fn there() -> Sequences {
    // SAFETY: `is_there` and `choose` have asked the gate before they gave away the table.
    unsafe { Sequences::known() }
}

static SEQUENCE: Table = Table {
    mechanism: Mechanism::Sequence,
    try_acquire: |f| sequence::try_acquire(there(), &f.word),
    acquire: |f| sequence::acquire(there(), &f.word, &f.waiters),
    release: |f| sequence::release(&f.word, &f.waiters),
};

static BIASED: Table = Table {
    mechanism: Mechanism::Biased,
    try_acquire: |f| f.biased.try_lock(),
    acquire: |f| f.biased.lock(),
    // SAFETY: the table's promise.
    release: |f| unsafe { f.biased.unlock() },
};

static INTERLOCKED: Table = Table {
    mechanism: Mechanism::Interlocked,
    try_acquire: |f| interlocked::try_acquire(&f.word),
    acquire: |f| interlocked::acquire(&f.word),
    release: |f| interlocked::release(&f.word),
};

static SYSTEM_CALL: Table = Table {
    mechanism: Mechanism::SystemCall,
    try_acquire: |f| system_call::try_acquire(&f.word),
    acquire: |f| system_call::acquire(&f.word),
    release: |f| system_call::release(&f.word),
};

fn table(mechanism: Mechanism) -> &'static Table {
    match mechanism {
        Mechanism::Sequence => &SEQUENCE,
        Mechanism::Biased => &BIASED,
        Mechanism::Interlocked => &INTERLOCKED,
        Mechanism::SystemCall => &SYSTEM_CALL,
    }
}

/// A test-and-set lock without data, of the threads of one process: the paper's mutual exclusion (section 5).
///
/// [`Flag::acquire`] blocks, in the kernel, while another thread has it; [`Flag::try_acquire`] and [`Flag::release`] do not. Not fair: the
/// first thread that comes takes it. It is neither for signal handlers nor recursive: a thread that acquires it twice waits for ever (or
/// panics, where the mechanism can tell). A thread that ends while it holds it leaves it held; so does a fork, for the child. Never for
/// memory that processes share.
pub struct Flag {
    table: &'static Table,
    words: Words,
}

impl Flag {
    /// A free one, of the program's mechanism.
    ///
    /// # Panics
    /// As [`chosen`].
    pub fn new() -> Flag {
        match kept(choose) {
            Ok(chosen) => Flag::under(chosen.mechanism),
            Err(e) => panic!("{e}"),
        }
    }

    /// A free one of this mechanism: to compare them with each other.
    ///
    /// # Errors
    /// [`MechanismError::Unavailable`].
    pub fn of(mechanism: Mechanism) -> Result<Flag, MechanismError> {
        is_there(mechanism)?;
        Ok(Flag::under(mechanism))
    }

    fn under(mechanism: Mechanism) -> Flag {
        let words = Words {
            word: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            biased: biased::new(mechanism == Mechanism::Biased),
        };
        Flag { table: table(mechanism), words }
    }

    /// Its mechanism.
    pub fn mechanism(&self) -> Mechanism {
        self.table.mechanism
    }

    /// Takes it if it is free.
    #[inline]
    #[must_use]
    pub fn try_acquire(&self) -> bool {
        (self.table.try_acquire)(&self.words)
    }

    /// Takes it, and waits until it is free.
    #[inline]
    pub fn acquire(&self) {
        (self.table.acquire)(&self.words);
    }

    /// Releases it, and wakes a waiter. Never blocks.
    ///
    /// # Safety
    /// The calling thread has acquired it, and has not released it since.
    #[inline]
    pub unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { (self.table.release)(&self.words) };
    }
}

impl Default for Flag {
    fn default() -> Flag {
        Flag::new()
    }
}

impl fmt::Debug for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flag").field("mechanism", &self.mechanism()).finish_non_exhaustive()
    }
}
