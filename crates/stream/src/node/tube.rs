//! Named tubes as ends of a graph: other graphs, and programs in any language, send to them and receive from them.
//!
//! | type of the link | a message is |
//! |---|---|
//! | lines | a line, without its newline |
//! | packets | a packet, with its head ([`crate::node::packets`]) |
//! | records | a record; the tube keeps their schema, and a tube of another one is refused |
//! | numbers, samples, bytes | as many whole frames as there is room for |
//!
//! A stage that writes to a tube makes the tube if it is not there; a tube that is read must exist. The reading stage
//! releases a message when all stages up to the next queue or pump have processed its block. If the graph is killed
//! before that, the message is redelivered to the next receiver, marked. A tube in which nothing is, and that has no sender, is waited at until one comes;
//! the line ends when the last sender has gone. If one of them died, or stopped with an error, the report counts it ([`crate::Report::broken`]): what came
//! may be a part. A tube that is removed meanwhile ends the graph with an error.
//!
//! With `full=drop` a block that finds no room is dropped, and its frames (lines, packets) are counted. Otherwise the
//! stage waits for room, also while there is no receiver yet. When the graph is to stop, it stops waiting and counts
//! the data that it still had. When all receivers have gone the line ends.

use super::packets;
use crate::kind::{Anew, Call, End, Kind, Plan, Wrong};
use crate::process::tubes::{Ended, FromTube, LOOK};
use crate::stage::{Body, Fault, Out, Source, Stage, stage};
use crate::types::{Block, Data, Element, Type};
use chappe_plat::packets::Link;
use chappe_sync::schemas::resolved;
use chappe_sync::tube::named::{Awaited, NotSent, Sender, Tube, TubeOptions};
use chappe_synth::Schema;
use std::sync::Arc;

/// Bytes of a message of what has no size of its own.
const BYTES: usize = 4096;

/// Sends what comes.
struct ToTube {
    sender: Sender<[u8]>,
    of: Type,
    /// The most bytes of a message.
    most: usize,
    drops: bool,
    gone: bool,
    sent: u64,
}

/// What became of a message.
enum Sent {
    Well,
    /// There is no room, and nobody waits for some.
    Full,
    /// Nobody receives any more.
    Gone,
}

impl ToTube {
    fn send(&mut self, message: &[u8], out: &dyn Out) -> Result<Sent, Fault> {
        let mut sent = self.sender.try_send(message);
        loop {
            match sent {
                Ok(()) => {
                    self.sent += 1;
                    return Ok(Sent::Well);
                }
                Err(NotSent::Full(()) | NotSent::Timeout(()) | NotSent::Interrupted(())) => {
                    if self.drops || out.is_stopped() {
                        return Ok(Sent::Full);
                    }
                    // The light threads of this proc go on meanwhile.
                    sent = chappe_thread::block_in_place(|| self.sender.send_timeout(message, LOOK));
                }
                Err(NotSent::Disconnected { .. }) => return Ok(Sent::Gone),
                Err(e) => return Err(Fault::new(e)),
            }
        }
    }

    /// Sends one message, that stands for so many frames.
    fn one(&mut self, message: &[u8], frames: usize, out: &mut dyn Out) -> Result<(), Fault> {
        if self.gone {
            out.drop_frames(frames as u64);
            return Ok(());
        }
        match self.send(message, out)? {
            Sent::Well => {}
            Sent::Full => out.drop_frames(frames as u64),
            Sent::Gone => {
                self.gone = true;
                out.drop_frames(frames as u64);
                out.finish();
            }
        }
        Ok(())
    }
}

impl Stage for ToTube {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let owned;
        let bytes = match &block.data {
            Data::Bytes(bytes) => bytes,
            _ => {
                owned = block.to_bytes();
                &owned
            }
        };
        match &self.of.element {
            Element::Line => {
                for line in bytes.split_inclusive(|b| *b == b'\n') {
                    self.one(line.strip_suffix(b"\n").unwrap_or(line), 1, out)?;
                }
            }
            Element::Packet(_) => {
                let mut message = Vec::new();
                for packet in packets::each(bytes) {
                    let kept = packet.bytes.len().min(self.most - packets::HEAD);
                    message.clear();
                    packets::push(&mut message, &packets::One { bytes: &packet.bytes[..kept], ..packet });
                    self.one(&message, 1, out)?;
                }
            }
            element => {
                let frame = self.of.frame_bytes();
                let whole = if matches!(element, Element::Record(_)) { frame } else { self.most / frame * frame };
                for piece in bytes.chunks(whole) {
                    self.one(piece, piece.len() / frame, out)?;
                }
            }
        }
        Ok(())
    }

    fn says(&self) -> Option<String> {
        let gone = if self.gone { ", and then all receivers had gone" } else { "" };
        Some(format!("{} messages{gone}", self.sent))
    }
}

/// Gives what is received.
struct Receives {
    from: FromTube,
    of: Element,
    name: String,
}

impl Source for Receives {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let of = &self.of;
        let got = self.from.get_or(|| Block::from_bytes(of, &[]))?;
        if got.is_none() && self.from.ended() == Ended::Removed {
            return Err(Fault(format!("tube `{}` was removed while it was read", self.name)));
        }
        Ok(got)
    }

    fn is_broken(&self) -> bool {
        self.from.ended() == Ended::Broken
    }

    fn says(&self) -> Option<String> {
        let name = &self.name;
        self.is_broken().then(|| {
            format!("a sender of `{name}` died, or stopped with an error, before it was done: what came may be a part")
        })
    }
}

/// The block of a message.
fn block(message: &[u8], of: &Type, name: &str) -> Result<Block, Fault> {
    let is_whole = match of.element {
        Element::Line => true,
        Element::Packet(_) => packets::whole(message) == message.len(),
        _ => message.len().is_multiple_of(of.frame_bytes()),
    };
    if !is_whole {
        let why = format!("a message of {} bytes came from tube `{name}`, which are no whole {of}", message.len());
        return Err(Fault(why));
    }
    let mut block = Block::from_bytes(&of.element, message);
    if let (Element::Line, Data::Bytes(bytes)) = (&of.element, &mut block.data)
        && bytes.last() != Some(&b'\n')
    {
        bytes.push(b'\n');
    }
    Ok(block)
}

/// Refuses a tube whose schema is another one. `has`: what the tube has.
fn agrees(name: &str, has: Option<&str>, schema: &Schema) -> Result<(), String> {
    let wanted = schema.to_string();
    match has {
        Some(has) if has != wanted => {
            Err(format!("tube `{name}` has records of another schema: it has `{has}`, and this is `{wanted}`"))
        }
        _ => Ok(()),
    }
}

/// The type of what is read from a tube; `has`: its schema, if it is there and has one.
fn read_as(call: &Call<'_>, name: &str, has: Option<&str>) -> Result<Type, Wrong> {
    let words = ["lines", "bytes", "f32", "i16", "packets", "records"];
    let element = match (call.choice(1, "as", &words)?, has) {
        (Some("lines"), Some(has)) => {
            return Err(Wrong::new(format!("tube `{name}` has records of `{has}`, and no lines: say as=records")));
        }
        (None, Some(_)) | (Some("records"), _) => Element::Record(Arc::new(records_of(call, name, has)?)),
        (as_what, _) => unstructured(call, as_what)?,
    };
    let of = Type::of(element);
    if !matches!(of.element, Element::F32 | Element::I16) {
        return Ok(of);
    }
    let shape = call.number_or(usize::MAX, "channels", (1.0, 65_536.0), 1.0)? as u32;
    Ok(Type { shape, rate: call.number(usize::MAX, "rate", (1e-6, 1e9))?, ..of })
}

/// The schema of the records of a tube: as it is said, or as the tube has it; both are the same.
fn records_of(call: &Call<'_>, name: &str, has: Option<&str>) -> Result<Schema, Wrong> {
    let parsed = |text: &str| Schema::parse(text).map_err(|e| format!("the schema: {}", e.message()));
    match (call.text(usize::MAX, "schema")?, has) {
        (Some((text, at)), has) => {
            let text = resolved(text).map_err(|e| Wrong::at(at, e.to_string()))?;
            let schema = parsed(&text).map_err(|why| Wrong::at(at, why))?;
            agrees(name, has, &schema).map_err(|why| Wrong::at(at, why))?;
            Ok(schema)
        }
        (None, Some(has)) => parsed(has).map_err(Wrong::new),
        (None, None) => Err(Wrong::new(format!(
            "there is no tube `{name}` that has a schema: say what its records are, as in schema=\"ts: u64, px: f64\""
        ))),
    }
}

/// What is no record.
fn unstructured(call: &Call<'_>, as_what: Option<&str>) -> Result<Element, Wrong> {
    Ok(match as_what {
        None | Some("lines") => Element::Line,
        Some("f32") => Element::F32,
        Some("i16") => Element::I16,
        Some("packets") => {
            let link = call.number_or(usize::MAX, "link", (0.0, 65_535.0), f64::from(Link::ETHERNET.0))?;
            Element::Packet(Link(link as u32))
        }
        _ => Element::Byte,
    })
}

fn tube(call: &Call<'_>) -> Result<Plan, Wrong> {
    let name = call.needs_text(0, "name")?.0.to_owned();
    if call.inputs.is_empty() {
        // Planning looks, and makes nothing: a tube that is not there yet is looked at when the graph begins.
        let there = Tube::<[u8]>::open(&name).ok().and_then(|tube| tube.schema().ok().flatten());
        let of = read_as(call, &name, there.as_deref())?;
        let gives = of.clone();
        let plan = Plan::source(gives, move || {
            let tubes = [Tube::<[u8]>::open(&name).map_err(Fault::new)?];
            if let Element::Record(schema) = &of.element {
                agrees(&name, tubes[0].schema().map_err(Fault::new)?.as_deref(), schema).map_err(Fault)?;
            }
            let mut awaited = Awaited::new(&tubes).map_err(Fault::new)?;
            let receiver = tubes[0].receiver().map_err(Fault::new)?;
            // A tube that is gone has no more senders.
            let awaits = move || awaited.may_come(&tubes).unwrap_or(false);
            let (element, from) = (of.element.clone(), name.clone());
            let from = FromTube::with(receiver, None, awaits, move |message, again| {
                block(message, &of, &from).map(|block| Block { again, ..block })
            })?;
            Ok(Body::Source(Box::new(Receives { from, of: element, name })))
        });
        return Ok(plan.ends(End::Passive, End::Active).anew(Anew::Fresh));
    }
    let of = call.plain()?.clone();
    let frame = of.frame_bytes();
    let usual = match of.element {
        Element::Packet(_) => packets::HEAD + packets::SNAP,
        Element::Record(_) => frame,
        _ => frame * (BYTES / frame).max(1),
    };
    let slots = call.number_or(usize::MAX, "slots", (1.0, 524_288.0), 64.0)? as u32;
    let least = if matches!(of.element, Element::Packet(_)) { packets::HEAD } else { frame };
    let size = call.number_or(usize::MAX, "size", (least as f64, 1e9), usual as f64)? as u32;
    let drops = call.choice(usize::MAX, "full", &["wait", "drop"])? == Some("drop");
    Ok(Plan::sink(move || {
        let options = TubeOptions { slots, size, ..TubeOptions::default() };
        let schema = if let Element::Record(schema) = &of.element { Some(schema) } else { None };
        let made = || match schema {
            Some(schema) if size as usize == frame => Tube::open_or_create_of(&name, &options, &schema.to_string()),
            _ => Tube::open_or_create(&name, &options),
        };
        let there = Tube::<[u8]>::open(&name).or_else(|_| made()).map_err(Fault::new)?;
        let has = there.schema().map_err(Fault::new)?;
        match (schema, &has) {
            (Some(schema), has) => agrees(&name, has.as_deref(), schema).map_err(Fault)?,
            (None, Some(has)) if of.element != Element::Byte => {
                return Err(Fault(format!("tube `{name}` has records of `{has}`, and this is {of}")));
            }
            _ => {}
        }
        let most = there.info().map_err(Fault::new)?.size as usize;
        if most < least {
            let why = format!("tube `{name}` has messages of {most} bytes at most, and this is {of}: {least} or more");
            return Err(Fault(why));
        }
        let sender = there.sender().map_err(Fault::new)?;
        stage(ToTube { sender, of, most, drops, gone: false, sent: 0 })
    })
    .anew(Anew::Fresh))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![Kind::new(
        "tube",
        "\"NAME\" [as=lines|bytes|f32|i16|packets|records] [schema=\"SCHEMA\"] [channels=1] [rate=HZ] [slots=64] [size=BYTES] [full=wait|drop]",
        "a named tube: received from, or sent to if something leads to it (and made, if it is not there)",
        tube,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_no_whole_element_is_refused_with_its_tube() {
        let stereo = Type::sound(2, 48_000.0);
        let why = block(&[0; 12], &stereo, "t").unwrap_err().0;
        assert_eq!(why, "a message of 12 bytes came from tube `t`, which are no whole f32 x 2 at 48000 Hz");
        assert!(block(&[0; 20], &Type::of(Element::Packet(Link::ETHERNET)), "t").is_err());
        assert_eq!(block(b"a line", &Type::of(Element::Line), "t").unwrap(), Block::bytes(b"a line\n".to_vec()));
        assert_eq!(block(&[0; 16], &stereo, "t").unwrap().len(), 4);
    }
}
