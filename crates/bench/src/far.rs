//! Synthesis, 6.4.3: how near a clock stays to that of another machine, over a network that adds what it likes.
//!
//! The other machine is a thread whose clock is a day ahead and 80 ppm fast; between us and it is a [`Relay`] on loopback. As both clocks are this machine's in the
//! end, the error is known exactly. Beside it the same where each answer is believed as it comes.

use crate::relay::{Delay, Relay, Rule};
use crate::table::{Table, Unit};
use chappe::feedback::{Exchange, Far, Locked};
use std::io::{Read, Result, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// By what the exchanges go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Datagrams: one that is lost is not asked again.
    Udp,
    /// A stream.
    Tcp,
}

/// How far the clock was from the peer's, in seconds, at each exchange from `from` on.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Of the clock that takes the least of [`WINDOW`] exchanges.
    pub errors: Vec<f64>,
    /// Of the one that believes each.
    pub each: Vec<f64>,
    /// What the peer's clock was found to be fast by, in millionths.
    pub ppm: f64,
    /// How far off it can have been at the end, for certain.
    pub bound: f64,
    /// What the relay added.
    pub delays: Vec<Delay>,
}

/// Exchanges of which the least count.
pub const WINDOW: u32 = 128;
/// How often the peer is asked.
const PERIOD: Duration = Duration::from_millis(5);
/// By how many millionths its clock is fast.
pub const PPM: f64 = 80.0;

/// Two clocks that are read within so many seconds are read at once: between others a thread was held up.
const SAME: f64 = 5e-6;

/// The peer's time.
fn peer(since: Instant) -> f64 {
    86_400.0 + since.elapsed().as_secs_f64() * (1.0 + PPM * 1e-6)
}

/// The answer to a question of 8 bytes: these, and when it was received and answered.
fn answer(question: [u8; 8], received: f64, since: Instant) -> [u8; 24] {
    let mut all = [0; 24];
    all[..8].copy_from_slice(&question);
    all[8..16].copy_from_slice(&received.to_le_bytes());
    all[16..].copy_from_slice(&peer(since).to_le_bytes());
    all
}

fn serve_udp(socket: &UdpSocket, since: Instant) {
    let mut question = [0; 8];
    // What ends it is a question of no bytes.
    while let Ok((8, from)) = socket.recv_from(&mut question) {
        let received = peer(since);
        let _ = socket.send_to(&answer(question, received, since), from);
    }
}

fn serve_tcp(listener: &TcpListener, since: Instant) -> Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut question = [0; 8];
    loop {
        stream.read_exact(&mut question)?;
        let received = peer(since);
        stream.write_all(&answer(question, received, since))?;
    }
}

/// A connection to the peer.
enum Line {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Line {
    /// Asks, and waits for the answer to this question; `None`: it was lost.
    fn asks(&mut self, number: u64) -> Result<Option<[u8; 24]>> {
        let (question, mut all) = (number.to_le_bytes(), [0; 24]);
        match self {
            Line::Tcp(stream) => {
                stream.write_all(&question)?;
                stream.read_exact(&mut all)?;
                Ok(Some(all))
            }
            Line::Udp(socket) => {
                socket.send(&question)?;
                // One that is late is of another question.
                while socket.recv(&mut all).is_ok() {
                    if all[..8] == question {
                        return Ok(Some(all));
                    }
                }
                Ok(None)
            }
        }
    }
}

/// Follows a peer for so long; errors count from `from` on.
///
/// # Errors
/// No port, or the peer is gone.
pub fn follow(by: By, rule: Rule, long: Duration, from: Duration) -> Result<Seen> {
    let since = Instant::now();
    let any = (Ipv4Addr::LOCALHOST, 0);
    let (mut line, relay, end): (Line, Relay, Option<(UdpSocket, SocketAddr)>) = match by {
        By::Udp => {
            let socket = UdpSocket::bind(any)?;
            let at = socket.local_addr()?;
            std::thread::spawn(move || serve_udp(&socket, since));
            let relay = Relay::udp(at, rule)?;
            let own = UdpSocket::bind(any)?;
            own.connect((Ipv4Addr::LOCALHOST, relay.port))?;
            own.set_read_timeout(Some(Duration::from_millis(20)))?;
            (Line::Udp(own), relay, Some((UdpSocket::bind(any)?, at)))
        }
        By::Tcp => {
            let listener = TcpListener::bind(any)?;
            let at = listener.local_addr()?;
            std::thread::spawn(move || serve_tcp(&listener, since));
            let relay = Relay::tcp(any, at, rule)?;
            let own = TcpStream::connect((Ipv4Addr::LOCALHOST, relay.port))?;
            own.set_nodelay(true)?;
            (Line::Tcp(own), relay, None)
        }
    };
    let clock = || Locked::new(1_000.0, 1.0);
    let (mut far, mut each) = (Far::new(clock(), WINDOW), Far::new(clock(), 1));
    let mut seen = Seen::default();
    for number in 0.. {
        let sent = since.elapsed();
        if sent >= long {
            break;
        }
        if let Some(all) = line.asks(number)? {
            let back = since.elapsed().as_secs_f64();
            let time = |at: usize| f64::from_le_bytes(all[at..at + 8].try_into().expect("8 bytes"));
            let one = Exchange { sent: sent.as_secs_f64(), received: time(8), answered: time(16), back };
            far.exchange(one);
            each.exchange(one);
        }
        if sent >= from {
            // Between two looks at our own time.
            let (before, theirs, after) = (since.elapsed().as_secs_f64(), peer(since), since.elapsed().as_secs_f64());
            let own = f64::midpoint(before, after);
            let off = |far: &Far| far.at(own).map(|at| at - theirs).filter(|_| after - before < SAME);
            seen.errors.extend(off(&far));
            seen.each.extend(off(&each));
        }
        std::thread::sleep(PERIOD.saturating_sub(since.elapsed() - sent));
    }
    if let Some((socket, to)) = end {
        socket.send_to(&[], to)?;
    }
    (seen.ppm, seen.bound, seen.delays) = (far.clock().ppm(), far.bound(), relay.delays());
    Ok(seen)
}

/// A millisecond of jitter in each direction; of datagrams a hundredth is lost.
pub fn jittered(by: By) -> Rule {
    let delay = (Duration::from_micros(100), Duration::from_micros(1_100));
    Rule { delay, lost: if by == By::Udp { 10 } else { 0 }, seed: 643 }
}

/// Follows a peer for so long by each kind of line, and prints what the second half came to. It takes four seconds until the clock's rate is known.
pub fn measure(long: Duration) {
    let mut rows = Vec::new();
    for by in [By::Udp, By::Tcp] {
        let seen = match follow(by, jittered(by), long, long / 2) {
            Ok(seen) => seen,
            Err(e) => {
                println!("not measured: {by:?} on loopback: {e}");
                continue;
            }
        };
        let all = |errors: Vec<f64>| errors.into_iter().map(|error| error.abs() * 1e9).collect();
        rows.push((format!("{by:?}, the least of {WINDOW} exchanges"), all(seen.errors)));
        rows.push((format!("{by:?}, each exchange by itself"), all(seen.each)));
        let added = seen.delays.iter().map(|(_, was)| was * 1e9).collect();
        rows.push((format!("{by:?}: what the relay added"), added));
    }
    print!("{}", Table::counted("how far a clock is from its peer's (aim: 50 us)", Unit::Nanoseconds, rows).report());
}
