//! Light threads at tubes without slots, for loom: each of loom's threads is a light thread, and sleeps on its token.
//!
//! The scheduler is left out: a thread that was given its token just goes on.

use super::tubes::{Got, TubeAt, got, received};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::futex::{self, Scope};
use chappe_plat::light::{self, Chime, Hooks, Record, Waits};
use chappe_tube::body::Not;
use chappe_tube::body::arms::{In, Out};
use chappe_tube::direct;
use chappe_wait::handoff::{Handoff, Outcome};
use chappe_wait::interrupt::Interrupt;
use chappe_wait::lights::straight;
use chappe_wait::lights::straight::{Ended, fits};
use chappe_wait::lights::waits::met_by;
use chappe_wait::lights::waits::{Hope, wait_for};
use chappe_wait::lights::{Comes, Node, Side};
use chappe_wait::operation::{Arm, Mode, Refused, Taken};
use chappe_wait::wait::Party;
use std::cell::Cell;
use std::ptr::{null, null_mut};

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;

fn park(deadline: Option<u64>) {
    let token = &light::current().expect("a light thread").token;
    // AcqRel, Acquire: what was done before the token came, as in `chappe-thread`.
    if token.compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire).is_err() {
        token.swap(EMPTY, Ordering::AcqRel); // AcqRel: as above.
        return;
    }
    // Acquire: as above.
    while token.load(Ordering::Acquire) == PARKED {
        if futex::wait(token, PARKED, deadline, Scope::Private) == futex::Wait::TimedOut {
            // AcqRel: as above. A failure: the token came.
            let _ = token.compare_exchange(PARKED, EMPTY, Ordering::AcqRel, Ordering::Acquire);
            return;
        }
    }
}

fn unpark(record: &'static Record) {
    // AcqRel: as above.
    if record.token.compare_exchange(PARKED, EMPTY, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        record.token.swap(NOTIFIED, Ordering::AcqRel); // AcqRel: as above.
    }
    futex::wake(&record.token, 1, Scope::Private);
}

fn nothing() {}

fn no_proc() -> Option<usize> {
    None
}

fn no_chime(_: &'static Chime) {}

static HOOKS: Hooks = Hooks {
    park,
    unpark,
    give_way: nothing,
    blocks: nothing,
    blocked: nothing,
    proc: no_proc,
    listen: no_chime,
    come_by: nothing,
    lend: |_, _| false,
    is_here: |_| false,
    level: || 0,
};

/// Makes a light thread, while the scene is set up.
pub fn light(number: u32) -> &'static Record {
    light::install(&HOOKS);
    let record = Box::leak(Box::new(Record {
        word: AtomicU64::new(0),
        token: AtomicU32::new(EMPTY),
        number,
        waits: Cell::new(Waits::Nothing),
        control: AtomicU32::new(0),
        at: Cell::new(0),
        kept: Cell::new(null_mut()),
        ends: Cell::new(null()),
    }));
    // Each word is touched while the scene is set up. Relaxed, both: no other thread is there.
    record.word.store(0, Ordering::Relaxed);
    record.token.store(EMPTY, Ordering::Relaxed); // Relaxed: as above.
    record.control.store(0, Ordering::Relaxed); // Relaxed: as above.
    record
}

/// Makes an interrupt for a light thread's wait, while the scene is set up.
pub fn interrupt() -> &'static Interrupt {
    let interrupt = Box::leak(Box::new(Interrupt::default()));
    // Each word is touched there.
    interrupt.clear();
    interrupt
}

/// Interrupts a light thread, and wakes it.
pub fn ask(by: &'static Interrupt, who: &'static Record) {
    by.try_interrupt(0);
    light::unpark(who);
}

/// Destroys a light thread, and wakes it.
pub fn destroy(thread: &'static Record) {
    thread.control.fetch_or(light::asked::KILL, Ordering::AcqRel); // AcqRel: as `chappe-thread` does it.
    light::unpark(thread);
}

/// A choice: the straight way, if it has no deadline, and then the long way.
fn wait_for_either(
    me: &'static Record,
    arms: &[&dyn Arm],
    deadline: Option<u64>,
    packet: &Handoff,
) -> Result<(usize, Taken), Refused> {
    let packet = packet.address();
    let mut hope = Hope { aim: Mode::Take, first: 0, deadline, packet, by: None, front: false };
    if deadline.is_none() && fits(arms) {
        match straight::wait(me, arms, 0, packet) {
            Ended::Met(at) => return Ok((at, met_by(packet))),
            Ended::Told(at) => {
                let nobody = Party::nobody(arms[at].site().map);
                if let Ok(taken) = arms[at].attempt(&nobody, false) {
                    return Ok((at, taken));
                }
                hope.front = true;
            }
            Ended::Not => {}
        }
    }
    wait_for(me, arms, hope)
}

impl TubeAt {
    /// A light thread sends, until the deadline.
    pub fn send_lightly(&self, me: &'static Record, message: u64, deadline: Option<u64>) -> Got {
        light::set_current(me);
        got(direct::send(self.tube(), me, message, deadline)
            .map_err(|(not, message)| (not.expect("light threads only"), message)))
    }

    /// A light thread receives, until the deadline.
    pub fn recv_lightly(&self, me: &'static Record, deadline: Option<u64>) -> Got {
        light::set_current(me);
        received(direct::recv(self.tube(), me, deadline).map_err(|not| not.expect("light threads only")))
    }

    /// A light thread sends, until an interrupt comes.
    pub fn send_lightly_until(&self, by: &'static Interrupt, me: &'static Record, message: u64) -> Got {
        light::set_current(me);
        got(direct::send_ended_by(self.tube(), me, message, Some(by))
            .map_err(|(not, message)| (not.expect("light threads only"), message)))
    }

    /// A light thread receives, until an interrupt comes.
    pub fn recv_lightly_until(&self, by: &'static Interrupt, me: &'static Record) -> Got {
        light::set_current(me);
        received(direct::recv_ended_by(self.tube(), me, Some(by)).map_err(|not| not.expect("light threads only")))
    }

    /// A light thread receives from one of two, once it has come to wait at both.
    pub fn recv_either_lightly(&self, other: &TubeAt, me: &'static Record, deadline: Option<u64>) -> (usize, Got) {
        light::set_current(me);
        let (one, two) = (In(self.tube()), In(other.tube()));
        let arms: [&dyn Arm; 2] = [&one, &two];
        match wait_for_either(me, &arms, deadline, &Handoff::of(me)) {
            Ok((0, taken)) => (0, received(self.tube().recv_taken(taken))),
            Ok((_, taken)) => (1, received(other.tube().recv_taken(taken))),
            Err(_) => (2, Got::Nothing),
        }
    }

    /// A light thread sends through this or receives from the other, once it has come to wait at both.
    pub fn send_or_recv_lightly(&self, message: u64, other: &TubeAt, me: &'static Record) -> (usize, Got) {
        light::set_current(me);
        let (one, two) = (Out(self.tube()), In(other.tube()));
        let arms: [&dyn Arm; 2] = [&one, &two];
        match wait_for_either(me, &arms, None, &Handoff::of(me)) {
            Ok((0, taken)) => (0, got(self.tube().send_taken(taken, message))),
            Ok((_, taken)) => (1, received(other.tube().recv_taken(taken))),
            Err(_) => (2, Got::Nothing),
        }
    }

    /// A light thread comes to receive until it finds that kernel threads may be at the other end. Returns how often it
    /// waited.
    pub fn come_until_attached(&self, me: &'static Record) -> u64 {
        light::set_current(me);
        let tube = self.tube();
        tube.receivers.admit_lights(false);
        let packet = Handoff::of(me);
        let mut waited = 0;
        loop {
            let node = Node::direct(me, &packet);
            match tube.lights.come(Side::Recv, &tube.senders, waited > 0, || &node) {
                Comes::Attached => return waited,
                Comes::Waits => {}
                Comes::Meets(_) | Comes::Gone => unreachable!("nobody sends"),
            }
            waited += 1;
            while packet.outcome() != Outcome::Told {
                light::park(None);
            }
            packet.open_again();
        }
    }

    /// A light thread receives until it finds that kernel threads may be at the other end.
    pub fn recv_until_attached(&self, me: &'static Record) {
        light::set_current(me);
        assert!(matches!(direct::recv(self.tube(), me, None), Err(None)), "nobody sends");
    }

    /// The same, or until it is destroyed. One that finds a kernel thread meets it, and looks for two more.
    pub fn recv_until_destroyed(&self, me: &'static Record) {
        light::set_current(me);
        match direct::recv(self.tube(), me, None) {
            Err(None) => _ = self.tube().lights.tell_one(Side::Recv),
            Err(Some(Not::Now)) => {}
            _ => unreachable!("nobody sends, and nobody goes"),
        }
    }

    /// A kernel thread begins to wait to send: the first half of that, and its look for light threads.
    pub fn come_attached(&self) {
        let tube = self.tube();
        tube.senders.enlists();
        chappe_wait::wait::fence_alone();
        if tube.receivers.has_lights() {
            tube.lights.tell_one(Side::Recv);
        }
    }

    /// As if light threads had waited at both ends before. For the set-up.
    pub fn has_been_waited_at(&self) {
        self.tube().senders.admit_lights(false);
        self.tube().receivers.admit_lights(false);
    }

    /// Each word is touched while the scene is set up.
    pub fn touch(&self) {
        assert!(!self.is_awaited());
        self.tube().lights.tell_all(Side::Recv);
        self.enter();
        self.no_sender();
        self.no_receiver();
    }
}
