//! The address sanitizer, if the process has one: it is told of stacks that are not the kernel thread's, and of switches between them.
//!
//! It marks what lies between the variables of a frame, and so has to know which stack a thread is on: to describe an address, to take the
//! marks away where frames are left without returning, and to make the frames whose variables it keeps apart (its fake stack) follow their
//! thread. Its leak checker looks for pointers only on the stacks that it knows. A program that is built with it has its functions; they
//! are looked up by name, once. Otherwise nothing is called.

use crate::Made;
use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

type Start = unsafe extern "C" fn(*mut *mut c_void, *const c_void, usize);
type Finish = unsafe extern "C" fn(*mut c_void, *mut *const c_void, *mut usize);
type Region = unsafe extern "C" fn(*const c_void, usize);

/// What it has of what is needed.
#[derive(Clone, Copy)]
struct Calls {
    start: Start,
    finish: Finish,
    unpoison: Region,
    /// Of the leak checker, which not each has.
    root: Option<Region>,
    no_root: Option<Region>,
}

// Ordering: Relaxed: the thread that makes a stack has been here.
static ON: AtomicBool = AtomicBool::new(false);

fn named(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: it only answers.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!at.is_null()).then_some(at)
}

fn calls() -> Option<&'static Calls> {
    static CALLS: Made<Option<Calls>> = Made::new();
    let calls = CALLS.get_or(|| {
        // SAFETY: the sanitizer's functions of these names are so.
        let region = |name| named(name).map(|at| unsafe { transmute::<*mut c_void, Region>(at) });
        Some(Calls {
            unpoison: region(c"__asan_unpoison_memory_region")?,
            // SAFETY: as above.
            start: unsafe { transmute::<*mut c_void, Start>(named(c"__sanitizer_start_switch_fiber")?) },
            // SAFETY: as above.
            finish: unsafe { transmute::<*mut c_void, Finish>(named(c"__sanitizer_finish_switch_fiber")?) },
            root: region(c"__lsan_register_root_region"),
            no_root: region(c"__lsan_unregister_root_region"),
        })
    });
    calls.as_ref()
}

/// Looks whether there is one. Before the first stack is made.
pub fn prepare() {
    ON.store(!cfg!(miri) && calls().is_some(), Ordering::Relaxed);
}

/// Whether there is one.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The leak checker looks for pointers there, too.
pub fn is_root(bytes: Range<usize>) {
    if is_on()
        && let Some(root) = calls().and_then(|calls| calls.root)
    {
        // SAFETY: it keeps the numbers, and reads there at the program's end.
        unsafe { root(bytes.start as *const c_void, bytes.len()) };
    }
}

/// No longer.
pub fn is_no_root(bytes: Range<usize>) {
    if is_on()
        && let Some(no_root) = calls().and_then(|calls| calls.no_root)
    {
        // SAFETY: the same numbers as before.
        unsafe { no_root(bytes.start as *const c_void, bytes.len()) };
    }
}

/// There are no frames any more whose marks are to stay.
pub fn is_clear(bytes: Range<usize>) {
    if let Some(calls) = calls() {
        // SAFETY: nothing but marks is changed.
        unsafe { (calls.unpoison)(bytes.start as *const c_void, bytes.len()) };
    }
}

/// What it keeps of a stack that was left: its fake frames.
#[derive(Debug)]
#[repr(transparent)]
pub struct Frames(*mut c_void);

impl Frames {
    /// Of a stack that no thread has used yet.
    pub const NONE: Frames = Frames(null_mut());
}

/// The calling kernel thread is on this stack now. What is kept of the stack that it has left goes to `left`, or is dropped, if no thread
/// returns to that stack; what was kept of this stack is taken. Answers where the other stack lies.
pub fn landed(on: Range<usize>, frames: &mut Frames, left: Option<&mut Frames>) -> Range<usize> {
    let Some(calls) = calls() else { return 0..0 };
    let save = left.map_or(null_mut(), |left| &raw mut left.0);
    let (mut at, mut len) = (std::ptr::null(), 0);
    let mine = std::mem::replace(&mut frames.0, null_mut());
    // SAFETY: of the calling kernel thread alone. Both calls come after the switch: in between there would be nothing but a few instructions of ours.
    unsafe {
        (calls.start)(save, on.start as *const c_void, on.len());
        (calls.finish)(mine, &raw mut at, &raw mut len);
    }
    at as usize..at as usize + len
}
