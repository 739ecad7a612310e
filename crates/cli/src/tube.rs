//! `chappe tube`: making, sealing and removing tubes; and what `chappe show` says of one.

mod broadcast;

use crate::args::{Ends, TubeCommand};
use crate::look::{WaiterView, WhoView, ends_text, ms, who_text};
use crate::{names, time};
use anyhow::{Error, Result, bail};
pub use broadcast::{Broadcasts, broadcast_text, is_one as is_broadcast};
use broadcast::{fits, schema_text};
use chappe::schemas::resolved;
use chappe::synth::Schema;
use chappe::tube::broadcast::Broadcast;
use chappe::tube::named::{Kind, Tube, TubeInfo, TubeOptions};
use chappe::{Arena, ObjectInfo, ObjectState, Waiter};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Runs the command: what was done, and what was not.
pub fn run(command: &TubeCommand) -> (Vec<Value>, Vec<Error>) {
    match command {
        TubeCommand::Create { names, size, slots, kind, drops, schema, broadcast, subscribers } => {
            let schema = schema.as_deref();
            let made = |name: &str| {
                let slots = &slots.map_or_else(|| usual_slots(schema), Ok)?;
                if *broadcast {
                    broadcast::create(name, *size, *slots, *subscribers, schema)
                } else {
                    create(name, *size, *slots, *kind, *drops, schema)
                }
            };
            match names::refuse_numbers(names, "tube", "--slots N") {
                Ok(()) => names::each(names, made),
                Err(e) => (Vec::new(), vec![e]),
            }
        }
        TubeCommand::Seal { name } => names::each(std::slice::from_ref(name), |name| {
            Tube::<[u8]>::open(name)?.seal()?;
            Ok(json!({ "sealed": name }))
        }),
        TubeCommand::Rm { names, force } => names::each(names, |name| {
            if broadcast::is_one(name) {
                Broadcast::remove(name, *force)?;
            } else {
                Tube::<[u8]>::remove(name, *force)?;
            }
            Ok(json!({ "removed": name }))
        }),
    }
}

/// How many slots a tube has if nobody says it: so many small records that an end does not wait for the other one after a few.
fn usual_slots(schema: Option<&str>) -> Result<u64> {
    const BYTES: u64 = 1 << 16;
    let Some(schema) = schema else { return Ok(16) };
    let size = Schema::parse(&resolved(schema)?).map_or(BYTES, |schema| schema.size().into());
    Ok((BYTES / size).clamp(16, 1024))
}

fn create(name: &str, size: u64, slots: u64, ends: Ends, drops: bool, schema: Option<&str>) -> Result<Value> {
    let kind = match ends {
        Ends::Spsc => Kind::Spsc,
        Ends::Mpsc => Kind::Mpsc,
        Ends::Spmc => Kind::Spmc,
        Ends::Mpmc => Kind::Mpmc,
    };
    let (size, slots) = (fits("bytes a record", size)?, fits("slots", slots)?);
    let options = TubeOptions { slots, size, kind, drops, ..TubeOptions::default() };
    let tube = match schema {
        Some(schema) => Tube::<[u8]>::create_of(name, &options, schema)?,
        None => Tube::<[u8]>::create(name, &options)?,
    };
    let info = tube.info()?;
    let (size, kind) = (info.size, ends_text(kind));
    let mut made = json!({ "name": tube.name(), "slots": slots, "size": size, "kind": kind, "bytes": info.bytes });
    if let Some(schema) = info.schema {
        made["schema"] = schema.into();
    }
    Ok(made)
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
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
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
            schema: info.schema.clone(),
        }
    }
}

/// The same to people: lines below the first.
pub fn show_text(info: &TubeInfo, rates: Option<&Rates>) -> String {
    let drops = if info.drops { "; what a dead receiver had is dropped" } else { "" };
    let mut text = schema_text(info.schema.as_deref(), info.schema_hash);
    text += &format!("  since it was made: {} sent, {} received{drops}\n", info.sent, info.received);
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
