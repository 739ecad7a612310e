//! Which names are on other machines, and what is done with them: by `crate::remote`, where this build has it.

use crate::args::metrics::Metrics;
use crate::args::term::TermCommand;
use crate::args::top::Top;
use crate::args::{BarrierCommand, Cli, Command, MapCommand, PoolCommand, SchemaCommand, SemCommand, TubeCommand};
use crate::built;
use anyhow::{Result, bail};

const ONE: &str = "it is about the memory of one machine";
const MAP: &str = "a map is in the memory of one machine; an engine has pools, mutexes, semaphores and tubes";

/// The names of a command, and why those of other machines are not for it; `None`: they are.
fn names(command: &Command) -> (Vec<&str>, Option<&'static str>) {
    const ORDER: &str = "on an engine waiters are served in the order of arrival: leave --priority and --barging out";
    match command {
        Command::Acquire(a) => (a.pools.iter().map(String::as_str).collect(), (a.priority > 0).then_some(ORDER)),
        Command::Pool(PoolCommand::Create { names, order, .. }) => (many(names), order.priority.then_some(ORDER)),
        Command::Pool(PoolCommand::Rm { names, .. }) | Command::Rm { names, .. } => (many(names), None),
        Command::Pool(PoolCommand::Resize { name, .. })
        | Command::Show { name, .. }
        | Command::Release { name, .. } => (one(name), None),
        Command::Ls { arena: all }
        | Command::Doctor { engine: all }
        | Command::Top(Top { arena: all, .. })
        | Command::Metrics(Metrics { arena: all, .. }) => (all.iter().map(String::as_str).collect(), None),
        Command::Lock(a) => {
            let why = "a lock that many jobs share has no engine's counterpart: a pool of one permit is a lock alone, `chappe acquire` takes it";
            (one(&a.name), Some(why))
        }
        Command::Jobserver(a) => {
            let why = "a build asks for slots thousands of times a minute, and an engine answers in milliseconds: take so many permits at once, \
                       `chappe acquire -n 8 @REMOTE/POOL -- chappe jobserver --permits 8 -- make -j`";
            (a.pool.iter().map(String::as_str).collect(), Some(why))
        }
        Command::Send(a) => (one(&a.name), None),
        Command::Recv(a) => (a.names.iter().map(String::as_str).collect(), None),
        Command::Sem(command) => {
            let in_order = match command {
                SemCommand::Create { barging, order, .. } => !barging && !order.priority,
                SemCommand::Down { priority, .. } => *priority == 0,
                _ => true,
            };
            (sem(command), (!in_order).then_some(ORDER))
        }
        Command::Tube(command) => (tube(command), None),
        Command::Map(command) => (map(command), Some(MAP)),
        Command::Barrier(command) => (barrier(command), Some("the parties of a barrier are processes of one machine")),
        Command::Schema(command) => (schema(command), Some(ONE)),
        Command::Term(command) => (term(command), Some("a terminal and its command are on one machine")),
        Command::Watch(a) => (one(&a.expr), Some("it looks at this machine; `chappe metrics` has an engine's figures")),
        Command::Run(_) | Command::Pipe(_) | Command::Arena(_) | Command::Threads(_) => (vec![], Some(ONE)),
        _ => (vec![], Some("it is about this machine")),
    }
}

fn one(name: &str) -> Vec<&str> {
    vec![name]
}

fn sem(command: &SemCommand) -> Vec<&str> {
    match command {
        SemCommand::Create { names, .. } | SemCommand::Rm { names, .. } => many(names),
        SemCommand::Up { name, .. } | SemCommand::Down { name, .. } | SemCommand::Value { name } => vec![name],
    }
}

fn many(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn map(command: &MapCommand) -> Vec<&str> {
    match command {
        MapCommand::Create { names, .. } | MapCommand::Rm { names, .. } => many(names),
        MapCommand::Put { name, .. }
        | MapCommand::Get { name, .. }
        | MapCommand::Ls { name }
        | MapCommand::Delete { name, .. }
        | MapCommand::Watch { name, .. } => vec![name],
    }
}

fn barrier(command: &BarrierCommand) -> Vec<&str> {
    match command {
        BarrierCommand::Create { names, .. }
        | BarrierCommand::Abort { names }
        | BarrierCommand::Reset { names }
        | BarrierCommand::Rm { names, .. } => many(names),
        BarrierCommand::Wait { name, .. } => vec![name],
    }
}

fn schema(command: &SchemaCommand) -> Vec<&str> {
    match command {
        SchemaCommand::Create { name, .. } | SchemaCommand::Show { name } => vec![name],
        SchemaCommand::Ls { arena } => arena.iter().map(String::as_str).collect(),
        SchemaCommand::Rm { names } => many(names),
    }
}

fn term(command: &TermCommand) -> Vec<&str> {
    match command {
        TermCommand::Run { name, .. }
        | TermCommand::Show { name, .. }
        | TermCommand::Log { name, .. }
        | TermCommand::Send { name, .. }
        | TermCommand::Wait { name, .. }
        | TermCommand::Attach { name, .. }
        | TermCommand::Kill { name, .. }
        | TermCommand::Resize { name, .. } => vec![name],
        TermCommand::Rm { names, .. } => many(names),
        TermCommand::Ls => vec![],
    }
}

fn tube(command: &TubeCommand) -> Vec<&str> {
    match command {
        TubeCommand::Create { names, .. } | TubeCommand::Rm { names, .. } => many(names),
        TubeCommand::Seal { name } => vec![name],
    }
}

/// Whether a name is one of another machine's.
pub fn is_remote(name: &str) -> bool {
    name.starts_with('@')
}

/// Whether the command's names are on other machines.
///
/// # Errors
/// That they cannot be, that some are and some are not, or that this build knows no other machine.
pub fn asked(cli: &Cli) -> Result<bool> {
    let (names, refused) = names(&cli.command);
    let (there, here): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| is_remote(name));
    if let (Some(name), Some(_)) = (there.first(), &cli.on) {
        bail!("`{name}` says which engine it is on, and --on too: leave one out");
    }
    if there.is_empty() && cli.on.is_none() {
        return Ok(false);
    }
    if let Some(why) = refused {
        let what = there.first().map_or_else(|| "--on".to_owned(), |name| format!("`{name}`"));
        bail!("{what} is not possible here: {why}");
    }
    if let (Some(there), Some(here), None) = (there.first(), here.first(), &cli.on) {
        bail!(
            "`{there}` is on an engine and `{here}` on this machine: one choice cannot have both. To have both at once, take the remote one \
             first: `chappe acquire {there} -- chappe acquire {here} -- COMMAND`"
        );
    }
    built::need("remote")?;
    Ok(true)
}
