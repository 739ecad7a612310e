//! Feedback, as chapter 6 of the Synthesis thesis has it: loops that measure what happens and adjust what is given.
//!
//! | | |
//! |---|---|
//! | [`filter`] | low-pass, integrator, derivative (figures 6.4 to 6.6), sums and chains of them |
//! | [`locked`] | [`Fll`](locked::Fll) and [`Ill`](locked::Ill): a rate that follows a reference N times as fast (6.2) |
//! | [`Locked`] | ticks that keep the time of a reference which tells how far it is: a device, the system's clock (6.4.1) |
//! | [`Far`] | the same of another machine's clock, over a network that adds what it likes (6.4.3) |
//! | [`Dll`] | when a device's periods begin, without the jitter of the thread that reports them (Adriaensen) |
//! | [`Ticks`](locked::Ticks) | intervals of whole ticks that keep time in the long run (6.4.1) |
//! | [`Share`] | how much of a processor a stage of a pipeline needs: what steers `chappe pipe` (6.3.1) |
//! | [`Estimate`] | whether a job will be done in time, and when one can tell (6.4.2) |
//! | [`Jobs`] | which of several jobs is ended early, when not all can be done in time (6.4.2) |
//! | [`stability`] | where the loop of [`Share`] is stable: its poles over gain, delay and period |
//! | [`model`] | pipelines in simulation |
//!
//! Nothing here blocks, makes a system call or looks at a clock: each call is told what was seen and answers what to do. A
//! loop that is dropped, or whose process dies, leaves nothing behind; whatever it steered keeps its last setting.
//!
//! ```
//! use chappe_feedback::{Law, Seen, Share};
//!
//! // A stage that takes 15 % of a processor, looked at every 4 ms; its input is nearly empty.
//! let mut share = Share::new(Law::default());
//! let mut written = share.now();
//! for _ in 0..250 {
//!     if let Some(bandwidth) = share.next(Seen { used: 0.15, fill_in: 0.05, ..Seen::default() }) {
//!         written = bandwidth; // here a scheduler is told
//!     }
//! }
//! assert!(written > 0.15 && written < 0.15 * 1.3);
//! ```

mod clock;
mod dll;
mod estimate;
mod far;
pub mod filter;
pub mod jobs;
pub mod locked;
pub mod model;
mod room;
mod share;
pub mod stability;

pub use clock::Locked;
pub use dll::Dll;
pub use estimate::Estimate;
pub use far::{Exchange, Far};
pub use jobs::Jobs;
pub use room::Room;
pub use share::{Law, Seen, Share};
