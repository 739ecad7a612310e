//! What stands where in the engine: keys, values, names.
//!
//! | key below `chappe/1/NAMESPACE/` | value | lease | meaning |
//! |---|---|---|---|
//! | `format` | [`Format`] | none | what wrote here; a newer one is refused. 1 stands in the path as well |
//! | `pool/NAME/size` | [`Size`] | none | the pool is there. Each grant compares its revision: the granter knows the size |
//! | `pool/NAME/held/00003` | [`Holder`] | the holder's | permit 3 is held. Its `modified` is the fencing token |
//! | `pool/NAME/wait/ID` | [`Ticket`] | the waiter's | a place in the queue; its `created` is the order, the same in each pool of a choice |
//! | `fence/ID` | empty | the waiter's | an attempt that ended without an answer: nothing of it can happen any more |
//!
//! All keys of a pool begin alike, so one watch sees the end of a ticket and the grant that it was for together.

use crate::engine::{Keys, LeaseId};
use serde::{Deserialize, Serialize};

/// The newest format that this version reads, and the one that it writes.
pub const FORMAT: u32 = 1;
/// The most bytes of a name.
pub const MOST_NAME: usize = 255;
/// The most permits of a pool: their numbers have five digits.
pub const MOST_PERMITS: u32 = 100_000;

/// Value of `format`.
#[derive(Serialize, Deserialize, Debug)]
pub struct Format {
    /// The format of all that stands beside it.
    pub format: u32,
}

/// Value of `size`.
#[derive(Serialize, Deserialize, Debug)]
pub struct Size {
    /// How many permits the pool has.
    pub permits: u32,
}

/// The process that holds or waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Who {
    /// Its machine's name.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// What it calls itself.
    pub label: String,
}

/// Value of `held/..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// The attempt that got it.
    pub id: String,
    /// Its process.
    #[serde(flatten)]
    pub who: Who,
}

/// Value of `wait/..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ticket {
    /// The pools among which it chooses: it has the same ticket in each.
    pub pools: Vec<String>,
    /// How many permits it wants, all of one pool.
    pub n: u32,
    /// Its process.
    #[serde(flatten)]
    pub who: Who,
}

/// Reads a value; `None` if that is not what stands there.
pub fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// Writes a value.
pub fn write(value: &impl Serialize) -> String {
    // Structs of numbers and texts: there is nothing in them that JSON does not have.
    serde_json::to_string(value).unwrap_or_default()
}

/// Where all keys of a namespace are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Space(String);

impl Space {
    /// The namespace of this name.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn new(namespace: &str) -> Result<Space, String> {
        if namespace.len() > 64 {
            return Err(format!("namespace `{namespace}` has {} bytes; 64 are possible", namespace.len()));
        }
        check("namespace", namespace)?;
        Ok(Space(format!("chappe/{FORMAT}/{namespace}/")))
    }

    /// All of it.
    pub fn all(&self) -> Keys {
        Keys::Under(self.0.clone())
    }

    /// What wrote here.
    pub fn format(&self) -> String {
        format!("{}format", self.0)
    }

    /// All keys of all pools.
    pub fn pools(&self) -> Keys {
        Keys::Under(format!("{}pool/", self.0))
    }

    /// All keys of a pool.
    pub fn pool(&self, pool: &str) -> Keys {
        Keys::Under(format!("{}pool/{pool}/", self.0))
    }

    /// Its size.
    pub fn size(&self, pool: &str) -> String {
        format!("{}pool/{pool}/size", self.0)
    }

    /// One of its permits.
    pub fn held(&self, pool: &str, index: u32) -> String {
        format!("{}pool/{pool}/held/{index:05}", self.0)
    }

    /// All its tickets.
    pub fn queue(&self, pool: &str) -> Keys {
        Keys::Under(format!("{}pool/{pool}/wait/", self.0))
    }

    /// One of its tickets.
    pub fn ticket(&self, pool: &str, id: &str) -> String {
        format!("{}pool/{pool}/wait/{id}", self.0)
    }

    /// What ends an attempt.
    pub fn fence(&self, id: &str) -> String {
        format!("{}fence/{id}", self.0)
    }

    /// Which pool a key belongs to, and what of it.
    pub fn part<'a>(&self, key: &'a str) -> Option<(&'a str, Part<'a>)> {
        let (pool, rest) = key.strip_prefix(&self.0)?.strip_prefix("pool/")?.split_once('/')?;
        let part = match rest.split_once('/') {
            None if rest == "size" => Part::Size,
            Some(("held", index)) => Part::Held(index.parse().ok()?),
            Some(("wait", id)) => Part::Ticket(id),
            _ => return None,
        };
        Some((pool, part))
    }
}

/// What a key of a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The pool's size.
    Size,
    /// A permit that is held.
    Held(u32),
    /// A ticket, of this attempt.
    Ticket(&'a str),
}

/// The name of an attempt: nobody else's, and no earlier one's. `number` counts the attempts under a lease.
pub fn attempt(lease: LeaseId, number: u32) -> String {
    format!("{:x}-{number}", lease.0)
}

/// Refuses what is no name of a remote object or namespace.
///
/// # Errors
/// What is wrong with it.
pub fn check(what: &str, name: &str) -> Result<(), String> {
    let refused = |why: String| {
        let rule = "a name has 1 to 255 of the letters a to z and A to Z, digits, and `._:+-`, and begins with a letter or digit";
        Err(format!("`{}` is no name of a {what}: {why}; {rule}", name.escape_debug()))
    };
    if name.is_empty() {
        return refused("it is empty".into());
    }
    if name.len() > MOST_NAME {
        return refused(format!("it has {} bytes", name.len()));
    }
    if let Some(c) = name.chars().find(|c| !c.is_ascii_alphanumeric() && !"._:+-".contains(*c)) {
        return refused(format!("it contains {c:?}"));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return refused(format!("it begins with `{}`", &name[..1]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_made() {
        let space = Space::new("lab").unwrap();
        assert_eq!(space.part(&space.size("gpu")), Some(("gpu", Part::Size)));
        assert_eq!(space.part(&space.held("gpu", 42)), Some(("gpu", Part::Held(42))));
        assert_eq!(space.part(&space.ticket("gpu", "7f-1")), Some(("gpu", Part::Ticket("7f-1"))));
        assert_eq!(space.part(&space.fence("7f-1")), None);
        assert_eq!(space.part("chappe/1/other/pool/gpu/size"), None);
        for key in [space.size("gpu"), space.held("gpu", 0), space.ticket("gpu", "1-1")] {
            assert!(space.pool("gpu").have(&key) && !space.pool("gp").have(&key));
        }
    }

    #[test]
    fn a_name_that_could_be_taken_for_another_key_is_refused() {
        for name in ["gpu0", "a.b_c:d+e-f", &"x".repeat(255)] {
            assert_eq!(check("pool", name), Ok(()));
        }
        for name in ["", "a/b", "a\0b", "@x", "-n", ".x", "größe", &"x".repeat(256)] {
            let said = check("pool", name).unwrap_err();
            assert!(said.contains("is no name of a pool") && !said.contains('\0'), "{said}");
        }
        assert!(Space::new(&"n".repeat(65)).is_err() && Space::new("a/b").is_err());
    }
}
