//! Why a barrier was not made, opened or removed, or a wait did not end well.

use super::round::Cause;
use crate::error::ObjectError;
use chappe_arena::ArenaError;
use std::io;

/// How a barrier broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broke {
    /// It was aborted.
    #[error("it was aborted")]
    Aborted,
    /// A party waited for too long: see [`Barrier::wait_timeout_or_break`].
    #[error("a party's time was up")]
    TimedOut,
    /// It was reset while this thread waited.
    #[error("it was reset")]
    Reset,
    /// A party died, and the barrier was made to break then.
    #[error("its party with pid {pid} died")]
    Died {
        /// The process, as its own PID namespace numbers it.
        pid: u32,
    },
}

impl Broke {
    fn advice(self) -> String {
        match self {
            Broke::Reset => "was reset while this thread waited: it is whole, so come again".into(),
            how => format!(
                "is broken: {how}; once all have seen that, a reset makes it whole (`chappe barrier reset`, if it has a name)"
            ),
        }
    }

    pub(super) fn of(cause: Cause, pid: u32) -> Broke {
        match cause {
            Cause::Reset => Broke::Reset,
            Cause::Aborted => Broke::Aborted,
            Cause::TimedOut => Broke::TimedOut,
            Cause::Died => Broke::Died { pid },
        }
    }
}

/// Why a barrier was not made, opened or removed, or a wait did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BarrierError {
    /// The name is unknown, or taken; or it is an object of another kind, or in use; or the arena cannot take another member.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// No such barrier is possible.
    #[error("a barrier cannot have {parties} parties: between 1 and {most} are possible")]
    Parties {
        /// What was asked for.
        parties: u64,
        /// The limit.
        most: u32,
    },
    /// It is there, and was made otherwise.
    #[error("barrier `{name}` is there with {has}, not {wanted}; open it as it is, or remove it first")]
    OtherShape {
        /// Which.
        name: String,
        /// What it was made with.
        has: String,
        /// What was asked for.
        wanted: String,
    },
    /// The round has turned, and parties died in it; others may have taken their places. Each of the others is told once.
    #[error("barrier `{barrier}`: the round turned without {died} of its parties, which died, the last with pid {pid}")]
    PartyDied {
        /// Which.
        barrier: String,
        /// The turn: the wait is over.
        turn: Turn,
        /// How many died; 255: so many or more.
        died: u32,
        /// The process of the one that died last, as its own PID namespace numbers it.
        pid: u32,
    },
    /// The barrier is broken, or was while this thread waited.
    #[error("barrier `{barrier}` {}", how.advice())]
    Broken {
        /// Which.
        barrier: String,
        /// How.
        how: Broke,
    },
    /// The time was up; the arrival was taken back.
    #[error("the others did not arrive in time; this arrival was taken back")]
    Timeout,
    /// See [`interruptible`](crate::interruptible); the arrival was taken back.
    #[error("the wait was interrupted; this arrival was taken back")]
    Interrupted,
    /// The thread has arrived, or joined, already, or leaves while its arrival lives; or what became of this arrival was told.
    #[error(
        "this thread has arrived at barrier `{barrier}`, or joined it, or waited for this arrival, already: wait once for each arrival, in turn, and leave after that"
    )]
    Twice {
        /// Which.
        barrier: String,
    },
    /// There is no place: as many as the barrier was made for have joined, and none of them is known to have died in the round under way, or to be dead
    /// without a successor.
    #[error(
        "barrier `{barrier}` has its {parties} parties: this thread is one too many; make it for more, or let one leave"
    )]
    Full {
        /// Which.
        barrier: String,
        /// For how many it was made.
        parties: u32,
    },
    /// The arrival is the parent process's: a forked child arrives itself.
    #[error("this arrival at barrier `{barrier}` is the parent process's: arrive in the child, too")]
    Inherited {
        /// Which.
        barrier: String,
    },
    /// It was removed.
    #[error("barrier `{barrier}` was removed while it was in use; open it again if it was made anew")]
    Dead {
        /// Which.
        barrier: String,
    },
    /// The system refused the thread that watches for deaths, without which no thread should sleep.
    #[error("cannot start the thread that watches for deaths: {0}")]
    System(#[source] io::Error),
}

impl From<ArenaError> for BarrierError {
    fn from(e: ArenaError) -> BarrierError {
        BarrierError::Object(e.into())
    }
}

/// A turn of a barrier, as one of its parties sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Turn {
    /// 0 for exactly one party of the round: usually the one that arrived last. The others have the numbers from 1 on, in the order of arrival, but that a
    /// late number fills the gap of an arrival which was taken back.
    pub index: u32,
    /// Which round has turned, counted from 0.
    pub round: u64,
}
