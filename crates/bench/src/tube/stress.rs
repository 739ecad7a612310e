//! Choice under stress: many threads, few processors, tubes that are full or empty most of the time.
//!
//! | table | threads that choose | threads that do not |
//! |---|---|---|
//! | clients and servers | 16 clients, each among its 4 tubes of answers; 4 servers, each among 4 tubes of requests | - |
//! | many senders | one, among 4 tubes | 16 senders, 4 to each tube |
//! | many choosers | 8, each among one tube that all have in common and 3 of its own, where nothing comes | 4 senders |
//!
//! All threads may run wherever the scheduler likes. Time a message (a request and its answer are one), from when the first thread begins
//! until the last has ended.

use crate::process::now;
use crate::table::{Aim, Case, Table, times};
use crate::tube::channel::Channel;
use crate::tube::chooser::{Choice, CrossbeamInPlace, CrossbeamSelect, Receiver};
use crate::tube::ours;
use std::sync::Barrier;

type Sender<C> = <<C as Choice>::Channel as Channel>::Sender<u64>;

const WIDTH: usize = 4;
/// Rooms of the tubes: none, one, and enough that a thread need not stop at each message.
const ROOMS: [usize; 3] = [0, 1, 16];
const CLIENTS: usize = 16;
const SERVERS: usize = 4;
const REQUESTS: u64 = 250;
const SENDERS: usize = 16;
const SENT: u64 = 1_000;
const CHOOSERS: usize = 8;
const FEW_SENDERS: usize = 4;
const CHOSEN: u64 = 2_000;
/// What a request says besides its client's number.
const CLIENT: u64 = 1 << 32;

fn channels<C: Choice>(room: usize) -> (Vec<Sender<C>>, Vec<Receiver<C>>) {
    (0..WIDTH).map(|_| C::Channel::make::<u64>(room)).unzip()
}

/// What one thread does; the sum of what it received.
type Part<'a> = Box<dyn FnOnce() -> u64 + Send + 'a>;

/// All of these at once: nanoseconds, and the sum of what they received.
fn all(parts: Vec<Part<'_>>) -> (u64, u64) {
    let barrier = Barrier::new(parts.len());
    let barrier = &barrier;
    let ended: Vec<_> = std::thread::scope(|s| {
        let mut threads = Vec::new();
        for part in parts {
            threads.push(s.spawn(move || {
                barrier.wait();
                let began = now();
                let sum = part();
                (began, now(), sum)
            }));
        }
        threads.into_iter().map(|t| t.join().expect("a thread of the table")).collect()
    });
    let began = ended.iter().map(|t| t.0).min().unwrap_or(0);
    let end = ended.iter().map(|t| t.1).max().unwrap_or(0);
    (end - began, ended.iter().map(|t| t.2).sum())
}

fn ask<C: Choice>(room: usize) -> f64
where
    Sender<C>: Clone + Sync,
    Receiver<C>: Clone,
{
    let (requests, asked) = channels::<C>(room);
    let (answers, answered): (Vec<_>, Vec<_>) = (0..CLIENTS).map(|_| channels::<C>(room)).unzip();
    let answers = &answers;
    let mut parts: Vec<Part<'_>> = Vec::new();
    for (me, own) in answered.into_iter().enumerate() {
        let mut requests = requests.clone();
        parts.push(Box::new(move || {
            let mut chooser = C::over(&own);
            let mut sum = 0;
            for n in 0..REQUESTS {
                C::Channel::send(&mut requests[n as usize % WIDTH], me as u64 * CLIENT + n);
                sum += C::choose(&mut chooser).1;
            }
            sum
        }));
    }
    for _ in 0..SERVERS {
        let asked = asked.clone();
        parts.push(Box::new(move || {
            let mut answers = answers.clone();
            let mut chooser = C::over(&asked);
            for n in 0..REQUESTS * (CLIENTS / SERVERS) as u64 {
                let (_, request) = C::choose(&mut chooser);
                let to = &mut answers[(request / CLIENT) as usize][n as usize % WIDTH];
                C::Channel::send(to, request % CLIENT);
            }
            0
        }));
    }
    let (took, sum) = all(parts);
    assert_eq!(sum, (0..REQUESTS).sum::<u64>() * CLIENTS as u64, "an answer was lost");
    took as f64 / (REQUESTS * CLIENTS as u64) as f64
}

fn to_one<C: Choice>(room: usize) -> f64
where
    Sender<C>: Clone,
{
    let (to, from) = channels::<C>(room);
    let mut parts: Vec<Part<'_>> = Vec::new();
    for sender in 0..SENDERS {
        let mut to = to[sender % WIDTH].clone();
        parts.push(Box::new(move || {
            (0..SENT).for_each(|n| C::Channel::send(&mut to, n));
            0
        }));
    }
    parts.push(Box::new(move || {
        let mut chooser = C::over(&from);
        (0..SENT * SENDERS as u64).map(|_| C::choose(&mut chooser).1).sum()
    }));
    let (took, sum) = all(parts);
    assert_eq!(sum, (0..SENT).sum::<u64>() * SENDERS as u64, "a message was lost");
    took as f64 / (SENT * SENDERS as u64) as f64
}

fn to_many<C: Choice>(room: usize) -> f64
where
    Sender<C>: Clone,
    Receiver<C>: Clone,
{
    let (to, from) = C::Channel::make::<u64>(room);
    let mut parts: Vec<Part<'_>> = Vec::new();
    for _ in 0..FEW_SENDERS {
        let mut to = to.clone();
        parts.push(Box::new(move || {
            (0..CHOSEN).for_each(|n| C::Channel::send(&mut to, n));
            0
        }));
    }
    for _ in 0..CHOOSERS {
        let from = from.clone();
        parts.push(Box::new(move || {
            let (_quiet, mut arms) = channels::<C>(room);
            arms[WIDTH - 1] = from;
            let mut chooser = C::over(&arms);
            let share = CHOSEN * FEW_SENDERS as u64 / CHOOSERS as u64;
            (0..share).map(|_| C::choose(&mut chooser).1).sum()
        }));
    }
    let (took, sum) = all(parts);
    assert_eq!(sum, (0..CHOSEN).sum::<u64>() * FEW_SENDERS as u64, "a message was lost");
    took as f64 / (CHOSEN * FEW_SENDERS as u64) as f64
}

/// The rows of one table.
macro_rules! cases {
    ($play:ident, $room:expr) => {
        vec![
            Case::new(CrossbeamSelect::NAME, move || $play::<CrossbeamSelect>($room)),
            Case::new(CrossbeamInPlace::NAME, move || $play::<CrossbeamInPlace>($room)),
            Case::new(ours::Choice::NAME, move || $play::<ours::Choice>($room)),
            Case::new(ours::ChoiceInPlace::NAME, move || $play::<ours::ChoiceInPlace>($room)),
        ]
    };
}

/// Measures and prints; the aims.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let mut aims = Vec::new();
    for room in ROOMS {
        let tables = [
            (format!("{CLIENTS} clients and {SERVERS} servers that choose"), cases!(ask, room)),
            (format!("{SENDERS} senders, one chooses among {WIDTH} tubes"), cases!(to_one, room)),
            (format!("{FEW_SENDERS} senders, {CHOOSERS} choose on one tube"), cases!(to_many, room)),
        ];
        for (title, cases) in tables {
            let title = format!("{title}, room {room}");
            let table = Table::measure(&title, rounds, cases);
            print!("{}", table.report());
            for (row, peer) in
                [(ours::Choice::NAME, CrossbeamSelect::NAME), (ours::ChoiceInPlace::NAME, CrossbeamInPlace::NAME)]
            {
                let ratio = table.ratio_to(row, peer);
                aims.push(Aim::at_most(format!("{title}, {row}, to {peer}"), 1.0, ratio, times));
            }
        }
    }
    aims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_play_delivers_all() {
        for room in ROOMS {
            assert!(ask::<ours::ChoiceInPlace>(room) > 0.0);
            assert!(to_one::<ours::Choice>(room) > 0.0);
            assert!(to_many::<CrossbeamSelect>(room) > 0.0);
        }
    }
}
