//! A synthesizer that has a light thread for each note (synthesis, 7.5).
//!
//! The source reads the notes of a MIDI file. For each block it begins a light thread for every note that begins in it,
//! gets one block from the thread of each sounding note, and gives their sum. A note's thread is one block ahead at
//! most, and ends with its note. The sound does not depend on the size of the blocks.
//!
//! A note is the sum of two sines that fade; a note of the tenth channel (drums) is a burst of noise that fades.

use super::waves::noise;
use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Source};
use crate::types::{Block, Type};
use chappe_plat::wide::wide;
use chappe_sync::tube::{self, Receiver, Sender};
use chappe_thread::Builder;
use midly::{MetaMessage, MidiMessage, Smf, Timing, TrackEventKind};
use std::collections::HashMap;
use std::f64::consts::TAU;

/// Seconds of a note's begin, and of its end behind the time when the key is let go.
const ATTACK: f64 = 0.005;
const RELEASE: f64 = 0.05;
/// Seconds in which a note that is held falls to a half.
const HALF: f64 = 0.7;
const DRUMS: u8 = 9;
/// Blocks that are kept for notes to come.
const SPARE: usize = 4096;

/// A note, in frames.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Note {
    begin: u64,
    frames: u64,
    key: u8,
    velocity: u8,
    drum: bool,
}

/// Seconds of ticks, where the tempo changes at some of them.
struct Tempo {
    /// Ticks of a quarter; nothing: a tick has always the same length.
    quarter: Option<f64>,
    tick: u64,
    seconds: f64,
    /// Seconds of a tick.
    each: f64,
}

impl Tempo {
    fn new(timing: Timing) -> Tempo {
        match timing {
            Timing::Metrical(ticks) => {
                let quarter = f64::from(u16::from(ticks)).max(1.0);
                Tempo { quarter: Some(quarter), tick: 0, seconds: 0.0, each: 0.5 / quarter }
            }
            Timing::Timecode(fps, parts) => {
                let each = 1.0 / f64::from(fps.as_f32()) / f64::from(parts).max(1.0);
                Tempo { quarter: None, tick: 0, seconds: 0.0, each }
            }
        }
    }

    /// Goes on to a tick: its time.
    fn at(&mut self, tick: u64) -> f64 {
        self.seconds += (tick - self.tick) as f64 * self.each;
        self.tick = tick;
        self.seconds
    }

    fn set(&mut self, microseconds: u32) {
        if let Some(quarter) = self.quarter {
            self.each = f64::from(microseconds) / 1e6 / quarter;
        }
    }
}

/// The notes of a file, by their begin.
fn notes(bytes: &[u8], rate: f64) -> Result<Vec<Note>, String> {
    let file = Smf::parse(bytes).map_err(|e| format!("is no MIDI file: {e}"))?;
    let mut events = Vec::new();
    for track in &file.tracks {
        let mut tick = 0;
        for event in track {
            tick += u64::from(u32::from(event.delta));
            events.push((tick, event.kind));
        }
    }
    // Stable: of one tick in the order of the tracks.
    events.sort_by_key(|(tick, _)| *tick);
    let mut tempo = Tempo::new(file.header.timing);
    let mut held: HashMap<(u8, u8), Vec<(f64, u8)>> = HashMap::new();
    let mut all = Vec::new();
    let mut end = |channel: u8, key: u8, (begin, velocity): (f64, u8), now: f64| {
        let frame = |seconds: f64| (seconds * rate).round() as u64;
        let frames = frame(now).saturating_sub(frame(begin)).max(1);
        all.push(Note { begin: frame(begin), frames, key, velocity, drum: channel == DRUMS });
    };
    for (tick, kind) in events {
        let now = tempo.at(tick);
        match kind {
            TrackEventKind::Meta(MetaMessage::Tempo(us)) => tempo.set(us.into()),
            TrackEventKind::Midi { channel, message } => {
                let (key, velocity) = match message {
                    MidiMessage::NoteOn { key, vel } => (u8::from(key), u8::from(vel)),
                    MidiMessage::NoteOff { key, .. } => (u8::from(key), 0),
                    _ => continue,
                };
                let channel = u8::from(channel);
                let keys = held.entry((channel, key)).or_default();
                if velocity > 0 {
                    keys.push((now, velocity));
                } else if !keys.is_empty() {
                    end(channel, key, keys.remove(0), now);
                }
            }
            _ => {}
        }
    }
    // Keys that nobody lets go.
    let last = tempo.seconds;
    for ((channel, key), keys) in held {
        keys.into_iter().for_each(|note| end(channel, key, note, last));
    }
    all.sort_by_key(|n| (n.begin, n.drum, n.key, n.velocity, n.frames));
    Ok(all)
}

/// Frames that are computed at once: each step of a loop has so many numbers side by side.
const LANES: usize = 16;

type Lanes = [f32; LANES];

/// A sine: so many points that turn, one for each of the next frames, and by how much all turn for the frames behind.
struct Sine {
    at: [Lanes; 2],
    by: [f32; 2],
}

impl Sine {
    fn new(hz: f64, rate: f64) -> Sine {
        let turn = TAU * (hz / rate).min(0.5);
        let point = |frames: usize| {
            let (s, c) = (turn * frames as f64).sin_cos();
            [s as f32, c as f32]
        };
        let lane = |of: usize| std::array::from_fn(|i| point(i)[of]);
        Sine { at: [lane(0), lane(1)], by: point(LANES) }
    }

    #[inline(always)]
    fn group(&mut self) -> Lanes {
        let ([s, c], [ds, dc]) = (self.at, self.by);
        for i in 0..LANES {
            self.at[0][i] = s[i] * dc + c[i] * ds;
            self.at[1][i] = c[i] * dc - s[i] * ds;
        }
        s
    }
}

/// What a note sounds like.
enum Voice {
    /// Two sines.
    Key(Box<[Sine; 2]>),
    Drum(Box<dyn FnMut() -> f32 + Send>),
}

struct Sound {
    voice: Voice,
    /// The level of each of the next frames, and what is left of it after a group.
    level: Lanes,
    fades: f32,
    /// Frames that were computed, and that were given.
    made: u64,
    at: u64,
    held: u64,
    frames: u64,
    attack: f32,
    release: f32,
    /// The last group, of which these were given: frames do not depend on where blocks begin.
    group: Lanes,
    given: usize,
}

impl Sound {
    fn new(note: Note, rate: f64) -> Sound {
        let hz = 440.0 * 2f64.powf((f64::from(note.key) - 69.0) / 12.0);
        let voice = if note.drum {
            Voice::Drum(Box::new(noise(u64::from(note.key) + 1)))
        } else {
            Voice::Key(Box::new([Sine::new(hz, rate), Sine::new(2.0 * hz, rate)]))
        };
        let half = if note.drum { 0.03 } else { HALF };
        let release = (RELEASE * rate).max(1.0);
        let (level, fades) = (0.1 * f64::from(note.velocity) / 127.0, 0.5f64.powf(1.0 / (half * rate)));
        Sound {
            voice,
            level: std::array::from_fn(|i| (level * fades.powi(i as i32 + 1)) as f32),
            fades: fades.powi(LANES as i32) as f32,
            made: 0,
            at: 0,
            held: note.frames,
            frames: note.frames + release as u64,
            attack: 1.0 / (ATTACK * rate).max(1.0) as f32,
            release: 1.0 / release as f32,
            group: [0.0; LANES],
            given: LANES,
        }
    }

    /// The next frames.
    #[inline(always)]
    fn group(&mut self) -> Lanes {
        let mut all = match &mut self.voice {
            Voice::Key(sines) => {
                let [one, other] = &mut **sines;
                let (one, other) = (one.group(), other.group());
                std::array::from_fn(|i| 0.75 * one[i] + 0.25 * other[i])
            }
            Voice::Drum(next) => std::array::from_fn(|_| next()),
        };
        for (x, level) in all.iter_mut().zip(&mut self.level) {
            *x *= *level;
            *level *= self.fades;
        }
        let first = self.made;
        self.made += LANES as u64;
        if (first as f32 * self.attack) < 1.0 || self.made > self.held {
            self.shape(first, &mut all);
        }
        all
    }

    /// The note's begin and its end.
    fn shape(&self, first: u64, all: &mut Lanes) {
        for (at, x) in (first..).zip(all) {
            let begin = (at as f32 * self.attack).min(1.0);
            let end = if at < self.held { 1.0 } else { 1.0 - (at - self.held) as f32 * self.release };
            *x *= begin * end.max(0.0);
        }
    }

    /// The next frames, and silence behind the last; whether there are more.
    fn fill(&mut self, to: &mut [f32]) -> bool {
        let (sounds, silence) = to.split_at_mut(to.len().min((self.frames - self.at) as usize));
        silence.fill(0.0);
        self.at += sounds.len() as u64;
        wide(|| {
            let (rest, groups) = sounds.split_at_mut(sounds.len().min(LANES - self.given));
            rest.copy_from_slice(&self.group[self.given..self.given + rest.len()]);
            self.given += rest.len();
            let mut groups = groups.chunks_exact_mut(LANES);
            groups.by_ref().for_each(|group| group.copy_from_slice(&self.group()));
            let last = groups.into_remainder();
            if !last.is_empty() {
                self.group = self.group();
                self.given = last.len();
                last.copy_from_slice(&self.group[..last.len()]);
            }
        });
        self.at < self.frames
    }
}

struct Synthesizer {
    notes: Vec<Note>,
    next: usize,
    sounding: Vec<Receiver<Vec<f32>>>,
    at: u64,
    block: usize,
    rate: f64,
    /// Blocks of notes that were played, for the notes' next ones.
    spare: (Sender<Vec<f32>>, Receiver<Vec<f32>>),
}

impl Synthesizer {
    fn new(notes: Vec<Note>, block: usize, rate: f64) -> Synthesizer {
        Synthesizer { notes, next: 0, sounding: Vec::new(), at: 0, block, rate, spare: tube::bounded(SPARE) }
    }

    fn begin(&mut self, note: Note) -> Result<(), Fault> {
        let (give, take) = tube::bounded(1);
        let (block, mut lead) = (self.block, (note.begin - self.at) as usize);
        let (mut sound, spare) = (Sound::new(note, self.rate), self.spare.1.clone());
        let thread = Builder::new().name("note").spawn(move || {
            loop {
                let mut samples = spare.try_recv().unwrap_or_else(|_| vec![0.0; block]);
                let (silence, sounds) = samples.split_at_mut(std::mem::take(&mut lead));
                silence.fill(0.0);
                let more = sound.fill(sounds);
                // Its player may have ended.
                if give.send(samples).is_err() || !more {
                    return;
                }
            }
        });
        thread.map_err(|e| Fault(format!("no thread for one more note beside {}: {e}", self.sounding.len())))?;
        self.sounding.push(take);
        Ok(())
    }
}

impl Source for Synthesizer {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let end = self.at + self.block as u64;
        while let Some(note) = self.notes.get(self.next).copied().filter(|n| n.begin < end) {
            self.next += 1;
            self.begin(note)?;
        }
        let mut sum = vec![0.0f32; self.block];
        let mut heard = false;
        self.sounding.retain(|voice| match voice.recv() {
            Ok(samples) => {
                wide(|| sum.iter_mut().zip(&samples).for_each(|(s, x)| *s += x));
                // One for which there is no room is freed.
                let _ = self.spare.0.try_send(samples);
                heard = true;
                true
            }
            Err(_) => false,
        });
        if !heard && self.next == self.notes.len() {
            return Ok(None);
        }
        self.at = end;
        Ok(Some(Block::f32(sum)))
    }
}

fn midi(call: &Call<'_>) -> Result<Plan, Wrong> {
    call.no_input()?;
    let (path, span) = call.file()?;
    let rate = call.number_or(usize::MAX, "rate", (1000.0, 1e6), 48_000.0)?;
    let block = call.number_or(usize::MAX, "block", (1.0, 65_536.0), 256.0)? as usize;
    let bytes = std::fs::read(path).map_err(|e| Wrong::at(span, format!("cannot read {path}: {e}")))?;
    let notes = notes(&bytes, rate).map_err(|e| Wrong::at(span, format!("{path} {e}")))?;
    let source = Synthesizer::new(notes, block, rate);
    Ok(Plan::source(Type::sound(1, rate), move || Ok(Body::Source(Box::new(source)))))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![Kind::new(
        "midi",
        "FILE [rate=48000] [block=256]",
        "the notes of a MIDI file as sound, a light thread for each note",
        midi,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of one track: quarters of 480 ticks, and these bytes of events.
    fn file(events: &[u8]) -> Vec<u8> {
        let mut all = b"MThd\0\0\0\x06\0\0\0\x01\x01\xe0MTrk".to_vec();
        let end = [0, 0xff, 0x2f, 0];
        all.extend(((events.len() + end.len()) as u32).to_be_bytes());
        all.extend(events);
        all.extend(end);
        all
    }

    /// A of 440 Hz for a quarter of 0.5 s, then a quarter of 0.25 s with a drum.
    fn two() -> Vec<u8> {
        file(&[
            0, 0x90, 69, 100, 0x83, 0x60, 0x80, 69, 0, // a quarter
            0, 0xff, 0x51, 3, 0x03, 0xd0, 0x90, // 250,000 us a quarter
            0, 0x99, 38, 127, 0x83, 0x60, 0x89, 38, 0,
        ])
    }

    fn played(notes: &[Note], block: usize) -> Vec<f32> {
        let mut source = Synthesizer::new(notes.to_vec(), block, 8000.0);
        std::iter::from_fn(|| source.get().unwrap()).flat_map(|mut b| std::mem::take(b.numbers())).collect()
    }

    #[test]
    fn notes_have_their_time_whatever_the_tempo_does() {
        let a = Note { begin: 0, frames: 4000, key: 69, velocity: 100, drum: false };
        let drum = Note { begin: 4000, frames: 2000, key: 38, velocity: 127, drum: true };
        assert_eq!(notes(&two(), 8000.0).unwrap(), [a, drum]);
        // A key that nobody lets go ends with the file; its begin by a running status, one of velocity 0 as its end.
        let held = file(&[0, 0x91, 60, 1, 0x83, 0x60, 61, 1, 0x83, 0x60, 61, 0]);
        let held: Vec<(u64, u64)> = notes(&held, 8000.0).unwrap().iter().map(|n| (n.begin, n.frames)).collect();
        assert_eq!(held, [(0, 8000), (4000, 4000)]);
        assert!(notes(b"MThx", 8000.0).unwrap_err().starts_with("is no MIDI file: "));
    }

    #[test]
    fn the_sound_is_the_same_for_any_block_length() {
        let all = notes(&two(), 8000.0).unwrap();
        let sound = played(&all, 64);
        let release = (RELEASE * 8000.0) as usize;
        assert_eq!(sound.len(), (6000 + release).div_ceil(64) * 64);
        assert!(sound[6000 + release..].iter().all(|x| *x == 0.0) && sound[100..4000].iter().any(|x| *x > 0.05));
        for block in [1000, 37] {
            let other = played(&all, block);
            assert!(sound.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-6), "{block}");
        }
        // 440 times a second from below to above.
        let rises = sound[..4000].windows(2).filter(|w| w[0] < 0.0 && w[1] >= 0.0).count();
        assert!((218..=220).contains(&rises), "{rises}");
    }

    #[test]
    fn three_hundred_notes_are_three_hundred_threads_and_their_sum() {
        let one = Note { begin: 10, frames: 500, key: 60, velocity: 100, drum: false };
        let alone = played(&[one], 64);
        let all = played(&[one; 300], 64);
        assert!(alone.len() == all.len() && alone.iter().zip(&all).all(|(a, b)| (a * 300.0 - b).abs() < 1e-2));
    }
}
