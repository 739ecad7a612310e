//! The one table of what can be measured at an object: `top --json`, `metrics` and `watch` all read it.

use super::snapshot::Seen;
use chappe::tube::broadcast::{BroadcastInfo, BroadcastSubscriber};
use chappe::tube::named::TubeInfo;
use chappe::{LifeState, ObjectState};

/// How a figure behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// It goes up and down.
    Gauge,
    /// It only grows, while its object is there.
    Counter,
    /// Difference of two snapshots; the first has none.
    Rate,
}

/// One figure.
pub struct Figure {
    /// What `watch` calls it.
    pub name: &'static str,
    /// Its end in the metric's name: unit and `_total`, by Prometheus' convention.
    pub suffix: &'static str,
    /// How it behaves.
    pub sort: Sort,
    /// What it says, for HELP lines.
    pub help: &'static str,
    /// Its value, where the object has it.
    pub of: fn(&Seen) -> Option<f64>,
}

const fn gauge(name: &'static str, help: &'static str, of: fn(&Seen) -> Option<f64>) -> Figure {
    Figure { name, suffix: "", sort: Sort::Gauge, help, of }
}

const fn counter(name: &'static str, help: &'static str, of: fn(&Seen) -> Option<f64>) -> Figure {
    Figure { name, suffix: "_total", sort: Sort::Counter, help, of }
}

const fn rate(name: &'static str, help: &'static str, of: fn(&Seen) -> Option<f64>) -> Figure {
    Figure { name, suffix: "", sort: Sort::Rate, help, of }
}

/// Of a tube.
macro_rules! tube {
    ($t:ident => $value:expr) => {
        |seen| match &seen.info.state {
            ObjectState::Tube($t) => Some($value),
            _ => None,
        }
    };
}

/// Of a broadcast tube.
macro_rules! cast {
    ($t:ident => $value:expr) => {
        |seen| match &seen.info.state {
            ObjectState::Broadcast($t) => Some($value),
            _ => None,
        }
    };
}

/// Of a map.
macro_rules! map {
    ($m:ident => $value:expr) => {
        |seen| match &seen.info.state {
            ObjectState::Map($m) => Some(f64::from($value)),
            _ => None,
        }
    };
}

/// Of a tube of either sort.
fn tubes(seen: &Seen, tube: fn(&TubeInfo) -> f64, cast: fn(&BroadcastInfo) -> f64) -> Option<f64> {
    match &seen.info.state {
        ObjectState::Tube(t) => Some(tube(t)),
        ObjectState::Broadcast(t) => Some(cast(t)),
        _ => None,
    }
}

/// The subscriber of a broadcast tube that has most before it.
pub fn behind(t: &BroadcastInfo) -> Option<&BroadcastSubscriber> {
    t.subscribers.iter().max_by_key(|s| s.messages).filter(|s| s.messages > 0)
}

fn most_behind(t: &BroadcastInfo) -> f64 {
    f64::from(behind(t).map_or(0, |s| s.messages))
}

/// Of a pool.
macro_rules! pool {
    ($p:ident => $value:expr) => {
        |seen| match &seen.info.state {
            ObjectState::Pool($p) => Some(f64::from($value)),
            _ => None,
        }
    };
}

fn flag(set: bool) -> f64 {
    f64::from(u8::from(set))
}

/// All of them.
pub const ALL: &[Figure] = &[
    gauge("waiting", "Threads that wait.", |s| Some(s.waiters.len() as f64)),
    Figure {
        name: "longest_wait",
        suffix: "_seconds",
        sort: Sort::Gauge,
        help: "The longest time that a waiter has waited so far; 0 if none waits.",
        of: |s| Some(s.longest_wait().as_secs_f64()),
    },
    gauge("permits", "Permits that the pool has.", pool!(p => p.permits)),
    gauge("held", "Permits that are held, leased or granted.", pool!(p => p.held)),
    gauge("free", "Permits that are free.", pool!(p => p.free)),
    gauge("value", "Saved wake-ups.", |s| match &s.info.state {
        ObjectState::Semaphore { value, .. } | ObjectState::Owned { value, .. } => Some(f64::from(*value)),
        _ => None,
    }),
    gauge("locked", "1 if a living holder has it, or a job that has outlived its holder.", |s| match &s.info.state {
        ObjectState::Mutex { holder, .. } | ObjectState::Owned { holder, .. } => {
            Some(flag(holder.as_ref().is_some_and(|who| who.life == LifeState::Alive)))
        }
        ObjectState::RwLock { writer, readers, jobs, .. } => {
            let lives = |who: &chappe::Who| who.life == LifeState::Alive;
            Some(flag(!jobs.is_empty() || writer.iter().chain(readers).any(lives)))
        }
        _ => None,
    }),
    gauge("torn", "1 if a holder died and no later holder has declared the data whole.", |s| match &s.info.state {
        ObjectState::Mutex { torn, .. } | ObjectState::RwLock { torn, .. } => Some(flag(*torn)),
        _ => None,
    }),
    gauge("condemned", "1 if it can never be locked again.", |s| match &s.info.state {
        ObjectState::Mutex { condemned, .. } | ObjectState::RwLock { condemned, .. } => Some(flag(*condemned)),
        _ => None,
    }),
    gauge("messages", "Messages in the tube; of a broadcast tube, before its slowest subscriber.", |s| {
        tubes(s, |t| t.messages as f64, most_behind)
    }),
    gauge("slots", "Messages that the tube has room for.", |s| tubes(s, |t| t.slots.into(), |t| t.slots.into())),
    gauge("fill", "Messages in the tube as a share of its slots, 0 to 1.", |s| {
        tubes(s, |t| t.messages as f64 / f64::from(t.slots.max(1)), |t| most_behind(t) / f64::from(t.slots.max(1)))
    }),
    gauge("publishers", "Publishers of the broadcast tube.", cast!(t => t.publishers.len() as f64)),
    gauge("subscribers", "Subscribers of the broadcast tube.", cast!(t => t.subscribers.len() as f64)),
    // A gauge: a subscriber that goes takes its losses along.
    gauge(
        "lost",
        "Messages that its present subscribers were too slow for.",
        cast!(t => t.subscribers.iter().map(|s| s.lost).sum::<u64>() as f64),
    ),
    gauge("entries", "Entries of the map in use.", map!(m => m.used)),
    gauge("room", "Entries that the map has room for.", map!(m => m.entries)),
    gauge("senders", "Processes that have a sender.", tube!(t => t.senders.len() as f64)),
    gauge("receivers", "Processes that have a receiver.", tube!(t => t.receivers.len() as f64)),
    gauge("waiting_for_room", "Senders that wait for room.", tube!(t => t.senders_waiting.len() as f64)),
    counter("sent", "Messages sent.", |s| tubes(s, |t| t.sent as f64, |t| t.sent as f64)),
    counter("received", "Messages received or dropped.", tube!(t => t.received as f64)),
    counter(
        "redelivered",
        "Messages delivered once more because their receiver died.",
        tube!(t => t.redelivered as f64),
    ),
    counter("dropped", "Messages dropped because their receivers died.", tube!(t => t.dropped as f64)),
    gauge("waiting_light", "Light threads and tasks among those that wait.", |s| {
        Some(s.waiters.iter().filter(|w| w.light).count() as f64)
    }),
    rate("sent_per_second", "Messages sent a second.", |s| s.rates.sent),
    rate("received_per_second", "Messages received a second.", |s| s.rates.received),
    rate("turnover_per_second", "Permits given back a second; at most 2^24 between two looks.", |s| s.rates.turnover),
    gauge("damaged", "1 if the object's words make no sense.", |s| {
        Some(flag(matches!(s.info.state, ObjectState::Damaged { .. })))
    }),
];

/// The figure of this name.
pub fn find(name: &str) -> Option<&'static Figure> {
    ALL.iter().find(|f| f.name == name)
}
