//! A static HTTP/1.1 server: a light thread for each connection, until somebody raises the named semaphore `http-stop`.
//!
//! ```sh
//! cargo run --release --example http -- 127.0.0.1:8000 /usr/share/doc
//! chappe sem up http-stop
//! ```

use chappe::thread::{self, Io, Runtime};
use chappe::{Semaphore, select};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// The most bytes of a request that are read.
const LONGEST: usize = 16 * 1024;

struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

fn refusal(status: &'static str) -> Answer {
    Answer { status, kind: "text/plain", body: format!("{status}\n").into_bytes() }
}

/// The file that a path of a request means: within the root.
fn file(root: &Path, target: &str) -> Option<PathBuf> {
    let path = target.split(['?', '#']).next()?;
    let (mut bytes, mut text) = (path.bytes(), Vec::new());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let code = [bytes.next()?, bytes.next()?];
            text.push(u8::from_str_radix(std::str::from_utf8(&code).ok()?, 16).ok()?);
        } else {
            text.push(byte);
        }
    }
    let text = String::from_utf8(text).ok()?;
    let mut file = root.to_owned();
    for part in text.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." || part.contains('\0') {
            return None;
        }
        file.push(part);
    }
    Some(file)
}

fn answer(root: &Path, method: &str, target: &str) -> Answer {
    if method != "GET" && method != "HEAD" {
        return refusal("405 Method Not Allowed");
    }
    let Some(mut file) = file(root, target) else { return refusal("400 Bad Request") };
    if target.ends_with('/') {
        file.push("index.html");
    }
    let kind = match file.extension().and_then(|e| e.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    };
    match fs::read(&file) {
        Ok(body) => Answer { status: "200 OK", kind, body },
        Err(e) if e.kind() == ErrorKind::PermissionDenied => refusal("403 Forbidden"),
        Err(_) => refusal("404 Not Found"),
    }
}

/// Answers requests until the other side has no more.
fn converse(stream: &Io<TcpStream>, root: &Path) -> io::Result<()> {
    let (mut from, mut to) = (stream, stream);
    let (mut read, mut buffer) = (Vec::new(), [0; 2048]);
    loop {
        let end = loop {
            if let Some(at) = read.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if read.len() > LONGEST {
                return send(&mut to, &refusal("431 Request Header Fields Too Large"), false, false);
            }
            match from.read(&mut buffer)? {
                0 => return Ok(()),
                n => read.extend_from_slice(&buffer[..n]),
            }
        };
        let head = String::from_utf8_lossy(&read[..end]).into_owned();
        read.drain(..end);
        let mut lines = head.split("\r\n");
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let &[method, target, version @ ("HTTP/1.1" | "HTTP/1.0")] = &words[..] else {
            return send(&mut to, &refusal("400 Bad Request"), false, false);
        };
        let fields = lines.filter_map(|line| line.split_once(':'));
        let (mut stays, mut has_body) = (version == "HTTP/1.1", false);
        for (name, value) in fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim())) {
            match name.as_str() {
                "connection" if value.eq_ignore_ascii_case("close") => stays = false,
                "connection" if value.eq_ignore_ascii_case("keep-alive") => stays = true,
                "transfer-encoding" => has_body = true,
                "content-length" => has_body |= value != "0",
                _ => {}
            }
        }
        // A body would be taken for the next request.
        stays &= !has_body;
        send(&mut to, &answer(root, method, target), method == "HEAD", stays)?;
        if !stays {
            return Ok(());
        }
    }
}

fn send(to: &mut impl Write, answer: &Answer, head_only: bool, stays: bool) -> io::Result<()> {
    let Answer { status, kind, body } = answer;
    let stays = if stays { "keep-alive" } else { "close" };
    let mut all = Vec::with_capacity(160 + body.len());
    write!(
        all,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: {stays}\r\n\r\n",
        body.len()
    )?;
    if !head_only {
        all.extend_from_slice(body);
    }
    to.write_all(&all)
}

/// Serves until the semaphore is raised.
pub(crate) fn serve(listener: TcpListener, root: PathBuf, stop: &Semaphore) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let root = Arc::new(root);
    loop {
        select! {
            down(stop) -> r => return r.map_err(io::Error::other),
            readable(listener) -> r => r?,
        }
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => Io::new(stream)?,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // The client has gone already.
                Err(e) if e.kind() == ErrorKind::ConnectionAborted => continue,
                Err(e) => return Err(e),
            };
            stream.get_ref().set_nodelay(true)?;
            let root = Arc::clone(&root);
            // If it fails the other side has gone.
            drop(thread::spawn(move || drop(converse(&stream, &root))));
        }
    }
}

fn run(at: &str, root: &str, procs: usize) -> Result<(), Box<dyn std::error::Error>> {
    let stop = Semaphore::open_or_create("http-stop", 0)?;
    let listener = TcpListener::bind(at)?;
    println!("http://{}/", listener.local_addr()?);
    let root = fs::canonicalize(root)?;
    Ok(Runtime::new(procs)?.run(|| serve(listener, root, &stop))?)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let processors = std::thread::available_parallelism().map_or(1, usize::from).min(64);
    let (at, root, procs) = match &args[..] {
        [at, root] => (at, root, processors),
        [at, root, option, procs] if option == "--procs" && procs.parse::<usize>().is_ok() => {
            (at, root, procs.parse().unwrap_or(processors))
        }
        _ => {
            eprintln!("usage: http ADDRESS:PORT DIRECTORY [--procs N]");
            return ExitCode::from(2);
        }
    };
    match run(at, root, procs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("http: {e}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};

    /// The directory of arenas is named by the environment: tests take turns.
    static TURN: Mutex<()> = Mutex::new(());

    fn ask(at: std::net::SocketAddr, what: &str) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(what.as_bytes()).unwrap();
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        all
    }

    #[test]
    fn it_serves_files_to_many_and_stops_when_it_is_told() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = std::env::temp_dir().join(format!("chappe-http-{}", std::process::id()));
        fs::create_dir_all(dir.join("root/a b")).unwrap();
        fs::create_dir_all(dir.join("arenas")).unwrap();
        fs::write(dir.join("secret"), "secret").unwrap();
        fs::write(dir.join("root/index.html"), "<p>hello").unwrap();
        fs::write(dir.join("root/a b/c.txt"), "deep").unwrap();
        // SAFETY: nobody reads the environment meanwhile.
        unsafe { std::env::set_var("CHAPPE_DIR", dir.join("arenas")) };
        let stop = Semaphore::create("http-stop", 0).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let runtime = Runtime::new(2).unwrap();
        let root = dir.join("root");
        let server = runtime.spawn(move || serve(listener, root, &Semaphore::open("http-stop").unwrap()));
        let close = "Connection: close\r\n\r\n";
        let said = ask(at, &format!("GET / HTTP/1.1\r\nHost: x\r\n{close}"));
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\n<p>hello"), "{said}");
        let said = ask(at, &format!("HEAD /index.html HTTP/1.1\r\n{close}"));
        assert!(said.contains("Content-Length: 8\r\n") && said.ends_with("\r\n\r\n"), "{said}");
        for (request, status) in [
            ("GET /a%20b/c.txt HTTP/1.1", "200"),
            ("GET /nothing HTTP/1.1", "404"),
            ("GET /../secret HTTP/1.1", "400"),
            ("GET /%2e%2e/secret HTTP/1.1", "400"),
            ("GET /a%zz HTTP/1.1", "400"),
            ("PUT / HTTP/1.1", "405"),
            ("nonsense", "400"),
        ] {
            let said = ask(at, &format!("{request}\r\n{close}"));
            assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {said}");
        }
        // Two requests on one connection, in one packet.
        let said = ask(at, &format!("GET / HTTP/1.1\r\n\r\nGET /a%20b/c.txt HTTP/1.1\r\n{close}"));
        assert_eq!(said.matches("200 OK").count(), 2, "{said}");
        // Many clients that say nothing, and one that does.
        let idle: Vec<_> = (0..300).map(|_| TcpStream::connect(at).unwrap()).collect();
        assert!(ask(at, &format!("GET / HTTP/1.1\r\n{close}")).contains("hello"));
        stop.up().unwrap();
        server.join().unwrap().unwrap();
        drop(idle);
        fs::remove_dir_all(&dir).unwrap();
    }

    /// The process that is to serve this directory, and nothing else.
    const SERVES: &str = "CHAPPE_HTTP_SERVES";
    const MANY: usize = 10_000;

    /// As many descriptors as it may have.
    fn raise_descriptors() -> u64 {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a place for the limit, and then the limit.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
            limit.rlim_cur = limit.rlim_max;
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        }
        limit.rlim_cur
    }

    /// A line of a file of /proc: its number.
    fn number(text: &str, name: &str) -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
    }

    /// How often the kernel has switched from a thread of the procs, or of the poller, of a process, and how many of these there are.
    fn switches(pid: u32) -> (u64, usize) {
        let (mut sum, mut threads) = (0, 0);
        for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let name = status.lines().next().unwrap();
            if ["chappe-proc", "chappe-poll", "chappe-tick"].iter().any(|of| name.contains(of)) {
                sum += number(&status, "voluntary_ctxt_switches:") + number(&status, "nonvoluntary_ctxt_switches:");
                threads += 1;
            }
        }
        (sum, threads)
    }

    fn resident(pid: u32) -> u64 {
        number(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap(), "VmRSS:") * 1024
    }

    /// Asks once, and stays.
    fn ask_and_stay(stream: &mut TcpStream) {
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let (mut said, mut part) = (Vec::new(), [0; 512]);
        while !said.ends_with(b"<p>hello") {
            let len = stream.read(&mut part).unwrap();
            assert!(len > 0);
            said.extend_from_slice(&part[..len]);
        }
    }

    #[test]
    #[ignore = "storm: ten thousand connections"]
    fn ten_thousand_idle_connections_wake_nobody_and_one_is_served() {
        if let Ok(root) = std::env::var(SERVES) {
            raise_descriptors();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            println!(">{}", listener.local_addr().unwrap());
            let stop = Semaphore::open("http-stop").unwrap();
            Runtime::new(2).unwrap().run(|| serve(listener, root.into(), &stop)).unwrap();
            return;
        }
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if raise_descriptors() < MANY as u64 + 100 {
            eprintln!("not tested: ten thousand connections: this process may not have so many descriptors");
            return;
        }
        let dir = std::env::temp_dir().join(format!("chappe-idle-{}", std::process::id()));
        fs::create_dir_all(dir.join("arenas")).unwrap();
        fs::write(dir.join("index.html"), "<p>hello").unwrap();
        // SAFETY: nobody reads the environment meanwhile.
        unsafe { std::env::set_var("CHAPPE_DIR", dir.join("arenas")) };
        let stop = Semaphore::create("http-stop", 0).unwrap();
        let name = std::thread::current().name().unwrap().to_owned();
        let mut server = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--include-ignored", "--nocapture"])
            .env(SERVES, &dir)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = io::BufRead::lines(io::BufReader::new(server.stdout.take().unwrap()));
        let mut lines = lines.map_while(Result::ok);
        let at = lines.find_map(|line| line.split_once('>').map(|(_, at)| at.to_owned())).unwrap();
        let connect = || {
            let mut stream = TcpStream::connect(&at).unwrap();
            ask_and_stay(&mut stream);
            stream
        };
        let first = connect();
        let before = resident(server.id());
        let mut idle: Vec<_> = (0..MANY).map(|_| connect()).collect();
        let each = (resident(server.id()) - before) / MANY as u64;
        // The procs look for more for a while, and sleep then.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let (then, threads) = switches(server.id());
        std::thread::sleep(std::time::Duration::from_secs(3));
        let (now, _) = switches(server.id());
        println!("{each} bytes a connection; {} switches of {threads} threads in 3 s", now - then);
        assert_eq!(threads, 4, "two procs, the tick, the poller");
        assert_eq!(now, then, "no connection asks for anything, and a thread wakes up");
        for at in [0, MANY / 2, MANY - 1] {
            ask_and_stay(&mut idle[at]);
        }
        assert!(switches(server.id()).0 > now);
        // A stack that has answered a request has touched some pages; the reads wait with one or two of them.
        assert!(each <= 32 * 1024, "{each} bytes a connection");
        stop.up().unwrap();
        // The threads that wait for a request go with the process.
        lines.for_each(drop);
        assert!(server.wait().unwrap().success());
        drop((first, idle));
        fs::remove_dir_all(&dir).unwrap();
    }
}
