//! Clients of a JACK server: the few calls of its library that a player and a recorder need.
//!
//! The library is loaded when the first client is opened.
//!
//! The server calls [`Handler::period`] once a period, on a thread with real-time priority: it must neither wait nor allocate memory. Other
//! notices of the server are kept in [`Signals`], for the client's user.
//!
//! I1: a handler lives as long as its client: the client is closed, so that no thread of the library calls it any more, before the handler
//! is freed.

use super::atomic::{AtomicU32, AtomicU64, Ordering};
use super::loaded::library;
use crate::Made;
use std::ffi::{CStr, CString, c_char, c_int, c_ulong, c_void};
use std::marker::PhantomData;
use std::sync::Arc;

#[repr(C)]
struct RawClient {
    _private: [u8; 0],
}

#[repr(C)]
struct RawPort {
    _private: [u8; 0],
}

const NO_START: c_int = 1;
const SERVER_FAILED: c_int = 0x10;
const IS_INPUT: c_ulong = 1;
const IS_OUTPUT: c_ulong = 2;
const IS_PHYSICAL: c_ulong = 4;
const AUDIO: &CStr = c"32 bit float mono audio";

type OnNumber = extern "C" fn(u32, *mut c_void) -> c_int;

library! {
    "libjack.so.0";
    jack_client_open: unsafe extern "C" fn(*const c_char, c_int, *mut c_int, ...) -> *mut RawClient,
    jack_client_close: unsafe extern "C" fn(*mut RawClient) -> c_int,
    jack_activate: unsafe extern "C" fn(*mut RawClient) -> c_int,
    jack_get_sample_rate: unsafe extern "C" fn(*mut RawClient) -> u32,
    jack_get_buffer_size: unsafe extern "C" fn(*mut RawClient) -> u32,
    jack_set_process_callback: unsafe extern "C" fn(*mut RawClient, OnNumber, *mut c_void) -> c_int,
    jack_set_sample_rate_callback: unsafe extern "C" fn(*mut RawClient, OnNumber, *mut c_void) -> c_int,
    jack_set_xrun_callback: unsafe extern "C" fn(*mut RawClient, extern "C" fn(*mut c_void) -> c_int, *mut c_void) -> c_int,
    jack_on_shutdown: unsafe extern "C" fn(*mut RawClient, extern "C" fn(*mut c_void), *mut c_void),
    jack_port_register: unsafe extern "C" fn(*mut RawClient, *const c_char, *const c_char, c_ulong, c_ulong) -> *mut RawPort,
    jack_port_name: unsafe extern "C" fn(*const RawPort) -> *const c_char,
    jack_port_get_buffer: unsafe extern "C" fn(*mut RawPort, u32) -> *mut c_void,
    jack_get_ports: unsafe extern "C" fn(*mut RawClient, *const c_char, *const c_char, c_ulong) -> *mut *const c_char,
    jack_connect: unsafe extern "C" fn(*mut RawClient, *const c_char, *const c_char) -> c_int,
    jack_free: unsafe extern "C" fn(*mut c_void),
    jack_set_error_function: unsafe extern "C" fn(extern "C" fn(*const c_char)),
    jack_set_info_function: unsafe extern "C" fn(extern "C" fn(*const c_char)),
}

extern "C" fn silent(_: *const c_char) {}

fn loaded() -> Result<&'static Library, String> {
    static LIBRARY: Made<Result<Library, String>> = Made::new();
    let loaded = LIBRARY.get_or(|| {
        let library = Library::load()?;
        // SAFETY: takes functions that live for ever. What the library would print, our errors say.
        unsafe {
            (library.jack_set_error_function)(silent);
            (library.jack_set_info_function)(silent);
        }
        Ok(library)
    });
    loaded.as_ref().map_err(Clone::clone)
}

/// Why there is no client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The library cannot be loaded: why.
    Library(String),
    /// There is no server, or it does not answer.
    NoServer,
    /// The server refuses: its status bits.
    Status(i32),
    /// A name with a zero in it, or too many ports.
    Name(String),
}

/// Which way sound goes through a port of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From this program to the server.
    Plays,
    /// From the server to this program.
    Records,
}

/// What the server has told.
#[derive(Debug, Default)]
pub struct Signals {
    /// 1 once the server has ended, or has put this client out.
    pub gone: AtomicU32,
    /// How often a client was late.
    pub xruns: AtomicU64,
    /// Frames a second.
    pub rate: AtomicU64,
}

/// Something that is called once a period.
pub trait Handler: Send {
    /// A period: fills what is played, or reads what was recorded. Must not wait.
    fn period(&mut self, period: &mut Period<'_>);
}

/// One period, on the server's thread.
pub struct Period<'a> {
    frames: u32,
    way: Way,
    ports: &'a [*mut RawPort],
    library: &'static Library,
    only_here: PhantomData<*mut ()>,
}

impl std::fmt::Debug for Period<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Period").field("frames", &self.frames).field("way", &self.way).finish_non_exhaustive()
    }
}

impl Period<'_> {
    /// How many frames.
    pub fn frames(&self) -> usize {
        self.frames as usize
    }

    fn buffer(&self, port: usize) -> *mut f32 {
        // SAFETY: the port is the client's, which is open while its handler is called.
        unsafe { (self.library.jack_port_get_buffer)(self.ports[port], self.frames) }.cast()
    }

    /// What a port plays.
    ///
    /// # Panics
    /// If the client records, or has no such port.
    pub fn output(&mut self, port: usize) -> &mut [f32] {
        assert_eq!(self.way, Way::Plays, "a client that records has no outputs");
        // SAFETY: the library gives each output port a buffer of this length until the period's end, which this borrow does not outlive; the client has no
        // inputs, which alone could share it.
        unsafe { std::slice::from_raw_parts_mut(self.buffer(port), self.frames()) }
    }

    /// What a port has recorded.
    ///
    /// # Panics
    /// If the client plays, or has no such port.
    pub fn input(&self, port: usize) -> &[f32] {
        assert_eq!(self.way, Way::Records, "a client that plays has no inputs");
        // SAFETY: the library gives each input port a buffer of this length until the period's end, which nobody writes meanwhile.
        unsafe { std::slice::from_raw_parts(self.buffer(port), self.frames()) }
    }
}

struct Called {
    handler: Box<dyn Handler>,
    ports: Vec<*mut RawPort>,
    way: Way,
    library: &'static Library,
}

extern "C" fn on_period(frames: u32, called: *mut c_void) -> c_int {
    // SAFETY: I1; only this thread calls this, one period after the other, and nobody else has the box meanwhile.
    let Called { handler, ports, way, library } = unsafe { &mut *called.cast::<Called>() };
    let mut period = Period { frames, way: *way, ports, library, only_here: PhantomData };
    // A panic must not go through the library: the server then plays silence, and drops the client.
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handler.period(&mut period)));
    c_int::from(done.is_err())
}

fn signals<'a>(at: *mut c_void) -> &'a Signals {
    // SAFETY: I1 of the signals: the client holds a reference to them until it is closed.
    unsafe { &*at.cast::<Signals>() }
}

extern "C" fn on_rate(rate: u32, at: *mut c_void) -> c_int {
    // Relaxed: flags and counts that are looked at again; so below.
    signals(at).rate.store(rate.into(), Ordering::Relaxed);
    0
}

extern "C" fn on_xrun(at: *mut c_void) -> c_int {
    // Relaxed: a count that is looked at again.
    signals(at).xruns.fetch_add(1, Ordering::Relaxed);
    0
}

extern "C" fn on_shutdown(at: *mut c_void) {
    // Relaxed: a flag that is looked at again.
    signals(at).gone.store(1, Ordering::Relaxed);
}

/// A client of the server that JACK_DEFAULT_SERVER names. It is closed when this is dropped, which waits for the period that runs.
pub struct Client {
    library: &'static Library,
    raw: *mut RawClient,
    ports: Vec<*mut RawPort>,
    way: Way,
    signals: Arc<Signals>,
    called: Option<*mut Called>,
}

// SAFETY: the library's calls may come from any thread.
unsafe impl Send for Client {}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("ports", &self.port_names()).field("signals", &self.signals).finish()
    }
}

fn text(text: &str) -> Result<CString, Refused> {
    CString::new(text).map_err(|_| Refused::Name(text.to_owned()))
}

impl Client {
    /// Opens one that plays or records, by this name, with so many ports. Blocks while the server answers.
    ///
    /// # Errors
    /// There is no library, no server, or it refuses.
    pub fn open(name: &str, way: Way, channels: usize) -> Result<Client, Refused> {
        let library = loaded().map_err(Refused::Library)?;
        let (name, mut status) = (text(name)?, 0);
        // SAFETY: a text and a place for the status; no options that ask for more values.
        let raw = unsafe { (library.jack_client_open)(name.as_ptr(), NO_START, &raw mut status) };
        if raw.is_null() {
            return Err(if status & SERVER_FAILED != 0 { Refused::NoServer } else { Refused::Status(status) });
        }
        let mut client =
            Client { library, raw, ports: Vec::new(), way, signals: Arc::new(Signals::default()), called: None };
        let at = Arc::as_ptr(&client.signals).cast_mut().cast::<c_void>();
        // SAFETY: the client is open, and not active; the signals live until it is closed.
        unsafe {
            (library.jack_set_sample_rate_callback)(raw, on_rate, at);
            (library.jack_set_xrun_callback)(raw, on_xrun, at);
            (library.jack_on_shutdown)(raw, on_shutdown, at);
        }
        let (word, flag) = if way == Way::Plays { ("out", IS_OUTPUT) } else { ("in", IS_INPUT) };
        for at in 1..=channels {
            let name = text(&format!("{word}_{at}"))?;
            // SAFETY: the client is open; two texts, and no buffer size of our own.
            let port = unsafe { (library.jack_port_register)(raw, name.as_ptr(), AUDIO.as_ptr(), flag, 0) };
            if port.is_null() {
                return Err(Refused::Name(format!("port {word}_{at} of {channels}")));
            }
            client.ports.push(port);
        }
        Ok(client)
    }

    /// Frames a second.
    pub fn rate(&self) -> u32 {
        // SAFETY: the client is open.
        unsafe { (self.library.jack_get_sample_rate)(self.raw) }
    }

    /// Frames of a period.
    pub fn period(&self) -> u32 {
        // SAFETY: the client is open.
        unsafe { (self.library.jack_get_buffer_size)(self.raw) }
    }

    /// What the server tells.
    pub fn signals(&self) -> Arc<Signals> {
        Arc::clone(&self.signals)
    }

    /// This client's ports, as the server calls them.
    pub fn port_names(&self) -> Vec<String> {
        let name = |port: &*mut RawPort| {
            // SAFETY: the port is ours, and the library keeps its name while it is registered.
            unsafe { CStr::from_ptr((self.library.jack_port_name)(*port)) }.to_string_lossy().into_owned()
        };
        self.ports.iter().map(name).collect()
    }

    /// The card's ports that ours can be connected to.
    pub fn card_ports(&self) -> Vec<String> {
        let flags = IS_PHYSICAL | if self.way == Way::Plays { IS_INPUT } else { IS_OUTPUT };
        // SAFETY: the client is open; no pattern, a type, flags.
        let all = unsafe { (self.library.jack_get_ports)(self.raw, std::ptr::null(), AUDIO.as_ptr(), flags) };
        let mut names = Vec::new();
        if !all.is_null() {
            // SAFETY: a list of texts that ends with a null, which is ours to free.
            unsafe {
                let mut at = all;
                while !(*at).is_null() {
                    names.push(CStr::from_ptr(*at).to_string_lossy().into_owned());
                    at = at.add(1);
                }
                (self.library.jack_free)(all.cast());
            }
        }
        names
    }

    /// Connects a port of ours with another; only while the client is active.
    ///
    /// # Errors
    /// The server's number: there is no such port, or it is of another type.
    pub fn connect(&self, ours: &str, theirs: &str) -> Result<(), i32> {
        let (from, to) = if self.way == Way::Plays { (ours, theirs) } else { (theirs, ours) };
        let (Ok(from), Ok(to)) = (text(from), text(to)) else { return Err(libc::EINVAL) };
        // SAFETY: the client is open; two texts.
        match unsafe { (self.library.jack_connect)(self.raw, from.as_ptr(), to.as_ptr()) } {
            // They are connected already.
            0 | libc::EEXIST => Ok(()),
            e => Err(e),
        }
    }

    /// From now on the handler is called, once a period.
    ///
    /// # Errors
    /// The server does not begin, or has been asked before.
    pub fn activate(&mut self, handler: Box<dyn Handler>) -> Result<(), i32> {
        if self.called.is_some() {
            return Err(libc::EALREADY);
        }
        let called = Called { handler, ports: self.ports.clone(), way: self.way, library: self.library };
        let called = Box::into_raw(Box::new(called));
        self.called = Some(called);
        // SAFETY: the client is open; the box lives until it is closed (I1).
        let done = unsafe {
            (self.library.jack_set_process_callback)(self.raw, on_period, called.cast());
            (self.library.jack_activate)(self.raw)
        };
        if done == 0 { Ok(()) } else { Err(done) }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: the client is open, and nobody uses it any more; with it end the threads that call the handler, and only then the box is freed (I1).
        unsafe {
            (self.library.jack_client_close)(self.raw);
            if let Some(called) = self.called.take() {
                drop(Box::from_raw(called));
            }
        }
    }
}
