//! Semaphores against a sequential model. Several threads are driven in lock-step, so that the model knows the waiters, their order and the
//! value after each step; a choice over two semaphores waits in both queues.

use crate::house::House;
use chappe::{DownError, Role, Select, SelectError, Semaphore, UpError, set_role};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const THREADS: usize = 4;
const BOTH: usize = 2;
/// Long enough for a thread that is to be woken, and never waited for when all is well.
const LONG: Duration = Duration::from_secs(60);

/// What a thread is told to do, and on which semaphore.
#[derive(Clone, Copy, Debug)]
enum Order {
    Down(usize),
    Try(usize),
    /// With a limit that will be reached if it has to wait at all.
    Hasty(usize),
    /// With one in the past.
    Late(usize),
    /// With one that will not be reached.
    Limited(usize),
    Choose,
    TryChoose,
    HastyChoose,
    Up(usize, u32),
}

#[derive(Clone, Copy, Debug)]
struct Step {
    thread: usize,
    order: Order,
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..BOTH;
    let many = prop_oneof![
        6 => Just(1u32),
        4 => 0u32..6,
        1 => (0u32..4).prop_map(|n| Semaphore::MAX - n),
        1 => Just(u32::MAX),
    ];
    let order = prop_oneof![
        6 => which.clone().prop_map(Order::Down),
        4 => which.clone().prop_map(Order::Try),
        2 => which.clone().prop_map(Order::Hasty),
        1 => which.clone().prop_map(Order::Late),
        2 => which.clone().prop_map(Order::Limited),
        3 => Just(Order::Choose),
        2 => Just(Order::TryChoose),
        1 => Just(Order::HastyChoose),
        9 => (which, many).prop_map(|(s, n)| Order::Up(s, n)),
    ];
    (0..THREADS, order).prop_map(|(thread, order)| Step { thread, order })
}

/// What a thread answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Took(usize),
    WouldBlock,
    TimedOut,
    Added,
    Overflow(u32),
}

fn down(at: usize, made: Result<(), DownError>) -> Answer {
    match made {
        Ok(()) => Answer::Took(at),
        Err(DownError::WouldBlock) => Answer::WouldBlock,
        Err(DownError::Timeout) => Answer::TimedOut,
        Err(e) => panic!("{e}"),
    }
}

fn obey(order: Order, all: &[Semaphore; BOTH]) -> Answer {
    let hasty = Duration::from_millis(1);
    let mut both = Select::new_biased();
    for one in all {
        both.down(one);
    }
    let choose = |made: Result<chappe::SelectedOperation<'_>, SelectError>| match made {
        Ok(chosen) => Answer::Took(chosen.index()),
        Err(SelectError::WouldBlock) => Answer::WouldBlock,
        Err(SelectError::Timeout) => Answer::TimedOut,
        Err(e) => panic!("{e}"),
    };
    match order {
        Order::Down(s) => down(s, all[s].down()),
        Order::Try(s) => down(s, all[s].try_down()),
        Order::Hasty(s) => down(s, all[s].down_timeout(hasty)),
        Order::Late(s) => down(s, all[s].down_deadline(Instant::now() - hasty)),
        Order::Limited(s) => down(s, all[s].down_timeout(LONG)),
        Order::Choose => choose(both.wait()),
        Order::TryChoose => choose(both.try_wait()),
        Order::HastyChoose => choose(both.wait_timeout(hasty)),
        Order::Up(s, n) => match all[s].up_many(n) {
            Ok(()) => Answer::Added,
            Err(UpError::Overflow { value, by, most, .. }) => {
                assert_eq!((by, most), (n, Semaphore::MAX));
                Answer::Overflow(value)
            }
            Err(e) => panic!("{e}"),
        },
    }
}

/// What the semaphores should be: values, and the waiters of each, by arrival.
#[derive(Debug)]
struct Model {
    value: [u32; BOTH],
    queue: [VecDeque<usize>; BOTH],
}

impl Model {
    fn take(&mut self, s: usize) -> bool {
        let is = self.value[s] > 0;
        self.value[s] -= u32::from(is);
        is
    }

    /// Adds; answers the threads that are served.
    fn add(&mut self, s: usize, n: u32) -> Option<Vec<usize>> {
        if n > Semaphore::MAX - self.value[s] {
            return None;
        }
        let mut served = Vec::new();
        for _ in 0..n {
            let Some(first) = self.queue[s].pop_front() else { break };
            for queue in &mut self.queue {
                queue.retain(|t| *t != first);
            }
            served.push(first);
        }
        self.value[s] += n - served.len() as u32;
        Some(served)
    }
}

struct Thread {
    tell: Sender<Order>,
    heard: Receiver<Answer>,
}

impl Thread {
    fn answer(&self) -> Answer {
        self.heard.recv_timeout(LONG).expect("a thread that must answer sleeps on")
    }
}

fn settle(all: &[Semaphore; BOTH], model: &Model) {
    let start = Instant::now();
    for (one, queue) in all.iter().zip(&model.queue) {
        while one.waiters().len() != queue.len() {
            assert!(start.elapsed() < LONG, "{} wait, not {queue:?}", one.waiters().len());
            std::thread::yield_now();
        }
    }
}

fn run(all: &[Semaphore; BOTH], values: [u32; BOTH], steps: &[Step]) -> TestCaseResult {
    let mut model = Model { value: values, queue: Default::default() };
    std::thread::scope(|scope| {
        let (threads, handles): (Vec<Thread>, Vec<_>) = (0..THREADS)
            .map(|number| {
                let (tell, told) = channel();
                let (say, heard) = channel();
                let handle = scope.spawn(move || {
                    set_role([Role::TimeSharing, Role::Sleeper][number % 2]);
                    while let Ok(order) = told.recv() {
                        let _ = say.send(obey(order, all));
                    }
                });
                (Thread { tell, heard }, handle)
            })
            .unzip();
        let result = drive(all, &mut model, &threads, steps);
        drop(threads);
        // Whatever came of it: no thread is left asleep. A thread that was told to try again in vain is not seen for a moment.
        while !handles.iter().all(|h| h.is_finished()) {
            for one in all.iter().filter(|one| !one.waiters().is_empty()) {
                one.up().unwrap();
            }
            std::thread::yield_now();
        }
        result
    })
}

fn drive(all: &[Semaphore; BOTH], model: &mut Model, threads: &[Thread], steps: &[Step]) -> TestCaseResult {
    for Step { thread, order } in steps {
        let waits = |model: &Model| model.queue.iter().any(|q| q.contains(thread));
        if waits(model) {
            continue;
        }
        threads[*thread].tell.send(*order).unwrap();
        match *order {
            Order::Try(s) => {
                let expected = if model.take(s) { Answer::Took(s) } else { Answer::WouldBlock };
                prop_assert_eq!(threads[*thread].answer(), expected);
            }
            Order::Hasty(s) | Order::Late(s) => {
                let expected = if model.take(s) { Answer::Took(s) } else { Answer::TimedOut };
                prop_assert_eq!(threads[*thread].answer(), expected);
            }
            Order::Down(s) | Order::Limited(s) => {
                if model.take(s) {
                    prop_assert_eq!(threads[*thread].answer(), Answer::Took(s));
                } else {
                    model.queue[s].push_back(*thread);
                }
            }
            Order::Choose | Order::TryChoose | Order::HastyChoose => {
                let taken = (0..BOTH).find(|s| model.take(*s));
                match (taken, order) {
                    (Some(s), _) => prop_assert_eq!(threads[*thread].answer(), Answer::Took(s)),
                    (None, Order::TryChoose) => prop_assert_eq!(threads[*thread].answer(), Answer::WouldBlock),
                    (None, Order::HastyChoose) => prop_assert_eq!(threads[*thread].answer(), Answer::TimedOut),
                    (None, _) => model.queue.iter_mut().for_each(|q| q.push_back(*thread)),
                }
            }
            Order::Up(s, n) => match model.add(s, n) {
                None => prop_assert_eq!(threads[*thread].answer(), Answer::Overflow(model.value[s])),
                Some(served) => {
                    prop_assert_eq!(threads[*thread].answer(), Answer::Added);
                    for one in served {
                        prop_assert_eq!(threads[one].answer(), Answer::Took(s));
                    }
                }
            },
        }
        settle(all, model);
        prop_assert_eq!([all[0].value(), all[1].value()], model.value);
    }
    Ok(())
}

fn check(cases: u32, make: impl Fn(usize, u32) -> Semaphore, unmake: impl Fn()) {
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    let values = prop_oneof![3 => 0u32..4, 1 => (0u32..3).prop_map(|n| Semaphore::MAX - n)];
    let input = ([values.clone(), values], proptest::collection::vec(step(), 1..40));
    TestRunner::new(config)
        .run(&input, |(values, steps)| {
            let all = [make(0, values[0]), make(1, values[1])];
            let result = run(&all, values, &steps);
            drop(all);
            unmake();
            result
        })
        .unwrap();
}

#[test]
fn private_semaphores_answer_as_the_model_does() {
    check(200, |_, value| Semaphore::private(value).unwrap(), || ());
}

#[test]
fn barging_semaphores_answer_as_the_model_does_in_lock_step() {
    check(120, |_, value| Semaphore::private_barging(value).unwrap(), || ());
}

#[test]
fn named_semaphores_answer_as_the_model_does() {
    let _house = House::new("semaphore-model");
    let name = |i: usize| format!("s{i}");
    check(
        120,
        |i, value| Semaphore::create(&name(i), value).unwrap(),
        || (0..BOTH).for_each(|i| Semaphore::remove(&name(i), false).unwrap()),
    );
}

#[test]
fn private_and_named_mixed_answer_as_the_model_does() {
    let _house = House::new("semaphore-mixed");
    check(
        120,
        |i, value| if i == 0 { Semaphore::private(value).unwrap() } else { Semaphore::create("s", value).unwrap() },
        || Semaphore::remove("s", false).unwrap(),
    );
}
