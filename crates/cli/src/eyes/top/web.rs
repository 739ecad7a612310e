//! `chappe top --web`: the same view in a browser on this machine. It only shows.
//!
//! It listens on a loopback address alone. Each request but the page itself must have the token that the printed address carries, so other
//! users of the machine see nothing; and must name a loopback host, so that a page from elsewhere cannot have a browser read it (DNS
//! rebinding). The page is one file without anything from outside.

use super::looked::{Looker, as_json};
use super::views::View;
use crate::eyes::http::{Answer, Request, listen, serve};
use crate::list;
use anyhow::{Result, anyhow, ensure};
use clap::ValueEnum;
use std::io::Read;
use std::net::SocketAddr;

const PAGE: &str = include_str!("web.html");

/// 128 bits that cannot be guessed.
fn token() -> Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut bytes))
        .map_err(|e| anyhow!("cannot make a token: {e}"))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Whether two texts are the same, in a time that does not tell where they differ.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).fold(0, |d, (a, b)| d | (a ^ b)) == 0
}

fn is_here(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    matches!(name, "localhost" | "127.0.0.1" | "::1")
}

/// What the page shows, besides objects; any other word is objects alone.
fn view_of(request: &Request) -> View {
    request.get("view").and_then(|name| View::from_str(name, false).ok()).unwrap_or_default()
}

/// Serves until a signal ends it.
pub fn run(address: SocketAddr, arena: Option<&str>) -> Result<()> {
    ensure!(
        address.ip().is_loopback(),
        "{address} can be reached from other machines: choose 127.0.0.1 or [::1], and ssh -L from elsewhere"
    );
    let (listener, token) = (listen(address)?, token()?);
    crate::said::tell(format_args!("chappe: http://{}/?token={token}", listener.local_addr()?));
    let mut looker = Looker::new(arena.map(str::to_owned));
    serve(listener, |request: &Request| {
        if !is_here(&request.host) {
            return Answer::refused("403 Forbidden", "ask for localhost");
        }
        if !request.get("token").is_some_and(|t| same(t, &token)) {
            return Answer::refused("403 Forbidden", "the address that `chappe top --web` printed has a token");
        }
        match request.path.as_str() {
            "/" => Answer { status: "200 OK", content: "text/html; charset=utf-8", body: PAGE.into() },
            "/snapshot" => match looker.look(view_of(request)) {
                Ok(now) => Answer { status: "200 OK", content: "application/json", body: as_json(&now) },
                Err(e) => Answer::refused("503 Service Unavailable", &e.to_string()),
            },
            "/object" => match list::show(request.get("name").unwrap_or_default(), None, true) {
                Ok(body) => Answer { status: "200 OK", content: "application/json", body },
                Err(e) => Answer::refused("404 Not Found", &e.to_string()),
            },
            _ => Answer::refused("404 Not Found", "nothing is here"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_hosts_are_here() {
        for host in ["localhost", "localhost:80", "127.0.0.1:9", "[::1]:9", "[::1]"] {
            assert!(is_here(host), "{host}");
        }
        for host in ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil", "10.0.0.1", "[::2]"] {
            assert!(!is_here(host), "{host}");
        }
        assert!(same("ab", "ab") && !same("ab", "ac") && !same("ab", "abc"));
        assert_ne!(token().unwrap(), token().unwrap());
    }
}
