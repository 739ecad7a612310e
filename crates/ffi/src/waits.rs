//! Waits of loops of events for records of tubes, and for changes of maps: see chappe_dispatch(3).
//!
//! A wait has the end of a named tube for itself, from the call that begins it until its callback is called or it is cancelled: until then other calls with
//! the handle, and its close, answer -EBUSY. Several waits have an end each (`chappe_receiver_another`). In a child that is forked meanwhile the end
//! stays the parent's: there the handle answers -EBUSY for good. An end of a private tube may be used, and closed, meanwhile.
//!
//! What a tube has is kept for nobody: a wait is woken, tries, and waits again in its old place if another receiver or sender was faster. A wait that is
//! cancelled has sent, or received, nothing. Once it has, also if it was met a moment ago at a tube without slots, it is called back: `chappe_async_cancel`
//! answers -ESRCH then. What is there at once is taken by the call that begins the wait: if the process ends before the callback, by a kill or by exit(3),
//! such a record is gone, as one that a thread received.

use crate::dispatch::{Asked, Memory, begin, begin_for_good, chappe_done};
use crate::failure::answer;
use crate::handle;
use crate::input;
use crate::map::{CHAPPE_MAP_YES, Held, chappe_map};
use crate::receiver::{ReceivingEnd, chappe_receiver};
use crate::sender::{SendingEnd, chappe_sender};
use chappe::MapError;
use std::ffi::{c_int, c_void};

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
