//! Whether a program is understood: what it and its libraries import, and whether their code has system calls of its own.
//!
//! The C library, its parts, and chappe's libraries are not looked at: they are called by what is.

use crate::known::is_known;
use libc::{Elf64_Phdr, Elf64_Rela, Elf64_Sym, c_int, c_void, dl_phdr_info};
use std::ffi::CStr;
use std::fmt;
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
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_REL: i64 = 17;
const DT_JMPREL: i64 = 23;

/// What is not understood of a program.
pub struct Why {
    /// The object's file. Empty: the program's own.
    object: &'static [u8],
    what: What,
}

enum What {
    /// It imports this.
    Imports(&'static CStr),
    /// Its code has the instruction.
    Calls,
    /// Its tables, or its code, are not as they are known.
    Unread,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if !self.object.is_empty() {
            write!(f, "its {} ", std::str::from_utf8(self.object).unwrap_or("library"))?;
        }
        match self.what {
            What::Imports(name) => write!(f, "imports {}", name.to_str().unwrap_or("?")),
            What::Calls => f.write_str("makes system calls of its own"),
            What::Unread => f.write_str("cannot be judged"),
        }
    }
}

/// Whether all that is imported is known.
///
/// # Errors
/// The first that is not.
pub fn imports() -> Result<(), Why> {
    every_object(imports_of_one)
}

/// Whether no code of the program makes system calls of its own. Asked when the first lane is wanted: it reads all code.
pub fn has_no_system_calls() -> bool {
    /// 0: not asked yet; 1: no; 2: yes.
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    // Relaxed, all: there is one thread.
    if ANSWER.load(Ordering::Relaxed) == 0 {
        // Relaxed: as above.
        ANSWER.store(1 + u8::from(every_object(calls_nothing).is_ok()), Ordering::Relaxed);
    }
    ANSWER.load(Ordering::Relaxed) == 2 // Relaxed: as above.
}

type Look = fn(&dl_phdr_info, &[Elf64_Phdr]) -> Result<(), What>;

/// Whether that is so of every object that is not known.
fn every_object(look: Look) -> Result<(), Why> {
    /// # Safety
    /// The dynamic linker's facts, and a [`Look`] with a place for its answer.
    unsafe extern "C" fn one(info: *mut dl_phdr_info, _: usize, asked: *mut c_void) -> c_int {
        // SAFETY: the dynamic linker's facts, and what is handed over below.
        let (info, (look, answer)) = unsafe { (&*info, &mut *asked.cast::<(Look, Result<(), Why>)>()) };
        if OBJECTS.contains(&file_name(info)) {
            return 0;
        }
        // SAFETY: the object's own table.
        let parts = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        *answer = look(info, parts).map_err(|what| Why { object: file_name(info), what });
        c_int::from(answer.is_err())
    }
    let mut asked = (look, Ok(()));
    // SAFETY: a function of the type that is wanted, and what it is handed.
    unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut asked).cast()) };
    asked.1
}

/// Of an object. The program's own is empty.
pub fn file_name(info: &dl_phdr_info) -> &'static [u8] {
    // SAFETY: a path, or none. The object stays loaded: a program that unloads one is not understood.
    let path = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
    path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn calls_nothing(info: &dl_phdr_info, parts: &[Elf64_Phdr]) -> Result<(), What> {
    let code = |part: &&Elf64_Phdr| part.p_type == libc::PT_LOAD && part.p_flags & libc::PF_X != 0;
    parts.iter().filter(code).try_for_each(|part| {
        if part.p_flags & libc::PF_R == 0 {
            return Err(What::Unread);
        }
        let at = (info.dlpi_addr + part.p_vaddr) as *const u8;
        // SAFETY: the object's code, which is mapped as long as it is there.
        let bytes = unsafe { std::slice::from_raw_parts(at, part.p_filesz as usize) };
        let is_call = |pair: &[u8]| SYSTEM_CALLS.iter().any(|call| pair == call);
        if bytes.windows(2).any(is_call) { Err(What::Calls) } else { Ok(()) }
    })
}

/// What an object imports are the symbols that its relocations name and it does not have itself. A table of hashes tells nothing of them: it has
/// those alone that others import, and none in a program that exports nothing.
fn imports_of_one(info: &dl_phdr_info, parts: &[Elf64_Phdr]) -> Result<(), What> {
    let Some(dynamic) = parts.iter().find(|part| part.p_type == libc::PT_DYNAMIC) else { return Err(What::Unread) };
    let mut entry = (info.dlpi_addr + dynamic.p_vaddr) as *const [i64; 2];
    let (mut symbols, mut strings) = (0, 0);
    // Where, and how many bytes.
    let (mut data, mut calls) = ((0, 0), (0, 0));
    // SAFETY: the object's own table, which ends in DT_NULL. The dynamic linker has made addresses of its offsets.
    unsafe {
        while (*entry)[0] != DT_NULL {
            match *entry {
                [DT_SYMTAB, at] => symbols = at,
                [DT_STRTAB, at] => strings = at,
                [DT_RELA, at] => data.0 = at,
                [DT_RELASZ, len] => data.1 = len,
                [DT_JMPREL, at] => calls.0 = at,
                [DT_PLTRELSZ, len] => calls.1 = len,
                // Other processors' kind.
                [DT_REL, _] => return Err(What::Unread),
                _ => {}
            }
            entry = entry.add(1);
        }
        let tables = [data, calls].into_iter().filter(|(_, len)| *len != 0);
        // Not relocated in an object that may not be written, such as the kernel's: none of those is judged.
        let mut places = [symbols, strings].into_iter().chain(tables.clone().map(|(at, _)| at));
        if places.any(|at| (at as u64) < info.dlpi_addr.max(1)) {
            return Err(What::Unread);
        }
        tables.into_iter().try_for_each(|(at, len)| {
            let table = std::slice::from_raw_parts(at as *const Elf64_Rela, len as usize / size_of::<Elf64_Rela>());
            table.iter().try_for_each(|one| {
                // 0: no symbol's.
                let symbol = &*(symbols as *const Elf64_Sym).add((one.r_info >> 32) as usize);
                let name = CStr::from_ptr((strings as *const libc::c_char).add(symbol.st_name as usize));
                let is_its_own = one.r_info >> 32 == 0 || symbol.st_shndx != 0;
                if is_its_own || is_known(name.to_bytes()) { Ok(()) } else { Err(What::Imports(name)) }
            })
        })
    }
}
