//! A broadcast tube whose subscriber wants one message in a hundred, beside one that is sent everything.
//!
//! Where messages come at their own pace the receiver sleeps in between. What it costs then is how often it is woken, which is counted, and what the kernel takes for that: a thread that
//! is woken through a futex as often, and does nothing else, is in the table.

use super::trades::trade;
use crate::process::pin;
use crate::table::{Aim, Table, Unit, times};
use chappe::tube::broadcast::{Broadcast, BroadcastOptions, Subscribe};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What passes 1 %: `qty` takes each of 100 values as often.
const FILTER: &str = "qty == 7";
const MESSAGES: u32 = 200_000;

/// What the calling thread has had of a processor, in ns.
fn used() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: t is a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

/// How often the calling thread has slept.
fn slept() -> f64 {
    // SAFETY: zeros are a `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: usage is a valid place.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw as f64
}

/// What one run took for each message: the sender's time, the receiver's processor; and how often the receiver slept for a hundred messages.
struct Run {
    sender: f64,
    receiver: f64,
    sleeps: f64,
}

/// How messages come: so many, then a rest.
#[derive(Clone, Copy)]
struct Pace {
    burst: u32,
    rest: Duration,
}

impl Pace {
    fn rests_behind(self, n: u32) -> bool {
        n % self.burst == self.burst - 1
    }
}

/// A thread that is woken through a futex as often as a receiver of what passes must be, at that pace: what is behind all receivers that sleep.
fn woken(messages: u32, pace: Pace) -> Run {
    let word = AtomicU32::new(0);
    let futex = |what: i32, value: u32| {
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: the word outlives the call; the kernel reads it, and no time.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), what | libc::FUTEX_PRIVATE_FLAG, value, none) };
    };
    let wakes =
        (0..messages / pace.burst).filter(|b| (b * pace.burst..(b + 1) * pace.burst).any(passes)).count() as u32;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            pin(1);
            let (before, sleeps) = (used(), slept());
            // Acquire: nothing is read by it; it is what a receiver would do.
            let now = || word.load(Ordering::Acquire);
            while now() < wakes {
                // Between the two it may have grown: then the kernel lets nobody sleep for the number before.
                futex(libc::FUTEX_WAIT, now().min(wakes - 1));
            }
            let each = |n: f64| n / f64::from(messages);
            Run { sender: 0.0, receiver: each(used() - before), sleeps: each(slept() - sleeps) * 100.0 }
        });
        scope.spawn(|| {
            pin(0);
            for n in 0..messages {
                if pace.rests_behind(n) {
                    if (n + 1 - pace.burst..=n).any(passes) {
                        // Release: as the load above.
                        word.fetch_add(1, Ordering::Release);
                        futex(libc::FUTEX_WAKE, 1);
                    }
                    std::thread::sleep(pace.rest);
                }
            }
            // Release: as above. Whatever was not sent in whole bursts.
            word.store(wakes, Ordering::Release);
            futex(libc::FUTEX_WAKE, 1);
        });
        receiver.join().expect("the thread that is woken")
    })
}

/// Whether a message passes [`FILTER`].
fn passes(n: u32) -> bool {
    trade(n).qty == 7
}

/// Sends all messages; at a pace, if any.
fn run(filter: Option<&str>, messages: u32, pace: Option<Pace>) -> Run {
    let schema = Some(super::trades::schema().to_string());
    let options = BroadcastOptions { slots: 1024, size: 64, schema, ..BroadcastOptions::default() };
    let tube = Broadcast::<[u8]>::private(&options).expect("a tube");
    let publisher = tube.publisher().expect("a publisher");
    let how = filter.map_or_else(Subscribe::to_all, |f| Subscribe::to_all().filter(f));
    let subscription = tube.subscribe(how).expect("a subscription");
    let wanted = (0..messages).filter(|n| filter.is_none() || passes(*n)).count();
    // The last message of the start says that what is measured comes now.
    let mut start = trade(0);
    (start.qty, start.rest[0]) = (7, 1);
    let all: Vec<_> = (0..messages).map(trade).collect();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            pin(1);
            let mut buffer = [0; 64];
            while buffer[40] == 0 {
                subscription.recv_into(&mut buffer).expect("a message");
            }
            let (before, sleeps) = (used(), slept());
            let mut received = 0;
            while subscription.recv_into(&mut buffer).is_ok() {
                received += 1;
            }
            assert_eq!(received, wanted, "the messages that pass");
            assert_eq!(chappe::synth::engine::compiled_here(), 0, "a receiver does not compile");
            let each = |n: f64| n / f64::from(messages);
            (each(used() - before), each(slept() - sleeps) * 100.0)
        });
        let sender = scope.spawn(move || {
            pin(0);
            // Until the thread beside the publisher has taken the filter in.
            for n in 0..20_000 {
                publisher.send(bytemuck::bytes_of(&trade(n))).expect("sent");
                if n % 1000 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            publisher.send(bytemuck::bytes_of(&start)).expect("sent");
            let begin = Instant::now();
            for (n, message) in (0..).zip(&all) {
                publisher.send(bytemuck::bytes_of(message)).expect("sent");
                if let Some(pace) = pace.filter(|pace| pace.rests_behind(n)) {
                    std::thread::sleep(pace.rest);
                }
            }
            let ns = begin.elapsed().as_nanos() as f64 / f64::from(messages);
            assert_eq!(chappe::synth::engine::compiled_here(), 0, "a sender does not compile");
            ns
        });
        let ((receiver, sleeps), sender) = (receiver.join().expect("the receiver"), sender.join().expect("the sender"));
        Run { sender, receiver, sleeps }
    })
}

const ALL: &str = "everything is sent";
const SOME: &str = "1 % passes";
const WOKEN: &str = "a thread woken as often by a futex";

fn compared(title: &str, rounds: u32, messages: u32, pace: Option<Pace>) -> (Table, Table) {
    let mut runs = [const { Vec::new() }; 3];
    for round in 0..=rounds {
        for turn in 0..3 {
            let which = (round + turn) % 3;
            let run = match (which, pace) {
                (0, _) => run(None, messages, pace),
                (1, _) => run(Some(FILTER), messages, pace),
                (_, Some(pace)) => woken(messages, pace),
                _ => continue,
            };
            // The first round warms up.
            if round > 0 {
                runs[which as usize].push(run);
            }
        }
    }
    let rows = |names: &[&str], of: fn(&Run) -> f64| {
        names.iter().zip(&runs).map(|(name, runs)| ((*name).to_owned(), runs.iter().map(of).collect())).collect()
    };
    let names = if pace.is_some() { &[ALL, SOME, WOKEN][..] } else { &[ALL, SOME] };
    let sent = Table::of(format!("{title}: a message, the sender"), rows(&[ALL, SOME], |run| run.sender));
    let taken = Table::of(format!("{title}: the receiver's processor"), rows(names, |run| run.receiver));
    println!("{}{}", sent.report(), taken.report());
    if pace.is_some() {
        let title = format!("{title}: how often the receiver sleeps, for 100 messages");
        println!("{}", Table::counted(title, Unit::Count, rows(names, |run| run.sleeps)).report());
    }
    (sent, taken)
}

/// The tables, and what was wanted.
///
/// # Panics
/// When a message is lost.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let rounds = (rounds / 3).max(3);
    let (sent, taken) = compared("as fast as it goes", rounds, MESSAGES, None);
    let pace = |burst| Some(Pace { burst, rest: Duration::from_micros(100) });
    let (_, bursts) = compared("100 at a time, then 100 us", rounds, MESSAGES / 10, pace(100));
    let (_, single) = compared("one at a time, then 100 us", rounds, MESSAGES / 50, pace(1));
    vec![
        Aim::at_most(
            "a filter that passes 1 %: receiver's processor, as fast as it goes",
            0.1,
            taken.ratio(SOME),
            times,
        ),
        Aim::at_most("a filter that passes 1 %: receiver's processor, 100 at a time", 0.1, bursts.ratio(SOME), times),
        Aim::at_most("a filter that passes 1 %: receiver's processor, one at a time", 0.1, single.ratio(SOME), times),
        // A rate of at least 0.95 is a time of at most 1 / 0.95.
        Aim::at_most("a filter that passes 1 %: sender's time for a message", 1.0 / 0.95, sent.ratio(SOME), times),
    ]
}
