//! Locks with helping among the light threads of one proc: the order of execution, and how many switches it takes.

use chappe::thread::{self, Builder, Runtime, yield_now};
use chappe::{HelpError, HelpLock, lock_all};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// What happened, in order.
#[derive(Clone, Default)]
struct Story(Arc<Mutex<Vec<String>>>);

impl Story {
    fn tell(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn all(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Begins a light thread of that level.
fn at_level<T: Send + 'static>(level: u8, body: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    Builder::new().level(level).spawn(body).unwrap()
}

fn on_one_proc(body: impl FnOnce() + Send) {
    Runtime::new(1).unwrap().run(body);
}

#[test]
fn a_thread_at_a_held_lock_helps_its_holder_with_two_switches() {
    on_one_proc(|| {
        let lock = Arc::new(HelpLock::light("counted", 0));
        let held = lock.clone();
        let holder = thread::spawn(move || {
            let mut guard = held.lock().unwrap();
            yield_now();
            *guard += 1;
            drop(guard);
            thread::switches()
        });
        // A thousand that are ready are not asked.
        let others: Vec<_> = (0..1_000).map(|_| thread::spawn(|| ())).collect();
        yield_now();
        // All have run once by now: the holder is inside, and ready.
        let before = thread::switches();
        let guard = lock.lock().unwrap();
        let after = thread::switches();
        assert_eq!((*guard, after - before), (1, 2), "to the holder, and back");
        drop(guard);
        assert_eq!(thread::switches(), after, "nobody waits: nobody is switched to");
        // Free: no switch at all.
        lock.with(|n| *n += 1).unwrap();
        assert_eq!(thread::switches(), after);
        holder.join().unwrap();
        others.into_iter().for_each(|t| t.join().unwrap());
    });
}

/// L takes the lock and gives way inside; M computes in pieces, with all the turns it can get; H wants the lock. How many of M's turns come before H has it.
fn turns_of_the_middle(lock_h: impl FnOnce(&HelpLock<u32>, &AtomicU32) + Send + 'static, inside: u32) -> u32 {
    let (turns, seen) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (middle, told) = (turns.clone(), seen.clone());
    on_one_proc(move || {
        let lock = Arc::new(HelpLock::light("inverted", 0));
        let (of_l, came, comes) = (lock.clone(), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let l = at_level(7, {
            let came = came.clone();
            move || {
                let section = |_: &mut u32| {
                    came.store(1, Ordering::SeqCst);
                    (0..inside).for_each(|_| yield_now());
                };
                of_l.with(section).unwrap();
            }
        });
        while came.load(Ordering::SeqCst) == 0 {
            yield_now();
        }
        let (over, begun) = (told.clone(), comes.clone());
        let m = at_level(3, move || {
            begun.store(1, Ordering::SeqCst);
            while over.load(Ordering::SeqCst) == 0 {
                // SeqCst: no other order is of interest.
                middle.fetch_add(1, Ordering::SeqCst);
                yield_now();
            }
        });
        let h = at_level(0, move || {
            // M has begun; L is inside.
            while comes.load(Ordering::SeqCst) == 0 {
                yield_now();
            }
            // SeqCst: no other order is of interest.
            let before = turns.load(Ordering::SeqCst);
            lock_h(&lock, &turns);
            told.store(turns.load(Ordering::SeqCst) - before + 1, Ordering::SeqCst);
        });
        h.join().unwrap();
        l.join().unwrap();
        m.join().unwrap();
    });
    seen.load(Ordering::SeqCst) - 1
}

#[test]
fn no_thread_of_a_middle_level_runs_between_waiter_and_holder() {
    let helped = |lock: &HelpLock<u32>, _: &AtomicU32| drop(lock.lock().unwrap());
    // One step of L's is left when H comes: it runs in H's turn, and M not at all.
    assert_eq!(turns_of_the_middle(helped, 1), 0);
    // L gives way eight times more inside: M has its own turns then (level 3 has one in eight of level 0's and its own), and none of H's.
    let some = turns_of_the_middle(helped, 9);
    assert!(some <= 8, "{some} turns of the middle one");
    // A thread that tries again and again, and helps no other, waits for the lowest level's turn: for contrast.
    let alone = |lock: &HelpLock<u32>, _: &AtomicU32| {
        while lock.try_lock().is_err() {
            yield_now();
        }
    };
    let many = turns_of_the_middle(alone, 9);
    assert!(many >= 10 * some.max(1), "{many} turns without helping, {some} with");
}

/// Of three that have the lock one after the other, the third was handed it and has not run yet when H comes.
#[test]
fn a_thread_that_was_handed_the_lock_and_has_not_run_yet_is_helped_too() {
    let (turns, between) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(u32::MAX)));
    let told = between.clone();
    on_one_proc(move || {
        let (lock, steps) = (Arc::new(HelpLock::light("handed", ())), Arc::new(AtomicU32::new(0)));
        let until = |step: u32| {
            // SeqCst: no other order is of interest.
            while steps.load(Ordering::SeqCst) < step {
                yield_now();
            }
        };
        let (own, step) = (lock.clone(), steps.clone());
        let first = at_level(5, move || {
            let guard = own.lock().unwrap();
            // SeqCst: no other order is of interest.
            step.store(1, Ordering::SeqCst);
            // SeqCst: no other order is of interest.
            while step.load(Ordering::SeqCst) < 2 {
                yield_now();
            }
            drop(guard);
        });
        until(1);
        let (own, step) = (lock.clone(), steps.clone());
        let second = at_level(5, move || {
            own.with(|()| ()).unwrap();
            // SeqCst: no other order is of interest.
            step.store(3, Ordering::SeqCst);
        });
        (0..16).for_each(|_| yield_now());
        let own = lock.clone();
        let third = at_level(5, move || own.with(|()| ()).unwrap());
        (0..16).for_each(|_| yield_now());
        let (over, middle) = (told.clone(), turns.clone());
        let middle = at_level(3, move || {
            // SeqCst: no other order is of interest.
            while over.load(Ordering::SeqCst) == u32::MAX {
                // SeqCst: no other order is of interest.
                middle.fetch_add(1, Ordering::SeqCst);
                yield_now();
            }
        });
        let (own, step) = (lock.clone(), steps.clone());
        let high = at_level(0, move || {
            // SeqCst: no other order is of interest.
            while step.load(Ordering::SeqCst) < 3 {
                yield_now();
            }
            // SeqCst: no other order is of interest.
            let before = turns.load(Ordering::SeqCst);
            own.with(|()| ()).unwrap();
            // SeqCst: no other order is of interest.
            told.store(turns.load(Ordering::SeqCst) - before, Ordering::SeqCst);
        });
        // SeqCst: no other order is of interest.
        steps.store(2, Ordering::SeqCst);
        for t in [first, second, third, middle, high] {
            t.join().unwrap();
        }
    });
    // SeqCst: no other order is of interest.
    assert_eq!(between.load(Ordering::SeqCst), 0, "turns of the middle one");
}

#[test]
fn the_highest_level_is_next_and_first_come_first_served_within() {
    on_one_proc(|| {
        let (lock, story) = (Arc::new(HelpLock::light("order", ())), Story::default());
        let guard = lock.lock().unwrap();
        let come = |level: u8, name: &'static str| {
            let (lock, story) = (lock.clone(), story.clone());
            let t = at_level(level, move || lock.with(|()| story.tell(name)).unwrap());
            // Until it waits.
            (0..16).for_each(|_| yield_now());
            t
        };
        let all = [come(5, "5a"), come(2, "2a"), come(5, "5b"), come(0, "0a"), come(2, "2b"), come(0, "0b")];
        assert!(story.all().is_empty(), "it is locked");
        drop(guard);
        all.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(story.all(), ["0a", "0b", "2a", "2b", "5a", "5b"]);
    });
}

#[test]
fn a_chain_of_holders_is_helped_at_its_end_and_a_circle_is_refused() {
    on_one_proc(|| {
        let locks = Arc::new([HelpLock::light("a", ()), HelpLock::light("b", ())]);
        let (one, two) = (locks.clone(), locks.clone());
        let story = Story::default();
        let (of_one, of_two) = (story.clone(), story.clone());
        // Has b, and gives way.
        let first = thread::spawn(move || {
            let _b = one[1].lock().unwrap();
            yield_now();
            of_one.tell("first is through");
        });
        // Has a, and waits for b.
        let second = thread::spawn(move || {
            let _a = two[0].lock().unwrap();
            yield_now();
            let _b = two[1].lock().unwrap();
            of_two.tell("second is through");
        });
        yield_now();
        // Helps the second, which helps the first.
        locks[0].with(|()| story.tell("third")).unwrap();
        assert_eq!(story.all(), ["first is through", "second is through", "third"]);
        first.join().unwrap();
        second.join().unwrap();

        let a = locks[0].lock().unwrap();
        let other = locks.clone();
        let circle = thread::spawn(move || {
            let _b = other[1].lock().unwrap();
            other[0].with(|()| ()).unwrap();
        });
        yield_now();
        let refused = locks[1].lock().unwrap_err();
        assert!(matches!(refused, HelpError::Deadlock { .. }) && refused.to_string().contains("`b`"), "{refused}");
        assert!(matches!(locks[0].lock(), Err(HelpError::Deadlock { .. })), "it has it itself");
        drop(a);
        circle.join().unwrap();
    });
}

#[test]
fn sections_that_give_way_exclude_each_other() {
    let runtime = Runtime::new(2).unwrap();
    runtime.run(|| {
        let locks = Arc::new([HelpLock::light("one", [0u32; 2]), HelpLock::light("other", [0u32; 2])]);
        let all: Vec<_> = (0..24u8)
            .map(|i| {
                let locks = locks.clone();
                at_level(i % 8, move || {
                    for n in 0..50 {
                        let order =
                            if (u32::from(i) + n) % 2 == 0 { [&locks[0], &locks[1]] } else { [&locks[1], &locks[0]] };
                        for data in &mut lock_all(&order).unwrap() {
                            assert_eq!(data[0], data[1], "torn");
                            data[0] += 1;
                            if n % 7 == 0 {
                                yield_now();
                            }
                            data[1] += 1;
                        }
                    }
                })
            })
            .collect();
        all.into_iter().for_each(|t| t.join().unwrap());
        assert!(locks.iter().all(|l| l.with(|d| *d).unwrap() == [1_200; 2]));
    });
}

#[test]
fn a_holder_that_panics_leaves_it_torn_and_one_away_from_its_proc_is_waited_for() {
    on_one_proc(|| {
        let lock = Arc::new(HelpLock::light("log", 1));
        let panics = lock.clone();
        let died = thread::spawn(move || {
            let mut guard = panics.lock().unwrap();
            *guard = 2;
            panic!("on purpose");
        });
        assert!(died.join().is_err());
        assert!(matches!(lock.with(|_| ()), Err(HelpError::OwnerDied { .. })));
        let Err(HelpError::OwnerDied { guard, .. }) = lock.lock() else { panic!("it died") };
        assert_eq!(*guard, 2);
        guard.make_consistent();
        drop(guard);

        let (away, begun) = (lock.clone(), Arc::new(AtomicU32::new(0)));
        let (said, heard) = std::sync::mpsc::channel::<()>();
        let is_away = begun.clone();
        let t = thread::spawn(move || {
            away.with(|n| {
                thread::block_in_place(|| {
                    is_away.store(1, Ordering::SeqCst);
                    heard.recv().unwrap();
                });
                *n = 3;
            })
            .unwrap();
        });
        while begun.load(Ordering::SeqCst) == 0 {
            yield_now();
        }
        assert!(matches!(lock.try_lock(), Err(HelpError::WouldBlock { .. })));
        said.send(()).unwrap();
        assert_eq!(lock.with(|n| *n).unwrap(), 3);
        t.join().unwrap();
        lock.lock().unwrap().condemn();
        assert!(matches!(lock.lock(), Err(HelpError::Condemned { .. })));
    });
}

#[test]
fn one_that_is_destroyed_while_it_waits_leaves_the_line_and_the_others_get_on() {
    on_one_proc(|| {
        let (lock, story) = (Arc::new(HelpLock::light("left", ())), Story::default());
        let guard = lock.lock().unwrap();
        let come = |name: &'static str| {
            let (lock, story) = (lock.clone(), story.clone());
            let t = at_level(2, move || lock.with(|()| story.tell(name)).unwrap());
            (0..16).for_each(|_| yield_now());
            t
        };
        let all = [come("first"), come("second"), come("third"), come("fourth")];
        // The first lends its turns, the others sleep in the line: one goes from the middle of it, one from its end.
        for gone in [1, 3] {
            all[gone].thread().destroy().unwrap();
        }
        (0..16).for_each(|_| yield_now());
        drop(guard);
        let ended = all.map(|t| t.join().is_ok());
        assert_eq!(ended, [true, false, true, false]);
        assert_eq!(story.all(), ["first", "third"]);
        // Nobody is in the line, and the data is as it was.
        lock.with(|()| ()).unwrap();
    });
}

#[test]
fn a_kernel_thread_is_refused() {
    let lock = HelpLock::light("theirs", ());
    let refused = lock.lock().unwrap_err();
    assert!(matches!(refused, HelpError::NotLight { .. }) && refused.to_string().contains("`theirs`"), "{refused}");
}

#[test]
#[cfg(debug_assertions)]
fn a_section_that_waits_is_told_and_one_of_another_thread_is_not() {
    on_one_proc(|| {
        let lock = Arc::new(HelpLock::light("busy", ()));
        let of_it = lock.clone();
        let waits = thread::spawn(move || {
            let _guard = of_it.lock().unwrap();
            thread::sleep(std::time::Duration::from_millis(1));
        });
        let told = *waits.join().unwrap_err().downcast::<String>().unwrap();
        assert!(told.contains("`busy`") && told.contains("helplock_light.rs:"), "{told}");
        let Err(HelpError::OwnerDied { guard, .. }) = lock.lock() else { panic!("it panicked") };
        guard.make_consistent();
        // We are inside and give way: another may wait meanwhile.
        let other = thread::spawn(|| thread::sleep(std::time::Duration::from_millis(1)));
        yield_now();
        drop(guard);
        other.join().unwrap();
    });
}
