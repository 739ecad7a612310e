//! The model of the kernel: sleep, wake, death, time. One test a property.

use chappe_crashsim::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst, low_half, pause};
use chappe_crashsim::files::Dir;
use chappe_crashsim::futex::{self, Scope, Wait};
use chappe_crashsim::robust::{self, Claim};
use chappe_crashsim::{Fate, Fault, Report, Search, World, clock, process, reached};
use std::cell::{Cell, RefCell};
use std::path::Path;

const SECOND: u64 = 1_000_000_000;

fn fault(report: &Report) -> Option<Fault> {
    report.assert_caught().found().map(|f| f.fault)
}

#[test]
fn a_wake_goes_to_the_first_who_sleeps() {
    // Without preemptions the thread that says first that it will sleep also sleeps first.
    let report = Search::depth("first_come", 0).run(|world| {
        let word = world.share(AtomicU32::new(0));
        let asleep = world.share(RefCell::new(Vec::new()));
        let woken = world.share(RefCell::new(Vec::new()));
        for name in ["a", "b", "c"] {
            world.process(name, move || {
                asleep.borrow_mut().push(name);
                futex::wait(&word, 0, None, Scope::Shared);
                woken.borrow_mut().push(name);
                reached(name);
            });
        }
        world.process("waker", move || {
            while asleep.borrow().len() < 3 {
                pause();
            }
            for n in 1..=3 {
                assert_eq!(futex::wake(&word, 1, Scope::Shared), 1);
                while woken.borrow().len() < n {
                    pause();
                }
            }
            assert_eq!(*asleep.borrow(), *woken.borrow());
            reached(asleep.borrow().concat());
        });
    });
    report.assert_clean().assert_reached(&["abc", "acb", "bac", "bca", "cab", "cba"]);
}

#[test]
fn a_private_wait_is_not_woken_from_another_process() {
    let world = |scope: Scope| {
        move |world: &World| {
            let word = world.share(AtomicU32::new(0));
            world.process("sleeper", move || {
                futex::wait(&word, 0, None, scope);
            });
            world.process("waker", move || {
                word.store(1, SeqCst);
                futex::wake(&word, 1, scope);
            });
        }
    };
    Search::depth("shared_scope", 2).run(world(Scope::Shared)).assert_clean();
    assert_eq!(fault(&Search::depth("private_scope", 2).run(world(Scope::Private))), Some(Fault::Wedged));
}

#[test]
fn a_wake_that_a_killed_sleeper_took_is_lost() {
    let report = Search::depth("wake_of_the_dead", 0).kills(1).run(|world| {
        let word = world.share(AtomicU32::new(0));
        for name in ["first", "second"] {
            let p = world.process(name, move || {
                while word.load(SeqCst) == 0 {
                    futex::wait(&word, 0, None, Scope::Shared);
                }
                futex::wake(&word, 1, Scope::Shared);
            });
            if name == "second" {
                p.immortal();
            }
        }
        world
            .process("waker", move || {
                word.store(1, SeqCst);
                futex::wake(&word, 1, Scope::Shared);
            })
            .immortal();
    });
    assert_eq!(fault(&report), Some(Fault::Wedged));
    if let Some(found) = report.found() {
        assert!(found.story.contains("which wakes first\n"), "{}", found.story);
        assert!(found.story.contains("== first is killed"), "{}", found.story);
    }
}

#[test]
fn a_stopped_sleeper_keeps_the_wake_it_was_given() {
    let world = |world: &World| {
        let word = world.share(AtomicU32::new(0));
        world.process("first", move || {
            futex::wait(&word, 0, None, Scope::Shared);
        });
        world
            .process("second", move || {
                futex::wait(&word, 0, None, Scope::Shared);
            })
            .immortal();
        world
            .process("waker", move || {
                word.store(1, SeqCst);
                futex::wake(&word, 1, Scope::Shared);
                futex::wake(&word, 1, Scope::Shared);
            })
            .immortal();
    };
    Search::depth("two_wakes", 1).stops(1).run(world).assert_clean();
    let one = |w: &World| {
        world(w);
        let word = w.share(AtomicU32::new(0));
        w.process("a", move || {
            futex::wait(&word, 0, None, Scope::Shared);
            futex::wake(&word, 1, Scope::Shared);
        });
        w.process("b", move || {
            futex::wait(&word, 0, None, Scope::Shared);
            futex::wake(&word, 1, Scope::Shared);
        })
        .immortal();
        w.process("c", move || {
            word.store(1, SeqCst);
            futex::wake(&word, 1, Scope::Shared);
        })
        .immortal();
    };
    assert_eq!(fault(&Search::depth("one_wake_kept", 0).stops(1).schedules(20_000).run(one)), Some(Fault::Wedged));
    Search::depth("one_wake_resumed", 0).stops(1).resume().schedules(20_000).run(one).assert_clean();
}

#[test]
fn wait_any_swallows_a_wake_that_was_meant_for_the_next() {
    // As measured: one waiter on {A, B} takes wake(A) and wake(B), and the next waiter on B sleeps on.
    let report = Search::depth("swallowed", 1).run(|world| {
        let words = world.share((AtomicU32::new(0), AtomicU32::new(0)));
        world.process("both", move || {
            futex::wait_any(&[(&words.0, 0), (&words.1, 0)], None, Scope::Shared);
        });
        world.process("b", move || {
            futex::wait(&words.1, 0, None, Scope::Shared);
        });
        world.process("waker", move || {
            words.0.store(1, SeqCst);
            futex::wake(&words.0, 1, Scope::Shared);
            words.1.store(1, SeqCst);
            futex::wake(&words.1, 1, Scope::Shared);
        });
    });
    assert_eq!(fault(&report), Some(Fault::Wedged));
    if let Some(found) = report.found() {
        assert!(found.story.contains("which both swallows"), "{}", found.story);
    }
}

#[test]
fn wait_any_answers_what_the_words_say() {
    Search::depth("wait_any_answers", 2)
        .run(|world| {
            let words = world.share((AtomicU32::new(0), AtomicU64::new(7 << 32)));
            world.process("both", move || {
                let list = [(&words.0, 0), (low_half(&words.1), 0)];
                match futex::wait_any(&list, None, Scope::Shared) {
                    Wait::Woken => {}
                    Wait::Changed => assert_eq!(words.1.load(SeqCst), 7 << 32 | 1),
                    other => panic!("{other:?}"),
                }
            });
            world.process("waker", move || {
                words.1.fetch_or(1, SeqCst);
                futex::wake(low_half(&words.1), 1, Scope::Shared);
            });
        })
        .assert_clean();
    Search::depth("no_waitv", 0)
        .run(|world| {
            world.without_waitv();
            let word = world.share(AtomicU32::new(0));
            world.process("p", move || {
                assert_eq!(futex::wait_any(&[(&word, 0)], None, Scope::Shared), Wait::Unsupported);
            });
        })
        .assert_clean();
}

#[test]
fn time_jumps_to_the_earliest_deadline_and_may_come_early() {
    let report = Search::depth("deadlines", 1).run(|world| {
        let word = world.share(AtomicU32::new(0));
        let start = clock::now();
        world.process("sleeper", move || {
            let ending = futex::wait(&word, 0, Some(clock::now() + 5_000), Scope::Shared);
            reached(format!("{ending:?} at {}", clock::now() - start));
        });
        world.process("waker", move || {
            word.fetch_or(0, SeqCst);
            word.store(1, SeqCst);
            futex::wake(&word, 1, Scope::Shared);
        });
    });
    let outcomes: Vec<_> = report.assert_clean().outcomes().keys().map(String::as_str).collect();
    // A wake that comes between the deadline and the sleeper's next step counts.
    assert_eq!(outcomes, ["Changed at 0", "TimedOut at 5000", "Woken at 0", "Woken at 5000"]);
}

#[test]
fn a_thread_that_spins_for_a_time_sees_it_come() {
    Search::depth("spinning_for_time", 0)
        .run(|world| {
            for name in ["a", "b"] {
                world.process(name, || {
                    let until = clock::now() + SECOND / 2;
                    while clock::now() < until {
                        pause();
                    }
                });
            }
        })
        .assert_clean();
}

#[test]
fn progress_by_a_backstop_alone_is_a_failure_unless_allowed() {
    let world = |allowed: u32| {
        move |world: &World| {
            let word = world.share(AtomicU32::new(0));
            world.backstops_at_most(allowed);
            world
                .prepare("p")
                .daemon("reaper", move || {
                    loop {
                        let bell = word.load(SeqCst);
                        if bell == 1 {
                            word.store(2, SeqCst);
                            futex::wake(&word, 9, Scope::Shared);
                            return;
                        }
                        // Nobody rings the bell.
                        futex::wait(&word, bell, Some(clock::now() + SECOND), Scope::Shared);
                    }
                })
                .run(move || {
                    word.store(1, SeqCst);
                    futex::wait(&word, 1, None, Scope::Shared);
                });
        }
    };
    let report = Search::depth("backstop", 1).run(world(0));
    assert_eq!(fault(&report), Some(Fault::Backstop));
    assert!(Search::depth("backstop_allowed", 1).run(world(1)).assert_clean().counts().backstops > 0);
}

#[test]
fn death_marks_the_words_that_still_name_the_dead_and_wakes_one_who_watches() {
    Search::depth("marks", 1)
        .kills(1)
        .run(|world| {
            let words = world.share((AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)));
            let holder = world.prepare("holder");
            holder.before(|| {
                for w in [&words.0, &words.1, &words.2] {
                    assert_eq!(robust::try_claim(w), Claim::Fresh);
                }
                // Named anew: no longer the kernel's to mark.
                words.2.store(77, SeqCst);
                words.0.fetch_or(0x8000_0000, SeqCst);
            });
            let pid = holder.pid();
            world
                .process("watcher", move || {
                    if robust::try_claim(&words.1) == Claim::Busy {
                        futex::wait(&words.0, pid | 0x8000_0000, None, Scope::Shared);
                    }
                })
                .daemon("linger", || {})
                .immortal();
            world.may_wait(move || holder.fate() == Fate::Alive);
            world.check(move || {
                if holder.fate() == Fate::Killed {
                    assert_eq!(words.0.peek(), 0xc000_0000);
                    assert!(matches!(words.1.peek(), 0x4000_0000 | 2000..=3000), "{:#x}", words.1.peek());
                    assert_eq!(words.2.peek(), 77);
                    assert_eq!(robust::try_claim(&words.0), Claim::AfterDeath);
                }
            });
        })
        .assert_clean();
}

#[test]
fn a_word_is_marked_some_time_after_the_death_and_before_the_process_is_gone() {
    let report = Search::depth("between_death_and_mark", 2).kills(1).run(|world| {
        let word = world.share(AtomicU32::new(0));
        let holder = world.process("holder", move || {
            robust::claim(&word);
            process::linger();
        });
        world
            .process("onlooker", move || {
                let exit = process::watch_exit(holder.pid()).expect("it exists");
                let gone = process::poll_readable(&[&exit], 0)[0];
                let marked = word.load(SeqCst) & 0x4000_0000 != 0;
                let killed = holder.fate() == Fate::Killed;
                reached(format!("killed {killed}, marked {marked}, gone {gone}"));
                assert!(killed || !marked && !gone);
            })
            .immortal();
    });
    report.assert_clean().assert_reached(&[
        "killed false, marked false, gone false",
        "killed true, marked false, gone false",
        "killed true, marked true, gone false",
        "killed true, marked true, gone true",
    ]);
}

#[test]
fn a_sibling_may_make_steps_after_its_process_was_killed() {
    let report = Search::depth("sibling", 1).kills(1).run(|world| {
        let word = world.share(AtomicU32::new(0));
        world
            .prepare("p")
            .on_death(move || word.store(1, SeqCst))
            .thread("sibling", move || {
                for _ in 0..3 {
                    assert_eq!(word.load(SeqCst), 0, "after the kill");
                }
            })
            .run(|| (0..3).for_each(|_| chappe_crashsim::step_point("main")));
    });
    assert_eq!(fault(&report), Some(Fault::Panic));
}

#[test]
fn exit_of_the_own_threads_ends_the_daemons() {
    Search::depth("exit", 1)
        .run(|world| {
            let word = world.share(AtomicU32::new(0));
            let p = world.process("p", move || {
                process::background("daemon", move || {
                    robust::claim(&word);
                    futex::wait(&word, word.peek(), None, Scope::Shared);
                })
                .expect("started");
                chappe_crashsim::step_point("about to exit");
            });
            world.check(move || {
                assert_eq!(p.fate(), Fate::Exited);
                assert!(matches!(word.peek(), 0 | 0x4000_0000), "{:#x}", word.peek());
            });
        })
        .assert_clean();
}

#[test]
fn the_lock_of_a_directory_goes_with_its_holder() {
    let inside = |world: &World| {
        let inside = world.share(Cell::new(0));
        let at = Path::new("/shm");
        Dir::make(at, 0o700).expect("made");
        for name in ["a", "b", "c"] {
            let held = world.share(Cell::new(0));
            world
                .process(name, move || {
                    let dir = Dir::open(at).expect("there");
                    let lock = dir.lock().expect("locked");
                    held.set(1);
                    inside.set(inside.get() + 1);
                    assert_eq!(inside.get(), 1);
                    if dir.inode_of("arena").is_ok_and(|inode| inode.is_none()) {
                        let file = dir.create_unnamed(8192, &[]).expect("created");
                        dir.link(&file, "arena").expect("the lock keeps others out");
                    }
                    inside.set(inside.get() - held.replace(0));
                    drop(lock);
                })
                .on_death(move || inside.set(inside.get() - held.get()));
        }
        world.check(move || {
            let dir = Dir::open(at).expect("there");
            assert!(dir.names().expect("listed").len() <= 1);
        });
    };
    Search::depth("directory_lock", 1).kills(1).schedules(20_000).run(inside).assert_clean();
}

#[test]
fn files_are_mapped_by_all_at_one_place_until_they_die() {
    Search::depth("mapping", 1)
        .kills(1)
        .run(|world| {
            Dir::make(Path::new("/shm"), 0o700).expect("made");
            world.room(4096);
            let dir = Dir::open(Path::new("/shm")).expect("there");
            let file = dir.create_unnamed(4096, &[]).expect("room for one");
            assert_eq!(dir.create_unnamed(1, &[]).err().and_then(|e| e.raw_os_error()), Some(28));
            dir.link(&file, "arena").expect("named");
            assert_eq!(dir.link(&file, "arena").err().and_then(|e| e.raw_os_error()), Some(17));
            let place = file.map(4096).expect("mapped") as usize;
            let inode = file.facts().expect("known").inode;
            let p = world.process("p", move || {
                let file = Dir::open(Path::new("/shm")).and_then(|d| d.open_file("arena")).expect("there");
                assert_eq!(file.map(4096).expect("mapped") as usize, place);
                chappe_crashsim::step_point("mapped");
                process::linger();
            });
            world.check(move || assert_eq!(process::maps_inode(p.pid(), inode), p.fate() == Fate::Alive));
        })
        .assert_clean();
}

#[test]
fn a_panic_in_a_thread_is_told_and_its_destructors_do_not_hang() {
    struct Unlock(chappe_crashsim::Shared<AtomicU32>);
    impl Drop for Unlock {
        fn drop(&mut self) {
            self.0.store(0, SeqCst);
            futex::wait(&self.0, 0, None, Scope::Shared);
        }
    }
    let report = Search::depth("panicking", 0).run(|world| {
        let word = world.share(AtomicU32::new(0));
        world.process("p", move || {
            let _unlock = Unlock(word);
            word.store(1, SeqCst);
            panic!("number {}", word.peek());
        });
    });
    assert_eq!(fault(&report), Some(Fault::Panic));
    if let Some(found) = report.found() {
        assert!(found.text.starts_with("p panicked: number 1"), "{}", found.text);
    }
}

#[test]
fn a_sleep_in_a_check_is_a_failure() {
    let report = Search::depth("sleepy_check", 0).run(|world| {
        let word = world.share(AtomicU32::new(0));
        world.check(move || {
            futex::wait(&word, 0, None, Scope::Shared);
        });
    });
    assert_eq!(fault(&report), Some(Fault::Panic));
}

#[test]
fn an_invariant_is_looked_at_after_every_step_and_death() {
    let report = Search::depth("invariant", 1).run(|world| {
        let words = world.share((AtomicU32::new(0), AtomicU32::new(0)));
        world.invariant(move || assert_eq!(words.0.peek(), words.1.peek()));
        world.process("p", move || {
            words.0.store(1, SeqCst);
            words.1.store(1, SeqCst);
        });
    });
    assert_eq!(fault(&report), Some(Fault::Panic));
}

#[test]
fn a_world_that_remembers_is_refused() {
    static MEMORY: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let report = Search::depth("memory", 1).run(|world| {
        let word = world.share(AtomicU32::new(0));
        let n = MEMORY.fetch_add(1, SeqCst);
        for name in ["a", "b"] {
            world.process(name, move || {
                for _ in 0..=n % 3 {
                    word.fetch_add(1, SeqCst);
                }
            });
        }
    });
    assert_eq!(fault(&report), Some(Fault::Nondeterminism));
}

#[test]
fn interrupted_sleeps_happen_when_asked_for() {
    let world = |world: &World| {
        let word = world.share(AtomicU32::new(0));
        world.process("sleeper", move || {
            assert_ne!(futex::wait(&word, 0, None, Scope::Shared), Wait::Interrupted);
        });
        world.process("waker", move || {
            word.fetch_or(0, SeqCst);
            word.store(1, SeqCst);
            futex::wake(&word, 1, Scope::Shared);
        });
    };
    Search::depth("uninterrupted", 2).run(world).assert_clean();
    assert_eq!(fault(&Search::depth("interrupted", 1).spurious(1).run(world)), Some(Fault::Panic));
    assert_eq!(fault(&Search::uniform("interrupted_at_random").spurious(1).run(world)), Some(Fault::Panic));
}

#[test]
fn the_last_begins_when_all_others_are_done() {
    Search::depth("last", 2)
        .kills(1)
        .run(|world| {
            let word = world.share(AtomicU32::new(0));
            for name in ["a", "b"] {
                world.process(name, move || {
                    word.fetch_add(1, SeqCst);
                    word.fetch_sub(1, SeqCst);
                });
            }
            let seen = world.share(Cell::new(false));
            world
                .process("last", move || {
                    let first = word.load(SeqCst);
                    assert_eq!(first, word.load(SeqCst));
                    seen.set(true);
                })
                .last();
            world.check(move || assert!(seen.get()));
        })
        .assert_clean();
}
