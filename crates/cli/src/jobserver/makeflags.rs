//! What the command is told: MAKEFLAGS, and a make's own arguments.
//!
//! | read by                         | how                                                                              |
//! |---------------------------------|----------------------------------------------------------------------------------|
//! | GNU make 4.4 and later          | the last `--jobserver-auth=fifo:PATH`; a `-j` among its arguments wins over it     |
//! | GNU make before 4.4             | the last of `--jobserver-auth=R,W`, which `fifo:` is a fatal error for, and       |
//! |                                 | `--jobserver-fds=R,W`, the only one before 4.2: inherited pipes                   |
//! | cargo, rustc (crate jobserver)  | CARGO_MAKEFLAGS, MAKEFLAGS, MFLAGS: the first that is there; split at blanks      |
//! | gcc -flto=jobserver             | 13 and later the fifo; it runs a make of its own, which takes the slots           |
//! | ninja 1.13 and later            | the fifo, unless it has a `-j` among its arguments                                |
//!
//! So the path has no blanks, CARGO_MAKEFLAGS is set to the same if it was there, and of a make that chappe starts itself the `-j` is taken
//! out (`chappe jobserver --permits 8 -- make -j` would have no limit at all).
//!
//! Which make comes first, and how far below the command, does not matter, since every GNU make expands what it finds in MAKEFLAGS like any
//! variable, and only those that know `fifo:` say so in `.FEATURES`: behind the fifo stands an expression that is nothing to them, and the
//! two descriptors to the others. To all other clients the expression is words that they do not know: it has none of the words that they look
//! for. What a make hands on to those below it is the form that it has chosen.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The first words of MAKEFLAGS about jobs.
const JOBS: [&[u8]; 4] = [b"--jobserver-auth", b"--jobserver-fds", b"--jobserver-style", b"--jobs"];

/// What is before and behind the two descriptors. The word is `--jobserver-fds`, cut short as every make admits: other clients look for the
/// whole one.
const OLDER: [&str; 2] = ["$(if $(filter jobserver-fifo,$(.FEATURES)),,--jobserver-fd=", ")"];

/// The value for MAKEFLAGS: what is in `old` and not about jobs, with chappe's options: the fifo's name, and the descriptors for reading and for
/// writing that an older make inherits.
pub fn compose(old: &OsStr, permits: u32, fifo: &Path, [r, w]: [RawFd; 2]) -> OsString {
    let mut out = Vec::new();
    let old = without_older(old.as_bytes());
    let mut words = old.split(|b| *b == b' ').filter(|w| !w.is_empty()).peekable();
    // Without a dash, the first word is a bundle of letters.
    if let Some(first) = words.next_if(|w| !w.starts_with(b"-") && !w.contains(&b'=')) {
        out.extend(without_j(first));
    }
    let mut after = Vec::new();
    while let Some(word) = words.next() {
        if word == b"--" || word.contains(&b'=') && !word.starts_with(b"-") {
            // From here on they are variables.
            after = [word].into_iter().chain(words).flat_map(|w| [b" ", w].concat()).collect();
            break;
        }
        if word == b"-j" || word == b"--jobs" {
            words.next_if(|w| is_number(w));
        } else if !is_about_jobs(word) {
            let kept = if word.starts_with(b"--") { word.to_vec() } else { without_j(word) };
            if kept != b"-" {
                out.extend([b" ", kept.as_slice()].concat());
            }
        }
    }
    out.extend(format!(" -j{permits} --jobserver-auth=fifo:").bytes());
    out.extend(fifo.as_os_str().as_bytes());
    out.extend(format!(" {}{r},{w}{}", OLDER[0], OLDER[1]).bytes());
    out.extend(after);
    OsString::from_vec(out)
}

/// MAKEFLAGS without the expression of another chappe that no make has expanded yet.
fn without_older(flags: &[u8]) -> Vec<u8> {
    let [before, behind] = OLDER.map(str::as_bytes);
    let of = |from: &[u8], what: &[u8]| from.windows(what.len()).position(|w| w == what);
    let mut flags = flags.to_vec();
    while let Some(at) = of(&flags, before)
        && let Some(len) = of(&flags[at + before.len()..], behind)
    {
        flags.drain(at..at + before.len() + len + behind.len());
    }
    flags
}

/// Whether MAKEFLAGS names a job server already.
pub fn has_server(flags: &OsStr) -> bool {
    let mut words = flags.as_bytes().split(|b| *b == b' ');
    words.any(|w| w.starts_with(b"--jobserver-auth=") || w.starts_with(b"--jobserver-fds="))
}

fn is_about_jobs(word: &[u8]) -> bool {
    JOBS.iter().any(|j| word.strip_prefix(*j).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"=")))
}

fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// A bundle of one-letter options without its `j` and the number behind. Options after one that takes a value are
/// that value.
fn without_j(bundle: &[u8]) -> Vec<u8> {
    for (at, letter) in bundle.iter().enumerate() {
        if b"CfIoWElO".contains(letter) {
            break;
        }
        if *letter == b'j' {
            let digits = bundle[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
            return [&bundle[..at], &bundle[at + 1 + digits..]].concat();
        }
    }
    bundle.to_vec()
}

/// Whether a command is a make, by its name.
fn is_make(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default();
    ["make", "gmake", "gnumake"].iter().any(|m| name == *m)
}

/// The command, less the `-j` if it is a make.
pub fn without_jobs(command: &[OsString]) -> Vec<OsString> {
    let mut words = command.iter().cloned();
    let mut out: Vec<OsString> = words.next().into_iter().collect();
    if !out.first().is_some_and(|program| is_make(program)) {
        out.extend(words);
        return out;
    }
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            out.push(word);
            break;
        }
        let bundle = bytes.starts_with(b"-") && !bytes.starts_with(b"--");
        if bytes == b"--jobs" || bytes.starts_with(b"--jobs=") {
            words.next_if(|w| bytes == b"--jobs" && is_number(w.as_bytes()));
        } else if bundle && without_j(bytes) != bytes {
            let kept = without_j(bytes);
            if bytes.ends_with(b"j") {
                words.next_if(|w| is_number(w.as_bytes()));
            }
            if kept != b"-" {
                out.push(OsString::from_vec(kept));
            }
        } else if bundle && bytes.len() == 2 && b"CfIoWE".contains(&bytes[1]) {
            // Its value is the next word.
            out.push(word);
            out.extend(words.next());
        } else {
            out.push(word);
        }
    }
    out.extend(words);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(old: &str) -> String {
        compose(OsStr::new(old), 8, Path::new("/tmp/jobs"), [100, 101]).into_string().unwrap()
    }

    #[test]
    fn makeflags_that_are_not_about_jobs_are_kept() {
        let ours =
            " -j8 --jobserver-auth=fifo:/tmp/jobs $(if $(filter jobserver-fifo,$(.FEATURES)),,--jobserver-fd=100,101)";
        for (old, kept, after) in [
            ("", "", ""),
            ("ks", "ks", ""),
            ("kj4s", "ks", ""),
            ("j4", "", ""),
            ("k -j3 --jobserver-auth=3,4 -- CC=cc V=j9", "k", " -- CC=cc V=j9"),
            (" -j --jobserver-auth=fifo:/x -l2.5", " -l2.5", ""),
            ("-j 4 --jobs=3 --jobserver-fds=3,4", "", ""),
            ("--jobs 4 -kj2", " -k", ""),
            ("-Idirj3 --no-print-directory", " -Idirj3 --no-print-directory", ""),
            ("CC=j4 -j4", "", " CC=j4 -j4"),
        ] {
            assert_eq!(composed(old), format!("{kept}{ours}{after}"), "{old:?}");
            // Of a chappe below another one, with no make in between.
            assert_eq!(composed(&composed(old)), composed(old), "{old:?}");
        }
    }

    #[test]
    fn the_job_option_of_a_make_is_taken_out() {
        for (command, left) in [
            ("make -j", "make"),
            ("make -j8 all", "make all"),
            ("make -j 8 all", "make all"),
            ("gmake --jobs=3 -k", "gmake -k"),
            ("/usr/bin/make --jobs 3 x", "/usr/bin/make x"),
            ("make -kj8 x", "make -k x"),
            ("make -kj 8 x", "make -k x"),
            ("make -C j -f -j5 x", "make -C j -f -j5 x"),
            ("make -fj5", "make -fj5"),
            ("make -j x", "make x"),
            ("make -- -j8", "make -- -j8"),
            ("ninja -j8", "ninja -j8"),
        ] {
            let words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
            let left: Vec<OsString> = left.split(' ').map(OsString::from).collect();
            assert_eq!(without_jobs(&words), left, "{command}");
        }
    }

    #[test]
    fn another_job_server_is_noticed() {
        assert!(has_server(OsStr::new("k -j --jobserver-auth=3,4")));
        assert!(has_server(OsStr::new("--jobserver-fds=3,4")));
        assert!(!has_server(OsStr::new("k -j4")));
    }
}
