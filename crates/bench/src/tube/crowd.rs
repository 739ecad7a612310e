//! Several senders and one receiver, or several of both, as fast as it goes through room for 1024 messages.
//!
//! Each sender sends as many, each receiver receives as many; all may run wherever the scheduler likes. Time a message,
//! from when the first begins until the last has ended.

use crate::process::now;
use crate::table::{Aim, Case, Table};
use crate::tube::channel::{Channel, Crossbeam, Flume, Kanal, Std};
use crate::tube::ours::{Mpmc, Mpsc};
use crate::tube::stream::CAPACITY;
use std::sync::Barrier;

const SIDE: usize = 4;
const EACH: u64 = 100_000;
const MORE: u32 = 2;

/// All of these at once.
fn crowd<C: Channel>(mut senders: Vec<C::Sender<u64>>, mut receivers: Vec<C::Receiver<u64>>) -> f64 {
    let all = EACH * senders.len() as u64;
    let share = all / receivers.len() as u64;
    let barrier = Barrier::new(senders.len() + receivers.len());
    let barrier = &barrier;
    let times = std::thread::scope(|s| {
        let mut threads = Vec::new();
        for from in &mut receivers {
            threads.push(s.spawn(move || {
                barrier.wait();
                let began = now();
                let sum: u64 = (0..share).map(|_| C::recv(from)).sum();
                (began, now(), sum)
            }));
        }
        for to in &mut senders {
            threads.push(s.spawn(move || {
                barrier.wait();
                let began = now();
                (0..EACH).for_each(|n| C::send(to, n));
                (began, now(), 0)
            }));
        }
        threads.into_iter().map(|t| t.join().expect("a side")).collect::<Vec<_>>()
    });
    let sum: u64 = times.iter().map(|t| t.2).sum();
    assert_eq!(sum, (0..EACH).sum::<u64>() * senders.len() as u64, "a message was lost");
    let began = times.iter().map(|t| t.0).min().unwrap_or(0);
    let ended = times.iter().map(|t| t.1).max().unwrap_or(0);
    (ended - began) as f64 / all as f64
}

fn to_one<C: Channel>() -> Case<'static>
where
    C::Sender<u64>: Clone,
{
    Case::new(C::NAME, || {
        let (to, from) = C::make::<u64>(CAPACITY);
        crowd::<C>(vec![to; SIDE], vec![from])
    })
}

fn to_many<C: Channel>() -> Case<'static>
where
    C::Sender<u64>: Clone,
    C::Receiver<u64>: Clone,
{
    Case::new(C::NAME, || {
        let (to, from) = C::make::<u64>(CAPACITY);
        crowd::<C>(vec![to; SIDE], vec![from; SIDE])
    })
}

/// Measures and prints; the aims.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let peers = [Crossbeam::NAME, Flume::NAME, Kanal::NAME];
    let title = format!("{SIDE} senders, 1 receiver, u64, a message");
    let cases = vec![
        to_one::<Crossbeam>(),
        to_one::<Flume>(),
        to_one::<Kanal>(),
        to_one::<Std>(),
        to_one::<Mpsc>(),
        to_one::<Mpmc>(),
    ];
    let one = Table::measure(&title, rounds * MORE, cases);
    print!("{}", one.report());
    let title_many = format!("{SIDE} senders, {SIDE} receivers, u64, a message");
    let cases = vec![to_many::<Crossbeam>(), to_many::<Flume>(), to_many::<Kanal>(), to_many::<Mpmc>()];
    let many = Table::measure(&title_many, rounds * MORE, cases);
    print!("{}", many.report());
    let with_std = [&peers[..], &[Std::NAME]].concat();
    vec![Aim::to_best(&one, &title, Mpsc::NAME, &with_std), Aim::to_best(&many, &title_many, Mpmc::NAME, &peers)]
}
