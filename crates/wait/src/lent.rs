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
//! Of those that no light thread has, and of those that no task has, a process keeps a sixteenth of an arena's attachments at most ([`spare`]); the others
//! are the arena's again.
//!
//! A granter wakes a light thread that waits for a private object itself: [`holders`] tells which it is. At a named object every granter rings a bell, also
//! one in the same process: see `bell`.

pub mod holders;

use crate::kinds;
use crate::recover::{owns, recover};
use chappe_arena::{ArenaError, Dead, Joined, Map, MemberKind};
use chappe_plat::atomic::Ordering;
use chappe_plat::later::{Acts, Busy};
use chappe_plat::light::{self, End, Record};
use chappe_plat::{process, thread};
use holders::{key, slot};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

/// The most attachments that one kernel thread holds: when a thread dies, the kernel walks at most 2,048 of its robust words.
const HELD: u32 = 1_000;

/// What a kernel thread that holds attachments is asked.
enum Request {
    Join(&'static Map, Sender<(Result<Joined, ArenaError>, Acts)>),
    /// The light thread that had this one has died.
    Die(&'static Map, Joined, Sender<Acts>),
    /// It is not to be lent any more, and has nothing.
    Leave(&'static Map, Joined, Sender<Acts>),
}

pub struct Attachments {
    incarnation: u64,
    /// By arena: the attachments that no light thread has.
    free: Vec<(usize, Vec<Joined>)>,
    /// The kernel threads that hold them, and how many each holds.
    holders: Vec<(Sender<Request>, u32)>,
    /// By arena and member: which of these holds the attachment.
    by: Vec<(usize, u32, usize)>,
}

impl Attachments {
    const fn none(incarnation: u64) -> Attachments {
        Attachments { incarnation, free: Vec::new(), holders: Vec::new(), by: Vec::new() }
    }

    /// Asks the kernel thread that holds an attachment to give it up.
    fn give_up(&mut self, map: &Map, joined: &Joined, request: Request) -> bool {
        let its = |(of, member, _): &(usize, u32, usize)| (*of, *member) == (key(map), joined.index);
        let Some(at) = self.by.iter().position(its) else { return false };
        let (.., by) = self.by.swap_remove(at);
        let (requests, held) = &mut self.holders[by];
        *held -= 1;
        requests.send(request).is_ok()
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
    // Wakers that are due meanwhile are called when the lock is released.
    let _busy = Busy::begin();
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
    let by = attachments.holders.iter().position(|(_, held)| *held < HELD).unwrap_or(attachments.holders.len());
    if by == attachments.holders.len() {
        let (requests, come) = channel::<Request>();
        let hold = move || {
            for request in come {
                // Somebody waits for the answer, with locks perhaps: wakers that are due are called there, by then without any.
                let busy = Busy::begin();
                match request {
                    Request::Join(map, answer) => {
                        let joined = map.join_without_exec(MemberKind::Thread, &crate::label::label());
                        let _ = answer.send((joined, busy.hand_over()));
                    }
                    Request::Die(map, joined, answer) => {
                        map.die(joined);
                        let _ = answer.send(busy.hand_over());
                    }
                    Request::Leave(map, joined, answer) => {
                        map.leave(joined);
                        let _ = answer.send(busy.hand_over());
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
        attachments.holders.push((requests, 0));
    }
    let (answer, answered) = channel();
    let gone = || ArenaError::Removed { name: map.name().into() };
    attachments.holders[by].0.send(Request::Join(map, answer)).map_err(|_| gone())?;
    let (joined, acts) = answered.recv().map_err(|_| gone())?;
    acts.run();
    if let Ok(joined) = &joined {
        // A refused one counts for nothing: the thread holds no life word for it.
        attachments.holders[by].1 += 1;
        attachments.by.push((key(map), joined.index, by));
    }
    joined
}

/// The light thread that had this attachment has died: its member dies, too, and what it had goes back.
#[cold]
fn bury(map: &'static Map, joined: Joined) {
    let (answer, answered) = channel();
    let asked = light::lock(&ATTACHMENTS).give_up(map, &joined, Request::Die(map, joined, answer));
    if asked && let Ok(acts) = answered.recv() {
        acts.run();
        map.recover_dead();
    }
}

/// How many attachments in an arena a process keeps, of each kind, while it does not use them. More would be missing to others: to other processes, or
/// to threads of this one.
pub fn spare(map: &Map) -> usize {
    map.geometry().members.div_ceil(16) as usize
}

/// A light thread ends, or a task's seat is not needed: what it still holds there goes back, and the attachment becomes free, or, where enough are,
/// the arena's.
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
        Some((_, free)) if free.len() < spare(map) => free.push(joined),
        None => attachments.free.push((key(map), vec![joined])),
        Some(_) => {
            let (answer, answered) = channel();
            let asked = attachments.give_up(map, &joined, Request::Leave(map, joined, answer));
            drop(attachments);
            if asked && let Ok(acts) = answered.recv() {
                acts.run();
            }
        }
    }
}
