//! Lanes, explored: a pipe whose ends are killed at each step, demoted at any moment, and owned a second time. What is read is what was
//! written, in order, once.
//!
//! The kernel's pipe is a row of bytes behind one word: each call is one step where it does not sleep.

use chappe_crashsim::{Process, Search, Shared, World, reached};
use chappe_lane::{Lane, Pipe, Words};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst, pause};
use chappe_plat::futex::{self, Scope, Wait};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// How many bytes the ring has, and the kernel's pipe.
const RING: usize = 4;
const CAPACITY: usize = 3;
/// How many places of the kernel's pipe a byte takes that write(2) has brought: pages may be half empty. One that is pushed takes one.
const WRITTEN: usize = 2;
/// How many bytes a reader asks for.
const BUFFER: usize = 2;
/// The writes of each writer: how many bytes.
const WRITES: [usize; 3] = [1, 4, 1];

#[derive(Debug, PartialEq)]
enum Fail {
    Again,
    Interrupted,
    Broken,
    Fault,
}

#[derive(Default)]
struct Model {
    /// Moves with each change of what follows.
    changes: AtomicU32,
    /// With the places that each takes.
    bytes: RefCell<VecDeque<(u8, usize)>>,
    /// How many processes have which end open.
    writers: Cell<u32>,
    readers: Cell<u32>,
    ring: [AtomicU64; RING],
    /// The next write(2) of a writer that has claimed a sleeper fails.
    has_fault: Cell<bool>,
    does_not_block: Cell<bool>,
    /// What was read, and by which reader; how much may be with readers that were killed in a call; whether the end of file was read.
    got: RefCell<Vec<(usize, u8)>>,
    taken_along: Cell<usize>,
    has_ended: Cell<bool>,
    /// How many bytes each writer was told that it has written.
    told: [Cell<u8>; 3],
    /// Writers write at the same time.
    are_mixed: Cell<bool>,
    /// How many readers are in a call.
    reading: Cell<u32>,
    /// What a handler does that interrupts the next copying of bytes into the ring; or, early, what comes before.
    handler: RefCell<Option<Box<dyn FnOnce()>>>,
    is_early: Cell<bool>,
    /// What a handler does that comes when the next read(2) has taken bytes.
    readers_handler: RefCell<Option<Box<dyn FnOnce()>>>,
    /// The stream begins before its lane.
    is_late: Cell<bool>,
    /// Which push from now on is refused; 0: none.
    refused: Cell<u32>,
}

impl Model {
    /// Does it in one step.
    fn change<R>(&self, change: impl FnOnce() -> R) -> R {
        self.changes.fetch_add(1, SeqCst);
        let result = change();
        futex::wake(&self.changes, u32::MAX, Scope::Shared);
        result
    }

    /// Until that is so.
    fn wait_until(&self, is_so: impl Fn() -> bool) {
        loop {
            let seen = self.changes.load(SeqCst);
            if is_so() {
                return;
            }
            futex::wait(&self.changes, seen, None, Scope::Shared);
        }
    }

    /// The handler comes here, if this is its place.
    fn interrupt(&self, is_early: bool) {
        let handler = if self.is_early.get() == is_early { self.handler.take() } else { None };
        if let Some(handler) = handler {
            handler();
        }
    }

    /// A process has an end no more, which it has had.
    fn closed(&self, end: &Cell<u32>, has: &Cell<bool>) {
        self.change(|| end.update(|count| count - u32::from(has.take())));
    }
}

impl Pipe for Model {
    type Error = Fail;

    fn read(&self, into: &mut [u8]) -> Result<usize, Fail> {
        loop {
            let seen = self.changes.load(SeqCst);
            if !self.bytes.borrow().is_empty() {
                let count = self.change(|| {
                    let mut bytes = self.bytes.borrow_mut();
                    let count = into.len().min(bytes.len());
                    bytes.drain(..count).zip(into.iter_mut()).for_each(|((byte, _), to)| *to = byte);
                    count
                });
                if count > 0 {
                    let handler = self.readers_handler.take();
                    if let Some(handler) = handler {
                        handler();
                    }
                    return Ok(count);
                }
            } else if self.writers.get() == 0 {
                return Ok(0);
            } else if self.does_not_block.get() {
                return Err(Fail::Again);
            } else if futex::wait(&self.changes, seen, None, Scope::Shared) == Wait::Interrupted {
                reached("a reader was interrupted");
                return Err(Fail::Interrupted);
            }
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<usize, Fail> {
        let mut done = 0;
        if self.has_fault.take() {
            reached("a fault");
            return Err(Fail::Fault);
        }
        while done < bytes.len() {
            let seen = self.changes.load(SeqCst);
            if self.readers.get() == 0 {
                return if done > 0 { Ok(done) } else { Err(Fail::Broken) };
            } else if self.bytes.borrow().len() < CAPACITY {
                done += self.change(|| {
                    let mut held = self.bytes.borrow_mut();
                    let count = (bytes.len() - done).min(CAPACITY.saturating_sub(held.len()));
                    held.extend(bytes[done..done + count].iter().map(|byte| (*byte, WRITTEN)));
                    count
                });
            } else if self.does_not_block.get() {
                return if done > 0 { Ok(done) } else { Err(Fail::Again) };
            } else if futex::wait(&self.changes, seen, None, Scope::Shared) == Wait::Interrupted {
                return if done > 0 { Ok(done) } else { Err(Fail::Interrupted) };
            }
        }
        Ok(done)
    }

    fn held(&self) -> u64 {
        self.changes.load(SeqCst);
        self.bytes.borrow().len() as u64
    }

    fn push(&self, bytes: &[u8]) -> Result<usize, Fail> {
        reached("pushed");
        if self.refused.replace(self.refused.get().saturating_sub(1)) == 1 {
            reached("a push was refused");
            return Err(Fail::Fault);
        }
        // One byte a call: a demoter can be killed between two.
        Ok(self.change(|| {
            if self.readers.get() == 0 {
                return 0;
            }
            let mut held = self.bytes.borrow_mut();
            held.push_back((bytes[0], 1));
            assert!(
                held.iter().map(|(_, places)| places).sum::<usize>() <= RING,
                "the kernel's pipe is full: {held:x?}"
            );
            1
        }))
    }

    fn widen(&self) -> bool {
        true
    }

    fn refusal(&self) -> Option<Fail> {
        reached("full");
        self.does_not_block.get().then_some(Fail::Again)
    }

    fn interrupted(&self) -> Fail {
        reached("a writer was interrupted");
        Fail::Interrupted
    }

    fn size(&self) -> u64 {
        // A writer asks when it has loaded the tail, and before it copies.
        self.interrupt(true);
        RING as u64
    }

    fn atomic(&self) -> usize {
        1
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.interrupt(false);
        for (at, byte) in (at..).zip(bytes) {
            self.ring[at as usize % RING].store((*byte).into(), SeqCst);
        }
    }

    fn get(&self, at: u64, into: &mut [u8]) {
        for (at, byte) in (at..).zip(into) {
            *byte = self.ring[at as usize % RING].load(SeqCst) as u8;
        }
    }
}

#[derive(Clone, Copy)]
struct Scene {
    words: &'static Words,
    model: Shared<Model>,
}

/// The same call again, as long as that is what a program does.
fn again<R>(mut call: impl FnMut() -> Result<R, Fail>) -> Result<R, Fail> {
    loop {
        match call() {
            Err(Fail::Again) => pause(),
            Err(Fail::Interrupted | Fail::Fault) => {}
            other => return other,
        }
    }
}

impl Scene {
    fn new(world: &World) -> Scene {
        let place = world.zeroed(size_of::<Words>()).cast::<Words>();
        // SAFETY: zeroed bytes of the schedule are the words of a new lane, and stay as long as it.
        let words = unsafe { &*place };
        world.name(&words.tail, "tail");
        world.name(&words.kernel_end, "kernel_end");
        world.name(&words.head.0, "head");
        world.name(&words.stage, "stage");
        let scene = Scene { words, model: world.share(Model::default()) };
        world.name(&scene.model.changes, "the pipe");
        world.check(move || scene.is_sound());
        scene
    }

    fn lane(&self) -> Lane<'_, Model> {
        Lane { words: self.words, pipe: &self.model }
    }

    fn demote(&self) {
        self.lane().demote().expect("no push is refused");
    }

    /// A process with the writing end.
    fn writer(self, process: Process, number: u8) -> Process {
        let model = self.model;
        model.writers.update(|writers| writers + 1);
        let has = Rc::new(Cell::new(true));
        let had = has.clone();
        process.on_death(move || model.closed(&model.writers, &had));
        process.run(move || {
            self.write_all(number);
            model.closed(&model.writers, &has);
        })
    }

    fn write_all(&self, number: u8) {
        let own = || again(|| self.lane().writer()).expect("no other failure");
        let is_late = self.model.is_late.get();
        let mut writer = if is_late { None } else { own() };
        let mut bytes = (1..).map(|n| number << 4 | n);
        for (turn, len) in WRITES.into_iter().enumerate() {
            if is_late && turn == 1 {
                assert!(self.lane().begin_late());
                writer = own();
            }
            let mut rest: Vec<u8> = bytes.by_ref().take(len).collect();
            while !rest.is_empty() {
                let written = again(|| match &writer {
                    Some(writer) => writer.write(&rest),
                    None => self.model.write(&rest),
                });
                let Ok(count) = written else {
                    reached("broken");
                    return;
                };
                self.model.told[number as usize].update(|told| told + count as u8);
                rest.drain(..count);
            }
        }
        if let Some(writer) = writer {
            writer.release();
        }
    }

    /// A process with the reading end, which ends after so many reads, or at the end of file.
    fn reader(self, process: Process, reads: usize) -> Process {
        let model = self.model;
        model.readers.update(|readers| readers + 1);
        let (has, is_reading) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(false)));
        let (had, was_reading) = (has.clone(), is_reading.clone());
        let number = model.readers.get() as usize - 1;
        process.on_death(move || {
            let along = if was_reading.get() { BUFFER } else { 0 };
            model.taken_along.update(|bytes| bytes + along);
            model.closed(&model.readers, &had);
        });
        process.run(move || {
            self.read_all(number, reads, &is_reading);
            model.closed(&model.readers, &has);
        })
    }

    fn read_all(&self, number: usize, reads: usize, is_reading: &Cell<bool>) {
        let own = || again(|| self.lane().reader()).expect("no other failure");
        let is_late = self.model.is_late.get();
        let mut reader = if is_late { None } else { own() };
        let mut buffer = [0; BUFFER];
        for _ in 0..reads {
            if is_late && reader.is_none() && self.lane().catch_up() {
                reached("the reader caught up");
                // One byte was written before the count began, at a mebibyte. A position that is too low is mended by the next read; until then
                // the writer finds too little room.
                let position = (1 << 20) - 1 + self.model.got.borrow().len() as u64;
                assert_eq!(self.words.head.0.peek() >> 4, position, "the reader is elsewhere");
                reader = own();
            }
            is_reading.set(true);
            self.model.reading.update(|reading| reading + 1);
            let count = again(|| match &reader {
                Some(reader) => reader.read(&mut buffer),
                None => self.model.read(&mut buffer),
            });
            is_reading.set(false);
            self.model.reading.update(|reading| reading - 1);
            let count = count.expect("read(2) tells of no such failure");
            self.model.got.borrow_mut().extend(buffer[..count].iter().map(|byte| (number, *byte)));
            if count == 0 {
                self.model.has_ended.set(true);
                break;
            }
        }
        if let Some(reader) = reader {
            reader.release();
        }
    }

    /// Each writer's bytes were read in order, once; what a killed reader had may be missing, and what a writer was not told.
    fn is_sound(&self) {
        let got = self.model.got.borrow();
        // Of two that read at the same time nobody knows which was first.
        let is_next = |a: &(usize, u8), b: &(usize, u8)| a.1 < b.1 || self.model.are_mixed.get() && a.0 != b.0;
        let mut missing = 0;
        for number in 1..3 {
            let own: Vec<_> = got.iter().copied().filter(|(_, byte)| byte >> 4 == number).collect();
            assert!(own.is_sorted_by(is_next), "twice, or out of order: {got:x?}");
            let told = 1..=self.model.told[number as usize].get();
            missing += told.filter(|n| !own.iter().any(|(_, byte)| byte & 15 == *n)).count();
        }
        let in_order = self.model.are_mixed.get() || got.is_sorted_by(is_next);
        assert!(in_order, "a writer's bytes before those of an earlier one: {got:x?}");
        if self.model.has_ended.get() {
            assert!(missing <= self.model.taken_along.get(), "{missing} are lost: {got:x?}");
            assert!(self.model.bytes.borrow().is_empty());
            let is_plain = self.words.stage.load(SeqCst) == 1;
            reached(if is_plain { "the kernel's to the end" } else { "a lane to the end" });
        }
    }
}

/// As many reads as there are.
const ALL: usize = usize::MAX;

/// Either end is killed, and the next process has it.
fn streams(world: &World) {
    let scene = Scene::new(world);
    let writer = scene.writer(world.prepare("writer"), 1);
    scene.writer(world.successor("next writer", writer), 2).immortal();
    let reader = scene.reader(world.prepare("reader"), 3);
    scene.reader(world.successor("next reader", reader), ALL).immortal();
}

/// Nothing happens to either end.
fn alone(world: &World) {
    let scene = Scene::new(world);
    scene.writer(world.prepare("writer"), 1).immortal();
    scene.reader(world.prepare("reader"), ALL).immortal();
}

/// The stream begins before its lane, and the reader comes to that between two reads. Either end is killed, and nobody has it then.
fn late(world: &World) {
    let scene = Scene::new(world);
    scene.model.is_late.set(true);
    scene.writer(world.prepare("writer"), 1);
    scene.reader(world.prepare("reader"), ALL);
}

/// One process demotes at any moment, and is killed in that; another one does, too.
fn demoted(world: &World) {
    let scene = Scene::new(world);
    scene.writer(world.prepare("writer"), 1).immortal();
    scene.reader(world.prepare("reader"), ALL).immortal();
    let demoter = world.prepare("demoter").run(move || scene.demote());
    demoter.on_death(|| reached("a demoter was killed"));
    world.prepare("next demoter").immortal().run(move || scene.demote());
}

/// A demoter may not push all, and goes.
fn refused(world: &World) {
    let scene = Scene::new(world);
    scene.model.refused.set(2);
    scene.writer(world.prepare("writer"), 1).immortal();
    scene.reader(world.prepare("reader"), ALL).immortal();
    world.prepare("demoter").immortal().run(move || {
        let _refused = scene.lane().demote();
    });
}

/// The same, while the ends are killed, and nobody but the demoter is left to finish.
fn demoted_and_killed(world: &World) {
    let scene = Scene::new(world);
    let writer = scene.writer(world.prepare("writer"), 1);
    scene.writer(world.successor("next writer", writer), 2).immortal();
    let reader = scene.reader(world.prepare("reader"), ALL);
    scene.reader(world.successor("next reader", reader), ALL).immortal();
    world.prepare("demoter").run(move || scene.demote());
}

/// Two processes write at the same time, and two read.
fn second_owners(world: &World) {
    let scene = Scene::new(world);
    scene.model.are_mixed.set(true);
    scene.writer(world.prepare("writer"), 1).immortal();
    scene.writer(world.prepare("second writer"), 2).immortal();
    scene.reader(world.prepare("reader"), 2).immortal();
    scene.reader(world.prepare("second reader"), ALL).immortal();
}

/// A program that does not know of lanes reads first.
fn foreign(world: &World) {
    let scene = Scene::new(world);
    scene.writer(world.prepare("writer"), 1).immortal();
    let model = scene.model;
    model.readers.set(1);
    let stranger = world.prepare("stranger").immortal().run(move || {
        let mut buffer = [0; BUFFER];
        let count = model.read(&mut buffer).expect("bytes");
        model.got.borrow_mut().extend(buffer[..count].iter().map(|byte| (0, *byte)));
        model.closed(&model.readers, &Cell::new(true));
    });
    scene.reader(world.successor("reader", stranger), ALL).immortal();
}

/// A program that does not know of lanes reads between the owner's calls.
fn drained(world: &World) {
    let scene = Scene::new(world);
    scene.model.are_mixed.set(true);
    scene.writer(world.prepare("writer"), 1).immortal();
    scene.reader(world.prepare("reader"), ALL).immortal();
    world.prepare("stranger").immortal().run(move || {
        let (model, words) = (scene.model, scene.words);
        for _ in 0..2 {
            model.change(|| {
                let [tail, head] = [words.tail.peek(), words.head.0.peek()].map(|word| word >> 4);
                let is_idle = model.reading.get() == 0 && tail <= words.kernel_end.peek().max(head);
                if is_idle && !model.bytes.borrow().is_empty() {
                    reached("drained");
                    model.got.borrow_mut().extend(model.bytes.take().into_iter().map(|(byte, _)| (9, byte)));
                }
            });
        }
    });
}

/// The writer has more than the ring takes, and the reader waits for the end of that when it has read one byte.
fn answered(world: &World) {
    let scene = Scene::new(world);
    let model = scene.model;
    model.writers.set(1);
    model.readers.set(1);
    world.prepare("writer").immortal().run(move || {
        model.wait_until(|| scene.words.tail.peek() != 0);
        let writer = scene.lane().writer().expect("no push").expect("nobody demotes");
        for byte in 1..=5 {
            assert_eq!(again(|| writer.write(&[1 << 4 | byte])), Ok(1));
            model.change(|| model.told[1].set(byte));
        }
        writer.release();
        model.closed(&model.writers, &Cell::new(true));
    });
    world.prepare("reader").immortal().run(move || {
        let reader = scene.lane().reader().expect("no push").expect("nobody demotes");
        model.change(|| ());
        for wanted in 1..=5 {
            let mut byte = [0];
            assert_eq!((again(|| reader.read(&mut byte)), byte[0] & 15), (Ok(1), wanted));
            model.wait_until(|| model.told[1].get() == 5);
        }
        reached("answered");
        reader.release();
    });
}

/// A handler writes while its thread is in a write.
fn interrupted(world: &World) {
    interrupted_at(world, false);
}

fn interrupted_at(world: &World, is_early: bool) {
    // The handler outlives what lends it the scene.
    let scene: &'static Scene = Box::leak(Box::new(Scene::new(world)));
    let model = scene.model;
    model.is_early.set(is_early);
    model.are_mixed.set(true);
    model.writers.set(1);
    world.prepare("writer").immortal().run(move || {
        let writer = Rc::new(scene.lane().writer().expect("no push").expect("nobody has demoted"));
        let handlers = writer.clone();
        *model.handler.borrow_mut() = Some(Box::new(move || {
            reached("interrupted");
            assert_eq!(again(|| handlers.write(&[2 << 4 | 1])), Ok(1));
            model.told[2].set(1);
        }));
        for byte in 1..=3 {
            assert_eq!(again(|| writer.write(&[1 << 4 | byte])), Ok(1));
            model.told[1].set(byte);
        }
        model.handler.take();
        model.closed(&model.writers, &Cell::new(true));
    });
    scene.reader(world.prepare("reader"), ALL).immortal();
}

/// The same, before the thread copies.
fn interrupted_early(world: &World) {
    interrupted_at(world, true);
}

/// A handler comes to the pipe that its own thread has just read, while another process demotes it.
fn interrupted_reader(world: &World) {
    let scene: &'static Scene = Box::leak(Box::new(Scene::new(world)));
    let model = scene.model;
    *model.readers_handler.borrow_mut() = Some(Box::new(move || {
        reached("interrupted");
        if let Some(writer) = scene.lane().writer().expect("no push is refused") {
            writer.release();
        }
    }));
    scene.writer(world.prepare("writer"), 1).immortal();
    world.prepare("demoter").immortal().run(move || scene.demote());
    scene.reader(world.prepare("reader"), ALL).immortal();
}

/// A write(2) fails, and calls are interrupted.
fn faults(world: &World) {
    let scene = Scene::new(world);
    scene.model.has_fault.set(true);
    scene.writer(world.prepare("writer"), 1).immortal();
    scene.reader(world.prepare("reader"), ALL).immortal();
}

/// Neither end blocks.
fn refusals(world: &World) {
    let scene = Scene::new(world);
    scene.model.does_not_block.set(true);
    scene.writer(world.prepare("writer"), 1).immortal();
    scene.reader(world.prepare("reader"), ALL).immortal();
}

/// No reader is left.
fn broken(world: &World) {
    let scene = Scene::new(world);
    scene.writer(world.prepare("writer"), 1).immortal();
    scene.reader(world.prepare("reader"), 1);
}

const FAST: &str = "a lane to the end";
const KERNEL: &str = "the kernel's to the end";

#[test]
fn a_stream_is_read_once_and_in_order_whichever_end_is_killed() {
    Search::depth("lane_alone", 3).schedules(20_000).run(alone).assert_clean().assert_reached(&[FAST, "full"]);
    let deep = Search::depth("lane_streams", 1).kills(1).schedules(10_000).run(streams);
    deep.assert_clean().assert_reached(&[FAST, KERNEL, "full", "pushed"]);
    Search::sweep("lane_streams_sweep").kills(2).share(4).run(streams).assert_clean();
    Search::priorities("lane_streams_pct", 4).kills(2).schedules(2_000).run(streams).assert_clean();
}

#[test]
fn a_demotion_at_any_moment_loses_nothing_though_the_demoter_is_killed() {
    Search::depth("lane_demoted", 2).kills(1).schedules(10_000).run(demoted).assert_clean();
    let wide = Search::priorities("lane_demoted_pct", 4).kills(1).schedules(4_000).run(demoted);
    wide.assert_clean().assert_reached(&[KERNEL, "pushed", "a demoter was killed"]);
    Search::depth("lane_demoted_killed", 1).kills(1).schedules(10_000).run(demoted_and_killed).assert_clean();
    let wide = Search::priorities("lane_demoted_killed_pct", 4).kills(3).schedules(40_000).run(demoted_and_killed);
    wide.assert_clean().assert_reached(&[KERNEL, "pushed"]);
}

#[test]
fn a_second_owner_of_an_end_makes_it_the_kernels() {
    Search::depth("lane_second_owners", 2).schedules(10_000).run(second_owners).assert_clean();
    let wide = Search::priorities("lane_second_owners_pct", 4).schedules(4_000).run(second_owners);
    wide.assert_clean().assert_reached(&[KERNEL, "pushed"]);
}

#[test]
fn a_reader_goes_on_behind_one_that_knows_no_lanes() {
    Search::depth("lane_foreign", 2).schedules(10_000).run(foreign).assert_clean().assert_reached(&[FAST]);
}

#[test]
fn a_lane_that_begins_in_the_middle_of_a_stream_loses_nothing() {
    let deep = Search::depth("lane_late", 2).kills(1).schedules(20_000).run(late);
    deep.assert_clean().assert_reached(&[FAST, "the reader caught up", "broken"]);
    Search::priorities("lane_late_pct", 4).kills(2).schedules(6_000).run(late).assert_clean();
}

#[test]
fn a_reader_goes_on_behind_bytes_that_another_has_taken() {
    let deep = Search::depth("lane_drained", 2).schedules(10_000).run(drained);
    deep.assert_clean().assert_reached(&[FAST, "drained"]);
    Search::priorities("lane_drained_pct", 4).schedules(4_000).run(drained).assert_clean();
}

#[test]
fn a_writer_goes_on_when_a_reader_has_made_the_room_that_it_needs() {
    let deep = Search::depth("lane_answered", 2).schedules(10_000).run(answered);
    deep.assert_clean().assert_reached(&["answered", "full"]);
}

#[test]
fn a_handler_that_writes_within_a_write_loses_no_byte() {
    let deep = Search::depth("lane_interrupted", 2).schedules(10_000).run(interrupted);
    deep.assert_clean().assert_reached(&["interrupted", KERNEL]);
    let deep = Search::depth("lane_interrupted_early", 2).schedules(10_000).run(interrupted_early);
    deep.assert_clean().assert_reached(&["interrupted", FAST]);
}

#[test]
fn a_handler_that_comes_to_its_own_threads_pipe_waits_for_nobody() {
    let deep = Search::depth("lane_interrupted_reader", 2).schedules(10_000).run(interrupted_reader);
    deep.assert_clean().assert_reached(&["interrupted", "pushed", KERNEL]);
    Search::priorities("lane_interrupted_reader_pct", 4).schedules(4_000).run(interrupted_reader).assert_clean();
}

#[test]
fn a_demotion_that_may_not_push_loses_nothing() {
    let wide = Search::priorities("lane_refused_pct", 4).schedules(4_000).run(refused);
    wide.assert_clean().assert_reached(&["a push was refused", KERNEL]);
    Search::depth("lane_refused", 2).schedules(10_000).run(refused).assert_clean();
}

#[test]
fn a_call_that_fails_leaves_the_lane_as_it_is() {
    let deep = Search::depth("lane_faults", 2).spurious(2).schedules(10_000).run(faults);
    deep.assert_clean().assert_reached(&[FAST, "a fault", "a reader was interrupted", "a writer was interrupted"]);
    let deep = Search::depth("lane_refusals", 2).schedules(5_000).run(refusals);
    deep.assert_clean().assert_reached(&[FAST, "full"]);
}

#[test]
fn a_writer_is_told_that_nobody_is_left_to_read() {
    let deep = Search::depth("lane_broken", 2).kills(1).schedules(20_000).run(broken);
    deep.assert_clean().assert_reached(&["broken"]);
}

#[test]
fn a_lane_bears_stops_and_stores_that_come_late() {
    for (name, world) in
        [("streams", streams as fn(&World)), ("demoted", demoted), ("demoted_killed", demoted_and_killed)]
    {
        Search::sweep(&format!("lane_{name}_stop")).stops(1).kills(1).resume().share(4).run(world).assert_clean();
        let late = Search::priorities(&format!("lane_{name}_buffers"), 4).store_buffers(4).kills(1);
        late.schedules(2_000).run(world).assert_clean();
    }
}
