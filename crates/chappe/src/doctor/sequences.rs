//! Whether restartable sequences are used in this process, and why not; and the mechanism of mutual exclusion.

use chappe_plat::rseq::{self, Area};
use chappe_ras::gate::{self, Verdict};
use chappe_ras::mechanism::{self, Chosen, MechanismError};

/// What there is for restartable sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sequences {
    /// What the self-test says. Without sequences locked instructions do their work.
    pub verdict: Verdict,
    /// The area that the kernel writes to: `library`, the C library's, or `own`. None: there is none, or it was not looked at.
    pub area: Option<&'static str>,
    /// Whether there is a fence that aborts sequences (membarrier), and this thread may use it.
    pub fence: bool,
    /// Whether the kernel numbers the threads that run (concurrency ids).
    pub concurrency_ids: bool,
    /// Whether locks may be biased, as far as the environment says.
    pub biases: bool,
    /// The mechanism of [`mechanism::Flag`], and why it; or what is wrong with the one that `CHAPPE_RAS` names.
    pub mechanism: Result<Chosen, MechanismError>,
}

/// Looks at what there is for restartable sequences: the first time in a process takes a millisecond, or up to five seconds where many
/// want the processor. Never fails.
pub fn sequences() -> Sequences {
    let (verdict, biases) = (gate::verdict(), gate::biases());
    let mechanism = mechanism::try_chosen();
    let nothing = Sequences { verdict, area: None, fence: false, concurrency_ids: false, biases, mechanism };
    if matches!(verdict, Verdict::SwitchedOff | Verdict::Architecture) {
        return nothing;
    }
    let area = match rseq::prepare() {
        Area::Library => "library",
        Area::Own => "own",
        _ => return nothing,
    };
    Sequences { area: Some(area), fence: rseq::fence(None), concurrency_ids: rseq::has_concurrency_ids(), ..nothing }
}
