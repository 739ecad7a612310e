//! What can go wrong between a program and an engine: each message says what, with which object, and what to do.

use crate::keys::{FORMAT, Object};
use crate::pulse::Loss;
use std::io;
use std::time::Duration;

/// Why an operation on an engine came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// A name, a URL, a file of remotes.toml or a wish that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// No endpoint answers.
    #[error("no endpoint of {url} answers: {}", reasons.join("; "))]
    Unreachable {
        /// The engine.
        url: String,
        /// Each endpoint's reason.
        reasons: Vec<String>,
    },
    /// The engine is of a version that ends living leases.
    #[error("{0}")]
    OldEngine(String),
    /// There is no such object.
    #[error("there is no {kind} `{name}` on {url}: `chappe {} {name}` makes it", made_by(kind))]
    Unknown {
        /// What was looked for.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The engine.
        url: String,
    },
    /// Another kind of object has the name.
    #[error("`{name}` is a {}, and no {wanted}: all objects of a namespace share one set of names", is.kind())]
    Other {
        /// The name.
        name: String,
        /// What is there.
        is: Object,
        /// What was wanted.
        wanted: &'static str,
    },
    /// It is there already.
    #[error("{} `{name}` is there already", is.kind())]
    Exists {
        /// The name.
        name: String,
        /// What is there.
        is: Object,
    },
    /// It was removed while it was waited for.
    #[error("{kind} `{name}` was removed while it was waited for")]
    Removed {
        /// What it was.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The tube is sealed: nothing more can be sent. What was to be sent was not.
    #[error("tube `{name}` is sealed: nothing more can be sent")]
    Sealed {
        /// The tube.
        name: String,
    },
    /// A sender has died, or lost its lease, before it was done: what came may be a part.
    #[error("a sender of `{name}` died before it was done: what came may be a part")]
    SenderDied {
        /// The tube.
        name: String,
    },
    /// What stands in a page is no record. The rest of the page is passed over.
    #[error("page {page} of `{name}` cannot be read; its rest is passed over")]
    Unreadable {
        /// The tube.
        name: String,
        /// Which page.
        page: u64,
    },
    /// Somebody holds or waits for what was to be removed.
    #[error(
        "{kind} `{name}` is in use: {held} {}, {waiting} waiting; wait for them, or remove it by force",
        parts(kind)
    )]
    InUse {
        /// What it is.
        kind: &'static str,
        /// Its name.
        name: String,
        /// How many permits are held, or how many ends and pages of a tube are there.
        held: usize,
        /// How many wait.
        waiting: usize,
    },
    /// More permits at once than the pool has.
    #[error("pool `{name}` has {permits} permit(s): it never has {wanted} at once; ask for fewer, or resize it")]
    TooMany {
        /// The pool.
        name: String,
        /// What was asked for.
        wanted: u32,
        /// What it has.
        permits: u32,
    },
    /// A semaphore would have more units than it can.
    #[error("semaphore `{name}` has {value}, and {more} more would be too many: {} are possible", crate::add::MOST)]
    Overflow {
        /// The semaphore.
        name: String,
        /// What it has.
        value: u32,
        /// What was to be added.
        more: u32,
    },
    /// It could not be had without waiting.
    #[error("nothing of {wanted} is free")]
    WouldBlock {
        /// What was wanted.
        wanted: String,
    },
    /// The time was up. Nothing was taken.
    #[error("timed out after {after:?} waiting for {wanted}")]
    Timeout {
        /// What was wanted.
        wanted: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// Somebody wanted the wait to end. Nothing was taken.
    #[error("interrupted while waiting for {wanted}")]
    Interrupted {
        /// What was wanted.
        wanted: String,
    },
    /// The engine did not answer in time. What it may have granted is given back as soon as it answers, or goes with the lease.
    #[error("{wanted}: the engine does not answer: {why}")]
    Silent {
        /// What was wanted.
        wanted: String,
        /// What was seen of it.
        why: String,
    },
    /// It is not known whether it was done: an answer was lost. Look at the object before it is done again.
    #[error("it is not known whether {what}: {why}; look before it is done again")]
    Unsure {
        /// What may have been done.
        what: String,
        /// Why that is not known.
        why: String,
    },
    /// It is held no longer.
    #[error("{held} is lost: {why}")]
    Lost {
        /// What was held.
        held: String,
        /// Why.
        why: Loss,
    },
    /// What a newer version wrote stands there.
    #[error("what is on {url} has format {format}, and this chappe knows {FORMAT}: it is older than what wrote there")]
    Newer {
        /// The engine.
        url: String,
        /// The format.
        format: u32,
    },
    /// The engine refuses, and has done nothing.
    #[error("the engine refuses: {0}")]
    Refused(String),
    /// So much of the engine's room is used that nothing more is sent: locks need some.
    #[error("the engine is nearly full, {0}: nothing more is sent, so that locks go on; {advice}", advice = crate::room::ADVICE)]
    NearlyFull(String),
    /// The connection is that of the process from which this one was forked.
    #[error("the connection to {url} is of the process that this one was forked from: open it anew")]
    Inherited {
        /// The engine.
        url: String,
    },
    /// A choice among objects that are not on one connection.
    #[error("{first} and {second} are on two connections: one choice has its pools on one")]
    TwoEngines {
        /// One.
        first: String,
        /// Another.
        second: String,
    },
    /// The system refused a descriptor or a thread.
    #[error("cannot hold {held}: {}", inside(source))]
    System {
        /// What was granted, and given back.
        held: String,
        /// What the system said.
        source: io::Error,
    },
}

fn parts(kind: &str) -> &'static str {
    if kind == "tube" { "ends and pages" } else { "held" }
}

fn made_by(kind: &str) -> &'static str {
    match kind {
        "semaphore" => "sem create",
        "tube" => "tube create",
        "mutex" => "pool create --mutex",
        _ => "pool create",
    }
}

/// The source's own words stand in the message.
fn inside(source: &io::Error) -> String {
    source.to_string()
}
