//! `chappe acquire` of remote pools: as of local ones, but what is held goes with a lease, which a keeper looks after too.

use super::held::Held;
use super::hold::{Guard, Hold, Loss};
use super::keeper::{Begin, Keeper, Now};
use super::line::{self, Crew, MARK};
use super::{Place, pools};
use crate::acquire::filled_in;
use crate::args::{Acquire, OnLoss};
use crate::ended::{FAILED, TIMED_OUT, as_it_did, label, say};
use crate::line::Line;
use crate::look::{ms, permits_text};
use crate::said::{Failure, tell};
use crate::take::Until;
use crate::time;
use crate::under::Under;
use anyhow::{Result, anyhow, bail};
use chappe::remote::acquire::{Acquire as Machine, Grant, Outcome, Want};
use chappe::remote::drive::{self, Circumstances, DriveError};
use chappe::remote::engine::{Engine, EngineError};
use chappe::remote::etcd::{Etcd, Session};
use chappe::remote::grant::Attempt;
use chappe::remote::keys;
use chappe::remote::life;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Runs the command.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(a: &Acquire, on: Option<&str>, json: bool, file_size: bool) -> Result<u8, Failure> {
    let failed = |why| Failure { status: FAILED, why };
    let place = Place::of(&a.pools, on).map_err(failed)?;
    let want = Want { pools: place.names.clone(), n: a.count, wait: !a.nonblock };
    want.check().map_err(|e| failed(anyhow!(e)))?;
    let ttl = a.ttl.or(place.ttl).unwrap_or(life::USUAL);
    life::check(ttl).map_err(|e| failed(anyhow!(e)))?;
    refuse(a, &place).map_err(failed)?;
    let mut place = place;
    place.options.allow_old_engine = a.allow_old_engine;
    if let Some(patience) = a.connect_timeout {
        place.options.connect_timeout = patience;
    }

    let began = Instant::now();
    let etcd = place.connect().map_err(|e| failed(e.into()))?;
    if !a.nested {
        refuse_itself(&etcd, &place).map_err(failed)?;
    }
    if let Some(permits) = a.create {
        let permits = permits.unwrap_or_else(|| a.count.into());
        for pool in &place.names {
            pools::make(&etcd, &place, pool, permits, false).map_err(failed)?;
        }
    }
    let until = Until::of(a.timeout, a.nonblock);
    let Got { grant, size, session, keeper, line: (read, write) } =
        wait(a, &place, &etcd, &want, ttl, began, until, json)?;
    // The attempt may have another name by now: the keeper looks for this one.
    let mark = keeper.mark().to_owned();
    let waited = began.elapsed();

    let pool = &want.pools[grant.pool];
    let permit = |index: &u32| if size > 1 { format!("{}:{index}", place.name(pool)) } else { place.name(pool) };
    let names: Vec<String> = grant.indices.iter().map(permit).collect();
    if json {
        tell(json!({
            "event": "acquired", "permit": names[0], "permits": names, "pool": place.name(pool), "index": grant.pool,
            "permit_index": grant.indices[0], "waited_ms": ms(waited), "token": grant.token, "remote": place.called,
        }));
    }
    let words = |all: Vec<String>| all.join(" ");
    let token = grant.token.to_string();
    let environment = vec![
        ("CHAPPE_PERMIT", names[0].clone().into()),
        ("CHAPPE_PERMITS", names.join(" ").into()),
        ("CHAPPE_COUNT", names.len().to_string().into()),
        ("CHAPPE_INDEX", grant.pool.to_string().into()),
        ("CHAPPE_PERMIT_INDEX", grant.indices[0].to_string().into()),
        ("CHAPPE_PERMIT_INDEXES", words(grant.indices.iter().map(u32::to_string).collect()).into()),
        ("CHAPPE_TOKEN", token.clone().into()),
        ("CHAPPE_TOKENS", words(vec![token; names.len()]).into()),
        ("CHAPPE_REMOTE", place.options.url().into()),
        (MARK, marks(&mark).into()),
    ];
    let held = Held {
        namespace: place.options.namespace.clone(),
        pool: pool.clone(),
        indices: grant.indices.clone(),
        token: grant.token,
        waited: waited > Duration::from_millis(500),
    };
    let mut hold = Hold::of(etcd.clone(), session, held.clone(), a.on_loss, Some(keeper));
    let command = a.replace.as_ref().map_or_else(|| a.command.clone(), |mark| filled_in(&a.command, mark, &names[0]));
    let mut crew = Crew::new(read, mark, std::process::id() as i32);
    if hold.is_lost() {
        // Stopped since it was granted. Its keeper gives back what is left.
        return Err(failed(anyhow!("permit {} was lost before the command began", names[0])));
    }
    let mut guard = Guard { hold: &mut hold, crew: &mut crew, begun: false };
    let under = Under {
        command: &command,
        environment,
        lease: None,
        object: pool,
        // Without it the job's end is that of its first process.
        line: (!a.job.close).then_some(write),
        beside: Some(&mut guard),
        how: &a.job,
        json,
        file_size,
    };
    let ran = match under.run() {
        Ok(ran) => ran,
        Err(e) => {
            let _ = drive::release(&etcd, &mut held.release(place.space()), || true);
            // Without an answer its keeper gives it back.
            if etcd.revoke(hold.lease()).is_ok() {
                hold.end();
            }
            return Err(e);
        }
    };
    let left: Vec<i32> = ran.left.iter().map(|process| process.pid).collect();
    crew.leaves(&left);
    // What the job left running keeps the permit: the keeper stays for it.
    let mut goes_on = !(a.job.close || left.is_empty() && crew.line_has_ended());
    let ends = hold.is_lost() && a.on_loss != OnLoss::Warn;
    if goes_on && (ends || !hold.leaves(left)) {
        hold.stay_until_the_end_of(&crew);
        goes_on = false;
    }
    let mut lost: Vec<u32> = if hold.is_lost() { grant.indices.clone() } else { vec![] };
    let lease = hold.lease();
    let reason = match hold.loss() {
        // What was held went with it.
        Some(Loss::Forced) if etcd.left(lease).is_ok_and(|left| left.is_zero()) => Some(Loss::Revoked),
        loss => loss,
    };
    let reason = reason.map(Loss::reason);
    if !goes_on {
        if lost.is_empty() {
            let gives_up = Instant::now() + Duration::from_secs(3);
            match drive::release(&etcd, &mut held.release(place.space()), || Instant::now() >= gives_up) {
                Ok(gone) => lost = gone,
                Err(why) => say(json, &format!("permit {} comes back when its lease ends: {why}", names[0])),
            }
        }
        if etcd.revoke(lease).is_ok() {
            hold.end();
        }
    }
    let lost: Vec<String> = lost.iter().map(permit).collect();
    let status = ended(&ran, &names, &lost, reason.or((!lost.is_empty()).then_some("forced")), json);
    Ok(if lost.is_empty() { as_it_did(ran.ended, None) } else { status })
}

/// Says how it ended; answers the status of one that has lost its permit.
fn ended(ran: &crate::under::Ran, names: &[String], lost: &[String], reason: Option<&str>, json: bool) -> u8 {
    if json {
        let (status, signal) = ran.ended.parts();
        tell(json!({
            "event": "ended", "permit": names[0], "permits": names, "status": status, "signal": signal,
            "held_ms": ms(ran.after), "left_running": ran.left.len(), "taken_away": !lost.is_empty(),
            "lost": lost, "reason": reason,
        }));
    } else if let Some(permit) = lost.first() {
        let how = match reason {
            Some("unreachable") => {
                "its lease was not renewed in time; the engine did not answer, or chappe was stopped"
            }
            Some("revoked") => "its lease was ended",
            _ => "it was taken away",
        };
        say(false, &format!("permit {permit} was lost while the command ran: {how}"));
    }
    FAILED
}

/// Refuses what would wait for itself: the job of a permit, however deep within, that wants another of the same pool.
fn refuse_itself(etcd: &Etcd, place: &Place) -> Result<()> {
    let Ok(marks) = std::env::var(MARK) else { return Ok(()) };
    if let Some(pool) = place.names.iter().find(|pool| pools::is_held_by(etcd, place, pool, &marks)) {
        bail!(
            "this command runs under a permit of pool `{}` already, which comes back only when it has ended. One permit is enough for both; \
             with --nested chappe waits for another one, perhaps for ever",
            place.name(pool)
        );
    }
    Ok(())
}

/// Refuses what would wait for others in a circle.
fn refuse(a: &Acquire, place: &Place) -> Result<()> {
    if std::env::var_os(chappe::LEASE_VARIABLE).is_some() && !a.local_first {
        bail!(
            "this command runs under a local permit, and would wait for a remote one: two machines that each have theirs and wait for the \
             other's wait for ever. Take the remote one outside: `chappe acquire {} -- chappe acquire LOCAL -- COMMAND`; or be sure, and say \
             --local-first",
            place.name(&place.names[0])
        );
    }
    Ok(())
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
        self.session.is_over()
    }

    fn gives_up(&self) -> bool {
        let life = self.session.life();
        self.keeper.borrow_mut().tell(|now| (now.deadline, now.ttl) = (life.deadline(), life.ttl()));
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn look_again(&self) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        left.unwrap_or(Duration::MAX).clamp(Duration::from_millis(1), self.session.life().every())
    }

    fn waits(&self, machine: &Machine) {
        self.silent.take();
        self.in_line.set(true);
        let place = machine.place().map_or_else(String::new, |place| format!(", {} before it in line", place));
        self.show(format!("chappe: waiting for {}{place}; {}", self.wanted(), pools::held_by(machine.views())));
    }

    fn silent(&self, why: &str) {
        *self.silent.borrow_mut() = Some(why.to_owned());
        self.show(format!("chappe: waiting for {}; the engine does not answer: {why}", self.wanted()));
    }
}

/// What was waited for.
struct Got {
    grant: Grant,
    /// How many permits the pool has.
    size: u32,
    session: Session,
    keeper: Keeper,
    line: (OwnedFd, OwnedFd),
}

/// Waits for the grant. A lease that ends meanwhile is made anew: the place in the queue is then another.
#[expect(clippy::too_many_arguments, reason = "one caller, which has all of it as it stands")]
fn wait(
    a: &Acquire,
    place: &Place,
    etcd: &Etcd,
    want: &Want,
    ttl: Duration,
    began: Instant,
    until: Until,
    json: bool,
) -> Result<Got, Failure> {
    let failed = |why| Failure { status: FAILED, why };
    let until = match until {
        Until::Over(patience) => began.checked_add(patience),
        // What can be had at once takes the engine's answers, and no longer than one of them may be waited for.
        Until::Now => began.checked_add(place.options.connect_timeout),
        Until::Forever => None,
    };
    let shown = Arc::new(Mutex::new(format!("chappe: waiting for {}", place.called)));
    let text = Arc::clone(&shown);
    let _line = Line::show(json, move || text.lock().unwrap_or_else(PoisonError::into_inner).clone());
    // A waiter that had a place in line waits for the engine, too.
    let mut was_in_line = false;
    loop {
        let session = match etcd.session(ttl) {
            Ok(session) => session,
            Err(EngineError::Unknown(why)) if !a.nonblock && until.is_some_and(|until| Instant::now() >= until) => {
                return Err(Failure { status: TIMED_OUT, why: anyhow!("the engine gives no lease: {why}") });
            }
            Err(EngineError::Unknown(why)) if was_in_line || began.elapsed() < place.options.connect_timeout => {
                *shown.lock().unwrap_or_else(PoisonError::into_inner) =
                    format!("chappe: the engine gives no lease: {why}");
                continue;
            }
            Err(EngineError::Unknown(why)) => {
                return Err(failed(anyhow!("the engine gives no lease, its members may have no quorum: {why}")));
            }
            Err(e) => return Err(failed(anyhow!("the engine gives no lease: {e}"))),
        };
        let (life, line) = (session.life(), line::open().map_err(|e| failed(e.into()))?);
        let id = keys::attempt(session.lease(), 1);
        let (options, lease) = (place.options.clone(), session.lease().0);
        let begin = Begin { options, lease, on_loss: a.on_loss, mark: id.clone() };
        let now = Now { deadline: life.deadline(), ttl: life.ttl(), ..Now::default() };
        let keeper = line.0.try_clone().and_then(|read| Keeper::start(begin, now, read));
        let keeper = keeper.map_err(|e| failed(anyhow!("cannot start the keeper of the lease: {e}")))?;
        let who = keys::Who { host: host(), pid: std::process::id(), label: short(label(&a.command)) };
        let by = Attempt { id, lease: session.lease(), who };
        let mut machine = Machine::new(place.space(), by, want.clone());
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
        let (wanted, mut keeper, views) = (around.wanted(), around.keeper.into_inner(), machine.views());
        let why = match came {
            Ok(Outcome::Granted(grant)) if !session.is_over() => {
                let held = Held {
                    namespace: place.options.namespace.clone(),
                    pool: want.pools[grant.pool].clone(),
                    indices: grant.indices.clone(),
                    token: grant.token,
                    waited: true,
                };
                keeper.tell(|now| now.held = Some(held));
                let size = views[grant.pool].size.map_or(1, |(permits, _)| permits);
                return Ok(Got { grant, size, session, keeper, line });
            }
            Ok(Outcome::Lost | Outcome::Granted(_)) | Err(DriveError::Over) => {
                // It gave what it had to those that wait; this one begins anew at the end.
                give_up(session, keeper);
                continue;
            }
            Ok(Outcome::WouldBlock) => (TIMED_OUT, format!("no permit of {wanted} is free; {}", pools::held_by(views))),
            Ok(Outcome::Cancelled) => {
                let time = time::show(a.timeout.unwrap_or(place.options.connect_timeout));
                (TIMED_OUT, format!("timed out after {time} waiting for {wanted}; {}", pools::held_by(views)))
            }
            Ok(Outcome::NoPool(at)) if !was_in_line => (FAILED, pools::unknown(place, &want.pools[at])),
            // Its place in line may have been seen to go before the pool.
            Ok(Outcome::NoPool(at) | Outcome::Removed(at)) => {
                (FAILED, format!("pool `{}` was removed while it was waited for", place.name(&want.pools[at])))
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
            Ok(Outcome::Newer(format)) => (FAILED, pools::newer(place, format)),
            Ok(Outcome::Refused(why)) => (FAILED, format!("the engine refuses: {why}")),
            Err(e) => (TIMED_OUT, format!("timed out waiting for {wanted}: {e}")),
        };
        give_up(session, keeper);
        return Err(Failure { status: why.0, why: anyhow!(why.1) });
    }
}

/// Ends the lease, with what may have been granted under it meanwhile. Without an answer the keeper goes on with that.
fn give_up(session: Session, keeper: Keeper) {
    if session.end().is_ok() {
        keeper.end();
    }
}

/// The job's marks: of this permit, and of those under which it waited for it.
fn marks(id: &str) -> String {
    std::env::var(MARK).map_or_else(|_| id.to_owned(), |outer| format!("{outer},{id}"))
}

/// A label that each waiter reads of each: an engine takes no entry of any length.
fn short(label: String) -> String {
    const MOST: usize = 200;
    if label.len() <= MOST { label } else { format!("{}...", &label[..label.floor_char_boundary(MOST - 3)]) }
}

/// This machine's name.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "?".into(), |name| name.trim().to_owned())
}
