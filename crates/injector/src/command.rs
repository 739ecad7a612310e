//! What the program does: `chappe-injector control | sweep | soak | churn`.

mod home;
mod sweep;
mod words;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[cfg(feature = "rivals")]
use chappe_injector::rivals::{self, Churn};
use chappe_injector::soak::chaos::worker::Mistake;
use chappe_injector::soak::chaos::{self, Visit};
use chappe_injector::soak::churn::{self as slots, Slots};
use chappe_injector::soak::spaces::{self, Crowd};
use chappe_injector::soak::structures::{self, Mix};
use chappe_injector::soak::{self, Soak};
use chappe_injector::{cast, control, report, scenario, trial};

use home::Home;
use words::{number, refused, say};

const USAGE: &str = "\
usage: chappe-injector control                    are known mistakes caught?
                               [--every N] [--from K]
                                                  every N-th, from the K-th on (the first is 0), by deaths at each
                                                  instruction as well; all others in each state alone (1)
       chappe-injector sweep [--all]              kill in every state, and in every state who makes up for it; go on
                                                  from every instruction, of long paths from all that matter
                             [--share N]          go on from every N-th and all that matter, after every N-th death
                                                  another; what is long or like another is left out (the default: 100)
                             [--part N]           of all that make every N-th trial
                             [--doubles N]        after every N-th death another; 0: none
                             [--seed N]           which of so many
                             [--each]             kill at instructions, although most are one state
                             [--every N] [--from K]
                                                  of the operations every N-th, from the K-th on (the first is 0)
                             [--only WORDS]       operations whose `name, scene` contains WORDS
                             [--jobs N]           so many directors at once (1)
                             [--json]             one object a line
                             [--markdown FILE]    the table, and how it was made, as a page
       chappe-injector soak [--kills N]           random kills while jobs share pools (1000)
                            [--chappe PATH]       the chappe command (the one beside this program)
                            [--seed N]            where the random choices begin
       chappe-injector soak chaos [--minutes N | --kills N] [--seed N]
                                                  the same of a dozen processes that use everything, run out of
                                                  everything, fork, exec, are stopped and continued (1000 kills)
                                [--mistake NAME]  one that must be seen: forgetful, careless, generous, untidy, greedy
       chappe-injector soak churn [--uses N] [--stop SECONDS] [--seed N]
                                                  objects of all kinds in one small arena, made and removed until each slot
                                                  was used so often (1000), while workers are killed, and stopped for up to
                                                  so long (60)
                                  [--careless]    workers that change a mutex's data by halves: it must be seen
       chappe-injector soak spaces [--kills N] [--spaces N] [--seed N]
                                                  the same while workers in PID namespaces of their own, each the first of
                                                  its namespace, share a pool (1000 kills, 3 namespaces); needs root
       chappe-injector soak structures [--kills N] [--seed N]
                                                  the same while workers share a map, a stack, a monitor and helping
                                                  locks (1000 kills)
                                 [--careless]     workers that write a value in two steps: it must be seen
       chappe-injector churn [chappe|iceoryx2|python|all] [--kills N] [--rounds N] [--seed N] [--limit SECONDS]
                                                  the same storm over chappe and over others (all, 10 rounds of 1000, 10 s)
       chappe-injector churn control              a lock that no death gives back: it must be found wedged
status: 0 nothing found, 1 something found, 2 usage, 3 cannot be done here (ptrace refused, no chappe command)";

/// Nothing found, something found, asked wrongly, not possible here.
const STATUS: [u8; 4] = [0, 1, 2, 3];

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    trial::prepare();
    let status = match args.as_slice() {
        [scenario::REST] => {
            std::thread::sleep(Duration::from_secs(60));
            Ok(0)
        }
        [soak::JOB, home, ms, forks] => {
            let work = Duration::from_millis(ms.parse().unwrap_or(1));
            return ExitCode::from(cast::job(home.as_ref(), work, *forks == "fork") as u8);
        }
        [soak::HOLD, home, ms] => {
            let work = Duration::from_millis(ms.parse().unwrap_or(1));
            return ExitCode::from(cast::hold(home.as_ref(), work) as u8);
        }
        ["acquire", words @ ..] => {
            return ExitCode::from(cast::supervise_without_a_lease(words) as u8);
        }
        ["control", rest @ ..] => try_controls(rest),
        ["sweep", rest @ ..] => sweep::run(rest),
        ["soak", "chaos", rest @ ..] => run_the_chaos(rest),
        ["soak", "churn", rest @ ..] => soak_slots(rest),
        ["soak", "spaces", rest @ ..] => soak_spaces(rest),
        ["soak", "structures", rest @ ..] => soak_structures(rest),
        #[cfg(feature = "rivals")]
        ["churn", rest @ ..] => churn(rest),
        #[cfg(not(feature = "rivals"))]
        ["churn", ..] => Err("this was built without the feature `rivals`: `cargo xtask churn` has it".to_owned()),
        ["soak", rest @ ..] => run_soak(rest),
        _ => Err(String::new()),
    };
    ExitCode::from(match status {
        Ok(which) => STATUS[which],
        Err(why) => {
            eprintln!("{why}{}{USAGE}", if why.is_empty() { "" } else { "\n" });
            2
        }
    })
}

fn try_controls(args: &[&str]) -> Result<usize, String> {
    let asked = Options::read(args, &["--every", "--from"], &[])?;
    let (every, from) = (asked.number("--every", 1usize)?.max(1), asked.number("--from", 0usize)?);
    let mut missed = false;
    let home = Home::enter()?;
    say(&report::head());
    for (at, control) in control::all(&home.0).iter().enumerate() {
        if every > 1 && control.takes_luck() {
            continue;
        }
        let (tally, seen) = control.try_out(at % every == from % every);
        say(&report::row(&tally));
        if tally.refused {
            return Ok(refused());
        }
        say(if seen { "    as it must be" } else { "    NOT AS IT MUST BE: this injector proves nothing" });
        missed |= !seen;
    }
    Ok(usize::from(missed))
}

/// What a command was given, by name; nothing for what is only said.
struct Options<'a>(HashMap<&'a str, &'a str>);

impl<'a> Options<'a> {
    fn read(args: &[&'a str], valued: &[&str], said: &[&str]) -> Result<Options<'a>, String> {
        let (mut all, mut args) = (HashMap::new(), args.iter());
        while let Some(arg) = args.next() {
            let value = if valued.contains(arg) {
                args.next().ok_or_else(|| format!("{arg} needs a value"))?
            } else if said.contains(arg) {
                ""
            } else {
                return Err(format!("`{arg}` is not known here"));
            };
            all.insert(*arg, value);
        }
        Ok(Options(all))
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn number<T: FromStr>(&self, name: &str, otherwise: T) -> Result<T, String> {
        self.0.get(name).map_or(Ok(otherwise), |value| number(Some(value)))
    }

    fn seconds(&self, name: &str, otherwise: u64) -> Result<Duration, String> {
        Ok(Duration::from_secs(self.number(name, otherwise)?))
    }
}

/// How long a process of a soak may make no progress.
const LIMIT: Duration = Duration::from_secs(30);

fn run_soak(args: &[&str]) -> Result<usize, String> {
    let asked = Options::read(args, &["--kills", "--chappe", "--seed"], &[])?;
    let beside = std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("chappe");
    let chappe = asked.0.get("--chappe").map_or(beside, PathBuf::from);
    let (kills, seed) = (asked.number("--kills", 1000)?, asked.number("--seed", now())?);
    if !chappe.is_file() {
        eprintln!("there is no chappe command at {}: build it (`cargo build -p chappe-cli`)", chappe.display());
        return Ok(3);
    }
    let home = Home::make().map_err(|e| e.to_string())?;
    let soak = Soak { kills, chappe, home: home.0.clone(), seed, limit: LIMIT };
    let outcome = soak::soak(&soak).map_err(|e| e.to_string())?;
    say(&outcome.summary(seed));
    Ok(usize::from(!outcome.clean()))
}

fn soak_slots(args: &[&str]) -> Result<usize, String> {
    let asked = Options::read(args, &["--uses", "--stop", "--seed"], &["--careless"])?;
    let (uses, seed, careless) =
        (asked.number("--uses", 1000)?, asked.number("--seed", now())?, asked.has("--careless"));
    let stop = asked.seconds("--stop", 60)?;
    let _home = Home::enter()?;
    let sum = slots::soak(Slots { uses, stop, seed, limit: LIMIT, careless })?;
    say(&sum.summary(seed));
    Ok(usize::from(!sum.clean()))
}

fn soak_spaces(args: &[&str]) -> Result<usize, String> {
    let asked = Options::read(args, &["--kills", "--spaces", "--seed"], &[])?;
    let (kills, spaces, seed) =
        (asked.number("--kills", 1000)?, asked.number("--spaces", 3)?, asked.number("--seed", now())?);
    if !(1..=1000).contains(&spaces) {
        return Err(format!("--spaces {spaces}: between 1 and 1000"));
    }
    let _home = Home::enter()?;
    let crowd = Crowd { kills, spaces, seed, limit: LIMIT };
    let sum = spaces::soak(crowd)?;
    say(&sum.summary(crowd));
    Ok(usize::from(!sum.clean()))
}

fn soak_structures(args: &[&str]) -> Result<usize, String> {
    let asked = Options::read(args, &["--kills", "--seed"], &["--careless"])?;
    let (kills, seed, careless) =
        (asked.number("--kills", 1000)?, asked.number("--seed", now())?, asked.has("--careless"));
    let _home = Home::enter()?;
    let sum = structures::soak(Mix { kills, seed, limit: LIMIT, careless })?;
    say(&sum.summary(seed));
    Ok(usize::from(!sum.clean()))
}

fn run_the_chaos(args: &[&str]) -> Result<usize, String> {
    const FOR_EVER: u32 = 1 << 26;
    let asked = Options::read(args, &["--kills", "--minutes", "--seed", "--mistake"], &[])?;
    let timed = asked.has("--minutes");
    if timed && asked.has("--kills") {
        return Err("--minutes or --kills, not both".to_owned());
    }
    let kills = asked.number("--kills", if timed { u64::MAX / 4 } else { 1000 })?;
    let time = Duration::from_secs(60) * asked.number("--minutes", FOR_EVER)?;
    let named = |name: &&str| Mistake::named(name).ok_or(format!("no mistake is called `{name}`"));
    let (seed, mistake) = (asked.number("--seed", now())?, asked.0.get("--mistake").map(named).transpose()?);
    // A waiter for what a greedy one keeps need not wait for long.
    let limit = Duration::from_secs(if mistake.is_some() { 3 } else { 20 });
    let home = Home::make().map_err(|e| e.to_string())?;
    let sum = chaos::visit(&Visit { kills, time, seed, limit, home: home.0.clone(), mistake })?;
    say(&sum.summary(seed));
    Ok(usize::from(!sum.clean()))
}

#[cfg(feature = "rivals")]
fn churn(args: &[&str]) -> Result<usize, String> {
    let (who, rest) = match args {
        [who @ ("chappe" | "iceoryx2" | "python" | "all" | "control"), rest @ ..] => (*who, rest),
        rest => ("all", rest),
    };
    let asked = Options::read(rest, &["--kills", "--rounds", "--seed", "--limit"], &[])?;
    let (kills, rounds, seed) =
        (asked.number("--kills", 1000)?, asked.number("--rounds", 10)?, asked.number("--seed", now())?);
    let plan = Churn { kills, rounds, seed, limit: asked.seconds("--limit", 10)? };
    let home = Home::enter()?;
    rivals::churn(who, plan, &home.0, say).map(usize::from)
}

/// What no two runs begin with.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64)
}
