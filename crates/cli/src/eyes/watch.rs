//! `chappe watch EXPR -- COMMAND`: runs a command when something holds.
//!
//! ```text
//!   expr    = all { "or" all }
//!   all     = compare { "and" compare }
//!   compare = OBJECT "." FIGURE ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) NUMBER [ "for" DURATION ]
//! ```
//!
//! NUMBER may be a duration (`30s`), which is seconds. A comparison of an object that is not there is false. With `for`, a comparison holds
//! once it has been true at each look for so long. The command runs each time that the expression becomes true. What can make no
//! comparison true as things are (no such object, a figure that its kind does not have) is said once, and waited for: it may come.

use super::figures::{self, ALL, Figure, Sort};
use super::snapshot::Snapshot;
use crate::args::Job;
use crate::args::watch::Watch;
use crate::ended::as_it_did;
use crate::said::{Failure, complain};
use crate::signals::{self, Set};
use crate::supervise;
use crate::time::{Grace, parse};
use crate::under::Under;
use anyhow::{Result, anyhow, bail, ensure};
use std::time::{Duration, Instant};

/// One comparison, and since when it has been true.
struct Compare {
    object: String,
    figure: &'static Figure,
    holds: fn(f64, f64) -> bool,
    number: f64,
    lasting: Duration,
    since: Option<Instant>,
    /// What it lacks was said.
    is_said: bool,
}

/// An expression: one of these must have all comparisons true.
pub struct Expr(Vec<Vec<Compare>>);

fn comparison(sign: &str) -> Option<fn(f64, f64) -> bool> {
    Some(match sign {
        "<" => |a, b| a < b,
        "<=" => |a, b| a <= b,
        ">" => |a, b| a > b,
        ">=" => |a, b| a >= b,
        "==" | "=" => |a, b| a == b,
        "!=" => |a, b| a != b,
        _ => return None,
    })
}

/// Puts a space around each sign of comparison.
fn spaced(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let sign = ["<=", ">=", "==", "!="].into_iter().find(|s| rest.starts_with(s));
        match (sign, c) {
            (Some(sign), _) => {
                out += &format!(" {sign} ");
                rest = &rest[2..];
            }
            (None, '<' | '>' | '=') => {
                out += &format!(" {c} ");
                rest = &rest[1..];
            }
            (None, _) => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

impl Expr {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, and what would do.
    pub fn read(text: &str) -> Result<Expr> {
        let spaced = spaced(text);
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let mut any = Vec::new();
        for all in words.split(|w| *w == "or") {
            let all: Result<Vec<Compare>> = all.split(|w| *w == "and").map(|one| Compare::read(one, text)).collect();
            any.push(all?);
        }
        Ok(Expr(any))
    }

    /// Whether it holds now. Every comparison is looked at, so that each knows since when it is true.
    fn holds(&mut self, snapshot: &Snapshot) -> bool {
        let mut any = false;
        for all in &mut self.0 {
            let mut every = true;
            for one in all {
                every &= one.holds(snapshot);
            }
            any |= every;
        }
        any
    }

    /// What comparisons lack, each told once.
    fn lacks(&mut self, snapshot: &Snapshot) -> Vec<String> {
        self.0.iter_mut().flatten().filter_map(|one| one.lacks(snapshot)).collect()
    }

    /// The only arena that it speaks of, if it is one.
    fn arena(&self) -> Option<String> {
        let mut names = self.0.iter().flatten().map(|c| crate::look::split(&c.object).0.to_owned());
        let first = names.next()?;
        names.all(|other| other == first).then_some(first)
    }
}

impl Compare {
    fn read(words: &[&str], text: &str) -> Result<Compare> {
        let (what, sign, number, lasting) = match words {
            [what, sign, number] => (what, sign, number, Duration::ZERO),
            [what, sign, number, "for", lasting] => (what, sign, number, parse(lasting).map_err(|e| anyhow!(e))?),
            _ => bail!("`{text}`: write OBJECT.FIGURE > NUMBER [for DURATION], joined by `and` and `or`"),
        };
        let known = || ALL.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
        let (object, figure) = what
            .rsplit_once('.')
            .filter(|(object, _)| !object.is_empty())
            .ok_or_else(|| anyhow!("`{what}`: write OBJECT.FIGURE, such as gpu.waiting; figures are {}", known()))?;
        let figure =
            figures::find(figure).ok_or_else(|| anyhow!("`{figure}` is no figure; figures are {}", known()))?;
        let holds = comparison(sign).ok_or_else(|| anyhow!("`{sign}`: compare with <, <=, >, >=, == or !="))?;
        let number: f64 = match number.parse() {
            Ok(number) => number,
            Err(_) => {
                parse(number).map_err(|_| anyhow!("`{number}` is neither a number nor a duration"))?.as_secs_f64()
            }
        };
        ensure!(number.is_finite(), "`{number}` is not a number to compare with");
        Ok(Compare { object: object.to_owned(), figure, holds, number, lasting, since: None, is_said: false })
    }

    fn holds(&mut self, snapshot: &Snapshot) -> bool {
        let value = snapshot.objects.iter().find(|o| o.name == self.object).and_then(|o| (self.figure.of)(o));
        if !value.is_some_and(|v| (self.holds)(v, self.number)) {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(snapshot.at);
        snapshot.at.duration_since(since) >= self.lasting
    }

    fn lacks(&mut self, snapshot: &Snapshot) -> Option<String> {
        let Compare { object, figure, .. } = self;
        let why = match snapshot.objects.iter().find(|o| o.name == *object) {
            None => format!("there is no object `{object}` now: this waits until there is"),
            // The first look has no rates.
            Some(o) if (figure.of)(o).is_none() && (figure.sort != Sort::Rate || !o.has_rates()) => {
                let (figure, all) = (figure.name, ALL.iter().filter(|f| (f.of)(o).is_some()));
                let all = all.map(|f| f.name).collect::<Vec<_>>().join(", ");
                format!("`{object}` has no figure `{figure}`, so the comparison stays false; it has {all}")
            }
            Some(_) => return None,
        };
        (!std::mem::replace(&mut self.is_said, true)).then_some(why)
    }
}

fn failure(status: u8, why: anyhow::Error) -> Failure {
    Failure { status, why }
}

/// Runs it. `file_size`: SIGXFSZ had its default action when chappe started.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(a: &Watch, json: bool, file_size: bool) -> Result<u8, Failure> {
    let mut expr = Expr::read(&a.expr).map_err(|e| failure(125, e))?;
    let arena = expr.arena();
    let begun = Instant::now();
    let (mut before, mut held, mut said) = (None::<Snapshot>, false, String::new());
    loop {
        let now = match Snapshot::take(arena.as_deref(), before.as_ref()) {
            Ok(now) => Some(now),
            // The arena may come; what is wrong is said once.
            Err(e) => {
                let text = e.to_string();
                if said != text {
                    complain(json, &text);
                    said = text;
                }
                None
            }
        };
        let holds = now.as_ref().is_some_and(|now| expr.holds(now));
        now.iter().flat_map(|now| expr.lacks(now)).for_each(|text| complain(json, &text));
        if holds && !held {
            let status = command(a, json, file_size)?;
            if a.once {
                return Ok(status);
            }
        }
        // Of an earlier run.
        supervise::bury();
        held = holds;
        before = now;
        let left = a.timeout.map(|most| (most, most.saturating_sub(begun.elapsed())));
        if let Some((most, Duration::ZERO)) = left {
            let most = crate::time::show(most);
            return Err(failure(124, anyhow!("`{}` did not become true within {most}", a.expr)));
        }
        // The last look is when the time is up.
        let pause = a.interval.max(Duration::from_millis(10));
        std::thread::sleep(left.map_or(pause, |(_, left)| pause.min(left)));
    }
}

/// Runs the command to its end. A signal that comes meanwhile is the command's, and ends this behind it.
fn command(a: &Watch, json: bool, file_size: bool) -> Result<u8, Failure> {
    let before = Set::blocked_now();
    let under = Under {
        command: &a.command,
        environment: vec![("CHAPPE_WATCH", a.expr.clone().into())],
        lease: None,
        object: "",
        line: None,
        beside: None,
        // In this group: what the terminal sends ends both.
        how: &Job { grace: Grace(None), foreground: true, close: true },
        json,
        file_size,
    };
    let ran = under.run()?;
    if let Some(signal) = ran.asked.filter(|_| !a.once) {
        signals::die_by(signal);
    }
    // What came behind the command's end ends this now.
    before.set();
    if a.once {
        return Ok(as_it_did(ran.ended, None));
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        match Expr::read(text) {
            Ok(_) => panic!("{text} was read"),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn expressions_are_read() {
        let e = Expr::read("lab/gpu.0.waiting>0 for 30s and jobs.fill >= 0.9 or jobs.longest_wait>5m").unwrap();
        let shape: Vec<usize> = e.0.iter().map(Vec::len).collect();
        assert_eq!(shape, [2, 1]);
        let first = &e.0[0][0];
        assert_eq!((first.object.as_str(), first.figure.name), ("lab/gpu.0", "waiting"));
        assert_eq!(first.lasting, Duration::from_secs(30));
        assert_eq!(e.0[1][0].number, 300.0);
        assert_eq!(e.arena(), None);
        assert_eq!(Expr::read("gpu.free == 0").unwrap().arena().as_deref(), Some("default"));
    }

    #[test]
    fn nonsense_is_refused_with_what_would_do() {
        assert!(wrong("").contains("OBJECT.FIGURE"));
        assert!(wrong("gpu > 1").contains("gpu.waiting"));
        assert!(wrong("gpu.speed > 1").contains("figures are waiting,"));
        assert!(wrong("gpu.waiting ~ 1").contains("compare with"));
        assert!(wrong("gpu.waiting > many").contains("neither a number"));
        assert!(wrong("gpu.waiting > nan").contains("not a number"));
        assert!(wrong("gpu.waiting > 1 for ever").contains("not a duration"));
        assert!(wrong("gpu.waiting > 1 and").contains("OBJECT.FIGURE"));
    }
}
