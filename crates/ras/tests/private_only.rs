//! Sequences and biases are for the threads of one process only.
//!
//! The fence aborts the sequences of the process that calls it, and of no other: so what is biased in memory that processes share
//! loses updates (175 and 279 in 4 s, measured). That the kernel is so is tried in `gate/trial.rs`; here, that this crate has no
//! way there: it makes no arena and attaches to none, maps no memory that others see, and what it makes cannot be put into a
//! named object, whose data must be plain.

#![cfg(not(feature = "sim"))]

use chappe_ras::lock::CpuLock;
use chappe_ras::mechanism::Flag;
use chappe_ras::{Counter, FreeList, PairCounter, PerCpu};
use std::path::{Path, PathBuf};

/// Words that only a memory that processes share would need.
const WAYS: [&str; 9] =
    ["Arena", "ArenaOptions", "chappe_arena", "Map", "Pod", "open_or_create", "MAP_SHARED", "Shared", "shm_open"];
/// As above, as methods of objects.
const CALLS: [&str; 4] = ["::open(", "::create(", "::create_in(", "::open_in("];

/// The lines of a source that go there, without comments and tests.
fn ways(source: &str) -> Vec<String> {
    let ships = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = ships.lines().map(|l| l.split("//").next().unwrap_or_default());
    let is_word = |line: &str, word: &str| {
        let inside = |c: char| c.is_alphanumeric() || c == '_';
        line.match_indices(word)
            .any(|(at, _)| !line[..at].ends_with(inside) && !line[at + word.len()..].starts_with(inside))
    };
    let is_way = |l: &&str| WAYS.iter().any(|w| is_word(l, w)) || CALLS.iter().any(|c| l.contains(c));
    code.filter(is_way).map(|l| l.trim().to_owned()).collect()
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push(path);
        }
    }
    all
}

#[test]
fn there_is_no_way_to_a_named_arena() {
    let all = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(all.len() > 3);
    for path in all {
        let found = ways(&std::fs::read_to_string(&path).unwrap());
        assert_eq!(found, [""; 0], "{}", path.display());
    }
}

#[test]
fn a_way_would_be_found() {
    for way in [
        "use chappe_sync::{Arena, Pool};",
        "    let pool = Pool::open(\"p\")?;",
        "futex::wake(&word, 1, Scope::Shared);",
        "unsafe impl Pod for Counter {}",
        "let map = chappe_arena::Map::of(3);",
    ] {
        assert_eq!(ways(&format!("fn f() {{\n{way}\n}}")), [way.trim()]);
        assert_eq!(ways(&format!("// {way}\n#[cfg(test)]\nmod tests {{\n{way}\n}}")), [""; 0]);
    }
}

/// What a named object holds is plain data, and so may be copied: asking for `Copy` of what may not be finds one impossible meaning;
/// of what may, two, and this does not compile.
#[test]
fn nothing_of_it_can_be_put_into_a_named_object() {
    trait IsEither<Which> {
        const MEANS: bool = true;
    }
    impl<T: ?Sized> IsEither<()> for T {}
    impl<T: Copy> IsEither<bool> for T {}
    const { assert!(<Counter as IsEither<_>>::MEANS) };
    const { assert!(<PairCounter as IsEither<_>>::MEANS) };
    const { assert!(<FreeList<u64> as IsEither<_>>::MEANS) };
    const { assert!(<PerCpu<u64> as IsEither<_>>::MEANS) };
    const { assert!(<CpuLock<u64> as IsEither<_>>::MEANS) };
    const { assert!(<Flag as IsEither<_>>::MEANS) };
}
