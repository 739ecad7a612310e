//! Looking for what is wrong, and putting right what can be.

use chappe_arena::ArenaError;
use chappe_plat::{futex, process};
use chappe_sync::{Arena, Capacity, ObjectState, Pool, directory};

/// Something noteworthy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was found.
    pub what: String,
    /// What was done about it, if anything was.
    pub done: Option<String>,
}

/// How one arena is.
#[derive(Debug)]
#[non_exhaustive]
pub struct ArenaHealth {
    /// Its name.
    pub name: String,
    /// Why it cannot be used, if it cannot.
    pub error: Option<ArenaError>,
    /// What was found in it; nothing is best.
    pub findings: Vec<Finding>,
    /// How full it is.
    pub capacity: Option<Capacity>,
}

/// How all is.
#[derive(Debug)]
#[non_exhaustive]
pub struct Doctor {
    /// Where the arenas lie.
    pub directory: String,
    /// Each arena of the directory.
    pub arenas: Vec<ArenaHealth>,
    /// What this kernel lacks, and what is done instead.
    pub kernel: Vec<Finding>,
}

/// What this process's reaper has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Dead members found.
    pub sweeps: u64,
    /// How many times only the one-second backstop found something. Should be 0.
    pub backstops: u64,
}

/// Counts of this process's recoveries.
pub fn recoveries() -> Recovered {
    let (sweeps, backstops) = chappe_sync::reaped();
    Recovered { sweeps, backstops }
}

/// Looks at every arena of the directory, recovers what the dead held, and says what this kernel lacks.
///
/// # Errors
/// What is wrong with the directory.
pub fn doctor() -> Result<Doctor, ArenaError> {
    let arenas = Arena::list()?.into_iter().map(examine).collect();
    let mut kernel = Vec::new();
    if !futex::wait_any_supported() {
        kernel.push(Finding {
            what: "no futex_waitv (Linux 5.16, or CHAPPE_NO_WAITV is set)".into(),
            done: Some(
                "deaths of processes are watched by pidfd, of single threads by looking 20 times a second".into(),
            ),
        });
    }
    if let Err(e) = process::watch_exit(process::pid()) {
        kernel.push(Finding {
            what: format!("no pidfd ({e})"),
            done: Some("a process's end is seen by its life words and its entry in /proc".into()),
        });
    }
    if process::namespace() == 0 {
        kernel.push(Finding { what: "/proc is not mounted".into(), done: None });
    }
    Ok(Doctor { directory: directory()?.display().to_string(), arenas, kernel })
}

fn examine(name: String) -> ArenaHealth {
    let arena = match Arena::open(&name) {
        Ok(a) => a,
        Err(e) => return ArenaHealth { name, error: Some(e), findings: Vec::new(), capacity: None },
    };
    let mut findings = Vec::new();
    let dead = arena.map().recover_dead();
    if dead > 0 {
        findings.push(Finding {
            what: format!("{dead} dead member(s) not yet recovered"),
            done: Some("what they held was given back".into()),
        });
    }
    for info in Pool::list(arena) {
        let Ok(pool) = Pool::in_arena(arena, &info.name) else { continue };
        for h in pool.holders().iter().filter(|h| h.orphan) {
            findings.push(Finding {
                what: format!(
                    "permit {} of pool `{}` is kept by a job whose holder is gone: pid {} `{}`",
                    h.index, info.name, h.who.pid, h.who.label
                ),
                done: None,
            });
        }
        if pool.settle() > 0 {
            findings.push(Finding {
                what: format!("pool `{}` had permits kept by jobs that have ended", info.name),
                done: Some("they were given back".into()),
            });
        }
    }
    for object in arena.objects() {
        let what = match object.state {
            ObjectState::Mutex { condemned: true, .. } => "is condemned: nobody gets it any more; remove it",
            ObjectState::Mutex { torn: true, .. } => {
                "was left by a holder that died, and nobody has made its data whole since"
            }
            _ => continue,
        };
        findings.push(Finding { what: format!("mutex `{}` {what}", object.name), done: None });
    }
    let c = arena.capacity();
    for (what, used, all) in [
        ("member slots", c.members_used.into(), c.members.into()),
        ("object slots", c.objects_used.into(), c.objects.into()),
        ("cells", c.cells_used.into(), c.cells.into()),
        ("bytes of data", c.data_used, c.data),
    ] {
        if used * 10 >= all * 9 {
            findings.push(Finding { what: format!("{used} of {all} {what} are in use"), done: None });
        }
    }
    ArenaHealth { name, error: None, findings, capacity: Some(c) }
}
