//! Making a named tube's two objects, and taking them out of service.

use super::{DROPS, ONE_RECEIVER, ONE_SENDER, Pipe, SWIFT, TubeHead, ring_at};
use crate::named::senders::sweep;
use chappe_arena::layout::{BLOCK, Kind};
use chappe_arena::{Admin, ArenaError, Map, Place, Sort};
use chappe_plat::atomic::Ordering;
use chappe_plat::fence::process_shared;
use chappe_plat::step;
use chappe_structures::record::Shape;
use chappe_wait::end;
use chappe_wait::owner::unheld;
use chappe_wait::part::MAKING;

/// Makes a tube. The caller holds `admin` and has seen that the name is free, and that there can be such a tube. A schema is a hash and a text.
pub fn make(
    map: &'static Map,
    admin: &Admin,
    name: &str,
    shape: Shape,
    hash: u64,
    schema: (u64, &str),
) -> Result<Place, ArenaError> {
    sweep(map, admin);
    let (most, members) = (map.geometry().blocks, map.geometry().members);
    let text_at = chappe_structures::record::bytes_wanted(shape).map(|ring| ring + ring_at(members));
    let bytes = text_at.map(|at| at + schema.1.len());
    let blocks = bytes.and_then(|bytes| u32::try_from(bytes.div_ceil(BLOCK)).ok()).unwrap_or(u32::MAX);
    if blocks > most {
        return Err(ArenaError::BlocksFull { name: map.name().into(), wanted: blocks, capacity: most });
    }
    let end = end::make(map, admin, MAKING)?;
    step!("senders' object made, tube not yet");
    let made = map.make(admin, name, Kind::Tube, |index, generation| {
        let first = map.claim_blocks(index, generation, Sort::Words, blocks)?;
        let at = map.blocks(first, blocks);
        // SAFETY: the blocks are ours, and no other process knows of them yet; they may have been another object's
        // before.
        unsafe { at.write_bytes(0, blocks as usize * BLOCK) };
        // SAFETY: as above; zeros are a `TubeHead`.
        let head = unsafe { &*at.cast::<TubeHead>() };
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let flags =
            flag(shape.one_sender, ONE_SENDER) | flag(shape.one_receiver, ONE_RECEIVER) | flag(shape.drops, DROPS);
        let flags = flags | flag(process_shared::is_possible(), SWIFT);
        head.slots.store(shape.slots, Ordering::Relaxed); // Relaxed, here and below: published by the head.
        head.size.store(shape.size, Ordering::Relaxed); // Relaxed: as above.
        head.align.store(shape.align, Ordering::Relaxed); // Relaxed: as above.
        head.flags.store(flags, Ordering::Relaxed); // Relaxed: as above.
        head.hash.store(hash, Ordering::Relaxed); // Relaxed: as above.
        if let Some(text) = text_at.filter(|_| !schema.1.is_empty()) {
            head.schema.store(schema.0, Ordering::Relaxed); // Relaxed: as above.
            head.schema_len.store(schema.1.len() as u32, Ordering::Relaxed); // Relaxed: as above.
            // SAFETY: the text has room behind the ring: so many blocks were claimed.
            unsafe { at.add(text).copy_from_nonoverlapping(schema.1.as_ptr(), schema.1.len()) };
        }
        let its = u64::from(end.head.generation()) << 32 | u64::from(end.index);
        head.end.store(its, Ordering::Relaxed); // Relaxed: as above.
        let (o, its) = (map.object(index), map.object(end.index));
        o.permits.store(blocks, Ordering::Relaxed); // Relaxed: as above.
        o.more.store(first + 1, Ordering::Relaxed); // Relaxed: as above.
        o.hint.store(0, Ordering::Relaxed); // Relaxed: as above.
        its.permits.store(generation, Ordering::Relaxed); // Relaxed: as above.
        its.hint.store(index + 1, Ordering::Release); // Release: after the generation.
        // Release: what the slot's last user did comes before.
        o.slot.word.store(unheld(generation), Ordering::Release);
        Ok(())
    });
    if made.is_err() {
        map.unmake(admin, end);
    }
    made
}

/// Takes a tube out of service. The caller holds `admin`.
pub fn unmake(map: &'static Map, admin: &Admin, pipe: &Pipe<'_>) {
    map.unmake(admin, pipe.place);
    step!("tube dead, its senders' object not yet");
    map.unmake(admin, pipe.end);
}
