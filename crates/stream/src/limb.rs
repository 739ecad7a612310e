//! Limbs that run: a limb is a chain of stages that call each other, and what follows the last of them (its tail).
//!
//! A block goes through stage by stage on the caller's thread. A loop calls the stages that change blocks in place
//! ([`Stage::alter`]), and the block is not moved. Any other stage gets the block and a callout; the callout calls the
//! rest of the limb.

use crate::kind::WhenFull;
use crate::process::InQueue;
use crate::queue::{Getter, Putter, Refused};
use crate::seat::{Callout, Seat, alter, end, put};
use crate::stage::{Fault, Stage};
use crate::types::Block;
use chappe_plat::atomic::Ordering;
use chappe_sync::tube;
use std::collections::VecDeque;
use std::sync::Arc;

/// A stage at its seat.
pub struct Slot {
    /// The stage.
    pub stage: Box<dyn Stage>,
    /// Its seat.
    pub seat: Arc<Seat>,
    /// Whether it changes blocks in place.
    pub alters: bool,
}

pub struct LiveLimb {
    pub slots: Vec<Slot>,
    pub tail: LiveTail,
}

pub struct Into {
    pub putter: Putter<Block>,
    /// To drop the oldest.
    pub getter: Option<Getter<Block>>,
    pub full: WhenFull,
    pub seat: Arc<Seat>,
    pub gone: bool,
    /// What is put is written down, in a part of a graph.
    pub written: Option<InQueue>,
}

/// A limb that several threads call: the thread that has the box from the tube is inside.
#[derive(Clone)]
pub struct Lock {
    pub take: tube::Receiver<Box<LiveLimb>>,
    pub back: tube::Sender<Box<LiveLimb>>,
    /// How many threads have not ended.
    pub left: Arc<chappe_plat::atomic::AtomicU64>,
}

pub enum LiveTail {
    End,
    Fork(Vec<LiveLimb>),
    Share(Vec<LiveLimb>, usize),
    Queue(Into),
    Locked(Lock),
    Collect(VecDeque<Block>),
}

/// Puts a block through stages, and into what is behind them.
pub fn through<'a>(
    mut slots: &'a mut [Slot],
    tail: &mut LiveTail,
    mut before: Option<&'a Seat>,
    mut block: Block,
) -> Result<(), Fault> {
    while let Some((Slot { stage, seat, alters }, rest)) = slots.split_first_mut() {
        let seat: &Seat = seat;
        if *alters && alter(stage, seat, &mut block) {
            (slots, before) = (rest, Some(seat));
            continue;
        }
        // What comes of a block that comes again does so, too.
        let again = block.again;
        let mut out = Callout {
            seat,
            cut: false,
            to: |mut block: Block| {
                block.again |= again;
                through(rest, tail, Some(seat), block)
            },
        };
        let done = put(stage, seat, block, &mut out);
        // Another stage may have been seated.
        *alters = stage.alters();
        return done;
    }
    tail.put(before, block)
}

impl LiveLimb {
    pub fn put(&mut self, before: Option<&Seat>, block: Block) -> Result<(), Fault> {
        through(&mut self.slots, &mut self.tail, before, block)
    }

    /// Nothing more comes: each stage hands on what it has, the first one first.
    pub fn end(&mut self) -> Result<(), Fault> {
        // What is behind has seen enough, so what came was cut off somewhere.
        let cut = self.is_done();
        for at in 0..self.slots.len() {
            let (before, rest) = self.slots.split_at_mut(at + 1);
            let Slot { stage, seat, .. } = &mut before[at];
            let (seat, tail): (&Seat, _) = (seat, &mut self.tail);
            let mut out = Callout { seat, cut, to: |block| through(rest, tail, Some(seat), block) };
            end(stage, seat, &mut out)?;
        }
        self.tail.end()
    }

    /// Whether nothing that is put here goes anywhere.
    pub fn is_done(&self) -> bool {
        self.slots.iter().any(|s| s.seat.is_done()) || self.tail.is_done()
    }

    pub fn fill(&self) -> f64 {
        match &self.tail {
            LiveTail::Queue(into) => into.putter.fill(),
            LiveTail::Fork(limbs) | LiveTail::Share(limbs, _) => limbs.iter().map(LiveLimb::fill).fold(0.0, f64::max),
            _ => 0.0,
        }
    }

    pub fn tell_fill(&mut self, fill: f64) {
        self.slots.iter_mut().for_each(|s| s.stage.fill(fill));
        if let LiveTail::Fork(limbs) | LiveTail::Share(limbs, _) = &mut self.tail {
            limbs.iter_mut().for_each(|l| l.tell_fill(fill));
        }
    }
}

impl LiveTail {
    pub fn put(&mut self, before: Option<&Seat>, block: Block) -> Result<(), Fault> {
        match self {
            LiveTail::End => {
                // The default of a callout that is not connected.
                if let Some(seat) = before {
                    seat.drop_elements(block.len());
                }
                Ok(())
            }
            LiveTail::Queue(into) => into.put(block),
            LiveTail::Fork(limbs) => {
                let Some((last, others)) = limbs.split_last_mut() else { return Ok(()) };
                for limb in others {
                    if !limb.is_done() {
                        limb.put(before, block.clone())?;
                    }
                }
                if last.is_done() { Ok(()) } else { last.put(before, block) }
            }
            LiveTail::Share(limbs, turn) => {
                for _ in 0..limbs.len() {
                    *turn = (*turn + 1) % limbs.len();
                    if !limbs[*turn].is_done() {
                        return limbs[*turn].put(before, block);
                    }
                }
                Ok(())
            }
            LiveTail::Locked(lock) => {
                let Ok(mut limb) = lock.take.recv() else { return Ok(()) };
                let done = limb.put(before, block);
                let _ = lock.back.send(limb);
                done
            }
            LiveTail::Collect(kept) => {
                kept.push_back(block);
                Ok(())
            }
        }
    }

    pub fn end(&mut self) -> Result<(), Fault> {
        match self {
            LiveTail::Fork(limbs) | LiveTail::Share(limbs, _) => limbs.iter_mut().try_for_each(LiveLimb::end),
            // AcqRel: the last to come sees what all others put.
            LiveTail::Locked(lock) if lock.left.fetch_sub(1, Ordering::AcqRel) == 1 => match lock.take.recv() {
                Ok(mut limb) => limb.end(),
                Err(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }

    pub fn is_done(&self) -> bool {
        match self {
            LiveTail::Queue(into) => into.gone,
            LiveTail::Fork(limbs) | LiveTail::Share(limbs, _) => {
                !limbs.is_empty() && limbs.iter().all(LiveLimb::is_done)
            }
            _ => false,
        }
    }
}

impl Into {
    fn write(&self, elements: i64) {
        if let Some(written) = &self.written {
            written.put(elements);
        }
    }

    pub fn put(&mut self, mut block: Block) -> Result<(), Fault> {
        self.write(block.len() as i64);
        loop {
            let refused = match self.full {
                WhenFull::Wait => self.putter.put(block),
                _ => self.putter.try_put(block),
            };
            match refused {
                Ok(()) => return Ok(()),
                Err((Refused::Gone, block)) => {
                    self.write(-(block.len() as i64));
                    // The reader wants no more, or has failed, which the graph tells.
                    self.gone = true;
                    return Ok(());
                }
                Err((Refused::Now, back)) => {
                    let oldest = self.getter.as_ref().filter(|_| self.full == WhenFull::DropOld).map(Getter::try_get);
                    match oldest {
                        Some(Ok(oldest)) => {
                            self.write(-(oldest.len() as i64));
                            self.seat.drop_elements(oldest.len());
                        }
                        Some(Err(_)) => {}
                        None => {
                            self.write(-(back.len() as i64));
                            self.seat.drop_elements(back.len());
                            return Ok(());
                        }
                    }
                    block = back;
                }
            }
        }
    }
}
