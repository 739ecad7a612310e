//! The callback of a device, rewritten as sources come and go (Synthesis 3.3.3, figures 3.5 to 3.7, table 3.4).
//!
//! A device calls once a period: it brings a period of samples on each input channel, and wants one on each output channel.
//! The routine that answers it names the active sources and nothing else. It tests no source that is inactive, calls no function a
//! source, and has each source's ring, gain and counters as constants. A thread that adds or removes a source makes the next routine and swaps one
//! pointer ([`crate::published`]); the callback takes the new routine up between two periods.
//!
//! ```text
//!   Feed::push  ->  ring  -\
//!   Feed::push  ->  ring  --+-- one loop over the samples of the period -->  output channel
//!   input channel  --------/ \----------------------------------------->  ring  ->  Tap::pull
//! ```
//!
//! A ring holds whole periods, so a period is one piece and its samples never wrap. It has one writer and one reader:
//!
//! - I1: `written - read` is the number of full periods, at most the ring's depth. Only the writer changes `written`, after the samples
//!   (release); only the reader changes `read`, after it has copied them (release). Each reads the other's counter with acquire.
//! - I2: the callback never waits. A playing ring without a full period contributes silence and counts `missed`; a recording ring without
//!   room loses the period and counts `missed`. Both are chosen by a conditional move between the ring and a spare period.
//! - I3: the callback frees nothing. The changing thread keeps the routine before in `retired`, and frees it when the callback has let
//!   go of it.
//!
//! With feature `jit` the routine is machine code ([`code`]); without it, for more than 32 sources, or where the system allows no such code, it
//! is a list of the active sources. Both add the sources of a channel in the order in which they were added, and agree to the bit.

#[cfg(feature = "jit")]
mod code;
mod ring;

use crate::published::{Published, Reader};
use chappe_plat::atomic::{AtomicU32, Ordering};
use ring::{Ring, Shape, Source, Spare, Way};
use std::sync::{Arc, Mutex, PoisonError};

/// The most samples of a period.
pub const MAX_FRAMES: usize = 8192;
/// The most channels in each direction.
pub const MAX_CHANNELS: usize = 64;
/// The most sources at a time.
pub const MAX_SOURCES: usize = 256;
/// With more sources than this the routine is the list: code that keeps so many places in registers takes milliseconds to make, and saves little.
#[cfg(feature = "jit")]
const MOST_CODE: usize = 32;
/// The most periods that a ring holds.
pub const MAX_DEPTH: usize = 65_536;

/// What a period's callback cannot be, or cannot take.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PeriodError {
    /// A number of samples that no period has.
    #[error("a period of {0} samples: give a multiple of 4, at most {MAX_FRAMES}")]
    Frames(usize),
    /// A number of channels that no device has here.
    #[error("{0} channels in one direction: give at most {MAX_CHANNELS}")]
    Channels(usize),
    /// A channel that the device does not have.
    #[error("channel {channel}: the device has {channels} in this direction, and the first is 0")]
    Channel {
        /// The channel that was named.
        channel: usize,
        /// How many there are.
        channels: usize,
    },
    /// A ring of that many periods.
    #[error("a ring of {0} periods: give 1 to {MAX_DEPTH}")]
    Depth(usize),
    /// A gain that is no number.
    #[error("a gain of {0}: give a finite number")]
    Gain(f32),
    /// There are as many sources as a routine takes.
    #[error("there are {MAX_SOURCES} sources already: drop a `Feed` or a `Tap`")]
    TooMany,
    /// The callback has been handed out.
    #[error("the callback is in use: drop the other `Callback` first")]
    Taken,
    /// A block that is no period.
    #[error("{given} samples: a period has {wanted}")]
    Length {
        /// How many were given.
        given: usize,
        /// How many a period has.
        wanted: usize,
    },
}

/// What is called once a period: the active sources, and their code.
struct Routine {
    sources: Vec<Source>,
    #[cfg(feature = "jit")]
    code: Option<code::Code>,
}

impl Routine {
    fn new(shape: Shape, sources: Vec<Source>, spare: &Spare) -> Routine {
        #[cfg(feature = "jit")]
        return Routine {
            code: (sources.len() <= MOST_CODE).then(|| code::Code::new(shape, &sources, spare)).flatten(),
            sources,
        };
        #[cfg(not(feature = "jit"))]
        {
            let _ = (shape, spare);
            Routine { sources }
        }
    }

    /// The same by the list.
    fn run(&self, shape: Shape, input: &[f32], output: &mut [f32]) {
        for (channel, out) in output.chunks_exact_mut(shape.frames).enumerate() {
            let mut first = true;
            let playing = self.sources.iter().filter(|s| s.channel == channel);
            for (source, gain) in
                playing.filter_map(|s| if let Way::Play(gain) = s.way { Some((s, gain)) } else { None })
            {
                let add = |out: &mut [f32], sample: &dyn Fn(usize) -> f32| {
                    for (at, out) in out.iter_mut().enumerate() {
                        *out = if first { sample(at) } else { *out + sample(at) };
                    }
                };
                // A gain of one is not multiplied by: neither does the code.
                let louder = |x: f32| if gain == 1.0 { x } else { x * gain };
                if source.ring.take(|samples| add(out, &|at| louder(samples[at]))).is_none() {
                    source.ring.miss();
                    add(out, &|_| louder(0.0));
                }
                first = false;
            }
            if first {
                out.fill(0.0);
            }
        }
        for source in self.sources.iter().filter(|s| s.way == Way::Record) {
            if !source.ring.put(&input[source.channel * shape.frames..][..shape.frames]) {
                source.ring.miss();
            }
        }
    }
}

struct Inner {
    shape: Shape,
    spare: Spare,
    routine: Published<Routine>,
    taken: AtomicU32,
    changing: Mutex<Changing>,
}

/// What only a thread that changes the routine touches.
#[derive(Default)]
struct Changing {
    next: u64,
    /// I3: routines that the callback may still have.
    retired: Vec<Arc<Routine>>,
}

impl Inner {
    fn change<R>(
        &self,
        change: impl FnOnce(&mut Vec<Source>, u64) -> Result<R, PeriodError>,
    ) -> Result<R, PeriodError> {
        let mut changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        changing.next += 1;
        let id = changing.next;
        let mut answer = None;
        let last = self.routine.exchange(|now| {
            let mut sources = now.sources.clone();
            answer = Some(change(&mut sources, id)?);
            Ok(Routine::new(self.shape, sources, &self.spare))
        })?;
        changing.retired.push(last);
        changing.retired.retain(|routine| Arc::strong_count(routine) > 1);
        Ok(answer.expect("the change was made"))
    }

    fn add(&self, way: Way, channel: usize, depth: usize) -> Result<(u64, Arc<Ring>), PeriodError> {
        let channels = if way == Way::Record { self.shape.inputs } else { self.shape.outputs };
        if channel >= channels {
            return Err(PeriodError::Channel { channel, channels });
        }
        if !(1..=MAX_DEPTH).contains(&depth) {
            return Err(PeriodError::Depth(depth));
        }
        self.change(|sources, id| {
            if sources.len() == MAX_SOURCES {
                return Err(PeriodError::TooMany);
            }
            let ring = Arc::new(Ring::new(self.shape.frames, depth));
            sources.push(Source { id, way, channel, ring: ring.clone() });
            Ok((id, ring))
        })
    }

    fn remove(&self, id: u64) {
        // Cannot be refused: a routine with one source less is smaller.
        let _ = self.change(|sources, _| {
            sources.retain(|s| s.id != id);
            Ok(())
        });
    }
}

/// A device's callback, to which sources are added and from which they are removed while it is called.
///
/// Adding and removing take some 100 us with machine code (feature `jit`), on the thread that asks, and wait for other threads that
/// do the same; the callback neither waits nor allocates nor frees, and makes no system call.
///
/// ```
/// use chappe_synth::Period;
///
/// let period = Period::new(64, 0, 1)?;
/// let mut callback = period.callback()?;
/// let mut out = [1.0; 64];
/// callback.run(&[], &mut out)?;
/// assert_eq!(out, [0.0; 64], "nobody plays");
///
/// let mut feed = period.play(0, 0.5, 4)?;
/// assert!(feed.push(&[0.25; 64])?);
/// callback.run(&[], &mut out)?;
/// assert_eq!(out, [0.125; 64]);
/// callback.run(&[], &mut out)?;
/// assert_eq!((out, feed.missed()), ([0.0; 64], 1));
/// # Ok::<(), chappe_synth::PeriodError>(())
/// ```
#[derive(Clone)]
pub struct Period(Arc<Inner>);

impl Period {
    /// For a device of so many samples a period and so many channels in each direction, without sources.
    ///
    /// # Errors
    /// [`PeriodError::Frames`] and [`PeriodError::Channels`].
    pub fn new(frames: usize, inputs: usize, outputs: usize) -> Result<Period, PeriodError> {
        if frames == 0 || !frames.is_multiple_of(4) || frames > MAX_FRAMES {
            return Err(PeriodError::Frames(frames));
        }
        if inputs.max(outputs) > MAX_CHANNELS {
            return Err(PeriodError::Channels(inputs.max(outputs)));
        }
        let (shape, spare) = (Shape { frames, inputs, outputs }, Spare::new(frames));
        let routine = Published::new(Routine::new(shape, Vec::new(), &spare));
        let (taken, changing) = (AtomicU32::new(0), Mutex::default());
        Ok(Period(Arc::new(Inner { shape, spare, routine, taken, changing })))
    }

    /// Plays what is pushed on an output channel, multiplied by `gain`, added to what others play there. The ring holds `depth` periods.
    ///
    /// # Errors
    /// [`PeriodError::Channel`], [`Depth`](PeriodError::Depth), [`Gain`](PeriodError::Gain), [`TooMany`](PeriodError::TooMany).
    pub fn play(&self, channel: usize, gain: f32, depth: usize) -> Result<Feed, PeriodError> {
        if !gain.is_finite() {
            return Err(PeriodError::Gain(gain));
        }
        let (id, ring) = self.0.add(Way::Play(gain), channel, depth)?;
        Ok(Feed { period: self.0.clone(), id, ring })
    }

    /// Records an input channel. The ring holds `depth` periods.
    ///
    /// # Errors
    /// [`PeriodError::Channel`], [`Depth`](PeriodError::Depth), [`TooMany`](PeriodError::TooMany).
    pub fn record(&self, channel: usize, depth: usize) -> Result<Tap, PeriodError> {
        let (id, ring) = self.0.add(Way::Record, channel, depth)?;
        Ok(Tap { period: self.0.clone(), id, ring })
    }

    /// What the device is to call. There is one at a time.
    ///
    /// # Errors
    /// [`PeriodError::Taken`].
    pub fn callback(&self) -> Result<Callback, PeriodError> {
        // Acquire: pairs with the release of the one before, which has used the rings as their one reader or writer.
        if self.0.taken.swap(1, Ordering::Acquire) == 1 {
            return Err(PeriodError::Taken);
        }
        Ok(Callback { reader: self.0.routine.reader(), period: self.0.clone() })
    }

    /// How many sources are active.
    pub fn sources(&self) -> usize {
        self.0.routine.reader().value().sources.len()
    }

    /// Whether the routine is machine code now: how many bytes.
    pub fn code_bytes(&self) -> Option<usize> {
        #[cfg(feature = "jit")]
        return self.0.routine.reader().value().code.as_ref().map(code::Code::len);
        #[cfg(not(feature = "jit"))]
        None
    }
}

/// What a device calls once a period. On one thread at a time; it never waits.
pub struct Callback {
    period: Arc<Inner>,
    reader: Reader<Routine>,
}

impl Callback {
    /// A period: `input` and `output` have the samples channel after channel. Every sample of `output` is written. A source that was added
    /// before this call is heard in it, one that was dropped is not.
    ///
    /// # Errors
    /// [`PeriodError::Length`], and nothing is played or recorded.
    #[inline]
    pub fn run(&mut self, input: &[f32], output: &mut [f32]) -> Result<(), PeriodError> {
        let shape = self.period.shape;
        let (inputs, outputs) = (shape.inputs * shape.frames, shape.outputs * shape.frames);
        if input.len() != inputs || output.len() != outputs {
            let (given, wanted) = if input.len() != inputs { (input.len(), inputs) } else { (output.len(), outputs) };
            return Err(PeriodError::Length { given, wanted });
        }
        let routine = self.period.routine.get(&mut self.reader);
        #[cfg(feature = "jit")]
        if let Some(code) = routine.code.as_ref().filter(|code| code.is_here()) {
            // SAFETY: both have the length that the code was made for, and this is the one callback.
            unsafe { code.run(input, output) };
            return Ok(());
        }
        routine.run(shape, input, output);
        Ok(())
    }

    /// The same by the list of sources, whatever code there is: to compare.
    #[doc(hidden)]
    pub fn run_plain(&mut self, input: &[f32], output: &mut [f32]) {
        self.period.routine.get(&mut self.reader).run(self.period.shape, input, output);
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `Period::callback`.
        self.period.taken.store(0, Ordering::Release);
    }
}

/// What is played. Dropped, it is heard no more, and what is queued is gone.
pub struct Feed {
    period: Arc<Inner>,
    id: u64,
    ring: Arc<Ring>,
}

impl Feed {
    /// Queues a period. False: the ring is full, and nothing was queued. Never waits.
    ///
    /// # Errors
    /// [`PeriodError::Length`].
    pub fn push(&mut self, samples: &[f32]) -> Result<bool, PeriodError> {
        length(samples.len(), self.ring.frames)?;
        Ok(self.ring.put(samples))
    }

    /// Another gain, from the next period on. The routine is made anew, as gains are constants in it.
    ///
    /// # Errors
    /// [`PeriodError::Gain`].
    pub fn set_gain(&mut self, gain: f32) -> Result<(), PeriodError> {
        if !gain.is_finite() {
            return Err(PeriodError::Gain(gain));
        }
        self.period.change(|sources, _| {
            sources.iter_mut().filter(|s| s.id == self.id).for_each(|s| s.way = Way::Play(gain));
            Ok(())
        })
    }

    /// How many periods wait to be played.
    pub fn queued(&self) -> usize {
        self.ring.queued()
    }

    /// How many periods were silent because nothing was queued.
    pub fn missed(&self) -> u64 {
        self.ring.missed()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.period.remove(self.id);
    }
}

/// What is recorded. Dropped, nothing is recorded any more.
pub struct Tap {
    period: Arc<Inner>,
    id: u64,
    ring: Arc<Ring>,
}

impl Tap {
    /// Copies the oldest period. False: there is none. Never waits.
    ///
    /// # Errors
    /// [`PeriodError::Length`].
    pub fn pull(&mut self, samples: &mut [f32]) -> Result<bool, PeriodError> {
        length(samples.len(), self.ring.frames)?;
        Ok(self.ring.take(|from| samples.copy_from_slice(from)).is_some())
    }

    /// How many periods wait to be pulled.
    pub fn queued(&self) -> usize {
        self.ring.queued()
    }

    /// How many periods were lost because the ring was full.
    pub fn missed(&self) -> u64 {
        self.ring.missed()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.period.remove(self.id);
    }
}

fn length(given: usize, wanted: usize) -> Result<(), PeriodError> {
    if given == wanted { Ok(()) } else { Err(PeriodError::Length { given, wanted }) }
}
