//! Which file a command is, and whether it would load what LD_PRELOAD says.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Why a program is not run.
#[derive(Debug)]
pub enum Refusal {
    /// It cannot be run at all.
    Cannot(io::Error),
    /// It can, but would not load the library.
    Deaf(String),
}

/// The processor's number in a program's head.
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

const DYNAMIC_LINKER: u32 = 3;
/// How many interpreters of interpreters the kernel follows.
const DEEPEST: u32 = 5;

fn os(e: i32) -> io::Error {
    io::Error::from_raw_os_error(e)
}

/// The file that a command's name means: as the shell finds it.
///
/// # Errors
/// `ENOENT`; `EACCES` if all there is cannot be run.
pub fn find(name: &OsStr) -> io::Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let mut why = os(libc::ENOENT);
    let places = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    for place in std::env::split_paths(&places) {
        let path = if place.as_os_str().is_empty() { Path::new(".").join(name) } else { place.join(name) };
        match runnable(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.raw_os_error() == Some(libc::EACCES) => why = e,
            Err(_) => {}
        }
    }
    Err(why)
}

/// Whether it is a file that this user may run.
///
/// # Errors
/// Why not.
pub fn runnable(path: &Path) -> io::Result<()> {
    let facts = std::fs::metadata(path)?;
    let text = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a C string.
    let may = unsafe { libc::access(text.as_ptr(), libc::X_OK) } == 0;
    if facts.is_file() && may { Ok(()) } else { Err(os(libc::EACCES)) }
}

/// Whether the program, or its interpreter, would load the library.
///
/// # Errors
/// Why not.
pub fn check(path: &Path) -> Result<(), Refusal> {
    at(path, DEEPEST)
}

fn at(path: &Path, depth: u32) -> Result<(), Refusal> {
    runnable(path).map_err(Refusal::Cannot)?;
    let file = match File::open(path) {
        Ok(file) => file,
        // To be run, and not to be read: nothing can be known of it.
        Err(e) if e.raw_os_error() == Some(libc::EACCES) => return Ok(()),
        Err(e) => return Err(Refusal::Cannot(e)),
    };
    let mut head = Vec::new();
    (&file).take(256).read_to_end(&mut head).map_err(Refusal::Cannot)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        if depth == 0 {
            return Err(Refusal::Cannot(os(libc::ELOOP)));
        }
        let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
        let word = line.split(|b| b" \t".contains(b)).find(|w| !w.is_empty());
        let interpreter = Path::new(OsStr::from_bytes(word.ok_or(Refusal::Cannot(os(libc::ENOEXEC)))?));
        return at(interpreter, depth - 1).map_err(|refusal| match refusal {
            Refusal::Cannot(e) => Refusal::Cannot(io::Error::new(
                e.kind(),
                format!("its interpreter {}: {}", interpreter.display(), plain(&e)),
            )),
            Refusal::Deaf(why) => {
                Refusal::Deaf(format!("it is a script for {}, and of that: {why}", interpreter.display()))
            }
        });
    }
    let is_linker = path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-linux"));
    program(&file, &head, is_linker)?;
    secure(path, &file)
}

fn plain(e: &io::Error) -> String {
    e.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut all = [0; 8];
    all[..N].copy_from_slice(bytes.get(at..at + N)?);
    Some(u64::from_le_bytes(all))
}

/// What a program's head says: 64 bits, little-endian, this processor, and a dynamic linker of the GNU C library's.
fn program(file: &File, head: &[u8], is_linker: bool) -> Result<(), Refusal> {
    let none = || Refusal::Cannot(os(libc::ENOEXEC));
    let deaf = |why: &str| Err(Refusal::Deaf(why.into()));
    if !head.starts_with(b"\x7fELF") {
        // A shell would take it for one of its scripts: but the user has not said which shell's.
        let what = "Exec format error: it is neither a program nor begins with `#!`; run a script as `sh FILE`";
        return Err(Refusal::Cannot(io::Error::new(os(libc::ENOEXEC).kind(), what)));
    }
    if head.get(4) != Some(&2) {
        return deaf("it is a 32-bit program, and the library has 64 bits; run it without chappe");
    }
    if head.get(5) != Some(&1) || number::<2>(head, 18) != Some(MACHINE.into()) {
        return deaf("it is a program for another processor than the library; run it without chappe");
    }
    let from = number::<8>(head, 32).ok_or_else(none)?;
    let (size, count) = (number::<2>(head, 54).ok_or_else(none)?, number::<2>(head, 56).ok_or_else(none)?);
    for i in 0..count {
        let mut part = [0; 56];
        file.read_exact_at(&mut part, from.saturating_add(i * size)).map_err(|_| none())?;
        if number::<4>(&part, 0) != Some(DYNAMIC_LINKER.into()) {
            continue;
        }
        let mut linker = vec![0; number::<8>(&part, 32).unwrap_or(0).min(4096) as usize];
        file.read_exact_at(&mut linker, number::<8>(&part, 8).unwrap_or(0)).map_err(|_| none())?;
        if linker.windows(4).any(|w| w == b"musl") {
            return deaf(
                "it is linked with musl, and the library with the GNU C library; run it without chappe, or link it with that",
            );
        }
        return Ok(());
    }
    if is_linker {
        // It loads what it is told, and then the program.
        return Ok(());
    }
    deaf(
        "it is linked statically, so nothing can be put in front of its C library; run it without chappe, or link it dynamically",
    )
}

/// Whether the system would take away LD_PRELOAD because the program has rights that its caller has not.
fn secure(path: &Path, file: &File) -> Result<(), Refusal> {
    let facts = file.metadata().map_err(Refusal::Cannot)?;
    // SAFETY: these take nothing.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    let deaf = |why: &str, what: &str| {
        Err(Refusal::Deaf(format!("it {why}, and the system ignores LD_PRELOAD there; {what}")))
    };
    if facts.mode() & libc::S_ISUID != 0 && facts.uid() != user {
        return deaf("is set-uid", "run it without chappe, or as its owner");
    }
    if facts.mode() & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP && facts.gid() != group {
        return deaf("is set-gid", "run it without chappe, or with its group as your own");
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| Refusal::Cannot(e.into()))?;
    // SAFETY: C strings, and no place to fill.
    let has = unsafe { libc::getxattr(name.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) } > 0;
    if has && user != 0 {
        return deaf("has capabilities of its own (setcap)", "run it without chappe, or a copy of it");
    }
    Ok(())
}
