//! `chappe top`: what waits, what is held and what flows, on a terminal and refreshed, or once as text or JSON.
//!
//! [`views`] has the tables, `screen` a terminal's whole screen, [`web`] a browser's page.

mod looked;
#[cfg(feature = "top")]
mod screen;
pub mod views;
mod web;

use super::snapshot::{Seen, Snapshot};
use crate::args::top::Top;
use crate::said::{Failure, failed, write};
use crate::{built, time};
use anyhow::{Result, anyhow};
use looked::{Looked, Looker, SHORTEST, as_json};
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::net::SocketAddr;
use views::View;

/// Runs it.
pub fn run(a: &Top, json: bool) -> Result<u8, Failure> {
    let interval = a.interval.max(SHORTEST);
    if a.view == View::Terminals {
        built::need("term").map_err(failed)?;
    }
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
        View::Terminals => looked.terminals.iter().flatten().map(views::terminal).collect(),
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
