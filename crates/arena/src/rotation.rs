//! Which slot the next object gets: I14 of object.rs.

/// At how many slots a maker looks behind the one that was taken last.
const LOOKS: u32 = 8;

/// A free slot from `from` on, if one of the next few is, and where the next maker is to look. None below `low` is free; none from `used` on was
/// ever used.
pub(crate) fn turn(from: u32, low: u32, used: u32, mut is_free: impl FnMut(u32) -> bool) -> (Option<u32>, u32) {
    let from = from.max(low);
    let end = used.min(from.saturating_add(LOOKS));
    let found = (from..end).find(|index| is_free(*index));
    let next = found.map_or(end, |index| index + 1);
    (found, if next < used { next } else { 0 })
}

#[cfg(all(test, not(feature = "sim")))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Slots, as a maker sees them, and at how many it has looked.
    struct Slots {
        lives: Vec<bool>,
        low: u32,
        next: u32,
        looks: u64,
    }

    impl Slots {
        fn new(used: u32, lives: impl Fn(u32) -> bool) -> Slots {
            Slots { lives: (0..used).map(lives).collect(), low: 0, next: 0, looks: 0 }
        }

        /// As `free_slot`.
        fn make(&mut self) -> Option<u32> {
            let (used, looks) = (self.lives.len() as u32, Cell::new(0));
            let is_free = |index: u32| {
                looks.set(looks.get() + 1);
                !self.lives[index as usize]
            };
            let (found, next) = turn(self.next, self.low, used, is_free);
            let found = found.or_else(|| {
                let lowest = (self.low..used).find(|index| is_free(*index));
                self.low = lowest.unwrap_or(used);
                lowest
            });
            self.next = next;
            self.looks += looks.get();
            self.lives[found? as usize] = true;
            found
        }

        fn remove(&mut self, index: u32) {
            self.lives[index as usize] = false;
            self.low = self.low.min(index);
        }
    }

    #[test]
    fn the_slot_of_a_removed_object_is_used_again_after_all_others() {
        // Every other one lives, and those that do not are 32.
        let mut slots = Slots::new(64, |index| index % 2 == 0);
        let mut last = [0u64; 64];
        for turn in 1..1_000 {
            let index = slots.make().expect("half are free");
            slots.remove(index);
            let before = std::mem::replace(&mut last[index as usize], turn);
            assert!(before == 0 || turn - before >= 32, "slot {index} after {} others", turn - before);
        }
    }

    #[test]
    fn beside_many_objects_a_make_looks_at_few_slots_more_and_in_a_full_arena_at_none() {
        for gap in [0, 1, 1_000, 4_095] {
            let mut slots = Slots::new(4_096, |index| index != gap);
            // The first finds the only gap.
            let mut index = slots.make().expect("one is free");
            slots.looks = 0;
            assert!(slots.make().is_none() && slots.looks <= 4_096 + u64::from(LOOKS));
            slots.looks = 0;
            assert_eq!((slots.make(), slots.looks), (None, 0), "it is full");
            for _ in 0..1_000 {
                slots.remove(index);
                index = slots.make().expect("one is free");
                assert_eq!(index, gap);
            }
            assert!(slots.looks <= 1_000 * (u64::from(LOOKS) + 1), "{} looks", slots.looks);
        }
    }
}
