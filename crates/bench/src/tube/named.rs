//! Tubes between processes as the tables use them.
//!
//! *copied*: `send` and `recv_into`, as every other way in the tables. *in place*: the record is written where it is sent
//! from, and all of it is read where it lies; the caller gets its first byte and its last.

use crate::tube::channel::Message;
use crate::tube::floor::Waiting;
use crate::tube::wire::Wire;
use chappe::tube::named::{Kind, Receiver, Sender, Tube, TubeOptions};
use chappe::{Arena, ArenaOptions, Pool, Role, set_role};
use std::hint::black_box;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

/// Room for so many records, as in the raw ring and in iceoryx2.
pub const SLOTS: u32 = 64;
/// Where they lie: room for the largest that the tables have at a time.
const ARENA: &str = "tubes";
const DATA: u64 = 32 << 20;

/// The kinds, and what their rows are called.
pub const KINDS: [(&str, Kind); 4] =
    [("spsc", Kind::Spsc), ("mpsc", Kind::Mpsc), ("spmc", Kind::Spmc), ("mpmc", Kind::Mpmc)];

/// A tube that goes with this.
pub struct Own<T: ?Sized>(Tube<T>);

fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let options = ArenaOptions { data: Some(DATA), ..ArenaOptions::default() };
    Arena::open_or_create(ARENA, &options).expect("an arena");
    format!("{ARENA}/t{}", COUNT.fetch_add(1, Ordering::SeqCst))
}

impl Own<[u8]> {
    /// One for records of this length.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn bytes(kind: Kind, slots: u32, length: usize) -> Own<[u8]> {
        let size = u32::try_from(length).expect("a length that is possible");
        let options = TubeOptions { kind, slots, size, ..TubeOptions::default() };
        Own(Tube::create(&name(), &options).expect("a tube"))
    }
}

impl<T: Message> Own<T> {
    /// One for messages of this type.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn plain(kind: Kind, slots: u32) -> Own<T> {
        let options = TubeOptions { kind, slots, ..TubeOptions::default() };
        Own(Tube::create(&name(), &options).expect("a tube"))
    }

    /// Both ends for this process.
    ///
    /// # Panics
    /// When a thread has one.
    pub fn ends(&self) -> (Sender<T>, Receiver<T>) {
        (self.sender().expect("an end"), self.receiver().expect("an end"))
    }
}

impl<T: ?Sized> Deref for Own<T> {
    type Target = Tube<T>;
    fn deref(&self) -> &Tube<T> {
        &self.0
    }
}

impl<T: ?Sized> Drop for Own<T> {
    fn drop(&mut self) {
        // One left behind is no reason to fail: its directory goes.
        let _ = Tube::remove(&self.0.name(), true);
    }
}

/// How a record comes in and out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// From the sender's memory, to the receiver's.
    Copied,
    /// It stays in the tube.
    InPlace,
}

/// Both, and what they are called.
pub const MOVED: [(&str, Moved); 2] = [("copied", Moved::Copied), ("in place", Moved::InPlace)];

impl Waiting {
    /// The role of a thread that waits so.
    pub fn role(self) -> Role {
        match self {
            Waiting::Spinning => Role::Spin,
            Waiting::Asleep => Role::Sleeper,
        }
    }
}

/// A tube as a way from one process to another.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// The tube.
    pub tube: &'a Own<[u8]>,
    /// How a record comes in and out.
    pub moved: Moved,
    /// Of the thread that takes an end.
    pub role: Role,
}

impl Way<'_> {
    /// The thread joins the arena with its first use of anything there: not while it is measured.
    fn come(&self) {
        set_role(self.role);
        let pool = Pool::open_or_create(&format!("{ARENA}/come"), 1).expect("a pool");
        drop(pool.acquire().expect("a permit"));
    }
}

/// Reads each byte once.
fn read(record: &[u8]) {
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    let words = record.chunks_exact(8);
    let rest = words.remainder().iter().map(|byte| u64::from(*byte)).sum();
    black_box(words.map(word).fold(rest, u64::wrapping_add));
}

impl Wire for Way<'_> {
    fn sender(&self) -> impl FnMut(&[u8]) {
        let mut sender = self.tube.sender().expect("a sender");
        self.come();
        let moved = self.moved;
        move |record| match moved {
            Moved::Copied => sender.send(record).expect("the receiver is there"),
            Moved::InPlace => {
                let mut slot = sender.reserve().expect("the receiver is there");
                slot[..record.len()].copy_from_slice(record);
                slot.commit(record.len()).expect("the receiver is there");
            }
        }
    }

    fn receiver(&self) -> impl FnMut(&mut [u8]) {
        let receiver = self.tube.receiver().expect("a receiver");
        self.come();
        let moved = self.moved;
        move |record| match moved {
            Moved::Copied => {
                let (length, _) = receiver.recv_into(record).expect("the sender is there");
                assert_eq!(length, record.len());
            }
            Moved::InPlace => {
                let loan = receiver.borrow().expect("the sender is there");
                let last = record.len() - 1;
                read(&loan);
                (record[0], record[last]) = (loan[0], loan[last]);
                loan.release().expect("it is ours");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::House;
    use crate::process::Child;

    #[test]
    fn every_kind_delivers_both_ways_from_process_to_process() {
        let _house = House::new("named");
        for (name, kind) in KINDS {
            for (how, moved) in MOVED {
                let tube = Own::bytes(kind, SLOTS, 1000);
                let way = Way { tube: &tube, moved, role: Role::TimeSharing };
                let mut receive = way.receiver();
                let child = Child::fork(|| {
                    let mut send = way.sender();
                    (0..200).for_each(|n| send(&[n; 1000]));
                });
                let mut got = [255; 1000];
                for n in 0..200 {
                    receive(&mut got);
                    let read = if moved == Moved::Copied { &got[..] } else { &[got[0], got[999]] };
                    assert!(read.iter().all(|byte| *byte == n), "{name}, {how}");
                }
                assert_eq!(child.end(), 0, "{name}, {how}");
            }
        }
    }
}
