//! Showing pools and arenas, to people and to programs.

use crate::{tell, time};
use anyhow::Result;
use chappe::{Arena, Finding, Holder, LifeState, Pool, Waiter, Who};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// What a pool's permits are called.
pub struct Name {
    pool: String,
    several: bool,
}

impl Name {
    /// As the pool is now.
    pub fn of(pool: &Pool) -> Name {
        Name { pool: pool.name(), several: pool.permits() > 1 }
    }

    /// The permit's name: that of its pool if it is the only one.
    pub fn permit(&self, index: u32) -> String {
        if self.several || index > 0 { format!("{}:{index}", self.pool) } else { self.pool.clone() }
    }
}

/// Gives back what the dead held, so that what is shown is true.
pub fn recover(pool: &Pool) {
    if let Some(arena) = arena_of(pool) {
        arena.map().recover_dead();
    }
    pool.settle();
}

/// The arena of a named pool, unless it is gone.
pub fn arena_of(pool: &Pool) -> Option<Arena> {
    Arena::open(&split(&pool.name()).0).ok()
}

fn split(name: &str) -> (String, String) {
    let (arena, pool) = name.split_once('/').unwrap_or(("default", name));
    (arena.into(), pool.into())
}

fn ms(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// "pid 4242 `make -j8` for 3m12s".
pub fn holder_text(h: &Holder) -> String {
    let what = match (h.orphan, h.who.pid) {
        (true, 0) => "a job whose holder is gone and that cannot be seen".into(),
        (true, _) => format!("a job whose holder is gone, {}", who_text(&h.who)),
        (false, _) => who_text(&h.who),
    };
    // A permit that was taken without waiting is timed by those who look.
    let bound = if h.exact { "" } else { "at least " };
    format!("{what} for {bound}{}", time::show(h.held))
}

fn who_text(who: &Who) -> String {
    let dead = if who.life == LifeState::Dead { " (dead)" } else { "" };
    format!("pid {} `{}`{dead}", who.pid, who.label.replace(char::is_control, " "))
}

#[derive(Serialize)]
struct PoolRow {
    name: String,
    arena: String,
    permits: u32,
    free: u32,
    held: u32,
    waiting: u32,
}

/// `chappe ls`. Status 1 if an arena could not be looked at.
pub fn list(only: Option<&str>, json: bool) -> Result<(String, u8)> {
    let names = match only {
        Some(one) => vec![one.to_owned()],
        None => Arena::list()?,
    };
    let mut rows = Vec::new();
    let mut status = 0;
    for name in names {
        let arena = match Arena::open(&name) {
            Ok(a) => a,
            Err(e) if only.is_some() => return Err(e.into()),
            Err(e) => {
                if json {
                    tell(serde_json::json!({ "error": e.to_string() }));
                } else {
                    tell(format_args!("chappe: {e}"));
                }
                status = 1;
                continue;
            }
        };
        rows.extend(rows_of(arena));
    }
    Ok((if json { serde_json::to_string(&rows)? + "\n" } else { table(&rows) }, status))
}

fn rows_of(arena: Arena) -> Vec<PoolRow> {
    arena.map().recover_dead();
    let in_it = Pool::list(arena);
    for pool in in_it.iter().filter(|p| p.held > 0).filter_map(|p| Pool::in_arena(arena, &p.name).ok()) {
        pool.settle();
    }
    let name_of = |pool: &str| if arena.name() == "default" { pool.into() } else { format!("{}/{pool}", arena.name()) };
    Pool::list(arena)
        .into_iter()
        .map(|p| PoolRow {
            name: name_of(&p.name),
            arena: arena.name(),
            permits: p.permits,
            free: p.free,
            held: p.held,
            waiting: p.waiting,
        })
        .collect()
}

fn table(rows: &[PoolRow]) -> String {
    let wide = rows.iter().map(|r| r.name.len()).max().unwrap_or(0).max(4);
    let mut text = String::new();
    if !rows.is_empty() {
        let _ = writeln!(text, "{:wide$}  PERMITS  FREE  HELD  WAITING", "POOL");
    }
    for r in rows {
        let _ = writeln!(text, "{:wide$}  {:>7}  {:>4}  {:>4}  {:>7}", r.name, r.permits, r.free, r.held, r.waiting);
    }
    text
}

#[derive(Serialize)]
struct PoolView {
    name: String,
    arena: String,
    permits: u32,
    free: u32,
    holders: Vec<HolderView>,
    waiters: Vec<WaiterView>,
}

#[derive(Serialize)]
struct HolderView {
    permit: String,
    index: u32,
    pid: u32,
    tid: u32,
    label: String,
    held_ms: u64,
    held_exact: bool,
    leased: bool,
    orphan: bool,
}

#[derive(Serialize)]
struct WaiterView {
    place: usize,
    pid: u32,
    tid: u32,
    label: String,
    waiting_ms: u64,
}

/// `chappe show`.
pub fn show(name: &str, json: bool) -> Result<String> {
    let pool = Pool::open(name)?;
    recover(&pool);
    let (holders, waiters) = (pool.holders(), pool.waiters());
    if !json {
        return Ok(show_text(&pool, &holders, &waiters));
    }
    let names = Name::of(&pool);
    let view = PoolView {
        arena: split(&pool.name()).0,
        name: pool.name(),
        permits: pool.permits(),
        free: pool.available(),
        holders: holders
            .into_iter()
            .map(|h| HolderView {
                permit: names.permit(h.index),
                index: h.index,
                pid: h.who.pid,
                tid: h.who.tid,
                label: h.who.label,
                held_ms: ms(h.held),
                held_exact: h.exact,
                leased: h.leased,
                orphan: h.orphan,
            })
            .collect(),
        waiters: (1..)
            .zip(waiters)
            .map(|(place, w)| WaiterView {
                place,
                pid: w.who.pid,
                tid: w.who.tid,
                label: w.who.label,
                waiting_ms: ms(w.waiting),
            })
            .collect(),
    };
    Ok(serde_json::to_string(&view)? + "\n")
}

fn show_text(pool: &Pool, holders: &[Holder], waiters: &[Waiter]) -> String {
    let names = Name::of(pool);
    let plural = if pool.permits() == 1 { "" } else { "s" };
    let mut text = format!(
        "{}: {} permit{plural}, {} free, {} waiting\n",
        pool.name(),
        pool.permits(),
        pool.available(),
        waiters.len()
    );
    for h in holders {
        let kind = match (h.orphan, h.leased) {
            (true, _) => ", orphan",
            (_, true) => ", leased",
            _ => "",
        };
        let _ =
            writeln!(text, "  {}  held by {}, since {}{kind}", names.permit(h.index), holder_text(h), time::at(h.held));
    }
    for (place, w) in (1..).zip(waiters) {
        let _ = writeln!(text, "  {place}. in line: {} for {}", who_text(&w.who), time::show(w.waiting));
    }
    text
}

#[derive(Serialize)]
struct FindingView<'a> {
    what: &'a str,
    done: Option<&'a str>,
}

fn findings(all: &[Finding]) -> Vec<FindingView<'_>> {
    all.iter().map(|f| FindingView { what: &f.what, done: f.done.as_deref() }).collect()
}

/// `chappe doctor`. Status 1 if an arena cannot be used.
pub fn doctor(json: bool) -> Result<(String, u8)> {
    let found = chappe::doctor()?;
    let status = u8::from(found.arenas.iter().any(|a| a.error.is_some()));
    if json {
        let arenas: Vec<_> = found
            .arenas
            .iter()
            .map(|a| {
                let capacity = a.capacity.as_ref().map(|c| {
                    serde_json::json!({
                        "members": c.members, "members_used": c.members_used,
                        "objects": c.objects, "objects_used": c.objects_used,
                        "cells": c.cells, "cells_used": c.cells_used,
                    })
                });
                let error = a.error.as_ref().map(ToString::to_string);
                serde_json::json!({
                    "name": a.name, "error": error, "findings": findings(&a.findings), "capacity": capacity,
                })
            })
            .collect();
        let all = serde_json::json!({
            "directory": found.directory, "arenas": arenas, "kernel": findings(&found.kernel),
        });
        return Ok((format!("{all}\n"), status));
    }
    let mut text = format!("arenas in {}: {}\n", found.directory, found.arenas.len());
    for a in &found.arenas {
        match (&a.error, &a.capacity) {
            (Some(e), _) => {
                let _ = writeln!(text, "  {}: cannot be used: {e}", a.name);
            }
            (None, Some(c)) => {
                let _ = writeln!(
                    text,
                    "  {}: {} of {} members, {} of {} objects, {} of {} cells in use",
                    a.name, c.members_used, c.members, c.objects_used, c.objects, c.cells_used, c.cells
                );
            }
            (None, None) => {}
        }
        finding_lines(&mut text, "    ", &a.findings);
    }
    if found.kernel.is_empty() {
        text.push_str("kernel: has all that chappe can use\n");
    } else {
        text.push_str("kernel:\n");
        finding_lines(&mut text, "  ", &found.kernel);
    }
    Ok((text, status))
}

fn finding_lines(text: &mut String, indent: &str, all: &[Finding]) {
    for f in all {
        let _ = match &f.done {
            Some(done) => writeln!(text, "{indent}{}; {done}", f.what),
            None => writeln!(text, "{indent}{}", f.what),
        };
    }
}
