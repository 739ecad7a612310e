//! `chappe top`: what waits, what is held and what flows, on a terminal and refreshed, or once as text or JSON.
//!
//! [`views`] has the tables, `screen` a terminal's whole screen, [`web`] a browser's page.

#[cfg(feature = "top")]
mod screen;
mod views;
mod web;

use super::figures::ALL;
use super::light::{self, LightSeen};
use super::pipes::{PipeSeen, Pipes};
use super::snapshot::{Seen, Snapshot};
use crate::{Failure, built, failed, time, write};
use anyhow::{Result, anyhow};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use views::View;

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
    /// Which table comes first; with --once, which is printed
    #[arg(long, value_enum, default_value_t)]
    pub view: View,
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
    that `chappe help watch` lists and the object has}],
   \"processes\": [{\"pid\": N, \"label\": TEXT, \"waiting\": N,
    \"waiting_light\": N, \"longest_wait_seconds\": N, \"wants\": TEXT}],
   \"refused\": [{\"arena\": TEXT, \"error\": TEXT}]}
with --view pipes also
   \"pipes\": [{\"inode\": N, \"bytes\": N, \"room\": N, \"bytes_per_second\": N,
    \"writers\": [{\"pid\": N, \"name\": TEXT, \"sleeps_in\": read, write or null}],
    \"readers\": the same, \"state\": TEXT, \"writers_in_all\": N,
    \"readers_in_all\": N}]; of each side the first eight
with --view light also
   \"light\": [{\"pid\": N, \"name\": TEXT, \"threads\": N, \"running\": N,
    \"ready\": N, \"waiting\": N, \"blocking\": N, \"suspended\": N}]

Pipes and light threads are those of processes that the user may look into.
To ask a pipe what is in it, its read end is opened for some microseconds.

Exit status:
  0 done; 1 an arena could not be looked at, or there is no terminal";

/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(50);

/// Runs it.
pub fn run(a: &Top, json: bool) -> Result<u8, Failure> {
    let interval = a.interval.max(SHORTEST);
    if let Some(address) = a.web {
        if let Some(name) = &a.arena {
            if name.parse::<SocketAddr>().is_ok() {
                return Err(failed(anyhow!(
                    "`{name}` stands where the name of an arena does; an address is `--web={name}`"
                )));
            }
            // A page that stays empty would not say why.
            Snapshot::take(Some(name), None).map_err(failed)?;
        }
        web::run(address, a.arena.as_deref()).map_err(failed)?;
        return Ok(0);
    }
    if a.once || json {
        let mut looker = Looker::new(a.arena.clone());
        looker.look(a.view).map_err(failed)?;
        std::thread::sleep(interval);
        let now = looker.look(a.view).map_err(failed)?;
        let text = if json { as_json(&now) } else { as_text(&now, a.view) };
        write(text.as_bytes())?;
        return Ok(u8::from(!now.snapshot.refused.is_empty()));
    }
    let term = std::env::var("TERM").unwrap_or_default();
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() || term.is_empty() || term == "dumb" {
        return Err(failed(anyhow!(
            "`chappe top` needs a terminal that it can draw on; `chappe top --once` prints its table"
        )));
    }
    built::need("top").map_err(|e| {
        failed(anyhow!("{e}; `chappe top --once` prints its table, `chappe top --web` shows it in a browser"))
    })?;
    #[cfg(feature = "top")]
    screen::run(a.arena.clone(), interval, a.view).map_err(failed)?;
    Ok(0)
}

/// What is seen at one look.
pub struct Looked {
    /// Arenas and their objects.
    pub snapshot: Arc<Snapshot>,
    /// Pipes, where they are shown.
    pub pipes: Option<Arc<Pipes>>,
    /// Light threads, where they are shown.
    pub light: Option<Vec<LightSeen>>,
}

/// Looks again and again.
struct Looker {
    arena: Option<String>,
    last: Option<Arc<Snapshot>>,
    pipes: Option<Arc<Pipes>>,
    light: light::Looker,
}

impl Looker {
    fn new(arena: Option<String>) -> Looker {
        Looker { arena, last: None, pipes: None, light: light::Looker::default() }
    }

    /// What a view does not show is not looked for.
    fn look(&mut self, view: View) -> Result<Looked> {
        let snapshot = Snapshot::take(self.arena.as_deref(), self.last.as_deref()).map(Arc::new);
        // The next one's rates need what this one counted.
        self.last = snapshot.as_ref().ok().cloned();
        let snapshot = snapshot?;
        self.pipes = (view == View::Pipes).then(|| Arc::new(Pipes::look(self.pipes.as_deref())));
        let light = (view == View::Light).then(|| self.light.look());
        Ok(Looked { snapshot, pipes: self.pipes.clone(), light })
    }
}

fn as_json(looked: &Looked) -> String {
    let s = &looked.snapshot;
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
    let mut all = json!({ "arenas": arenas, "objects": objects, "processes": processes, "refused": refused });
    if let Some(pipes) = &looked.pipes {
        all["pipes"] = pipes.all.iter().map(PipeSeen::as_json).collect();
    }
    if let Some(light) = &looked.light {
        all["light"] = light.iter().map(LightSeen::as_json).collect();
    }
    format!("{all}\n")
}

fn as_text(looked: &Looked, view: View) -> String {
    let s = &looked.snapshot;
    // As the screen has them at first. Snapshots are in the order of names, and this sort keeps it where all else is equal.
    let mut objects: Vec<&Seen> = s.objects.iter().collect();
    objects.sort_by_key(|o| std::cmp::Reverse(o.waiters.len()));
    let rows: Vec<Vec<String>> = match view {
        View::Objects => objects.into_iter().map(|o| views::cells(o).into()).collect(),
        View::Processes => s.processes().iter().map(views::process).collect(),
        View::Pipes => looked.pipes.iter().flat_map(|p| &p.all).map(views::pipe).collect(),
        View::Light => looked.light.iter().flatten().map(views::light).collect(),
    };
    let titles: Vec<String> = view.titles().iter().map(|t| (*t).to_owned()).collect();
    let wide =
        |at: usize| rows.iter().map(|r| r[at].chars().count()).max().unwrap_or(0).max(titles[at].chars().count());
    let widths: Vec<usize> = (0..titles.len()).map(wide).collect();
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(&rows) {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let pad = widths[at];
            // Numbers to the right.
            let _ = if view.is_number(at) { write!(line, "{cell:>pad$}  ") } else { write!(line, "{cell:pad$}  ") };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for p in s.processes().iter().filter(|_| view == View::Objects) {
        let (label, longest) = (crate::look::plain(&p.label), time::show(p.longest));
        let _ = writeln!(text, "pid {} `{label}`: {} waiting, longest {longest}, for {}", p.pid, p.waiting, p.wants);
    }
    for (arena, why) in &s.refused {
        let _ = writeln!(text, "arena {arena}: {}", crate::look::plain(why));
    }
    text
}
