//! The sharded semaphore as users know it: the protocol around a strong private semaphore.

use super::caches::{Central, Shape, Sharded};
use crate::gate;
use chappe_plat::{clock, topology};
use chappe_sync::{DownError, ObjectError, Semaphore, UpError, Waiter};
use std::fmt;
use std::time::{Duration, Instant};

/// What goes into one processor's cache.
const ROOM: u32 = 16;
/// So many times what all caches hold makes it worth while.
const TIMES: u32 = 4;
/// So many returns in a row without a waiter.
const CALM: u32 = 256;

impl Central for Semaphore {
    type Error = Failed;

    fn try_down(&self) -> bool {
        Semaphore::try_down(self).is_ok()
    }

    fn down(&self, deadline: Option<u64>) -> Result<bool, Failed> {
        let taken = match deadline {
            None => Semaphore::down(self),
            Some(at) => self.down_timeout(Duration::from_nanos(at.saturating_sub(clock::now()))),
        };
        match taken {
            Ok(()) => Ok(true),
            Err(DownError::Timeout) => Ok(false),
            Err(e) => Err(Failed::Down(e)),
        }
    }

    fn up(&self, n: u32) -> Result<(), Failed> {
        self.up_many(n).map_err(Failed::Up)
    }

    fn value(&self) -> u32 {
        Semaphore::value(self)
    }
}

/// Why the middle could not.
#[derive(Debug)]
pub enum Failed {
    /// Take.
    Down(DownError),
    /// Give.
    Up(UpError),
}

impl Failed {
    fn down(self) -> DownError {
        match self {
            Failed::Down(e) => e,
            Failed::Up(e) => unreachable!("{e} in taking"),
        }
    }

    fn up(self) -> UpError {
        match self {
            Failed::Up(e) => e,
            Failed::Down(e) => unreachable!("{e} in giving"),
        }
    }
}

/// A counter of permits for the threads of this process, when there are many more permits than processors.
///
/// While no thread waits, taking and giving cost a nanosecond or two each: permits lie in caches of the processors. As soon as a thread has
/// to wait, the caches are emptied (2 us), and a strong [`Semaphore`] decides alone: first come, first served, until permits are plenty
/// again for a while. Where there are no sequences, where [`Builder::bias`] or `CHAPPE_BIAS=off` says so, or there are few permits, it is
/// that semaphore, all the time.
///
/// Fairness: a waiter is overtaken only by threads that took a permit before the caches were empty. Among threads that find permits there
/// is no order.
///
/// A permit has no owner, and may be given by another thread than the one that took it. `up` never waits, and may be called in a signal
/// handler. In a forked child it is a copy: permits that other threads held, or took just then, are lost there; and if one of them was
/// waiting, the copy has no caches. Not for the child of `vfork`. Never in memory that processes share.
///
/// Paper: nix-semaphores-tubes, section 2.1; netbsd-restartable-sequences.
///
/// ```
/// let slots = chappe_ras::sharded::ShardedSemaphore::private(10_000)?;
/// slots.down()?;
/// assert_eq!(slots.available(), 9_999);
/// slots.up()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ShardedSemaphore(Sharded<Semaphore>);

/// How a sharded semaphore is to be.
#[derive(Clone, Debug)]
pub struct Builder {
    value: u32,
    bias: bool,
    room: u32,
    calm: u32,
}

impl Builder {
    /// Whether there may be caches; there may unless told, or unless the environment says `CHAPPE_BIAS=off`.
    pub fn bias(mut self, bias: bool) -> Builder {
        self.bias = bias;
        self
    }

    /// How much goes into one processor's cache, and after how many returns without a waiter there are caches again.
    #[doc(hidden)]
    pub fn shape(mut self, room: u32, calm: u32) -> Builder {
        (self.room, self.calm) = (room, calm);
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// As [`Semaphore::private`].
    pub fn build(self) -> Result<ShardedSemaphore, ObjectError> {
        let central = Semaphore::private(self.value)?;
        let on = self.bias && gate::biases() && gate::sequences();
        let used = topology::allowed().map_or_else(|_| topology::possible(), |cpus| cpus.len()) as u32;
        let shape = Shape {
            caches: if on { topology::possible() } else { 0 },
            room: self.room,
            many: self.room.saturating_mul(TIMES).saturating_mul(used),
            calm: self.calm,
        };
        Ok(ShardedSemaphore(Sharded::new(central, shape)))
    }
}

impl ShardedSemaphore {
    /// Makes one with so many permits.
    ///
    /// # Errors
    /// As [`Semaphore::private`].
    pub fn private(value: u32) -> Result<ShardedSemaphore, ObjectError> {
        ShardedSemaphore::builder(value).build()
    }

    /// As [`ShardedSemaphore::private`], to be told more.
    pub fn builder(value: u32) -> Builder {
        Builder { value, bias: true, room: ROOM, calm: CALM }
    }

    /// Takes a permit; waits for one in the order of arrival.
    ///
    /// # Errors
    /// As [`Semaphore::down`].
    #[inline(always)]
    pub fn down(&self) -> Result<(), DownError> {
        if self.0.take() { Ok(()) } else { self.down_slowly() }
    }

    #[inline(never)]
    fn down_slowly(&self) -> Result<(), DownError> {
        self.0.down_slowly(None).map(|_| ()).map_err(Failed::down)
    }

    /// Takes a permit if there is one and no thread waits for it. Never sleeps; to look into other processors' caches it may make a system
    /// call. While another thread empties the caches it may miss what is just on its way.
    ///
    /// # Errors
    /// `WouldBlock`.
    #[inline(always)]
    pub fn try_down(&self) -> Result<(), DownError> {
        if self.0.try_down() { Ok(()) } else { Err(DownError::WouldBlock) }
    }

    /// Takes a permit, waiting at most for `duration`.
    ///
    /// # Errors
    /// `Timeout`; else as [`Semaphore::down`].
    pub fn down_timeout(&self, duration: Duration) -> Result<(), DownError> {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        match self.0.down(Some(clock::now().saturating_add(ns))).map_err(Failed::down)? {
            true => Ok(()),
            false => Err(DownError::Timeout),
        }
    }

    /// Takes a permit, waiting at most until `deadline`.
    ///
    /// # Errors
    /// `Timeout`; else as [`Semaphore::down`].
    pub fn down_deadline(&self, deadline: Instant) -> Result<(), DownError> {
        self.down_timeout(deadline.saturating_duration_since(Instant::now()))
    }

    /// Gives a permit; the thread that has waited longest gets it. Never waits.
    ///
    /// # Errors
    /// As [`Semaphore::up`]; what is in caches does not count towards the greatest value.
    #[inline(always)]
    pub fn up(&self) -> Result<(), UpError> {
        if self.0.give() { Ok(()) } else { self.up_slowly() }
    }

    #[inline(never)]
    fn up_slowly(&self) -> Result<(), UpError> {
        self.0.up_slowly().map_err(Failed::up)
    }

    /// Gives `n` permits at once.
    ///
    /// # Errors
    /// As [`ShardedSemaphore::up`]: all of them, or none.
    pub fn up_many(&self, n: u32) -> Result<(), UpError> {
        self.0.up_many(n).map_err(Failed::up)
    }

    /// How many permits are free at this moment. A look, not a promise.
    pub fn available(&self) -> u32 {
        self.0.available()
    }

    /// The waiters, in the order in which they will be served.
    pub fn waiters(&self) -> Vec<Waiter> {
        self.0.central().waiters()
    }

    /// Whether permits lie in caches at this moment. A look, not a promise.
    pub fn is_sharded(&self) -> bool {
        self.0.is_sharded()
    }
}

impl fmt::Debug for ShardedSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShardedSemaphore({}{})", self.available(), if self.is_sharded() { ", sharded" } else { "" })
    }
}
