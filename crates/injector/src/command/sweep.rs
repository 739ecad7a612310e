//! `chappe-injector sweep`: which operations, by how many directors, and where the table goes.

use std::path::PathBuf;
use std::process::Command;

use chappe_injector::scenario::{self, Case};
use chappe_injector::{Plan, Scenario, Tally, crew, repeat, report, sweep, trial};

use super::home::Home;
use super::words::{number, refused, say};

/// What is asked for.
struct Asked {
    plan: Plan,
    only: String,
    /// Of the operations every so-manieth, from this one on.
    every: usize,
    from: usize,
    json: bool,
    jobs: usize,
    markdown: Option<PathBuf>,
}

impl Asked {
    fn read(args: &[&str]) -> Result<Asked, String> {
        let (plan, only) = (Plan::share(100), String::new());
        let mut asked = Asked { plan, only, every: 1, from: 0, json: false, jobs: 1, markdown: None };
        let (mut each, mut seed, mut part, mut doubles) = (false, 0, 1, None);
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--all" => asked.plan = Plan::all(),
                "--share" => asked.plan = Plan::share(number(args.next())?),
                "--each" => each = true,
                "--part" => part = number(args.next())?,
                "--doubles" => doubles = Some(number(args.next())?),
                "--seed" => seed = number(args.next())?,
                "--only" => asked.only = (*args.next().ok_or("--only needs words")?).to_owned(),
                "--every" => asked.every = number(args.next())?,
                "--from" => asked.from = number(args.next())?,
                "--json" => asked.json = true,
                "--jobs" => asked.jobs = number(args.next())?,
                "--markdown" => asked.markdown = Some(PathBuf::from(args.next().ok_or("--markdown needs a file")?)),
                other => return Err(format!("`{other}` is not known here")),
            }
        }
        let doubles = doubles.unwrap_or(asked.plan.doubles);
        asked.plan = Plan { each, seed, part, doubles, ..asked.plan };
        Ok(asked)
    }

    fn is_whole(&self) -> bool {
        self.plan.stride == 1
    }

    fn wants(&self, case: &Case) -> bool {
        if self.only.is_empty() {
            return self.is_whole() || !case.is_left_out();
        }
        format!("{}, {}", case.name(), case.scene()).contains(&self.only)
    }

    fn sweep(&self, case: &Case) -> Tally {
        if !case.led() {
            return repeat(case, if self.is_whole() { 200 } else { 10 }, self.plan);
        }
        sweep(case, self.plan)
    }

    fn say(&self, tally: &Tally) {
        say(&if self.json { report::json(tally) } else { report::row(tally) });
    }
}

/// Sweeps what the arguments name. Answers the status.
pub fn run(args: &[&str]) -> Result<usize, String> {
    let asked = Asked::read(args)?;
    // Where they lie does not matter for their names.
    let cases = scenario::all("".as_ref());
    let mut chosen: Vec<usize> = (0..cases.len()).filter(|at| asked.wants(&cases[*at])).collect();
    chosen = chosen.into_iter().skip(asked.from).step_by(asked.every.max(1)).collect();
    if chosen.is_empty() {
        return Err(format!("no operation is called `{}`", asked.only));
    }
    if !asked.json {
        say(&report::head());
    }
    let mut told: Vec<(usize, Tally)> = Vec::new();
    let mut hear = |at: usize, tally: Tally| {
        asked.say(&tally);
        told.push((at, tally));
    };
    if asked.jobs > 1 {
        // The longest first, so that all are done at about the same time: those that go on from each instruction.
        chosen.sort_by_key(|at| cases[*at].pause() != trial::Pause::Check);
        if let Err(why) = crew::work(asked.jobs, &chosen, || director(&asked), &mut hear) {
            eprintln!("{why}");
            return Ok(1);
        }
    } else {
        let mut sweep = director(&asked)?;
        for at in chosen {
            let tally = sweep(at);
            let refused = tally.refused;
            hear(at, tally);
            if refused {
                break;
            }
        }
    }
    told.sort_by_key(|(at, _)| *at);
    let told: Vec<Tally> = told.into_iter().map(|(_, tally)| tally).collect();
    let mut total = Tally::of_scenario("in all".to_owned(), String::new());
    told.iter().for_each(|tally| total.add(tally));
    if total.refused {
        return Ok(refused());
    }
    asked.say(&total);
    if let Some(file) = &asked.markdown {
        let page = report::markdown(&made(args), &told, &total);
        std::fs::write(file, page).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
    }
    Ok(usize::from(!total.clean()))
}

/// Makes this process a director, and gives what it does with an operation's number.
fn director(asked: &Asked) -> Result<impl FnMut(usize) -> Tally, String> {
    trial::prepare();
    let home = Home::enter()?;
    let cases = scenario::all(&home.0);
    // The directory goes with the director.
    Ok(move |at: usize| {
        let _home = &home;
        asked.sweep(&cases[at])
    })
}

/// When, of what, where and how a table was made.
fn made(args: &[&str]) -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1)).unwrap_or("unknown");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let changed = if said("git", &["status", "--porcelain"]).is_empty() { "" } else { " and what is not committed" };
    let commit = said("git", &["rev-parse", "--short", "HEAD"]);
    let command = args.join(" ");
    format!(
        "Made on {} by `cargo xtask kill-sweep {command}`, of commit {commit}{changed}. {processors} processors, \
         {model}; Linux {}; {}.",
        said("date", &["-u", "+%Y-%m-%d"]),
        kernel.trim(),
        said("rustc", &["--version"]),
    )
}

/// What a program says; nothing if it is not there.
fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
