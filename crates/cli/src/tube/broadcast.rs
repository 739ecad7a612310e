//! Broadcast tubes on the command line: made, and what `chappe show` says of one.

use crate::look::{self, WhoView, who_text};
use anyhow::Result;
use chappe::ObjectState;
use chappe::tube::broadcast::{Broadcast, BroadcastInfo, BroadcastOptions};
use chappe::tube::named::TubeError;
use serde::Serialize;
use serde_json::{Value, json};

/// Whether a name is that of a broadcast tube.
pub fn is_one(name: &str) -> bool {
    look::find(name).is_ok_and(|(_, info)| matches!(info.state, ObjectState::Broadcast(_)))
}

/// A number of what a tube has.
pub fn fits(what: &'static str, count: u64) -> Result<u32, TubeError> {
    u32::try_from(count).map_err(|_| TubeError::Capacity { what, count, most: u64::from(u32::MAX) })
}

/// The fields of a tube's records, to people.
pub fn schema_text(schema: Option<&str>, hash: Option<u64>) -> String {
    let line = |schema: &str| format!("  schema {:016x}: {schema}\n", hash.unwrap_or_default());
    schema.map_or_else(String::new, line)
}

/// Makes one.
pub fn create(name: &str, size: u64, slots: u64, subscribers: u64, schema: Option<&str>) -> Result<Value> {
    let (size, slots) = (fits("bytes a record", size)?, fits("slots", slots)?);
    let (subscribers, schema) = (fits("subscribers", subscribers)?, schema.map(str::to_owned));
    let options = BroadcastOptions { slots, size, subscribers, schema, ..BroadcastOptions::default() };
    let tube = Broadcast::<[u8]>::create(name, &options)?;
    let info = tube.info()?;
    let (slots, size, bytes) = (info.slots, info.size, info.bytes);
    let mut made = json!({ "name": tube.name(), "slots": slots, "size": size, "kind": "broadcast", "bytes": bytes });
    if let Some(schema) = info.schema {
        made["schema"] = schema.into();
    }
    Ok(made)
}

/// What `chappe show` says of one, to programs, besides what it says of every object.
#[derive(Serialize)]
pub struct Broadcasts {
    publishing: Vec<WhoView>,
    subscribing: Vec<Subscriber>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
}

#[derive(Serialize)]
struct Subscriber {
    #[serde(flatten)]
    who: WhoView,
    slow: String,
    filter: String,
    messages: u32,
    received: u64,
    lost: u64,
}

impl Broadcasts {
    /// Of a tube that stands so.
    pub fn of(info: &BroadcastInfo) -> Broadcasts {
        let one = |s: &chappe::tube::broadcast::BroadcastSubscriber| Subscriber {
            who: s.who.clone().into(),
            slow: s.slow.to_string(),
            filter: s.filter.clone(),
            messages: s.messages,
            received: s.received,
            lost: s.lost,
        };
        Broadcasts {
            publishing: info.publishers.iter().cloned().map(WhoView::from).collect(),
            subscribing: info.subscribers.iter().map(one).collect(),
            schema: info.schema.clone(),
        }
    }
}

/// The same to people: lines below the first.
pub fn broadcast_text(info: &BroadcastInfo) -> String {
    let mut text = schema_text(info.schema.as_deref(), info.schema_hash);
    text += &format!("  since it was made: {} sent\n", info.sent);
    info.publishers.iter().for_each(|who| text += &format!("  publishes: {}\n", who_text(who)));
    for s in &info.subscribers {
        let lost = if s.lost > 0 { format!(", {} lost", s.lost) } else { String::new() };
        let filter = if s.filter.is_empty() { String::new() } else { format!(", where {}", look::plain(&s.filter)) };
        text += &format!(
            "  subscribes: {}: {} received, {} there{lost}; {}{filter}\n",
            who_text(&s.who),
            s.received,
            s.messages,
            s.slow
        );
    }
    text
}
