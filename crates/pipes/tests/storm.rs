//! Two processes and a pipe with a lane: random sizes, contents checked, either end or both killed at random, and demoters. And what it costs
//! beside the kernel's pipe.

mod machine;

use chappe_lane::{Lane, Pipe};
use chappe_pipes::{Descriptor, Place};
use machine::has_lanes;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How long a round may take.
const WATCHDOG: Duration = Duration::from_secs(120);
/// The most that one call moves.
const MOST: u64 = 100_000;
/// How many bytes a writer has that nobody kills.
const TOTAL: u64 = 2_000_000;

/// What the processes of a round tell the parent, in memory that they share.
struct Told {
    place: Place,
}

impl Told {
    /// How many bytes each writer has been told that it wrote, how many it may have written, and how many readers have had.
    fn counts(&self) -> &[AtomicU64; 5] {
        // SAFETY: the memory is a lane's, of which nobody makes one; its words are larger, and all bytes are atomics' bytes.
        unsafe { &*std::ptr::from_ref(self.place.words()).cast() }
    }
    fn written(&self, writer: usize) -> &AtomicU64 {
        &self.counts()[writer]
    }
    fn tried(&self, writer: usize) -> &AtomicU64 {
        &self.counts()[2 + writer]
    }
    fn read(&self) -> &AtomicU64 {
        &self.counts()[4]
    }
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
    /// Small ones are as frequent as large ones.
    fn size(&mut self) -> u64 {
        let most = [2, 100, 5_000, MOST][self.below(4) as usize];
        1 + self.below(most)
    }
}

/// The byte at a position of a writer's stream. No byte of the one is one of the other's.
fn byte(writer: usize, at: u64) -> u8 {
    ((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 & !1 | writer as u8
}

struct Round {
    lane: Place,
    told: Told,
    ends: Option<(PipeReader, PipeWriter)>,
    seed: u64,
}

struct Child(libc::pid_t);

impl Child {
    /// Forks one, which ends with what the body answers.
    fn new(body: impl FnOnce() -> bool) -> Child {
        // SAFETY: the child takes no lock that another thread of its parent could have: this test has one thread.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let status = i32::from(!body());
            // SAFETY: ends the process.
            unsafe { libc::_exit(status) };
        }
        Child(child)
    }
    fn kill(&self) {
        // SAFETY: a child that was not waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
    /// Whether it ended well. A killed one did.
    fn ended(&self, began: Instant) -> bool {
        let mut status = 0;
        loop {
            // SAFETY: a place for the status.
            let answer = unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG) };
            if answer == self.0 {
                return status == 0 || libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
            }
            assert!(began.elapsed() < WATCHDOG, "{} hangs", self.0);
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

impl Round {
    fn new(seed: u64) -> Round {
        let [lane, place] = [(); 2].map(|()| Place::new().expect("memory"));
        Round { lane, told: Told { place }, ends: Some(io::pipe().expect("a pipe")), seed }
    }

    fn lane<'a>(&'a self, pipe: &'a Descriptor<'a>) -> Lane<'a, Descriptor<'a>> {
        Lane { words: self.lane.words(), pipe }
    }

    /// 1 or 0.
    fn ended_in_the_ring(&self) -> u32 {
        let words = self.lane.words();
        u32::from(words.tail.load(SeqCst) >> 4 > words.kernel_end.load(SeqCst))
    }

    fn descriptor(&self, fd: &impl AsRawFd) -> Descriptor<'_> {
        Descriptor::new(fd.as_raw_fd(), &self.lane)
    }

    /// Writes all of its stream.
    fn write(&mut self, number: usize) -> bool {
        let (reader, mut end) = self.ends.take().expect("both ends");
        drop(reader);
        let pipe = self.descriptor(&end);
        let writer = self.lane(&pipe).writer().expect("it may push");
        let mut chance = Chance(self.seed ^ number as u64);
        let mut at = 0;
        while at < TOTAL {
            let size = chance.size().min(TOTAL - at);
            let bytes: Vec<u8> = (at..at + size).map(|at| byte(number, at)).collect();
            self.told.tried(number).store(at + size, SeqCst);
            let count = match &writer {
                Some(writer) => writer.write(&bytes),
                None => end.write(&bytes),
            };
            at += count.expect("somebody reads") as u64;
            self.told.written(number).store(at, SeqCst);
        }
        true
    }

    /// Reads to the end, and whether that was what was written. `lost`: the most that an earlier reader may have had. `whole`: no writer is killed.
    fn read(&mut self, lost: u64, whole: bool) -> bool {
        let (mut end, writer) = self.ends.take().expect("both ends");
        drop(writer);
        let pipe = self.descriptor(&end);
        let reader = self.lane(&pipe).reader().expect("it may push");
        let mut chance = Chance(self.seed ^ 77);
        let mut buffer = vec![0; MOST as usize];
        let (mut number, first) = (0, self.told.read().load(SeqCst));
        // Where in the stream the next byte may be.
        let mut at: Vec<u64> = (first..=first + lost).collect();
        loop {
            let into = &mut buffer[..chance.size() as usize];
            let count = match &reader {
                Some(reader) => reader.read(into),
                None => end.read(into),
            };
            let mut got = &buffer[..count.expect("the pipe is whole")];
            let last = *at.last().expect("a place in the stream");
            if got.is_empty() {
                return last >= self.told.written(number).load(SeqCst) && (!whole || last >= TOTAL);
            }
            let same =
                |at: u64, got: &[u8]| (at..).zip(got).take_while(|(at, found)| byte(number, *at) == **found).count();
            if at.len() == 1 {
                let count = same(last, got);
                at[0] += count as u64;
                got = &got[count..];
                let [least, most] = [self.told.written(0), self.told.tried(0)].map(|count| count.load(SeqCst));
                if !got.is_empty() && number == 0 && !whole && (least..=most).contains(&at[0]) {
                    // The next writer's bytes; the first one was killed.
                    (number, at[0]) = (1, 0);
                }
            }
            let same = |at: u64, got: &[u8]| (at..).zip(got).all(|(at, found)| byte(number, at) == *found);
            at.retain(|at| same(*at, got));
            at.iter_mut().for_each(|at| *at += got.len() as u64);
            if at.is_empty() {
                eprintln!("another byte behind {last} of writer {number}");
                return false;
            }
            self.told.read().store(at[0], SeqCst);
        }
    }
}

fn pause(chance: &mut Chance, most: u64) {
    std::thread::sleep(Duration::from_micros(chance.below(most)));
}

/// How often each was killed before it ended, and in how many rounds of each way the last bytes were the ring's.
#[derive(Default, Debug)]
struct Sum {
    writers: u32,
    readers: u32,
    both: u32,
    demoters: u32,
    lanes: [u32; 4],
}

fn round(seed: u64, sum: &mut Sum) {
    let mut chance = Chance(seed);
    let mut round = Round::new(seed);
    let began = Instant::now();
    let way = seed % 4;
    let writer = Child::new(|| round.write(0));
    let reader = Child::new(|| round.read(0, way != 1));
    match way {
        0 => {
            let demoters: Vec<Child> = (0..2)
                .map(|_| {
                    pause(&mut chance, 2_000);
                    let child = Child::new(|| {
                        let (read_end, writer) = round.ends.take().expect("both ends");
                        drop(writer);
                        round.lane(&round.descriptor(&read_end)).demote().is_ok()
                    });
                    pause(&mut chance, 300);
                    child.kill();
                    child
                })
                .collect();
            round.ends = None;
            assert!(demoters.iter().all(|child| child.ended(began)));
            sum.demoters += 2;
        }
        1 => {
            pause(&mut chance, 4_000);
            writer.kill();
            assert!(writer.ended(began));
            let next = Child::new(|| round.write(1));
            round.ends = None;
            assert!(next.ended(began), "seed {seed}");
            sum.writers += 1;
        }
        2 => {
            pause(&mut chance, 4_000);
            reader.kill();
            assert!(reader.ended(began));
            let next = Child::new(|| round.read(MOST, true));
            round.ends = None;
            assert!(next.ended(began), "seed {seed}");
            sum.readers += 1;
        }
        _ => {
            pause(&mut chance, 4_000);
            let (first, second) = if chance.below(2) == 0 { (&reader, &writer) } else { (&writer, &reader) };
            first.kill();
            pause(&mut chance, 100);
            second.kill();
            assert!(reader.ended(began) && writer.ended(began), "seed {seed}");
            let next = Child::new(|| round.read(MOST, false));
            round.ends = None;
            assert!(next.ended(began), "seed {seed}");
            sum.both += 1;
            sum.lanes[3] += round.ended_in_the_ring();
            return;
        }
    }
    let left = [(way != 2, &reader), (way != 1, &writer)];
    assert!(left.iter().all(|(is_left, child)| !is_left || child.ended(began)), "seed {seed}");
    sum.lanes[way as usize] += round.ended_in_the_ring();
}

#[test]
#[ignore = "storm: kills at random"]
fn a_lane_whose_ends_are_killed_gives_each_byte_once() {
    let mut sum = Sum::default();
    let rounds = std::env::var("LANE_ROUNDS").map_or(2_000, |rounds| rounds.parse().expect("a number"));
    for seed in 0..rounds {
        round(seed, &mut sum);
    }
    eprintln!("{sum:?}");
    // Without lanes the kernel's pipes were tested.
    if has_lanes("lanes whose ends are killed") && rounds >= 400 {
        assert!(sum.lanes.iter().all(|rounds| *rounds > 0), "the ring was not used");
    }
}

/// Processor time of this process, or of ended children.
fn used(whose: libc::c_int) -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a place for the answer, of which every pattern is valid.
    let usage = unsafe {
        libc::getrusage(whose, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1_000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Moves so many bytes from one process to another in writes of this size; elapsed, and of processor.
fn moved(total: u64, size: usize, has_lane: bool) -> (Duration, Duration) {
    let mut round = Round::new(0);
    let (began, before) = (Instant::now(), used(libc::RUSAGE_CHILDREN));
    let writer = Child::new(|| {
        let (reader, mut end) = round.ends.take().expect("both ends");
        drop(reader);
        let pipe = round.descriptor(&end);
        let writer = if has_lane { round.lane(&pipe).writer().expect("it may push") } else { None };
        let bytes = vec![1; size];
        let mut rest = total;
        while rest > 0 {
            rest -= match &writer {
                Some(writer) => writer.write(&bytes[..size.min(rest as usize)]),
                None => end.write(&bytes[..size.min(rest as usize)]),
            }
            .expect("somebody reads") as u64;
        }
        true
    });
    let reader = Child::new(|| {
        let (mut end, writer) = round.ends.take().expect("both ends");
        drop(writer);
        let pipe = round.descriptor(&end);
        let reader = if has_lane { round.lane(&pipe).reader().expect("it may push") } else { None };
        let mut buffer = vec![0; 64 << 10];
        let mut sum = 0;
        loop {
            let count = match &reader {
                Some(reader) => reader.read(&mut buffer),
                None => end.read(&mut buffer),
            };
            match count {
                Ok(0) => return sum == total,
                count => sum += count.expect("the pipe is whole") as u64,
            }
        }
    });
    round.ends = None;
    assert!(writer.ended(began) && reader.ended(began), "all came");
    (began.elapsed(), used(libc::RUSAGE_CHILDREN) - before)
}

#[test]
#[ignore = "storm: a benchmark"]
fn a_lane_between_two_processes_beside_the_kernels_pipe() {
    for (size, total) in [(256, 128 << 20), (4_096, 1 << 30), (65_536, 2 << 30)] {
        for _ in 0..3 {
            let [lane, kernel] = [true, false].map(|has_lane| moved(total, size, has_lane));
            let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
            eprintln!(
                "{size}: lane {:?}, of processor {:?}; kernel {:?}, {:?}; ratios {:.2}, {:.2}",
                lane.0,
                lane.1,
                kernel.0,
                kernel.1,
                ratio(lane.0, kernel.0),
                ratio(lane.1, kernel.1)
            );
        }
    }
}

/// Programs 2 to 4 of the thesis' appendix A: one process writes to a pipe and reads it.
#[test]
#[ignore = "storm: a benchmark"]
fn a_lane_within_one_process_beside_the_kernels_pipe() {
    const ROUNDS: u32 = 300_000;
    for size in [1, 1_024, 4_096] {
        let round = Round::new(0);
        let (read_end, write_end) = round.ends.as_ref().expect("both ends");
        let (read, write) = (round.descriptor(read_end), round.descriptor(write_end));
        let (mut buffer, bytes) = (vec![0; size], vec![1; size]);
        let mut cost = |moves: &mut dyn FnMut(&[u8], &mut [u8])| {
            let before = used(libc::RUSAGE_SELF);
            (0..ROUNDS).for_each(|_| moves(&bytes, &mut buffer));
            (used(libc::RUSAGE_SELF) - before).as_nanos() as f64 / f64::from(ROUNDS)
        };
        for _ in 0..3 {
            let kernel = cost(&mut |bytes, buffer| {
                assert_eq!((write.write(bytes).expect("room"), read.read(buffer).expect("bytes")), (size, size));
            });
            let (reader, writer) = (round.lane(&read).reader(), round.lane(&write).writer());
            let (Ok(Some(reader)), Ok(Some(writer))) = (reader, writer) else {
                eprintln!("not tested: a lane within one process: there are none here");
                return;
            };
            let lane = cost(&mut |bytes, buffer| {
                assert_eq!((writer.write(bytes).expect("room"), reader.read(buffer).expect("bytes")), (size, size));
            });
            eprintln!(
                "{size}: lane {lane:.0} ns of processor a write and read, kernel {kernel:.0}, ratio {:.3}",
                lane / kernel
            );
            writer.release();
            reader.release();
        }
    }
}
