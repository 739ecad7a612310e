//! Operations on the threads of another process: `chappe threads PID --suspend N`.
//!
//! A process with light threads has one page that any process with the right to debug it can map
//! (`chappe_plat::mailbox`). Its kernel thread `chappe-control` (the server) sleeps on a word of that page, and costs
//! nothing while no request comes. Another process (the asker) locks the page, writes its request, wakes the server,
//! and sleeps until the answer is there or its time is up.
//!
//! ```text
//!   asker:   lock -- IDLE/DONE: write the request -- ASKED -- wake ................... read the answer -- unlock
//!   server:                                               TAKEN -- carry out -- DONE -- wake
//! ```
//!
//! `words::page` is the protocol of the state word: its invariants, and what happens when the asker dies.

use crate::asks::Refusal;
use crate::id::ThreadId;
use crate::image::Image;
use crate::offers::{SUSPENDED, offered};
use crate::record::{self, Handler};
use crate::thread::Thread;
use crate::words::page::{self, ASKED, DONE, TAKEN};
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::futex::{self, Scope};
use chappe_plat::mailbox::Theirs;
use chappe_plat::{clock, mailbox, process, quiet, thread};
use std::io;
use std::sync::Mutex;
use std::time::Duration;

/// Identifies the version of the page's contents.
const MAGIC: u64 = u64::from_le_bytes(*b"chappe\x02C");
/// The longest name, in bytes.
const NAME: usize = 64;
/// The stack of `chappe-control`, in bytes.
const STACK: usize = 256 * 1024;

/// Begins what is offered as a light thread of that name.
type Begin = fn(String, Handler) -> io::Result<ThreadId>;

/// The page's contents.
#[repr(C)]
struct Page {
    magic: AtomicU64,
    pid: AtomicU32,
    state: AtomicU32,
    operation: AtomicU32,
    thread: AtomicU32,
    argument: AtomicU32,
    answer: AtomicU32,
    value: AtomicU32,
    name: [AtomicU64; NAME / 8],
}

const _: () = assert!(size_of::<Page>() <= mailbox::LEN);

/// What is asked of a thread of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Begins what the process has [`offer`](crate::offer)ed under this name as a light thread: answers its number.
    Create(String),
    /// [`Thread::destroy`].
    Destroy(u32),
    /// [`Thread::suspend`].
    Suspend(u32),
    /// [`Thread::resume`].
    Resume(u32),
    /// [`Thread::stop`].
    Stop(u32),
    /// [`Thread::unpark`].
    Unpark(u32),
    /// [`Thread::interrupt`] with what is offered under this name.
    Interrupt(u32, String),
    /// [`Thread::signal`].
    Signal(u32, u32),
    /// [`Thread::notify`].
    Notify(u32, u32),
}

/// Why a request was not carried out.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failed {
    /// There is no light thread with this number.
    NoSuchThread(u32),
    /// The process offers nothing under this name.
    NotOffered(String),
    /// A signal or an event that cannot be, or a name that is too long.
    BadArgument,
    /// The process has no light threads, or they were made by another build.
    NoThreads,
    /// The process has light threads, but no thread that answers for them: it has closed the page's descriptor, or it
    /// is a forked child.
    Closed,
    /// It does not answer in time: it is stopped, or does not get a processor. What was asked is taken back.
    NoAnswer,
    /// There is no room for one more thread.
    NoRoom,
    /// The system's: `NotFound`, there is no such process; `PermissionDenied`.
    System(io::Error),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::NoSuchThread(number) => write!(f, "it has no light thread {number}"),
            Failed::NotOffered(name) => {
                write!(f, "it offers nothing by the name `{name}`: the program says so with chappe::thread::offer")
            }
            Failed::BadArgument => f.write_str("signals are 0 to 31, events bits 0 to 23, names 64 bytes at most"),
            Failed::NoThreads => f.write_str("it has no light threads, or a chappe of another version made them"),
            Failed::Closed => f.write_str("nobody answers for its light threads: it has closed the descriptor of that"),
            Failed::NoAnswer => f.write_str("it does not answer: it may be stopped; nothing was done"),
            Failed::NoRoom => f.write_str("it has no room for one more light thread"),
            Failed::System(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Failed {}

const OK: u32 = 0;
const NO_THREAD: u32 = 1;
const NOT_OFFERED: u32 = 2;
const BAD: u32 = 3;
const NO_ROOM: u32 = 4;

impl Request {
    /// Its number, the thread's, the argument and the name.
    fn parts(&self) -> (u32, u32, u32, &str) {
        match self {
            Request::Create(name) => (1, 0, 0, name),
            Request::Destroy(n) => (2, *n, 0, ""),
            Request::Suspend(n) => (3, *n, 0, ""),
            Request::Resume(n) => (4, *n, 0, ""),
            Request::Stop(n) => (5, *n, 0, ""),
            Request::Unpark(n) => (6, *n, 0, ""),
            Request::Interrupt(n, name) => (7, *n, 0, name),
            Request::Signal(n, signal) => (8, *n, *signal, ""),
            Request::Notify(n, events) => (9, *n, *events, ""),
        }
    }

    fn of((operation, n, argument): (u32, u32, u32), name: String) -> Option<Request> {
        Some(match operation {
            1 => Request::Create(name),
            2 => Request::Destroy(n),
            3 => Request::Suspend(n),
            4 => Request::Resume(n),
            5 => Request::Stop(n),
            6 => Request::Unpark(n),
            7 => Request::Interrupt(n, name),
            8 => Request::Signal(n, argument),
            9 => Request::Notify(n, argument),
            _ => return None,
        })
    }

    /// The server carries the request out: answers its code, and the number of the thread that was made.
    fn carry_out(self, begin: Begin) -> (u32, u32) {
        let find = |number| Thread::find(ThreadId(number));
        let on = |number, act: &dyn Fn(Thread) -> Result<(), Refusal>| match find(number).map(act) {
            Some(Ok(())) => (OK, 0),
            Some(Err(_)) | None => (NO_THREAD, 0),
        };
        match self {
            Request::Create(name) => {
                let Some(body) = offered(&name) else { return (NOT_OFFERED, 0) };
                match begin(name, body) {
                    Ok(number) => (OK, number.as_u32()),
                    Err(_) => (NO_ROOM, 0),
                }
            }
            Request::Destroy(n) => on(n, &|t| t.destroy()),
            Request::Suspend(n) => on(n, &|t| {
                SUSPENDED.store(1, Ordering::SeqCst); // SeqCst: before the thread is.
                t.suspend()
            }),
            Request::Resume(n) => on(n, &|t| t.resume()),
            Request::Stop(n) => on(n, &|t| {
                SUSPENDED.store(1, Ordering::SeqCst); // SeqCst: as above.
                t.stop()
            }),
            Request::Unpark(n) => on(n, &|t| {
                t.unpark();
                Ok(())
            }),
            Request::Interrupt(n, name) => match offered(&name) {
                Some(body) => on(n, &|t| {
                    let body = Handler::clone(&body);
                    t.interrupt(move || body())
                }),
                None => (NOT_OFFERED, 0),
            },
            Request::Signal(_, signal) if signal > 31 => (BAD, 0),
            Request::Signal(n, signal) => on(n, &|t| t.signal(signal)),
            Request::Notify(_, events) if events >> 24 != 0 => (BAD, 0),
            Request::Notify(n, events) => on(n, &|t| {
                t.notify(events);
                Ok(())
            }),
        }
    }
}

impl Page {
    fn set_name(&self, name: &str) {
        let mut bytes = [0; NAME];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        for (word, part) in self.name.iter().zip(bytes.chunks_exact(8)) {
            // Relaxed: published by `state`.
            word.store(u64::from_le_bytes(part.try_into().expect("eight bytes")), Ordering::Relaxed);
        }
    }

    fn name(&self) -> String {
        let bytes: Vec<u8> = self.name.iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).collect(); // Relaxed: as above.
        let len = bytes.iter().position(|b| *b == 0).unwrap_or(NAME);
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    /// The server: waits for requests, for ever.
    fn serve(&self, begin: Begin) -> ! {
        let _serves = quiet::serves_others();
        loop {
            // SeqCst, all in this file: what is in the page was written before.
            let now = self.state.load(Ordering::SeqCst);
            if now != ASKED {
                futex::wait(&self.state, now, None, Scope::Shared);
                continue;
            }
            if !page::take(&self.state) {
                continue;
            }
            let word = |word: &AtomicU32| word.load(Ordering::SeqCst);
            let asked = (word(&self.operation), word(&self.thread), word(&self.argument));
            let (answer, value) = Request::of(asked, self.name()).map_or((BAD, 0), |request| request.carry_out(begin));
            self.answer.store(answer, Ordering::SeqCst);
            self.value.store(value, Ordering::SeqCst);
            page::is_done(&self.state);
            futex::wake(&self.state, u32::MAX, Scope::Shared);
        }
    }

    /// The asker locks the page (O1). The lock ends when `theirs` is dropped.
    fn hold(&self, theirs: &Theirs, until: u64) -> Result<(), Failed> {
        while !theirs.try_lock().map_err(Failed::System)? {
            if clock::now() >= until {
                return Err(Failed::NoAnswer);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Takes back, or waits for, the request of the last asker.
        while !page::is_free(&self.state) {
            if clock::now() >= until {
                return Err(Failed::NoAnswer);
            }
            futex::wait(&self.state, TAKEN, Some(until), Scope::Shared);
        }
        Ok(())
    }

    fn ask(&self, request: &Request, until: u64) -> Result<(u32, u32), Failed> {
        let (operation, thread, argument, name) = request.parts();
        self.operation.store(operation, Ordering::SeqCst);
        self.thread.store(thread, Ordering::SeqCst);
        self.argument.store(argument, Ordering::SeqCst);
        self.set_name(name);
        page::ask(&self.state);
        futex::wake(&self.state, u32::MAX, Scope::Shared);
        loop {
            match self.state.load(Ordering::SeqCst) {
                DONE => return Ok((self.answer.load(Ordering::SeqCst), self.value.load(Ordering::SeqCst))),
                // A request that the server has taken is done in a moment.
                ASKED if clock::now() >= until => {
                    if page::take_back(&self.state) {
                        return Err(Failed::NoAnswer);
                    }
                }
                TAKEN if clock::now() >= until.saturating_add(1_000_000_000) => return Err(Failed::NoAnswer),
                now => {
                    futex::wait(&self.state, now, Some(clock::now().saturating_add(10_000_000)), Scope::Shared);
                }
            }
        }
    }
}

/// Starts the server of this process. Without a server other processes get [`Failed::Closed`].
pub(crate) fn prepare(begin: Begin) {
    /// The incarnation of the process that has a server.
    static MADE: Mutex<u64> = Mutex::new(0);
    let Ok(mut made) = MADE.try_lock() else { return };
    if *made == process::incarnation() {
        return;
    }
    *made = process::incarnation();
    let Ok((at, fd)) = mailbox::make() else { return };
    // SAFETY: zeros, for as long as the process lives; all that is in it are atomics.
    let page: &'static Page = unsafe { at.cast::<Page>().as_ref() };
    page.pid.store(process::pid(), Ordering::SeqCst);
    page.magic.store(MAGIC, Ordering::SeqCst);
    if thread::background_with("chappe-control", STACK, move || page.serve(begin)).is_ok() {
        record::control().store(fd + 1, Ordering::SeqCst);
    }
}

/// Sends a request to a process, and waits at most `patience` until it is carried out. Answers the number of the thread
/// that was made, if one was.
///
/// # Errors
/// See [`Failed`].
pub fn ask(pid: u32, request: &Request, patience: Duration) -> Result<Option<u32>, Failed> {
    let (_, number, _, name) = request.parts();
    if name.len() > NAME || name.contains('\0') {
        return Err(Failed::BadArgument);
    }
    let fd = Image::control_of(pid).map_err(Failed::System)?.ok_or(Failed::NoThreads)?.ok_or(Failed::Closed)?;
    let theirs = Theirs::open(pid, fd).map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => Failed::System(e),
        _ => Failed::Closed,
    })?;
    // SAFETY: as long as a page; all that is in it are atomics.
    let page = unsafe { theirs.at().cast::<Page>().as_ref() };
    if page.magic.load(Ordering::SeqCst) != MAGIC || page.pid.load(Ordering::SeqCst) != pid {
        return Err(Failed::Closed);
    }
    let until = clock::now().saturating_add(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
    page.hold(&theirs, until)?;
    match page.ask(request, until)? {
        (OK, value) => Ok(Some(value).filter(|_| matches!(request, Request::Create(_)))),
        (NO_THREAD, _) => Err(Failed::NoSuchThread(number)),
        (NOT_OFFERED, _) => Err(Failed::NotOffered(name.to_owned())),
        (NO_ROOM, _) => Err(Failed::NoRoom),
        _ => Err(Failed::BadArgument),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Runtime, park};

    #[test]
    #[cfg_attr(miri, ignore = "maps memory that is shared, or switches stacks")]
    fn one_asks_at_a_time_and_the_page_is_free_when_its_descriptor_goes() {
        let runtime = Runtime::new(1).unwrap();
        let waits = runtime.spawn(park);
        let (me, number) = (process::pid(), waits.thread().id().as_u32());
        let suspend = || ask(me, &Request::Suspend(number), Duration::from_millis(20));
        let fd = Image::control_of(me).unwrap().unwrap().unwrap();
        let other = Theirs::open(me, fd).unwrap();
        assert!(other.try_lock().unwrap());
        // As one of another PID namespace, which nobody here can look up.
        assert!(matches!(suspend(), Err(Failed::NoAnswer)));
        drop(other);
        let patient = |request| ask(me, &request, Duration::from_secs(60));
        patient(Request::Suspend(number)).unwrap();
        patient(Request::Resume(number)).unwrap();
        waits.thread().unpark();
        waits.join().unwrap();
    }
}
