//! Rhythm (synthesis, 6.3.2): onsets, a correlator that finds the beat's interval, and an ILL that keeps it; and a drummer.
//!
//! `onset` gives the spectral flux, the sum of the growth of all bins of a window, about 100 times a second (once in a
//! whole number of samples). `beat` correlates the last six seconds of the flux with themselves. The best lag between
//! 60 and 210 beats a minute is the beat's interval; slow and fast lags weigh a little less. The phase of the beats is
//! that whose comb of this interval meets the most onsets. An ILL tracks the beats so found; its interval, which is
//! free of the correlator's steps, subdivides the time to the next beat. Each beat is given as a record of its time and
//! interval.

use super::spectrum::{Spectrum, correlation};
use super::stage;
use super::waves::noise;
use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Fault, Out, Stage};
use crate::types::{Block, Element, Type};
use chappe_feedback::filter::LowPass;
use chappe_feedback::locked::Ill;
use chappe_synth::Schema;
use std::sync::Arc;

/// Onset values a second.
const RATE: f64 = 100.0;
/// How much of the past counts, in onset values.
const PAST: usize = 600;
/// Before this no beat is said.
const FIRST: usize = 250;
/// By how many octaves beats differ from 120 a minute in most music.
const LIKELY: f64 = 1.3;
/// How much likelier another phase must be.
const STAYS: f64 = 1.5;

/// The spectral flux of sound.
struct Onset {
    spectrum: Spectrum,
    before: Vec<f32>,
    /// Seconds from one value to the next.
    step: f64,
    /// How far behind the begin of its window the sound is that a value tells of, in seconds.
    behind: f64,
}

impl Onset {
    fn new(rate: f64) -> Onset {
        let hop = (rate / RATE).round() as usize;
        let window = (2 * hop).next_power_of_two();
        let (step, behind) = (hop as f64 / rate, 0.32 * window as f64 / rate);
        Onset { spectrum: Spectrum::new(window, hop, false), before: Vec::new(), step, behind }
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
}

/// Finds beats in onsets.
struct Tracker {
    past: Vec<f32>,
    /// How many onset values came before `past`.
    gone: usize,
    ill: Ill<LowPass>,
    /// When the ILL has heard its last event.
    heard: f64,
    /// When the next beat is due, in onset values.
    next: Option<f64>,
    looked: usize,
}

impl Tracker {
    fn new() -> Tracker {
        Tracker { past: Vec::new(), gone: 0, ill: Ill::new(1, 50.0), heard: 0.0, next: None, looked: 0 }
    }

    /// Takes a value; answers a beat's time and interval in values, when one is due.
    fn put(&mut self, flux: f32) -> Option<(f64, f64)> {
        self.past.push(flux);
        if self.past.len() > PAST {
            self.past.remove(0);
            self.gone += 1;
        }
        let now = (self.gone + self.past.len()) as f64;
        if self.past.len() >= FIRST && self.gone + self.past.len() >= self.looked + 25 {
            self.looked = self.gone + self.past.len();
            self.look(now);
        }
        let due = self.next.filter(|at| *at <= now)?;
        let interval = self.ill.interval();
        self.next = Some(due + interval);
        Some((due, interval))
    }

    /// The interval is another one.
    fn lock(&mut self, interval: f64) {
        self.ill = Ill::with(1, interval, LowPass::new(0.25, 0.0));
        self.heard = 0.0;
        self.ill.reference(0.0);
    }

    /// Looks for the interval and the phase.
    fn look(&mut self, now: f64) {
        let mean = self.past.iter().sum::<f32>() / self.past.len() as f32;
        let centred: Vec<f32> = self.past.iter().map(|x| (x - mean).max(0.0)).collect();
        let (least, most) = ((RATE * 60.0 / 210.0) as usize, (RATE * 60.0 / 60.0) as usize);
        let like = correlation(&centred, (4 * most + 2).min(centred.len() - 1));
        let at = |lag: f64| -> f64 {
            let i = lag.round() as usize;
            let around = i.saturating_sub(1)..=(i + 1).min(like.len() - 1);
            around.filter_map(|i| like.get(i)).copied().fold(0.0f32, f32::max).into()
        };
        // Music repeats after two and four beats, too. Around 120 a minute a beat is most likely.
        let score = |lag: f64| {
            let sum: f64 = [1.0, 2.0, 4.0].into_iter().map(|k| at(lag * k)).sum();
            sum * (-0.5 * ((lag / 50.0).log2() / LIKELY).powi(2)).exp()
        };
        let lags = (2 * least..=2 * most).map(|half| half as f64 / 2.0);
        let Some(best) = lags.max_by(|a, b| score(*a).total_cmp(&score(*b))) else { return };
        // The fourth multiple tells the interval four times as exactly.
        let fine =
            (-6..=6).map(|d| (best * 4.0).round() + f64::from(d)).filter(|l| *l > 0.0 && *l + 1.0 < like.len() as f64);
        let fine = fine.max_by(|a, b| like[*a as usize].total_cmp(&like[*b as usize])).map_or(best, |l| l / 4.0);
        let interval = if (fine / best - 1.0).abs() < 0.04 { fine } else { best };
        // The phase: a comb from now backwards.
        let end = centred.len() as f64 - 1.0;
        let comb = |phase: f64| {
            let (mut sum, mut x, mut weight) = (0.0, end - phase, 1.0);
            while x >= 1.0 {
                let i = x.round() as usize;
                let near = centred[i] + 0.5 * (centred[i - 1] + centred.get(i + 1).copied().unwrap_or(0.0));
                sum += weight * f64::from(near);
                weight *= 0.95;
                x -= interval;
            }
            sum
        };
        let phases = (0..(2.0 * interval) as usize).map(|p| p as f64 / 2.0);
        let Some(phase) = phases.max_by(|a, b| comb(*a).total_cmp(&comb(*b))) else { return };
        let last = now - 1.0 - phase;
        match self.next {
            Some(next) => {
                // The ILL hears intervals as the correlator measured them; the phase is followed by a part of its error.
                if (self.ill.interval() / interval - 1.0).abs() > 0.08 {
                    self.lock(interval);
                }
                self.heard += interval;
                self.ill.reference(self.heard);
                let interval = self.ill.interval();
                let error = (last - next) - ((last - next) / interval).round() * interval;
                // Another phase must be much likelier than the one that was told until now: off-beats nearly are.
                let here = comb((now - 1.0 - next).rem_euclid(interval));
                let moved = match error.abs() > 0.2 * interval {
                    true if comb(phase) > STAYS * here => error,
                    true => 0.0,
                    false => 0.5 * error,
                };
                let mut next = next + moved;
                while next < now - 0.5 * interval {
                    next += interval;
                }
                self.next = Some(next);
            }
            None => {
                self.lock(interval);
                let mut next = last;
                while next < now {
                    next += interval;
                }
                self.next = Some(next);
            }
        }
    }
}

struct Beat {
    onset: Onset,
    tracker: Tracker,
    beats: u64,
    interval: f64,
}

impl Stage for Beat {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let samples = std::mem::take(block.numbers());
        let mut beats = Vec::new();
        let Beat { onset, tracker, .. } = self;
        let (step, behind) = (onset.step, onset.behind);
        onset.put(&samples, |flux| {
            beats.extend(tracker.put(flux).map(|(at, interval)| (at * step + behind, interval * step)));
            Ok(())
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
                stage(Beat { onset: Onset::new(rate), tracker: Tracker::new(), beats: 0, interval: 0.0 })
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
