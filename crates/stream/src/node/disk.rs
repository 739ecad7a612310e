//! Disks with many transfers in flight (synthesis, table 4.4: the quaject `Disk`, with `aread`, `awrite`, `blk_size` and `new_disk`).
//!
//! A `disk` is read by N light threads, each of which has one block in flight and keeps it until it is asked for: the blocks come in their order, and at
//! most N are ahead. How a light thread waits for a transfer is [`chappe_thread::File`]'s affair: by io_uring, or by a kernel thread each where
//! that is refused (`chappe doctor` says which).
//!
//! A `disk` goes past the kernel's cache (O_DIRECT): what is read comes from the device, what is written is on its way to it. Its blocks are
//! multiples of the device's own block size. Memory of that alignment belongs to the light threads, and is copied from and to blocks.
//!
//! ```text
//!   get k: takes from lane k mod N  <-- lane: its thread reads block k, k + N, k + 2N ...
//!   put k: into the queue of N      --> whichever thread is free writes block k at its place
//! ```
//!
//! The length is that of the begin: a file that grows is read that far; one that shrinks meanwhile is a fault. A path that names another file
//! or device from some time on (`new_disk`) ends the graph with a fault at the next block, or with `new_disk=keep` is counted, and the
//! old one goes on to its end. A write is told as done by [`Stage::end`] alone; a write that fails is a fault of the next `put` or of `end`.

use crate::kind::{Anew, Call, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Out, Source, Stage, stage};
use crate::types::{Block, Data, Element, Type};
use chappe_plat::file::{OpenOptions, direct, direct_align};
use chappe_rows::shorter;
use chappe_sync::tube::{Receiver, Sender, bounded};
use chappe_thread::{File, JoinHandle};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::sync::{Arc, Mutex, PoisonError};

/// How many blocks are in flight, unless it is said.
const IN_FLIGHT: f64 = 4.0;
/// Bytes of a block of a disk, unless it is said.
const BLOCK: f64 = 1_048_576.0;

/// An open file or device, under its name.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) path: String,
    /// Device and number of what the path named.
    is: (u64, u64),
    pub(super) bytes: u64,
    is_regular: bool,
    /// What places, lengths and memory of direct transfers are multiples of; 1 for others.
    align: usize,
}

impl Opened {
    pub(super) fn new(path: &str, options: &mut OpenOptions, is_direct: bool) -> Result<Opened, String> {
        let told = |e: io::Error| match e.kind() {
            ErrorKind::InvalidInput if is_direct => {
                format!("`{path}` takes no direct transfers (a file system in memory?): use `file` in place of `disk`")
            }
            ErrorKind::ResourceBusy => format!("`{path}` is in use (mounted?): {e}"),
            _ => format!("cannot open {path}: {e}"),
        };
        // Before it is opened: a FIFO would wait for a writer.
        let is_disk = |of: &std::fs::Metadata| of.is_file() || of.file_type().is_block_device();
        if std::fs::metadata(path).is_ok_and(|of| !is_disk(&of)) {
            let instead = if is_direct { "" } else { ": leave `reads=` out" };
            return Err(format!("`{path}` is no file and no disk, and has no places to read at{instead}"));
        }
        let mut file = if is_direct { direct(options) } else { options }.open(path).map_err(told)?;
        let meta = file.metadata().map_err(told)?;
        let is_regular = meta.is_file();
        let align = if is_direct { direct_align(&file).map_err(told)? } else { 1 };
        let bytes = if !is_regular { file.seek(SeekFrom::End(0)).map_err(told)? } else { meta.len() };
        let file = File::new(file).map_err(told)?;
        Ok(Opened { file, path: path.to_owned(), is: (meta.dev(), meta.ino()), bytes, is_regular, align })
    }

    /// Whether the path names something else now, or nothing.
    fn is_replaced(&self) -> bool {
        std::fs::metadata(&self.path).map_or(true, |now| (now.dev(), now.ino()) != self.is)
    }
}

/// Memory whose begin is a multiple of `align`.
struct Aligned {
    bytes: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize, align: usize) -> Aligned {
        let bytes = vec![0; len + align];
        let begin = bytes.as_ptr().align_offset(align);
        Aligned { bytes, begin, len }
    }

    fn all(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.begin + self.len]
    }
}

/// Bytes from a place of the file, as many as there are up to `most`; each in as many reads as it takes.
fn read(of: &Opened, aligned: &mut Aligned, most: usize, at: u64) -> io::Result<Vec<u8>> {
    // The last read of a file is as long as the others: a direct one is in whole blocks, and says how much there was.
    let (place, mut have) = (aligned.all(), 0);
    while have < most {
        match of.file.read_at(&mut place[have..], at + have as u64) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        // Behind the end, or a transfer that was cut short: direct reads go on at whole blocks only.
        if have % of.align != 0 {
            break;
        }
    }
    Ok(place[..have.min(most)].to_vec())
}

/// What is done about a path that names something else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NewDisk {
    Fault,
    Keep,
}

/// Reads bytes, many blocks at once.
struct FromDisk {
    of: Arc<Opened>,
    block: usize,
    in_flight: usize,
    new_disk: NewDisk,
    was_replaced: bool,
    lanes: Vec<Receiver<io::Result<Vec<u8>>>>,
    next: u64,
}

impl FromDisk {
    fn blocks(&self) -> u64 {
        self.of.bytes.div_ceil(self.block as u64)
    }

    /// Begins the threads. They end when all is read, or their lanes are gone.
    fn begin(&mut self) {
        let (stride, blocks, block) = (self.in_flight as u64, self.blocks(), self.block);
        for first in 0..stride.min(blocks) {
            // A lane of no room of its own: its thread has one block, which it read and hands over.
            let (to, from) = bounded(0);
            let of = Arc::clone(&self.of);
            chappe_thread::spawn(move || {
                let mut aligned = Aligned::new(block, of.align);
                let mut at = first;
                while at < blocks {
                    let place = at * block as u64;
                    let most = (of.bytes - place).min(block as u64) as usize;
                    if to.send(read(&of, &mut aligned, most, place)).is_err() {
                        break;
                    }
                    at += stride;
                }
            });
            self.lanes.push(from);
        }
    }
}

impl Source for FromDisk {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        if self.next == self.blocks() {
            return Ok(None);
        }
        if self.lanes.is_empty() {
            self.begin();
        }
        let path = &self.of.path;
        if !self.was_replaced && self.of.is_replaced() {
            self.was_replaced = true;
            if self.new_disk == NewDisk::Fault {
                let read = self.next * self.block as u64;
                let why = format!(
                    "{path} is another file or disk now, after {read} bytes: `new_disk=keep` reads the old one to its end"
                );
                return Err(Fault(why));
            }
        }
        let lane = &self.lanes[(self.next % self.in_flight as u64) as usize];
        let bytes = lane.recv().map_err(|_| Fault(format!("a thread that reads {path} has ended")))?;
        let bytes = bytes.map_err(|e| Fault(format!("cannot read {path}: {e}")))?;
        let place = self.next * self.block as u64;
        let wanted = (self.of.bytes - place).min(self.block as u64);
        if (bytes.len() as u64) < wanted {
            let has = place + bytes.len() as u64;
            return Err(Fault(format!("{path} {}", shorter(self.of.bytes, has))));
        }
        self.next += 1;
        Ok(Some(Block::bytes(bytes)))
    }

    fn says(&self) -> Option<String> {
        self.was_replaced.then(|| format!("{} names another file or disk now: the old one was read", self.of.path))
    }
}

fn source(of: Opened, block: usize, in_flight: usize, new_disk: NewDisk) -> Plan {
    let path = of.path.clone();
    let plan = Plan::source(Type::of(Element::Byte), move || {
        let (of, was_replaced, lanes, next) = (Arc::new(of), false, Vec::new(), 0);
        Ok(Body::Source(Box::new(FromDisk { of, block, in_flight, new_disk, was_replaced, lanes, next })))
    });
    plan.reads(&path)
}

/// What the threads of a sink have in common.
struct Written {
    of: Opened,
    /// The first write that failed.
    failed: Mutex<Option<io::Error>>,
}

impl Written {
    fn fault(&self) -> Option<Fault> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map(|e| Fault(format!("cannot write {}: {e}", self.of.path)))
    }

    fn fail(&self, e: io::Error) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
    }
}

/// Writes blocks, many at once.
struct ToDisk {
    to: Arc<Written>,
    block: usize,
    /// What has come of the next block.
    half: Vec<u8>,
    /// Where it will be.
    place: u64,
    new_disk: NewDisk,
    was_replaced: bool,
    blocks: Option<Sender<(u64, Vec<u8>)>>,
    threads: Vec<JoinHandle<()>>,
}

impl ToDisk {
    fn new(of: Opened, block: usize, in_flight: usize, new_disk: NewDisk) -> ToDisk {
        let to = Arc::new(Written { of, failed: Mutex::new(None) });
        let (blocks, from) = bounded::<(u64, Vec<u8>)>(in_flight);
        let each = || {
            let (to, from): (Arc<Written>, Receiver<(u64, Vec<u8>)>) = (Arc::clone(&to), from.clone());
            chappe_thread::spawn(move || {
                let mut aligned = Aligned::new(block, to.of.align);
                while let Ok((place, bytes)) = from.recv() {
                    // Of the last block: up to a whole one of the device's, and the file is cut to its length then.
                    let whole = bytes.len().next_multiple_of(to.of.align);
                    let memory = &mut aligned.all()[..whole];
                    memory[..bytes.len()].copy_from_slice(&bytes);
                    memory[bytes.len()..].fill(0);
                    if let Err(e) = to.of.file.write_all_at(memory, place) {
                        to.fail(e);
                    }
                }
            })
        };
        let threads = (0..in_flight).map(|_| each()).collect();
        ToDisk { to, block, half: Vec::new(), place: 0, new_disk, was_replaced: false, blocks: Some(blocks), threads }
    }

    fn send(&mut self, bytes: Vec<u8>) -> Result<(), Fault> {
        if let Some(fault) = self.to.fault() {
            return Err(fault);
        }
        let of = &self.to.of;
        if !self.was_replaced && of.is_replaced() {
            self.was_replaced = true;
            if self.new_disk == NewDisk::Fault {
                let why = format!(
                    "{} is another file or disk now: the {} bytes before went to the old one; `new_disk=keep` writes all to it",
                    of.path, self.place
                );
                return Err(Fault(why));
            }
        }
        let end = self.place + bytes.len() as u64;
        if !of.is_regular && end > of.bytes {
            return Err(Fault(format!("{} is full: it has {} bytes", of.path, of.bytes)));
        }
        let place = std::mem::replace(&mut self.place, end);
        let sent = self.blocks.as_ref().is_some_and(|blocks| blocks.send((place, bytes)).is_ok());
        if sent { Ok(()) } else { Err(Fault(format!("the threads that write {} have ended", self.to.of.path))) }
    }
}

impl Stage for ToDisk {
    fn put(&mut self, block: Block, _: &mut dyn Out) -> Result<(), Fault> {
        match block.data {
            Data::Bytes(bytes) => self.half.extend(bytes),
            _ => self.half.extend(block.to_bytes()),
        }
        while self.half.len() >= self.block {
            let rest = self.half.split_off(self.block);
            let whole = std::mem::replace(&mut self.half, rest);
            self.send(whole)?;
        }
        Ok(())
    }

    fn end(&mut self, _: &mut dyn Out) -> Result<(), Fault> {
        let mut last = std::mem::take(&mut self.half);
        let rest = if self.to.of.is_regular { 0 } else { last.len() % self.to.of.align };
        last.truncate(last.len() - rest);
        if !last.is_empty() {
            self.send(last)?;
        }
        self.blocks = None;
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| Fault(format!("a thread that writes {} has failed", self.to.of.path)))?;
        }
        if let Some(fault) = self.to.fault() {
            return Err(fault);
        }
        let of = &self.to.of;
        let cut = || if of.is_regular { of.file.get_ref().set_len(self.place) } else { Ok(()) };
        chappe_thread::block_in_place(cut)
            .and_then(|()| of.file.sync_data())
            .map_err(|e| Fault(format!("cannot write {}: {e}", of.path)))?;
        if rest > 0 {
            let why = format!(
                "{} is written in blocks of {} bytes: the last {rest} bytes are no whole one, and are not written",
                of.path, of.align
            );
            return Err(Fault(why));
        }
        Ok(())
    }

    fn says(&self) -> Option<String> {
        let replaced = if self.was_replaced { ", to what its name no longer names" } else { "" };
        Some(format!("{} bytes on the device{replaced}", self.place))
    }
}

fn disk(call: &Call<'_>) -> Result<Plan, Wrong> {
    let (path, span) = call.file()?;
    let path = path.to_owned();
    let block = call.number_or(1, "block", (512.0, 67_108_864.0), BLOCK)? as usize;
    let in_flight = call.number_or(2, "in_flight", (1.0, 256.0), IN_FLIGHT)? as usize;
    let new_disk = call.choice(3, "new_disk", &["fault", "keep"])?;
    let new_disk = if new_disk == Some("keep") { NewDisk::Keep } else { NewDisk::Fault };
    let divides = move |of: &Opened| {
        let what = || {
            format!(
                "`block` of `disk` is {block}, and the blocks of {} have {} bytes: a multiple of that",
                of.path, of.align
            )
        };
        if block.is_multiple_of(of.align) { Ok(()) } else { Err(what()) }
    };
    if call.inputs.is_empty() {
        let of = Opened::new(&path, OpenOptions::new().read(true), true).map_err(|why| Wrong::at(span, why))?;
        divides(&of).map_err(Wrong::new)?;
        return Ok(source(of, block, in_flight, new_disk));
    }
    call.plain()?;
    Ok(Plan::sink(move || {
        let of = Opened::new(&path, OpenOptions::new().write(true).create(true), true).map_err(Fault)?;
        divides(&of).map_err(Fault)?;
        stage(ToDisk::new(of, block, in_flight, new_disk))
    })
    .anew(Anew::Never))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    vec![Kind::new(
        "disk",
        "\"FILE\" [block=1048576] [in_flight=4] [new_disk=fault|keep]",
        "a file or disk past the kernel's cache, several blocks at once: read, or written if something leads to it",
        disk,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Kept;

    #[test]
    fn a_write_that_fails_is_told_by_the_next_or_at_the_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        // Opened to read: each write fails.
        let to = || {
            let of = Opened::new(&path, OpenOptions::new().read(true), false).unwrap();
            ToDisk::new(of, 4, 2, NewDisk::Fault)
        };
        let mut ends = to();
        ends.put(Block::bytes(b"fiver".to_vec()), &mut Kept::default()).unwrap();
        let why = ends.end(&mut Kept::default()).unwrap_err().0;
        assert!(why.contains("cannot write") && why.contains("Bad file descriptor"), "{why}");
        let mut goes_on = to();
        let more = || Block::bytes(b"four".to_vec());
        let why =
            std::iter::from_fn(|| Some(goes_on.put(more(), &mut Kept::default()))).find_map(Result::err).unwrap().0;
        assert!(why.contains("Bad file descriptor"), "{why}");
        // A device has an end, and whole blocks.
        let of = Opened::new(&path, OpenOptions::new().read(true).write(true), false).unwrap();
        let mut device = ToDisk::new(Opened { is_regular: false, bytes: 8, align: 4, ..of }, 8, 2, NewDisk::Fault);
        device.put(Block::bytes(b"12345".to_vec()), &mut Kept::default()).unwrap();
        let why = device.end(&mut Kept::default()).unwrap_err().0;
        assert!(why.contains("written in blocks of 4 bytes: the last 1 bytes are no whole one"), "{why}");
        assert_eq!(std::fs::read(&path).unwrap(), b"1234", "the blocks before it are written");
        device.place = 8;
        let more = || Block::bytes(b"fourfour".to_vec());
        let why = device.put(more(), &mut Kept::default()).unwrap_err().0;
        assert!(why.contains("is full: it has 8 bytes"), "{why}");
    }
}
