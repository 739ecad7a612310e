//! Waiting at an end of a tube: a kernel thread in the wait queue, by its attachment; a light thread in the end's list.

use crate::body::arms::{In, Out};
use crate::body::{Not, Tube};
use crate::rendezvous::await_done;
use chappe_plat::light::{self, Record};
use chappe_wait::claim::wait_for;
use chappe_wait::handoff::Handoff;
use chappe_wait::lights::waits::{Hope, wait_with};
use chappe_wait::operation::{Arm, Mode, Refused, Taken, WaitSpec};
use chappe_wait::wait::{Parties, Patience};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;

/// Sends a message, sleeping until it can be sent. [`Not::Now`]: the time was up.
pub fn send_attached<T, P: Deref<Target = Tube<T>>>(
    out: &Out<P>,
    message: T,
    who: Waiter<'_>,
    deadline: Option<u64>,
) -> Result<(), (Not, T)> {
    let tube = &*out.0;
    let mut message = message;
    loop {
        let mut last = ManuallyDrop::new(message);
        let packet = tube.has_meetings().then(|| Handoff::new((&raw mut last).cast()));
        let taken = wait(out, who, deadline, packet.as_ref());
        if let (Ok(taken), Some(packet)) = (&taken, &packet)
            && taken.word.0 == packet.address()
        {
            // The thread that met us has it.
            await_done(packet);
            return Ok(());
        }
        let back = ManuallyDrop::into_inner(last);
        match taken {
            Ok(taken) => match tube.send_taken(taken, back) {
                // Its slot was passed over, and there is no other now.
                Err((Not::Now, back)) => message = back,
                other => return other,
            },
            Err(_) => {
                light::come_by();
                return Err((Not::Now, back));
            }
        }
    }
}

/// Receives a message, sleeping until there is one. [`Not::Now`]: the time was up.
pub fn recv_attached<T, P: Deref<Target = Tube<T>>>(
    into: &In<P>,
    who: Waiter<'_>,
    deadline: Option<u64>,
) -> Result<T, Not> {
    let tube = &*into.0;
    let mut message = MaybeUninit::<T>::uninit();
    let packet = tube.has_meetings().then(|| Handoff::new(message.as_mut_ptr().cast()));
    let Ok(taken) = wait(into, who, deadline, packet.as_ref()) else {
        light::come_by();
        return Err(Not::Now);
    };
    if let Some(packet) = &packet
        && taken.word.0 == packet.address()
    {
        await_done(packet);
        // SAFETY: the thread that met us has put it there.
        return Ok(unsafe { message.assume_init() });
    }
    tube.recv_taken(taken)
}

/// The thread that waits at an end.
#[derive(Clone, Copy)]
pub enum Waiter<'a> {
    /// A kernel thread, by its attachments.
    Attached(&'a Parties, &'a Patience<'a>),
    /// A light thread.
    Light(&'static Record),
}

#[inline(always)]
fn wait<A: Arm>(arm: &A, who: Waiter<'_>, deadline: Option<u64>, packet: Option<&Handoff>) -> Result<Taken, Refused> {
    let packet = packet.map_or(0, Handoff::address);
    match who {
        Waiter::Attached(who, patience) => {
            let wish = WaitSpec { packet, ..WaitSpec::to_take(deadline, patience) };
            wait_for(who, &[arm], wish).map(|(_, taken)| taken)
        }
        Waiter::Light(me) => {
            // The errors are crossbeam's: the wait cannot be interrupted.
            let hope = Hope { aim: Mode::Take, first: 0, deadline, packet, by: None, front: false };
            wait_with(me, &[arm], hope, &mut [MaybeUninit::uninit()]).map(|(_, taken)| taken)
        }
    }
}
