//! Sound, sample by sample: level, mixing, delay, echo, reverberation (synthesis, 6.3.1).

use crate::kind::{Call, End, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Gather, Out, Source, Stage, stage};
use crate::types::{Block, Element, Type};
use chappe_plat::wide::wide;

/// A function of each number by itself, in place.
pub(crate) struct Each<F>(pub F);

impl<F: Fn(&mut [f32]) + Send> Stage for Each<F> {
    #[inline]
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        self.alter(&mut block);
        out.put(block)
    }

    fn alters(&self) -> bool {
        true
    }

    fn alter(&mut self, block: &mut Block) {
        let numbers = &mut block.numbers()[..];
        wide(|| (self.0)(numbers));
    }
}

fn each(call: &Call<'_>, f: impl Fn(&mut [f32]) + Send + 'static) -> Result<Plan, Wrong> {
    Ok(Plan::filter(call.floats()?.clone(), move || stage(Each(f))))
}

/// Sums of frames, as long as any input has some.
struct Mix {
    kept: Vec<Vec<f32>>,
    ended: Vec<bool>,
    frame: usize,
}

impl Gather for Mix {
    fn get(&mut self, inputs: &mut [&mut dyn Source]) -> Result<Option<Block>, Fault> {
        for (at, input) in inputs.iter_mut().enumerate() {
            while self.kept[at].len() < self.frame && !self.ended[at] {
                match input.get()? {
                    Some(mut block) => self.kept[at].append(block.numbers()),
                    None => self.ended[at] = true,
                }
            }
        }
        let have = |(at, kept): (usize, &Vec<f32>)| (!self.ended[at] || !kept.is_empty()).then_some(kept.len());
        let Some(count) = self.kept.iter().enumerate().filter_map(have).min().filter(|n| *n > 0) else {
            return Ok(None);
        };
        let mut sum = vec![0.0; count];
        for kept in &mut self.kept {
            let n = count.min(kept.len());
            sum.iter_mut().zip(kept.drain(..n)).for_each(|(s, x)| *s += x);
        }
        Ok(Some(Block::f32(sum)))
    }
}

fn mix(call: &Call<'_>) -> Result<Plan, Wrong> {
    let Some(first) = call.inputs.first() else { return Err(Wrong::new("`mix` needs something before it")) };
    for (at, input) in call.inputs.iter().enumerate() {
        if input.element != Element::F32 {
            return Err(call.mismatch(input, "f32", "put `cast f32` before it"));
        }
        if input != first {
            let help = if input.shape == first.shape {
                format!("put `resample {}` before it", first.rate.unwrap_or(48_000.0))
            } else {
                "`mono` or `channel` before it makes one channel".into()
            };
            return Err(Wrong::new(format!(
                "`mix` takes inputs of one type: input 1 is {first}, input {} is {input}: {help}",
                at + 1
            )));
        }
    }
    let (count, frame) = (call.inputs.len(), first.shape as usize);
    let mix = move || Mix { kept: vec![Vec::new(); count], ended: vec![false; count], frame };
    let plan = Plan::filter(first.clone(), move || Ok(Body::Gather(Box::new(mix()))));
    Ok(plan.ends(End::Active, End::Passive))
}

/// One channel of several, or their mean.
struct Channel {
    of: usize,
    which: Option<usize>,
}

impl Stage for Channel {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let frames = block.numbers().chunks_exact(self.of);
        let one = match self.which {
            Some(at) => frames.map(|f| f[at]).collect(),
            None => frames.map(|f| f.iter().sum::<f32>() / self.of as f32).collect(),
        };
        out.put(block.instead(crate::types::Data::F32(one)))
    }
}

/// A line of samples that come out after a time.
struct Line {
    samples: Vec<f32>,
    at: usize,
}

impl Line {
    fn new(samples: usize) -> Line {
        Line { samples: vec![0.0; samples.max(1)], at: 0 }
    }

    /// What went in so long ago.
    #[inline]
    fn out(&self) -> f32 {
        self.samples[self.at]
    }

    #[inline]
    fn push(&mut self, sample: f32) {
        self.samples[self.at] = sample;
        self.at += 1;
        if self.at == self.samples.len() {
            self.at = 0;
        }
    }
}

/// y = x(t - d) * wet + x(t) * dry; with feedback the delayed sum goes in again.
struct Delay {
    line: Line,
    feedback: f32,
    dry: f32,
    wet: f32,
    /// Samples that are still to come when the input has ended.
    tail: usize,
}

impl Delay {
    #[inline]
    fn step(&mut self, x: f32) -> f32 {
        let delayed = self.line.out();
        self.line.push(x + self.feedback * delayed);
        self.dry * x + self.wet * delayed
    }
}

impl Stage for Delay {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        block.numbers().iter_mut().for_each(|x| *x = self.step(*x));
        out.put(block)
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        let rest: Vec<f32> = (0..self.tail).map(|_| self.step(0.0)).collect();
        rest.chunks(4096).try_for_each(|c| out.put(Block::f32(c.to_vec())))
    }
}

/// Schroeder's reverberator: four combs side by side, two all-passes in a row; of each channel.
struct Reverb {
    channels: Vec<([Line; 4], [Line; 2])>,
    gains: [f32; 4],
    mix: f32,
    tail: usize,
    turn: usize,
}

/// Lengths of the lines in seconds, mutually prime as samples at usual rates.
const COMBS: [f64; 4] = [0.0297, 0.0371, 0.0411, 0.0437];
const ALL_PASSES: [f64; 2] = [0.005, 0.0017];

impl Reverb {
    fn new(rate: f64, channels: usize, seconds: f64, mix: f64) -> Reverb {
        let line = |s: f64| Line::new((s * rate).round() as usize);
        let one = || (COMBS.map(line), ALL_PASSES.map(line));
        Reverb {
            channels: (0..channels).map(|_| one()).collect(),
            // Down by 60 dB after so many seconds.
            gains: COMBS.map(|s| 10f64.powf(-3.0 * s / seconds) as f32),
            mix: mix as f32,
            tail: (seconds * rate) as usize * channels,
            turn: 0,
        }
    }

    fn step(&mut self, x: f32) -> f32 {
        let at = self.turn;
        self.turn = if at + 1 == self.channels.len() { 0 } else { at + 1 };
        let (combs, passes) = &mut self.channels[at];
        let mut sum = 0.0;
        for (comb, gain) in combs.iter_mut().zip(self.gains) {
            let y = comb.out();
            comb.push(x + gain * y);
            sum += y;
        }
        let mut y = sum * 0.25;
        for pass in passes {
            let delayed = pass.out();
            let into = y + 0.7 * delayed;
            pass.push(into);
            y = delayed - 0.7 * into;
        }
        (1.0 - self.mix) * x + self.mix * y
    }
}

impl Stage for Reverb {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        block.numbers().iter_mut().for_each(|x| *x = self.step(*x));
        out.put(block)
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        let rest: Vec<f32> = (0..self.tail).map(|_| self.step(0.0)).collect();
        rest.chunks(4096).try_for_each(|c| out.put(Block::f32(c.to_vec())))
    }
}

fn samples(call: &Call<'_>, seconds: f64) -> Result<(Type, usize), Wrong> {
    let (input, rate) = call.sound()?;
    Ok((input.clone(), (seconds * rate).round().max(1.0) as usize * input.shape as usize))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new("gain", "FACTOR", "louder or softer: 0.5, -6dB", |call| {
            let by = call.needs_number(0, "factor", (-1e6, 1e6))? as f32;
            each(call, move |block| block.iter_mut().for_each(|x| *x *= by))
        }),
        Kind::new("offset", "BY", "adds a constant", |call| {
            let by = call.needs_number(0, "by", (-1e6, 1e6))? as f32;
            each(call, move |block| block.iter_mut().for_each(|x| *x += by))
        }),
        Kind::new("clip", "[LEVEL]", "nothing is larger than this, up or down", |call| {
            let most = call.number_or(0, "level", (0.0, 1e6), 1.0)? as f32;
            each(call, move |block| block.iter_mut().for_each(|x| *x = x.clamp(-most, most)))
        }),
        Kind::new("mix", "(LINE) ...", "the sum of several lines", mix).gathering(),
        Kind::new("mono", "", "the mean of all channels", |call| {
            let input = call.floats()?;
            let of = input.shape as usize;
            Ok(Plan::filter(Type { shape: 1, ..input.clone() }, move || stage(Channel { of, which: None })))
        }),
        Kind::new("channel", "N", "one channel, counted from 1", |call| {
            let input = call.floats()?;
            let which = call.needs_number(0, "n", (1.0, f64::from(input.shape)))? as usize - 1;
            let of = input.shape as usize;
            Ok(Plan::filter(Type { shape: 1, ..input.clone() }, move || stage(Channel { of, which: Some(which) })))
        }),
        Kind::new("delay", "SECONDS", "everything comes later by so long", |call| {
            let seconds = call.needs_number(0, "seconds", (0.0, 3600.0))?;
            let (input, count) = samples(call, seconds)?;
            Ok(Plan::filter(input, move || {
                stage(Delay { line: Line::new(count), feedback: 0.0, dry: 0.0, wet: 1.0, tail: count })
            }))
        }),
        Kind::new("echo", "SECONDS [FEEDBACK=0.5] [mix=1]", "comes again after so long, and again, softer", |call| {
            let seconds = call.needs_number(0, "seconds", (0.0, 3600.0))?;
            let feedback = call.number_or(1, "feedback", (0.0, 0.999), 0.5)?;
            let wet = call.number_or(2, "mix", (0.0, 1.0), 1.0)? as f32;
            let (input, count) = samples(call, seconds)?;
            // Until the echoes are down by 60 dB.
            let times = if feedback > 0.0 { (-3.0 / feedback.log10()).ceil().clamp(1.0, 1000.0) as usize } else { 1 };
            Ok(Plan::filter(input, move || {
                stage(Delay { line: Line::new(count), feedback: feedback as f32, dry: 1.0, wet, tail: count * times })
            }))
        }),
        Kind::new("reverb", "SECONDS [mix=0.3]", "a room whose sound is down by 60 dB after so long", |call| {
            let seconds = call.needs_number(0, "seconds", (0.01, 60.0))?;
            let mix = call.number_or(1, "mix", (0.0, 1.0), 0.3)?;
            let (input, rate) = call.sound()?;
            let channels = input.shape as usize;
            Ok(Plan::filter(input.clone(), move || stage(Reverb::new(rate, channels, seconds, mix))))
        }),
    ]
}
