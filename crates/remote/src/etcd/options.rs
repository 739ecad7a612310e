//! Where an engine is, and with what it is asked.

use crate::keys::Space;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What TLS needs; all in PEM form.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tls {
    /// The authority that the engine's certificate must be from.
    pub ca: Option<Vec<u8>>,
    /// The client's own certificate, and its key.
    pub own: Option<(Vec<u8>, Vec<u8>)>,
}

/// Where an engine is, and with what it is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Options {
    /// HOST:PORT of each member.
    pub endpoints: Vec<String>,
    /// The namespace.
    pub namespace: String,
    /// TLS, if the engine speaks it.
    pub tls: Option<Tls>,
    /// A user, and its password.
    pub user: Option<(String, String)>,
    /// How long to try to reach it.
    pub connect_timeout: Duration,
    /// Whether an engine that ends living leases will do.
    pub allow_old_engine: bool,
}

/// The port that etcd's clients use.
const PORT: u16 = 2379;

impl Options {
    /// Reads `etcd://HOST[:PORT][,HOST...]/NAMESPACE`, with `etcds` for TLS. Without a namespace it is `default`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(url: &str) -> Result<Options, String> {
        let form = "write etcd://HOST[:PORT],.../NAMESPACE, or etcds:// for TLS";
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(format!("`{url}` is no engine's URL: {form}"));
        };
        let tls = match scheme {
            "etcd" => None,
            "etcds" => Some(Tls::default()),
            other => return Err(format!("`{other}://` is no engine that chappe knows: {form}")),
        };
        let (hosts, namespace) = rest.split_once('/').unwrap_or((rest, ""));
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        Space::new(namespace)?;
        if hosts.contains('@') {
            return Err(format!(
                "`{url}`: a user and its password come from remotes.toml or the environment, not from the URL"
            ));
        }
        let mut endpoints = Vec::new();
        for host in hosts.split(',') {
            let why = || match host {
                "" => format!("`{url}` lacks a host: {form}"),
                _ => format!("`{host}` is no HOST[:PORT]: {form}"),
            };
            endpoints.push(endpoint(host).ok_or_else(why)?);
        }
        Ok(Options {
            endpoints,
            namespace: namespace.to_owned(),
            tls,
            user: None,
            connect_timeout: Duration::from_secs(5),
            allow_old_engine: false,
        })
    }

    /// The same engine and namespace as a URL.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "etcds" } else { "etcd" };
        format!("{scheme}://{}/{}", self.endpoints.join(","), self.namespace)
    }
}

/// A host with its port.
fn endpoint(host: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (inside, rest) = rest.split_once(']')?;
            if !inside.contains(':') || !inside.chars().all(|c| c.is_ascii_hexdigit() || ":.".contains(c)) {
                return None;
            }
            (format!("[{inside}]"), rest.strip_prefix(':').or(rest.is_empty().then_some(""))?)
        }
        None => {
            let (name, port) = host.split_once(':').unwrap_or((host, ""));
            if name.is_empty() || !name.chars().all(is_plain) {
                return None;
            }
            (name.to_owned(), port)
        }
    };
    let port = if port.is_empty() { PORT } else { port.parse().ok().filter(|port| *port > 0)? };
    Some(format!("{name}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_endpoints_and_a_namespace() {
        let options = Options::parse("etcd://h1,h2:99,[::1]:5/lab").unwrap();
        assert_eq!(options.endpoints, ["h1:2379", "h2:99", "[::1]:5"]);
        assert_eq!((options.namespace.as_str(), options.tls.is_none()), ("lab", true));
        assert_eq!(options.url(), "etcd://h1:2379,h2:99,[::1]:5/lab");
        assert_eq!(Options::parse("etcds://h").unwrap().namespace, "default");
    }

    #[test]
    fn an_invalid_url_is_refused_with_the_right_form() {
        for url in [
            "",
            "h1",
            "http://h1",
            "etcd://",
            "etcd:///lab",
            "etcd://h1,/lab",
            "etcd://h:x/",
            "etcd://h:0",
            "etcd://[1/n",
            "etcd://a b",
        ] {
            let said = Options::parse(url).unwrap_err();
            assert!(said.contains("etcd://HOST"), "{url}: {said}");
        }
        for url in ["etcd://h/a/b", "etcd://h/@x", "etcd://u:p@h/lab"] {
            assert!(Options::parse(url).is_err(), "{url}");
        }
    }
}
