//! The health of one arena: its dead members, what has no owner, what is held by members that make no progress, what is damaged.

use super::finding::{ArenaHealth, Finding};
use chappe_arena::{ArenaError, LifeState, Who};
use chappe_plat::dir::Dir;
use chappe_plat::mappings::Mappings;
use chappe_plat::process;
use chappe_sync::{Arena, Belonging, Capacity, Had, ObjectState, Pool, Righted, Unseen, directory, has_leases};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long to wait for a thread that is just making or removing objects.
const A_WHILE: Duration = Duration::from_millis(200);

/// Looks into an arena, recovers its dead members, and frees what has no owner.
pub fn examine(name: &str) -> ArenaHealth {
    let arena = match Arena::open(name) {
        Ok(a) => a,
        Err(e) => {
            let findings = another_version(name, &e).into_iter().collect();
            return ArenaHealth { name: name.into(), error: Some(e), findings, capacity: None };
        }
    };
    // First of all: any thread that meets a semaphore with a damaged word makes it a dead one.
    let mut findings = damage(arena);
    findings.extend(dead(arena));
    let righted = apart(|| arena.put_right(A_WHILE));
    let not = |why: String| Finding::new("not-a-member", format!("nothing could be put right: {why}"));
    match righted {
        Ok(Ok(righted)) => findings.extend(put_right(arena, righted)),
        Ok(Err(e)) => findings.push(not(e.to_string())),
        Err(e) => findings.push(not(format!("cannot start a thread: {e}"))),
    }
    findings.extend(orphans(arena));
    findings.extend(kept_locks(arena));
    findings.extend(mutexes(arena));
    findings.extend(kept(arena));
    findings.extend(stuck(arena));
    findings.extend(removed(arena));
    let capacity = arena.capacity();
    findings.extend(full(name, &capacity));
    ArenaHealth { name: name.into(), error: None, findings, capacity: Some(capacity) }
}

/// Of an arena that another version of chappe made, whose words cannot be read here: whether it is still in use.
fn another_version(name: &str, error: &ArenaError) -> Option<Finding> {
    if !matches!(error, ArenaError::Version { .. } | ArenaError::Abi { .. }) {
        return None;
    }
    let home = directory().ok()?;
    let inode = Dir::open(&home).ok()?.inode_of(name).ok()??;
    let mapped = Mappings::look(&home);
    let users = mapped.all.iter().filter(|one| one.inode == inode);
    let users: BTreeMap<u32, &str> = users.map(|one| (one.pid, one.process.as_str())).collect();
    let mut by: Vec<String> = users.iter().map(|(pid, process)| format!("pid {pid} `{process}`")).collect();
    if has_leases(name) {
        by.push("a job whose chappe was killed".into());
    }
    Some(if by.is_empty() {
        let unseen = match mapped.unseen {
            0 => String::new(),
            n => format!(" ({n} processes, other users' as a rule, could not be looked at)"),
        };
        let what = format!(
            "arena `{name}` is of another version of chappe, and no process that is seen from here uses it any more{unseen}"
        );
        Finding::new("other-version", what)
            .advice(format!("`chappe arena rm --force {name}`: then programs of this version make it anew"))
    } else {
        let what = format!("arena `{name}` is of another version of chappe, and still in use by {}", by.join(", "));
        Finding::new("other-version", what).advice(
            "they go on among themselves, and what they hold protects nothing from programs of this version: wait until they have ended, \
             then remove it; or give programs of this version another directory by CHAPPE_DIR meanwhile",
        )
    })
}

/// By a thread of its own, which is a member of the arena while it lives, and not longer.
fn apart<T: Send>(act: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|s| {
        let thread = std::thread::Builder::new().spawn_scoped(s, act)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn who(who: &Who) -> String {
    let of = who.elsewhere().map(|namespace| format!(" of PID namespace {namespace}")).unwrap_or_default();
    format!("pid {}{of} `{}`", who.pid, who.label.replace(char::is_control, " "))
}

fn list(all: &[String]) -> String {
    all.join(", ")
}

/// The members that have died, and what becomes of what they had.
fn dead(arena: Arena) -> Vec<Finding> {
    let is_dead = |w: &Who| w.life == LifeState::Dead;
    let dead: Vec<(Who, Vec<Belonging>)> =
        arena.members().into_iter().filter(is_dead).map(|w| (w.clone(), arena.belongings(&w))).collect();
    arena.map().recover_all();
    let found = |(w, had): &(Who, Vec<Belonging>)| {
        let kind = if w.process { "process" } else { "thread" };
        let names: Vec<String> = had.iter().map(Belonging::to_string).collect();
        let with = if names.is_empty() { "nothing".into() } else { list(&names) };
        let what = format!(
            "{} (member {}, a {kind}) has died, and nobody had made up for it: it had {with}",
            who(w),
            w.member
        );
        let finding = Finding::new("dead-member", what).done(became(had));
        match arena.map().occupant(w.member) {
            // Another thread has claimed its slot, and has not cleared it.
            Some(_) if arena.map().dead(w.member).is_some() => finding
                .advice("the thread that clears its slot makes no progress, and the slot is out of use until then"),
            _ => finding,
        }
    };
    dead.iter().map(found).collect()
}

fn became(had: &[Belonging]) -> String {
    let mut all = vec!["its slot is free".to_owned()];
    let mut add = |text: &str| {
        if !all.iter().any(|t| t == text) {
            all.push(text.to_owned());
        }
    };
    for belonging in had {
        match belonging.what {
            Had::Permits(_) => add("its permits are free"),
            Had::Leased(_) => add("its leased permits come back when the job ends"),
            Had::Owned { demoted: false } => add("its owned semaphores are free"),
            Had::Owned { demoted: true } => add("what it took of semaphores that were demoted is gone with it"),
            Had::Lock => add("who locks its mutexes next is told that it died"),
            Had::Writes => add("who locks what it wrote next is told that it died"),
            Had::Reads => add("its shares of readers-writer locks are free"),
            Had::Writing(_) => add("what it had not sent is gone"),
            Had::Looking(_) => add("what it had not released comes once more, or is dropped and counted"),
            Had::Sends | Had::Receives => add("it has left its tubes"),
            _ => {}
        }
    }
    list(&all)
}

fn put_right(arena: Arena, righted: Righted) -> Vec<Finding> {
    let mut found = Vec::new();
    for w in righted.lost {
        let what = format!(
            "{} (member {}) is not there any more, and the kernel had not marked it: its list of locks was written over",
            who(&w),
            w.member
        );
        found.push(Finding::new("lost-member", what).done("it was made up for as for one that died"));
    }
    for belonging in righted.freed {
        found.push(Finding::new("nobodys", format!("{belonging} was in the name of nobody")).done("it is free"));
    }
    let (cells, blocks) = (righted.reclaimed.cells, righted.reclaimed.blocks);
    for (kind, count, what) in
        [("leaked-cells", cells, "cell(s) of permits"), ("leaked-data", blocks, "block(s) of 64 bytes of data")]
    {
        if count > 0 {
            let what =
                format!("{count} {what} belonged to no object: a process was killed while it made or resized one");
            found.push(Finding::new(kind, what).done("free again"));
        }
    }
    if righted.ends > 0 {
        let what = format!("{} end(s) of tubes without a tube: a process was killed while it made one", righted.ends);
        found.push(Finding::new("leaked-object", what).done("removed"));
    }
    if righted.locks > 0 {
        let what = format!(
            "{} part(s) of readers-writer locks without the rest: a process was killed while it made or removed one",
            righted.locks
        );
        found.push(Finding::new("leaked-object", what).done("removed"));
    }
    if righted.parts > 0 {
        let what = format!(
            "{} part(s) of owned semaphores without the rest: a process was killed while it made or removed one",
            righted.parts
        );
        found.push(Finding::new("leaked-object", what).done("removed"));
    }
    if !righted.named.is_empty() {
        let what = format!("{} could not be found by name: the table of names was written over", list(&righted.named));
        found.push(Finding::new("lost-name", what).done("entered again"));
    }
    if righted.busy {
        found.push(changer(arena));
    }
    found
}

/// The holder that keeps others from making and removing objects.
fn changer(arena: Arena) -> Finding {
    let (who, pid) = match arena.changer() {
        Some(Ok(w)) => (who(&w), Some(w.pid)),
        Some(Err(tid)) => (format!("thread {tid}"), Some(tid)),
        None => ("nobody who can be seen".into(), None),
    };
    let how = pid.and_then(does_not_get_on).map(|how| format!(" ({how})")).unwrap_or_default();
    let ms = A_WHILE.as_millis();
    let what =
        format!("{who}{how} has had the right to make and remove objects for {ms} ms; whoever wants to waits for it");
    Finding::new("changing", what)
        .advice("continue it (kill -CONT) or end it; until then leaked slots, cells and data are not looked for")
}

/// What keeps a process from going on, if anything does.
pub(super) fn does_not_get_on(pid: u32) -> Option<&'static str> {
    match process::state(pid)? {
        'T' => Some("stopped"),
        't' => Some("stopped by a debugger"),
        'D' => Some("in uninterruptible sleep"),
        'Z' => Some("a zombie, some of whose threads go on"),
        _ => None,
    }
}

/// Permits that jobs keep whose holders are gone.
fn orphans(arena: Arena) -> Vec<Finding> {
    let mut found = Vec::new();
    for info in Pool::list(arena) {
        let Ok(pool) = Pool::in_arena(arena, &info.name) else { continue };
        // Where no thread can be started, which is told, they are given back when somebody waits for them.
        let settled = apart(|| pool.reclaim()).unwrap_or(0);
        if settled > 0 {
            let what = format!("pool `{}` had {settled} permit(s) kept by jobs that have ended", pool.name());
            found.push(Finding::new("ended-job", what).done("they were given back"));
        }
        for h in pool.holders().iter().filter(|h| h.orphan) {
            let job = match &h.unseen {
                _ if h.who.pid != 0 => who(&h.who),
                Some(unseen) => unseen_job(unseen),
                None => "that cannot be seen".into(),
            };
            let what =
                format!("permit {} of pool `{}` is kept by a job whose holder is gone: {job}", h.index, pool.name());
            let when = if h.unseen.is_some() {
                "it comes back when the job has ended, and chappe is asked where that can be seen"
            } else {
                "it comes back when the job ends"
            };
            let advice = format!("{when}; to take it away: `chappe release {} {} --force`", pool.name(), h.index);
            found.push(Finding::new("orphan-permit", what).advice(advice));
        }
    }
    found
}

/// Locks that jobs keep whose holders are gone.
fn kept_locks(arena: Arena) -> Vec<Finding> {
    let mut found = Vec::new();
    for object in arena.objects() {
        let ObjectState::RwLock { jobs, .. } = &object.state else { continue };
        let name = full_name(arena, &object.name);
        for job in jobs {
            let (what, when) = match (&job.who, &job.unseen) {
                (Some(process), _) => (who(process), "it is free when the job ends"),
                (None, Some(unseen)) => (
                    unseen_job(unseen),
                    "it is free when the job has ended, and chappe is asked where that can be seen",
                ),
                (None, None) => ("that cannot be seen".into(), "it is free when the job ends"),
            };
            let how = if job.writes { "alone" } else { "shared" };
            let what = format!("lock `{name}` is kept by a job whose holder is gone ({how}): {what}");
            let advice = format!("{when}; to do without it: `chappe rm {name} --force`");
            found.push(Finding::new("kept-lock", what).advice(advice));
        }
    }
    found
}

fn unseen_job(job: &Unseen) -> String {
    let begun = match job.uid {
        Some(uid) => format!("pid {} `{}` of user {uid} began it; ", job.pid, job.label.replace(char::is_control, " ")),
        None => String::new(),
    };
    format!("{begun}nobody here can tell whether it runs, since {}", job.why)
}

fn full_name(arena: Arena, name: &str) -> String {
    if arena.name() == "default" { name.into() } else { format!("{}/{name}", arena.name()) }
}

fn mutexes(arena: Arena) -> Vec<Finding> {
    let one = |object: chappe_sync::ObjectInfo| {
        let name = full_name(arena, &object.name);
        match object.state {
            ObjectState::Mutex { condemned: true, .. } => Some(
                Finding::new("condemned-mutex", format!("mutex `{name}` is condemned: nobody gets it any more"))
                    .advice(format!("`chappe rm {name}`; whoever needs it makes it anew")),
            ),
            ObjectState::Mutex { torn: true, .. } => Some(
                Finding::new(
                    "torn-mutex",
                    format!("mutex `{name}` was left by a holder that died, and nobody has made its data whole since"),
                )
                .advice("whoever locks it next is told, and can do that or condemn it"),
            ),
            _ => None,
        }
    };
    arena.objects().into_iter().filter_map(one).collect()
}

/// Slots of tubes that are out of use for good.
fn kept(arena: Arena) -> Vec<Finding> {
    let one = |(tube, slots): (String, u32)| {
        let what = format!(
            "{slots} slot(s) of tube `{tube}` are out of use: a thread has ended that had leaked what it had of them"
        );
        Finding::new("kept-slots", what)
            .advice(format!("for as long as the tube lasts; to make it anew: `chappe rm {tube}`"))
    };
    arena.kept_slots().into_iter().map(one).collect()
}

/// The living members that hold something, and make no progress.
fn stuck(arena: Arena) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut elsewhere = 0;
    // Many members may be of one process.
    let mut known = BTreeMap::new();
    for w in arena.members().into_iter().filter(|w| w.life == LifeState::Alive) {
        if w.namespace != process::namespace() {
            elsewhere += 1;
            continue;
        }
        let Some(how) = *known.entry(w.pid).or_insert_with(|| does_not_get_on(w.pid)) else { continue };
        let is_kept = |b: &Belonging| !matches!(b.what, Had::Waits);
        let had: Vec<String> = arena.belongings(&w).iter().filter(|b| is_kept(b)).map(Belonging::to_string).collect();
        if !had.is_empty() {
            let what = format!("{} is {how}, and has {}", who(&w), list(&had));
            let advice =
                format!("it lives, and keeps that: `kill -CONT {0}` if it is to go on, `kill -9 {0}` if not", w.pid);
            found.push(Finding::new("stuck-member", what).advice(advice));
        }
    }
    if elsewhere > 0 {
        let what = format!("{elsewhere} member(s) live in another PID namespace");
        found.push(Finding::new("elsewhere", what).advice("whether they are stopped can be seen only there"));
    }
    found
}

fn removed(arena: Arena) -> Vec<Finding> {
    let one = |r: chappe_sync::Removed| {
        let by: Vec<String> = r.by.iter().map(who).collect();
        let what = format!("{} `{}` was removed, and is still in use by {}", r.kind, r.name, list(&by));
        Finding::new("removed-in-use", what).advice("its slot and its data are free when that ends")
    };
    arena.removed().into_iter().map(one).collect()
}

fn damage(arena: Arena) -> Vec<Finding> {
    let arena_name = arena.name();
    let one = |d: chappe_sync::Damage| {
        let what = format!("{} makes no sense: {}; a program has written over it", d.object, d.what);
        Finding::new("damaged", what).advice(format!(
            "remove it (`chappe rm --force`), if it is still there, and make it anew; if that cannot be done, end all who \
             use the arena and remove that: `chappe arena rm {arena_name} --force`"
        ))
    };
    arena.damage().into_iter().map(one).chain(lost_attachments(arena)).collect()
}

/// Member slots that can never be used again: one finding for all of them.
fn lost_attachments(arena: Arena) -> Option<Finding> {
    let lost = arena.lost_attachments();
    let first = lost.first()?;
    let (name, all) = (arena.name(), arena.capacity().members);
    let what = format!(
        "{} of {all} member slots, {first} the first of them, have an invalid lock, and no thread can join there; a program has \
         written over them",
        lost.len()
    );
    Some(Finding::new("damaged", what).advice(format!(
        "the arena goes on with the other {}; to have them back, end all who use it and remove it: `chappe arena rm {name} \
         --force`",
        all as usize - lost.len()
    )))
}

fn full(name: &str, c: &Capacity) -> Vec<Finding> {
    let parts = [
        ("member slots", c.members_used.into(), c.members.into(), "--members"),
        ("object slots", c.objects_used.into(), c.objects.into(), "--objects"),
        ("cells", c.cells_used.into(), c.cells.into(), "--cells"),
        ("bytes of data", c.data_used, c.data, "--data"),
    ];
    let is_full = |(_, used, all, _): &(&str, u64, u64, &str)| used * 10 >= all * 9;
    let one = |(what, used, all, option): (&str, u64, u64, &str)| {
        Finding::new("full", format!("{used} of {all} {what} are in use")).advice(format!(
            "remove what is not needed, or move to an arena with more (`chappe arena create {option}`): `{name}` cannot grow"
        ))
    };
    parts.into_iter().filter(is_full).map(one).collect()
}
