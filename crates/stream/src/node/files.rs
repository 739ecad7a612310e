//! Files: the thesis' FSmap, and its CD and DA as sound files.
//!
//! A `wav`, `file`, `raw`, `lines` or `records` without an input reads a file; with an input, it writes one. A reading
//! stage gives whole frames, lines and records. An incomplete frame or record at the end is counted as dropped;
//! incomplete text at the end is the last line.

use super::{packets, stage};
use crate::kind::{Anew, Call, End, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Out, Source, Stage};
use crate::types::{Block, Data, Element, Type};
use chappe_synth::Schema;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::sync::Arc;

/// Bytes of a block of a file without frames.
const BYTES: usize = 8192;

pub(super) fn opened(path: &str, span: chappe_synth::Span) -> Result<File, Wrong> {
    File::open(path).map_err(|e| Wrong::at(span, format!("cannot read {path}: {e}")))
}

pub(super) fn created(path: &str) -> Result<BufWriter<File>, Fault> {
    let file = File::create(path).map_err(|e| Fault::new(format!("cannot write {path}: {e}")))?;
    Ok(BufWriter::with_capacity(65_536, file))
}

/// Whole frames of an open file.
struct Frames {
    file: Box<dyn Read + Send>,
    element: Element,
    bytes: usize,
    frame: usize,
    blocks: bool,
}

impl Source for Frames {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
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
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        if have % self.frame != 0 {
            let rest = have % self.frame;
            return Err(Fault(format!("the last {rest} bytes are no whole frame of {} bytes", self.frame)));
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
}

impl Source for Lines {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let mut bytes = Vec::new();
        let file = &mut self.file;
        loop {
            let before = bytes.len();
            let blocks = self.blocks;
            let mut read = || file.read_until(b'\n', &mut bytes);
            let n = if blocks { chappe_thread::block_in_place(read) } else { read() }?;
            if n == 0 {
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

struct FromWav {
    reader: hound::WavReader<BufReader<File>>,
    block: usize,
}

impl Source for FromWav {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let spec = self.reader.spec();
        let count = self.block * usize::from(spec.channels);
        let samples: Result<Vec<f32>, _> = match spec.sample_format {
            hound::SampleFormat::Float => self.reader.samples::<f32>().take(count).collect(),
            hound::SampleFormat::Int => {
                let scale = 1.0 / (1u64 << (spec.bits_per_sample - 1)) as f32;
                self.reader.samples::<i32>().take(count).map(|s| s.map(|s| s as f32 * scale)).collect()
            }
        };
        let samples = samples.map_err(|e| Fault::new(format!("the sound file is damaged: {e}")))?;
        Ok((!samples.is_empty()).then(|| Block::f32(samples)))
    }
}

struct ToWav(Option<hound::WavWriter<BufWriter<File>>>, f32);

impl Stage for ToWav {
    fn put(&mut self, mut block: Block, _: &mut dyn Out) -> Result<(), Fault> {
        let Some(writer) = &mut self.0 else { return Ok(()) };
        let written = match &mut block.data {
            Data::I16(samples) => samples.iter().try_for_each(|s| writer.write_sample(*s)),
            _ if self.1 == 0.0 => block.numbers().iter().try_for_each(|s| writer.write_sample(*s)),
            _ => {
                let scale = self.1;
                let whole = |s: &f32| (s.clamp(-1.0, 1.0) * scale).round() as i32;
                block.numbers().iter().try_for_each(|s| writer.write_sample(whole(s)))
            }
        };
        written.map_err(Fault::new)
    }

    fn end(&mut self, _: &mut dyn Out) -> Result<(), Fault> {
        self.0.take().map_or(Ok(()), |w| w.finalize().map_err(Fault::new))
    }
}

fn wav(call: &Call<'_>) -> Result<Plan, Wrong> {
    let (path, span) = call.needs_text(0, "file")?;
    let path = path.to_owned();
    if call.inputs.is_empty() {
        let block = call.number_or(1, "block", (1.0, 65_536.0), 256.0)? as usize;
        let reader = hound::WavReader::open(&path).map_err(|e| Wrong::at(span, format!("cannot read {path}: {e}")))?;
        let spec = reader.spec();
        if spec.sample_rate == 0 {
            return Err(Wrong::at(span, format!("cannot read {path}: it says that its rate is 0 Hz")));
        }
        let gives = Type::sound(u32::from(spec.channels), f64::from(spec.sample_rate));
        return Ok(Plan::source(gives, move || Ok(Body::Source(Box::new(FromWav { reader, block })))));
    }
    let input = call.input()?;
    let bits = call.choice(1, "bits", &["f32", "i16", "i24"])?;
    let (format, bits, scale) = match (&input.element, bits) {
        (Element::I16, None | Some("i16")) => (hound::SampleFormat::Int, 16, 0.0),
        (Element::F32, None | Some("f32")) => (hound::SampleFormat::Float, 32, 0.0),
        (Element::F32, Some("i16")) => (hound::SampleFormat::Int, 16, 32_767.0),
        (Element::F32, _) => (hound::SampleFormat::Int, 24, 8_388_607.0),
        _ => return Err(call.mismatch(input, "f32 or i16 at a rate", "`cast` makes numbers")),
    };
    let Some(rate) = input.rate.filter(|r| r.fract() == 0.0 && *r < f64::from(u32::MAX)) else {
        return Err(call.mismatch(input, "sound at a whole rate", "`rate 48000` before it says which"));
    };
    let channels = input.shape as u16;
    let spec = hound::WavSpec { channels, sample_rate: rate as u32, bits_per_sample: bits, sample_format: format };
    Ok(Plan::sink(move || {
        let file = created(&path)?;
        let writer = hound::WavWriter::new(file, spec);
        let writer = writer.map_err(|e| Fault::new(format!("cannot write {path}: {e}")));
        stage(ToWav(Some(writer?), scale))
    }))
}

/// Bytes, or numbers without a head, in a file.
fn plain(call: &Call<'_>, element: Option<&'static str>) -> Result<Plan, Wrong> {
    let (path, span) = call.needs_text(0, "file")?;
    let path = path.to_owned();
    if !call.inputs.is_empty() {
        call.input()?;
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
    let frames = call.number_or(4, "block", (1.0, 65_536.0), if frame == 1 { BYTES as f64 } else { 256.0 })?;
    let file = opened(&path, span)?;
    let bytes = frame * frames as usize;
    Ok(Plan::source(gives, move || {
        Ok(Body::Source(Box::new(Frames { file: Box::new(file), element, bytes, frame, blocks: false })))
    }))
}

fn records(call: &Call<'_>) -> Result<Plan, Wrong> {
    let (path, span) = call.needs_text(0, "file")?;
    let path = path.to_owned();
    if !call.inputs.is_empty() {
        call.input()?;
        return Ok(Plan::sink(move || stage(ToFile(created(&path)?))));
    }
    let (text, at) = call.needs_text(1, "schema")?;
    let schema = Schema::parse(text).map_err(|e| Wrong::at(at, format!("the schema: {}", e.message())))?;
    let gives = Type::of(Element::Record(Arc::new(schema)));
    let frame = gives.frame_bytes();
    let bytes = frame * (BYTES / frame).max(1);
    let (element, file) = (gives.element.clone(), opened(&path, span)?);
    Ok(Plan::source(gives, move || {
        Ok(Body::Source(Box::new(Frames { file: Box::new(file), element, bytes, frame, blocks: false })))
    }))
}

/// Prints lines, or numbers a frame a line.
struct Print {
    frame: usize,
    text: bool,
    packets: bool,
}

impl Stage for Print {
    fn put(&mut self, block: Block, _: &mut dyn Out) -> Result<(), Fault> {
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
            "wav",
            "\"FILE\" [block=256] [bits=f32|i16|i24]",
            "a sound file: read, or written if something leads to it",
            wav,
        ),
        Kind::new(
            "file",
            "\"FILE\" [block=8192]",
            "a file of bytes: read, or written if something leads to it",
            |call| plain(call, None),
        ),
        Kind::new(
            "raw",
            "\"FILE\" [as=f32|i16|bytes] [channels=1] [rate=HZ] [block=256]",
            "numbers without a head in a file: read, or written",
            |call| {
                let element = call.choice(1, "as", &["f32", "i16", "bytes"])?;
                plain(call, element.or(Some("f32")))
            },
        ),
        Kind::new(
            "lines",
            "[\"FILE\"]",
            "lines of a text: of a file, or of the bytes before it; written if lines lead to it",
            |call| match call.inputs {
                [] => {
                    let (path, span) = call.needs_text(0, "file")?;
                    let file = opened(path, span)?;
                    Ok(Plan::source(Type::of(Element::Line), move || {
                        Ok(Body::Source(Box::new(Lines { file: Box::new(BufReader::new(file)), blocks: false })))
                    }))
                }
                [Type { element: Element::Byte, .. }] => {
                    Ok(Plan::filter(Type::of(Element::Line), || stage(Cut(Vec::new()))))
                }
                [Type { element: Element::Line, .. }] => {
                    let path = call.needs_text(0, "file")?.0.to_owned();
                    Ok(Plan::sink(move || stage(ToFile(created(&path)?))))
                }
                [other, ..] => Err(call.mismatch(other, "bytes or lines", "`csv` and `json` make lines of records")),
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
                let element = match call.choice(0, "as", &["lines", "bytes", "f32", "i16"])? {
                    None | Some("lines") => {
                        let body = || Lines { file: Box::new(BufReader::new(std::io::stdin())), blocks: true };
                        let plan = Plan::source(Type::of(Element::Line), move || Ok(Body::Source(Box::new(body()))));
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
                let body = move || Frames { file: Box::new(std::io::stdin()), element, bytes, frame, blocks: true };
                let plan = Plan::source(gives, move || Ok(Body::Source(Box::new(body()))));
                Ok(plan.ends(End::Passive, End::Active).anew(Anew::Here))
            },
        ),
        Kind::new("print", "", "prints lines, numbers a frame a line, and packets a line each", |call| {
            let input = call.input()?;
            let packets = matches!(input.element, Element::Packet(_));
            let text = matches!(input.element, Element::Line | Element::Byte);
            let frame =
                if matches!(input.element, Element::Record(_)) { input.frame_bytes() } else { input.shape as usize };
            Ok(Plan::sink(move || stage(Print { frame, text, packets })).anew(Anew::Fresh))
        }),
        Kind::new("hash", "", "hashes what goes through (FNV-1a), and says it at the end", |call| {
            Ok(Plan::filter(call.input()?.clone(), || stage(Hash(0xcbf2_9ce4_8422_2325))))
        }),
    ]
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
        self.0.push(b'\n');
        out.put(Block::bytes(std::mem::take(&mut self.0)))
    }
}
