//! Whether a frame is still on the calling thread's stack.
//!
//! A handler runs on top of what it has interrupted, whose frames are all there; a jump leaves frames behind, and others lie over their
//! memory then. From an address alone these cannot be told apart. So the stack is walked, as for an exception, through the frames of
//! signals and onto the stack that was left for them, to find the frame that contains the address.

use libc::{c_int, c_void};

// SAFETY: these are the unwinder's.
unsafe extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> c_int, arg: *mut c_void) -> c_int;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _Unwind_GetRegionStart(context: *mut c_void) -> usize;
}

const GO_ON: c_int = 0;
const ENOUGH: c_int = 4;

/// A walk: the function whose frame was come to last, and where that begins.
struct Walk {
    last: Option<(usize, usize)>,
    here: usize,
    there: usize,
    /// In which function's frames the two are, and how far from the end.
    found: [Option<(usize, usize)>; 2],
}

extern "C" fn each(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: `is_there` has given this, and waits.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    // SAFETY: the unwinder's own context. Both are 0 where they are not known.
    let (begin, function) = unsafe { (_Unwind_GetCFA(context), _Unwind_GetRegionStart(context)) };
    if let Some((from, function)) = walk.last {
        for (address, found) in [walk.here, walk.there].into_iter().zip(&mut walk.found) {
            if (from..begin).contains(&address) && found.is_none() {
                *found = Some((function, begin - address));
            }
        }
    }
    walk.last = Some((begin, function));
    if walk.found.iter().all(Option::is_some) { ENOUGH } else { GO_ON }
}

/// `here` is a variable of a function that is on the stack. Whether `there` is the same variable of another call of it, that is on the
/// stack as well. None: that cannot be told, where some function on the way has nothing written down by which to unwind it.
#[inline(never)]
pub fn is_there(here: usize, there: usize) -> Option<bool> {
    let mut walk = Walk { last: None, here, there, found: [None; 2] };
    // SAFETY: `each` is what it wants, and `walk` outlives the call.
    unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
    let [Some(here), Some(there)] = walk.found else { return None };
    Some(here == there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[inline(never)]
    fn inner(outer: Option<usize>, depth: u32, then: &dyn Fn(usize, usize) -> Option<bool>) -> Option<bool> {
        let own = 0;
        let own = &raw const *black_box(&own) as usize;
        match (outer, depth) {
            (None, _) => other(Some(own), depth, then),
            (Some(outer), 0) => then(own, outer),
            (outer, _) => other(outer, depth - 1, then),
        }
    }

    #[inline(never)]
    fn other(outer: Option<usize>, depth: u32, then: &dyn Fn(usize, usize) -> Option<bool>) -> Option<bool> {
        let room = [0u8; 200];
        black_box(&room);
        let said = inner(outer, depth, then);
        black_box(&room);
        said
    }

    /// Its frame lies where others were, and is larger.
    #[inline(never)]
    fn over(then: &dyn Fn(usize, usize) -> Option<bool>) -> Option<bool> {
        let room = [0u8; 5000];
        black_box(&room);
        let said = inner(None, 0, then);
        black_box(&room);
        said
    }

    #[test]
    fn a_frame_that_is_there_is_found_and_one_that_was_left_is_not() {
        for depth in 0..5 {
            assert_eq!(inner(None, depth, &is_there), Some(true), "{depth}");
        }
        let left = std::cell::Cell::new(0);
        let keep = |own: usize, _outer: usize| {
            left.set(own);
            None
        };
        inner(None, 0, &keep);
        assert_eq!(over(&|own: usize, _outer: usize| is_there(own, left.get())), Some(false));
    }
}
