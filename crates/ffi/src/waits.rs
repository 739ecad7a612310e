//! Waits of loops of events for records of tubes, messages of subscriptions, turns of barriers, changes of maps, and the first of several things: see chappe_dispatch(3).
//!
//! A wait has the end of a named tube for itself, from the call that begins it until it is over, which may be before its callback, or cancelled: until then other calls with
//! the handle, and its close, answer -EBUSY. Several waits have an end each (`chappe_receiver_another`). In a child that is forked meanwhile the end
//! stays the parent's: there the handle answers -EBUSY for good. An end of a private tube may be used, and closed, meanwhile.
//!
//! What a tube has is kept for nobody: a wait is woken, tries, and waits again in its old place if another receiver or sender was faster. A wait that is
//! cancelled has sent, or received, nothing. Once it has, also if it was met a moment ago at a tube without slots, it is called back: `chappe_async_cancel`
//! answers -ESRCH then. What is there at once is taken by the call that begins the wait: if the process ends before the callback, by a kill or by exit(3),
//! such a record is gone, as one that a thread received.

use crate::barrier::{Boxed, chappe_barrier, chappe_turn, told};
use crate::choice::{CHAPPE_BIASED, chappe_arm};
use crate::choosing::chooses;
use crate::dispatch::{Asked, Memory, begin, begin_for_good, chappe_done, may_begin};
use crate::failure::{Failure, answer};
use crate::handle;
use crate::input;
use crate::map::{CHAPPE_MAP_YES, Held, chappe_map};
use crate::receiver::{ReceivingEnd, chappe_receiver};
use crate::sender::{SendingEnd, chappe_sender};
use crate::subscription::{Hearing, chappe_subscription};
use chappe::task::choice::choose;
use chappe::{BarrierError, MapError, SelectError};
use std::ffi::{c_int, c_void};
use std::future::pending;

/// As `chappe_send`, without waiting: begins a wait, and answers its number, above 0. The record is copied by this call. `call` is called by `chappe_dispatch` with
/// 0 when it was sent.
///
/// Errors: -EMSGSIZE if it is too long, or not of the tube's size; -EBUSY if a wait has the sender, or a slot is reserved at it; -EBADF, -EFAULT; -ENOMEM; the
/// system's, if it has no descriptor left. The callback gets what `chappe_send` answers; -EUSERS only if no other wait of this process has a place at this
/// end.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_send_async(
    sender: *mut chappe_sender,
    record: *const c_void,
    size: usize,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let end: &'static SendingEnd = handle::get(sender)?;
        let asked = Asked::default();
        let wait = end.send_as_task(input::bytes(record, size)?, asked.clone())?;
        begin_for_good(call, data, end.is_private().then_some(asked), wait, |()| Ok(0))
    })
}

/// As `chappe_recv`, without waiting: begins a wait, and answers its number, above 0. `call` is called by `chappe_dispatch` with the length of the record, which
/// was copied to `to`; this, and `again`, must be there until then.
///
/// Errors: -EMSGSIZE if there is too little room; -EBUSY if a wait has the receiver, or a record is borrowed at it; -EBADF, -EFAULT; the system's, if it has no
/// descriptor left. The callback gets what `chappe_recv` answers; -EUSERS only if no other wait of this process has a place at this end.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_recv_async(
    receiver: *mut chappe_receiver,
    to: *mut c_void,
    room: usize,
    again: *mut bool,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let end: &'static ReceivingEnd = handle::get(receiver)?;
        input::buffer(to, room)?;
        input::place_if(again)?;
        end.check(room)?;
        let (to, mark) = (Memory::new(to), Memory::new(again));
        let finish = move |(record, again): (Vec<u8>, bool)| {
            input::buffer(to.get(), record.len())?.copy_from_slice(&record);
            if let Some(mark) = input::place_if(mark.get())? {
                mark.write(again);
            }
            Ok(record.len() as c_int)
        };
        begin_for_good(call, data, None, end.recv_as_task()?, finish)
    })
}

/// As `chappe_subscription_recv`, without waiting: as `chappe_recv_async`, of a subscription. Until the callback each other call with the handle, and its close,
/// answers -EBUSY.
///
/// Errors: -EMSGSIZE if there is too little room; -EBUSY if a wait has the subscription; -EBADF, -EFAULT; the system's, if it has no descriptor left. The
/// callback gets what `chappe_subscription_recv` answers.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_subscription_recv_async(
    subscription: *mut chappe_subscription,
    to: *mut c_void,
    room: usize,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let end: &'static Hearing = handle::get(subscription)?;
        input::buffer(to, room)?;
        end.check(room)?;
        may_begin(call)?;
        let to = Memory::new(to);
        let finish = move |message: Vec<u8>| {
            input::buffer(to.get(), message.len())?.copy_from_slice(&message);
            Ok(message.len() as c_int)
        };
        let mut end = end.lend()?;
        begin_for_good(call, data, None, async move { end.recv_async().await }, finish)
    })
}

/// As `chappe_barrier_wait_once`, without waiting: arrives for the process, begins a wait for the turn, and answers its number, above 0. `call` is called by
/// `chappe_dispatch` when the round has turned, with 0 or CHAPPE_PARTY_DIED; the turn is at `turn` then, unless that is NULL: it must be there until then. A
/// wait that is cancelled takes its arrival back; -ESRCH says that the round has turned: it is called back.
///
/// Errors: -EBADF, -EFAULT; the system's, if it has no descriptor left. The callback gets what `chappe_barrier_wait` answers.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_barrier_wait_async(
    barrier: *mut chappe_barrier,
    turn: *mut chappe_turn,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let barrier = handle::get::<Boxed>(barrier)?.clone();
        input::place_if(turn)?;
        let (turn, asked) = (Memory::new(turn), Asked::default());
        let ends = asked.clone();
        let wait = async move {
            let mut arrival = barrier.arrive_owned()?;
            let turned = ends.or(choose((arrival.__task_turn(), ()), true, None)).await.map(|turned| turned.map(drop));
            match turned {
                Some(Err(e)) if arrival.take_back() => Err(Unturned::Refused(e)),
                // It is not polled again.
                None if arrival.take_back() => pending().await,
                // If it could not wait, the round has turned meanwhile, and the others have gone on with it.
                _ => Ok(arrival.conclude()),
            }
        };
        begin_for_good(call, data, Some(asked), wait, move |turned| told(turned, turn.get()))
    })
}

/// As `chappe_select`, without waiting: begins a wait, and answers its number, above 0. `call` is called by `chappe_dispatch` with the index of the arm that
/// happened; `result` and `again` of that arm are written then, its permit is the process's, and its record has come. The array, and what its arms point to, must
/// be there, and stay as they are, until then; a record that is to be sent is copied by this call. `flags`: 0 or CHAPPE_BIASED.
///
/// Arms are as of `chappe_select`, but none that borrows, locks or waits for a thread's arrival. An end of a named tube, and a subscription, the wait
/// has for itself; a descriptor stays open. A wait that is cancelled has done nothing; once an arm has happened, it is called back (-ESRCH).
///
/// Errors: -EOPNOTSUPP for another arm, and for one that sends through a private tube without slots; -EBUSY if a wait has an end already, also this one by another arm;
/// else those of `chappe_select` of which that says that nothing has happened; -EFAULT if `call` is NULL; the system's, if it has no descriptor left. The callback gets
/// -EXDEV, -EUSERS and the system's.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_select_async(
    arms: *mut chappe_arm,
    n: usize,
    flags: u32,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        input::flags(flags, CHAPPE_BIASED)?;
        may_begin(call)?;
        let wait = chooses(input::array(arms.cast_const(), n)?, flags & CHAPPE_BIASED != 0)?;
        let arms = Memory::new(arms);
        begin_for_good(call, data, None, wait, move |came| came.tell(arms.get(), n))
    })
}

/// Why a wait for a turn could not be made.
enum Unturned {
    Not(BarrierError),
    Refused(SelectError),
}

impl From<BarrierError> for Unturned {
    fn from(e: BarrierError) -> Unturned {
        Unturned::Not(e)
    }
}

impl From<Unturned> for Failure {
    fn from(why: Unturned) -> Failure {
        match why {
            Unturned::Not(e) => e.into(),
            Unturned::Refused(e) => e.into(),
        }
    }
}

/// As `chappe_map_wait`, without waiting: begins a wait, and answers its number, above 0. Key and value are copied by this call. `call` is called by
/// `chappe_dispatch` with `CHAPPE_MAP_YES` when the value of the key is another than `seen` (NULL: is there); what it has then is to be looked up.
///
/// Errors: -EBADF, -EFAULT; the system's, if it has no descriptor left. The callback gets what `chappe_map_wait` answers.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_map_wait_async(
    map: *const chappe_map,
    key: *const c_void,
    key_size: usize,
    seen: *const c_void,
    seen_size: usize,
    call: chappe_done,
    data: *mut c_void,
) -> i64 {
    answer(|| {
        let (map, key) = ((*handle::get::<Held>(map)?.0).clone(), input::bytes(key, key_size)?.to_vec());
        let seen = if seen.is_null() { None } else { Some(input::bytes(seen, seen_size)?.to_vec()) };
        let wait = async move {
            let mut watch = map.watch(Some(&*key));
            loop {
                watch.changes()?;
                if map.get(&*key)? != seen {
                    return Ok::<_, MapError>(CHAPPE_MAP_YES);
                }
                watch.next_async().await?;
            }
        };
        begin(call, data, wait, Ok)
    })
}
