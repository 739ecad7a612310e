//! `chappe tube`: making, sealing and removing tubes; and what `chappe show` says of one.

use crate::args::{Ends, TubeCommand};
use crate::list::WaiterView;
use crate::look::{WhoView, ends_text, ms, who_text};
use crate::time;
use anyhow::{Result, bail};
use chappe::tube::named::{Kind, Tube, TubeError, TubeInfo, TubeOptions};
use chappe::{Arena, ObjectInfo, ObjectState, Waiter};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Runs the command.
///
/// # Errors
/// The tube's.
pub fn run(command: &TubeCommand) -> Result<Value> {
    match command {
        TubeCommand::Create { name, size, slots, kind, drops } => create(name, *size, *slots, *kind, *drops),
        TubeCommand::Seal { name } => {
            Tube::<[u8]>::open(name)?.seal()?;
            Ok(json!({ "sealed": name }))
        }
        TubeCommand::Rm { name, force } => {
            Tube::<[u8]>::remove(name, *force)?;
            Ok(json!({ "removed": name }))
        }
    }
}

fn create(name: &str, size: u64, slots: u64, ends: Ends, drops: bool) -> Result<Value> {
    let fits = |what, count: u64| {
        u32::try_from(count).map_err(|_| TubeError::Capacity { what, count, most: u64::from(u32::MAX) })
    };
    let kind = match ends {
        Ends::Spsc => Kind::Spsc,
        Ends::Mpsc => Kind::Mpsc,
        Ends::Spmc => Kind::Spmc,
        Ends::Mpmc => Kind::Mpmc,
    };
    let (size, slots) = (fits("bytes a record", size)?, fits("slots", slots)?);
    let tube = Tube::<[u8]>::create(name, &TubeOptions { slots, size, kind, drops, ..TubeOptions::default() })?;
    let info = tube.info()?;
    Ok(json!({ "name": tube.name(), "slots": slots, "size": size, "kind": ends_text(kind), "bytes": info.bytes }))
}

/// How fast messages go through a tube.
#[derive(Serialize)]
pub struct Rates {
    interval_ms: u64,
    sent_per_s: f64,
    received_per_s: f64,
}

/// Watches a tube for a while: how it stands then, and what went through it meanwhile.
///
/// # Errors
/// It is something else; an interval of nothing; that it went, or was made anew.
pub fn watch(arena: Arena, tube: &ObjectInfo, interval: Duration) -> Result<(ObjectInfo, Rates)> {
    let ObjectState::Tube(before) = &tube.state else {
        bail!("`{}` is a {}: only a tube can be watched for an --interval", tube.name, tube.kind)
    };
    if interval.is_zero() {
        bail!("--interval 0 measures nothing: write 1s, or 200ms");
    }
    let began = Instant::now();
    std::thread::sleep(interval);
    let later = arena.object(&tube.name)?;
    let took = began.elapsed();
    let ObjectState::Tube(now) = &later.state else { bail!("`{}` was a tube, and is a {} now", tube.name, later.kind) };
    // Neither count of a tube goes back.
    let (Some(sent), Some(received)) = (now.sent.checked_sub(before.sent), now.received.checked_sub(before.received))
    else {
        bail!("tube `{}` was removed and made anew meanwhile: try again", tube.name)
    };
    let per_second = |count: u64| (count as f64 / took.as_secs_f64() * 10.0).round() / 10.0;
    let rates = Rates { interval_ms: ms(took), sent_per_s: per_second(sent), received_per_s: per_second(received) };
    Ok((later, rates))
}

/// What `chappe show` says of a tube, to programs, besides what it says of every object.
#[derive(Serialize)]
pub struct Shown {
    sending: Vec<WhoView>,
    receiving: Vec<WhoView>,
    waiters_for_room: Vec<WaiterView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<Rates>,
}

impl Shown {
    /// Of a tube that stands so.
    pub fn of(info: &TubeInfo, rates: Option<Rates>) -> Shown {
        let who = |all: &[chappe::Who]| all.iter().cloned().map(WhoView::from).collect();
        Shown {
            sending: who(&info.senders),
            receiving: who(&info.receivers),
            waiters_for_room: WaiterView::all(info.senders_waiting.clone()),
            rates,
        }
    }
}

/// The same to people: lines below the first.
pub fn show_text(info: &TubeInfo, rates: Option<&Rates>) -> String {
    let drops = if info.drops { "; what a dead receiver had is dropped" } else { "" };
    let mut text = format!("  since it was made: {} sent, {} received{drops}\n", info.sent, info.received);
    if let Some(r) = rates {
        let over = time::show(Duration::from_millis(r.interval_ms));
        let _ = writeln!(text, "  a second: {} sent, {} received, over {over}", r.sent_per_s, r.received_per_s);
    }
    for (does, all) in [("sends", &info.senders), ("receives", &info.receivers)] {
        all.iter().for_each(|who| text += &format!("  {does}: {}\n", who_text(who)));
    }
    let lines: [(&str, &[Waiter]); 2] = [("a message", &info.receivers_waiting), ("room", &info.senders_waiting)];
    for (what, waiters) in lines {
        for (place, w) in (1..).zip(waiters) {
            let _ = writeln!(text, "  {place}. in line for {what}: {} for {}", who_text(&w.who), time::show(w.waiting));
        }
    }
    text
}
