//! The table of late threads: every kind of object x every slow operation on it x every object that may come next in its memory.
//!
//! A member of an object (the victim) is killed at each step of what members do with it. A thread that is late (it recovers the dead, or acts
//! on the object by its handle) is stopped at each step. Meanwhile another removes the object and makes the next one in its slot and its
//! blocks: users' data of zeros, of small numbers, or as they were; or an object of the same kind, of which a new member with the dead one's
//! number has made use; or the same, and that member is stopped at each step as well, in the middle of an operation. Then the late thread goes on. No
//! case is named: the explorer's guard says where a thread writes into what is another object's by then (`chappe_crashsim::guard`).
//!
//! With both stops there are too many combinations to play all: a case plays as many as it has schedules, drawn by dice, the same ones each time.
//!
//! A kind is one row: [`kinds`]. The gate plays a tenth of the cases, another one with each commit; `cargo xtask test --all` plays all.
//! Not here: the records of light threads, which the guard does not know.

mod crash;

use chappe_arena::layout::{BLOCK, Kind};
use chappe_arena::{Map, Place};
use chappe_crashsim::{Process, Search, World, reached};
use chappe_plat::atomic::{AtomicU32, Ordering::SeqCst};
use chappe_plat::clock;
use chappe_plat::futex::{self, Scope};
use chappe_sync::model::{
    Actor, Arms, BareAt, CastAt, CondvarAt, End, Locking, MapAt, MonitorAt, MutexAt, NamedAt, OwnedAt, PoolAt,
    RwLockAt, SemaphoreAt, StackAt, TubeAt, When,
};
use crash::{Stage, sleep};
use std::cell::Cell;
use std::collections::BTreeMap;

const BLOCKS: u32 = 200;
/// The late thread began before the next object was made, and was through after that; or while a member was in the middle of its script there.
const LATE: &str = "late";
const BESIDE: &str = "late beside a member that was stopped";
/// How many schedules a case has in the gate, and in all.
const SCHEDULES: [u64; 2] = [6_000, 20_000];

fn soon() -> Option<u64> {
    Some(clock::now() + 1_000)
}

/// What somebody does with an object.
type Act<T> = fn(T, &Actor);

/// A kind of object.
struct Row<T: 'static> {
    name: &'static str,
    make: fn(&'static Map, &str) -> Option<T>,
    remove: fn(T),
    /// What a member does with it, from its first step to its last: a victim dies in it, a late thread is late in it, and so is a next member.
    script: Act<T>,
    /// What else may be done to it, by a thread that has a handle, and be late.
    others: &'static [(&'static str, Act<T>)],
    /// Whether it is in the private arena of a process.
    is_private: bool,
}

/// What comes next in the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A mutex whose data are all blocks: zeros.
    Zeros,
    /// The same, of small numbers.
    Small,
    /// The same, of what was there.
    Copy,
    /// The same kind, in use.
    Same,
    /// The same, and its member is stopped in the middle of its script.
    Stopped,
}

const NEXT: [Next; 5] = [Next::Zeros, Next::Small, Next::Copy, Next::Same, Next::Stopped];

/// A case of the table.
struct Case {
    name: String,
    world: Box<dyn Fn(&World) + Sync>,
    next: Next,
    kills: u32,
}

/// Makes a mutex whose data are all blocks. It has no user.
fn makes_data<T>(map: &'static Map, next: Next) -> Option<T> {
    let words = BLOCKS as usize * BLOCK / 8;
    // SAFETY: the arena's blocks; no other thread of the explorer's runs meanwhile.
    let was: Vec<u64> =
        (0..words).map(|i| unsafe { map.blocks(0, BLOCKS).cast::<u64>().add(i).read_volatile() }).collect();
    let fill = |i: usize| match next {
        Next::Zeros => 0,
        Next::Small => i as u64 % 4,
        _ => was[i],
    };
    // There is none while a thread is in the way, as it may be.
    let _ = MutexAt::of_words(map, "next", words, fill);
    None
}

/// One case. `act`: what the late thread does with its handle; without it recovers the dead.
fn world<T: Copy + 'static>(world: &World, row: &Row<T>, act: Option<Act<T>>, next: Next) {
    let stage = if row.is_private {
        Stage::private_with_blocks(world, 8, 4, BLOCKS)
    } else {
        Stage::with_blocks(world, 8, &[], 4, BLOCKS).0
    };
    let map = stage.map;
    let [v, l, m]: [Process; 3] = ["victim", "late", "maker"].map(|name| world.prepare(name));
    let (victim, late) = (stage.member(v, "victim"), stage.member(l, "late"));
    stage.member(m, "maker");
    let old = (row.make)(map, "old").expect("room");
    let were = map.objects();
    let (make, remove, script) = (row.make, row.remove, row.script);
    v.only_kills().run(move || script(old, &victim));
    // Whether the next object is there, in the old one's memory; and a member is in the middle of its script with it.
    let [is_next, is_busy] = [(); 2].map(|()| world.share(Cell::new(false)));
    // Late thread and maker begin at one time, when the victim is through or dead: a thread that is stopped goes on as soon as all others sleep. Some
    // kinds begin their numbers by the clock, so it has gone on.
    let later = || sleep(1_000_000);
    stage.lasting(l.only_stops(), move || {
        later();
        let is_early = !is_next.get();
        match act {
            Some(act) => act(old, &late),
            None => _ = map.recover_dead(),
        }
        match is_early && is_next.get() {
            true if is_busy.get() => reached(BESIDE),
            true => reached(LATE),
            false => reached("through"),
        }
    });
    let (made, is_made) = (world.share(Cell::new(None::<T>)), world.share(AtomicU32::new(0)));
    if next == Next::Stopped {
        let n = world.prepare("next");
        stage.lasting(n.only_stops(), move || {
            while is_made.load(SeqCst) == 0 {
                futex::wait(&is_made, 0, None, Scope::Shared);
            }
            // Given the handle, as by the maker.
            map.objects().iter().for_each(|of| map.through(Place { index: of.index, head: of.head }));
            if let (Some(made), Ok(me)) = (made.take(), Actor::join(map, "next")) {
                is_busy.set(true);
                script(made, &me);
                is_busy.set(false);
            }
        });
    }
    stage.lasting(m.immortal(), move || {
        later();
        map.recover_dead();
        remove(old);
        let its = match next {
            Next::Same | Next::Stopped => make(map, "next"),
            _ => makes_data(map, next),
        };
        let now = map.objects();
        if were.iter().any(|old| now.iter().any(|new| new.index == old.index && new.head != old.head)) {
            is_next.set(true);
        }
        if next == Next::Stopped {
            made.set(its);
            is_made.store(1, SeqCst);
            futex::wake(&is_made, 1, Scope::Shared);
        } else if let (Some(its), Ok(me)) = (its, Actor::join(map, "next")) {
            script(its, &me);
        }
        map.recover_dead();
    });
    world.may_wait(|| true);
}

/// The cases of a row.
fn cases<T: Copy + 'static>(all: &mut Vec<Case>, row: Row<T>) {
    let row: &'static Row<T> = Box::leak(Box::new(row));
    // What is private goes when none has it any more: a thread is late there only when it recovers one that has ended in the middle.
    let itself = (!row.is_private).then_some(("is late itself", Some(row.script)));
    let own = [("recovers", None)].into_iter().chain(itself);
    let acts = own.chain(row.others.iter().map(|(name, act)| (*name, Some(*act))));
    for (what, act) in acts {
        for next in NEXT {
            all.push(Case {
                name: format!("{}: {what}, {next:?}", row.name),
                world: Box::new(move |w: &World| world(w, row, act, next)),
                next,
                // A handle's act is late whether anybody dies or not.
                kills: u32::from(act.is_none()),
            });
        }
    }
}

/// A tube of threads. The maker has it, and others borrow it.
type Ends = *mut TubeAt;

fn drop_ends(t: Ends) {
    // SAFETY: from a box. The victim is through or dead, and the late thread has no tube.
    drop(unsafe { Box::from_raw(t) });
}

/// A body that is nothing else.
fn bare(name: &'static str, make: fn(&'static Map, &str) -> Option<BareAt>) -> Row<BareAt> {
    let script = |of: BareAt, me: &Actor| {
        me.enters(of.map, of.place);
        me.changes(of);
        me.exits(of.map, of.place);
    };
    Row { name, make, remove: |of| of.remove(), script, others: &[], is_private: false }
}

/// The table.
fn kinds() -> Vec<Case> {
    let mut all = Vec::new();
    cases(
        &mut all,
        Row {
            name: "pool",
            make: |map, name| PoolAt::make(map, name, 3).ok(),
            remove: |p| p.remove(),
            script: |p, me| {
                if let Ok(mut many) = me.acquire_many(p, 2, soon()) {
                    me.lease(&mut many[0]);
                    many.into_iter().for_each(|held| _ = me.release(held));
                }
                _ = me.acquire(&[p], soon()).map(|(_, held)| me.release(held));
            },
            others: &[
                ("forces", |p, _| _ = (p.force(0), p.force(1))),
                ("resizes", |p, _| _ = (p.resize(5), p.resize(1))),
                ("ends a job", |p, _| _ = p.job_ends(0)),
            ],
            is_private: false,
        },
    );
    cases(
        &mut all,
        Row {
            name: "semaphore",
            make: |map, name| SemaphoreAt::make(map, name, 0, false).ok(),
            remove: |s| s.remove(),
            script: |s, me| {
                s.up(1);
                _ = (me.down(s, soon()), me.down(s, soon()));
            },
            others: &[("raises", |s, _| _ = s.up(2))],
            is_private: false,
        },
    );
    cases(
        &mut all,
        Row {
            name: "semaphore, at a bell",
            make: |map, name| SemaphoreAt::make(map, name, 0, false).ok(),
            remove: |s| s.remove(),
            // As a light thread waits: it sleeps at the bell of its proc, which is a member of its own.
            script: |s, me| {
                let Ok(bell) = Actor::join(s.map, "bell") else { return };
                let me = me.at_bell_of(&bell);
                s.up(1);
                _ = (me.down(s, soon()), me.down(s, soon()));
                bell.leave();
            },
            others: &[],
            is_private: false,
        },
    );
    cases(
        &mut all,
        Row {
            name: "mutex",
            make: |map, name| MutexAt::make(map, name).ok(),
            remove: |m| m.remove(),
            script: |m, me| {
                if matches!(me.lock(m, soon()), Locking::Locked | Locking::Torn) {
                    me.tear(m, true);
                    me.unlock(m);
                }
            },
            others: &[("condemns", |m, me| {
                if me.try_lock(m) == Locking::Locked {
                    me.condemn(m);
                }
            })],
            is_private: false,
        },
    );
    cases(
        &mut all,
        Row {
            name: "condition variable",
            make: |map, name| {
                let m = MutexAt::make(map, &format!("{name}-lock")).ok()?;
                Some((CondvarAt::make(map, name).ok()?, m))
            },
            remove: |(c, m)| {
                c.remove();
                m.remove();
            },
            script: |(c, m), me| {
                if matches!(me.try_lock(m), Locking::Locked | Locking::Torn) {
                    _ = me.wait(c, m, soon());
                    me.unlock(m);
                }
            },
            others: &[("notifies", |(c, _), _| {
                c.notify_one();
                c.notify_all();
            })],
            is_private: false,
        },
    );
    cases(
        &mut all,
        Row {
            name: "lock of readers",
            make: |map, name| RwLockAt::make(map, name).ok(),
            remove: |l| l.remove(),
            script: |l, me| {
                _ = l.enter(me, false, soon()).map(|turn| l.leave(turn));
                if let Ok(turn) = l.enter(me, true, soon()) {
                    l.leave(l.downgrade(turn));
                }
            },
            others: &[("marks", |l, _| l.mark())],
            is_private: false,
        },
    );
    cases(
        &mut all,
        Row {
            name: "owned semaphore",
            make: |map, name| OwnedAt::make(map, name).ok(),
            remove: |o| o.remove(),
            script: |o, me| {
                if o.wait(me, me, soon()).is_ok() {
                    o.post(me);
                }
                _ = o.wait(me, me, soon());
            },
            others: &[("demotes", |o, _| _ = o.demote())],
            is_private: false,
        },
    );
    for drops in [false, true] {
        let make: fn(&'static Map, &str) -> Option<NamedAt> = if drops {
            |map, name| NamedAt::make(map, name, 2, [false; 2], true).ok()
        } else {
            |map, name| NamedAt::make(map, name, 2, [true; 2], false).ok()
        };
        cases(
            &mut all,
            Row {
                name: if drops { "tube that drops" } else { "tube" },
                make,
                remove: |t| t.remove(),
                script: |t, me| {
                    if me.attach(t, true).is_err() || me.attach(t, false).is_err() {
                        return;
                    }
                    _ = (me.put(t, 7, soon()), me.put(t, 8, soon()));
                    if let Ok((lent, ..)) = me.borrow(t) {
                        me.put_back(t, &lent, true);
                    }
                    if let Ok((lent, ..)) = me.borrow(t) {
                        me.give_back(t, lent);
                    }
                    _ = me.reserve(t, 9).map(|slot| me.give_up(t, slot));
                    me.detach(t, true);
                    _ = me.get(t, soon());
                    me.detach(t, false);
                },
                others: &[("leaves the arena", |t, me| t.keep_from_all(me.member()))],
                is_private: false,
            },
        );
    }
    cases(
        &mut all,
        Row {
            name: "broadcast tube",
            make: |map, name| CastAt::make(map, name, 2, 2).ok(),
            remove: |t| t.remove(),
            script: |t, me| {
                let who = me.subscribes_with(t, When::Block, b"n > 1");
                if let Some(at) = me.publishes(t) {
                    _ = me.says(t, 7, soon());
                    if let Some(who) = who {
                        me.refilters(t, who, b"n > 12345678");
                        _ = me.hears(t, who, soon());
                    }
                    me.publishes_no_more(t, at);
                }
                who.into_iter().for_each(|who| me.unsubscribes(t, who));
            },
            others: &[],
            is_private: false,
        },
    );
    cases(
        &mut all,
        Row {
            name: "stack",
            make: |map, name| StackAt::make(map, name, 3, 3).ok(),
            remove: |s| s.remove(),
            script: |s, me| {
                me.enters(s.map, s.place);
                me.changes_stack(s);
                me.exits(s.map, s.place);
            },
            others: &[],
            is_private: false,
        },
    );
    cases(
        &mut all,
        Row {
            name: "map",
            make: |map, name| MapAt::make(map, name).ok(),
            remove: |m| m.remove(),
            script: |m, me| {
                me.enters(m.map, m.place);
                me.changes_map(m);
                me.exits(m.map, m.place);
            },
            others: &[],
            is_private: false,
        },
    );
    cases(
        &mut all,
        Row {
            name: "monitor",
            make: |map, name| MonitorAt::make(map, name, 2).ok(),
            remove: |m| m.remove(),
            script: |m, me| {
                me.enters(m.map, m.place);
                me.changes_monitor(m);
                me.exits(m.map, m.place);
            },
            others: &[],
            is_private: false,
        },
    );
    for (name, slots) in [("private tube", 1), ("private tube without slots", 0)] {
        let make: fn(&'static Map, &str) -> Option<Ends> = match slots {
            0 => |map, _| Some(Box::into_raw(Box::new(TubeAt::bounded(map, 0)))),
            _ => |map, _| Some(Box::into_raw(Box::new(TubeAt::bounded(map, 1)))),
        };
        let script = |t: Ends, me: &Actor| {
            // SAFETY: from a box, and there until the maker drops it.
            let tube = unsafe { &*t };
            _ = (me.send(tube, 7, soon()), me.send(tube, 8, soon()), me.recv(tube, soon()));
            _ = me.talt(&Arms(vec![End::Recv(tube), End::Send(tube, 9)]), soon());
            _ = me.recv(tube, soon());
        };
        cases(&mut all, Row { name, make, remove: drop_ends, script, others: &[], is_private: true });
    }
    cases(&mut all, bare("server", |map, name| BareAt::make(map, name, Kind::Server).ok()));
    cases(&mut all, bare("words", |map, name| BareAt::make(map, name, Kind::Words).ok()));
    cases(&mut all, bare("counter", |map, name| BareAt::make(map, name, Kind::Counter).ok()));
    cases(&mut all, bare("lock with helping", |map, name| BareAt::make(map, name, Kind::HelpLock).ok()));
    all
}

#[test]
fn no_late_thread_writes_into_the_next_object() {
    let all = std::env::var_os("CHAPPE_TEST_ALL").is_some();
    let turn = std::env::var("CHAPPE_TEST_TURN").ok().and_then(|turn| turn.parse::<usize>().ok()).unwrap_or(0) % 10;
    let only = std::env::var("CRASH_LATE_ONLY").ok();
    let (mut late, mut worlds, mut schedules, mut beside) = (BTreeMap::<String, u64>::new(), 0, 0, 0);
    for (i, case) in kinds().into_iter().enumerate() {
        // Each tenth has every next object.
        let is_its = (i / NEXT.len() + i % NEXT.len() * 2) % 10 == turn;
        let is_due = only.as_ref().map_or(all || is_its, |only| case.name.contains(only.as_str()));
        if !is_due {
            continue;
        }
        let name = format!("late_{i}");
        let search = if case.next == Next::Stopped {
            Search::sampled_sweep(&name).kills(case.kills).stops(2).resume()
        } else {
            // Every n-th death: the stops after each are all played.
            Search::sweep(&name).kills(case.kills).stops(1).resume().share(match (case.kills, all) {
                (0, _) => 1,
                (_, true) => 7,
                (_, false) => 29,
            })
        };
        let report = search.schedules(SCHEDULES[usize::from(all)]).run(&case.world);
        println!("{}", case.name);
        let is_late = |how: &str| report.assert_clean().outcomes().contains_key(how);
        assert!(is_late(LATE) || is_late(BESIDE), "{}: no thread was late, only {:?}", case.name, report.outcomes());
        beside += u32::from(is_late(BESIDE));
        worlds += 1;
        schedules += report.schedules();
        for (what, times) in report.late() {
            *late.entry(what.clone()).or_default() += times;
        }
    }
    println!(
        "{worlds} worlds, {schedules} schedules, in {beside} late beside a member that was stopped; late, without harm:"
    );
    late.iter().for_each(|(what, times)| println!("  {what}: {times} times"));
    assert!(worlds > 0, "no case was due");
    assert!(beside > 0 || only.is_some(), "no thread was late beside a member that was stopped");
}
