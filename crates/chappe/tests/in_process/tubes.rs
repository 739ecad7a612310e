//! Tubes between threads, by property: order, loss, closing at any time, single messages, the choice's number. What a program
//! written for crossbeam-channel relies on is in `tests/channels`; here is what is ours, and what the papers' code got wrong.

use crate::asleep::{this_thread, until_asleep};
use chappe::tube::{self, Receiver, Sender, TryRecvError, TrySendError, bounded, mpsc, spmc, spsc, unbounded};
use chappe::{Pool, Role, Select, Semaphore, select, set_role};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// A message: its sender, and which of that one's.
type Message = (usize, u64);

/// Each receiver's messages of one sender are in order, and all together they are what was sent.
fn check(received: &[Vec<Message>], senders: usize, each: u64) {
    for sender in 0..senders {
        let mut all = Vec::new();
        for of_one in received {
            let its: Vec<u64> = of_one.iter().filter(|m| m.0 == sender).map(|m| m.1).collect();
            assert!(its.is_sorted(), "sender {sender} was overtaken by itself");
            all.extend(its);
        }
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..each), "of sender {sender}: {} of {each}", all.len());
    }
}

fn role(n: usize) -> Role {
    [Role::TimeSharing, Role::Sleeper][n % 2]
}

#[test]
#[ignore = "storm: threads that race"]
fn many_to_many_nothing_is_lost_doubled_or_overtaken() {
    const EACH: u64 = 2_000;
    for (tx, rx) in [bounded(0), bounded(1), bounded(3), bounded(64), unbounded()] {
        for (senders, receivers) in [(1, 1), (4, 1), (1, 4), (2, 2), (4, 4)] {
            let each = if tx.capacity() == Some(0) { EACH / 4 } else { EACH };
            let received: Vec<Vec<Message>> = thread::scope(|s| {
                let done = Arc::new(AtomicU64::new(0));
                for n in 0..senders {
                    let tx = tx.clone();
                    s.spawn(move || {
                        set_role(role(n));
                        (0..each).for_each(|i| tx.send((n, i)).unwrap());
                    });
                }
                let all: Vec<_> = (0..receivers)
                    .map(|n| {
                        let (rx, done) = (rx.clone(), done.clone());
                        s.spawn(move || {
                            set_role(role(n + 1));
                            let mut mine = Vec::new();
                            // Relaxed, here and below: a count.
                            while done.load(Relaxed) < senders as u64 * each {
                                if let Ok(m) = rx.recv_timeout(Duration::from_millis(5)) {
                                    done.fetch_add(1, Relaxed);
                                    mine.push(m);
                                }
                            }
                            mine
                        })
                    })
                    .collect();
                all.into_iter().map(|t| t.join().unwrap()).collect()
            });
            check(&received, senders, each);
        }
    }
}

#[test]
#[ignore = "storm: threads that race"]
fn single_ends_lose_double_and_overtake_nothing() {
    const EACH: u64 = 30_000;
    for slots in [1, 2, 7, 256] {
        let (tx, rx) = spsc(slots);
        let received = thread::scope(|s| {
            s.spawn(move || (0..EACH).for_each(|i| tx.send((0, i)).unwrap()));
            rx.iter().collect()
        });
        check(&[received], 1, EACH);
        let (tx, rx) = mpsc(slots);
        let received = thread::scope(|s| {
            for n in 0..3 {
                let tx = tx.clone();
                s.spawn(move || (0..EACH / 3).for_each(|i| tx.send((n, i)).unwrap()));
            }
            drop(tx);
            rx.iter().collect()
        });
        check(&[received], 3, EACH / 3);
        let (tx, rx) = spmc(slots);
        let received: Vec<Vec<Message>> = thread::scope(|s| {
            let all: Vec<_> = (0..3)
                .map(|_| {
                    let rx = rx.clone();
                    s.spawn(move || rx.iter().collect())
                })
                .collect();
            (0..EACH).for_each(|i| tx.send((0, i)).unwrap());
            drop(tx);
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        check(&received, 1, EACH);
    }
}

/// A stream heals a wake-up that was lost: so one message at a time, and the receiver is asleep, or just about to be.
#[test]
#[ignore = "storm: threads that race"]
fn a_single_message_always_wakes() {
    const ROUNDS: u32 = 1_500;
    fn rounds(send: impl Fn(u32) + Send, recv: impl Fn() -> u32 + Send, said: &Semaphore) {
        thread::scope(|s| {
            s.spawn(move || {
                set_role(Role::Sleeper);
                for n in 0..ROUNDS {
                    assert_eq!(recv(), n);
                    said.up().unwrap();
                }
            });
            for n in 0..ROUNDS {
                // From just before its sleep to well into it.
                (0..n % 97 * 8).for_each(|_| std::hint::spin_loop());
                send(n);
                said.down_timeout(Duration::from_secs(20)).expect("the message was missed");
            }
        });
    }
    let said = Semaphore::private(0).unwrap();
    for (tx, rx) in [bounded(0), bounded(1), bounded(8), unbounded()] {
        rounds(|n| tx.send(n).unwrap(), || rx.recv().unwrap(), &said);
        let (_idle, idle) = unbounded::<u32>();
        let chosen = || select! { recv(rx) -> m => m.unwrap(), recv(idle) -> m => m.unwrap() };
        rounds(|n| tx.send(n).unwrap(), chosen, &said);
    }
    let (tx, rx) = spsc(1);
    rounds(move |n| tx.send(n).unwrap(), move || rx.recv().unwrap(), &said);
}

/// The same for holes: the sender sleeps on a full tube.
#[test]
#[ignore = "storm: threads that race"]
fn a_single_hole_always_wakes() {
    const ROUNDS: u32 = 1_500;
    fn rounds(send: impl Fn(u32) + Send, recv: impl Fn() -> u32) {
        thread::scope(|s| {
            s.spawn(move || {
                set_role(Role::Sleeper);
                (0..ROUNDS).for_each(send);
            });
            for n in 0..ROUNDS {
                (0..n % 89 * 8).for_each(|_| std::hint::spin_loop());
                assert_eq!(recv(), n);
            }
        });
    }
    let (tx, rx) = bounded(1);
    rounds(|n| tx.send(n).unwrap(), || rx.recv_timeout(Duration::from_secs(20)).expect("the hole was missed"));
    let (tx, rx) = spsc(2);
    rounds(move |n| tx.send(n).unwrap(), || rx.recv_timeout(Duration::from_secs(20)).expect("the hole was missed"));
}

/// Nix's `talt` answered an index into its own compacted array, and leaked what it had taken when it did not block.
#[test]
fn fault_4_a_choice_answers_the_callers_index_and_leaks_nothing() {
    let tubes: Vec<_> = (0..5).map(|_| bounded::<usize>(1)).collect();
    let mut choice = Select::new();
    let arms: Vec<usize> = tubes.iter().map(|(_, rx)| choice.recv(rx)).collect();
    choice.remove(arms[0]);
    choice.remove(arms[2]);
    for at in [1, 3, 4, 3, 1] {
        for _ in 0..10 {
            assert!(choice.try_select().is_err());
        }
        tubes[at].0.send(at).unwrap();
        let chosen = if at == 3 { choice.try_select().unwrap() } else { choice.select() };
        assert_eq!(chosen.index(), arms[at]);
        assert_eq!(chosen.recv(&tubes[at].1), Ok(at));
        let me = this_thread();
        thread::scope(|s| {
            s.spawn(|| {
                until_asleep(&me);
                tubes[at].0.send(at).unwrap();
            });
            let chosen = choice.select();
            assert_eq!(chosen.index(), arms[at], "it waited");
            assert_eq!(chosen.recv(&tubes[at].1), Ok(at));
        });
    }
    for (tx, rx) in &tubes {
        assert_eq!((tx.len(), rx.len()), (0, 0));
        assert!(tx.try_send(9).is_ok() && rx.try_recv().is_ok(), "a slot was leaked");
    }
}

/// Several threads choose, each in both directions and at both ends; pools and semaphores are among the arms.
#[test]
#[ignore = "storm: threads that race"]
fn a_choice_does_exactly_one_thing_whatever_meets() {
    const ROUNDS: u64 = 1_600;
    for slots in [0, 1] {
        let tubes: Arc<Vec<(Sender<u64>, Receiver<u64>)>> = Arc::new((0..2).map(|_| bounded(slots)).collect());
        let (semaphore, pool) = (Semaphore::private(0).unwrap(), Pool::private(1).unwrap());
        let counts: [AtomicU64; 4] = Default::default();
        thread::scope(|s| {
            for n in 0..4 {
                let (tubes, semaphore, pool, counts) = (tubes.clone(), &semaphore, &pool, &counts);
                s.spawn(move || {
                    set_role(role(n));
                    let [(a, from_a), (b, from_b)] = &tubes[..] else { unreachable!() };
                    for i in 0..ROUNDS {
                        if i % 16 == 0 {
                            semaphore.up().unwrap();
                        }
                        let value = i + 1;
                        let (what, sum) = select! {
                            send(a, value) -> sent => { sent.unwrap(); (0, value) }
                            recv(from_a) -> got => (1, got.unwrap()),
                            send(b, value) -> sent => { sent.unwrap(); (0, value) }
                            recv(from_b) -> got => (1, got.unwrap()),
                            down(semaphore) -> r => { r.unwrap(); (2, 1) }
                            acquire(pool) -> permit => { drop(permit.unwrap()); (3, 1) }
                        };
                        counts[what].fetch_add(sum, Relaxed); // Relaxed: a count, read after the threads' ends.
                    }
                });
            }
        });
        let left: u64 = tubes.iter().flat_map(|(_, rx)| rx.try_iter()).sum();
        let [sent, got, units, _] = counts.map(AtomicU64::into_inner);
        assert_eq!(sent, got + left, "{slots} slots: sent, and received");
        assert_eq!(units + u64::from(semaphore.value()), 4 * ROUNDS.div_ceil(16));
    }
}

#[test]
#[ignore = "storm: threads that race"]
fn ends_that_go_at_any_time_lose_nothing_that_was_received_and_keep_nobody_waiting() {
    for round in 0..150u64 {
        for slots in [0, 1, 4] {
            let (tx, rx) = bounded(slots);
            let (sent, got) = thread::scope(|s| {
                let senders: Vec<_> = (0..2)
                    .map(|_| {
                        let tx = tx.clone();
                        s.spawn(move || (0..).take_while(|n| tx.send(*n).is_ok()).count())
                    })
                    .collect();
                drop(tx);
                let receivers: Vec<_> = (0..2)
                    .map(|n| {
                        let rx = rx.clone();
                        s.spawn(move || rx.iter().take(((round * 7 + n * 3) % 23) as usize).count())
                    })
                    .collect();
                let left = rx.clone();
                drop(rx);
                let got: usize = receivers.into_iter().map(|t| t.join().unwrap()).sum();
                drop(left);
                let sent: usize = senders.into_iter().map(|t| t.join().unwrap()).sum();
                (sent, got)
            });
            assert!(got <= sent && sent <= got + slots, "{sent} sent, {got} received, {slots} slots");
        }
    }
}

#[test]
fn a_choice_of_single_ends_stays_with_its_thread() {
    let (tx, rx) = spsc::<u8>(1);
    let mut choice = Select::new();
    let (send, recv) = (choice.send_on(&tx), choice.recv_on(&rx));
    let chosen = choice.select();
    assert_eq!(chosen.index(), send);
    chosen.send_on(&tx, 5).unwrap();
    let chosen = choice.select();
    assert_eq!(chosen.index(), recv);
    assert_eq!(chosen.recv_on(&rx), Ok(5));
    select! { send(tx, 6) -> sent => sent.unwrap(), recv(rx) -> _ => panic!("nothing is there") }
    select! { recv(rx) -> m => assert_eq!(m, Ok(6)), default => panic!("it is there") }
    let elsewhere = thread::scope(|s| s.spawn(|| choice.try_select().is_ok()).join());
    assert!(elsewhere.is_err(), "another thread chose");
}

/// Else a second thread could look at the first one's end, which that one uses.
#[test]
fn a_choice_of_single_ends_takes_none_of_another_thread() {
    let (_tx, rx) = spsc::<u8>(1);
    let mut choice = Select::new();
    choice.recv_on(&rx);
    let added = thread::scope(|s| {
        s.spawn(|| {
            let (_tx, other) = spsc::<u8>(1);
            let mut its = choice.clone();
            its.recv_on(&other);
        })
        .join()
    });
    assert!(added.is_err(), "a choice of two threads' ends");
}

/// On a stack with room for 65 messages of 24,000 bytes: unoptimized code takes some 46 for its copies of a single one, and
/// would need 31 or 40 more for the slots.
fn on_a_small_stack<T: Send>(ends: (Sender<T>, Receiver<T>), message: fn() -> T, is_it: fn(&T) -> bool) {
    let small = thread::Builder::new().stack_size(3 << 19);
    thread::scope(|s| {
        small
            .spawn_scoped(s, move || {
                ends.0.send(message()).unwrap();
                assert!(is_it(&ends.1.recv().unwrap()));
            })
            .unwrap();
    });
}

#[test]
fn large_messages_need_no_room_on_the_stack_but_their_own() {
    on_a_small_stack(unbounded::<Box<[[u8; 24_000]; 1]>>(), || Box::new([[1; 24_000]]), |m| m[0][7] == 1);
    on_a_small_stack(unbounded::<[u8; 24_000]>(), || [2; 24_000], |m| m[7] == 2);
    on_a_small_stack(bounded::<[u8; 24_000]>(40), || [3; 24_000], |m| m[7] == 3);
}

#[test]
#[ignore = "storm: counts of a race"]
fn an_end_that_is_there_twice_is_chosen_as_either() {
    let (tx, rx) = bounded(1);
    let (mut choice, mut counts) = (Select::new(), [0; 2]);
    choice.recv(&rx);
    choice.recv(&rx);
    thread::scope(|s| {
        s.spawn(move || {
            for n in 0..400 {
                tx.send(n).unwrap();
                thread::sleep(Duration::from_micros(50));
            }
        });
        set_role(Role::Sleeper);
        for _ in 0..400 {
            let chosen = choice.select();
            counts[chosen.index()] += 1;
            chosen.recv(&rx).unwrap();
        }
    });
    assert!(counts.iter().all(|n| *n > 80), "{counts:?}");
}

/// In the role of an application one waits in the queue of a pool like others, also if there is a tube among the arms.
#[test]
fn a_spinning_application_waits_in_the_queue_like_others() {
    let (pool, (_tx, rx)) = (Pool::private(1).unwrap(), bounded::<u8>(1));
    let held = pool.acquire().unwrap();
    thread::scope(|s| {
        let spins = s.spawn(|| {
            Role::Spin.during(|| {
                select! {
                    acquire(pool) -> permit => permit.is_ok(),
                    recv(rx) -> _ => false,
                    default(Duration::from_secs(20)) => false,
                }
            })
        });
        let start = Instant::now();
        while pool.waiters().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(20), "it is not in the queue");
            thread::yield_now();
        }
        drop(held);
        assert!(spins.join().unwrap());
    });
}

/// What waits while its thread ends, when it has no place in the wait queue any more.
struct Last(Receiver<u8>, Receiver<u8>, Sender<u8>, std::sync::mpsc::Sender<String>);

impl Drop for Last {
    fn drop(&mut self) {
        self.3.send(this_thread()).unwrap();
        let (got, rest) = select! {
            recv(self.0) -> m => (m.unwrap(), &self.1),
            recv(self.1) -> m => (m.unwrap(), &self.0),
        };
        self.2.send(got + rest.recv().unwrap()).unwrap();
    }
}

#[test]
fn a_thread_that_ends_can_still_wait() {
    thread_local! {
        static LAST: std::cell::OnceCell<Last> = const { std::cell::OnceCell::new() };
    }
    let ((tx, rx), (other_tx, other), (done, end)) = (bounded(1), bounded(1), bounded(1));
    let (waits, waiter) = std::sync::mpsc::channel();
    let ends = thread::spawn(move || {
        LAST.with(|last| _ = last.set(Last(rx, other, done, waits)));
        // The attachment is gone before that is dropped.
        assert!(bounded::<u8>(1).1.recv_timeout(Duration::from_millis(1)).is_err());
    });
    until_asleep(&waiter.recv().unwrap());
    tx.send(3).unwrap();
    other_tx.send(4).unwrap();
    assert_eq!(end.recv_timeout(Duration::from_secs(20)), Ok(7));
    ends.join().unwrap();
}

#[test]
fn more_tubes_than_anybody_has_and_none_leaves_anything() {
    for round in 0..5_000u64 {
        let (tx, rx) = bounded(round as usize % 2);
        // Somebody waits at each end once, so each has its object.
        assert!(rx.recv_timeout(Duration::ZERO).is_err());
        let _ = tx.send_timeout(round, Duration::ZERO);
        let _ = tx.send_timeout(round, Duration::ZERO);
    }
    let many: Vec<_> = (0..5_000).map(|_| bounded::<u8>(1)).collect();
    assert!(many.iter().all(|(_, rx)| rx.recv_timeout(Duration::ZERO).is_err()));
}

/// What one thread does to one tube.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    Recv,
    ChooseSend,
    ChooseRecv,
    Count,
}

proptest! {
    /// A tube is a queue.
    #[test]
    fn a_tube_does_what_a_queue_does(slots in 0usize..5, steps in vec(prop_oneof![
        3 => Just(Step::Send), 3 => Just(Step::Recv), 1 => Just(Step::ChooseSend), 1 => Just(Step::ChooseRecv), 1 => Just(Step::Count),
    ], 1..200)) {
        let room = if slots == 4 { usize::MAX } else { slots };
        let (tx, rx) = if slots == 4 { unbounded() } else { bounded(slots) };
        let (mut model, mut next) = (VecDeque::new(), 0u32);
        for step in steps {
            match step {
                Step::Send | Step::ChooseSend => {
                    next += 1;
                    let sent = match step {
                        Step::Send => match tx.try_send(next) {
                            Err(TrySendError::Full(back)) => { prop_assert_eq!(back, next); false }
                            sent => { sent.unwrap(); true }
                        },
                        _ => select! { send(tx, next) -> sent => { sent.unwrap(); true } default => false },
                    };
                    prop_assert_eq!(sent, model.len() < room);
                    if sent { model.push_back(next) }
                }
                Step::Recv => prop_assert_eq!(rx.try_recv(), model.pop_front().ok_or(TryRecvError::Empty)),
                Step::ChooseRecv => {
                    let got = select! { recv(rx) -> m => Some(m.unwrap()), default => None };
                    prop_assert_eq!(got, model.pop_front());
                }
                Step::Count => {
                    prop_assert_eq!((tx.len(), rx.is_empty(), tx.is_full()), (model.len(), model.is_empty(), model.len() >= room));
                }
            }
        }
        drop(tx);
        prop_assert!(rx.iter().eq(model));
    }
}

#[test]
fn the_clocks_of_a_choice_end_it_in_time() {
    let (_tx, rx) = bounded::<u8>(1);
    // Before the clocks are set: else they may be due at once.
    let (mut count, start) = (0, Instant::now());
    let ticks = tube::tick(Duration::from_millis(2));
    let end = tube::after(Duration::from_millis(50));
    loop {
        select! {
            recv(rx) -> _ => panic!("nobody sends"),
            recv(ticks) -> at => { at.unwrap(); count += 1; }
            recv(end) -> _ => break,
        }
    }
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(49) && count <= took.as_millis() / 2 + 1,
        "{count} ticks of 2 ms in {took:?}"
    );
}
