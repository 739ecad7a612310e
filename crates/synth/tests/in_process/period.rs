//! The callback of a device against a reference, sample by sample, while its sources come and go.

use crate::dice::Dice;
use chappe_synth::{Callback, Feed, Period, PeriodError, Tap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const FRAMES: usize = 64;
const OUTPUTS: usize = 2;
const INPUTS: usize = 2;

/// A source as the reference knows it.
struct Playing {
    feed: Feed,
    channel: usize,
    gain: f32,
    queued: Vec<[f32; FRAMES]>,
    missed: u64,
}

struct Recording {
    tap: Tap,
    channel: usize,
    depth: usize,
    queued: Vec<[f32; FRAMES]>,
    missed: u64,
}

fn samples(dice: &mut Dice) -> [f32; FRAMES] {
    std::array::from_fn(|_| (dice.next() as i32 as f32) / 2e9)
}

fn bits(samples: &[f32]) -> Vec<u32> {
    samples.iter().map(|x| x.to_bits()).collect()
}

/// So many periods; before each, sources come, go and change their gain. How many changes there were.
fn play(seed: u64, periods: usize, mut run: impl FnMut(&mut Callback, &[f32], &mut [f32])) -> usize {
    let dice = &mut Dice(seed);
    let period = Period::new(FRAMES, INPUTS, OUTPUTS).unwrap();
    let mut callback = period.callback().unwrap();
    let (mut playing, mut recording): (Vec<Playing>, Vec<Recording>) = Default::default();
    let (mut output, mut still) = (vec![0.0; OUTPUTS * FRAMES], 0);
    for _ in 0..periods {
        match dice.below(8) {
            0 | 1 if playing.len() < 9 => {
                let (channel, gain) = (dice.below(OUTPUTS), [1.0, 0.5, -0.75, 0.0][dice.below(4)]);
                let feed = period.play(channel, gain, 1 + dice.below(5)).unwrap();
                playing.push(Playing { feed, channel, gain, queued: Vec::new(), missed: 0 });
            }
            2 if recording.len() < 5 => {
                let (channel, depth) = (dice.below(INPUTS), 1 + dice.below(5));
                let tap = period.record(channel, depth).unwrap();
                recording.push(Recording { tap, channel, depth, queued: Vec::new(), missed: 0 });
            }
            3 | 4 if !playing.is_empty() => drop(playing.remove(dice.below(playing.len()))),
            5 if !recording.is_empty() => drop(recording.remove(dice.below(recording.len()))),
            6 if !playing.is_empty() => {
                let at = dice.below(playing.len());
                playing[at].gain *= 0.5;
                let gain = playing[at].gain;
                playing[at].feed.set_gain(gain).unwrap();
            }
            _ => still += 1,
        }
        for p in &mut playing {
            while dice.below(5) != 0 {
                let block = samples(dice);
                if !p.feed.push(&block).unwrap() {
                    break;
                }
                p.queued.push(block);
            }
        }
        let input: Vec<f32> = (0..INPUTS).flat_map(|_| samples(dice)).collect();
        output.fill(f32::NAN);
        run(&mut callback, &input, &mut output);

        let mut wanted = vec![0.0f32; OUTPUTS * FRAMES];
        let mut heard = [false; OUTPUTS];
        for p in &mut playing {
            let block = if p.queued.is_empty() { [0.0; FRAMES] } else { p.queued.remove(0) };
            let silent = p.feed.missed() != p.missed;
            p.missed += u64::from(silent);
            assert_eq!((p.feed.missed(), p.feed.queued()), (p.missed, p.queued.len()));
            assert!(!silent || block == [0.0; FRAMES]);
            for (at, x) in block.iter().enumerate() {
                let x = if p.gain == 1.0 { *x } else { x * p.gain };
                let out = &mut wanted[p.channel * FRAMES + at];
                *out = if heard[p.channel] { *out + x } else { x };
            }
            heard[p.channel] = true;
        }
        assert_eq!(bits(&output), bits(&wanted));
        for r in &mut recording {
            if r.queued.len() < r.depth {
                r.queued.push(input[r.channel * FRAMES..][..FRAMES].try_into().unwrap());
            } else {
                r.missed += 1;
            }
            assert_eq!((r.tap.missed(), r.tap.queued()), (r.missed, r.queued.len()));
            while dice.below(3) == 0 {
                let mut block = [0.0; FRAMES];
                let some = r.tap.pull(&mut block).unwrap();
                assert_eq!(some, !r.queued.is_empty());
                if some {
                    assert_eq!(bits(&block), bits(&r.queued.remove(0)));
                }
            }
        }
        assert_eq!(period.sources(), playing.len() + recording.len());
        assert_eq!(period.code_bytes().is_some(), cfg!(feature = "jit"));
    }
    periods - still
}

#[test]
fn changes_while_it_plays_are_exact_to_the_sample() {
    let changes = play(34, 80, |callback, input, output| callback.run(input, output).unwrap());
    assert!(changes >= 40, "{changes} changes");
}

#[test]
#[ignore = "storm: more than 1,000 pieces of machine code, half a minute with a compiler that is not optimised"]
fn a_thousand_changes_while_it_plays_are_exact_to_the_sample() {
    let changes = play(34, 1400, |callback, input, output| callback.run(input, output).unwrap());
    assert!(changes >= 1000, "{changes} changes");
}

#[test]
fn without_machine_code_it_is_the_same() {
    play(35, 80, Callback::run_plain);
}

#[test]
fn an_impossible_period_or_channel_is_refused() {
    for frames in [0, 3, 65, 8196] {
        assert_eq!(Period::new(frames, 1, 1).err(), Some(PeriodError::Frames(frames)));
    }
    assert_eq!(Period::new(64, 1, 65).err(), Some(PeriodError::Channels(65)));
    let period = Period::new(64, 0, 1).unwrap();
    let missing = |channels| PeriodError::Channel { channel: 1, channels };
    assert_eq!(period.play(1, 1.0, 1).err(), Some(missing(1)));
    assert_eq!(period.record(1, 1).err(), Some(missing(0)));
    assert_eq!(period.play(0, 1.0, 0).err(), Some(PeriodError::Depth(0)));
    assert!(period.play(0, f32::NAN, 1).err().unwrap().to_string().contains("finite"));
    let mut callback = period.callback().unwrap();
    assert_eq!(period.callback().err(), Some(PeriodError::Taken));
    let short = PeriodError::Length { given: 63, wanted: 64 };
    assert_eq!(callback.run(&[], &mut [0.0; 63]), Err(short));
    let mut feed = period.play(0, 1.0, 1).unwrap();
    assert_eq!(feed.push(&[0.0; 63]), Err(short));
    assert_eq!(feed.set_gain(f32::INFINITY), Err(PeriodError::Gain(f32::INFINITY)));
    assert_eq!((feed.push(&[1.0; 64]), feed.push(&[2.0; 64])), (Ok(true), Ok(false)));
    drop(callback);
    let mut out = [0.0; 64];
    period.callback().unwrap().run(&[], &mut out).unwrap();
    assert_eq!(out, [1.0; 64]);
}

#[test]
#[ignore = "storm: the machine code of 256 sources, made 256 times"]
fn there_are_at_most_so_many_sources_and_all_are_heard() {
    let period = Period::new(8, 0, 1).unwrap();
    let mut feeds: Vec<Feed> = (0..chappe_synth::MAX_SOURCES).map(|_| period.play(0, 0.5, 1).unwrap()).collect();
    assert_eq!(period.play(0, 1.0, 1).err(), Some(PeriodError::TooMany));
    for feed in &mut feeds {
        assert!(feed.push(&[1.0; 8]).unwrap());
    }
    let mut out = [0.0; 8];
    period.callback().unwrap().run(&[], &mut out).unwrap();
    assert_eq!(out, [128.0; 8]);
    drop(feeds);
    assert_eq!(period.sources(), 0);
}

#[test]
fn a_forked_child_plays_on_without_machine_code() {
    let period = Period::new(64, 0, 1).unwrap();
    let mut callback = period.callback().unwrap();
    let mut feed = period.play(0, 0.5, 2).unwrap();
    assert!(feed.push(&[1.0; 64]).unwrap());
    let mut out = [0.0; 64];
    // SAFETY: the child calls what neither allocates nor locks, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let right = callback.run(&[], &mut out).is_ok() && out == [0.5; 64];
        // SAFETY: nothing of the parent's is run.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 0;
    // SAFETY: our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[test]
#[ignore = "storm: a thread calls back without pause while another adds and removes sources 1,000 times"]
fn a_thousand_changes_beside_a_callback_that_runs() {
    let period = Period::new(FRAMES, 1, 1).unwrap();
    let mut callback = period.callback().unwrap();
    let (stop, periods) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            let (input, mut out) = ([0.25; FRAMES], [0.0; FRAMES]);
            // Relaxed, here and below: told and counted, nothing hangs on it.
            while !stop.load(Ordering::Relaxed) {
                callback.run(&input, &mut out).unwrap();
                // Each source plays ones, louder by a power of two: any set of them is one value for the whole period.
                assert!(out.iter().all(|x| *x == out[0] && (0.0..8.0).contains(x)), "{out:?}");
                periods.fetch_add(1, Ordering::Relaxed); // Relaxed: as above.
            }
        });
        // The lasting one must be heard in each period, whatever comes and goes: nothing of it is lost or doubled.
        let mut lasting = period.record(0, 64).unwrap();
        let mut pulled = 0;
        for n in 0..1000 {
            let mut feed = period.play(0, [1.0, 2.0, 4.0][n % 3], 8).unwrap();
            while feed.push(&[1.0; FRAMES]).unwrap() {}
            // Relaxed, both: as above.
            let before = periods.load(Ordering::Relaxed);
            // Relaxed: as above.
            while periods.load(Ordering::Relaxed) < before + 3 {
                std::thread::yield_now();
            }
            let mut block = [0.0; FRAMES];
            while lasting.pull(&mut block).unwrap() {
                assert_eq!(block, [0.25; FRAMES]);
                pulled += 1;
            }
        }
        stop.store(true, Ordering::Relaxed); // Relaxed: as above.
        assert!(pulled > 1000);
    });
}
