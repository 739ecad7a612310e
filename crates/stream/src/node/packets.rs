//! Packets of a network: captured at an interface, written to capture files, and read from them.
//!
//! A block holds whole packets. Each packet is the head of a capture file with nanosecond times (little-endian),
//! followed by its bytes:
//!
//! | bytes | |
//! |---|---|
//! | 0 to 3 | seconds since 1970 |
//! | 4 to 7 | nanoseconds |
//! | 8 to 11 | how many bytes follow |
//! | 12 to 15 | how many bytes the packet had on the network |
//!
//! A packet that finds the kernel's buffer full is lost, and counted as dropped at the stage `packets`. No other packet
//! is lost: the stages behind may be slow as long as the buffer has room.
//!
//! While no packet comes, the stage gives an empty block ten times a second, so that the next stages can write the data
//! that they hold, and a graph that is to stop stops.

use super::opened::{created, opened};
use crate::kind::{Anew, Call, End, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Out, Source, Stage, stage};
use crate::types::{Block, Data, Element, Type};
use chappe_plat::clock;
use chappe_plat::packets::{self, Link, Packet, Refused, Tap, Wishes};
use chappe_rows::WholeFile;
use chappe_sync::select;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::time::Duration;

/// Bytes before those of a packet.
pub const HEAD: usize = 16;
/// The most bytes of a packet, unless it is said.
pub const SNAP: usize = 65_535;
/// The most that a capture file may say of one packet.
const MOST: usize = 262_144;
/// How often a source that has nothing to give says so.
const LOOK: Duration = Duration::from_millis(100);
/// What a capture file begins with: times in nanoseconds, and in microseconds.
const NANOS: u32 = 0xa1b2_3c4d;
const MICROS: u32 = 0xa1b2_c3d4;

/// A packet within a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct One<'a> {
    /// When it went by, in nanoseconds since 1970.
    pub at: u64,
    /// Its bytes, or as many as were kept.
    pub bytes: &'a [u8],
    /// How many it had.
    pub length: u32,
}

impl fmt::Display for One<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} {} ", self.at / 1_000_000_000, self.at % 1_000_000_000, self.length)?;
        self.bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The packets of a block's bytes; what is no whole packet is left.
pub fn each(mut bytes: &[u8]) -> impl Iterator<Item = One<'_>> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let (data, rest) = rest.split_at_checked(word(head, 8) as usize)?;
        bytes = rest;
        let at = u64::from(word(head, 0)) * 1_000_000_000 + u64::from(word(head, 4));
        Some(One { at, bytes: data, length: word(head, 12) })
    })
}

/// How many bytes the whole packets at the begin of these have.
pub fn whole(bytes: &[u8]) -> usize {
    each(bytes).map(|one| HEAD + one.bytes.len()).sum()
}

/// Adds a packet to a block's bytes.
pub fn push(to: &mut Vec<u8>, one: &One<'_>) {
    let (seconds, nanos) = ((one.at / 1_000_000_000) as u32, (one.at % 1_000_000_000) as u32);
    for word in [seconds, nanos, one.bytes.len() as u32, one.length] {
        to.extend(word.to_le_bytes());
    }
    to.extend_from_slice(one.bytes);
}

fn refused(why: Refused, interface: &str) -> String {
    match why {
        Refused::NoInterface => {
            format!("there is no network interface `{interface}`: `ip link` lists those that there are")
        }
        Refused::NotPermitted => format!(
            "packets of `{interface}` may be taken with the capability CAP_NET_RAW alone: run it as root, or give it to the \
             program (`setcap cap_net_raw+ep PROGRAM`)"
        ),
        Refused::Down => format!("the network interface `{interface}` is down: `ip link set {interface} up`"),
        Refused::Hardware(kind) => {
            format!("the packets of `{interface}` have heads of a kind that is not known here (hardware {kind})")
        }
        Refused::System(e) => format!("cannot take packets from `{interface}`: {e}"),
    }
}

/// What goes by at an interface.
struct Taps {
    tap: Tap,
    interface: String,
    /// Packets that are still wanted.
    left: u64,
    /// When it ends.
    until: Option<u64>,
    ended: bool,
}

impl Taps {
    fn over(&self) -> bool {
        self.ended || self.left == 0 || self.until.is_some_and(|until| clock::now() >= until)
    }
}

impl Source for Taps {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let mut bytes = Vec::new();
        while !self.over() {
            let left = &mut self.left;
            let received = self.tap.receive(|Packet { at, bytes: data, length }| {
                if *left > 0 {
                    *left -= 1;
                    push(&mut bytes, &One { at, bytes: data, length });
                }
            });
            match received {
                Ok(_) if bytes.is_empty() => {}
                Ok(_) => return Ok(Some(Block::bytes(bytes))),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let now = clock::now();
                    let until = self.until.map_or(LOOK, |at| Duration::from_nanos(at.saturating_sub(now))).min(LOOK);
                    let ready = select! {
                        readable(self.tap) -> ready => ready.map(|()| true),
                        default(until) => Ok(false),
                    };
                    if !ready? && !self.over() {
                        return Ok(Some(Block::bytes(Vec::new())));
                    }
                }
                Err(e) if e.kind() == ErrorKind::NetworkDown => {
                    let why = format!("the network interface `{}` has gone down, or away", self.interface);
                    return Err(Fault(why));
                }
                Err(e) => return Err(Fault::new(e)),
            }
        }
        self.ended = true;
        Ok(None)
    }

    fn dropped(&mut self) -> u64 {
        self.tap.lost().unwrap_or(0)
    }
}

fn tap(call: &Call<'_>) -> Result<Plan, Wrong> {
    call.no_input()?;
    let (interface, span) = call.needs_text(0, "interface")?;
    let interface = interface.to_owned();
    let snap = call.number_or(usize::MAX, "snap", (1.0, MOST as f64), SNAP as f64)? as usize;
    let buffer = call.number_or(usize::MAX, "buffer", (4096.0, 1e9), 4_194_304.0)? as usize;
    let count = call.number(usize::MAX, "count", (1.0, 1e15))?.map_or(u64::MAX, |n| n as u64);
    let seconds = call.number(usize::MAX, "seconds", (1e-3, 1e9))?;
    let promiscuous = call.choice(usize::MAX, "promiscuous", &["yes", "no"])? != Some("no");
    let link = packets::link(&interface).map_err(|why| Wrong::at(span, refused(why, &interface)))?;
    let plan = Plan::source(Type::of(Element::Packet(link)), move || {
        let wishes = Wishes { snap, buffer, promiscuous };
        let tap = Tap::open(&interface, &wishes).map_err(|why| Fault(refused(why, &interface)))?;
        let until = seconds.map(|s| clock::now() + (s * 1e9) as u64);
        Ok(Body::Source(Box::new(Taps { tap, interface, left: count, until, ended: false })))
    });
    Ok(plan.ends(End::Passive, End::Active).anew(Anew::Live))
}

/// Writes a capture file.
struct ToPcap {
    file: BufWriter<File>,
    packets: u64,
    cut: u64,
}

/// A file's head: version 2.4, no offset, the most of a packet, and what each begins with.
fn head(link: Link) -> Vec<u8> {
    let words = [NANOS, 4 << 16 | 2, 0, 0, MOST as u32, link.0];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

impl Stage for ToPcap {
    fn put(&mut self, mut block: Block, _: &mut dyn Out) -> Result<(), Fault> {
        if block.is_empty() {
            // Nothing comes: what there is may be read.
            return Ok(self.file.flush()?);
        }
        for one in each(block.octets()) {
            self.packets += 1;
            self.cut += u64::from((one.bytes.len() as u64) < u64::from(one.length));
        }
        Ok(self.file.write_all(block.octets())?)
    }

    fn end(&mut self, _: &mut dyn Out) -> Result<(), Fault> {
        Ok(self.file.flush()?)
    }

    fn says(&self) -> Option<String> {
        let cut = if self.cut > 0 { format!(", {} of them cut short", self.cut) } else { String::new() };
        Some(format!("{} packets{cut}", self.packets))
    }
}

/// Reads one, whichever machine wrote it.
struct FromPcap {
    file: BufReader<WholeFile>,
    path: String,
    big: bool,
    nanos: bool,
    at: u64,
    /// So many bytes at its end are no whole packet: its writer has not got further, or was killed.
    rest: usize,
}

impl FromPcap {
    /// The file behind its head, and what its packets begin with.
    fn new(mut file: BufReader<WholeFile>, path: &str) -> Result<(FromPcap, Link), String> {
        let mut head = [0; 24];
        file.read_exact(&mut head).map_err(|_| format!("{path} is no capture file: it has no head"))?;
        let (little, big) = (word(&head, 0), word(&head, 0).swap_bytes());
        let (is_big, magic) = if matches!(little, NANOS | MICROS) { (false, little) } else { (true, big) };
        if !matches!(magic, NANOS | MICROS) {
            let next = if little == 0x0a0d_0d0a {
                ": it is of the newer kind (pcapng), `tcpdump -r X -w Y` writes this one"
            } else {
                ""
            };
            return Err(format!("{path} is no capture file{next}"));
        }
        let link = if is_big { word(&head, 20).swap_bytes() } else { word(&head, 20) };
        let reader = FromPcap { file, path: path.to_owned(), big: is_big, nanos: magic == NANOS, at: 24, rest: 0 };
        // The upper bits say other things.
        Ok((reader, Link(link & 0x0fff_ffff)))
    }

    /// Fills all of it; false: the file ends before.
    fn fill(&mut self, to: &mut [u8]) -> Result<bool, Fault> {
        let mut have = 0;
        while have < to.len() {
            match self.file.read(&mut to[have..]) {
                Ok(0) => {
                    self.rest += have;
                    return Ok(false);
                }
                Ok(n) => have += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.at += have as u64;
        Ok(true)
    }
}

impl Source for FromPcap {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        const BYTES: usize = 16_384;
        let mut bytes = Vec::new();
        while bytes.len() < BYTES {
            let begin = self.at;
            let mut head = [0; HEAD];
            if !self.fill(&mut head)? {
                break;
            }
            let of = |at| if self.big { word(&head, at).swap_bytes() } else { word(&head, at) };
            let (seconds, part, kept, length) = (of(0), of(4), of(8) as usize, of(12));
            let nanos = if self.nanos { part } else { part.saturating_mul(1000) };
            if kept > MOST || nanos >= 1_000_000_000 {
                let why = format!("{} is damaged at byte {begin}: there is no packet's head", self.path);
                return Err(Fault(why));
            }
            let (start, at) = (bytes.len(), u64::from(seconds) * 1_000_000_000 + u64::from(nanos));
            push(&mut bytes, &One { at, bytes: &[], length });
            bytes[start + 8..start + 12].copy_from_slice(&(kept as u32).to_le_bytes());
            bytes.resize(start + HEAD + kept, 0);
            if !self.fill(&mut bytes[start + HEAD..])? {
                self.rest += HEAD;
                bytes.truncate(start);
                break;
            }
        }
        Ok((!bytes.is_empty()).then_some(Block::of(Data::Bytes(bytes))))
    }

    fn is_broken(&self) -> bool {
        self.rest > 0
    }

    fn says(&self) -> Option<String> {
        let (path, rest) = (&self.path, self.rest);
        self.is_broken().then(|| format!("{path} ends within a packet: its last {rest} bytes are left out"))
    }
}

fn pcap(call: &Call<'_>) -> Result<Plan, Wrong> {
    let (path, span) = call.file()?;
    let path = path.to_owned();
    if call.inputs.is_empty() {
        let file = BufReader::with_capacity(65_536, opened(&path, span)?);
        let (reader, link) = FromPcap::new(file, &path).map_err(|why| Wrong::at(span, why))?;
        let body = move || Ok(Body::Source(Box::new(reader) as Box<dyn Source>));
        return Ok(Plan::source(Type::of(Element::Packet(link)), body));
    }
    let input = call.input()?;
    let Element::Packet(link) = input.element else {
        return Err(call.mismatch(input, "packets", "`packets INTERFACE` takes them, `pcap FILE` reads them"));
    };
    Ok(Plan::sink(move || {
        let mut file = created(&path)?;
        file.write_all(&head(link))?;
        stage(ToPcap { file, packets: 0, cut: 0 })
    }))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::new(
            "packets",
            "\"INTERFACE\" [count=N] [seconds=S] [snap=65535] [buffer=4194304] [promiscuous=yes|no]",
            "packets of a network, as they go by at an interface; those that find no room are counted",
            tap,
        ),
        Kind::new(
            "pcap",
            "\"FILE\"",
            "a capture file, as tcpdump and others have them: read, or written if packets lead to it",
            pcap,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Kept;

    fn some() -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, &One { at: 5_000_000_007, bytes: b"one", length: 3 });
        push(&mut bytes, &One { at: 6_999_999_999, bytes: b"", length: 9 });
        bytes
    }

    #[test]
    fn packets_lie_in_a_block_one_behind_the_other() {
        let bytes = some();
        let all: Vec<One<'_>> = each(&bytes).collect();
        assert_eq!(all[0], One { at: 5_000_000_007, bytes: b"one", length: 3 });
        assert_eq!((all[1].to_string(), all.len()), ("6.999999999 9 ".to_owned(), 2));
        assert_eq!(all[0].to_string(), "5.000000007 3 6f6e65");
        // The second has not come whole.
        assert_eq!((whole(&bytes[..HEAD + 3 + 15]), whole(&bytes), whole(&bytes[..5])), (HEAD + 3, bytes.len(), 0));
    }

    fn read(file: &[u8]) -> Result<Vec<u8>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        std::fs::write(&path, file).unwrap();
        let opened = BufReader::new(WholeFile::new(File::open(&path).unwrap()).unwrap());
        let (mut reader, _) = FromPcap::new(opened, "p")?;
        let mut all = Vec::new();
        while let Some(mut block) = reader.get().map_err(|e| e.0)? {
            all.append(block.octets());
        }
        Ok(all)
    }

    #[test]
    fn a_capture_file_is_read_whoever_wrote_it_and_a_damaged_one_is_refused() {
        let file = [head(Link::ETHERNET), some()].concat();
        assert_eq!(read(&file).unwrap(), some());
        // The same of another machine, in microseconds.
        let mut other: Vec<u8> = [MICROS, 2 << 16 | 4, 0, 0, 100, 1].into_iter().flat_map(u32::to_be_bytes).collect();
        other.extend([5u32, 7, 3, 3].into_iter().flat_map(u32::to_be_bytes));
        other.extend(b"one");
        let mut wanted = Vec::new();
        push(&mut wanted, &One { at: 5_000_007_000, bytes: b"one", length: 3 });
        assert_eq!(read(&other).unwrap(), wanted);
        for (file, why) in [
            (&file[..10], "p is no capture file: it has no head"),
            (&[7; 30], "p is no capture file"),
            (&[b"\x0a\x0d\x0d\x0a".as_slice(), &[0; 40]].concat()[..], "`tcpdump -r X -w Y` writes this one"),
            (&[&file[..], &[0xff; 16]].concat()[..], "p is damaged at byte 59: there is no packet's head"),
        ] {
            let said = read(file).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        // One that is still written, or whose writer was killed, has its whole packets, and says what is left out.
        let first = HEAD + each(&some()).next().unwrap().bytes.len();
        for (len, whole, rest) in [(7, 0, 7), (16, 0, 16), (18, 0, 18), (first + 5, first, 5)] {
            let part = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(part.path(), &file[..24 + len]).unwrap();
            let (mut reader, _) =
                FromPcap::new(BufReader::new(WholeFile::new(part.reopen().unwrap()).unwrap()), "p").unwrap();
            let mut all = Vec::new();
            while let Some(mut block) = reader.get().unwrap() {
                all.append(block.octets());
            }
            assert_eq!((&all[..], reader.is_broken()), (&some()[..whole], true), "{len}");
            assert_eq!(reader.says().unwrap(), format!("p ends within a packet: its last {rest} bytes are left out"));
        }
    }

    #[test]
    fn a_capture_file_says_how_many_packets_it_has_and_which_were_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p");
        let mut to = ToPcap { file: created(&path.display().to_string()).unwrap(), packets: 0, cut: 0 };
        to.put(Block::bytes(some()), &mut Kept::default()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        // Nothing comes: it is written.
        to.put(Block::bytes(Vec::new()), &mut Kept::default()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), some());
        assert_eq!(to.says().unwrap(), "2 packets, 1 of them cut short");
    }

    #[test]
    fn a_refused_interface_is_reported_with_a_remedy() {
        assert!(refused(Refused::NotPermitted, "eth0").contains("capability CAP_NET_RAW alone: run it as root"));
        assert!(refused(Refused::Down, "eth0").contains("`ip link set eth0 up`"));
        assert!(refused(Refused::Hardware(824), "ib0").contains("hardware 824"));
        let wrong = crate::Graph::new("packets \"nosuch0\" | null").unwrap_err().to_string();
        assert!(
            wrong.contains("there is no network interface `nosuch0`") && wrong.contains("line 1, column 9"),
            "{wrong}"
        );
    }
}
