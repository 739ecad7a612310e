//! Whether a program is understood: what it and its libraries import, and whether their code has system calls of its own.
//!
//! The C library, its parts, and chappe's libraries are not looked at: they are called by what is.

use crate::known::is_known;
use libc::{Elf64_Phdr, Elf64_Sym, c_int, c_void, dl_phdr_info};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

/// Objects that are known, by the beginnings of their files' names.
const OBJECTS: [&[u8]; 9] = [
    b"libc.so.6",
    b"libm.so.6",
    b"libgcc_s.so.1",
    b"libpthread.so.0",
    b"libdl.so.2",
    b"ld-linux-x86-64.so.2",
    b"linux-vdso.so.1",
    b"libchappe_io.so",
    b"libchappe_preload.so",
];
/// `syscall`, and `sysenter`.
const SYSTEM_CALLS: [[u8; 2]; 2] = [[0x0f, 0x05], [0x0f, 0x34]];

const DT_NULL: i64 = 0;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// Whether all that is imported is known.
pub fn imports_are_known() -> bool {
    every_object(imports_of_one)
}

/// Whether no code of the program makes system calls of its own. Asked when the first lane is wanted: it reads all code.
pub fn has_no_system_calls() -> bool {
    /// 0: not asked yet; 1: no; 2: yes.
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    // Relaxed, all: there is one thread.
    if ANSWER.load(Ordering::Relaxed) == 0 {
        // Relaxed: as above.
        ANSWER.store(1 + u8::from(every_object(calls_nothing)), Ordering::Relaxed);
    }
    ANSWER.load(Ordering::Relaxed) == 2 // Relaxed: as above.
}

type Look = fn(&dl_phdr_info, &[Elf64_Phdr]) -> bool;

/// Whether that is so of every object that is not known.
fn every_object(look: Look) -> bool {
    /// # Safety
    /// The dynamic linker's facts, and a [`Look`].
    unsafe extern "C" fn one(info: *mut dl_phdr_info, _: usize, look: *mut c_void) -> c_int {
        // SAFETY: the dynamic linker's facts, and what is handed over below.
        let (info, look) = unsafe { (&*info, *look.cast::<Look>()) };
        // SAFETY: a path, or none.
        let path = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
        let name = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if OBJECTS.contains(&name) {
            return 0;
        }
        // SAFETY: the object's own table.
        let parts = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        c_int::from(!look(info, parts))
    }
    let mut look = look;
    // SAFETY: a function of the type that is wanted, and what it is handed.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut look).cast()) == 0 }
}

fn calls_nothing(info: &dl_phdr_info, parts: &[Elf64_Phdr]) -> bool {
    let code = |part: &&Elf64_Phdr| part.p_type == libc::PT_LOAD && part.p_flags & libc::PF_X != 0;
    parts.iter().filter(code).all(|part| {
        // An object that is not to be read cannot be judged.
        if part.p_flags & libc::PF_R == 0 {
            return false;
        }
        let at = (info.dlpi_addr + part.p_vaddr) as *const u8;
        // SAFETY: the object's code, which is mapped as long as it is there.
        let bytes = unsafe { std::slice::from_raw_parts(at, part.p_filesz as usize) };
        !bytes.windows(2).any(|pair| SYSTEM_CALLS.iter().any(|call| pair == call))
    })
}

fn imports_of_one(info: &dl_phdr_info, parts: &[Elf64_Phdr]) -> bool {
    let Some(dynamic) = parts.iter().find(|part| part.p_type == libc::PT_DYNAMIC) else { return false };
    let mut entry = (info.dlpi_addr + dynamic.p_vaddr) as *const [i64; 2];
    let (mut symbols, mut strings, mut hash, mut gnu_hash) = (0, 0, 0, 0);
    // SAFETY: the object's own table, which ends in DT_NULL. The dynamic linker has made addresses of its offsets.
    unsafe {
        while (*entry)[0] != DT_NULL {
            match *entry {
                [DT_SYMTAB, at] => symbols = at,
                [DT_STRTAB, at] => strings = at,
                [DT_HASH, at] => hash = at,
                [DT_GNU_HASH, at] => gnu_hash = at,
                _ => {}
            }
            entry = entry.add(1);
        }
        // Not relocated in an object that may not be written, such as the kernel's: none of those is judged.
        if [symbols, strings].iter().any(|at| (*at as u64) < info.dlpi_addr.max(1)) {
            return false;
        }
        let count = match (gnu_hash, hash) {
            (0, 0) => return false,
            (0, at) => *(at as *const u32).add(1),
            (at, _) => count_by_gnu_hash(at as *const u32),
        };
        let symbols = std::slice::from_raw_parts(symbols as *const Elf64_Sym, count as usize);
        symbols.iter().skip(1).filter(|symbol| symbol.st_shndx == 0).all(|symbol| {
            is_known(CStr::from_ptr((strings as *const libc::c_char).add(symbol.st_name as usize)).to_bytes())
        })
    }
}

/// How many symbols there are: those of no bucket come first, and the last one of the last bucket's chain is the last of all.
///
/// # Safety
/// A table of the format.
unsafe fn count_by_gnu_hash(table: *const u32) -> u32 {
    // SAFETY: the caller's: four numbers, the filter's words, the buckets, the chains.
    unsafe {
        let [buckets, first, words] = [0, 1, 2].map(|at| *table.add(at));
        let bucket = table.add(4 + 2 * words as usize);
        let chains = bucket.add(buckets as usize);
        let last = (0..buckets as usize).map(|at| *bucket.add(at)).max().unwrap_or(0);
        if last < first {
            return first;
        }
        let mut at = last;
        while *chains.add((at - first) as usize) & 1 == 0 {
            at += 1;
        }
        at + 1
    }
}
