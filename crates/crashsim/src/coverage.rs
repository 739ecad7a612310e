//! The places of the source that a search has reached, and those at which a process was killed.
//!
//! A *site* is one call of the facade in the source: file, line and column. A kill at a site comes right after the step made there, when
//! the step that follows has not been made. A search says nothing about sites that it never reached: so the sites are counted, and
//! `CRASHSIM_COVERAGE` names a directory into which each search writes its own.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hash::BuildHasherDefault;
use std::panic::Location;
use std::path::Path;

use crate::trace::Mixer;

/// A place in the source: file, line, column.
pub type Site = (&'static str, u32, u32);

/// What happened at a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// Processes killed right after a step made here.
    pub kills: u64,
    /// Those among them that were recovering from another's death.
    pub doubles: u64,
}

/// The sites of a search.
pub type Coverage = BTreeMap<Site, Hits>;

/// Threads of a world, and places of the small cache before the map.
const THREADS: usize = 64;
const CACHE: usize = 1024;

thread_local! {
    static LAST: [Cell<Option<&'static Location<'static>>>; THREADS] = const { [const { Cell::new(None) }; THREADS] };
    static KNOWN: [Cell<usize>; CACHE] = const { [const { Cell::new(0) }; CACHE] };
    /// By the address of the location, of which one place in the source may have several.
    static HITS: RefCell<HashMap<usize, (&'static Location<'static>, Hits), BuildHasherDefault<Mixer>>> =
        RefCell::new(HashMap::default());
}

fn address(at: &'static Location<'static>) -> usize {
    std::ptr::from_ref(at) as usize
}

/// A schedule begins: no thread has made a step.
pub(crate) fn begin() {
    LAST.with(|all| all.iter().for_each(|l| l.set(None)));
}

/// The thread makes a step here.
#[inline]
pub(crate) fn step(thread: usize, at: &'static Location<'static>) {
    LAST.with(|all| all[thread % THREADS].set(Some(at)));
    let known = KNOWN.with(|k| k[address(at) / 8 % CACHE].replace(address(at)));
    if known != address(at) {
        HITS.with_borrow_mut(|h| {
            h.entry(address(at)).or_insert((at, Hits::default()));
        });
    }
}

/// The thread is killed where it is.
pub(crate) fn killed(thread: usize, recovers: bool) {
    let Some(at) = LAST.with(|all| all[thread % THREADS].get()) else { return };
    HITS.with_borrow_mut(|h| {
        let hits = &mut h.entry(address(at)).or_insert((at, Hits::default())).1;
        hits.kills += 1;
        hits.doubles += u64::from(recovers);
    });
}

/// Ends the count of this thread's search.
pub(crate) fn take() -> Coverage {
    KNOWN.with(|k| k.iter().for_each(|k| k.set(0)));
    let mut all = Coverage::new();
    for (at, hits) in HITS.take().into_values() {
        add(&mut all, (at.file(), at.line(), at.column()), hits);
    }
    all
}

/// Adds up.
pub(crate) fn merge(to: &mut Coverage, from: Coverage) {
    for (site, hits) in from {
        add(to, site, hits);
    }
}

fn add(to: &mut Coverage, site: Site, hits: Hits) {
    let sum = to.entry(site).or_default();
    sum.kills += hits.kills;
    sum.doubles += hits.doubles;
}

/// Writes a search's sites into a directory: one line each, `file:line:column kills doubles`.
///
/// # Errors
/// What the system says when it cannot be written.
pub(crate) fn write(directory: &Path, search: &str, all: &Coverage) -> std::io::Result<()> {
    let mut text = String::new();
    for ((file, line, column), hits) in all {
        let _ = writeln!(text, "{file}:{line}:{column} {} {}", hits.kills, hits.doubles);
    }
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join(format!("{search}-{}.sites", std::process::id())), text)
}
