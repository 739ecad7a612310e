//! The tables of `chappe top`: objects, processes that wait, pipes, light threads. Rows as text, without a terminal.

pub use crate::args::top::View;
use crate::eyes::figures;
use crate::eyes::light::LightSeen;
use crate::eyes::pipes::PipeSeen;
use crate::eyes::snapshot::{Process, Seen};
use crate::eyes::terminals::TerminalSeen;
use crate::look::{plain, state_text, who_text};
use crate::time;
use chappe::ObjectState;

/// The head of the objects' table.
const TITLES: [&str; 6] = ["NAME", "KIND", "WAITING", "LONGEST", "PER S", "STATE"];

impl View {
    /// The heads of its columns.
    pub fn titles(self) -> &'static [&'static str] {
        match self {
            View::Objects => &TITLES,
            View::Processes => &["PID", "WAITING", "LIGHT", "LONGEST", "FOR", "WHAT"],
            View::Pipes => &["PIPE", "FULL", "BYTES", "PER S", "STATE"],
            View::Light => &["PID", "THREADS", "RUNNING", "READY", "WAITING", "OTHER", "WHAT"],
            View::Terminals => &["NAME", "STATE", "AGE", "WRITTEN", "PER S", "COMMAND"],
        }
    }

    /// Columns of numbers: to the right.
    pub fn is_number(self, column: usize) -> bool {
        match self {
            View::Objects => (2..5).contains(&column),
            View::Processes => column < 4,
            View::Pipes => (1..4).contains(&column),
            View::Light => column < 6,
            View::Terminals => (2..5).contains(&column),
        }
    }
}

/// An object's cells of the table.
pub fn cells(o: &Seen) -> [String; 6] {
    let some = |n: usize| if n == 0 { String::new() } else { n.to_string() };
    let longest = if o.waiters.is_empty() { String::new() } else { time::show(o.longest_wait()) };
    let rate = o.rates.most().map_or_else(String::new, per_second);
    let mut state = state_text(&o.info.state);
    if let Some(behind) = behind_text(&o.info.state) {
        state += &format!(", {behind}");
    }
    [plain(&o.name), o.info.kind.to_owned(), some(o.waiters.len()), longest, rate, plain(&state)]
}

/// "behind: pid 4242 `reader`, by 12"; of a tube from which several receive together no process can be named.
pub fn behind_text(state: &ObjectState) -> Option<String> {
    let (who, by) = match state {
        ObjectState::Broadcast(t) => figures::behind(t).map(|s| (&s.who, s.messages as usize))?,
        ObjectState::Tube(t) if t.messages > 0 && t.receivers.len() == 1 => (&t.receivers[0], t.messages),
        _ => return None,
    };
    Some(format!("behind: {}, by {by}", who_text(who)))
}

/// "1234", "56.1k", "7.8M".
pub fn per_second(rate: f64) -> String {
    match rate {
        r if r < 10_000.0 => format!("{r:.0}"),
        r if r < 1e6 => format!("{:.1}k", r / 1e3),
        r => format!("{:.1}M", r / 1e6),
    }
}

fn some(n: u32) -> String {
    if n == 0 { String::new() } else { n.to_string() }
}

/// Of a process that waits.
pub fn process(p: &Process) -> Vec<String> {
    let (pid, waiting) = (p.pid.to_string(), p.waiting.to_string());
    vec![pid, waiting, some(p.light as u32), time::show(p.longest), plain(&p.wants), plain(&p.label)]
}

/// "512", "1.5K", "64K".
pub fn bytes(n: u64) -> String {
    match n {
        n if n < 1024 => n.to_string(),
        n if n >= 10 << 20 => format!("{}M", n >> 20),
        n if n % 1024 == 0 => format!("{}K", n / 1024),
        n => format!("{:.1}K", n as f64 / 1024.0),
    }
}

/// Of a pipe.
pub fn pipe(p: &PipeSeen) -> Vec<String> {
    let full = p.share().map_or_else(|| "?".to_owned(), |share| format!("{:.0}%", 100.0 * share));
    let within = p.fill.map_or_else(String::new, |(n, _)| bytes(n.into()));
    vec![plain(&p.title()), full, within, p.rate.map_or_else(String::new, per_second), p.state().to_owned()]
}

/// Of a process with light threads.
pub fn light(l: &LightSeen) -> Vec<String> {
    let [running, ready, waiting, blocking, suspended] = l.states;
    let numbers = [running, ready, waiting, blocking + suspended].map(some);
    let mut row = vec![l.pid.to_string(), l.count().to_string()];
    row.extend(numbers);
    row.push(plain(&l.name));
    row
}

/// Of a terminal.
pub fn terminal(t: &TerminalSeen) -> Vec<String> {
    let rate = t.rate.map_or_else(String::new, per_second);
    vec![plain(&t.name), t.state.clone(), time::show(t.age), bytes(t.written), rate, plain(&t.command)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_fits_its_head() {
        let pipe =
            pipe(&PipeSeen { inode: 7, fill: Some((65_536, 65_536)), writers: vec![], readers: vec![], rate: None });
        assert_eq!(pipe, ["nobody | nobody", "100%", "64K", "", "flows"]);
        let light = light(&LightSeen { pid: 9, name: "a\x1bb".into(), states: [1, 0, 3, 1, 1], lines: vec![] });
        assert_eq!((light.len(), light[1].as_str(), light[5].as_str()), (View::Light.titles().len(), "6", "2"));
        assert!(!light[6].contains('\x1b'));
        assert_eq!((bytes(1536), bytes(20 << 20)), ("1.5K".into(), "20M".into()));
    }
}
