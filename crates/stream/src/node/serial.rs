//! Serial lines (synthesis, table 4.4: `Serial_in` and `Serial_out`).
//!
//! A `serial` without an input reads a line, with one it writes it: raw bytes, at its rate. What comes is handed on as it comes; the kernel keeps
//! some 4 KiB for a reader that is late. What is written goes no faster than the line: a line that is none (a pseudo-terminal, an adapter
//! with a large buffer) gets it at the same rate.
//!
//! A device that goes away (unplugged) ends the graph with a fault. With `lost=wait` the stage looks for it ten times a second, under the
//! same name, and goes on. Bytes that the device sent meanwhile are lost; bytes that were to be written wait. That it has gone, and
//! that it is there again, is told by the callout `lost`, and of a sink the time by `late`; both say it at their end.
//!
//! What finds no room in the device or in its driver counts as dropped, where the driver counts it; each time it is one byte or more.
//!
//! While nothing comes the stage gives an empty block ten times a second, as `packets` does.

use super::absent::{Absent, LOOK};
use super::time::sleep_until;
use crate::kind::{Anew, Call, End, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Lost, Out, Source, Stage, stage};
use crate::types::{Block, Element, Type};
use chappe_plat::clock;
use chappe_plat::serial::{Flow, Line, Parity, Settings};
use chappe_sync::Select;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

/// At most so many bytes in a block.
const BLOCK: usize = 4096;

/// A line that may go away.
struct Plug {
    path: String,
    settings: Settings,
    waits: bool,
    line: Option<Line>,
    absent: Absent,
    bytes: u64,
}

impl Plug {
    /// Nothing is opened yet: that raises a wire (DTR) by which some devices begin anew.
    fn of(call: &Call<'_>) -> Result<Plug, Wrong> {
        let (path, span) = call.needs_text(0, "line")?;
        let baud = call.number_or(1, "baud", (50.0, 4e6), 115_200.0)? as u32;
        let bits = call.number_or(usize::MAX, "bits", (5.0, 8.0), 8.0)? as u8;
        let stop = call.number_or(usize::MAX, "stop", (1.0, 2.0), 1.0)? as u8;
        let parity = match call.choice(usize::MAX, "parity", &["none", "even", "odd"])? {
            Some("even") => Parity::Even,
            Some("odd") => Parity::Odd,
            _ => Parity::None,
        };
        let flow = match call.choice(usize::MAX, "flow", &["none", "hardware", "software"])? {
            Some("hardware") => Flow::Hardware,
            Some("software") => Flow::Software,
            _ => Flow::None,
        };
        let waits = call.choice(usize::MAX, "lost", &["fault", "wait"])? == Some("wait");
        let settings = Settings { baud, bits, parity, stop, flow };
        match std::fs::metadata(path) {
            Ok(is) if is.file_type().is_char_device() => {}
            Ok(_) => return Err(Wrong::at(span, format!("{path} is no device, so no serial line"))),
            Err(e) => return Err(Wrong::at(span, format!("there is no serial line {path}: {e}"))),
        }
        let (path, line) = (path.to_owned(), None);
        Ok(Plug { path, settings, waits, line, absent: Absent::default(), bytes: 0 })
    }

    fn open(&mut self) -> Result<(), Fault> {
        let (path, baud) = (&self.path, self.settings.baud);
        let line = Line::open(path, &self.settings);
        self.line =
            Some(line.map_err(|why| Fault(format!("cannot use the serial line {path} at {baud} baud: {why}")))?);
        Ok(())
    }

    /// A read or write has failed: whether it is to be done again.
    fn failed(&mut self, e: io::Error) -> Result<(), Fault> {
        match e.kind() {
            ErrorKind::Interrupted | ErrorKind::WouldBlock => Ok(()),
            _ if Line::is_gone(&e) && self.waits => {
                self.line = None;
                self.absent.begins();
                Ok(())
            }
            _ if Line::is_gone(&e) => {
                let why = format!(
                    "the serial line {} has gone after {} bytes: `lost=wait` waits for it",
                    self.path, self.bytes
                );
                Err(Fault(why))
            }
            _ => Err(Fault(format!("the serial line {}: {e}", self.path))),
        }
    }

    /// Looks for a line that is away: for how many seconds it was.
    fn find(&mut self) -> Option<f64> {
        self.open().ok()?;
        Some(self.absent.ends())
    }

    /// What it says at the end.
    fn says(&self) -> Option<String> {
        Some(format!("{} bytes{}", self.bytes, self.absent.says()))
    }
}

/// What comes over a line.
struct Hears {
    plug: Plug,
    /// The line's overruns, so far as it counts them, and those that are not told.
    overruns: Overruns,
}

/// Follows a count that goes on from where it is when a line is opened.
#[derive(Default)]
struct Overruns {
    last: Option<u32>,
    more: u64,
}

impl Overruns {
    /// So many there are now; nothing: another line, or one that counts nothing.
    fn now(&mut self, count: Option<u32>) {
        if let (Some(last), Some(count)) = (self.last, count) {
            self.more += u64::from(count.wrapping_sub(last));
        }
        self.last = count;
    }
}

impl Source for Hears {
    fn lost(&mut self) -> Option<Lost> {
        self.plug.absent.news()
    }

    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let Hears { plug, overruns } = self;
        let Some(line) = &plug.line else {
            if plug.find().is_none() {
                chappe_thread::sleep(LOOK);
            }
            overruns.last = None;
            overruns.now(plug.line.as_ref().and_then(Line::overruns));
            return Ok(Some(Block::bytes(Vec::new())));
        };
        let mut bytes = vec![0; BLOCK];
        let mut read = line.read(&mut bytes);
        if matches!(&read, Err(e) if e.kind() == ErrorKind::WouldBlock) {
            let mut choice = Select::new();
            choice.readable(line);
            if choice.ready_timeout(LOOK).is_ok() {
                read = line.read(&mut bytes);
            }
        }
        if overruns.last.is_some() {
            overruns.now(line.overruns());
        }
        let n = match read {
            Ok(n) => n,
            Err(e) => plug.failed(e).map(|()| 0)?,
        };
        plug.bytes += n as u64;
        bytes.truncate(n);
        Ok(Some(Block::bytes(bytes)))
    }

    fn dropped(&mut self) -> u64 {
        std::mem::take(&mut self.overruns.more)
    }

    fn says(&self) -> Option<String> {
        self.plug.says()
    }
}

/// What goes over a line.
struct Tells {
    plug: Plug,
    /// When the line is free again.
    free: u64,
}

impl Tells {
    /// Hands bytes over as the line takes them. Those that are left when the graph is to stop are counted.
    fn send(&mut self, mut bytes: &[u8], out: &mut dyn Out) -> Result<(), Fault> {
        let rate = self.plug.settings.bytes_a_second();
        // As many at once as the line sends in ten milliseconds.
        let most = ((rate / 100.0) as usize).max(1);
        while !bytes.is_empty() {
            let Some(line) = &self.plug.line else {
                if out.is_stopped() {
                    out.drop_frames(bytes.len() as u64);
                    return Ok(());
                }
                match self.plug.find() {
                    Some(away) => out.late(away),
                    None => chappe_thread::sleep(LOOK),
                }
                self.plug.absent.news().into_iter().for_each(|what| out.lost(what));
                continue;
            };
            self.free = self.free.max(clock::now());
            match line.write(&bytes[..most.min(bytes.len())]) {
                Ok(n) => {
                    bytes = &bytes[n..];
                    self.plug.bytes += n as u64;
                    self.free += (n as f64 / rate * 1e9) as u64;
                    sleep_until(self.free);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let mut choice = Select::new();
                    choice.writable(line);
                    let is_ready = choice.ready_timeout(LOOK).is_ok();
                    if !is_ready && out.is_stopped() {
                        out.drop_frames(bytes.len() as u64);
                        return Ok(());
                    }
                }
                Err(e) => {
                    self.plug.failed(e)?;
                    self.plug.absent.news().into_iter().for_each(|what| out.lost(what));
                }
            }
        }
        Ok(())
    }
}

impl Stage for Tells {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        self.send(block.octets(), out)
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        // A line that is closed forgets what its device has not sent.
        while let Some(line) = &self.plug.line {
            match line.unsent() {
                Ok(0) | Err(_) => break,
                Ok(bytes) if out.is_stopped() => {
                    out.drop_frames(bytes as u64);
                    break;
                }
                Ok(_) => chappe_thread::sleep(Duration::from_millis(5)),
            }
        }
        Ok(())
    }

    fn says(&self) -> Option<String> {
        self.plug.says()
    }
}

fn serial(call: &Call<'_>) -> Result<Plan, Wrong> {
    let mut plug = Plug::of(call)?;
    if call.inputs.is_empty() {
        let plan = Plan::source(Type::of(Element::Byte), move || {
            plug.open()?;
            let mut overruns = Overruns::default();
            overruns.now(plug.line.as_ref().and_then(Line::overruns));
            Ok(Body::Source(Box::new(Hears { plug, overruns })))
        });
        return Ok(plan.ends(End::Passive, End::Active).anew(Anew::Live));
    }
    let input = call.input()?;
    if !matches!(input.element, Element::Byte | Element::Line) {
        return Err(call.mismatch(
            input,
            "bytes or lines",
            "`cast bytes` takes numbers for bytes, `csv` writes records",
        ));
    }
    // Begun anew it writes on: the line has what was written.
    let plan = Plan::sink(move || {
        plug.open()?;
        stage(Tells { plug, free: 0 })
    });
    Ok(plan.anew(Anew::Fresh))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![Kind::new(
        "serial",
        "\"LINE\" [BAUD=115200] [bits=8] [parity=none|even|odd] [stop=1|2] [flow=none|hardware|software] [lost=fault|wait]",
        "a serial line: read, or written at its rate if something leads to it",
        serial,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overruns_count_from_the_opening_of_each_line_on() {
        let mut overruns = Overruns::default();
        for (count, more) in [
            (Some(u32::MAX - 1), 0),
            (Some(1), 3),
            (Some(1), 3),
            // It counts no more; the next one has counted before.
            (None, 3),
            (Some(900), 3),
            (Some(902), 5),
        ] {
            overruns.now(count);
            assert_eq!(overruns.more, more, "{count:?}");
        }
    }
}
