//! A seat: the place of a node in a running graph. It holds the node's counts and, during a re-link, the stage that
//! replaces the current one.
//!
//! [`Seat::replace`] leaves the new stage at the seat and sets `waits`. The thread that brings the node's next block
//! sees `waits`, lets the old stage end, and installs the new one, before it passes the block on. So no block is lost,
//! processed twice, or processed by half of each.
//!
//! - I1: only the thread that runs the node writes its counts (except `dropped`, which any thread may add to).
//! - I2: `waits` is a hint; the lock of `next` decides. A thread that misses it takes the new stage over at a later
//!   block, or at the node's end.

use crate::calls::Calls;
use crate::counted::Counts;
use crate::process::Shared;
use crate::stage::{Fault, Lost, Out, Source, Stage};
use crate::types::Block;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::clock;
use std::sync::{Arc, Mutex, PoisonError};

/// What all seats of a graph know.
#[derive(Default)]
pub struct Floor {
    /// 1: all threads of the graph must stop.
    pub stop: AtomicU32,
    /// Threads measure time.
    pub timed: AtomicU32,
    /// The first fault, and at which node.
    pub fault: Mutex<Option<(usize, String)>>,
    /// The callout `late`: by how many seconds.
    pub late: Calls<f64>,
    /// The callout `lost`.
    pub lost: Calls<Lost>,
}

impl Floor {
    /// A node has failed: records the first fault, and stops all threads of the graph.
    pub fn fail(&self, node: usize, why: &str) {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.get_or_insert_with(|| (node, why.to_owned()));
        // Relaxed: a thread that stops one block later does no harm; the fault is read under its lock.
        self.stop.store(1, Ordering::Relaxed);
    }

    /// Whether something has failed.
    pub fn failed(&self) -> bool {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether to stop.
    pub fn stops(&self) -> bool {
        // Relaxed: as in `fail`.
        self.stop.load(Ordering::Relaxed) != 0
    }
}

/// A node's seat.
pub struct Seat {
    /// The node.
    pub node: usize,
    /// What people call it.
    pub label: String,
    /// Elements of a frame that it gives.
    pub frame: u64,
    /// What is common to all.
    pub floor: Arc<Floor>,
    blocks: AtomicU64,
    elements: AtomicU64,
    dropped: AtomicU64,
    late: AtomicU64,
    latest: AtomicU64,
    again: AtomicU64,
    broken: AtomicU64,
    replaced: AtomicU64,
    ns: AtomicU64,
    done: AtomicU32,
    begun: AtomicU32,
    waits: AtomicU32,
    /// Where its counts are written down, if this is a part of a graph.
    shared: Option<Shared>,
    next: Mutex<Option<Box<dyn Stage>>>,
    says: Mutex<Option<String>>,
}

/// Adds to a count that one thread at a time writes.
fn add(word: &AtomicU64, n: u64) {
    // Relaxed: counts, read by people; the sitting thread alone writes.
    word.store(word.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl Seat {
    /// An empty one. Of a part that was begun anew it goes on with what was counted before.
    pub fn new(node: usize, label: String, frame: u64, floor: Arc<Floor>, shared: Option<Shared>) -> Seat {
        let zero = || AtomicU64::new(0);
        let before = shared.as_ref().map_or_else(Counts::default, |s| s.counts(node));
        let is_begun = shared.as_ref().is_some_and(|s| s.is_begun(node));
        Seat {
            node,
            label,
            frame: frame.max(1),
            floor,
            blocks: AtomicU64::new(before.blocks),
            elements: AtomicU64::new(before.elements),
            dropped: AtomicU64::new(before.dropped),
            late: AtomicU64::new(before.late),
            latest: AtomicU64::new(before.latest.to_bits()),
            again: AtomicU64::new(before.again),
            broken: AtomicU64::new(before.broken),
            replaced: zero(),
            ns: zero(),
            done: AtomicU32::new(0),
            begun: AtomicU32::new(is_begun.into()),
            waits: AtomicU32::new(0),
            shared,
            next: Mutex::new(None),
            says: Mutex::new(None),
        }
    }

    /// Leaves a body that takes over at the next block.
    pub fn replace(&self, stage: Box<dyn Stage>) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(stage);
        // Release: the thread that reads it takes the body under its lock, which orders the two as well.
        self.waits.store(1, Ordering::Release);
    }

    /// Whether nothing more is wanted here.
    pub fn is_done(&self) -> bool {
        // Relaxed: the thread that asks is the one that said so.
        self.done.load(Ordering::Relaxed) != 0
    }

    /// Counts a block.
    pub fn count(&self, block: &Block) {
        add(&self.blocks, 1);
        add(&self.elements, block.len() as u64);
        if block.again {
            add(&self.again, 1);
        }
        if let Some(shared) = &self.shared {
            // Relaxed: this thread alone writes them.
            let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
            shared.count(self.node, read(&self.blocks), read(&self.elements), read(&self.again));
        }
    }

    /// Counts elements as frames that are given up. Any thread.
    pub fn drop_elements(&self, elements: usize) {
        self.drop_frames(elements as u64 / self.frame);
    }

    /// Counts frames that are given up. Any thread.
    pub fn drop_frames(&self, frames: u64) {
        // Relaxed: a count.
        let before = self.dropped.fetch_add(frames, Ordering::Relaxed);
        if let Some(shared) = &self.shared {
            shared.dropped(self.node, before + frames);
        }
    }

    /// Counts an input that has ended before it was done.
    fn broken(&self) {
        add(&self.broken, 1);
        if let Some(shared) = &self.shared {
            // Relaxed: this thread alone writes it.
            shared.broken(self.node, self.broken.load(Ordering::Relaxed));
        }
    }

    fn late(&self, by: f64) {
        add(&self.late, 1);
        // Relaxed: a count, as above.
        let most = f64::from_bits(self.latest.load(Ordering::Relaxed)).max(by);
        self.latest.store(most.to_bits(), Ordering::Relaxed);
        if let Some(shared) = &self.shared {
            shared.late(self.node, self.late.load(Ordering::Relaxed), most.to_bits());
        }
        self.floor.late.tell(&self.label, by);
    }

    fn lost(&self, what: Lost) {
        self.floor.lost.tell(&self.label, what);
    }

    fn is_begun(&self) -> bool {
        // Relaxed: the thread that runs the node alone writes it.
        self.begun.load(Ordering::Relaxed) != 0
    }

    fn begun(&self) {
        // Relaxed: as above.
        self.begun.store(1, Ordering::Relaxed);
        if let Some(shared) = &self.shared {
            shared.begun(self.node);
        }
    }

    fn finish(&self) {
        // Relaxed: as in `is_done`.
        self.done.store(1, Ordering::Relaxed);
    }

    /// What its stage says.
    pub fn says(&self) -> Option<String> {
        self.says.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        // Relaxed: counts for people.
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Counts {
            blocks: read(&self.blocks),
            elements: read(&self.elements),
            dropped: read(&self.dropped),
            late: read(&self.late),
            latest: f64::from_bits(read(&self.latest)),
            again: read(&self.again),
            broken: read(&self.broken),
            replaced: read(&self.replaced),
            ns: read(&self.ns),
        }
    }
}

/// Gives the stage in a seat a block.
#[inline]
pub fn put(stage: &mut Box<dyn Stage>, seat: &Seat, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
    // Relaxed: a hint; `take_over` takes the lock.
    if seat.waits.load(Ordering::Relaxed) != 0 {
        take_over(stage, seat, out)?;
    }
    seat.count(&block);
    // Relaxed: a switch for people.
    let began = (seat.floor.timed.load(Ordering::Relaxed) != 0).then(clock::now);
    let done = stage.put(block, out);
    if let Some(began) = began {
        add(&seat.ns, clock::now() - began);
    }
    done.inspect_err(|e| seat.floor.fail(seat.node, &e.0))
}

/// Lets the stage in a seat change a block in place. False: a new stage waits at the seat, or time is measured, so the
/// caller must use `put`.
#[inline]
pub fn alter(stage: &mut Box<dyn Stage>, seat: &Seat, block: &mut Block) -> bool {
    // Relaxed: as in `put`.
    if seat.waits.load(Ordering::Relaxed) != 0 || seat.floor.timed.load(Ordering::Relaxed) != 0 {
        return false;
    }
    seat.count(block);
    stage.alter(block);
    true
}

/// Nothing more comes to the stage in a seat.
pub fn end(stage: &mut Box<dyn Stage>, seat: &Seat, out: &mut dyn Out) -> Result<(), Fault> {
    // Relaxed: as in `put`.
    if seat.waits.load(Ordering::Relaxed) != 0 {
        take_over(stage, seat, out)?;
    }
    let done = stage.end(out).inspect_err(|e| seat.floor.fail(seat.node, &e.0));
    *seat.says.lock().unwrap_or_else(PoisonError::into_inner) = stage.says();
    done
}

#[cold]
fn take_over(stage: &mut Box<dyn Stage>, seat: &Seat, out: &mut dyn Out) -> Result<(), Fault> {
    // Relaxed: a later `replace` sets it again; the lock orders the body.
    seat.waits.store(0, Ordering::Relaxed);
    let next = seat.next.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(next) = next {
        stage.end(out).inspect_err(|e| seat.floor.fail(seat.node, &e.0))?;
        *stage = next;
        add(&seat.replaced, 1);
    }
    Ok(())
}

/// The callout of the stage in a seat.
pub struct Callout<'a, P> {
    /// The seat.
    pub seat: &'a Seat,
    /// What comes in has been cut off: see [`Out::is_cut`].
    pub cut: bool,
    /// What it is linked to.
    pub to: P,
}

impl<P: FnMut(Block) -> Result<(), Fault>> Out for Callout<'_, P> {
    #[inline]
    fn put(&mut self, block: Block) -> Result<(), Fault> {
        (self.to)(block)
    }

    fn drop_frames(&mut self, count: u64) {
        self.seat.drop_frames(count);
    }

    fn finish(&mut self) {
        self.seat.finish();
    }

    fn late(&mut self, by: f64) {
        self.seat.late(by);
    }

    fn lost(&mut self, what: Lost) {
        self.seat.lost(what);
    }

    fn is_begun(&self) -> bool {
        self.seat.is_begun()
    }

    fn begun(&mut self) {
        self.seat.begun();
    }

    fn is_stopped(&self) -> bool {
        self.seat.floor.stops()
    }

    fn is_cut(&self) -> bool {
        self.cut || self.seat.floor.stops()
    }
}

/// A source in its seat.
pub struct SourceSlot {
    /// The source.
    pub source: Box<dyn Source>,
    /// Where it sits.
    pub seat: Arc<Seat>,
    /// Whether a block of it is in work.
    busy: bool,
    /// Blocks to skip that were finished before the process was killed.
    skip: u64,
    /// The one behind them had been begun.
    begun: bool,
}

impl SourceSlot {
    /// A source, at its seat; `replays`: begun anew, it gives the same blocks from its begin.
    pub fn new(source: Box<dyn Source>, seat: Arc<Seat>, replays: bool) -> SourceSlot {
        let finished = seat.shared.as_ref().filter(|_| replays).map_or(0, |s| s.finished(seat.node));
        // Each block that was given again was counted again.
        let different = seat.counts().blocks - seat.counts().again;
        let begun = replays && seat.shared.is_some() && different > finished;
        SourceSlot { source, seat, busy: false, skip: finished, begun }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<Block>, Fault> {
        let got = self.source.get().inspect_err(|e| self.seat.floor.fail(self.seat.node, &e.0));
        match self.source.dropped() {
            0 => {}
            frames => self.seat.drop_frames(frames),
        }
        match &got {
            Ok(None) if self.source.is_broken() => self.seat.broken(),
            Ok(Some(block)) if block.is_empty() => {
                self.source.lost().into_iter().for_each(|what| self.seat.lost(what));
            }
            _ => {}
        }
        got
    }
}

impl Source for SourceSlot {
    #[inline]
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        if std::mem::take(&mut self.busy)
            && let Some(shared) = &self.seat.shared
        {
            // Relaxed: this thread alone writes it.
            shared.finish(self.seat.node, self.seat.elements.load(Ordering::Relaxed));
        }
        while self.skip > 0 {
            self.skip -= 1;
            if self.next()?.is_none() {
                return Ok(None);
            }
        }
        let mut got = self.next()?;
        if let Some(block) = &mut got {
            block.again |= std::mem::take(&mut self.begun);
            self.seat.count(block);
            self.busy = true;
        }
        Ok(got)
    }
}

impl Drop for SourceSlot {
    fn drop(&mut self) {
        *self.seat.says.lock().unwrap_or_else(PoisonError::into_inner) = self.source.says();
    }
}
