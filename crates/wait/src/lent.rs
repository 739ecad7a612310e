//! Attachments for light threads.
//!
//! An *attachment* is a thread's membership of an arena. A light thread needs one for what it holds and waits for there, as a kernel thread does
//! (except in private tubes). But the life word of an attachment belongs to a kernel thread, which alone can claim and release it, and a light
//! thread may be on another kernel thread after each wait. So kernel threads that do nothing else hold the attachments. A light thread borrows one
//! when it first needs it, and keeps it until it ends. Then everything that it still holds goes back, as when a thread leaves, and the attachment is
//! free for the next.
//!
//! So in each arena as many light threads of a process can hold or wait for something at once as there are attachments left: some 4,000 in
//! the private arena and in a named one that was made with the usual number of members, less those in use. The next one is refused ([`ArenaError::MembersFull`]).
//!
//! A granter in the same process wakes the light thread itself: [`holders`] tells which it is. Another process rings a bell: see `bell`.

pub mod holders;

use crate::kinds;
use crate::recover::{owns, recover};
use chappe_arena::{ArenaError, Dead, Joined, Map, MemberKind};
use chappe_plat::atomic::Ordering;
use chappe_plat::light::{End, Record};
use chappe_plat::{process, thread};
use holders::{key, slot};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

/// The most attachments that one kernel thread holds: when a thread dies, the kernel walks at most 2,048 of its robust words.
const HELD: u32 = 1_000;

type Request = (&'static Map, Sender<Result<Joined, ArenaError>>);

struct Attachments {
    incarnation: u64,
    /// By arena: the attachments that no light thread has.
    free: Vec<(usize, Vec<Joined>)>,
    holder: Option<Sender<Request>>,
    held: u32,
}

static ATTACHMENTS: Mutex<Attachments> =
    Mutex::new(Attachments { incarnation: 0, free: Vec::new(), holder: None, held: 0 });

/// An attachment for the calling light thread.
pub fn borrow(map: &'static Map, me: &'static Record) -> Result<Joined, ArenaError> {
    let joined = take(map)?;
    // Release: before the thread waits.
    slot(map, joined.index).store(std::ptr::from_ref(me) as u64, Ordering::Release);
    Ok(joined)
}

/// An attachment that no light thread borrows: a bell's, for as long as the process lives.
pub fn take(map: &'static Map) -> Result<Joined, ArenaError> {
    let mut attachments = ATTACHMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let now = process::incarnation();
    if attachments.incarnation != now {
        holders::begin_anew(now);
        *attachments = Attachments { incarnation: now, free: Vec::new(), holder: None, held: 0 };
    }
    if let Some((_, free)) = attachments.free.iter_mut().find(|(of, _)| *of == key(map))
        && let Some(joined) = free.pop()
    {
        return Ok(joined);
    }
    if attachments.held >= HELD || attachments.holder.is_none() {
        let (requests, come) = channel::<Request>();
        let hold = move || {
            for (map, answer) in come {
                let _ = answer.send(map.join(MemberKind::Thread, &crate::label::label()));
            }
            // Its attachments are lent for as long as the process lives.
            loop {
                std::thread::park();
            }
        };
        thread::background("chappe-attachments", hold).map_err(|source| ArenaError::Io {
            what: "cannot start the thread that holds the attachments of light threads".into(),
            source,
        })?;
        (attachments.holder, attachments.held) = (Some(requests), 0);
    }
    let (answer, answered) = channel();
    let gone = || ArenaError::Removed { name: map.name().into() };
    attachments.holder.as_ref().expect("just made").send((map, answer)).map_err(|_| gone())?;
    let joined = answered.recv().map_err(|_| gone())?;
    // A refused one counts for nothing: the thread holds no life word for it.
    attachments.held += u32::from(joined.is_ok());
    joined
}

/// A light thread ends: what it still holds there goes back, and the attachment becomes free.
pub fn give_back(map: &'static Map, joined: Joined, how: End) {
    let (member, generation) = (joined.index, joined.generation);
    let mut me = map.visitor_in(member);
    if how == End::Leaves {
        kinds::abandon(map, Dead { member, generation }, &mut me);
    }
    if owns(map, member, generation) {
        recover(map, member, generation, &mut me);
    }
    slot(map, joined.index).store(0, Ordering::Release); // Release: it no longer waits.
    let mut attachments = ATTACHMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if attachments.incarnation != process::incarnation() {
        return;
    }
    match attachments.free.iter_mut().find(|(of, _)| *of == key(map)) {
        Some((_, free)) => free.push(joined),
        None => attachments.free.push((key(map), vec![joined])),
    }
}
