//! The origin of a lease: its holder and the namespaces that it lives in. A process elsewhere knows by it whether its look can tell that the job is
//! gone.
//!
//! Each cell has a record of its own in the lease file. The holder writes it before the cell says LEASED, while it holds the cell. The
//! record names the use of the cell (I2 of the leases): a record of another use says nothing, and neither does a file that was removed and made
//! anew. Then only a look that shows everything can tell.
//!
//! | bytes | field |
//! |---|---|
//! | 0-7 | the cell's byte in this use; 0: never leased |
//! | 8-23 | the inodes of the PID and the user namespace |
//! | 24-31 | the time, in milliseconds since boot |
//! | 32-39 | unused |
//! | 40-43, 44-47 | the real user; the process's number in its namespace |
//! | 48-127 | the process's label, zero-padded |

use chappe_arena::Map;
use chappe_plat::lease as file;
use chappe_plat::marks::Origin;
use chappe_plat::process;
use std::io;
use std::os::fd::OwnedFd;

pub(super) const LEN: usize = 128;
const LABEL: usize = 48;

/// The number of the table's first cell, in the numbering of all cells; the lower numbers are the objects' own cells.
pub(super) const TABLE: u64 = 1 << 20;

/// How many bits of a byte's number hold the cell's version.
pub(super) const VERSION_BITS: u32 = 25;

/// How many jobs can keep a lock at a time, the writer's included.
pub(super) const SLOTS: u64 = 4096;

/// Above all bytes of permits.
pub(super) const LOCKS: u64 = 1 << 60;

/// The holder that turned a permit into a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaser {
    pub origin: Origin,
    pub pid: u32,
    pub label: String,
}

impl Leaser {
    /// The calling process.
    pub fn here(label: &str) -> Leaser {
        Leaser { origin: Origin::here(), pid: process::pid(), label: label.into() }
    }

    /// Its number, and the PID namespace of that.
    pub fn process(&self) -> (u32, u64) {
        (self.pid, self.origin.pid_namespace)
    }

    fn bytes(&self, byte: u64) -> [u8; LEN] {
        let mut all = [0; LEN];
        let Origin { pid_namespace, user_namespace, uid, at } = self.origin;
        for (i, long) in [byte, pid_namespace, user_namespace, at].into_iter().enumerate() {
            all[8 * i..8 * i + 8].copy_from_slice(&long.to_le_bytes());
        }
        all[40..44].copy_from_slice(&uid.to_le_bytes());
        all[44..LABEL].copy_from_slice(&self.pid.to_le_bytes());
        let mut end = self.label.len().min(LEN - LABEL);
        while !self.label.is_char_boundary(end) {
            end -= 1;
        }
        all[LABEL..LABEL + end].copy_from_slice(&self.label.as_bytes()[..end]);
        all
    }

    /// The contents of a record, if it is of this use of the cell.
    pub fn of(all: &[u8; LEN], byte: u64) -> Option<Leaser> {
        let long = |i: usize| u64::from_le_bytes(all[8 * i..8 * i + 8].try_into().expect("eight bytes"));
        let word = |at: usize| u32::from_le_bytes(all[at..at + 4].try_into().expect("four bytes"));
        let label = all[LABEL..].split(|b| *b == 0).next().unwrap_or_default();
        let origin = Origin { pid_namespace: long(1), user_namespace: long(2), at: long(3), uid: word(40) };
        (long(0) == byte && byte != 0).then(|| Leaser {
            origin,
            pid: word(44),
            label: String::from_utf8_lossy(label).into_owned(),
        })
    }

    /// Writes the record of a cell that the caller holds.
    pub fn write(&self, file: &OwnedFd, map: &Map, byte: u64) -> io::Result<()> {
        file::write_at(file, &self.bytes(byte), place(map, byte))
    }

    /// Reads the record of a cell, if it is of this use of it.
    pub fn read(file: &OwnedFd, map: &Map, byte: u64) -> Option<Leaser> {
        let mut all = [0; LEN];
        (file::read_at(file, &mut all, place(map, byte)).ok()? == LEN).then_some(())?;
        Leaser::of(&all, byte)
    }
}

/// The offset of a cell's record: the objects' own cells come first, then those of the table, then the jobs of locks.
pub(super) fn place(map: &Map, byte: u64) -> u64 {
    let objects = u64::from(map.geometry().objects);
    let cell = cell_of_byte(byte);
    let nth = match record(byte) {
        Some(nth) => objects + u64::from(map.geometry().cells) + nth,
        None => cell.checked_sub(TABLE).map_or(cell, |nth| objects + nth),
    };
    nth * LEN as u64
}

pub(super) fn cell_of_byte(byte: u64) -> u64 {
    byte >> VERSION_BITS
}

/// The number of a byte's record, behind those of the permits.
pub(super) fn record(byte: u64) -> Option<u64> {
    (byte >= LOCKS).then_some((byte & !LOCKS) >> 37 << 12 | byte & (SLOTS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_something_of_one_use_of_its_cell_only() {
        let origin = Origin { pid_namespace: 1, user_namespace: 2, uid: 4, at: 5 };
        let label = "make é".repeat(20);
        let one = Leaser { origin, pid: 6, label: label.clone() };
        let bytes = one.bytes(77);
        let read = Leaser::of(&bytes, 77).expect("of this use");
        assert_eq!((read.origin, read.pid), (origin, 6));
        assert!(label.starts_with(&read.label) && read.label.len() > 70, "{}", read.label);
        assert_eq!(Leaser::of(&bytes, 78), None);
        assert_eq!(Leaser::of(&[0; LEN], 0), None);
    }
}
