//! Attachments for light threads.
//!
//! An *attachment* is a thread's membership of an arena. A light thread needs one for what it holds and waits for there, as a kernel thread does
//! (except in private tubes). But the life word of an attachment belongs to a kernel thread, which alone can claim and release it, and a light
//! thread may be on another kernel thread after each wait. So kernel threads that do nothing else hold the attachments. A light thread borrows one
//! when it first needs it, and keeps it until it ends. Then everything that it still holds goes back, as when a thread leaves, and the attachment is
//! free for the next.
//!
//! A light thread that dies in the middle of anything (a trap) may have begun a wait, or a change of an object, that its words show half done. No
//! other may go on with them: the kernel thread that holds the attachment gives up its life word, and so the member is dead, as after the death of
//! a kernel thread. All that is recovered of that is recovered here.
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
use chappe_plat::light::{self, End, Record};
use chappe_plat::{process, thread};
use holders::{key, slot};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

/// The most attachments that one kernel thread holds: when a thread dies, the kernel walks at most 2,048 of its robust words.
const HELD: u32 = 1_000;

/// What a kernel thread that holds attachments is asked.
enum Request {
    Join(&'static Map, Sender<Result<Joined, ArenaError>>),
    /// The light thread that had this one has died.
    Die(&'static Map, Joined, Sender<()>),
}

pub struct Attachments {
    incarnation: u64,
    /// By arena: the attachments that no light thread has.
    free: Vec<(usize, Vec<Joined>)>,
    /// The kernel threads that hold them: the last one takes more.
    holders: Vec<Sender<Request>>,
    /// By arena and member: which of these holds the attachment.
    by: Vec<(usize, u32, usize)>,
    /// How many the last one holds.
    held: u32,
}

impl Attachments {
    const fn none(incarnation: u64) -> Attachments {
        Attachments { incarnation, free: Vec::new(), holders: Vec::new(), by: Vec::new(), held: 0 }
    }
}

/// Those that this process has to lend.
pub static ATTACHMENTS: Mutex<Attachments> = Mutex::new(Attachments::none(0));

/// An attachment for the calling light thread.
pub fn borrow(map: &'static Map, me: &'static Record) -> Result<Joined, ArenaError> {
    let joined = take(map)?;
    // Release: before the thread waits.
    slot(map, joined.index).store(std::ptr::from_ref(me) as u64, Ordering::Release);
    Ok(joined)
}

/// An attachment that no light thread borrows: a bell's, for as long as the process lives.
pub fn take(map: &'static Map) -> Result<Joined, ArenaError> {
    let mut attachments = light::lock(&ATTACHMENTS);
    let now = process::incarnation();
    if attachments.incarnation != now {
        holders::begin_anew(now);
        *attachments = Attachments::none(now);
    }
    if let Some((_, free)) = attachments.free.iter_mut().find(|(of, _)| *of == key(map))
        && let Some(joined) = free.pop()
    {
        return Ok(joined);
    }
    if attachments.held >= HELD || attachments.holders.is_empty() {
        let (requests, come) = channel::<Request>();
        let hold = move || {
            for request in come {
                match request {
                    Request::Join(map, answer) => {
                        let _ = answer.send(map.join_without_exec(MemberKind::Thread, &crate::label::label()));
                    }
                    Request::Die(map, joined, answer) => {
                        map.die(joined);
                        let _ = answer.send(());
                    }
                }
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
        attachments.holders.push(requests);
        attachments.held = 0;
    }
    let (answer, answered) = channel();
    let gone = || ArenaError::Removed { name: map.name().into() };
    let by = attachments.holders.len() - 1;
    attachments.holders[by].send(Request::Join(map, answer)).map_err(|_| gone())?;
    let joined = answered.recv().map_err(|_| gone())?;
    if let Ok(joined) = &joined {
        // A refused one counts for nothing: the thread holds no life word for it.
        attachments.held += 1;
        attachments.by.push((key(map), joined.index, by));
    }
    joined
}

/// The light thread that had this attachment has died: its member dies, too, and what it had goes back.
#[cold]
fn bury(map: &'static Map, joined: Joined) {
    let its = |(of, member, _): &(usize, u32, usize)| (*of, *member) == (key(map), joined.index);
    let (answer, answered) = channel();
    {
        let mut attachments = light::lock(&ATTACHMENTS);
        let Some(at) = attachments.by.iter().position(its) else { return };
        let (.., by) = attachments.by.swap_remove(at);
        if attachments.holders[by].send(Request::Die(map, joined, answer)).is_err() {
            return;
        }
    }
    if answered.recv().is_ok() {
        map.recover_dead();
    }
}

/// A light thread ends: what it still holds there goes back, and the attachment becomes free.
pub fn give_back(map: &'static Map, joined: Joined, how: End) {
    let (member, generation) = (joined.index, joined.generation);
    if how == End::Dies {
        slot(map, member).store(0, Ordering::Release); // Release: as below.
        return bury(map, joined);
    }
    let mut me = map.visitor_in(member);
    kinds::abandon(map, Dead { member, generation }, &mut me);
    if owns(map, member, generation) {
        recover(map, member, generation, &mut me);
    }
    drop(me);
    slot(map, member).store(0, Ordering::Release); // Release: it no longer waits.
    let mut attachments = light::lock(&ATTACHMENTS);
    if attachments.incarnation != process::incarnation() {
        return;
    }
    match attachments.free.iter_mut().find(|(of, _)| *of == key(map)) {
        Some((_, free)) => free.push(joined),
        None => attachments.free.push((key(map), vec![joined])),
    }
}
