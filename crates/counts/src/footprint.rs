//! What ten thousand named pools take of one process, and what one pool takes of its arena.

use chappe::{Arena, ArenaOptions, Pool};
use std::time::Instant;

/// So many pools.
pub const MANY: u32 = 10_000;

/// What was counted.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    /// Descriptors that were open before.
    pub descriptors_before: usize,
    /// And with all the pools.
    pub descriptors_after: usize,
    /// Mappings of the arena's file.
    pub mappings: usize,
    /// Bytes that an arena of 256 members grows by for each pool of one permit that it can have, index and all.
    pub bytes_each: u64,
    /// The same for an arena of the usual size: its objects have wait bits for more members.
    pub bytes_usual: u64,
    /// Milliseconds to make them all.
    pub milliseconds: u128,
}

fn descriptors() -> usize {
    // One of them is the listing's own.
    std::fs::read_dir("/proc/self/fd").map_or(0, |list| list.count() - 1)
}

/// Mappings of this file: known by its inode, since it was mapped before it had a name.
fn mappings(arena: Arena) -> usize {
    use std::os::unix::fs::MetadataExt;
    let inode = arena.path().and_then(|p| std::fs::metadata(p).ok()).map_or(0, |m| m.ino()).to_string();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter(|l| l.split_ascii_whitespace().nth(4) == Some(&inode)).count()
}

/// How many bytes an arena for this many members and objects has.
fn bytes(name: &str, members: u32, objects: u32) -> u64 {
    let options = ArenaOptions { members: Some(members), objects: Some(objects), cells: Some(64), data: Some(64) };
    let arena = Arena::create(name, &options).expect("an arena");
    let bytes = arena.capacity().bytes;
    Arena::remove(name, true).expect("it is ours");
    bytes
}

/// How many bytes an arena grows by for each object that it can have, index and all.
///
/// # Panics
/// When it cannot be made.
pub fn each(members: u32) -> u64 {
    // Powers of two: the index has room for twice as many names, rounded up to one.
    let few = bytes("few", members, 1 << 13);
    (bytes("twice", members, 1 << 14) - few) >> 13
}

/// Makes and uses them.
///
/// # Panics
/// When a pool cannot be made.
pub fn take() -> Footprint {
    let (bytes_each, bytes_usual) = (each(256), each(1024));
    let before = descriptors();
    let options = ArenaOptions { objects: Some(MANY), ..ArenaOptions::default() };
    let arena = Arena::create("crowd", &options).expect("an arena");
    let begun = Instant::now();
    let pools: Vec<Pool> = (0..MANY).map(|n| Pool::create_in(arena, &format!("p{n}"), 1).expect("a pool")).collect();
    let milliseconds = begun.elapsed().as_millis();
    let permits: Vec<_> = pools.iter().map(|p| p.acquire().expect("it is free")).collect();
    let counted = Footprint {
        descriptors_before: before,
        descriptors_after: descriptors(),
        mappings: mappings(arena),
        bytes_each,
        bytes_usual,
        milliseconds,
    };
    drop(permits);
    drop(pools);
    Arena::remove("crowd", true).expect("it is ours");
    counted
}
