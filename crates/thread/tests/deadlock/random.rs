//! A random program: a list of steps, each of which lets a thread go on that waits for it, carried out by threads of all
//! kinds, each its own steps in the list's order. Carried out one after the other the list ends; what a thread waits for
//! comes through a tube or a semaphore that nobody else waits at, so no other order keeps it from that: the program ends.
//! If one step is left out by the thread that gives, the thread that it is for waits for ever, and with it the program.

use chappe_sync::tube::{self, Receiver, Sender};
use chappe_sync::{Arena, ArenaOptions, Mutex, Pool, Semaphore};
use chappe_thread::{Builder, Io, Runtime, block_in_place, run_main};
use std::io::{Read, Write};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Longer than all must idle before it is looked at, for the second time, too.
const LONG: Duration = Duration::from_millis(400);

struct Random(u64);

impl Random {
    /// A number below `n` (SplitMix64).
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }
}

/// What a thread does: it may wait there.
type Act = Box<dyn FnOnce() + Send>;

/// A way by which one thread lets another go on: what the giver does, and what the taker does.
fn way(random: &mut Random, is_private: bool) -> (Act, Act) {
    fn over_tube((tx, rx): (Sender<u8>, Receiver<u8>)) -> (Act, Act) {
        // The ends stay, so that nobody is told that the other is gone.
        let (its, theirs) = (tx.clone(), rx.clone());
        let give = move || {
            tx.send(7).expect("there is a receiver");
            std::mem::forget(theirs);
        };
        let take = move || {
            assert_eq!(rx.recv(), Ok(7));
            std::mem::forget(its);
        };
        (Box::new(give), Box::new(take))
    }
    let up_down = |semaphore: Semaphore| -> (Act, Act) {
        let semaphore = Arc::new(semaphore);
        let its = Arc::clone(&semaphore);
        (Box::new(move || its.up().expect("it is there")), Box::new(move || semaphore.down().expect("it is there")))
    };
    match random.below(if is_private { 6 } else { 8 }) {
        0 => over_tube(tube::bounded(random.below(2) as usize)),
        1 => over_tube(tube::unbounded()),
        2 => up_down(Semaphore::private(0).expect("room")),
        3 => {
            let (tx, rx) = mpsc::channel::<u8>();
            let its = tx.clone();
            let take = move || {
                assert_eq!(block_in_place(|| rx.recv()), Ok(7));
                drop(its);
            };
            (Box::new(move || tx.send(7).expect("there is a receiver")), Box::new(take))
        }
        4 => {
            let (tx, rx) = tube::bounded::<u8>(1);
            let its = tx.clone();
            let take = move || {
                let never = tube::bounded::<u8>(0);
                chappe_sync::select! {
                    recv(rx) -> got => assert_eq!(got, Ok(7)),
                    recv(never.1) -> _ => unreachable!("nobody sends there"),
                }
                drop((its, never));
            };
            (Box::new(move || tx.send(7).expect("there is a receiver")), Box::new(take))
        }
        5 => {
            let (tx, rx) = mpsc::channel::<std::thread::Thread>();
            let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let its = Arc::clone(&flag);
            // SeqCst, both: a flag.
            let is_set = move || flag.load(std::sync::atomic::Ordering::SeqCst);
            let give = move || {
                its.store(true, std::sync::atomic::Ordering::SeqCst);
                // One that has not asked yet will look first.
                rx.try_iter().for_each(|thread| thread.unpark());
                std::mem::forget(rx);
            };
            let take = move || {
                block_in_place(|| {
                    let _ = tx.send(std::thread::current());
                    while !is_set() {
                        std::thread::park();
                    }
                });
            };
            (Box::new(give), Box::new(take))
        }
        6 => {
            let arena = Arena::open_or_create("deadlock", &ArenaOptions::default()).expect("an arena");
            up_down(Semaphore::unnamed(&arena, 0).expect("room"))
        }
        _ => {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            let take = move || {
                let mut byte = [0];
                Io::new(reader).and_then(|mut reader| reader.read_exact(&mut byte)).expect("a byte comes");
            };
            let give = move || {
                let mut writer = writer;
                writer.write_all(&[7]).expect("there is a reader");
                std::mem::forget(writer);
            };
            (Box::new(give), Box::new(take))
        }
    }
}

/// What a thread does by itself: a thread that waits for it meanwhile waits for a thread that goes on.
fn alone(random: &mut Random, pool: &Arc<Pool>, mutex: &Arc<Mutex<u64>>) -> Act {
    match random.below(6) {
        0 => Box::new(|| chappe_thread::sleep(LONG)),
        1 => Box::new(|| std::thread::sleep(LONG)),
        2 => Box::new(|| block_in_place(|| std::thread::sleep(LONG))),
        3 => Box::new(|| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(1) {}
        }),
        4 => {
            let pool = Arc::clone(pool);
            Box::new(move || drop(pool.acquire().expect("it is there")))
        }
        _ => {
            let mutex = Arc::clone(mutex);
            Box::new(move || *mutex.lock().expect("nobody has died") += 1)
        }
    }
}

/// Runs the program of that number. `short`: one step is left out.
pub fn run(seed: u64, short: bool) {
    let mut random = Random(seed);
    let threads = 2 + random.below(5) as usize;
    let steps = 3 + random.below(10);
    let left_out = if short { random.below(steps) } else { u64::MAX };
    run_main(move || {
        let (pool, mutex) = (Arc::new(Pool::private(1).expect("room")), Arc::new(Mutex::private(0).expect("room")));
        let mut todo: Vec<Vec<Act>> = (0..threads).map(|_| Vec::new()).collect();
        for step in 0..steps {
            let (from, to) = (random.below(threads as u64) as usize, random.below(threads as u64 - 1) as usize);
            let to = if to >= from { to + 1 } else { to };
            let (give, take) = way(&mut random, short);
            if step == left_out {
                std::mem::forget(give);
            } else {
                todo[from].push(give);
            }
            todo[to].push(take);
            if random.below(3) == 0 {
                let who = random.below(threads as u64) as usize;
                todo[who].push(alone(&mut random, &pool, &mutex));
            }
        }
        let other = Runtime::new(1 + random.below(2) as usize).expect("a runtime");
        let (mut light, mut kernel) = (Vec::new(), Vec::new());
        let mut own = None;
        for (at, acts) in todo.into_iter().enumerate() {
            let body = move || acts.into_iter().for_each(|act| act());
            match random.below(5) {
                // The first light thread itself does what one of them is to do.
                0 if own.is_none() => own = Some(body),
                0 | 1 => light.push(Builder::new().spawn(body).expect("room")),
                2 => light.push(Builder::new().spawn_on(&other, body).expect("room")),
                3 => kernel.push(std::thread::spawn(body)),
                _ => {
                    let named = std::thread::Builder::new().name(format!("chappe-{at}"));
                    kernel.push(named.spawn(body).expect("a thread"));
                }
            }
        }
        own.into_iter().for_each(|body| body());
        light.into_iter().for_each(|thread| thread.join().expect("it ends well"));
        kernel.into_iter().for_each(|thread| block_in_place(|| thread.join()).expect("it ends well"));
    });
    println!("ended");
}
