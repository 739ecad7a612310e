//! What stands where in the engine: keys, values, names.
//!
//! | key below `chappe/1/NAMESPACE/` | value | lease | meaning |
//! |---|---|---|---|
//! | `format` | [`Format`] | none | what wrote here; a newer one is refused. 1 stands in the path as well |
//! | `pool/NAME/size` | [`Object`] | none | the pool, mutex or semaphore is there. Each grant compares its revision: the granter knows the size |
//! | `pool/NAME/held/00003` | [`Holder`] | the holder's | permit 3 is held; of a mutex 0. Its `modified` is the fencing token |
//! | `pool/NAME/got/ID` | [`Holder`] | the waiter's | an attempt has got its units of a semaphore. It deletes this when it knows |
//! | `pool/NAME/wait/ID` | [`Ticket`] | the waiter's | a place in the queue; its `created` is the order, the same in each pool of a choice |
//! | `fence/ID` | empty | the waiter's | an attempt that ended without an answer: nothing of it can happen any more |
//! | `tube/NAME/tail` | [`Tail`] | none | how many pages were sent, how many senders came and left. Each send compares its revision |
//! | `tube/NAME/head` | [`Head`] | none | how many pages were claimed. Each claim compares its revision |
//! | `tube/NAME/page/0..03` | records | none | page 3: it was sent, and nobody has acknowledged it |
//! | `tube/NAME/claim/0..03` | [`Claim`] | the receiver's | a receiver has the pages from 3 on |
//! | `tube/NAME/send/ID` | [`Sends`] | the sender's | a sender lives, and what it has sent |
//! | `tube/NAME/freed` | empty | none | written with each acknowledgement, which blocked senders wait for |
//! | `done/ID` | empty | the adder's | an attempt has added to a semaphore. It deletes this when it knows |
//!
//! All keys of an object begin alike, so one watch sees the end of a ticket and the grant that it was for together.
//!
//! Format 1 has pools alone, 2 mutexes, semaphores and tubes too. The first of these raises `format`, in its own transaction, and a version that knows
//! only 1 refuses it before it waits. One that had read 1 before finds no `permits` in `size`, and so no pool.

use crate::engine::{Entry, Keys, LeaseId};
use serde::{Deserialize, Serialize};

/// The newest format that this version reads.
pub const FORMAT: u32 = 2;
/// The format of pools, which older versions read.
pub const POOLS: u32 = 1;
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

/// Value of `size`: what an object is.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[serde(untagged)]
pub enum Object {
    /// A pool.
    Pool {
        /// How many permits it has.
        permits: u32,
    },
    /// A mutex: one permit, whose next holder is told if the last one died.
    Mutex {
        /// It was taken, and its holder has not said that it has finished.
        taken: bool,
    },
    /// A semaphore.
    Sem {
        /// How many units are saved in it.
        value: u32,
    },
    /// A tube.
    Tube {
        /// How many pages may be there that nobody has acknowledged.
        pages: u64,
        /// The most bytes of a record.
        record: u64,
        /// Nothing more can be sent.
        sealed: bool,
    },
}

impl Object {
    /// What messages call it.
    pub fn kind(self) -> &'static str {
        match self {
            Object::Pool { .. } => "pool",
            Object::Mutex { .. } => "mutex",
            Object::Sem { .. } => "semaphore",
            Object::Tube { .. } => "tube",
        }
    }

    /// The oldest format that has such objects.
    pub fn format(self) -> u32 {
        if matches!(self, Object::Pool { .. }) { POOLS } else { FORMAT }
    }

    /// How many permits it has: those that can be held.
    pub fn permits(self) -> u32 {
        match self {
            Object::Pool { permits } => permits,
            Object::Mutex { .. } => 1,
            Object::Sem { .. } | Object::Tube { .. } => 0,
        }
    }
}

/// Value of `tail`.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tail {
    /// How many pages were sent.
    pub pages: u64,
    /// How many senders came.
    pub opened: u64,
    /// How many of them have left when they were done.
    pub closed: u64,
    /// How many deaths of the others receivers have been told of.
    #[serde(default, skip_serializing_if = "is_none")]
    pub told: u64,
}

impl Tail {
    /// How many senders have died, where none is there.
    pub fn deaths(&self) -> u64 {
        self.opened.saturating_sub(self.closed)
    }
}

fn is_none(number: &u64) -> bool {
    *number == 0
}

/// Value of `head`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// How many pages were claimed.
    pub pages: u64,
}

/// Value of `claim/..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The first page behind it.
    pub to: u64,
    /// The receiver.
    pub id: String,
    /// The number of its claim.
    pub number: u64,
}

/// Value of `send/..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sends {
    /// How many times it has sent.
    pub number: u64,
    /// Its process.
    #[serde(flatten)]
    pub who: Who,
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

/// Value of `held/..` and of `got/..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// The attempt that got it.
    pub id: String,
    /// The last holder of the mutex died, and left what it guards as it was then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner_died: bool,
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
pub fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<T> {
    serde_json::from_slice(text).ok()
}

/// Writes a value.
pub fn write(value: &impl Serialize) -> Vec<u8> {
    // Structs of numbers and texts: there is nothing in them that JSON does not have.
    serde_json::to_vec(value).unwrap_or_default()
}

/// The format that stands in `format`, if it is newer than this version knows.
pub fn newer(found: &[Entry]) -> Option<u32> {
    let format = found.first().map(|entry| read(&entry.value).map_or(u32::MAX, |format: Format| format.format))?;
    (format > FORMAT).then_some(format)
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
        // The path of all formats that there have been.
        Ok(Space(format!("chappe/1/{namespace}/")))
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

    /// All its permits that are held.
    pub fn holders(&self, pool: &str) -> Keys {
        Keys::Under(format!("{}pool/{pool}/held/", self.0))
    }

    /// All its tickets.
    pub fn queue(&self, pool: &str) -> Keys {
        Keys::Under(format!("{}pool/{pool}/wait/", self.0))
    }

    /// What an attempt has got of it.
    pub fn got(&self, pool: &str, id: &str) -> String {
        format!("{}pool/{pool}/got/{id}", self.0)
    }

    /// One of its tickets.
    pub fn ticket(&self, pool: &str, id: &str) -> String {
        format!("{}pool/{pool}/wait/{id}", self.0)
    }

    /// All of a tube but what says that it is one.
    pub fn tube(&self, tube: &str) -> Keys {
        Keys::Under(format!("{}tube/{tube}/", self.0))
    }

    /// How many pages of it were sent.
    pub fn tail(&self, tube: &str) -> String {
        format!("{}tube/{tube}/tail", self.0)
    }

    /// How many were claimed.
    pub fn head(&self, tube: &str) -> String {
        format!("{}tube/{tube}/head", self.0)
    }

    /// What an acknowledgement writes.
    pub fn freed(&self, tube: &str) -> String {
        format!("{}tube/{tube}/freed", self.0)
    }

    /// One of its pages.
    pub fn page(&self, tube: &str, page: u64) -> String {
        format!("{}tube/{tube}/page/{page:020}", self.0)
    }

    /// Some of them.
    pub fn pages(&self, tube: &str, from: u64, to: u64) -> Keys {
        Keys::Between(self.page(tube, from), self.page(tube, to))
    }

    /// What is claimed from this page on.
    pub fn claim(&self, tube: &str, from: u64) -> String {
        format!("{}tube/{tube}/claim/{from:020}", self.0)
    }

    /// All that is claimed.
    pub fn claims(&self, tube: &str) -> Keys {
        Keys::Under(format!("{}tube/{tube}/claim/", self.0))
    }

    /// A sender.
    pub fn sender(&self, tube: &str, id: &str) -> String {
        format!("{}tube/{tube}/send/{id}", self.0)
    }

    /// All senders.
    pub fn senders(&self, tube: &str) -> Keys {
        Keys::Under(format!("{}tube/{tube}/send/", self.0))
    }

    /// What ends an attempt.
    pub fn fence(&self, id: &str) -> String {
        format!("{}fence/{id}", self.0)
    }

    /// That an attempt has added.
    pub fn done(&self, id: &str) -> String {
        format!("{}done/{id}", self.0)
    }

    /// Which pool a key belongs to, and what of it.
    pub fn part<'a>(&self, key: &'a str) -> Option<(&'a str, Part<'a>)> {
        let (pool, rest) = key.strip_prefix(&self.0)?.strip_prefix("pool/")?.split_once('/')?;
        let part = match rest.split_once('/') {
            None if rest == "size" => Part::Size,
            Some(("held", index)) => Part::Held(index.parse().ok()?),
            Some(("wait", id)) => Part::Ticket(id),
            Some(("got", id)) => Part::Got(id),
            _ => return None,
        };
        Some((pool, part))
    }
}

/// The number at the end of a page's or a claim's key.
pub fn number(key: &str) -> Option<u64> {
    key.rsplit('/').next()?.parse().ok()
}

/// What a key of a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// What it is.
    Size,
    /// A permit that is held.
    Held(u32),
    /// A ticket, of this attempt.
    Ticket(&'a str),
    /// What this attempt has got.
    Got(&'a str),
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
        assert_eq!(space.part(&space.got("gpu", "7f-1")), Some(("gpu", Part::Got("7f-1"))));
        assert_eq!(space.part(&space.fence("7f-1")), None);
        assert_eq!(space.part(&space.done("7f-1")), None);
        assert_eq!(space.part("chappe/1/other/pool/gpu/size"), None);
        for key in [space.size("gpu"), space.held("gpu", 0), space.ticket("gpu", "1-1")] {
            assert!(space.pool("gpu").have(&key) && !space.pool("gp").have(&key));
        }
    }

    #[test]
    fn a_mutex_or_semaphore_has_no_permits_for_a_version_that_knows_pools_alone() {
        #[derive(Deserialize)]
        struct Old {
            permits: u32,
        }
        let all = [Object::Pool { permits: 3 }, Object::Mutex { taken: true }, Object::Sem { value: 3 }];
        for object in all {
            let text = write(&object);
            assert_eq!(read::<Object>(&text), Some(object));
            assert_eq!(
                read::<Old>(&text).map(|old| old.permits),
                (object.format() == POOLS).then_some(3),
                "{object:?}"
            );
        }
        let holder = Holder { id: "1-1".into(), owner_died: false, who: Who::default() };
        assert!(!String::from_utf8(write(&holder)).unwrap().contains("died"), "as format 1 has it");
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
