//! The wait word of a member, taken apart, and what a grant says: see the table in the wait queue's head.

use chappe_arena::Map;
use chappe_plat::futex::Scope;
use chappe_structures::stamp::Stamp;

pub(crate) const PHASE: u64 = 3;
pub const IDLE: u64 = 0;
pub(crate) const WAITING: u64 = 1;
pub const ASLEEP: u64 = 2;
pub(crate) const GRANTED: u64 = 3;
/// How many bits of a wait's number a word that says GRANTED has, and a reservation. In the explorer one, so that they repeat within its worlds.
const SHORT: u32 = if cfg!(feature = "sim") { 1 } else { 23 };
/// Those bits, in the word.
type Short = Stamp<2, SHORT>;
/// The whole number of a wait.
pub(crate) const WAIT_MASK: u64 = (1 << (SHORT + 32)) - 1;
pub(crate) const RETURNED: u64 = 1 << 25;
pub const PRIVATE: u64 = 1 << 26;
pub const DEAD: u64 = 1 << 27;

/// Nothing was granted: the waiter is to try again.
pub const RETRY: u32 = 0xfffe;
/// As [`RETRY`], by a thread that is not among the object's users: see the ends of tubes.
pub const AFTER_DEATH: u32 = 0xfffc;
/// Met by a member at the other end of a tube without slots.
pub const MET: u32 = 0xfffa;
/// Beside [`RETRY`] and in notifications: the waiter was awake, or has been woken.
pub(crate) const WOKEN: u32 = 1;
/// Granted an error: more permits were asked for than the object has.
pub const TOO_MANY: u32 = 1;

/// A member's wait word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(pub u64);

/// The part of a wait's number that [`State::wait`] returns.
#[inline]
pub fn short(number: u64) -> u32 {
    Short::of(Short::word(number)) as u32
}

/// The other part.
#[inline]
pub fn era(number: u64) -> u32 {
    (number >> SHORT) as u32
}

impl State {
    #[inline]
    pub fn new(phase: u64, number: u64) -> State {
        State(phase | Short::word(number) | (number >> SHORT) << 32)
    }
    #[inline]
    pub fn idle(number: u64) -> State {
        State::new(IDLE, number)
    }
    /// The low bits of the wait's number: all that a reservation, or a word that says GRANTED, has of it.
    #[inline]
    pub fn wait(self) -> u32 {
        Short::of(self.0) as u32
    }
    /// The whole number of the wait; `era` supplies the high bits, for which a word that says GRANTED has no room.
    pub fn number(self, era: impl FnOnce() -> u32) -> u64 {
        let high = if self.is_granted() { u64::from(era()) } else { self.0 >> 32 };
        high << SHORT | u64::from(self.wait())
    }
    #[inline]
    pub fn is_idle(self) -> bool {
        self.0 & PHASE == IDLE
    }
    #[inline]
    pub fn is_waiting(self) -> bool {
        matches!(self.0 & PHASE, WAITING | ASLEEP)
    }
    pub fn is_granted(self) -> bool {
        self.0 & PHASE == GRANTED
    }
    /// The same grant, marked as gone back.
    #[inline]
    pub fn returned(self) -> State {
        State(self.0 | RETURNED)
    }
    #[inline]
    pub fn granted(self, grant: Grant) -> State {
        let private = if grant.private { PRIVATE } else { 0 };
        let dead = if grant.dead { DEAD } else { 0 };
        let permit = u64::from(grant.permit);
        State(
            GRANTED
                | Short::alone(self.0)
                | private
                | dead
                | (permit >> 12) << 28
                | u64::from(grant.object) << 32
                | (permit & 0xfff) << 52,
        )
    }
    /// What was granted.
    #[inline]
    pub fn grant(self) -> Option<Grant> {
        self.is_granted().then_some(Grant {
            private: self.0 & PRIVATE != 0,
            dead: self.0 & DEAD != 0,
            returned: self.0 & RETURNED != 0,
            object: (self.0 >> 32 & 0xf_ffff) as u32,
            permit: ((self.0 >> 28 & 0xf) << 12 | self.0 >> 52) as u32,
        })
    }
}

/// What a grant says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub private: bool,
    pub dead: bool,
    /// It has gone back already: its member died before it took it.
    pub returned: bool,
    pub object: u32,
    pub permit: u32,
}

impl Grant {
    /// Whether it is this object's grant of this permit, unit or try.
    #[inline]
    pub fn is(&self, map: &Map, object: u32, permit: u32) -> bool {
        !self.dead && self.permit == permit && self.of(map, object)
    }
    /// Whether it is this object's grant.
    #[inline]
    pub fn of(&self, map: &Map, object: u32) -> bool {
        self.object == object && self.private == (map.scope() == Scope::Private)
    }
    /// Whether it grants nothing but another try.
    #[inline]
    pub fn is_retry(&self) -> bool {
        !self.dead && matches!(self.permit & !WOKEN, RETRY | AFTER_DEATH)
    }
    /// Whether it says `what`, with or without WOKEN.
    #[inline]
    pub fn says(&self, what: u32) -> bool {
        !self.dead && self.permit & !WOKEN == what
    }
}
