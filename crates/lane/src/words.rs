//! What the processes of a lane have in common: its words, and the pipe that it stands before. The head of the crate has what they mean.

use chappe_plat::Life;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::life::LifeLock;

/// What a lane stands before: the kernel's pipe, and the ring's memory.
pub trait Pipe {
    /// What a call fails with.
    type Error;

    /// read(2).
    ///
    /// # Errors
    /// The kernel's.
    fn read(&self, into: &mut [u8]) -> Result<usize, Self::Error>;

    /// write(2).
    ///
    /// # Errors
    /// The kernel's.
    fn write(&self, bytes: &[u8]) -> Result<usize, Self::Error>;

    /// How many bytes the kernel's pipe holds: FIONREAD.
    fn held(&self) -> u64;

    /// Puts bytes behind what the kernel's pipe holds, and answers how many; 0: the kernel says that nobody can read them any more. Never
    /// sleeps, and raises no signal.
    ///
    /// # Errors
    /// The caller may not, or not now: the bytes are still to be pushed.
    fn push(&self, bytes: &[u8]) -> Result<usize, Self::Error>;

    /// Whether what is written here is a stream, and nothing but bytes is wanted of the kernel. False: writes are packets, whose borders a ring does
    /// not keep, or this end is sent a signal for each call of the other one.
    fn is_stream(&self) -> bool {
        true
    }

    /// Makes the kernel's pipe so large that it holds all of the ring beside what it holds already. False: that is refused.
    fn widen(&self) -> bool;

    /// What a writer is told that finds no room, if its descriptor does not block.
    fn refusal(&self) -> Option<Self::Error>;

    /// What a writer is told whose sleep a signal has ended.
    fn interrupted(&self) -> Self::Error;

    /// How many bytes the ring has: twice [`Pipe::atomic`] at least.
    fn size(&self) -> u64;

    /// How many bytes a write(2) puts whole or not at all: `PIPE_BUF`.
    fn atomic(&self) -> usize;

    /// Copies bytes to these positions of the ring.
    fn put(&self, at: u64, bytes: &[u8]);

    /// Copies bytes from these positions of the ring.
    fn get(&self, at: u64, into: &mut [u8]);
}

/// The words of a lane, in shared memory that begins as zeroes. A thread's words are in its robust list while it owns an end or demotes: the
/// memory stays mapped as long, also behind a [`Writer`](super::Writer) or [`Reader`](super::Reader) that was dropped and not released.
/// [`Words::owners`] tells.
#[repr(C, align(64))]
pub struct Words {
    /// See the table.
    pub tail: AtomicU64,
    /// See the table.
    pub kernel_end: AtomicU64,
    /// See the table.
    pub(crate) wake_at: AtomicU64,
    /// See the table.
    pub stage: AtomicU64,
    /// Always 0: the kernel wakes a sleeper here when another one dies.
    pub(crate) baton: AtomicU32,
    /// See the table.
    pub writer: LifeLock,
    pub(crate) guard: LifeLock,
    /// See the table. On a line of its own: the reader writes it.
    pub head: Apart,
    /// See the table.
    pub reader: LifeLock,
}

/// A word at the beginning of a line.
#[repr(C, align(64))]
pub struct Apart(pub AtomicU64);

impl Words {
    /// Makes the locks of zeroes; any number of processes may.
    pub fn make(&self) {
        self.locks().into_iter().for_each(LifeLock::make);
    }

    fn locks(&self) -> [&LifeLock; 3] {
        [&self.writer, &self.guard, &self.reader]
    }

    /// Whether all calls are the kernel's, for good: the owners' [`Writer`](super::Writer) and [`Reader`](super::Reader) do no more than that.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.stage.load(Ordering::Acquire) == PLAIN // Acquire: E3.
    }

    /// The living threads that own an end or demote, by their numbers.
    pub fn owners(&self) -> impl Iterator<Item = u32> {
        self.locks().into_iter().filter_map(|lock| if let Life::Alive(tid) = lock.probe() { Some(tid) } else { None })
    }
}

/// A pipe and its words.
pub struct Lane<'a, P> {
    /// Shared by all processes that have the pipe.
    pub words: &'a Words,
    /// As this process has it.
    pub pipe: &'a P,
}

impl<P> Clone for Lane<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Lane<'_, P> {}

/// Where the positions begin in `tail` and `head`.
pub(crate) const SHIFT: u32 = 4;
/// The flags below.
pub(crate) const FLAGS: u64 = (1 << SHIFT) - 1;
/// In `tail` and `head`: the ring is closed.
pub(crate) const OFF: u64 = 1;
/// In `tail`: the reader sleeps in read(2), or is about to.
pub(crate) const ASLEEP: u64 = 2;
/// In `tail`: the writer is in write(2).
pub(crate) const REAL: u64 = 4;
/// In `tail`: a reader has come, and the ring is used.
pub(crate) const RING: u64 = 8;
/// In `head`: the reader is in read(2), or is about to be.
pub(crate) const INSIDE: u64 = 2;
/// In `head`: the writer sleeps until there is room.
pub(crate) const FULL: u64 = 4;

/// `stage`: nobody has begun to demote.
pub(crate) const OPEN: u64 = 0;
/// `stage`: the ring is empty for ever, and all calls are the kernel's.
pub(crate) const PLAIN: u64 = 1;
/// `stage`: the ring's bytes are being pushed; above the two lowest bits, how many bytes the kernel's pipe held before.
pub(crate) const PUSHING: u64 = 2;

/// The position in `tail` or `head`.
pub(crate) fn position(word: u64) -> u64 {
    word >> SHIFT
}
