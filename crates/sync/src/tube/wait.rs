//! Waiting at an end of a tube in the wait queue, by who has a seat there.

use super::body::{In, Not, Out, Tube};
use super::meet::{Packet, await_done};
use crate::claim::{Operation, Refused, Taken, Wish, wait_for};
use crate::wait::{Parties, Patience};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::Deref;

/// Sends a message, sleeping until it can be. [`Not::Now`]: the time was up.
pub(crate) fn send_seated<T, P: Deref<Target = Tube<T>>>(
    out: &Out<P>,
    message: T,
    who: &Parties,
    deadline: Option<u64>,
    patience: &Patience<'_>,
) -> Result<(), (Not, T)> {
    let tube = &*out.0;
    let mut message = message;
    loop {
        let mut last = ManuallyDrop::new(message);
        let packet = tube.has_meetings().then(|| Packet::new((&raw mut last).cast()));
        let taken = wait(out, who, deadline, patience, packet.as_ref());
        if let (Ok(taken), Some(packet)) = (&taken, &packet)
            && taken.word.0 == packet.address()
        {
            // Who met us has it.
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
            Err(_) => return Err((Not::Now, back)),
        }
    }
}

/// Receives a message, sleeping until there is one. [`Not::Now`]: the time was up.
pub(crate) fn recv_seated<T, P: Deref<Target = Tube<T>>>(
    into: &In<P>,
    who: &Parties,
    deadline: Option<u64>,
    patience: &Patience<'_>,
) -> Result<T, Not> {
    let tube = &*into.0;
    let mut message = MaybeUninit::<T>::uninit();
    let packet = tube.has_meetings().then(|| Packet::new(message.as_mut_ptr().cast()));
    let Ok(taken) = wait(into, who, deadline, patience, packet.as_ref()) else { return Err(Not::Now) };
    if let Some(packet) = &packet
        && taken.word.0 == packet.address()
    {
        await_done(packet);
        // SAFETY: who met us has put it there.
        return Ok(unsafe { message.assume_init() });
    }
    tube.recv_taken(taken)
}

fn wait<A: Operation>(
    arm: &A,
    who: &Parties,
    deadline: Option<u64>,
    patience: &Patience<'_>,
    packet: Option<&Packet>,
) -> Result<Taken, Refused> {
    let wish = Wish { packet: packet.map_or(0, Packet::address), ..Wish::to_take(deadline, patience) };
    wait_for(who, &[arm], wish).map(|(_, taken)| taken)
}
