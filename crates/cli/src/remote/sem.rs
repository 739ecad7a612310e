//! `chappe sem` on an engine. A unit has no owner.

use super::Place;
use super::pools::{make, newer, other, see, unknown};
use super::wait::{Starting, Wait, attempt, leave, wait};
use crate::args::OnLoss;
use crate::ended::FAILED;
use crate::look::ms;
use crate::said::{Failure, failed};
use crate::take::Until;
use anyhow::{Result, anyhow, bail};
use chappe::remote::acquire::{Of, Want};
use chappe::remote::add::{Add, MOST, Outcome};
use chappe::remote::drive;
use chappe::remote::etcd::Etcd;
use chappe::remote::keys::Object;
use chappe::remote::life;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// `chappe sem create`.
///
/// # Errors
/// That it is there already, or the engine's.
pub fn create(place: &Place, etcd: &Etcd, name: &str, value: u64) -> Result<Value> {
    let fits = u32::try_from(value).ok().filter(|value| *value <= MOST);
    let value = fits.ok_or_else(|| anyhow!("a semaphore has 0 to {MOST} units, not {value}"))?;
    make(etcd, place, name, Object::Sem { value }, true)?;
    Ok(json!({ "name": place.name(name), "value": value, "barging": false }))
}

/// What a semaphore's value is.
///
/// # Errors
/// That there is none, or the engine's.
pub fn value(place: &Place, etcd: &Etcd, name: &str) -> Result<u32> {
    match see(etcd, place, name)?.object.map(|object| object.what) {
        Some(Object::Sem { value }) => Ok(value),
        Some(object) => bail!(other(place, name, object)),
        None => bail!(unknown(place, name, Of::Units)),
    }
}

/// `chappe sem up`.
///
/// # Errors
/// That they were not added, or that this is not known.
pub fn up(place: &Place, etcd: &Etcd, name: &str, count: u32) -> Result<Value> {
    let called = place.name(name);
    // By its lease it is known whether they were added when an answer is lost.
    let session =
        etcd.session(place.ttl.unwrap_or(life::USUAL)).map_err(|e| anyhow!("the engine gives no lease: {e}"))?;
    let by = attempt(session.lease(), 1, &format!("chappe sem up {called}"));
    let until = Instant::now() + place.options.connect_timeout;
    let mut machine = Add::new(place.space(), by, name.to_owned(), count);
    let came = drive::add(etcd, &mut machine, || Instant::now() >= until || session.is_over());
    // Without an answer the lease ends by itself.
    let _ = session.end();
    match came {
        Ok(Outcome::Added(value)) => Ok(json!({ "name": called, "added": count, "value": value })),
        Ok(Outcome::NoSem) => bail!(unknown(place, name, Of::Units)),
        Ok(Outcome::Other(object)) => bail!(other(place, name, object)),
        Ok(Outcome::TooMany(value)) => {
            bail!("semaphore `{called}` has {value}, and {count} more would be too many: {MOST} are possible")
        }
        Ok(Outcome::Newer(format)) => bail!(newer(place, format)),
        Ok(Outcome::Lost) => bail!("nothing was added to `{called}`: the lease ended before"),
        Ok(Outcome::Unsure(why)) => {
            bail!(
                "it is not known whether {count} were added to `{called}`: an answer of the engine was lost, and then: {why}"
            )
        }
        Ok(Outcome::Refused(why)) => bail!("the engine refuses: {why}"),
        Err(why) => bail!("the engine does not answer, and may have added them: {why}"),
    }
}

/// `chappe sem down`: 0 says that one unit was taken, 124 that none was. A unit that is given to a waiter which is killed before it returns is
/// spent; one that is stopped for longer than its lease, or cut off, learns later what it was given.
///
/// # Errors
/// With the status that says which kind of failure it is: 1 also if it is not known.
pub fn down(
    place: &Place,
    etcd: &Etcd,
    name: &str,
    timeout: Option<Duration>,
    nonblock: bool,
    json: bool,
) -> Result<Value, Failure> {
    let want = Want { of: Of::Units, pools: vec![name.to_owned()], n: 1, wait: !nonblock };
    let (ttl, began) = (place.ttl.unwrap_or(life::USUAL), Instant::now());
    life::check(ttl).map_err(|e| failed(anyhow!(e)))?;
    let (until, label) = (Until::of(timeout, nonblock), format!("chappe sem down {}", place.name(name)));
    let how = Wait { want: &want, ttl, began, until, on_loss: OnLoss::Warn, label, json };
    // What runs no job fails as other commands do.
    let own = |failure: Failure| if failure.status == FAILED { failed(failure.why) } else { failure };
    let got = wait(place, etcd, Starting::of(place, OnLoss::Warn), &how).map_err(own)?;
    let waited = began.elapsed();
    leave(got.session, Some(got.keeper));
    // What has become of it since is none of this one's business.
    let value = value(place, etcd, name).ok();
    Ok(json!({ "name": place.name(name), "value": value, "waited_ms": ms(waited) }))
}
