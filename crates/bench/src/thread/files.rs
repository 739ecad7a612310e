//! Reads of a file: light threads that read blocks of it, beside one kernel thread that makes the same calls one after the other.
//!
//! What is in the page cache light threads read by one call that never waits (`preadv2`, `RWF_NOWAIT`); what is not, by the process's
//! ring (io_uring). So there are two tables: one in memory, told in processor time, and one from the device (`O_DIRECT`), told in time on the
//! wall.

use super::peers::{Bench, Peer, least};
use super::used::{Used, per};
use crate::table::{Aim, times};
use chappe::thread::{self as light, Builder, File};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const BLOCK: usize = 4096;
/// Of the file.
const BLOCKS: u64 = 16 * 1024;
/// That read, one block after the other each.
const THREADS: usize = 32;
/// Of all of them: from memory, from the device.
const READS: [usize; 2] = [128_000, 3_200];
/// The part that reads from the device.
const DIRECT: &str = "readdirect";

/// A block's worth of memory, aligned as devices want it.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

impl Block {
    fn new() -> Box<Block> {
        Box::new(Block([0; BLOCK]))
    }
}

/// Which block a reader reads next: the same ones whichever peer reads. (Marsaglia's xorshift; Go's program has it, too.)
struct Places(u64);

impl Places {
    fn of(reader: usize) -> Places {
        Places(88_172_645_463_325_252 ^ ((reader as u64 + 1) << 32))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % BLOCKS * BLOCK as u64
    }
}

/// Opens it to read, past the page cache or not.
fn open(path: &str, direct: bool) -> std::fs::File {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    OpenOptions::new().read(true).custom_flags(flags).open(path).expect("the file")
}

fn each(direct: bool) -> usize {
    READS[usize::from(direct)] / THREADS
}

/// Both clocks: the figure is processor time in memory, and time on the wall from the device.
struct Clock {
    begun: Instant,
    used: Used,
}

impl Clock {
    fn now() -> Clock {
        Clock { begun: Instant::now(), used: Used::now() }
    }

    fn per_read(&self, direct: bool) -> f64 {
        let reads = each(direct) * THREADS;
        if direct { per(self.begun, reads) } else { self.used.per(reads) }
    }
}

/// The body of a reader: so many blocks by `read`, each of which must be whole.
fn blocks(reader: usize, each: usize, mut read: impl FnMut(&mut [u8], u64) -> std::io::Result<usize>) {
    let (mut block, mut places) = (Block::new(), Places::of(reader));
    for _ in 0..each {
        let at = places.next();
        assert_eq!(read(&mut block.0, at).expect("a read"), BLOCK, "a whole block");
        assert_eq!(u64::from(block.0[0]), at / BLOCK as u64 % 251, "the block that was asked for");
    }
}

/// Light threads.
pub(super) fn light_threads(path: &str, direct: bool) -> f64 {
    let file = Arc::new(File::new(open(path, direct)).expect("a file"));
    let round = |each: usize| {
        let begin = |reader: usize| {
            let file = Arc::clone(&file);
            let body = move || blocks(reader, each, |to, at| file.read_at(to, at));
            Builder::new().spawn(body).expect("a light thread")
        };
        let all: Vec<light::JoinHandle<()>> = (0..THREADS).map(begin).collect();
        all.into_iter().for_each(|one| one.join().expect("it reads"));
    };
    round(1);
    let clock = Clock::now();
    round(each(direct));
    clock.per_read(direct)
}

/// One kernel thread that does all of it by plain calls.
pub(super) fn one_kernel_thread(path: &str, direct: bool) -> f64 {
    let file = open(path, direct);
    let round = |each: usize| (0..THREADS).for_each(|reader| blocks(reader, each, |to, at| file.read_at(to, at)));
    round(1);
    let clock = Clock::now();
    round(each(direct));
    clock.per_read(direct)
}

/// Tasks that hand each read to tokio's pool of kernel threads, which is what `tokio::fs` does with each operation.
pub(super) async fn tokio_tasks(path: &str, direct: bool) -> f64 {
    let file = Arc::new(open(path, direct));
    let round = async |each: usize| {
        let begin = |reader: usize| {
            let file = Arc::clone(&file);
            tokio::task::spawn(async move {
                let (mut block, mut places) = (Block::new(), Places::of(reader));
                for _ in 0..each {
                    let (file, at) = (Arc::clone(&file), places.next());
                    let read = move || (file.read_at(&mut block.0, at).expect("a read"), block);
                    let (length, back) = tokio::task::spawn_blocking(read).await.expect("it reads");
                    block = back;
                    assert_eq!(length, BLOCK, "a whole block");
                    assert_eq!(u64::from(block.0[0]), at / BLOCK as u64 % 251, "the block that was asked for");
                }
            })
        };
        for one in (0..THREADS).map(begin).collect::<Vec<_>>() {
            one.await.expect("it reads");
        }
    };
    round(1).await;
    let clock = Clock::now();
    round(each(direct)).await;
    clock.per_read(direct)
}

/// The file that the peers read: where the build is, since a temporary directory may have no device. It is removed when this is dropped.
struct Sample(PathBuf);

impl Sample {
    fn new(beside: &Path) -> std::io::Result<Sample> {
        let sample = Sample(beside.with_file_name(format!("chappe-bench-file-{}", std::process::id())));
        let mut file = std::fs::File::create(&sample.0)?;
        for number in 0..BLOCKS {
            file.write_all(&[(number % 251) as u8; BLOCK])?;
        }
        file.sync_all()?;
        Ok(sample)
    }

    fn can_be_direct(&self) -> bool {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&self.0);
        file.and_then(|file| file.read_at(&mut Block::new().0, 0)).is_ok_and(|length| length == BLOCK)
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Both tables.
pub(super) fn measure(bench: &Bench, rounds: u32) -> Vec<Aim> {
    let sample = Sample::new(&bench.me).expect("a file beside the program");
    let path = sample.0.display().to_string();
    println!("\nlight threads wait for files by {}", light::file_way());
    let table = |title: &str, what: &str| {
        let args = [what, &path];
        let mut peers: Vec<(&str, Peer, &[&str])> = vec![
            ("one kernel thread, pread", Peer::Ours("kernel"), &args),
            ("chappe", Peer::Ours("chappe"), &args),
            ("go", Peer::Go(1), &args),
            ("tokio, spawn_blocking", Peer::Ours("tokio"), &args),
        ];
        if what == DIRECT {
            // Where calls block, another processor helps Go's scheduler.
            peers.push(("go, two", Peer::Go(2), &args));
        }
        bench.table(title, rounds, &peers)
    };
    let memory = table("32 threads read 4 KiB blocks of a file in memory, a read", "read");
    if sample.can_be_direct() {
        table("the same from the device (O_DIRECT), time on the wall", DIRECT);
    } else {
        println!("no O_DIRECT here: the table of reads from the device is left out");
    }
    let mut aims = Vec::new();
    if bench.go.is_some() {
        aims.push(Aim::at_most("file reads in memory / Go", 1.0, least(&memory, "chappe", "go"), times));
    }
    aims
}
