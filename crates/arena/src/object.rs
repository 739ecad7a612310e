//! Objects of an arena by name: finding, making and removing them, and the cells and blocks that belong to them.
//!
//! Searching takes no lock and makes no system call. Making, removing and resizing happen under `admin`, a robust lock. A living holder is
//! waited for. A dead holder leaves nothing to repair: each change becomes visible by one store, and everything written before that store
//! is recognised as unused.
//!
//! - I1: an object exists from the store of its live head on. A slot whose head says free is free, whatever its other words hold.
//! - I2: a table cell is in use only while the object that `owner` names lives in the generation named. A maker that died between claiming
//!   cells and storing the head leaves cells whose owner never lived.
//! - I3: the table of names is a hint that is written before the head. A place in it counts only if the slot that it names is live and has
//!   the same hash. Other places are skipped on search and reused on insertion.
//! - I4: a removed object's slot is reused only when no member has a wait bit on it. A waiter sets its bit, then looks at the head; the
//!   remover changes the head, then looks at the bits.
//! - I5, I9, I13, I15: blocks, see blocks.rs.
//! - I6: nor is the slot reused while it is in use: a thread may still hold the data of a mutex, or use a tube, that was removed by force
//!   meanwhile.
//! - I7: a slot at or beyond `objects_high` may have no storage behind it, and is not touched. An arena gets storage for [`STEP`] objects
//!   at once, when the first of them is made. So an arena may have room for many objects and uses memory only for those that it has had. A
//!   maker that dies in between leaves storage that the next maker uses. The same holds for member slots and their wait bits, see
//!   `Header::backed`.
//! - I8: a search ends at the first empty place of the table. So a place is emptied only while the next place is empty, under `admin`: a
//!   search that passes it has nothing to find behind it. Without this, a table of names that come and go would fill up for good, and a
//!   search for an absent name would look at all of it. A remover that dies in between leaves places that do not count, as before.
//! - I10: an object that no other thread can have in use may be *condemned*: taken out of service without `admin`, by the one swap of its
//!   head. The rest is left to `admin`: the next maker that takes the slot empties the name's place first, so that no object has two. The
//!   maker finds the slot because the condemner lowers `objects_low` by way of `condemned`: once before the swap, for a condemner that dies
//!   after it, and again after the swap, for a maker that passed the slot before it. If the maker consumes the first announcement just
//!   before the swap, and the condemner dies just after it, then the slot is out of use until a lower slot, or itself, is looked at again
//!   (one slot for a dead member).
//! - I11: in a private arena a slot becomes free with the removal, if no member waits on it, and `objects_high` falls while the slot below
//!   it is free: a walk over all objects does not pass slots that are no longer in use. A member that sets its bit on a removed object
//!   takes the bit away itself, after it has looked at the head. If it ends between the two, the bit stays on a slot that no walk passes.
//!   It is harmless: the next object there is served as with a dead waiter's bit, and its slot is reused after the member slot's next end.
//! - I12: a thread that has the place of a condemned object may set its bit there at any time later, before it sees that the object is gone. What
//!   the next object grants it in between, it gives back there. Only an end of a private tube cannot have that back: its counts are not in the
//!   arena. So no slot in which a private arena's object was ever condemned becomes such an end's. (Other private objects go with their last
//!   handle: no thread comes late.)
//! - I14: a named arena's slots are used again in rotation, so that what a late thread still knows of an object stays unused for long. A maker looks
//!   behind the slot that was taken last (rotation.rs), but only at a few slots, and at none below `objects_low`; then it takes the lowest. So beside many
//!   objects a make looks at a few slots more, and in a full arena at none. No slot is taken for this that was never used. (A private arena's slots
//!   lie low: I11. The explorer's worlds want the slot of a removed object for the next one.)

use crate::admin::Admin;
use crate::error::ArenaError;
use crate::layout::{Head, INLINE_MEMBERS, Kind, MAX_NAME, Object, REMOVED, STEP};
use crate::map::{Map, Place, Visitor};
use crate::rotation::turn;
use chappe_plat::atomic::{Ordering, fence};
use chappe_plat::{ROBUST, step};

/// Words of wait bits beside an object that are looked at. Without robustness there is only one, and it holds a count, which no kill could
/// leave wrong.
const NEAR: usize = if ROBUST { 4 } else { 1 };

/// A hash of a name (FNV-1a, 64 bits). It is the same in every process, and never changes.
pub fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// Refuses a string that is not a valid name.
///
/// # Errors
/// `Name`, with the reason.
pub fn check_name(name: &str, what: &'static str) -> Result<(), ArenaError> {
    let why = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > MAX_NAME {
        format!("it has {} bytes", name.len())
    } else if name.starts_with(['.', '-']) {
        format!("it starts with `{}`", &name[..1])
    } else if name.starts_with('@') {
        "it starts with `@`, as the names on other machines do".to_owned()
    } else if let Some(c) = name.chars().find(|c| !c.is_ascii_alphanumeric() && !"._@:+-".contains(*c)) {
        format!("it contains {c:?}")
    } else {
        return Ok(());
    };
    Err(ArenaError::Name { name: name.into(), what, why })
}

impl Map {
    /// The object of this name, if there is one.
    pub fn find(&self, name: &str) -> Option<Place> {
        let wanted = hash(name);
        for step in 0..self.geometry().names() {
            // Acquire: pairs with the maker's store; the slot's words are checked on their own.
            let entry = self.name_place(wanted as usize + step).load(Ordering::Acquire);
            if entry == 0 {
                return None;
            }
            if (entry >> 32) as u32 == wanted as u32
                && (entry as u32).wrapping_sub(1) < self.geometry().objects
                && let Some(place) = self.place_named(entry as u32 - 1, name)
            {
                return Some(place);
            }
        }
        None
    }

    fn place_named(&self, index: u32, name: &str) -> Option<Place> {
        let o = self.object(index);
        // Acquire: publishes name and hash.
        let head = Head(o.head.load(Ordering::Acquire));
        // Acquire: the second look at the head after reading the name: the slot was not reused meanwhile.
        let fits = head.in_service() && self.name_of(o) == name && o.head.load(Ordering::Acquire) == head.0;
        let place = Place { index, head };
        self.through(place);
        fits.then_some(place)
    }

    /// The name in a slot.
    pub fn name_of(&self, o: &Object) -> String {
        let mut bytes = [0u8; 48];
        for (part, word) in bytes.chunks_exact_mut(8).zip(&o.name) {
            // Relaxed: the reader checks the head before and after.
            part.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        let len = usize::from(bytes[0]).min(MAX_NAME);
        String::from_utf8_lossy(&bytes[1..=len]).into_owned()
    }

    /// Every object in service.
    pub fn objects(&self) -> Vec<Place> {
        (0..self.objects_used())
            .filter_map(|index| {
                // Acquire: as in `place_named`.
                let head = Head(self.object(index).head.load(Ordering::Acquire));
                head.in_service().then_some(Place { index, head })
            })
            .collect()
    }

    /// Makes an object. The caller holds `admin` and has seen that the name is free. `prepare` fills in what is particular to the kind
    /// before any other thread can see it.
    ///
    /// # Errors
    /// `ObjectsFull`, or what `prepare` gives.
    pub fn make(
        &'static self,
        _admin: &Admin,
        name: &str,
        kind: Kind,
        prepare: impl FnOnce(u32, u32) -> Result<(), ArenaError>,
    ) -> Result<Place, ArenaError> {
        let index = self.without_the_dead(|| self.free_slot(kind))?;
        let o = self.object(index);
        // Relaxed: under admin.
        let generation = Head(o.head.load(Ordering::Relaxed)).generation().wrapping_add(1);
        self.through(Place { index, head: Head::free(generation.wrapping_sub(1)) });
        prepare(index, generation)?;
        let mut bytes = [0u8; 48];
        bytes[0] = name.len() as u8;
        bytes[1..=name.len()].copy_from_slice(name.as_bytes());
        for (word, part) in o.name.iter().zip(bytes.chunks_exact(8)) {
            let value = u64::from_le_bytes(part.try_into().expect("eight bytes"));
            word.store(value, Ordering::Relaxed); // Relaxed: published by the head.
        }
        o.hash.store(hash(name), Ordering::Relaxed); // Relaxed: published by the head.
        if !name.is_empty() {
            self.insert_name(hash(name), index);
        }
        let head = Head::live(generation, kind);
        step!("object ready, not yet in service");
        // Release: I1, publishes the object.
        o.head.store(head.0, Ordering::Release);
        // Nobody removes a private arena.
        if !self.is_private() {
            // SeqCst: E1 of the map's head: a remover by force, which marks the arena and then looks at the objects, may have missed this one.
            fence(Ordering::SeqCst);
            // Relaxed: after the fence.
            if self.header().state.load(Ordering::Relaxed) == REMOVED {
                self.notify_all_dead();
            }
        }
        Ok(Place { index, head })
    }

    /// Calls `claim`; if it fails, recovers the dead, whose bits may stand on removed objects, and calls it once more.
    pub(crate) fn without_the_dead<T>(
        &'static self,
        claim: impl Fn() -> Result<T, ArenaError>,
    ) -> Result<T, ArenaError> {
        match claim() {
            Err(_) if self.recover_all() > 0 => claim(),
            other => other,
        }
    }

    fn free_slot(&'static self, kind: Kind) -> Result<u32, ArenaError> {
        let h = self.header();
        self.note_condemned();
        let (capacity, used) = (self.geometry().objects, self.objects_used());
        if !self.is_private() && !cfg!(feature = "sim") {
            // Relaxed, all: under admin. A lower bound, and a hint.
            let (from, low) = (h.objects_next.load(Ordering::Relaxed), h.objects_low.load(Ordering::Relaxed));
            let (found, next) = turn(from, low, used, |index| self.is_clear(index));
            h.objects_next.store(next, Ordering::Relaxed); // Relaxed: as above.
            if let Some(index) = found {
                return Ok(index);
            }
        }
        // The first slot that was removed and cannot be reused yet, or not for this: nothing announces when it can.
        let mut later = None;
        // Relaxed: under admin.
        for index in h.objects_low.load(Ordering::Relaxed)..capacity {
            if index >= used && index > 0 && index.is_multiple_of(STEP) && !self.is_private() {
                self.back_objects(index)?;
                step!("storage behind more objects, none of them made");
            }
            if !self.is_clear(index) {
                // Relaxed: as in `is_clear`.
                let head = Head(self.object(index).head.load(Ordering::Relaxed));
                later = later.or((!head.in_service()).then_some(index));
                continue;
            }
            if kind == Kind::End && self.has_late_ones(index) {
                later = later.or(Some(index));
                continue;
            }
            // Relaxed: a lower bound that only admin moves.
            h.objects_low.store(later.unwrap_or(index), Ordering::Relaxed);
            // Release: the slot counts before its object can be seen.
            h.objects_high.fetch_max(index + 1, Ordering::Release);
            return Ok(index);
        }
        // Later removals lower it: a caller that asks in vain again and again looks at few slots.
        h.objects_low.store(later.unwrap_or(capacity), Ordering::Relaxed); // Relaxed: as above.
        Err(ArenaError::ObjectsFull { name: self.name().into(), capacity })
    }

    /// Whether a slot is free, or can be freed now. The caller holds `admin`.
    fn is_clear(&self, index: u32) -> bool {
        // Relaxed: heads change to free or live only under admin.
        let head = Head(self.object(index).head.load(Ordering::Relaxed));
        head.is_free() || self.clear(index, head)
    }

    /// Frees the slots of removed objects on which no member waits any more, and with them their cells. The caller holds `admin`.
    pub(crate) fn clear_dead(&self) {
        self.note_condemned();
        // Relaxed: a lower bound that only admin moves. Each remover has lowered it first: what lies below is in service.
        for index in self.header().objects_low.load(Ordering::Relaxed)..self.objects_used() {
            let o = self.object(index);
            // Relaxed: heads change to free or live only under admin.
            self.clear(index, Head(o.head.load(Ordering::Relaxed)));
        }
    }

    /// Frees the slot of an object that is closed and not visited. For [`Map::clear`] alone.
    pub(crate) fn free(&self, index: u32, head: Head) {
        let o = self.object(index);
        if !self.is_private() {
            // I10. Relaxed: under admin, and behind the head.
            self.forget_name(o.hash.load(Ordering::Relaxed), index);
        }
        // Release: I4, no member's bit stands on it any more.
        o.head.store(Head::free(head.generation()).0, Ordering::Release);
    }

    /// I10: makes the next search for a slot look at the condemned ones again. The caller holds `admin`.
    fn note_condemned(&self) {
        let h = self.header();
        // Acquire: behind the swap of the head, by the condemner that announced it afterwards.
        let first = h.condemned.load(Ordering::Acquire);
        if first == 0 {
            return;
        }
        // Relaxed: under admin. Before the word is taken away: a maker that dies in between has made a search longer, no more.
        h.objects_low.fetch_min(self.geometry().objects.saturating_sub(first), Ordering::Relaxed);
        step!("condemned slots noted, and said so still");
        // Relaxed: a failure means that there are more condemned slots, for the next maker.
        let _ = h.condemned.compare_exchange(first, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether any wait bit stands on the object.
    #[inline]
    pub fn anybody_waits(&self, object: u32) -> bool {
        self.waits_on(object, self.object(object))
    }

    /// As [`Map::anybody_waits`], for an object whose place is known already.
    #[inline(always)]
    pub fn waits_on(&self, object: u32, o: &Object) -> bool {
        // SeqCst: after the caller's change of the object; pairs with the waiter's bit, which it sets before
        // it looks at the object.
        let near = o.waiting[..NEAR].iter().fold(0, |bits, w| bits | w.load(Ordering::SeqCst));
        if !ROBUST {
            return near != 0;
        }
        // SeqCst: as in `members_used`.
        near != 0 || (self.header().members_high.load(Ordering::SeqCst) > INLINE_MEMBERS && self.waits_far(object))
    }

    pub(crate) fn insert_name(&self, hash: u64, index: u32) {
        // Relaxed: under admin.
        let counts = |at: usize| self.entry_counts(self.name_place(at).load(Ordering::Relaxed));
        let from = hash as usize & (self.geometry().names() - 1);
        // There are twice as many places as objects. If all are taken, the table was written over: the first place is replaced.
        let at = (from..from + self.geometry().names()).find(|at| !counts(*at)).unwrap_or(from);
        // Release: I3, the hint is there before the object is.
        self.name_place(at).store((hash & 0xffff_ffff) << 32 | u64::from(index + 1), Ordering::Release);
    }

    /// Empties the places at the end of a run in which the name of a removed object stands, I8. The caller holds `admin`.
    fn forget_name(&self, hash: u64, index: u32) {
        let entry = (hash & 0xffff_ffff) << 32 | u64::from(index + 1);
        let places = self.geometry().names();
        // Relaxed: under admin.
        let at = |at: usize| self.name_place(at).load(Ordering::Relaxed);
        let from = hash as usize & (places - 1);
        let Some(mine) = (from..from + places).take_while(|i| at(*i) != 0).find(|i| at(*i) == entry) else { return };
        let counts = |i: usize| self.entry_counts(at(i));
        // More places that do not count may lie behind it: those of dead makers, and those of objects that were removed before what lay
        // behind them.
        let Some(end) = (mine..mine + places).find(|i| at(*i) == 0 || counts(*i)) else { return };
        if at(end) != 0 {
            return;
        }
        // Backwards, so that the next one is empty each time.
        for i in (1..places).map(|n| end.wrapping_sub(n)) {
            if at(i) == 0 || counts(i) {
                return;
            }
            // Release: a name that is put here later is seen with what belongs to it.
            self.name_place(i).store(0, Ordering::Release);
            step!("a place of the table of names is emptied");
        }
    }

    /// Whether a place of the table counts: I3. The caller holds `admin`.
    fn entry_counts(&self, entry: u64) -> bool {
        if (entry as u32).wrapping_sub(1) >= self.geometry().objects {
            return false;
        }
        let o = self.object(entry as u32 - 1);
        // Relaxed, both: under admin.
        Head(o.head.load(Ordering::Relaxed)).in_service()
            && o.hash.load(Ordering::Relaxed) as u32 == (entry >> 32) as u32 // Relaxed: as above.
    }

    /// The slot, to which the caller comes through this use of it: [`Object::through`].
    #[inline(always)]
    pub fn reach(&self, place: Place) -> &Object {
        self.through(place);
        self.object(place.index)
    }

    /// As [`Object::through`].
    #[inline(always)]
    pub fn through(&self, place: Place) {
        chappe_plat::through(|| (&self.object(place.index).head, place.head.0));
    }

    /// Whether the object is still in service, in its slot.
    pub fn is_there(&self, place: Place) -> bool {
        // Acquire: the object as its maker left it. Under admin it stays so.
        self.object(place.index).head.load(Ordering::Acquire) == place.head.0
    }

    /// Takes an object out of service. The caller holds `admin`.
    pub fn unmake(&'static self, admin: &Admin, place: Place) {
        let o = self.object(place.index);
        // Relaxed: under admin. First: a maker that dies in between has made a search longer, no more.
        self.header().objects_low.fetch_min(place.index, Ordering::Relaxed);
        // SeqCst: I4, before the look at the bits in `notify_dead`.
        if o.head.compare_exchange(place.head.0, place.head.dead().0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            step!("object dead, waiters not yet told");
            (self.hooks.notify_dead)(self, place.index, &mut Visitor::under(admin));
            if !self.is_private() {
                // Relaxed: under admin. What has no name has no place, and its words are others' than a hash.
                self.forget_name(o.hash.load(Ordering::Relaxed), place.index);
            } else if self.clear(place.index, place.head.dead()) {
                step!("slot free, still walked past");
                self.lower_high();
            }
        }
    }

    /// Lowers `objects_high`: I11. The caller holds `admin`.
    fn lower_high(&self) {
        let high = &self.header().objects_high;
        let was = high.load(Ordering::Relaxed); // Relaxed: under admin.
        // Relaxed: under admin.
        let is_free = |index: &u32| Head(self.object(*index).head.load(Ordering::Relaxed)).is_free();
        let used = (0..was).rev().take_while(is_free).last().unwrap_or(was);
        if used != was {
            // Release: behind the heads.
            high.store(used, Ordering::Release);
        }
    }

    /// Takes an object out of service without `admin`: I10. For a caller that knows that no other thread has it in use, or can come to use
    /// it by its name. False: it was already gone.
    pub fn condemn(&'static self, place: Place) -> bool {
        let o = self.object(place.index);
        // I12: before the swap.
        self.note_late_ones(place.index);
        let from_the_end = self.geometry().objects - place.index;
        // Release: I10, behind the swap.
        let say = || _ = self.header().condemned.fetch_max(from_the_end, Ordering::Release);
        say();
        // SeqCst: I4, before the look at the bits in `notify_dead`.
        if o.head.compare_exchange(place.head.0, place.head.dead().0, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return false;
        }
        step!("object condemned, not said again");
        say();
        step!("object dead, waiters not yet told");
        (self.hooks.notify_dead)(self, place.index, &mut self.visitor());
        true
    }

    /// Finds `count` neighbouring table cells that no living object uses and marks them as the object's. Answers the first. The caller
    /// holds `admin`.
    ///
    /// # Errors
    /// `CellsFull`.
    pub fn claim_cells(&'static self, object: u32, generation: u32, count: u32) -> Result<u32, ArenaError> {
        self.without_the_dead(|| self.free_cells(object, generation, count))
    }

    fn free_cells(&self, object: u32, generation: u32, count: u32) -> Result<u32, ArenaError> {
        self.clear_dead();
        let capacity = self.geometry().cells;
        let mut run = 0;
        for i in 0..capacity {
            run = if self.cell_in_use(i, object, generation) { 0 } else { run + 1 };
            if run == count {
                let first = i + 1 - count;
                for j in first..=i {
                    let owner = u64::from(generation) << 32 | u64::from(object + 1);
                    self.cell(j).owner.store(owner, Ordering::Relaxed); // Relaxed: under admin; published by the head or `permits`.
                }
                self.cell(first).extent.store(u64::from(count) << 32, Ordering::Relaxed); // Relaxed: as above.
                // Relaxed: for scans that show, and for the limit of sweeps; published as above.
                self.header().cells_high.fetch_max(i + 1, Ordering::Relaxed);
                return Ok(first);
            }
        }
        Err(ArenaError::CellsFull { name: self.name().into(), wanted: count, capacity })
    }

    /// I2. Cells marked for the object that is just being made or grown are in use only once they are in its chain: marks left by a maker
    /// that died count for nothing.
    fn cell_in_use(&self, i: u32, object: u32, generation: u32) -> bool {
        // Relaxed: under admin.
        let owner = self.cell(i).owner.load(Ordering::Relaxed);
        let own = owner == (u64::from(generation) << 32 | u64::from(object + 1));
        self.owner_lives(owner) && (!own || self.in_chain(object, i))
    }

    fn in_chain(&self, object: u32, cell: u32) -> bool {
        self.extents(object).any(|(first, len)| (first..first + len).contains(&cell))
    }

    /// I2: whether the object that an owner word names exists, or is not yet cleared. An object that is being made does not count.
    pub(crate) fn owner_lives(&self, owner: u64) -> bool {
        let (its_generation, its_object) = ((owner >> 32) as u32, owner as u32);
        if its_object == 0 || its_object > self.geometry().objects {
            return false;
        }
        // Relaxed: under admin.
        let head = Head(self.object(its_object - 1).head.load(Ordering::Relaxed));
        !head.is_free() && head.generation() == its_generation
    }

    /// The runs of table cells that belong to an object: `(first, length)`.
    pub fn extents(&self, object: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let cells = self.geometry().cells;
        // Acquire: pairs with the store that linked the extent.
        let mut next = self.object(object).more.load(Ordering::Acquire);
        let mut left = cells;
        std::iter::from_fn(move || {
            if next == 0 || next > cells || left == 0 {
                return None;
            }
            let first = next - 1;
            // Acquire: as above.
            let extent = self.cell(first).extent.load(Ordering::Acquire);
            let len = ((extent >> 32) as u32).min(cells - first);
            next = extent as u32;
            left = left.saturating_sub(len.max(1));
            Some((first, len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_name_begins_with_nothing_that_means_something_else() {
        for (name, part) in [("@lab", "it starts with `@`"), ("@", "it starts with `@`"), (".a", "`.`"), ("-a", "`-`")]
        {
            let said = check_name(name, "pool").unwrap_err().to_string();
            assert!(said.contains(part), "{name}: {said}");
        }
        assert!(check_name("lab@home", "pool").is_ok());
    }
}
