//! Buffered streams, as `include/chappe/stdio.h` has them.
//!
//! Paper: synthesis, 3.2.4 and 3.3.1 (figures 3.1 and 3.2, tables 3.1 and 3.2): a buffer's put without a comparison against its end, and
//! streams whose code is chosen when they are made.
//!
//! A buffer ends at a multiple of 64 KiB. `cputc` stores at `next`, steps it, and looks at its low 16 bits: 0 is the end. So it loads one
//! word where the C library's loads two. What a stream does beyond that is chosen by where `next` starts, not by a test for each byte:
//!
//! | kind | `next` | at the end |
//! |---|---|---|
//! | written, CBLOCK | the buffer's begin | all is written |
//! | written, CLINE and CNONE | the last byte, always | the byte goes to `line`, which is written if that was chosen |
//! | read | the first byte that was read: they lie at the buffer's end | more is read |
//!
//! **I1** Between calls, of a stream that is written: what was taken and not yet written is `line`, then the buffer from its begin to
//! `next` (CBLOCK), and nothing else. **I2** `next` never rests at the end of a buffer that is written: either it was written out, or the
//! last byte was given back to the caller. **I3** Of a stream that is read: what was read and not yet given is from `next` to the end.
//!
//! Open streams that are written are listed, so that exit(3) can write them out; the child of a fork forgets what its parent will write.

use crate::failure::{Answer, Failure, answer};
use chappe::forks::{Nest, Once};
use chappe::synth::{FIXED_BYTES, fixed};
use std::alloc::{Layout, alloc, dealloc};
use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_double, c_int, c_longlong, c_ulonglong, c_void};

const SIZE: usize = 1 << 16;
const LAYOUT: Layout = match Layout::from_size_align(SIZE, SIZE) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

/// How a stream is buffered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Block,
    Line,
    None,
    Read,
}

/// A stream. C sees the first word.
#[repr(C)]
pub struct Stream {
    next: *mut u8,
    /// The buffer, which ends `SIZE` further.
    base: *mut u8,
    fd: c_int,
    kind: Kind,
    /// Of `Read`: one byte a read(2).
    single: bool,
    eof: bool,
    error: c_int,
    /// What was taken of a stream that is not fully buffered.
    line: Vec<u8>,
}

/// Those that exit(3) writes out, by address. The C library's lock: the thread that locked it before a fork unlocks it in the child.
struct Open {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    all: UnsafeCell<Vec<usize>>,
}

// SAFETY: what is inside is touched under the lock.
unsafe impl Sync for Open {}

static OPEN: Open = Open { lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), all: UnsafeCell::new(Vec::new()) };
/// Not the standard library's: a child that was forked while another thread registers the handlers does it again, instead of waiting for it.
static ONCE: Once = Once::new();
/// Handlers that are registered twice so are called twice around a fork.
static NEST: Nest = Nest::new();

fn with_open<R>(act: impl FnOnce(&mut Vec<usize>) -> R) -> R {
    before_fork();
    // SAFETY: the lock is ours.
    let result = act(unsafe { &mut *OPEN.all.get() });
    after_fork();
    result
}

extern "C" fn before_fork() {
    if NEST.is_inner() {
        return;
    }
    // SAFETY: a lock of static storage.
    unsafe { libc::pthread_mutex_lock(OPEN.lock.get()) };
    NEST.begin();
}

extern "C" fn after_fork() {
    if NEST.end() {
        // SAFETY: this thread has locked it.
        unsafe { libc::pthread_mutex_unlock(OPEN.lock.get()) };
    }
}

extern "C" fn in_child() {
    if !NEST.end() {
        return;
    }
    // SAFETY: this thread has locked it, before the fork.
    unsafe { libc::pthread_mutex_unlock(OPEN.lock.get()) };
    with_open(|all| {
        for &one in all.iter() {
            // SAFETY: what is listed is open, and a child has one thread.
            unsafe { &mut *(one as *mut Stream) }.forget();
        }
    });
}

extern "C" fn at_exit() {
    with_open(|all| {
        for &one in all.iter() {
            // SAFETY: what is listed is open. Whether another thread writes to it beside exit(3) is the program's to know, as it is
            // with the C library's own streams.
            let _ = unsafe { &mut *(one as *mut Stream) }.flush();
        }
    });
}

/// Calls until no signal has come between.
fn again(mut call: impl FnMut() -> isize) -> Result<usize, c_int> {
    loop {
        match call() {
            n @ 0.. => return Ok(n.unsigned_abs()),
            _ => match std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) {
                libc::EINTR => {}
                errno => return Err(errno),
            },
        }
    }
}

/// Writes all of it, or says how much was written, and what was wrong.
fn written(fd: c_int, bytes: &[u8]) -> (usize, Result<(), c_int>) {
    let mut done = 0;
    while done < bytes.len() {
        let left = &bytes[done..];
        // SAFETY: bytes of ours.
        match again(|| unsafe { libc::write(fd, left.as_ptr().cast(), left.len()) }) {
            Ok(n) => done += n,
            Err(errno) => return (done, Err(errno)),
        }
    }
    (done, Ok(()))
}

impl Stream {
    /// Where the buffer ends.
    fn end(&self) -> *mut u8 {
        self.base.wrapping_add(SIZE)
    }

    /// Where `next` rests.
    fn rest(&self) -> *mut u8 {
        match self.kind {
            Kind::Block => self.base,
            Kind::Line | Kind::None => self.end().wrapping_sub(1),
            Kind::Read => self.end(),
        }
    }

    /// Takes note of an error; its text is the thread's last.
    fn failed<R>(&mut self, errno: c_int) -> Answer<R> {
        self.error = errno;
        let what = if self.kind == Kind::Read { "cannot read from" } else { "cannot write to" };
        let why = std::io::Error::from_raw_os_error(errno);
        Err(Failure::told(errno, format_args!("{what} descriptor {}: {why}; nothing is lost: try again", self.fd)))
    }

    fn is(&mut self, kind_is_read: bool) -> Answer<()> {
        if (self.kind == Kind::Read) == kind_is_read {
            return Ok(());
        }
        self.error = libc::EBADF;
        let text = if kind_is_read { c"the stream was made to be written" } else { c"the stream was made to be read" };
        Err(Failure::new(libc::EBADF, text))
    }

    /// I1: writes all of it.
    fn flush(&mut self) -> Result<(), c_int> {
        let (n, result) = written(self.fd, &self.line);
        self.line.drain(..n);
        result?;
        if self.kind == Kind::Block {
            let filled = self.next.addr() - self.base.addr();
            // SAFETY: the buffer's begin, which is written up to `next`.
            let bytes = unsafe { std::slice::from_raw_parts_mut(self.base, filled) };
            let (n, result) = written(self.fd, bytes);
            bytes.copy_within(n.., 0);
            self.next = self.base.wrapping_add(filled - n);
            result?;
        }
        Ok(())
    }

    /// What the parent of a fork will write.
    fn forget(&mut self) {
        self.line.clear();
        self.next = self.rest();
    }

    /// The buffer is full, or the stream is not fully buffered: its last byte is the one that was put.
    fn full(&mut self) -> Answer<u8> {
        // SAFETY: the buffer's last byte, which the caller has just written.
        let byte = unsafe { *self.end().wrapping_sub(1) };
        if self.kind == Kind::Read {
            // What was to be read is written over: there was nothing left, or this byte was the last, which is lost by the misuse alone.
            self.next = self.end();
            self.is(false)?;
        }
        if self.kind == Kind::Block {
            return match self.flush() {
                Ok(()) => Ok(byte),
                // It may have made room all the same: then the byte is taken.
                Err(_) if self.next != self.end() => Ok(byte),
                // I2.
                Err(errno) => {
                    self.next = self.end().wrapping_sub(1);
                    self.failed(errno)
                }
            };
        }
        self.next = self.rest();
        if self.line.len() >= SIZE {
            // What could not be written before.
            if let Err(errno) = self.flush() {
                return self.failed(errno);
            }
        }
        self.line.push(byte);
        if self.kind == Kind::None || byte == b'\n' || self.line.len() >= SIZE {
            // The byte is taken: what cannot be written now stays, and the error is said by the next that has no room, or by cflush.
            if let Err(errno) = self.flush() {
                self.error = errno;
                if self.kind == Kind::None {
                    self.line.pop();
                    return self.failed(errno);
                }
            }
        }
        Ok(byte)
    }

    /// Reads more: false at the end.
    fn fill(&mut self) -> Answer<bool> {
        // Never all of the buffer: its begin is an end, too.
        let most = if self.single { 1 } else { SIZE - 1 };
        let into = self.base.wrapping_add(1);
        // SAFETY: room of the buffer.
        match again(|| unsafe { libc::read(self.fd, into.cast(), most) }) {
            Ok(0) => {
                self.eof = true;
                Ok(false)
            }
            Ok(n) => {
                self.next = self.end().wrapping_sub(n);
                // SAFETY: both within the buffer. I3.
                unsafe { std::ptr::copy(into, self.next, n) };
                Ok(true)
            }
            Err(errno) => self.failed(errno),
        }
    }

    fn take(&mut self) -> Answer<Option<u8>> {
        self.is(true)?;
        if self.next == self.end() && !self.fill()? {
            return Ok(None);
        }
        // SAFETY: by I3 a byte that was read lies there.
        let byte = unsafe { *self.next };
        self.next = self.next.wrapping_add(1);
        Ok(Some(byte))
    }

    fn put(&mut self, byte: u8) -> Answer<u8> {
        self.is(false)?;
        // SAFETY: by I2 the buffer has room there.
        unsafe { *self.next = byte };
        self.next = self.next.wrapping_add(1);
        if self.next == self.end() { self.full() } else { Ok(byte) }
    }
}

fn stream<'a>(f: *mut Stream) -> Answer<&'a mut Stream> {
    // SAFETY: the caller's promise: NULL, or a stream that is open and that no other thread uses now.
    unsafe { f.as_mut() }.ok_or_else(|| Failure::new(libc::EINVAL, c"NULL is no stream: see what cfdopen said"))
}

/// Answers as C's streams do.
fn answered<R>(failed: R, act: impl FnOnce() -> Answer<R>) -> R {
    let mut result = None;
    let errno = -answer(|| {
        result = Some(act()?);
        Ok(0)
    });
    match result {
        Some(result) if errno == 0 => result,
        _ => {
            // SAFETY: the thread's own.
            unsafe { *libc::__errno_location() = errno };
            failed
        }
    }
}

fn made(fd: c_int, mode: *const c_char, buffering: c_int) -> Answer<*mut Stream> {
    // SAFETY: the caller's promise: NULL, or a text.
    let mode = (!mode.is_null()).then(|| unsafe { CStr::from_ptr(mode) }.to_bytes());
    let kind = match (mode.and_then(|m| m.first()), buffering) {
        (Some(b'r'), 0..=2) => Kind::Read,
        (Some(b'w' | b'a'), 0) => Kind::Block,
        (Some(b'w' | b'a'), 1) => Kind::Line,
        (Some(b'w' | b'a'), 2) => Kind::None,
        (_, 0..=2) => return Err(Failure::new(libc::EINVAL, c"the mode of a stream is \"r\" or \"w\"")),
        _ => return Err(Failure::new(libc::EINVAL, c"the buffering of a stream is CBLOCK, CLINE or CNONE")),
    };
    // SAFETY: a plain call.
    if unsafe { libc::fcntl(fd, libc::F_GETFL) } < 0 {
        return Err(Failure::told(libc::EBADF, format_args!("{fd} is no open descriptor")));
    }
    // SAFETY: not of size 0.
    let base = unsafe { alloc(LAYOUT) };
    if base.is_null() {
        return Err(Failure::new(libc::ENOMEM, c"no memory for the 64 KiB of a stream"));
    }
    let mut made =
        Box::new(Stream { next: base, base, fd, kind, single: buffering == 2, eof: false, error: 0, line: Vec::new() });
    made.next = made.rest();
    ONCE.call(|| {
        // SAFETY: functions of this library, which is never unloaded once it has made a stream.
        unsafe {
            libc::atexit(at_exit);
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child));
        }
    });
    let made = Box::into_raw(made);
    if kind != Kind::Read {
        with_open(|all| all.push(made.addr()));
    }
    Ok(made)
}

/// `cfdopen`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cfdopen(fd: c_int, mode: *const c_char, buffering: c_int) -> *mut Stream {
    answered(std::ptr::null_mut(), || made(fd, mode, buffering))
}

/// What `cputc` calls at the buffer's end.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cputc_slow(f: *mut Stream) -> c_int {
    answered(-1, || Ok(stream(f)?.full()?.into()))
}

/// What `cgetc` calls when nothing is left.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cgetc_slow(f: *mut Stream) -> c_int {
    answered(-1, || Ok(stream(f)?.take()?.map_or(-1, c_int::from)))
}

/// `cputc`, as a function.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cputc(c: c_int, f: *mut Stream) -> c_int {
    answered(-1, || Ok(stream(f)?.put(c.to_le_bytes()[0])?.into()))
}

/// `cgetc`, as a function.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cgetc(f: *mut Stream) -> c_int {
    answered(-1, || Ok(stream(f)?.take()?.map_or(-1, c_int::from)))
}

/// `cungetc`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cungetc(c: c_int, f: *mut Stream) -> c_int {
    answered(-1, || {
        let f = stream(f)?;
        f.is(true)?;
        if c < 0 || f.next.addr() <= f.base.addr() + 1 {
            return Err(Failure::new(libc::EINVAL, c"there is no room in front, or nothing to put back"));
        }
        f.next = f.next.wrapping_sub(1);
        // SAFETY: within the buffer.
        unsafe { *f.next = c.to_le_bytes()[0] };
        f.eof = false;
        Ok(c)
    })
}

/// `cwrite`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cwrite(from: *const c_void, bytes: usize, f: *mut Stream) -> usize {
    let mut done = 0;
    answered((), || {
        let f = stream(f)?;
        f.is(false)?;
        if from.is_null() && bytes > 0 {
            return Err(Failure::new(libc::EINVAL, c"NULL has no bytes to write"));
        }
        while done < bytes {
            // SAFETY: the caller's promise: so many bytes lie there.
            let left = unsafe { std::slice::from_raw_parts(from.cast::<u8>().add(done), bytes - done) };
            if f.kind == Kind::Block {
                // All but the last byte of the room goes at once; the last one by way of `put`, which writes out.
                let room = f.end().addr() - f.next.addr() - 1;
                let now = room.min(left.len());
                // SAFETY: room of the buffer.
                unsafe { std::ptr::copy_nonoverlapping(left.as_ptr(), f.next, now) };
                f.next = f.next.wrapping_add(now);
                done += now;
                if now == left.len() {
                    break;
                }
            }
            // SAFETY: as above.
            f.put(unsafe { *from.cast::<u8>().add(done) })?;
            done += 1;
        }
        Ok(())
    });
    done
}

/// Puts a text of this library's own: how many bytes.
fn put_all(f: *mut Stream, text: &[u8]) -> c_int {
    if chappe_cwrite(text.as_ptr().cast(), text.len(), f) == text.len() { text.len() as c_int } else { -1 }
}

/// `%d` of `cprintf`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cput_integer(number: c_longlong, f: *mut Stream) -> c_int {
    put_all(f, itoa::Buffer::new().format(number).as_bytes())
}

/// `%u` of `cprintf`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cput_unsigned(number: c_ulonglong, f: *mut Stream) -> c_int {
    put_all(f, itoa::Buffer::new().format(number).as_bytes())
}

/// `cput_fixed`, and `%f` of `cprintf`: synthesis, 7.4.1.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cput_fixed(number: c_double, places: c_int, f: *mut Stream) -> c_int {
    let mut room = [0; FIXED_BYTES];
    // SAFETY: the C library's text of the locale, which a thread that changes the locale meanwhile must not do by C's rules.
    let is_point = unsafe { CStr::from_ptr(libc::nl_langinfo(libc::RADIXCHAR)) } == c".";
    if let Ok(places) = u32::try_from(places)
        && is_point
        && let Some(text) = fixed(number, places, &mut room)
    {
        return put_all(f, text);
    }
    // What fixed-point arithmetic cannot do, the C library does: without limit, and by the locale.
    let mut text: Vec<u8> = vec![0; 400];
    loop {
        // SAFETY: room of that size; the format has a number and a double.
        let bytes = unsafe { libc::snprintf(text.as_mut_ptr().cast(), text.len(), c"%.*f".as_ptr(), places, number) };
        match usize::try_from(bytes) {
            Ok(bytes) if bytes < text.len() => return put_all(f, &text[..bytes]),
            Ok(bytes) => text.resize(bytes + 1, 0),
            Err(_) => return answered(-1, || Err(Failure::new(libc::EOVERFLOW, c"so many places are no text"))),
        }
    }
}

/// `cread`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cread(into: *mut c_void, bytes: usize, f: *mut Stream) -> usize {
    let mut done = 0;
    answered((), || {
        let f = stream(f)?;
        f.is(true)?;
        if into.is_null() && bytes > 0 {
            return Err(Failure::new(libc::EINVAL, c"NULL has no room for what is read"));
        }
        while done < bytes {
            if f.next == f.end() && !f.fill()? {
                break;
            }
            let now = (f.end().addr() - f.next.addr()).min(bytes - done);
            // SAFETY: the caller's promise: so much room lies there; and I3.
            unsafe { std::ptr::copy_nonoverlapping(f.next, into.cast::<u8>().add(done), now) };
            f.next = f.next.wrapping_add(now);
            done += now;
        }
        Ok(())
    });
    done
}

/// `cflush`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cflush(f: *mut Stream) -> c_int {
    answered(-1, || {
        let f = stream(f)?;
        f.is(false)?;
        match f.flush() {
            Ok(()) => Ok(0),
            Err(errno) => f.failed(errno),
        }
    })
}

/// `cclose`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cclose(f: *mut Stream) -> c_int {
    answered(-1, || {
        stream(f)?;
        with_open(|all| all.retain(|&one| one != f.addr()));
        // SAFETY: `made` has boxed it, and the caller gives it back.
        let mut f = unsafe { Box::from_raw(f) };
        let flushed = if f.kind == Kind::Read { Ok(()) } else { f.flush() };
        // SAFETY: the stream's own descriptor and buffer.
        let closed = unsafe {
            dealloc(f.base, LAYOUT);
            libc::close(f.fd)
        };
        let failed =
            flushed.err().or_else(|| (closed < 0).then(|| std::io::Error::last_os_error().raw_os_error()).flatten());
        match failed {
            None => Ok(0),
            Some(errno) => {
                let why = std::io::Error::from_raw_os_error(errno);
                Err(Failure::told(errno, format_args!("descriptor {} is closed, but not all was written: {why}", f.fd)))
            }
        }
    })
}

/// `ceof`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_ceof(f: *const Stream) -> c_int {
    answered(0, || Ok(stream(f.cast_mut())?.eof.into()))
}

/// `cerror`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cerror(f: *const Stream) -> c_int {
    answered(libc::EINVAL, || Ok(stream(f.cast_mut())?.error))
}

/// `cclearerr`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_cclearerr(f: *mut Stream) {
    answered((), || {
        let f = stream(f)?;
        (f.eof, f.error) = (false, 0);
        Ok(())
    });
}
