//! The command `chappe`: pools of permits, semaphores and a job server for shell users.
//!
//! [`args`] says what can be written, [`acquire`] is the main job: it takes a permit, starts the job ([`job`]), stays
//! with it ([`supervise`]) and sees what it leaves behind ([`keep`]). [`jobserver`] gives a build's processes permits one
//! by one. [`list`] shows, [`eyes`] go on showing, [`change`] makes and removes, [`sem`] does all of that for semaphores.

mod acquire;
mod args;
#[cfg(test)]
mod asleep;
mod barrier;
mod built;
mod change;
mod complete;
mod elsewhere;
mod ended;
mod eyes;
mod family;
mod first;
mod format;
mod gpus;
#[cfg(all(feature = "graph", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod graph;
mod health;
mod interrupt;
mod job;
mod jobserver;
mod keep;
mod lab;
mod lateness;
mod line;
mod list;
mod lock;
mod look;
mod man;
mod map;
mod meant;
mod names;
mod notify;
mod pipe;
mod preload;
mod program;
mod progress;
mod query;
#[cfg(feature = "remote")]
mod remote;
mod said;
mod schema;
mod sem;
mod share;
mod signals;
mod size;
mod stream;
mod supervise;
mod take;
#[cfg(feature = "term")]
mod term;
mod terminal;
mod time;
mod tube;
mod under;
mod within;

use anyhow::anyhow;
use args::{ArenaCommand, Cli, Command, PoolCommand};
use said::{Failure, all_done, done, failed, print, tell, tell_failure, unwritten, write};
use std::process::ExitCode;

fn main() -> ExitCode {
    // If it was begun for a part of a graph, it does that alone.
    #[cfg(all(feature = "graph", any(target_arch = "x86_64", target_arch = "aarch64")))]
    chappe::stream::process::serve(&chappe::stream::Options::default());
    if let Some(status) = first::stay() {
        return status;
    }
    // It is started beside a command that waits for it: to read a command line takes as long as all else that it does then.
    #[cfg(feature = "remote")]
    if std::env::args_os().skip(1).eq(remote::keeper::KEEP) {
        remote::stay::keep();
        return ExitCode::SUCCESS;
    }
    // A file size limit is to be an error like any other.
    let file_size = signals::ignore(libc::SIGXFSZ);
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(e) => {
            let status = if e.use_stderr() { wrong_usage() } else { 0 };
            let words: Vec<String> =
                std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
            let e = meant::without_false_tip(meant::a_number(e, &words), &words);
            let meant = meant::by(&e, &words);
            if status != 0 && asks_for_json() {
                let text = e.to_string();
                let text = text.trim_start_matches("error: ").trim_end();
                tell_failure(&meant.map_or(text.to_owned(), |meant| format!("{meant}\n\n{text}")), status);
            } else if let Some(meant) = meant {
                tell(format_args!("chappe: {}", look::plain(&meant)));
            } else if let Err(e) = e.print()
                && status == 0
                && e.kind() != std::io::ErrorKind::BrokenPipe
            {
                return answer(Err(unwritten(&e)), asks_for_json());
            }
            return ExitCode::from(status);
        }
    };
    let json = cli.json;
    answer(run(cli, file_size), json)
}

/// The status, and what went wrong.
fn answer(result: Result<u8, Failure>, json: bool) -> ExitCode {
    match result {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            let text = look::chain(&failure.why);
            if json {
                tell_failure(&text, failure.status);
            } else {
                let lines: Vec<String> = text.lines().map(look::plain).collect();
                tell(format_args!("chappe: {}", lines.join("\n")));
            }
            ExitCode::from(failure.status)
        }
    }
}

/// Whether a command line that could not be parsed asks for JSON. What is behind `--` is the job's.
fn asks_for_json() -> bool {
    std::env::args_os().skip(1).take_while(|a| a != "--").any(|a| a == "--json")
}

/// What runs a command fails as env(1) does, also when it is misspelt.
fn wrong_usage() -> u8 {
    let word = std::env::args_os().skip(1).find(|a| !a.to_string_lossy().starts_with('-'));
    if word.is_some_and(|w| {
        w == "acquire" || w == "lock" || w == "jobserver" || w == "run" || w == "watch" || w == "submit"
    }) {
        125
    } else {
        2
    }
}

fn run(cli: Cli, file_size: bool) -> Result<u8, Failure> {
    let json = cli.json;
    let is_elsewhere = elsewhere::asked(&cli).map_err(|why| {
        let runs =
            matches!(cli.command, Command::Acquire(_) | Command::Lock(_) | Command::Jobserver(_) | Command::Run(_));
        Failure { status: if runs { ended::FAILED } else { 1 }, why }
    })?;
    #[cfg(feature = "remote")]
    if is_elsewhere {
        return remote::run(&cli, file_size);
    }
    // Without the part that was an error.
    let _ = is_elsewhere;
    match cli.command {
        Command::Acquire(a) => return acquire::run(&a, json, file_size),
        Command::Lock(a) => return lock::run(&a, json, file_size),
        Command::Gpus(a) => return gpus::run(&a, json),
        Command::Jobserver(a) => return jobserver::run(&a, json, file_size),
        Command::Run(a) => return preload::run(&a, json, file_size),
        Command::Pipe(a) => return pipe::run(&a, json, file_size),
        Command::Doctor { engine } => {
            let all = "it looks at all arenas, or by @REMOTE at an engine";
            engine
                .map_or(Ok(()), |name| Err(failed(anyhow!("`chappe doctor` takes no name such as `{name}`: {all}"))))?;
            chappe::Arena::sweep_families();
            return print(health::doctor(json));
        }
        Command::Ls { arena } => {
            // What no process has any more is not listed, and gone.
            chappe::Arena::sweep_families();
            return print(list::list(arena.as_deref(), json));
        }
        Command::Show { name, interval } => {
            let shown = list::show(&name, interval, json);
            #[cfg(feature = "term")]
            let shown = term::or_else(shown, &name, || term::overview::show(&name, json));
            return print(shown.map(|text| (text, 0)));
        }
        Command::Release { name, index, force } => done(change::release(&name, index, force), json),
        Command::Rm { names, force } => {
            let remove = |name: &str| {
                let done = change::remove(name, force);
                #[cfg(feature = "term")]
                let done = term::or_else(done, name, || term::remove(name));
                done
            };
            all_done(names::each(&names, remove), json)
        }
        Command::Sem(command) => return sem::run(&command, json),
        Command::Barrier(command) => return barrier::run(&command, json),
        Command::Tube(command) => all_done(tube::run(&command), json),
        Command::Map(command) => return map::run(&command, json),
        Command::Schema(command) => return schema::run(&command, json),
        #[cfg(all(feature = "graph", any(target_arch = "x86_64", target_arch = "aarch64")))]
        Command::Graph(command) => return graph::run(&command, json),
        #[cfg(all(not(feature = "graph"), any(target_arch = "x86_64", target_arch = "aarch64")))]
        Command::Graph(_) => built::need("graph").map_err(failed),
        #[cfg(feature = "term")]
        Command::Term(command) => return term::run(&command, json, file_size),
        #[cfg(feature = "term")]
        Command::Submit(a) => return term::submit(&a, json, file_size),
        #[cfg(not(feature = "term"))]
        Command::Term(_) | Command::Submit(_) => built::need("term").map_err(failed),
        Command::Send(a) => return stream::send(&a, json),
        Command::Query(a) => return query::run(&a, json),
        Command::Recv(a) => return stream::recv(&a, json),
        Command::Top(a) => {
            chappe::Arena::sweep_families();
            return eyes::top::run(&a, json);
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        Command::Threads(a) => return eyes::threads::run(&a, json),
        Command::Metrics(a) => {
            let text = || {
                let text = eyes::metrics::text(a.arena.as_deref())?;
                #[cfg(feature = "term")]
                let text = if a.arena.is_none() { text + &term::overview::metrics() } else { text };
                Ok(text)
            };
            return eyes::metrics::run(&a, text);
        }
        Command::Lateness(a) => return lateness::run(&a, json),
        Command::Lab { words } => return Err(lab::run(&words)),
        Command::Watch(a) => return eyes::watch::run(&a, json, file_size),
        Command::Pool(PoolCommand::Create { names, permits, mutex, order }) => {
            if mutex {
                return Err(failed(anyhow::anyhow!(
                    "--mutex is for an engine: on this machine `chappe lock` is a lock alone"
                )));
            }
            names::refuse_numbers(&names, "pool", "--permits N").map_err(failed)?;
            all_done(names::each(&names, |name| change::create_pool(name, permits, order.discipline())), json)
        }
        Command::Pool(PoolCommand::Resize { name, permits }) => done(change::resize_pool(&name, permits), json),
        Command::Pool(PoolCommand::Rm { names, force }) => {
            all_done(names::each(&names, |name| change::remove_pool(name, force)), json)
        }
        Command::Arena(ArenaCommand::Create { name, members, objects, cells, data, share }) => {
            let options = chappe::ArenaOptions { members, objects, cells, data };
            done(change::create_arena(&name, &options, share.as_ref()), json)
        }
        Command::Arena(ArenaCommand::Rm { name, force }) => done(change::remove_arena(&name, force), json),
        Command::Json => write(args::JSON.as_bytes()),
        Command::Completions { shell } => write(complete::script(shell).as_bytes()),
        Command::Complete { words } => {
            let lines: String = complete::candidates(&words).iter().map(|line| format!("{line}\n")).collect();
            write(lines.as_bytes())
        }
        Command::Man { directory: None } => {
            man::main_page().map_err(|e| failed(e.into())).and_then(|page| write(&page))
        }
        Command::Man { directory: Some(to) } => man::write_all(&to)
            .map_err(|e| failed(anyhow::anyhow!("cannot write manual pages into {}: {e}", to.display()))),
        Command::Keep(k) => {
            keep::keep(&k.pids, k.object.as_deref());
            Ok(())
        }
    }?;
    Ok(0)
}
