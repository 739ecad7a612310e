//! Making, resizing and removing pools and arenas, removing objects of any kind, and taking permits away. Each answers what was done.

use crate::look::{self, Name, holder_text, who_text};
use crate::share::{self, Share};
use crate::take::permits;
use anyhow::{Result, bail};
use chappe::{Arena, ArenaOptions, Discipline, ObjectState, Pool, PoolError};
use serde_json::{Value, json};

/// `chappe pool create`.
pub fn create_pool(name: &str, n: u64, discipline: Discipline) -> Result<Value> {
    let pool = Pool::create_by(name, permits(n)?, discipline)?;
    let mut made = json!({ "name": pool.name(), "permits": pool.permits() });
    look::say_by_priority(&mut made, pool.discipline());
    Ok(made)
}

/// `chappe pool resize`.
pub fn resize_pool(name: &str, n: u64) -> Result<Value> {
    let n = permits(n)?;
    let pool = Pool::open(name)?;
    pool.resize(n)?;
    Ok(json!({ "name": pool.name(), "permits": n }))
}

/// `chappe pool rm`.
pub fn remove_pool(name: &str, force: bool) -> Result<Value> {
    Pool::remove(name, force)?;
    Ok(json!({ "removed": name }))
}

/// `chappe rm`.
pub fn remove(name: &str, force: bool) -> Result<Value> {
    let (arena, info) = look::find(name)?;
    arena.remove_object(&info.name, force).map_err(anyhow::Error::from_boxed)?;
    Ok(json!({ "removed": name, "kind": info.kind }))
}

/// `chappe arena create`.
pub fn create_arena(name: &str, options: &ArenaOptions, share: Option<&Share>) -> Result<Value> {
    if let Some(with) = share {
        share::prepare(with)?;
    }
    let arena = Arena::create(name, options)?;
    let has = arena.capacity();
    let path = arena.path().map(|p| p.display().to_string());
    Ok(json!({
        "name": arena.name(), "path": path, "members": has.members, "objects": has.objects, "cells": has.cells,
        "data": has.data,
    }))
}

/// `chappe arena rm`.
pub fn remove_arena(name: &str, force: bool) -> Result<Value> {
    if !force && let Ok(arena) = Arena::open(name) {
        let jobs = kept(arena);
        if !jobs.is_empty() {
            bail!(
                "arena `{name}` is in use by jobs that go on: {}; wait for them, or remove it all the same with --force: nothing keeps \
                 their permits and locks then",
                jobs.join("; ")
            );
        }
    }
    Arena::remove(name, force)?;
    Ok(json!({ "removed": name }))
}

/// What jobs keep in an arena without a member that holds it: their holders are gone. (A holder that lives is in the way itself.)
fn kept(arena: Arena) -> Vec<String> {
    let mut jobs = Vec::new();
    for info in arena.objects() {
        let name = look::called(arena, &info);
        match info.state {
            ObjectState::Pool(_) => {
                let Ok(pool) = Pool::in_arena(arena, &info.name) else { continue };
                look::recover(&pool);
                let names = Name::of(&pool);
                let orphans = pool.holders().into_iter().filter(|h| h.orphan);
                jobs.extend(
                    orphans.map(|h| format!("permit {} is held by {}", names.permit(h.index), holder_text(&h))),
                );
            }
            ObjectState::RwLock { jobs: kept, .. } => {
                jobs.extend(kept.iter().map(|job| format!("lock {name} is {}", look::job_text(job))));
            }
            _ => {}
        }
    }
    jobs
}

/// `chappe release`.
pub fn release(name: &str, index: Option<u32>, force: bool) -> Result<Value> {
    let (pool, index) = find(name, index)?;
    let index = match index {
        Some(i) => i,
        None if pool.permits() == 1 => 0,
        None => {
            let has = pool.permits();
            bail!(
                "pool `{name}` has {has} permits: say which, `chappe release {name}:0 --force`, or see `chappe show {name}`"
            )
        }
    };
    if index >= pool.permits() {
        bail!("pool `{}` has no permit {index}: it has {}, from 0 on", pool.name(), look::permits_text(pool.permits()));
    }
    look::recover(&pool);
    let permit = Name::of(&pool).permit(index);
    if !force {
        let Some(h) = pool.holders().into_iter().find(|h| h.index == index) else {
            return Err(PoolError::NotHeld { name: pool.name(), index, permits: pool.permits() }.into());
        };
        if h.set_aside {
            bail!("permit {permit} is set aside for {}, who waits for it", who_text(&h.who));
        }
        bail!(
            "permit {permit} is held by {}; it comes back when that ends. To take it away all the same: \
             `chappe release {permit} --force`",
            holder_text(&h)
        );
    }
    let who = pool.force_release(index)?;
    Ok(json!({ "permit": permit, "taken_from": look::WhoView::from(who) }))
}

/// `slots 3` and `slots:3`; a name may have a colon in it, too.
fn find(name: &str, index: Option<u32>) -> Result<(Pool, Option<u32>)> {
    let unknown = match Pool::open(name) {
        Err(e @ PoolError::Unknown { .. }) if index.is_none() => e,
        Err(PoolError::OtherKind { name, is }) => bail!(
            "`{name}` is a {is}, not a pool, and only permits of pools are released: `chappe show {name}` says how it stands; to do without it: \
             `chappe rm {name} --force`"
        ),
        other => return Ok((other?, index)),
    };
    match name.rsplit_once(':').and_then(|(pool, i)| Some((pool, i.parse().ok()?))) {
        Some((pool, i)) => Ok((Pool::open(pool)?, Some(i))),
        None => Err(unknown.into()),
    }
}
