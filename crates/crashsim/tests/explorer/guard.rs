//! The guard against late threads: it names a write into another use of a slot or a block, whatever the values, and nothing else.
//!
//! A small arena: two slots of four words (head, state, count, wait bits) and two blocks with owner words. A head is `use << 1 | in service`.

use chappe_crashsim::atomic::{AtomicU32, AtomicU64, Ordering, Ordering::SeqCst};
use chappe_crashsim::guard::{Guard, Row, guard, through};
use chappe_crashsim::pair::Pair;
use chappe_crashsim::robust::{self, Claim};
use chappe_crashsim::{Fault, Report, Search, Shared, World, reached};
use std::iter::once;

/// A store that goes through the buffer.
// Relaxed: that is what is tried here.
const PLAIN: Ordering = Ordering::Relaxed;

#[derive(Default)]
#[repr(C, align(16))]
struct Slot {
    head: AtomicU64,
    bits: AtomicU64,
    pair: Pair,
}

#[derive(Default)]
struct Arena {
    slots: [Slot; 2],
    owners: [AtomicU64; 2],
    blocks: [AtomicU64; 2],
}

fn live(of: u64) -> u64 {
    of << 1 | 1
}

fn owned(slot: u64, of: u64) -> u64 {
    of << 32 | (slot + 1)
}

/// An arena whose first slot has use 1 in service, with the first block.
fn arena(world: &World) -> Shared<Arena> {
    let all = world.share(Arena::default());
    all.slots[0].head.store(live(1), SeqCst);
    all.owners[0].store(owned(0, 1), SeqCst);
    let at = |word: &AtomicU64| word.as_ptr() as usize;
    let slots = Row {
        base: std::ptr::from_ref(&all.slots) as usize,
        stride: size_of::<Slot>(),
        count: 2,
        word: at(&all.slots[0].head),
        words: size_of::<Slot>(),
        apart: once(8..16).collect(),
    };
    let pieces =
        vec![Row { base: at(&all.blocks[0]), stride: 8, count: 2, word: at(&all.owners[0]), words: 8, apart: vec![] }];
    guard(Guard {
        slots,
        pieces,
        lines: vec![],
        use_of: |head| head,
        makes: |head| (head & 1 == 0).then(|| live((head >> 1) + 1)),
        owner: |word| Some(((word as u32).checked_sub(1)? as usize, live(word >> 32))),
        show: |head| format!("use {}{}", head >> 1, if head & 1 == 0 { ", free" } else { "" }),
        exempt: &[],
    });
    all
}

/// Removes what is in the first slot, and makes the next there, with the first block.
fn remake(all: &Arena, how: Ordering) {
    let slot = &all.slots[0];
    slot.head.store(1 << 1, how);
    slot.pair.low.store(0, how);
    all.owners[0].store(owned(0, 2), how);
    all.blocks[0].store(0, how);
    slot.head.store(live(2), how);
    slot.pair.high.store(0, how);
    reached("the next");
}

/// A thread that looks whether the object is there, and then acts; another makes the next object in its memory.
fn looks_and_acts(world: &World, act: impl Fn(&Arena) + 'static) {
    let all = arena(world);
    world.process("late", move || {
        if all.slots[0].head.load(SeqCst) == live(1) {
            act(&all);
            reached("acted");
        }
    });
    world.process("maker", move || remake(&all, SeqCst));
}

fn depth(name: &str, world: impl Fn(&World) + Sync) -> Report {
    Search::depth(name, 2).run(world)
}

fn foreign(report: &Report) -> &str {
    let found = report.assert_caught().found().expect("caught");
    assert_eq!(found.fault, Fault::ForeignWrite, "{}", found.text);
    assert!(found.text.contains("explorer/guard.rs") && found.text.contains("late wrote"), "{}", found.text);
    &found.text
}

#[test]
fn any_write_into_the_next_object_is_one_whatever_the_values() {
    // What is written is there already in each of them, or is written into a word that has the value of the first object's.
    type Act = (&'static str, fn(&Arena));
    let acts: [Act; 6] = [
        ("store", |all| all.slots[0].pair.low.store(0, SeqCst)),
        ("add", |all| _ = all.slots[0].pair.low.fetch_add(0, SeqCst)),
        ("swap", |all| _ = all.slots[0].pair.low.compare_exchange(0, 0, SeqCst, SeqCst)),
        ("pair", |all| _ = all.slots[0].pair.compare_exchange([0, 0], [0, 1])),
        ("block", |all| _ = all.blocks[0].fetch_max(0, SeqCst)),
        ("block_swapped", |all| _ = all.blocks[0].compare_exchange(0, 7, SeqCst, SeqCst)),
    ];
    for (name, act) in acts {
        let report = depth(name, |world| looks_and_acts(world, act));
        let text = foreign(&report);
        assert!(text.contains("came through use 1, and there is use"), "{text}");
    }
}

#[test]
fn a_swap_that_failed_is_listed_and_what_is_apart_is_none() {
    let failed = |all: &Arena| _ = all.slots[0].pair.low.compare_exchange(9, 8, SeqCst, SeqCst);
    let report = depth("failed", |world| looks_and_acts(world, failed));
    report.assert_clean().assert_reached(&["acted", "the next"]);
    let late: Vec<_> = report.late().keys().collect();
    assert_eq!(late.len(), 1, "{late:?}");
    assert!(late[0].contains("explorer/guard.rs") && late[0].starts_with("swap that failed"), "{late:?}");
    let report = depth("apart", |world| looks_and_acts(world, |all| _ = all.slots[0].bits.fetch_or(1, SeqCst)));
    report.assert_clean().assert_reached(&["acted", "the next"]);
    assert!(report.late().is_empty());
}

/// Two that are right: one that holds the object while it acts, so that nobody makes the next; and one that looks the next object up.
#[test]
fn a_holder_of_the_object_writes_to_it() {
    let report = depth("held", |world| {
        let all = arena(world);
        let held = world.share(AtomicU64::new(0));
        world.process("holder", move || {
            held.store(1, SeqCst);
            if all.slots[0].head.load(SeqCst) == live(1) {
                all.slots[0].pair.low.fetch_add(1, SeqCst);
                all.blocks[0].store(7, SeqCst);
                reached("acted");
            }
            held.store(2, SeqCst);
        });
        world.process("maker", move || {
            if held.swap(3, SeqCst) == 2 {
                remake(&all, SeqCst);
            }
        });
    });
    report.assert_clean().assert_reached(&["acted", "the next"]);
    let looks_up = |all: &Arena| {
        let head = all.slots[0].head.load(SeqCst);
        through(&all.slots[0].head, head);
        if head == live(2) {
            all.slots[0].pair.low.fetch_add(1, SeqCst);
            all.blocks[0].store(7, SeqCst);
            reached("in the next");
        }
    };
    let report = depth("looked_up", |world| looks_and_acts(world, looks_up));
    report.assert_clean().assert_reached(&["acted", "the next", "in the next"]);
}

/// What a check of the object's head is not: a look at it. If it were one, a write that comes behind a check which said no would go unseen.
#[test]
fn a_check_that_said_no_does_not_excuse_the_write_behind_it() {
    let checked = |looks: bool| {
        move |world: &World| {
            let all = arena(world);
            world.process("maker", move || remake(&all, SeqCst));
            // The next object is there. The mistake: the answer is not heeded.
            world.prepare("late").last().run(move || {
                let head = all.slots[0].head.load(SeqCst);
                if looks {
                    through(&all.slots[0].head, head);
                }
                all.slots[0].pair.low.store(5, SeqCst);
            });
        }
    };
    foreign(&depth("checked", checked(false)));
    depth("checked_as_a_look", checked(true)).assert_clean();
}

#[test]
fn a_handle_from_elsewhere_is_said() {
    let world = |says: bool| {
        move |world: &World| {
            let all = arena(world);
            let made = world.share(AtomicU64::new(0));
            world.process("maker", move || {
                remake(&all, SeqCst);
                made.store(live(2), SeqCst);
            });
            world.process("late", move || {
                let head = made.load(SeqCst);
                if head != 0 {
                    if says {
                        through(&all.slots[0].head, head);
                    }
                    all.slots[0].pair.high.store(1, SeqCst);
                    reached("acted");
                }
            });
        }
    };
    depth("handed", world(true)).assert_clean().assert_reached(&["acted"]);
    foreign(&depth("handed_unsaid", world(false)));
}

/// A maker's stores are on their way; so is the head, behind them: they are no late writes. A store that arrives behind another object's head is one.
#[test]
fn stores_in_a_buffer_are_looked_at_when_they_arrive() {
    for (name, search) in
        [("depth", Search::depth("buffered", 2)), ("dice", Search::uniform("buffered").schedules(3_000))]
    {
        let report = search.clone().store_buffers(4).run(|world| {
            let all = arena(world);
            world.process("maker", move || remake(&all, PLAIN));
            world.process("looks", move || _ = all.slots[0].head.load(SeqCst));
        });
        report.assert_clean().assert_reached(&["the next"]);
        assert!(report.counts().held > 0, "{name}");
        let late = |all: &Arena| {
            all.slots[0].pair.low.store(5, PLAIN);
            // The store is on its way still: whatever its thread looks up now, it came through the first.
            through(&all.slots[0].head, all.slots[0].head.load(SeqCst));
        };
        foreign(&search.store_buffers(1).run(|world| looks_and_acts(world, late)));
    }
}

/// A row of one line, with a word that others write by design.
#[derive(Default)]
#[repr(C, align(8))]
struct Line {
    lock: AtomicU32,
    rung: AtomicU32,
    own: AtomicU32,
}

fn line(world: &World) -> Shared<Line> {
    let (line, all) = (world.share(Line::default()), world.share(Arena::default()));
    let base = std::ptr::from_ref(&*line) as usize;
    let row = Row { base, stride: 12, count: 1, word: base, words: 12, apart: once(0..8).collect() };
    let none = Row { base: std::ptr::from_ref(&*all) as usize, count: 0, ..row.clone() };
    guard(Guard {
        slots: none,
        pieces: vec![],
        lines: vec![row],
        use_of: |head| head,
        makes: |_| None,
        owner: |_| None,
        show: |head| head.to_string(),
        exempt: &[],
    });
    line
}

#[test]
fn only_the_thread_that_has_a_line_writes_there() {
    let world = |is_late: bool| {
        move |world: &World| {
            let line = line(world);
            let is_mine = move || robust::try_claim(&line.lock) != Claim::Busy;
            world.process("late", move || {
                if is_mine() {
                    line.own.store(1, SeqCst);
                    robust::release(&line.lock);
                    line.rung.fetch_add(1, SeqCst);
                    if is_late {
                        line.own.store(0, SeqCst);
                    }
                }
            });
            world.process("the next", move || {
                if is_mine() {
                    line.own.store(2, SeqCst);
                    reached("the next");
                }
            });
        }
    };
    depth("lines", world(false)).assert_clean().assert_reached(&["the next"]);
    assert!(foreign(&depth("late_in_a_line", world(true))).contains("of line 0, which is that of"));
}

/// A block whose owner has gone is nobody's, until it is somebody's.
#[test]
fn memory_that_is_nobodys_may_be_written() {
    let report = depth("nobodys", |world| {
        let all = arena(world);
        world.process("late", move || {
            if all.slots[0].head.load(SeqCst) == live(1) {
                all.blocks[0].store(5, SeqCst);
                reached("acted");
            }
        });
        world.process("remover", move || all.slots[0].head.store(1 << 1, SeqCst));
    });
    report.assert_clean().assert_reached(&["acted"]);
}
