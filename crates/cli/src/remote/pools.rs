//! Making, resizing, removing, listing and showing remote pools, and taking permits away.

use super::Place;
use crate::eyes::metrics;
use crate::look::{permits_text, plain};
use crate::names;
use crate::said::complain;
use anyhow::{Result, anyhow, bail, ensure};
use chappe::remote::acquire::newer as newer_format;
use chappe::remote::drive;
use chappe::remote::engine::{Compare, Engine, EngineError, Entry, Keys, LeaseId, Op, Reply, Test, Txn, TxnReply};
use chappe::remote::etcd::Etcd;
use chappe::remote::keys::{self, Format, MOST_PERMITS, Part, Size};
use chappe::remote::release::Release;
use chappe::remote::view::View;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

fn engine_said(e: EngineError) -> anyhow::Error {
    match e {
        EngineError::Unknown(why) => anyhow!("the engine does not answer, and may have done it: {why}"),
        e => anyhow!("the engine refuses: {e}"),
    }
}

fn is(key: String, is: Test) -> Compare {
    Compare { keys: Keys::One(key), is }
}

/// Does something to a pool as it is seen, again if it has changed meanwhile.
fn change(etcd: &Etcd, txn: impl Fn() -> Result<Txn>) -> Result<TxnReply> {
    loop {
        let reply = etcd.txn(&txn()?).map_err(engine_said)?;
        if reply.held {
            return Ok(reply);
        }
    }
}

/// A pool as it is.
fn see(etcd: &Etcd, place: &Place, pool: &str) -> Result<View> {
    let space = place.space();
    let reply = etcd.txn(&chappe::remote::grant::look(&space, &[pool.to_owned()])).map_err(engine_said)?;
    let [Reply::Found(format), Reply::Found(entries)] = reply.replies.as_slice() else {
        bail!("the engine's answer makes no sense");
    };
    if let Some(format) = newer_format(format) {
        bail!(newer(place, format));
    }
    Ok(View::of(&space, pool, entries, reply.revision))
}

/// One that must be there, with its number of permits.
fn seen(etcd: &Etcd, place: &Place, pool: &str) -> Result<(View, u32)> {
    let view = see(etcd, place, pool)?;
    let Some((permits, _)) = view.size else { bail!(unknown(place, pool)) };
    Ok((view, permits))
}

/// Whether one of these attempts, separated by commas, has a permit of it.
pub fn is_held_by(etcd: &Etcd, place: &Place, pool: &str, attempts: &str) -> bool {
    let is = |id: &str, attempt: &str| {
        id.strip_prefix(attempt).is_some_and(|rest| matches!(rest.get(..1), None | Some(".")))
    };
    let own = |id: &str| attempts.split(',').any(|attempt| is(id, attempt));
    see(etcd, place, pool).is_ok_and(|view| view.held.values().any(|held| own(&held.holder.id)))
}

/// That there is no such pool.
pub fn unknown(place: &Place, pool: &str) -> String {
    let name = place.name(pool);
    format!("there is no pool `{name}` on {}: `chappe pool create {name} --permits N` makes it", place.options.url())
}

/// That a newer chappe wrote there.
pub fn newer(place: &Place, format: u32) -> String {
    format!(
        "what is on {} has format {format}, and this chappe knows {}: it is older than what wrote there",
        place.options.url(),
        keys::FORMAT
    )
}

/// Makes a pool. One that is there already is an error with `anew`, or if it has another size.
pub fn make(etcd: &Etcd, place: &Place, pool: &str, permits: u64, anew: bool) -> Result<u32> {
    let permits = permits_of(permits)?;
    let (space, name) = (place.space(), place.name(pool));
    let view = see(etcd, place, pool)?;
    match view.size {
        Some(_) if anew => bail!("pool `{name}` is there already"),
        Some((has, _)) if has != permits => bail!("pool `{name}` has {}, not {permits}", permits_text(has)),
        Some(_) => return Ok(permits),
        None => {}
    }
    let format = Op::Put { key: space.format(), value: keys::write(&Format { format: keys::FORMAT }), lease: None };
    let first = Txn { when: vec![is(space.format(), Test::Absent)], then: vec![format], otherwise: vec![] };
    let put = Op::Put { key: space.size(pool), value: keys::write(&Size { permits }), lease: None };
    let txn =
        Txn { when: vec![is(space.size(pool), Test::Absent)], then: vec![put, Op::Txn(first)], otherwise: vec![] };
    let reply = etcd.txn(&txn).map_err(engine_said)?;
    // Another was faster: it is there now.
    if reply.held { Ok(permits) } else { make(etcd, place, pool, permits.into(), anew) }
}

fn permits_of(permits: u64) -> Result<u32> {
    let fits = u32::try_from(permits).ok().filter(|permits| (1..=MOST_PERMITS).contains(permits));
    fits.ok_or_else(|| anyhow!("a pool on an engine has 1 to {MOST_PERMITS} permits, not {permits}"))
}

/// `chappe pool create`.
pub fn create(place: &Place, etcd: &Etcd, pool: &str, permits: u64) -> Result<Value> {
    names::refuse_numbers(&[pool.to_owned()], "pool", "--permits N")?;
    let permits = make(etcd, place, pool, permits, true)?;
    Ok(json!({ "name": place.name(pool), "permits": permits }))
}

/// `chappe pool resize`.
pub fn resize(place: &Place, etcd: &Etcd, pool: &str, permits: u64) -> Result<Value> {
    let (permits, space) = (permits_of(permits)?, place.space());
    change(etcd, || {
        let (view, _) = seen(etcd, place, pool)?;
        let size = view.size.map_or(0, |(_, revision)| revision);
        let put = Op::Put { key: space.size(pool), value: keys::write(&Size { permits }), lease: None };
        Ok(Txn { when: vec![is(space.size(pool), Test::Modified(size))], then: vec![put], otherwise: vec![] })
    })?;
    Ok(json!({ "name": place.name(pool), "permits": permits }))
}

/// `chappe pool rm`.
pub fn remove(place: &Place, etcd: &Etcd, pool: &str, force: bool) -> Result<Value> {
    let (space, name) = (place.space(), place.name(pool));
    let used = |part: &str| {
        let keys = match space.pool(pool) {
            Keys::Under(all) | Keys::One(all) => Keys::Under(format!("{all}{part}/")),
        };
        Compare { keys, is: Test::Absent }
    };
    change(etcd, || {
        let (view, _) = seen(etcd, place, pool)?;
        let is_used = !view.held.is_empty() || !view.queue.is_empty();
        if is_used && !force {
            bail!(
                "pool `{name}` is in use: {}, {} waiting; wait for them, or remove it all the same with --force: their jobs are ended",
                held_by(std::slice::from_ref(&view)),
                view.queue.len()
            );
        }
        let when = if force { vec![] } else { vec![used("held"), used("wait")] };
        Ok(Txn { when, then: vec![Op::Delete(space.pool(pool))], otherwise: vec![] })
    })?;
    Ok(json!({ "removed": name, "kind": "pool" }))
}

/// `chappe release`.
pub fn release(place: &Place, etcd: &Etcd, name: &str, index: Option<u32>, force: bool) -> Result<Value> {
    let (pool, index) = match name.rsplit_once(':').and_then(|(pool, at)| Some((pool, at.parse().ok()?))) {
        Some((pool, at)) if index.is_none() && see(etcd, place, name)?.size.is_none() => (pool, Some(at)),
        _ => (name, index),
    };
    let (view, permits) = seen(etcd, place, pool)?;
    let index = match index {
        Some(index) => index,
        None if permits == 1 => 0,
        None => bail!("pool `{0}` has {permits} permits: say which, `chappe release {0}:0 --force`", place.name(pool)),
    };
    let permit = if permits == 1 { place.name(pool) } else { format!("{}:{index}", place.name(pool)) };
    let Some(held) = view.held.get(&index) else { bail!("permit {permit} is not held") };
    let whose = who(&held.holder.who);
    ensure!(
        force,
        "permit {permit} is held by {whose}; it comes back when that ends. To take it away all the same: `chappe release {permit} --force`"
    );
    let mut machine = Release::new(place.space(), pool.to_owned(), vec![index], held.token, true);
    let lost = drive::release(etcd, &mut machine, || true).map_err(|e| anyhow!("the engine does not answer: {e}"))?;
    ensure!(
        lost.is_empty(),
        "permit {permit} is held by {whose} no longer: it came back, or was taken away, meanwhile"
    );
    complain(
        false,
        &format!(
            "the job of {whose} is ended at once; if its machine is cut off it may run on for its lease: check CHAPPE_TOKEN"
        ),
    );
    let taken = json!({ "host": held.holder.who.host, "pid": held.holder.who.pid, "label": held.holder.who.label });
    Ok(json!({ "permit": permit, "taken_from": taken, "token": held.token }))
}

/// "held by a1:4242 `train`, ...".
pub fn held_by(views: &[View]) -> String {
    const MOST: usize = 4;
    let all: Vec<String> = views.iter().flat_map(|view| view.held.values()).map(|held| who(&held.holder.who)).collect();
    match all.len() {
        0 => "a permit is coming back".into(),
        n if n <= MOST => format!("held by {}", all.join(", ")),
        n => format!("held by {} and {} more", all[..MOST].join(", "), n - MOST),
    }
}

fn who(who: &keys::Who) -> String {
    plain(&format!("{} pid {} `{}`", who.host, who.pid, who.label))
}

/// All pools of an engine.
fn all(place: &Place, etcd: &Etcd) -> Result<Vec<(String, View)>> {
    let space = place.space();
    let reply = etcd.txn(&Txn::of(vec![Op::Get(space.pools())])).map_err(engine_said)?;
    let Some(Reply::Found(entries)) = reply.replies.first() else { bail!("the engine's answer makes no sense") };
    let part = |entry: &Entry| space.part(&entry.key).map(|(pool, part)| (pool.to_owned(), part == Part::Size));
    let pools: BTreeSet<String> =
        entries.iter().filter_map(part).filter(|(_, size)| *size).map(|(pool, _)| pool).collect();
    Ok(pools.into_iter().map(|pool| (pool.clone(), View::of(&space, &pool, entries, reply.revision))).collect())
}

/// `chappe metrics @REMOTE`: by the names of local pools. An engine that cannot be read is said to be down.
pub fn exposition(place: &Place) -> Result<String> {
    let views = place.connect().map_err(|e| anyhow!(e)).and_then(|etcd| all(place, &etcd));
    let mut out = String::new();
    let arena = metrics::label(&place.called);
    metrics::head(&mut out, "chappe_arena_up", "gauge", "1 if the arena or engine could be looked at.");
    let _ = writeln!(out, "chappe_arena_up{{arena=\"{arena}\"}} {}", u8::from(views.is_ok()));
    type Of = fn(&View) -> usize;
    let permits: Of = |view| view.size.map_or(0, |(permits, _)| permits as usize);
    let figures: [(&str, &str, Of); 3] = [
        ("chappe_pool_permits", "Permits that the pool has.", permits),
        ("chappe_pool_held", "Permits that are held.", |view| view.held.len()),
        ("chappe_pool_waiting", "Waiters.", |view| view.queue.len()),
    ];
    for (name, help, of) in figures {
        metrics::head(&mut out, name, "gauge", help);
        for (pool, view) in views.iter().flatten() {
            let _ = writeln!(out, "{name}{{arena=\"{arena}\",name=\"{}\"}} {}", metrics::label(pool), of(view));
        }
    }
    Ok(out)
}

/// `chappe ls @REMOTE`.
pub fn list(place: &Place, etcd: &Etcd, json: bool) -> Result<String> {
    let views = all(place, etcd)?;
    if json {
        let rows: Vec<Value> = views.iter().map(|(pool, view)| row(place, pool, view)).collect();
        return Ok(serde_json::to_string(&rows)? + "\n");
    }
    let wide = views.iter().map(|(pool, _)| place.name(pool).len()).max().unwrap_or(0).max(4);
    let mut text = String::new();
    if !views.is_empty() {
        let _ = writeln!(text, "{:wide$}  KIND  WAITING  STATE", "NAME");
    }
    for (pool, view) in &views {
        let permits = view.size.map_or(0, |(permits, _)| permits);
        let state = format!("{} of {} held", view.held.len(), permits_text(permits));
        let _ = writeln!(text, "{:wide$}  pool  {:>7}  {state}", place.name(pool), view.queue.len());
    }
    Ok(text)
}

fn row(place: &Place, pool: &str, view: &View) -> Value {
    let permits = view.size.map_or(0, |(permits, _)| permits);
    json!({
        "name": place.name(pool), "kind": "pool", "permits": permits, "held": view.held.len(), "waiting": view.queue.len(),
    })
}

/// `chappe show`.
pub fn show(place: &Place, etcd: &Etcd, pool: &str, json: bool) -> Result<String> {
    let (view, permits) = seen(etcd, place, pool)?;
    let left = |lease: Option<LeaseId>| lease.and_then(|lease| etcd.left(lease).ok()).map(|left| left.as_secs());
    let holders: Vec<(u32, &chappe::remote::view::Held, Option<u64>)> =
        view.held.iter().map(|(index, held)| (*index, held, left(held.lease))).collect();
    if json {
        let mut all = row(place, pool, &view);
        let holder = |(index, held, left): &(u32, &chappe::remote::view::Held, Option<u64>)| {
            let who = &held.holder.who;
            json!({ "index": index, "host": who.host, "pid": who.pid, "label": who.label, "token": held.token, "lease_seconds": left })
        };
        all["holders"] = holders.iter().map(holder).collect();
        let waiter = |waiting: &chappe::remote::view::Waiting| {
            let (who, ticket) = (&waiting.ticket.who, &waiting.ticket);
            json!({ "host": who.host, "pid": who.pid, "label": who.label, "wants": ticket.n, "pools": ticket.pools })
        };
        all["waiters"] = view.queue.values().map(waiter).collect();
        return Ok(format!("{all}\n"));
    }
    let mut text = format!(
        "pool {}: {} of {} held, {} waiting\n",
        place.name(pool),
        view.held.len(),
        permits_text(permits),
        view.queue.len()
    );
    for (index, held, left) in holders {
        let lease = left.map_or_else(|| "lease unknown".to_owned(), |left| format!("lease {left}s"));
        let _ = writeln!(text, "  {index}  {}, token {}, {lease}", who(&held.holder.who), held.token);
    }
    for (at, waiting) in view.queue.values().enumerate() {
        let wants = if waiting.ticket.n > 1 { format!(", wants {}", waiting.ticket.n) } else { String::new() };
        let _ = writeln!(text, "  waits as {}: {}{wants}", at + 1, who(&waiting.ticket.who));
    }
    Ok(text)
}
