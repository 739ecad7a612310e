//! Tubes of the Nix paper, and `talt`.
//!
//! A `Tube` is a record of this process, of which a forked child has a copy, and a tube of the family's arena. Each
//! user of a tube has both of its ends, as in the paper, which has no closing: a receiver is never told that all
//! senders have gone, since it could send itself. An end belongs to one thread at a time, so each thread has its own
//! ends, until it ends, or uses another tube after this one was freed.

use super::{answered, array, roll, told};
use crate::failure::{Answer, Failure};
use chappe::raw::{self, Time};
use chappe::tube::named::{Receiver, Sender, Tube as Named, TubeOptions};
use chappe::{Arena, ReceivingEnd, SendingEnd};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_ulong, c_void};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// `Tube`.
pub struct Tube {
    seal: AtomicU64,
    /// Which of all that this process ever had, those before a fork among them.
    number: u64,
    size: usize,
    tube: Named<[u8]>,
    /// What keeps this process, and each that it forks, at both ends until it frees the tube, or ends.
    _ends: Mutex<Ends>,
}

const TUBE: u64 = 0x6e69_785f_7475_6265;

/// Both ends, one thread's.
struct Ends {
    out: Sender<[u8]>,
    into: Receiver<[u8]>,
}

struct Known {
    tube: Named<[u8]>,
    ends: Rc<Ends>,
}

thread_local! {
    static ENDS: RefCell<HashMap<u64, Known>> = RefCell::new(HashMap::new());
}

fn attached(tube: &Named<[u8]>) -> Answer<Ends> {
    Ok(Ends { out: tube.sender()?, into: tube.receiver()? })
}

impl Tube {
    /// The one that a caller means.
    fn of<'a>(at: *mut Tube) -> Answer<&'a Tube> {
        if at.is_null() || !at.is_aligned() {
            return Err(Failure::new(libc::EFAULT, c"a tube cannot lie at NULL or at a crooked address"));
        }
        // SAFETY: the caller's promise, that there is memory. Only what `make` has made has the seal.
        let tube = unsafe { &*at };
        // Relaxed: a look.
        if tube.seal.load(Ordering::Relaxed) != TUBE {
            return Err(Failure::new(libc::EINVAL, c"this is no tube: it was freed, or written over"));
        }
        Ok(tube)
    }

    fn make(size: c_ulong, slots: c_ulong) -> Answer<Tube> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let fits = |number: c_ulong| u32::try_from(number).ok().filter(|number| *number > 0);
        let (Some(size), Some(slots)) = (fits(size), fits(slots)) else {
            return Err(Failure::new(
                libc::EINVAL,
                c"a tube has 1 or more messages of 1 or more bytes, and below 4 GiB",
            ));
        };
        let options = TubeOptions { slots, size, ..TubeOptions::default() };
        let tube = Named::unnamed(&Arena::family()?, &options)?;
        let ends = attached(&tube).inspect_err(|_| _ = tube.destroy())?;
        // Relaxed: only to have another one each time.
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        Ok(Tube { seal: AtomicU64::new(TUBE), number, size: size as usize, tube, _ends: Mutex::new(ends) })
    }

    /// This thread's ends. One whose thread-locals are gone, since it ends, has them for this once.
    fn ends(&self) -> Answer<Rc<Ends>> {
        let known = ENDS.try_with(|all| {
            let mut all = all.borrow_mut();
            if let Some(known) = all.get(&self.number) {
                return Ok(Rc::clone(&known.ends));
            }
            all.retain(|_, known| !known.tube.is_dead());
            let ends = Rc::new(attached(&self.tube)?);
            all.insert(self.number, Known { tube: self.tube.clone(), ends: Rc::clone(&ends) });
            Ok(ends)
        });
        known.unwrap_or_else(|_| attached(&self.tube).map(Rc::new))
    }

    /// A message of the caller's that is to be sent.
    fn message<'a>(&self, at: *const c_void) -> Answer<&'a [u8]> {
        if at.is_null() {
            return Err(Failure::new(libc::EFAULT, c"a message cannot lie at NULL"));
        }
        // SAFETY: the caller's promise, that it has as many bytes as the tube's messages.
        Ok(unsafe { std::slice::from_raw_parts(at.cast(), self.size) })
    }

    /// Where the caller wants one that is received.
    fn room<'a>(&self, at: *mut c_void) -> Answer<&'a mut [u8]> {
        self.message(at)?;
        // SAFETY: as above. Bytes that were never written are written before they are looked at.
        Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), self.size) })
    }

    fn send(&self, message: *const c_void, block: bool) -> Answer<()> {
        let (record, ends) = (self.message(message)?, self.ends()?);
        sent(&ends, record, block)
    }

    fn receive(&self, message: *mut c_void, block: bool) -> Answer<()> {
        let (buffer, ends) = (self.room(message)?, self.ends()?);
        received(&ends, buffer, block)
    }
}

fn sent(ends: &Ends, record: &[u8], block: bool) -> Answer<()> {
    if block {
        ends.out.send(record)?
    } else {
        ends.out.try_send(record)?
    }
    Ok(())
}

fn received(ends: &Ends, buffer: &mut [u8], block: bool) -> Answer<()> {
    if block {
        ends.into.recv_into(buffer)?
    } else {
        ends.into.try_recv_into(buffer)?
    };
    Ok(())
}

/// `Talt`.
#[repr(C)]
pub struct Talt {
    tube: *mut Tube,
    message: *mut c_void,
    what: c_int,
}

const SEND: c_int = 0;
const RECEIVE: c_int = 1;
const SEND_NOW: c_int = 2;
const RECEIVE_NOW: c_int = 3;

/// What a talt needs of an arm. Of the tube itself nothing: another thread may free it while this one waits.
struct Arm {
    ends: Rc<Ends>,
    message: *mut c_void,
    size: usize,
}

impl Arm {
    fn of(arm: &Talt) -> Answer<Arm> {
        let tube = Tube::of(arm.tube)?;
        tube.message(arm.message)?;
        if !(SEND..=RECEIVE_NOW).contains(&arm.what) {
            return Err(Failure::new(libc::EINVAL, c"an operation of a talt is TSEND, TRECV, TNBSEND or TNBRECV"));
        }
        Ok(Arm { ends: tube.ends()?, message: arm.message, size: tube.size })
    }

    fn record(&self) -> &[u8] {
        // SAFETY: not NULL, `of` has looked; the caller's promise, that it has as many bytes as the tube's messages.
        unsafe { std::slice::from_raw_parts(self.message.cast(), self.size) }
    }

    #[allow(clippy::mut_from_ref, reason = "the caller's memory: two arms may have the same, of which one is used")]
    fn buffer(&self) -> &mut [u8] {
        // SAFETY: as above; one arm is done at a time. Bytes that were never written are written before they are looked at.
        unsafe { std::slice::from_raw_parts_mut(self.message.cast(), self.size) }
    }
}

fn talt(all: &[Talt]) -> Answer<usize> {
    let mut ours = Vec::with_capacity(all.len());
    for arm in all {
        ours.push(Arm::of(arm)?);
    }
    let first = roll(all.len());
    for at in (0..all.len()).map(|turn| (first + turn) % all.len()) {
        let arm = &ours[at];
        let done = match all[at].what {
            SEND_NOW => sent(&arm.ends, arm.record(), false),
            RECEIVE_NOW => received(&arm.ends, arm.buffer(), false),
            _ => continue,
        };
        match done {
            Ok(()) => return Ok(at),
            Err(e) if e.errno() == libc::EAGAIN => {}
            Err(e) => return Err(e),
        }
    }
    let mut arms = Vec::with_capacity(all.len());
    let mut numbers = Vec::with_capacity(all.len());
    for (at, arm) in all.iter().enumerate() {
        arms.push(match arm.what {
            SEND => ours[at].ends.out.__arm(),
            RECEIVE => ours[at].ends.into.__arm(),
            _ => continue,
        });
        numbers.push(at);
    }
    if numbers.is_empty() {
        return Err(Failure::new(libc::EAGAIN, c"none of the operations can be done now"));
    }
    let chosen = raw::choose(&arms, false, Time::Forever)?;
    let at = numbers[chosen.index()];
    let arm = &ours[at];
    if all[at].what == SEND {
        raw::send_chosen(chosen, &arm.ends.out, arm.record())?;
    } else {
        raw::recv_chosen(chosen, &arm.ends.into, arm.buffer())?;
    }
    Ok(at)
}

/// What `newtube` is.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nix_newtube(msz: c_ulong, n: c_ulong) -> *mut Tube {
    let mut made = std::ptr::null_mut();
    told(|| {
        made = Box::into_raw(Box::new(Tube::make(msz, n)?));
        Ok(())
    });
    made
}

/// What `freetube` is.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nix_freetube(t: *mut Tube) {
    told(|| {
        let tube = Tube::of(t)?;
        // Another process may have been first.
        tube.tube.destroy();
        tube.seal.store(0, Ordering::Relaxed); // Relaxed: so that a second call is seen, as long as nobody has the memory.
        let _ = ENDS.try_with(|all| all.borrow_mut().remove(&tube.number));
        // SAFETY: it was made by `newtube`, and is nobody's any more: the caller's promise.
        drop(unsafe { Box::from_raw(t) });
        Ok(())
    });
}

/// What `tsend` and `nbtsend` are.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nix_tsend(t: *mut Tube, m: *const c_void, block: c_int) -> c_int {
    answered(-1, || Tube::of(t)?.send(m, block != 0).map(|()| 0))
}

/// What `trecv` and `nbtrecv` are.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nix_trecv(t: *mut Tube, m: *mut c_void, block: c_int) -> c_int {
    answered(-1, || Tube::of(t)?.receive(m, block != 0).map(|()| 0))
}

/// What `talt` is.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_nix_talt(a: *mut Talt, n: c_int) -> c_int {
    answered(-1, || Ok(talt(array(a, n)?)? as c_int))
}
