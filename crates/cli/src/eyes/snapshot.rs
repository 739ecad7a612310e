//! What there is at one moment, in all arenas or in one.

use crate::look;
use crate::within::{Patience, too_long};
use anyhow::{Result, anyhow};
use chappe::{Arena, LifeState, ObjectInfo, ObjectState, Waiter};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// One object.
pub struct Seen {
    /// The arena that it lies in.
    pub arena: Arena,
    /// What users call it.
    pub name: String,
    /// Of that the arena's part.
    prefix: usize,
    /// How it stands, but for its name.
    pub info: ObjectInfo,
    /// The waiters, in the order of arrival; of a tube first those for a message, then those for room.
    pub waiters: Vec<Waiter>,
    /// What went on since the snapshot before, if that has seen it, too.
    pub rates: Rates,
}

impl Seen {
    /// Whether its kind has rates.
    pub fn has_rates(&self) -> bool {
        matches!(self.info.state, ObjectState::Tube(_) | ObjectState::Pool(_) | ObjectState::Broadcast(_))
    }
}

/// What goes on at an object, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Messages sent.
    pub sent: Option<f64>,
    /// Messages that have left the tube.
    pub received: Option<f64>,
    /// Permits given back.
    pub turnover: Option<f64>,
}

impl Rates {
    /// The one figure for the table.
    pub fn most(&self) -> Option<f64> {
        [self.sent, self.received, self.turnover].into_iter().flatten().reduce(f64::max)
    }

    /// From two looks at the same object, so many seconds apart.
    fn between(then: &ObjectState, now: &ObjectState, seconds: f64) -> Rates {
        // Another tube of the same name begins anew.
        let rate = |then: u64, now: u64| now.checked_sub(then).map(|more| more as f64 / seconds);
        match (then, now) {
            (ObjectState::Tube(then), ObjectState::Tube(now)) => {
                let (sent, received) = (rate(then.sent, now.sent), rate(then.received, now.received));
                if sent.is_none() || received.is_none() {
                    Rates::default()
                } else {
                    Rates { sent, received, turnover: None }
                }
            }
            (ObjectState::Broadcast(then), ObjectState::Broadcast(now)) => {
                Rates { sent: rate(then.sent, now.sent), ..Rates::default() }
            }
            (ObjectState::Pool(then), ObjectState::Pool(now)) => {
                Rates { turnover: Some(f64::from(now.turnover_since(then)) / seconds), ..Rates::default() }
            }
            _ => Rates::default(),
        }
    }
}

/// One arena.
pub struct ArenaSeen {
    /// What it is called.
    pub name: String,
    /// Members in use, and how many it has room for.
    pub members: (u32, u32),
    /// Objects in use, and how many it has room for.
    pub objects: (u32, u32),
    /// Where its objects begin in the snapshot.
    first: usize,
    /// How many they are.
    count: usize,
}

/// All of it.
pub struct Snapshot {
    /// When it was begun.
    pub at: Instant,
    /// The arenas that could be looked at.
    pub arenas: Vec<ArenaSeen>,
    /// Their objects, by arena, then by name.
    pub objects: Vec<Seen>,
    /// What could not be looked at, and why.
    pub refused: Vec<(String, String)>,
}

/// One process that waits.
#[derive(Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The PID namespace that it is of.
    pub namespace: u64,
    /// What it calls itself.
    pub label: String,
    /// How many of its threads wait.
    pub waiting: usize,
    /// How many of those are light.
    pub light: usize,
    /// For how long the one that has waited longest.
    pub longest: Duration,
    /// What that one waits for.
    pub wants: String,
}

impl Seen {
    /// Its name within its arena.
    pub fn own_name(&self) -> &str {
        &self.name[self.prefix..]
    }

    /// For how long the waiter has waited that has waited longest.
    pub fn longest_wait(&self) -> Duration {
        self.waiters.iter().map(|w| w.waiting).max().unwrap_or_default()
    }
}

impl Snapshot {
    /// Looks at one arena, or at all. With `before`, tubes and pools have rates.
    ///
    /// # Errors
    /// That the only arena asked for cannot be looked at, or the directory of arenas.
    pub fn take(only: Option<&str>, before: Option<&Snapshot>) -> Result<Snapshot> {
        let patience = Patience::new();
        let at = Instant::now();
        let names = match only {
            Some(one) => vec![one.to_owned()],
            None => patience.look(Duration::ZERO, Arena::list).ok_or_else(|| anyhow!(too_long("the directory")))??,
        };
        let mut snapshot = Snapshot { at, arenas: Vec::new(), objects: Vec::new(), refused: Vec::new() };
        for name in names {
            let one = name.clone();
            match patience.look(Duration::ZERO, move || Arena::open(&one).map(|arena| (arena_seen(arena), seen(arena))))
            {
                Some(Ok((mut arena, objects))) => {
                    (arena.first, arena.count) = (snapshot.objects.len(), objects.len());
                    snapshot.arenas.push(arena);
                    // The usual case, without a copy.
                    if snapshot.objects.is_empty() {
                        snapshot.objects = objects;
                    } else {
                        snapshot.objects.extend(objects);
                    }
                }
                Some(Err(e)) if only.is_some() => return Err(e.into()),
                // It was removed since it was listed.
                Some(Err(chappe::ArenaError::NotFound { .. })) => {}
                Some(Err(e)) => snapshot.refused.push((name, e.to_string())),
                None => {
                    let why = too_long(&format!("arena `{name}`"));
                    if only.is_some() {
                        return Err(anyhow!(why));
                    }
                    snapshot.refused.push((name, why));
                }
            }
        }
        if let Some(before) = before {
            snapshot.add_rates(before);
        }
        Ok(snapshot)
    }

    fn add_rates(&mut self, before: &Snapshot) {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        // Mostly the same objects, in the same order: each is where the one before it was, and one further.
        let mut hint = 0;
        for o in &mut self.objects {
            if let Some(at) = before.position(&o.name, hint) {
                o.rates = Rates::between(&before.objects[at].info.state, &o.info.state, seconds);
                hint = at + 1;
            }
        }
    }

    /// Where the object of this name is; `hint` says where it is likely to be.
    pub fn position(&self, name: &str, hint: usize) -> Option<usize> {
        if self.objects.get(hint).is_some_and(|o| o.name == name) {
            return Some(hint);
        }
        // They are in the order of their arenas, then of their names there.
        let (arena, own) = look::split(name);
        let part = self.arenas.iter().find(|a| a.name == arena)?;
        let part = part.first..part.first + part.count;
        let within = self.objects.get(part.clone())?.binary_search_by(|o| o.own_name().cmp(own));
        within.ok().map(|at| part.start + at)
    }

    /// The processes that wait, the longest wait first.
    pub fn processes(&self) -> Vec<Process> {
        let mut all: HashMap<(u64, u32), Process> = HashMap::new();
        for o in &self.objects {
            for w in o.waiters.iter().filter(|w| w.who.life == LifeState::Alive) {
                let p = all.entry((w.who.namespace, w.who.pid)).or_insert_with(|| Process {
                    pid: w.who.pid,
                    label: w.who.label.clone(),
                    namespace: w.who.namespace,
                    waiting: 0,
                    light: 0,
                    longest: Duration::ZERO,
                    wants: String::new(),
                });
                p.waiting += 1;
                p.light += usize::from(w.light);
                if w.waiting >= p.longest {
                    p.longest = w.waiting;
                    p.wants.clone_from(&o.name);
                }
            }
        }
        let mut all: Vec<Process> = all.into_values().collect();
        all.sort_by(|a, b| b.longest.cmp(&a.longest).then(a.pid.cmp(&b.pid)));
        all
    }
}

fn arena_seen(arena: Arena) -> ArenaSeen {
    let has = arena.capacity();
    let (members, objects) = ((has.members_used, has.members), (has.objects_used, has.objects));
    ArenaSeen { name: arena.name(), members, objects, first: 0, count: 0 }
}

fn seen(arena: Arena) -> Vec<Seen> {
    // In the default arena an object is called by its own name alone.
    let prefix = if arena.name() == look::DEFAULT { String::new() } else { format!("{}/", arena.name()) };
    let one = |mut info: ObjectInfo| {
        let waiters = match &info.state {
            ObjectState::Tube(t) => t.receivers_waiting.iter().chain(&t.senders_waiting).cloned().collect(),
            // Most objects have none; one that went meanwhile has none either.
            _ if info.waiting > 0 => arena.waiters(&info.name).unwrap_or_default(),
            _ => Vec::new(),
        };
        let own = std::mem::take(&mut info.name);
        let name = if prefix.is_empty() { own } else { format!("{prefix}{own}") };
        Seen { arena, name, prefix: prefix.len(), info, waiters, rates: Rates::default() }
    };
    arena.objects().into_iter().map(one).collect()
}
