//! The sections for AArch64. What each does, and where loads and stores must not change places, is said in `mod.rs`.

use super::operand::{Link, Outcome, Pair};
use crate::delays::delay;
use chappe_plat::atomic::{AtomicU32, AtomicU64};
use chappe_plat::{rseq, topology};
use std::arch::asm;
use std::mem::offset_of;

pub(crate) use chappe_plat::rseq::{enter, fence, has_concurrency_ids};

/// How many slots there can be.
pub(crate) fn slots() -> usize {
    topology::possible()
}

/// How far the area is from the thread pointer.
pub(super) fn offset() -> usize {
    rseq::offset() as usize
}

/// The area as sections name it: by its address.
#[inline(always)]
pub(super) fn area(offset: usize) -> usize {
    let tp: usize;
    // SAFETY: reads a register. Not `pure`: asked anew for each operation.
    unsafe { asm!("mrs {tp}, tpidr_el0", tp = out(reg) tp, options(nostack, preserves_flags, nomem)) };
    tp.wrapping_add(offset)
}

/// A number in the area.
#[inline(always)]
pub(super) fn number(area: usize, field: usize) -> u32 {
    let number: u32;
    // SAFETY: the calling thread's area, or one that nobody writes; either is readable.
    unsafe {
        asm!(
            "ldr {n:w}, [{area}, {field}]",
            n = out(reg) number,
            area = in(reg) area,
            field = in(reg) field,
            options(nostack, preserves_flags, readonly)
        );
    }
    number
}

/// A section of this name. `2` is its first instruction, `3` what follows the commit; `steps` begin where the slot has proved to be the
/// thread's, and end with the commit; a conditional branch reaches no further than the own function. The kernel resumes an aborted thread
/// at `4`: `aborted` goes on from there, and `exits` are the places other than `3` to which steps may leave it.
macro_rules! section {
    ($name:literal, before [$($before:literal)?], moved $moved:literal, aborted [$($aborted:literal),*], exits [$($exit:literal),*],
     steps [$($step:expr),* $(,)?], $($operands:tt)*) => {
        asm!(
            // The descriptor: version and flags, the section's first instruction, its length, where aborts go.
            ".pushsection __rseq_cs, \"awR\"",
            ".balign 32",
            "9:",
            ".long 0, 0",
            ".quad 2f, (3f - 2f), 4f",
            ".popsection",
            ".pushsection __rseq_cs_ptr_array, \"awR\"",
            ".quad 9b",
            ".popsection",
            ".pushsection __rseq_exit_point_array, \"awR\"",
            concat!(".quad 2f, ", $moved),
            $(concat!(".quad 2f, ", $exit),)*
            ".popsection",
            // A symbol of its own for each copy that the compiler makes.
            concat!(".ifndef .Lchappe_ras_", $name),
            concat!(".set .Lchappe_ras_", $name, ", 0"),
            ".endif",
            concat!(".set .Lchappe_ras_", $name, ", .Lchappe_ras_", $name, " + 1"),
            ".altmacro",
            ".macro chappe_ras_symbol n",
            concat!(".set chappe_ras_", $name, "_\\n, 2f"),
            concat!(".type chappe_ras_", $name, "_\\n, %function"),
            concat!(".size chappe_ras_", $name, "_\\n, (3f - 2f)"),
            ".endm",
            concat!("chappe_ras_symbol %.Lchappe_ras_", $name),
            ".purgem chappe_ras_symbol",
            ".noaltmacro",
            $($before,)?
            // begin
            "adrp {t}, 9b",
            "add {t}, {t}, :lo12:9b",
            "str {t}, [{area}, #8]",
            "2:",
            delay!(0),
            // I4: the owner is loaded before all else of the slot.
            "ldar {t:w}, [{owner}]",
            delay!(1),
            "ldr {u:w}, [{area}, {field}]",
            "cmp {t:w}, {u:w}",
            concat!("b.ne ", $moved),
            delay!(2),
            $($step,)*
            "3:",
            ".pushsection __rseq_failure, \"ax\"",
            // brk: were it run, it would trap.
            ".inst 0xd428bc00",
            "4:",
            $($aborted,)*
            ".popsection",
            #[cfg(feature = "inject")]
            turn = out(reg) _,
            #[cfg(feature = "inject")]
            turns = sym crate::delays::TURNS,
            t = out(reg) _,
            u = out(reg) _,
            $($operands)*
            options(nostack),
        )
    };
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::compare_store`.
#[inline(always)]
pub(super) unsafe fn compare_store(
    area: usize,
    field: usize,
    owner: &AtomicU32,
    word: &AtomicU64,
    expect: u64,
    new: u64,
) -> Outcome<()> {
    // SAFETY: the caller's: the words are the slot's. I1 to I4.
    unsafe {
        section!("compare_store", before [], moved "{moved}", aborted ["b {aborted}"], exits ["{differs}"],
            steps [
                "ldr {t}, [{word}]",
                "cmp {t}, {expect}",
                "b.ne {differs}",
                delay!(3),
                "stlr {new}, [{word}]",
            ],
            area = in(reg) area,
            field = in(reg) field,
            owner = in(reg) owner.as_ptr(),
            word = in(reg) word.as_ptr(),
            expect = in(reg) expect,
            new = in(reg) new,
            moved = label { return Outcome::Moved },
            differs = label { return Outcome::Differs },
            aborted = label { return Outcome::Aborted },
        );
    }
    Outcome::Done(())
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::add`.
#[inline(always)]
pub(super) unsafe fn add(area: usize, field: usize, owner: &AtomicU32, word: &AtomicU64, n: u64) -> Outcome<()> {
    // SAFETY: as in `compare_store`.
    unsafe {
        section!("add", before [], moved "{moved}", aborted ["b {aborted}"], exits [],
            steps [
                "ldr {t}, [{word}]",
                "add {t}, {t}, {n}",
                delay!(3),
                "str {t}, [{word}]",
            ],
            area = in(reg) area,
            field = in(reg) field,
            owner = in(reg) owner.as_ptr(),
            word = in(reg) word.as_ptr(),
            n = in(reg) n,
            moved = label { return Outcome::Moved },
            aborted = label { return Outcome::Aborted },
        );
    }
    Outcome::Done(())
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::add_two`.
#[inline(always)]
pub(super) unsafe fn add_two(area: usize, field: usize, owner: &AtomicU32, pair: &Pair, a: u64, b: u64) -> Outcome<()> {
    // SAFETY: as in `compare_store`.
    unsafe {
        section!("add_two", before [], moved "{moved}", aborted ["b {aborted}"], exits [],
            steps [
                "ldr {version}, [{pair}]",
                "and {t}, {version}, #16",
                "add {t}, {t}, {pair}",
                "ldp {x}, {y}, [{t}, #8]",
                delay!(3),
                "eor {t}, {version}, #16",
                "and {t}, {t}, #16",
                "add {t}, {t}, {pair}",
                "add {x}, {x}, {a}",
                "add {y}, {y}, {b}",
                // E2: after the version that made this buffer the one that is not current.
                "dmb ishst",
                "str {x}, [{t}, #8]",
                delay!(4),
                "str {y}, [{t}, #16]",
                "add {version}, {version}, #16",
                delay!(5),
                "stlr {version}, [{pair}]",
            ],
            area = in(reg) area,
            field = in(reg) field,
            owner = in(reg) owner.as_ptr(),
            pair = in(reg) std::ptr::from_ref(pair),
            a = in(reg) a,
            b = in(reg) b,
            version = out(reg) _,
            x = out(reg) _,
            y = out(reg) _,
            moved = label { return Outcome::Moved },
            aborted = label { return Outcome::Aborted },
        );
    }
    Outcome::Done(())
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::push`.
#[inline(always)]
pub(super) unsafe fn push(
    area: usize,
    field: usize,
    owner: &AtomicU32,
    head: &AtomicU64,
    first: u64,
    last: u64,
) -> Outcome<()> {
    // SAFETY: as in `compare_store`; the nodes are the caller's.
    unsafe {
        section!("push", before [], moved "{moved}", aborted ["b {aborted}"], exits [],
            steps [
                "ldr {t}, [{head}]",
                delay!(3),
                "str {t}, [{last}, #{next}]",
                delay!(4),
                "str {first}, [{head}]",
            ],
            area = in(reg) area,
            field = in(reg) field,
            owner = in(reg) owner.as_ptr(),
            head = in(reg) head.as_ptr(),
            first = in(reg) first,
            last = in(reg) last,
            next = const offset_of!(Link, 0),
            moved = label { return Outcome::Moved },
            aborted = label { return Outcome::Aborted },
        );
    }
    Outcome::Done(())
}

/// Instead of a node's address: nodes are aligned, and not at the beginning of the address space.
const NONE: u64 = 0;
const ABORTED: u64 = 1;
const MOVED: u64 = 2;

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::pop`.
#[inline(always)]
pub(super) unsafe fn pop(area: usize, field: usize, owner: &AtomicU32, head: &AtomicU64) -> Outcome<u64> {
    let node: u64;
    // SAFETY: as in `compare_store`; nodes are readable (I3).
    unsafe {
        section!("pop", before ["mov {node}, #2"], moved "3f", aborted ["mov {node}, #1", "b 3b"], exits [],
            steps [
                "ldr {node}, [{head}]",
                "cbz {node}, 3f",
                delay!(3),
                "ldr {t}, [{node}, #{next}]",
                delay!(4),
                "str {t}, [{head}]",
            ],
            area = in(reg) area,
            field = in(reg) field,
            owner = in(reg) owner.as_ptr(),
            head = in(reg) head.as_ptr(),
            next = const offset_of!(Link, 0),
            node = out(reg) node,
        );
    }
    match node {
        NONE => Outcome::Differs,
        ABORTED => Outcome::Aborted,
        MOVED => Outcome::Moved,
        node => Outcome::Done(node),
    }
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::copy`.
#[inline(always)]
pub(super) unsafe fn copy(
    area: usize,
    field: usize,
    owner: &AtomicU32,
    length: &AtomicU64,
    buffer: &[AtomicU64],
    words: &[u64],
) -> Outcome<()> {
    // SAFETY: as in `compare_store`; what is stored is within the buffer, and what is loaded within the words.
    unsafe {
        section!("copy", before [], moved "{moved}", aborted ["b {aborted}"], exits ["{differs}"],
            steps [
                "ldr {to}, [{length}]",
                "add {end}, {to}, {count}",
                "cmp {end}, {room}",
                "b.hi {differs}",
                delay!(3),
                "add {to}, {buffer}, {to}, lsl #3",
                "mov {i}, xzr",
                "6:",
                "cmp {i}, {count}",
                "b.eq 7f",
                "ldr {t}, [{words}, {i}, lsl #3]",
                "str {t}, [{to}, {i}, lsl #3]",
                delay!(4),
                "add {i}, {i}, #1",
                "b 6b",
                "7:",
                delay!(5),
                "stlr {end}, [{length}]",
            ],
            area = in(reg) area,
            field = in(reg) field,
            owner = in(reg) owner.as_ptr(),
            length = in(reg) length.as_ptr(),
            buffer = in(reg) buffer.as_ptr(),
            room = in(reg) buffer.len(),
            words = in(reg) words.as_ptr(),
            count = in(reg) words.len(),
            to = out(reg) _,
            end = out(reg) _,
            i = out(reg) _,
            moved = label { return Outcome::Moved },
            differs = label { return Outcome::Differs },
            aborted = label { return Outcome::Aborted },
        );
    }
    Outcome::Done(())
}

/// See `mod.rs`.
///
/// # Safety
/// That of `Here::fetch`.
#[inline(always)]
pub(super) unsafe fn fetch(area: usize, field: usize, owner: &AtomicU32, word: &AtomicU64, new: u64) -> Outcome<u64> {
    let (old, why): (u64, u64);
    // SAFETY: as in `compare_store`.
    unsafe {
        section!("fetch", before ["mov {why}, #2"], moved "3f", aborted ["mov {why}, #1", "b 3b"], exits [],
            steps [
                "mov {why}, xzr",
                "ldr {old}, [{word}]",
                delay!(3),
                "stlr {new}, [{word}]",
            ],
            area = in(reg) area,
            field = in(reg) field,
            owner = in(reg) owner.as_ptr(),
            word = in(reg) word.as_ptr(),
            new = in(reg) new,
            old = out(reg) old,
            why = out(reg) why,
        );
    }
    match why {
        ABORTED => Outcome::Aborted,
        MOVED => Outcome::Moved,
        _ => Outcome::Done(old),
    }
}
