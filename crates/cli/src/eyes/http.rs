//! As much of HTTP/1.1 as a scraper or a browser on this machine needs: GET, one request a connection.
//!
//! Each connection has a thread, which reads the request and writes the answer, for at most [`PATIENCE`] each and [`REQUEST`] bytes: a client
//! that says nothing holds up no other. Beyond [`MOST`] connections at once a further one is closed. The answers are made one after
//! the other, on the thread that serves.

use crate::within;
use anyhow::{Result, anyhow};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

/// How long a client may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest request that is read.
const REQUEST: usize = 8192;
/// How many connections there are at once.
const MOST: usize = 64;

/// What a client wants.
pub struct Request {
    /// The path, without what is behind `?`.
    pub path: String,
    /// What is behind it, decoded.
    pub query: Vec<(String, String)>,
    /// The Host line, in small letters.
    pub host: String,
}

impl Request {
    /// A parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// What it gets.
pub struct Answer {
    /// `200 OK`.
    pub status: &'static str,
    /// The body's type.
    pub content: &'static str,
    /// The body.
    pub body: String,
}

/// Plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";

impl Answer {
    /// A refusal, in words.
    pub fn refused(status: &'static str, why: &str) -> Answer {
        Answer { status, content: TEXT, body: format!("{why}\n") }
    }
}

/// Begins to listen.
///
/// # Errors
/// That the address cannot be had, and what to do.
pub fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address)
        .map_err(|e| anyhow!("cannot listen on {address}: {e}; choose another port, or 0 for any"))
}

/// Answers requests for ever.
///
/// # Errors
/// It cannot begin.
pub fn serve(listener: TcpListener, mut answer: impl FnMut(&Request) -> Answer) -> Result<()> {
    let (asked, asks) = mpsc::channel();
    // It ends with the process: should an answer panic, no thread waits for it.
    within::thread("chappe-accept", move || accept(&listener, &asked))?;
    for (request, reply) in asks {
        let reply: Sender<Answer> = reply;
        // A client that went away is its own loss.
        let _ = reply.send(answer(&request));
    }
    Ok(())
}

/// A request, and the thread that waits for the answer.
type Asked = (Request, Sender<Answer>);

fn accept(listener: &TcpListener, asked: &Sender<Asked>) {
    let connections = Arc::new(());
    for stream in listener.incoming() {
        let (asked, connection) = (asked.clone(), Arc::clone(&connections));
        let begun = stream.and_then(|stream| {
            if Arc::strong_count(&connections) > MOST + 1 {
                return Ok(());
            }
            let thread = std::thread::Builder::new().name("request".to_owned());
            thread.spawn(move || {
                let _ = one(stream, &asked);
                drop(connection);
            })?;
            Ok(())
        });
        if begun.is_err() {
            // Want of descriptors or threads: they come back.
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn one(mut stream: TcpStream, asked: &Sender<Asked>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let begun = Instant::now();
    let (mut raw, mut part) = (Vec::new(), [0; 1024]);
    while !raw.windows(4).any(|w| w == b"\r\n\r\n") && raw.len() < REQUEST && begun.elapsed() < PATIENCE {
        match stream.read(&mut part)? {
            0 => break,
            n => raw.extend_from_slice(&part[..n]),
        }
    }
    let Answer { status, content, body } = match parse(&String::from_utf8_lossy(&raw)) {
        Some(request) => {
            let (reply, answer) = mpsc::channel();
            // The one that answers ends with the program alone.
            let (Ok(()), Ok(answer)) = (asked.send((request, reply)).map_err(drop), answer.recv()) else {
                return Ok(());
            };
            answer
        }
        None => Answer::refused("405 Method Not Allowed", "only GET is answered"),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

fn parse(raw: &str) -> Option<Request> {
    let mut lines = raw.lines();
    let mut first = lines.next()?.split(' ');
    let (Some("GET"), Some(target)) = (first.next(), first.next()) else { return None };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = query.split('&').filter_map(|p| p.split_once('=')).map(|(n, v)| (decoded(n), decoded(v))).collect();
    let host = lines.find_map(|l| l.to_ascii_lowercase().strip_prefix("host:").map(|h| h.trim().to_owned()));
    Some(Request { path: path.to_owned(), query, host: host.unwrap_or_default() })
}

/// `%2F` is `/`, `+` a space. What is no such thing stays.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).and_then(|h| u8::from_str_radix(h, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_and_nonsense_is_none() {
        let r = parse("GET /object?name=lab%2Fgpu+0&x=1%zz HTTP/1.1\r\nHost: LocalHost:80\r\n\r\n").unwrap();
        assert_eq!(
            (r.path.as_str(), r.get("name"), r.get("x"), r.host.as_str()),
            ("/object", Some("lab/gpu 0"), Some("1%zz"), "localhost:80")
        );
        assert!(parse("POST / HTTP/1.1\r\n\r\n").is_none() && parse("").is_none() && parse("GET").is_none());
        assert_eq!(decoded("%"), "%");
        assert_eq!(decoded("a%C3%A9b%4"), "aéb%4");
    }
}
