//! Names on an engine, as a command line has them: `@REMOTE/NAME`, `@/NAME`, or `NAME` with `--on URL`.

use crate::elsewhere::is_remote;
use anyhow::{Context, Result, anyhow, bail};
use chappe::remote::drive::GRACE;
use chappe::remote::etcd::{Etcd, Options};
use chappe::remote::{RemoteError, keys, place};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// An engine, and names there.
#[derive(Clone, Debug)]
pub struct Place {
    engine: place::Place,
    /// The names there.
    pub names: Vec<String>,
}

impl Place {
    /// Where these names are, all on one engine. With `--on` they are plain names.
    ///
    /// # Errors
    /// That there is no such engine, what is wrong with a name, or that two engines are meant.
    pub fn of(names: &[String], on: Option<&str>) -> Result<Place> {
        if let Some(url) = on {
            let engine = place::Place::url(url).map_err(|e| anyhow!(e))?;
            return Ok(Place { engine, names: checked(names.iter().map(String::as_str))? });
        }
        let mut parts = Vec::new();
        for name in names {
            if is_remote(name) && !name.contains('/') {
                bail!(
                    "`{name}` is an engine, and no object there: write {name}/NAME; `chappe ls {name}` lists what is there"
                );
            }
            let rest = name.strip_prefix('@').filter(|_| is_remote(name));
            let (remote, own) = rest.and_then(|rest| rest.split_once('/')).with_context(|| {
                format!("`{name}` does not say what is meant there: write @REMOTE/NAME, or @/NAME for the engine of CHAPPE_ON")
            })?;
            parts.push((remote, own));
        }
        let Some((remote, _)) = parts.first() else { bail!("no name is given") };
        if let Some((other, _)) = parts.iter().find(|(other, _)| other != remote) {
            bail!("@{remote} and @{other} are two engines: one choice has its pools on one");
        }
        Ok(Place { names: checked(parts.iter().map(|(_, own)| *own))?, ..Place::named(remote)? })
    }

    /// Connects; one that has a time itself takes no longer for that, but for the answer of an engine that is there.
    ///
    /// # Errors
    /// As [`Etcd::connect`].
    pub fn connect_within(&self, timeout: Option<Duration>) -> Result<Etcd, RemoteError> {
        let most = timeout.map_or(Duration::MAX, |timeout| timeout.max(GRACE));
        Etcd::connect(&Options { connect_timeout: self.options.connect_timeout.min(most), ..self.options.clone() })
    }

    /// An engine by its name alone: `lab`, or none for that of the environment.
    ///
    /// # Errors
    /// That there is none.
    pub fn named(remote: &str) -> Result<Place> {
        Ok(Place { engine: place::Place::named(remote).map_err(|e| anyhow!(e))?, names: vec![] })
    }
}

impl Deref for Place {
    type Target = place::Place;

    fn deref(&self) -> &place::Place {
        &self.engine
    }
}

impl DerefMut for Place {
    fn deref_mut(&mut self) -> &mut place::Place {
        &mut self.engine
    }
}

fn checked<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<String>> {
    names.map(|name| keys::check("pool", name).map(|()| name.to_owned()).map_err(|e| anyhow!(e))).collect()
}
