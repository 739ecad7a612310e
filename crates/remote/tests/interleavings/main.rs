//! The protocol of pools under every interleaving of a few clients, with deaths, stops and lost answers at each step.
//!
//! Each scene is searched whole: all its states, of which the engine is a model ([`model`]). What must hold is checked in each state, and when
//! nothing goes on by itself ([`world`]). Large scenes are walked at random by the tests that are storms.

mod lifetimes;
mod model;
mod scenes;
mod tubes;
mod world;

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use world::{Move, World};

/// Says how a state was reached, if a promise is broken there.
struct Path<M: Debug>(Vec<M>);

impl<M: Debug> Drop for Path<M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("after these moves: {:?}", self.0);
        }
    }
}

/// What can be searched.
trait Scene: Clone + Hash {
    type Move: Copy + Debug;

    /// The moves of a state, of which it is checked what must hold at rest.
    fn look(&self) -> Vec<Self::Move>;

    /// Makes one, and checks what must hold in each state.
    fn make(&mut self, step: Self::Move);
}

impl Scene for World {
    type Move = Move;

    fn look(&self) -> Vec<Move> {
        look(self)
    }

    fn make(&mut self, step: Move) {
        World::make(self, step);
    }
}

/// Visits each state of a scene; answers how many there are.
fn search<S: Scene>(scene: S) -> usize {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut seen = HashSet::from([hasher.hash_one(&scene)]);
    let (mut path, mut todo) = (Path(vec![]), vec![(scene, 0, None)]);
    while let Some((mut world, depth, step)) = todo.pop() {
        path.0.truncate(depth);
        if let Some(step) = step {
            path.0.push(step);
            world.make(step);
            if !seen.insert(hasher.hash_one(&world)) {
                continue;
            }
        }
        let moves = world.look();
        let depth = path.0.len();
        todo.extend(moves.into_iter().map(|step| (world.clone(), depth, Some(step))));
    }
    seen.len()
}

/// The moves of a state, of which it is checked what must hold at rest.
fn look(world: &World) -> Vec<Move> {
    let moves = world.moves();
    let goes = |step: &Move| matches!(step, Move::Goes(_) | Move::News(..) | Move::Helps(_));
    if !moves.iter().any(goes) {
        world.at_rest(moves.iter().any(|step| matches!(step, Move::Continued(_) | Move::Ends(_))));
    }
    moves
}

/// Makes random moves until the scene is over; answers how many.
fn walk(scene: &World, seed: u64) -> usize {
    let (mut world, mut path, mut random) = (scene.clone(), Path(vec![]), seed.wrapping_mul(2).wrapping_add(1));
    loop {
        let moves = look(&world);
        if moves.is_empty() {
            return path.0.len();
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let step = moves[(random % moves.len() as u64) as usize];
        path.0.push(step);
        world.make(step);
    }
}
