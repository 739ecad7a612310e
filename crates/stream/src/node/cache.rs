//! A block cache that processes share, before a file or what an HTTP server has: the quaject `Dcache` of table 4.2 (`read`, and its callout `bk_read`).
//!
//! All `cache` stages of one name, in whatever process, share the blocks: what one has fetched the others find. A block is fetched by one reader at
//! a time, and the others that want it wait for it. A reader that is killed while it fetches has begun nothing that the others can see: the next one
//! fetches. One that is stopped in a fetch, or waits for a slow server, holds the others up for ten seconds: then they fetch by themselves.
//! Nothing is written back: a cache is read.
//!
//! | object of the arena | what it has |
//! |---|---|
//! | map `NAME` | a block by version and number: the slot that it has, and its bytes |
//! | words `NAME.words` | the origin, its length, stamp and version; what was found and fetched; the hand; what each slot has |
//! | mutexes `NAME.fetch0` to `3` | the right to fetch blocks whose numbers leave 0 to 3: robust, a death passes it on |
//!
//! **Bounded.** There are as many slots as blocks; the hand gives a new block the next slot whose own was not found since the hand came by (CLOCK).
//!
//! - I1: a slot is claimed by one swap of its word and the hand, before its new block is inserted: so blocks without a slot come only of a reader
//!   that was killed, or stopped for a whole turn of the hand, between the two. The map has room for some of them; when it is full, a reader
//!   removes all whose slot has another block; if it is full then, too, the new block is handed on and not kept.
//!   A killed reader's slot may name a block that has another slot by now: when the hand takes it, that block stays.
//! - I2: a block is inserted under the version that was read before it was fetched, if the origin's stamp is the same behind the fetch: bytes of two
//!   versions are never mixed in a block.
//! - I3: the numbers of versions begin at one by chance. So blocks that stay in a map whose words were removed are of no version of the words that are made
//!   next: the map goes on as an empty one does, and the sweep of I1 removes them.
//!
//! **A file that changes** (its number, length or time of change) begins a new version: nothing of the old one is found any more. A reader reads one version,
//! that of its begin: when it sees another one its line ends, and the report counts it as broken ([`crate::Report::broken`]). What changes
//! within the file system's clock tick, at the same length, cannot be told, nor by writes through a mapping behind the first. Of an HTTP server's file the
//! stamp is its length and its `ETag` or `Last-Modified`, looked at when a reader begins and with each fetch. A server that gives neither is refused.

mod origin;

use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Source};
use crate::types::{Block, Element, Type};
use chappe_sync::map::{Map, MapError, MapOptions};
use chappe_sync::words::{Words, WordsError};
use chappe_sync::{LockError, Mutex, MutexGuard};
use origin::{Origin, PATIENCE, Stamp, TRIES, hash};
use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::time::Duration;

/// Words before those of the slots.
const ORIGIN: u32 = 0;
const LENGTH: u32 = 1;
const STAMP: u32 = 2;
const VERSION: u32 = 3;
const FOUND: u32 = 4;
const FETCHED: u32 = 5;
const EVICTED: u32 = 6;
const HAND: u32 = 7;
const SLOTS: u32 = 8;
/// In a slot's word: its block was found since the hand came by.
const USED: u64 = 1 << 63;
/// So many blocks are fetched at once.
const LANES: u64 = 4;
/// Bits of a slot's word that have its block's number, counted from 1; above them are those of the version.
const BLOCK_BITS: u32 = 40;
const BLOCKS: u64 = (1 << BLOCK_BITS) - 1;
const VERSIONS: u64 = (1 << (63 - BLOCK_BITS)) - 1;
/// Blocks without a slot for which the map has room.
const SPARE: u32 = 8;
/// Why a cache does not go on.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Map(#[from] MapError),
    #[error(transparent)]
    Words(#[from] WordsError),
    #[error("{0}")]
    Other(String),
}

/// A cache that is open.
struct Cache {
    name: String,
    origin: Origin,
    block: usize,
    slots: u32,
    map: Map<[u64; 2], [u8]>,
    words: Words,
    lanes: Vec<Mutex<u64>>,
    /// How long this reader waits for each of them: not at all behind a holder that did not give it back.
    patience: [Cell<Duration>; LANES as usize],
}

fn patient() -> [Cell<Duration>; LANES as usize] {
    [const { Cell::new(PATIENCE) }; LANES as usize]
}

/// A number that no cache before this one has begun with.
fn any() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}

/// A version of the origin: its number, and its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Version {
    number: u64,
    stamp: Stamp,
}

impl Cache {
    fn open(name: &str, origin: Origin, block: usize, slots: u32) -> Result<Cache, Failed> {
        let options = MapOptions { entries: slots + SPARE, value: block as u32 + 8, ..MapOptions::default() };
        let room = |e: &dyn std::fmt::Display| {
            let bytes = (block as u64 * u64::from(slots)) >> 10;
            Failed::Other(format!(
                "the cache `{name}` of {bytes} KiB cannot be opened: {e} (`blocks=` and `block=` say how large it is)"
            ))
        };
        let map = Map::open_or_create(name, &options).map_err(|e| room(&e))?;
        let words = Words::open_or_create(&format!("{name}.words"), SLOTS + slots).map_err(|e| room(&e))?;
        let lane = |n| Mutex::open_or_create(&format!("{name}.fetch{n}"), 0u64).map_err(|e| room(&e));
        let lanes = (0..LANES).map(lane).collect::<Result<Vec<_>, _>>()?;
        let is = hash(origin.name().as_bytes()) | 1;
        words.update([ORIGIN], |[now]| {
            if *now == 0 {
                *now = is;
            }
        })?;
        if words.load(ORIGIN)? != is {
            return Err(Failed::Other(format!(
                "the cache `{name}` is of another file than {}: name another cache",
                origin.name()
            )));
        }
        Ok(Cache { name: name.to_owned(), origin, block, slots, map, words, lanes, patience: patient() })
    }

    fn version(&self) -> Result<Version, Failed> {
        let [length, number, version] = self.words.load_all([LENGTH, STAMP, VERSION])?;
        Ok(Version { number: version, stamp: Stamp { length, number } })
    }

    /// The origin is this by now: its version.
    fn seen(&self, stamp: Stamp) -> Result<Version, Failed> {
        self.words.update([LENGTH, STAMP, VERSION], |now| {
            if now[2] == 0 {
                *now = [stamp.length, stamp.number, any()];
            } else if (now[0], now[1]) != (stamp.length, stamp.number) {
                *now = [stamp.length, stamp.number, now[2].wrapping_add(1).max(1)];
            }
        })?;
        self.version()
    }

    fn told(&self, e: &io::Error) -> Failed {
        Failed::Other(format!("cannot read {}: {e}", self.origin.name()))
    }

    /// The version that is read now.
    fn look(&self) -> Result<Version, Failed> {
        match self.origin.quick().map_err(|e| self.told(&e))? {
            Some(stamp) => self.seen(stamp),
            None => self.version(),
        }
    }

    fn slot(block: u64, version: Version) -> u64 {
        // 23 bits of the version: a slot that names a block of 8 million versions before is taken for one of now, and only stays longer.
        (version.number & VERSIONS) << BLOCK_BITS | (block.wrapping_add(1) & BLOCKS)
    }

    /// The slot that a block's value names. None in what another program has put into the map.
    fn slot_in(&self, value: &[u8]) -> Option<u32> {
        let named = u64::from_le_bytes(*value.first_chunk()?);
        u32::try_from(named).ok().filter(|slot| *slot < self.slots)
    }

    /// Whether slots can name all blocks before this byte.
    fn holds(&self, end: u64) -> Result<(), Failed> {
        if end.div_ceil(self.block as u64) <= BLOCKS {
            return Ok(());
        }
        let (name, block) = (self.origin.name(), self.block);
        Err(Failed::Other(format!("{name} has too many blocks of {block} bytes: write a larger `block=`")))
    }

    /// A block that is there.
    fn find(&self, block: u64, version: Version) -> Result<Option<Vec<u8>>, Failed> {
        let Some(mut value) = self.map.get(&[version.number, block])? else { return Ok(None) };
        let Some(slot) = self.slot_in(&value) else { return Ok(None) };
        let is = Cache::slot(block, version);
        self.words.update([FOUND, SLOTS + slot], |[found, word]| {
            *found += 1;
            if *word == is {
                *word |= USED;
            }
        })?;
        value.drain(..8);
        Ok(Some(value))
    }

    /// Removes the blocks that have no slot (I1).
    fn sweep(&self) -> Result<(), Failed> {
        for entry in self.map.iter()? {
            let (key, value) = entry?;
            let version = Version { number: key[0], stamp: Stamp { length: 0, number: 0 } };
            let names = match self.slot_in(&value) {
                Some(slot) => self.words.load(SLOTS + slot)? & !USED == Cache::slot(key[1], version),
                None => false,
            };
            if !names {
                self.map.remove(&key)?;
            }
        }
        Ok(())
    }

    /// Takes a block in, in place of another one.
    fn insert(&self, block: u64, version: Version, bytes: &[u8]) -> Result<(), Failed> {
        let is = Cache::slot(block, version);
        let slot = loop {
            let hand = self.words.load(HAND)?;
            let at = (hand % u64::from(self.slots)) as u32;
            let word = self.words.load(SLOTS + at)?;
            let passes = word & USED != 0;
            let evicts = !passes && word != 0;
            let mut won = false;
            self.words.update([HAND, SLOTS + at, EVICTED], |now| {
                won = now[0] == hand && now[1] == word;
                if won {
                    *now = [hand + 1, if passes { word & !USED } else { is }, now[2] + u64::from(evicts)];
                }
            })?;
            if won && evicts {
                self.forget(at, word, version)?;
            }
            if won && !passes {
                break at;
            }
        };
        let mut value = u64::from(slot).to_le_bytes().to_vec();
        value.extend(bytes);
        match self.map.insert(&[version.number, block], &value[..]) {
            Err(MapError::Full { .. }) => {
                self.sweep()?;
                match self.map.insert(&[version.number, block], &value[..]) {
                    // The reader has its bytes; the slot without a block goes when the hand comes by.
                    Err(MapError::Full { .. }) => {}
                    done => drop(done?),
                }
            }
            done => drop(done?),
        }
        Ok(())
    }

    /// The block that a slot had is gone. One of an older version, of which the slot has the last bits, too.
    fn forget(&self, slot: u32, word: u64, version: Version) -> Result<(), Failed> {
        let (number, block) = (word >> BLOCK_BITS & VERSIONS, (word & BLOCKS).wrapping_sub(1));
        let behind = (version.number.wrapping_sub(number)) & VERSIONS;
        let key = [version.number.wrapping_sub(behind), block];
        // I1: it may have another slot. If it was changed meanwhile, it has.
        if let Some(value) = self.map.get(&key)?.filter(|value| self.slot_in(value) == Some(slot)) {
            let _ = self.map.compare_exchange(&key, Some(&value[..]), None)?;
        }
        Ok(())
    }

    /// The right to fetch blocks like this one. Nothing if another reader does not give it back: the block is fetched without
    /// it, at worst once by each reader that waited.
    fn lane(&self, block: u64) -> Result<Option<MutexGuard<'_, u64>>, Failed> {
        let at = (block % LANES) as usize;
        let (guard, patience) = match self.lanes[at].lock_timeout(self.patience[at].get()) {
            Ok(guard) => (Some(guard), PATIENCE),
            Err(LockError::OwnerDied(mut guard)) => {
                // It guards nothing but the fetch, which is done anew.
                MutexGuard::make_consistent(&mut guard);
                (Some(guard), PATIENCE)
            }
            Err(LockError::Timeout) => (None, Duration::ZERO),
            Err(e) => return Err(Failed::Other(format!("the cache `{}`: {e}", self.name))),
        };
        self.patience[at].set(patience);
        Ok(guard)
    }

    /// A block, and whether it was there; its version.
    fn block(&self, block: u64) -> Result<(Vec<u8>, bool, Version), Failed> {
        let version = self.look()?;
        if let Some(bytes) = self.find(block, version)? {
            return Ok((bytes, true, version));
        }
        let _lane = self.lane(block)?;
        let (mut tries, until) = (1, origin::until());
        loop {
            // Another reader may have fetched it meanwhile.
            let version = self.look()?;
            if let Some(bytes) = self.find(block, version)? {
                return Ok((bytes, true, version));
            }
            let (bytes, behind) =
                self.origin.fetch(block * self.block as u64, self.block, until).map_err(|e| self.told(&e))?;
            // I2. What changes all the time is read as it is, and not kept.
            let is_now = self.seen(behind)?;
            let is_of = is_now == version;
            if !is_of && tries < TRIES {
                tries += 1;
                continue;
            }
            self.words.update([FETCHED], |[fetched]| *fetched += 1)?;
            if is_of && !bytes.is_empty() {
                self.insert(block, version, &bytes)?;
            }
            return Ok((bytes, false, is_now));
        }
    }
}

/// Reads by way of a cache.
struct Cached {
    cache: Cache,
    at: u64,
    end: u64,
    found: u64,
    fetched: u64,
    /// The one that it reads, and another one that it has seen: then it is broken.
    version: Version,
    other: Option<Version>,
}

impl Cached {
    fn next(&mut self) -> Result<Option<Block>, Failed> {
        if self.at >= self.end || self.other.is_some() {
            return Ok(None);
        }
        let size = self.cache.block as u64;
        let (mut bytes, found, version) = self.cache.block(self.at / size)?;
        if version != self.version {
            self.other = Some(version);
            return Ok(None);
        }
        self.found += u64::from(found);
        self.fetched += u64::from(!found);
        let from = (self.at % size) as usize;
        let whole = (size - from as u64).min(self.end - self.at) as usize;
        bytes.truncate(from + whole);
        bytes.drain(..from.min(bytes.len()));
        if bytes.len() < whole {
            // As long as it was, by its server or its clock, and not so.
            self.other =
                Some(Version { stamp: Stamp { length: self.at + bytes.len() as u64, ..version.stamp }, ..version });
        }
        self.at += bytes.len() as u64;
        Ok((!bytes.is_empty()).then(|| Block::bytes(bytes)))
    }
}

impl Source for Cached {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        // The light threads of this proc go on meanwhile.
        chappe_thread::block_in_place(|| self.next()).map_err(Fault::new)
    }

    fn is_broken(&self) -> bool {
        self.other.is_some()
    }

    fn says(&self) -> Option<String> {
        let words = &self.cache.words;
        let of = |n: Result<u64, WordsError>| n.unwrap_or(0);
        let (found, fetched, evicted) = (of(words.load(FOUND)), of(words.load(FETCHED)), of(words.load(EVICTED)));
        let ratio = found as f64 / (found + fetched).max(1) as f64 * 100.0;
        let cut = self.other.map_or(String::new(), |other| {
            let how = if other.stamp.length < self.end { "become shorter" } else { "changed" };
            format!("; {} has {how} while it was read", self.cache.origin.name())
        });
        let ours = format!("{} blocks found and {} fetched", self.found, self.fetched);
        Some(format!("{ours}; of all readers {ratio:.1} % of {} found, {evicted} evicted{cut}", found + fetched))
    }
}

fn cache(call: &Call<'_>) -> Result<Plan, Wrong> {
    call.no_input()?;
    let (text, span) = call.file()?;
    let (name, _) = call.needs_text(1, "name")?;
    let slots = call.number_or(2, "blocks", (1.0, 1_000_000.0), 256.0)? as u32;
    let block = call.number_or(3, "block", (1.0, 1_048_568.0), 65_536.0)? as usize;
    let from = call.number_or(usize::MAX, "from", (0.0, 9e15), 0.0)? as u64;
    let bytes = call.number(usize::MAX, "bytes", (1.0, 9e15))?.map(|n| n as u64);
    let origin = Origin::of(text).map_err(|why| Wrong::at(span, why))?;
    let name = name.to_owned();
    Ok(Plan::source(Type::of(Element::Byte), move || {
        let begun = || {
            let cache = Cache::open(&name, origin, block, slots)?;
            let now = cache.origin.now().map_err(|e| cache.told(&e))?;
            let version = cache.seen(now)?;
            let length = version.stamp.length;
            let end = bytes.map_or(length, |n| length.min(from.saturating_add(n)));
            cache.holds(end)?;
            Ok::<_, Failed>(Cached { cache, at: from, end, found: 0, fetched: 0, version, other: None })
        };
        let cached = chappe_thread::block_in_place(begun).map_err(Fault::new)?;
        Ok(Body::Source(Box::new(cached)))
    }))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![Kind::new(
        "cache",
        "\"FILE\"|\"http://HOST/PATH\" \"NAME\" [blocks=256] [block=65536] [from=0] [bytes=N]",
        "a file, or what a server has, by way of blocks that all readers of that name share",
        cache,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A cache of a file, in blocks of four bytes, for this process alone.
    fn private(file: &tempfile::NamedTempFile, slots: u32, entries: u32) -> (Cache, Version) {
        let value = MapOptions { entries, value: 12, ..MapOptions::default() };
        let cache = Cache {
            name: "private".into(),
            origin: Origin::of(&file.path().display().to_string()).unwrap(),
            block: 4,
            slots,
            map: Map::private(&value).unwrap(),
            words: Words::private(SLOTS + slots).unwrap(),
            lanes: (0..LANES).map(|_| Mutex::private(0).unwrap()).collect(),
            patience: patient(),
        };
        let version = cache.seen(cache.origin.now().unwrap()).unwrap();
        (cache, version)
    }

    /// Blocks that begin with their numbers.
    fn numbered(blocks: u32) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&(0..blocks).map(u32::to_le_bytes).collect::<Vec<_>>().concat()).unwrap();
        file
    }

    #[test]
    fn a_reader_that_is_stopped_in_a_fetch_holds_no_other_up_for_ever() {
        let file = numbered(6);
        let (cache, _) = private(&file, 6, 16);
        cache.patience[1].set(Duration::from_nanos(1));
        let ((begun, begins), (go, goes)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        let lane = &cache.lanes[1];
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let held = lane.lock().unwrap();
                begun.send(()).unwrap();
                let _ = goes.recv();
                drop(held);
            });
            begins.recv().unwrap();
            assert_eq!(cache.block(1).unwrap().0, 1u32.to_le_bytes());
            // It is not waited for again.
            assert_eq!(cache.patience[1].get(), Duration::ZERO);
            assert_eq!(cache.block(5).unwrap().0, 5u32.to_le_bytes());
            assert!(cache.block(1).unwrap().1, "it was kept");
            drop(go);
        });
        cache.block(1).unwrap();
        drop(cache.lane(1).unwrap().expect("it is free"));
        assert_eq!(cache.patience[1].get(), PATIENCE);
    }

    #[test]
    fn a_block_for_which_the_map_has_no_room_is_handed_on() {
        let file = numbered(200);
        let (cache, _) = private(&file, 200, 8);
        for block in 0..200 {
            let (bytes, found, _) = cache.block(block).unwrap();
            assert_eq!((bytes, found), ((block as u32).to_le_bytes().to_vec(), false));
        }
        assert!(cache.map.len() < 200);
        assert!(cache.block(0).unwrap().1, "what the map has stays");
    }

    #[test]
    fn the_slot_of_a_killed_reader_takes_no_block_from_another_slot() {
        let file = numbered(3);
        let (cache, version) = private(&file, 2, 16);
        // A reader was killed between the slot and the map.
        cache.words.store(SLOTS, Cache::slot(0, version)).unwrap();
        cache.words.store(HAND, 1).unwrap();
        assert!(!cache.block(0).unwrap().1);
        assert_eq!(cache.words.load(SLOTS + 1).unwrap(), Cache::slot(0, version));
        // The hand takes the killed reader's.
        assert!(!cache.block(1).unwrap().1);
        assert_eq!(cache.words.load(SLOTS).unwrap(), Cache::slot(1, version));
        assert!(cache.block(0).unwrap().1 && cache.block(1).unwrap().1);
        assert_eq!(cache.map.len(), 2);
    }

    #[test]
    fn a_value_that_another_program_put_into_the_map_is_no_block() {
        let file = numbered(3);
        let (cache, version) = private(&file, 2, 16);
        for (block, value) in [&b""[..], b"short", &[255; 12]].into_iter().enumerate() {
            cache.map.insert(&[version.number, block as u64], value).unwrap();
            let (bytes, found, _) = cache.block(block as u64).unwrap();
            assert_eq!((bytes, found), ((block as u32).to_le_bytes().to_vec(), false));
        }
        cache.map.insert(&[9, u64::MAX], b"").unwrap();
        cache.sweep().unwrap();
        assert_eq!(cache.map.len(), 2);
    }

    #[test]
    fn a_map_whose_words_were_removed_hands_out_nothing_of_before() {
        let mut file = numbered(3);
        let (mut cache, _) = private(&file, 3, 4);
        (0..3).for_each(|block| drop(cache.block(block).unwrap()));
        file.as_file_mut().set_len(0).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        file.write_all(&[7; 12]).unwrap();
        cache.words = Words::private(SLOTS + 3).unwrap();
        for block in 0..3 {
            assert_eq!(cache.block(block).unwrap().0, [7; 4]);
        }
        assert!(cache.block(1).unwrap().1, "the map, which was full, has room for what is read now");
    }

    #[test]
    fn a_file_of_more_blocks_than_slots_can_name_is_refused() {
        let file = numbered(1);
        let (cache, version) = private(&file, 1, 8);
        assert!(cache.holds(4 * BLOCKS).is_ok());
        assert_eq!(Cache::slot(BLOCKS - 1, version) >> BLOCK_BITS, version.number & VERSIONS);
        let said = cache.holds(4 * BLOCKS + 1).unwrap_err().to_string();
        assert!(said.contains("has too many blocks of 4 bytes: write a larger `block=`"), "{said}");
    }
}
