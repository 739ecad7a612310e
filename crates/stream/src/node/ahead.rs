//! Files that are read ahead of what is wanted: `file` and `raw` with `reads=N` (synthesis, table 4.4: `aread` of the quaject `Disk`).
//!
//! ```text
//!   get:  preadv2(RWF_NOWAIT) -- the block is in the kernel's cache -------------------------------> handed on
//!              | nothing there, or less than a block
//!              +-- was the last wait within N blocks? then the next N are asked for -- io_uring --> handed on
//! ```
//!
//! The kernel reads ahead of a file that is read in its order, and it is told that this one is. So most blocks are there when they are wanted: one system call
//! fills the memory that the block before has just given back to the allocator, which is still in the processor's caches, and no other thread
//! takes part. A light thread that waits for a block costs several times as much as its bytes; where that comes often the kernel's
//! window is smaller than N blocks, and the source asks for them itself, once for each wait. (Asked for with each block, or where the window is larger,
//! the same bytes take twice to four times the processor time: the kernel looks for each page that it already has.)
//!
//! One light thread reads, so the order is that of the file. The length is that of the begin: a file that grows is read that far; one that becomes shorter is a
//! fault. A file that says that it has no bytes, or more than it has, as those of /proc and /sys do, is read to its end. A process that is killed has
//! handed on what its successor does not read again.

use super::disk::Opened;
use super::opened::no_whole;
use crate::kind::Plan;
use crate::stage::{Body, Fault, Source};
use crate::types::{Block, Element, Type};
use chappe_plat::file::{self, OpenOptions};
use chappe_rows::shorter;
use std::io::{self, ErrorKind};

/// Reads whole frames of a file.
struct Ahead {
    of: Opened,
    element: Element,
    frame: usize,
    /// Bytes.
    block: usize,
    /// How far ahead blocks are asked for.
    window: u64,
    /// Where the next block begins.
    place: u64,
    /// Where it waited last.
    waited: Option<u64>,
    /// There is no more.
    is_over: bool,
}

impl Ahead {
    /// The next bytes, as many as there are up to `most`.
    fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(most);
        while bytes.len() < most {
            let (left, at) = (most - bytes.len(), self.place + bytes.len() as u64);
            // What goes wrong here goes wrong again below, and is told there.
            if self.of.file.append_at_once(&mut bytes, left, at).is_ok() {
                continue;
            }
            if self.waited.replace(at).is_some_and(|last| at - last <= self.window) {
                file::read_ahead(self.of.file.get_ref(), at, self.window);
            }
            match self.of.file.append_at(&mut bytes, left, at) {
                Ok(0) => break,
                Err(e) if e.kind() != ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
        }
        Ok(bytes)
    }
}

impl Source for Ahead {
    fn get(&mut self) -> Result<Option<Block>, Fault> {
        let told = self.of.bytes;
        let left = if told == 0 { u64::MAX } else { told - self.place };
        let most = left.min(self.block as u64) as usize;
        if most == 0 || self.is_over {
            return Ok(None);
        }
        let read = self.read(most);
        let path = &self.of.path;
        let cannot = |e: io::Error| Fault(format!("cannot read {path}: {e}"));
        let bytes = read.map_err(cannot)?;
        self.place += bytes.len() as u64;
        if bytes.len() < most {
            self.is_over = true;
            if self.place < told && self.of.file.get_ref().metadata().map_err(cannot)?.len() < told {
                return Err(Fault(format!("{path} {}", shorter(told, self.place))));
            }
        }
        let rest = bytes.len() % self.frame;
        if rest > 0 {
            return Err(no_whole(rest, "frame", self.frame));
        }
        Ok((!bytes.is_empty()).then(|| match self.element {
            Element::F32 | Element::I16 => Block::from_bytes(&self.element, &bytes),
            _ => Block::bytes(bytes),
        }))
    }
}

/// A source of a file, in blocks of so many frames, up to so many ahead.
pub(super) fn source(path: &str, gives: Type, frames: usize, blocks: u64) -> Result<Plan, String> {
    let of = Opened::new(path, OpenOptions::new().read(true), false)?;
    let (element, frame) = (gives.element.clone(), gives.frame_bytes());
    let block = frame * frames;
    let plan = Plan::source(gives, move || {
        file::read_in_order(of.file.get_ref());
        let window = blocks * block as u64;
        let ahead = Ahead { of, element, frame, block, window, place: 0, waited: None, is_over: false };
        Ok(Body::Source(Box::new(ahead)))
    });
    Ok(plan.reads(path))
}
