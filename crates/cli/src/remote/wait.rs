//! Waiting for something on an engine: under a lease that a keeper ends when chappe is killed, so that its place in line is gone at once.

use super::held::Held;
use super::keeper::{Begin, Keeper, Now};
use super::line;
use super::{Place, pools};
use crate::args::OnLoss;
use crate::ended::{FAILED, TIMED_OUT};
use crate::line::Line;
use crate::look::permits_text;
use crate::said::Failure;
use crate::take::Until;
use crate::time;
use anyhow::{Context, anyhow, ensure};
use chappe::remote::acquire::{Acquire as Machine, Grant, Of, Outcome, Want};
use chappe::remote::drive::{self, Circumstances, DriveError};
use chappe::remote::engine::{Engine, EngineError, LeaseId};
use chappe::remote::etcd::{Etcd, Session};
use chappe::remote::grant::{self, Attempt, End};
use chappe::remote::here;
use chappe::remote::keys::{self, Object};
use chappe::remote::life;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How to wait.
pub struct Wait<'a> {
    /// For what.
    pub want: &'a Want,
    /// The lease's time to live.
    pub ttl: Duration,
    /// Since when.
    pub began: Instant,
    /// How long.
    pub until: Until,
    /// What the keeper does when what is held is lost.
    pub on_loss: OnLoss,
    /// What the waiter is called.
    pub label: String,
    /// Whether errors are JSON.
    pub json: bool,
}

/// What a wait looks at, and tells.
struct Around<'a> {
    session: &'a Session,
    keeper: RefCell<Keeper>,
    until: Option<Instant>,
    /// What the line on the terminal says.
    shown: Arc<Mutex<String>>,
    place: &'a Place,
    want: &'a Want,
    silent: RefCell<Option<String>>,
    /// Whether it has had a place in line.
    in_line: Cell<bool>,
}

impl Around<'_> {
    fn show(&self, text: String) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn wanted(&self) -> String {
        let names: Vec<String> = self.want.pools.iter().map(|pool| self.place.name(pool)).collect();
        let all = names.join(" or ");
        if self.want.n == 1 { all } else { format!("{} of {all}", permits_text(self.want.n)) }
    }
}

impl Circumstances for Around<'_> {
    fn is_over(&self) -> bool {
        self.session.is_over() || self.session.was_asked_in_vain()
    }

    fn gives_up(&self) -> bool {
        let life = self.session.life();
        self.keeper.borrow_mut().tell(|now| (now.deadline, now.ttl) = (life.deadline(), life.ttl()));
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn answers_within(&self) -> Duration {
        drive::answers_until(self.until)
    }

    fn look_again(&self) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        left.unwrap_or(Duration::MAX).clamp(Duration::from_millis(1), self.session.life().every())
    }

    fn waits(&self, machine: &Machine) {
        self.silent.take();
        self.in_line.set(true);
        let place = machine.place().map_or_else(String::new, |place| format!(", {} before it in line", place));
        self.show(format!("chappe: waiting for {}{place}; {}", self.wanted(), pools::state(machine.views())));
    }

    fn silent(&self, why: &str) {
        *self.silent.borrow_mut() = Some(why.to_owned());
        self.show(format!("chappe: waiting for {}; the engine does not answer: {why}", self.wanted()));
    }
}

/// What was waited for.
pub struct Got {
    /// What was granted.
    pub grant: Grant,
    /// What it is of.
    pub object: Object,
    /// What gives it back, as long as its job has not begun.
    pub held: Held,
    /// The lease.
    pub session: Session,
    /// What ends it when chappe is killed.
    pub keeper: Keeper,
    /// The two ends of the job's line.
    pub line: (OwnedFd, OwnedFd),
}

/// Waits for the grant. A lease that ends meanwhile is made anew: the place in the queue is then another.
///
/// The first lease is asked for together with what is asked under it: only a release is behind the answer to that.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn wait(place: &Place, etcd: &Etcd, starting: Starting, how: &Wait<'_>) -> Result<Got, Failure> {
    let failed = |why| Failure { status: FAILED, why };
    let (want, began, nonblock) = (how.want, how.began, matches!(how.until, Until::Now));
    let until = match how.until {
        Until::Over(patience) => began.checked_add(patience),
        // What can be had at once takes the engine's answers, and no longer than one of them may be waited for.
        Until::Now => began.checked_add(place.options.connect_timeout),
        Until::Forever => None,
    };
    let shown = Arc::new(Mutex::new(format!("chappe: waiting for {}", place.called)));
    let text = Arc::clone(&shown);
    let _line = Line::show(how.json, move || text.lock().unwrap_or_else(PoisonError::into_inner).clone());
    // Whether to ask again for a lease that did not come.
    let no_lease = |e: EngineError, was_in_line: bool| match e {
        EngineError::Unknown(why) if !nonblock && until.is_some_and(|until| Instant::now() >= until) => {
            Err(Failure { status: TIMED_OUT, why: anyhow!("the engine gives no lease: {why}") })
        }
        EngineError::Unknown(why) if was_in_line || began.elapsed() < place.options.connect_timeout => {
            *shown.lock().unwrap_or_else(PoisonError::into_inner) = format!("chappe: the engine gives no lease: {why}");
            Ok(())
        }
        EngineError::Unknown(why) => {
            Err(failed(anyhow!("the engine gives no lease, its members may have no quorum: {why}")))
        }
        e => Err(failed(anyhow!("the engine gives no lease: {e}"))),
    };
    let (mut was_in_line, mut starting) = (false, Some(starting));
    loop {
        // One that had a place in line waits for the engine, too.
        let contact = if was_in_line { None } else { began.checked_add(place.options.connect_timeout) };
        let within = drive::answers_until(until.into_iter().chain(contact).min());
        let (session, look, started) = match starting.take() {
            Some(starting) => {
                let session = etcd.session_ahead(how.ttl, within);
                // While the keeper starts.
                let look = etcd.glance(&grant::look(&place.space(), &want.pools), within);
                (session, Some(look), starting.started())
            }
            // An engine that was lost: a keeper is started for a lease that is there.
            None => match etcd.session_within(how.ttl, within) {
                Ok(session) => (session, None, Started::new(place, how.on_loss).context(NO_KEEPER)),
                Err(e) => {
                    no_lease(e, was_in_line)?;
                    continue;
                }
            },
        };
        let Started { keeper, line } = started.and_then(|started| started.looks_after(&session)).map_err(failed)?;
        let by = attempt(session.lease(), 1, &how.label);
        let mut machine = Machine::new(place.space(), by, want.clone()).glancing();
        if let Some(look @ Ok(_)) = &look {
            machine.answered(look);
        }
        let around = Around {
            session: &session,
            keeper: RefCell::new(keeper),
            until,
            shown: Arc::clone(&shown),
            place,
            want,
            silent: RefCell::new(None),
            in_line: Cell::new(was_in_line),
        };
        let came = drive::acquire(etcd, &place.space(), &want.pools, &mut machine, &around);
        was_in_line = around.in_line.get();
        let silent = around.silent.take();
        let (wanted, mut keeper, views) = (around.wanted(), around.keeper.into_inner(), machine.views());
        let why = match came {
            Ok(Outcome::Granted(grant)) => {
                let object = views[grant.pool].object.map_or(Object::Pool { permits: 1 }, |object| object.what);
                let held = Held {
                    namespace: place.options.namespace.clone(),
                    pool: want.pools[grant.pool].clone(),
                    indices: grant.indices.clone(),
                    token: grant.token,
                    // What never begins leaves a mutex as it was.
                    end: End::of(object, !grant.owner_died),
                    waited: true,
                };
                // Units are had whatever becomes of the lease, and of them there is nothing to give back.
                let is_held = !held.indices.is_empty();
                if is_held && session.is_over() {
                    let _ = drive::release(etcd, &mut held.release(place.space()), || true);
                    give_up(session, keeper);
                    continue;
                }
                keeper.tell(|now| now.held = is_held.then(|| held.clone()));
                return Ok(Got { grant, object, held, session, keeper, line });
            }
            Ok(Outcome::Lost) | Err(DriveError::Over) => {
                if let Err(e) = session.came() {
                    // Its keeper ends it, should it come yet.
                    no_lease(e, was_in_line)?;
                    continue;
                }
                // It gave what it had to those that wait; this one begins anew at the end.
                give_up(session, keeper);
                continue;
            }
            Ok(Outcome::WouldBlock) => {
                let why = match want.of {
                    Of::Units => format!("semaphore {wanted} has nothing to take"),
                    _ => format!("no permit of {wanted} is free"),
                };
                (TIMED_OUT, format!("{why}; {}", pools::state(views)))
            }
            Ok(Outcome::Cancelled) => {
                let patience = if let Until::Over(patience) = how.until { Some(patience) } else { None };
                let time = time::show(patience.unwrap_or(place.options.connect_timeout));
                let state = match silent {
                    Some(why) => format!("the engine does not answer: {why}"),
                    None => pools::state(views),
                };
                (TIMED_OUT, format!("timed out after {time} waiting for {wanted}; {state}"))
            }
            Ok(Outcome::NoPool(at)) if !was_in_line => (FAILED, pools::unknown(place, &want.pools[at], want.of)),
            Ok(Outcome::Other(at, object)) => (FAILED, pools::other(place, &want.pools[at], object)),
            // Its place in line may have been seen to go before the pool.
            Ok(Outcome::NoPool(at) | Outcome::Removed(at)) => {
                let kind = if want.of == Of::Units { "semaphore" } else { "pool" };
                (FAILED, format!("{kind} `{}` was removed while it was waited for", place.name(&want.pools[at])))
            }
            Ok(Outcome::TooMany(has)) => {
                let n = want.n;
                (
                    FAILED,
                    format!(
                        "pool `{}` has {}: it never has {n} at once",
                        place.name(&want.pools[0]),
                        permits_text(has)
                    ),
                )
            }
            Ok(Outcome::Unsure) => {
                let why = "the engine did not answer in time, or chappe was stopped for longer than its lease";
                let look = format!("`chappe sem value {}` shows what is left", place.name(&want.pools[0]));
                (FAILED, format!("it is not known whether a unit of {wanted} was taken: {why}; {look}"))
            }
            Ok(Outcome::Newer(format)) => (FAILED, pools::newer(place, format)),
            Ok(Outcome::Refused(why)) => (FAILED, format!("the engine refuses: {why}")),
            Err(e) => {
                // What ends the lease is the keeper, which has the time.
                return Err(Failure { status: TIMED_OUT, why: anyhow!("timed out waiting for {wanted}: {e}") });
            }
        };
        // The keeper would wait for one that is still to come.
        let _ = session.came();
        leave(session, Some(keeper));
        return Err(Failure { status: why.0, why: anyhow!(why.1) });
    }
}

/// An attempt of this process.
pub fn attempt(lease: LeaseId, number: u32, label: &str) -> Attempt {
    let who = here::who(label);
    Attempt { id: keys::attempt(lease, number), lease, who }
}

const NO_KEEPER: &str = "cannot start the keeper of the lease";

/// A keeper that runs, and the two ends of the job's line.
struct Started {
    keeper: Keeper,
    line: (OwnedFd, OwnedFd),
}

impl Started {
    /// One that has no lease yet.
    fn new(place: &Place, on_loss: OnLoss) -> io::Result<Started> {
        let line = line::open()?;
        let begin = Begin { options: place.options.clone(), on_loss };
        let keeper = Keeper::start(begin, Now::default(), line.0.try_clone()?)?;
        Ok(Started { keeper, line })
    }

    /// It knows the lease from now on, and so nothing is asked for under it before. Without one the lease, which has nothing, ends by itself.
    fn looks_after(mut self, session: &Session) -> anyhow::Result<Started> {
        let (lease, life) = (session.lease().0, session.life());
        let tells = |now: &mut Now| (now.lease, now.deadline, now.ttl) = (Some(lease), life.deadline(), life.ttl());
        ensure!(self.keeper.tell(tells), NO_KEEPER);
        Ok(self)
    }
}

/// A keeper that is started on a thread of its own: that takes as long as it takes to connect.
pub struct Starting(JoinHandle<io::Result<Started>>);

impl Starting {
    /// Begins to start one.
    pub fn of(place: &Place, on_loss: OnLoss) -> Starting {
        let place = place.clone();
        Starting(std::thread::spawn(move || Started::new(&place, on_loss)))
    }

    fn started(self) -> anyhow::Result<Started> {
        let ended = self.0.join().map_err(|_| anyhow!("its thread has panicked"));
        ended.and_then(|started| Ok(started?)).context(NO_KEEPER)
    }
}

/// A keeper of a lease under which nothing is held that has a job.
pub struct Kept {
    keeper: Keeper,
    _line: (OwnedFd, OwnedFd),
}

impl Kept {
    /// Tells it until when the lease is certain.
    pub fn tell(&mut self, session: &Session) {
        let life = session.life();
        self.keeper.tell(|now| (now.deadline, now.ttl) = (life.deadline(), life.ttl()));
    }

    /// Ends the lease.
    pub fn end(self, session: Session) {
        leave(session, Some(self.keeper));
    }
}

/// A lease for an end of a tube, which ends at once when chappe is killed.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn keep(place: &Place, etcd: &Etcd, label: &str) -> Result<(Session, Attempt, Kept), Failure> {
    let failed = |why| Failure { status: 1, why };
    let ttl = place.ttl.unwrap_or(life::USUAL);
    life::check(ttl).map_err(|e| failed(anyhow!(e)))?;
    let starting = Starting::of(place, OnLoss::Warn);
    let session = etcd.session(ttl).map_err(|e| failed(anyhow!("the engine gives no lease: {e}")))?;
    let started = starting.started().map_err(failed)?;
    let Started { keeper, line } = started.looks_after(&session).map_err(failed)?;
    let by = attempt(session.lease(), 1, label);
    Ok((session, by, Kept { keeper, _line: line }))
}

/// Has the keeper end the lease, under which nothing is held: nobody waits for the engine's answer. Without a keeper it is waited for.
pub fn leave(session: Session, mut keeper: Option<Keeper>) {
    if !keeper.as_mut().is_some_and(Keeper::ends_the_lease) {
        let _ = session.end();
    }
}

/// Ends the lease, with what may have been granted under it meanwhile. Without an answer the keeper goes on with that.
fn give_up(session: Session, keeper: Keeper) {
    if session.end().is_ok() {
        keeper.end();
    }
}
