//! Tubes of threads, for the explorer: the operations of a thread at their ends, without its attachment.

use super::{Actor, SemaphoreAt};
use chappe_arena::Map;
use chappe_structures::ring::{Ring, Spsc};
#[cfg(feature = "loom")]
use chappe_tube::body::Ends;
use chappe_tube::body::arms::{In, Out};
use chappe_tube::body::{Body, Not, Tube};
use chappe_tube::left::Left;
use chappe_tube::wait::{Waiter, recv_attached, send_attached};
use chappe_wait::claim::wait_for;
use chappe_wait::handoff::Handoff;
#[cfg(feature = "sim")]
use chappe_wait::lights::Side;
use chappe_wait::lights::waits::MET_BY;
use chappe_wait::operation::{Arm, Mode, Refused, Taken, WaitSpec};
use chappe_wait::wait::Parties;
#[cfg(feature = "loom")]
use chappe_wait::wait::Party;
use std::cell::Cell;

/// A tube of numbers.
pub struct TubeAt(Tube<u64>);

/// The outcome of an operation at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// The message was sent.
    Sent,
    /// This message was received.
    Message(u64),
    /// A semaphore's unit was consumed.
    Down,
    /// Not now, or not in time.
    Nothing,
    /// The other end has gone.
    Gone,
    /// This arm is ready.
    Ready(usize),
}

/// Which end of a tube.
#[derive(Clone, Copy)]
pub enum End<'t> {
    /// Send this message.
    Send(&'t TubeAt, u64),
    /// Receive a message.
    Recv(&'t TubeAt),
    /// No end: a semaphore.
    Down(&'t SemaphoreAt),
}

/// The arms of a choice.
pub struct Arms<'t>(pub Vec<End<'t>>);

pub(super) fn got(sent: Result<(), (Not, u64)>) -> Got {
    match sent {
        Ok(()) => Got::Sent,
        Err((Not::Now, _)) => Got::Nothing,
        Err((Not::Ever, _)) => Got::Gone,
    }
}

pub(super) fn received(message: Result<u64, Not>) -> Got {
    match message {
        Ok(message) => Got::Message(message),
        Err(Not::Now) => Got::Nothing,
        Err(Not::Ever) => Got::Gone,
    }
}

impl TubeAt {
    fn new(map: &'static Map, body: Body<u64>) -> TubeAt {
        let tube = Tube::new(map, body);
        if cfg!(feature = "loom") {
            return TubeAt(tube);
        }
        tube.senders.prepare().expect("room for an object");
        tube.receivers.prepare().expect("room for an object");
        TubeAt(tube)
    }

    pub(super) fn tube(&self) -> &Tube<u64> {
        &self.0
    }

    /// With so many slots; none: its ends meet.
    pub fn bounded(map: &'static Map, slots: usize) -> TubeAt {
        TubeAt::new(
            map,
            if slots == 0 { Body::Rendezvous(Left::unmade()) } else { Body::Ring(Box::new(Ring::new(slots))) },
        )
    }

    /// Without a bound.
    pub fn unbounded(map: &'static Map) -> TubeAt {
        TubeAt::new(map, Body::Segmented(Box::new(Ring::unbounded())))
    }

    /// Of one sender and one receiver.
    pub fn line(map: &'static Map, slots: usize) -> TubeAt {
        TubeAt::new(map, Body::Spsc(Box::new(Spsc::new(slots))))
    }

    /// The objects on which threads wait: senders, receivers.
    pub fn objects(&self) -> [u32; 2] {
        [self.0.senders.place().index, self.0.receivers.place().index]
    }

    /// Another handle at each end.
    pub fn enter(&self) {
        self.0.senders.enter();
        self.0.receivers.enter();
    }

    /// Drops a sender.
    pub fn no_sender(&self) {
        if self.0.senders.leave() {
            self.0.no_sender();
        }
    }

    /// Drops a receiver.
    pub fn no_receiver(&self) {
        if self.0.receivers.leave() {
            self.0.no_receiver();
        }
    }

    /// Sends if that is possible now.
    pub fn try_send(&self, message: u64) -> Got {
        got(self.0.try_send(message))
    }

    /// The same by a thread that waits by its descriptor otherwise.
    #[cfg(feature = "sim")]
    pub fn try_send_or_leave(&self, message: u64) -> Got {
        got(self.0.try_send(message).or_else(|why| self.0.or_leave(why)))
    }

    /// Arms the descriptor of an end, made if need be. False: there is something.
    #[cfg(feature = "sim")]
    pub fn rearm(&self, sends: bool) -> bool {
        let side = if sends { Side::Send } else { Side::Recv };
        self.0.end(side).event().expect("one is made");
        self.0.rearm(side)
    }

    /// Sleeps until the descriptor of an end is readable.
    #[cfg(feature = "sim")]
    pub fn poll(&self, sends: bool) {
        self.0.end(if sends { Side::Send } else { Side::Recv }).event().expect("one is made").0.wait();
    }

    /// Receives if there is a message now.
    pub fn try_recv(&self) -> Got {
        received(self.0.try_recv())
    }

    /// The first half of a wait to receive. Returns whether there is something.
    #[cfg(feature = "loom")]
    pub fn begin_to_wait(&self) -> bool {
        self.0.receivers.enlists();
        chappe_plat::fence::heavy();
        self.0.may_recv(&Party {
            map: self.0.receivers.map(),
            member: 0,
            generation: 0,
            holds: crate::bias::Holds::NONE,
        })
    }

    /// Turns the receivers' end: from now on both sides make a full fence.
    #[cfg(feature = "loom")]
    pub fn turn(&self) {
        assert!(self.0.receivers.begin_turn());
        chappe_plat::fence::heavy();
        self.0.receivers.turn(true);
    }

    /// As [`TubeAt::begin_to_wait`], where the end has turned.
    #[cfg(feature = "loom")]
    pub fn begin_to_wait_turned(&self) -> bool {
        self.0.receivers.enlists();
        assert!(self.0.receivers.is_turned());
        chappe_wait::wait::fence_alone();
        self.0.may_recv_now()
    }

    /// As [`TubeAt::send_and_look`], where the end may have turned.
    #[cfg(feature = "loom")]
    pub fn send_and_look_turned(&self, message: u64) -> bool {
        self.send_and_look(message) && !self.0.receivers.is_calm()
    }

    /// The first half of a kernel thread's wait to send through a tube without slots. Returns whether light threads may
    /// be there.
    #[cfg(feature = "loom")]
    pub fn begin_to_meet(&self) -> bool {
        self.0.senders.enlists();
        chappe_wait::wait::fence_alone();
        self.0.receivers.has_lights()
    }

    /// The first half of a light thread's wait to receive. Returns whether a kernel thread waits.
    #[cfg(feature = "loom")]
    pub fn begin_to_meet_lightly(&self) -> bool {
        self.0.receivers.admit_lights(false);
        self.0.senders.has_waiters()
    }

    /// Whether any thread has come to wait at one of the ends.
    #[cfg(feature = "loom")]
    pub fn is_awaited(&self) -> bool {
        let Ends { senders, receivers, .. } = &*self.0;
        [senders, receivers].iter().any(|end| end.has_waiters() || end.has_lights())
    }

    /// Sends a message. Returns whether a waiter is to be told.
    #[cfg(feature = "loom")]
    pub fn send_and_look(&self, message: u64) -> bool {
        match &self.0.body {
            Body::Ring(ring) => assert!(ring.push(message).is_ok()),
            // SAFETY: one thread does this.
            Body::Spsc(line) => unsafe { line.put(message) },
            _ => unreachable!("no model needs it"),
        }
        self.0.receivers.is_awaited()
    }

    /// How many messages there are.
    pub fn count(&self) -> usize {
        self.0.count()
    }
}

impl Actor {
    fn alone(&self) -> Parties {
        Parties { private: None, ..self.who }
    }

    /// Sends, sleeping at once if it cannot be now, until `deadline`.
    pub fn send(&self, tube: &TubeAt, message: u64, deadline: Option<u64>) -> Got {
        match tube.try_send(message) {
            Got::Nothing => {
                let budget = Cell::new(0);
                got(send_attached(
                    &Out(&tube.0),
                    message,
                    Waiter::Attached(&self.alone(), &self.patience(&budget)),
                    deadline,
                ))
            }
            done => done,
        }
    }

    /// Receives, sleeping at once if there is nothing now, until `deadline`.
    pub fn recv(&self, tube: &TubeAt, deadline: Option<u64>) -> Got {
        match tube.try_recv() {
            Got::Nothing => {
                let budget = Cell::new(0);
                received(recv_attached(
                    &In(&tube.0),
                    Waiter::Attached(&self.alone(), &self.patience(&budget)),
                    deadline,
                ))
            }
            done => done,
        }
    }

    /// Completes one of several arms: which, and its outcome.
    pub fn talt(&self, arms: &Arms<'_>, deadline: Option<u64>) -> (usize, Got) {
        match self.chosen(arms, deadline, Mode::Take) {
            Ok((at, taken)) => (at, arms.finish(at, taken)),
            Err(_) => (usize::MAX, Got::Nothing),
        }
    }

    /// Waits until one of several arms can be completed, and completes none.
    pub fn ready(&self, arms: &Arms<'_>, deadline: Option<u64>) -> Got {
        self.chosen(arms, deadline, Mode::Look).map_or(Got::Nothing, |(at, _)| Got::Ready(at))
    }

    fn chosen(&self, arms: &Arms<'_>, deadline: Option<u64>, aim: Mode) -> Result<(usize, Taken), Refused> {
        let ends: Vec<Box<dyn Arm + '_>> = arms.0.iter().map(End::operation).collect();
        let ends: Vec<&dyn Arm> = ends.iter().map(|end| &**end).collect();
        for (at, end) in ends.iter().enumerate() {
            if let Ok(taken) = aim.attempt(*end, &self.who.main, false) {
                return Ok((at, taken));
            }
        }
        // As a choice's packet: it is in use until the operation is completed, and leaked here if it is not.
        let packet = Box::into_raw(Box::new(Handoff::new(std::ptr::null_mut())));
        let budget = Cell::new(0);
        let patience = self.patience(&budget);
        let wish = WaitSpec { aim, packet: packet as u64, ..WaitSpec::to_take(deadline, &patience) };
        wait_for(&self.alone(), &ends, wish)
    }
}

impl Arms<'_> {
    fn finish(&self, at: usize, taken: Taken) -> Got {
        let done = match self.0[at] {
            End::Send(tube, message) => got(tube.0.send_taken(taken, message)),
            End::Recv(tube) => received(tube.0.recv_taken(taken)),
            End::Down(_) => Got::Down,
        };
        if taken.position == MET_BY && !matches!(self.0[at], End::Down(_)) {
            // SAFETY: ours, and no thread uses it any more.
            drop(unsafe { Box::from_raw(taken.word.0 as *mut Handoff) });
        }
        done
    }
}

impl<'t> End<'t> {
    fn operation(&self) -> Box<dyn Arm + 't> {
        match *self {
            End::Send(tube, _) => Box::new(Out(&tube.0)),
            End::Recv(tube) => Box::new(In(&tube.0)),
            End::Down(semaphore) => Box::new(*semaphore),
        }
    }
}
