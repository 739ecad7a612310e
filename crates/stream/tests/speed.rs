//! What a chain of stages costs beside the same calls by hand, in one run: the row "five f32 stages, block 256".

use chappe_stream::{Block, Body, Call, Data, Fault, Graph, Kept, Kind, Kinds, Options, Out, Plan, Stage, text};
use std::time::Instant;

const BLOCK: usize = 256;
const BLOCKS: u64 = 400_000;

struct By(f32);

impl Stage for By {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        block.numbers().iter_mut().for_each(|x| *x *= self.0);
        out.put(block)
    }
}

#[inline(never)]
fn by_hand(block: &mut [f32], by: f32) {
    block.iter_mut().for_each(|x| *x *= by);
}

/// Seconds of so many blocks through five calls.
fn hand() -> f64 {
    let mut block = Block::f32(vec![0.5; BLOCK]);
    let began = Instant::now();
    for _ in 0..BLOCKS {
        for by in [1.1, 0.9, 1.2, 0.8, 1.05] {
            by_hand(std::hint::black_box(block.numbers()), by);
        }
        // The source makes each block anew; so does this.
        block = Block::f32(std::hint::black_box(vec![0.5; BLOCK]));
    }
    began.elapsed().as_secs_f64()
}

/// Seconds of the same as a graph of a source, five stages and a sink.
fn graph() -> f64 {
    struct Make(u64);
    impl chappe_stream::Source for Make {
        fn get(&mut self) -> Result<Option<Block>, Fault> {
            self.0 += 1;
            Ok((self.0 <= BLOCKS).then(|| Block::f32(std::hint::black_box(vec![0.5; BLOCK]))))
        }
    }
    let mut kinds = Kinds::standard();
    kinds.add(Kind::new("make", "", "", |_| {
        Ok(Plan::source(chappe_stream::Type::sound(1, 48_000.0), || Ok(Body::Source(Box::new(Make(0))))))
    }));
    let graph = Graph::with(
        "make | gain 1.1 | gain 0.9 | gain 1.2 | gain 0.8 | gain 1.05 | null",
        Options { kinds, ..Options::default() },
    );
    let began = Instant::now();
    graph.unwrap().run().unwrap().wait().unwrap();
    began.elapsed().as_secs_f64()
}

#[test]
#[ignore = "storm: measures; run it in release"]
fn five_stages_cost_little_more_than_five_calls() {
    let samples = (BLOCKS * BLOCK as u64) as f64;
    let (mut hands, mut graphs) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        hands.push(hand());
        graphs.push(graph());
    }
    let least = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
    let (hand, graph) = (least(&hands), least(&graphs));
    println!(
        "by hand {:.3} ns a sample, graph {:.3} ns a sample, {:.3} x",
        hand * 1e9 / samples,
        graph * 1e9 / samples,
        graph / hand
    );
    assert!(graph / hand < 1.5, "{:.3}", graph / hand);
}

#[test]
fn a_stage_that_is_driven_by_hand_is_the_same() {
    let lines = text::parse("gain 0.5").unwrap();
    let inputs = [chappe_stream::Type::sound(1, 48_000.0)];
    let plan = Kinds::standard().plan(&Call::new(&lines[0][0], &inputs, true)).unwrap();
    let Body::Stage(mut gain) = (plan.make)().unwrap() else { panic!() };
    let (mut one, mut other) = (Kept::default(), Kept::default());
    gain.put(Block::f32(vec![1.0, 2.0]), &mut one).unwrap();
    By(0.5).put(Block::f32(vec![1.0, 2.0]), &mut other).unwrap();
    assert_eq!(one.blocks, other.blocks);
    assert!(matches!(&one.blocks[0].data, Data::F32(d) if *d == [0.5, 1.0]));
}
