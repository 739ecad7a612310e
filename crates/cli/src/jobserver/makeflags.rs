//! What the command is told: MAKEFLAGS, and a make's own arguments.
//!
//! | read by                         | how                                                                              |
//! |---------------------------------|----------------------------------------------------------------------------------|
//! | GNU make 4.4 and later          | the last `--jobserver-auth=fifo:PATH`; a `-j` among its arguments wins over it     |
//! | GNU make before 4.4             | only `--jobserver-auth=R,W` with inherited pipes: `fifo:` is a fatal error there; |
//! |                                 | before 4.2 that is called `--jobserver-fds`                                      |
//! | cargo, rustc (crate jobserver)  | CARGO_MAKEFLAGS, MAKEFLAGS, MFLAGS: the first that is there; split at blanks      |
//! | gcc -flto=jobserver             | 13 and later the fifo; it runs a make of its own, which takes the slots           |
//! | ninja 1.13 and later            | the fifo, unless it has a `-j` among its arguments                                |
//!
//! So the path has no blanks, CARGO_MAKEFLAGS is set to the same if it was there, and of a make that chappe starts itself the `-j` is taken
//! out (`chappe jobserver --permits 8 -- make -j` would have no limit at all).

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The first words of MAKEFLAGS about jobs.
const JOBS: [&[u8]; 4] = [b"--jobserver-auth", b"--jobserver-fds", b"--jobserver-style", b"--jobs"];

/// How clients are told where the slots are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// By the name of a fifo, which each client opens.
    Fifo(PathBuf),
    /// By the numbers of two descriptors, for reading and for writing, that all clients inherit; and the word that says so.
    Pipe(&'static str, RawFd, RawFd),
}

impl Form {
    fn words(&self) -> Vec<u8> {
        match self {
            Form::Fifo(path) => [b"--jobserver-auth=fifo:", path.as_os_str().as_bytes()].concat(),
            Form::Pipe(word, r, w) => format!("{word}={r},{w}").into_bytes(),
        }
    }
}

/// The value for MAKEFLAGS: what is in `old` and not about jobs, with chappe's options.
pub fn compose(old: &OsStr, permits: u32, form: &Form) -> OsString {
    let mut out = Vec::new();
    let mut words = old.as_bytes().split(|b| *b == b' ').filter(|w| !w.is_empty()).peekable();
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
    out.extend(format!(" -j{permits} ").bytes());
    out.extend(form.words());
    out.extend(after);
    OsString::from_vec(out)
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

/// The word of the pipe form for a make that would stop at `fifo:`; none if the command is no such make.
pub fn wants_pipe(program: &OsStr) -> Option<&'static str> {
    if !is_make(program) {
        return None;
    }
    let mut asked = Command::new(program);
    asked.arg("--version").env_remove("MAKEFLAGS").stdin(Stdio::null()).stderr(Stdio::null());
    // If it cannot be run, that is said when it is to be run.
    let answer = asked.output().ok()?;
    match version(&String::from_utf8_lossy(&answer.stdout))? {
        (4, 2 | 3) => Some("--jobserver-auth"),
        version if version < (4, 2) => Some("--jobserver-fds"),
        _ => None,
    }
}

fn version(text: &str) -> Option<(u32, u32)> {
    let number = text.strip_prefix("GNU Make ")?.split_whitespace().next()?;
    let mut parts = number.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(old: &str) -> String {
        compose(OsStr::new(old), 8, &Form::Fifo("/tmp/jobs".into())).into_string().unwrap()
    }

    #[test]
    fn what_is_not_about_jobs_is_kept() {
        let ours = " -j8 --jobserver-auth=fifo:/tmp/jobs";
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
        }
    }

    #[test]
    fn an_old_make_is_told_the_numbers_of_two_descriptors() {
        let flags = compose(OsStr::new("k -- V=1"), 3, &Form::Pipe("--jobserver-fds", 7, 8));
        assert_eq!(flags, "k -j3 --jobserver-fds=7,8 -- V=1");
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
    fn versions_are_read() {
        assert_eq!(version("GNU Make 4.3\nBuilt for x"), Some((4, 3)));
        assert_eq!(version("GNU Make 4.4.1\n"), Some((4, 4)));
        assert_eq!(version("GNU Make 4.4.0.91"), Some((4, 4)));
        assert_eq!(version("bmake 1"), None);
    }

    #[test]
    fn another_job_server_is_noticed() {
        assert!(has_server(OsStr::new("k -j --jobserver-auth=3,4")));
        assert!(has_server(OsStr::new("--jobserver-fds=3,4")));
        assert!(!has_server(OsStr::new("k -j4")));
    }
}
