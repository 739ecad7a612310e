//! What `chappe top` shows, and what a key does to it. No terminal is needed for this.

use super::inside;
use crate::change;
use crate::eyes::light::LightSeen;
use crate::eyes::pipes::{PipeSeen, Pipes};
use crate::eyes::snapshot::{Process, Seen, Snapshot};
use crate::eyes::terminals::TerminalSeen;
use crate::eyes::top::looked::{Looked, SHORTEST};
use crate::eyes::top::views::{View, behind_text, per_second};
use crate::look::{self, holder_text, job_text, plain, state_text, who_text};
use crate::time;
use anyhow::Result;
use chappe::tube::broadcast::BroadcastSubscriber;
use chappe::{Holder, ObjectState, Pool};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How many snapshots the graphs go back.
pub const HISTORY: usize = 300;
/// What the loop does after a key.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing more.
    GoOn,
    /// Take a snapshot at once.
    Look,
    /// Stop, as Ctrl-Z does.
    Stop,
    /// End.
    End,
}

/// By what the objects are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// By name.
    Name,
    /// The most waiters first.
    Waiting,
    /// The longest wait first.
    Longest,
    /// The most messages a second first.
    Rate,
}

impl Sort {
    fn next(self) -> Sort {
        match self {
            Sort::Waiting => Sort::Longest,
            Sort::Longest => Sort::Rate,
            Sort::Rate => Sort::Name,
            Sort::Name => Sort::Waiting,
        }
    }
    /// The column that it sorts by.
    pub fn column(self) -> usize {
        match self {
            Sort::Name => 0,
            Sort::Waiting => 2,
            Sort::Longest => 3,
            Sort::Rate => 4,
        }
    }
}

/// A permit that is held.
pub struct Held {
    /// Which.
    pub index: u32,
    /// By what, in words.
    pub text: String,
    /// The process and the PID namespace of its number; 0 for none.
    pub process: (u32, u64),
}

impl Held {
    fn of(h: &Holder, text: String) -> Held {
        Held { index: h.index, text, process: (h.who.pid, h.who.namespace) }
    }
}

/// A process, looked into.
pub struct Holding {
    /// Its number and PID namespace.
    pub process: (u32, u64),
    /// What it holds and waits for, a line each.
    pub lines: Vec<String>,
}

/// What is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An object, by its name.
    Object,
    /// A pipe, by its number.
    Pipe(u64),
    /// The light threads of a process.
    Light(u32),
    /// A terminal, by its name: its screen.
    Terminal,
}

/// One object, or something else, looked into.
pub struct Detail {
    /// Which.
    pub subject: Subject,
    /// What it is called.
    pub name: String,
    /// What is known of it, a line each.
    pub lines: Vec<String>,
    /// Of a pool: the permits that are held.
    pub held: Vec<Held>,
    /// The holder that is looked into.
    pub holder: Option<Holding>,
    /// Which of `held` is chosen.
    pub chosen: usize,
    /// A permit that is to be taken away, once the user has said yes.
    pub question: Option<u32>,
}

/// All that is shown.
pub struct State {
    /// The last snapshot; none before the first.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Which of its objects are shown, in order.
    pub rows: Vec<usize>,
    /// Its processes that are shown.
    pub processes: Vec<Process>,
    /// Pipes, once they were asked for.
    all_pipes: Option<Arc<Pipes>>,
    /// Those that are shown.
    pub pipes: Vec<PipeSeen>,
    all_light: Vec<LightSeen>,
    /// Terminals.
    all_terminals: Vec<TerminalSeen>,
    /// Those that are shown.
    pub terminals: Vec<TerminalSeen>,
    /// Processes with light threads that are shown.
    pub light: Vec<LightSeen>,
    /// How many waited, and how many messages a second were sent, at each of the last snapshots.
    pub history: VecDeque<(u64, u64)>,
    /// The same of each object at which anything was: waiting or messages a second.
    pub histories: HashMap<String, VecDeque<u64>>,
    /// Which table.
    pub view: View,
    /// In which order.
    pub sort: Sort,
    /// Only names that contain this.
    pub filter: String,
    /// The keys go into the filter.
    pub typing: bool,
    /// The row that is chosen.
    pub chosen: usize,
    /// The object that is looked into.
    pub detail: Option<Detail>,
    /// Whether the keys are explained.
    pub help: bool,
    /// No snapshots are taken.
    pub paused: bool,
    /// How far snapshots are apart.
    pub interval: Duration,
    /// What was done, or went wrong.
    pub message: String,
}

impl State {
    /// Nothing seen yet.
    pub fn new(interval: Duration, view: View) -> State {
        State {
            snapshot: None,
            rows: Vec::new(),
            processes: Vec::new(),
            all_pipes: None,
            pipes: Vec::new(),
            all_light: Vec::new(),
            all_terminals: Vec::new(),
            terminals: Vec::new(),
            light: Vec::new(),
            history: VecDeque::new(),
            histories: HashMap::new(),
            view,
            sort: Sort::Waiting,
            filter: String::new(),
            typing: false,
            chosen: 0,
            detail: None,
            help: false,
            paused: false,
            interval,
            message: String::new(),
        }
    }

    /// A snapshot has come, or the reason why there is none.
    pub fn update(&mut self, now: Result<Looked>) {
        let now = match now {
            Ok(Looked { snapshot, pipes, light, terminals }) => {
                self.see_pipes(pipes);
                self.all_light = light.unwrap_or_default();
                self.all_terminals = terminals.unwrap_or_default();
                snapshot
            }
            Err(e) => {
                self.message = e.to_string();
                return;
            }
        };
        push(&mut self.history, (now.waiting() as u64, now.messages_per_second() as u64));
        // Of a pool with a waiter, the figure of interest is the waiters; of a tube always its rate.
        let figure = |o: &Seen| o.rates.sent.map_or(o.waiters.len() as u64, |sent| sent as u64);
        self.histories.retain(|name, history| match now.position(name, 0) {
            None if name.starts_with(PIPE) => true,
            Some(at) => {
                push(history, figure(&now.objects[at]));
                true
            }
            None => false,
        });
        // Of most objects there is nothing to tell.
        for o in now.objects.iter().filter(|o| figure(o) > 0) {
            if !self.histories.contains_key(&o.name) {
                push(self.histories.entry(o.name.clone()).or_default(), figure(o));
            }
        }
        if let Some((arena, why)) = now.refused.first() {
            self.message = format!("arena {arena}: {why}");
        }
        self.show(&now);
        self.snapshot = Some(now);
        self.look_into();
    }

    /// Pipes are kept by their numbers.
    fn see_pipes(&mut self, pipes: Option<Arc<Pipes>>) {
        let now = pipes.as_ref();
        let there = |name: &str| now.is_some_and(|now| now.all.iter().any(|p| pipe_name(p.inode) == name));
        self.histories.retain(|name, _| !name.starts_with(PIPE) || there(name));
        for pipe in now.iter().flat_map(|now| &now.all) {
            let percent = pipe.share().map_or(0, |share| (100.0 * share) as u64);
            push(self.histories.entry(pipe_name(pipe.inode)).or_default(), percent);
        }
        self.all_pipes = pipes;
    }

    /// Sorts and filters pipes and light threads.
    fn show_more(&mut self) {
        let fits = |text: &str| self.filter.is_empty() || text.contains(&self.filter);
        let pipes = self.all_pipes.iter().flat_map(|p| &p.all);
        let mut pipes: Vec<PipeSeen> = pipes.filter(|p| fits(&p.title())).cloned().collect();
        let descending = |a: Option<f64>, b: Option<f64>| b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0));
        match self.sort {
            // As pipelines run.
            Sort::Name => {}
            Sort::Waiting | Sort::Longest => pipes.sort_by(|a, b| descending(a.share(), b.share())),
            Sort::Rate => pipes.sort_by(|a, b| descending(a.rate, b.rate)),
        }
        // The row that was chosen stays chosen.
        let kept = self.pipes.get(self.chosen).map(|p| p.inode).filter(|_| self.view == View::Pipes && self.chosen > 0);
        if let Some(at) = kept.and_then(|inode| pipes.iter().position(|p| p.inode == inode)) {
            self.chosen = at;
        }
        self.pipes = pipes;
        self.terminals = self.all_terminals.iter().filter(|t| fits(&t.name)).cloned().collect();
        self.light = self.all_light.iter().filter(|l| fits(&l.name) || fits(&l.pid.to_string())).cloned().collect();
    }

    /// Sorts and filters what a snapshot has.
    pub fn show(&mut self, now: &Snapshot) {
        let kept = self.kept_name();
        let fits = |name: &str| self.filter.is_empty() || name.contains(&self.filter);
        let mut rows: Vec<usize> = (0..now.objects.len()).filter(|i| fits(&now.objects[*i].name)).collect();
        let rate = |i: usize| now.objects[i].rates.most().unwrap_or(0.0);
        // Snapshots are in the order of names, and this sort keeps it where all else is equal.
        match self.sort {
            Sort::Name => {}
            Sort::Waiting => rows.sort_by_key(|i| std::cmp::Reverse(now.objects[*i].waiters.len())),
            Sort::Longest => rows.sort_by_key(|i| std::cmp::Reverse(now.objects[*i].longest_wait())),
            Sort::Rate => rows.sort_by(|a, b| rate(*b).total_cmp(&rate(*a))),
        }
        self.processes = now.processes().into_iter().filter(|p| fits(&p.label) || fits(&p.pid.to_string())).collect();
        // The row that was chosen stays chosen, wherever it is now.
        if let Some(at) = kept.and_then(|name| rows.iter().position(|i| now.objects[*i].name == name)) {
            self.chosen = at;
        }
        self.rows = rows;
        self.show_more();
        self.chosen = self.chosen.min(self.count().saturating_sub(1));
    }

    fn kept_name(&self) -> Option<String> {
        let snapshot = self.snapshot.as_ref()?;
        let row = *self.rows.get(self.chosen)?;
        (self.view == View::Objects && self.chosen > 0).then(|| snapshot.objects[row].name.clone())
    }

    /// How many rows the table has.
    pub fn count(&self) -> usize {
        match self.view {
            View::Objects => self.rows.len(),
            View::Processes => self.processes.len(),
            View::Pipes => self.pipes.len(),
            View::Light => self.light.len(),
            View::Terminals => self.terminals.len(),
        }
    }

    fn again(&mut self) {
        if let Some(now) = self.snapshot.take() {
            self.show(&now);
            self.snapshot = Some(now);
        }
    }

    /// What a key does.
    pub fn key(&mut self, key: KeyEvent) -> After {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => After::End,
                KeyCode::Char('z') => After::Stop,
                KeyCode::Char('l') => After::Look,
                _ => After::GoOn,
            };
        }
        if self.typing {
            match key.code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => {
                    self.typing = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => {
                    self.filter.pop();
                }
                KeyCode::Char(c) => self.filter.push(c),
                _ => {}
            }
            self.again();
            return After::GoOn;
        }
        if self.help {
            self.help = false;
            return After::GoOn;
        }
        if self.detail.is_some() {
            return self.key_in_detail(key.code);
        }
        match key.code {
            KeyCode::Char('q') => return After::End,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.again();
            }
            KeyCode::Tab | KeyCode::Char('p') => {
                self.view = self.view.next();
                self.chosen = 0;
                // Pipes and light threads are looked for where they are shown.
                return After::Look;
            }
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('+') => self.interval = (self.interval * 2).min(Duration::from_secs(60)),
            KeyCode::Char('-') => self.interval = (self.interval / 2).max(SHORTEST),
            KeyCode::Down | KeyCode::Char('j') => self.chosen = (self.chosen + 1).min(self.count().saturating_sub(1)),
            KeyCode::Up | KeyCode::Char('k') => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::PageDown => self.chosen = (self.chosen + 10).min(self.count().saturating_sub(1)),
            KeyCode::PageUp => self.chosen = self.chosen.saturating_sub(10),
            KeyCode::Home => self.chosen = 0,
            KeyCode::End => self.chosen = self.count().saturating_sub(1),
            KeyCode::Esc => {
                self.filter.clear();
                self.message.clear();
                self.again();
            }
            KeyCode::Enter => self.open(),
            _ => {}
        }
        After::GoOn
    }

    /// Looks into the object that is chosen, or the one that the chosen process waits for.
    fn open(&mut self) {
        let mut subject = Subject::Object;
        let name = match self.view {
            View::Objects => {
                self.snapshot.as_ref().zip(self.rows.get(self.chosen)).map(|(s, i)| s.objects[*i].name.clone())
            }
            View::Processes => self.processes.get(self.chosen).map(|p| p.wants.clone()),
            View::Pipes => self.pipes.get(self.chosen).map(|p| {
                subject = Subject::Pipe(p.inode);
                p.title()
            }),
            View::Light => self.light.get(self.chosen).map(|l| {
                subject = Subject::Light(l.pid);
                format!("{} {}", l.name, l.pid)
            }),
            View::Terminals => self.terminals.get(self.chosen).map(|t| {
                subject = Subject::Terminal;
                t.name.clone()
            }),
        };
        if let Some(name) = name {
            self.detail = Some(Detail {
                subject,
                name,
                lines: Vec::new(),
                held: Vec::new(),
                holder: None,
                chosen: 0,
                question: None,
            });
            self.look_into();
        }
    }

    /// Looks into the object again.
    fn look_into(&mut self) {
        let (Some(detail), Some(snapshot)) = (&mut self.detail, &self.snapshot) else { return };
        detail.held.clear();
        let gone = || vec!["It is not there any more.".to_owned()];
        match detail.subject {
            Subject::Object => {}
            Subject::Pipe(inode) => {
                let pipe = self.all_pipes.iter().flat_map(|p| &p.all).find(|p| p.inode == inode);
                detail.lines = pipe.map_or_else(gone, inside::pipe_lines);
                return;
            }
            Subject::Light(pid) => {
                let light = self.all_light.iter().find(|l| l.pid == pid);
                detail.lines = light.map_or_else(gone, inside::light_lines);
                return;
            }
            Subject::Terminal => {
                let terminal = self.all_terminals.iter().find(|t| t.name == detail.name);
                detail.lines = terminal.map_or_else(gone, |t| t.lines.clone());
                return;
            }
        }
        let Some(seen) = snapshot.objects.iter().find(|o| o.name == detail.name) else {
            detail.lines = gone();
            return;
        };
        detail.lines = vec![format!("{}: {}", seen.info.kind, plain(&state_text(&seen.info.state)))];
        if let (Some(sent), received) = (seen.rates.sent, seen.rates.received) {
            let out = received.map_or_else(String::new, |received| format!(", {} out", per_second(received)));
            detail.lines.push(format!("{} in{out} a second", per_second(sent)));
        }
        if let Some(turnover) = seen.rates.turnover {
            detail.lines.push(format!("{} given back a second", per_second(turnover)));
        }
        detail.lines.extend(behind_text(&seen.info.state).map(|b| plain(&b)));
        match &seen.info.state {
            ObjectState::Pool(_) => {
                if let Ok(pool) = Pool::in_arena(seen.arena, seen.own_name()) {
                    let text = |h: &chappe::Holder| {
                        if h.set_aside {
                            format!("set aside for {}", who_text(&h.who))
                        } else {
                            format!("held by {}", holder_text(h))
                        }
                    };
                    detail.held = pool.holders().iter().map(|h| Held::of(h, plain(&text(h)))).collect();
                }
            }
            ObjectState::RwLock { readers, jobs, .. } => {
                detail.lines.extend(jobs.iter().map(|job| plain(&job_text(job))));
                detail.lines.extend(readers.iter().map(|who| format!("reads: {}", plain(&who_text(who)))));
            }
            ObjectState::Tube(t) => {
                let line = |what: &str, who: &chappe::Who| format!("{what}: {}", plain(&who_text(who)));
                detail.lines.extend(t.senders.iter().map(|w| line("sends", w)));
                detail.lines.extend(t.receivers.iter().map(|w| line("receives", w)));
            }
            ObjectState::Broadcast(t) => {
                detail.lines.extend(t.publishers.iter().map(|w| format!("publishes: {}", plain(&who_text(w)))));
                let line = |s: &BroadcastSubscriber| {
                    let who = plain(&who_text(&s.who));
                    format!("subscribes: {who}, {} before it, {} received, {} lost", s.messages, s.received, s.lost)
                };
                detail.lines.extend(t.subscribers.iter().map(line));
            }
            _ => {}
        }
        for (place, w) in (1..).zip(&seen.waiters) {
            detail.lines.push(format!("{place}. in line: {} for {}", plain(&who_text(&w.who)), time::show(w.waiting)));
            if w.light {
                detail.lines.last_mut().expect("pushed above").push_str(", a light thread");
            }
        }
        detail.chosen = detail.chosen.min(detail.held.len().saturating_sub(1));
        if let Some(holder) = &mut detail.holder {
            let (pid, namespace) = holder.process;
            holder.lines = snapshot.of_process(pid, namespace).iter().map(|line| plain(line)).collect();
        }
    }

    fn key_in_detail(&mut self, key: KeyCode) -> After {
        let Some(detail) = &mut self.detail else { return After::GoOn };
        if let Some(index) = detail.question.take() {
            if key == KeyCode::Char('y') {
                self.message = match change::release(&detail.name, Some(index), true) {
                    Ok(_) => format!("permit {index} of {} was taken away", detail.name),
                    Err(e) => e.to_string(),
                };
                return After::Look;
            }
            return After::GoOn;
        }
        match key {
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::Enter if detail.holder.is_some() => detail.holder = None,
            KeyCode::Esc | KeyCode::Char('q') => self.detail = None,
            KeyCode::Enter => {
                match detail.held.get(detail.chosen).map(|h| h.process).filter(|(pid, _)| *pid != 0) {
                    Some(process) => detail.holder = Some(Holding { process, lines: Vec::new() }),
                    None => self.detail = None,
                }
                self.look_into();
            }
            KeyCode::Down | KeyCode::Char('j') => {
                detail.chosen = (detail.chosen + 1).min(detail.held.len().saturating_sub(1))
            }
            KeyCode::Up | KeyCode::Char('k') => detail.chosen = detail.chosen.saturating_sub(1),
            KeyCode::Char('r') if detail.holder.is_none() => {
                detail.question = detail.held.get(detail.chosen).map(|h| h.index)
            }
            _ => {}
        }
        After::GoOn
    }

    /// What the graph of what is looked into shows, and its title.
    pub fn history_of(&self, detail: &Detail) -> (&'static str, Vec<u64>) {
        match detail.subject {
            Subject::Object => ("waiting, or messages a second", self.history_named(&detail.name)),
            Subject::Pipe(inode) => ("percent full", self.history_named(&pipe_name(inode))),
            Subject::Light(_) | Subject::Terminal => ("", Vec::new()),
        }
    }

    fn history_named(&self, name: &str) -> Vec<u64> {
        self.histories.get(name).map(|h| h.iter().copied().collect()).unwrap_or_default()
    }

    /// The head's line.
    pub fn summary(&self) -> String {
        let Some(s) = &self.snapshot else { return "looking ...".into() };
        let paused = if self.paused { ", paused" } else { "" };
        let directory = chappe::directory().map_or_else(|_| String::new(), |d| d.display().to_string());
        format!(
            "{}: {} arenas, {} objects, {} waiting, {} messages/s, every {}{paused}",
            look::plain(&directory),
            s.arenas.len(),
            s.objects.len(),
            s.waiting(),
            per_second(s.messages_per_second()),
            time::show(self.interval),
        )
    }
}

/// What a pipe's history is kept by: no object has such a name.
const PIPE: &str = "pipe:[";

fn pipe_name(inode: u64) -> String {
    format!("{PIPE}{inode}]")
}

fn push<T>(to: &mut VecDeque<T>, value: T) {
    if to.len() == HISTORY {
        to.pop_front();
    }
    to.push_back(value);
}
