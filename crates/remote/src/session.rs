//! A program's session with an engine: one lease for all that it holds, and what is done where an answer was lost.
//!
//! | | the program's permits |
//! |---|---|
//! | the process ends, or is killed | go with the lease: to those that wait, when its time to live is over |
//! | it is stopped, or cut off, for longer than that | the same; it finds out by [`Permit::check`](crate::Permit::check) |
//! | it forks | are the parent's; all in the child says `Inherited`, and does nothing |
//! | the last handle and permit are dropped | there are none, and the lease is ended |
//!
//! A lease that is over is left alone: the next operation makes another. What still waits begins anew, at the end of the queue.
//!
//! **Loose ends.** An attempt that is given up, or a permit that is given back, while the engine does not answer may have been granted, or be held
//! still, and the lease goes on. So a thread of the lease asks until that is known, or the lease is over: nothing stays taken that nobody has. So it is
//! where the engine refuses, which is asked again from time to time, as long as the program has something of that lease. See [`leased`](crate::leased).

use crate::acquire::{Acquire, Grant, Outcome, Step, Want};
use crate::connection::{Link, News};
use crate::drive::{self, Circumstances, DriveError};
use crate::engine::{Engine, EngineError, Keys, Op, Txn};
use crate::error::RemoteError;
use crate::grant::{self, Attempt, End, Own};
use crate::here;
use crate::keys::{Object, Who};
use crate::leased::{Leased, Leases, Tied};
use crate::pulse::{Loss, now};
use crate::release::Release;
use crate::site::Site;
use crate::tube_end::TubeEnd;
use crate::view::Seen;
use chappe_plat::process;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an operation may take to find the engine, where it is to wait for nothing else.
const CONTACT: Duration = Duration::from_secs(5);
/// How often a wait looks whether it was interrupted, where that can be.
const LOOK: Duration = Duration::from_millis(100);
/// How long the one that gives something back waits for the engine itself.
const PARTING: Duration = Duration::from_secs(1);

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Take what can be had at once.
    Now,
    /// So long.
    For(Duration),
    /// As long as it takes.
    Forever,
}

/// Why an end of a tube did not get to where its user is wanted.
pub enum Stop {
    /// The time was up.
    Time,
    /// Somebody wanted it to end.
    Interrupted,
    /// The engine did not answer in time.
    Silent(String),
    /// The lease is over, or another process's.
    Over,
}

/// How far an end of a tube is that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It has gone.
    Gone,
    /// It goes on.
    Goes,
    /// The engine refused, and is to be asked again.
    Refused,
}

/// What ends a wait from outside, if anything can.
pub type Interrupt<'a> = Option<&'a dyn Fn() -> bool>;

/// The session.
pub struct Session {
    link: ManuallyDrop<Link>,
    process: u64,
    /// Where its objects are.
    pub site: Site,
    who: Who,
    leases: Leases,
    /// What it gave back last of each pool, if nobody waited.
    seen: Mutex<BTreeMap<String, Seen>>,
}

/// How many pools are remembered: a program that uses more looks again.
const MOST_SEEN: usize = 1024;

impl Drop for Session {
    fn drop(&mut self) {
        if self.process == process::incarnation() {
            // SAFETY: not used after this.
            unsafe { ManuallyDrop::drop(&mut self.link) };
        }
    }
}

/// What was waited for.
pub struct Won {
    /// What was granted.
    pub grant: Grant,
    /// What it is of.
    pub object: Object,
    /// What may be tried for when it has been given back.
    pub seen: Option<Seen>,
    /// It had a place in line.
    pub waited: bool,
    /// The lease.
    pub leased: Arc<Leased>,
}

/// A holder looks for waiters before its release if it has held for so long: the look takes a twentieth of that.
const LONG: Duration = Duration::from_millis(20);

/// What is given back.
pub struct Back<'a> {
    /// Of which pool.
    pub pool: &'a str,
    /// What was granted.
    pub grant: &'a Grant,
    /// How its holder ended.
    pub end: End,
    /// What may be tried for then.
    pub seen: Option<Seen>,
    /// It is likely that somebody waits.
    pub waited_for: bool,
}

impl<'a> Back<'a> {
    /// What nobody has had.
    pub fn unused(pool: &'a str, grant: &'a Grant, end: End) -> Back<'a> {
        Back { pool, grant, end, seen: None, waited_for: false }
    }
}

/// Whether somebody likely waits for what was held since then.
pub fn is_waited_for(waited: bool, since: Instant) -> bool {
    waited || since.elapsed() >= LONG
}

impl Session {
    /// One that has no lease yet.
    pub fn new(link: Link, site: Site, ttl: Duration, label: &str) -> Session {
        let (link, leases) = (ManuallyDrop::new(link), Leases::new(ttl));
        Session { link, process: process::incarnation(), site, who: here::who(label), leases, seen: Mutex::default() }
    }

    /// The engine.
    ///
    /// # Errors
    /// `Inherited`.
    pub fn link(&self) -> Result<&Link, RemoteError> {
        match self.process == process::incarnation() {
            true => Ok(&self.link),
            false => Err(RemoteError::Inherited { url: self.site.url.clone() }),
        }
    }

    /// A lease, and an attempt under it, for what waits for nothing.
    ///
    /// # Errors
    /// `Inherited`, `Silent`, `Refused`.
    pub fn begin(&self, wanted: &str) -> Result<(Arc<Leased>, Attempt), RemoteError> {
        let link = self.link()?;
        let until = Instant::now() + CONTACT;
        loop {
            match self.leases.get(link, Some(until)) {
                Ok(leased) => {
                    let by = leased.attempt(&self.who);
                    return Ok((leased, by));
                }
                Err(EngineError::Unknown(_)) if Instant::now() < until => {}
                Err(EngineError::Unknown(why)) => return Err(RemoteError::Silent { wanted: wanted.to_owned(), why }),
                Err(e) => return Err(RemoteError::Refused(e.to_string())),
            }
        }
    }

    /// Waits for the grant. One whose lease ends meanwhile begins anew, at the end of the queue. What can be had at once is had, if the engine answers
    /// within the time, or within half a second.
    ///
    /// # Errors
    /// Why there is none.
    pub fn acquire(&self, want: &Want, patience: Patience, interrupt: Interrupt<'_>) -> Result<Won, RemoteError> {
        want.check_as(|own| self.site.name(own)).map_err(RemoteError::Invalid)?;
        let (link, kind) = (self.link()?, want.of.kind());
        let began = Instant::now();
        let contact = began + CONTACT;
        let until = match patience {
            // What can be had at once takes the engine's answers, and no longer than one of them may be waited for.
            Patience::Now => Some(contact),
            Patience::For(time) => began.checked_add(time),
            Patience::Forever => None,
        };
        let wanted = || {
            let all =
                want.pools.iter().map(|pool| format!("`{}`", self.site.name(pool))).collect::<Vec<_>>().join(" or ");
            if want.n == 1 { all } else { format!("{} of {all}", want.n) }
        };
        let mut was_in_line = false;
        let mut seen = want.pools.first().and_then(|pool| self.seen().remove(pool));
        loop {
            // One that had a place in line waits for the engine, too.
            let ends = if was_in_line { until } else { until.into_iter().chain([contact]).min() };
            // Each time that it looks whether it is to end.
            let look = interrupt.map(|_| Instant::now() + LOOK);
            let leased = match self.leases.get(link, ends.into_iter().chain(look).min()) {
                Ok(leased) => leased,
                Err(EngineError::Unknown(why)) => {
                    if ends.is_some_and(|end| Instant::now() >= end) {
                        return Err(RemoteError::Silent { wanted: wanted(), why });
                    }
                    if interrupt.is_some_and(|interrupt| interrupt()) {
                        return Err(RemoteError::Interrupted { wanted: wanted() });
                    }
                    continue;
                }
                Err(e) => return Err(RemoteError::Refused(e.to_string())),
            };
            let by = leased.attempt(&self.who);
            let id = by.id.clone();
            let machine = Acquire::new(self.site.space.clone(), by, want.clone());
            let mut machine = machine.glancing().remembering(seen.take());
            let around = Around { interrupt, ..Around::new(&leased, until, until) };
            let came = drive::acquire(link, &self.site.space, &want.pools, &mut machine, &around);
            was_in_line |= machine.place().is_some();
            let left = around.left.get() || matches!(came, Ok(Outcome::Removed(_) | Outcome::TooMany(_)));
            if left && came.is_ok() && !around.unanswered.get() {
                // All that it asked for was answered: nothing may come late that its fence would keep out, and the lease goes on for long.
                let fence = Keys::One(self.site.space.fence(&id));
                let _ = link.txn_within(&Txn::of(vec![Op::Delete(fence)]), drive::GRACE);
            }
            let name = |at: usize| self.site.name(&want.pools[at]);
            let silent = around.silent.take();
            let loose = match &came {
                Ok(Outcome::Unsure) | Err(DriveError::Silent(_)) => true,
                Ok(Outcome::Granted(_) | Outcome::Lost) | Err(DriveError::Over) => false,
                Ok(_) => machine.is_refused(),
            };
            let error = match came {
                // Of a unit there is nothing that could be lost.
                Ok(Outcome::Granted(grant)) if grant.indices.is_empty() || !leased.pulse.is_over() => {
                    let object = machine.views()[grant.pool].object;
                    let object = object.map_or(Object::Pool { permits: 1 }, |object| object.what);
                    let (seen, waited) = (machine.seen(&grant), around.waited.get());
                    return Ok(Won { grant, object, seen, waited, leased });
                }
                Ok(Outcome::Unsure) => {
                    let why = silent.unwrap_or_else(|| leased.pulse.loss().unwrap_or(Loss::Unreachable).to_string());
                    RemoteError::Unsure { what: format!("a unit of {} was taken", wanted()), why }
                }
                Ok(Outcome::Lost | Outcome::Granted(_)) | Err(DriveError::Over) => {
                    // If the lease goes on, somebody has deleted the ticket: the next look says what has become of the pool.
                    leased.has_ended();
                    continue;
                }
                Err(DriveError::Silent(why)) => RemoteError::Silent { wanted: wanted(), why },
                Ok(Outcome::WouldBlock) => RemoteError::WouldBlock { wanted: wanted() },
                Ok(Outcome::Cancelled) if around.interrupted.get() => RemoteError::Interrupted { wanted: wanted() },
                Ok(Outcome::Cancelled) => match silent {
                    Some(why) => RemoteError::Silent { wanted: wanted(), why },
                    None if !want.wait => RemoteError::WouldBlock { wanted: wanted() },
                    None => RemoteError::Timeout { wanted: wanted(), after: began.elapsed() },
                },
                Ok(Outcome::NoPool(at)) if !was_in_line => self.site.unknown(kind, &want.pools[at]),
                Ok(Outcome::NoPool(at) | Outcome::Removed(at)) => RemoteError::Removed { kind, name: name(at) },
                Ok(Outcome::Other(at, is)) => RemoteError::Other { name: name(at), is, wanted: kind },
                Ok(Outcome::TooMany(permits)) => RemoteError::TooMany { name: name(0), wanted: want.n, permits },
                Ok(Outcome::Newer(format)) => self.site.newer(format),
                Ok(Outcome::Refused(why)) => RemoteError::Refused(why),
            };
            if loose {
                self.tie_up_attempt(&leased, machine, want.pools.clone());
            }
            return Err(error);
        }
    }

    /// Gives back what was granted; answers whether it was lost before.
    ///
    /// # Errors
    /// `Silent`: the engine does not answer, and is asked on; `Refused`.
    pub fn give_back(&self, leased: &Arc<Leased>, back: Back<'_>) -> Result<bool, RemoteError> {
        let link = self.link()?;
        let Back { pool, grant, end, seen, waited_for } = back;
        let own = Own { pool: pool.to_owned(), token: grant.token, end };
        let mut machine = Release::new(self.site.space.clone(), own, grant.indices.clone(), waited_for);
        let until = Instant::now() + PARTING;
        let gives_up = || Instant::now() >= until || leased.pulse.is_over();
        match drive::release_until(link, &mut machine, Some(until), gives_up) {
            Ok(lost) => {
                if let Some(seen) = seen.and_then(|seen| machine.freed(seen)) {
                    let mut all = self.seen();
                    if all.len() >= MOST_SEEN {
                        all.clear();
                    }
                    all.insert(pool.to_owned(), seen);
                }
                Ok(!lost.is_empty())
            }
            Err(why) if leased.pulse.is_over() => {
                // It has gone with the lease.
                drop(why);
                Ok(true)
            }
            Err(why) => {
                let refused = machine.is_refused();
                leased.ties_up(move |leased| releases(leased, &mut machine));
                Err(match refused {
                    true => RemoteError::Refused(why),
                    false => RemoteError::Silent { wanted: format!("giving back `{}`", self.site.name(pool)), why },
                })
            }
        }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        // The few lines under the lock do not panic.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tie_up_attempt(&self, leased: &Arc<Leased>, mut machine: Acquire, pools: Vec<String>) {
        let (space, mut release) = (self.site.space.clone(), None);
        leased.ties_up(move |leased| {
            let around = Around::new(leased, Some(Instant::now()), None);
            loop {
                if let Some(release) = &mut release {
                    return releases(leased, release);
                }
                machine.again();
                match drive::acquire(leased.link(), &space, &pools, &mut machine, &around) {
                    Err(DriveError::Silent(_)) => return Tied::Silent,
                    // Its time was up again, or it will never know.
                    Ok(Outcome::Unsure) if !matches!(machine.step(), Step::Done(_)) => return Tied::Silent,
                    // Units are spent, and what says so is not needed.
                    Ok(Outcome::Granted(grant)) if grant.indices.is_empty() => {
                        return match leased.link().txn(&grant::forget(&space, &pools[grant.pool], &grant.id)) {
                            Err(EngineError::Unknown(_)) => Tied::Silent,
                            _ => Tied::Known,
                        };
                    }
                    Ok(Outcome::Granted(grant)) => {
                        // Nobody has seen it: a mutex is as its last holder left it.
                        let own =
                            Own { pool: pools[grant.pool].clone(), token: grant.token, end: unseen(&machine, &grant) };
                        release = Some(Release::new(space.clone(), own, grant.indices, false));
                    }
                    _ if machine.is_refused() => return Tied::Refused,
                    _ => return Tied::Known,
                }
            }
        });
    }

    /// Has an end of a tube go on until its user is wanted.
    ///
    /// # Errors
    /// Why it did not get there.
    pub fn drives<M: TubeEnd>(
        &self,
        leased: &Arc<Leased>,
        machine: &mut M,
        watch: &mut Option<News>,
        patience: Patience,
        interrupt: Interrupt<'_>,
    ) -> Result<(), Stop> {
        let link = self.link().map_err(|_| Stop::Over)?;
        let began = Instant::now();
        let (until, answers) = match patience {
            Patience::Now => (Some(began), Some(began + CONTACT)),
            Patience::For(time) => (began.checked_add(time), began.checked_add(time)),
            Patience::Forever => (None, None),
        };
        let around = Around { interrupt, ..Around::new(leased, until, answers) };
        match drive::tube(link, machine, watch, &around) {
            Ok(true) => Ok(()),
            Ok(false) if around.interrupted.get() => Err(Stop::Interrupted),
            Ok(false) => Err(Stop::Time),
            Err(DriveError::Over) => Err(Stop::Over),
            Err(DriveError::Silent(why)) => Err(Stop::Silent(why)),
        }
    }

    /// Has an end of a tube go, by way of `leaves`, which is asked each time that it wants its user or would wait, and answers how far it is. If the engine
    /// does not answer, or refuses, that is a loose end.
    pub fn parts<M: TubeEnd + Send + 'static>(
        &self,
        leased: &Arc<Leased>,
        mut machine: M,
        mut watch: Option<News>,
        mut leaves: impl FnMut(&mut M) -> Leaving + Send + 'static,
    ) {
        let mut goes = move |leased: &Leased, answers: Option<Instant>| {
            let around = Around::new(leased, Some(Instant::now()), answers);
            loop {
                match drive::tube(leased.link(), &mut machine, &mut watch, &around) {
                    Ok(_) => match leaves(&mut machine) {
                        Leaving::Gone => return Tied::Known,
                        Leaving::Refused => return Tied::Refused,
                        Leaving::Goes => {}
                    },
                    Err(DriveError::Silent(_)) => return Tied::Silent,
                    Err(DriveError::Over) => return Tied::Known,
                }
            }
        };
        if goes(leased, Some(Instant::now() + PARTING)) != Tied::Known {
            leased.ties_up(move |leased| goes(leased, None));
        }
    }

    /// Deletes what an attempt at a semaphore has left for itself. It goes with the lease, too.
    pub fn forget(&self, own: &str, id: &str) {
        if let Ok(link) = self.link() {
            let _ = link.txn_within(&grant::forget(&self.site.space, own, id), PARTING);
        }
    }
}

/// What becomes of a grant that was given back unseen.
fn unseen(machine: &Acquire, grant: &Grant) -> End {
    let object = machine.views()[grant.pool].object.map_or(Object::Pool { permits: 1 }, |known| known.what);
    End::of(object, !grant.owner_died)
}

/// Gives back what nobody has.
fn releases(leased: &Leased, machine: &mut Release) -> Tied {
    machine.again();
    match drive::release(leased.link(), machine, || true) {
        Ok(_) => Tied::Known,
        Err(_) if machine.is_refused() => Tied::Refused,
        Err(_) => Tied::Silent,
    }
}

/// What a wait looks at.
struct Around<'a> {
    leased: &'a Leased,
    until: Option<Instant>,
    /// Until when answers may be waited for.
    answers: Option<Instant>,
    interrupt: Interrupt<'a>,
    interrupted: Cell<bool>,
    /// It has waited in line.
    waited: Cell<bool>,
    /// It was told to give up.
    left: Cell<bool>,
    unanswered: Cell<bool>,
    /// What was seen of the engine where it did not answer, until it did.
    silent: RefCell<Option<String>>,
}

impl<'a> Around<'a> {
    fn new(leased: &'a Leased, until: Option<Instant>, answers: Option<Instant>) -> Around<'a> {
        let (interrupted, waited, left, unanswered) = (false.into(), false.into(), false.into(), false.into());
        let (interrupt, silent) = (None, RefCell::default());
        Around { leased, until, answers, interrupt, interrupted, waited, left, unanswered, silent }
    }
}

impl Circumstances for Around<'_> {
    fn is_over(&self) -> bool {
        self.leased.pulse.is_over()
    }

    fn gives_up(&self) -> bool {
        if self.interrupt.is_some_and(|interrupt| interrupt()) {
            self.interrupted.set(true);
        }
        let gives_up = self.interrupted.get() || self.until.is_some_and(|until| Instant::now() >= until);
        self.left.set(gives_up || self.left.get());
        gives_up
    }

    fn answers_within(&self) -> Duration {
        // Nothing that is asked under a lease is of use behind its end: an answer with pages may take longer over a slow line.
        let lease = self.leased.pulse.life().kill_at().saturating_sub(now()).max(drive::GRACE);
        drive::answers_until(self.answers).min(lease)
    }

    fn waits(&self, _machine: &Acquire) {
        self.waited.set(true);
        self.silent.take();
    }

    fn lease_gone(&self) {
        self.leased.pulse.ended();
    }

    fn silent(&self, why: &str) {
        self.unanswered.set(true);
        self.silent.replace(Some(why.to_owned()));
    }

    fn look_again(&self) -> Duration {
        let left = self.until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        let most = if self.interrupt.is_some() { LOOK } else { self.leased.pulse.life().every() };
        left.clamp(Duration::from_millis(1), most.max(Duration::from_millis(1)))
    }
}
