//! What the screen of `chappe top` says beside its tables: totals, which table comes next, and what is known of one process, one pipe, or light
//! threads.

use crate::built;
use crate::eyes::light::LightSeen;
use crate::eyes::pipes::{End, PipeSeen, Side, TOLD};
use crate::eyes::snapshot::Snapshot;
use crate::eyes::top::views::{View, per_second};
use crate::look::plain;
use crate::time;
use chappe::tube::broadcast::BroadcastSubscriber;
use chappe::{ObjectState, Pool, Who};

impl View {
    /// The next one, for Tab.
    pub fn next(self) -> View {
        match self {
            View::Objects => View::Processes,
            View::Processes => View::Pipes,
            View::Pipes => View::Light,
            View::Light if built::need("term").is_ok() => View::Terminals,
            View::Light | View::Terminals => View::Objects,
        }
    }

    /// What a row stands for.
    pub fn what(self) -> &'static str {
        match self {
            View::Objects => "objects",
            View::Processes => "processes that wait",
            View::Pipes => "pipes",
            View::Light => "processes with light threads",
            View::Terminals => "terminals",
        }
    }
}

impl Snapshot {
    /// How many wait, at all objects together.
    pub fn waiting(&self) -> usize {
        self.objects.iter().map(|o| o.waiters.len()).sum()
    }

    /// Messages a second into all tubes together.
    pub fn messages_per_second(&self) -> f64 {
        self.objects.iter().filter_map(|o| o.rates.sent).fold(0.0, |sum, rate| sum + rate)
    }

    /// What a process holds and waits for, a line each. This goes through all holders: for one process that a user looks into.
    pub fn of_process(&self, pid: u32, namespace: u64) -> Vec<String> {
        let (mut holds, mut waits) = (Vec::new(), Vec::new());
        let is = |who: &Who| who.pid == pid && (who.namespace == namespace || who.namespace == 0 || namespace == 0);
        for o in &self.objects {
            match &o.info.state {
                ObjectState::Pool(p) if p.held > 0 => {
                    let held = Pool::in_arena(o.arena, o.own_name()).map(|pool| pool.holders()).unwrap_or_default();
                    for h in held.iter().filter(|h| is(&h.who)) {
                        let what = if h.set_aside { "has set aside" } else { "holds" };
                        let bound = if h.exact { "" } else { "at least " };
                        holds.push(format!(
                            "{what} permit {} of {} for {bound}{}",
                            h.index,
                            o.name,
                            time::show(h.held)
                        ));
                    }
                }
                ObjectState::Mutex { holder: Some(who), .. } | ObjectState::Owned { holder: Some(who), .. }
                    if is(who) =>
                {
                    holds.push(format!("holds {} {}", o.info.kind, o.name));
                }
                ObjectState::RwLock { writer, readers, .. } => {
                    holds.extend(writer.iter().filter(|who| is(who)).map(|_| format!("writes {}", o.name)));
                    holds.extend(readers.iter().filter(|who| is(who)).map(|_| format!("reads {}", o.name)));
                }
                ObjectState::Tube(t) => {
                    holds.extend(t.senders.iter().filter(|who| is(who)).map(|_| format!("sends on {}", o.name)));
                    holds.extend(t.receivers.iter().filter(|who| is(who)).map(|_| format!("receives from {}", o.name)));
                }
                ObjectState::Broadcast(t) => {
                    holds.extend(t.publishers.iter().filter(|who| is(who)).map(|_| format!("publishes on {}", o.name)));
                    let subscribes = |s: &BroadcastSubscriber| {
                        format!("subscribes to {}, {} before it, {} lost", o.name, s.messages, s.lost)
                    };
                    holds.extend(t.subscribers.iter().filter(|s| is(&s.who)).map(subscribes));
                }
                _ => {}
            }
            for (place, w) in (1..).zip(&o.waiters).filter(|(_, w)| is(&w.who)) {
                let light = if w.light { "a light thread " } else { "" };
                waits.push(format!("{light}waits for {}, {place}. in line, for {}", o.name, time::show(w.waiting)));
            }
        }
        holds.append(&mut waits);
        holds
    }
}

/// What is known of a pipe, a line each.
pub fn pipe_lines(p: &PipeSeen) -> Vec<String> {
    let mut lines = vec![match p.fill {
        Some((n, room)) => format!("pipe {}: {} of {} bytes, {}", p.inode, n, room, p.state()),
        None => format!("pipe {}: it may not be asked what is in it; {}", p.inode, p.state()),
    }];
    if let Some(rate) = p.rate {
        lines.push(format!("{} bytes a second", per_second(rate)));
    }
    let line = |what: &str, e: &End| {
        let sleeps = match e.sleeps {
            Some(Side::Read) => ", sleeps in a read",
            Some(Side::Write) => ", sleeps in a write",
            None => "",
        };
        format!("{what}: {} {}{sleeps}", plain(&e.name), e.pid)
    };
    for (what, ends) in [("writes", &p.writers), ("reads", &p.readers)] {
        lines.extend(ends.iter().take(TOLD).map(|e| line(what, e)));
        if ends.len() > TOLD {
            lines.push(format!("{what}: {} more", ends.len() - TOLD));
        }
    }
    lines
}

/// The light threads of a process, a line each.
pub fn light_lines(l: &LightSeen) -> Vec<String> {
    let [running, ready, waiting, blocking, suspended] = l.states;
    let mut lines = vec![format!(
        "{} light threads of {} {}: {running} running, {ready} ready, {waiting} waiting, {blocking} blocking, {suspended} suspended",
        l.count(),
        plain(&l.name),
        l.pid
    )];
    lines.extend(l.lines.iter().map(|line| plain(line)));
    if (l.lines.len() as u32) < l.count() {
        lines.push(format!("and {}: `chappe threads {}` shows all", l.count() - l.lines.len() as u32, l.pid));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_view_is_reached_by_its_key() {
        let mut seen = vec![View::Objects];
        while seen.len() < 6 && seen.last().unwrap().next() != View::Objects {
            seen.push(seen.last().unwrap().next());
        }
        let mut all = vec![View::Objects, View::Processes, View::Pipes, View::Light];
        all.extend(built::need("term").is_ok().then_some(View::Terminals));
        assert_eq!(seen, all);
    }

    #[test]
    fn threads_that_are_not_told_one_by_one_are_counted() {
        let l = LightSeen { pid: 9, name: "a".into(), states: [0, 0, 5, 0, 0], lines: vec!["1  -  waiting".into()] };
        let lines = light_lines(&l);
        assert!(
            lines[0].starts_with("5 light threads") && lines[2].contains("and 4") && lines[2].contains("threads 9")
        );
    }
}
