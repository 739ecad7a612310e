//! Attachments: an *attachment* is the calling thread's membership of an arena, its member slot there. The whole process has one, too (the
//! process_member).
//!
//! A thread joins an arena when it first needs to own something there, and leaves when it ends. What a fork
//! leaves in the child is recognised by the incarnation (a page that the kernel wipes): the child's threads
//! join as new members, and the parent's guards do nothing there.

use crate::body::Body;
use crate::holds::EVERY;
use crate::holds::Holds;
use crate::label::label;
use crate::lent;
use crate::object_id::meet;
use crate::owner;
use crate::private;
use crate::spin::Looks;
use crate::wait::Party;
use chappe_arena::{ArenaError, Dead, Joined, Map, MemberKind, Place, Watch};
use chappe_plat::later::{Acts, Busy};
use chappe_plat::light::{self, End};
use chappe_plat::{ROBUST, process, thread, tls};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, Weak};
use std::thread::AccessError;

/// A process member: of which process, in which mapping.
type ProcessMember = (u64, usize, Joined);

pub static WATCH: Watch = Watch::new();
pub static PROCESS_MEMBERS: Mutex<Vec<ProcessMember>> = Mutex::new(Vec::new());

/// One thread's membership of one arena.
pub struct ThreadAttachment {
    /// The arena.
    pub map: &'static Map,
    /// The member slot.
    pub joined: Joined,
    /// Which process it belongs to.
    pub incarnation: u64,
    /// The thread that joined.
    tid: u32,
    /// How many turns a wait spins before it sleeps: adapts.
    pub spin: Cell<u32>,
    /// Whether looking again before sleeping on a tube has paid.
    pub looks: Cell<Looks>,
    /// Where the thread notes that it is inside a lock which is biased to it.
    pub holds: Holds,
    /// What distinguishes a lock that is biased to the thread from a free one; 0 if none can be biased to it.
    pub addition: u64,
    /// What its guards of mutexes remember.
    pub kept: u64,
    /// How many locks the thread will take without a bias before one is considered for a bias.
    taken: Cell<u32>,
    /// Whether the reaper is known to watch this arena.
    watched: Cell<bool>,
    /// Whether it is lent to a light thread.
    lent: bool,
}

impl ThreadAttachment {
    /// The thread has taken a lock. True, every so many times: this lock is to be considered for a bias.
    #[inline(always)]
    pub fn is_sample(&self) -> bool {
        let left = self.taken.get().wrapping_sub(1);
        self.taken.set(if left == 0 { EVERY } else { left });
        left == 0
    }

    /// Whether the next lock that the thread takes without a bias will be considered for one.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.taken.get() == 1
    }

    fn owns(&self) -> bool {
        crate::recover::owns(self.map, self.joined.index, self.joined.generation)
    }

    /// Leaves the arena, unless this is a forked child's copy of its parent's attachment. Always answers false: keep the attachment no longer.
    fn leave(&self) -> bool {
        self.leave_at_end(false, End::Leaves);
        false
    }

    /// The same; `within`: the thread has leaked the guard of a section, and the kernel still has the lock in the thread's list. So it leaves its
    /// slot, and with that its bit, to recovery, which comes after that.
    fn leave_at_end(&self, within: bool, how: End) {
        if self.lent {
            lent::give_back(self.map, self.joined, how);
        } else if self.incarnation == process::incarnation() {
            let Joined { index: member, generation, .. } = self.joined;
            crate::kinds::abandon(self.map, Dead { member, generation }, &mut self.map.visitor_in(member));
            if !within {
                self.map.leave(self.joined);
            }
        }
    }
}

/// What distinguishes this process from its ancestors.
#[inline(always)]
pub fn here() -> u32 {
    process::incarnation() as u32
}

#[inline(always)]
pub fn party(attachment: &ThreadAttachment) -> Party {
    Party {
        map: attachment.map,
        member: attachment.joined.index,
        generation: attachment.joined.generation,
        holds: attachment.holds,
    }
}

/// A thread's, light or not.
struct Attachments {
    all: RefCell<Vec<Rc<ThreadAttachment>>>,
    /// The priority of its waits.
    priority: Cell<u8>,
    /// I4 of the body: inside of how many sections of bodies, or changes that call the user's function, the thread is.
    within: Cell<u32>,
    /// I4 of the body: where it has a bit.
    entered: RefCell<Vec<Entered>>,
    /// How the thread ends.
    ends: Cell<End>,
    /// Goes with the thread: see [`ThreadMark`].
    alive: OnceCell<Arc<()>>,
}

/// A body at which a thread has a bit.
struct Entered {
    map: &'static Map,
    place: Place,
    member: u32,
    generation: u32,
    incarnation: u64,
}

impl Entered {
    /// What the thread has leaked there goes, and then the bit. Not in a forked child: there they are the parent's.
    fn leave(&self) {
        if self.incarnation == process::incarnation() {
            let leaver = Dead { member: self.member, generation: self.generation };
            crate::kinds::abandon_one(self.map, self.place, leaver, &mut self.map.visitor_in(self.member));
            crate::body::clear(self.map, self.place, self.member, &mut self.map.visitor_in(self.member));
        }
    }
}

impl Attachments {
    const fn new() -> Attachments {
        Attachments {
            all: RefCell::new(Vec::new()),
            priority: Cell::new(0),
            within: Cell::new(0),
            entered: RefCell::new(Vec::new()),
            ends: Cell::new(End::Leaves),
            alive: OnceCell::new(),
        }
    }
}

impl Drop for Attachments {
    fn drop(&mut self) {
        set_last(std::ptr::null());
        // The first thread's locals go when the process calls exit, in the middle of any operation. What it has then is left to
        // recovery, as at any death of a process.
        let exits = || process::tid() == process::pid();
        let within = self.within.get() > 0;
        let entered = self.entered.take();
        let busy = Busy::begin();
        for attachment in self.all.get_mut() {
            if attachment.lent || !(exits() && attachment.owns()) {
                // The next light thread that has this member is in the middle of nothing. One that dies leaves all to recovery, with its member.
                let leaves = attachment.lent && !within && self.ends.get() == End::Leaves;
                let its = |e: &&Entered| leaves && std::ptr::eq(e.map, attachment.map);
                entered.iter().filter(its).for_each(Entered::leave);
                attachment.leave_at_end(within, self.ends.get());
            }
        }
        elsewhere(busy.hand_over());
    }
}

/// Has another thread do it: this one ends, and can become no member any more.
fn elsewhere(acts: Acts) {
    if acts.is_empty() {
        return;
    }
    let acts = Arc::new(Mutex::new(Some(acts)));
    let run = |acts: &Mutex<Option<Acts>>| {
        let acts = light::lock(acts).take();
        acts.into_iter().for_each(Acts::run);
    };
    let its = acts.clone();
    if thread::background("chappe-wakes", move || run(&its)).is_err() {
        run(&acts);
    }
}

thread_local! {
    static ATTACHMENTS: Attachments = const { Attachments::new() };
}

/// Does something with the calling thread's attachments: a light thread has its own.
fn with_attachments<R>(then: impl FnOnce(&Attachments) -> R) -> Result<R, AccessError> {
    let Some(me) = light::current() else { return ATTACHMENTS.try_with(then) };
    if me.kept.get().is_null() {
        let attachments = Box::into_raw(Box::new(Attachments::new()));
        light::keep_until_end(me, attachments.cast(), |attachments, how| {
            // SAFETY: made above, and used by no other thread.
            let attachments = unsafe { Box::from_raw(attachments.cast::<Attachments>()) };
            attachments.ends.set(how);
        });
    }
    // SAFETY: made above; the thread is the only one that uses it, and lives.
    Ok(then(unsafe { &*me.kept.get().cast::<Attachments>() }))
}

/// The calling thread's priority. 0 for a thread that is ending.
#[inline]
pub fn priority() -> u8 {
    with_attachments(|attachments| attachments.priority.get()).unwrap_or(0)
}

/// Sets it, and answers what it was.
pub fn replace_priority(priority: u8) -> u8 {
    with_attachments(|attachments| attachments.priority.replace(priority)).unwrap_or(0)
}

/// I4 of the body: the calling thread is inside of something in a body that is not over with the call that began it, or that calls the user's
/// function. Until this is dropped, or [`leave_within`] is called.
pub struct Within(());

impl Within {
    pub fn begin() -> Within {
        enter_within();
        Within(())
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        leave_within();
    }
}

/// Which thread, light or not, has something that no other may use. To ask makes nobody a member of an arena.
pub struct ThreadMark(Weak<()>);

impl ThreadMark {
    /// The calling thread.
    pub fn here() -> ThreadMark {
        ThreadMark(with_attachments(|s| Arc::downgrade(s.alive.get_or_init(Arc::default))).unwrap_or_default())
    }

    /// Whether it is the calling thread; in a forked child, whether that is its copy.
    pub fn is_here(&self) -> bool {
        let is_it = |alive: &Arc<()>| std::ptr::eq(Arc::as_ptr(alive), self.0.as_ptr());
        with_attachments(|s| s.alive.get().is_some_and(is_it)).unwrap_or(false)
    }

    /// Whether it has ended: what it had in arenas has gone, or is left to recovery.
    pub fn has_ended(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// As [`Within`], for a guard.
pub fn enter_within() {
    let _ = with_attachments(|s| s.within.set(s.within.get() + 1));
}

/// The end of [`enter_within`].
pub fn leave_within() {
    let _ = with_attachments(|s| s.within.set(s.within.get().saturating_sub(1)));
}

/// I1 of the body: the calling thread's member number and generation, with which it may change the body; its bit is set from now on. None: the object was
/// removed.
#[cold]
pub fn enter(body: &Body<'static>) -> Result<Option<(u32, u32)>, ArenaError> {
    let map = body.map();
    let me = attachment(map, |attachment| (attachment.joined.index, attachment.joined.generation))?;
    let (member, generation) = me;
    if body.may_change(me.0) {
        return Ok(Some(me));
    }
    if !body.enter(&map.admin(), me.0) {
        return Ok(None);
    }
    let _ = with_attachments(|s| {
        if let Ok(mut entered) = s.entered.try_borrow_mut() {
            entered.push(Entered { map, place: body.place(), member, generation, incarnation: process::incarnation() });
        }
    });
    Ok(Some(me))
}

/// I4 of the body: the calling thread, which is in no signal handler, gives up its bits at bodies that were removed.
pub fn tidy() {
    let _ = with_attachments(|s| {
        let Ok(mut entered) = s.entered.try_borrow_mut() else { return };
        if s.within.get() == 0 {
            entered.retain(|e| {
                let stays = e.map.is_there(e.place);
                if !stays {
                    e.leave();
                }
                stays
            });
        }
    });
}

/// Which of a thread's TLS words is its last attachment; which say what `semaphore` guesses: of what object, and what word.
const LAST: usize = 0;
pub const GUESSED: usize = 1;
pub const WORD: usize = 2;

/// The attachment that this thread has asked for last: null, or one that ATTACHMENTS keeps.
#[inline(always)]
fn last() -> *const ThreadAttachment {
    tls::get::<LAST>() as *const ThreadAttachment
}

fn set_last(attachment: *const ThreadAttachment) {
    tls::set::<LAST>(attachment as usize);
}

/// Leaves an arena with those of the calling thread's attachments that `which` admits.
///
/// Nothing happens inside of a section (I4 of the body), nor in a waker of a task that chappe calls: the operation that it interrupts goes on as this member.
pub fn leave(map: &'static Map, which: impl Fn(&ThreadAttachment) -> bool) {
    if light::is_out() {
        return;
    }
    // I4 of the body.
    if with_attachments(|s| s.within.get() > 0).unwrap_or(true) {
        return;
    }
    // First: a signal handler may ask in between.
    set_last(std::ptr::null());
    // A waker that is due meanwhile may come to this thread's attachments.
    let _busy = Busy::begin();
    let _ = with_attachments(|s| {
        let goes = |attachment: &ThreadAttachment| std::ptr::eq(attachment.map, map) && which(attachment);
        s.all.borrow_mut().retain(|attachment| {
            if !goes(attachment) {
                return true;
            }
            s.entered.borrow_mut().retain(|e| {
                let stays = !std::ptr::eq(e.map, map);
                if !stays {
                    e.leave();
                }
                stays
            });
            attachment.leave()
        });
    });
}

/// Whether the calling thread has an attachment in an arena, or is just busy with its attachments: then it has joined something, and
/// this is a signal handler. Never joins.
pub fn is_attached(map: &'static Map) -> bool {
    let now = process::incarnation();
    let fits = |attachment: &Rc<ThreadAttachment>| std::ptr::eq(attachment.map, map) && attachment.incarnation == now;
    with_attachments(|s| s.all.try_borrow().map_or(true, |attachments| attachments.iter().any(fits))).unwrap_or(true)
}

/// Does something as the calling thread's member of an arena, with which process it is of, if it has an attachment there and that was the
/// last one asked for. A few loads.
#[inline(always)]
pub fn at_hand<R>(map: &'static Map, then: impl FnOnce(&Party, u32) -> Option<R>) -> Option<R> {
    let (me, incarnation) = party_at_hand(map)?;
    then(&me, incarnation)
}

// The functions below return values and take no closure: a closure would be compiled as a function of its own, with all it needs passed
// through memory.

/// The calling thread as a member of an arena, and of which process it is, if it has an attachment there and that was the last one
/// asked for. A few loads.
#[inline(always)]
pub fn party_at_hand(map: &'static Map) -> Option<(Party, u32)> {
    if !ROBUST {
        // Any thread: in this build no member's death is detected.
        return Some((Party { map, member: 0, generation: 0, holds: Holds::NONE }, 0));
    }
    // SAFETY: not kept beyond this.
    let attachment = unsafe { attachment_at_hand(map) }?;
    Some((party(attachment), attachment.incarnation as u32))
}

/// The attachment that was asked for last, of any arena, if it is this process's.
///
/// # Safety
/// The caller lets go of it before the thread leaves an arena, looks for another attachment, or ends.
#[inline(always)]
pub unsafe fn last_attachment<'a>() -> Option<&'a ThreadAttachment> {
    // SAFETY: `last` is null or an attachment kept by ATTACHMENTS of this thread; it is set to null before an attachment is dropped, which the caller
    // waits for.
    let attachment = unsafe { last().as_ref() }?;
    process::is_incarnation(attachment.incarnation as u32).then_some(attachment)
}

/// As [`last_attachment`], if it is an attachment of this arena; never in the build without detection of deaths.
///
/// # Safety
/// As for [`last_attachment`].
#[inline(always)]
pub unsafe fn attachment_at_hand<'a>(map: &'static Map) -> Option<&'a ThreadAttachment> {
    // SAFETY: the caller's promise.
    let attachment = unsafe { last_attachment() }?;
    std::ptr::eq(attachment.map, map).then_some(attachment)
}

/// The calling thread's attachment in an arena, joining it if need be.
///
/// # Errors
/// As [`Map::join`].
pub fn attachment<R>(map: &'static Map, then: impl FnOnce(&ThreadAttachment) -> R) -> Result<R, ArenaError> {
    // Once in each turn: a signal handler may change it.
    let mut last = self::last();
    let fits = |last: &ThreadAttachment| std::ptr::eq(last.map, map) && last.incarnation == process::incarnation();
    // SAFETY: as in `last_attachment`: nothing here leaves, between the look and the use. (A waker that is called meanwhile cannot: see `leave`.)
    while last.is_null() || !fits(unsafe { &*last }) {
        // Then a waker may have been called, which may have used another arena, or left this one.
        attachment_slow(map)?;
        last = self::last();
    }
    // SAFETY: as above.
    Ok(then(unsafe { &*last }))
}

#[cold]
fn attachment_slow(map: &'static Map) -> Result<(), ArenaError> {
    let now = process::incarnation();
    // A waker that is due meanwhile may come to this thread's attachments.
    let _busy = Busy::begin();
    if map.directory().is_none() {
        // Purges the copy after a fork.
        private::usable();
    }
    let ended = || ArenaError::Io {
        what: "cannot join an arena while the thread ends".into(),
        source: std::io::ErrorKind::Unsupported.into(),
    };
    with_attachments(|s| {
        let mut attachments = s.all.borrow_mut();
        set_last(std::ptr::null());
        // A waker may have forked in the middle of an operation as one of these.
        if !light::is_out() {
            attachments.retain(|attachment| attachment.incarnation == now);
        }
        let fits = |s: &&Rc<ThreadAttachment>| std::ptr::eq(s.map, map) && s.incarnation == now;
        if let Some(attachment) = attachments.iter().find(fits) {
            set_last(Rc::as_ptr(attachment));
            return Ok(());
        }
        let me = light::current();
        let joined = match me {
            Some(me) => lent::borrow(map, me)?,
            None => map.join(MemberKind::Thread, &label())?,
        };
        // An earlier program of this very process (it called exec) may have held something; no other process can be sure that it is gone.
        map.recover_dead();
        // A light thread's locks are not biased.
        let holds = if me.is_some() { Holds::NONE } else { Holds::of(map, joined.index) };
        let attachment = Rc::new(ThreadAttachment {
            map,
            addition: if holds.is_none() { 0 } else { owner::addition(joined.index) },
            kept: owner::kept(owner::held_by(joined.index, joined.generation), now as u32),
            joined,
            incarnation: now,
            tid: process::tid(),
            spin: Cell::new(0),
            holds,
            taken: Cell::new(EVERY),
            looks: Cell::new(Looks::NEW),
            watched: Cell::new(false),
            lent: me.is_some(),
        });
        set_last(Rc::as_ptr(&attachment));
        attachments.push(attachment);
        Ok(())
    })
    .map_err(|_| ended())?
}

/// The member that stands for this whole process in an arena, joining it if need be. A thread of ours that
/// lives as long as the process holds its life word.
///
/// # Errors
/// As [`Map::join`], or the system's when it refuses a thread.
pub fn process_attachment(map: &'static Map) -> Result<Joined, ArenaError> {
    let now = process::incarnation();
    let key = std::ptr::from_ref(map) as usize;
    // Wakers that are due meanwhile are called when the lock is released.
    let _busy = Busy::begin();
    let mut attachments = light::lock(&PROCESS_MEMBERS);
    attachments.retain(|s| s.0 == now);
    if let Some((_, _, joined)) = attachments.iter().find(|s| s.1 == key) {
        return Ok(*joined);
    }
    let (tell, told) = std::sync::mpsc::channel();
    let name = label();
    thread::background("chappe-holder", move || {
        let busy = Busy::begin();
        let joined = map.join(MemberKind::Process, &name);
        let stay = joined.is_ok();
        let _ = tell.send((joined, busy.hand_over()));
        if stay {
            loop {
                std::thread::park();
            }
        }
    })
    .map_err(|source| ArenaError::Io { what: "cannot start the thread that holds owned permits".into(), source })?;
    let (joined, acts) = told.recv().map_err(|_| ArenaError::Removed { name: map.name().into() })?;
    acts.run();
    let joined = joined?;
    attachments.push((now, key, joined));
    map.keep_process_member((joined.index, joined.generation), now);
    // `owned::ending` goes through what was met. A private arena has nothing that outlives its process.
    if !map.is_private() {
        meet(map);
    }
    Ok(joined)
}

/// The member that stands for this process in an arena, if there is one yet. A few loads; signal handlers may call it.
#[inline(always)]
pub fn process_member(map: &'static Map) -> Option<Party> {
    let (member, generation) = map.process_member(process::incarnation_if_any()?)?;
    Some(Party { map, member, generation, holds: Holds::NONE })
}

/// Makes sure that this process's reaper (the thread that recovers dead members) runs and watches the arena. Without it a sleeper may sleep
/// for ever.
///
/// # Errors
/// The system's, when it refuses a thread; `Unsupported` for a child that shares its parent's memory and thread-locals (clone with
/// CLONE_VM, vfork): it would wait in the place of the thread that began it.
pub fn watched(attachment: &ThreadAttachment) -> std::io::Result<()> {
    #[cfg(not(any(feature = "loom", feature = "sim")))]
    crate::inside::may_sleep();
    watched_meanwhile(attachment)
}

/// The same for a thread that does not sleep next, but asks again and again: also one inside of a section.
///
/// # Errors
/// As [`watched`].
pub fn watched_meanwhile(attachment: &ThreadAttachment) -> std::io::Result<()> {
    // A thread that has its own core never sleeps and makes no system call, so it does not make this one either.
    if !attachment.lent && !crate::role::has_own_core() && attachment.tid != process::tid() {
        let why = "this is a child made by clone or vfork in its parent's memory: it cannot wait in the place of its parent's thread; \
                   call exec first, or use fork";
        return Err(std::io::Error::new(std::io::ErrorKind::Unsupported, why));
    }
    if attachment.watched.get() {
        return Ok(());
    }
    WATCH.add(attachment.map)?;
    attachment.watched.set(true);
    Ok(())
}

/// What this process's reaper has done: dead members found, and how many times only the backstop found one.
pub fn reaped() -> (u64, u64) {
    (WATCH.sweeps(), WATCH.backstops())
}
