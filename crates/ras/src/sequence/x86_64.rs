//! The sections for x86-64. What each does is said in `mod.rs`; loads and stores are in order here, so there is nothing to fence.

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

/// The area as sections name it: by its distance.
#[inline(always)]
pub(super) fn area(offset: usize) -> usize {
    offset
}

/// A number in the area.
#[inline(always)]
pub(super) fn number(area: usize, field: usize) -> u32 {
    let number: u32;
    // SAFETY: the calling thread's area, or one that nobody writes; either is readable.
    unsafe {
        asm!(
            "mov {n:e}, dword ptr fs:[{area} + {field}]",
            n = out(reg) number,
            area = in(reg) area,
            field = in(reg) field,
            options(nostack, preserves_flags, readonly)
        );
    }
    number
}

/// A section of this name. `2` is its first instruction, `3` what follows the commit; `steps` begin where the slot has proved to be the
/// thread's, and end with the commit. The kernel resumes an aborted thread at `4`: `aborted` goes on from there, and `exits` are the places
/// other than `3` to which steps may leave it.
macro_rules! section {
    ($name:literal, moved $moved:literal, aborted [$($aborted:literal),*], exits [$($exit:literal),*],
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
            concat!(".type chappe_ras_", $name, "_\\n, @function"),
            concat!(".size chappe_ras_", $name, "_\\n, (3f - 2f)"),
            ".endm",
            concat!("chappe_ras_symbol %.Lchappe_ras_", $name),
            ".purgem chappe_ras_symbol",
            ".noaltmacro",
            // begin
            "lea {t}, [rip + 9b]",
            "mov qword ptr fs:[{area} + 8], {t}",
            "2:",
            delay!(0),
            "mov {t:e}, dword ptr fs:[{area} + {field}]",
            delay!(1),
            "cmp {t:e}, dword ptr [{owner}]",
            concat!("jne ", $moved),
            delay!(2),
            $($step,)*
            "3:",
            ".pushsection __rseq_failure, \"ax\"",
            // ud1 edi, [rip + signature]: were it run, it would trap.
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "4:",
            $($aborted,)*
            ".popsection",
            #[cfg(feature = "inject")]
            turn = out(reg) _,
            #[cfg(feature = "inject")]
            turns = sym crate::delays::TURNS,
            t = out(reg) _,
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
        section!("compare_store", moved "{moved}", aborted ["jmp {aborted}"], exits ["{differs}"],
            steps [
                "cmp qword ptr [{word}], {expect}",
                "jne {differs}",
                delay!(3),
                "mov qword ptr [{word}], {new}",
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
    // SAFETY: as in `compare_store`. One instruction adds and commits: no signal comes between.
    unsafe {
        section!("add", moved "{moved}", aborted ["jmp {aborted}"], exits [],
            steps ["add qword ptr [{word}], {n}"],
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
        section!("add_two", moved "{moved}", aborted ["jmp {aborted}"], exits [],
            steps [
                "mov {version}, qword ptr [{pair}]",
                "mov {t:e}, {version:e}",
                "and {t:e}, 16",
                "mov {x}, qword ptr [{pair} + {t} + 8]",
                "mov {y}, qword ptr [{pair} + {t} + 16]",
                delay!(3),
                "xor {t:e}, 16",
                "add {x}, {a}",
                "add {y}, {b}",
                "mov qword ptr [{pair} + {t} + 8], {x}",
                delay!(4),
                "mov qword ptr [{pair} + {t} + 16], {y}",
                "add {version}, 16",
                delay!(5),
                "mov qword ptr [{pair}], {version}",
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
        section!("push", moved "{moved}", aborted ["jmp {aborted}"], exits [],
            steps [
                "mov {t}, qword ptr [{head}]",
                delay!(3),
                "mov qword ptr [{last} + {next}], {t}",
                delay!(4),
                "mov qword ptr [{head}], {first}",
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
        section!("pop", moved "5f", aborted ["mov {node:e}, 1", "jmp 3b", "5:", "mov {node:e}, 2", "jmp 3b"], exits [],
            steps [
                "mov {node}, qword ptr [{head}]",
                "test {node}, {node}",
                "jz 3f",
                delay!(3),
                "mov {t}, qword ptr [{node} + {next}]",
                delay!(4),
                "mov qword ptr [{head}], {t}",
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
        section!("copy", moved "{moved}", aborted ["jmp {aborted}"], exits ["{differs}"],
            steps [
                "mov {to}, qword ptr [{length}]",
                "lea {end}, [{to} + {count}]",
                "cmp {end}, {room}",
                "ja {differs}",
                delay!(3),
                "lea {to}, [{buffer} + 8 * {to}]",
                "xor {i:e}, {i:e}",
                "6:",
                "cmp {i}, {count}",
                "je 7f",
                "mov {t}, qword ptr [{words} + 8 * {i}]",
                "mov qword ptr [{to} + 8 * {i}], {t}",
                delay!(4),
                "inc {i}",
                "jmp 6b",
                "7:",
                delay!(5),
                "mov qword ptr [{length}], {end}",
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
        section!("fetch", moved "5f", aborted ["mov {why:e}, 1", "jmp 3b", "5:", "mov {why:e}, 2", "jmp 3b"], exits [],
            steps [
                "xor {why:e}, {why:e}",
                "mov {old}, qword ptr [{word}]",
                delay!(3),
                "mov qword ptr [{word}], {new}",
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
