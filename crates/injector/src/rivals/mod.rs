//! One storm for chappe and its rivals: processes that use an object are killed at random moments, and a **witness**, a
//! process that has just been started, must then be able to use it.
//!
//! | storm | what the processes do | which are killed, and where |
//! |---|---|---|
//! | `churned` | create or open it by its name, use it, drop everything, and now and then remove it, again and again | any, anywhere |
//! | `kept` | the same, while one that is never killed keeps it | any, anywhere |
//! | `steady` | send, to one that is never killed and keeps it | senders that have been attached, in mid-stream |
//!
//! Python's objects have no names: they are made before the processes are forked, and so `kept`.
//!
//! The witness is asked after each burst of one to three kills. It has [`Churn::limit`]; whenever it is refused it tries again, in another
//! process. What it does counts as done when it has sent and received, or locked and unlocked. If it has not come so far, or one of the
//! others has made no progress for as long, the object is **wedged**, and the round is over: all are told to end, those that do not are
//! killed, and once none is there another witness says whether it stays so. Where a library has a last resort for that, it is tried then.
//!
//! Each library uses what it offers for recovery. chappe needs no call. iceoryx2's own configuration recovers dead nodes whenever a node is
//! made, a service is opened, or a node goes; besides, every process calls for it before opening. Python's `multiprocessing` offers none
//! for locks and queues; its manual says so.
//!
//! Whether what is received is right is asked only of single messages: the soaks ([`crate::soak`]) ask much more.
//! A [`control`](chappe::Control), a lock that a death does not give back, must be found wedged: else the storm is none.

pub mod chappe;
#[cfg(feature = "iceoryx2")]
pub mod iceoryx2;
pub mod python;
pub mod report;
pub mod storm;
pub mod subject;

use std::path::Path;

use subject::Subject;
pub use subject::{Churn, Round, Storm};

/// Has the storm blow over all objects of a library (or over all of all), and says what came of it. Whether something was
/// found in chappe, or nothing in the control: what is found in others is only told.
///
/// # Errors
/// What keeps a storm from blowing.
pub fn churn(who: &str, plan: Churn, home: &Path, say: fn(&str)) -> Result<bool, String> {
    let (control, all) = (who == "control", who == "all");
    let mut found = false;
    say(&report::head());
    let blow = |subject: &dyn Subject| -> Result<Vec<Round>, String> {
        let rounds = storm::rounds(subject, plan, home)?;
        say(&report::row(subject.name(), subject.storm(), &rounds));
        Ok(rounds)
    };
    if control {
        let rounds = blow(&chappe::Control)?;
        found = rounds.iter().any(|r| r.wedge.is_none());
    }
    if all || who == "chappe" {
        for subject in chappe::all() {
            found |= !report::is_clean(&blow(&*subject)?);
        }
    }
    if all || who == "iceoryx2" {
        #[cfg(feature = "iceoryx2")]
        for subject in iceoryx2::all() {
            blow(&*subject)?;
        }
        #[cfg(not(feature = "iceoryx2"))]
        say("not tested: iceoryx2: this was built without the feature `iceoryx2`; `cargo xtask churn iceoryx2` has it");
    }
    if all || who == "python" {
        match python::version() {
            Some(_) => {
                for (name, storm, object) in python::OBJECTS {
                    let rounds = python::rounds(object, plan)?;
                    say(&report::row(name, storm, &rounds));
                }
            }
            None => say("not tested: python: there is no python3 here that runs"),
        }
    }
    say(&format!("seed {}", plan.seed));
    Ok(found)
}
