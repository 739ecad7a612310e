//! The ends of a broadcast tube as users know them.

use super::heard::Heard;
use super::route::{Own, Router};
use crate::handle::{Handle, shown};
use crate::tube::named::{Fault, NotReceived, NotSent, Record, as_owned, not_ours, waited};
use bytemuck::Pod;
use chappe_arena::ArenaError;
use chappe_plat::process;
use chappe_structures::broadcast::place::Mask;
use chappe_tube::broadcast::cast::{Ear, Mapped};
use chappe_tube::broadcast::room::publish_attached;
use chappe_tube::named::arms::Not;
use chappe_wait::attachment::attachment;
use chappe_wait::claim::wait_for;
use chappe_wait::operation::{Taken, WaitSpec};
use chappe_wait::patience::Until;
use chappe_wait::wait::{Parties, Patience};
use std::cell::{Cell, RefCell};
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

/// Where messages go in. Of one thread at a time; another one: [`Broadcast::publisher`](super::Broadcast::publisher). In a forked child it
/// belongs to the parent.
///
/// When it is dropped, or its process dies, it has left; when the last one has, subscribers get what is there, and then
/// [`NotReceived::Disconnected`], or [`NotReceived::SenderDied`] if one of those that were there meanwhile has not ended well: its process
/// died with it, or its thread dropped it in a panic, or it [broke off](Publisher::break_off).
pub struct Publisher<T: ?Sized> {
    cast: Mapped,
    owner: u64,
    at: usize,
    incarnation: u64,
    /// The most bytes, and whether it must be as many.
    size: (usize, bool),
    router: RefCell<Router>,
    broken: Cell<bool>,
    _handle: Handle,
    one: PhantomData<Cell<()>>,
    of: PhantomData<fn(&T)>,
}

impl<T: ?Sized> std::fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Publisher({:?})", name_of(&self.cast))
    }
}

impl<T: ?Sized> Drop for Publisher<T> {
    fn drop(&mut self) {
        if process::incarnation() == self.incarnation {
            // The leaver must have an attachment, so that recovery sees its death before its wake. An error: the thread is
            // about to end.
            let _: Result<(), ArenaError> = attachment(self.cast.map, |_| ());
            self.cast.leave(self.at, self.owner, !(self.broken.get() || std::thread::panicking()));
        }
    }
}

impl<T: ?Sized> Publisher<T> {
    pub(super) fn new(cast: Mapped, handle: Handle, owner: u64, at: usize) -> Publisher<T> {
        Publisher {
            cast,
            owner,
            at,
            incarnation: process::incarnation(),
            size: (cast.ring.shape().size as usize, cast.schema_hash() != 0),
            router: RefCell::default(),
            broken: Cell::new(false),
            _handle: handle,
            one: PhantomData,
            of: PhantomData,
        }
    }

    /// Goes without having ended well: when all publishers have gone, subscribers get [`NotReceived::SenderDied`], as if this process
    /// had died. Never waits.
    pub fn break_off(self) {
        self.broken.set(true);
    }

    /// How many subscribe now.
    pub fn subscribers(&self) -> usize {
        self.cast.subscriptions().count()
    }

    #[inline]
    fn put(&self, record: &[u8], until: Until) -> Result<(), NotSent> {
        let (most, exactly) = self.size;
        if record.len() > most {
            return Err(NotSent::TooLong { tube: name_of(&self.cast), len: record.len(), most, message: () });
        }
        if exactly && record.len() != most {
            return Err(NotSent::TooShort { tube: name_of(&self.cast), len: record.len(), wanted: most, message: () });
        }
        self.sent(record, until).map_err(|fault| fault.not_sent(|| name_of(&self.cast), until, ()))
    }

    #[inline]
    fn sent(&self, record: &[u8], until: Until) -> Result<(), Fault> {
        let cast = &self.cast;
        if !process::is_incarnation(self.incarnation as u32) {
            return Err(Not::Inherited.into());
        }
        if !cast.is_live() {
            return Err(Not::Dead.into());
        }
        let mut wanted = self.router.borrow_mut().wanted(cast, record);
        if wanted == Mask::default() {
            return Ok(());
        }
        cast.ring.narrow(&mut wanted);
        if wanted == Mask::default() {
            return Ok(());
        }
        let publish = |me: u16| cast.publish(me, record, &wanted);
        attachment(cast.map, |attachment| match publish(attachment.joined.index as u16) {
            Err(Not::Now) => waited(
                attachment,
                until,
                || true,
                // The member that is in the way may be dead.
                || cast.map.recover_dead() > 0,
                |me| publish(me.member as u16),
                |who, end, patience| publish_attached(cast, record, &wanted, who, end, patience),
            ),
            other => Ok(other?),
        })
        .map_err(Fault::Arena)?
    }
}

impl<T: Pod> Publisher<T> {
    /// Sends a message to each subscriber that wants it; waits while a subscription that blocks has no room for it.
    /// Publishers that wait for room are not served in order. A message without a subscriber that wants it is not even
    /// copied. No system call unless a thread waits.
    ///
    /// # Errors
    /// `Dead` if the tube was removed; `Interrupted` inside of [`interruptible`](crate::interruptible); `Inherited`, `Arena`, `System`.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), NotSent> {
        self.put(bytemuck::bytes_of(&message), Until::Forever)
    }

    /// Sends a message if no subscriber that blocks is in the way. Never waits.
    ///
    /// # Errors
    /// `Full`; else as `send`.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), NotSent> {
        self.put(bytemuck::bytes_of(&message), Until::Now)
    }

    crate::timed::timed! {
        /// As `send`, waiting at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as `send`.
        pub fn send_timeout, send_deadline(&self, message: T) -> Result<(), NotSent> { |until|
            self.put(bytemuck::bytes_of(&message), until())
        }
    }
}

impl Publisher<[u8]> {
    /// Sends these bytes as one message: as the `send` of a tube of plain data.
    ///
    /// # Errors
    /// `TooLong`, and, in a tube with a schema, `TooShort`; `Dead`, `Inherited`, `Arena`, `System`.
    #[inline]
    pub fn send(&self, message: &[u8]) -> Result<(), NotSent> {
        self.put(message, Until::Forever)
    }

    /// Sends these bytes if no subscriber that blocks is in the way. Never waits.
    ///
    /// # Errors
    /// `Full`; else as `send`.
    #[inline]
    pub fn try_send(&self, message: &[u8]) -> Result<(), NotSent> {
        self.put(message, Until::Now)
    }

    crate::timed::timed! {
        /// As `send`, waiting at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as `send`.
        pub fn send_timeout, send_deadline(&self, message: &[u8]) -> Result<(), NotSent> { |until|
            self.put(message, until())
        }
    }
}

/// Where messages come out, for one subscriber. Of one thread at a time. It goes when it is dropped, or its process dies. In a forked child it
/// belongs to the parent.
///
/// It is an arm of a choice, too ([`Select::recv_on`](crate::Select::recv_on), [`select!`](crate::select!)): ready for a message that it wants,
/// which is there, and when all publishers have gone. What its filter does not want is dropped on the way, and makes nothing ready.
pub struct Subscription<T: ?Sized> {
    pub(crate) heard: Heard<Own>,
    cast: Mapped,
    owner: u64,
    who: u32,
    /// How many deaths of publishers it was told of.
    told: Cell<u32>,
    _handle: Handle,
    one: PhantomData<Cell<()>>,
    of: PhantomData<fn(&T)>,
}

impl<T: ?Sized> std::fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subscription({:?}, {})", name_of(&self.cast), self.who)
    }
}

impl<T: ?Sized> Drop for Subscription<T> {
    fn drop(&mut self) {
        if self.heard.is_here() {
            // As where a publisher goes.
            let _: Result<(), ArenaError> = attachment(self.cast.map, |_| ());
            self.heard.watched.forget();
            self.cast.unsubscribe(&self.cast.map.admin(), self.who, self.owner);
        }
    }
}

impl<T: ?Sized> Subscription<T> {
    pub(super) fn new(cast: Mapped, handle: Handle, (owner, who): (u64, u32), told: u32, own: Own) -> Subscription<T> {
        let size = cast.ring.shape().size as usize;
        Subscription {
            cast,
            owner,
            who,
            told: Cell::new(told),
            heard: Heard::new(Ear { cast, who }, own, size),
            _handle: handle,
            one: PhantomData,
            of: PhantomData,
        }
    }

    /// Its number in the tube.
    pub fn number(&self) -> u32 {
        self.who
    }

    /// How many messages it has lost because it was too slow, since it subscribed, modulo 2^32.
    pub fn lost(&self) -> u64 {
        let dropped = &self.cast.ring.sub(self.who).dropped;
        let dropped = dropped.load(chappe_plat::atomic::Ordering::Relaxed); // Relaxed: a count.
        u64::from(self.cast.ring.lost(self.who)) + dropped
    }

    /// Whether nothing is there for it now.
    pub fn is_empty(&self) -> bool {
        !self.cast.ring.has(self.who) && !self.heard.is_held()
    }

    /// How many messages are there for it, those that are just being written too.
    pub fn len(&self) -> usize {
        self.cast.ring.pending(self.who) as usize + usize::from(self.heard.is_held())
    }

    /// Gives parameters of its filter other values: for what is sent from here on, and what is there already.
    ///
    /// # Errors
    /// `Schema`: there are no such parameters, or the values do not fit.
    #[cfg(feature = "synth")]
    pub fn set(&self, params: &[(&str, chappe_synth::Value)]) -> Result<(), crate::tube::named::TubeError> {
        let mut own = self.heard.own.borrow_mut();
        let text = own.set(params)?;
        self.cast.change(self.who, text);
        drop(own);
        self.heard.tests_again();
        Ok(())
    }

    /// A descriptor (an eventfd) that becomes readable when there is a message for this subscription, no publisher any more (gone or dead), or no
    /// tube: for epoll and runtimes. It is made on the first call, and closed with the subscription. Only poll it: do not read it. It becomes
    /// readable once, and [`rearm`](Self::rearm) makes it ready for the next time. A message that the filter does not want is not copied, wakes no
    /// thread and makes nothing readable, once the publishers have taken the filter in; until then [`rearm`](Self::rearm) drops it.
    ///
    /// A thread of this process watches on behalf of the poller: see [`Receiver::descriptor`](crate::tube::named::Receiver::descriptor), with
    /// what it costs. The first call in an arena waits for that thread to start. A `recv` that waits takes the watcher's place, and so does a
    /// choice that waits or takes a message: an armed descriptor becomes readable then, and is not armed any more.
    ///
    /// # Errors
    /// The system's, when it refuses a descriptor or a thread; the arena's, when it cannot take another member; `PermissionDenied` if the
    /// subscription is the parent process's.
    ///
    /// ```no_run
    /// use chappe_sync::tube::broadcast::{Broadcast, Subscribe};
    /// use chappe_sync::tube::named::NotReceived;
    /// let ticks = Broadcast::<u64>::open("ticks")?.subscribe(Subscribe::to_all())?;
    /// let descriptor = ticks.descriptor()?; // register it
    /// loop {
    ///     match ticks.try_recv() {
    ///         Ok(tick) => println!("{tick}"),
    ///         Err(NotReceived::Empty) if ticks.rearm() => break, // nothing has come meanwhile: wait for the descriptor
    ///         Err(NotReceived::Empty) => {}
    ///         Err(e) => return Err(e.into()),
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        if !self.heard.is_here() {
            return Err(not_ours(NotReceived::Inherited { tube: name_of(&self.cast) }));
        }
        let descriptor = self.heard.watched.descriptor(self.heard.ear)?;
        if self.heard.is_held() {
            self.heard.watched.fire();
        }
        Ok(descriptor)
    }

    /// Makes the descriptor unreadable, and ready to become readable again. False: something has come, and the descriptor is readable: try
    /// again. In a forked child it is always false, and nothing becomes readable: the subscription is the parent's, as `try_recv` says.
    pub fn rearm(&self) -> bool {
        self.heard.is_here() && self.heard.rearm()
    }

    /// Whether a publisher has died, or broken off, of which it was not told. It is now.
    fn learns_of_death(&self) -> bool {
        let died = self.cast.died();
        self.told.replace(died) != died
    }

    /// The next message that passes, in the buffer: its bytes.
    fn get(&self, buffer: &mut [u8], until: Until) -> Result<usize, NotReceived> {
        let size = self.cast.ring.shape().size as usize;
        if buffer.len() < size {
            let tube = name_of(&self.cast);
            return Err(NotReceived::Buffer { tube, has: buffer.len(), wanted: size });
        }
        if let Some(len) = self.heard.given(buffer) {
            return Ok(len);
        }
        self.got(buffer, until).map_err(|fault| self.not_heard(fault, until))
    }

    pub(crate) fn not_heard(&self, fault: Fault, until: Until) -> NotReceived {
        fault.not_received(|| name_of(&self.cast), until, || self.learns_of_death())
    }

    fn got(&self, buffer: &mut [u8], until: Until) -> Result<usize, Fault> {
        let cast = &self.cast;
        if !self.heard.is_here() {
            return Err(Not::Inherited.into());
        }
        match self.heard.take(buffer) {
            Err(Not::Now) => {}
            other => return Ok(other?),
        }
        if let Until::Now = until {
            // All publishers may be dead.
            return Ok(if cast.map.recover_dead() > 0 { self.heard.take(buffer) } else { Err(Not::Now) }?);
        }
        let buffer = RefCell::new(buffer);
        let take = || self.heard.take(&mut buffer.borrow_mut());
        let sleep = |who: &Parties, end, patience: &Patience<'_>| {
            self.heard.watched.disarm();
            loop {
                wait_for(who, &[&self.heard.ear], WaitSpec::to_take(end, patience))?;
                match take() {
                    // What was there was overwritten, or did not pass.
                    Err(Not::Now) => {}
                    other => return other,
                }
            }
        };
        let is_there = || cast.ring.has(self.who);
        attachment(cast.map, |attachment| waited(attachment, until, is_there, || false, |_| take(), sleep))
            .map_err(Fault::Arena)?
    }
}

impl<T: Record + ?Sized> Subscription<T> {
    fn owned(&self, until: Until) -> Result<T::Owned, NotReceived> {
        let mut buffer = self.heard.room();
        let got = self.get(&mut buffer, until);
        let owned = got.map(|len| as_owned::<T>(&buffer[..len]));
        self.heard.room_back(buffer);
        owned
    }

    /// What a choice has taken by this end. None: all publishers have gone.
    pub(crate) fn finish(&self) -> Option<T::Owned> {
        self.heard.taken(as_owned::<T>)
    }

    /// Receives the next message that it wants; waits while there is none. No allocation but for what it returns, no system call while there is
    /// something.
    ///
    /// # Errors
    /// If all publishers have gone, and there is nothing more: `SenderDied`, once, if one of them did in the middle, and then `Disconnected`;
    /// `Dead`, `Inherited`, `Arena`, `System`.
    #[inline]
    pub fn recv(&self) -> Result<T::Owned, NotReceived> {
        self.owned(Until::Forever)
    }

    /// Receives if there is something now. Never waits.
    ///
    /// # Errors
    /// `Empty`; else as `recv`.
    #[inline]
    pub fn try_recv(&self) -> Result<T::Owned, NotReceived> {
        self.owned(Until::Now)
    }

    crate::timed::timed! {
        /// As `recv`, waiting at most for `timeout`.
        ///
        /// # Errors
        /// `Timeout`; else as `recv`.
        pub fn recv_timeout, recv_deadline(&self) -> Result<T::Owned, NotReceived> { |until| self.owned(until()) }
    }
}

impl Subscription<[u8]> {
    /// The most bytes that a message has.
    pub fn size(&self) -> usize {
        self.cast.ring.shape().size as usize
    }

    /// What a choice has taken by this end, in a buffer that has room for it.
    pub(crate) fn finish_into(&self, taken: Option<Taken>, buffer: &mut [u8]) -> Result<usize, NotReceived> {
        let tube = || name_of(&self.cast);
        if taken.is_none() {
            return Err(NotReceived::Dead { tube: tube() });
        }
        match self.get(buffer, Until::Now) {
            // A publisher has come since: what was chosen is that there was none.
            Err(NotReceived::Empty) => Err(NotReceived::Disconnected { tube: tube() }),
            got => got,
        }
    }

    /// Receives into a buffer, which has room for the longest message: how many bytes.
    ///
    /// # Errors
    /// `Buffer` if it has not; else as `recv`.
    #[inline]
    pub fn recv_into(&self, buffer: &mut [u8]) -> Result<usize, NotReceived> {
        self.get(buffer, Until::Forever)
    }

    /// Receives into a buffer if there is something now.
    ///
    /// # Errors
    /// As `recv_into`, and `Empty`.
    #[inline]
    pub fn try_recv_into(&self, buffer: &mut [u8]) -> Result<usize, NotReceived> {
        self.get(buffer, Until::Now)
    }

    crate::timed::timed! {
        /// As `recv_into`, waiting at most for `timeout`.
        ///
        /// # Errors
        /// As `recv_into`, and `Timeout`.
        pub fn recv_into_timeout, recv_into_deadline(&self, buffer: &mut [u8]) -> Result<usize, NotReceived> { |until|
            self.get(buffer, until())
        }
    }
}

/// What it is called in messages.
fn name_of(cast: &Mapped) -> String {
    shown(cast.map, cast.place)
}
