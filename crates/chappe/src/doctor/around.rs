//! What lies in the directory besides arenas, and which processes still use arenas that have no name there any more.

use super::arena::does_not_get_on;
use super::finding::{Finding, Surroundings};
use chappe_arena::layout::{LASTING_AT, MAGIC, NAME_AT, REMOVED};
use chappe_plat::dir::Dir;
use chappe_plat::mappings::{Mapping, Mappings, read_memory};
use chappe_plat::process;
use chappe_sync::{LeaseFile, directory};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a process must have the directory's lock to be reported.
const A_WHILE: Duration = Duration::from_millis(100);

/// The directory of POSIX semaphores' names under `chappe run`.
const NAMED: &str = ".posix";

/// Looks at what is around the arenas: removes what no process needs, and reports processes that are cut off.
pub fn surroundings() -> Surroundings {
    let Some(dir) = directory().ok().and_then(|path| Dir::open(&path).ok()) else { return Surroundings::default() };
    let mapped = Mappings::look(dir.path());
    let mut findings = cut_off(&dir, &mapped);
    findings.extend(locked(&dir));
    findings.extend(chappe_sync::leftover_leases().iter().map(lease));
    findings.extend(strays(&dir));
    Surroundings { findings, unseen: mapped.unseen }
}

/// The process that has the directory's lock and does not release it.
fn locked(dir: &Dir) -> Option<Finding> {
    let first = dir.locked_by()?;
    std::thread::sleep(A_WHILE);
    let pid = dir.locked_by().filter(|pid| *pid == first)?;
    let who = match (pid, process::name(pid)) {
        (0, _) => "a process in another PID namespace".into(),
        (pid, name) => format!("pid {pid} `{}`", name.unwrap_or_default()),
    };
    let how = does_not_get_on(pid).map(|how| format!(" ({how})")).unwrap_or_default();
    let what = format!("{who}{how} has the lock of the directory: whoever makes or removes an arena waits for it");
    Some(Finding::new("directory-locked", what).advice("continue it (kill -CONT) or end it"))
}

/// What a process sees at the beginning of a file that it has mapped.
enum Seen {
    /// An arena in service, its name, and whether it stays so without its file.
    Serving(String, bool),
    /// One that was removed, and whose users know; and its name.
    Removed(String),
    /// One that is just being made.
    Unfinished,
}

/// None: the caller may not look.
fn see(mapping: &Mapping) -> Option<Seen> {
    let mut page = [0; LASTING_AT + 4];
    if !read_memory(mapping.pid, mapping.at, &mut page) {
        return None;
    }
    let magic = u64::from_le_bytes(page[..8].try_into().expect("eight bytes"));
    let state = u32::from_le_bytes(page[20..24].try_into().expect("four bytes"));
    let lasts = page[LASTING_AT..] == 1u32.to_ne_bytes();
    let name = page[NAME_AT..LASTING_AT].split(|b| *b == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    Some(match (magic, state) {
        (MAGIC, REMOVED) => Seen::Removed(name),
        (MAGIC, _) => Seen::Serving(name, lasts),
        _ => Seen::Unfinished,
    })
}

/// Arenas that processes use though no name of the directory stands for them.
fn cut_off(dir: &Dir, mapped: &Mappings) -> Vec<Finding> {
    let names = dir.names().unwrap_or_default();
    let named: Vec<u64> = names.iter().filter_map(|name| dir.inode_of(name).ok()?).collect();
    let mut files: BTreeMap<u64, Vec<&Mapping>> = BTreeMap::new();
    for mapping in mapped.all.iter().filter(|m| !named.contains(&m.inode)) {
        files.entry(mapping.inode).or_default().push(mapping);
    }
    files.values().filter_map(|all| without_name(dir, all)).collect()
}

fn without_name(dir: &Dir, all: &[&Mapping]) -> Option<Finding> {
    // Its maker's mapping has no name: the file had none then.
    let opened_as = all.iter().find_map(|m| m.name.clone()).unwrap_or_default();
    let mut users: Vec<(u32, &str)> = all.iter().map(|m| (m.pid, m.process.as_str())).collect();
    users.sort_unstable();
    users.dedup();
    let by: Vec<String> = users.iter().map(|(pid, process)| format!("pid {pid} `{process}`")).collect();
    let by = by.join(", ");
    let seen = all.iter().find_map(|m| see(m)).unwrap_or_else(|| Seen::Serving(opened_as.clone(), false));
    let called = |inside: String| if inside.is_empty() { opened_as.clone() } else { inside };
    Some(match seen {
        Seen::Unfinished => {
            // A maker that makes progress is done before this is read.
            let how = users.iter().find_map(|(pid, _)| does_not_get_on(*pid))?;
            let what = format!("an arena is half-made by {by} ({how}); it has no name yet");
            Finding::new("unnamed-arena", what).advice("if that is killed, nothing is left of it")
        }
        Seen::Removed(inside) => {
            let what = format!("arena `{}` was removed while {by} had it", called(inside));
            Finding::new("removed-arena", what).advice(
                "who waited there was told, and what is held there protects nothing; its memory is free when they end",
            )
        }
        Seen::Serving(inside, lasts) => {
            let name = called(inside);
            let replaced = !name.is_empty() && matches!(dir.inode_of(&name), Ok(Some(_)));
            let now = if replaced { "another one has its name now" } else { "nothing has its name now" };
            let what = format!(
                "arena `{name}` has lost its file (a user removed it, or systemd's RemoveIPC did), and is still in use by {by}; {now}"
            );
            Finding::new("unlinked-arena", what).advice(if lasts {
                "they go on with it among themselves (what `chappe run` and nix.h make lasts as an unlinked file does), and who comes \
                 from now on gets another; against RemoveIPC: `loginctl enable-linger`, or CHAPPE_DIR elsewhere"
            } else {
                "they are cut off from all processes that open that name from now on (waiters are told, as a rule within two seconds): end \
                 them, and start them again; against RemoveIPC: `loginctl enable-linger`, or CHAPPE_DIR elsewhere"
            })
        }
    })
}

/// A file by which jobs kept permits of an arena that is gone.
fn lease(file: &LeaseFile) -> Finding {
    let path = file.path.display();
    let what = format!("{path} is for leases of an arena `{}` that is gone", file.arena);
    let finding = Finding::new("lease-file", what);
    match (file.in_use, &file.error) {
        (true, _) => finding.advice("a job that began under one still runs; doctor removes it when that has ended"),
        (false, None) => finding.done("removed"),
        (false, Some(e)) => finding.advice(format!("it cannot be removed: {e}")),
    }
}

/// Files that are not chappe's.
fn strays(dir: &Dir) -> Vec<Finding> {
    let ours = |name: &String| {
        name == ".lock"
            || name == NAMED
            || [".lease-", ".term-", ".typed-", ".io-"].iter().any(|kind| name.starts_with(kind))
    };
    let names = dir.dotted_names().unwrap_or_default().into_iter().filter(|name| !ours(name));
    let found = names.map(|name| {
        let what = format!("{} is not chappe's", dir.path().join(name).display());
        Finding::new("stray-file", what).advice("remove it, if it is not yours either")
    });
    found.collect()
}
