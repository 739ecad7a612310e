//! Figure 3 of netbsd-restartable-sequences: what a context switch costs beside the number of sequences.
//!
//! As in its section 4.4: a token goes through a pipe between two processes, here on one processor; twenty passes are one
//! measurement; the shortest of many is the undisturbed switch. The paper's kernel looked through a list of the process's
//! sequences at each switch. Linux looks at one address, which the thread leaves in its area when it enters a sequence; so what
//! there is to see is whether there is an area at all, and whether the thread went through a sequence since the last switch.
//!
//! Each number of sequences is measured in a program of its own, several times, in turns.

use crate::process::{Child, pin};
use crate::ras::again::{Again, NO_AREA, tell};
use crate::ras::plot::plot;
use crate::ras::sequence::Installed;
use crate::table::{Table, nanoseconds};
use std::hint::black_box;
use std::io;
use std::time::Instant;

/// The name of this part, for [`Again`].
pub const PART: &str = "switches";

const PASSES: u32 = 20;
const NUMBERS: [usize; 6] = [0, 1, 2, 4, 8, 16];

/// What is done with the sequences between two passes.
const IDLE: &str = "idle";
const USED: &str = "used";

struct Pipe([i32; 2]);

impl Pipe {
    fn new() -> Pipe {
        let mut ends = [0; 2];
        // SAFETY: room for two.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0, "{}", io::Error::last_os_error());
        Pipe(ends)
    }

    fn pass(&self) {
        // SAFETY: one byte is there.
        assert_eq!(unsafe { libc::write(self.0[1], [1u8].as_ptr().cast(), 1) }, 1, "{}", io::Error::last_os_error());
    }

    /// False: no thread will pass it any more.
    fn take(&self) -> bool {
        let mut token = [0u8];
        // SAFETY: room for one byte.
        let got = unsafe { libc::read(self.0[0], token.as_mut_ptr().cast(), 1) };
        assert!(got >= 0, "{}", io::Error::last_os_error());
        got == 1
    }

    fn close(&self, end: usize) {
        // SAFETY: ours, and not used any more.
        unsafe { libc::close(self.0[end]) };
    }
}

/// So many measurements, on one processor; nanoseconds a pass. Both do `before` whenever they have the token.
///
/// # Panics
/// When the system refuses pipes or a process.
pub fn passes(measurements: u32, mut before: impl FnMut()) -> Vec<f64> {
    pin(0);
    let (there, back) = (Pipe::new(), Pipe::new());
    let child = Child::fork(|| {
        there.close(1);
        while there.take() {
            before();
            back.pass();
        }
    });
    let mut measure = || {
        let began = Instant::now();
        for _ in 0..PASSES / 2 {
            before();
            there.pass();
            assert!(back.take(), "the other has ended");
        }
        began.elapsed().as_nanos() as f64 / f64::from(PASSES)
    };
    let samples = (0..measurements).map(|_| measure()).collect();
    there.close(1);
    assert_eq!(child.end(), 0, "the other");
    [there.0[0], back.0[0], back.0[1]].iter().for_each(|fd| {
        // SAFETY: ours, and not used any more.
        unsafe { libc::close(*fd) };
    });
    samples
}

/// The part that is a program of its own: so many sequences, idle or used, so many measurements.
///
/// Says nothing where they cannot be installed.
///
/// # Panics
/// When it is told nonsense.
pub fn part(args: &[&str]) {
    let [sequences, how, measurements] = args else { panic!("sequences, idle or used, measurements") };
    let (sequences, measurements) = (sequences.parse().expect("a number"), measurements.parse().expect("a number"));
    let Ok(mut installed) = Installed::new(sequences) else { return };
    let samples = match *how {
        USED => passes(measurements, || {
            black_box(installed.run_next());
        }),
        _ => passes(measurements, || ()),
    };
    tell(how, &samples);
}

/// One line of the figure.
struct Series {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    how: &'static str,
    numbers: &'static [usize],
}

const SERIES: [Series; 4] = [
    Series { name: "no area: glibc's rseq off, none of ours", environment: &[NO_AREA], how: IDLE, numbers: &[0] },
    Series { name: "glibc's area, installed", environment: &[], how: IDLE, numbers: &NUMBERS },
    Series { name: "glibc's area, one run a pass", environment: &[], how: USED, numbers: NUMBERS.split_at(1).1 },
    Series { name: "own area, one run a pass", environment: &[NO_AREA], how: USED, numbers: NUMBERS.split_at(1).1 },
];

/// What a point of the figure is called in the table.
fn point(series: &Series, sequences: usize) -> String {
    format!("{}, {sequences}", series.name)
}

/// Measures and prints.
pub fn measure(again: &Again, rounds: u32) {
    // Of the paper's 16,000 measurements each program makes a part.
    let (programs, each) = if rounds < 10 { (2, 250) } else { (8, 2000) };
    let points: Vec<(&Series, usize)> = SERIES.iter().flat_map(|s| s.numbers.iter().map(move |n| (s, *n))).collect();
    let mut samples: Vec<Vec<f64>> = points.iter().map(|_| Vec::new()).collect();
    for _ in 0..programs {
        for ((series, sequences), samples) in points.iter().zip(&mut samples) {
            let part = [PART, &sequences.to_string(), series.how, &each.to_string()];
            match again.run(series.environment, &part) {
                Ok(rows) => rows.into_iter().for_each(|(_, more)| samples.extend(more)),
                Err(why) => {
                    println!("\nnot measured: figure 3: {why}");
                    return;
                }
            }
        }
    }
    let rows = points.iter().map(|(series, n)| point(series, *n)).zip(samples);
    let table = Table::of("figure 3: a context switch, sequences", rows.filter(|(_, s)| !s.is_empty()).collect());
    print!("{}", table.report());
    let lines: Vec<(&str, Vec<(f64, f64)>)> = SERIES
        .iter()
        .map(|s| {
            // Where there are no sequences some have nothing to tell.
            let there = s.numbers.iter().filter(|n| table.names().any(|name| name == point(s, **n)));
            (s.name, there.map(|n| (*n as f64, table.row(&point(s, *n)).quantile(0.0))).collect())
        })
        .collect();
    println!("\nshortest context switch by number of sequences (figure 3)");
    print!("{}", plot(&lines, nanoseconds));
    println!(
        "  the paper: 100 sequences doubled it on a 25 MHz DECstation, 130 on a 100 MHz i486; it grew with each of them"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_comes_back_as_often_as_it_was_passed() {
        // In a process of its own: it keeps itself to one processor.
        let child = Child::fork(|| {
            let mut held = 0;
            assert_eq!(passes(3, || held += 1).len(), 3);
            assert_eq!(held, 3 * PASSES / 2);
        });
        assert_eq!(child.end(), 0);
    }
}
