//! `chappe top`: what waits, what is held and what flows, on a terminal and refreshed, or once as text or JSON.
//!
//! [`state`] is what is shown and what a key does to it, without a terminal; [`draw`] puts it on one, [`web`] into a browser. A thread of its own takes the
//! snapshots, so that the keys answer while an arena does not.

mod draw;
mod state;
mod web;

use super::figures::ALL;
use super::snapshot::Snapshot;
use crate::{Failure, failed, signals, time, write};
use anyhow::{Result, anyhow, bail};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde_json::{Map, Value, json};
use state::{After, State};
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// `chappe top`.
#[derive(clap::Args, Debug)]
pub struct Top {
    /// Only this arena
    pub arena: Option<String>,
    /// How often to look (500ms, 30s, or seconds)
    #[arg(long, short, value_name = "DURATION", value_parser = time::parse, default_value = "1s")]
    pub interval: Duration,
    /// Print it once, after one interval for the rates, and end; with --json as JSON
    #[arg(long)]
    pub once: bool,
    /// Show it in a browser on this machine: prints the address, and goes on until a signal ends it
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:0", conflicts_with = "once")]
    pub web: Option<SocketAddr>,
}

/// The end of its help.
pub const END: &str = "\
With --json, once:
  {\"arenas\": [{\"name\": TEXT, \"members_used\": N, \"members\": N,
    \"objects_used\": N, \"objects\": N}],
   \"objects\": [{\"name\": TEXT, \"arena\": TEXT, \"kind\": TEXT, and each figure
    that `chappe watch --help` lists and the object has}],
   \"processes\": [{\"pid\": N, \"label\": TEXT, \"waiting\": N,
    \"waiting_light\": N, \"longest_wait_seconds\": N, \"wants\": TEXT}],
   \"refused\": [{\"arena\": TEXT, \"error\": TEXT}]}

Exit status:
  0 done; 1 an arena could not be looked at, or there is no terminal";

/// How often the keyboard is looked at.
const KEYS: Duration = Duration::from_millis(100);
/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(50);

/// Runs it.
pub fn run(a: &Top, json: bool) -> Result<u8, Failure> {
    let interval = a.interval.max(SHORTEST);
    if let Some(address) = a.web {
        web::run(address, a.arena.as_deref()).map_err(failed)?;
        return Ok(0);
    }
    if a.once || json {
        let before = Snapshot::take(a.arena.as_deref(), None).map_err(failed)?;
        std::thread::sleep(interval);
        let now = Snapshot::take(a.arena.as_deref(), Some(&before)).map_err(failed)?;
        let text = if json { as_json(&now) } else { as_text(&now) };
        write(text.as_bytes())?;
        return Ok(u8::from(!now.refused.is_empty()));
    }
    let term = std::env::var("TERM").unwrap_or_default();
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() || term.is_empty() || term == "dumb" {
        return Err(failed(anyhow!(
            "`chappe top` needs a terminal that it can draw on; `chappe top --once` prints its table"
        )));
    }
    full_screen(a.arena.clone(), interval).map_err(failed)?;
    Ok(0)
}

/// Takes snapshots until nobody wants them; one is taken whenever the other side asks.
fn looker(arena: Option<String>, wanted: &Receiver<()>, seen: &Sender<Result<Snapshot>>) {
    let mut last: Option<Snapshot> = None;
    while wanted.recv().is_ok() {
        let now = Snapshot::take(arena.as_deref(), last.as_ref());
        // The next one's rates need what this one counted, not all of it.
        last = now.as_ref().ok().map(Snapshot::counts);
        if seen.send(now).is_err() {
            return;
        }
    }
}

fn full_screen(arena: Option<String>, interval: Duration) -> Result<()> {
    let (want, wanted) = channel();
    let (tell, seen) = channel();
    // They are taken between two looks at the keyboard, so that the terminal is always put right. Blocked before any thread begins:
    // the kernel would give them to one that does not block them.
    let ends = signals::Set::of(&signals::heeded(&[libc::SIGTERM, libc::SIGHUP, libc::SIGINT]));
    ends.block();
    std::thread::spawn(move || looker(arena, &wanted, &tell));
    let mut terminal = ratatui::try_init().map_err(|e| anyhow!("cannot draw on this terminal: {e}"))?;
    let ended = interact(&mut terminal, &want, &seen, interval, &ends);
    ratatui::restore();
    if let Some(signal) = ended? {
        signals::die_by(signal);
    }
    Ok(())
}

/// Waits for keys, so long at most. Whether the terminal has gone instead: to look for keys there would not end.
fn has_gone(most: Duration) -> bool {
    let mut keys = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, which is written to until the call ends.
    unsafe { libc::poll(&raw mut keys, 1, most.as_millis() as libc::c_int) };
    keys.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

/// Answers the signal that ended it, if one did.
fn interact(
    terminal: &mut ratatui::DefaultTerminal,
    want: &Sender<()>,
    seen: &Receiver<Result<Snapshot>>,
    interval: Duration,
    ends: &signals::Set,
) -> Result<Option<i32>> {
    let mut state = State::new(interval);
    let (mut asked, mut due) = (false, std::time::Instant::now());
    loop {
        if !asked && !state.paused && std::time::Instant::now() >= due {
            due = std::time::Instant::now() + state.interval;
            asked = want.send(()).is_ok();
        }
        match seen.recv_timeout(Duration::ZERO) {
            Ok(now) => {
                asked = false;
                state.update(now);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("the thread that looks has ended")),
        }
        terminal.draw(|frame| draw::all(frame, &mut state))?;
        if let Some(came) = ends.wait(Some(Duration::ZERO)) {
            return Ok(Some(came.signal));
        }
        if has_gone(KEYS) {
            bail!("the terminal has gone");
        }
        if !event::poll(Duration::ZERO)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match state.key(key) {
            After::GoOn => {}
            After::Look => due = std::time::Instant::now(),
            After::Stop => {
                ratatui::restore();
                signals::stop_by(libc::SIGTSTP);
                *terminal = ratatui::try_init()?;
            }
            After::End => return Ok(None),
        }
    }
}

fn as_json(s: &Snapshot) -> String {
    let objects: Vec<Value> = s
        .objects
        .iter()
        .map(|o| {
            let mut all = Map::new();
            all.insert("name".into(), json!(o.name));
            all.insert("arena".into(), json!(o.arena.name()));
            all.insert("kind".into(), json!(o.info.kind));
            for figure in ALL {
                if let Some(value) = (figure.of)(o) {
                    // Whole numbers as such.
                    let value =
                        if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) };
                    all.insert(format!("{}{}", figure.name, figure.suffix), value);
                }
            }
            Value::Object(all)
        })
        .collect();
    let arenas: Vec<Value> = s
        .arenas
        .iter()
        .map(|a| {
            json!({ "name": a.name, "members_used": a.members.0, "members": a.members.1, "objects_used": a.objects.0, "objects": a.objects.1 })
        })
        .collect();
    let processes: Vec<Value> = s
        .processes()
        .into_iter()
        .map(|p| {
            json!({ "pid": p.pid, "label": p.label, "waiting": p.waiting, "waiting_light": p.light, "longest_wait_seconds": p.longest.as_secs_f64(), "wants": p.wants })
        })
        .collect();
    let refused: Vec<Value> = s.refused.iter().map(|(arena, why)| json!({ "arena": arena, "error": why })).collect();
    format!("{}\n", json!({ "arenas": arenas, "objects": objects, "processes": processes, "refused": refused }))
}

fn as_text(s: &Snapshot) -> String {
    let mut state = State::new(Duration::ZERO);
    state.show(s);
    let mut text = String::new();
    let rows: Vec<[String; 6]> = state.rows.iter().map(|i| state::cells(&s.objects[*i])).collect();
    let wide = |column: usize| {
        rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0).max(state::TITLES[column].len())
    };
    let widths: Vec<usize> = (0..6).map(wide).collect();
    let titles = state::TITLES.map(str::to_owned);
    for row in std::iter::once(&titles).chain(&rows) {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let pad = widths[at];
            // Numbers to the right.
            let _ = if (2..5).contains(&at) { write!(line, "{cell:>pad$}  ") } else { write!(line, "{cell:pad$}  ") };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for p in s.processes() {
        let (label, longest) = (crate::look::plain(&p.label), time::show(p.longest));
        let _ = writeln!(text, "pid {} `{label}`: {} waiting, longest {longest}, for {}", p.pid, p.waiting, p.wants);
    }
    for (arena, why) in &s.refused {
        let _ = writeln!(text, "arena {arena}: {}", crate::look::plain(why));
    }
    text
}
