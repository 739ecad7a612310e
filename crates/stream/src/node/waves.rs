//! Sources of sound that is computed. All are deterministic.

use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Source};
use crate::types::{Block, Type};
use std::f64::consts::TAU;

/// Frames are a function of their number.
struct Wave<F> {
    at: u64,
    left: Option<u64>,
    block: usize,
    channels: usize,
    wave: F,
}

impl<F: FnMut(u64) -> f32 + Send> Source for Wave<F> {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let count = self.left.map_or(self.block, |left| (left.min(self.block as u64)) as usize);
        if count == 0 {
            return Ok(None);
        }
        self.left = self.left.map(|left| left - count as u64);
        let mut samples = Vec::with_capacity(count * self.channels);
        for _ in 0..count {
            let sample = (self.wave)(self.at);
            samples.extend(std::iter::repeat_n(sample, self.channels));
            self.at += 1;
        }
        Ok(Some(Block::f32(samples)))
    }
}

/// Reads what all sources have in common behind `first` values of their own, and plans.
fn wave<F: FnMut(u64) -> f32 + Send + 'static>(call: &Call<'_>, make: impl FnOnce(f64) -> F) -> Result<Plan, Wrong> {
    call.no_input()?;
    let rate = call.number_or(usize::MAX, "rate", (1.0, 1e9), 48_000.0)?;
    let channels = call.number_or(usize::MAX, "channels", (1.0, 1024.0), 1.0)? as usize;
    let block = call.number_or(usize::MAX, "block", (1.0, 65_536.0), 256.0)? as usize;
    let frames = call.number(usize::MAX, "frames", (0.0, 1e15))?;
    let seconds = call.number(usize::MAX, "seconds", (0.0, 1e9))?.map(|s| s * rate);
    let left = frames.or(seconds).map(|n| n.round() as u64);
    let source = Wave { at: 0, left, block, channels, wave: make(rate) };
    Ok(Plan::source(Type::sound(channels as u32, rate), move || Ok(Body::Source(Box::new(source)))))
}

/// A generator of uniform numbers from -1 to 1: xorshift.
pub(crate) fn noise(seed: u64) -> impl FnMut() -> f32 + Send {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / 8_388_608.0) - 1.0
    }
}

/// How a source is written: its own values, and what all have.
macro_rules! usage {
    ($own:literal) => {
        concat!($own, "[rate=48000] [channels=1] [block=256] [seconds=S | frames=N]")
    };
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new("sine", usage!("HZ [level=1] "), "a sine", |call| {
            let hz = call.needs_number(0, "hz", (0.0, 1e9))?;
            let level = call.number_or(1, "level", (0.0, 1e6), 1.0)?;
            wave(call, |rate| move |at| (level * (TAU * (hz * at as f64 / rate).fract()).sin()) as f32)
        }),
        Kind::new("noise", usage!("[level=1] [seed=1] "), "white noise", |call| {
            let level = call.number_or(0, "level", (0.0, 1e6), 1.0)? as f32;
            let mut next = noise(call.number_or(1, "seed", (0.0, 1e15), 1.0)? as u64);
            wave(call, |_| move |_| level * next())
        }),
        Kind::new("impulse", usage!("[every=FRAMES] "), "a 1 among zeros: once, or again and again", |call| {
            let every = call.number(0, "every", (1.0, 1e15))?.map(|n| n as u64);
            wave(call, |_| move |at| f32::from(u8::from(every.map_or(at == 0, |n| at % n == 0))))
        }),
        Kind::new("sweep", usage!("FROM TO over=SECONDS "), "a sine whose frequency rises evenly", |call| {
            let from = call.needs_number(0, "from", (0.0, 1e9))?;
            let to = call.needs_number(1, "to", (0.0, 1e9))?;
            let over = call.needs_number(2, "over", (1e-6, 1e9))?;
            wave(call, |rate| {
                move |at| {
                    let t = at as f64 / rate;
                    (TAU * (from * t + (to - from) * t * t / (2.0 * over)).fract()).sin() as f32
                }
            })
        }),
        Kind::new("silence", usage!(""), "zeros", |call| wave(call, |_| |_| 0.0)),
    ]
}
