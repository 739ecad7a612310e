//! Stages that change the size, the element type or the number of blocks. The thesis' BufferOut and BufferIn are
//! `buffer` and `unbuffer`, its Probe is `probe`.

use super::packets;
use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Fault, Lost, Out, Stage, stage};
use crate::types::{Block, Data, Element, Type};
use chappe_plat::clock;

/// Cuts anew: blocks of so many frames, the last one with the rest.
struct Buffer {
    frames: usize,
    frame: usize,
    kept: Option<Block>,
    /// A block is handed on after so long, however few it has.
    flush: Option<u64>,
    since: u64,
}

/// Takes so many elements from the begin of a block.
fn cut(block: &mut Block, at: usize) -> Block {
    fn front<T>(data: &mut Vec<T>, at: usize) -> Vec<T> {
        let rest = data.split_off(at);
        std::mem::replace(data, rest)
    }
    let data = match &mut block.data {
        Data::F32(d) => Data::F32(front(d, at)),
        Data::I16(d) => Data::I16(front(d, at)),
        Data::Bytes(d) => Data::Bytes(front(d, at)),
    };
    Block { data, texts: block.texts.clone(), again: block.again }
}

fn append(to: &mut Block, mut from: Block) {
    to.again |= from.again;
    match (&mut to.data, &mut from.data) {
        (Data::F32(a), Data::F32(b)) => a.append(b),
        (Data::I16(a), Data::I16(b)) => a.append(b),
        (Data::Bytes(a), Data::Bytes(b)) => a.append(b),
        _ => unreachable!("blocks of one link have one element"),
    }
}

impl Stage for Buffer {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let size = self.frames * self.frame;
        if self.kept.is_none() {
            self.since = if self.flush.is_some() { clock::now() } else { 0 };
        }
        match &mut self.kept {
            Some(kept) => append(kept, block),
            None => self.kept = Some(block),
        }
        while self.kept.as_ref().is_some_and(|k| k.len() >= size) {
            let kept = self.kept.as_mut().expect("it was seen");
            let full = cut(kept, size);
            out.put(full)?;
        }
        if self.kept.as_ref().is_some_and(Block::is_empty) {
            self.kept = None;
        }
        if self.flush.is_some_and(|after| clock::now() - self.since >= after) {
            return self.end(out);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        self.kept.take().map_or(Ok(()), |rest| out.put(rest))
    }
}

/// Elements become others.
struct Cast {
    to: Element,
}

impl Stage for Cast {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let again = block.again;
        let data = match (block.data, &self.to) {
            (Data::I16(d), Element::F32) => Data::F32(d.iter().map(|s| f32::from(*s) / 32_768.0).collect()),
            (Data::F32(d), Element::I16) => {
                let to = |s: &f32| (s * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i16;
                Data::I16(d.iter().map(to).collect())
            }
            (Data::Bytes(d), Element::F32 | Element::I16) => {
                let size = if self.to == Element::F32 { 4 } else { 2 };
                let rest = d.len() % size;
                let whole = Block::from_bytes(&self.to, &d);
                if rest > 0 {
                    if !whole.is_empty() {
                        out.put(Block { again, ..whole })?;
                    }
                    // The buffer before it gives whole elements until the end.
                    return Err(super::opened::no_whole(rest, "element", size));
                }
                whole.data
            }
            (data, Element::Byte) => Data::Bytes(Block::of(data).to_bytes()),
            (data, _) => data,
        };
        out.put(Block { again, ..Block::of(data) })
    }
}

fn cast(call: &Call<'_>) -> Result<Plan, Wrong> {
    let input = call.plain()?;
    let to = match call.choice(0, "to", &["f32", "i16", "bytes"])? {
        Some("f32") => Element::F32,
        Some("i16") => Element::I16,
        Some(_) => Element::Byte,
        None => return Err(Wrong::new("`cast` needs a type: f32, i16 or bytes")),
    };
    let gives = match (&input.element, &to) {
        (Element::Line | Element::Record(_) | Element::Packet(_), Element::F32 | Element::I16) => {
            return Err(call.mismatch(input, "f32, i16 or bytes", "`field NAME` takes a field of records"));
        }
        (Element::Byte, Element::F32 | Element::I16) => {
            let size = if to == Element::F32 { 4 } else { 2 };
            // A block has whole elements.
            let gives = Type { element: to.clone(), shape: 1, rate: None };
            return Ok(Plan::filter(gives, move || {
                let buffer = Buffer { frames: 256, frame: size, kept: None, flush: None, since: 0 };
                stage(Two(buffer, Cast { to }))
            }));
        }
        (_, Element::Byte) => Type::of(Element::Byte),
        _ => Type { element: to.clone(), ..input.clone() },
    };
    Ok(Plan::filter(gives, move || stage(Cast { to })))
}

/// Two stages as one.
struct Two<A, B>(A, B);

struct Between<'a, B> {
    behind: &'a mut B,
    out: &'a mut dyn Out,
}

impl<B: Stage> Out for Between<'_, B> {
    fn put(&mut self, block: Block) -> Result<(), Fault> {
        self.behind.put(block, self.out)
    }

    fn drop_frames(&mut self, count: u64) {
        self.out.drop_frames(count);
    }

    fn finish(&mut self) {
        self.out.finish();
    }

    fn late(&mut self, by: f64) {
        self.out.late(by);
    }

    fn lost(&mut self, what: Lost) {
        self.out.lost(what);
    }

    fn is_begun(&self) -> bool {
        self.out.is_begun()
    }

    fn begun(&mut self) {
        self.out.begun();
    }

    fn is_stopped(&self) -> bool {
        self.out.is_stopped()
    }

    fn is_cut(&self) -> bool {
        self.out.is_cut()
    }
}

impl<A: Stage, B: Stage> Stage for Two<A, B> {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        self.0.put(block, &mut Between { behind: &mut self.1, out })
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        self.0.end(&mut Between { behind: &mut self.1, out })?;
        self.1.end(out)
    }
}

/// Only so many frames, or all but the first ones.
struct Window {
    frame: usize,
    skip: usize,
    take: Option<usize>,
}

impl Stage for Window {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let skipped = self.skip.min(block.len() / self.frame);
        self.skip -= skipped;
        if skipped > 0 {
            cut(&mut block, skipped * self.frame);
        }
        if let Some(left) = &mut self.take {
            let taken = (*left).min(block.len() / self.frame);
            *left -= taken;
            block = cut(&mut block, taken * self.frame);
            if *left == 0 {
                out.finish();
            }
        }
        if block.is_empty() { Ok(()) } else { out.put(block) }
    }
}

/// Time and sizes of what is behind it.
struct Probe {
    blocks: u64,
    sum: u64,
    /// Blocks whose time is below 2^i ns.
    within: [u64; 40],
}

impl Stage for Probe {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let began = clock::now();
        let done = out.put(block);
        let took = clock::now() - began;
        self.blocks += 1;
        self.sum += took;
        self.within[(64 - took.leading_zeros() as usize).min(39)] += 1;
        done
    }

    fn says(&self) -> Option<String> {
        let at = |part: f64| {
            let mut left = (self.blocks as f64 * part) as u64;
            let found = self.within.iter().position(|n| {
                let here = left < *n;
                left = left.saturating_sub(*n);
                here
            });
            1u64 << found.unwrap_or(0)
        };
        let mean = self.sum as f64 / self.blocks.max(1) as f64;
        Some(format!(
            "{} blocks, mean {mean:.0} ns behind here, half below {} ns, 99 % below {} ns",
            self.blocks,
            at(0.5),
            at(0.99)
        ))
    }
}

/// Frames that are dropped on purpose show as such; this one counts and says.
struct Count {
    frame: usize,
    /// What it counts, if that is no frames.
    of: Element,
    frames: u64,
}

impl Stage for Count {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        self.frames += match (&self.of, &block.data) {
            (Element::Line, Data::Bytes(bytes)) => bytes.iter().filter(|b| **b == b'\n').count() as u64,
            (Element::Packet(_), Data::Bytes(bytes)) => packets::each(bytes).count() as u64,
            _ => (block.len() / self.frame) as u64,
        };
        out.put(block)
    }

    fn says(&self) -> Option<String> {
        let what = match self.of {
            Element::Line => "lines",
            Element::Packet(_) => "packets",
            _ => "frames",
        };
        Some(format!("{} {what}", self.frames))
    }
}

/// Elements of a frame of what comes in; of records their bytes.
fn frame(input: &Type) -> usize {
    if matches!(input.element, Element::Record(_)) { input.frame_bytes() } else { input.shape as usize }
}

fn fixed<'a>(call: &Call<'a>) -> Result<&'a Type, Wrong> {
    let input = call.input()?;
    if input.has_no_frames() {
        return Err(call.mismatch(input, "frames of a fixed size", "lines and packets have none"));
    }
    Ok(input)
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new("buffer", "FRAMES [flush=SECONDS]", "blocks of so many frames; the last one has the rest", |call| {
            call.plain()?;
            let input = fixed(call)?;
            let frames = call.needs_number(0, "frames", (1.0, 1e6))? as usize;
            let flush = call.number(1, "flush", (0.0, 1e6))?.map(|s| (s * 1e9) as u64);
            let frame = frame(input);
            Ok(Plan::filter(input.clone(), move || stage(Buffer { frames, frame, kept: None, flush, since: 0 })))
        }),
        Kind::new("unbuffer", "", "blocks of one frame", |call| {
            let input = fixed(call)?;
            let frame = frame(input);
            Ok(Plan::filter(input.clone(), move || {
                stage(Buffer { frames: 1, frame, kept: None, flush: None, since: 0 })
            }))
        }),
        Kind::new(
            "cast",
            "f32|i16|bytes",
            "other elements: samples to numbers and back, either to bytes and back",
            cast,
        ),
        Kind::new("rate", "HZ", "says how many frames a second there are, and changes nothing else", |call| {
            let rate = call.needs_number(0, "rate", (1e-6, 1e9))?;
            Ok(Plan::filter(Type { rate: Some(rate), ..call.input()?.clone() }, || {
                stage(Window { frame: 1, skip: 0, take: None })
            }))
        }),
        Kind::new("take", "FRAMES", "the first frames alone; then its line ends", |call| {
            let input = fixed(call)?;
            let (take, frame) = (Some(call.needs_number(0, "frames", (1.0, 1e15))? as usize), frame(input));
            Ok(Plan::filter(input.clone(), move || stage(Window { frame, skip: 0, take })))
        }),
        Kind::new("skip", "FRAMES", "all but the first frames", |call| {
            let input = fixed(call)?;
            let (skip, frame) = (call.needs_number(0, "frames", (0.0, 1e15))? as usize, frame(input));
            Ok(Plan::filter(input.clone(), move || stage(Window { frame, skip, take: None })))
        }),
        Kind::new("probe", "", "measures how long what is behind it takes, and says it at the end", |call| {
            Ok(Plan::filter(call.input()?.clone(), || stage(Probe { blocks: 0, sum: 0, within: [0; 40] })))
        }),
        Kind::new("count", "", "counts frames, lines or packets, and says how many at the end", |call| {
            let input = call.input()?;
            let (frame, of) = (frame(input), input.element.clone());
            Ok(Plan::filter(input.clone(), move || stage(Count { frame, of, frames: 0 })))
        }),
    ]
}
