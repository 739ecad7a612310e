//! Completions: what may stand at the end of a command line.
//!
//! The shells' scripts, which `chappe completions` prints, are a few lines each. They call `chappe complete -- WORD...` with the words behind
//! `chappe`, the last of which is the one to complete, and get one candidate a line. A first line that begins with a colon is for the script:
//!
//! | line | meaning |
//! |---|---|
//! | `:command N` | a command of the shell begins at the Nth of the words: complete it as if it stood alone |
//! | `:files` | a file name |
//!
//! Commands and options come from the definition of the command line, so nothing is said twice; hidden ones are left out. Names come
//! from the arenas that are there.

use crate::args::{Cli, Shell};
use crate::look::called;
use chappe::{Arena, ObjectInfo, ObjectState};
use clap::{Arg, Command, CommandFactory};

/// The script for a shell.
pub fn script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => include_str!("complete/chappe.bash"),
        Shell::Zsh => include_str!("complete/chappe.zsh"),
        Shell::Fish => include_str!("complete/chappe.fish"),
    }
}

/// What a word can be the name of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Pools,
    Locks,
    Semaphores,
    Barriers,
    Tubes,
    Maps,
    Schemas,
    Terminals,
    Objects,
    Arenas,
}

/// The kind of names that a command's positional arguments are. The names of new objects are free.
fn names_of(path: &[&str]) -> Option<Names> {
    Some(match path {
        ["acquire" | "release"] | ["pool", "resize" | "rm"] => Names::Pools,
        ["lock"] => Names::Locks,
        ["sem", "up" | "down" | "value" | "rm"] => Names::Semaphores,
        ["barrier", "wait" | "abort" | "reset" | "rm"] => Names::Barriers,
        ["send" | "recv"] | ["tube", "seal" | "rm"] => Names::Tubes,
        ["map", "put" | "get" | "ls" | "delete" | "watch" | "rm"] => Names::Maps,
        ["schema", "show" | "rm"] => Names::Schemas,
        ["term", "show" | "send" | "wait" | "attach" | "log" | "rm" | "kill" | "resize"] => Names::Terminals,
        ["show" | "rm"] => Names::Objects,
        ["ls"] | ["arena", "rm"] => Names::Arenas,
        _ => return None,
    })
}

/// The candidates for the last of the words.
pub fn candidates(words: &[String]) -> Vec<String> {
    let Some((word, before)) = words.split_last() else { return Vec::new() };
    let root = Cli::command();
    let mut command = &root;
    let mut path = Vec::new();
    let mut options = true;
    let mut value_of: Option<&Arg> = None;
    for (at, done) in before.iter().enumerate() {
        if value_of.take().is_some() {
            continue;
        }
        let takes_command = command.get_positionals().any(|a| a.is_last_set() || a.is_trailing_var_arg_set());
        if done == "--" {
            if takes_command {
                return vec![format!(":command {}", at + 1)];
            }
            options = false;
        } else if options && done.starts_with('-') {
            value_of = option_named(&root, command, done).filter(|a| takes_value(a) && !done.contains('='));
        } else if let Some(sub) = command.find_subcommand(done) {
            path.push(sub.get_name());
            command = sub;
        } else if command.get_positionals().any(Arg::is_trailing_var_arg_set) {
            return vec![format!(":command {at}")];
        }
    }
    let mut all = if let Some(option) = value_of {
        values(option)
    } else if options && word.starts_with('-') {
        options_of(&root, command)
    } else {
        let mut all: Vec<String> = subcommands(command);
        let is_on = |word: &String| word == "--on" || word.starts_with("--on=");
        // Names on an engine are its own; to ask it takes too long here.
        if !before.iter().any(is_on) {
            all.extend(names_of(&path).map(named).unwrap_or_default());
        }
        if all.is_empty() && command.get_positionals().any(Arg::is_trailing_var_arg_set) {
            return vec![format!(":command {}", before.len())];
        }
        for positional in command.get_positionals() {
            all.extend(positional.get_possible_values().iter().map(|v| v.get_name().to_owned()));
        }
        all
    };
    all.retain(|candidate| candidate.starts_with(word.as_str()) || candidate.starts_with(':'));
    all.sort();
    all
}

fn subcommands(command: &Command) -> Vec<String> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(|sub| sub.get_name().to_owned()).collect()
}

/// Arguments that are given by name: the command's own, and those that every command has.
fn named_arguments<'a>(root: &'a Command, command: &'a Command) -> impl Iterator<Item = &'a Arg> {
    let everywhere = root.get_arguments().filter(|a| a.is_global_set());
    command.get_arguments().chain(everywhere).filter(|a| !a.is_positional() && !a.is_hide_set())
}

fn options_of(root: &Command, command: &Command) -> Vec<String> {
    let mut all: Vec<String> =
        named_arguments(root, command).filter_map(|a| Some(format!("--{}", a.get_long()?))).collect();
    all.push("--help".into());
    all.sort();
    all.dedup();
    all
}

pub fn option_named<'a>(root: &'a Command, command: &'a Command, word: &str) -> Option<&'a Arg> {
    let long = word.strip_prefix("--").map(|rest| rest.split('=').next().unwrap_or(rest));
    let short = if long.is_none() { word.chars().nth(1).filter(|_| word.chars().count() == 2) } else { None };
    named_arguments(root, command)
        .find(|a| long.is_some_and(|l| a.get_long() == Some(l)) || short.is_some() && a.get_short() == short)
}

/// Whether its value is the next word.
pub fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn values(option: &Arg) -> Vec<String> {
    let possible: Vec<String> = option.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect();
    match option.get_id().as_str() {
        _ if !possible.is_empty() => possible,
        "pool" => named(Names::Pools),
        "retry" => named(Names::Terminals),
        "on" => ["etcd://", "etcds://"].map(String::from).into(),
        "share" => ["all", "group", "group:"].map(String::from).into(),
        _ => vec![":files".into()],
    }
}

/// What has such names. Arenas that cannot be looked at have none.
fn named(names: Names) -> Vec<String> {
    if names == Names::Terminals {
        return terminals();
    }
    let arenas = Arena::list().unwrap_or_default();
    if names == Names::Arenas {
        return arenas;
    }
    if names == Names::Schemas {
        return arenas.iter().flat_map(|arena| crate::schema::names(arena)).collect();
    }
    let is_wanted = |info: &ObjectInfo| match names {
        Names::Pools => matches!(info.state, ObjectState::Pool(_)),
        Names::Locks => matches!(info.state, ObjectState::RwLock { .. }),
        Names::Semaphores => matches!(info.state, ObjectState::Semaphore { .. }),
        Names::Barriers => info.kind == "barrier",
        Names::Tubes => matches!(info.state, ObjectState::Tube(_) | ObjectState::Broadcast(_)),
        Names::Maps => matches!(info.state, ObjectState::Map(_)),
        Names::Objects | Names::Schemas | Names::Arenas | Names::Terminals => true,
    };
    let objects = |arena: Arena| arena.objects().into_iter().filter(is_wanted).map(move |info| called(arena, &info));
    let all = arenas.iter().filter_map(|name| Arena::open(name).ok()).flat_map(objects);
    // `chappe show` and `chappe rm` take terminals, too.
    all.chain(if names == Names::Objects { terminals() } else { Vec::new() }).collect()
}

#[cfg(feature = "term")]
fn terminals() -> Vec<String> {
    crate::term::names()
}

#[cfg(not(feature = "term"))]
fn terminals() -> Vec<String> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> Vec<String> {
        candidates(&line.split(' ').map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn commands_and_options_are_those_that_the_help_shows() {
        let all = after("");
        assert!(all.contains(&"acquire".to_owned()) && all.contains(&"tube".to_owned()));
        for hidden in ["keep", "man", "complete"] {
            assert!(!all.contains(&hidden.to_owned()), "{hidden}");
        }
        assert_eq!(after("sem u"), ["up"]);
        assert_eq!(after("acquire --ti"), ["--timeout"]);
        assert_eq!(after("acquire --js"), ["--json"]);
        assert_eq!(after("tube create t --kind s"), ["spmc", "spsc"]);
        assert_eq!(after("completions b"), ["bash"]);
        assert_eq!(after("acquire --on "), ["etcd://", "etcds://"]);
        assert_eq!(after("ls --o"), ["--on"]);
    }

    #[test]
    fn a_command_of_the_shell_begins_behind_the_dashes() {
        assert_eq!(after("acquire gpu -- "), [":command 3"]);
        assert_eq!(after("acquire -n 2 gpu -- make -"), [":command 5"]);
        assert_eq!(after("run "), [":command 1"]);
        assert_eq!(after("run --owned python3 x"), [":command 2"]);
        assert_eq!(after("acquire --timeout "), [":files"]);
    }
}
