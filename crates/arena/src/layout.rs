//! The layout of an arena.
//!
//! An arena is one run of bytes, the same in every process that maps it, but at different addresses: whatever points inside it is an index
//! or an offset.
//!
//! ```text
//!   +--------+---------+----------+---------+-------------+-------+-------+--------+--------+
//!   | header | members | visits,  | objects |  wait sets  | cells | names | owners | blocks |
//!   | 4 KiB  | 256 B   | rosters  | 128 B   |  beyond 256 | 32 B  | 8 B   | 8 B    | 64 B   |
//!   |        | each    |          | each    |  members    | each  | each  | a block| each   |
//!   +--------+---------+----------+---------+-------------+-------+-------+--------+--------+
//! ```
//!
//! An object carries one word of state and the wait set of the first 256 members inside it, so that a pool of one permit, a semaphore or a
//! mutex is 128 bytes. A pool's further cells come from the table in extents, further members' bits from the wait sets behind, the data
//! that a named mutex guards and a named tube's slots from the blocks. A slot is an object for ever, a cell a cell, a block a block.
//!
//! The wait sets beyond the first 256 members are panels, one for each 512 members: a panel has a line of 64 bytes for each object. So a
//! scan of an object's bits reads whole lines, and an arena that has room for many members takes memory only for the panels of those that
//! it has had. Before the panels lies a pair of words for each object that says in which of its lines a bit may stand (far.rs): a scan reads no others. What has no storage behind it in a new arena, and when it gets it, is with [`Header::backed`].
//!
//! A slot may be reused for an object of another kind while a thread still uses the old object. So the low three bits of an object's word
//! tell the kinds apart, and every change is a compare-and-swap of the exact word that was read:
//!
//! | kind | low three bits | see |
//! |---|---|---|
//! | pool | 0 to 3 | the owner cell |
//! | semaphore | 4 | units |
//! | mutex | 5 to 7 | the mutex |
//! | condition variable, tube, end of a tube, map, stack, counter, words, server, helping lock, monitor | 7, by nobody, with the number of the slot's use | never changed |

use chappe_plat::atomic::{AtomicU32, AtomicU64};
use chappe_plat::life::LifeLock;
#[cfg(not(all(feature = "loom", not(feature = "sim"))))]
use chappe_plat::pair::Pair;

/// First eight bytes of every arena.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CHAPPE\r\n");
/// The version of this layout. Any change of an offset, or of the meaning of a word, gets another number.
pub const VERSION: u32 = 29;
/// What else two programs must agree on: pointer width, byte order, mutex layout.
pub const ABI: u32 = 0x6400 | chappe_plat::life::LAYOUT;

/// The most members an arena can have: a cell names its holder in sixteen bits, and one number means no holder.
pub const MAX_MEMBERS: u32 = 65_535;
/// How many members an arena has by default, at most; and a process's own.
pub const USUAL_MEMBERS: u32 = 4095;
/// The most objects an arena can have: a grant names its object in twenty bits.
pub const MAX_OBJECTS: u32 = 1 << 20;
/// The most permits one pool can have: a grant names the cell in sixteen bits.
pub const MAX_PERMITS: u32 = 1 << 16;
/// The most blocks an arena can have (4 GiB of data).
pub const MAX_BLOCKS: u32 = 1 << 26;
/// The longest name of an object, in bytes.
pub const MAX_NAME: usize = 47;
/// Where the name is in the header, for a reader that cannot map it.
pub const NAME_AT: usize = 76;
/// Where the header's word is that says whether the arena lasts without its file.
pub const LASTING_AT: usize = 124;
/// How many member slots one thread watches: two words for each of so many fit into one sleep beside a few others.
pub const GROUP: u32 = 60;
/// How many members' wait bits an object holds itself; and how many member slots get storage at once.
pub const INLINE_MEMBERS: u32 = 256;
/// How many members' visits have storage in a new arena.
pub const FIRST_VISITS: u32 = 4096;
/// How many members' wait bits each line of a panel holds.
pub const PANEL_MEMBERS: u32 = 512;
/// Bytes of such a line.
pub const LINE: usize = PANEL_MEMBERS as usize / 8;
/// Bytes that say in which lines of an object a bit may stand.
pub const FAR: usize = 16;

/// How many threads without a member slot can visit at once: see visit.rs.
pub const GUESTS: usize = 8;

/// How many batches of waiters each process keeps: objects share them.
pub const BATCHES: usize = 8;

/// How many objects get storage at once: see `object`, I7.
pub const STEP: u32 = 1024;

/// [`Header::state`] of an arena in service.
pub const SERVING: u32 = 1;
/// [`Header::state`] of an arena that was removed.
pub const REMOVED: u32 = 2;
/// [`Header::state`] while a remover with the directory's lock looks whether the arena may be removed.
pub const REMOVING: u32 = 3;

/// The first page.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`], written last at creation.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// [`ABI`].
    pub abi: AtomicU32,
    /// The user it belongs to.
    pub uid: AtomicU32,
    /// [`SERVING`], [`REMOVING`] or [`REMOVED`].
    pub state: AtomicU32,
    /// Names this arena among all that ever had its name.
    pub id: AtomicU64,
    /// Bytes in all.
    pub len: AtomicU64,
    /// How many member slots there are.
    pub members: AtomicU32,
    /// How many object slots there are.
    pub objects: AtomicU32,
    /// How many table cells there are.
    pub cells: AtomicU32,
    /// One more than the highest member slot ever used. Only grows.
    pub members_high: AtomicU32,
    /// One more than the highest object slot ever used; in a private arena, that is used (I11 of object.rs).
    pub objects_high: AtomicU32,
    /// One more than the highest table cell ever used. Only grows.
    pub cells_high: AtomicU32,
    /// Changes when there is something that every reaper has to look at: all reapers sleep on it.
    pub call: AtomicU32,
    /// No object slot below this one is free. Written under `admin` only.
    pub objects_low: AtomicU32,
    /// How many blocks there are.
    pub blocks: AtomicU32,
    /// The arena's name at creation, zero-padded: for a reader that finds the file without a name.
    pub name: [AtomicU32; 12],
    /// 1: the processes that have it mapped go on when it loses its file.
    pub lasting: AtomicU32,
    /// Arrival order of waiters. A line of its own: every waiter writes it.
    pub ticket: AtomicU64,
    pad1: [u64; 7],
    /// Held while the set of objects changes (create, remove, resize). Robust.
    pub admin: LifeLock,
    /// The PID namespace whose threads use it, all ones if there are several: see the gates. 0: no thread has used it yet.
    pub namespace: AtomicU64,
    /// One more than the highest block ever used for words (I15 of blocks.rs): those below, and their owners, have storage. Only grows, under `admin`.
    pub blocks_high: AtomicU32,
    /// Counted up by the watcher each time it looks.
    pub beat: AtomicU32,
    /// The watcher's lock: held by the reaper that watches for all processes. See the reaper's head.
    pub watch: LifeLock,
    /// The PID namespace of its last holder.
    pub watcher: AtomicU64,
    /// Always 0: reapers that stand by sleep on it, for each other's deaths.
    pub baton: AtomicU32,
    /// How far from the end the first object slot lies that was condemned (I10 of object.rs) since a maker last looked; 0: none was.
    pub condemned: AtomicU32,
    /// Where the next maker looks first for a free object slot: I14 of object.rs. Written under `admin`.
    pub objects_next: AtomicU32,
    /// How many blocks at the end were ever used for data: they, and their owners, have storage. Only grows, under `admin`.
    pub data_high: AtomicU32,
    /// Of the objects that share a batch: all waiters of smaller tickets may be in a batch of some process. Only grows. See the wait
    /// queue's batch, as for the next.
    pub batched: [AtomicU64; BATCHES],
    /// Of the same: how often a waiter came late, so that a batch may lack it.
    pub late: [AtomicU64; BATCHES],
    /// What has storage beyond that of a new arena, or is just getting it: `panels:32 | steps of objects:32`. Only grows. Both a thread that
    /// opens member slots and a maker of objects raise their half first, by one swap of both, and then give storage to what the other half says: so
    /// the lines that a panel has for a step of objects get it from whichever comes second, before it counts its own slots as used.
    pub backed: AtomicU64,
    /// The visits of threads that have no member slot: see visit.rs.
    pub guests: [Guest; GUESTS],
}

/// Where a thread without a member slot says which object it visits.
#[repr(C)]
pub struct Guest {
    /// Held by that thread.
    pub life: LifeLock,
    /// As a member's: see [`Geometry::visits_at`].
    pub visit: AtomicU64,
}

/// One member: a thread, or for owned handles a process, attached to the arena.
///
/// `life` and `tgid_word` are claimed and released in the slot's gate. Writers: of `life` and `tgid_word`, their owner and the kernel; of `ident`,
/// `kind` and what follows, only the owner of `life`; of `swept`, the owner of `life`; of `state`, see the wait queue; of `ticket`,
/// `alias` (in a private arena), `need`, `packet`, `era`, `priority` and `waiting_since`, only the member itself, while its state is idle; of `slept` and
/// `bell_of`, only the member itself; of `bell`, any thread.
#[repr(C, align(16))]
pub struct Member {
    /// The wait word: see the wait queue's head.
    pub state: AtomicU64,
    /// Its order of arrival, compared among the waiters of one object. Beside the wait word: see [`Member::wait`].
    pub ticket: AtomicU64,
    /// Private arenas: address of the wait word of a choice that also waits in a named arena; 0 for none. Named arenas: the ticket with
    /// which the member is just setting its bits; 0: it is not. See the wait queue's batch.
    pub alias: AtomicU64,
    /// `generation:32 | thread id:32` of the present or last occupant. 0: never used.
    pub ident: AtomicU64,
    /// The last generation of which nothing is left (see member.rs, I4).
    pub swept: AtomicU32,
    /// What it waits for, if that is more than one permit or unit: see the drainers. Beside the wait word: granters read it.
    pub need: AtomicU32,
    /// Held by the occupant while it is attached.
    pub life: LifeLock,
    /// Held by an occupant that is not its process's leading thread; names the process.
    pub tgid_word: LifeLock,
    /// The occupant's process.
    pub pid: AtomicU32,
    /// The number of the last wait in which it was about to sleep: see the wait queue, I8.
    pub slept: AtomicU32,
    /// When that process started (clock ticks since boot).
    pub start_time: AtomicU64,
    /// The PID namespace of `pid`.
    pub namespace: AtomicU64,
    /// When it began to wait (ns, of the coarse monotonic clock that all time namespaces share); if it had to wait anew, the first time.
    pub waiting_since: AtomicU64,
    /// The label that it gave itself: UTF-8, zero-padded, eight bytes a word.
    pub label: [AtomicU64; 8],
    /// 0 a thread, 1 a process, 2 a reaper.
    pub kind: AtomicU32,
    /// 1 while the tgid word is put in front of the owner's other words, and names the thread: a mark of it then does not mean an exec.
    pub moving: AtomicU32,
    /// Private arenas only: where a tube without slots finds what is handed over. See the wait queue.
    pub packet: AtomicU64,
    /// Private arenas only: the address of one word an object, for the occupants' biases; 0 if there are none yet. Stays when
    /// the occupant goes.
    pub holds: AtomicU64,
    /// Named arenas only: one more than the member whose `bell` is rung to wake this one; 0: it sleeps on its own word.
    pub bell_of: AtomicU32,
    /// Named arenas only: a doorbell, two more each time it is rung; the low bit: a thread sleeps on it. See the wait queue.
    pub bell: AtomicU32,
    /// The high half of the number of its last wait, which a wait word has no room for once it is granted.
    pub era: AtomicU32,
    /// Its priority, where waiters are served by it: see the wait queue's discipline.
    pub priority: AtomicU32,
    pad3: [u64; (80 - 2 * size_of::<LifeLock>()) / 8],
}

impl Member {
    /// The wait word and the ticket, to be changed together: if the word is equal in two waits, the tickets differ.
    #[cfg(not(all(feature = "loom", not(feature = "sim"))))]
    #[inline]
    pub fn wait(&self) -> &Pair {
        // SAFETY: two neighbouring words, the first of them aligned to 16, as a Pair has them; all are atomics.
        unsafe { &*std::ptr::from_ref(&self.state).cast::<Pair>() }
    }
}

/// A word of state: an object's own, or that of a further permit in the table.
#[repr(C, align(16))]
pub struct Slot {
    /// Pools: the holder of the permit, see the owner cell. Others: see the table above.
    pub word: AtomicU64,
    /// Pools: when it was taken. Condition variables: the tickets that were notified. Semaphores: the stamp, see `semaphore_word`.
    pub since: AtomicU64,
}

impl Slot {
    /// Both words, to be changed together.
    #[cfg(not(all(feature = "loom", not(feature = "sim"))))]
    #[inline]
    pub fn pair(&self) -> &Pair {
        // SAFETY: two neighbouring words, the first of them aligned to 16, as a Pair has them; all are atomics.
        unsafe { &*std::ptr::from_ref(self).cast::<Pair>() }
    }
}

/// A slot for an object.
///
/// `head` is `generation:32 | kind:8 | state:8` from the top, the low 16 bits zero.
#[repr(C)]
pub struct Object {
    /// Its state; of a pool, the first cell.
    pub slot: Slot,
    /// Generation, kind and state.
    pub head: AtomicU64,
    /// Pools: how many permits it has. Semaphores: 1 if waiters may be overtaken. Both: from bit 17 on in which order waiters are served, see the
    /// wait queue's discipline. Mutexes: bytes of data. Tubes, maps: blocks. Ends of
    /// tubes: the tube's generation.
    pub permits: AtomicU32,
    /// One more than the index of a pool's first extent of further cells, or of a mutex's, tube's or map's first block; 0 for none.
    /// Semaphores that are a part of an owned one: the generation of the other part.
    pub more: AtomicU32,
    /// One bit a member that waits here, for the first [`INLINE_MEMBERS`].
    pub waiting: [AtomicU64; 4],
    /// Pools: where a free permit was last seen, a hint; bit 31 is set unless it is the first. Mutexes: a hash of the data's type. Ends of tubes: one
    /// more than the index of their tube, if it has a name.
    pub hint: AtomicU32,
    /// Private pools and mutexes: the recent takers, see the bias. Pools and semaphores of a named arena: not zero if they are the parts of
    /// an owned semaphore. Otherwise unused.
    pub run: AtomicU32,
    /// Hash of the name.
    pub hash: AtomicU64,
    /// Length byte and name, eight bytes a word. What is private has no name: its words after the first are the bias'.
    pub name: [AtomicU64; 6],
}

impl Object {
    /// The caller comes to this use of the slot, by a look or with a handle: see [`chappe_plat::through`].
    #[inline(always)]
    pub fn through(&self, head: Head) {
        chappe_plat::through(|| (&self.head, head.0));
    }
}

/// A cell of the table.
#[repr(C)]
pub struct Cell {
    /// The cell itself.
    pub slot: Slot,
    /// `generation:32 | object+1:32` of the pool it was given to; in use only while that object lives in that generation.
    pub owner: AtomicU64,
    /// In the first cell of an extent: `length:32 | next extent + 1:32`.
    pub extent: AtomicU64,
}

const _: () = {
    assert!(std::mem::offset_of!(Header, name) == NAME_AT && MAX_NAME < 48);
    assert!(std::mem::offset_of!(Header, lasting) == LASTING_AT);
    assert!(size_of::<Header>() <= 4096);
    assert!(size_of::<Member>() == 256 && std::mem::offset_of!(Member, ticket) == 8);
    assert!(size_of::<Object>() == 128);
    assert!(size_of::<Cell>() == 32);
};

/// How large each part is, and so where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Member slots.
    pub members: u32,
    /// Object slots.
    pub objects: u32,
    /// Table cells.
    pub cells: u32,
    /// Blocks.
    pub blocks: u32,
}

/// Bytes of a block.
pub const BLOCK: usize = 64;

impl Geometry {
    /// How many panels of wait bits there are, beyond what the objects hold themselves.
    pub fn panels(&self) -> u32 {
        self.members.saturating_sub(INLINE_MEMBERS).div_ceil(PANEL_MEMBERS)
    }
    /// Where it is said of an object in which lines of the panels a bit may stand: see far.rs.
    pub fn far_at(&self, object: u32) -> usize {
        self.waiting_at() + object as usize * FAR
    }
    /// Where an object's line of a panel is.
    pub fn line_at(&self, panel: u32, object: u32) -> usize {
        let lines =
            if self.panels() > 0 { self.far_at(self.objects + 1).next_multiple_of(LINE) } else { self.waiting_at() };
        lines + (panel as usize * (self.objects as usize + 1) + object as usize) * LINE
    }
    /// Places in the table of names: a power of two, at most half full.
    pub fn names(&self) -> usize {
        (self.objects as usize * 2).next_power_of_two()
    }
    /// Where the members begin.
    pub fn members_at(&self) -> usize {
        4096
    }
    /// Where the members' visits begin: `generation:32 | object + 1:32` each, or 0.
    pub fn visits_at(&self) -> usize {
        self.members_at() + self.members as usize * size_of::<Member>()
    }
    /// Where the rosters begin: a word for each group of members, which changes when a member joins there.
    pub fn rosters_at(&self) -> usize {
        self.visits_at() + self.members as usize * 8
    }
    /// How many rosters there are. (The explorer's worlds have groups of their own size, and few members.)
    pub fn rosters(&self) -> u32 {
        self.members.div_ceil(GROUP).max(self.members.min(GROUP))
    }
    /// Where the objects begin.
    pub fn objects_at(&self) -> usize {
        (self.rosters_at() + self.rosters() as usize * 4).next_multiple_of(size_of::<Object>())
    }
    /// What has no storage behind it in a new arena: members, visits and objects beyond the first, and all panels of wait bits; blocks and their
    /// owners, but the last page, with which the file has its length.
    pub fn holes(&self) -> Vec<std::ops::Range<u64>> {
        let of = |at: usize, first: u32, each: usize, end: usize| (at + first as usize * each) as u64..end as u64;
        let members = of(self.members_at(), INLINE_MEMBERS.min(self.members), size_of::<Member>(), self.visits_at());
        let visits = of(self.visits_at(), FIRST_VISITS.min(self.members), 8, self.rosters_at());
        let objects = of(self.objects_at(), STEP.min(self.objects), size_of::<Object>(), self.cells_at());
        let blocks = self.owners_at() as u64..(self.len() - 4096) as u64;
        [members, visits, objects, blocks].into_iter().filter(|hole| !hole.is_empty()).collect()
    }
    /// Where the outside wait sets begin.
    pub fn waiting_at(&self) -> usize {
        self.objects_at() + self.objects as usize * size_of::<Object>()
    }
    /// Where the cells begin.
    pub fn cells_at(&self) -> usize {
        self.line_at(self.panels(), 0)
    }
    /// Where the table of names begins.
    pub fn names_at(&self) -> usize {
        self.cells_at() + self.cells as usize * size_of::<Cell>()
    }
    /// Where the owners of the blocks begin.
    pub fn owners_at(&self) -> usize {
        self.names_at() + self.names() * 8
    }
    /// Where the blocks begin.
    pub fn blocks_at(&self) -> usize {
        (self.owners_at() + self.blocks as usize * 8).next_multiple_of(4096)
    }
    /// Bytes in all, whole pages.
    pub fn len(&self) -> usize {
        (self.blocks_at() + self.blocks as usize * BLOCK).next_multiple_of(4096)
    }
    /// Never: there is always a header.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// What a member slot stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// A thread.
    Thread = 0,
    /// A process, represented by a background thread of this library in it.
    Process = 1,
    /// A reaper: owns nothing, does not keep an arena from being removed, is not listed.
    Reaper = 2,
}

/// What an object has besides its slot, counted by [`Object::permits`] from [`Object::more`] on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Nothing.
    Nothing,
    /// Cells of the table.
    Cells,
    /// So many bytes of the arena's data.
    Bytes,
    /// So many blocks of the arena's data, which its users walk through.
    Blocks,
}

/// The table of kinds: what each is called, and what it has besides its slot. What is done for each is in the other half of the
/// table, [`Kinds`](crate::Kinds), which the layer above fills.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, $name:literal, $extent:ident;)*) => {
        /// What an object slot holds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$doc])* $kind = $number,)*
        }

        impl Kind {
            /// How many there are, and one more: numbers begin at 1.
            pub const NUMBERS: usize = [$($number as usize),*].len() + 1;

            /// What it has besides its slot.
            pub fn extent(self) -> Extent {
                match self {
                    $(Kind::$kind => Extent::$extent,)*
                }
            }

            /// What it is called.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }

            fn of_number(number: u64) -> Option<Kind> {
                match number {
                    $($number => Some(Kind::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// N owned permits.
    Pool = 1, "pool", Cells;
    /// A counter of saved wake-ups.
    Semaphore = 2, "semaphore", Nothing;
    /// A robust lock around data.
    Mutex = 3, "mutex", Bytes;
    /// What one waits on with a mutex.
    Condvar = 4, "condition variable", Nothing;
    /// The waiters at an end of a tube.
    End = 5, "end of a tube", Nothing;
    /// A channel between processes.
    Tube = 6, "tube", Blocks;
    /// A tube whose subscribers each get every message.
    Broadcast = 7, "broadcast tube", Blocks;
    /// A dictionary.
    Map = 8, "map", Blocks;
    /// What was put in last comes out first.
    Stack = 9, "stack", Blocks;
    /// A number that is added to.
    Counter = 10, "counter", Blocks;
    /// Words that change together.
    Words = 11, "words", Blocks;
    /// Data that is changed by requests, whichever thread carries them out.
    Server = 12, "server", Blocks;
    /// A lock whose holder inherits its waiters' priority.
    HelpLock = 13, "helping lock", Blocks;
    /// Data with conditions to wait for.
    Monitor = 14, "monitor", Blocks;
    /// A robust lock around data that many read or one writes.
    RwLock = 15, "readers-writer lock", Bytes;
    /// Where the readers of such a lock wait.
    Line = 16, "line of readers", Nothing;
    /// The readers of what such a lock guards: one bit for each member, in the wait set.
    Inside = 17, "set of readers", Nothing;
    /// Where parties wait for each other.
    Barrier = 18, "barrier", Blocks;
}

/// The word [`Object::head`], taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(pub u64);

impl Head {
    const FREE: u64 = 0;
    const LIVE: u64 = 1;
    const DEAD: u64 = 2;
    const CLOSED: u64 = 3;

    fn new(generation: u32, kind: u64, state: u64) -> Head {
        Head(u64::from(generation) << 32 | kind << 24 | state << 16)
    }
    /// A slot free for any object, last used in `generation`.
    pub fn free(generation: u32) -> Head {
        Head::new(generation, 0, Head::FREE)
    }
    /// An object in service.
    pub fn live(generation: u32, kind: Kind) -> Head {
        Head::new(generation, kind as u64, Head::LIVE)
    }
    /// The same object, removed, while there may still be traces of its users.
    pub fn dead(self) -> Head {
        Head::new(self.generation(), self.0 >> 24 & 0xff, Head::DEAD)
    }
    /// The same object, when no trace of its users is left, and no thread may begin to visit it any more.
    pub fn closed(self) -> Head {
        Head::new(self.generation(), self.0 >> 24 & 0xff, Head::CLOSED)
    }
    /// Which use of the slot this is.
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// Whether it is in service as this kind.
    pub fn is_live(self, kind: Kind) -> bool {
        self.0 >> 16 & 0xff == Head::LIVE && self.0 >> 24 & 0xff == kind as u64
    }
    /// What it is, or was when it was last in service.
    #[inline]
    pub fn kind(self) -> Option<Kind> {
        Kind::of_number(self.0 >> 24 & 0xff)
    }
    /// Whether it is in service at all.
    pub fn in_service(self) -> bool {
        self.0 >> 16 & 0xff == Head::LIVE
    }
    /// Whether it was removed, and there may still be traces of its users.
    pub fn is_dead(self) -> bool {
        self.0 >> 16 & 0xff == Head::DEAD
    }
    /// Whether it was removed, and only a visitor may keep the slot from being free: see visit.rs.
    pub fn is_closed(self) -> bool {
        self.0 >> 16 & 0xff == Head::CLOSED
    }
    /// Whether its users may have left something in it: it is in service, or removed and not yet closed.
    pub fn stands(self) -> bool {
        self.in_service() || self.is_dead()
    }
    /// Whether the slot is free for any object.
    pub fn is_free(self) -> bool {
        self.0 >> 16 & 0xff == Head::FREE
    }
}

impl Geometry {
    /// Itself, if every part is within its limits.
    pub fn checked(self) -> Option<Geometry> {
        let fits = (1..=MAX_MEMBERS).contains(&self.members)
            && (1..=MAX_OBJECTS).contains(&self.objects)
            && (1..=1 << 24).contains(&self.cells)
            && (1..=MAX_BLOCKS).contains(&self.blocks);
        fits.then_some(self)
    }
}
