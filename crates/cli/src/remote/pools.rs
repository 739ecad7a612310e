//! Making, resizing, removing, listing and showing remote pools, mutexes and semaphores, and taking permits away.

use super::Place;
use crate::eyes::metrics;
use crate::look::{permits_text, plain};
use crate::names;
use crate::said::complain;
use anyhow::{Result, anyhow, bail, ensure};
use chappe::remote::RemoteError;
use chappe::remote::acquire::Of;
use chappe::remote::connection::Link;
use chappe::remote::drive;
use chappe::remote::engine::{
    Compare, Engine, EngineError, Entry, Keys, LeaseId, Op, Reply, Revision, Test, Txn, TxnReply,
};
use chappe::remote::etcd::Etcd;
use chappe::remote::grant::{End, Own};
use chappe::remote::keys::{self, MOST_PERMITS, Object, Part, Tail};
use chappe::remote::release::Release;
use chappe::remote::view::{Known, View};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

pub fn engine_said(e: EngineError) -> anyhow::Error {
    match e {
        EngineError::Unknown(why) => anyhow!("the engine does not answer, and may have done it: {why}"),
        EngineError::Full(why) => anyhow!("the engine has no room, and may have done it: {why}"),
        e => anyhow!("the engine refuses: {e}"),
    }
}

/// Does something to a pool as it is seen, again if it has changed meanwhile.
fn change(etcd: &Etcd, mut txn: impl FnMut() -> Result<Txn>) -> Result<TxnReply> {
    loop {
        let reply = etcd.txn(&txn()?).map_err(engine_said)?;
        if reply.held {
            return Ok(reply);
        }
    }
}

/// An object as it is.
pub fn see(etcd: &Etcd, place: &Place, pool: &str) -> Result<View> {
    let space = place.space();
    let reply = etcd.txn(&chappe::remote::grant::look(&space, &[pool.to_owned()])).map_err(engine_said)?;
    let [Reply::Found(format), Reply::Found(entries)] = reply.replies.as_slice() else {
        bail!("the engine's answer makes no sense");
    };
    if let Some(format) = keys::newer(format) {
        bail!(newer(place, format));
    }
    Ok(View::of(&space, pool, entries, reply.revision))
}

/// One that must be there.
pub fn seen(etcd: &Etcd, place: &Place, pool: &str) -> Result<(View, Known)> {
    let view = see(etcd, place, pool)?;
    let Some(known) = view.object else { bail!(unknown(place, pool, Of::Either)) };
    Ok((view, known))
}

/// Whether one of these attempts, separated by commas, has a permit of it.
pub fn is_held_by(etcd: &Etcd, place: &Place, pool: &str, attempts: &str) -> bool {
    let is = |id: &str, attempt: &str| {
        id.strip_prefix(attempt).is_some_and(|rest| matches!(rest.get(..1), None | Some(".")))
    };
    let own = |id: &str| attempts.split(',').any(|attempt| is(id, attempt));
    see(etcd, place, pool).is_ok_and(|view| view.held.values().any(|held| own(&held.holder.id)))
}

/// That there is no such object.
pub fn unknown(place: &Place, pool: &str, of: Of) -> String {
    let (name, url) = (place.name(pool), place.options.url());
    let (what, how) = match of {
        Of::Permits | Of::Pools | Of::Mutexes | Of::Either => ("pool", format!("pool create {name} --permits N")),
        Of::Units => ("semaphore", format!("sem create {name}")),
    };
    format!("there is no {what} `{name}` on {url}: `chappe {how}` makes it")
}

/// That it is another kind of object.
pub fn other(place: &Place, pool: &str, object: Object) -> String {
    let name = place.name(pool);
    match object {
        Object::Sem { .. } => {
            format!("`{name}` is a semaphore: `chappe sem down {name}` takes of it, and nothing comes back")
        }
        Object::Tube { .. } => format!("`{name}` is a tube: `chappe recv {name}` receives from it"),
        Object::Pool { .. } | Object::Mutex { .. } => {
            format!("`{name}` is a {}: `chappe acquire {name} -- COMMAND` takes of it", object.kind())
        }
    }
}

/// That a newer chappe wrote there.
pub fn newer(place: &Place, format: u32) -> String {
    format!(
        "what is on {} has format {format}, and this chappe knows {}: it is older than what wrote there",
        place.options.url(),
        keys::FORMAT
    )
}

/// Makes an object. One that is there already is an error with `anew`, or if it is another one.
///
/// # Errors
/// That, or the engine's.
pub fn make(etcd: &Etcd, place: &Place, name: &str, object: Object, anew: bool) -> Result<()> {
    let called = place.name(name);
    match (place.site().make(&link(etcd), name, object), object) {
        (Ok(()), _) => Ok(()),
        (Err(e @ RemoteError::Exists { .. }), _) if anew => bail!(e),
        (Err(RemoteError::Exists { is: Object::Pool { permits: has }, .. }), Object::Pool { permits }) => {
            ensure!(has == permits, "pool `{called}` has {}, not {permits}", permits_text(has));
            Ok(())
        }
        // Its one permit is what a pool of one has.
        (Err(RemoteError::Exists { is: Object::Mutex { .. }, .. }), Object::Pool { permits: 1 }) => Ok(()),
        (Err(RemoteError::Exists { is, .. }), _) => {
            ensure!(is.kind() == object.kind(), "`{called}` is a {} there, and no {}", is.kind(), object.kind());
            Ok(())
        }
        (Err(e), _) => bail!(e),
    }
}

fn link(etcd: &Etcd) -> Link {
    Link(Arc::new(etcd.clone()))
}

/// A pool of so many permits.
///
/// # Errors
/// That there is no such pool.
pub fn of(permits: u64) -> Result<Object> {
    let fits = u32::try_from(permits).ok().filter(|permits| (1..=MOST_PERMITS).contains(permits));
    let permits = fits.ok_or_else(|| anyhow!("a pool on an engine has 1 to {MOST_PERMITS} permits, not {permits}"))?;
    Ok(Object::Pool { permits })
}

/// `chappe pool create`.
pub fn create(place: &Place, etcd: &Etcd, pool: &str, permits: u64, mutex: bool) -> Result<Value> {
    names::refuse_numbers(&[pool.to_owned()], "pool", "--permits N")?;
    let object = if mutex { Object::Mutex { taken: false } } else { of(permits)? };
    make(etcd, place, pool, object, true)?;
    let mut made = json!({ "name": place.name(pool), "permits": object.permits() });
    if mutex {
        made["mutex"] = json!(true);
    }
    Ok(made)
}

/// `chappe pool resize`.
pub fn resize(place: &Place, etcd: &Etcd, pool: &str, permits: u64) -> Result<Value> {
    let object = of(permits)?;
    place.site().resize(&link(etcd), pool, object.permits())?;
    Ok(json!({ "name": place.name(pool), "permits": object.permits() }))
}

/// `chappe pool rm`, `chappe sem rm`, `chappe tube rm`, each of these kinds, and `chappe rm`.
pub fn remove(place: &Place, etcd: &Etcd, pool: &str, of: Option<&[&str]>, force: bool) -> Result<Value> {
    let (space, name) = (place.space(), place.name(pool));
    let pages = space.pages(pool, 0, u64::MAX);
    let ends = [space.holders(pool), space.queue(pool), space.senders(pool), space.claims(pool), pages];
    let mut kind = "pool";
    change(etcd, || {
        let (view, known) = seen(etcd, place, pool)?;
        kind = known.what.kind();
        ensure!(of.is_none_or(|of| of.contains(&kind)), "`{name}` is a {kind}: `chappe rm {name}` removes it");
        let is_used = !view.held.is_empty() || !view.queue.is_empty();
        if is_used && !force {
            bail!(
                "{kind} `{name}` is in use: {}, {} waiting; wait for them, or remove it all the same with --force: their jobs are ended",
                state(std::slice::from_ref(&view)),
                view.queue.len()
            );
        }
        ensure!(
            force || kind != "tube" || !has_some(etcd, &ends)?,
            "tube `{name}` is in use, or has records that nobody has received; --force removes it with what is in it: its senders and \
             receivers get an error"
        );
        let unused = ends.iter().map(|keys| Compare { keys: keys.clone(), is: Test::Absent });
        let when = if force { vec![] } else { unused.collect() };
        Ok(Txn { when, then: vec![Op::Delete(space.pool(pool)), Op::Delete(space.tube(pool))], otherwise: vec![] })
    })?;
    Ok(json!({ "removed": name, "kind": kind }))
}

/// Whether some of these are there.
fn has_some(etcd: &Etcd, all: &[Keys]) -> Result<bool> {
    let reply = etcd.txn(&Txn::of(all.iter().cloned().map(Op::Names).collect())).map_err(engine_said)?;
    Ok(reply.replies.iter().any(|reply| matches!(reply, Reply::Found(found) if !found.is_empty())))
}

/// `chappe release`.
pub fn release(place: &Place, etcd: &Etcd, name: &str, index: Option<u32>, force: bool) -> Result<Value> {
    let (pool, index) = match name.rsplit_once(':').and_then(|(pool, at)| Some((pool, at.parse().ok()?))) {
        Some((pool, at)) if index.is_none() && see(etcd, place, name)?.object.is_none() => (pool, Some(at)),
        _ => (name, index),
    };
    let (view, Known { what, .. }) = seen(etcd, place, pool)?;
    let permits = what.permits();
    ensure!(permits > 0, "{}", other(place, pool, what));
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
    let own = Own { pool: pool.to_owned(), token: held.token, end: End::Left };
    let mut machine = Release::new(place.space(), own, vec![index], true);
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

/// "held by a1:4242 `train`, ...", or "its value is 0" of a semaphore.
pub fn state(views: &[View]) -> String {
    const MOST: usize = 4;
    if let [View { object: Some(Known { what: Object::Sem { value }, .. }), queue, .. }] = views {
        return format!("its value is {value}, {} waiting", queue.len());
    }
    let all: Vec<String> = views.iter().flat_map(|view| view.held.values()).map(|held| who(&held.holder.who)).collect();
    match all.len() {
        0 => "a permit is coming back".into(),
        n if n <= MOST => format!("held by {}", all.join(", ")),
        n => format!("held by {} and {} more", all[..MOST].join(", "), n - MOST),
    }
}

pub fn who(who: &keys::Who) -> String {
    plain(&format!("{} pid {} `{}`", who.host, who.pid, who.label))
}

/// All pools of an engine, by their names.
fn all(place: &Place, etcd: &Etcd) -> Result<BTreeMap<String, View>> {
    Ok(read(place, etcd)?.0)
}

/// The same, and the revision of that.
///
/// # Errors
/// The engine's.
pub fn read(place: &Place, etcd: &Etcd) -> Result<(BTreeMap<String, View>, Revision)> {
    let space = place.space();
    let reply = etcd.txn(&Txn::of(vec![Op::Get(space.pools())])).map_err(engine_said)?;
    let Some(Reply::Found(entries)) = reply.replies.first() else { bail!("the engine's answer makes no sense") };
    let part = |entry: &Entry| space.part(&entry.key).map(|(pool, part)| (pool.to_owned(), part == Part::Size));
    let pools = entries.iter().filter_map(part).filter(|(_, size)| *size).map(|(pool, _)| pool);
    Ok((pools.map(|pool| (pool.clone(), View::of(&space, &pool, entries, reply.revision))).collect(), reply.revision))
}

/// `chappe metrics @REMOTE`: by the names of local objects. An engine that cannot be read is said to be down.
pub fn exposition(place: &Place) -> Result<String> {
    let etcd = place.connect().map_err(|e| anyhow!(e));
    let views = etcd.as_ref().map_err(|_| ()).and_then(|etcd| all(place, etcd).map_err(|_| ()));
    let mut out = String::new();
    let arena = metrics::label(&place.called);
    metrics::head(&mut out, "chappe_arena_up", "gauge", "1 if the arena or engine could be looked at.");
    let _ = writeln!(out, "chappe_arena_up{{arena=\"{arena}\"}} {}", u8::from(views.is_ok()));
    let value = |view: &View| match view.object.map(|object| object.what) {
        Some(Object::Sem { value }) => Some(value as usize),
        _ => None,
    };
    type Figure<'a> = &'a dyn Fn(&View) -> Option<usize>;
    let of_pool = |view: &View, figure: usize| (view.permits() > 0).then_some(figure);
    let figures: [(&str, &str, Figure<'_>); 5] = [
        ("chappe_pool_permits", "Permits that the pool has.", &|view| of_pool(view, view.permits() as usize)),
        ("chappe_pool_held", "Permits that are held.", &|view| of_pool(view, view.held.len())),
        ("chappe_pool_waiting", "Waiters.", &|view| of_pool(view, view.queue.len())),
        ("chappe_semaphore_value", "Units that are saved in it.", &value),
        ("chappe_semaphore_waiting", "Waiters.", &|view| value(view).map(|_| view.queue.len())),
    ];
    for (name, help, of) in figures {
        metrics::head(&mut out, name, "gauge", help);
        for (object, figure) in views.iter().flatten().filter_map(|(object, view)| Some((object, of(view)?))) {
            let _ = writeln!(out, "{name}{{arena=\"{arena}\",name=\"{}\"}} {figure}", metrics::label(object));
        }
    }
    let is_tube = |view: &View| matches!(view.object.map(|object| object.what), Some(Object::Tube { .. }));
    let named = views.iter().flatten().filter(|(_, view)| is_tube(view)).map(|(name, _)| name);
    // One that is removed meanwhile is left out.
    let tubes: Vec<(&String, Inside)> = match &etcd {
        Ok(etcd) => named.filter_map(|name| Some((name, Inside::of(place, etcd, name).ok()?))).collect(),
        Err(_) => vec![],
    };
    let figures: [(&str, &str, &str, fn(&Inside) -> u64); 4] = [
        ("chappe_tube_pages", "gauge", "Pages that nobody has acknowledged.", |tube| tube.pages as u64),
        ("chappe_tube_claims", "gauge", "Claims of receivers.", |tube| tube.claims as u64),
        ("chappe_tube_senders", "gauge", "Senders that are there.", |tube| tube.senders as u64),
        ("chappe_tube_sent_pages_total", "counter", "Pages that were sent.", |tube| tube.sent),
    ];
    for (name, sort, help, of) in figures {
        metrics::head(&mut out, name, sort, help);
        for (tube, inside) in &tubes {
            let _ = writeln!(out, "{name}{{arena=\"{arena}\",name=\"{}\"}} {}", metrics::label(tube), of(inside));
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
    let wide = views.keys().map(|pool| place.name(pool).len()).max().unwrap_or(0).max(4);
    let kinds = views.values().filter_map(|view| Some(view.object?.what.kind().len()));
    let kind_wide = kinds.max().unwrap_or(0).max(4);
    let mut text = String::new();
    if !views.is_empty() {
        let _ = writeln!(text, "{:wide$}  {:kind_wide$}  WAITING  STATE", "NAME", "KIND");
    }
    for (pool, view) in &views {
        let Some(Known { what, .. }) = view.object else { continue };
        let (name, kind, waiting) = (place.name(pool), what.kind(), view.queue.len());
        let _ = writeln!(text, "{name:wide$}  {kind:kind_wide$}  {waiting:>7}  {}", standing(what, view));
    }
    Ok(text)
}

/// "1 of 2 permits held".
pub fn standing(what: Object, view: &View) -> String {
    match what {
        Object::Pool { permits } => format!("{} of {} held", view.held.len(), permits_text(permits)),
        Object::Mutex { .. } if !view.held.is_empty() => "held".into(),
        Object::Mutex { taken: true } => "free, its last holder died".into(),
        Object::Mutex { taken: false } => "free".into(),
        Object::Sem { value } => format!("value {value}"),
        Object::Tube { pages, sealed, .. } => {
            format!(
                "room for {pages} page{}{}",
                if pages == 1 { "" } else { "s" },
                if sealed { ", sealed" } else { "" }
            )
        }
    }
}

/// An object as JSON has it.
pub fn row(place: &Place, pool: &str, view: &View) -> Value {
    let (name, waiting) = (place.name(pool), view.queue.len());
    let kind = view.object.map_or("pool", |object| object.what.kind());
    match view.object.map(|object| object.what) {
        Some(Object::Sem { value }) => json!({ "name": name, "kind": kind, "value": value, "waiting": waiting }),
        Some(Object::Mutex { taken }) => json!({
            "name": name, "kind": kind, "permits": 1, "held": view.held.len(), "waiting": waiting,
            "owner_died": taken && view.held.is_empty() || view.held.values().any(|held| held.holder.owner_died),
        }),
        Some(Object::Tube { pages, record, sealed }) => json!({
            "name": name, "kind": kind, "slots": pages, "size": record, "sealed": sealed,
        }),
        Some(Object::Pool { .. }) | None => json!({
            "name": name, "kind": kind, "permits": view.permits(), "held": view.held.len(), "waiting": waiting,
        }),
    }
}

/// `chappe show`.
pub fn show(place: &Place, etcd: &Etcd, pool: &str, json: bool) -> Result<String> {
    let (view, Known { what, .. }) = seen(etcd, place, pool)?;
    let left = |lease: Option<LeaseId>| lease.and_then(|lease| etcd.left(lease).ok()).map(|left| left.as_secs());
    let holders: Vec<(u32, &chappe::remote::view::Held, Option<u64>)> =
        view.held.iter().map(|(index, held)| (*index, held, left(held.lease))).collect();
    if let Object::Tube { .. } = what {
        return tube(place, etcd, pool, &view, json);
    }
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
    let mut text =
        format!("{} {}: {}, {} waiting\n", what.kind(), place.name(pool), standing(what, &view), view.queue.len());
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

/// What is in a tube, and its senders and receivers.
struct Inside {
    pages: usize,
    claims: usize,
    senders: usize,
    /// How many pages were sent since it was made.
    sent: u64,
}

impl Inside {
    fn of(place: &Place, etcd: &Etcd, name: &str) -> Result<Inside> {
        let space = place.space();
        let all = vec![
            Op::Names(space.pages(name, 0, u64::MAX)),
            Op::Names(space.claims(name)),
            Op::Names(space.senders(name)),
            Op::Get(Keys::One(space.tail(name))),
        ];
        let reply = etcd.txn(&Txn::of(all)).map_err(engine_said)?;
        let [Reply::Found(pages), Reply::Found(claims), Reply::Found(senders), Reply::Found(tail)] =
            reply.replies.as_slice()
        else {
            bail!("the engine's answer makes no sense");
        };
        let sent = tail.first().and_then(|entry| keys::read::<Tail>(&entry.value)).map_or(0, |tail| tail.pages);
        Ok(Inside { pages: pages.len(), claims: claims.len(), senders: senders.len(), sent })
    }
}

/// `chappe show` of a tube.
fn tube(place: &Place, etcd: &Etcd, name: &str, view: &View, json: bool) -> Result<String> {
    let what = view.object.map(|object| object.what);
    let Inside { pages, claims, senders, sent } = Inside::of(place, etcd, name)?;
    if json {
        let mut all = row(place, name, view);
        all["pages"] = json!(pages);
        all["claims"] = json!(claims);
        all["senders"] = json!(senders);
        all["sent_pages"] = json!(sent);
        return Ok(format!("{all}\n"));
    }
    let state = what.map_or_else(String::new, |what| standing(what, view));
    Ok(format!(
        "tube {}: {state}; {} there, {} claims, {} senders; {sent} were sent\n",
        place.name(name),
        pages,
        claims,
        senders,
    ))
}
