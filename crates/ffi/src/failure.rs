//! What went wrong: a number for the program, a text for people; and the border that no panic crosses.
//!
//! The text is the Rust library's own: what happened, to which object, what to do. It is kept for each thread in a buffer of
//! fixed size, so that an attempt that fails asks for no memory and a signal handler may fail as well. What only says "not now" or
//! "too late" is not written at all: its text is a constant.

use chappe::plan9::Plan9Error;
use chappe::tube::{self, named};
use chappe::{
    AcquireError, ArenaError, BarrierError, DownError, LeaseError, LockError, MapError, ObjectError, PoolError,
    RwLockError, SelectError, SharedError, UpError, WordsError,
};
use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, c_char, c_int};
use std::fmt::{self, Display, Write};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes of a text, with the 0 at its end. It lies in each thread's initial block, of which all libraries that are loaded late share
/// some 1,600 bytes (see `tls` in plat).
const ROOM: usize = 512;

thread_local! {
    static BUFFER: UnsafeCell<[u8; ROOM]> = const { UnsafeCell::new([0; ROOM]) };
    static LAST: Cell<*const c_char> = const { Cell::new(c"".as_ptr()) };
}

/// That something went wrong; the thread's last text says what.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure(c_int);

/// What a call comes to.
pub type Answer<T> = Result<T, Failure>;

/// Why a wait came to nothing, for the thread that is told: a failure's text is that thread's.
pub type Why = Box<dyn FnOnce() -> Failure + Send>;

/// An error as such.
pub fn later<E: Into<Failure> + Send + 'static>(e: E) -> Why {
    Box::new(move || e.into())
}

impl Failure {
    /// With a constant text.
    #[cold]
    pub fn new(errno: c_int, text: &'static CStr) -> Failure {
        LAST.set(text.as_ptr());
        Failure(errno)
    }

    /// With a text that is put together.
    #[cold]
    pub fn told(errno: c_int, text: impl Display) -> Failure {
        // First: a text may be made of the last one.
        LAST.set(c"".as_ptr());
        BUFFER.with(|buffer| {
            // SAFETY: the thread's own, and nobody has a reference: texts are read through pointers. A signal handler that fails
            // in the middle leaves a mixture, which is ended by a 0 all the same.
            let buffer = unsafe { &mut *buffer.get() };
            let mut room = Room { left: &mut buffer[..ROOM - 1] };
            let _ = write!(room, "{text}");
            if let Some(end) = room.left.first_mut() {
                *end = 0;
            }
            LAST.set(buffer.as_ptr().cast());
        });
        Failure(errno)
    }

    /// Its number.
    pub fn errno(&self) -> c_int {
        self.0
    }
}

/// What is left of a buffer. What has no room is left out.
struct Room<'a> {
    left: &'a mut [u8],
}

impl Write for Room<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let some = text.len().min(self.left.len());
        let (now, later) = std::mem::take(&mut self.left).split_at_mut(some);
        now.copy_from_slice(&text.as_bytes()[..some]);
        self.left = later;
        Ok(())
    }
}

/// The thread's last text.
pub fn last() -> *const c_char {
    LAST.get()
}

/// A C type that says either what was answered or what went wrong.
pub trait Reply {
    /// The negative number.
    fn failed(errno: c_int) -> Self;
}

impl Reply for c_int {
    fn failed(errno: c_int) -> c_int {
        -errno
    }
}

impl Reply for isize {
    fn failed(errno: c_int) -> isize {
        -(errno as isize)
    }
}

impl Reply for i64 {
    fn failed(errno: c_int) -> i64 {
        -i64::from(errno)
    }
}

/// The border: does what a function does, and says it in C.
#[inline(always)]
pub fn answer<R: Reply>(act: impl FnOnce() -> Answer<R>) -> R {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(reply)) => reply,
        Ok(Err(failure)) => R::failed(failure.0),
        Err(panic) => R::failed(fault(&*panic)),
    }
}

/// The same of what has no more to say.
#[inline(always)]
pub fn done(act: impl FnOnce() -> Answer<()>) -> c_int {
    answer(|| act().map(|()| 0))
}

#[cold]
fn fault(panic: &(dyn std::any::Any + Send)) -> c_int {
    let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let text = said.unwrap_or("no more is known");
    Failure::told(libc::EIO, format_args!("a fault within chappe, or memory that was written over: {text}")).0
}

/// A Rust error as C has it.
trait Coded: Display {
    fn code(&self) -> c_int;
    /// Where the text is always the same, and wanted fast.
    fn constant(&self) -> Option<&'static CStr> {
        None
    }
}

impl<E: Coded> From<E> for Failure {
    #[cold]
    fn from(e: E) -> Failure {
        match e.constant() {
            Some(text) => Failure::new(e.code(), text),
            None => Failure::told(e.code(), &e),
        }
    }
}

/// The system's number, unless it would be taken for "not now".
fn system(e: &io::Error) -> c_int {
    match e.raw_os_error() {
        Some(libc::EAGAIN) => libc::ENOMEM,
        Some(errno) if errno > 0 => errno,
        _ => libc::EIO,
    }
}

impl Coded for io::Error {
    fn code(&self) -> c_int {
        // A descriptor's: the arena may have refused its thread.
        match self.get_ref().and_then(|e| e.downcast_ref::<ArenaError>()) {
            Some(e) => e.code(),
            None if self.kind() == io::ErrorKind::PermissionDenied => libc::EPERM,
            None => system(self),
        }
    }
}

impl Coded for ArenaError {
    fn code(&self) -> c_int {
        match self {
            ArenaError::NotFound { .. } => libc::ENOENT,
            ArenaError::Exists { .. } => libc::EEXIST,
            ArenaError::Garbage { .. } | ArenaError::Truncated { .. } | ArenaError::Damaged { .. } => libc::EUCLEAN,
            ArenaError::Version { .. } | ArenaError::Abi { .. } => libc::EPROTONOSUPPORT,
            ArenaError::Owner { .. }
            | ArenaError::Mode { .. }
            | ArenaError::Denied { .. }
            | ArenaError::Taken { .. } => libc::EACCES,
            ArenaError::NotOwner { .. } => libc::EPERM,
            ArenaError::Symlink { .. } => libc::ELOOP,
            ArenaError::InUse { .. } | ArenaError::Undecided { .. } => libc::EBUSY,
            ArenaError::MembersFull { .. } => libc::EUSERS,
            ArenaError::NoSpace { .. }
            | ArenaError::ObjectsFull { .. }
            | ArenaError::CellsFull { .. }
            | ArenaError::BlocksFull { .. } => libc::ENOSPC,
            ArenaError::Name { .. } | ArenaError::Capacity { .. } => libc::EINVAL,
            ArenaError::Removed { .. } => libc::EIDRM,
            ArenaError::Unwatched { .. } => libc::ENOTSUP,
            ArenaError::Io { source, .. } | ArenaError::Unreachable { source, .. } => system(source),
            _ => libc::EIO,
        }
    }
}

impl Coded for ObjectError {
    fn code(&self) -> c_int {
        match self {
            ObjectError::Unknown { .. } => libc::ENOENT,
            ObjectError::Exists { .. } => libc::EEXIST,
            ObjectError::OtherKind { .. } | ObjectError::OtherType { .. } => libc::EPROTOTYPE,
            ObjectError::Value { .. } | ObjectError::Alignment { .. } => libc::EINVAL,
            ObjectError::InUse { .. } => libc::EBUSY,
            ObjectError::Arena(e) => e.code(),
            _ => libc::EIO,
        }
    }
}

impl Coded for MapError {
    fn code(&self) -> c_int {
        match self {
            MapError::Object(e) => e.code(),
            MapError::OtherType { .. } | MapError::OtherShape { .. } => libc::EPROTOTYPE,
            MapError::Capacity { .. } => libc::EINVAL,
            MapError::Full { .. } => libc::ENOSPC,
            MapError::Busy { .. } => libc::EAGAIN,
            MapError::Key { .. } | MapError::Value { .. } => libc::EMSGSIZE,
            MapError::Dead { .. } => libc::EIDRM,
            MapError::Interrupted => libc::EINTR,
            MapError::System(e) => system(e),
            _ => libc::EIO,
        }
    }
}

impl Coded for BarrierError {
    fn code(&self) -> c_int {
        match self {
            BarrierError::Object(e) => e.code(),
            BarrierError::Parties { .. } => libc::EINVAL,
            BarrierError::OtherShape { .. } => libc::EPROTOTYPE,
            BarrierError::Broken { .. } => libc::ECANCELED,
            BarrierError::Timeout => libc::ETIMEDOUT,
            BarrierError::Interrupted => libc::EINTR,
            BarrierError::Twice { .. } => libc::EALREADY,
            BarrierError::Full { .. } => libc::ENOSPC,
            BarrierError::Inherited { .. } => libc::EPERM,
            BarrierError::Dead { .. } => libc::EIDRM,
            BarrierError::System(e) => system(e),
            _ => libc::EIO,
        }
    }
    fn constant(&self) -> Option<&'static CStr> {
        matches!(self, BarrierError::Timeout)
            .then_some(c"timed out waiting for the others; this arrival was taken back")
    }
}

impl Coded for SharedError {
    fn code(&self) -> c_int {
        match self {
            SharedError::Object(e) => e.code(),
            SharedError::OtherType { .. } | SharedError::OtherShape { .. } => libc::EPROTOTYPE,
            SharedError::Capacity { .. } => libc::EINVAL,
            SharedError::Full { .. } => libc::ENOSPC,
            SharedError::Busy { .. } => libc::EAGAIN,
            SharedError::Dead { .. } => libc::EIDRM,
            _ => libc::EIO,
        }
    }
}

impl Coded for WordsError {
    fn code(&self) -> c_int {
        match self {
            WordsError::Shared(e) => e.code(),
            WordsError::Arena(e) => e.code(),
            WordsError::Interrupting => libc::EBUSY,
            WordsError::Memory { .. } => libc::ENOMEM,
            WordsError::Member { .. } => libc::EUSERS,
            WordsError::Count { .. }
            | WordsError::Foreign { .. }
            | WordsError::Twice { .. }
            | WordsError::Capacity { .. } => libc::EINVAL,
            _ => libc::EIO,
        }
    }
}

impl Coded for PoolError {
    fn code(&self) -> c_int {
        match self {
            PoolError::Unknown { .. } => libc::ENOENT,
            PoolError::Exists { .. } => libc::EEXIST,
            PoolError::OtherKind { .. } | PoolError::OtherSize { .. } => libc::EPROTOTYPE,
            PoolError::Permits { .. } => libc::EINVAL,
            PoolError::InUse { .. } => libc::EBUSY,
            PoolError::NotHeld { .. } => libc::ESRCH,
            PoolError::Dead { .. } => libc::EIDRM,
            PoolError::Arena(e) => e.code(),
            _ => libc::EIO,
        }
    }
}

#[cfg(feature = "remote")]
impl Coded for chappe::remote::RemoteError {
    fn code(&self) -> c_int {
        use chappe::remote::RemoteError as E;
        match self {
            E::Invalid(_) => libc::EINVAL,
            E::Unreachable { .. } => libc::EHOSTUNREACH,
            E::OldEngine(_) | E::Newer { .. } => libc::EPROTONOSUPPORT,
            E::Unknown { .. } => libc::ENOENT,
            E::Other { .. } => libc::EPROTOTYPE,
            E::Exists { .. } => libc::EEXIST,
            E::Removed { .. } => libc::EIDRM,
            E::InUse { .. } => libc::EBUSY,
            E::TooMany { .. } => libc::ERANGE,
            E::Overflow { .. } => libc::EOVERFLOW,
            E::WouldBlock { .. } => libc::EAGAIN,
            E::Timeout { .. } => libc::ETIMEDOUT,
            E::Interrupted { .. } => libc::EINTR,
            E::Silent { .. } => libc::EHOSTDOWN,
            E::Unsure { .. } => libc::EREMOTEIO,
            E::Sealed { .. } => libc::EPIPE,
            E::SenderDied { .. } => libc::ECONNRESET,
            E::Unreadable { .. } => libc::EBADMSG,
            E::Lost { why, .. } => why.code(),
            E::Refused(_) => libc::EPROTO,
            E::NearlyFull(_) => libc::ENOSPC,
            E::Inherited { .. } => libc::EPERM,
            E::TwoEngines { .. } => libc::EXDEV,
            E::System { source, .. } => system(source),
            _ => libc::EIO,
        }
    }
}

#[cfg(feature = "remote")]
impl Coded for chappe::remote::Loss {
    fn code(&self) -> c_int {
        if *self == chappe::remote::Loss::Inherited { libc::EPERM } else { libc::ESTALE }
    }
}

impl Coded for AcquireError {
    fn code(&self) -> c_int {
        match self {
            AcquireError::WouldBlock => libc::EAGAIN,
            AcquireError::Timeout => libc::ETIMEDOUT,
            AcquireError::Interrupted => libc::EINTR,
            AcquireError::Dead { .. } => libc::EIDRM,
            AcquireError::TwoArenas { .. } => libc::EXDEV,
            AcquireError::NoPools => libc::EINVAL,
            AcquireError::TooMany { .. } => libc::ERANGE,
            AcquireError::Arena(e) => e.code(),
            AcquireError::System(e) => system(e),
            _ => libc::EIO,
        }
    }
    fn constant(&self) -> Option<&'static CStr> {
        match self {
            AcquireError::WouldBlock => Some(c"no permit is free"),
            AcquireError::Timeout => Some(c"timed out waiting for a permit"),
            _ => None,
        }
    }
}

impl Coded for LeaseError {
    fn code(&self) -> c_int {
        match self {
            LeaseError::Lost => libc::ESTALE,
            LeaseError::Private => libc::EOPNOTSUPP,
            LeaseError::Leased => libc::EBUSY,
            LeaseError::Arena(e) => e.code(),
            LeaseError::Lock { source, .. } | LeaseError::Record { source, .. } => system(source),
            _ => libc::EIO,
        }
    }
}

impl Coded for DownError {
    fn code(&self) -> c_int {
        match self {
            DownError::WouldBlock => libc::EAGAIN,
            DownError::Timeout => libc::ETIMEDOUT,
            DownError::Dead { .. } => libc::EIDRM,
            DownError::Interrupted => libc::EINTR,
            DownError::Arena(e) => e.code(),
            DownError::System(e) => system(e),
            _ => libc::EIO,
        }
    }
    fn constant(&self) -> Option<&'static CStr> {
        match self {
            DownError::WouldBlock => Some(c"no wake-up is saved"),
            DownError::Timeout => Some(c"timed out waiting for a wake-up"),
            DownError::Interrupted => Some(c"the wait for a wake-up was interrupted"),
            _ => None,
        }
    }
}

impl Coded for UpError {
    fn code(&self) -> c_int {
        match self {
            UpError::Overflow { .. } => libc::EOVERFLOW,
            UpError::Dead { .. } => libc::EIDRM,
            UpError::Arena(e) => e.code(),
            _ => libc::EIO,
        }
    }
}

impl<G> Coded for LockError<G> {
    fn code(&self) -> c_int {
        match self {
            LockError::WouldBlock => libc::EAGAIN,
            LockError::Timeout => libc::ETIMEDOUT,
            LockError::Interrupted => libc::EINTR,
            LockError::Deadlock { .. } => libc::EDEADLK,
            LockError::Condemned { .. } => libc::ENOTRECOVERABLE,
            LockError::Dead { .. } => libc::EIDRM,
            LockError::Arena(e) => e.code(),
            LockError::System(e) => system(e),
            _ => libc::EIO,
        }
    }
    fn constant(&self) -> Option<&'static CStr> {
        match self {
            LockError::WouldBlock => Some(c"the mutex is locked"),
            LockError::Timeout => Some(c"timed out waiting for the mutex"),
            _ => None,
        }
    }
}

impl<G> Coded for RwLockError<G> {
    fn code(&self) -> c_int {
        match self {
            RwLockError::WouldBlock => libc::EAGAIN,
            RwLockError::Timeout => libc::ETIMEDOUT,
            RwLockError::Interrupted => libc::EINTR,
            RwLockError::Deadlock { .. } | RwLockError::Upgrade { .. } => libc::EDEADLK,
            RwLockError::Condemned { .. } => libc::ENOTRECOVERABLE,
            RwLockError::Dead { .. } => libc::EIDRM,
            RwLockError::Arena(e) => e.code(),
            RwLockError::System(e) => system(e),
            _ => libc::EIO,
        }
    }
    fn constant(&self) -> Option<&'static CStr> {
        match self {
            RwLockError::WouldBlock => Some(c"the readers-writer lock is locked, or others wait for it"),
            RwLockError::Timeout => Some(c"timed out waiting for the readers-writer lock"),
            _ => None,
        }
    }
}

impl Coded for SelectError {
    fn code(&self) -> c_int {
        match self {
            SelectError::WouldBlock => libc::EAGAIN,
            SelectError::Timeout => libc::ETIMEDOUT,
            SelectError::Dead { .. } => libc::EIDRM,
            SelectError::Inherited { .. } => libc::EPERM,
            SelectError::TwoArenas { .. } => libc::EXDEV,
            SelectError::Nothing => libc::EINVAL,
            SelectError::Arena(e) => e.code(),
            SelectError::System(e) => system(e),
            _ => libc::EIO,
        }
    }
    fn constant(&self) -> Option<&'static CStr> {
        match self {
            SelectError::WouldBlock => Some(c"nothing to choose is ready"),
            SelectError::Timeout => Some(c"timed out waiting for a choice"),
            _ => None,
        }
    }
}

#[cfg(feature = "term")]
impl Coded for chappe::terminal::TerminalError {
    fn code(&self) -> c_int {
        use chappe::term::kill::KillError;
        use chappe::term::place::TermError;
        use chappe::term::typed::TypeError;
        use chappe::terminal::TerminalError;
        match self {
            TerminalError::Timeout(..) | TerminalError::Typing(_, TypeError::Unread { .. } | TypeError::Busy) => {
                libc::ETIMEDOUT
            }
            TerminalError::Over(..) | TerminalError::Typing(_, TypeError::Over) => libc::EPIPE,
            TerminalError::Expression(_) | TerminalError::Key(_) => libc::EINVAL,
            TerminalError::Command(_) => libc::ECHILD,
            TerminalError::Full(_) => libc::ENOSPC,
            TerminalError::Terminal(TermError::Missing(_)) => libc::ENOENT,
            TerminalError::Terminal(TermError::NotYours(..)) | TerminalError::Typing(_, TypeError::NotYours) => {
                libc::EACCES
            }
            TerminalError::Terminal(TermError::InUse(_)) => libc::EBUSY,
            TerminalError::Terminal(TermError::Name(..)) => libc::EINVAL,
            TerminalError::Signal(KillError::Ended(_) | KillError::Gone(_)) => libc::ESRCH,
            TerminalError::Signal(KillError::Io { why: e, .. })
            | TerminalError::Terminal(TermError::Io(_, e))
            | TerminalError::Typing(_, TypeError::Io(e))
            | TerminalError::Io(_, e) => system(e),
            _ => libc::EIO,
        }
    }
}

impl Coded for named::TubeError {
    fn code(&self) -> c_int {
        match self {
            named::TubeError::Object(e) => e.code(),
            named::TubeError::OtherType { .. } | named::TubeError::OtherShape { .. } => libc::EPROTOTYPE,
            named::TubeError::Capacity { .. } | named::TubeError::Align { .. } | named::TubeError::Schema { .. } => {
                libc::EINVAL
            }
            named::TubeError::Single { .. } => libc::EBUSY,
            named::TubeError::Sealed { .. } => libc::ESHUTDOWN,
            named::TubeError::Dead { .. } => libc::EIDRM,
            _ => libc::EIO,
        }
    }
}

impl<M> Coded for named::NotSent<M> {
    fn code(&self) -> c_int {
        match self {
            named::NotSent::Full(_) => libc::EAGAIN,
            named::NotSent::Timeout(_) => libc::ETIMEDOUT,
            named::NotSent::Interrupted(_) => libc::EINTR,
            named::NotSent::Disconnected { .. } => libc::EPIPE,
            named::NotSent::Dead { .. } => libc::EIDRM,
            named::NotSent::TooLong { .. } | named::NotSent::TooShort { .. } => libc::EMSGSIZE,
            named::NotSent::Lost { .. } => libc::ESTALE,
            named::NotSent::Inherited { .. } => libc::EPERM,
            named::NotSent::Arena { source, .. } => source.code(),
            named::NotSent::System { source, .. } => system(source),
            _ => libc::EIO,
        }
    }
    fn constant(&self) -> Option<&'static CStr> {
        match self {
            named::NotSent::Full(_) => Some(c"the tube is full"),
            named::NotSent::Timeout(_) => Some(c"timed out waiting for room in the tube"),
            _ => None,
        }
    }
}

impl Coded for named::NotReceived {
    fn code(&self) -> c_int {
        match self {
            named::NotReceived::Empty => libc::EAGAIN,
            named::NotReceived::Timeout => libc::ETIMEDOUT,
            named::NotReceived::Interrupted => libc::EINTR,
            named::NotReceived::Disconnected { .. } => libc::EPIPE,
            named::NotReceived::SenderDied { .. } => libc::ECONNRESET,
            named::NotReceived::Dead { .. } => libc::EIDRM,
            named::NotReceived::Buffer { .. } => libc::EMSGSIZE,
            named::NotReceived::Lost { .. } => libc::ESTALE,
            named::NotReceived::Inherited { .. } => libc::EPERM,
            named::NotReceived::Arena(e) => e.code(),
            named::NotReceived::System(e) => system(e),
            _ => libc::EIO,
        }
    }
    fn constant(&self) -> Option<&'static CStr> {
        match self {
            named::NotReceived::Empty => Some(c"the tube is empty"),
            named::NotReceived::Timeout => Some(c"timed out waiting for a message"),
            _ => None,
        }
    }
}

/// An end of a tube of this process that has nobody at its other end.
const ALONE: &CStr = c"the tube's other end has gone";

impl<M> From<tube::TrySendError<M>> for Failure {
    fn from(e: tube::TrySendError<M>) -> Failure {
        if e.is_full() { named::NotSent::Full(()).into() } else { Failure::new(libc::EPIPE, ALONE) }
    }
}

impl<M> From<tube::SendTimeoutError<M>> for Failure {
    fn from(e: tube::SendTimeoutError<M>) -> Failure {
        if e.is_timeout() { named::NotSent::Timeout(()).into() } else { Failure::new(libc::EPIPE, ALONE) }
    }
}

impl<M> From<tube::SendError<M>> for Failure {
    fn from(_: tube::SendError<M>) -> Failure {
        Failure::new(libc::EPIPE, ALONE)
    }
}

impl From<tube::TryRecvError> for Failure {
    fn from(e: tube::TryRecvError) -> Failure {
        if e.is_empty() { named::NotReceived::Empty.into() } else { Failure::new(libc::EPIPE, ALONE) }
    }
}

impl From<tube::RecvTimeoutError> for Failure {
    fn from(e: tube::RecvTimeoutError) -> Failure {
        if e.is_timeout() { named::NotReceived::Timeout.into() } else { Failure::new(libc::EPIPE, ALONE) }
    }
}

impl From<tube::RecvError> for Failure {
    fn from(_: tube::RecvError) -> Failure {
        Failure::new(libc::EPIPE, ALONE)
    }
}

impl Coded for Plan9Error {
    fn code(&self) -> c_int {
        match self {
            Plan9Error::Interrupted => libc::EINTR,
            Plan9Error::Null | Plan9Error::Misaligned { .. } => libc::EFAULT,
            Plan9Error::Negative { .. } | Plan9Error::NegativeCount { .. } => libc::EINVAL,
            Plan9Error::NotLocked { .. } => libc::EPERM,
            Plan9Error::Overflow { .. } => libc::EOVERFLOW,
            _ => libc::EIO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        // SAFETY: the thread's last text, which ends in a 0.
        unsafe { CStr::from_ptr(last()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_is_an_answer() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let answered: c_int = answer(|| panic!("on purpose"));
        std::panic::set_hook(hook);
        assert_eq!(answered, -libc::EIO);
        assert!(text().contains("on purpose"), "{}", text());
    }

    #[test]
    fn a_long_text_is_cut_off_and_ends() {
        let said = "x".repeat(5000);
        assert_eq!(Failure::told(libc::EIO, &said).errno(), libc::EIO);
        assert_eq!(text(), said[..ROOM - 1]);
        assert_eq!(Failure::told(libc::EIO, "short").errno(), libc::EIO);
        assert_eq!(text(), "short");
    }

    #[test]
    fn an_arena_that_refuses_a_descriptors_thread_is_an_answer_of_its_own() {
        let full = ArenaError::MembersFull { name: "here".into(), capacity: 4 };
        let said = full.to_string();
        assert_eq!(Failure::from(io::Error::other(full)).errno(), libc::EUSERS);
        assert_eq!(text(), said);
        assert_eq!(Failure::from(io::Error::other("else")).errno(), libc::EIO);
        let not_ours = io::Error::new(io::ErrorKind::PermissionDenied, "the parent's");
        assert_eq!(Failure::from(not_ours).errno(), libc::EPERM);
    }

    #[test]
    fn not_now_is_never_the_systems() {
        let e = DownError::System(io::Error::from_raw_os_error(libc::EAGAIN));
        assert_eq!(Failure::from(e).errno(), libc::ENOMEM);
        assert_eq!(Failure::from(DownError::WouldBlock).errno(), libc::EAGAIN);
    }
}
