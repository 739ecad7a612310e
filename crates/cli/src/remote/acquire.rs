//! `chappe acquire` of remote pools: as of local ones, but what is held goes with a lease, which a keeper looks after too.

use super::held::Held;
use super::hold::{Guard, Hold, Loss};
use super::line::{Crew, MARK};
use super::wait::{Got, Starting, Wait, wait};
use super::{Place, pools};
use crate::acquire::{device, filled_in};
use crate::args::{Acquire, OnLoss};
use crate::ended::{FAILED, as_it_did, label, say};
use crate::look::ms;
use crate::said::{Failure, tell};
use crate::supervise::Ended;
use crate::take::Until;
use crate::under::Under;
use anyhow::{Result, anyhow, bail};
use chappe::remote::acquire::{Of, Want};
use chappe::remote::drive;
use chappe::remote::etcd::Etcd;
use chappe::remote::grant::End;
use chappe::remote::life;
use serde_json::json;
use std::time::{Duration, Instant};

/// Runs the command.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(a: &Acquire, on: Option<&str>, json: bool, file_size: bool) -> Result<u8, Failure> {
    let failed = |why| Failure { status: FAILED, why };
    let place = Place::of(&a.pools, on).map_err(failed)?;
    let want = Want { of: Of::Permits, pools: place.names.clone(), n: a.count, wait: !a.nonblock };
    want.check_as(|own| place.name(own)).map_err(|e| failed(anyhow!(e)))?;
    let ttl = a.ttl.or(place.ttl).unwrap_or(life::USUAL);
    life::check(ttl).map_err(|e| failed(anyhow!(e)))?;
    refuse(a, &place).map_err(failed)?;
    let mut place = place;
    place.options.allow_old_engine = a.allow_old_engine;
    if let Some(patience) = a.connect_timeout {
        place.options.connect_timeout = patience;
    }

    let (began, starting) = (Instant::now(), Starting::of(&place, a.on_loss));
    let etcd = place.connect_within(a.timeout).map_err(|e| failed(e.into()))?;
    if !a.nested {
        refuse_itself(&etcd, &place).map_err(failed)?;
    }
    if let Some(permits) = a.create {
        let permits = permits.unwrap_or_else(|| a.count.into());
        for pool in &place.names {
            pools::make(&etcd, &place, pool, pools::of(permits).map_err(failed)?, false).map_err(failed)?;
        }
    }
    let until = Until::of(a.timeout, a.nonblock);
    let (on_loss, label) = (a.on_loss, label(&a.command));
    let how = Wait { want: &want, ttl, began, until, on_loss, label, json };
    let Got { grant, object, held, session, keeper, line: (read, write) } = wait(&place, &etcd, starting, &how)?;
    let size = object.permits();
    // The attempt may have another name by now: the keeper looks for this one.
    let mark = keeper.mark();
    let waited = began.elapsed();

    let pool = &want.pools[grant.pool];
    let permit = |index: &u32| if size > 1 { format!("{}:{index}", place.name(pool)) } else { place.name(pool) };
    let names: Vec<String> = grant.indices.iter().map(permit).collect();
    if json {
        tell(json!({
            "event": "acquired", "permit": names[0], "permits": names, "pool": place.name(pool), "index": grant.pool,
            "permit_index": grant.indices[0], "waited_ms": ms(waited), "token": grant.token, "remote": place.called,
            "owner_died": grant.owner_died,
        }));
    }
    let words = |all: Vec<String>| all.join(" ");
    let token = grant.token.to_string();
    let mut environment = vec![
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
    environment.extend(a.env.iter().map(|variable| (variable.as_str(), device(pool, size, &grant.indices).into())));
    if grant.owner_died {
        environment.push(("CHAPPE_OWNER_DIED", "1".into()));
        say(json, &format!("the last holder of {} died, and may have left it half done", names[0]));
    }
    let mut held = Held { waited: waited > Duration::from_millis(500), ..held };
    let mut hold = Hold::of(etcd.clone(), session, held.clone(), a.on_loss, Some(keeper));
    let command = a.replace.as_ref().map_or_else(|| a.command.clone(), |mark| filled_in(&a.command, mark, &names[0]));
    let mut crew = Crew::new(read, mark, std::process::id() as i32);
    if hold.is_lost() {
        // Stopped since it was granted. Its keeper gives back what is left.
        return Err(failed(anyhow!("permit {} was lost before the command began", names[0])));
    }
    // From here on it may have begun.
    hold.leaves(vec![], End::Left);
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
            // It never began.
            hold.leaves(vec![], held.end);
            // Without an answer its keeper gives it back.
            if drive::release(&etcd, &mut held.release(place.space()), || true).is_ok() {
                hold.end();
            }
            return Err(e);
        }
    };
    // One that could not mend what another had left says so by its status.
    held.end = End::of(object, matches!(ran.ended, Ended::Exited(status) if status == 0 || !grant.owner_died));
    let left: Vec<i32> = ran.left.iter().map(|process| process.pid).collect();
    crew.leaves(&left);
    // What the job left running keeps the permit: the keeper stays for it.
    let mut goes_on = !(a.job.close || left.is_empty() && crew.line_has_ended());
    let ends = hold.is_lost() && a.on_loss != OnLoss::Warn;
    if goes_on {
        // How they end nobody is told: the next holder is to look.
        held.end = End::Left;
    }
    if goes_on && (ends || !hold.leaves(left, held.end)) {
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
        let mut is_back = true;
        if lost.is_empty() {
            let gives_up = Instant::now() + Duration::from_secs(3);
            match drive::release(&etcd, &mut held.release(place.space()), || Instant::now() >= gives_up) {
                Ok(gone) => lost = gone,
                Err(why) => {
                    is_back = false;
                    say(json, &format!("permit {} comes back when its lease ends: {why}", names[0]));
                }
            }
        }
        // Else its keeper gives it back as soon as the engine answers, as this would have.
        if is_back || !hold.leaves(vec![], held.end) {
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

/// The job's marks: of this permit, and of those under which it waited for it.
fn marks(id: &str) -> String {
    std::env::var(MARK).map_or_else(|_| id.to_owned(), |outer| format!("{outer},{id}"))
}
