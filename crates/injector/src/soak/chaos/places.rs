//! Where the chaos run is: three arenas, each with pools, semaphores, and a mutex with its condition variables; and tubes.
//!
//! | | in each arena |
//! |---|---|
//! | pools | `gate` of 1 permit, `stalls` of 2, `field` of 4 |
//! | semaphores | `hay`, and `oats` that lets newcomers overtake: one unit each, which goes to and fro |
//! | a store | mutex `store` with room for two things, condition variables `room` and `some` |
//!
//! | tube | where | kind | slots | |
//! |---|---|---|---|---|
//! | `a`, `b` | first arena | many to many | 4, 1 | one choice sends to either, one receives from either |
//! | `c` | second | many to one | 2 | |
//! | `d` | second | one to one | 2 | |
//! | `e` | third | one to many | 2 | |
//! | `f` | third | many to many, drops | 1 | |

use chappe::tube::named::{Kind, Tube, TubeError, TubeOptions};
use chappe::{Arena, ArenaOptions, Condvar, Mutex, ObjectError, Pool, PoolError, Semaphore};

/// What each semaphore has at the start.
pub const UNITS: u32 = 1;
/// How many messages one round can have.
pub const MESSAGES: usize = 1 << 21;
/// What tubes carry: number, sender, which of that one's messages by this tube, tube, and what follows from these.
pub type Message = [u64; 6];
/// Two halves that agree, how many things were put in and taken, and the things.
pub type Goods = [u64; 8];
/// An empty store.
pub const EMPTY: Goods = [0; 8];

/// The arenas that are there all the time.
pub const ARENAS: [&str; 3] = ["meadow", "pond", "wood"];
/// The pools of each, and how many permits they have.
pub const POOLS: [(&str, u32); 3] = [("gate", 1), ("stalls", 2), ("field", 4)];
/// The most permits of a pool.
pub const MOST_PERMITS: usize = 4;
/// The semaphores of each arena. Of the second, newcomers may overtake.
pub const SEMAPHORES: [&str; 2] = ["hay", "oats"];
/// All objects of an arena that stay, but its tubes.
const OTHERS: [&str; 3] = ["room", "some", "store"];

/// A tube that stays.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// In which arena.
    pub arena: usize,
    /// Its name there.
    pub name: &'static str,
    /// How many messages it has room for.
    pub slots: u32,
    /// How many it has at each end.
    pub kind: Kind,
    /// Whether what a dead receiver had is dropped.
    pub drops: bool,
    /// Which tubes have receivers in common.
    pub group: usize,
}

const fn channel(arena: usize, name: &'static str, slots: u32, kind: Kind, group: usize) -> Channel {
    Channel { arena, name, slots, kind, drops: false, group }
}

/// The tubes.
pub const TUBES: [Channel; 6] = [
    channel(0, "a", 4, Kind::Mpmc, 0),
    channel(0, "b", 1, Kind::Mpmc, 0),
    channel(1, "c", 2, Kind::Mpsc, 1),
    channel(1, "d", 2, Kind::Spsc, 2),
    channel(2, "e", 2, Kind::Spmc, 3),
    Channel { drops: true, ..channel(2, "f", 1, Kind::Mpmc, 4) },
];
/// How many groups of tubes there are.
pub const GROUPS: usize = 5;

/// What each arena is made with: room for what stays, and for some of what comes and goes.
pub const CAPACITY: ArenaOptions =
    ArenaOptions { members: Some(256), objects: Some(24), cells: Some(16), data: Some(8 * 2048) };

/// Its name with its arena.
pub fn full(arena: usize, name: &str) -> String {
    format!("{}/{name}", ARENAS[arena])
}

impl Channel {
    fn options(&self) -> TubeOptions {
        TubeOptions { slots: self.slots, kind: self.kind, drops: self.drops, ..TubeOptions::default() }
    }

    /// Attaches the tube.
    ///
    /// # Errors
    /// As [`Tube::open`].
    pub fn open(&self) -> Result<Tube<Message>, TubeError> {
        Tube::open(&full(self.arena, self.name))
    }
}

/// The objects of an arena that stay, by name.
pub fn names(arena: usize) -> Vec<&'static str> {
    let tubes = TUBES.iter().filter(|tube| tube.arena == arena).map(|tube| tube.name);
    let mut all: Vec<&str> = tubes.chain(POOLS.map(|(name, _)| name)).chain(SEMAPHORES).chain(OTHERS).collect();
    all.sort_unstable();
    all
}

/// What a process has of one arena.
pub struct Place {
    /// Its pools, as in [`POOLS`].
    pub pools: Vec<Pool>,
    /// Its semaphores, as in [`SEMAPHORES`].
    pub semaphores: Vec<Semaphore>,
    /// Its mutex.
    pub store: Mutex<Goods>,
    /// There is room in the store.
    pub room: Condvar,
    /// There is something in the store.
    pub some: Condvar,
}

/// Why something that must be there cannot be opened.
#[derive(Debug)]
pub struct Closed(pub String);

impl From<PoolError> for Closed {
    fn from(e: PoolError) -> Closed {
        Closed(e.to_string())
    }
}

impl From<ObjectError> for Closed {
    fn from(e: ObjectError) -> Closed {
        Closed(e.to_string())
    }
}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "what must be there cannot be opened: {}", self.0)
    }
}

impl std::error::Error for Closed {}

/// Opens what all arenas have, but tubes.
///
/// # Errors
/// What is not there, or something else.
pub fn open() -> Result<Vec<Place>, Closed> {
    let one = |arena: usize| {
        let name = |name: &str| full(arena, name);
        Ok(Place {
            pools: POOLS.iter().map(|(pool, _)| Pool::open(&name(pool))).collect::<Result<_, _>>()?,
            semaphores: SEMAPHORES.iter().map(|s| Semaphore::open(&name(s))).collect::<Result<_, _>>()?,
            store: Mutex::open(&name("store"))?,
            room: Condvar::open(&name("room"))?,
            some: Condvar::open(&name("some"))?,
        })
    };
    (0..ARENAS.len()).map(one).collect()
}

/// Makes all of it.
///
/// # Errors
/// What could not be made.
pub fn make() -> Result<(), Box<dyn std::error::Error>> {
    for (at, arena) in ARENAS.into_iter().enumerate() {
        let handle = Arena::create(arena, &CAPACITY)?;
        for (name, permits) in POOLS {
            Pool::create_in(handle, name, permits)?;
        }
        Semaphore::create(&full(at, SEMAPHORES[0]), UNITS)?;
        Semaphore::create_barging(&full(at, SEMAPHORES[1]), UNITS)?;
        Mutex::create(&full(at, "store"), EMPTY)?;
        Condvar::create(&full(at, "room"))?;
        Condvar::create(&full(at, "some"))?;
    }
    for tube in TUBES {
        let made = Tube::<Message>::create(&full(tube.arena, tube.name), &tube.options())?;
        // So that the first to come need not wait for one that may be told to end before it has come.
        drop((made.sender()?, made.receiver()?));
    }
    Ok(())
}
