//! Sound files: `wav` without an input reads one; with an input, it writes one.
//!
//! The head of a file that is written says how long it is: again after each second of sound, and of time. So a graph that is killed
//! leaves a file that lacks at most what came in the last second. What cannot be sought in (a pipe, a terminal) is refused before
//! anything is written.

use super::opened::{created, opened};
use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Out, Source, Stage, stage};
use crate::types::{Block, Data, Element, Type};
use chappe_plat::clock;
use chappe_rows::WholeFile;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;

/// The longest time for which the head says too little, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

fn damaged(why: impl std::fmt::Display) -> Fault {
    Fault(format!("the sound file is damaged: {why}"))
}

struct FromWav {
    reader: hound::WavReader<BufReader<WholeFile>>,
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
        let samples = samples.map_err(damaged)?;
        Ok((!samples.is_empty()).then(|| Block::f32(samples)))
    }
}

/// Samples of 64-bit floating point, which hound does not read.
struct Doubles {
    file: BufReader<WholeFile>,
    channels: u16,
    rate: u32,
    /// Bytes of samples that the head says are to come.
    left: u64,
    block: usize,
}

impl Doubles {
    /// The file, if it is one of these; where its samples begin.
    fn open(path: &str, block: usize) -> io::Result<Option<Doubles>> {
        let mut file = BufReader::new(WholeFile::new(File::open(path)?)?);
        let mut head = [0; 12];
        if file.read_exact(&mut head).is_err() || head[..4] != *b"RIFF" || head[8..] != *b"WAVE" {
            return Ok(None);
        }
        let mut format = None;
        loop {
            let mut chunk = [0; 8];
            if file.read_exact(&mut chunk).is_err() {
                return Ok(None);
            }
            let [a, b, c, d] = [4, 5, 6, 7].map(|at| chunk[at]);
            let len = u64::from(u32::from_le_bytes([a, b, c, d]));
            match &chunk[..4] {
                b"fmt " if (16..=1024).contains(&len) => {
                    let mut bytes = vec![0; len as usize];
                    if file.read_exact(&mut bytes).is_err() {
                        return Ok(None);
                    }
                    format = Some(bytes);
                }
                b"data" => {
                    let Some(format) = format else { return Ok(None) };
                    let word = |at: usize| u16::from_le_bytes([format[at], format[at + 1]]);
                    // An extensible format has the real one behind the usual fields.
                    let tag = if word(0) == 0xfffe && format.len() >= 26 { word(24) } else { word(0) };
                    let (channels, rate) = (word(2), u32::from_le_bytes([format[4], format[5], format[6], format[7]]));
                    let is_double = tag == 3 && word(14) == 64 && channels > 0;
                    return Ok(is_double.then_some(Doubles { file, channels, rate, left: len, block }));
                }
                _ => _ = file.seek(SeekFrom::Current(len.next_multiple_of(2) as i64))?,
            }
        }
    }
}

impl Source for Doubles {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let frame = 8 * u64::from(self.channels);
        let wanted = (self.block as u64 * frame).min(self.left);
        let mut bytes = Vec::new();
        (&mut self.file).take(wanted).read_to_end(&mut bytes)?;
        if bytes.is_empty() && wanted > 0 {
            return Err(damaged(format_args!("{} bytes of samples are missing", self.left)));
        }
        // What is there of a file that was cut off comes before the error.
        bytes.truncate(bytes.len() - bytes.len() % frame as usize);
        self.left -= bytes.len() as u64;
        let samples: Vec<f32> = bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b) as f32).collect();
        match samples.is_empty() {
            true if wanted > 0 => Err(damaged("the last frame is not whole")),
            true => Ok(None),
            false => Ok(Some(Block::f32(samples))),
        }
    }
}

struct ToWav {
    writer: Option<hound::WavWriter<BufWriter<File>>>,
    scale: f32,
    /// Samples in a second.
    rate: u64,
    /// Samples of which the head does not say yet, and when it last said so.
    unsaid: u64,
    said: u64,
}

impl ToWav {
    /// Begins a file: its head is there at once, so a kill in the first second leaves a file of no length.
    fn new(file: BufWriter<File>, spec: hound::WavSpec, scale: f32) -> hound::Result<ToWav> {
        let mut writer = hound::WavWriter::new(file, spec)?;
        writer.flush()?;
        let rate = u64::from(spec.sample_rate) * u64::from(spec.channels);
        Ok(ToWav { writer: Some(writer), scale, rate, unsaid: 0, said: clock::now() })
    }
}

impl Stage for ToWav {
    fn put(&mut self, mut block: Block, _: &mut dyn Out) -> Result<(), Fault> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let written = match &mut block.data {
            Data::I16(samples) => samples.iter().try_for_each(|s| writer.write_sample(*s)),
            _ if self.scale == 0.0 => block.numbers().iter().try_for_each(|s| writer.write_sample(*s)),
            _ => {
                let scale = self.scale;
                let whole = |s: &f32| (s.clamp(-1.0, 1.0) * scale).round() as i32;
                block.numbers().iter().try_for_each(|s| writer.write_sample(whole(s)))
            }
        };
        written.map_err(Fault::new)?;
        self.unsaid += block.len() as u64;
        let now = clock::now();
        if self.unsaid >= self.rate || now.saturating_sub(self.said) >= SECOND {
            writer.flush().map_err(Fault::new)?;
            (self.unsaid, self.said) = (0, now);
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Out) -> Result<(), Fault> {
        self.writer.take().map_or(Ok(()), |w| w.finalize().map_err(Fault::new))
    }
}

/// Why nothing can be written there: its length is said at its begin, when it is known.
fn refused(path: &str) -> String {
    format!(
        "cannot write {path}: a sound file says its length at its begin, and there one cannot go back: `raw` writes samples alone"
    )
}

fn wav(call: &Call<'_>) -> Result<Plan, Wrong> {
    let (path, span) = call.file()?;
    let path = path.to_owned();
    if call.inputs.is_empty() {
        let block = call.number_or(1, "block", (1.0, 65_536.0), 256.0)? as usize;
        let wrong = |why: String| Wrong::at(span, format!("cannot read {path}: {why}"));
        let no_rate = || wrong("it says that its rate is 0 Hz".into());
        if let Some(doubles) = Doubles::open(&path, block).map_err(|e| wrong(e.to_string()))? {
            if doubles.rate == 0 {
                return Err(no_rate());
            }
            let gives = Type::sound(u32::from(doubles.channels), f64::from(doubles.rate));
            return Ok(Plan::source(gives, move || Ok(Body::Source(Box::new(doubles)))));
        }
        let reader = hound::WavReader::new(BufReader::new(opened(&path, span)?)).map_err(|e| wrong(e.to_string()))?;
        let spec = reader.spec();
        if spec.sample_rate == 0 {
            return Err(no_rate());
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
    // A named pipe would not even open before it has a reader.
    if std::fs::metadata(&path).is_ok_and(|there| there.file_type().is_fifo() || there.file_type().is_socket()) {
        return Err(Wrong::at(span, refused(&path)));
    }
    let channels = input.shape as u16;
    let spec = hound::WavSpec { channels, sample_rate: rate as u32, bits_per_sample: bits, sample_format: format };
    Ok(Plan::sink(move || {
        let mut file = created(&path)?;
        file.stream_position().map_err(|_| Fault(refused(&path)))?;
        stage(ToWav::new(file, spec, scale).map_err(|e| Fault::new(format!("cannot write {path}: {e}")))?)
    }))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![Kind::new(
        "wav",
        "\"FILE\" [block=256] [bits=f32|i16|i24]",
        "a sound file: read, or written if something leads to it",
        wav,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Kept;

    #[test]
    fn a_file_that_is_never_ended_says_how_long_it_is_but_for_a_second() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.wav").display().to_string();
        let spec = hound::WavSpec {
            channels: 2,
            sample_rate: 1000,
            bits_per_sample: 32,
            sample_format: hound::SampleFormat::Float,
        };
        let mut stage = ToWav::new(created(&path).unwrap(), spec, 0.0).unwrap();
        assert_eq!(hound::WavReader::open(&path).unwrap().duration(), 0);
        for frames in (100..=5000).step_by(100) {
            stage.put(Block::f32(vec![0.5; 200]), &mut Kept::default()).unwrap();
            // As another process finds it now, or after a kill.
            let there = hound::WavReader::open(&path).unwrap().duration();
            assert!(there <= frames && there + 1000 > frames, "{there} of {frames}");
        }
        // A moment later than the last time that it was said.
        stage.said = clock::now() - 2 * SECOND;
        stage.put(Block::f32(vec![0.5; 2]), &mut Kept::default()).unwrap();
        assert_eq!(hound::WavReader::open(&path).unwrap().duration(), 5001);
        std::mem::forget(stage);
    }
}
