//! What the gate has found, and the word that says so.

use std::fmt;

/// Whether there are sequences, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Every preemption and every fence of the self-test aborted the section that was under way.
    Proven {
        /// How many it saw.
        aborts: u32,
    },
    /// The kernel registers no area for this library: its error number. It has no rseq, or a filter refuses it, or this is an emulator, or
    /// another library has registered an area of its own.
    NoArea(i32),
    /// There is an area, but no fence that aborts sequences, or this process may not use it: the kernel's error number.
    NoFence(i32),
    /// Within its time the self-test saw too few preemptions or fences, and none that went wrong; or it had no threads.
    Unproven,
    /// The kernel let a section go on after another thread had run on its processor, or after a fence.
    Broken,
    /// The environment says so: `CHAPPE_SEQUENCES=off`.
    SwitchedOff,
    /// There are no sequences for this processor architecture.
    Architecture,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = |e: &i32| std::io::Error::from_raw_os_error(*e);
        match self {
            Verdict::Proven { aborts } => write!(f, "the self-test saw {aborts} sections aborted, and none go on"),
            Verdict::NoArea(e) => write!(f, "the kernel registers no area for us ({})", why(e)),
            Verdict::NoFence(e) => write!(f, "the kernel has no fence that aborts sequences ({})", why(e)),
            Verdict::Unproven => write!(f, "the self-test saw too few preemptions to tell"),
            Verdict::Broken => write!(f, "the self-test saw a section go on that should have been aborted"),
            Verdict::SwitchedOff => write!(f, "CHAPPE_SEQUENCES=off in the environment"),
            Verdict::Architecture => write!(f, "there are none for this processor architecture"),
        }
    }
}

pub const UNDECIDED: u64 = 0;
pub const DECIDING: u64 = 1;
pub const PROVEN: u64 = 2;
pub const NO_AREA: u64 = 3;
pub const NO_FENCE: u64 = 4;
pub const UNPROVEN: u64 = 5;
pub const BROKEN: u64 = 6;
pub const SWITCHED_OFF: u64 = 7;
pub const ARCHITECTURE: u64 = 8;
pub const KIND: u64 = 0xff;

impl Verdict {
    /// Whether there are sequences.
    pub fn is_proven(self) -> bool {
        matches!(self, Verdict::Proven { .. })
    }

    /// Its name, for programs.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Proven { .. } => "proven",
            Verdict::NoArea(_) => "no-area",
            Verdict::NoFence(_) => "no-fence",
            Verdict::Unproven => "unproven",
            Verdict::Broken => "broken",
            Verdict::SwitchedOff => "switched-off",
            Verdict::Architecture => "architecture",
        }
    }

    pub(super) fn word(self) -> u64 {
        let with = |kind, n: u32| kind | u64::from(n.min(0xff_ffff)) << 8;
        match self {
            Verdict::Proven { aborts } => with(PROVEN, aborts),
            Verdict::NoArea(e) => with(NO_AREA, e.unsigned_abs()),
            Verdict::NoFence(e) => with(NO_FENCE, e.unsigned_abs()),
            Verdict::Unproven => UNPROVEN,
            Verdict::Broken => BROKEN,
            Verdict::SwitchedOff => SWITCHED_OFF,
            Verdict::Architecture => ARCHITECTURE,
        }
    }

    pub(super) fn of(word: u64) -> Option<Verdict> {
        let n = (word >> 8) as u32 & 0xff_ffff;
        Some(match word & KIND {
            PROVEN => Verdict::Proven { aborts: n },
            NO_AREA => Verdict::NoArea(n as i32),
            NO_FENCE => Verdict::NoFence(n as i32),
            UNPROVEN => Verdict::Unproven,
            BROKEN => Verdict::Broken,
            SWITCHED_OFF => Verdict::SwitchedOff,
            ARCHITECTURE => Verdict::Architecture,
            _ => return None,
        })
    }
}
