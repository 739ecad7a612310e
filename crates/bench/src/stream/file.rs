//! A file of the kernel's cache, and one that is not there, by `file reads=8` and by `cat`: into /dev/null, and through a pipe into another process.
//!
//! `cat FILE > /dev/null` does what `file | null` does: it moves each byte once, into memory of its own that stays warm, and hands it to nobody. `cat FILE | cat` is what a
//! shell's user writes for the same file as the first stage of more; it moves each byte three times.
//!
//! Rate and processor time are told apart: of what waits for a disk the second alone says what the reader costs. What each command takes for an empty file, the
//! median of all rounds, is told, and taken from its figures. What is cold has left the cache by `posix_fadvise`, of a file of this bench's own; a virtual disk's host may have it all the same.

use crate::table::{Aim, Table, nanoseconds, times};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Bytes.
const LENGTH: usize = 1 << 30;
const BLOCK: usize = 131_072;
const WAYS: [&str; 3] = ["cat", "file reads=8", "cat | cat"];

/// A directory, removed with this.
struct Room(PathBuf);

impl Room {
    fn beside(program: &Path) -> std::io::Result<Room> {
        let room = program.with_file_name(format!("bench-file-{}", std::process::id()));
        std::fs::create_dir(&room)?;
        Ok(Room(room))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file of which no two blocks are alike, on the device.
fn written(path: &Path) -> std::io::Result<File> {
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    let mut block = vec![0u8; BLOCK];
    for at in 0..LENGTH / BLOCK {
        for (k, words) in block.chunks_exact_mut(8).enumerate() {
            let word = ((at * BLOCK + k) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            words.copy_from_slice(&word.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    file.sync_all()?;
    Ok(file)
}

/// Processor time of all children that have ended, in nanoseconds.
fn used() -> f64 {
    // SAFETY: an all-zero rusage is a valid value, and a valid place for the call to fill in.
    let all = unsafe {
        let mut all: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut all);
        all
    };
    let of = |t: libc::timeval| t.tv_sec as f64 * 1e9 + t.tv_usec as f64 * 1e3;
    of(all.ru_utime) + of(all.ru_stime)
}

/// Nanoseconds that a command takes, and those that it uses.
fn ran(command: &mut Command) -> Result<(f64, f64), String> {
    let (began, before) = (Instant::now(), used());
    let status =
        command.stdin(Stdio::null()).stdout(Stdio::null()).status().map_err(|e| format!("{command:?}: {e}"))?;
    let took = began.elapsed().as_nanos() as f64;
    if status.success() { Ok((took, used() - before)) } else { Err(format!("{command:?}: {status}")) }
}

/// Measures and prints.
///
/// # Errors
/// What is missing.
pub fn measure(chappe: &Path, runs: usize) -> Result<Vec<Aim>, String> {
    // On a disk, where there is one: what lies in memory cannot be cold.
    let room = Room::beside(chappe).map_err(|e| format!("no room beside {}: {e}", chappe.display()))?;
    let (path, empty) = (room.0.join("data"), room.0.join("empty"));
    let file = written(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    File::create(&empty).map_err(|e| format!("{}: {e}", empty.display()))?;
    let graph = |of: &Path| -> Result<PathBuf, String> {
        let graph = of.with_extension("graph");
        let text = format!("file {:?} reads=8 | null\n", of.display().to_string());
        std::fs::write(&graph, text).map_err(|e| format!("{}: {e}", graph.display()))?;
        Ok(graph)
    };
    let graphs = [(&path, graph(&path)?), (&empty, graph(&empty)?)];
    let command = |way: &str, which: usize| {
        let (of, graph) = &graphs[which];
        let mut command = Command::new(match way {
            "cat" => Path::new("cat"),
            "cat | cat" => Path::new("sh"),
            _ => chappe,
        });
        match way {
            "cat" => command.arg(of),
            "cat | cat" => command.args(["-c", "cat \"$0\" | cat"]).arg(of),
            _ => command.args(["graph", "run", "--quiet"]).arg(graph),
        };
        command
    };
    let mut aims = Vec::new();
    for is_cold in [false, true] {
        let mut all = WAYS.map(|way| (way, Vec::new(), Vec::new()));
        for round in 0..runs {
            let mut turn: Vec<_> = all.iter_mut().collect();
            if round % 2 == 1 {
                turn.reverse();
            }
            for (way, whole, start) in turn {
                start.push(ran(&mut command(way, 1))?);
                if is_cold {
                    // SAFETY: takes numbers; the descriptor is open.
                    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
                } else if round == 0 {
                    ran(&mut command(way, 0))?;
                }
                whole.push(ran(&mut command(way, 0))?);
            }
        }
        let from = if is_cold { "the disk" } else { "the kernel's cache" };
        for (what, of) in [("time", time as Figure), ("processor time", processor)] {
            let rows = all.iter().map(|(way, whole, start)| {
                let mut starts: Vec<f64> = start.iter().map(of).collect();
                starts.sort_by(f64::total_cmp);
                let start = starts[starts.len() / 2];
                println!("  {way}, an empty file, {what}: {}", nanoseconds(start));
                ((*way).to_owned(), whole.iter().map(|whole| of(whole) - start).collect())
            });
            let table = Table::of(format!("a file of 1 GiB from {from}, {what}"), rows.collect());
            println!("{}", table.report());
            let name = format!("1 GiB from {from}, {what} by cat's");
            aims.push(Aim::at_most(name, 1.0, table.ratio(WAYS[1]), times));
        }
    }
    Ok(aims)
}

/// What is told of a run.
type Figure = fn(&(f64, f64)) -> f64;

fn time(ran: &(f64, f64)) -> f64 {
    ran.0
}

fn processor(ran: &(f64, f64)) -> f64 {
    ran.1
}
