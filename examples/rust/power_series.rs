//! Power series as processes: a light thread for each series, and the coefficients go through tubes without slots.
//!
//! ```sh
//! cargo run --release --example power_series -- 200 --procs 1
//! ```
//!
//! Computes `Exp(Ones)` modulo 2^31 - 1: e to the power x + x^2 + x^3 + ..., and prints a hash of its first coefficients. After M. D. McIlroy,
//! "Squinting at power series" (1990), the program that Plan 9's semaphores were measured with (plan9-semaphores, 4): almost all it does is
//! to begin threads, to send, to receive, and to choose.

use chappe::tube::{Receiver, Sender, bounded};
use chappe::{select, thread};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const MODULUS: u64 = (1 << 31) - 1;
type Number = u64;

fn inverse(number: Number) -> Number {
    let (mut power, mut base, mut exponent) = (1, number % MODULUS, MODULUS - 2);
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power * base % MODULUS;
        }
        base = base * base % MODULUS;
        exponent >>= 1;
    }
    power
}

static THREADS: AtomicU64 = AtomicU64::new(0);
static SENDS: AtomicU64 = AtomicU64::new(0);

/// A series on demand: one asks, and gets the next coefficient.
struct Ends {
    ask: Sender<()>,
    asked: Receiver<()>,
    give: Sender<Number>,
    given: Receiver<Number>,
}
type Series = Arc<Ends>;
/// The asker has gone, so the answering thread ends.
struct Over;
type Next<T> = Result<T, Over>;

fn series() -> Series {
    let ((ask, asked), (give, given)) = (bounded(0), bounded(0));
    Arc::new(Ends { ask, asked, give, given })
}

fn begin(body: impl FnOnce() -> Next<()> + Send + 'static) {
    THREADS.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
    drop(thread::spawn(move || drop(body())));
}

fn sent<T>(outcome: Result<(), T>) -> Next<()> {
    SENDS.fetch_add(1, Ordering::Relaxed); // Relaxed: a count.
    outcome.map_err(|_| Over)
}

impl Ends {
    fn get(&self) -> Next<Number> {
        sent(self.ask.send(()))?;
        self.given.recv().map_err(|_| Over)
    }

    fn wait(&self) -> Next<()> {
        self.asked.recv().map_err(|_| Over)
    }

    fn answer(&self, number: Number) -> Next<()> {
        sent(self.give.send(number))
    }

    fn put(&self, number: Number) -> Next<()> {
        self.wait()?;
        self.answer(number)
    }
}

/// The next of both, in whichever order they come.
fn get_both(one: &Ends, two: &Ends) -> Next<(Number, Number)> {
    let (mut asked, mut got) = ([false; 2], [None; 2]);
    while asked != [true; 2] || got.contains(&None) {
        match (asked, got) {
            ([false, false], _) => select! {
                send(one.ask, ()) -> r => { sent(r)?; asked[0] = true },
                send(two.ask, ()) -> r => { sent(r)?; asked[1] = true },
            },
            ([true, false], [None, _]) => select! {
                recv(one.given) -> n => got[0] = Some(n.map_err(|_| Over)?),
                send(two.ask, ()) -> r => { sent(r)?; asked[1] = true },
            },
            ([false, true], [_, None]) => select! {
                send(one.ask, ()) -> r => { sent(r)?; asked[0] = true },
                recv(two.given) -> n => got[1] = Some(n.map_err(|_| Over)?),
            },
            ([true, true], [None, None]) => select! {
                recv(one.given) -> n => got[0] = Some(n.map_err(|_| Over)?),
                recv(two.given) -> n => got[1] = Some(n.map_err(|_| Over)?),
            },
            ([false, _], _) => {
                sent(one.ask.send(()))?;
                asked[0] = true
            }
            ([_, false], _) => {
                sent(two.ask.send(()))?;
                asked[1] = true
            }
            (_, [None, _]) => got[0] = Some(one.given.recv().map_err(|_| Over)?),
            _ => got[1] = Some(two.given.recv().map_err(|_| Over)?),
        }
    }
    Ok((got[0].unwrap_or(0), got[1].unwrap_or(0)))
}

/// One series for two askers, each at its own pace: a thread for each coefficient that one of them has had and the
/// other has not.
fn split(from: Series) -> (Series, Series) {
    let (one, two) = (series(), series());
    let (a, b) = (Arc::clone(&one), Arc::clone(&two));
    let (tx, rx) = bounded(0);
    begin(move || {
        begin(move || hand_out(from, a, b, rx));
        sent(tx.send(()))
    });
    (one, two)
}

fn hand_out(from: Series, one: Series, two: Series, turn: Receiver<()>) -> Next<()> {
    let (mut first, mut second) = (one, two);
    let (mut both, mut swap) = (false, false);
    select! {
        recv(first.asked) -> r => r.map_err(|_| Over)?,
        recv(turn) -> r => { r.map_err(|_| Over)?; both = true },
    }
    if both {
        select! {
            recv(first.asked) -> r => r.map_err(|_| Over)?,
            recv(second.asked) -> r => { r.map_err(|_| Over)?; swap = true },
        }
    }
    if swap {
        std::mem::swap(&mut first, &mut second);
    }
    sent(from.ask.send(()))?;
    let (release, released) = bounded(0);
    let (next, a, b) = (Arc::clone(&from), Arc::clone(&first), Arc::clone(&second));
    begin(move || hand_out(next, a, b, released));
    let number = from.given.recv().map_err(|_| Over)?;
    first.answer(number)?;
    if !both {
        turn.recv().map_err(|_| Over)?;
    }
    second.wait()?;
    second.answer(number)?;
    sent(release.send(()))
}

fn each(mut body: impl FnMut(&Ends) -> Next<()> + Send + 'static) -> Series {
    let out = series();
    let to = Arc::clone(&out);
    begin(move || {
        loop {
            body(&to)?;
        }
    });
    out
}

fn ones() -> Series {
    each(|to| to.put(1))
}

fn add(one: Series, two: Series) -> Series {
    each(move |to| {
        to.wait()?;
        let (a, b) = get_both(&one, &two)?;
        to.answer((a + b) % MODULUS)
    })
}

fn scale(factor: Number, of: Series) -> Series {
    each(move |to| {
        to.wait()?;
        let number = of.get()?;
        to.answer(factor * number % MODULUS)
    })
}

fn copy(from: &Ends, to: &Ends) -> Next<()> {
    loop {
        to.wait()?;
        to.answer(from.get()?)?;
    }
}

fn multiply(one: Series, two: Series) -> Series {
    let out = series();
    let to = Arc::clone(&out);
    begin(move || {
        to.wait()?;
        let (a, b) = get_both(&one, &two)?;
        to.answer(a * b % MODULUS)?;
        let ((one, one_more), (two, two_more)) = (split(one), split(two));
        let cross = add(scale(a, two), scale(b, one));
        to.wait()?;
        to.answer(cross.get()?)?;
        copy(&add(cross, multiply(one_more, two_more)), &to)
    });
    out
}

fn differentiate(of: Series) -> Series {
    let out = series();
    let to = Arc::clone(&out);
    begin(move || {
        to.wait()?;
        of.get()?;
        for power in 1.. {
            to.answer(power * of.get()? % MODULUS)?;
            to.wait()?;
        }
        Ok(())
    });
    out
}

fn integrate(constant: Number, of: Series) -> Series {
    let out = series();
    let to = Arc::clone(&out);
    begin(move || {
        to.put(constant)?;
        for power in 1.. {
            to.wait()?;
            to.answer(of.get()? * inverse(power) % MODULUS)?;
        }
        Ok(())
    });
    out
}

fn exponential(of: Series) -> Series {
    // z = 1 + the integral of z u'
    let (inner, outer) = (series(), series());
    let z = integrate(1, multiply(Arc::clone(&inner), differentiate(of)));
    let (a, b) = (inner, Arc::clone(&outer));
    let (tx, rx) = bounded(0);
    begin(move || {
        begin(move || hand_out(z, a, b, rx));
        sent(tx.send(()))
    });
    outer
}

/// The hash of so many coefficients of Exp(Ones).
pub(crate) fn hash(coefficients: usize) -> u64 {
    let z = exponential(ones());
    (0..coefficients).fold(0, |hash, _| match z.get() {
        Ok(number) => (31 * hash + number) % MODULUS,
        Err(Over) => unreachable!("a series is endless"),
    })
}

fn usage() -> ExitCode {
    eprintln!("usage: power_series [COEFFICIENTS] [--procs N] [--times N]");
    ExitCode::from(2)
}

fn main() -> ExitCode {
    let (mut coefficients, mut procs, mut times) = (200, 1, 1);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let place = match word.as_str() {
            "--procs" => &mut procs,
            "--times" => &mut times,
            _ => {
                let Ok(number) = word.parse() else { return usage() };
                coefficients = number;
                continue;
            }
        };
        let Some(Ok(number)) = words.next().map(|word| word.parse()) else { return usage() };
        *place = number;
    }
    let runtime = match thread::Runtime::new(procs) {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("power_series: {e}");
            return ExitCode::FAILURE;
        }
    };
    runtime.report_deadlocks();
    for _ in 0..times {
        let before = Instant::now();
        let hash = runtime.run(|| hash(coefficients));
        let took = before.elapsed();
        // Relaxed, both: counts; all that count is over.
        let (threads, sends) = (THREADS.swap(0, Ordering::Relaxed), SENDS.swap(0, Ordering::Relaxed));
        println!("hash {hash}, {threads} threads, {sends} sends, {:.2} ms", took.as_secs_f64() * 1e3);
    }
    ExitCode::SUCCESS
}

#[test]
fn exp_of_ones_is_what_the_recurrence_says() {
    for procs in [1, 2] {
        let runtime = thread::Runtime::new(procs).unwrap();
        assert_eq!(runtime.run(|| hash(100)), 1_109_162_916);
    }
}
