//! Where a cache's blocks come from: a file, or what an HTTP server has.
//!
//! HTTP is that of `GET` with `Range`, without TLS: a name of a local proxy (`http://localhost:8080/...`) stands for `https`.

use chappe_plat::clock;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

/// How long a server may say nothing, and how long a reader waits for the fetch of another one.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How long a server may take for a block, with all tries; but not the resolver, which has its own limits.
const SLOWEST: Duration = Duration::from_secs(60);
/// How often a fetch is tried.
pub const TRIES: u32 = 3;
/// The most bytes of an answer's head.
const HEAD: usize = 65_536;

/// FNV-1a.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// What an origin is at a moment: how long, and a number that is another one when it has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Bytes.
    pub length: u64,
    /// Another one when it has changed.
    pub number: u64,
}

/// Where blocks come from.
#[derive(Clone, Debug)]
pub enum Origin {
    File { path: String },
    Http { host: String, path: String },
}

fn odd(what: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what.into())
}

impl Origin {
    /// By what a user writes.
    pub fn of(text: &str) -> Result<Origin, String> {
        if text.starts_with("https://") {
            return Err(format!(
                "`{text}`: there is no TLS here: name a local proxy, as in `http://localhost:8080/...`"
            ));
        }
        let Some(rest) = text.strip_prefix("http://") else {
            let path = std::fs::canonicalize(text).map_err(|e| format!("cannot read {text}: {e}"))?;
            let meta = std::fs::metadata(&path).map_err(|e| format!("cannot read {text}: {e}"))?;
            if !meta.is_file() {
                return Err(format!("`{text}` is no file: a cache needs places to read at"));
            }
            return Ok(Origin::File { path: path.display().to_string() });
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if host.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(format!("`{text}` is no address: write http://HOST[:PORT]/PATH"));
        }
        Ok(Origin::Http { host: host.to_owned(), path: if path.is_empty() { "/".into() } else { path.to_owned() } })
    }

    /// As messages name it.
    pub fn name(&self) -> String {
        match self {
            Origin::File { path } => path.clone(),
            Origin::Http { host, path } => format!("http://{host}{path}"),
        }
    }

    fn of_file(file: &File) -> io::Result<Stamp> {
        let meta = file.metadata()?;
        // Not the time of its data: a copier can set that, and builds set it to the same each time.
        let all = [meta.dev(), meta.ino(), meta.ctime() as u64, meta.ctime_nsec() as u64, meta.len()];
        let number = hash(&all.map(u64::to_le_bytes).concat());
        Ok(Stamp { length: meta.len(), number })
    }

    /// What it is now, if that costs no message to another machine.
    pub fn quick(&self) -> io::Result<Option<Stamp>> {
        match self {
            Origin::File { path } => Origin::of_file(&File::open(path)?).map(Some),
            Origin::Http { .. } => Ok(None),
        }
    }

    /// What it is now.
    pub fn now(&self) -> io::Result<Stamp> {
        match self {
            Origin::File { path } => Origin::of_file(&File::open(path)?),
            Origin::Http { host, path } => Ok(ask(host, path, None, until())?.1),
        }
    }

    /// The bytes of a range, had by `until`, and what the origin was behind that.
    pub fn fetch(&self, at: u64, most: usize, until: u64) -> io::Result<(Vec<u8>, Stamp)> {
        match self {
            Origin::File { path } => {
                let file = File::open(path)?;
                let (mut bytes, mut have) = (vec![0; most], 0);
                while have < most {
                    match file.read_at(&mut bytes[have..], at + have as u64) {
                        Ok(0) => break,
                        Ok(n) => have += n,
                        Err(e) if e.kind() == ErrorKind::Interrupted => {}
                        Err(e) => return Err(e),
                    }
                }
                bytes.truncate(have);
                Ok((bytes, Origin::of_file(&file)?))
            }
            Origin::Http { host, path } => {
                let mut tries = 1;
                loop {
                    match ask(host, path, Some((at, most)), until) {
                        Err(e) if tries < TRIES && e.kind() != ErrorKind::InvalidData => tries += 1,
                        done => return done,
                    }
                }
            }
        }
    }
}

/// When a server is to be done with what it is asked now.
pub fn until() -> u64 {
    clock::now() + SLOWEST.as_nanos() as u64
}

/// How long a server may say nothing by now.
fn left(until: u64) -> io::Result<Duration> {
    match until.saturating_sub(clock::now()) {
        0 => Err(io::Error::new(ErrorKind::TimedOut, format!("the server takes more than {SLOWEST:?}"))),
        left => Ok(PATIENCE.min(Duration::from_nanos(left))),
    }
}

/// A line to the first address that takes one: a host often has one of each family, and its server listens at one. The last one's error.
fn connect(addresses: impl Iterator<Item = SocketAddr>, until: u64) -> io::Result<Option<TcpStream>> {
    let mut last = Ok(None);
    for address in addresses {
        match TcpStream::connect_timeout(&address, left(until)?) {
            Ok(line) => return Ok(Some(line)),
            Err(e) => last = Err(e),
        }
    }
    last
}

/// Asks a server for a range, or only for the file's length.
fn ask(host: &str, path: &str, range: Option<(u64, usize)>, until: u64) -> io::Result<(Vec<u8>, Stamp)> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port { host.to_owned() } else { format!("{host}:80") };
    let mut line =
        connect(address.to_socket_addrs()?, until)?.ok_or_else(|| odd(format!("there is no host {host}")))?;
    line.set_write_timeout(Some(left(until)?))?;
    let (method, wanted) = match range {
        None => ("HEAD", String::new()),
        Some((at, most)) => ("GET", format!("Range: bytes={at}-{}\r\n", at + most as u64 - 1)),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: chappe\r\nAccept-Encoding: identity\r\n{wanted}Connection: close\r\n\r\n"
    );
    line.write_all(request.as_bytes())?;
    receive(range, |piece| {
        line.set_read_timeout(Some(left(until)?))?;
        line.read(piece)
    })
}

/// Reads an answer to its end, and not on: the server may keep the line open.
fn receive(
    range: Option<(u64, usize)>,
    mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<(Vec<u8>, Stamp)> {
    let most = HEAD + range.map_or(0, |(_, most)| most);
    let (mut answer, mut piece) = (Vec::new(), vec![0; HEAD]);
    loop {
        let n = match read(&mut piece) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            n => n?,
        };
        answer.extend(&piece[..n]);
        match read_answer(&answer, range) {
            Err(e) if e.kind() == ErrorKind::UnexpectedEof && n > 0 && answer.len() < most => {}
            done => return done,
        }
    }
}

fn read_answer(answer: &[u8], range: Option<(u64, usize)>) -> io::Result<(Vec<u8>, Stamp)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or_else(|| io::Error::new(ErrorKind::UnexpectedEof, "the server's answer ends in its head"))?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let mut lines = head.split("\r\n");
    let status: u16 = lines.next().and_then(|first| first.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
    let field = |name: &str| {
        let fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    };
    let version = field("etag").or_else(|| field("last-modified"));
    let stamp = |version: &str, length: u64| Stamp { length, number: hash(format!("{version} {length}").as_bytes()) };
    let known = |length| match version {
        Some(version) => Ok(stamp(version, length)),
        None => Err(odd(
            "the server gives neither `ETag` nor `Last-Modified`: a changed file could not be told from what is cached",
        )),
    };
    let number = |name| field(name).and_then(|value| value.parse::<u64>().ok());
    match (status, range) {
        (200, None) => {
            let length = number("content-length").ok_or_else(|| odd("the server tells no length"))?;
            Ok((Vec::new(), known(length)?))
        }
        (206, Some((at, most))) => {
            let told = field("content-range").and_then(|value| {
                let (range, all) = value.strip_prefix("bytes ")?.split_once('/')?;
                Some((range.split_once('-')?.0.parse::<u64>().ok()?, all.parse::<u64>().ok()?))
            });
            let (from, all) =
                told.ok_or_else(|| odd("the server does not say which range it answers, and of how much"))?;
            let body = &answer[end + 4..];
            // All that the file has there: a block that is kept is whole, although a server may answer with less.
            let expected = all.saturating_sub(at).min(most as u64) as usize;
            let other = number("content-length").is_some_and(|length| length < expected as u64);
            if from != at || other || field("transfer-encoding").is_some() {
                return Err(odd("the server answers another range, or in pieces"));
            }
            if body.len() < expected {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server's answer ends in its midst"));
            }
            Ok((body[..expected].to_vec(), known(all)?))
        }
        // The file is shorter than that by now.
        (416, Some(_)) => {
            let all = field("content-range").and_then(|value| value.strip_prefix("bytes */")?.parse().ok());
            let all = all.ok_or_else(|| odd("the server does not say how long the file is"))?;
            Ok((Vec::new(), stamp(version.unwrap_or_default(), all)))
        }
        (200, Some(_)) => Err(odd("the server answers with all in place of a range: it needs one that knows `Range`")),
        (status, _) => Err(odd(format!("the server answers with status {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(head: &str, body: &str) -> io::Result<(Vec<u8>, Stamp)> {
        read_answer(format!("HTTP/1.1 {head}\r\n\r\n{body}").as_bytes(), Some((4, 8)))
    }

    #[test]
    fn a_servers_answer_is_taken_only_if_it_is_the_range() {
        let good = "206 Partial\r\nContent-Range: bytes 4-11/20\r\nETag: \"a\"\r\ncontent-length: 8";
        let (bytes, stamp) = answer(good, "12345678").unwrap();
        assert_eq!((bytes, stamp.length), (b"12345678".to_vec(), 20));
        assert_ne!(answer(&good.replace("\"a\"", "\"b\""), "12345678").unwrap().1, stamp);
        let (bytes, stamp) = answer("416 No\r\nContent-Range: bytes */3", "").unwrap();
        assert_eq!((bytes.len(), stamp.length), (0, 3));
        // The file's end.
        let (bytes, _) =
            answer("206 Partial\r\nContent-Range: bytes 4-6/7\r\nLast-Modified: x\r\nContent-Length: 3", "123")
                .unwrap();
        assert_eq!(bytes, b"123");
        for (head, body, why) in [
            (good, "123", "ends in its midst"),
            ("206 Partial\r\nContent-Range: bytes 4-11/20", "123", "ends in its midst"),
            ("206 Partial\r\nContent-Range: bytes 4-6/20\r\nContent-Length: 3", "123", "another range"),
            ("200 OK\r\nContent-Length: 20", "x", "needs one that knows `Range`"),
            ("404 Not Found", "", "status 404"),
            ("206 Partial\r\nContent-Range: bytes 4-11/20", "12345678", "neither `ETag` nor"),
            ("206 Partial\r\nContent-Range: bytes 0-7/20", "12345678", "another range"),
            ("206 Partial", "12345678", "does not say which range"),
        ] {
            let said = answer(head, body).unwrap_err().to_string();
            assert!(said.contains(why), "{head}: {said}");
        }
        assert!(read_answer(b"HTTP/1.1 206", None).is_err());
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n";
        assert!(read_answer(head, None).unwrap_err().to_string().contains("neither `ETag` nor"));
    }

    #[test]
    fn an_answer_is_read_to_its_end_and_not_on() {
        let text = "HTTP/1.1 206 Partial\r\nContent-Range: bytes 4-11/20\r\nETag: 1\r\n\r\n12345678";
        for size in 1..=text.len() {
            let mut pieces = text.as_bytes().chunks(size);
            let (bytes, _) = receive(Some((4, 8)), |to| {
                let piece = pieces.next().expect("the line stays open");
                to[..piece.len()].copy_from_slice(piece);
                Ok(piece.len())
            })
            .unwrap();
            assert_eq!(bytes, b"12345678");
        }
        // One that ends before, and one that goes on for ever.
        let ended = receive(Some((4, 8)), |_| Ok(0)).unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::UnexpectedEof);
        let endless = receive(None, |to| Ok(to.len())).unwrap_err();
        assert!(endless.to_string().contains("ends in its head"), "{endless}");
    }

    #[test]
    fn a_server_has_one_deadline_for_all_that_it_says() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let host = server.local_addr().unwrap().to_string();
        let said = ask(&host, "/", Some((0, 8)), clock::now()).unwrap_err();
        assert_eq!(said.kind(), ErrorKind::TimedOut);
        assert_eq!(left(u64::MAX).unwrap(), PATIENCE);
        let soon = left(clock::now() + PATIENCE.as_nanos() as u64 - 1);
        assert!(soon.is_ok_and(|left| left < PATIENCE));
    }

    #[test]
    fn a_server_is_found_at_whichever_address_of_its_host_it_listens() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let here = server.local_addr().unwrap();
        // No program can listen at port 0.
        let nobody = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
        assert!(connect([nobody, here].into_iter(), until()).unwrap().is_some());
        assert!(connect([nobody].into_iter(), until()).is_err());
        assert!(connect([].into_iter(), until()).unwrap().is_none());
    }

    #[test]
    fn a_file_with_the_same_length_and_time_is_another_one() {
        let path = std::env::temp_dir().join(format!("chappe-origin-{}", std::process::id()));
        std::fs::write(&path, "old").unwrap();
        let origin = Origin::of(path.to_str().unwrap()).unwrap();
        let (stamp, file) = (origin.now().unwrap(), File::options().write(true).open(&path).unwrap());
        let before = file.metadata().unwrap();
        let time = |meta: &std::fs::Metadata| (meta.ctime(), meta.ctime_nsec());
        // Until the file system's clock ticks, no change can be told.
        while time(&file.metadata().unwrap()) == time(&before) {
            file.write_at(b"new", 0).unwrap();
            file.set_modified(before.modified().unwrap()).unwrap();
        }
        assert_eq!(file.metadata().unwrap().modified().unwrap(), before.modified().unwrap());
        assert_ne!(origin.now().unwrap(), stamp);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn an_origin_is_a_file_or_an_address() {
        assert_eq!(Origin::of("http://h:1/a?b").unwrap().name(), "http://h:1/a?b");
        assert_eq!(Origin::of("http://h").unwrap().name(), "http://h/");
        for (text, why) in
            [("https://h/", "no TLS"), ("http:///x", "no address"), ("/nowhere", "cannot read"), ("/", "no file")]
        {
            let said = Origin::of(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
