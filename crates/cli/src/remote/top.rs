//! `chappe top @REMOTE`: what waits and what is held on an engine, by one read and then one watch of all of it.
//!
//! How long something waits or is held is counted from when this command first saw it: no two machines' clocks are compared.

use super::{Place, pools};
use crate::args::top::Top;
use crate::eyes::top::views::View as Table;
use crate::look::plain;
use crate::said::{Failure, failed, write};
use crate::time;
use anyhow::{Result, anyhow, bail};
use chappe::remote::engine::{Change, Engine, News, Revision, Watch};
use chappe::remote::etcd::Etcd;
use chappe::remote::keys::Who;
use chappe::remote::view::View;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The shortest time between two tables.
const SHORTEST: Duration = Duration::from_millis(100);

/// Runs it.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(a: &Top, place: &Place, json: bool) -> Result<u8, Failure> {
    possible(a).map_err(failed)?;
    let (once, interval) = (a.once || json, a.interval.max(SHORTEST));
    if !once && !std::io::stdout().is_terminal() {
        return Err(failed(anyhow!("`chappe top` needs a terminal; `chappe top --once` prints its table")));
    }
    let etcd = place.connect().map_err(|e| failed(anyhow!(e)))?;
    let mut seen = Seen::read(place, &etcd).map_err(failed)?;
    loop {
        seen.follow(place, &etcd, interval).map_err(failed)?;
        let text = if json { seen.as_json(place) } else { seen.as_text(place, a.view) };
        if once {
            write(text.as_bytes())?;
            return Ok(0);
        }
        // From the first line on, and what is below is cleared.
        write(format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\r\n")).as_bytes())?;
    }
}

fn possible(a: &Top) -> Result<()> {
    match a.view {
        Table::Objects | Table::Processes => {}
        _ => bail!("an engine has objects, and processes that wait for them: --view objects, or processes"),
    }
    if a.web.is_some() {
        bail!("--web shows this machine; `chappe metrics @REMOTE --listen` gives an engine's figures to a browser");
    }
    Ok(())
}

/// A process that waits.
type Process = (String, u32, String);

/// What there is.
struct Seen {
    views: BTreeMap<String, View>,
    revision: Revision,
    /// Since when each place in a line is known.
    since: BTreeMap<(String, String), Instant>,
}

impl Seen {
    fn read(place: &Place, etcd: &Etcd) -> Result<Seen> {
        let (views, revision) = pools::read(place, etcd)?;
        let mut seen = Seen { views, revision, since: BTreeMap::new() };
        seen.ages();
        Ok(seen)
    }

    /// What changes in so much time.
    fn follow(&mut self, place: &Place, etcd: &Etcd, interval: Duration) -> Result<()> {
        let until = Instant::now() + interval;
        let Ok(mut stream) = etcd.watch(&[place.space().pools()], self.revision + 1) else {
            return self.again(place, etcd);
        };
        if self.told(place, &mut stream, until) {
            return Ok(());
        }
        // One that ends each watch at once is not asked more often than that.
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        self.again(place, etcd)
    }

    /// What a watch tells until then; answers whether it goes on.
    fn told(&mut self, place: &Place, stream: &mut impl Watch, until: Instant) -> bool {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Also where there is always more.
            if left.is_zero() {
                return true;
            }
            match stream.next(Some(left)) {
                News::Changes(_, changes) => self.changed(place, &changes),
                News::Nothing => return true,
                News::Broken(_) | News::Forgotten(_) => return false,
            }
        }
    }

    /// Reads all of it again, and keeps what is known of ages.
    fn again(&mut self, place: &Place, etcd: &Etcd) -> Result<()> {
        (self.views, self.revision) = pools::read(place, etcd)?;
        self.ages();
        Ok(())
    }

    fn changed(&mut self, place: &Place, changes: &[Change]) {
        let space = place.space();
        for change in changes {
            let Some((pool, _)) = space.part(change.key()) else { continue };
            let view = self.views.entry(pool.to_owned()).or_default();
            view.follow(&space, pool, changes);
            self.revision = self.revision.max(change.revision());
        }
        self.views.retain(|_, view| view.object.is_some());
        self.ages();
    }

    fn ages(&mut self) {
        let now = Instant::now();
        let before = std::mem::take(&mut self.since);
        for (pool, view) in &self.views {
            for (_, id) in view.queue.keys() {
                let key = (pool.clone(), id.clone());
                let since = before.get(&key).copied().unwrap_or(now);
                self.since.insert(key, since);
            }
        }
    }

    /// For how long an object has been waited for, as far as is known.
    fn longest(&self, pool: &str, view: &View) -> Duration {
        let since = |id: &String| self.since.get(&(pool.to_owned(), id.clone())).map(Instant::elapsed);
        view.queue.keys().filter_map(|(_, id)| since(id)).max().unwrap_or_default()
    }

    /// Those that wait: how many places each has, for how long, and for what.
    fn processes(&self) -> BTreeMap<Process, (usize, Duration, String)> {
        let mut all: BTreeMap<Process, (usize, Duration, String)> = BTreeMap::new();
        for (pool, view) in &self.views {
            for ((_, id), waiting) in &view.queue {
                let Who { host, pid, label } = waiting.ticket.who.clone();
                let since = self.since.get(&(pool.clone(), id.clone())).map(Instant::elapsed).unwrap_or_default();
                let one = all.entry((host, pid, label)).or_insert((0, Duration::ZERO, pool.clone()));
                one.0 += 1;
                if since > one.1 {
                    (one.1, one.2) = (since, pool.clone());
                }
            }
        }
        all
    }

    fn as_text(&self, place: &Place, table: Table) -> String {
        let mut rows: Vec<[String; 5]> = Vec::new();
        let mut objects: Vec<(&String, &View)> = self.views.iter().collect();
        objects.sort_by_key(|(_, view)| std::cmp::Reverse(view.queue.len()));
        for (pool, view) in objects.into_iter().filter(|_| table == Table::Objects) {
            let Some(object) = view.object.map(|known| known.what) else { continue };
            let (waiting, longest) = (view.queue.len().to_string(), time::show(self.longest(pool, view)));
            let longest = if view.queue.is_empty() { String::new() } else { longest };
            rows.push([place.name(pool), object.kind().into(), waiting, longest, pools::standing(object, view)]);
        }
        let mut text = String::new();
        if table == Table::Objects {
            let titles = ["NAME", "KIND", "WAITING", "LONGEST", "STATE"].map(str::to_owned);
            let wide = |at: usize| rows.iter().chain([&titles]).map(|row| row[at].chars().count()).max().unwrap_or(0);
            let wide: [usize; 5] = std::array::from_fn(wide);
            for row in [&titles].into_iter().chain(&rows) {
                let [name, kind, waiting, longest, state] = row;
                let (a, b, c, d) = (wide[0], wide[1], wide[2], wide[3]);
                let _ = writeln!(text, "{name:a$}  {kind:b$}  {waiting:>c$}  {longest:>d$}  {state}");
            }
        }
        for ((host, pid, label), (waiting, longest, wants)) in self.processes() {
            let (label, longest, wants) = (plain(&label), time::show(longest), place.name(&wants));
            let _ = writeln!(
                text,
                "{} pid {pid} `{label}`: {waiting} waiting, longest {longest}, for {wants}",
                plain(&host)
            );
        }
        text
    }

    fn as_json(&self, place: &Place) -> String {
        let object = |(pool, view): (&String, &View)| {
            let mut row = pools::row(place, pool, view);
            row["longest_wait_seconds"] = json!(self.longest(pool, view).as_secs_f64());
            row
        };
        let objects: Vec<Value> = self.views.iter().map(object).collect();
        let process = |((host, pid, label), (waiting, longest, wants)): (Process, (usize, Duration, String))| {
            json!({ "host": host, "pid": pid, "label": label, "waiting": waiting,
                "longest_wait_seconds": longest.as_secs_f64(), "wants": place.name(&wants) })
        };
        let processes: Vec<Value> = self.processes().into_iter().map(process).collect();
        format!("{}\n", json!({ "objects": objects, "processes": processes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch that has the same news for ever.
    struct Always(fn() -> News);

    impl Watch for Always {
        fn next(&mut self, _: Option<Duration>) -> News {
            (self.0)()
        }
    }

    #[test]
    fn a_watch_that_always_has_more_or_has_ended_does_not_keep_the_table_back() {
        let place = Place::of(&["gpu".into()], Some("etcd://host/lab")).unwrap();
        let mut seen = Seen { views: BTreeMap::new(), revision: 0, since: BTreeMap::new() };
        let mut told = |news, until| seen.told(&place, &mut Always(news), until);
        assert!(told(|| News::Changes(0, vec![]), Instant::now()), "the time is up");
        assert!(!told(|| News::Broken(String::new()), Instant::now() + Duration::from_secs(3600)), "it has ended");
    }
}
