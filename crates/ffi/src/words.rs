//! Words of 64 bits, of which up to eight change at once: all of them, or none.
//!
//! A thread that is stopped or killed in the middle of a change holds up nobody: the next thread that meets the change finishes it. Looking at a word writes
//! nothing. Only a thread's first change of named words waits for a thread that makes or removes an object at that moment. A signal handler may look; one that
//! interrupts its thread in the middle of a change can change nothing (-EBUSY).
//!
//! A handle may be used by any number of threads at once, until it is closed.

use crate::failure::{Answer, answer, done};
use crate::handle::{self, Object};
use crate::input;
use chappe::Words;
use chappe::words::Change;
use std::ffi::{CStr, c_char, c_int};

/// A handle of words.
pub struct chappe_words(());

/// The most words that change at once.
pub const CHAPPE_WORDS_MOST: u32 = 8;
/// An answer: one of the words had another value, and none was changed.
pub const CHAPPE_WORDS_NO: c_int = 0;
/// An answer: all were changed.
pub const CHAPPE_WORDS_YES: c_int = 1;

/// One word of a change.
#[repr(C)]
pub struct chappe_words_change {
    /// Which, from 0.
    pub word: u32,
    /// 0.
    pub reserved: u32,
    /// What it must have.
    pub before: u64,
    /// What it gets. If that is the same, it is compared only.
    pub after: u64,
}

/// Words, where a slot of the table of handles has room for them.
struct Held(Box<Words>);

impl Object for Held {
    type Name = chappe_words;
    const KIND: u32 = 14;
    const REFUSAL: &'static CStr = c"this is no open handle of words: NULL, closed already, or of something else";
}

fn opened(words: *mut *mut chappe_words, make: impl FnOnce() -> Answer<Words>) -> c_int {
    done(|| {
        let place = input::place(words)?;
        place.write(handle::open_as(|| make().map(|words| Held(Box::new(words))))?);
        Ok(())
    })
}

/// Makes so many words for the threads of this process, all 0. They go when the handle is closed.
///
/// Errors: -EINVAL if there cannot be so many; -EFAULT; -EMFILE; -ENOMEM.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_words_private(count: u32, words: *mut *mut chappe_words) -> c_int {
    opened(words, || Ok(Words::private(count)?))
}

/// Opens the words of this name.
///
/// Errors: -ENOENT; -EPROTOTYPE if the name is that of something else; else as `chappe_arena_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_words_open(name: *const c_char, words: *mut *mut chappe_words) -> c_int {
    opened(words, || Ok(Words::open(input::name(name)?)?))
}

/// Makes so many words of this name, which must not be there, all 0, and their arena, with room for them, if need be.
///
/// Errors: -EEXIST; -EINVAL if there cannot be so many; -ENOSPC or -EUSERS if the arena is full; else as `chappe_words_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_words_create(name: *const c_char, count: u32, words: *mut *mut chappe_words) -> c_int {
    opened(words, || Ok(Words::create(input::name(name)?, count)?))
}

/// Opens the words of this name, or makes them. If they are there, they must be as many.
///
/// Errors: -EPROTOTYPE if there are others; else as `chappe_words_create`, but for -EEXIST.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_words_open_or_create(name: *const c_char, count: u32, words: *mut *mut chappe_words) -> c_int {
    opened(words, || Ok(Words::open_or_create(input::name(name)?, count)?))
}

/// Closes a handle. Private words go with it, named ones stay. No other thread may be in a call with this handle, or call with it later.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_words_close(words: *mut chappe_words) -> c_int {
    done(|| handle::close::<Held>(words).map(drop))
}

/// Removes the words of this name. Those that another process has changed and may again are refused unless `force`: then their users get
/// -EIDRM.
///
/// Errors: -ENOENT, -EBUSY; else as `chappe_words_open`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_words_remove(name: *const c_char, force: c_int) -> c_int {
    done(|| Ok(Words::unmake(input::name(name)?, input::truth(force))?))
}

/// Writes their name, as much as has room, with a 0 behind it; answers its length, 0 for private ones.
///
/// Errors: -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_words_name(words: *const chappe_words, to: *mut c_char, size: usize) -> isize {
    answer(|| input::put_text(to, size, &handle::get::<Held>(words)?.0.name()))
}

/// How many there are.
///
/// Errors: -EBADF.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_words_count(words: *const chappe_words) -> i64 {
    answer(|| Ok(handle::get::<Held>(words)?.0.len().into()))
}

/// What a word has. Lock-free; writes nothing.
///
/// Errors: -EINVAL if there is no such word; -EIDRM if they were removed; -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_words_load(words: *const chappe_words, word: u32, value: *mut u64) -> c_int {
    done(|| {
        let place = input::place(value)?;
        place.write(handle::get::<Held>(words)?.0.load(word)?);
        Ok(())
    })
}

/// Gives a word a value, whatever it has. Lock-free.
///
/// Errors: as `chappe_words_swap`.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_words_store(words: *mut chappe_words, word: u32, value: u64) -> c_int {
    done(|| Ok(handle::get::<Held>(words)?.0.store(word, value)?))
}

/// Changes 1 to 8 words at once, each from what it must have to what it gets. Answers `CHAPPE_WORDS_YES`; or `CHAPPE_WORDS_NO`: one at least had another
/// value, and none was changed. Lock-free.
///
/// Errors: -EINVAL if there are none or more than 8, one is named twice, or there is no such word; -EBUSY in a signal handler that has interrupted
/// a change; -EIDRM if they were removed; -EUSERS if the arena cannot take another member; -EBADF, -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_words_swap(
    words: *mut chappe_words,
    changes: *const chappe_words_change,
    count: usize,
) -> c_int {
    answer(|| {
        let (words, given) = (&handle::get::<Held>(words)?.0, input::array(changes, count)?);
        let mut all = [Change::default(); CHAPPE_WORDS_MOST as usize + 1];
        for (to, one) in all.iter_mut().zip(given) {
            input::unused(&[one.reserved.into()])?;
            *to = Change { word: one.word, old: one.before, new: one.after };
        }
        // One more than can change at once is refused as that.
        let done = words.mcas(&all[..given.len().min(all.len())])?;
        Ok(if done { CHAPPE_WORDS_YES } else { CHAPPE_WORDS_NO })
    })
}
