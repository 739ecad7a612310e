//! Another rate, by interpolation with a windowed sinc (synthesis, 6.3.3: the digital oversampling filter of a CD player).
//!
//! Between two samples the sound is what a sinc of 96 taps under a Kaiser window makes of those around; the taps come from a table of 512 phases (or of
//! the exact phases, where the rates' ratio has few), linearly interpolated in between, so the ratio can be any and can change from sample to sample.
//! THD+N of a sine of 1 kHz from 44,100 to 176,400 Hz: better than 100 dB (`tests/signals.rs`).
//!
//! With `follow` the ratio is steered by the fill of the queue before it ([`Follow`]): the sink has a clock of its own, and what comes is a little
//! faster or slower than it says. That is the thesis' FLL between the CD and the converter.

use crate::inactive::{Class, Renew};
use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Fault, Out, Stage, stage};
use crate::types::{Block, Data, Type};
use std::f64::consts::PI;

/// Taps around each point.
const TAPS: usize = 96;
/// About 115 dB of stop band.
const BETA: f64 = 11.7;

/// The modified Bessel function I0.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for k in 1..60 {
        term *= (x / (2.0 * f64::from(k))).powi(2);
        sum += term;
    }
    sum
}

/// Makes another rate of the sound that is put in.
pub struct Resampler {
    channels: usize,
    /// Input frames for one of the output.
    step: f64,
    phases: usize,
    taps: usize,
    table: Vec<f32>,
    /// Of each channel: the frames from the first tap on.
    kept: Vec<Vec<f32>>,
    /// Where the next output frame is, in frames from the middle of `kept`'s begin.
    at: f64,
    came: u64,
    went: u64,
    nominal: f64,
}

impl std::fmt::Debug for Resampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resampler").field("step", &self.step).field("phases", &self.phases).finish()
    }
}

impl Resampler {
    /// From a rate to another.
    pub fn new(from: f64, to: f64, channels: usize) -> Resampler {
        let step = from / to;
        // A lower rate takes a wider sinc: what is above half of it must go.
        let stretch = step.max(1.0);
        let taps = (((TAPS as f64 * stretch) / 2.0).ceil() as usize * 2).min(8192);
        let exact = (1..=512).find(|l| (step * f64::from(*l)).fract() == 0.0);
        let phases = exact.map_or(512, |l: u32| (512 / l.max(1)).max(1) as usize * l as usize);
        let middle = taps as f64 / 2.0;
        let cut = 0.955 / stretch;
        let mut table = Vec::with_capacity((phases + 1) * taps);
        for phase in 0..=phases {
            let begin = table.len();
            for tap in 0..taps {
                let x = tap as f64 - (middle - 1.0) - phase as f64 / phases as f64;
                let sinc = if x == 0.0 { cut } else { (PI * cut * x).sin() / (PI * x) };
                let inside = 1.0 - (x / middle).powi(2);
                let window = if inside > 0.0 { bessel(BETA * inside.sqrt()) / bessel(BETA) } else { 0.0 };
                table.push((sinc * window) as f32);
            }
            // A constant stays what it is at each phase.
            let sum: f64 = table[begin..].iter().map(|t| f64::from(*t)).sum();
            table[begin..].iter_mut().for_each(|t| *t = (f64::from(*t) / sum) as f32);
        }
        let kept = vec![vec![0.0; taps / 2 - 1]; channels];
        Resampler { channels, step, phases, taps, table, kept, at: 0.0, came: 0, went: 0, nominal: step }
    }

    /// As it was made: forgets all frames.
    fn renew(&mut self) {
        for kept in &mut self.kept {
            kept.clear();
            kept.resize(self.taps / 2 - 1, 0.0);
        }
        (self.step, self.at, self.came, self.went) = (self.nominal, 0.0, 0, 0);
    }

    /// Another ratio from here on, as a part of the one that it was made for: 1.0002 takes in 200 ppm more.
    pub fn set_speed(&mut self, speed: f64) {
        self.step = self.nominal * speed;
    }

    /// Takes frames in, and answers those that are due.
    pub fn put(&mut self, frames: &[f32]) -> Vec<f32> {
        for (channel, kept) in self.kept.iter_mut().enumerate() {
            kept.extend(frames.iter().skip(channel).step_by(self.channels));
        }
        self.came += (frames.len() / self.channels) as u64;
        self.due(u64::MAX)
    }

    fn due(&mut self, most: u64) -> Vec<f32> {
        let mut out = Vec::new();
        let have = self.kept[0].len();
        while self.went < most {
            let whole = self.at as usize;
            if whole + self.taps > have {
                break;
            }
            let phase = (self.at - whole as f64) * self.phases as f64;
            let row = phase as usize;
            let part = (phase - row as f64) as f32;
            let row = row.min(self.phases - 1) * self.taps;
            let (this, next) = (&self.table[row..row + self.taps], &self.table[row + self.taps..row + 2 * self.taps]);
            for kept in &self.kept {
                let sum = dot(this, &kept[whole..whole + self.taps]);
                let sum =
                    if part == 0.0 { sum } else { sum + part * (dot(next, &kept[whole..whole + self.taps]) - sum) };
                out.push(sum);
            }
            self.went += 1;
            self.at += self.step;
        }
        let gone = (self.at as usize).min(have);
        self.kept.iter_mut().for_each(|k| drop(k.drain(..gone)));
        self.at -= gone as f64;
        out
    }

    /// Nothing more comes: the frames that are left.
    pub fn end(&mut self) -> Vec<f32> {
        let rest = vec![0.0; self.taps * self.channels];
        for kept in &mut self.kept {
            kept.extend(&rest[..self.taps]);
        }
        let most = (self.came as f64 / self.nominal).round() as u64;
        self.due(most.max(self.went))
    }
}

/// Eight sums side by side.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (a, b) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (x, y) in a.0.iter().zip(b.0) {
        for i in 0..8 {
            sums[i] += x[i] * y[i];
        }
    }
    let rest: f32 = a.1.iter().zip(b.1).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f32>() + rest
}

/// Steers a speed so that a queue stays half full: a proportional and an integral part of the fill, both slow against a block.
///
/// With blocks of T seconds and a queue of C blocks, a speed that is off by e changes the fill by e T / C a block... the loop is one of second order,
/// damped, with a time constant of about half a second for the queues that graphs have. The speed is kept within 1,000 ppm: nobody hears that.
#[derive(Clone, Copy, Debug)]
pub struct Follow {
    /// The fill, its jitter taken out.
    fill: f64,
    sum: f64,
    proportional: f64,
    integral: f64,
    smooth: f64,
}

/// The most by which a speed is changed.
const MOST: f64 = 1e-3;

impl Follow {
    /// For a queue that holds so many seconds, asked each `period` seconds.
    pub fn new(seconds: f64, period: f64) -> Follow {
        // fill' = (drift - speed) / seconds. Poles of s^2 + p/seconds s + i/seconds at w, damping 1: p = 2 w seconds, i = w^2 seconds.
        let w = 4.0;
        let smooth = (period * 40.0).min(1.0);
        Follow { fill: 0.5, sum: 0.0, proportional: 2.0 * w * seconds, integral: w * w * seconds * period, smooth }
    }

    /// The queue has this fill now. Answers the speed.
    pub fn next(&mut self, fill: f64) -> f64 {
        self.fill += self.smooth * (fill - self.fill);
        let error = self.fill - 0.5;
        let wanted = self.proportional * error + self.sum + self.integral * error;
        // An integral that grows while the speed is at its bound would swing later.
        if wanted.abs() < MOST {
            self.sum += self.integral * error;
        }
        1.0 + wanted.clamp(-MOST, MOST)
    }
}

struct Resample {
    resampler: Resampler,
    follow: Option<Follow>,
    /// As it is at the begin.
    begins: Option<Follow>,
    speed: f64,
}

/// Those that are out of use: a table has 49,000 taps and more.
static RESAMPLERS: Class<Resample> = Class::new();

impl Renew for Resample {
    /// The rates' bits, the channels, and whether it follows.
    type Key = (u64, u64, usize, bool);

    fn renew(&mut self) {
        self.resampler.renew();
        (self.follow, self.speed) = (self.begins, 1.0);
    }

    fn bytes(&self) -> usize {
        let kept: usize = self.resampler.kept.iter().map(Vec::capacity).sum();
        4 * (self.resampler.table.len() + kept)
    }
}

impl Stage for Resample {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let data = self.resampler.put(block.numbers());
        if data.is_empty() { Ok(()) } else { out.put(block.instead(Data::F32(data))) }
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        let data = self.resampler.end();
        if data.is_empty() { Ok(()) } else { out.put(Block::f32(data)) }
    }

    fn fill(&mut self, fill: f64) {
        if let Some(follow) = &mut self.follow {
            self.speed = follow.next(fill);
            self.resampler.set_speed(self.speed);
        }
    }

    fn says(&self) -> Option<String> {
        self.follow.map(|_| format!("speed {:+.1} ppm", (self.speed - 1.0) * 1e6))
    }
}

fn plan(call: &Call<'_>, to: f64, follow: bool) -> Result<Plan, Wrong> {
    let (input, rate) = call.sound()?;
    if rate / to > 64.0 || to / rate > 1024.0 {
        return Err(Wrong::new(format!(
            "from {rate} to {to} Hz is too far: at most 64 times lower, 1,024 times higher"
        )));
    }
    let channels = input.shape as usize;
    // A queue of eight blocks of 256, asked a few times a second or more.
    let follow = follow.then(|| Follow::new(8.0 * 256.0 / rate, 256.0 / rate));
    let gives = Type { rate: Some(to), ..input.clone() };
    Ok(Plan::filter(gives, move || {
        let make = || Resample { resampler: Resampler::new(rate, to, channels), follow, begins: follow, speed: 1.0 };
        stage(RESAMPLERS.create((rate.to_bits(), to.to_bits(), channels, follow.is_some()), make))
    }))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new(
            "resample",
            "HZ [follow]",
            "the same sound at another rate; `follow`: steered by the fill of the queue before it",
            |call| {
                let to = call.needs_number(0, "hz", (1.0, 1e9))?;
                let follow = call.choice(1, "mode", &["follow"])?.is_some();
                plan(call, to, follow)
            },
        ),
        Kind::new("oversample", "N [follow]", "N samples for one", |call| {
            let n = call.needs_number(0, "n", (1.0, 64.0))?;
            let rate = call.sound()?.1;
            let follow = call.choice(1, "mode", &["follow"])?.is_some();
            plan(call, rate * n.round(), follow)
        }),
    ]
}
