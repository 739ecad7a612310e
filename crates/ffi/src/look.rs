//! The structures that describe an arena and its objects to an observer: members, holders and waiters.

use crate::failure::Answer;
use crate::input;
use chappe::{Holder, LifeState, Waiter, Who};
use std::ffi::c_char;
use std::mem::MaybeUninit;

/// A name, ended by a 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct chappe_name {
    /// It.
    pub text: [c_char; 96],
}

/// A member of an arena: a thread, or a process as a whole.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct chappe_member {
    /// Its process.
    pub pid: i32,
    /// Its thread.
    pub tid: i32,
    /// 1: it stands for the whole process.
    pub is_process: i32,
    /// 1: it lives. 0: it is dead, or that cannot be told, and what it had is not made up for yet.
    pub is_alive: i32,
    /// What it calls itself, ended by a 0.
    pub label: [c_char; 64],
}

/// A waiter.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct chappe_waiter {
    /// Its process.
    pub pid: i32,
    /// Its thread.
    pub tid: i32,
    /// For how long, in nanoseconds, to a clock tick.
    pub waiting: i64,
    /// What it calls itself, ended by a 0.
    pub label: [c_char; 64],
}

/// The hold is timed exactly, not since the first look at it.
pub const CHAPPE_HOLD_EXACT: u32 = 1;
/// A job has a lease on the permit.
pub const CHAPPE_HOLD_LEASED: u32 = 2;
/// Its holder is gone, and its job goes on.
pub const CHAPPE_HOLD_ORPHAN: u32 = 4;
/// The permit has no holder yet: it is set aside for the first waiter.
pub const CHAPPE_HOLD_SET_ASIDE: u32 = 8;

/// The holder of a permit.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct chappe_holder {
    /// Which of the pool's permits, counted from 0.
    pub index: u32,
    /// CHAPPE_HOLD_EXACT, CHAPPE_HOLD_LEASED, CHAPPE_HOLD_ORPHAN, CHAPPE_HOLD_SET_ASIDE.
    pub flags: u32,
    /// The holder's process; 0 if that cannot be seen.
    pub pid: i32,
    /// The holder's thread.
    pub tid: i32,
    /// For how long, in nanoseconds, to a clock tick.
    pub held: i64,
    /// What the holder calls itself, ended by a 0.
    pub label: [c_char; 64],
}

/// A text, as much of it as has room, ended by a 0.
pub fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut room = [0u8; N];
    input::copy_text(&mut room, text);
    room.map(|byte| byte as c_char)
}

impl chappe_name {
    pub(crate) fn new(name: &str) -> chappe_name {
        chappe_name { text: text(name) }
    }
}

impl From<&Who> for chappe_member {
    fn from(who: &Who) -> chappe_member {
        chappe_member {
            pid: who.pid as i32,
            tid: who.tid as i32,
            is_process: who.process.into(),
            is_alive: (who.life == LifeState::Alive).into(),
            label: text(&who.label),
        }
    }
}

impl From<&Waiter> for chappe_waiter {
    fn from(waiter: &Waiter) -> chappe_waiter {
        let (who, waiting) = (&waiter.who, waiter.waiting.as_nanos() as i64);
        chappe_waiter { pid: who.pid as i32, tid: who.tid as i32, waiting, label: text(&who.label) }
    }
}

impl From<&Holder> for chappe_holder {
    fn from(holder: &Holder) -> chappe_holder {
        let flags = [
            (holder.exact, CHAPPE_HOLD_EXACT),
            (holder.leased, CHAPPE_HOLD_LEASED),
            (holder.orphan, CHAPPE_HOLD_ORPHAN),
            (holder.set_aside, CHAPPE_HOLD_SET_ASIDE),
        ];
        chappe_holder {
            index: holder.index,
            flags: flags.into_iter().filter(|(is_so, _)| *is_so).map(|(_, flag)| flag).sum(),
            pid: holder.who.pid as i32,
            tid: holder.who.tid as i32,
            held: holder.held.as_nanos() as i64,
            label: text(&holder.who.label),
        }
    }
}

/// Writes as many as there is room for; answers how many there are.
pub fn listed<T, C>(all: &[T], to: *mut C, room: usize, shown: impl Fn(&T) -> C) -> Answer<isize> {
    let room = input::array_out(to, room)?;
    for (one, place) in all.iter().zip(room) {
        MaybeUninit::write(place, shown(one));
    }
    Ok(all.len() as isize)
}
