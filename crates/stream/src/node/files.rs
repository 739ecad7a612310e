//! Files: the thesis' FSmap. Sound files are in `wav`.
//!
//! A `file`, `raw`, `lines` or `records` without an input reads a file; with an input, it writes one. A reading
//! stage gives whole frames, lines and records. An incomplete frame or record at the end is an error, after all that
//! comes before it; incomplete text at the end is the last line.

use super::ahead;
use super::opened::{created, no_whole, opened};
use super::packets;
use crate::kind::{Anew, Call, End, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Out, Source, Stage, stage};
use crate::types::{Block, Data, Element, Type};
use chappe_rows::{LineWriter, Pattern, WholeFile};
use chappe_sync::Select;
use chappe_sync::schemas::resolved;
use chappe_synth::Schema;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a block of a file without frames.
const BYTES: usize = 8192;
/// The same of one that is read ahead: what such a read costs beside its bytes is little then, and the block fits into a processor's own cache.
const AHEAD: f64 = 131_072.0;

/// Whole frames of an open file.
struct Frames {
    file: Box<dyn Read + Send>,
    element: Element,
    bytes: usize,
    frame: usize,
    blocks: bool,
    /// Bytes at the end that are no whole frame.
    rest: usize,
}

/// The standard input. A read waits a tenth of a second at most, and says `WouldBlock` then: a graph that is to stop is not held up by a writer that
/// says nothing, and windows end by the clock.
struct Stdin(WholeFile);

impl Stdin {
    fn open() -> std::io::Result<Stdin> {
        WholeFile::new(File::from(std::io::stdin().as_fd().try_clone_to_owned()?)).map(Stdin)
    }
}

impl Read for Stdin {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        const WAIT: Duration = Duration::from_millis(100);
        let mut choice = Select::new();
        choice.readable(&self.0);
        if choice.ready_timeout(WAIT).is_err() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.0.read(to)
    }
}

impl Source for Frames {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        if self.rest > 0 {
            return Err(no_whole(self.rest, "frame", self.frame));
        }
        let mut bytes = vec![0; self.bytes];
        let mut have = 0;
        while have < bytes.len() {
            let (file, rest) = (&mut self.file, &mut bytes[have..]);
            let read = if self.blocks { chappe_thread::block_in_place(|| file.read(rest)) } else { file.read(rest) };
            match read {
                Ok(0) => break,
                Ok(n) => {
                    have += n;
                    // What a pipe has is handed on.
                    if self.blocks && have % self.frame == 0 {
                        break;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock && have == 0 => {
                    return Ok(Some(Block::from_bytes(&self.element, &[])));
                }
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.rest = have % self.frame;
        have -= self.rest;
        if have == 0 && self.rest > 0 {
            return Err(no_whole(self.rest, "frame", self.frame));
        }
        bytes.truncate(have);
        Ok((have > 0).then(|| match self.element {
            Element::F32 | Element::I16 => Block::from_bytes(&self.element, &bytes),
            _ => Block::bytes(bytes),
        }))
    }
}

struct Lines {
    file: Box<dyn BufRead + Send>,
    blocks: bool,
    /// What has come of a line whose end is to come.
    half: Vec<u8>,
}

impl Source for Lines {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let mut bytes = std::mem::take(&mut self.half);
        let file = &mut self.file;
        loop {
            let before = bytes.len();
            let blocks = self.blocks;
            let mut read = || file.read_until(b'\n', &mut bytes);
            let n = match if blocks { chappe_thread::block_in_place(read) } else { read() } {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.half = bytes;
                    return Ok(Some(Block::bytes(Vec::new())));
                }
                n => n?,
            };
            if n == 0 && bytes.len() == before && (before == 0 || bytes.last() == Some(&b'\n')) {
                break;
            }
            if bytes.last() != Some(&b'\n') {
                bytes.push(b'\n');
            }
            if self.blocks || bytes.len() >= BYTES || bytes.len() == before {
                break;
            }
        }
        Ok((!bytes.is_empty()).then(|| Block::bytes(bytes)))
    }
}

struct ToFile(BufWriter<File>);

impl Stage for ToFile {
    fn put(&mut self, block: Block, _: &mut dyn Out) -> Result<(), Fault> {
        match &block.data {
            Data::Bytes(bytes) => self.0.write_all(bytes)?,
            _ => self.0.write_all(&block.to_bytes())?,
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Out) -> Result<(), Fault> {
        Ok(self.0.flush()?)
    }
}

/// Bytes, or numbers without a head, in a file.
fn plain(call: &Call<'_>, element: Option<&'static str>) -> Result<Plan, Wrong> {
    let (path, span) = call.file()?;
    let path = path.to_owned();
    if !call.inputs.is_empty() {
        call.plain()?;
        return Ok(Plan::sink(move || stage(ToFile(created(&path)?))));
    }
    let element = match element {
        Some("f32") => Element::F32,
        Some("i16") => Element::I16,
        _ => Element::Byte,
    };
    let shape = call.number_or(2, "channels", (1.0, 65_536.0), 1.0)? as u32;
    let rate = call.number(3, "rate", (1e-6, 1e9))?;
    let gives = Type { element: element.clone(), shape, rate };
    let frame = gives.frame_bytes();
    let reads = call.number(5, "reads", (1.0, 256.0))?;
    let usual = match reads {
        _ if frame > 1 => 256.0,
        Some(_) => AHEAD,
        None => BYTES as f64,
    };
    let frames = call.number_or(4, "block", (1.0, 1_048_576.0), usual)?;
    if let Some(reads) = reads {
        return ahead::source(&path, gives, frames as usize, reads as u64).map_err(|why| Wrong::at(span, why));
    }
    let file = opened(&path, span)?;
    let bytes = frame * frames as usize;
    let plan = Plan::source(gives, move || {
        Ok(Body::Source(Box::new(Frames { file: Box::new(file), element, bytes, frame, blocks: false, rest: 0 })))
    });
    Ok(plan.reads(&path))
}

fn records(call: &Call<'_>) -> Result<Plan, Wrong> {
    let (path, span) = call.file()?;
    let path = path.to_owned();
    if !call.inputs.is_empty() {
        call.plain()?;
        return Ok(Plan::sink(move || stage(ToFile(created(&path)?))));
    }
    let (text, at) = call.needs_text(1, "schema")?;
    let text = resolved(text).map_err(|e| Wrong::at(at, e.to_string()))?;
    let schema = Schema::parse(&text).map_err(|e| Wrong::at(at, format!("the schema: {}", e.message())))?;
    let gives = Type::of(Element::Record(Arc::new(schema)));
    let frame = gives.frame_bytes();
    let bytes = frame * (BYTES / frame).max(1);
    let (element, file) = (gives.element.clone(), opened(&path, span)?);
    Ok(Plan::source(gives, move || {
        Ok(Body::Source(Box::new(Frames { file: Box::new(file), element, bytes, frame, blocks: false, rest: 0 })))
    }))
}

/// Prints lines, or numbers a frame a line.
struct Print {
    frame: usize,
    text: bool,
    packets: bool,
}

impl Stage for Print {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        match self.print(&block) {
            // The reader has seen enough.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => out.finish(),
            printed => printed?,
        }
        Ok(())
    }
}

impl Print {
    fn print(&self, block: &Block) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        match &block.data {
            Data::Bytes(bytes) if self.text => out.write_all(bytes)?,
            Data::Bytes(bytes) if self.packets => {
                for packet in packets::each(bytes) {
                    writeln!(out, "{packet}")?;
                }
            }
            Data::Bytes(bytes) => {
                for record in bytes.chunks(self.frame) {
                    let hex: String = record.iter().map(|b| format!("{b:02x}")).collect();
                    writeln!(out, "{hex}")?;
                }
            }
            Data::F32(numbers) => print_frames(&mut out, numbers.chunks(self.frame))?,
            Data::I16(numbers) => print_frames(&mut out, numbers.chunks(self.frame))?,
        }
        Ok(())
    }
}

fn print_frames<'a, T: std::fmt::Display + 'a>(
    out: &mut impl Write,
    frames: impl Iterator<Item = &'a [T]>,
) -> std::io::Result<()> {
    for frame in frames {
        let words: Vec<String> = frame.iter().map(T::to_string).collect();
        writeln!(out, "{}", words.join(" "))?;
    }
    Ok(())
}

/// FNV-1a of everything, said at the end.
struct Hash(u64);

impl Stage for Hash {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        for byte in block.to_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        out.put(block)
    }

    fn says(&self) -> Option<String> {
        Some(format!("hash {:016x}", self.0))
    }
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new(
            "file",
            "\"FILE\" [block=8192] [reads=N]",
            "a file of bytes: read (with `reads`: up to so many blocks ahead, of 131,072 bytes), or written if something leads to it",
            |call| plain(call, None),
        ),
        Kind::new(
            "raw",
            "\"FILE\" [as=f32|i16|bytes] [channels=1] [rate=HZ] [block=256] [reads=N]",
            "numbers without a head in a file: read, or written",
            |call| {
                let element = call.choice(1, "as", &["f32", "i16", "bytes"])?;
                plain(call, element.or(Some("f32")))
            },
        ),
        Kind::new(
            "lines",
            "[\"FILE\"|\"PATTERN\"]",
            "lines of a text: of a file, or of the bytes before it; written if lines lead to it; of records by a pattern: \"{sym} {px}\"",
            |call| match call.inputs {
                [] => {
                    let (path, span) = call.file()?;
                    let file = opened(path, span)?;
                    let plan = Plan::source(Type::of(Element::Line), move || {
                        Ok(Body::Source(Box::new(Lines {
                            file: Box::new(BufReader::new(file)),
                            blocks: false,
                            half: Vec::new(),
                        })))
                    });
                    Ok(plan.reads(path))
                }
                [Type { element: Element::Byte, .. }] => {
                    Ok(Plan::filter(Type::of(Element::Line), || stage(Cut(Vec::new()))))
                }
                [Type { element: Element::Line, .. }] => {
                    let path = call.file()?.0.to_owned();
                    Ok(Plan::sink(move || stage(ToFile(created(&path)?))))
                }
                [Type { element: Element::Record(schema), .. }] => {
                    let (text, span) = call.needs_text(0, "pattern")?;
                    let pattern = Pattern::parse(text).map_err(|why| Wrong::at(span, why))?;
                    let writer = LineWriter::new(&pattern, schema).map_err(|why| Wrong::at(span, why))?;
                    Ok(Plan::filter(Type::of(Element::Line), move || stage(ByPattern(writer))))
                }
                [other, ..] => Err(call.mismatch(other, "bytes, lines or records", "`print` shows anything")),
            },
        ),
        Kind::new(
            "records",
            "\"FILE\" \"SCHEMA\"",
            "records of fixed size: read, or written if something leads to it",
            records,
        ),
        Kind::new(
            "stdin",
            "[as=lines|bytes|f32|i16] [channels=1] [rate=HZ]",
            "what comes on the standard input, as it comes",
            |call| {
                call.no_input()?;
                call.touch("/dev/stdin", call.written().span);
                let element = match call.choice(0, "as", &["lines", "bytes", "f32", "i16"])? {
                    None | Some("lines") => {
                        let plan = Plan::source(Type::of(Element::Line), move || {
                            let file = Box::new(BufReader::new(Stdin::open()?));
                            Ok(Body::Source(Box::new(Lines { file, blocks: true, half: Vec::new() })))
                        });
                        return Ok(plan.ends(End::Passive, End::Active).anew(Anew::Here));
                    }
                    Some("f32") => Element::F32,
                    Some("i16") => Element::I16,
                    _ => Element::Byte,
                };
                let shape = call.number_or(1, "channels", (1.0, 65_536.0), 1.0)? as u32;
                let gives = Type { element: element.clone(), shape, rate: call.number(2, "rate", (1e-6, 1e9))? };
                let frame = gives.frame_bytes();
                let bytes = frame * (BYTES / frame).max(1);
                let plan = Plan::source(gives, move || {
                    let file = Box::new(Stdin::open()?);
                    Ok(Body::Source(Box::new(Frames { file, element, bytes, frame, blocks: true, rest: 0 })))
                });
                Ok(plan.ends(End::Passive, End::Active).anew(Anew::Here))
            },
        ),
        Kind::new("print", "", "prints lines, numbers a frame a line, and packets a line each", |call| {
            let input = call.plain()?;
            let packets = matches!(input.element, Element::Packet(_));
            let text = matches!(input.element, Element::Line | Element::Byte);
            let frame =
                if matches!(input.element, Element::Record(_)) { input.frame_bytes() } else { input.shape as usize };
            Ok(Plan::sink(move || stage(Print { frame, text, packets })).anew(Anew::Fresh))
        }),
        Kind::new("hash", "", "hashes what goes through (FNV-1a), and says it at the end", |call| {
            Ok(Plan::filter(call.plain()?.clone(), || stage(Hash(0xcbf2_9ce4_8422_2325))))
        }),
    ]
}

/// Records as lines that have one form.
struct ByPattern(LineWriter);

impl Stage for ByPattern {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let mut text = Vec::new();
        if let Data::Bytes(records) = &block.data {
            self.0.rows(records, block.texts(), &mut text);
        }
        out.put(block.instead(Data::Bytes(text)))
    }
}

/// Cuts bytes into whole lines.
struct Cut(Vec<u8>);

impl Stage for Cut {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        self.0.append(block.octets());
        let Some(last) = self.0.iter().rposition(|b| *b == b'\n') else { return Ok(()) };
        let rest = self.0.split_off(last + 1);
        out.put(Block::bytes(std::mem::replace(&mut self.0, rest)))
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        if self.0.is_empty() {
            return Ok(());
        }
        if out.is_cut() {
            out.drop_frames(1);
            return Ok(());
        }
        self.0.push(b'\n');
        out.put(Block::bytes(std::mem::take(&mut self.0)))
    }
}
