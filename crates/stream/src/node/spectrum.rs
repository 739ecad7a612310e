//! The Fourier transform, and the correlator (synthesis, 6.3.1; 7.5: "a 1024-point transform of 88,200 samples a second").

use crate::inactive::{Class, Renew};
use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Fault, Out, Stage, stage};
use crate::types::{Block, Type};
use chappe_fourier::Fourier;
use std::f64::consts::TAU;

/// Windows of so many samples, one for each `hop`.
struct Windows {
    size: usize,
    hop: usize,
    kept: Vec<f32>,
    /// Samples to leave out before the next window, where `hop` is larger than `size`.
    skip: usize,
    some: bool,
}

impl Windows {
    fn new(size: usize, hop: usize) -> Windows {
        Windows { size, hop, kept: Vec::new(), skip: 0, some: false }
    }

    fn each(&mut self, samples: &[f32], mut then: impl FnMut(&[f32]) -> Result<(), Fault>) -> Result<(), Fault> {
        let skipped = self.skip.min(samples.len());
        self.skip -= skipped;
        self.kept.extend_from_slice(&samples[skipped..]);
        let mut at = 0;
        while at + self.size <= self.kept.len() {
            then(&self.kept[at..at + self.size])?;
            self.some = true;
            at += self.hop;
        }
        let done = at.min(self.kept.len());
        self.skip += at - done;
        self.kept.drain(..done);
        Ok(())
    }

    fn renew(&mut self) {
        (self.skip, self.some) = (0, false);
        self.kept.clear();
    }

    /// How many samples are in no window, since too few came for the last one.
    fn left(&self) -> u64 {
        let seen = if self.some { self.size.saturating_sub(self.hop) } else { 0 };
        self.kept.len().saturating_sub(seen) as u64
    }
}

/// Magnitudes of windows of sound: a frame of `size / 2 + 1` for each `hop` samples.
pub(crate) struct Spectrum {
    windows: Windows,
    fft: Fourier,
    window: Vec<f32>,
    decibel: bool,
}

impl Spectrum {
    pub(crate) fn new(size: usize, hop: usize, decibel: bool) -> Spectrum {
        let fft = Fourier::new(size);
        // Hann's; a sine of amplitude 1 in the middle of a bin has magnitude 1.
        let window: Vec<f32> = (0..size).map(|i| (0.5 - 0.5 * (TAU * i as f64 / size as f64).cos()) as f32).collect();
        Spectrum { windows: Windows::new(size, hop), fft, window, decibel }
    }

    /// How many samples at the end are in no window.
    pub(crate) fn left(&self) -> u64 {
        self.windows.left()
    }

    /// Takes samples, and gives each window's magnitudes.
    pub(crate) fn put(
        &mut self,
        samples: &[f32],
        mut each: impl FnMut(Vec<f32>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Spectrum { windows, fft, window, decibel } = self;
        let scale = 4.0 / windows.size as f32;
        windows.each(samples, |part| {
            let mut input: Vec<f32> = part.iter().zip(&*window).map(|(x, w)| x * w).collect();
            let magnitudes = fft.magnitudes(&mut input).map_err(Fault::new)?;
            let level = |m: f32| if *decibel { 20.0 * m.max(1e-10).log10() } else { m };
            each(magnitudes.into_iter().map(|m| level(m * scale)).collect())
        })
    }
}

/// Those that are out of use: a transform's plan is dear.
static SPECTRA: Class<Spectrum> = Class::new();

impl Renew for Spectrum {
    type Key = (usize, usize, bool);

    fn renew(&mut self) {
        self.windows.renew();
    }

    fn bytes(&self) -> usize {
        // The window, and about as much of the plan; what was kept of the sound.
        4 * (3 * self.window.len() + self.windows.kept.capacity())
    }
}

impl Stage for Spectrum {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let samples = std::mem::take(block.numbers());
        Spectrum::put(self, &samples, |frame| out.put(Block::f32(frame)))
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        out.drop_frames(self.left());
        Ok(())
    }
}

/// Correlation of the last `size` frames with themselves, `lags` frames back: a frame of that for each `hop`.
struct Correlate {
    windows: Windows,
    lags: usize,
}

/// Sum of x(i) x(i - lag), by the sum of x(i)^2: 1 for what repeats itself after `lag`.
pub(crate) fn correlation(x: &[f32], lags: usize) -> Vec<f32> {
    let whole: f32 = x.iter().map(|v| v * v).sum::<f32>().max(1e-20);
    let at = |lag: usize| {
        let sum: f32 = x[lag..].iter().zip(x).map(|(a, b)| a * b).sum();
        sum / whole * x.len() as f32 / (x.len() - lag) as f32
    };
    (0..lags.min(x.len())).map(at).collect()
}

impl Stage for Correlate {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let lags = self.lags;
        self.windows.each(block.numbers(), |part| out.put(Block::f32(correlation(part, lags))))
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        out.drop_frames(self.windows.left());
        Ok(())
    }
}

fn one_channel<'a>(call: &Call<'a>) -> Result<(&'a Type, f64), Wrong> {
    let (input, rate) = call.sound()?;
    if input.shape != 1 {
        return Err(call.mismatch(input, "f32 of one channel", "put `mono` or `channel N` before it"));
    }
    Ok((input, rate))
}

fn spectrum(call: &Call<'_>) -> Result<Plan, Wrong> {
    let (_, rate) = one_channel(call)?;
    let size = call.number_or(0, "size", (2.0, 1_048_576.0), 1024.0)? as usize & !1;
    let hop = call.number_or(1, "hop", (1.0, 1_048_576.0), size as f64)? as usize;
    let decibel = call.choice(2, "as", &["level", "dB"])? == Some("dB");
    let gives = Type::sound(size as u32 / 2 + 1, rate / hop as f64);
    Ok(Plan::filter(gives, move || stage(SPECTRA.create((size, hop, decibel), || Spectrum::new(size, hop, decibel)))))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new(
            "spectrum",
            "[SIZE=1024] [hop=SIZE] [as=level|dB]",
            "the Fourier transform's magnitudes, a frame for each window",
            spectrum,
        ),
        Kind::new("correlate", "SIZE LAGS [hop=SIZE]", "how much a signal is like itself some frames ago", |call| {
            let (_, rate) = one_channel(call)?;
            let size = call.needs_number(0, "size", (2.0, 1_048_576.0))? as usize;
            let lags = call.needs_number(1, "lags", (1.0, size as f64 - 1.0))? as usize;
            let hop = call.number_or(2, "hop", (1.0, 1_048_576.0), size as f64)? as usize;
            let gives = Type::sound(lags as u32, rate / hop as f64);
            Ok(Plan::filter(gives, move || stage(Correlate { windows: Windows::new(size, hop), lags })))
        }),
    ]
}
