//! Filters: sections of second order, and finite impulse responses (synthesis, 6.3.1: "adjustable low-pass, band-pass and high-pass filters").
//!
//! A section is the analogue prototype of its kind, taken to the rate by the bilinear transform with its frequency kept right; computed in
//! double precision, transposed direct form II. A `lowpass` with the standard Q is Butterworth's of second order.

use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Fault, Out, Stage, stage};
use crate::types::{Block, Data};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// b0 b1 b2 a1 a2, with a0 = 1.
type Section = [f64; 5];

/// Which band goes through.
#[derive(Clone, Copy)]
enum Band {
    Low,
    High,
    Pass,
    Notch,
}

/// The coefficients for a frequency as a part of the rate.
fn section(band: Band, part: f64, q: f64) -> Section {
    // s = (1/k) (z - 1) / (z + 1), with k such that the frequency stays.
    let k = (PI * part).tan();
    let norm = 1.0 / (1.0 + k / q + k * k);
    let (b0, b1, b2) = match band {
        Band::Low => (k * k, 2.0 * k * k, k * k),
        Band::High => (1.0, -2.0, 1.0),
        Band::Pass => (k / q, 0.0, -k / q),
        Band::Notch => (1.0 + k * k, 2.0 * (k * k - 1.0), 1.0 + k * k),
    };
    [b0 * norm, b1 * norm, b2 * norm, 2.0 * (k * k - 1.0) * norm, (1.0 - k / q + k * k) * norm]
}

/// Sections in a row, of each channel.
struct Sections {
    sections: Vec<Section>,
    channels: usize,
    /// Two words for each section of each channel.
    state: Vec<[f64; 2]>,
}

impl Stage for Sections {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        self.alter(&mut block);
        out.put(block)
    }

    fn alters(&self) -> bool {
        true
    }

    fn alter(&mut self, block: &mut Block) {
        let channels = self.channels;
        for (i, [b0, b1, b2, a1, a2]) in self.sections.iter().copied().enumerate() {
            for channel in 0..channels {
                let [mut s1, mut s2] = self.state[i * channels + channel];
                for sample in block.numbers().iter_mut().skip(channel).step_by(channels) {
                    let x = f64::from(*sample);
                    let y = b0 * x + s1;
                    s1 = b1 * x - a1 * y + s2;
                    s2 = b2 * x - a2 * y;
                    *sample = y as f32;
                }
                // What is too small to hear would make each step slow.
                let rid = |s: f64| if s.abs() < 1e-30 { 0.0 } else { s };
                self.state[i * channels + channel] = [rid(s1), rid(s2)];
            }
        }
    }
}

fn band(call: &Call<'_>, band: Band) -> Result<Plan, Wrong> {
    let (input, rate) = call.sound()?;
    let hz = call.needs_number(0, "hz", (1e-6, 1e9))?;
    if hz >= rate / 2.0 {
        let what = format!("{hz} Hz is not below half of the rate of {rate} Hz");
        return Err(Wrong::at(call.written().arguments[0].span, what));
    }
    let q = call.number_or(1, "q", (0.01, 1000.0), FRAC_1_SQRT_2)?;
    let order = call.number_or(2, "order", (2.0, 16.0), 2.0)? as usize;
    if order % 2 == 1 {
        return Err(Wrong::new(format!("`{}` has an even order", call.written().kind)));
    }
    let count = order / 2;
    let qs = (0..count).map(|i| {
        // Butterworth's poles, of higher orders.
        if count == 1 { q } else { 0.5 / (PI * (2 * i + 1) as f64 / (2 * order) as f64).cos() }
    });
    let sections: Vec<Section> = qs.map(|q| section(band, hz / rate, q)).collect();
    let channels = input.shape as usize;
    let state = vec![[0.0; 2]; channels * count];
    Ok(Plan::filter(input.clone(), move || stage(Sections { sections, channels, state })))
}

/// y(n) = sum h(k) x(n - k), of each channel.
struct Fir {
    taps: Vec<f32>,
    channels: usize,
    /// The last frames, those before the block in front.
    kept: Vec<f32>,
}

impl Stage for Fir {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let (channels, before) = (self.channels, (self.taps.len() - 1) * self.channels);
        self.kept.extend_from_slice(block.numbers());
        let filtered: Vec<f32> = (0..block.len())
            .map(|at| {
                let newest = before + at;
                let products = self.taps.iter().enumerate().map(|(k, h)| h * self.kept[newest - k * channels]);
                products.sum()
            })
            .collect();
        self.kept.drain(..block.len());
        out.put(block.instead(Data::F32(filtered)))
    }
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new("lowpass", "HZ [q=0.707] [order=2]", "what is below goes through", |call| band(call, Band::Low)),
        Kind::new("highpass", "HZ [q=0.707] [order=2]", "what is above goes through", |call| band(call, Band::High)),
        Kind::new("bandpass", "HZ [q=0.707]", "what is near goes through, unchanged in the middle", |call| {
            band(call, Band::Pass)
        }),
        Kind::new("notch", "HZ [q=0.707]", "what is near does not go through", |call| band(call, Band::Notch)),
        Kind::new("fir", "\"H0 H1 ...\"", "a finite impulse response", |call| {
            let input = call.floats()?;
            let (text, span) = call.needs_text(0, "taps")?;
            let taps: Result<Vec<f32>, _> = text.split_whitespace().map(str::parse).collect();
            let taps = taps.ok().filter(|t| !t.is_empty());
            let taps = taps.ok_or_else(|| Wrong::at(span, "the taps are numbers with blanks between them"))?;
            let channels = input.shape as usize;
            let kept = vec![0.0; (taps.len() - 1) * channels];
            Ok(Plan::filter(input.clone(), move || stage(Fir { taps, channels, kept })))
        }),
    ]
}
