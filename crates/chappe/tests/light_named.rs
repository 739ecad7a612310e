//! Light threads at what is named: they wait as lightly as at private objects, are woken from other processes, and what they held comes back
//! when their process is killed.

#[allow(dead_code, reason = "not every program uses all of it")]
mod house;

use chappe::thread::{self, Runtime, scope, spawn, yield_now};
use chappe::tube::named::{Kind, Tube, TubeOptions};
use chappe::{Arena, ArenaOptions, Pool, Semaphore, select, tube};
use house::{House, LONG, ROLE, eventually, listen, say};
use std::time::Duration;

fn jobs() -> Tube<u64> {
    Tube::open("jobs").unwrap()
}

/// Kernel threads that were made since others are kept by light threads that wait.
fn spares() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "chappe-spare").count()
}

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut words = role.split(' ');
    let (what, n) = (words.next().unwrap(), words.next().unwrap().parse::<u64>().unwrap());
    match what {
        "up" => {
            let s = Semaphore::open("s").unwrap();
            say("ready");
            for _ in 0..n {
                listen();
                s.up().unwrap();
                say("raised");
            }
        }
        "send" => {
            let sender = jobs().sender().unwrap();
            (0..n).for_each(|i| sender.send(i).unwrap());
            say("sent");
            listen();
        }
        "hold" => {
            // So many light threads, each with a permit, until it is killed.
            let pool = Pool::open("p").unwrap();
            Runtime::new(1).unwrap().run(|| {
                scope(|s| {
                    for _ in 0..n {
                        s.spawn(|| {
                            let permit = pool.acquire().unwrap();
                            say("has one");
                            thread::park();
                            drop(permit);
                        });
                    }
                });
            });
        }
        _ => unreachable!(),
    }
}

fn in_house(name: &str, body: impl FnOnce(&House)) {
    let house = House::new(name);
    let arena = Arena::create("default", &ArenaOptions::default()).unwrap();
    body(&house);
    arena.leave();
}

#[test]
fn light_waiters_of_a_named_semaphore_need_no_kernel_thread() {
    in_house("light-named", |house| {
        const GUESTS: usize = 100;
        let s = Semaphore::create("s", 0).unwrap();
        let mut upper = house.actor(&format!("up {GUESTS}"));
        upper.hear();
        let runtime = Runtime::new(1).unwrap();
        let (tx, rx) = tube::unbounded();
        runtime.run(|| {
            // The first makes the bell, and the threads that hold attachments and watch for deaths.
            s.up().unwrap();
            spawn({
                let s = Semaphore::open("s").unwrap();
                move || s.down().unwrap()
            })
            .join()
            .unwrap();
            assert!(s.down_timeout(Duration::from_millis(1)).is_err());
        });
        let before = spares();
        for number in 0..GUESTS {
            let tx = tx.clone();
            runtime.spawn(move || {
                let s = Semaphore::open("s").unwrap();
                s.down().unwrap();
                tx.send(number).unwrap();
            });
        }
        eventually("all wait", || s.waiters().len() == GUESTS);
        // They came one after another, and their proc is free.
        assert_eq!(spares(), before, "a kernel thread for those who wait");
        assert_eq!(runtime.run(|| 7), 7);
        for number in 0..GUESTS {
            upper.tell("go");
            upper.hear();
            assert_eq!(rx.recv_timeout(LONG).unwrap(), number, "first come, first served");
        }
        upper.ended();
    });
}

#[test]
fn a_choice_of_private_and_named_is_woken_by_either() {
    in_house("light-mixed", |house| {
        Semaphore::create("s", 0).unwrap();
        let mut upper = house.actor("up 1");
        upper.hear();
        for procs in [1, 2] {
            let runtime = Runtime::new(procs).unwrap();
            let (tx, rx) = tube::bounded::<u32>(0);
            let server = runtime.spawn(move || {
                let stop = Semaphore::open("s").unwrap();
                let mut sum = 0;
                loop {
                    select! { recv(rx) -> m => sum += m.unwrap(), down(stop) -> r => { r.unwrap(); return sum } }
                }
            });
            runtime.run(|| (1..=100).for_each(|n| tx.send(n).unwrap()));
            if procs == 1 {
                upper.tell("go");
                upper.hear();
            } else {
                Semaphore::open("s").unwrap().up().unwrap();
            }
            assert_eq!(server.join().unwrap(), 5050);
        }
        upper.ended();
    });
}

#[test]
fn light_threads_receive_from_a_named_tube() {
    in_house("light-tube", |house| {
        for kind in [Kind::Mpmc, Kind::Spmc] {
            let options = TubeOptions { slots: 4, kind, ..TubeOptions::default() };
            let jobs = Tube::<u64>::create("jobs", &options).unwrap();
            let runtime = Runtime::new(2).unwrap();
            let receivers: Vec<_> = (0..4)
                .map(|_| {
                    let receiver = jobs.receiver().unwrap();
                    runtime.spawn(move || {
                        let mut sum = 0;
                        while let Ok(job) = receiver.recv() {
                            sum += job;
                        }
                        sum
                    })
                })
                .collect();
            let mut sender = house.actor("send 1000");
            sender.hear();
            sender.ended();
            drop(jobs);
            assert_eq!(receivers.into_iter().map(|r| r.join().unwrap()).sum::<u64>(), 499_500);
            Tube::<[u8]>::remove("jobs", false).unwrap();
        }
    });
}

#[test]
fn permits_of_light_threads_come_back_when_their_process_is_killed() {
    in_house("light-killed", |house| {
        let pool = Pool::create("p", 3).unwrap();
        let mut holder = house.actor("hold 5");
        (0..3).for_each(|_| assert_eq!(holder.hear(), "has one"));
        eventually("two wait", || pool.waiters().len() == 2);
        let here = Runtime::new(1).unwrap();
        let guest = here.spawn(|| {
            let pool = Pool::open("p").unwrap();
            drop(pool.acquire().unwrap());
        });
        eventually("three wait", || pool.waiters().len() == 3);
        holder.kill();
        guest.join().unwrap();
        let all: Vec<_> = (0..3).map(|_| pool.acquire_timeout(LONG).unwrap()).collect();
        drop(all);
    });
}

#[test]
fn a_descriptor_is_waited_for_lightly() {
    let runtime = Runtime::new(1).unwrap();
    // The first makes the thread that polls.
    let warm = || {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let waits = spawn(move || select! { readable(reader) -> r => r.unwrap() });
        yield_now();
        std::io::Write::write_all(&mut writer, b"x").unwrap();
        waits.join().unwrap();
    };
    runtime.run(warm);
    let before = spares();
    runtime.run(|| {
        let pipes: Vec<_> = (0..100).map(|_| std::io::pipe().unwrap()).collect();
        scope(|s| {
            let waits: Vec<_> = pipes
                .iter()
                .map(|(reader, _)| s.spawn(move || select! { readable(reader) -> r => r.unwrap() }))
                .collect();
            yield_now();
            let more = spares().saturating_sub(before);
            for (_, writer) in &pipes {
                std::io::Write::write_all(&mut { writer }, b"x").unwrap();
            }
            waits.into_iter().for_each(|w| w.join().unwrap());
            assert!(more < pipes.len() / 10, "{more} kernel threads for {} waiters", pipes.len());
        });
    });
}

#[test]
fn more_threads_than_there_are_seats_wait_for_descriptors() {
    const MANY: usize = 5_000;
    Runtime::new(1).unwrap().run(|| {
        let (reader, writer) = std::io::pipe().unwrap();
        let reader = &reader;
        let attachments = Arena::private().members().len();
        scope(|s| {
            let waits: Vec<_> =
                (0..MANY).map(|_| s.spawn(move || select! { readable(reader) -> r => r.unwrap() })).collect();
            yield_now();
            let more = Arena::private().members().len().saturating_sub(attachments);
            std::io::Write::write_all(&mut &writer, b"x").unwrap();
            waits.into_iter().for_each(|w| w.join().unwrap());
            // Those of other tests come and go meanwhile.
            assert!(more < MANY / 100, "{more} attachments for {MANY} waiters");
        });
    });
}
