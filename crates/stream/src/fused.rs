//! Stages that become one loop: queries over records that call each other (Synthesis, 3.2.2: collapsing layers).
//!
//! A `where` or `select` is a query over each block. Where one calls the next, in one process, both are one query ([`Bound::then`]): filter,
//! expressions, filter and expressions again in one pass over the records, and no row is written in between. The first of them does the work; the
//! others hand on what comes. What comes out is the same, to the bit.
//!
//! Every stage but the first counts the rows that the whole query gives: the rows that it would have received are never
//! made.
//!
//! - I1: a block that went through the one loop goes through none of its stages' own, and a block that did not goes through all of them. The first
//!   stage decides, block by block, and notes it; the others, which are called within that call, read the note.
//! - I2: if one of them is replaced while data flows, the loop is taken apart for good before the new stage is
//!   installed.

use crate::graph::Graph;
use crate::node::rows::queries;
use crate::stage::{Fault, Out, Stage};
use crate::types::Block;
use chappe_plat::atomic::{AtomicU32, Ordering};
use chappe_synth::Bound;
use std::collections::HashMap;
use std::sync::Arc;

/// The stages of a limb, in runs that are one loop each: how many, and what they come to; nothing of a stage alone.
pub(crate) fn loops(graph: &Graph, nodes: &[usize]) -> Vec<(usize, Option<Bound>)> {
    let mut all: Vec<(usize, Option<Bound>)> = Vec::new();
    let mut open: Option<Bound> = None;
    for at in nodes {
        let query = graph.nodes[*at].query.as_ref();
        let both = open.take().zip(query).and_then(|(first, second)| first.then(second).ok());
        match (all.last_mut(), both) {
            (Some((count, whole)), Some(both)) => {
                *count += 1;
                *whole = Some(both.clone());
                open = Some(both);
            }
            _ => {
                all.push((1, None));
                open = query.cloned();
            }
        }
    }
    all
}

/// What the stages of one loop have in common.
#[derive(Default)]
pub(crate) struct Common {
    /// One of them was replaced: each works for itself.
    apart: AtomicU32,
    /// The block in work goes through the one loop.
    whole: AtomicU32,
}

/// Whose stages are in a loop, and whether they begin it: by node.
pub(crate) type Members = HashMap<usize, (Arc<Common>, bool)>;

/// A stage of a loop: the first has the loop, too.
struct Member {
    own: Box<dyn Stage>,
    common: Arc<Common>,
    is_first: bool,
    whole: Option<Box<dyn Stage>>,
}

/// The stages of a loop, each with its own way to work.
pub(crate) fn members(stages: Vec<(usize, Box<dyn Stage>)>, whole: &Bound, all: &mut Members) -> Vec<Box<dyn Stage>> {
    let common = Arc::new(Common::default());
    let mut whole = queries(whole).ok();
    let member = |(node, own): (usize, Box<dyn Stage>)| {
        let is_first = whole.is_some();
        all.insert(node, (Arc::clone(&common), is_first));
        Box::new(Member { own, common: Arc::clone(&common), is_first, whole: whole.take() }) as Box<dyn Stage>
    };
    stages.into_iter().map(member).collect()
}

/// Another stage for the place of one of a loop, which is no loop from here on: I2.
pub(crate) fn instead(stage: Box<dyn Stage>, of: &(Arc<Common>, bool)) -> Box<dyn Stage> {
    let (common, is_first) = (Arc::clone(&of.0), of.1);
    // Release: before the new stage takes its seat, whose lock orders it anyway.
    common.apart.store(1, Ordering::Release);
    Box::new(Member { own: stage, common, is_first, whole: None })
}

impl Stage for Member {
    fn put(&mut self, block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        if self.is_first {
            // Acquire: as where it is stored.
            let is_apart = self.common.apart.load(Ordering::Acquire) != 0;
            let whole = self.whole.as_mut().filter(|_| !is_apart);
            // Relaxed: the others are called by this thread, within this call.
            self.common.whole.store(whole.is_some().into(), Ordering::Relaxed);
            return match whole {
                Some(whole) => whole.put(block, out),
                None => self.own.put(block, out),
            };
        }
        // Relaxed: as above.
        if self.common.whole.load(Ordering::Relaxed) != 0 { out.put(block) } else { self.own.put(block, out) }
    }

    fn end(&mut self, out: &mut dyn Out) -> Result<(), Fault> {
        if self.is_first {
            // Relaxed: as above. What a new first stage hands on at its end goes through the others' own.
            self.common.whole.store(0, Ordering::Relaxed);
        }
        self.own.end(out)
    }

    fn fill(&mut self, fill: f64) {
        self.own.fill(fill);
    }

    fn says(&self) -> Option<String> {
        self.own.says()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Data;
    use chappe_synth::{Query, Schema};

    fn keeps(condition: &str) -> Bound {
        let schema = Schema::parse("n: u32").unwrap();
        Query::filter(&schema, condition).unwrap().bind(&[]).unwrap()
    }

    fn stage(condition: &str) -> Box<dyn Stage> {
        queries(&keeps(condition)).unwrap()
    }

    fn numbers(block: &Block) -> Vec<u32> {
        let Data::Bytes(bytes) = &block.data else { panic!("no records") };
        bytes.as_chunks().0.iter().map(|n| u32::from_le_bytes(*n)).collect()
    }

    /// Hands blocks to what comes next.
    struct To<F>(F);

    impl<F: FnMut(Block)> Out for To<F> {
        fn put(&mut self, block: Block) -> Result<(), Fault> {
            (self.0)(block);
            Ok(())
        }
        fn drop_frames(&mut self, _count: u64) {}
        fn finish(&mut self) {}
        fn late(&mut self, _by: f64) {}
    }

    /// What comes out of one block of 0 to 59. `between`: what happens when the first stage has done its part.
    fn through(pair: &mut [Box<dyn Stage>], between: impl FnOnce(&mut Box<dyn Stage>)) -> Vec<u32> {
        let [first, second] = pair else { panic!("two stages") };
        let (mut out, mut between) = (Vec::new(), Some(between));
        let mut last = To(|block: Block| out.extend(numbers(&block)));
        let mut middle = To(|block: Block| {
            if let Some(between) = between.take() {
                between(second);
            }
            second.put(block, &mut last).unwrap();
        });
        first.put(Block::bytes((0..60u32).flat_map(u32::to_le_bytes).collect()), &mut middle).unwrap();
        out
    }

    fn without(divisors: [u32; 2]) -> Vec<u32> {
        (0..60u32).filter(|n| divisors.iter().all(|d| !n.is_multiple_of(*d))).collect()
    }

    #[test]
    fn a_block_past_the_loop_goes_through_no_stage_added_meanwhile() {
        let (a, b) = ("n % 2u != 0u", "n % 3u != 0u");
        let (mut all, whole) = (Members::new(), keeps(a).then(&keeps(b)).unwrap());
        let mut pair = members(vec![(0, stage(a)), (1, stage(b))], &whole, &mut all);
        assert_eq!(through(&mut pair, |_| ()), without([2, 3]));
        // I1: it has been through the old second stage already, as part of the loop.
        let seated = through(&mut pair, |second| *second = instead(stage("n % 7u != 0u"), &all[&1]));
        assert_eq!(seated, without([2, 3]), "a block went through both second stages");
        assert_eq!(through(&mut pair, |_| ()), without([2, 7]));
        // I2: the new one is no part of a loop; the block that is in work when it goes has been through the first stage alone.
        let seated = through(&mut pair, |second| *second = instead(stage("n % 5u != 0u"), &all[&1]));
        assert_eq!(seated, without([2, 5]));
        pair[0] = instead(stage("n % 11u != 0u"), &all[&0]);
        assert_eq!(through(&mut pair, |_| ()), without([11, 5]));
    }
}
