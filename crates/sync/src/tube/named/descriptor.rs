//! Descriptors of the ends of named tubes, and of subscriptions of broadcast tubes: eventfds that a thread of this process makes readable.
//!
//! A sender in another process can wake a thread of this one, but can write to no descriptor here. So a thread (the *watcher*) waits on
//! behalf of the polling threads. There is one for each arena in which a descriptor was asked for, since a choice is made in one named
//! arena. It makes one choice over all armed ends, and takes nothing (as `ready`). One more arm is a private tube, its bell: it says that
//! the list of ends has changed.
//!
//! ```text
//!   poller:     listed -- nothing there -- cleared and armed -- the bell -- polls
//!   watcher:    takes the bell -- reads the list: what is ready is disarmed, and readable -- chooses among the bell and the rest
//! ```
//!
//! - I1: the watcher takes the bell before it reads the list. So if it has not read a newly armed end, the bell for that end is still to be
//!   heard. The end is looked at after it was armed, whatever came before or comes after that.
//! - I2: the watcher looks into a tube under the lock, and only while the end is listed and armed; a handle takes its end off the list
//!   before it leaves the tube. So no thread waits for the watcher to let go of an end: it has none. What is left of it at the tube is
//!   its bit in the wait queue, until it hears the bell.
//! - I3: a descriptor is written to under the lock, while it is listed; dropping the handle removes both, and the descriptor's number.
//! - I4: an end that is ready is disarmed: if no thread arms it again, the watcher sleeps. A thread that disarms an end in the watcher's place
//!   rings the bell, so that the watcher gives up its bit at that end. The watcher's word there (I6) goes with the disarming.
//! - I5: the list belongs to one process. A forked child, which has no watcher, begins with an empty list, and leaves alone the
//!   descriptors that it shares with its parent.
//! - I6: a subscription has one word for the member that waits for it ([`Ear`]). While its end is armed that word is the watcher's, which writes it
//!   under the lock; a thread that is about to wait for the subscription itself disarms the end before. So none of the two overwrites
//!   the other's word. What is disarmed so becomes readable: a poller looks for itself, and arms it again.
//!
//! Where the watcher cannot wait (no place in an arena), it looks once a millisecond. If it panics, all ends of its arena become readable,
//! and the next end that is armed starts another watcher.

use crate::choice::{How, choose};
use crate::error::SelectError;
use crate::fork::ENDS;
use crate::registry::Arena;
use crate::tube;
use chappe_arena::{ArenaError, Map};
use chappe_plat::poll::Event;
use chappe_plat::{process, quiet, thread};
use chappe_wait::attachment::{attachment, watched};
use chappe_wait::mark::Mark;
use chappe_wait::operation::{Arm, Collected, Looking, Mode, Refused, Site};
use chappe_wait::patience::Until;
use chappe_wait::role::{Role, set_role};
use chappe_wait::wait::{Grant, Party};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// How often the thread looks if it cannot wait.
const POLL: Duration = Duration::from_millis(1);
/// How long the thread stays for the next end after the last one has gone.
const LINGER: Duration = Duration::from_secs(1);

/// What a descriptor stands for: an end of a tube, or a subscription.
type Outlet = Arc<dyn Arm + Send + Sync>;

/// Whether an operation would not block, or report that it cannot.
fn is_ready(of: &dyn Arm) -> bool {
    !matches!(of.look(&Party::nobody(of.site().map), Looking::Free), Ok(Mark::Nothing(_)))
}

/// The watcher no longer waits for it: whose word it is, the lock and I6 say.
fn leave(of: &dyn Arm) {
    of.collect(&Party::nobody(of.site().map), None, 0, Mode::Take);
}

/// An end whose handle has a descriptor.
struct Listed {
    of: Outlet,
    event: Arc<Event>,
    is_armed: bool,
}

impl Listed {
    /// Makes it readable. If it was armed, the watcher's word goes at once (I6): the watcher itself leaves it alone from here on.
    fn fire(&mut self) {
        if std::mem::replace(&mut self.is_armed, false) {
            leave(&*self.of);
        }
        self.event.signal();
    }
}

/// The thread of an arena.
struct Watcher {
    map: &'static Map,
    bell: tube::Sender<()>,
}

/// All ends and watchers of one process, and which process that is.
#[derive(Default)]
struct List {
    incarnation: u64,
    next: u64,
    ends: BTreeMap<u64, Listed>,
    watchers: Vec<Watcher>,
}

/// Runs `then` with the list of this very process.
fn with<R>(then: impl FnOnce(&mut List) -> R) -> R {
    let mut list = ENDS.lock::<List>();
    let now = process::incarnation();
    if list.incarnation != now {
        // I5. Dropping a bell would ring it: its other end is in the parent alone.
        list.watchers.drain(..).for_each(std::mem::forget);
        list.ends.clear();
        list.incarnation = now;
    }
    then(&mut list)
}

impl List {
    fn watcher(&self, map: &'static Map) -> Option<usize> {
        self.watchers.iter().position(|w| std::ptr::eq(w.map, map))
    }

    /// Ensures that an arena has its thread.
    fn start(&mut self, map: &'static Map) -> io::Result<()> {
        if self.watcher(map).is_some() {
            return Ok(());
        }
        // The bell lies in the private arena.
        Arena::try_private().map_err(|e| match e {
            ArenaError::Io { source, .. } => source,
            e => io::Error::other(e),
        })?;
        let ((bell, hears), (tell, told)) = (tube::bounded(1), mpsc::channel());
        thread::background("chappe-watcher", move || {
            set_role(Role::Sleeper);
            let ready = join(map);
            let stay = ready.is_ok();
            let _ = tell.send(ready);
            if stay {
                let _serves = quiet::serves_others();
                let _last = Last(map);
                watch(map, &hears);
            }
        })?;
        told.recv().map_err(|_| io::Error::other("the thread that watches tubes has ended"))??;
        self.watchers.push(Watcher { map, bell });
        Ok(())
    }

    /// I1: after the list has changed. A full bell will be heard.
    fn ring(&self, map: &'static Map) {
        if let Some(at) = self.watcher(map) {
            let _ = self.watchers[at].bell.try_send(());
        }
    }

    fn enter(&mut self, of: Outlet, event: Arc<Event>) -> io::Result<u64> {
        self.start(of.site().map)?;
        self.next += 1;
        self.ends.insert(self.next, Listed { of, event, is_armed: false });
        Ok(self.next)
    }

    /// Arms an end, unless there is something already. False: there is.
    fn arm(&mut self, id: u64) -> bool {
        let Some(end) = self.ends.get_mut(&id) else { return false };
        let map = end.of.site().map;
        if is_ready(&*end.of) {
            self.fire(id);
            return false;
        }
        end.event.clear();
        let was_armed = std::mem::replace(&mut end.is_armed, true);
        if self.start(map).is_err() {
            // The operation itself may still report the error.
            self.fire_all(map);
            return false;
        }
        if !was_armed {
            self.ring(map);
        }
        true
    }

    fn forget(&mut self, id: u64) {
        if let Some(end) = self.ends.remove(&id) {
            // For pollers that wait at a copy of the descriptor: the handle has something to tell.
            end.event.signal();
            self.ring(end.of.site().map);
        }
    }

    /// Makes an end readable. If it was armed, the watcher still waits for it, and hears the bell: I4.
    fn fire(&mut self, id: u64) {
        let Some(end) = self.ends.get_mut(&id) else { return };
        let (map, was_armed) = (end.of.site().map, end.is_armed);
        end.fire();
        if was_armed {
            self.ring(map);
        }
    }

    /// The same of an end that is armed, and nothing else: I6.
    fn disarm(&mut self, id: u64) {
        if self.ends.get(&id).is_some_and(|end| end.is_armed) {
            self.fire(id);
        }
    }

    fn of(&mut self, map: &'static Map) -> impl Iterator<Item = (&u64, &mut Listed)> {
        self.ends.iter_mut().filter(move |(_, end)| std::ptr::eq(end.of.site().map, map))
    }

    fn fire_all(&mut self, map: &'static Map) {
        self.of(map).filter(|(_, end)| end.is_armed).for_each(|(_, end)| end.fire());
    }

    /// Fires the ends that are ready. Returns the armed ends that are left, and whether any end is listed at all.
    fn read(&mut self, map: &'static Map) -> (Vec<Armed>, bool) {
        let (mut rest, mut any) = (Vec::new(), false);
        for (id, end) in self.of(map) {
            any = true;
            if !end.is_armed {
                continue;
            }
            if is_ready(&*end.of) {
                end.fire();
            } else {
                rest.push(Armed { id: *id, of: Arc::clone(&end.of) });
            }
        }
        (rest, any)
    }

    /// Ends an arena's thread if no end needs it.
    fn dismiss(&mut self, map: &'static Map) -> bool {
        let goes = self.of(map).next().is_none();
        if goes {
            self.watchers.retain(|w| !std::ptr::eq(w.map, map));
        }
        goes
    }
}

/// Prepares this thread to wait in an arena, and at the bell.
fn join(map: &'static Map) -> io::Result<()> {
    attachment(Arena::private().map(), |_| ()).map_err(io::Error::other)?;
    attachment(map, watched).map_err(io::Error::other)?
}

/// The loop of an arena's thread.
fn watch(map: &'static Map, bell: &tube::Receiver<()>) {
    loop {
        let _ = bell.try_recv();
        let (armed, any) = with(|list| list.read(map));
        let ends = armed.iter().map(|end| end as &dyn Arm);
        let arms: Vec<&dyn Arm> = std::iter::once(&bell.into as &dyn Arm).chain(ends).collect();
        let until = if any { Until::Forever } else { Until::after(LINGER) };
        match choose(&arms, How { until, biased: true, aim: Mode::Look }) {
            Ok(_) | Err(SelectError::Dead { .. }) => {}
            Err(SelectError::Timeout) => {
                if with(|list| list.dismiss(map)) {
                    return;
                }
            }
            Err(_) => chappe_wait::patience::pass(POLL),
        }
    }
}

/// What the thread does if it panics: all ends become readable, and their users look for themselves.
struct Last(&'static Map);

impl Drop for Last {
    fn drop(&mut self) {
        if std::thread::panicking() {
            with(|list| {
                list.watchers.retain(|w| !std::ptr::eq(w.map, self.0));
                list.fire_all(self.0);
            });
        }
    }
}

/// An armed end as an arm of the thread's choice.
struct Armed {
    id: u64,
    of: Outlet,
}

impl Armed {
    /// I2.
    fn while_armed<R: Default>(&self, look: impl FnOnce() -> R) -> R {
        with(|list| if list.ends.get(&self.id).is_some_and(|end| end.is_armed) { look() } else { R::default() })
    }
}

impl Arm for Armed {
    fn site(&self) -> Site {
        self.of.site()
    }
    fn look(&self, me: &Party, how: Looking) -> Result<Mark, Refused> {
        self.while_armed(|| Some(self.of.look(me, how))).unwrap_or(Ok(Mark::Nothing(0)))
    }
    fn collect(&self, _me: &Party, grant: Option<Grant>, _number: u32, _aim: Mode) -> Collected {
        if grant.is_none() {
            self.while_armed(|| leave(&*self.of));
        }
        Collected::Nudged
    }
}

/// A handle's descriptor: none, until it is asked for.
#[derive(Default)]
pub(crate) struct Watched(OnceCell<Box<Asked>>);

struct Asked {
    incarnation: u64,
    id: u64,
    event: Arc<Event>,
    /// The descriptor of a forked child: the parent's may still be borrowed.
    next: Watched,
}

impl Drop for Asked {
    fn drop(&mut self) {
        with(|list| list.forget(self.id));
    }
}

impl Watched {
    /// This process's descriptor, or the place for it.
    fn ours(&self) -> Result<&Asked, &OnceCell<Box<Asked>>> {
        match self.0.get() {
            Some(asked) if asked.incarnation == process::incarnation() => Ok(asked),
            Some(asked) => asked.next.ours(),
            None => Err(&self.0),
        }
    }

    /// The descriptor of a handle of this process, armed when it is made.
    pub(crate) fn descriptor(&self, of: impl Arm + Send + Sync + 'static) -> io::Result<BorrowedFd<'_>> {
        let empty = match self.ours() {
            Ok(asked) => return Ok(asked.event.as_fd()),
            Err(empty) => empty,
        };
        let event = Arc::new(Event::new()?);
        let id = with(|list| list.enter(Arc::new(of), Arc::clone(&event)))?;
        let (incarnation, next) = (process::incarnation(), Watched::default());
        let asked = empty.get_or_init(|| Box::new(Asked { incarnation, id, event, next }));
        with(|list| list.arm(asked.id));
        Ok(asked.event.as_fd())
    }

    /// Arms this process's descriptor. False: there is something, and it is readable.
    pub(crate) fn rearm(&self, of: &dyn Arm) -> bool {
        match self.ours() {
            Ok(asked) => with(|list| list.arm(asked.id)),
            Err(_) => !is_ready(of),
        }
    }

    /// Makes this process's descriptor readable, if there is one.
    pub(crate) fn fire(&self) {
        if let Ok(asked) = self.ours() {
            with(|list| list.fire(asked.id));
        }
    }

    /// The same if it is armed: its poller looks for itself (I6).
    pub(crate) fn disarm(&self) {
        if let Ok(asked) = self.ours() {
            with(|list| list.disarm(asked.id));
        }
    }

    /// The handle leaves the tube: I2.
    pub(crate) fn forget(&mut self) {
        self.0.take();
    }
}

pub(crate) fn not_ours(why: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
