//! What C passes: pointers, texts, numbers and times, each looked at before it is used.
//!
//! An argument that can be seen to be wrong is refused: NULL or a misaligned pointer with -EFAULT, a text without an end with -ENAMETOOLONG, a
//! number below 0 with -EINVAL.
//! That what a pointer points to is there, has the size that goes with it, and is nobody else's for the time of the call is the
//! caller's promise, as everywhere in C; each `unsafe` here stands on it.

use crate::failure::{Answer, Failure};
use chappe::raw::Time;
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

/// Bytes of the longest name there is: of an arena, a slash, of an object.
const NAME: usize = 47 + 1 + 47;
/// Of the longest of anything else.
const TEXT: usize = 255;
/// Of a schema.
const SCHEMA: usize = 65_535;
/// Of a filter: more than a tube stores, so that the library says what is wrong with one that is too long.
const FILTER: usize = 4095;
/// The kernel's bound of one word of a command, without the 0.
#[cfg(any(feature = "remote", feature = "term"))]
const LONG: usize = (128 << 10) - 1;

fn at<T>(place: *const T) -> Answer<()> {
    if place.is_null() {
        Err(Failure::new(libc::EFAULT, c"a pointer is NULL where there must be something"))
    } else if !place.is_aligned() {
        Err(Failure::new(libc::EFAULT, c"a pointer is not aligned to what is to lie there"))
    } else {
        Ok(())
    }
}

/// Where an answer is to be put.
#[inline]
pub fn place<'a, T>(place: *mut T) -> Answer<&'a mut MaybeUninit<T>> {
    at(place)?;
    // SAFETY: the caller's promise, see the head; not NULL, not misaligned.
    Ok(unsafe { &mut *place.cast() })
}

/// The same without a word of what is wrong.
#[inline(always)]
pub fn quick<'a, T>(place: *mut T) -> Option<&'a mut MaybeUninit<T>> {
    // SAFETY: as in `place`.
    (!place.is_null() && place.is_aligned()).then(|| unsafe { &mut *place.cast() })
}

/// Where an answer may be put.
pub fn place_if<'a, T>(wanted: *mut T) -> Answer<Option<&'a mut MaybeUninit<T>>> {
    if wanted.is_null() { Ok(None) } else { place(wanted).map(Some) }
}

/// Something that is looked at.
pub fn given<'a, T>(what: *const T) -> Answer<&'a T> {
    at(what)?;
    // SAFETY: the caller's promise, see the head; not NULL, not misaligned.
    Ok(unsafe { &*what })
}

/// Something that may be there.
pub fn given_if<'a, T>(what: *const T) -> Answer<Option<&'a T>> {
    if what.is_null() { Ok(None) } else { given(what).map(Some) }
}

fn fits<T>(n: usize) -> Answer<()> {
    let most = isize::MAX as usize / size_of::<T>().max(1);
    if n <= most {
        Ok(())
    } else {
        Err(Failure::new(libc::EINVAL, c"a number of elements or bytes is greater than memory"))
    }
}

/// So many of something, one after the other.
pub fn array<'a, T>(first: *const T, n: usize) -> Answer<&'a [T]> {
    if n == 0 {
        return Ok(&[]);
    }
    at(first)?;
    fits::<T>(n)?;
    // SAFETY: the caller's promise, see the head; not NULL, not misaligned.
    Ok(unsafe { std::slice::from_raw_parts(first, n) })
}

/// The same, to be written.
pub fn array_out<'a, T>(first: *mut T, n: usize) -> Answer<&'a mut [MaybeUninit<T>]> {
    if n == 0 {
        return Ok(&mut []);
    }
    at(first)?;
    fits::<T>(n)?;
    // SAFETY: the caller's promise, see the head; not NULL, not misaligned.
    Ok(unsafe { std::slice::from_raw_parts_mut(first.cast(), n) })
}

/// Bytes that are read.
#[inline]
pub fn bytes<'a>(first: *const c_void, n: usize) -> Answer<&'a [u8]> {
    array(first.cast(), n)
}

/// Bytes that are only written.
#[inline]
pub fn buffer<'a>(first: *mut c_void, n: usize) -> Answer<&'a mut [u8]> {
    let room = array_out::<u8>(first.cast(), n)?;
    // SAFETY: bytes have no values that they may not have, and nobody here reads them before they are written.
    Ok(unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), n) })
}

/// Empty, with room for so many bytes.
pub fn memory_for(n: usize) -> Answer<Vec<u8>> {
    let mut room = Vec::new();
    room.try_reserve_exact(n)
        .map_err(|_| Failure::told(libc::ENOMEM, format_args!("there is no memory for {n} bytes")))?;
    Ok(room)
}

/// A text of at most so many bytes.
fn text_of<'a>(text: *const c_char, most: usize) -> Answer<&'a str> {
    at(text)?;
    // SAFETY: the caller's promise, see the head: no byte behind its 0 is looked at, and none beyond the longest.
    let is_end = |i: &usize| unsafe { text.add(*i).read() == 0 };
    let Some(len) = (0..=most).find(is_end) else {
        return Err(Failure::told(libc::ENAMETOOLONG, format_args!("a text has no end within {most} bytes")));
    };
    // SAFETY: so many bytes were just looked at.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    std::str::from_utf8(bytes).map_err(|_| Failure::new(libc::EINVAL, c"a text is not UTF-8"))
}

/// The name of an arena, or of an object.
pub fn name<'a>(text: *const c_char) -> Answer<&'a str> {
    text_of(text, NAME)
}

/// Any other text.
pub fn text<'a>(text: *const c_char) -> Answer<&'a str> {
    text_of(text, TEXT)
}

/// A text that people write or paste, or a word of a command, as long as the kernel takes one.
#[cfg(any(feature = "remote", feature = "term"))]
pub fn long_text<'a>(text: *const c_char) -> Answer<&'a str> {
    text_of(text, LONG)
}

/// A schema, if there is one.
pub fn schema_if<'a>(what: *const c_char) -> Answer<Option<&'a str>> {
    if what.is_null() { Ok(None) } else { text_of(what, SCHEMA).map(Some) }
}

/// A filter, if there is one.
pub fn filter_if<'a>(what: *const c_char) -> Answer<Option<&'a str>> {
    if what.is_null() { Ok(None) } else { text_of(what, FILTER).map(Some) }
}

/// Any other text, if there is one.
pub fn text_if<'a>(what: *const c_char) -> Answer<Option<&'a str>> {
    if what.is_null() { Ok(None) } else { text(what).map(Some) }
}

/// Writes a text with a 0 behind it, as much of it as has room; answers how long it is.
pub fn put_text(to: *mut c_char, size: usize, text: &str) -> Answer<isize> {
    let room = buffer(to.cast(), size)?;
    copy_text(room, text);
    Ok(text.len() as isize)
}

/// The same into room of our own.
pub fn copy_text(room: &mut [u8], text: &str) {
    if let Some(most) = room.len().checked_sub(1) {
        let some = text.floor_char_boundary(text.len().min(most));
        room[..some].copy_from_slice(&text.as_bytes()[..some]);
        room[some..].fill(0);
    }
}

/// A number that must not be negative.
pub fn count(n: i64) -> Answer<u32> {
    u32::try_from(n).map_err(|_| Failure::told(libc::EINVAL, format_args!("{n} is no number of anything here")))
}

/// The same; what is greater than the greatest is as that, which is more than there is of anything here.
pub fn count_or_most(n: i64) -> Answer<u32> {
    count(n.min(u32::MAX.into()))
}

/// Words that are kept for later versions.
pub fn unused(words: &[u64]) -> Answer<()> {
    if words.iter().all(|word| *word == 0) {
        return Ok(());
    }
    Err(Failure::new(libc::EINVAL, c"a reserved field is not 0: set the whole struct to zeros before it is filled in"))
}

/// Flags of which only some are known.
pub fn flags(given: u32, known: u32) -> Answer<()> {
    if given & !known == 0 { Ok(()) } else { Err(Failure::new(libc::EINVAL, c"a flag is not known here")) }
}

/// 0 or 1, as C has truth.
pub fn truth(value: c_int) -> bool {
    value != 0
}

/// As a time limit: no limit.
pub const FOREVER: i64 = i64::MAX;

/// For how long one waits.
#[derive(Clone, Copy)]
pub enum Limit {
    /// Until it is there.
    Forever,
    /// Not at all.
    Now,
    /// At most so long.
    Within(Duration),
}

impl From<Limit> for Time {
    fn from(limit: Limit) -> Time {
        match limit {
            Limit::Forever => Time::Forever,
            Limit::Now => Time::Now,
            Limit::Within(duration) => Time::Within(duration),
        }
    }
}

/// So many nanoseconds.
pub fn within(ns: i64) -> Answer<Limit> {
    match u64::try_from(ns) {
        _ if ns == FOREVER => Ok(Limit::Forever),
        Ok(ns) => Ok(Limit::Within(Duration::from_nanos(ns))),
        Err(_) => Err(Failure::new(libc::EINVAL, c"a time is negative: it must be 0 nanoseconds or more")),
    }
}

/// Until so many nanoseconds of CLOCK_MONOTONIC.
pub fn until(at: i64) -> Answer<Limit> {
    if at < 0 || at == FOREVER { within(at) } else { within((at - now()).max(0)) }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is ours; the clock is one that every Linux has.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno<T>(answer: Answer<T>) -> c_int {
        answer.map_or_else(|e| e.errno(), |_| 0)
    }

    #[test]
    fn a_text_without_an_end_is_not_read_beyond_the_longest() {
        let long = [b'x' as c_char; NAME + 1];
        assert_eq!(errno(name(long.as_ptr())), libc::ENAMETOOLONG);
        let mut fits = long;
        fits[NAME] = 0;
        assert_eq!(name(fits.as_ptr()).unwrap().len(), NAME);
        assert_eq!(errno(name(c"\xff".as_ptr())), libc::EINVAL);
        assert_eq!(errno(name(std::ptr::null())), libc::EFAULT);
    }

    #[test]
    fn pointers_are_looked_at() {
        let mut words = [0u64; 2];
        let misaligned = (&raw mut words).cast::<u8>().wrapping_add(1).cast::<u64>();
        assert_eq!(errno(place(misaligned)), libc::EFAULT);
        assert_eq!(errno(given(misaligned)), libc::EFAULT);
        assert_eq!(errno(array(misaligned, 1)), libc::EFAULT);
        assert_eq!(errno(array::<u64>(std::ptr::null(), 0)), 0);
        assert_eq!(errno(array(words.as_ptr(), usize::MAX)), libc::EINVAL);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let mut room = [1u8; 4];
        copy_text(&mut room, "aéé");
        assert_eq!(&room, b"a\xc3\xa9\0");
        copy_text(&mut room, "");
        assert_eq!(room, [0; 4]);
        copy_text(&mut [], "x");
    }

    #[test]
    fn times_are_not_negative() {
        assert_eq!(errno(within(-1)), libc::EINVAL);
        assert_eq!(errno(until(-1)), libc::EINVAL);
        assert!(matches!(within(i64::MAX), Ok(Limit::Forever)));
        assert!(matches!(until(1), Ok(Limit::Within(Duration::ZERO))));
    }
}
