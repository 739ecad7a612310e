//! What one process knows of arenas: where they lie, and which it has mapped.
//!
//! A mapping stays for the rest of the process's life, and is found again by name as long as the name still stands
//! for the same file. A forked child has its parent's mappings. Before it first uses its copy of the private arena, it removes all members
//! and waits of the parent's threads from it.

use crate::directory::{directory, open_directory, shared_by_choice};
use crate::kinds::table::TABLE;
use chappe_arena::layout::{BLOCK, Geometry, Kind, MAX_BLOCKS, MAX_MEMBERS, MAX_OBJECTS, USUAL_MEMBERS};
use chappe_arena::{ArenaError, Hooks, Map, Standing, Who, check_name, io_at};
use chappe_plat::dir::{Dir, can_back};
use chappe_plat::light;
use chappe_wait::kinds;
use chappe_wait::known::KNOWN;
use chappe_wait::private;
use chappe_wait::waiters::bytes;
use std::path::PathBuf;
use std::time::Duration;

/// What the arenas of this process call when a member died, or an object is removed.
pub(crate) const HOOKS: Hooks = Hooks {
    recover: chappe_wait::recover::recover,
    clear: kinds::clear,
    notify_dead: chappe_wait::recover::notify_dead,
    used: kinds::used,
    wake_after_death: chappe_tube::kinds::wake_after_death,
    leases: crate::lease::look_after,
    kinds: &TABLE,
};

/// The prefix of the names of a family's arenas: see `family`.
pub(crate) const PREFIX: &str = "family-";

/// Whether a name is that of a family's arena.
pub(crate) fn is_familys(name: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_hexdigit() && !c.is_ascii_uppercase();
    name.strip_prefix(PREFIX).is_some_and(|number| number.len() == 16 && number.chars().all(is_digit))
}

/// Capacities of a new arena; a `None` gets the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArenaOptions {
    /// How many threads and processes can be attached at once (4095; at most 65535). Each takes memory when it first is, 64 KiB for 256 of them, and
    /// 64 bytes an object for 512 beyond the first 256, and 16 more for the first of these.
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

/// How many members an arena has by default; without sparse files all of them take memory at once, and there are fewer.
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
        let known = light::lock(&KNOWN);
        let map = known.iter().rev().find(|m| m.name() == name && m.directory() == Some(dir.path()))?;
        let now = dir.inode_of(name).ok()?;
        (now == Some(map.inode()) && map.mark() != Standing::Removed).then_some(Arena(map))
    }

    fn keep(map: &'static Map) -> Arena {
        let mut known = light::lock(&KNOWN);
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
        if let Some(map) = private::first() {
            return Ok(Arena(map));
        }
        crate::fork::prepare();
        let g = Geometry { members: USUAL_MEMBERS, objects: 1 << 16, cells: 1 << 18, blocks: 1 << 20 };
        private::found(|| Map::private(g, HOOKS)).map(Arena)
    }

    /// The named arena that this process has mapped and whose memory contains an address.
    #[doc(hidden)]
    pub fn containing(address: usize) -> Option<Arena> {
        let known = light::lock(&KNOWN);
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

    /// Whether there is an object of this name.
    #[doc(hidden)]
    pub fn has(&self, name: &str) -> bool {
        self.0.find(name).is_some()
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
            data_used: objects.iter().map(|p| bytes(self.0, *p).next_multiple_of(BLOCK as u64)).sum(),
            bytes: g.len() as u64,
        }
    }
}
