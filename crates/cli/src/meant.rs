//! What a command line that cannot be parsed was probably meant as: one that runs a command, where that command is missing; one that has a number,
//! where something else stands.

use crate::args::Cli;
use crate::complete::{option_named, takes_value};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error};
use std::error::Error as _;
use std::num::{IntErrorKind, ParseIntError};

/// A line to say under the error, if one helps. `words`: what stands behind `chappe`.
pub fn by(e: &Error, words: &[String]) -> Option<String> {
    let unknown = e.kind() == ErrorKind::UnknownArgument && !words.iter().any(|word| word == "--");
    let has = |option: &str| words.iter().any(|word| word.split('=').next() == Some(option));
    if e.kind() == ErrorKind::ArgumentConflict && has("--size") && has("--schema") {
        return Some(
            "--size is the most bytes of a record, and --schema says how many each has: leave --size out; --slots N is how many \
             records there is room for"
                .into(),
        );
    }
    if let Some(text) = of_flock(e, words) {
        return Some(text);
    }
    // An option that is missing is what clap says.
    let is_option = |argument: &String| argument.starts_with("--") && !argument.starts_with("-- ");
    let missing = match e.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) if !missing.iter().any(is_option) => missing.as_slice(),
        _ => &[],
    };
    if !(unknown || !missing.is_empty() && e.kind() == ErrorKind::MissingRequiredArgument) {
        return None;
    }
    let root = Cli::command();
    let at = words.iter().position(|word| !word.starts_with('-'))?;
    let command = root.find_subcommand(&words[at])?;
    let last = command
        .get_positionals()
        .find(|a| a.is_last_set() && (a.is_required_set() || command.get_name() == "submit"))?;
    let names = command.get_positionals().any(|a| !a.is_last_set());
    let mut options = vec![words[at].clone()];
    let mut others = Vec::new();
    let mut rest = words[at + 1..].iter().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            break;
        }
        let option = option_named(&root, command, word).filter(|_| word.starts_with('-'));
        // Behind the name there may be more of ours, if they are known.
        let is_ours = word.starts_with('-') && (others.is_empty() || option.is_some() || !unknown);
        if is_ours {
            options.push(quoted(word));
            let takes = option.is_some_and(takes_value) && !word.contains('=');
            options.extend(rest.next_if(|_| takes).map(|value| quoted(value)));
        } else if names && others.is_empty() {
            others.push(word.clone());
        } else {
            // What follows is the command's own, options included.
            others.push(word.clone());
            others.extend(rest.by_ref().take_while(|word| *word != "--").cloned());
            break;
        }
    }
    // Else it is an option that is misspelt.
    if unknown && others.get(usize::from(names)).is_none_or(|word| word.starts_with('-')) {
        return None;
    }
    let placeholder =
        last.get_value_names().and_then(|names| names.first()).map_or("COMMAND".into(), ToString::to_string);
    let (a, what) = if words[at] == "watch" { ("an", "EXPR") } else { ("a", "NAME") };
    let joined = |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let (name, run) = match (names, others.as_slice()) {
        (true, []) => (what.to_owned(), placeholder),
        (true, [name]) => (quoted(name), placeholder),
        (true, [name, run @ ..]) => (quoted(name), joined(run)),
        (false, run) => (String::new(), if run.is_empty() { placeholder } else { joined(run) }),
    };
    let the_command =
        words.iter().skip_while(|word| *word != "--").skip(1).map(|word| quoted(word)).collect::<Vec<_>>();
    let is_named_nowhere = names && others.is_empty() && !the_command.is_empty();
    let run = if is_named_nowhere { the_command.join(" ") } else { run };
    let line = [options.join(" "), name, "--".into(), run].into_iter().filter(|part| !part.is_empty());
    let line = line.collect::<Vec<_>>().join(" ");
    if is_named_nowhere {
        return Some(format!(
            "{a} {what} is to stand before `--`, and there is none (if a command was to name some: it named none): chappe {line}"
        ));
    }
    Some(format!("the command to run stands behind `--`: chappe {line}"))
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=,@%+".contains(c);
    if word == "{}" || !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// What flock(1) calls otherwise, or has no need of here.
const FLOCK: &[(&str, &str)] = &[
    ("-x", "to have the lock alone is what `chappe lock` does without --shared: leave -x out"),
    ("-e", "to have the lock alone is what `chappe lock` does without --shared: leave -e out"),
    ("--exclusive", "to have the lock alone is what `chappe lock` does without --shared: leave --exclusive out"),
    ("-c", "a shell's command stands behind `--`: chappe lock NAME -- sh -c 'COMMAND'"),
    ("--command", "a shell's command stands behind `--`: chappe lock NAME -- sh -c 'COMMAND'"),
    ("-o", "it is --close here"),
    ("-E", "the exit status is always 124 here where the lock was not to be had in time"),
    ("--conflict-exit-code", "the exit status is always 124 here where the lock was not to be had in time"),
    ("-u", "the lock is a command's here, and is given back when that has ended: there is nothing to unlock"),
    ("--unlock", "the lock is a command's here, and is given back when that has ended: there is nothing to unlock"),
    ("-F", "chappe stays beside the command, so that a killed one loses nothing: there is no --no-fork"),
    ("--no-fork", "chappe stays beside the command, so that a killed one loses nothing: there is no --no-fork"),
    ("--verbose", "--json says how long it waited"),
];

fn of_flock(e: &Error, words: &[String]) -> Option<String> {
    let is_lock = words.iter().find(|word| !word.starts_with('-')).is_some_and(|word| word == "lock");
    let Some(ContextValue::String(argument)) = e.get(ContextKind::InvalidArg) else { return None };
    let (_, text) =
        FLOCK.iter().find(|(there, _)| is_lock && e.kind() == ErrorKind::UnknownArgument && argument == there)?;
    Some(format!("`{argument}` is an option of flock: {text}"))
}

/// Without the tip to write an option behind `--`, where what stands there is a command.
pub fn without_false_tip(mut e: Error, words: &[String]) -> Error {
    let root = Cli::command();
    let word = words.iter().find(|word| !word.starts_with('-'));
    let runs = word
        .and_then(|word| root.find_subcommand(word))
        .is_some_and(|command| command.get_positionals().any(clap::Arg::is_last_set));
    if let Some(ContextValue::StyledStrs(tips)) = e.get(ContextKind::Suggested)
        && runs
    {
        let tips: Vec<StyledStr> =
            tips.iter().filter(|tip| !tip.to_string().contains("as a value, use")).cloned().collect();
        e.remove(ContextKind::Suggested);
        if !tips.is_empty() {
            e.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    e
}

/// Where a number is wanted and none is there: the error says so, and of what, instead of what the parser of numbers says of its text.
pub fn a_number(e: Error, words: &[String]) -> Error {
    let Some(number) = e.source().and_then(|s| s.downcast_ref::<ParseIntError>()) else { return e };
    let wanted = match number.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "a smaller whole number",
        _ => "a whole number",
    };
    let Some(ContextValue::String(name)) = e.get(ContextKind::InvalidArg) else { return e };
    let mut root = Cli::command();
    root.build();
    let named = words.iter().filter(|word| !word.starts_with('-'));
    let mut commands = named.scan(&root, |at, word| at.find_subcommand(word).inspect(|next| *at = next));
    let command = commands.by_ref().last().unwrap_or(&root);
    let help = command.get_arguments().find(|a| a.to_string() == *name).and_then(|a| a.get_help());
    let tip = StyledStr::from(format!("write {wanted}{}", help.map(|h| format!(": {h}")).unwrap_or_default()));
    let mut explained = Error::new(ErrorKind::ValueValidation).with_cmd(command);
    for (kind, value) in e.context() {
        explained.insert(kind, value.clone());
    }
    explained.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    explained
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn meant(line: &str) -> Option<String> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        let e = Cli::try_parse_from(std::iter::once("chappe".to_owned()).chain(words.clone())).unwrap_err();
        by(&e, &words)
    }

    #[test]
    fn a_command_line_without_dashes_is_told_where_they_belong() {
        let says = |line, meant_as: &str| {
            assert_eq!(
                meant(line),
                Some(format!("the command to run stands behind `--`: chappe {meant_as}")),
                "{line}"
            );
        };
        says("acquire", "acquire NAME -- COMMAND");
        says("acquire gpu", "acquire gpu -- COMMAND");
        says("acquire gpu --", "acquire gpu -- COMMAND");
        says("acquire --timeout 5m -n 2 gpu train fast", "acquire --timeout 5m -n 2 gpu -- train fast");
        says("--json acquire gpu train", "acquire gpu -- train");
        says("lock -s cpu make", "lock -s cpu -- make");
        says("acquire gpu make -j4", "acquire gpu -- make -j4");
        says("jobserver --permits 4 make test", "jobserver --permits 4 -- make test");
        says("jobserver make", "jobserver -- make");
        says("watch", "watch EXPR -- COMMAND");
        says("acquire lic1 --timeout 1s true", "acquire --timeout 1s lic1 -- true");
        says("acquire lic1 -n2 --timeout=1s make", "acquire -n2 --timeout=1s lic1 -- make");
        says("acquire lic1 -n 2 make -j4", "acquire -n 2 lic1 -- make -j4");
        let unnamed = meant("acquire --create -I {} -- train {}").unwrap();
        assert!(
            unnamed.contains("it named none") && unnamed.ends_with("chappe acquire --create -I {} NAME -- train {}")
        );
        assert!(meant("lock -- make").unwrap().ends_with("chappe lock NAME -- make"));
        assert_eq!((meant("show"), meant("jobserver -- make")), (None, None));
        let both = meant("tube create t --size=4096 --schema a:u64").unwrap();
        assert!(both.contains("leave --size out; --slots N is how many records"), "{both}");
        assert_eq!(meant("acquire gpu --no-such-option -- true"), None);
        assert_eq!(meant("lock l --no-such-option"), None);
    }

    #[test]
    fn a_command_line_is_told_with_the_quotes_that_it_was_written_with() {
        let words = ["watch", "--once", "x.free > 1"].map(String::from);
        let e = Cli::try_parse_from(std::iter::once("chappe").chain(words.iter().map(String::as_str))).unwrap_err();
        assert!(by(&e, &words).unwrap().ends_with("`--`: chappe watch --once 'x.free > 1' -- COMMAND"));
        assert_eq!(["it's", "", "$HOME", "{}", "{a,b}"].map(quoted), ["'it'\\''s'", "''", "'$HOME'", "{}", "'{a,b}'"]);
    }

    #[test]
    fn options_of_flock_are_told_what_they_are_here() {
        for (line, told) in [
            ("lock -x l -- true", "leave -x out"),
            ("lock -e l true", "leave -e out"),
            ("lock l -c true", "lock NAME -- sh -c 'COMMAND'"),
            ("lock -o l -- true", "it is --close here"),
            ("lock -E 7 l -- true", "always 124"),
            ("lock -u l", "nothing to unlock"),
        ] {
            assert!(meant(line).is_some_and(|text| text.contains(told)), "{line}: {:?}", meant(line));
        }
        assert_eq!(meant("acquire -x p -- true"), None);
    }

    #[test]
    fn no_tip_sends_an_option_behind_the_dashes_where_the_command_stands() {
        for line in ["acquire --create -x p -- true", "lock --no-such l -- true", "jobserver -x -- make"] {
            let words: Vec<String> = line.split_whitespace().map(String::from).collect();
            let e = Cli::try_parse_from(std::iter::once("chappe".to_owned()).chain(words.clone())).unwrap_err();
            assert!(e.to_string().contains("as a value, use"), "it tests nothing: {e}");
            let told = without_false_tip(e, &words).to_string();
            assert!(told.contains("unexpected argument") && !told.contains("as a value"), "{told}");
        }
    }
}
