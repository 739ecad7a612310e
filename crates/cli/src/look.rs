//! What things are called and how they stand, in words and as programs are told.

use crate::time;
use anyhow::Result;
use chappe::tube::named::Kind;
use chappe::{
    Arena, ArenaError, Discipline, Fact, FactSort, Holder, LifeState, LockJob, ObjectError, ObjectInfo, ObjectState,
    Pool, PoolError, Unseen, Waiter, Who,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// What a pool's permits are called.
pub struct Name {
    pool: String,
    several: bool,
}

impl Name {
    /// As the pool is now.
    pub fn of(pool: &Pool) -> Name {
        Name { pool: pool.name(), several: pool.permits() > 1 }
    }

    /// The permit's name: that of its pool if it is the only one.
    pub fn permit(&self, index: u32) -> String {
        if self.several || index > 0 { format!("{}:{index}", self.pool) } else { self.pool.clone() }
    }
}

/// Gives back what dead members held, so that what is shown is true.
pub fn recover(pool: &Pool) {
    if let Some(arena) = arena_of(pool) {
        arena.map().recover_all();
    }
    pool.reclaim();
}

/// The arena of a named pool, unless it is gone.
pub fn arena_of(pool: &Pool) -> Option<Arena> {
    Arena::open(split(&pool.name()).0).ok()
}

/// The arena that a name without a `/` means.
pub const DEFAULT: &str = "default";

/// `lab/gpu0` is `gpu0` in arena `lab`.
pub fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or((DEFAULT, name))
}

/// So many things that are no arenas are named one by one.
const FEW: usize = 3;

/// Whether this is why something in the directory is no arena, and not what is wrong with one.
pub fn is_foreign(e: &ArenaError) -> bool {
    matches!(
        e,
        ArenaError::Garbage { .. }
            | ArenaError::Symlink { .. }
            | ArenaError::Name { .. }
            | ArenaError::Owner { .. }
            | ArenaError::Io { .. }
    )
}

/// What is said in place of so many complaints, where there is no arena and `foreign` things are none.
pub fn no_place_of_arenas(arenas: usize, foreign: usize) -> Option<String> {
    let here = chappe::directory().ok()?;
    (arenas == 0 && foreign > FEW).then(|| {
        format!(
            "{} looks like no directory of arenas: none of the {foreign} things in it is one; set CHAPPE_DIR to a directory of their own",
            here.display()
        )
    })
}

/// An object of any kind, as it stands once dead members are recovered, and its arena.
///
/// # Errors
/// That it is not there, with the names of those that are.
pub fn find(name: &str) -> Result<(Arena, ObjectInfo), ObjectError> {
    match Pool::open(name) {
        Ok(pool) => recover(&pool),
        Err(PoolError::Arena(ArenaError::Name { name, what, why })) => {
            let what = if what == "pool" { "object" } else { what };
            return Err(ArenaError::Name { name, what, why }.into());
        }
        // It is of another kind, or not there: see below.
        Err(_) => {}
    }
    let (arena, object) = split(name);
    let arena = match Arena::open(arena) {
        Err(ArenaError::NotFound { .. }) => {
            let (name, arena) = (name.into(), arena.into());
            return Err(ObjectError::Unknown { kind: "object", name, arena, existing: Vec::new() });
        }
        other => other?,
    };
    arena.map().recover_all();
    Ok((arena, arena.object(object)?))
}

/// A time as programs are told.
pub fn ms(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// "1 permit", "2 permits".
pub fn permits_text(n: u32) -> String {
    format!("{n} permit{}", if n == 1 { "" } else { "s" })
}

/// "pid 4242 `make -j8` for 3m12s".
pub fn holder_text(h: &Holder) -> String {
    let what = match (h.orphan, &h.unseen, h.who.pid) {
        (true, Some(unseen), _) => format!("a job whose holder is gone, {}", unseen_text(unseen)),
        // A job server's, or one that has cleared its environment.
        (true, None, 0) => {
            "a job whose holder is gone, of processes that have the lease's open file and not its mark".into()
        }
        (true, None, _) => format!("a job whose holder is gone, {}", who_text(&h.who)),
        (false, ..) => who_text(&h.who),
    };
    // A permit that was taken without waiting is timed by observers.
    let bound = if h.exact { "" } else { "at least " };
    format!("{what} for {bound}{}", time::show(h.held))
}

/// "pid 4242 `make -j8`"; "pid 7 of PID namespace 4026532178 `make -j8`" for a number of another namespace.
pub fn who_text(who: &Who) -> String {
    let dead = if who.life == LifeState::Dead { " (dead)" } else { "" };
    let of = who.elsewhere().map(|namespace| format!(" of PID namespace {namespace}")).unwrap_or_default();
    format!("pid {}{of} `{}`{dead}", who.pid, who.label.replace(char::is_control, " "))
}

/// "begun by pid 7 `make -j8` of user 1000: nobody here can tell whether it runs: it runs in PID namespace 4026532178, which ...".
pub fn unseen_text(job: &Unseen) -> String {
    let begun = match (job.pid, job.uid) {
        (0, _) | (_, None) => String::new(),
        (pid, Some(uid)) => {
            format!("begun by pid {pid} `{}` of user {uid}: ", job.label.replace(char::is_control, " "))
        }
    };
    format!(
        "{begun}nobody here can tell whether it runs, since {}; it is held until that user, or root, asks where it can be seen (`chappe ls`)",
        job.why
    )
}

/// The jobs that alone keep a lock: none is inside that could begin one.
pub fn kept_for(state: &ObjectState) -> Option<&[LockJob]> {
    match state {
        ObjectState::RwLock { writer: None, readers, jobs, .. } if readers.is_empty() && !jobs.is_empty() => Some(jobs),
        _ => None,
    }
}

/// The jobs that keep a lock, those of holders inside included; none if that cannot be told.
pub fn jobs(name: &str) -> Vec<LockJob> {
    chappe::lock_jobs(name).unwrap_or_default()
}

/// "kept for a job, pid 4242 `make`, to read".
pub fn job_text(job: &LockJob) -> String {
    let what = match (&job.who, &job.unseen) {
        (Some(who), _) => who_text(who),
        (None, Some(unseen)) => unseen_text(unseen),
        (None, None) => "that cannot be seen".into(),
    };
    format!("kept for a job, {what}, {}", if job.writes { "alone" } else { "shared" })
}

/// What may have come from anywhere, as it may go to a terminal: one line of text, and nothing else.
pub fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// An error and what caused it, each said once: many of the library's errors name their cause themselves.
pub fn chain(e: &anyhow::Error) -> String {
    let mut text = String::new();
    for said in e.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = said;
        } else if !text.ends_with(&said) && !text.contains(&format!(": {said}")) {
            text = format!("{text}: {said}");
        }
    }
    text
}

/// Adds `by_priority` to what was made, if it is so.
pub fn say_by_priority(made: &mut Value, discipline: Discipline) {
    if let Some(by) = ByPriority::of(discipline) {
        made["by_priority"] = json!(by);
    }
}

/// "spsc".
pub fn ends_text(kind: Kind) -> String {
    format!("{kind:?}").to_lowercase()
}

/// ", by priority, aging 1s"; nothing where waiters are served in the order of arrival.
pub fn by_priority_text(discipline: Discipline) -> String {
    match discipline {
        Discipline::Priority { aging: Some(aging) } => format!(", by priority, aging {}", time::show(aging)),
        Discipline::Priority { aging: None } => ", by priority".into(),
        _ => String::new(),
    }
}

/// "3 permits, 2 free, 1 held"; "value 3, barging"; "held by pid 4242 `make`"; "locked by pid 4242 `make`, 16 bytes".
pub fn state_text(state: &ObjectState) -> String {
    match state {
        ObjectState::Pool(p) => {
            let by = by_priority_text(p.discipline);
            format!("{}, {} free, {} held{by}", permits_text(p.permits), p.free, p.held)
        }
        ObjectState::Semaphore { value, barging, discipline } => {
            format!("value {value}{}{}", if *barging { ", barging" } else { "" }, by_priority_text(*discipline))
        }
        ObjectState::Owned { value, holder, demoted } => {
            let held = holder.as_ref().map(who_text);
            match (demoted, held) {
                (true, _) => format!("value {value}, demoted"),
                (false, Some(who)) => format!("held by {who}"),
                (false, None) => format!("value {value}"),
            }
        }
        ObjectState::Mutex { condemned: true, bytes, .. } => format!("condemned, {bytes} bytes"),
        ObjectState::Mutex { holder, torn, bytes, .. } => {
            let lock = holder.as_ref().map_or_else(|| "free".into(), |who| format!("locked by {}", who_text(who)));
            format!("{lock}{}, {bytes} bytes", if *torn { ", a holder died" } else { "" })
        }
        ObjectState::RwLock { condemned: true, bytes, .. } => format!("condemned, {bytes} bytes"),
        ObjectState::RwLock { writer, readers, jobs, torn, bytes, .. } => {
            let lock = match (writer, readers.as_slice()) {
                (Some(who), _) => format!("written by {}", who_text(who)),
                (None, []) => match jobs.as_slice() {
                    [] => "free".into(),
                    [job] => job_text(job),
                    all => format!("kept for {} jobs", all.len()),
                },
                (None, [who]) => format!("read by {}", who_text(who)),
                (None, all) => format!("read by {}", all.len()),
            };
            let data = if *bytes > 0 { format!(", {bytes} bytes") } else { String::new() };
            format!("{lock}{}{data}", if *torn { ", a writer died" } else { "" })
        }
        ObjectState::Tube(t) => {
            let some = |count: u64, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
            let (again, dropped) = (some(t.redelivered, "redelivered"), some(t.dropped, "dropped"));
            let sealed = if t.sealed { ", sealed" } else { "" };
            let (senders, receivers) = (t.senders.len(), t.receivers.len());
            let (ends, there, slots, size) = (ends_text(t.kind), t.messages, t.slots, t.size);
            format!(
                "{ends}, {there} of {slots} messages of {size} bytes, {senders} sending, {receivers} receiving\
                 {sealed}{again}{dropped}"
            )
        }
        ObjectState::Shared(s) => match (s.kind, s.capacity) {
            ("counter", _) => format!("{}", s.value),
            ("words", _) => format!("{} words", s.value),
            (_, 0) => format!("{} bytes of data", s.size),
            (_, capacity) => format!("{} of {capacity} elements of {} bytes", s.value, s.size),
        },
        ObjectState::Map(m) => {
            format!("{} of {} entries, keys of {} and values of {} bytes", m.used, m.entries, m.key, m.value)
        }
        ObjectState::Broadcast(t) => {
            let (publish, subscribe) = (t.publishers.len(), t.subscribers.len());
            let lost: u64 = t.subscribers.iter().map(|s| s.lost).sum();
            let lost = if lost > 0 { format!(", {lost} lost") } else { String::new() };
            let (slots, size) = (t.slots, t.size);
            format!("{slots} slots of {size} bytes, {publish} publishing, {subscribe} subscribing{lost}")
        }
        ObjectState::Facts(facts) => facts_text(facts),
        ObjectState::Damaged { what } => format!("damaged: {what}"),
        _ => String::new(),
    }
}

/// "4 parties, 2 arrived, broken": what is not 0.
fn facts_text(facts: &[Fact]) -> String {
    let all = facts.iter().filter(|fact| fact.value > 0).map(|fact| match fact.sort {
        FactSort::Flag => fact.name.to_owned(),
        FactSort::Number | FactSort::Total => format!("{} {}", fact.value, fact.name),
    });
    all.collect::<Vec<_>>().join(", ")
}

/// Facts, as programs are told.
pub fn facts_view(facts: &[Fact]) -> serde_json::Map<String, Value> {
    let value = |fact: &Fact| if fact.sort == FactSort::Flag { json!(fact.value > 0) } else { json!(fact.value) };
    facts.iter().map(|fact| (fact.name.replace(' ', "_"), value(fact))).collect()
}

/// An object, as programs are told.
#[derive(Serialize)]
pub struct Row {
    name: String,
    arena: String,
    kind: &'static str,
    #[serde(flatten)]
    state: StateView,
    waiting: u32,
}

#[derive(Serialize)]
#[serde(untagged)]
enum StateView {
    Pool {
        permits: u32,
        free: u32,
        held: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        by_priority: Option<ByPriority>,
    },
    Semaphore {
        value: u32,
        barging: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        by_priority: Option<ByPriority>,
    },
    Owned {
        value: u32,
        holder: Option<WhoView>,
        demoted: bool,
    },
    Mutex {
        holder: Option<WhoView>,
        torn: bool,
        condemned: bool,
        bytes: u32,
    },
    RwLock {
        writer: Option<WhoView>,
        readers: Vec<WhoView>,
        kept_for: Vec<JobView>,
        torn: bool,
        condemned: bool,
        bytes: u32,
    },
    Tube(TubeView),
    Map {
        used: u32,
        entries: u32,
        key_size: u32,
        value_size: u32,
        bytes: u64,
    },
    Shared {
        value: i64,
        capacity: u32,
        size: u32,
        bytes: u64,
    },
    Broadcast {
        slots: u32,
        size: u32,
        sent: u64,
        publishers: usize,
        subscribers: usize,
        capacity: u32,
        lost: u64,
    },
    Facts(serde_json::Map<String, Value>),
    Damaged {
        damaged: String,
    },
    Plain {},
}

/// That waiters are served by priority.
#[derive(Serialize)]
pub struct ByPriority {
    /// A waiter that has waited for so long is overtaken by no later one; null: the lowest may wait for ever.
    aging_ms: Option<u64>,
}

impl ByPriority {
    /// If they are.
    pub fn of(discipline: Discipline) -> Option<ByPriority> {
        match discipline {
            Discipline::Priority { aging } => Some(ByPriority { aging_ms: aging.map(ms) }),
            _ => None,
        }
    }
}

#[derive(Serialize)]
struct TubeView {
    ends: String,
    messages: usize,
    slots: u32,
    size: u32,
    sent: u64,
    received: u64,
    senders: usize,
    receivers: usize,
    redelivered: u64,
    dropped: u64,
    drops: bool,
    sealed: bool,
}

/// A member, in JSON.
#[derive(Serialize)]
pub struct WhoView {
    pid: u32,
    tid: u32,
    /// That of the numbers, if it is not the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid_namespace: Option<u64>,
    label: String,
}

impl From<Who> for WhoView {
    fn from(who: Who) -> WhoView {
        WhoView { pid: who.pid, tid: who.tid, pid_namespace: who.elsewhere(), label: who.label }
    }
}

/// A waiter, in JSON.
#[derive(Serialize)]
pub struct WaiterView {
    place: usize,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid_namespace: Option<u64>,
    label: String,
    waiting_ms: u64,
    #[serde(skip_serializing_if = "is_none")]
    priority: u8,
}

fn is_none(priority: &u8) -> bool {
    *priority == 0
}

impl WaiterView {
    /// Of all of a line.
    pub fn all(line: Vec<Waiter>) -> Vec<WaiterView> {
        (1..).zip(line).map(|(place, w)| WaiterView::of(place, w)).collect()
    }

    fn of(place: usize, w: Waiter) -> WaiterView {
        let waiting_ms = ms(w.waiting);
        let pid_namespace = w.who.elsewhere();
        WaiterView {
            place,
            pid: w.who.pid,
            tid: w.who.tid,
            pid_namespace,
            label: w.who.label,
            waiting_ms,
            priority: w.priority,
        }
    }
}

/// A job that cannot be seen from here, as programs are told.
#[derive(Serialize)]
pub struct UnseenView {
    pid: u32,
    pid_namespace: u64,
    uid: Option<u32>,
    label: String,
    why: String,
}

impl From<Unseen> for UnseenView {
    fn from(job: Unseen) -> UnseenView {
        let Unseen { pid, namespace, uid, label, why, .. } = job;
        UnseenView { pid, pid_namespace: namespace, uid, label, why }
    }
}

/// A job that keeps a lock, in JSON.
#[derive(Serialize)]
pub struct JobView {
    shared: bool,
    #[serde(flatten)]
    who: Option<WhoView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unseen: Option<UnseenView>,
}

impl From<LockJob> for JobView {
    fn from(job: LockJob) -> JobView {
        JobView { shared: !job.writes, who: job.who.map(WhoView::from), unseen: job.unseen.map(UnseenView::from) }
    }
}

/// What an object is called by users.
pub fn called(arena: Arena, info: &ObjectInfo) -> String {
    if arena.name() == DEFAULT { info.name.clone() } else { format!("{}/{}", arena.name(), info.name) }
}

impl Row {
    /// An object of an arena.
    pub fn of(arena: Arena, info: &ObjectInfo) -> Row {
        let state = match &info.state {
            ObjectState::Pool(p) => {
                let by_priority = ByPriority::of(p.discipline);
                StateView::Pool { permits: p.permits, free: p.free, held: p.held, by_priority }
            }
            ObjectState::Semaphore { value, barging, discipline } => {
                let by_priority = ByPriority::of(*discipline);
                StateView::Semaphore { value: *value, barging: *barging, by_priority }
            }
            ObjectState::Owned { value, holder, demoted } => {
                StateView::Owned { value: *value, holder: holder.clone().map(WhoView::from), demoted: *demoted }
            }
            ObjectState::Mutex { holder, torn, condemned, bytes } => StateView::Mutex {
                holder: holder.clone().map(WhoView::from),
                torn: *torn,
                condemned: *condemned,
                bytes: *bytes,
            },
            ObjectState::RwLock { writer, readers, jobs, torn, condemned, bytes, .. } => StateView::RwLock {
                writer: writer.clone().map(WhoView::from),
                readers: readers.iter().cloned().map(WhoView::from).collect(),
                kept_for: jobs.iter().cloned().map(JobView::from).collect(),
                torn: *torn,
                condemned: *condemned,
                bytes: *bytes,
            },
            ObjectState::Tube(t) => StateView::Tube(TubeView {
                ends: ends_text(t.kind),
                messages: t.messages,
                slots: t.slots,
                size: t.size,
                sent: t.sent,
                received: t.received,
                senders: t.senders.len(),
                receivers: t.receivers.len(),
                redelivered: t.redelivered,
                dropped: t.dropped,
                drops: t.drops,
                sealed: t.sealed,
            }),
            ObjectState::Shared(s) => {
                StateView::Shared { value: s.value, capacity: s.capacity, size: s.size, bytes: s.bytes }
            }
            ObjectState::Map(m) => StateView::Map {
                used: m.used,
                entries: m.entries,
                key_size: m.key,
                value_size: m.value,
                bytes: m.bytes,
            },
            ObjectState::Broadcast(t) => StateView::Broadcast {
                slots: t.slots,
                size: t.size,
                sent: t.sent,
                publishers: t.publishers.len(),
                subscribers: t.subscribers.len(),
                capacity: t.capacity,
                lost: t.subscribers.iter().map(|s| s.lost).sum(),
            },
            ObjectState::Facts(facts) => StateView::Facts(facts_view(facts)),
            ObjectState::Damaged { what } => StateView::Damaged { damaged: what.clone() },
            _ => StateView::Plain {},
        };
        Row { name: called(arena, info), arena: arena.name(), kind: info.kind, state, waiting: info.waiting }
    }
}
