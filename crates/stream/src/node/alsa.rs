//! Sound cards by the ALSA library: `Sound_DA` and `Sound_CD` of table 4.4 without a server between.
//!
//! Behind other stages `alsa` plays, as a source it records. The graph's own thread moves the frames: it waits, as any thread that blocks, while
//! the card's buffer is full, or has nothing.
//!
//! Losses are counted. A player that comes too late has played silence: that time is told by the callout `late`. A recorder that comes too late has
//! lost what was heard since its last block: those frames count as dropped. The samples of a card are of 32 or 16 bits, or numbers, whichever it
//! has; the nearest to those of the graph first. Another rate is no loss but an error: `default` and `plughw:` convert, `hw:` does not.
//!
//! A card that goes away (unplugged) ends the graph with a fault. With `lost=wait` the stage looks for it ten times a second, under the same name,
//! and goes on: what a player had in the card's buffer, and what a recorder did not hear, count as dropped. That it has gone, and that
//! it is there again, is told by the callout `lost`, and of a player the time by `late`.
//! The library is loaded when a graph first has such a stage.

use super::absent::{Absent, LOOK};
use crate::kind::{Anew, Call, End, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Lost, Out, Source, Stage, stage};
use crate::types::{Block, Data, Element, Type};
use chappe_plat::alsa::{Format, Pcm, Refused, Wanted, Way};
use chappe_plat::clock;
use std::time::Duration;

/// Frames of a block that was recorded, at most.
const BLOCK: usize = 1024;

/// What the stage does with a card; [`Pcm`], or a test's.
trait Card: Send {
    fn format(&self) -> Format;
    fn write(&mut self, bytes: &[u8]) -> Result<usize, i32>;
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, i32>;
    fn wait(&mut self) -> Result<bool, i32>;
    fn recover(&mut self, error: i32) -> Result<(), i32>;
    fn start(&mut self) -> Result<(), i32>;
    fn unheard(&mut self) -> Result<u64, i32>;
}

impl Card for Pcm {
    fn format(&self) -> Format {
        Pcm::format(self)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, i32> {
        Pcm::write(self, bytes)
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, i32> {
        Pcm::read(self, bytes)
    }

    fn wait(&mut self) -> Result<bool, i32> {
        // The light threads of this proc go on meanwhile.
        chappe_thread::block_in_place(|| Pcm::wait(self, LOOK))
    }

    fn recover(&mut self, error: i32) -> Result<(), i32> {
        Pcm::recover(self, error)
    }

    fn start(&mut self) -> Result<(), i32> {
        Pcm::start(self)
    }

    fn unheard(&mut self) -> Result<u64, i32> {
        Pcm::unheard(self)
    }
}

/// Opens a card.
type Opens = Box<dyn FnMut(&Wanted) -> Result<Box<dyn Card>, Refused> + Send>;

fn opens(wanted: &Wanted) -> Result<Box<dyn Card>, Refused> {
    let pcm = chappe_thread::block_in_place(|| Pcm::open(wanted))?;
    Ok(Box::new(pcm))
}

fn told(wanted: &Wanted, refused: Refused) -> String {
    let Wanted { name, rate, channels, .. } = wanted;
    match refused {
        Refused::Library(why) => format!("the ALSA library cannot be loaded: install it (libasound2): {why}"),
        Refused::Error(BUSY, _) => {
            format!("another program has the sound card `{name}`: end it, or name a card that mixes, such as `default`")
        }
        Refused::Error(_, why) => {
            format!("there is no sound card `{name}` that can be used ({why}): `aplay -L` lists them")
        }
        Refused::Format => {
            format!("the sound card `{name}` has neither numbers nor samples of 32 or 16 bits: `plughw:` converts")
        }
        Refused::Channels => {
            format!("the sound card `{name}` has not {channels} channels: `plughw:` converts, `mono` makes one of them")
        }
        Refused::Rate(theirs) => {
            format!(
                "the sound card `{name}` has no {rate} Hz: put `resample {theirs}` before it, or take `plughw:`, which converts"
            )
        }
    }
}

/// errno(3): EBUSY, and what says that a card was late, or that it has gone.
const BUSY: i32 = 16;
const INTERRUPTED: i32 = 4;
const XRUN: i32 = 32;
const SLEPT: i32 = 86;

/// A card that may go away.
struct Plug {
    wanted: Wanted,
    opens: Opens,
    waits: bool,
    card: Option<Box<dyn Card>>,
    absent: Absent,
    frames: u64,
    xruns: u64,
    /// When what was written will have been heard; of a recorder, when it last had something.
    until: u64,
}

impl Plug {
    fn open(&mut self) -> Result<(), Fault> {
        let card = (self.opens)(&self.wanted).map_err(|refused| Fault(told(&self.wanted, refused)))?;
        (self.card, self.until) = (Some(card), clock::now());
        Ok(())
    }

    fn rate(&self) -> f64 {
        self.wanted.rate.into()
    }

    /// Seconds from `until` to now, or from now to `until`.
    fn since(&self) -> f64 {
        (clock::now() as f64 - self.until as f64) / 1e9
    }

    /// A call has failed: whether the card was late. What it had is gone if the card is.
    fn failed(&mut self, error: i32) -> Result<Failed, Fault> {
        let Some(card) = &mut self.card else { return Ok(Failed::Gone) };
        if matches!(error, XRUN | SLEPT | INTERRUPTED) && card.recover(error).is_ok() {
            self.xruns += u64::from(error != INTERRUPTED);
            return Ok(if error == INTERRUPTED { Failed::Again } else { Failed::Late });
        }
        let why = std::io::Error::from_raw_os_error(error);
        if !self.waits {
            let (name, frames) = (&self.wanted.name, self.frames);
            return Err(Fault(format!(
                "the sound card `{name}` has gone after {frames} frames: `lost=wait` waits for it ({why})"
            )));
        }
        self.card = None;
        self.absent.begins();
        Ok(Failed::Gone)
    }

    /// Looks for a card that is away: for how many seconds it was.
    fn find(&mut self) -> Option<f64> {
        self.open().ok()?;
        Some(self.absent.ends())
    }

    fn says(&self) -> Option<String> {
        Some(format!("{} frames, {} xruns{}", self.frames, self.xruns, self.absent.says()))
    }
}

/// What a failure was.
enum Failed {
    /// It is to be done again.
    Again,
    /// The card had nothing to play, or no room.
    Late,
    /// It is away.
    Gone,
}

/// Samples as a card has them.
fn encoded(data: &Data, format: Format) -> Vec<u8> {
    let number = |x: &f32| if x.is_finite() { x.clamp(-1.0, 1.0) } else { 0.0 };
    match (data, format) {
        (Data::F32(all), Format::F32) => all.iter().flat_map(|x| number(x).to_le_bytes()).collect(),
        (Data::F32(all), Format::I32) => {
            all.iter().flat_map(|x| ((f64::from(number(x)) * 2_147_483_647.0).round() as i32).to_le_bytes()).collect()
        }
        (Data::F32(all), Format::I16) => {
            all.iter().flat_map(|x| ((number(x) * 32_767.0).round() as i16).to_le_bytes()).collect()
        }
        (Data::I16(all), Format::F32) => all.iter().flat_map(|x| (f32::from(*x) / 32_768.0).to_le_bytes()).collect(),
        (Data::I16(all), Format::I32) => all.iter().flat_map(|x| (i32::from(*x) << 16).to_le_bytes()).collect(),
        (Data::I16(all), Format::I16) => all.iter().flat_map(|x| x.to_le_bytes()).collect(),
        (Data::Bytes(_), _) => Vec::new(),
    }
}

/// Samples of a card as the graph has them.
fn decoded(bytes: &[u8], format: Format, element: &Element) -> Block {
    let whole = |b: &[u8; 4]| i32::from_le_bytes(*b);
    match (format, element) {
        (Format::I16, Element::I16) | (Format::F32, Element::F32) => Block::from_bytes(element, bytes),
        (Format::I16, _) => {
            Block::f32(bytes.as_chunks().0.iter().map(|b| f32::from(i16::from_le_bytes(*b)) / 32_768.0).collect())
        }
        (Format::I32, Element::I16) => {
            Block::i16(bytes.as_chunks().0.iter().map(|b| (whole(b) >> 16) as i16).collect())
        }
        (Format::I32, _) => {
            Block::f32(bytes.as_chunks().0.iter().map(|b| (f64::from(whole(b)) / 2_147_483_648.0) as f32).collect())
        }
        (Format::F32, _) => {
            let sample = |b: &[u8; 4]| (f32::from_le_bytes(*b).clamp(-1.0, 1.0) * 32_767.0).round() as i16;
            Block::i16(bytes.as_chunks().0.iter().map(sample).collect())
        }
    }
}

/// Plays.
struct Plays(Plug);

impl Plays {
    /// What the card had and nobody heard.
    fn unheard(&self) -> u64 {
        (-self.0.since() * self.0.rate()).max(0.0) as u64
    }
}

impl Stage for Plays {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let channels = self.0.wanted.channels as usize;
        let (frames, mut done) = (block.len() / channels, 0);
        let mut bytes: Option<(Format, Vec<u8>)> = None;
        while done < frames {
            let plug = &mut self.0;
            let Some(card) = &mut plug.card else {
                if out.is_stopped() {
                    out.drop_frames((frames - done) as u64);
                    return Ok(());
                }
                match plug.find() {
                    Some(away) => out.late(away),
                    None => chappe_thread::sleep(LOOK),
                }
                self.0.absent.news().into_iter().for_each(|what| out.lost(what));
                continue;
            };
            // A card that came back may have another format.
            let format = card.format();
            let (_, all) = match bytes.take() {
                Some(encoded) if encoded.0 == format => bytes.insert(encoded),
                _ => bytes.insert((format, encoded(&block.data, format))),
            };
            let moved = card.write(&all[done * channels * format.bytes()..]).and_then(|n| match n {
                0 => card.wait().map(|ready| (0, ready)),
                n => Ok((n, true)),
            });
            match moved {
                Ok((0, false)) if out.is_stopped() => {
                    out.drop_frames((frames - done) as u64);
                    return Ok(());
                }
                Ok((n, _)) => {
                    done += n;
                    plug.frames += n as u64;
                    plug.until = plug.until.max(clock::now()) + (n as f64 / plug.rate() * 1e9) as u64;
                }
                Err(error) => {
                    let (late, unheard) = (self.0.since(), self.unheard());
                    match self.0.failed(error).inspect_err(|_| out.drop_frames((frames - done) as u64 + unheard))? {
                        Failed::Again => {}
                        Failed::Late => out.late(late.max(0.0)),
                        Failed::Gone => out.drop_frames(unheard),
                    }
                    self.0.absent.news().into_iter().for_each(|what| out.lost(what));
                }
            }
        }
        Ok(())
    }

    /// Waits until all was heard, no longer than it takes by the rate, and a second.
    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        let last = self.0.until + 1_000_000_000;
        let Some(card) = &mut self.0.card else { return Ok(()) };
        // A card that has too little to start by itself.
        let mut done = card.start();
        while done.is_ok() {
            match card.unheard() {
                Ok(0) => break,
                Ok(frames) if clock::now() >= last || out.is_stopped() => {
                    out.drop_frames(frames);
                    break;
                }
                Ok(_) => chappe_thread::sleep(Duration::from_millis(5)),
                Err(error) => done = Err(error),
            }
        }
        let unheard = self.unheard();
        if let Err(error) = done
            && error != XRUN
        {
            out.drop_frames(unheard);
            self.0.failed(error)?;
            self.0.absent.news().into_iter().for_each(|what| out.lost(what));
        }
        self.0.card = None;
        Ok(())
    }

    fn says(&self) -> Option<String> {
        self.0.says()
    }
}

/// Records.
struct Records {
    plug: Plug,
    element: Element,
    dropped: u64,
}

impl Records {
    /// What was heard since the last block is lost.
    fn lose(&mut self) {
        self.dropped += (self.plug.since() * self.plug.rate()).max(0.0) as u64;
        self.plug.until = clock::now();
    }
}

impl Source for Records {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let plug = &mut self.plug;
        let frame = plug.wanted.channels as usize;
        let nothing = |element: &Element| Ok(Some(Block::from_bytes(element, &[])));
        let Some(card) = &mut plug.card else {
            let before = plug.until;
            match plug.find() {
                Some(_) => {
                    plug.until = before;
                    self.lose();
                }
                None => chappe_thread::sleep(LOOK),
            }
            return nothing(&self.element);
        };
        let format = card.format();
        let mut bytes = vec![0; BLOCK * frame * format.bytes()];
        let read = card.start().and_then(|()| card.read(&mut bytes)).and_then(|n| match n {
            0 => card.wait().map(|_| 0),
            n => Ok(n),
        });
        match read {
            Ok(0) => nothing(&self.element),
            Ok(n) => {
                plug.frames += n as u64;
                plug.until = clock::now();
                Ok(Some(decoded(&bytes[..n * frame * format.bytes()], format, &self.element)))
            }
            Err(error) => {
                if matches!(plug.failed(error)?, Failed::Late) {
                    self.lose();
                }
                nothing(&self.element)
            }
        }
    }

    fn dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn lost(&mut self) -> Option<Lost> {
        self.plug.absent.news()
    }

    fn says(&self) -> Option<String> {
        self.plug.says()
    }
}

fn plug(call: &Call<'_>, way: Way, channels: u32, rate: f64, is_samples: bool) -> Result<Plug, Wrong> {
    let name = call.text(0, "card")?.map_or("default", |(name, _)| name).to_owned();
    let buffer = Duration::from_secs_f64(call.number_or(usize::MAX, "buffer", (1e-3, 10.0), 0.1)?);
    let waits = call.choice(usize::MAX, "lost", &["fault", "wait"])? == Some("wait");
    if rate.fract() != 0.0 {
        return Err(Wrong::new(format!(
            "a sound card has whole frames a second, and this is {rate} Hz: put `resample` before it"
        )));
    }
    let formats = match is_samples {
        true => [Format::I16, Format::I32, Format::F32],
        false => [Format::F32, Format::I32, Format::I16],
    };
    let wanted = Wanted { name, way, channels, rate: rate as u32, formats, buffer };
    let opens: Opens = Box::new(opens);
    Ok(Plug { wanted, opens, waits, card: None, absent: Absent::default(), frames: 0, xruns: 0, until: 0 })
}

fn alsa(call: &Call<'_>) -> Result<Plan, Wrong> {
    if call.inputs.is_empty() {
        let element = match call.choice(usize::MAX, "as", &["f32", "i16"])? {
            Some("i16") => Element::I16,
            _ => Element::F32,
        };
        let channels = call.number_or(usize::MAX, "channels", (1.0, 64.0), 2.0)? as u32;
        let rate = call.number_or(usize::MAX, "rate", (1000.0, 768_000.0), 48_000.0)?;
        let mut plug = plug(call, Way::Records, channels, rate, element == Element::I16)?;
        let gives = Type { element: element.clone(), shape: channels, rate: Some(rate) };
        let plan = Plan::source(gives, move || {
            plug.open()?;
            Ok(Body::Source(Box::new(Records { plug, element, dropped: 0 }) as Box<dyn Source>))
        });
        return Ok(plan.ends(End::Passive, End::Active).anew(Anew::Live));
    }
    let input = call.input()?;
    let is_samples = input.element == Element::I16;
    let rate = match input.rate.filter(|_| is_samples) {
        Some(rate) => rate,
        None => call.sound()?.1,
    };
    let mut plug = plug(call, Way::Plays, input.shape, rate, is_samples)?;
    let plan = Plan::sink(move || {
        plug.open()?;
        stage(Plays(plug))
    });
    Ok(plan.ends(End::Active, End::Passive).anew(Anew::Fresh))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![Kind::new(
        "alsa",
        "[CARD] [buffer=100ms] [lost=fault|wait] [channels=2] [rate=48000] [as=f32|i16]",
        "a sound card, by the ALSA library: plays what comes, or records",
        alsa,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Kept;
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    /// What a card answers to its next calls, and what it has heard.
    #[derive(Default)]
    struct Script {
        answers: VecDeque<Result<usize, i32>>,
        heard: Vec<u8>,
        /// So many attempts to open it are refused.
        away: u32,
        opened: u32,
    }

    struct Played(Arc<Mutex<Script>>, Format, usize);

    impl Played {
        fn next(&self, most: usize) -> Result<usize, i32> {
            self.0.lock().unwrap().answers.pop_front().unwrap_or(Ok(most)).map(|n| n.min(most))
        }
    }

    impl Card for Played {
        fn format(&self) -> Format {
            self.1
        }
        fn write(&mut self, bytes: &[u8]) -> Result<usize, i32> {
            let n = self.next(bytes.len() / self.2)?;
            self.0.lock().unwrap().heard.extend(&bytes[..n * self.2]);
            Ok(n)
        }
        fn read(&mut self, bytes: &mut [u8]) -> Result<usize, i32> {
            let n = self.next(bytes.len() / self.2)?;
            bytes[..n * self.2].fill(1);
            Ok(n)
        }
        fn wait(&mut self) -> Result<bool, i32> {
            Ok(true)
        }
        fn recover(&mut self, error: i32) -> Result<(), i32> {
            if matches!(error, XRUN | SLEPT | INTERRUPTED) { Ok(()) } else { Err(error) }
        }
        fn start(&mut self) -> Result<(), i32> {
            Ok(())
        }
        fn unheard(&mut self) -> Result<u64, i32> {
            Ok(0)
        }
    }

    fn plugged(answers: &[Result<usize, i32>], away: u32, waits: bool) -> (Plug, Arc<Mutex<Script>>) {
        let script = Script { answers: answers.iter().copied().collect(), away, ..Script::default() };
        let script = Arc::new(Mutex::new(script));
        let shared = Arc::clone(&script);
        let opens: Opens = Box::new(move |_| {
            let mut script = shared.lock().unwrap();
            script.opened += 1;
            if script.opened > 1 && script.opened <= 1 + script.away {
                return Err(Refused::Error(19, "no such device".into()));
            }
            Ok(Box::new(Played(Arc::clone(&shared), Format::I16, 4)) as Box<dyn Card>)
        });
        let formats = [Format::I16; 3];
        let buffer = Duration::from_millis(100);
        let wanted = Wanted { name: "test".into(), way: Way::Plays, channels: 2, rate: 48_000, formats, buffer };
        let mut plug =
            Plug { wanted, opens, waits, card: None, absent: Absent::default(), frames: 0, xruns: 0, until: 0 };
        plug.open().unwrap();
        (plug, script)
    }

    fn samples(from: i16, n: i16) -> Vec<i16> {
        (from..from + n).collect()
    }

    #[test]
    fn a_card_that_takes_little_is_late_or_goes_away_gets_every_frame_in_its_order() {
        let gone = 19;
        let answers = [Ok(3), Ok(0), Err(XRUN), Ok(1), Err(INTERRUPTED), Err(gone), Ok(2)];
        let (plug, script) = plugged(&answers, 1, true);
        let (mut plays, mut out) = (Plays(plug), Kept::default());
        for at in 0..4 {
            plays.put(Block::i16(samples(at * 20, 20)), &mut out).unwrap();
        }
        plays.end(&mut out).unwrap();
        let expected: Vec<u8> = samples(0, 80).iter().flat_map(|x| x.to_le_bytes()).collect();
        let script = script.lock().unwrap();
        assert_eq!((&script.heard, script.opened), (&expected, 3));
        // Once it had nothing to play, and once it was away.
        assert_eq!((out.late, plays.0.xruns, plays.0.frames), (2, 1, 40));
        assert!(matches!(out.lost[..], [Lost::Gone, Lost::Back(away)] if away > 0.0), "{:?}", out.lost);
        let says = plays.says().unwrap();
        assert!(says.starts_with("40 frames, 1 xruns, 1 times lost, for 0."), "{says}");
    }

    #[test]
    fn a_card_that_goes_away_is_a_fault_unless_it_is_waited_for() {
        let (plug, _) = plugged(&[Ok(5), Err(19)], 0, false);
        let (mut plays, mut out) = (Plays(plug), Kept::default());
        let fault = plays.put(Block::i16(samples(0, 20)), &mut out).unwrap_err();
        assert!(fault.0.contains("`test` has gone after 5 frames: `lost=wait` waits for it"), "{}", fault.0);
        assert!((5..=10).contains(&out.dropped), "{}", out.dropped);
    }

    #[test]
    fn a_recorder_goes_on_after_a_loss_and_counts_it() {
        let (plug, _) = plugged(&[Ok(7), Err(XRUN), Ok(4), Err(19), Ok(2)], 0, true);
        let mut records = Records { plug, element: Element::I16, dropped: 0 };
        let mut next = || (records.get().unwrap().unwrap().len() / 2, records.lost().map(|lost| lost == Lost::Gone));
        let all: Vec<(usize, Option<bool>)> = (0..6).map(|_| next()).collect();
        assert_eq!(all, [(7, None), (0, None), (4, None), (0, Some(true)), (0, Some(false)), (2, None)]);
        assert_eq!((records.plug.xruns, records.plug.frames), (1, 13));
    }

    #[test]
    fn samples_of_each_width_come_back_as_they_were() {
        let numbers = Data::F32(vec![0.0, 0.5, -0.5, 1.0, -1.0]);
        for format in [Format::F32, Format::I32, Format::I16] {
            let mut back = decoded(&encoded(&numbers, format), format, &Element::F32);
            let off = back.numbers().iter().zip([0.0f32, 0.5, -0.5, 1.0, -1.0]).map(|(a, b)| (a - b).abs());
            assert!(off.fold(0.0, f32::max) < 1e-4, "{format:?}");
            let whole = Data::I16(vec![0, 1, -1, 32_767, -32_768, 12_345]);
            let back = decoded(&encoded(&whole, format), format, &Element::I16).data;
            let exact = format != Format::F32;
            assert!(!exact || back == whole, "{format:?} {back:?}");
        }
        assert_eq!(encoded(&Data::F32(vec![f32::NAN, 9.0, -9.0]), Format::I16), [0, 0, 255, 127, 1, 128]);
    }

    #[test]
    fn a_card_that_refuses_is_told_with_a_remedy() {
        let (plug, _) = plugged(&[], 0, false);
        let said = |refused| told(&plug.wanted, refused);
        assert!(said(Refused::Rate(44_100)).contains("no 48000 Hz: put `resample 44100` before it"));
        assert!(said(Refused::Error(BUSY, String::new())).contains("another program has the sound card `test`"));
        assert!(said(Refused::Channels).contains("2 channels"));
        assert!(said(Refused::Library("x".into())).contains("install it (libasound2): x"));
    }
}
