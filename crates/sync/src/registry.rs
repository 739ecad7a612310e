//! What one process knows of arenas: where they lie, and which it has mapped.
//!
//! A mapping stays for the rest of the process's life, and is found again by name as long as the name still stands
//! for the same file. A forked child has its parent's mappings. Before it first uses its copy of the private arena, it removes all members
//! and waits of the parent's threads from it.

use crate::attachment::leave;
use crate::directory::{directory, open_directory, shared_by_choice};
use crate::error::ObjectError;
use crate::family::is_familys;
use crate::handle::full_name;
use crate::inspect::{self, ObjectInfo, Waiter};
use crate::wait::State;
use chappe_arena::layout::{BLOCK, Geometry, Kind, MAX_BLOCKS, MAX_MEMBERS, MAX_OBJECTS};
use chappe_arena::{ArenaError, Hooks, Map, Place, Standing, Who, check_name, io_at};
use chappe_plat::atomic::Ordering;
use chappe_plat::dir::{Dir, can_back};
use chappe_plat::{Made, process};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What the arenas of this process call when a member died, or an object is removed.
const HOOKS: Hooks = Hooks {
    recover: crate::recover,
    clear: crate::clear,
    notify_dead: crate::notify_dead,
    used: crate::used,
    wake_after_death: crate::wake_after_death,
    leases: crate::lease::look_after,
};

pub(crate) static KNOWN: Mutex<Vec<&'static Map>> = Mutex::new(Vec::new());
/// What [`PRIVATE`] said first, and in which incarnation of the process: readable without its lock. A forked child takes the lock.
static FIRST: Made<(u64, &'static Map)> = Made::new();

pub(crate) static PRIVATE: Mutex<Option<(u64, &'static Map)>> = Mutex::new(None);

/// Capacities of a new arena; a `None` gets the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaOptions {
    /// How many threads and processes can be attached at once (4095, and no more). Each takes memory when it first is, 64 KiB for 256 of them, and
    /// 64 bytes an object for 512 beyond the first 256.
    pub members: Option<u32>,
    /// How many objects it can have (4096).
    pub objects: Option<u32>,
    /// How many permits its pools can have beyond the first of each (16384).
    pub cells: Option<u32>,
    /// How many bytes the data of its mutexes and its tubes can take together, in steps of 64 (256 MiB; at most 4 GiB). They take
    /// memory when they are first used, so a limit costs nothing but address space; before Linux 5.14 they take it at once, and the default
    /// is 1 MiB.
    pub data: Option<u64>,
}

/// How many members an arena has by default, at most.
pub(crate) const USUAL_MEMBERS: u32 = MAX_MEMBERS;

/// The same; without sparse files all of them take memory at once, and there are fewer.
fn usual_members() -> u32 {
    if can_back() { USUAL_MEMBERS } else { LITTLE_MEMBERS }
}

/// How many bytes of data an arena has by default; without sparse files all of them are taken at once.
fn usual_data() -> u64 {
    if can_back() { 256 << 20 } else { 1 << 20 }
}

/// The same where the process may not have such large files or mappings.
const LITTLE_DATA: u64 = 4 << 20;
/// How many members then.
const LITTLE_MEMBERS: u32 = 1024;

impl ArenaOptions {
    /// For an arena whose first object takes so many bytes of data: with room for it, and for as much again as usual.
    pub(crate) fn with_room(wanted: u64) -> ArenaOptions {
        let (usual, most) = (usual_data(), u64::from(MAX_BLOCKS) * BLOCK as u64);
        let data = (wanted > usual / 2).then(|| wanted.saturating_add(usual).min(most));
        ArenaOptions { data, ..ArenaOptions::default() }
    }

    fn geometry(&self) -> Result<Geometry, ArenaError> {
        let g = Geometry {
            members: self.members.unwrap_or_else(usual_members),
            objects: self.objects.unwrap_or(4096),
            cells: self.cells.unwrap_or(16384),
            blocks: 0,
        };
        let data = self.data.unwrap_or_else(usual_data);
        let most = u64::from(MAX_BLOCKS) * BLOCK as u64;
        if !(1..=most).contains(&data) {
            return Err(ArenaError::Capacity { what: "bytes of data", count: data, most });
        }
        let g = Geometry { blocks: data.div_ceil(BLOCK as u64) as u32, ..g };
        for (what, count, most) in
            [("members", g.members, MAX_MEMBERS), ("objects", g.objects, MAX_OBJECTS), ("cells", g.cells, 1 << 24)]
        {
            if !(1..=most).contains(&count) {
                return Err(ArenaError::Capacity { what, count: count.into(), most: most.into() });
            }
        }
        Ok(g)
    }
}

/// How much an arena has room for, and how much of it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capacity {
    /// Member slots.
    pub members: u32,
    /// Members attached now.
    pub members_used: u32,
    /// Object slots.
    pub objects: u32,
    /// Objects in service now.
    pub objects_used: u32,
    /// Table cells.
    pub cells: u32,
    /// Table cells of living objects.
    pub cells_used: u32,
    /// Bytes for the data of mutexes, and for tubes.
    pub data: u64,
    /// Bytes of living mutexes' data and of tubes, in steps of 64.
    pub data_used: u64,
    /// Bytes of shared memory in all. Those that were never used are counted, but take no memory.
    pub bytes: u64,
}

/// A region of memory that holds chappe's objects: this process's own, or a named one that any process of
/// the same user (or of the users that `CHAPPE_DIR` admits) can attach.
///
/// A copy of the handle costs nothing. The mapping stays for the rest of the process's life.
#[derive(Clone, Copy)]
pub struct Arena(&'static Map);

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arena({})", self.0.name())
    }
}

impl PartialEq for Arena {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Arena {
    fn known(dir: &Dir, name: &str) -> Option<Arena> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let map = known.iter().rev().find(|m| m.name() == name && m.directory() == Some(dir.path()))?;
        let now = dir.inode_of(name).ok()?;
        (now == Some(map.inode()) && map.mark() != Standing::Removed).then_some(Arena(map))
    }

    fn keep(map: &'static Map) -> Arena {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        // Two threads may have attached at once: one mapping is enough.
        if let Some(first) =
            known.iter().find(|m| m.inode() == map.inode() && m.id() == map.id() && m.directory() == map.directory())
        {
            return Arena(first);
        }
        known.push(map);
        Arena(map)
    }

    /// Attaches the named arena; does not take a member slot yet.
    ///
    /// # Errors
    /// `NotFound`, or what is wrong with the file or directory.
    pub fn open(name: &str) -> Result<Arena, ArenaError> {
        crate::fork::prepare();
        check_name(name, "arena")?;
        let dir = open_directory(false).map_err(|e| match e {
            ArenaError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound && !shared_by_choice() => {
                ArenaError::NotFound {
                    name: name.into(),
                    dir: directory().map_or_else(|_| String::new(), |d| d.display().to_string()),
                }
            }
            other => other,
        })?;
        if let Some(arena) = Arena::known(&dir, name) {
            return Ok(arena);
        }
        Ok(Arena::keep(Map::attach(&dir, name, HOOKS)?))
    }

    /// Makes the named arena, which must not exist.
    ///
    /// # Errors
    /// `Exists`, `NoSpace`, `Capacity`, or what is wrong with the directory.
    pub fn create(name: &str, options: &ArenaOptions) -> Result<Arena, ArenaError> {
        crate::fork::prepare();
        if is_familys(name) {
            let why = "it is reserved for what `Arena::family` makes".into();
            return Err(ArenaError::Name { name: name.into(), what: "arena", why });
        }
        Arena::make(name, options, false)
    }

    /// As [`Arena::create`], whatever the name. `lasting`: as in [`Arena::open_or_create_lasting`].
    pub(crate) fn make(name: &str, options: &ArenaOptions, lasting: bool) -> Result<Arena, ArenaError> {
        check_name(name, "arena")?;
        let geometry = options.geometry()?;
        let dir = open_directory(true)?;
        let made = match Map::create(&dir, name, geometry, lasting, HOOKS) {
            // The cause may be `ulimit -f` or `-v`.
            Err(ArenaError::NoSpace { .. } | ArenaError::Io { .. }) if options.data.is_none() => {
                let (data, members) = (Some(LITTLE_DATA.min(usual_data())), options.members.or(Some(LITTLE_MEMBERS)));
                let little = ArenaOptions { data, members, ..*options };
                Map::create(&dir, name, little.geometry()?, lasting, HOOKS)?
            }
            made => made?,
        };
        Ok(Arena::keep(made))
    }

    /// Attaches the named arena, or makes it.
    ///
    /// # Errors
    /// As [`Arena::open`] and [`Arena::create`].
    pub fn open_or_create(name: &str, options: &ArenaOptions) -> Result<Arena, ArenaError> {
        Arena::open_or(name, || Arena::create(name, options))
    }

    /// The same. If it makes the arena, then processes that have it mapped go on with it after another process removes its file, as with an
    /// unlinked file. A process that opens the name then gets another arena, and both serve: not for what must exist only once.
    ///
    /// # Errors
    /// As [`Arena::open_or_create`].
    #[doc(hidden)]
    pub fn open_or_create_lasting(name: &str, options: &ArenaOptions) -> Result<Arena, ArenaError> {
        Arena::open_or(name, || Arena::make(name, options, true))
    }

    fn open_or(name: &str, make: impl Fn() -> Result<Arena, ArenaError>) -> Result<Arena, ArenaError> {
        loop {
            match Arena::open(name) {
                Err(ArenaError::NotFound { .. }) => {}
                other => return other,
            }
            match make() {
                Err(ArenaError::Exists { .. }) => {}
                other => return other,
            }
        }
    }

    /// Removes the named arena. An attachment of this process, without anything held or awaited there, does not count as a use. An arena in
    /// use is refused unless `force`, which makes everything in it dead: its waiters get an error, and permits held there end with their guards.
    ///
    /// # Errors
    /// `NotFound`, `InUse`, or what is wrong with the file.
    pub fn remove(name: &str, force: bool) -> Result<(), ArenaError> {
        crate::fork::prepare();
        check_name(name, "arena")?;
        let dir = open_directory(false)?;
        let arena = Arena::open(name).ok();
        if !force && let Some(arena) = arena {
            arena.leave_if_idle();
        }
        let is_idle = |map: &'static Map, member, generation| {
            // Acquire: what it holds by then is seen below.
            let state = State(map.member(member).state.load(Ordering::Acquire));
            state.is_idle() && !crate::recover::owns(map, member, generation)
        };
        Map::remove(&dir, name, force, is_idle, HOOKS)?;
        if let Some(arena) = arena {
            crate::lease::forget(arena.map());
        }
        Ok(())
    }

    /// Gives up the thread's slot if it owns nothing there: its mere attachment should not keep the arena.
    fn leave_if_idle(&self) {
        leave(self.0, |attachment| {
            !crate::recover::owns(self.0, attachment.joined.index, attachment.joined.generation)
        });
    }

    /// The names in the directory, sorted; none if the directory does not exist yet.
    ///
    /// # Errors
    /// What is wrong with the directory.
    pub fn list() -> Result<Vec<String>, ArenaError> {
        let dir = match open_directory(false) {
            Err(ArenaError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound && !shared_by_choice() =>
            {
                return Ok(Vec::new());
            }
            other => other?,
        };
        dir.names().map_err(|e| io_at("list", dir.path(), e))
    }

    /// Checks that arenas can be made: that there is a directory for them, which is made if need be, and that this user may write in it.
    ///
    /// # Errors
    /// Why not.
    #[doc(hidden)]
    pub fn may_be_made() -> Result<(), ArenaError> {
        let dir = open_directory(true)?;
        dir.lock_within(Duration::ZERO).map(drop).map_err(|e| io_at("make arenas in", dir.path(), e))
    }

    /// This process's own arena, the private one.
    ///
    /// # Panics
    /// If there is no address space for it.
    pub fn private() -> Arena {
        Arena::try_private().expect("address space for the private arena")
    }

    /// The same, for a caller that can go on without it.
    ///
    /// # Errors
    /// The system's, if there is no address space for it.
    #[doc(hidden)]
    pub fn try_private() -> Result<Arena, ArenaError> {
        if let Some((incarnation, map)) = FIRST.get()
            && *incarnation == process::incarnation()
        {
            return Ok(Arena(map));
        }
        let arena = Arena::find_private()?;
        FIRST.get_or(|| (process::incarnation(), arena.0));
        Ok(arena)
    }

    fn find_private() -> Result<Arena, ArenaError> {
        crate::fork::prepare();
        let mut slot = PRIVATE.lock().unwrap_or_else(PoisonError::into_inner);
        let now = process::incarnation();
        match &mut *slot {
            Some((incarnation, map)) if *incarnation == now => Ok(Arena(map)),
            Some((incarnation, map)) => {
                purge(map);
                map.cover(now);
                *incarnation = now;
                Ok(Arena(map))
            }
            None => {
                let g = Geometry { members: MAX_MEMBERS, objects: 1 << 16, cells: 1 << 18, blocks: 1 << 20 };
                let map = Map::private(g, HOOKS)?;
                // No member outlives the process here, so nobody need notice its death.
                map.cover(now);
                *slot = Some((now, map));
                Ok(Arena(map))
            }
        }
    }

    /// The named arena that this process has mapped and whose memory contains an address.
    #[doc(hidden)]
    pub fn containing(address: usize) -> Option<Arena> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|map| map.contains(address)).map(|map| Arena(map))
    }

    pub(crate) fn of(map: &'static Map) -> Arena {
        Arena(map)
    }

    /// The mapping of this arena.
    pub fn map(&self) -> &'static Map {
        self.0
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.0.name().to_owned()
    }

    /// Its file.
    pub fn path(&self) -> Option<PathBuf> {
        self.0.directory().map(|d| d.join(self.0.name()))
    }

    /// All members that are attached, and the dead that are not yet recovered.
    pub fn members(&self) -> Vec<Who> {
        self.0.members()
    }

    /// The objects in it, by name.
    pub fn objects(&self) -> Vec<ObjectInfo> {
        inspect::objects(self.0)
    }

    /// One of the objects in it, by its name there.
    ///
    /// # Errors
    /// `Unknown`, which lists the objects that are there; `Arena` if it is not a valid name.
    pub fn object(&self, name: &str) -> Result<ObjectInfo, ObjectError> {
        inspect::look(self.0, self.find(name)?).ok_or_else(|| self.unknown(name))
    }

    /// Whether there is an object of this name.
    #[doc(hidden)]
    pub fn has(&self, name: &str) -> bool {
        self.0.find(name).is_some()
    }

    /// Removes one of the objects in it, of whatever kind, as the removal of that kind does.
    ///
    /// # Errors
    /// As [`Arena::object`]; or those of the kind's removal: it is in use, unless `force`.
    #[cfg(not(feature = "loom"))]
    pub fn remove_object(&self, name: &str, force: bool) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let place = self.find(name)?;
        let Some(kind) = place.head.kind() else {
            return Err(
                format!("`{name}` is of a kind that this chappe does not know: it cannot be removed alone").into()
            );
        };
        crate::kinds::of(kind).remove(self.0, place, &full_name(self.0.name(), name), force)
    }

    /// The waiters of one of the objects, in the order in which they will be served.
    ///
    /// # Errors
    /// As [`Arena::object`].
    pub fn waiters(&self, name: &str) -> Result<Vec<Waiter>, ObjectError> {
        Ok(inspect::waiters(self.0, self.find(name)?))
    }

    fn find(&self, name: &str) -> Result<Place, ObjectError> {
        check_name(name, "object")?;
        self.0.find(name).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> ObjectError {
        let full = |name: &str| full_name(self.0.name(), name);
        let existing = self.objects().iter().map(|o| full(&o.name)).collect();
        ObjectError::Unknown { kind: "object", name: full(name), arena: self.name(), existing }
    }

    /// How much of it is in use.
    pub fn capacity(&self) -> Capacity {
        let g = self.0.geometry();
        let objects = self.0.objects();
        Capacity {
            members: g.members,
            members_used: self.0.members().len() as u32,
            objects: g.objects,
            objects_used: objects.len() as u32,
            cells: g.cells,
            cells_used: objects
                .iter()
                .filter(|p| p.head.is_live(Kind::Pool))
                .flat_map(|p| self.0.extents(p.index))
                // Chains that were overwritten may have the same cells.
                .fold(0, |sum: u32, (_, len)| sum.saturating_add(len)),
            data: u64::from(g.blocks) * BLOCK as u64,
            data_used: objects.iter().map(|p| inspect::bytes(self.0, *p).next_multiple_of(BLOCK as u64)).sum(),
            bytes: g.len() as u64,
        }
    }

    /// Keeps what of the arena is in use now in memory: the members, the objects and their data, except for a private object's data that lies on
    /// the heap. No operation on them is a page fault from then on, until the process ends or calls exec: for threads with deadlines, which also
    /// keep their own stacks and code there (`mlockall`). What is made later may lie elsewhere: call this again. The calling thread becomes a
    /// member first. Answers how many bytes are kept.
    ///
    /// A forked child has nothing kept in memory.
    ///
    /// Paper: nonblocking-real-time, 6 (memory pinning).
    ///
    /// # Errors
    /// `Unpinned` if the process may not lock so much memory; others if the thread cannot become a member.
    pub fn pin(&self) -> Result<u64, ArenaError> {
        crate::attachment::attachment(self.0, |_| ())?;
        let ranges = self.0.ranges_in_use();
        let bytes = ranges.iter().map(|(_, len)| *len as u64).sum();
        let refused = |source| ArenaError::Unpinned {
            name: self.0.name().into(),
            bytes,
            limit: chappe_plat::memory::most_pinned(),
            source,
        };
        for (address, len) in ranges {
            chappe_plat::memory::pin(address, len).map_err(refused)?;
        }
        Ok(bytes)
    }

    /// Gives up the calling thread's member slot. Permits that it still has there go back, and a mutex that it still has
    /// locked is condemned. The thread joins again when it next needs to. Inside of a section of a named helping lock or monitor this does nothing.
    pub fn leave(&self) {
        leave(self.0, |_| true);
    }
}

/// After a fork, in the child: no arena takes the child for its parent, and no batch is one that a thread of the parent builds.
pub(crate) fn forget_parents_presence() {
    if let Ok(known) = KNOWN.try_lock() {
        known.iter().for_each(|map| {
            map.forget_parents_presence();
            map.forget_parents_batches();
        });
    }
}

/// In a forked child: removes all members from its copy of the private arena; they are threads of another process.
fn purge(map: &'static Map) {
    // The child has one thread at its first use of the arena: the one that forked.
    map.reset_locks();
    // No wait goes on here. This comes first, or a permit that goes back would be granted to one of the parent's threads:
    // the word of a mixed choice lies in memory that the parent shares.
    let idle = |i: u32, state: State| {
        let m = map.member(i);
        let number = state.number(|| m.era.load(Ordering::Relaxed)); // Relaxed: nobody else runs here.
        m.state.store(State::idle(number).0, Ordering::Relaxed); // Relaxed: as above.
    };
    let states = |of: fn(State) -> bool| {
        let load = move |i: u32| (i, State(map.member(i).state.load(Ordering::Relaxed))); // Relaxed: as above.
        (0..map.members_used()).map(load).filter(move |(_, state)| of(*state))
    };
    map.forget_parents_batches();
    for i in 0..map.members_used() {
        map.member(i).alias.store(0, Ordering::Relaxed); // Relaxed: as above.
    }
    states(State::is_waiting).for_each(|(i, state)| idle(i, state));
    for object in 0..map.objects_used() {
        for word in 0..map.waiting_words() {
            map.waiting(object, word).store(0, Ordering::Relaxed); // Relaxed: as above.
        }
    }
    // What a thread was granted and had not taken goes back.
    states(State::is_granted).for_each(|(i, state)| {
        crate::kinds::take_back(map, i, state, None);
        idle(i, state);
    });
    for i in 0..map.members_used() {
        let m = map.member(i);
        // Relaxed, both: nobody else runs here.
        let generation = (m.ident.load(Ordering::Relaxed) >> 32) as u32;
        if generation != 0 && m.swept.load(Ordering::Relaxed) != generation {
            map.sweep(i, generation);
        }
    }
}
