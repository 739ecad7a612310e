//! A broadcast tube whose subscriber wants one message in a hundred, beside one that is sent everything.

use super::trades::trade;
use crate::process::pin;
use crate::table::{Aim, Table, times};
use chappe::tube::broadcast::{Broadcast, BroadcastOptions, Subscribe};
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

/// What one run took for each message: the sender's time, the receiver's processor.
struct Run {
    sender: f64,
    receiver: f64,
}

/// Sends all messages; with a pause behind each hundredth, if any.
fn run(filter: Option<&str>, messages: u32, pause: Option<Duration>) -> Run {
    let schema = Some(super::trades::schema().to_string());
    let options = BroadcastOptions { slots: 1024, size: 64, schema, ..BroadcastOptions::default() };
    let tube = Broadcast::<[u8]>::private(&options).expect("a tube");
    let publisher = tube.publisher().expect("a publisher");
    let how = filter.map_or_else(Subscribe::to_all, |f| Subscribe::to_all().filter(f));
    let subscription = tube.subscribe(how).expect("a subscription");
    let wanted = (0..messages).filter(|n| filter.is_none() || trade(*n).qty == 7).count();
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
            let before = used();
            let mut received = 0;
            while subscription.recv_into(&mut buffer).is_ok() {
                received += 1;
            }
            assert_eq!(received, wanted, "the messages that pass");
            assert_eq!(chappe::synth::engine::compiled_here(), 0, "a receiver does not compile");
            (used() - before) / f64::from(messages)
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
            for (n, message) in all.iter().enumerate() {
                publisher.send(bytemuck::bytes_of(message)).expect("sent");
                if let Some(pause) = pause.filter(|_| n % 100 == 99) {
                    std::thread::sleep(pause);
                }
            }
            let ns = begin.elapsed().as_nanos() as f64 / f64::from(messages);
            assert_eq!(chappe::synth::engine::compiled_here(), 0, "a sender does not compile");
            ns
        });
        Run { sender: sender.join().expect("the sender"), receiver: receiver.join().expect("the receiver") }
    })
}

fn compared(title: &str, rounds: u32, messages: u32, pause: Option<Duration>) -> (Table, Table) {
    let mut samples = [const { Vec::new() }; 4];
    for round in 0..=rounds {
        for turn in 0..2 {
            let filtered = (round + turn) % 2;
            let run = run((filtered == 1).then_some(FILTER), messages, pause);
            // The first round warms up.
            if round > 0 {
                samples[filtered as usize].push(run.sender);
                samples[2 + filtered as usize].push(run.receiver);
            }
        }
    }
    let [all, some, all_used, some_used] = samples;
    let names = || ("everything is sent".to_owned(), "1 % passes".to_owned());
    let table = |what: &str, a, b| Table::of(format!("{title}: {what}"), vec![(names().0, a), (names().1, b)]);
    let tables = (table("a message, the sender", all, some), table("the receiver's processor", all_used, some_used));
    println!("{}{}", tables.0.report(), tables.1.report());
    tables
}

/// The tables, and what was wanted.
///
/// # Panics
/// When a message is lost.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let rounds = (rounds / 3).max(3);
    let (sent, taken) = compared("as fast as it goes", rounds, MESSAGES, None);
    let (_, paced) = compared("100 at a time, then 100 us", rounds, MESSAGES / 10, Some(Duration::from_micros(100)));
    vec![
        Aim::at_most(
            "a filter that passes 1 %: receiver's processor, as fast as it goes",
            0.1,
            taken.ratio("1 % passes"),
            times,
        ),
        Aim::at_most("a filter that passes 1 %: receiver's processor, paced", 0.1, paced.ratio("1 % passes"), times),
        // A rate of at least 0.95 is a time of at most 1 / 0.95.
        Aim::at_most(
            "a filter that passes 1 %: sender's time for a message",
            1.0 / 0.95,
            sent.ratio("1 % passes"),
            times,
        ),
    ]
}
