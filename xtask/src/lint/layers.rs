//! Rule `layers` (design 2): arrows go down only, and `plat` is the only room that touches the outside.
//!
//! ```text
//!   cli  injector  bench  ffi  preload  py  lab        the surface: knows the facade only; the injector ffi as well, bench counts, the lab bench
//!   io  pipes                                          unmodified programs' pipes: know lanes alone; io pipes, and cli what these tell
//!   counts                                             counts of what must not be: system calls, allocations
//!   ---------------------------------------------
//!   chappe                                             the facade
//!   stream
//!   thread
//!   ras                                                restartable sequences
//!   sync                                               kinds of objects, what has names: the protocols
//!   tube                                               the protocols of tubes: what sends, receives and deaths do to their words
//!   wait                                               the wait queue, what can be waited for, membership of an arena
//!   structures rows                                    lock-free structures over memory; text as records: neither knows the other
//!   arena   synth   remote   term   lane               shared memory; expressions and machine code; many machines; terminals; pipes: none knows another
//!   plat                                               atomics, futex, clock, memory, files, processes
//!   crashsim   macros   feedback   fourier             what plat is when it is explored; `#[chappe::main]`; control loops, pure; a transform
//! ```
//!
//! What the explorer runs must reach the outside through `plat` alone, or what is explored is not what ships: in
//! `arena`, `lane`, `wait`, `tube`, `sync`, `ras`, `thread`, `stream` and the facade the usual ways around it are refused.

use super::Finding;
use super::house::{House, room, ships};
use super::source::has_word;

const LEVELS: [(&str, u32); 30] = [
    ("crashsim", 0),
    ("macros", 0),
    ("feedback", 0),
    ("fourier", 0),
    ("plat", 1),
    ("arena", 2),
    ("synth", 2),
    ("remote", 2),
    ("term", 2),
    ("lane", 2),
    ("rows", 3),
    ("structures", 3),
    ("wait", 4),
    ("tube", 5),
    ("sync", 6),
    ("ras", 7),
    ("thread", 8),
    ("stream", 9),
    ("chappe", 10),
    ("cli", SURFACE),
    ("injector", SURFACE),
    ("bench", SURFACE),
    ("counts", SURFACE),
    ("ffi", SURFACE),
    ("preload", SURFACE),
    ("py", SURFACE),
    ("pipes", SURFACE),
    ("io", SURFACE),
    ("lab", SURFACE),
    ("xtask", SURFACE),
];
const SURFACE: u32 = 11;
const FACADE: &str = "chappe";

/// The crates that may call the C library directly: the one made for it, and programs that are about processes, not protocols.
const C_LIBRARY: [&str; 9] = ["plat", "cli", "injector", "bench", "counts", "ffi", "preload", "pipes", "io"];

/// Where machine code may stand beside `plat`: it is what the room is for.
const MACHINE_CODE: [&str; 2] = ["ras", "thread"];

/// Where files may be opened, and servers asked, beside `plat`: its nodes read and write what their user names, and no protocol.
const FILES: [&str; 1] = ["stream"];
const OF_USERS: [&str; 2] = ["std::fs", "std::net"];

/// Ways around `plat`, and what `plat` has instead.
const WAYS_OUT: [(&str, &str); 12] = [
    ("std::sync::atomic", "chappe_plat::atomic"),
    ("core::sync::atomic", "chappe_plat::atomic"),
    ("libc", "chappe_plat"),
    ("rustix", "chappe_plat"),
    ("std::fs", "chappe_plat::dir"),
    ("std::net", "chappe_plat"),
    ("std::process", "chappe_plat::process"),
    ("std::time::SystemTime", "chappe_plat::clock"),
    ("thread::spawn", "chappe_plat::thread"),
    ("asm!", "chappe_plat"),
    ("global_asm!", "chappe_plat"),
    ("spin_loop", "chappe_plat::atomic::pause"),
];

pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = manifests(house);
    for (path, source) in house.rust() {
        let Some(own) = room(path) else { continue };
        if !ships(path) {
            continue;
        }
        let inside = level(own).is_some_and(|l| (2..SURFACE).contains(&l));
        for (at, line) in source.lines.iter().enumerate().filter(|(_, l)| !l.test) {
            let its_trade = |way: &str| {
                MACHINE_CODE.contains(&own) && way.ends_with("asm!") || FILES.contains(&own) && OF_USERS.contains(&way)
            };
            let ways = WAYS_OUT.iter().filter(|(way, _)| inside && has_word(&line.code, way) && !its_trade(way));
            for (way, instead) in ways {
                let text = format!("`{way}` goes around the seam that the explorer watches; use {instead}");
                findings.push(Finding::new(path, at + 1, "layers", text));
            }
            if own == "cli" && line.code.contains("sync::atomic") {
                let text = "the command shares no words with anybody; what needs an atomic belongs into a protocol";
                findings.push(Finding::new(path, at + 1, "layers", text));
            }
        }
    }
    findings
}

fn level(name: &str) -> Option<u32> {
    LEVELS.iter().find(|(n, _)| *n == name).map(|(_, l)| *l)
}

/// A dependency in a manifest.
pub struct Need {
    /// Its line, counted from 1.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// Whether only tests need it.
    pub dev: bool,
}

/// What a manifest depends on.
pub fn needs(manifest: &str) -> Vec<Need> {
    let mut needs = Vec::new();
    let (mut within, mut dev) = (false, false);
    for (at, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let (head, last) = section.rsplit_once('.').unwrap_or(("", section));
            within = last.ends_with("dependencies") && !section.starts_with("workspace");
            dev = last == "dev-dependencies" || head.ends_with("dev-dependencies");
            if head.ends_with("dependencies") && !section.starts_with("workspace") {
                needs.push(Need { line: at + 1, name: last.to_owned(), dev });
            }
        } else if within && !line.starts_with('#') && line.contains('=') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            needs.push(Need { line: at + 1, name: name.to_owned(), dev });
        }
    }
    needs
}

fn manifests(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in house.texts().filter(|(p, _)| p.ends_with("/Cargo.toml")) {
        let Some(own) = room(path) else { continue };
        let Some(mine) = level(own) else {
            findings.push(Finding::new(
                path,
                0,
                "layers",
                "this crate has no place yet: give it one in xtask/src/lint/layers.rs",
            ));
            continue;
        };
        if !text.contains("[lints]\nworkspace = true") {
            findings.push(Finding::new(
                path,
                0,
                "layers",
                "the workspace's lints do not bind here: add `[lints]`, `workspace = true`",
            ));
        }
        for need in needs(text) {
            let other = need.name.strip_prefix("chappe-").unwrap_or(&need.name);
            let ours = need.name == FACADE || need.name.starts_with("chappe-");
            let wrong = match level(other) {
                _ if need.name == "libc" => !need.dev && !C_LIBRARY.contains(&own),
                _ if !ours => false,
                // The room and its stand-in are one.
                Some(0) if own == "plat" => false,
                // Which kills what ships, by whichever face.
                Some(_) if own == "injector" && other == "ffi" => false,
                // Which measure beside what is counted.
                Some(_) if own == "bench" && other == "counts" => false,
                // Which puts them before real pipes.
                Some(_) if own == "pipes" && other == "lane" => false,
                // Which puts these before unmodified programs.
                Some(_) if own == "io" && matches!(other, "lane" | "pipes") => false,
                // Which begins their runs, and shows what they tell.
                Some(_) if own == "cli" && other == "pipes" => false,
                // Which shows what the benchmarks measure.
                Some(_) if own == "lab" && other == "bench" => false,
                Some(theirs) if mine == SURFACE => theirs != level(FACADE).unwrap_or(0),
                Some(theirs) => theirs >= mine,
                None => true,
            };
            if wrong {
                let text = format!(
                    "`{own}` may not know `{}`: arrows go down only, the surface knows the facade only",
                    need.name
                );
                findings.push(Finding::new(path, need.line, "layers", text));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::house::house;
    use super::*;

    const LINTS: &str = "\n[lints]\nworkspace = true\n";

    fn manifest(own: &str, needs: &str) -> usize {
        check(&house(&format!("crates/{own}/Cargo.toml"), &format!("[package]\n{needs}{LINTS}"))).len()
    }

    #[test]
    fn an_arrow_upwards_is_caught() {
        assert_eq!(manifest("arena", "[dependencies]\nchappe-sync.workspace = true"), 1);
        assert_eq!(manifest("plat", "[dependencies]\nchappe-arena.workspace = true"), 1);
        assert_eq!(manifest("sync", "[dependencies]\nchappe-ras = { path = \"../ras\" }"), 1);
        assert_eq!(manifest("ras", "[dependencies]\nchappe-sync = { path = \"../sync\" }"), 0);
        assert_eq!(manifest("sync", "[dependencies.chappe]\nworkspace = true"), 1);
        assert_eq!(manifest("sync", "[dependencies]\nchappe-arena.workspace = true\nchappe-plat.workspace = true"), 0);
    }

    #[test]
    fn the_surface_knows_the_facade_only() {
        assert_eq!(manifest("cli", "[dependencies]\nchappe-sync.workspace = true"), 1);
        assert_eq!(manifest("cli", "[dependencies]\nchappe.workspace = true"), 0);
        assert_eq!(manifest("cli", "[dependencies]\nchappe-ffi = { path = \"../ffi\" }"), 1);
        assert_eq!(manifest("injector", "[dependencies]\nchappe-ffi = { path = \"../ffi\" }"), 0);
    }

    #[test]
    fn the_c_library_is_for_few() {
        assert_eq!(manifest("sync", "[dependencies]\nlibc.workspace = true"), 1);
        assert_eq!(manifest("sync", "[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\""), 1);
        assert_eq!(manifest("sync", "[dev-dependencies]\nlibc.workspace = true"), 0);
        assert_eq!(manifest("plat", "[dependencies]\nlibc.workspace = true"), 0);
    }

    #[test]
    fn a_crate_without_a_place_or_without_lints_is_caught() {
        assert_eq!(manifest("extra", ""), 1);
        assert_eq!(check(&house("crates/arena/Cargo.toml", "[package]\n")).len(), 1);
    }

    #[test]
    fn a_way_around_the_room_is_caught() {
        let found = |path, text| check(&house(path, text)).len();
        for way in
            ["use std::sync::atomic::AtomicU32;", "unsafe { libc::getpid() };", "std::fs::read(\"x\")", "asm!(\"nop\")"]
        {
            assert_eq!(found("crates/sync/src/x.rs", way), 1, "{way}");
            assert_eq!(found("crates/plat/src/real/x.rs", way), 0, "{way}");
            assert_eq!(found("crates/sync/tests/x.rs", way), 0, "{way}");
        }
        assert_eq!(found("crates/ras/src/x.rs", "asm!(\"nop\")"), 0);
        assert_eq!(found("crates/ras/src/x.rs", "unsafe { libc::getpid() };"), 1);
        assert_eq!(found("crates/cli/src/x.rs", "unsafe { libc::getpid() };"), 0);
        assert_eq!(found("crates/cli/src/x.rs", "use std::sync::atomic::AtomicBool;"), 1);
        assert_eq!(found("crates/sync/src/x.rs", "// libc::getpid() would do"), 0);
    }
}
