//! A link that is worse than the one there is: in user space, between a client and a server, so that it needs no right and no kernel's module.
//!
//! What comes is handed on later: each piece by a delay of its own, from a seed, and each delay is kept with how long it was in the end. A piece of a
//! stream never overtakes another, and one that is "lost" comes as late as TCP would send it again; with it all that is behind it. A datagram that is lost
//! is gone, and datagrams overtake each other. A relay that is cut keeps what it has of a stream until it is whole again, and drops datagrams.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// After which time TCP sends again what was lost.
const AGAIN: Duration = Duration::from_millis(200);

/// What it does to each piece.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The least and the most of the delay, of which each is as likely.
    pub delay: (Duration, Duration),
    /// How many of a thousand are lost.
    pub lost: u32,
    /// Where the delays come from.
    pub seed: u64,
}

/// A delay: as it was to be, and as it was, in seconds.
pub type Delay = (f64, f64);

struct State {
    cut: bool,
    ended: bool,
    random: u64,
    delays: Vec<Delay>,
    carried: (u64, u64),
}

struct Shared {
    rule: Rule,
    state: Mutex<State>,
    changed: Condvar,
}

/// A relay. It ends, with all that goes through it, when it is dropped.
pub struct Relay {
    /// Where clients find it.
    pub port: u16,
    shared: Arc<Shared>,
}

/// Until when a piece is kept.
fn due(shared: &Shared, stream: bool) -> (Instant, Duration, bool) {
    let (rule, mut state) = (shared.rule, shared.lock());
    state.random ^= state.random >> 12;
    state.random ^= state.random << 25;
    state.random ^= state.random >> 27;
    let any = state.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
    let (least, most) = rule.delay;
    let mut delay = least + (most - least).mul_f64((any >> 10) as f64 / (1u64 << 43) as f64);
    let lost = any % 1_000 < u64::from(rule.lost);
    if lost && stream {
        delay += AGAIN;
    }
    (Instant::now() + delay, delay, lost && !stream)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a stream's piece can go on; `false`: never.
    fn may_go(&self) -> bool {
        let state = self.changed.wait_while(self.lock(), |state| state.cut && !state.ended);
        !state.unwrap_or_else(PoisonError::into_inner).ended
    }

    fn went(&self, wanted: Duration, due: Instant) {
        let was = wanted.as_secs_f64() + Instant::now().saturating_duration_since(due).as_secs_f64();
        self.lock().delays.push((wanted.as_secs_f64(), was));
    }
}

/// Waits until then, to within some microseconds.
fn sleep_until(then: Instant) {
    while let Some(left) = then.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        if left > Duration::from_micros(100) {
            std::thread::sleep(left.saturating_sub(Duration::from_micros(80)));
        } else {
            std::hint::spin_loop();
        }
    }
}

impl Relay {
    fn new(port: u16, rule: Rule) -> Relay {
        let state = State {
            cut: false,
            ended: false,
            random: rule.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            delays: Vec::new(),
            carried: (0, 0),
        };
        Relay { port, shared: Arc::new(Shared { rule, state: Mutex::new(state), changed: Condvar::new() }) }
    }

    /// Streams of clients that come to this port (0: any) of this address go to that one.
    ///
    /// # Errors
    /// The port is taken.
    pub fn tcp(at: (Ipv4Addr, u16), to: SocketAddr, rule: Rule) -> std::io::Result<Relay> {
        let listener = TcpListener::bind(at)?;
        let relay = Relay::new(listener.local_addr()?.port(), rule);
        let shared = Arc::clone(&relay.shared);
        std::thread::spawn(move || {
            while let Some(client) = next(&listener, &shared) {
                let Ok(server) = TcpStream::connect(to) else { continue };
                for stream in [&client, &server] {
                    // Nobody is served worse than by the rule.
                    let _ = stream.set_nodelay(true);
                }
                let both = (client.try_clone(), server.try_clone());
                let (Ok(client2), Ok(server2)) = both else { continue };
                carry(&shared, client, server, |carried| &mut carried.0);
                carry(&shared, server2, client2, |carried| &mut carried.1);
            }
        });
        Ok(relay)
    }

    /// The same of datagrams, on loopback.
    ///
    /// # Errors
    /// There is no port.
    pub fn udp(to: SocketAddr, rule: Rule) -> std::io::Result<Relay> {
        let own = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        own.set_read_timeout(Some(Duration::from_millis(100)))?;
        let relay = Relay::new(own.local_addr()?.port(), rule);
        let shared = Arc::clone(&relay.shared);
        let (pieces, kept) = channel::<Piece>();
        let keeper = Arc::clone(&shared);
        std::thread::spawn(move || keep(&keeper, &kept));
        std::thread::spawn(move || {
            let (mut servers, mut bytes) = (HashMap::<SocketAddr, Arc<UdpSocket>>::new(), [0; 65_536]);
            let own = Arc::new(own);
            while !shared.lock().ended {
                let Ok((n, client)) = own.recv_from(&mut bytes) else { continue };
                let server = servers.entry(client).or_insert_with(|| {
                    let server = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"));
                    server.set_read_timeout(Some(Duration::from_millis(100))).expect("a time");
                    answers(&shared, &server, &own, client, pieces.clone());
                    server
                });
                let _ = pieces.send(Piece::of(&shared, server, to, &bytes[..n]));
            }
        });
        Ok(relay)
    }

    /// Cuts it, or makes it whole again.
    pub fn cut(&self, cut: bool) {
        self.shared.lock().cut = cut;
        self.shared.changed.notify_all();
    }

    /// Bytes of streams that went to the server, and that came from it.
    pub fn carried(&self) -> (u64, u64) {
        self.shared.lock().carried
    }

    /// The delays until now.
    pub fn delays(&self) -> Vec<Delay> {
        self.shared.lock().delays.clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

/// The next client; `None`: the relay has ended.
fn next(listener: &TcpListener, shared: &Shared) -> Option<TcpStream> {
    while !shared.lock().ended {
        let mut one = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, on our stack.
        if unsafe { libc::poll(&raw mut one, 1, 100) } == 1
            && let Ok((client, _)) = listener.accept()
        {
            return Some(client);
        }
    }
    None
}

/// One direction of a stream.
fn carry(shared: &Arc<Shared>, mut from: TcpStream, mut to: TcpStream, counts: fn(&mut (u64, u64)) -> &mut u64) {
    let (pieces, kept) = channel::<(Instant, Duration, Vec<u8>)>();
    let reader = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            let (due, delay, _) = due(&reader, true);
            if pieces.send((due, delay, bytes[..n].to_vec())).is_err() {
                break;
            }
        }
    });
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        for (due, delay, bytes) in kept {
            sleep_until(due);
            if !shared.may_go() || to.write_all(&bytes).is_err() {
                break;
            }
            *counts(&mut shared.lock().carried) += bytes.len() as u64;
            shared.went(delay, due);
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// A datagram that waits.
struct Piece {
    due: Instant,
    delay: Duration,
    by: Arc<UdpSocket>,
    to: SocketAddr,
    bytes: Option<Vec<u8>>,
}

impl Piece {
    fn of(shared: &Shared, by: &Arc<UdpSocket>, to: SocketAddr, bytes: &[u8]) -> Piece {
        let (due, delay, lost) = due(shared, false);
        Piece { due, delay, by: Arc::clone(by), to, bytes: (!lost).then(|| bytes.to_vec()) }
    }
}

/// What a server answers to this client.
fn answers(shared: &Arc<Shared>, server: &Arc<UdpSocket>, own: &Arc<UdpSocket>, client: SocketAddr, to: Sender<Piece>) {
    let (shared, server, own) = (Arc::clone(shared), Arc::clone(server), Arc::clone(own));
    std::thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while !shared.lock().ended {
            let Ok((n, _)) = server.recv_from(&mut bytes) else { continue };
            let _ = to.send(Piece::of(&shared, &own, client, &bytes[..n]));
        }
    });
}

/// Hands datagrams on, each when it is due.
fn keep(shared: &Shared, kept: &Receiver<Piece>) {
    let (mut waiting, mut order): (HashMap<u64, Piece>, BinaryHeap<Reverse<(Instant, u64)>>) = Default::default();
    for number in 0.. {
        let next = order.peek().map(|Reverse((due, _))| *due);
        let patience = next.map_or(Duration::from_millis(100), |due| {
            due.saturating_duration_since(Instant::now()).saturating_sub(Duration::from_micros(80))
        });
        match kept.recv_timeout(patience) {
            Ok(piece) => {
                order.push(Reverse((piece.due, number)));
                waiting.insert(number, piece);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => (),
        }
        let Some(Reverse((due, first))) = order.pop() else {
            if shared.lock().ended {
                return;
            }
            continue;
        };
        sleep_until(due);
        let piece = waiting.remove(&first).expect("it waits");
        if let Some(bytes) = piece.bytes.filter(|_| !shared.lock().cut) {
            let _ = piece.by.send_to(&bytes, piece.to);
            shared.went(piece.delay, due);
        }
    }
}
