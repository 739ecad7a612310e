//! Sound devices by way of a JACK server: `Sound_DA` and `Sound_CD` of table 4.4 on whatever card the server has, or on none (`jackd -d dummy`).
//!
//! The server calls its clients once a period, on a real-time thread that must not wait. Two tubes connect that thread
//! and the graph, for each client: full chunks go one way, the same chunks come back empty on the other. The real-time
//! thread uses only `try_` operations, and neither allocates nor frees memory.
//!
//! ```text
//!   graph: put  --- full --->  period: plays      period: records  --- full --->  graph: get
//!               <-- empty ---                                      <-- empty ---
//! ```
//!
//! - I1: there are as many chunks as each tube has slots, so the real-time thread never finds the tube full into which
//!   it returns a chunk.
//!
//! Losses are counted. A player begins when its chunks are full; a period that then finds too little data plays silence
//! for the rest, and counts that time as `late`. A recorder that finds no empty chunk gives the period up, and counts
//! it as `dropped`. The stage's `says` names the server's own xruns.
//!
//! It is a fault if the server ends, changes its rate, or takes nothing for five seconds; the data left to play is
//! counted as dropped. A change of the period's length is no fault. The library is loaded when a graph first has such a
//! stage, so a machine without it has all other stages.

use crate::kind::{Anew, Call, End, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Out, Source, Stage, stage};
use crate::types::{Block, Type};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::jack::{Client, Handler, Period, Refused, Signals, Way};
use chappe_sync::tube::{self, Receiver, Sender};
use std::sync::Arc;
use std::time::Duration;

/// How long the graph's side waits before it looks at the server.
const LOOK: Duration = Duration::from_millis(100);
/// So many looks without a period: the server hangs.
const LOOKS: u32 = 50;

/// What both sides know.
#[derive(Default)]
struct Device {
    /// Periods that the server has called.
    // Ordering: Relaxed: a count.
    periods: AtomicU64,
    /// Frames of silence that was played, or of sound that was not recorded.
    missed: AtomicU64,
    /// The ports are connected: what is played before is heard by nobody.
    // Ordering: Relaxed: a flag that is looked at again.
    ready: AtomicU32,
    /// The graph has no more.
    ended: AtomicU32,
    /// What the server tells.
    signals: Arc<Signals>,
    /// Frames a second, as they were when the graph began.
    rate: u64,
}

/// Why nothing more goes to the device, or comes from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lost {
    Gone,
    Rate(u64),
    Hangs,
}

impl Lost {
    fn fault(self, rate: f64) -> Fault {
        Fault(match self {
            Lost::Gone => "the JACK server has ended, or has put this client out".into(),
            Lost::Rate(now) => format!(
                "the JACK server runs at {now} Hz now, and this graph at {rate} Hz: run it anew, with `resample {now}` before it"
            ),
            Lost::Hangs => {
                let seconds = LOOK.as_secs_f64() * f64::from(LOOKS);
                format!("the JACK server has called no period for {seconds} s: it hangs, or is stopped")
            }
        })
    }
}

impl Device {
    fn of(client: &Client) -> Device {
        Device { signals: client.signals(), rate: client.rate().into(), ..Device::default() }
    }

    fn lost(&self) -> Option<Lost> {
        // Relaxed: flags that are looked at again.
        if self.signals.gone.load(Ordering::Relaxed) != 0 {
            return Some(Lost::Gone);
        }
        // Relaxed: as above.
        let rate = self.signals.rate.load(Ordering::Relaxed);
        (rate != 0 && rate != self.rate).then_some(Lost::Rate(rate))
    }

    /// The next of a tube, unless the server is lost.
    fn wait<T>(&self, tube: &Receiver<T>) -> Result<T, Lost> {
        let (mut looks, mut seen) = (0, None);
        loop {
            if let Some(lost) = self.lost() {
                return Err(lost);
            }
            match tube.recv_timeout(LOOK) {
                Ok(got) => return Ok(got),
                Err(e) if e.is_timeout() => {}
                Err(_) => return Err(Lost::Gone),
            }
            // Relaxed: a count.
            let now = Some(self.periods.load(Ordering::Relaxed));
            looks = if now == seen { looks + 1 } else { 0 };
            seen = now;
            if looks >= LOOKS {
                return Err(Lost::Hangs);
            }
        }
    }
}

/// Chunks between the two sides: full ones, empty ones.
fn chunks(count: usize, samples: usize) -> (Ends, Ends) {
    let (full, to_take) = tube::bounded(count);
    let (empty, to_fill) = tube::bounded(count);
    for _ in 0..count {
        let _ = empty.send(Vec::with_capacity(samples));
    }
    (Ends { give: full, take: to_fill }, Ends { give: empty, take: to_take })
}

struct Ends {
    give: Sender<Vec<f32>>,
    take: Receiver<Vec<f32>>,
}

/// The graph's side of a device that plays.
struct Feeder {
    chunks: Ends,
    now: Option<Vec<f32>>,
    count: usize,
    /// Samples of a chunk.
    samples: usize,
    /// Samples that were not left any more.
    refused: usize,
    device: Arc<Device>,
}

impl Feeder {
    /// Leaves samples for the device: waits while all chunks are full. If the device is lost, those that it left count as given up.
    fn put(&mut self, mut samples: &[f32]) -> Result<(), Lost> {
        while !samples.is_empty() {
            let mut chunk = match self.now.take() {
                Some(chunk) => chunk,
                None => self.device.wait(&self.chunks.take).inspect_err(|_| self.refused = samples.len())?,
            };
            let n = samples.len().min(chunk.capacity() - chunk.len());
            chunk.extend_from_slice(&samples[..n]);
            samples = &samples[n..];
            if chunk.len() == chunk.capacity() {
                let _ = self.chunks.give.send(chunk);
            } else {
                self.now = Some(chunk);
            }
        }
        Ok(())
    }

    /// Waits until all was played.
    fn end(&mut self) -> Result<(), Lost> {
        if let Some(chunk) = self.now.take() {
            let _ = self.chunks.give.send(chunk);
        }
        // Release: the reader that sees this finds the last chunk in the tube.
        self.device.ended.store(1, Ordering::Release);
        for _ in 0..self.count {
            self.device.wait(&self.chunks.take)?;
        }
        Ok(())
    }

    /// Samples that the device has not taken: to whole chunks, of which one may be played in part.
    fn left(&self) -> usize {
        let empty = std::iter::from_fn(|| self.chunks.take.try_recv().ok()).count();
        let ours = usize::from(self.now.is_some());
        let full = self.count.saturating_sub(empty + ours);
        full * self.samples + self.now.as_ref().map_or(0, Vec::len) + self.refused
    }
}

/// The device's side: what one period plays.
struct Player {
    chunks: Ends,
    now: Option<(Vec<f32>, usize)>,
    channels: usize,
    count: usize,
    begun: bool,
    device: Arc<Device>,
}

impl Player {
    /// Gives so many frames to `write`, in pieces with the frame at which each begins; answers how many there were.
    fn play(&mut self, frames: usize, mut write: impl FnMut(usize, &[f32])) -> usize {
        // Relaxed: a count that this thread alone writes.
        self.device.periods.fetch_add(1, Ordering::Relaxed);
        // Acquire: pairs with the store of `Feeder::end`: if there is no more, all of it is in the tube.
        let ended = self.device.ended.load(Ordering::Acquire) != 0;
        self.begun |= ended || self.chunks.take.len() >= self.count;
        // Relaxed: looked at again in the next period.
        if !self.begun || self.device.ready.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let mut at = 0;
        while at < frames {
            let Some((chunk, from)) = self.now.take().or_else(|| Some((self.chunks.take.try_recv().ok()?, 0))) else {
                break;
            };
            let n = (frames - at).min((chunk.len() - from) / self.channels);
            write(at, &chunk[from..from + n * self.channels]);
            (at, self.now) = (at + n, Some((chunk, from + n * self.channels)));
            if let Some((mut chunk, _)) = self.now.take_if(|(chunk, from)| *from == chunk.len()) {
                chunk.clear();
                // I1: it has room.
                let _ = self.chunks.give.try_send(chunk);
            }
        }
        if !ended && at < frames {
            // Relaxed: a count for people.
            self.device.missed.fetch_add((frames - at) as u64, Ordering::Relaxed);
        }
        at
    }
}

/// The device's side: what one period records.
struct Recorder {
    chunks: Ends,
    channels: usize,
    device: Arc<Device>,
}

impl Recorder {
    /// Takes so many frames from `read`, which fills a piece that begins at a frame.
    fn record(&mut self, frames: usize, mut read: impl FnMut(usize, &mut [f32])) {
        // Relaxed: counts that this thread alone writes.
        self.device.periods.fetch_add(1, Ordering::Relaxed);
        // Relaxed: looked at again in the next period.
        if self.device.ready.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut at = 0;
        while at < frames {
            let Ok(mut chunk) = self.chunks.take.try_recv() else {
                // Relaxed: a count for people.
                self.device.missed.fetch_add((frames - at) as u64, Ordering::Relaxed);
                return;
            };
            let n = (frames - at).min(chunk.capacity() / self.channels);
            chunk.resize(n * self.channels, 0.0);
            read(at, &mut chunk);
            // I1: it has room.
            let _ = self.chunks.give.try_send(chunk);
            at += n;
        }
    }
}

impl Handler for Player {
    fn period(&mut self, period: &mut Period<'_>) {
        let channels = self.channels;
        let played = self.play(period.frames(), |at, piece| {
            for channel in 0..channels {
                let to = &mut period.output(channel)[at..];
                to.iter_mut().zip(piece[channel..].iter().step_by(channels)).for_each(|(to, x)| *to = *x);
            }
        });
        (0..channels).for_each(|channel| period.output(channel)[played..].fill(0.0));
    }
}

impl Handler for Recorder {
    fn period(&mut self, period: &mut Period<'_>) {
        let channels = self.channels;
        self.record(period.frames(), |at, piece| {
            for channel in 0..channels {
                let from = &period.input(channel)[at..];
                piece[channel..].iter_mut().step_by(channels).zip(from).for_each(|(to, x)| *to = *x);
            }
        });
    }
}

/// How a stage is written.
struct Wishes {
    name: String,
    /// Seconds that the graph may be ahead.
    buffer: f64,
    /// Ports to connect; nothing: those of the card.
    ports: Option<Vec<String>>,
}

impl Wishes {
    fn of(call: &Call<'_>) -> Result<Wishes, Wrong> {
        let name = call.text(0, "name")?.map_or("chappe", |(name, _)| name).to_owned();
        let buffer = call.number_or(usize::MAX, "buffer", (1e-3, 60.0), 0.05)?;
        let ports = call.text(usize::MAX, "ports")?.map(|(all, _)| all.split_whitespace().map(str::to_owned).collect());
        Ok(Wishes { name, buffer, ports })
    }

    fn client(&self, way: Way, channels: usize) -> Result<Client, String> {
        chappe_thread::block_in_place(|| Client::open(&self.name, way, channels)).map_err(|refused| match refused {
            Refused::Library(why) => format!("the JACK library cannot be loaded: install it (jackd2 brings it): {why}"),
            Refused::NoServer => {
                "there is no JACK server: start one (`jackd -d alsa`, or `jackd -d dummy` without a card), \
                 or name one by JACK_DEFAULT_SERVER"
                    .into()
            }
            Refused::Status(bits) => format!("the JACK server refuses this client: status {bits:#x}"),
            Refused::Name(name) => format!("the JACK server takes no {name:?}"),
        })
    }

    /// Frames of a chunk, and how many chunks.
    fn sizes(&self, client: &Client) -> (usize, usize) {
        let frames = client.period().max(16) as usize;
        let ahead = (self.buffer * f64::from(client.rate()) / frames as f64).ceil() as usize;
        (frames, ahead.max(2))
    }

    /// Begins, and connects each of our ports with one of those that were named, or of the card's; one channel is played on all of them.
    fn begin(&self, client: &mut Client, handler: Box<dyn Handler>, way: Way, device: &Device) -> Result<(), String> {
        client.activate(handler).map_err(|e| format!("the JACK server does not begin: {e}"))?;
        let ours = client.port_names();
        let theirs = self.ports.clone().unwrap_or_else(|| client.card_ports());
        for (at, their) in theirs.iter().enumerate() {
            let Some(our) = ours.get(at).or_else(|| ours.first().filter(|_| ours.len() == 1 && way == Way::Plays))
            else {
                break;
            };
            if let Err(e) = client.connect(our, their)
                && self.ports.is_some()
            {
                return Err(format!(
                    "the JACK server does not connect {our} with {their} ({e}): `jack_lsp` lists its ports"
                ));
            }
        }
        // A connection holds from the next period on, or the one behind it. A server that hangs is told of later.
        // Relaxed: a count, and a flag that is looked at again.
        let connected = device.periods.load(Ordering::Relaxed) + 3;
        for _ in 0..1000 {
            if device.periods.load(Ordering::Relaxed) >= connected {
                break;
            }
            chappe_thread::sleep(Duration::from_millis(1));
        }
        device.ready.store(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A client that runs. Closing it waits for the server, which holds no other light thread up.
struct Held(Option<Client>);

impl Held {
    /// Leaves the client open for the rest of the process' life: closing it would wait for a server that hangs.
    fn leave(&mut self, lost: Lost) {
        if lost == Lost::Hangs {
            std::mem::forget(self.0.take());
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let client = self.0.take();
        chappe_thread::block_in_place(|| drop(client));
    }
}

struct JackOut {
    feeder: Feeder,
    client: Option<Held>,
    rate: f64,
    channels: usize,
    frames: u64,
    told: u64,
}

impl JackOut {
    fn open(wishes: &Wishes, channels: usize, rate: f64) -> Result<JackOut, String> {
        let mut client = wishes.client(Way::Plays, channels)?;
        let theirs = f64::from(client.rate());
        if theirs != rate {
            return Err(format!(
                "the JACK server runs at {theirs} Hz, and this is {rate} Hz: put `resample {theirs}` before it"
            ));
        }
        let (frames, count) = wishes.sizes(&client);
        let (ours, its) = chunks(count, frames * channels);
        let device = Arc::new(Device::of(&client));
        let player = Player { chunks: its, now: None, channels, count, begun: false, device: Arc::clone(&device) };
        wishes.begin(&mut client, Box::new(player), Way::Plays, &device)?;
        let feeder = Feeder { chunks: ours, now: None, count, samples: frames * channels, refused: 0, device };
        Ok(JackOut { feeder, client: Some(Held(Some(client))), rate, channels, frames: 0, told: 0 })
    }

    /// Tells what was missed since the last time.
    fn tell(&mut self, out: &mut dyn Out) {
        // Relaxed: a count for people.
        let missed = self.feeder.device.missed.load(Ordering::Relaxed);
        if missed > self.told {
            out.late((missed - self.told) as f64 / self.rate);
            self.told = missed;
        }
    }

    fn lost(&mut self, lost: Lost, out: &mut dyn Out) -> Fault {
        if let Some(client) = &mut self.client {
            client.leave(lost);
        }
        out.drop_frames((self.feeder.left() / self.channels) as u64);
        lost.fault(self.rate)
    }
}

impl Stage for JackOut {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let samples = block.numbers();
        let done = self.feeder.put(samples);
        self.tell(out);
        self.frames += (samples.len() / self.channels) as u64;
        done.map_err(|lost| self.lost(lost, out))
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        let done = self.feeder.end();
        self.tell(out);
        done.map_err(|lost| self.lost(lost, out))?;
        self.client = None;
        Ok(())
    }

    fn says(&self) -> Option<String> {
        let device = &self.feeder.device;
        // Relaxed: counts for people.
        let (missed, xruns) = (device.missed.load(Ordering::Relaxed), device.signals.xruns.load(Ordering::Relaxed));
        let periods = device.periods.load(Ordering::Relaxed); // Relaxed: a number to show.
        Some(format!("{} frames in {periods} periods, {missed} frames of silence, {xruns} xruns", self.frames))
    }
}

struct JackIn {
    chunks: Ends,
    rate: f64,
    device: Arc<Device>,
    told: u64,
    client: Held,
}

impl JackIn {
    fn open(wishes: &Wishes, mut client: Client, channels: usize) -> Result<JackIn, String> {
        let rate = f64::from(client.rate());
        let (frames, count) = wishes.sizes(&client);
        let (its, ours) = chunks(count, frames * channels);
        let device = Arc::new(Device::of(&client));
        let recorder = Recorder { chunks: its, channels, device: Arc::clone(&device) };
        wishes.begin(&mut client, Box::new(recorder), Way::Records, &device)?;
        Ok(JackIn { chunks: ours, rate, device, told: 0, client: Held(Some(client)) })
    }
}

impl Source for JackIn {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let chunk = self.device.wait(&self.chunks.take).map_err(|lost| {
            self.client.leave(lost);
            lost.fault(self.rate)
        })?;
        let _ = self.chunks.give.try_send(Vec::with_capacity(chunk.capacity()));
        Ok(Some(Block::f32(chunk)))
    }

    fn dropped(&mut self) -> u64 {
        // Relaxed: a count for people.
        let missed = self.device.missed.load(Ordering::Relaxed);
        missed - std::mem::replace(&mut self.told, missed)
    }
}

fn jack(call: &Call<'_>) -> Result<Plan, Wrong> {
    let wishes = Wishes::of(call)?;
    if !call.inputs.is_empty() {
        let (input, rate) = call.sound()?;
        let channels = input.shape as usize;
        let make = move || stage(JackOut::open(&wishes, channels, rate).map_err(Fault)?);
        return Ok(Plan::sink(make).ends(End::Active, End::Passive).anew(Anew::Fresh));
    }
    let channels = call.number_or(usize::MAX, "channels", (1.0, 64.0), 2.0)? as usize;
    // The rate is the server's: it is asked for it when the graph is checked.
    let client = wishes.client(Way::Records, channels).map_err(Wrong::new)?;
    let gives = Type::sound(channels as u32, client.rate().into());
    let make = move || {
        let source = JackIn::open(&wishes, client, channels).map_err(Fault)?;
        Ok(Body::Source(Box::new(source) as Box<dyn Source>))
    };
    Ok(Plan::source(gives, make).ends(End::Passive, End::Active).anew(Anew::Live))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![Kind::new(
        "jack",
        "[NAME] [buffer=50ms] [ports=\"PORT PORT\"] [channels=2]",
        "a sound card, by a JACK server: plays what comes, or records",
        jack,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both sides of a player of chunks of so many frames.
    fn player(count: usize, frames: usize, channels: usize) -> (Feeder, Player) {
        let (ours, its) = chunks(count, frames * channels);
        let device = Arc::new(Device { rate: 48_000, ready: AtomicU32::new(1), ..Device::default() });
        let player = Player { chunks: its, now: None, channels, count, begun: false, device: Arc::clone(&device) };
        (Feeder { chunks: ours, now: None, count, samples: frames * channels, refused: 0, device }, player)
    }

    /// What a period of so many frames plays.
    fn period(player: &mut Player, frames: usize) -> Vec<f32> {
        let channels = player.channels;
        let mut all = vec![0.0; frames * channels];
        player.play(frames, |at, piece| all[at * channels..at * channels + piece.len()].copy_from_slice(piece));
        all
    }

    fn ramp(from: usize, to: usize) -> Vec<f32> {
        (from..to).map(|x| x as f32).collect()
    }

    fn missed(device: &Device) -> u64 {
        // Relaxed: this thread counted.
        device.missed.load(Ordering::Relaxed)
    }

    #[test]
    fn a_player_begins_when_it_is_full_plays_all_in_order_and_counts_its_silence() {
        let (mut feeder, mut player) = player(3, 8, 2);
        feeder.put(&ramp(1, 33)).unwrap();
        assert_eq!(period(&mut player, 4), [0.0; 8]);
        feeder.put(&ramp(33, 49)).unwrap();
        assert_eq!(period(&mut player, 3), ramp(1, 7));
        assert_eq!(period(&mut player, 5), ramp(7, 17));
        feeder.put(&ramp(49, 65)).unwrap();
        assert_eq!(period(&mut player, 16), ramp(17, 49));
        assert_eq!(period(&mut player, 8), ramp(49, 65));
        assert_eq!(missed(&feeder.device), 0);
        feeder.put(&ramp(65, 81)).unwrap();
        let last = period(&mut player, 10);
        assert_eq!((&last[..16], &last[16..], missed(&feeder.device)), (&ramp(65, 81)[..], &[0.0; 4][..], 2));
    }

    #[test]
    fn the_end_waits_until_all_was_played() {
        let (mut feeder, mut player) = player(2, 8, 1);
        feeder.put(&ramp(1, 12)).unwrap();
        let end = std::thread::spawn(move || feeder.end());
        let mut played = Vec::new();
        while !end.is_finished() {
            played.extend(period(&mut player, 4).into_iter().filter(|x| *x != 0.0));
        }
        assert_eq!((end.join().unwrap(), played), (Ok(()), ramp(1, 12)));
    }

    #[test]
    fn a_server_that_ends_or_changes_its_rate_is_a_fault_and_what_it_had_is_counted() {
        let (mut feeder, _player) = player(2, 8, 1);
        let signals = Arc::clone(&feeder.device.signals);
        // Relaxed: of this thread; so below.
        signals.rate.store(48_000, Ordering::Relaxed);
        feeder.put(&ramp(0, 16)).unwrap();
        signals.rate.store(44_100, Ordering::Relaxed);
        let lost = feeder.put(&ramp(0, 5)).unwrap_err();
        assert_eq!(lost, Lost::Rate(44_100));
        assert!(lost.fault(48_000.0).0.contains("runs at 44100 Hz now, and this graph at 48000 Hz"));
        // Relaxed: as above.
        signals.gone.store(1, Ordering::Relaxed);
        assert_eq!(feeder.put(&ramp(0, 5)), Err(Lost::Gone));
        assert_eq!(feeder.left(), 16 + 5);
    }

    #[test]
    fn a_recorder_hands_on_periods_of_any_length_and_counts_what_finds_no_room() {
        let (its, ours) = chunks(3, 8);
        let device = Arc::new(Device { ready: AtomicU32::new(1), ..Device::default() });
        let mut recorder = Recorder { chunks: its, channels: 2, device: Arc::clone(&device) };
        let mut record = |from: usize, frames: usize| {
            let all = ramp(from, from + frames * 2);
            recorder.record(frames, |at, piece| piece.copy_from_slice(&all[at * 2..at * 2 + piece.len()]));
        };
        record(0, 4);
        record(8, 6);
        record(20, 3);
        assert_eq!(missed(&device), 3);
        let got: Vec<f32> = std::iter::from_fn(|| ours.take.try_recv().ok()).flatten().collect();
        assert_eq!(got, ramp(0, 20));
    }
}
