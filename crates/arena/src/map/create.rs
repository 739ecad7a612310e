//! Creating an arena, attaching it, removing it.
//!
//! Creation: under the directory's lock, an unnamed file is allocated in full, initialised, and then linked to its name. Removal: under the
//! same lock, the arena is marked, then its name goes. So:
//!
//! - I1: whatever has a name in the directory is whole. A death before the link leaves nothing, since an unnamed file goes with its last
//!   descriptor.
//! - I2: at most one arena of a name serves, except arenas that were made to last without their file: nobody relies on there being only one
//!   of those. A file that is marked REMOVED is never attached. A thread that finds one still named (its remover died between mark and
//!   unlink) finishes the removal under the lock.
//! - I3: an arena in use is not removed without force. The remover stores REMOVING, then looks for members. A member claims its life word,
//!   then looks at the state (E1, sequentially consistent both ways). At least one of them sees the other. A member that sees REMOVING
//!   takes the directory's lock, so that a living remover has decided; a remover that died undecided is undone. For a living remover that
//!   makes no progress (it is stopped) the member waits a second: then it is refused.
//! - The lock is a record lock of the process: the kernel drops it at any death.
//!
//! A mapping is never undone while the process lives: the kernel may still write a life word in it. But the remover of an arena in which no
//! member holds or awaits anything gives its storage back, so that a process that makes and removes arenas keeps some pages of each.

use super::{Hooks, Map, Standing};
use crate::batches::{Batches, words};
use crate::error::{ArenaError, io_at};
use crate::layout::{
    ABI, Cell, Extent, Geometry, Head, INLINE_MEMBERS, MAGIC, Member, MemberKind, Object, REMOVED, REMOVING, SERVING,
    VERSION,
};
use chappe_plat::Made;
use chappe_plat::atomic::{AtomicU64, Ordering, fence};
use chappe_plat::dir::{Dir, File};
use chappe_plat::futex::Scope;
use chappe_plat::life::LifeLock;
use chappe_plat::{dir, process, room, step};
use std::io;
use std::time::Duration;

/// How long a thread waits for the remover of an arena to decide.
const UNDECIDED: Duration = Duration::from_secs(1);

/// Refuses every user but the owner of an arena and root.
fn allow(arena: &str, owner: u32, act: &'static str) -> Result<(), ArenaError> {
    let me = process::uid();
    if me == owner || me == 0 {
        return Ok(());
    }
    Err(ArenaError::NotOwner { arena: arena.into(), uid: owner, act })
}

impl Map {
    /// Maps a file of the directory.
    fn of_file(dir: &Dir, name: &str, file: &File, geometry: Geometry, hooks: Hooks) -> Result<Map, ArenaError> {
        let path = dir.path().join(name);
        let facts = file.facts().map_err(|e| io_at("look at", &path, e))?;
        let (inode, owner) = (facts.inode, facts.uid);
        let base = file.map(geometry.len()).map_err(|e| io_at("map", &path, e))?;
        let folder = dir.facts().map_err(|e| io_at("look at", dir.path(), e))?.inode;
        let [cover, process_member, represented, presence] = [const { AtomicU64::new(0) }; 4];
        let dir = Some(dir.path().to_owned());
        let (scope, name) = (Scope::Shared, name.into());
        Ok(Map {
            base,
            geometry,
            objects_at: geometry.objects_at(),
            scope,
            name,
            dir,
            inode,
            folder,
            owner,
            hooks,
            cover,
            process_member,
            represented,
            presence,
            batches: Batches::named(geometry),
            blocks_next: Default::default(),
            late: Box::default(),
            crowds: Made::new(),
            #[cfg(feature = "sim")]
            group: crate::layout::GROUP.into(),
        })
    }

    /// Makes the named arena; it must not be there. `lasting`: see [`Map::is_lasting`].
    ///
    /// # Errors
    /// `Exists`, `NoSpace`, or the system's.
    pub fn create(
        dir: &Dir,
        name: &str,
        geometry: Geometry,
        lasting: bool,
        hooks: Hooks,
    ) -> Result<&'static Map, ArenaError> {
        let path = dir.path().join(name);
        let _lock = dir.lock().map_err(|e| io_at("lock", &dir.path().join(".lock"), e))?;
        if dir.inode_of(name).map_err(|e| io_at("look at", &path, e))?.is_some() {
            match Map::attach_under_lock(dir, name, hooks) {
                // I2: its remover died after the mark.
                Err(ArenaError::NotFound { .. }) => dir.unlink(name).map_err(|e| io_at("remove", &path, e))?,
                _ => return Err(ArenaError::Exists { name: name.into() }),
            }
        }
        let len = geometry.len();
        let holes = geometry.holes();
        let needed = len as u64 - holes.iter().map(|hole| hole.end - hole.start).sum::<u64>();
        let no_room = |what: &str, e: io::Error| match room::missing(dir.path(), &e) {
            Some(missing) => {
                let dir = dir.path().display().to_string();
                let missing = format!(
                    "{missing}, or make a smaller one first (`chappe arena create {name}` with --members, --objects, --cells or --data)"
                );
                ArenaError::NoSpace { name: name.into(), bytes: needed, dir, missing }
            }
            None => io_at(what, &path, e),
        };
        let file = dir.create_unnamed(len as u64, &holes).map_err(|e| no_room("create", e))?;
        let map = Map::of_file(dir, name, &file, geometry, hooks)?;
        map.initialise();
        map.header().lasting.store(lasting.into(), Ordering::Relaxed); // Relaxed: it has no name yet.
        step!("arena initialised, not yet named");
        dir.link(&file, name).map_err(|e| no_room("name", e))?;
        Ok(Box::leak(Box::new(map)))
    }

    /// Attaches the named arena.
    ///
    /// # Errors
    /// `NotFound`, one of those that say what is wrong with the file, or the system's.
    pub fn attach(dir: &Dir, name: &str, hooks: Hooks) -> Result<&'static Map, ArenaError> {
        loop {
            let map = Map::attach_under_lock(dir, name, hooks)?;
            // The name may have gone to another file since it was opened.
            let now = dir.inode_of(name).map_err(|e| io_at("look at", &dir.path().join(name), e))?;
            if now == Some(map.inode) {
                return Ok(map);
            }
        }
    }

    fn attach_under_lock(dir: &Dir, name: &str, hooks: Hooks) -> Result<&'static Map, ArenaError> {
        let path = dir.path().join(name);
        let shown = path.display().to_string();
        let absent = || ArenaError::NotFound { name: name.into(), dir: dir.path().display().to_string() };
        let file = dir.open_file(name).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => absent(),
            _ => io_at("open", &path, e),
        })?;
        let facts = file.facts().map_err(|e| io_at("look at", &path, e))?;
        let owner = dir.facts().map_err(|e| io_at("look at", dir.path(), e))?;
        // In a user's own directory only that user's files count. The owner and mode of a shared directory say whose files are trusted.
        if owner.mode & 0o022 == 0 && facts.uid != owner.uid {
            return Err(ArenaError::Owner { path: shown, uid: facts.uid, me: process::uid() });
        }
        let geometry = check(&file, &shown, facts.len)?;
        let map = Map::of_file(dir, name, &file, geometry, hooks)?;
        // Acquire: pairs with the remover's mark.
        if map.header().state.load(Ordering::Acquire) == REMOVED {
            return Err(absent());
        }
        if !map.header().admin.is_whole() {
            return Err(ArenaError::Damaged { path: shown, what: "the lock in its header is none".into() });
        }
        let map: &'static Map = Box::leak(Box::new(map));
        map.recover_former_self();
        Ok(map)
    }

    /// Makes an arena for this process alone.
    ///
    /// # Errors
    /// The system's, when there is no address space.
    pub fn private(geometry: Geometry, hooks: Hooks) -> Result<&'static Map, ArenaError> {
        Map::unnamed(geometry, hooks, Scope::Private)
    }

    /// One that the explorer's processes share as if they were threads of one process, so that a single one of them can be killed.
    ///
    /// # Errors
    /// As above.
    #[cfg(feature = "sim")]
    pub fn private_of_all(geometry: Geometry, hooks: Hooks) -> Result<&'static Map, ArenaError> {
        Map::unnamed(geometry, hooks, Scope::Shared)
    }

    fn unnamed(geometry: Geometry, hooks: Hooks, scope: Scope) -> Result<&'static Map, ArenaError> {
        let base = dir::map_private(geometry.len())
            .map_err(|e| ArenaError::Io { what: "cannot map memory for the private arena".into(), source: e })?;
        let [cover, process_member, represented, presence] = [const { AtomicU64::new(0) }; 4];
        let name = "private".into();
        let (owner, dir, inode, folder) = (process::uid(), None, 0, 0);
        let map = Map {
            base,
            geometry,
            objects_at: geometry.objects_at(),
            scope,
            name,
            dir,
            inode,
            folder,
            owner,
            hooks,
            cover,
            process_member,
            represented,
            presence,
            batches: Batches::private(geometry),
            blocks_next: Default::default(),
            late: words(geometry.objects.div_ceil(64) as usize),
            crowds: Made::new(),
            #[cfg(feature = "sim")]
            group: crate::layout::GROUP.into(),
        };
        map.initialise();
        Ok(Box::leak(Box::new(map)))
    }

    /// Removes the named arena.
    ///
    /// `is_idle` tells whether a member in its generation neither holds nor awaits anything. Such members of this very process do not count
    /// as a use of the arena.
    ///
    /// With `force` it also removes an arena that is in use (everything in it is dead from then on), and one that is damaged or of another
    /// version. A file that does not begin as an arena does is somebody's, and stays.
    ///
    /// # Errors
    /// `NotFound`, `InUse`, those of a damaged file without `force`, or the system's.
    pub fn remove(
        dir: &Dir,
        name: &str,
        force: bool,
        is_idle: impl Fn(&'static Map, u32, u32) -> bool,
        hooks: Hooks,
    ) -> Result<(), ArenaError> {
        let path = dir.path().join(name);
        let _lock = dir.lock().map_err(|e| io_at("lock", &dir.path().join(".lock"), e))?;
        // Whatever the file is: in a directory without the sticky bit the kernel would let any of its users unlink it.
        if let Some(found) = dir::file_at(&path) {
            allow(name, found.uid, "remove")?;
        }
        match Map::attach_under_lock(dir, name, hooks) {
            Ok(map) => {
                let state = &map.header().state;
                // AcqRel: under the lock; a remover that was looking died undecided.
                let _ = state.compare_exchange(REMOVING, SERVING, Ordering::AcqRel, Ordering::Acquire);
                if !force {
                    // E1 SeqCst: before the look at the life words below; pairs with the joiner's.
                    state.store(REMOVING, Ordering::SeqCst);
                    // SeqCst: the probes below are no more than acquires.
                    fence(Ordering::SeqCst);
                    let (members, first) = map.living(|i, generation| is_idle(map, i, generation));
                    if members > 0 {
                        // Release: back in service; nothing else was changed.
                        state.store(SERVING, Ordering::Release);
                        return Err(ArenaError::InUse { name: name.into(), members, first });
                    }
                }
                // As a member, so that a death in mid-burial is seen, and the sweeper buries the rest. If every slot is taken, reapers see
                // it at their next look; the removal is not refused.
                let attachment = if force { map.join(MemberKind::Thread, "remove").ok() } else { None };
                // E1 SeqCst: from here on no thread can join.
                state.store(REMOVED, Ordering::SeqCst);
                map.notify_all_dead();
                if let Some(attachment) = attachment {
                    map.leave(attachment);
                }
                // SeqCst: the probes in there are no more than acquires; after the mark, E1.
                fence(Ordering::SeqCst);
                if map.living(|i, generation| is_idle(map, i, generation)).0 == 0 {
                    map.give_back_storage();
                }
            }
            Err(ArenaError::NotFound { .. }) if matches!(dir.inode_of(name), Ok(Some(_))) => {}
            Err(e @ (ArenaError::NotFound { .. } | ArenaError::Symlink { .. })) => return Err(e),
            Err(e) if !force || !begins_as_one(dir, name).unwrap_or(false) => return Err(e),
            Err(_) => {}
        }
        step!("arena marked, its name still there");
        dir.unlink(name).map_err(|e| io_at("remove", &path, e))
    }

    /// Removes the named arena if no process has it mapped, or its file open. False: a process has, or this cannot be determined; or the
    /// file is no arena.
    ///
    /// The kernel delays every thread that opens the file meanwhile; that thread then finds that the file has lost its name.
    ///
    /// # Errors
    /// The system's.
    #[cfg(not(feature = "sim"))]
    pub fn remove_unmapped(dir: &Dir, name: &str) -> io::Result<bool> {
        let _lock = dir.lock()?;
        let file = dir.open_file(name)?;
        Ok(is_one(&file)? && file.while_alone(|| dir.unlink(name))?)
    }

    /// Refuses what only the arena's owner and root may do: to remove, to resize, to take by force. Every other user of the arena may make
    /// objects in it, and use all that is there.
    ///
    /// This binds only processes that keep the rules: a process that can write in the memory can do anything there.
    ///
    /// # Errors
    /// `NotOwner`.
    pub fn allow(&self, act: &'static str) -> Result<(), ArenaError> {
        if self.is_private() { Ok(()) } else { allow(&self.name, self.owner, act) }
    }

    /// How many members live, and one of them. Idle members of this process do not count.
    fn living(&self, is_idle: impl Fn(u32, u32) -> bool) -> (u32, String) {
        let is_own = |m: &Member| {
            // Relaxed, both: what this process's own threads wrote, or another process's values.
            m.pid.load(Ordering::Relaxed) == process::pid()
                && m.namespace.load(Ordering::Relaxed) == process::namespace() // Relaxed: as above.
        };
        let mut count = 0;
        let mut first = String::new();
        for i in 0..self.members_used() {
            let m = self.member(i);
            let alive = matches!(m.life.probe(), chappe_plat::Life::Alive(_)) && self.dead(i).is_none();
            // Relaxed: the generation of a member of this process, or it is not used.
            let generation = (m.ident.load(Ordering::Relaxed) >> 32) as u32;
            if alive && !self.is_reaper(i) && !(is_own(m) && is_idle(i, generation)) {
                count += 1;
                if first.is_empty() {
                    let who = self.who(i);
                    first = format!("pid {} `{}`", who.pid, who.label);
                }
            }
        }
        (count, first)
    }

    /// Declares every object in it dead and wakes the waiters.
    pub fn notify_all_dead(&'static self) {
        // SeqCst: E1, after the mark; pairs with the maker of an object.
        fence(Ordering::SeqCst);
        let mut me = self.visitor();
        for i in 0..self.objects_used() {
            let o = self.object(i);
            // Acquire: only a published object needs burying.
            let head = Head(o.head.load(Ordering::Acquire));
            if head.in_service() {
                // SeqCst: before the look at the wait set in `notify_dead`; pairs with the waiter's second look.
                // A failure means that another thread buried or removed it.
                let _ = o.head.compare_exchange(head.0, head.dead().0, Ordering::SeqCst, Ordering::SeqCst);
            }
            (self.hooks.notify_dead)(self, i, &mut me);
        }
    }

    /// For a removed arena in which no member holds or awaits anything: gives back the storage of what was never used, and of the blocks.
    ///
    /// The header stays, and the members, objects, cells and names that were used: threads that still have the arena mapped look there, and
    /// find that it is gone; and the robust lists of threads that are still attached go through the members. Blocks are touched only by a
    /// holder of a mutex's data (there is none), by a maker of objects (which gives them storage first), and at the ends of tubes and in
    /// maps. If there was a tube or a map, its users may have no attachment, and the blocks stay.
    fn give_back_storage(&self) {
        let (h, g) = (self.header(), &self.geometry);
        let is_walked = |i: u32| {
            // Acquire: as in `notify_all_dead`.
            let kind = Head(self.object(i).head.load(Ordering::Acquire)).kind();
            kind.is_some_and(|kind| kind.extent() == Extent::Blocks)
        };
        // Acquire: as in `members_used`.
        let cells = h.cells_high.load(Ordering::Acquire).min(g.cells);
        let waiting = if self.members_used() > INLINE_MEMBERS { g.waiting_at() } else { g.cells_at() };
        let mut parts = vec![
            g.members_at() + self.members_used() as usize * size_of::<Member>()..g.visits_at(),
            g.objects_at() + self.objects_used() as usize * size_of::<Object>()..waiting,
            g.cells_at() + cells as usize * size_of::<Cell>()..g.names_at(),
        ];
        if !(0..self.objects_used()).any(is_walked) {
            // Release: a thread that goes through the blocks' owners finds none from here on.
            h.blocks_high.store(0, Ordering::Release);
            h.data_high.store(0, Ordering::Release); // Release: as above.
            parts.push(g.owners_at()..g.len());
        }
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            // SAFETY: within the mapping: the geometry was checked against the file's length.
            dir::unback(unsafe { self.base.add(part.start) }, part.len());
        }
    }

    fn initialise(&self) {
        let h = self.header();
        // Relaxed, all of these: no other thread sees the arena until it has a name (or, private, until the
        // map is published); the lock and link order them.
        h.version.store(VERSION, Ordering::Relaxed);
        h.abi.store(ABI, Ordering::Relaxed); // Relaxed: as above.
        h.uid.store(process::uid(), Ordering::Relaxed); // Relaxed: as above.
        h.state.store(SERVING, Ordering::Relaxed); // Relaxed: as above.
        let id = chappe_plat::clock::now() ^ u64::from(process::pid()) << 40;
        h.id.store(id, Ordering::Relaxed); // Relaxed: as above.
        h.len.store(self.geometry.len() as u64, Ordering::Relaxed); // Relaxed: as above.
        h.members.store(self.geometry.members, Ordering::Relaxed); // Relaxed: as above.
        h.objects.store(self.geometry.objects, Ordering::Relaxed); // Relaxed: as above.
        h.cells.store(self.geometry.cells, Ordering::Relaxed); // Relaxed: as above.
        h.blocks.store(self.geometry.blocks, Ordering::Relaxed); // Relaxed: as above.
        h.ticket.store(1, Ordering::Relaxed); // Relaxed: as above.
        let mut bytes = [0; 48];
        let len = self.name.len().min(47);
        bytes[..len].copy_from_slice(&self.name.as_bytes()[..len]);
        for (word, part) in h.name.iter().zip(bytes.chunks_exact(4)) {
            let value = u32::from_le_bytes(part.try_into().expect("four bytes"));
            word.store(value, Ordering::Relaxed); // Relaxed: as above.
        }
        // SAFETY: the lock lies in the mapping, which nobody else uses yet.
        unsafe { LifeLock::init(std::ptr::from_ref(&h.admin).cast_mut()) };
        // SAFETY: as above.
        unsafe { LifeLock::init(std::ptr::from_ref(&h.watch).cast_mut()) };
        self.ready_guests();
        // Release: a reader of the magic reads the rest.
        h.magic.store(MAGIC, Ordering::Release);
    }

    fn ready_guests(&self) {
        for guest in &self.header().guests {
            // SAFETY: the lock lies in the mapping, which no other thread uses.
            unsafe { LifeLock::init(std::ptr::from_ref(&guest.life).cast_mut()) };
        }
    }

    /// In a forked child, before any thread uses its copy of a private arena: no lock in it has an owner here.
    #[cfg(not(feature = "sim"))]
    pub fn reset_locks(&self) {
        // SAFETY: the locks lie in the mapping; this process has one thread that could use them, ours.
        unsafe { LifeLock::init(std::ptr::from_ref(&self.header().admin).cast_mut()) };
        self.ready_guests();
        for i in 0..self.members_used() {
            let m = self.member(i);
            for lock in [&m.life, &m.tgid_word] {
                // SAFETY: as above.
                unsafe { LifeLock::init(std::ptr::from_ref(lock).cast_mut()) };
            }
            self.visit_of(i).store(0, Ordering::Relaxed); // Relaxed: as above; the parent's.
        }
    }

    /// Whether the processes that have it mapped go on with it, and serve each other, when its file is taken away. If not, it stops then,
    /// so that there are not two of one name.
    pub fn is_lasting(&self) -> bool {
        // Relaxed: written once, before the arena could be seen.
        self.header().lasting.load(Ordering::Relaxed) == 1
    }
    /// Whether its file has lost its name (the name is gone, or another file has it).
    pub fn is_unlinked(&self) -> bool {
        let Some(path) = &self.dir else { return false };
        Dir::open(path).is_ok_and(|d| d.has_lost(self.folder, &self.name, self.inode))
    }
    /// Whether it was removed, or may be just now: a look that never blocks.
    pub fn mark(&self) -> Standing {
        // Acquire: what the remover did before.
        match self.header().state.load(Ordering::Acquire) {
            SERVING => Standing::Serving,
            REMOVED => Standing::Removed,
            _ => Standing::Undecided,
        }
    }

    /// Whether it was removed. Undoes what a remover that died undecided left; waits for a living one, but not for ever.
    pub fn standing(&self) -> Standing {
        self.standing_within(UNDECIDED)
    }

    /// As [`Map::standing`], waiting at most so long.
    pub(crate) fn standing_within(&self, most: Duration) -> Standing {
        let state = &self.header().state;
        // E1 SeqCst: after the caller's claim of a life word; pairs with the remover's.
        match state.load(Ordering::SeqCst) {
            SERVING => Standing::Serving,
            REMOVED => Standing::Removed,
            _ => {
                let dir = match self.dir.as_ref().map(|d| Dir::open(d)) {
                    Some(Ok(dir)) => dir,
                    Some(Err(e)) if e.kind() != io::ErrorKind::NotFound => return Standing::Undecided,
                    _ => return Standing::Removed,
                };
                // A remover that is stopped, or that cannot be seen.
                let Ok(Some(_lock)) = dir.lock_within(most) else { return Standing::Undecided };
                // AcqRel: under the lock no remover is at work: this one died undecided.
                let _ = state.compare_exchange(REMOVING, SERVING, Ordering::AcqRel, Ordering::Acquire);
                // Acquire: what was decided.
                if state.load(Ordering::Acquire) == REMOVED { Standing::Removed } else { Standing::Serving }
            }
        }
    }
}

/// Whether a file begins as an arena does.
fn is_one(file: &File) -> io::Result<bool> {
    let mut magic = [0; size_of::<u64>()];
    Ok(file.read_start(&mut magic)? == magic.len() && u64::from_ne_bytes(magic) == MAGIC)
}

/// The same of the file of this name.
fn begins_as_one(dir: &Dir, name: &str) -> io::Result<bool> {
    is_one(&dir.open_file(name)?)
}

/// Reads the first page of a file; fails with what is wrong with it.
fn check(file: &File, path: &str, len: u64) -> Result<Geometry, ArenaError> {
    let path = || path.to_owned();
    let mut page = [0u8; 80];
    let got = file
        .read_start(&mut page)
        .map_err(|e| ArenaError::Io { what: format!("cannot read {}", path()), source: e })?;
    let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"));
    if got < 8 || long(0) != MAGIC {
        return Err(ArenaError::Garbage { path: path() });
    }
    if got < 80 {
        return Err(ArenaError::Truncated { path: path(), has: len, wants: 4096 });
    }
    let damaged = |what: &str| Err(ArenaError::Damaged { path: path(), what: what.into() });
    if word(8) != VERSION {
        return Err(ArenaError::Version { path: path(), found: word(8), wanted: VERSION });
    }
    if word(12) != ABI {
        return Err(ArenaError::Abi { path: path(), found: word(12), wanted: ABI });
    }
    let geometry = Geometry { members: word(40), objects: word(44), cells: word(48), blocks: word(72) };
    if geometry.checked().is_none() || geometry.len() as u64 != long(32) {
        return damaged("its header's sizes contradict each other");
    }
    if !matches!(word(20), SERVING | REMOVED | REMOVING) {
        return damaged("its header says neither that it serves nor that it was removed");
    }
    if len < long(32) {
        return Err(ArenaError::Truncated { path: path(), has: len, wants: long(32) });
    }
    Ok(geometry)
}
