//! Where machine code lies: pieces of pages that are mapped twice ([`chappe_plat::twofold`]).
//!
//! The users of a piece share it through an `Arc`; the last user gives it back, filled with an instruction that traps.
//! Users hold one version of a query each, the epoch in which they are (`published.rs`), so a piece is free when the last user
//! has gone on to a newer version. In a forked child the pages are not there: nothing is given back, and
//! [`Piece::is_here`] says so.

use chappe_plat::twofold::Twofold;
use std::io;
use std::sync::{Arc, Mutex};

/// How much is mapped at once.
const CHUNK: usize = 64 * 1024;
/// What pieces begin at, and are multiples of: a cache line.
const GRAIN: usize = 64;

#[cfg(target_arch = "x86_64")]
const TRAP: u8 = 0xcc;
#[cfg(not(target_arch = "x86_64"))]
const TRAP: u8 = 0;

struct Chunk {
    pages: Twofold,
    /// Free ranges: where, and how long. In order, none beside another.
    free: Mutex<Vec<(usize, usize)>>,
}

/// The chunk from which most pieces come. It stays when its last piece goes: to map one takes as long as half a compilation.
static LAST: Mutex<Option<Arc<Chunk>>> = Mutex::new(None);

/// A piece of machine code, which stays as long as this.
pub struct Piece {
    chunk: Arc<Chunk>,
    at: usize,
    len: usize,
    entry: *const u8,
}

// SAFETY: code that nobody writes while the piece is there.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

impl Chunk {
    fn map(len: usize) -> io::Result<Arc<Chunk>> {
        let pages = Twofold::map(len)?;
        let free = Mutex::new(vec![(0, pages.len())]);
        Ok(Arc::new(Chunk { pages, free }))
    }

    /// The first range that is long enough.
    fn take(&self, len: usize) -> Option<usize> {
        let mut free = self.free.lock().unwrap_or_else(|e| e.into_inner());
        let i = free.iter().position(|(_, l)| *l >= len)?;
        let (at, have) = free[i];
        if have == len {
            free.remove(i);
        } else {
            free[i] = (at + len, have - len);
        }
        Some(at)
    }

    fn give_back(&self, at: usize, len: usize) {
        let mut free = self.free.lock().unwrap_or_else(|e| e.into_inner());
        let i = free.partition_point(|(a, _)| *a < at);
        free.insert(i, (at, len));
        if i + 1 < free.len() && free[i].0 + free[i].1 == free[i + 1].0 {
            free[i].1 += free[i + 1].1;
            free.remove(i + 1);
        }
        if i > 0 && free[i - 1].0 + free[i - 1].1 == free[i].0 {
            free[i - 1].1 += free[i].1;
            free.remove(i);
        }
    }
}

impl Piece {
    /// Code of its own place. It must not depend on where it lies.
    ///
    /// # Errors
    /// The system's, where no code may be made at run time or there is no memory.
    pub fn new(code: &[u8]) -> io::Result<Piece> {
        let len = code.len().max(1).next_multiple_of(GRAIN);
        let (chunk, at) = Piece::place(len)?;
        let mut bytes = code.to_owned();
        bytes.resize(len, TRAP);
        // SAFETY: the range was free, and is ours from here on: nobody runs there.
        match unsafe { chunk.pages.write(at, &bytes) } {
            Ok(entry) => Ok(Piece { chunk, at, len, entry }),
            Err(e) => {
                chunk.give_back(at, len);
                Err(e)
            }
        }
    }

    fn place(len: usize) -> io::Result<(Arc<Chunk>, usize)> {
        let fresh = || {
            let chunk = Chunk::map(len.max(CHUNK))?;
            let at = chunk.take(len).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
            Ok((chunk, at))
        };
        // Taken: by another thread that compiles, or, in a forked child, for ever. Then a chunk of its own.
        let Ok(mut last) = LAST.try_lock() else { return fresh() };
        if let Some(chunk) = last.as_ref().filter(|c| c.pages.is_here())
            && let Some(at) = chunk.take(len)
        {
            return Ok((chunk.clone(), at));
        }
        let (chunk, at) = fresh()?;
        // One that has other pieces still goes with them.
        if len <= CHUNK {
            *last = Some(chunk.clone());
        }
        Ok((chunk, at))
    }

    /// Its first instruction.
    #[inline(always)]
    pub fn entry(&self) -> *const u8 {
        self.entry
    }

    /// Of which process it is.
    pub fn incarnation(&self) -> u64 {
        self.chunk.pages.incarnation()
    }

    /// Whether it may be jumped to: not in a forked child.
    #[inline(always)]
    pub fn is_here(&self) -> bool {
        self.chunk.pages.is_here()
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        let traps = vec![TRAP; self.len];
        // SAFETY: the last user has let go. Refused: then it stays as it is, and unused.
        if unsafe { self.chunk.pages.write(self.at, &traps) }.is_ok() {
            self.chunk.give_back(self.at, self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_given_back_whole() {
        let chunk = Chunk::map(CHUNK).unwrap();
        let at: Vec<usize> = (0..8).map(|_| chunk.take(128).unwrap()).collect();
        for i in [3, 1, 2, 0, 7, 5, 6, 4] {
            chunk.give_back(at[i], 128);
        }
        assert_eq!(*chunk.free.lock().unwrap(), [(0, CHUNK)]);
        assert_eq!(chunk.take(CHUNK + 1), None);
    }

    #[test]
    fn pieces_lie_side_by_side_and_come_again() {
        let code = [TRAP; 100];
        let first = Piece::new(&code).unwrap();
        let place = first.entry() as usize;
        assert_eq!((place % GRAIN, first.len), (0, 128));
        let large = Piece::new(&vec![TRAP; 2 * CHUNK]).unwrap();
        assert!(large.len == 2 * CHUNK && large.is_here());
    }
}
