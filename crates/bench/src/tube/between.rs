//! Between two processes: half a round trip of 64 bytes, and records of 64 bytes, 1 KiB and 64 KiB one way.
//!
//! The record is copied in and out of whatever carries it; *in place*: see [`named`](crate::tube::named). *spinning*: neither
//! side ever sleeps; *asleep*: both sleep at once; *adaptive*: as tubes do unless they are told. What the kernel carries
//! sleeps as the kernel sees fit.
//!
//! One way there is room for 64 records in the raw ring, in a tube and in iceoryx2, whatever their length. The kernel's ways
//! have what they have by default: a pipe 64 KiB (a thousand records of 64 bytes, one of 64 KiB), a message queue ten
//! messages of at most 8 KiB, a socket some 200 KiB with what the kernel needs for each.

use crate::handoff::{Course, Sides, duel};
use crate::machine::processors;
use crate::table::{Aim, Case, Column, Table, times};
use crate::tube::floor::{Ring, SMALL, Waiting, there_and_back};
#[cfg(feature = "iceoryx2")]
use crate::tube::iceoryx::Topic;
use crate::tube::named::{MOVED, Moved, Own, SLOTS, Way};
use crate::tube::wire::{Pipe, Queue, Socket, Wire};
use chappe::Role;
use chappe::tube::named::Kind;

const FLAG: &str = "raw flag, spinning";
const FUTEX: &str = "raw futex, asleep";
/// The kinds of tubes that have rows: with the least at the ends, and with the most.
const ENDS: [(&str, Kind); 2] = [("spsc", Kind::Spsc), ("mpmc", Kind::Mpmc)];

fn half(course: Course, there: &impl Wire, back: &impl Wire) -> f64 {
    let trip = duel(
        course,
        |start| {
            let (mut send, mut receive) = (there.sender(), back.receiver());
            let mut record = [0; SMALL];
            start();
            for trip in 0..course.trips {
                record[0] = trip as u8;
                send(&record);
                receive(&mut record);
                assert_eq!(record[0], trip as u8);
            }
        },
        |start| {
            let (mut receive, mut send) = (there.receiver(), back.sender());
            let mut record = [0; SMALL];
            start();
            for _ in 0..course.trips {
                receive(&mut record);
                send(&record);
            }
        },
    );
    trip / 2.0
}

fn halves<'a>(name: &str, course: Course, [there, back]: &'a [impl Wire; 2]) -> Case<'a> {
    Case::new(name, move || half(course, there, back))
}

/// One way; nanoseconds a record, from the common start until the receiver has the last.
fn flow(wire: &impl Wire, length: usize, count: u32) -> f64 {
    let course = Course { sides: Sides::Processes, on: (0, 1), trips: count };
    duel(
        course,
        |start| {
            let mut receive = wire.receiver();
            let mut record = vec![0; length];
            start();
            for n in 0..count {
                receive(&mut record);
                assert_eq!(record[length - 1], n as u8);
            }
        },
        |start| {
            let mut send = wire.sender();
            let mut record = vec![0; length];
            start();
            for n in 0..count {
                record[length - 1] = n as u8;
                send(&record);
            }
        },
    )
}

fn flows<'a>(name: &str, wire: &'a impl Wire, length: usize, count: u32) -> Case<'a> {
    Case::new(name, move || flow(wire, length, count))
}

fn called(kind: &str, how: &str, waits: &str) -> String {
    format!("named tube, {kind}, {how}, {waits}")
}

fn trips(rounds: u32) -> Vec<Aim> {
    let mut aims = Vec::new();
    let tubes = ENDS.map(|(name, kind)| (name, [0, 1].map(|_| Own::bytes(kind, SLOTS, SMALL))));
    let rings = [Ring::<SMALL>::make(), Ring::<SMALL>::make()];
    let pipes = [Pipe::new(), Pipe::new()];
    let sockets = [Socket::new(), Socket::new()];
    let queues = Queue::new(SMALL).zip(Queue::new(SMALL)).map(|(there, back)| [there, back]);
    #[cfg(feature = "iceoryx2")]
    let (polled, waited) = (Topic::pair(SMALL, Waiting::Spinning), Topic::pair(SMALL, Waiting::Asleep));
    for (site, on, trips) in [("same processor", (0, 0), 1_000), ("two processors", (0, 1), 200)] {
        if on.1 >= processors() {
            println!("\n{site}: this machine has one");
            continue;
        }
        let course = Course { sides: Sides::Processes, on, trips };
        let apart = on.0 != on.1;
        let far = Course { trips: 2_000, ..course };
        let mut cases = Vec::new();
        if apart {
            cases.push(Case::new(FLAG, move || there_and_back(far, Waiting::Spinning) / 2.0));
            cases.push(halves("raw rings, spinning", far, &rings));
        }
        cases.push(Case::new(FUTEX, move || there_and_back(course, Waiting::Asleep) / 2.0));
        cases.push(halves("pipe", course, &pipes));
        cases.push(halves("Unix sockets, SEQPACKET", course, &sockets));
        cases.extend(queues.as_ref().map(|q| halves("POSIX message queues", course, q)));
        #[cfg(feature = "iceoryx2")]
        {
            if apart {
                cases.push(halves("iceoryx2, polling", far, &polled));
            }
            cases.push(halves("iceoryx2, events", course, &waited));
        }
        let mut aimed = Vec::new();
        for (kind, [there, back]) in &tubes {
            for (how, moved) in MOVED {
                let both = |role| [there, back].map(|tube| Way { tube, moved, role });
                for (waits, waiting, course, floor, most) in
                    [("spinning", Waiting::Spinning, far, FLAG, 1.5), ("asleep", Waiting::Asleep, course, FUTEX, 1.2)]
                {
                    if waiting == Waiting::Asleep || apart {
                        let (row, ways) = (called(kind, how, waits), both(waiting.role()));
                        aimed.push((row.clone(), floor, most));
                        cases.push(Case::new(row, move || half(course, &ways[0], &ways[1])));
                    }
                }
            }
        }
        let title = format!("half a round trip, {SMALL} B, processes, {site}");
        let table = Table::measure(&title, rounds * 2, cases);
        print!("{}", table.report());
        aims.extend(aimed.into_iter().map(|(row, floor, most)| {
            Aim::at_most(format!("{title}, {row}, to {floor}"), most, table.ratio_to(&row, floor), times)
        }));
    }
    aims
}

fn throughput<const N: usize>(rounds: u32, count: u32) {
    let (ring, pipe, socket, queue) = (Ring::<N>::make(), Pipe::new(), Socket::new(), Queue::new(N));
    #[cfg(feature = "iceoryx2")]
    let topic = Topic::new(N, Waiting::Spinning);
    let tubes = ENDS.map(|(name, kind)| (name, Own::bytes(kind, SLOTS, N)));
    let mut cases = vec![
        flows("raw ring, spinning", &ring, N, count),
        flows("pipe", &pipe, N, count),
        flows("Unix sockets, SEQPACKET", &socket, N, count),
    ];
    cases.extend(queue.as_ref().map(|q| flows("POSIX message queue", q, N, count)));
    #[cfg(feature = "iceoryx2")]
    cases.push(flows("iceoryx2, polling", &topic, N, count));
    for (kind, tube) in &tubes {
        for (how, moved) in MOVED {
            let way = Way { tube, moved, role: Role::Spin };
            cases.push(Case::new(called(kind, how, "spinning"), move || flow(&way, N, count)));
        }
        let way = Way { tube, moved: Moved::Copied, role: Role::TimeSharing };
        cases.push(Case::new(called(kind, "copied", "adaptive"), move || flow(&way, N, count)));
    }
    let table = Table::measure(format!("one way, processes, records of {N} B"), rounds * 2, cases);
    let speed = |name| format!("{:.2}", N as f64 / table.row(name).quantile(0.5));
    print!("{}", table.report_with(&[Column::new("GB/s", table.names().map(speed).collect())]));
    if queue.is_none() {
        println!("  (this system has no message queues)");
    }
}

/// Measures and prints; the aims.
///
/// # Panics
/// When the system refuses a pipe or a socket, or one loses a record.
pub fn measure(rounds: u32) -> Vec<Aim> {
    let aims = trips(rounds);
    if processors() < 2 {
        println!("\none way on two processors: this machine has one");
        return aims;
    }
    throughput::<64>(rounds, 10_000);
    throughput::<1024>(rounds, 5_000);
    throughput::<65_536>(rounds, 500);
    #[cfg(feature = "iceoryx2")]
    crate::tube::iceoryx::clean();
    aims
}
