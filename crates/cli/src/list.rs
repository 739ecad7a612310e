//! `chappe ls` and `chappe show`, to people and to programs.

use crate::look::{
    JobView, Name, Row, UnseenView, WaiterView, by_priority_text, called, find, holder_text, is_foreign, job_text,
    jobs, kept_for, ms, no_place_of_arenas, permits_text, plain, state_text, who_text,
};
use crate::said::complain;
use crate::within::{Patience, too_long};
use crate::{family, time, tube};
use anyhow::{Result, anyhow};
use chappe::{Arena, Holder, LEASE_VARIABLE, ObjectInfo, ObjectState, Pool, Waiter};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;
use std::time::Duration;

/// `chappe ls`. Status 1 if an arena could not be looked at.
pub fn list(only: Option<&str>, json: bool) -> Result<(String, u8)> {
    let patience = Patience::new();
    let names = match only {
        Some(one) => vec![one.to_owned()],
        None => patience.look(Duration::ZERO, Arena::list).ok_or_else(|| anyhow!(too_long("the directory")))??,
    };
    let (mut all, mut complaints) = (Vec::new(), Vec::new());
    let (mut status, mut arenas, mut foreign) = (0, 0, 0);
    let mut others = if only.is_none() { terminals(None, json)? } else { Vec::new() };
    for name in names {
        let one = name.clone();
        let seen = patience.look(Duration::ZERO, move || Arena::open(&one).map(|arena| (arena, objects(arena))));
        let why = match seen {
            Some(Ok((arena, objects))) => {
                arenas += 1;
                all.extend(objects.into_iter().map(|info| (arena, info)));
                continue;
            }
            Some(Err(e)) => {
                (arenas, foreign) = if is_foreign(&e) { (arenas, foreign + 1) } else { (arenas + 1, foreign) };
                anyhow!(e)
            }
            None => anyhow!(too_long(&format!("arena `{name}`"))),
        };
        if only.is_some() {
            // Where no arena has that name an object may have it.
            let one = name.clone();
            if let Some(Ok(object)) = patience.look(Duration::ZERO, move || find(&one)) {
                all.push(object);
                continue;
            }
            others = terminals(Some(&name), json).map_err(|_| why)?;
            continue;
        }
        complaints.push(why.to_string());
        status = 1;
    }
    let complaints = no_place_of_arenas(arenas, foreign).map_or(complaints, |all| vec![all]);
    complaints.iter().for_each(|why| complain(json, why));
    if json {
        let rows = all.iter().map(|(arena, info)| Any::Object(Row::of(*arena, info)));
        let rows: Vec<Any> = rows.chain(others.into_iter().map(|(.., json)| Any::Terminal(json))).collect();
        return Ok((serde_json::to_string(&rows)? + "\n", status));
    }
    Ok((table(&all, others), status))
}

/// A terminal, which is in no arena: its name, how it is, and what JSON has.
type Listed = (String, String, Value);

/// A row of JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Any {
    Object(Row),
    Terminal(Value),
}

/// All terminals, or the one of a name.
#[cfg(feature = "term")]
fn terminals(only: Option<&str>, json: bool) -> Result<Vec<Listed>> {
    let (all, wrong) = crate::term::overview::list(only)?;
    wrong.iter().for_each(|e| complain(json, &e.to_string()));
    Ok(all)
}

#[cfg(not(feature = "term"))]
fn terminals(only: Option<&str>, _: bool) -> Result<Vec<Listed>> {
    only.map_or(Ok(Vec::new()), |name| Err(anyhow!("this chappe knows no terminal `{name}`")))
}

fn objects(arena: Arena) -> Vec<ObjectInfo> {
    arena.map().recover_all();
    let held = |info: &ObjectInfo| matches!(&info.state, ObjectState::Pool(p) if p.held > 0);
    let pool = |info: ObjectInfo| Pool::in_arena(arena, &info.name).ok();
    for pool in arena.objects().into_iter().filter(held).filter_map(pool) {
        pool.reclaim();
    }
    arena.objects()
}

fn table(all: &[(Arena, ObjectInfo)], others: Vec<Listed>) -> String {
    let object = |(arena, info): &(Arena, ObjectInfo)| {
        (plain(&called(*arena, info)), info.kind, info.waiting, state_text(&info.state))
    };
    let terminal = |(name, state, _): Listed| (name, "terminal", 0, state);
    let rows: Vec<(String, &str, u32, String)> =
        all.iter().map(object).chain(others.into_iter().map(terminal)).collect();
    let wide = rows.iter().map(|row| row.0.len()).max().unwrap_or(0).max(4);
    let kind = rows.iter().map(|row| row.1.len()).max().unwrap_or(0);
    let mut text = String::new();
    if !rows.is_empty() {
        let _ = writeln!(text, "{:wide$}  {:kind$}  WAITING  STATE", "NAME", "KIND");
    }
    for (name, of, waiting, state) in rows {
        let line = format!("{name:wide$}  {of:kind$}  {waiting:>7}  {state}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[derive(Serialize)]
struct View {
    #[serde(flatten)]
    row: Row,
    #[serde(skip_serializing_if = "Option::is_none")]
    holders: Option<Vec<HolderView>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<Vec<JobView>>,
    waiters: Vec<WaiterView>,
    #[serde(flatten)]
    tube: Option<tube::Shown>,
    #[serde(flatten)]
    cast: Option<tube::Broadcasts>,
}

#[derive(Serialize)]
struct HolderView {
    permit: String,
    index: u32,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid_namespace: Option<u64>,
    label: String,
    held_ms: u64,
    held_exact: bool,
    leased: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    job_pids: Vec<u32>,
    orphan: bool,
    set_aside: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    unseen: Option<UnseenView>,
}

/// `chappe show`.
pub fn show(name: &str, interval: Option<Duration>, json: bool) -> Result<String> {
    let one = name.to_owned();
    let shown = Patience::new().look(interval.unwrap_or_default(), move || look(&one, interval, json));
    shown.ok_or_else(|| anyhow!(too_long(&format!("`{name}`"))))?
}

fn look(name: &str, interval: Option<Duration>, json: bool) -> Result<String> {
    let (arena, mut info) = find(name)?;
    let mut rates = None;
    if let Some(interval) = interval {
        let (now, measured) = tube::watch(arena, &info, interval)?;
        (info, rates) = (now, Some(measured));
    }
    let pool = if let ObjectState::Pool(_) = info.state { Some(Pool::in_arena(arena, &info.name)?) } else { None };
    let waiters = match &info.state {
        ObjectState::Tube(tube) => tube.receivers_waiting.clone(),
        _ => arena.waiters(&info.name)?,
    };
    let jobs = if let ObjectState::RwLock { .. } = info.state { jobs(&called(arena, &info)) } else { Vec::new() };
    if !json {
        let waiting = if let ObjectState::Tube(_) = info.state { info.waiting as usize } else { waiters.len() };
        let mut text = first_line(&plain(&called(arena, &info)), &info, waiting);
        text += &match (&info.state, &pool) {
            (ObjectState::Tube(tube), _) => tube::show_text(tube, rates.as_ref()),
            (ObjectState::Broadcast(tube), _) => tube::broadcast_text(tube) + &show_text(None, &waiters),
            (_, pool) => {
                jobs.iter().map(|job| format!("  {}\n", job_text(job))).collect::<String>()
                    + &show_text(pool.as_ref(), &waiters)
            }
        };
        return Ok(text);
    }
    let holders = pool.map(|pool| {
        let names = Name::of(&pool);
        pool.holders().into_iter().map(|h| HolderView::of(h, &names)).collect()
    });
    let tube = if let ObjectState::Tube(tube) = &info.state { Some(tube::Shown::of(tube, rates)) } else { None };
    let cast = if let ObjectState::Broadcast(tube) = &info.state { Some(tube::Broadcasts::of(tube)) } else { None };
    let is_lock = matches!(info.state, ObjectState::RwLock { .. });
    let jobs = is_lock.then(|| jobs.into_iter().map(JobView::from).collect());
    let view = View { row: Row::of(arena, &info), holders, jobs, waiters: WaiterView::all(waiters), tube, cast };
    Ok(serde_json::to_string(&view)? + "\n")
}

impl HolderView {
    fn of(h: Holder, names: &Name) -> HolderView {
        HolderView {
            job_pids: job_pids(&h),
            permit: names.permit(h.index),
            index: h.index,
            pid: h.who.pid,
            tid: h.who.tid,
            pid_namespace: h.who.elsewhere(),
            label: h.who.label,
            held_ms: ms(h.held),
            held_exact: h.exact,
            leased: h.leased,
            orphan: h.orphan,
            set_aside: h.set_aside,
            unseen: h.unseen.map(UnseenView::from),
        }
    }
}

/// The first processes of a job for which a living holder keeps its permit: its children with the mark of a lease. None that may not be looked at.
fn job_pids(h: &Holder) -> Vec<u32> {
    if !h.leased || h.orphan || h.who.elsewhere().is_some() {
        return Vec::new();
    }
    let mark = format!("{LEASE_VARIABLE}=");
    let is_marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|b| *b == 0).any(|variable| variable.starts_with(mark.as_bytes()))
    };
    family::children(h.who.pid).into_iter().filter(is_marked).collect()
}

fn first_line(name: &str, info: &ObjectInfo, waiting: usize) -> String {
    let text = match &info.state {
        ObjectState::Pool(p) => {
            format!("{name}: {}, {} free{}", permits_text(p.permits), p.free, by_priority_text(p.discipline))
        }
        ObjectState::Condvar => format!("{name}: {}", info.kind),
        // The jobs follow.
        state if kept_for(state).is_some() => format!("{name}: {}, kept", info.kind),
        other => format!("{name}: {}, {}", info.kind, state_text(other)),
    };
    format!("{text}, {waiting} waiting\n")
}

fn show_text(pool: Option<&Pool>, waiters: &[Waiter]) -> String {
    let mut text = String::new();
    if let Some(pool) = pool {
        let names = Name::of(pool);
        for h in pool.holders() {
            if h.set_aside {
                let _ = writeln!(text, "  {}  set aside for {}", names.permit(h.index), who_text(&h.who));
                continue;
            }
            let pids: Vec<String> = job_pids(&h).iter().map(u32::to_string).collect();
            let kind = match (h.orphan, h.leased, pids.as_slice()) {
                (true, ..) => ", orphan".to_owned(),
                (_, true, []) => ", leased".to_owned(),
                (_, true, [job]) => format!(", leased to its job, pid {job}"),
                (_, true, jobs) => format!(", leased to its jobs, pids {}", jobs.join(", ")),
                _ => String::new(),
            };
            let (permit, who, since) = (names.permit(h.index), holder_text(&h), time::at(h.held));
            let _ = writeln!(text, "  {permit}  held by {who}, since {since}{kind}");
        }
    }
    for (place, w) in (1..).zip(waiters) {
        let priority = if w.priority > 0 { format!(", priority {}", w.priority) } else { String::new() };
        let _ = writeln!(text, "  {place}. in line: {} for {}{priority}", who_text(&w.who), time::show(w.waiting));
    }
    text
}
