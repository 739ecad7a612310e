//! Names on the command line: several for one command, and those that were surely not meant as names.

use anyhow::{Error, Result, bail};
use serde_json::Value;

/// Does something with each name, and goes on with the others where one fails, as mkdir(1) and rm(1) do. Answers what was done, and
/// what was not.
pub fn each(names: &[String], mut act: impl FnMut(&str) -> Result<Value>) -> (Vec<Value>, Vec<Error>) {
    let mut done = (Vec::new(), Vec::new());
    for name in names {
        match act(name) {
            Ok(value) => done.0.push(value),
            Err(e) => done.1.push(e),
        }
    }
    done
}

/// Whether a name has nothing but digits behind its arena.
pub fn is_number(name: &str) -> bool {
    let own = name.rsplit('/').next().unwrap_or(name);
    !own.is_empty() && own.bytes().all(|b| b.is_ascii_digit())
}

/// Refuses to make something whose name is a number: it was meant as the value of an option. `likely` is how that is written, with `N` for
/// the number.
///
/// # Errors
/// With the likely meaning.
pub fn refuse_numbers(names: &[String], kind: &str, likely: &str) -> Result<()> {
    let Some(number) = names.iter().find(|name| is_number(name)) else { return Ok(()) };
    let own = number.rsplit('/').next().unwrap_or(number);
    bail!("`{number}` is a number, and no name for a {kind}: did you mean `{}`?", likely.replace('N', own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_no_names() {
        for number in ["3", "007", "lab/12"] {
            assert!(is_number(number), "{number}");
        }
        for name in ["gpu0", "3a", "1.5", "3/gpu", ""] {
            assert!(!is_number(name), "{name}");
        }
        let names = ["a".to_owned(), "3".to_owned()];
        let said = refuse_numbers(&names, "pool", "--permits N").unwrap_err().to_string();
        assert_eq!(said, "`3` is a number, and no name for a pool: did you mean `--permits 3`?");
    }
}
