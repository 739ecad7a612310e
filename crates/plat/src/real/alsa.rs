//! Sound cards by the ALSA library: the few calls that a player and a recorder need.
//!
//! The library is loaded when the first card is opened. A [`Pcm`] is one card, one way, open by one thread at a time. Nothing here waits but
//! [`Pcm::wait`], and [`Pcm::open`] for as long as the card's driver does: reads and writes move what there is room for, and say how much.
//!
//! Errors are the library's: numbers of errno(3). EPIPE: the card had nothing to play, or no room to record into; ESTRPIPE: the machine
//! slept. After these [`Pcm::recover`] goes on.

use super::loaded::library;
use crate::Made;
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::time::Duration;

#[repr(C)]
struct RawPcm {
    _private: [u8; 0],
}

/// What a card is asked for: of its hardware, or of its buffer.
#[repr(C)]
struct RawParams {
    _private: [u8; 0],
}

const NONBLOCK: c_int = 1;
const INTERLEAVED: c_int = 3;
/// A card that stands, and has data: [`Pcm::start`] starts it.
const PREPARED: c_int = 2;

type Set = unsafe extern "C" fn(*mut RawPcm, *mut RawParams, c_int) -> c_int;
type Near = unsafe extern "C" fn(*mut RawPcm, *mut RawParams, *mut c_uint, *mut c_int) -> c_int;
type Quiet = unsafe extern "C" fn(*const c_char, c_int, *const c_char, c_int, *const c_char, ...);

library! {
    "libasound.so.2";
    snd_lib_error_set_handler: unsafe extern "C" fn(Option<Quiet>) -> c_int,
    snd_pcm_open: unsafe extern "C" fn(*mut *mut RawPcm, *const c_char, c_int, c_int) -> c_int,
    snd_pcm_close: unsafe extern "C" fn(*mut RawPcm) -> c_int,
    snd_pcm_hw_params_malloc: unsafe extern "C" fn(*mut *mut RawParams) -> c_int,
    snd_pcm_hw_params_free: unsafe extern "C" fn(*mut RawParams),
    snd_pcm_hw_params_any: unsafe extern "C" fn(*mut RawPcm, *mut RawParams) -> c_int,
    snd_pcm_hw_params_set_access: Set,
    snd_pcm_hw_params_set_format: Set,
    snd_pcm_hw_params_set_channels: Set,
    snd_pcm_hw_params_set_rate_near: Near,
    snd_pcm_hw_params_set_buffer_time_near: Near,
    snd_pcm_hw_params: unsafe extern "C" fn(*mut RawPcm, *mut RawParams) -> c_int,
    snd_pcm_hw_params_get_buffer_size: unsafe extern "C" fn(*const RawParams, *mut c_ulong) -> c_int,
    snd_pcm_sw_params_malloc: unsafe extern "C" fn(*mut *mut RawParams) -> c_int,
    snd_pcm_sw_params_free: unsafe extern "C" fn(*mut RawParams),
    snd_pcm_sw_params_current: unsafe extern "C" fn(*mut RawPcm, *mut RawParams) -> c_int,
    snd_pcm_sw_params_set_start_threshold: unsafe extern "C" fn(*mut RawPcm, *mut RawParams, c_ulong) -> c_int,
    snd_pcm_sw_params: unsafe extern "C" fn(*mut RawPcm, *mut RawParams) -> c_int,
    snd_pcm_writei: unsafe extern "C" fn(*mut RawPcm, *const c_void, c_ulong) -> c_long,
    snd_pcm_readi: unsafe extern "C" fn(*mut RawPcm, *mut c_void, c_ulong) -> c_long,
    snd_pcm_wait: unsafe extern "C" fn(*mut RawPcm, c_int) -> c_int,
    snd_pcm_recover: unsafe extern "C" fn(*mut RawPcm, c_int, c_int) -> c_int,
    snd_pcm_start: unsafe extern "C" fn(*mut RawPcm) -> c_int,
    snd_pcm_state: unsafe extern "C" fn(*mut RawPcm) -> c_int,
    snd_pcm_delay: unsafe extern "C" fn(*mut RawPcm, *mut c_long) -> c_int,
    snd_strerror: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// Takes what the library would print, which our errors say. The values behind the text are not read.
extern "C" fn quiet(_: *const c_char, _: c_int, _: *const c_char, _: c_int, _: *const c_char) {}

fn loaded() -> Result<&'static Library, String> {
    static LIBRARY: Made<Result<Library, String>> = Made::new();
    let loaded = LIBRARY.get_or(|| {
        let library = Library::load()?;
        type Fixed = extern "C" fn(*const c_char, c_int, *const c_char, c_int, *const c_char);
        // SAFETY: a function of the C convention that ignores further values may be called with them; it lives for ever.
        unsafe {
            let quiet = std::mem::transmute::<Fixed, Quiet>(quiet);
            (library.snd_lib_error_set_handler)(Some(quiet));
        }
        Ok(library)
    });
    loaded.as_ref().map_err(Clone::clone)
}

/// How a sample lies in memory, least byte first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// 16 bits, signed.
    I16,
    /// 32 bits, signed.
    I32,
    /// 32 bits, from -1 to 1.
    F32,
}

impl Format {
    /// The library's number for it.
    fn number(self) -> c_int {
        match self {
            Format::I16 => 2,
            Format::I32 => 10,
            Format::F32 => 14,
        }
    }

    /// Bytes of a sample.
    pub fn bytes(self) -> usize {
        if self == Format::I16 { 2 } else { 4 }
    }
}

/// Which way sound goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the card.
    Plays,
    /// From the card.
    Records,
}

/// What is asked of a card.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    /// Its name: `default`, `hw:0`, `plughw:1,0`, `null`.
    pub name: String,
    /// Which way.
    pub way: Way,
    /// Samples of a frame.
    pub channels: u32,
    /// Frames a second.
    pub rate: u32,
    /// The first of these that it has is taken.
    pub formats: [Format; 3],
    /// How far it may be ahead, or behind.
    pub buffer: Duration,
}

/// Why a card is not open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The library cannot be loaded: why.
    Library(String),
    /// The number and text of the library's error: ENOENT, there is none of that name; EBUSY, another program has it.
    Error(i32, String),
    /// It has none of the formats.
    Format,
    /// It has not so many channels.
    Channels,
    /// It has another rate, of which this is the nearest.
    Rate(u32),
}

/// Memory of the library's for what is asked of a card.
struct Params {
    raw: *mut RawParams,
    free: unsafe extern "C" fn(*mut RawParams),
}

impl Params {
    fn new(
        make: unsafe extern "C" fn(*mut *mut RawParams) -> c_int,
        free: unsafe extern "C" fn(*mut RawParams),
    ) -> Result<Params, c_int> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a place for the pointer.
        match unsafe { make(&raw mut raw) } {
            e if e < 0 => Err(e),
            _ => Ok(Params { raw, free }),
        }
    }
}

impl Drop for Params {
    fn drop(&mut self) {
        // SAFETY: it was made by the pair of this call, and is used no more.
        unsafe { (self.free)(self.raw) }
    }
}

/// An open card, one way. It is closed when this is dropped: what was not played by then is not.
pub struct Pcm {
    library: &'static Library,
    raw: *mut RawPcm,
    format: Format,
    frame: usize,
    buffer: u64,
}

// SAFETY: the library's calls may come from any thread, one at a time, which `&mut self` sees to.
unsafe impl Send for Pcm {}

impl std::fmt::Debug for Pcm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pcm").field("format", &self.format).field("buffer", &self.buffer).finish_non_exhaustive()
    }
}

impl Pcm {
    /// Opens a card, which stands then: a player starts when its buffer is nearly full, or by [`Pcm::start`].
    ///
    /// # Errors
    /// There is no library, no such card, another program has it, or it cannot do what is wanted.
    pub fn open(wanted: &Wanted) -> Result<Pcm, Refused> {
        let library = loaded().map_err(Refused::Library)?;
        let error = |e: c_int| {
            // SAFETY: the library has a text for each number.
            let text = unsafe { CStr::from_ptr((library.snd_strerror)(e)) };
            Refused::Error(-e, text.to_string_lossy().into_owned())
        };
        let name = CString::new(wanted.name.as_str()).map_err(|_| error(-libc::ENOENT))?;
        let (mut raw, way) = (std::ptr::null_mut(), c_int::from(wanted.way == Way::Records));
        // SAFETY: a place for the card, and a text.
        let opened = unsafe { (library.snd_pcm_open)(&raw mut raw, name.as_ptr(), way, NONBLOCK) };
        if opened < 0 {
            return Err(error(opened));
        }
        let mut pcm = Pcm { library, raw, format: wanted.formats[0], frame: 0, buffer: 0 };
        pcm.set(wanted, &error)?;
        Ok(pcm)
    }

    fn set(&mut self, wanted: &Wanted, error: &dyn Fn(c_int) -> Refused) -> Result<(), Refused> {
        let (library, pcm) = (self.library, self.raw);
        let done = |e: c_int| if e < 0 { Err(error(e)) } else { Ok(()) };
        let hw = Params::new(library.snd_pcm_hw_params_malloc, library.snd_pcm_hw_params_free).map_err(error)?;
        // SAFETY: the card is open, and these are its parameters; so below.
        unsafe {
            done((library.snd_pcm_hw_params_any)(pcm, hw.raw))?;
            done((library.snd_pcm_hw_params_set_access)(pcm, hw.raw, INTERLEAVED))?;
        }
        let has = |format: &&Format| {
            // SAFETY: as above.
            unsafe { (library.snd_pcm_hw_params_set_format)(pcm, hw.raw, format.number()) >= 0 }
        };
        self.format = *wanted.formats.iter().find(has).ok_or(Refused::Format)?;
        self.frame = self.format.bytes() * wanted.channels as usize;
        let (mut rate, mut time) = (wanted.rate, wanted.buffer.as_micros() as c_uint);
        // SAFETY: as above, with places for the numbers; no direction is asked for.
        unsafe {
            if (library.snd_pcm_hw_params_set_channels)(pcm, hw.raw, wanted.channels as c_int) < 0 {
                return Err(Refused::Channels);
            }
            done((library.snd_pcm_hw_params_set_rate_near)(pcm, hw.raw, &raw mut rate, std::ptr::null_mut()))?;
            if rate != wanted.rate {
                return Err(Refused::Rate(rate));
            }
            done((library.snd_pcm_hw_params_set_buffer_time_near)(pcm, hw.raw, &raw mut time, std::ptr::null_mut()))?;
            done((library.snd_pcm_hw_params)(pcm, hw.raw))?;
            let mut frames = 0;
            done((library.snd_pcm_hw_params_get_buffer_size)(hw.raw, &raw mut frames))?;
            self.buffer = frames;
        }
        let sw = Params::new(library.snd_pcm_sw_params_malloc, library.snd_pcm_sw_params_free).map_err(error)?;
        let start = if wanted.way == Way::Plays { self.buffer - self.buffer / 4 } else { 1 };
        // SAFETY: as above.
        unsafe {
            done((library.snd_pcm_sw_params_current)(pcm, sw.raw))?;
            done((library.snd_pcm_sw_params_set_start_threshold)(pcm, sw.raw, start.max(1)))?;
            done((library.snd_pcm_sw_params)(pcm, sw.raw))
        }
    }

    /// How its samples lie in memory.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Frames of its buffer.
    pub fn buffer(&self) -> u64 {
        self.buffer
    }

    fn frames(moved: c_long) -> Result<usize, i32> {
        match moved {
            n if n >= 0 => Ok(n as usize),
            e if e == -c_long::from(libc::EAGAIN) => Ok(0),
            e => Err(-e as i32),
        }
    }

    /// Leaves whole frames for the card, as many as there is room for: how many that was.
    ///
    /// # Errors
    /// The number of the error.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, i32> {
        let frames = (bytes.len() / self.frame) as c_ulong;
        // SAFETY: the card is open; so many frames lie there.
        Pcm::frames(unsafe { (self.library.snd_pcm_writei)(self.raw, bytes.as_ptr().cast(), frames) })
    }

    /// Takes the frames that were recorded, as many as there are and fit: how many that was.
    ///
    /// # Errors
    /// The number of the error.
    pub fn read(&mut self, bytes: &mut [u8]) -> Result<usize, i32> {
        let frames = (bytes.len() / self.frame) as c_ulong;
        // SAFETY: the card is open; there is room for so many frames.
        Pcm::frames(unsafe { (self.library.snd_pcm_readi)(self.raw, bytes.as_mut_ptr().cast(), frames) })
    }

    /// Waits until there is room, or data; no longer than that. Blocks the kernel thread.
    ///
    /// # Errors
    /// The number of the error.
    pub fn wait(&mut self, most: Duration) -> Result<bool, i32> {
        // SAFETY: the card is open.
        match unsafe { (self.library.snd_pcm_wait)(self.raw, most.as_millis() as c_int) } {
            e if e < 0 => Err(-e),
            ready => Ok(ready > 0),
        }
    }

    /// Makes it ready again after EPIPE, ESTRPIPE or EINTR; a player starts anew as after [`Pcm::open`].
    ///
    /// # Errors
    /// The number of the error: of another one, itself.
    pub fn recover(&mut self, error: i32) -> Result<(), i32> {
        // SAFETY: the card is open.
        match unsafe { (self.library.snd_pcm_recover)(self.raw, -error, 1) } {
            e if e < 0 => Err(-e),
            _ => Ok(()),
        }
    }

    /// Starts it, if it stands.
    ///
    /// # Errors
    /// The number of the error.
    pub fn start(&mut self) -> Result<(), i32> {
        // SAFETY: the card is open.
        let done = unsafe {
            if (self.library.snd_pcm_state)(self.raw) != PREPARED {
                return Ok(());
            }
            (self.library.snd_pcm_start)(self.raw)
        };
        if done < 0 { Err(-done) } else { Ok(()) }
    }

    /// Frames that were left and are not heard yet.
    ///
    /// # Errors
    /// The number of the error; EPIPE: all were heard.
    pub fn unheard(&mut self) -> Result<u64, i32> {
        let mut frames = 0;
        // SAFETY: the card is open; a place for the number.
        match unsafe { (self.library.snd_pcm_delay)(self.raw, &raw mut frames) } {
            e if e < 0 => Err(-e),
            _ => Ok(frames.max(0) as u64),
        }
    }
}

impl Drop for Pcm {
    fn drop(&mut self) {
        // SAFETY: the card is open, and nobody uses it any more.
        unsafe { (self.library.snd_pcm_close)(self.raw) };
    }
}
