//! What a channel with room for one number takes of memory.
//!
//! Ten thousand are made in a process of its own, which grows; all of its memory counts, whichever allocator it comes from. As many have
//! been made before, in what was free. Huge pages are refused: they would come all at once.
//!
//! A named tube takes its room from an arena, which says how much.

use crate::footprint::each;
use crate::process::{Child, shared};
use crate::table::{Aim, Table, Unit};
use crate::tube::channel::{Channel, Crossbeam, Flume, Kanal, Rtrb, Std};
use crate::tube::ours::{Mpmc, Spsc};
use chappe::tube::named::{Tube, TubeOptions};
use chappe::{Arena, ArenaOptions};
use std::sync::atomic::{AtomicU64, Ordering};

const MANY: usize = 10_000;
/// The number itself.
const ROOM: f64 = size_of::<u64>() as f64;

/// Bytes of this process that lie in memory, to the page.
fn resident() -> u64 {
    let all = std::fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel tells");
    let line = all.lines().find_map(|l| l.strip_prefix("Rss:")).expect("a line of its own");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// Bytes that each takes, the number's own among them.
fn bytes<C: Channel>() -> f64 {
    let grown = shared::<AtomicU64>();
    let child = Child::fork(|| {
        // SAFETY: takes numbers.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        // The ends themselves lie wherever the program puts them: room that is touched before.
        let mut ends: Vec<_> = (0..2 * MANY).map(|_| None).collect();
        let (first, second) = ends.split_at_mut(MANY);
        first.fill_with(|| Some(C::make::<u64>(1)));
        let before = resident();
        second.fill_with(|| Some(C::make::<u64>(1)));
        grown.store(resident() - before, Ordering::SeqCst);
    });
    assert_eq!(child.end(), 0, "the process that makes them");
    grown.load(Ordering::SeqCst) as f64 / MANY as f64
}

/// Bytes that a named tube takes of an arena for so many members, the number's own among them: its part of the arena's data, and
/// its two objects with their places in the index.
fn named(members: u32) -> f64 {
    let options = ArenaOptions { members: Some(members), ..ArenaOptions::default() };
    Arena::create("tubes-few", &options).expect("an arena");
    let tube = Tube::<u64>::create("tubes-few/one", &TubeOptions { slots: 1, ..TubeOptions::default() });
    let data = tube.and_then(|tube| tube.info()).expect("a tube").bytes;
    Arena::remove("tubes-few", true).expect("it is ours");
    (data + 2 * each(members)) as f64
}

/// Counts and prints; the aims.
///
/// # Panics
/// When the kernel does not tell what a process has in memory.
pub fn measure() -> Vec<Aim> {
    type Count = fn() -> f64;
    let kinds: [(&str, Count); 7] = [
        (Rtrb::NAME, bytes::<Rtrb>),
        (Crossbeam::NAME, bytes::<Crossbeam>),
        (Flume::NAME, bytes::<Flume>),
        (Kanal::NAME, bytes::<Kanal>),
        (Std::NAME, bytes::<Std>),
        (Spsc::NAME, bytes::<Spsc>),
        (Mpmc::NAME, bytes::<Mpmc>),
    ];
    let counted = kinds.map(|(name, count)| (name, count() - ROOM));
    let named = [("256 members", 256), ("1024 members", 1024)]
        .map(|(arena, members)| (format!("named tube, arena of {arena}"), named(members) - ROOM));
    let all = counted.iter().map(|(name, bytes)| ((*name).to_owned(), vec![*bytes]));
    let all = all.chain(named.iter().map(|(name, bytes)| (name.clone(), vec![*bytes])));
    let title = format!("a channel with room for one u64, besides that, of {MANY}");
    print!("{}", Table::counted(title, Unit::Bytes, all.collect()).report());
    let ours = counted.iter().filter(|(name, _)| [Spsc::NAME, Mpmc::NAME].contains(name));
    let ours = ours.map(|(name, bytes)| (*name, *bytes)).chain(named.iter().map(|(name, bytes)| (&name[..], *bytes)));
    ours.map(|(name, bytes)| Aim::at_most(format!("bytes of a channel, {name}"), 1024.0, bytes, |n| format!("{n:.0}")))
        .collect()
}
