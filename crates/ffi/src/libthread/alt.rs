//! `alt`: a choice among the operations of an array, whichever can be done first.
//!
//! Entries of channels that are closed are left out of the choice, but for messages that are still there. If no other is left, one that was not told
//! yet is chosen, and its `err` says why; when all were told, there is nothing more to choose (-1). One that is closed while it is waited for
//! is chosen so, too. Each channel counts as used while it is waited for (see `channel`).

use super::channel::{Channel, Message, Tube, at, free, is_closed, left, whichever};
use super::fatal;
use super::task::{Task, current, enters, leaves};
use chappe::raw::{Armed, Time, choose_rest, glance};
use chappe::tube::SelectedOperation;
use chappe::{ReceivingEnd, SelectError, SendingEnd, thread};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::Ordering;

/// An arm of `alt`, as the header has it.
#[repr(C)]
pub struct Alt {
    c: *mut Channel,
    v: *mut c_void,
    op: c_int,
    err: *const c_char,
    tag: *mut c_void,
    entryno: c_int,
}

const CHANEND: c_int = 0;
const CHANSND: c_int = 1;
const CHANRCV: c_int = 2;
const CHANNOP: c_int = 3;
const CHANNOBLK: c_int = 4;

const CLOSED: &std::ffi::CStr = c"the channel is closed";

/// What an arm of `alt` is to a choice.
fn arm<'a>(alt: &Alt) -> Armed<'a> {
    let tube = at(alt.c, "alt").tube;
    // SAFETY: made with the channel, which stays while we are counted there.
    let tube: &'a Tube = unsafe { &*tube };
    whichever!(tube, ends => if alt.op == CHANSND { ends.tx.__arm() } else { ends.rx.__arm() })
}

/// Does what was chosen. False: the channel was closed.
fn complete(alt: &Alt, chosen: SelectedOperation<'_>) -> bool {
    let channel = at(alt.c, "alt");
    let len = channel.len();
    whichever!(channel.tube(), ends => {
        if alt.op == CHANSND {
            // SAFETY: the caller's promise: an element, or NULL.
            let message = unsafe { Message::of(alt.v.cast(), len) };
            return chosen.send_on(&ends.tx, message).is_ok();
        }
        let Ok(message) = chosen.recv_on(&ends.rx) else { return false };
        // SAFETY: the caller's promise: room for an element, or NULL.
        unsafe { message.put(alt.v.cast(), len) };
        true
    })
}

/// Arms of a choice, a few of them on the stack.
const FEW: usize = 8;

/// `alt`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_alt(alts: *mut Alt) -> c_int {
    let me = enters();
    if alts.is_null() {
        fatal("alt: the array is nil: it ends with an entry of CHANEND or CHANNOBLK");
    }
    let (mut end, mut open, mut news, mut closed) = (0, 0, None, false);
    let mut few = [0; FEW];
    let mut many = Vec::new();
    // SAFETY: the caller's promise: an array that ends so, and is nobody else's meanwhile.
    let entry = |at: usize| unsafe { &mut *alts.add(at) };
    loop {
        let alt = entry(end);
        match alt.op {
            CHANEND | CHANNOBLK => break,
            CHANNOP => {}
            CHANSND | CHANRCV => {
                let channel = at(alt.c, "alt");
                if is_closed(channel) && (alt.op == CHANSND || left(channel) == 0) {
                    // It was said once, and is passed over then.
                    if std::ptr::eq(alt.err, CLOSED.as_ptr()) { closed = true } else { news = Some(end) }
                } else {
                    if open < FEW {
                        few[open] = end
                    } else {
                        many.push(end)
                    }
                    open += 1;
                }
            }
            op => fatal(format_args!(
                "alt: entry {end} has the operation {op}: CHANSND, CHANRCV, CHANNOP, or at the end CHANEND or CHANNOBLK"
            )),
        }
        end += 1;
    }
    let waits = entry(end).op == CHANEND;
    if open == 0 {
        return match news {
            Some(closed) if waits => {
                entry(closed).err = CLOSED.as_ptr();
                closed as c_int
            }
            _ if !waits => end as c_int,
            _ if closed => -1,
            _ => never(me),
        };
    }
    me.inspect(|me| me.calls(open));
    let which = |arm: usize| if arm < FEW { few[arm] } else { many[arm - FEW] };
    let made = if open <= FEW {
        let mut arms = [const { std::mem::MaybeUninit::<Armed<'_>>::uninit() }; FEW];
        for (at, arm_of) in arms.iter_mut().enumerate().take(open) {
            arm_of.write(arm(entry(few[at])));
        }
        // SAFETY: the first `open` were written just now.
        one_of(unsafe { std::slice::from_raw_parts(arms.as_ptr().cast(), open) }, alts, &which, waits)
    } else {
        let arms: Vec<Armed<'_>> = (0..open).map(|at| arm(entry(which(at)))).collect();
        one_of(&arms, alts, &which, waits)
    };
    // What is left of this is to be nothing when the thread goes.
    drop(many);
    match made {
        Made::Chosen(at, waited) => {
            if !waited {
                leaves(me);
            }
            at as c_int
        }
        Made::Nothing => end as c_int,
        Made::Interrupted => {
            me.inspect(|me| me.dies_if_killed());
            -1
        }
    }
}

enum Made {
    /// The entry, and whether it was waited for.
    Chosen(usize, bool),
    Nothing,
    Interrupted,
}

fn one_of(arms: &[Armed<'_>], alts: *mut Alt, which: &dyn Fn(usize) -> usize, waits: bool) -> Made {
    let done = |chosen: SelectedOperation<'_>, waited| {
        let at = which(chosen.index());
        // SAFETY: as in `alt`.
        let alt = unsafe { &mut *alts.add(at) };
        alt.err = if complete(alt, chosen) { std::ptr::null() } else { CLOSED.as_ptr() };
        Made::Chosen(at, waited)
    };
    let left = match glance(arms) {
        Ok(chosen) => return done(chosen, false),
        Err(left) => left,
    };
    if !waits {
        return match choose_rest(arms, Time::Now, left) {
            Ok(chosen) => done(chosen, false),
            Err(SelectError::WouldBlock) => Made::Nothing,
            Err(e) => fatal(format_args!("alt: {e}")),
        };
    }
    current().inspect(|me| me.waits());
    // SAFETY: as in `alt`.
    let channels = || (0..arms.len()).map(|arm| unsafe { (*alts.add(which(arm))).c });
    // Relaxed: as in `while_used`.
    channels().for_each(|c| {
        at(c, "alt").users.fetch_add(2, Ordering::Relaxed);
    });
    let made = match choose_rest(arms, Time::Forever, left) {
        Ok(chosen) => done(chosen, true),
        Err(SelectError::Interrupted) => Made::Interrupted,
        Err(e) => fatal(format_args!("alt: {e}")),
    };
    // The arms are not looked at any more.
    channels().for_each(|c| {
        // AcqRel: as in `while_used`.
        // SAFETY: as there.
        if unsafe { (*c).users.fetch_sub(2, Ordering::AcqRel) } == 2 | 1 {
            free(c);
        }
    });
    made
}

/// There is nothing to wait for: until it is interrupted.
fn never(me: Option<&'static Task>) -> c_int {
    let Some(me) = me.or_else(current) else {
        fatal("alt: there is no operation to wait for, and nobody can interrupt the caller")
    };
    while !me.interrupt.is_asked() {
        thread::park();
    }
    me.dies_if_killed();
    -1
}
