//! Where an engine is and with what it is asked: from remotes.toml, a URL or the environment, as the command and a program find it.
//!
//! | text | what |
//! |---|---|
//! | `@lab` | table `lab` of `$XDG_CONFIG_HOME/chappe/remotes.toml`, or of /etc/chappe/remotes.toml |
//! | `@` | `CHAPPE_ON`, a URL |
//! | `etcd://HOST,.../NAMESPACE` | that URL |
//!
//! Keys of a table: `url`, `ca`, `cert`, `key`, `user`, `password-file`, `ttl`. Of the other two `CHAPPE_CA`, `CHAPPE_CERT`, `CHAPPE_KEY`,
//! `CHAPPE_USER`, `CHAPPE_PASSWORD` or `CHAPPE_PASSWORD_FILE`. A secret is never an argument: those can be read by every process of the machine.

use crate::error::RemoteError;
use crate::etcd::{Etcd, Options, Tls};
use crate::here::contents;
use crate::keys::Space;
use crate::site::Site;
use crate::toml;
use chappe_plat::durations;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An engine, and a namespace there.
#[derive(Clone, Debug)]
pub struct Place {
    /// How it is written: `@lab`, `@`, or a URL.
    pub called: String,
    /// The engine.
    pub options: Options,
    /// The time to live of leases that the configuration has.
    pub ttl: Option<Duration>,
}

impl Place {
    /// Of one of the texts above.
    ///
    /// # Errors
    /// That there is no such engine, a file that cannot be read, or what is wrong with the text.
    pub fn of(text: &str) -> Result<Place, String> {
        match text.strip_prefix('@') {
            Some(remote) => Place::named(remote),
            None => Place::url(text),
        }
    }

    /// By its URL.
    ///
    /// # Errors
    /// As [`Place::of`].
    pub fn url(url: &str) -> Result<Place, String> {
        Place::at(url.to_owned(), url, &from_environment())
    }

    /// By its name alone: `lab`, or none for that of the environment.
    ///
    /// # Errors
    /// That there is none, or as [`Place::of`].
    pub fn named(remote: &str) -> Result<Place, String> {
        let called = format!("@{remote}");
        if remote.is_empty() {
            let url = std::env::var("CHAPPE_ON").map_err(|_| {
                "`@/` is the engine of CHAPPE_ON, which is not set: CHAPPE_ON=etcd://HOST/NAMESPACE".to_owned()
            })?;
            return Place::at(called, &url, &from_environment());
        }
        let mut looked = Vec::new();
        for path in files() {
            let shown = path.display();
            let text = match contents(&path) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    looked.push(shown.to_string());
                    continue;
                }
                Err(e) => return Err(format!("cannot read {shown}: {e}")),
            };
            let tables = toml::read(&text).map_err(|e| format!("{shown}, {e}"))?;
            if let Some(table) = tables.get(remote) {
                if table.contains_key("password") {
                    return Err(format!(
                        "{shown}, [{remote}]: a password stands in a file of its own, which `password-file` names"
                    ));
                }
                let url = table.get("url").ok_or_else(|| format!("{shown}: [{remote}] has no `url`"))?;
                return Place::at(called, url, table).map_err(|e| format!("{shown}, [{remote}]: {e}"));
            }
            looked.push(format!("{shown} has {}", listed(tables.keys())));
        }
        Err(format!("no engine is called `{remote}` ({}); --on URL names one without a file", looked.join("; ")))
    }

    fn at(called: String, url: &str, table: &BTreeMap<String, String>) -> Result<Place, String> {
        const KEYS: [&str; 8] = ["url", "ca", "cert", "key", "user", "password", "password-file", "ttl"];
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(format!("`{key}` is no key here; these are: {}", KEYS.join(", ")));
        }
        let mut options = Options::parse(url)?;
        let file = |key: &str| {
            let read = |path: &String| contents(Path::new(path)).map_err(|e| format!("`{key}`: {path}: {e}"));
            table.get(key).map(read).transpose()
        };
        let (ca, cert, key) = (file("ca")?, file("cert")?, file("key")?);
        if (ca.is_some() || cert.is_some() || key.is_some()) && options.tls.is_none() {
            return Err(format!("`ca`, `cert` and `key` are for TLS, and {url} is without: write etcds://"));
        }
        if let Some(tls) = &mut options.tls {
            if ca.is_none() {
                return Err(format!(
                    "{url} needs `ca`: the file with the certificates by which the engine's are signed"
                ));
            }
            *tls = Tls { ca, own: both("cert", cert, "key", key)? };
        }
        let password = match file("password-file")? {
            Some(bytes) => {
                let text = String::from_utf8(bytes).map_err(|e| format!("`password-file`: {e}"))?;
                Some(text.trim_end_matches('\n').to_owned())
            }
            None => table.get("password").cloned(),
        };
        options.user = both("user", table.get("user").cloned(), "password-file", password)?;
        let ttl = table.get("ttl").map(|text| durations::parse(text).map_err(|e| format!("`ttl`: {e}"))).transpose()?;
        Ok(Place { called, options, ttl })
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

    /// Its objects.
    pub fn site(&self) -> Site {
        Site { space: self.space(), called: self.called.clone(), url: self.options.url() }
    }

    /// Connects.
    ///
    /// # Errors
    /// As [`Etcd::connect`].
    pub fn connect(&self) -> Result<Etcd, RemoteError> {
        Etcd::connect(&self.options)
    }
}

fn both<T>(one: &str, a: Option<T>, other: &str, b: Option<T>) -> Result<Option<(T, T)>, String> {
    match (a, b) {
        (Some(a), Some(b)) => Ok(Some((a, b))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(format!("`{one}` is set, and `{other}` is not")),
        (None, Some(_)) => Err(format!("`{other}` is set, and `{one}` is not")),
    }
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
