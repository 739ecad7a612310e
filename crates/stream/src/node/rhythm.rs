//! Rhythm (synthesis, 6.3.2): onsets, a bank of combs that finds the beat, and an ILL that keeps its interval; and a drummer.
//!
//! `onset` gives the spectral flux, the sum of the growth of all bins of a window, about 100 times a second (once in a
//! whole number of samples). `beat` has the flux of three bands (drum and bass, middle, high), each in units of its
//! own deviation. Four times a second it folds the last twelve seconds at each interval between 60 and 210 beats a
//! minute. A phase of an interval scores how far the flux there is above the mean, in standard errors: so twice the
//! interval scores less, for it has half the beats, and half the interval, for half of its beats are weak. Intervals far
//! from 120 a minute weigh less. Of two phases that one is the beat which other onsets shortly precede (an upbeat, the
//! short note of a swung pair) rather than follow.
//!
//! The beat that was told last stays until another one scores clearly more. An ILL tracks its interval, which
//! subdivides the time to the next beat. Each beat is given as a record of its time and interval.

use super::spectrum::Spectrum;
use super::waves::noise;
use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Fault, Out, Stage, stage};
use crate::types::{Block, Element, Type};
use chappe_feedback::filter::LowPass;
use chappe_feedback::locked::Ill;
use chappe_synth::Schema;
use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::sync::Arc;

/// Onset values a second.
const RATE: f64 = 100.0;
/// How much of the past counts, in onset values, and after how many a value counts 1/e.
const PAST: usize = 1200;
const FADES: f64 = 1000.0;
/// Before this no beat is said.
const FIRST: usize = 250;
/// The least and the most interval of beats, in onset values, and the ratio of one that is tried to the next.
const LEAST: f64 = RATE * 60.0 / 210.0;
const MOST: f64 = RATE;
const FINE: f64 = 1.003;
/// By how many octaves beats differ from 120 a minute in most music.
const LIKELY: f64 = 1.0;
/// Beats this near to each other are the same, in onset values.
const NEAR: f64 = 4.0;
/// The part of an error of that size that is followed at each look.
const FOLLOWS: f64 = 0.25;
/// How much likelier another beat must be.
const STAYS: f64 = 1.4;
/// How much it counts that onsets precede a beat rather than follow it.
const LEADS: f64 = 0.04;
/// Where the bands end, in Hz, and how much each counts.
const EDGES: [f64; 2] = [200.0, 4000.0];
const WEIGHTS: [f32; 3] = [2.0, 1.0, 1.0];
/// So many deviations an onset counts at most.
const LOUDEST: f32 = 5.0;

/// The spectral flux of sound.
struct Onset {
    spectrum: Spectrum,
    before: Vec<f32>,
}

impl Onset {
    fn new(rate: f64) -> Onset {
        let hop = (rate / RATE).round() as usize;
        Onset { spectrum: Spectrum::new((2 * hop).next_power_of_two(), hop, false), before: Vec::new() }
    }

    fn put(&mut self, samples: &[f32], mut each: impl FnMut(f32) -> Result<(), Fault>) -> Result<(), Fault> {
        let before = &mut self.before;
        self.spectrum.put(samples, |frame| {
            let loud: Vec<f32> = frame.iter().map(|m| (1.0 + 1000.0 * m).ln()).collect();
            let grown: f32 = loud.iter().zip(&*before).map(|(now, then)| (now - then).max(0.0)).sum();
            let flux = if before.is_empty() { 0.0 } else { grown / loud.len() as f32 };
            *before = loud;
            each(flux)
        })
    }
}

impl Stage for Onset {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let samples = std::mem::take(block.numbers());
        let mut all = Vec::new();
        Onset::put(self, &samples, |flux| {
            all.push(flux);
            Ok(())
        })?;
        if all.is_empty() { Ok(()) } else { out.put(Block::f32(all)) }
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        out.drop_frames(self.spectrum.left());
        Ok(())
    }
}

/// The spectral flux of three bands.
struct Bands {
    spectrum: Spectrum,
    before: Vec<f32>,
    /// The first bins of the second and of the third band.
    edges: [usize; 2],
    /// Seconds from one value to the next.
    step: f64,
    /// How far behind the begin of its window the sound is that a value tells of, in seconds.
    behind: f64,
}

impl Bands {
    fn new(rate: f64) -> Bands {
        let hop = (rate / RATE).round() as usize;
        let window = (4 * hop).next_power_of_two();
        let edges = EDGES.map(|hz| (hz * window as f64 / rate).ceil() as usize);
        let (step, behind) = (hop as f64 / rate, 0.32 * window as f64 / rate);
        Bands { spectrum: Spectrum::new(window, hop, false), before: Vec::new(), edges, step, behind }
    }

    fn put(&mut self, samples: &[f32], mut each: impl FnMut([f32; 3])) -> Result<(), Fault> {
        let Bands { spectrum, before, edges, .. } = self;
        spectrum.put(samples, |frame| {
            let loud: Vec<f32> = frame.iter().map(|m| (1.0 + 10.0 * m).ln()).collect();
            let mut flux = [0.0; 3];
            // The first bin has no sound.
            for (bin, (now, then)) in loud.iter().zip(&*before).enumerate().skip(1) {
                let band = edges.iter().filter(|edge| bin >= **edge).count();
                flux[band] += (now - then).max(0.0);
            }
            *before = loud;
            each(flux);
            Ok(())
        })
    }
}

/// In deviations from the mean.
fn deviations(values: &[f32]) -> impl Iterator<Item = f32> {
    let count = values.len() as f32;
    let mean = values.iter().sum::<f32>() / count;
    let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / count;
    let deviation = square.sqrt().max(1e-6);
    values.iter().map(move |v| ((v - mean) / deviation).min(LOUDEST))
}

/// A beat that may be: its score, its interval, and how long ago the last one was, in onset values.
#[derive(Clone, Copy)]
struct Guess {
    score: f64,
    interval: f64,
    ago: f64,
}

/// The scores of all phases of an interval, given how strong onsets were, the latest first, and their weights.
fn fold(strength: &[f32], weights: &[f64], interval: f64) -> Vec<f64> {
    let count = interval.round() as usize;
    let (mut sums, mut squares) = (vec![0.0; count], vec![0.0; count]);
    let (bins, mut at) = (count as f64 / interval, 0.0);
    for (x, weight) in strength.iter().zip(weights) {
        let bin = ((at * bins) as usize).min(count - 1);
        sums[bin] += weight * f64::from(*x);
        squares[bin] += weight * weight;
        at += 1.0;
        if at >= interval {
            at -= interval;
        }
    }
    let errors: Vec<f64> = sums.iter().zip(&squares).map(|(s, q): (&f64, &f64)| s / q.sqrt().max(1e-9)).collect();
    let near = |i: usize| 0.5 * errors[i] + 0.25 * (errors[(i + 1) % count] + errors[(i + count - 1) % count]);
    let smooth: Vec<f64> = (0..count).map(near).collect();
    let angle = |i: usize| (TAU * i as f64 / count as f64).sin_cos();
    let (mut sine, mut cosine) = (0.0, 0.0);
    for (i, x) in smooth.iter().enumerate() {
        let (s, c) = angle(i);
        (sine, cosine) = (sine + x * s, cosine + x * c);
    }
    // Bins go back in time: the sum over all, each by the sine of how far it is before this one, is what leads to it.
    let score = |(i, x): (usize, &f64)| {
        let (s, c) = angle(i);
        x + LEADS * (sine * c - cosine * s)
    };
    smooth.iter().enumerate().map(score).collect()
}

/// Finds beats in onsets.
struct Tracker {
    past: [VecDeque<f32>; 3],
    /// How many onset values have come.
    now: usize,
    weights: Vec<f64>,
    ill: Ill<LowPass>,
    /// When the ILL has heard its last event.
    heard: f64,
    /// When the last beat was told, and when the next is due, in onset values.
    told: Option<f64>,
    next: Option<f64>,
}

impl Tracker {
    fn new() -> Tracker {
        let weights = (0..PAST).map(|ago| (-(ago as f64) / FADES).exp()).collect();
        let (ill, past) = (Ill::new(1, 50.0), Default::default());
        Tracker { past, now: 0, weights, ill, heard: 0.0, told: None, next: None }
    }

    /// Takes a value; answers a beat's time and interval in values, when one is due.
    fn put(&mut self, flux: [f32; 3]) -> Option<(f64, f64)> {
        for (past, flux) in self.past.iter_mut().zip(flux) {
            past.truncate(PAST - 1);
            past.push_front(flux);
        }
        self.now += 1;
        if self.now >= FIRST && self.now.is_multiple_of(25) {
            self.look();
        }
        let due = self.next.filter(|at| *at <= self.now as f64)?;
        let interval = self.ill.interval();
        (self.told, self.next) = (Some(due), Some(due + interval));
        Some((due, interval))
    }

    /// How strong onsets were, the latest first.
    fn strength(&mut self) -> Vec<f32> {
        let mut sum = vec![0.0; self.past[0].len()];
        for (past, weight) in self.past.iter_mut().zip(WEIGHTS) {
            sum.iter_mut().zip(deviations(past.make_contiguous())).for_each(|(sum, x)| *sum += weight * x);
        }
        deviations(&sum).collect()
    }

    /// The best beat, and the best of those that go on with what was told.
    fn guesses(&mut self) -> (Option<Guess>, Option<Guess>) {
        let strength = self.strength();
        let now = self.now as f64 - 1.0;
        let (told, told_interval) = (self.next.map(|next| now - next), self.ill.interval());
        let (mut best, mut stays): (Option<Guess>, Option<Guess>) = (None, None);
        let better = |than: &Option<Guess>, score: f64| than.is_none_or(|g| score > g.score);
        let mut interval = LEAST;
        while interval <= MOST {
            let likely = (-0.5 * ((interval / 50.0).log2() / LIKELY).powi(2)).exp();
            let scores = fold(&strength, &self.weights, interval);
            let bin = interval / scores.len() as f64;
            for (at, score) in scores.into_iter().enumerate() {
                let score = if score > 0.0 { score * likely } else { score };
                let guess = Guess { score, interval, ago: (at as f64 + 0.5) * bin - 0.5 };
                if better(&best, score) {
                    best = Some(guess);
                }
                let goes_on = |ago: f64| {
                    let off = guess.ago - ago.rem_euclid(told_interval);
                    (off - (off / interval).round() * interval).abs() <= NEAR
                };
                if (interval / told_interval).ln().abs() < 0.02 && better(&stays, score) && told.is_some_and(goes_on) {
                    stays = Some(guess);
                }
            }
            interval *= FINE;
        }
        (best, stays)
    }

    /// The interval is another one.
    fn lock(&mut self, interval: f64) {
        self.ill = Ill::with(1, interval, LowPass::new(0.25, 0.0));
        self.heard = 0.0;
        self.ill.reference(0.0);
    }

    /// Looks for the interval and the phase.
    fn look(&mut self) {
        let (Some(best), stays) = self.guesses() else { return };
        let guess = stays.filter(|stays| best.score <= STAYS * stays.score.max(0.0)).unwrap_or(best);
        let now = self.now as f64;
        if self.next.is_none() || (self.ill.interval() / guess.interval).ln().abs() > 0.02 {
            self.lock(guess.interval);
        }
        self.heard += guess.interval;
        self.ill.reference(self.heard);
        let interval = self.ill.interval();
        let last = now - 1.0 - guess.ago;
        let mut next = match self.next {
            Some(next) => {
                let new = last + ((next - last) / interval).round() * interval;
                // What is within the fold's own error is followed slowly.
                if (new - next).abs() <= NEAR { next + FOLLOWS * (new - next) } else { new }
            }
            None => last + interval,
        };
        // None is told twice, and none that was long ago.
        let after = self.told.map_or(now, |told| told + 0.5 * interval).max(now - 0.5 * interval);
        while next < after {
            next += interval;
        }
        self.next = Some(next);
    }
}

struct Beat {
    bands: Bands,
    tracker: Tracker,
    beats: u64,
    interval: f64,
}

impl Stage for Beat {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let samples = std::mem::take(block.numbers());
        let mut beats = Vec::new();
        let Beat { bands, tracker, .. } = self;
        let (step, behind) = (bands.step, bands.behind);
        bands.put(&samples, |flux| {
            beats.extend(tracker.put(flux).map(|(at, interval)| (at * step + behind, interval * step)));
        })?;
        for (at, interval) in beats {
            (self.beats, self.interval) = (self.beats + 1, interval);
            let mut record = at.to_le_bytes().to_vec();
            record.extend(interval.to_le_bytes());
            out.put(Block::bytes(record))?;
        }
        Ok(())
    }

    fn says(&self) -> Option<String> {
        Some(format!("{} beats, at the end {:.1} a minute", self.beats, 60.0 / self.interval.max(1e-9)))
    }
}

/// Beats become drum beats: a burst of noise that fades, mixed where each beat is.
struct Drum {
    rate: f64,
    at: u64,
    next: Box<dyn FnMut() -> f32 + Send>,
}

impl Stage for Drum {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        for record in block.octets().as_chunks::<16>().0 {
            let due = f64::from_le_bytes(record[..8].try_into().expect("a record of two numbers"));
            let due = (due * self.rate) as u64;
            let silence = due.saturating_sub(self.at) as usize;
            let length = (self.rate * 0.05) as usize;
            let mut samples = vec![0.0; silence];
            samples.extend((0..length).map(|i| (self.next)() * (-6.0 * i as f32 / length as f32).exp()));
            self.at += samples.len() as u64;
            out.put(Block::f32(samples))?;
        }
        Ok(())
    }
}

fn mono(call: &Call<'_>) -> Result<f64, Wrong> {
    let (input, rate) = call.sound()?;
    if input.shape != 1 || !(4000.0..=192_000.0).contains(&rate) {
        return Err(call.mismatch(input, "f32 of one channel at 4 to 192 kHz", "put `mono` before it"));
    }
    Ok(rate)
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new("onset", "", "how much sound begins, 100 times a second", |call| {
            let rate = mono(call)?;
            let hop = (rate / RATE).round();
            Ok(Plan::filter(Type::sound(1, rate / hop), move || stage(Onset::new(rate))))
        }),
        Kind::new("beat", "", "records of the music's beats: {at: f64, interval: f64}, in seconds", |call| {
            let rate = mono(call)?;
            let schema = Schema::parse("at: f64, interval: f64").map_err(|e| Wrong::new(e.to_string()))?;
            let gives = Type::of(Element::Record(Arc::new(schema)));
            Ok(Plan::filter(gives, move || {
                stage(Beat { bands: Bands::new(rate), tracker: Tracker::new(), beats: 0, interval: 0.0 })
            }))
        }),
        Kind::new("drum", "[rate=48000]", "a drum beat for each beat of `beat`", |call| {
            let input = call.input()?;
            if !matches!(&input.element, Element::Record(s) if s.size() == 16 && s.field("at").is_some() && s.field("interval").is_some())
            {
                return Err(call.mismatch(input, "records of `beat`", "put `beat` before it"));
            }
            let rate = call.number_or(0, "rate", (1.0, 1e6), 48_000.0)?;
            Ok(Plan::filter(Type::sound(1, rate), move || stage(Drum { rate, at: 0, next: Box::new(noise(1)) })))
        }),
    ]
}
