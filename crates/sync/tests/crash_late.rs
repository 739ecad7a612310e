//! The table of late threads: every kind of object x every slow operation on it x every object that may come next in its memory.
//!
//! A member of an object (the victim) is killed at each step of what members do with it. A thread that is late (it recovers the dead, or acts
//! on the object by its handle) is stopped at each step. Meanwhile another removes the object and makes the next one in its slot and its
//! blocks: users' data of zeros, of small numbers, or as they were; or an object of the same kind, of which a new member with the dead one's
//! number is in the middle of an operation. Then the late thread goes on. No case is named: the explorer's guard says where a thread writes
//! into what is another object's by then (`chappe_crashsim::guard`).
//!
//! A kind is one row: [`kinds`]. The gate plays a tenth of the cases, another one each day; `cargo xtask test --all` plays all.

mod crash;

use chappe_arena::Map;
use chappe_arena::layout::{BLOCK, Kind};
use chappe_crashsim::{Process, Search, World, reached};
use chappe_plat::clock;
use chappe_sync::model::{
    Actor, BareAt, CastAt, CondvarAt, Locking, MapAt, MonitorAt, MutexAt, NamedAt, OwnedAt, PoolAt, RwLockAt,
    SemaphoreAt, StackAt, When,
};
use crash::{Stage, sleep};
use std::collections::BTreeMap;

const BLOCKS: u32 = 200;
/// How many schedules a case has in the gate, and in all.
const SCHEDULES: [u64; 2] = [1_500, 20_000];

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
    /// What else may be done to it, by whoever has a handle, and be late.
    others: &'static [(&'static str, Act<T>)],
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
}

const NEXT: [Next; 4] = [Next::Zeros, Next::Small, Next::Copy, Next::Same];

/// A case of the table.
struct Case {
    name: String,
    world: Box<dyn Fn(&World) + Sync>,
    kills: u32,
}

/// Makes a mutex whose data are all blocks.
fn makes_data(map: &'static Map, next: Next) {
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
}

/// One case. `act`: what the late thread does with its handle; without it recovers the dead.
fn world<T: Copy + 'static>(world: &World, row: &Row<T>, act: Option<Act<T>>, next: Next) {
    let (stage, _) = Stage::with_blocks(world, 8, &[], 4, BLOCKS);
    let map = stage.map;
    let [v, l, m]: [Process; 3] = ["victim", "late", "maker"].map(|name| world.prepare(name));
    let (victim, late) = (stage.member(v, "victim"), stage.member(l, "late"));
    stage.member(m, "maker");
    let old = (row.make)(map, "old").expect("room");
    let were = map.objects();
    let (make, remove, script) = (row.make, row.remove, row.script);
    v.only_kills().run(move || script(old, &victim));
    stage.lasting(l.only_stops(), move || {
        match act {
            Some(act) => act(old, &late),
            None => _ = map.recover_dead(),
        }
        reached("through");
    });
    stage.lasting(m.immortal(), move || {
        map.recover_dead();
        remove(old);
        // Some kinds begin their numbers by the clock.
        sleep(1_000_000);
        if next == Next::Same {
            let made = make(map, "next");
            if let (Some(made), Ok(me)) = (made, Actor::join(map, "next")) {
                script(made, &me);
            }
        } else {
            makes_data(map, next);
        }
        let now = map.objects();
        if were.iter().any(|old| now.iter().any(|new| new.index == old.index && new.head != old.head)) {
            reached("in its memory");
        }
        map.recover_dead();
    });
    world.may_wait(|| true);
}

/// The cases of a row.
fn cases<T: Copy + 'static>(all: &mut Vec<Case>, row: Row<T>) {
    let row: &'static Row<T> = Box::leak(Box::new(row));
    let own = [("recovers", None), ("is late itself", Some(row.script))];
    let acts = own.into_iter().chain(row.others.iter().map(|(name, act)| (*name, Some(*act))));
    for (what, act) in acts {
        for next in NEXT {
            all.push(Case {
                name: format!("{}: {what}, {next:?}", row.name),
                world: Box::new(move |w: &World| world(w, row, act, next)),
                // A handle's act is late whether anybody dies or not.
                kills: u32::from(act.is_none()),
            });
        }
    }
}

/// A body that is nothing else.
fn bare(name: &'static str, make: fn(&'static Map, &str) -> Option<BareAt>) -> Row<BareAt> {
    let script = |of: BareAt, me: &Actor| {
        me.enters(of.map, of.place);
        me.changes(of);
        me.exits(of.map, of.place);
    };
    Row { name, make, remove: |of| of.remove(), script, others: &[] }
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
        },
    );
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
    let (mut late, mut worlds, mut schedules) = (BTreeMap::<String, u64>::new(), 0, 0);
    for (i, case) in kinds().into_iter().enumerate() {
        let is_due = only.as_ref().map_or(all || i % 10 == turn, |only| case.name.contains(only.as_str()));
        if !is_due {
            continue;
        }
        let search = Search::sweep(&format!("late_{i}")).kills(case.kills).stops(1).resume();
        // Every n-th death: the stops after each are all played.
        let search = if case.kills > 0 { search.share(if all { 7 } else { 29 }) } else { search };
        let report = search.schedules(SCHEDULES[usize::from(all)]).run(&case.world);
        println!("{}", case.name);
        report.assert_clean().assert_reached(&["through", "in its memory"]);
        worlds += 1;
        schedules += report.schedules();
        for (what, times) in report.late() {
            *late.entry(what.clone()).or_default() += times;
        }
    }
    println!("{worlds} worlds, {schedules} schedules; late, without harm:");
    late.iter().for_each(|(what, times)| println!("  {what}: {times} times"));
    assert!(worlds > 0, "no case was due");
}
