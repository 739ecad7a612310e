//! The C library's entry points, turned to functions of this library: also the calls that the C library makes within itself (of stdio) come here.
//!
//! The first bytes of each function become a jump. Nobody comes into the middle of one: the only thread is here, the functions that are turned are
//! called at their beginning alone, and the caller has seen to it that no signal handler runs, or has been interrupted. None of the rest is used
//! again, so nothing is moved.

use libc::{Elf64_Sym, c_char, c_int, c_void, dl_phdr_info};
use std::ffi::CStr;

/// `jmp *0(%rip)`, and behind it the address.
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
const LEN: usize = JUMP.len() + size_of::<usize>();
const PAGE: usize = 4096;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_GNU_HASH: usize = 0x6fff_fef5;

/// A function of the C library, and what takes its place.
pub struct Turned {
    pub name: &'static CStr,
    pub to: *const c_void,
}

// SAFETY: addresses of functions.
unsafe impl Sync for Turned {}

/// The C library's table of names. `dladdr` would tell the same by going through all of them, for each one anew: some tenth of a millisecond.
struct Names {
    base: usize,
    symbols: *const Elf64_Sym,
    strings: *const c_char,
    /// Of DT_GNU_HASH.
    hash: *const u32,
}

impl Names {
    fn of_c_library() -> Option<Names> {
        /// # Safety
        /// The dynamic linker's facts, and a place for the answer.
        unsafe extern "C" fn one(info: *mut dl_phdr_info, _: usize, answer: *mut c_void) -> c_int {
            // SAFETY: as above.
            let (info, answer) = unsafe { (&*info, &mut *answer.cast::<Option<Names>>()) };
            if crate::gate::file_name(info) == b"libc.so.6" {
                // SAFETY: the dynamic linker's facts.
                *answer = unsafe { Names::of(info) };
            }
            0
        }
        let mut answer = None::<Names>;
        // SAFETY: a function of the type that is wanted, and what it is handed.
        unsafe { libc::dl_iterate_phdr(Some(one), (&raw mut answer).cast()) };
        answer
    }

    /// # Safety
    /// An object that stays loaded.
    unsafe fn of(info: &dl_phdr_info) -> Option<Names> {
        // SAFETY: the object's own tables, the second of which ends in DT_NULL.
        unsafe {
            let parts = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
            let dynamic = parts.iter().find(|part| part.p_type == libc::PT_DYNAMIC)?;
            let mut entry = (info.dlpi_addr + dynamic.p_vaddr) as *const [usize; 2];
            let [mut symbols, mut strings, mut hash] = [0; 3];
            while (*entry)[0] != 0 {
                match *entry {
                    [DT_SYMTAB, at] => symbols = at,
                    [DT_STRTAB, at] => strings = at,
                    [DT_GNU_HASH, at] => hash = at,
                    _ => {}
                }
                entry = entry.add(1);
            }
            let base = info.dlpi_addr as usize;
            // Addresses: the dynamic linker has made them of the file's offsets.
            let are_there = [symbols, strings, hash].iter().all(|at| *at > base);
            are_there.then_some(Names { base, symbols: symbols as _, strings: strings as _, hash: hash as _ })
        }
    }

    /// Where the function begins. None: it is not there, or there are several, or it is too short for a jump.
    fn entry(&self, name: &CStr) -> Option<usize> {
        let sum = name.to_bytes().iter().fold(5381u32, |sum, byte| sum.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let (mut found, mut is_one) = (None::<usize>, true);
        // SAFETY: the table as the linker has made it: four numbers, 64-bit words of a filter, buckets, and chains whose last member is odd.
        unsafe {
            let [buckets, first, filter] = [*self.hash, *self.hash.add(1), *self.hash.add(2)];
            let buckets_at = self.hash.add(4 + 2 * filter as usize);
            let chains_at = buckets_at.add(buckets as usize);
            let mut at = *buckets_at.add((sum % buckets.max(1)) as usize);
            while at >= first {
                let (one, link) = (&*self.symbols.add(at as usize), *chains_at.add((at - first) as usize));
                let is_it = link | 1 == sum | 1 && CStr::from_ptr(self.strings.add(one.st_name as usize)) == name;
                if is_it && one.st_shndx != 0 {
                    let begin = self.base + one.st_value as usize;
                    is_one &= found.is_none_or(|other| other == begin) && one.st_size as usize >= LEN;
                    found = Some(begin);
                }
                if link & 1 == 1 {
                    break;
                }
                at += 1;
            }
        }
        found.filter(|_| is_one)
    }
}

/// Turns all of them, or none.
///
/// # Errors
/// Why the program stays as it is.
pub fn turn(all: &[Turned]) -> Result<(), &'static str> {
    let Some(names) = Names::of_c_library() else { return Err("has another C library") };
    let mut places = [0; 32];
    for (turned, place) in all.iter().zip(&mut places) {
        // SAFETY: a name.
        let used = unsafe { libc::dlsym(libc::RTLD_DEFAULT, turned.name.as_ptr()) } as usize;
        match names.entry(turned.name) {
            Some(at) if at == used => *place = at,
            // Another library's functions, which was put before the C library, are not those that are known.
            _ => return Err("has functions in place of the C library's"),
        }
    }
    let places = &places[..all.len()];
    let begin = places.iter().min().map_or(0, |first| first / PAGE * PAGE);
    let end = places.iter().max().map_or(0, |last| (last + LEN).next_multiple_of(PAGE));
    let protect = |access: c_int| {
        // SAFETY: pages of the C library's code.
        unsafe { libc::syscall(libc::SYS_mprotect, begin, end - begin, access) == 0 }
    };
    // Also to be run meanwhile: the call that takes it back is in the same library.
    if !protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) {
        return Err("may not change the C library's code");
    }
    for (turned, place) in all.iter().zip(places) {
        let bytes = JUMP.into_iter().chain((turned.to as usize).to_ne_bytes());
        for (offset, byte) in bytes.enumerate() {
            // SAFETY: within the function, which is as long, and may be written now.
            unsafe { std::ptr::write_volatile((place + offset) as *mut u8, byte) };
        }
    }
    protect(libc::PROT_READ | libc::PROT_EXEC);
    Ok(())
}
