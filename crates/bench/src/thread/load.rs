//! Requests: one thread with many connections, on each of which it asks again as soon as it was answered.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 64;
const LASTS: Duration = Duration::from_millis(1_000);

/// What a request cost.
pub struct Load {
    /// Nanoseconds between two answers.
    pub time: f64,
    /// Nanoseconds of the server's processors.
    pub cpu: f64,
}

/// Nanoseconds of processor that a process has used.
fn cpu(pid: u32) -> f64 {
    let all = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, rest) = all.rsplit_once(')').expect("a name in parentheses");
    // The 14th and 15th of the line, in hundredths of a second.
    rest.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() * 1e7
}

/// The bytes of a whole answer: head and body.
fn answer(stream: &mut TcpStream) -> usize {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let n = stream.read(&mut buffer).expect("an answer");
        assert!(n > 0, "the server has hung up");
        all.extend_from_slice(&buffer[..n]);
        let text = String::from_utf8_lossy(&all);
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            let mut lines = head.lines();
            let length =
                lines.find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
            let whole = head.len() + 4 + length.unwrap_or(0);
            if all.len() >= whole {
                return whole;
            }
        }
    }
}

/// Begins the server, which says where it is in its first line, asks for a while, and ends it.
///
/// # Panics
/// If it does not answer.
pub fn measure(server: &mut Command, path: &str) -> Load {
    let mut server = server.stdout(Stdio::piped()).spawn().expect("it begins");
    let mut at = String::new();
    BufReader::new(server.stdout.as_mut().expect("it was asked for")).read_line(&mut at).expect("where it is");
    let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n").into_bytes();
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let stream = TcpStream::connect(at.trim()).expect("it listens");
            stream.set_nodelay(true).expect("an option");
            stream
        })
        .collect();
    // All have been answered once.
    let mut whole = 0;
    for stream in &mut streams {
        stream.write_all(&request).expect("it reads");
        whole = answer(stream);
    }
    let mut polled: Vec<libc::pollfd> =
        streams.iter().map(|s| libc::pollfd { fd: s.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    let mut left = vec![whole; CONNECTIONS];
    let mut buffer = vec![0; 64 * 1024];
    streams.iter_mut().for_each(|stream| stream.write_all(&request).expect("it reads"));
    let (mut answers, before, begun) = (0u32, cpu(server.id()), Instant::now());
    while begun.elapsed() < LASTS {
        // SAFETY: so many entries, ours.
        assert!(unsafe { libc::poll(polled.as_mut_ptr(), CONNECTIONS as libc::nfds_t, 1_000) } > 0, "no answer");
        for ((stream, polled), left) in streams.iter_mut().zip(&polled).zip(&mut left) {
            if polled.revents != 0 {
                let n = stream.read(&mut buffer).expect("an answer");
                assert!(n > 0 && n <= *left, "the server has hung up, or answers otherwise than before");
                *left -= n;
                if *left == 0 {
                    (*left, answers) = (whole, answers + 1);
                    stream.write_all(&request).expect("it reads");
                }
            }
        }
    }
    let (took, used) = (begun.elapsed().as_nanos() as f64, cpu(server.id()) - before);
    server.kill().expect("it runs");
    server.wait().expect("it was killed");
    Load { time: took / f64::from(answers), cpu: used / f64::from(answers) }
}
