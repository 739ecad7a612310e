//! A small threaded web server, as the one of netbsd-restartable-sequences, section 5: its threads meet at one lock.
//!
//! Each thread accepts a connection, and serves it until the client closes it. Each request takes the lock twice: when it begins
//! it draws the number that the page shows, and when it has been answered it is counted as such. The number that the lock guards:
//! requests begun in the low half, answered in the high one; both must come to what the client has sent.
//!
//! The client is a process of its own: as many connections as the server has threads, on all of which it sends a request, and
//! then reads all answers, again and again. It checks that no two pages show the same number.

use crate::guarded::Guarded;
use crate::process::{Child, now, shared};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is asked for.
#[derive(Clone, Copy)]
pub struct Load {
    /// Threads of the server, and connections of the client.
    pub threads: usize,
    /// Requests on each connection.
    pub requests: usize,
}

const BEGUN: u64 = 1;
const ANSWERED: u64 = 1 << 32;
const REQUEST: &[u8] = b"GET /page HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n";

/// Reads a request's head. None: the connection was closed.
fn request(from: &mut impl BufRead, line: &mut String) -> io::Result<Option<String>> {
    let mut path = None;
    loop {
        line.clear();
        if from.read_line(line)? == 0 {
            return Ok(None);
        }
        match (line.trim_end(), path.is_some()) {
            ("", true) => return Ok(path),
            (first, false) => {
                let mut words = first.split(' ');
                path = match (words.next(), words.next()) {
                    (Some("GET"), Some(path)) => Some(path.to_owned()),
                    _ => return Err(io::Error::other(format!("not a request: {first}"))),
                }
            }
            // Fields do not matter to this server: it always keeps the connection, and has one page.
            _ => (),
        }
    }
}

fn serve(connection: TcpStream, state: &impl Guarded) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let (mut from, mut to) = (BufReader::new(connection.try_clone()?), connection);
    let (mut line, mut answer) = (String::new(), Vec::new());
    while let Some(path) = request(&mut from, &mut line)? {
        let number = state.with(|n| {
            *n += BEGUN;
            *n as u32
        });
        let page = format!("<html><title>{path}</title><p>{number:010}</p></html>\n");
        answer.clear();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: keep-alive\r\nContent-Length: ";
        write!(answer, "{head}{}\r\n\r\n{page}", page.len())?;
        to.write_all(&answer)?;
        state.with(|n| *n += ANSWERED);
    }
    Ok(())
}

/// The number that the page shows.
fn number(from: &mut impl BufRead, line: &mut String) -> io::Result<u64> {
    let mut length = 0;
    loop {
        line.clear();
        from.read_line(line)?;
        if let Some(n) = line.strip_prefix("Content-Length: ") {
            length = n.trim_end().parse().map_err(io::Error::other)?;
        }
        if line == "\r\n" || line.is_empty() {
            break;
        }
    }
    let mut page = vec![0; length];
    from.read_exact(&mut page)?;
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    let shown = page.split_once("<p>").and_then(|(_, rest)| rest.split_once("</p>"));
    shown.ok_or(io::ErrorKind::InvalidData)?.0.parse().map_err(io::Error::other)
}

/// Sends all requests; nanoseconds.
fn ask(address: SocketAddr, load: Load) -> io::Result<u64> {
    let connect = |_| {
        let connection = TcpStream::connect(address)?;
        connection.set_nodelay(true)?;
        Ok((BufReader::new(connection.try_clone()?), connection))
    };
    let mut connections = (0..load.threads).map(connect).collect::<io::Result<Vec<_>>>()?;
    let (mut line, mut seen) = (String::new(), vec![false; load.threads * load.requests + 1]);
    let began = now();
    for _ in 0..load.requests {
        for (_, to) in &mut connections {
            to.write_all(REQUEST)?;
        }
        for (from, _) in &mut connections {
            let number = number(from, &mut line)? as usize;
            let seen = seen.get_mut(number).ok_or_else(|| io::Error::other(format!("{number} was never drawn")))?;
            if std::mem::replace(seen, true) {
                return Err(io::Error::other(format!("two have {number}")));
            }
        }
    }
    Ok(now() - began)
}

/// Serves all of it; nanoseconds a request. The lock's number must be zero, and is again.
///
/// # Panics
/// When the system refuses sockets, or the lock lets two in at once.
pub fn run(state: &impl Guarded, load: Load) -> f64 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let address = listener.local_addr().expect("it has one");
    let taken = shared::<AtomicU64>();
    // Before the server has threads. Its connections wait until they are accepted.
    let client = Child::fork(|| {
        let ns = ask(address, load).expect("each request is answered");
        taken.store(ns, Ordering::SeqCst);
    });
    std::thread::scope(|s| {
        for _ in 0..load.threads {
            s.spawn(|| {
                let (connection, _) = listener.accept().expect("the client connects");
                serve(connection, state).expect("the client asks as one should");
            });
        }
    });
    assert_eq!(client.end(), 0, "the client");
    let requests = (load.threads * load.requests) as u64;
    let counted = state.with(std::mem::take);
    assert_eq!(counted, requests * (BEGUN + ANSWERED), "two were in at once");
    taken.load(Ordering::SeqCst) as f64 / requests as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_and_counted_once() {
        let lock = std::sync::Mutex::new(0);
        assert!(run(&lock, Load { threads: 3, requests: 50 }) > 0.0);
        assert_eq!(*lock.lock().unwrap(), 0);
    }

    #[test]
    fn a_line_that_is_no_request_is_refused() {
        let mut line = String::new();
        let mut read = |text: &str| request(&mut text.as_bytes(), &mut line);
        assert_eq!(read("GET /a HTTP/1.1\r\nHost: b\r\n\r\n").unwrap().as_deref(), Some("/a"));
        assert_eq!(read("").unwrap(), None);
        assert!(read("nonsense\r\n\r\n").is_err());
    }
}
