//! Five stages on blocks of 256 numbers, as a graph and as five calls by hand.
//!
//! Each multiplies in place. A source makes the block, in both; nothing else is done. By hand the five functions are not inlined into each other: they stand for
//! five stages that somebody else wrote.

use crate::table::{Aim, Table, times};
use chappe::stream::{Block, Body, Fault, Graph, Kind, Kinds, Options, Plan, Source, Type};
use std::hint::black_box;
use std::time::Instant;

const BLOCK: usize = 256;
const BLOCKS: u64 = 200_000;
const BY: [f32; 5] = [1.1, 0.9, 1.2, 0.8, 1.05];

#[inline(never)]
fn by_hand(block: &mut [f32], by: f32) {
    block.iter_mut().for_each(|x| *x *= by);
}

/// Nanoseconds of a sample through five calls.
fn hand() -> f64 {
    let began = Instant::now();
    for _ in 0..BLOCKS {
        let mut block = Block::f32(black_box(vec![0.5; BLOCK]));
        for by in BY {
            by_hand(black_box(block.numbers()), black_box(by));
        }
        black_box(block);
    }
    began.elapsed().as_nanos() as f64 / (BLOCKS as f64 * BLOCK as f64)
}

/// The same through the five stages of a graph.
fn graph() -> f64 {
    struct Make(u64);
    impl Source for Make {
        fn get(&mut self) -> Result<Option<Block>, Fault> {
            self.0 += 1;
            Ok((self.0 <= BLOCKS).then(|| Block::f32(black_box(vec![0.5; BLOCK]))))
        }
    }
    let mut kinds = Kinds::standard();
    kinds.add(Kind::new("make", "", "blocks of one half", |_| {
        Ok(Plan::source(Type::sound(1, 48_000.0), || Ok(Body::Source(Box::new(Make(0))))))
    }));
    let stages: String = BY.iter().map(|by| format!("gain {by} | ")).collect();
    let graph = Graph::with(&format!("make | {stages}null"), Options { kinds, ..Options::default() });
    let graph = graph.unwrap_or_else(|e| panic!("{e}"));
    let began = Instant::now();
    graph.run().unwrap_or_else(|e| panic!("{e}")).wait().unwrap_or_else(|e| panic!("{e}"));
    began.elapsed().as_nanos() as f64 / (BLOCKS as f64 * BLOCK as f64)
}

/// Measures and prints.
pub fn measure(runs: usize) -> Vec<Aim> {
    // Caches and the allocator are warm then.
    hand();
    graph();
    let (mut hands, mut graphs) = (Vec::new(), Vec::new());
    for round in 0..2 * runs + 1 {
        if round % 2 == 0 {
            hands.push(hand());
            graphs.push(graph());
        } else {
            graphs.push(graph());
            hands.push(hand());
        }
    }
    let ns = |n: f64| format!("{n:.3} ns");
    let table = Table::of(
        "five f32 stages, blocks of 256, a sample",
        vec![("calls by hand".into(), hands), ("graph".into(), graphs)],
    );
    print!("{}", table.report());
    let row = table.row("graph");
    println!(
        "  a sample in the graph: {} at the least, {} in the median\n",
        ns(row.quantile(0.0)),
        ns(row.quantile(0.5))
    );
    vec![
        Aim::at_most("five f32 stages, a sample", 0.5, row.quantile(0.5), ns),
        Aim::at_most("five f32 stages, by calls by hand", 1.1, table.ratio("graph"), times),
    ]
}
