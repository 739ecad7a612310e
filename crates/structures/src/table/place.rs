//! The layout of a table, and its words.
//!
//! ```text
//!  Head | buckets | states of nodes | states of cells | nodes: next, value, id, key.. | cells: owner, bytes..
//! ```
//!
//! A link (a bucket, a node's `next`) and a node's `value` are `tag:42 | flag:1 | index + 1:21`; the tag rises with every change of
//! the word, across all owners of the node, so that a swap of the exact word means that nothing has happened to it. A state is
//! `turn:44 | member + 1:16 | state:4`; the turn rises when the node or cell becomes free.

use crate::stamp::Stamp;
#[cfg(feature = "sim")]
use crate::turns::state_in_words;
use chappe_plat::atomic::{AtomicU64, Ordering};
use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr::NonNull;

const INDEX: u64 = (1 << 21) - 1;
/// In a link: the node that has the link is deleted. In a value: the node has no value, and never will have one.
pub(super) const FLAG: u64 = 1 << 21;
/// The tag.
type Changes = Stamp<22, 42>;

/// How many entries a table can have.
pub const MOST_ENTRIES: u32 = 1 << 20;
/// How many bytes a key, and a value, can have.
pub const MOST_BYTES: u32 = 1 << 20;
/// The most cells beyond one per entry: so many members may be about to change a full table at once.
const MOST_SPARE: u32 = 256;

/// What a word leads to.
#[inline(always)]
pub(super) fn index(word: u64) -> Option<u32> {
    ((word & INDEX) as u32).checked_sub(1)
}

#[inline(always)]
pub(super) fn is_flagged(word: u64) -> bool {
    word & FLAG != 0
}

/// The word after this one, which leads there.
#[inline(always)]
pub(super) fn leading(word: u64, to: Option<u32>) -> u64 {
    Changes::next(Changes::alone(word)) | to.map_or(0, |i| u64::from(i) + 1)
}

/// The word after this one: flagged.
#[inline(always)]
pub(super) fn flagged(word: u64) -> u64 {
    Changes::next(word) | FLAG
}

/// A word as text, for the explorer's reports.
#[cfg(feature = "sim")]
fn in_words(word: u64) -> String {
    let to = index(word).map_or("nowhere".into(), |i| format!("to {i}"));
    format!("{to}{} ({})", if is_flagged(word) { ", over" } else { "" }, Changes::of(word))
}

/// What a table is made for. All its users pass the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many entries there is room for, [`MOST_ENTRIES`] at most. Inserts that race may bring `spare` more.
    pub entries: u32,
    /// The most bytes of a key.
    pub key: u32,
    /// The most bytes of a value.
    pub value: u32,
    /// How many nodes there are beyond one per entry, and cells for values beyond one per node: for members in the middle of a change.
    pub spare: u32,
    /// One list, in the order of the keys' bytes, instead of many in no order.
    pub ordered: bool,
}

impl Shape {
    /// A shape for so many members.
    pub fn new(entries: u32, key: u32, value: u32, members: u32) -> Shape {
        Shape { entries, key, value, spare: members.clamp(1, MOST_SPARE), ordered: false }
    }

    /// Whether there can be such a table.
    pub fn is_possible(self) -> bool {
        (1..=MOST_ENTRIES).contains(&self.entries)
            && (1..=MOST_BYTES).contains(&self.key)
            && self.value <= MOST_BYTES
            && (1..=MOST_SPARE).contains(&self.spare)
    }

    pub(super) fn buckets(self) -> u32 {
        if self.ordered { 1 } else { self.entries.next_power_of_two() }
    }

    pub(super) fn nodes(self) -> u32 {
        self.entries + self.spare
    }

    pub(super) fn cells(self) -> u32 {
        self.nodes() + self.spare
    }

    fn key_words(self) -> usize {
        (self.key as usize).div_ceil(8)
    }

    fn value_words(self) -> usize {
        (self.value as usize).div_ceil(8)
    }

    fn node_words(self) -> usize {
        3 + self.key_words()
    }

    fn cell_words(self) -> usize {
        1 + self.value_words()
    }

    fn words(self) -> usize {
        let (nodes, cells) = (self.nodes() as usize, self.cells() as usize);
        self.buckets() as usize + nodes + cells + nodes * self.node_words() + cells * self.cell_words()
    }

    /// How many bytes it takes, from an address that is a multiple of 64.
    pub fn bytes(self) -> usize {
        size_of::<Head>() + self.words() * 8
    }
}

/// Where a member has last found a free node, and a free cell: hints, for some of the members together, on a cache line of their own.
#[derive(Default)]
#[repr(C, align(64))]
struct Hints {
    node: AtomicU64,
    cell: AtomicU64,
}

const HINTS: usize = 8;

/// What a table has besides its words.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Head {
    /// What hashes begin with.
    seed: AtomicU64,
    hints: [Hints; HINTS],
}

/// What follows from the shape, and each look-up needs.
#[derive(Clone, Copy)]
struct Places {
    /// The buckets' number, less one.
    mask: u32,
    nodes: u32,
    cells: u32,
    node_words: u32,
    cell_words: u32,
    nodes_at: usize,
    cells_at: usize,
}

impl Places {
    fn of(shape: Shape) -> Places {
        let (nodes, cells) = (shape.nodes(), shape.cells());
        let nodes_at = (shape.buckets() + nodes + cells) as usize;
        Places {
            mask: shape.buckets() - 1,
            nodes,
            cells,
            node_words: shape.node_words() as u32,
            cell_words: shape.cell_words() as u32,
            nodes_at,
            cells_at: nodes_at + nodes as usize * shape.node_words(),
        }
    }
}

/// A table in memory that the caller provides.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    head: &'a Head,
    words: NonNull<AtomicU64>,
    shape: Shape,
    places: Places,
    memory: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: all that is shared is atomic words.
unsafe impl Send for Table<'_> {}
// SAFETY: as above.
unsafe impl Sync for Table<'_> {}

impl<'a> Table<'a> {
    /// The table at a place. Zeroed memory is an empty one.
    ///
    /// # Safety
    /// At `place`, a multiple of 64, are as many bytes as the shape says, for as long as `'a`, which nothing touches but by atomic words.
    ///
    /// # Panics
    /// If there can be no such table.
    pub unsafe fn new(place: NonNull<u8>, shape: Shape) -> Table<'a> {
        assert!(shape.is_possible(), "a table of {shape:?}");
        assert!(place.addr().get().is_multiple_of(64), "a table that is not aligned");
        // SAFETY: as the caller promises; any bytes are a `Head`.
        let head = unsafe { place.cast::<Head>().as_ref() };
        // SAFETY: the words come after it.
        let words = unsafe { place.add(size_of::<Head>()) }.cast();
        Table { head, words, shape, places: Places::of(shape), memory: PhantomData }
    }

    /// Sets what hashes begin with. Before any use of the table.
    pub fn seed_with(&self, seed: u64) {
        self.head.seed.store(seed, Ordering::Relaxed); // Relaxed: published with the table.
    }

    pub(super) fn seed(&self) -> u64 {
        self.head.seed.load(Ordering::Relaxed) // Relaxed: written before the table was published.
    }

    /// What it is made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    #[inline(always)]
    fn at(&self, word: usize) -> &'a AtomicU64 {
        debug_assert!(word < self.shape.words());
        // SAFETY: one of the table's words: callers come with indices below the counts of the shape, by `led`.
        unsafe { self.words.add(word).as_ref() }
    }

    /// Where a word leads. A word that leads nowhere was overwritten by a wild write, or is not this table's any more: to the first.
    #[inline(always)]
    pub(super) fn led(&self, index: u32, count: u32) -> usize {
        if index < count { index as usize } else { 0 }
    }

    #[inline(always)]
    pub(super) fn bucket(&self, hash: u64) -> &'a AtomicU64 {
        self.at((hash as u32 & self.places.mask) as usize)
    }

    #[inline(always)]
    pub(super) fn node_state(&self, node: u32) -> &'a AtomicU64 {
        self.at(self.shape.buckets() as usize + self.led(node, self.shape.nodes()))
    }

    #[inline(always)]
    pub(super) fn cell_state(&self, cell: u32) -> &'a AtomicU64 {
        self.at((self.shape.buckets() + self.shape.nodes()) as usize + self.led(cell, self.shape.cells()))
    }

    #[inline(always)]
    fn node(&self, node: u32) -> usize {
        self.places.nodes_at + self.led(node, self.places.nodes) * self.places.node_words as usize
    }

    #[inline(always)]
    fn cell(&self, cell: u32) -> usize {
        self.places.cells_at + self.led(cell, self.places.cells) * self.places.cell_words as usize
    }

    #[inline(always)]
    pub(super) fn next(&self, node: u32) -> &'a AtomicU64 {
        self.at(self.node(node))
    }

    #[inline(always)]
    pub(super) fn value(&self, node: u32) -> &'a AtomicU64 {
        self.at(self.node(node) + 1)
    }

    /// A node's key: hash and length in one word.
    #[inline(always)]
    pub(super) fn id(&self, node: u32) -> &'a AtomicU64 {
        self.at(self.node(node) + 2)
    }

    #[inline(always)]
    pub(super) fn key(&self, node: u32) -> &'a [AtomicU64] {
        self.run(self.node(node) + 3, self.shape.key_words())
    }

    /// A cell's `length:32 | node:32`.
    #[inline(always)]
    pub(super) fn of(&self, cell: u32) -> &'a AtomicU64 {
        self.at(self.cell(cell))
    }

    #[inline(always)]
    pub(super) fn bytes(&self, cell: u32) -> &'a [AtomicU64] {
        self.run(self.cell(cell) + 1, self.shape.value_words())
    }

    #[inline(always)]
    fn run(&self, from: usize, count: usize) -> &'a [AtomicU64] {
        debug_assert!(from + count <= self.shape.words());
        // SAFETY: within a node or cell of the table.
        unsafe { std::slice::from_raw_parts(self.words.add(from).as_ptr(), count) }
    }

    pub(super) fn node_hint(&self, me: u16) -> &'a AtomicU64 {
        &self.head.hints[usize::from(me) % HINTS].node
    }

    pub(super) fn cell_hint(&self, me: u16) -> &'a AtomicU64 {
        &self.head.hints[usize::from(me) % HINTS].cell
    }

    /// Names its words, for the explorer's reports.
    #[cfg(feature = "sim")]
    pub fn each_word(&self, name: &mut dyn FnMut(&'a AtomicU64, String, fn(u64) -> String)) {
        for i in 0..self.shape.buckets() {
            name(self.bucket(i.into()), format!("bucket {i}"), in_words);
        }
        for i in 0..self.shape.nodes() {
            name(self.node_state(i), format!("node {i}"), state_in_words);
            name(self.next(i), format!("next of {i}"), in_words);
            name(self.value(i), format!("value of {i}"), in_words);
        }
        for i in 0..self.shape.cells() {
            name(self.cell_state(i), format!("cell {i}"), state_in_words);
        }
    }
}
