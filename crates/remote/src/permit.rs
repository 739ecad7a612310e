//! What a program holds on an engine, and how it knows whether it holds it still.

use crate::acquire::Grant;
use crate::engine::Keys;
use crate::error::RemoteError;
use crate::grant::End;
use crate::leased::Leased;
use crate::pulse::{Hold, Loss};
use crate::session::{Back, Session, Won, is_waited_for};
use crate::view::Seen;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A fencing token: larger with each grant of a permit. What a holder writes to is given it, and refuses one that is smaller than the largest it has
/// seen: so a holder that was stopped, and is not one any more, changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "what is written under a permit takes the token with it, or a holder that was stopped overwrites what the next one wrote"]
pub struct Token(pub(crate) u64);

impl Token {
    /// As a number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A permit of a remote pool, or several of one pool: held until this is dropped, or lost.
///
/// **It can be lost while it is here**: when this process is stopped or cut off from the engine for longer than the lease's time to live, when the
/// engine ends the lease, and when somebody takes the permit away (`chappe release --force`). Then another may hold it, and no library can stop
/// this thread. So ask [`check`](Permit::check) before each step that needs the permit, and hand on the token that it answers. To be told in time,
/// wait for [`lost`](Permit::lost) beside what else is waited for: `select! { readable(permit) -> _ => ..., recv(jobs) -> job => ... }`.
///
/// Dropping it gives it back, to the head of the queue if somebody waits: one round trip to the engine, for which the dropping thread waits. If
/// the engine does not answer for a second, another thread goes on with that.
///
/// It may go to another thread. In a forked child it is void: `check` says so, and dropping it does nothing. When its process ends without dropping it,
/// it comes back with the lease.
#[must_use = "a permit that is dropped at once is given back at once"]
pub struct Permit {
    session: Arc<Session>,
    leased: Arc<Leased>,
    hold: Arc<Hold>,
    pool: String,
    grant: Grant,
    end: End,
    /// What its program may try for when it has been given back.
    seen: Option<Seen>,
    /// It had a place in line.
    waited: bool,
    since: Instant,
    /// There is nothing to give back any more.
    void: bool,
}

impl Permit {
    /// What was won.
    ///
    /// # Errors
    /// `System`: then it is given back.
    pub(crate) fn new(session: &Arc<Session>, won: Won, pool: String) -> Result<Permit, RemoteError> {
        let Won { grant, object, seen, waited, leased } = won;
        let space = &session.site.space;
        let keys = grant.indices.iter().map(|index| Keys::One(space.held(&pool, *index))).collect();
        let hold = match leased.pulse.holds(keys, grant.token) {
            Ok(hold) => hold,
            Err(source) => {
                // Nobody has seen it: a mutex is as its last holder left it.
                let _ = session.give_back(&leased, Back::unused(&pool, &grant, End::of(object, !grant.owner_died)));
                return Err(RemoteError::System { held: session.site.name(&pool), source });
            }
        };
        session.link()?.0.attend(Arc::downgrade(&hold));
        let (session, end, since) = (Arc::clone(session), End::of(object, false), Instant::now());
        Ok(Permit { session, leased, hold, pool, grant, end, seen, waited, since, void: false })
    }

    /// Whether it is certainly still held: the token to hand on. No I/O, and no other thread is waited for: it compares this machine's clock with
    /// until when the last renewal that was answered makes the lease certain, whatever the engine does.
    ///
    /// The clock goes on while the machine sleeps. The check promises nothing for the time after it: what is to be safe against a stop between the check and
    /// the write compares the token.
    ///
    /// # Errors
    /// Why it is lost. Once it is, it stays so.
    pub fn check(&self) -> Result<Token, Loss> {
        self.hold.loss().map_or(Ok(Token(self.grant.token)), Err)
    }

    /// A descriptor that can be read from when it is lost on: an arm of a `select!`, or of poll(2), beside others. Poll it, and do not read from it. Not for
    /// a forked child, where it says what the parent's says.
    pub fn lost(&self) -> BorrowedFd<'_> {
        self.hold.as_fd()
    }

    /// How long it is certain if no renewal is answered from now on, and nobody takes it away.
    pub fn left(&self) -> Duration {
        self.hold.left()
    }

    /// Its pool.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// Which permits of the pool these are, in ascending order.
    pub fn indices(&self) -> &[u32] {
        &self.grant.indices
    }

    pub(crate) fn owner_died(&self) -> bool {
        self.grant.owner_died
    }

    pub(crate) fn ends_as(&mut self, end: End) {
        self.end = end;
    }

    /// Gives it back, and says whether it was held until now. Where an answer was lost on the way and the key is not there any more, it is taken for given
    /// back by this.
    ///
    /// # Errors
    /// `Lost`: it was not; what was done since it was lost was done without it. `Silent`: the engine does not answer; it comes back as soon as it
    /// does, or with the lease. `Refused`.
    pub fn release(mut self) -> Result<(), RemoteError> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<(), RemoteError> {
        if std::mem::replace(&mut self.void, true) {
            return Ok(());
        }
        let lost = |why| RemoteError::Lost { held: format!("`{}`", self.session.site.name(&self.pool)), why };
        if let Err(why) = self.check() {
            // The others of several are there still, and so may all be if the lease goes on: the token tells. Its holder was told that it is lost, and
            // may not have finished.
            if why != Loss::Inherited && !self.leased.pulse.is_over() {
                let _ = self.session.give_back(&self.leased, Back::unused(&self.pool, &self.grant, End::Left));
            }
            return Err(lost(why));
        }
        let (seen, waited_for) = (self.seen.take(), is_waited_for(self.waited, self.since));
        let back = Back { pool: &self.pool, grant: &self.grant, end: self.end, seen, waited_for };
        match self.session.give_back(&self.leased, back)? {
            false => Ok(()),
            true => Err(lost(self.check().err().unwrap_or(Loss::TakenAway))),
        }
    }
}

impl AsFd for Permit {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lost()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.leased.is_own() {
            // A caller that wants to know calls `release`.
            let _ = self.give_back();
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({:?}, {:?}, token {})", self.pool, self.grant.indices, self.grant.token)
    }
}
