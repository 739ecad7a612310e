//! Where a remote name is: its engine, from remotes.toml, `--on` or the environment, and its name there.
//!
//! | where | what |
//! |---|---|
//! | `@lab/gpu` | table `lab` of `$XDG_CONFIG_HOME/chappe/remotes.toml`, or of /etc/chappe/remotes.toml |
//! | `@/gpu` | `CHAPPE_ON`, a URL |
//! | `gpu` with `--on URL` | that URL |
//!
//! Keys of a table: `url`, `ca`, `cert`, `key`, `user`, `password-file`, `ttl`. Of the other two `CHAPPE_CA`, `CHAPPE_CERT`, `CHAPPE_KEY`,
//! `CHAPPE_USER`, `CHAPPE_PASSWORD` or `CHAPPE_PASSWORD_FILE`. A secret is never an argument: those can be read by every process of the machine.

use super::toml;
use crate::{elsewhere::is_remote, time};
use anyhow::{Context, Result, anyhow, bail};
use chappe::remote::etcd::{ConnectError, Etcd, Options, Tls};
use chappe::remote::keys::{self, Space};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

/// An engine, and names there.
#[derive(Clone, Debug)]
pub struct Place {
    /// How it is written: `@lab`, `@`, or a URL.
    pub called: String,
    /// The engine.
    pub options: Options,
    /// The time to live that the configuration has.
    pub ttl: Option<Duration>,
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
            let mut place = Place::at(url.to_owned(), url, &from_environment())?;
            place.names = checked(names.iter().map(String::as_str))?;
            return Ok(place);
        }
        let mut parts = Vec::new();
        for name in names {
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
        let mut place = Place::named(remote)?;
        place.names = checked(parts.iter().map(|(_, own)| *own))?;
        Ok(place)
    }

    /// An engine by its name alone: `@lab`, or `@`.
    ///
    /// # Errors
    /// That there is none.
    pub fn named(remote: &str) -> Result<Place> {
        let called = format!("@{remote}");
        if remote.is_empty() {
            let url = std::env::var("CHAPPE_ON").map_err(|_| {
                anyhow!("`@/` is the engine of CHAPPE_ON, which is not set: CHAPPE_ON=etcd://HOST/NAMESPACE")
            })?;
            return Place::at(called, &url, &from_environment());
        }
        let mut looked = Vec::new();
        for path in files() {
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    looked.push(path.display().to_string());
                    continue;
                }
                Err(e) => bail!("cannot read {}: {e}", path.display()),
            };
            let tables = toml::read(&text).map_err(|e| anyhow!("{}, {e}", path.display()))?;
            if let Some(table) = tables.get(remote) {
                if table.contains_key("password") {
                    bail!(
                        "{}, [{remote}]: a password stands in a file of its own, which `password-file` names",
                        path.display()
                    );
                }
                let url = table.get("url").with_context(|| format!("{}: [{remote}] has no `url`", path.display()))?;
                return Place::at(called, url, table).map_err(|e| anyhow!("{}, [{remote}]: {e:#}", path.display()));
            }
            looked.push(format!("{} has {}", path.display(), listed(tables.keys())));
        }
        bail!("no engine is called `{remote}` ({}); --on URL names one without a file", looked.join("; "))
    }

    fn at(called: String, url: &str, table: &BTreeMap<String, String>) -> Result<Place> {
        const KEYS: [&str; 8] = ["url", "ca", "cert", "key", "user", "password", "password-file", "ttl"];
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            bail!("`{key}` is no key here; these are: {}", KEYS.join(", "));
        }
        let mut options = Options::parse(url).map_err(|e| anyhow!(e))?;
        let file = |key: &str| {
            table.get(key).map(|path| std::fs::read(path).with_context(|| format!("`{key}`: {path}"))).transpose()
        };
        let (ca, cert, key) = (file("ca")?, file("cert")?, file("key")?);
        if (ca.is_some() || cert.is_some() || key.is_some()) && options.tls.is_none() {
            bail!("`ca`, `cert` and `key` are for TLS, and {url} is without: write etcds://");
        }
        if let Some(tls) = &mut options.tls {
            if ca.is_none() {
                bail!("{url} needs `ca`: the file with the certificates by which the engine's are signed");
            }
            *tls = Tls { ca, own: both("cert", cert, "key", key)? };
        }
        let password = match file("password-file")? {
            Some(bytes) => Some(String::from_utf8(bytes).context("`password-file`")?.trim_end_matches('\n').to_owned()),
            None => table.get("password").cloned(),
        };
        options.user = both("user", table.get("user").cloned(), "password-file", password)?;
        let ttl = table.get("ttl").map(|text| time::parse(text).map_err(|e| anyhow!("`ttl`: {e}"))).transpose()?;
        Ok(Place { called, options, ttl, names: vec![] })
    }

    /// The keys of its namespace.
    pub fn space(&self) -> Space {
        // The URL was read, and with it the namespace.
        Space::new(&self.options.namespace).unwrap_or_else(|_| unreachable!("a namespace that was checked"))
    }

    /// How a name there is written.
    pub fn name(&self, own: &str) -> String {
        if self.called.starts_with('@') { format!("{}/{own}", self.called) } else { own.to_owned() }
    }

    /// Connects.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn connect(&self) -> Result<Etcd, ConnectError> {
        Etcd::connect(&self.options)
    }
}

fn both<T>(one: &str, a: Option<T>, other: &str, b: Option<T>) -> Result<Option<(T, T)>> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some((a, b))),
        (None, None) => Ok(None),
        (Some(_), None) => bail!("`{one}` is set, and `{other}` is not"),
        (None, Some(_)) => bail!("`{other}` is set, and `{one}` is not"),
    }
}

fn checked<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<String>> {
    names.map(|name| keys::check("pool", name).map(|()| name.to_owned()).map_err(|e| anyhow!(e))).collect()
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let all: Vec<&str> = names.map(String::as_str).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

fn files() -> Vec<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let own = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
    let own = own.map(|dir| dir.join("chappe/remotes.toml"));
    own.into_iter().chain([PathBuf::from("/etc/chappe/remotes.toml")]).collect()
}

fn from_environment() -> BTreeMap<String, String> {
    let keys = ["ca", "cert", "key", "user", "password", "password-file"];
    let value = |key: &str| std::env::var(format!("CHAPPE_{}", key.to_uppercase().replace('-', "_"))).ok();
    keys.iter().filter_map(|key| Some(((*key).to_owned(), value(key)?))).collect()
}
