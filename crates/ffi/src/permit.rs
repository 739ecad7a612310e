//! Permits: what one has of a pool.
//!
//! A permit lies where its holder wants it, in a `chappe_permit`, which every acquiring call fills and `chappe_permit_release`
//! empties. It belongs to the thread that acquired it, and only that thread gives it back; when the thread ends, or its process dies
//! in whatever way, it goes to the next in line. An owned permit belongs to the process: any of its threads may give it back, and it
//! returns when the whole process has ended. In a forked child a permit is the parent's: giving it back there is refused.

use crate::failure::{Answer, Failure, answer, done};
use crate::input;
use crate::thread::here;
use chappe::raw::Hold;
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;

/// A permit. What is inside is the library's; the memory is the caller's, and may be moved and copied. A copy is the same
/// permit: once one of them is given back, or made a lease, the others may not be used any more.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct chappe_permit {
    /// The library's.
    pub opaque: [u64; 8],
}

const MAGIC: u64 = 0x7469_6d72_6570_4843;

/// What is inside.
#[repr(C)]
struct Inside {
    /// MAGIC while it is held.
    magic: u64,
    /// Whose it is; 0: the process's.
    thread: usize,
    hold: MaybeUninit<Hold>,
}

const _: () = assert!(size_of::<Inside>() <= size_of::<chappe_permit>());
const _: () = assert!(align_of::<Inside>() <= align_of::<chappe_permit>());

/// Where a permit is put.
pub struct Place<'a>(&'a mut MaybeUninit<chappe_permit>);

impl<'a> Place<'a> {
    #[inline]
    pub fn new(permit: *mut chappe_permit) -> Answer<Place<'a>> {
        Ok(Place(input::place(permit)?))
    }

    /// The same without a word of what is wrong.
    #[inline(always)]
    pub fn quick(permit: *mut chappe_permit) -> Option<Place<'a>> {
        input::quick(permit).map(Place)
    }

    /// So many of them.
    pub fn many(permits: *mut chappe_permit, n: usize) -> Answer<impl Iterator<Item = Place<'a>>> {
        Ok(input::array_out(permits, n)?.iter_mut().map(Place))
    }

    #[inline(always)]
    fn put(self, hold: Hold, thread: usize) {
        let inside = Inside { magic: MAGIC, thread, hold: MaybeUninit::new(hold) };
        // SAFETY: as large and as even, see above.
        unsafe { self.0.as_mut_ptr().cast::<Inside>().write(inside) };
    }

    /// The calling thread's permit.
    #[inline(always)]
    pub fn of_thread(self, hold: Hold) {
        self.put(hold, here());
    }

    /// The process's permit.
    pub fn of_process(self, hold: Hold) {
        self.put(hold, 0);
    }
}

/// A permit that is held, by any holder.
#[inline]
fn held<'a>(permit: *const chappe_permit) -> Answer<(&'a Inside, &'a Hold)> {
    let inside = input::given(permit.cast::<Inside>())?;
    if inside.magic != MAGIC {
        let text = c"this is no permit that is held: it was given back already, or never acquired";
        return Err(Failure::new(libc::EINVAL, text));
    }
    // SAFETY: it was written together with the magic.
    Ok((inside, unsafe { inside.hold.assume_init_ref() }))
}

/// A permit that the caller may do something with.
#[inline]
fn ours<'a>(permit: *mut chappe_permit) -> Answer<&'a mut Inside> {
    let (inside, hold) = held(permit)?;
    if !hold.is_here() {
        return Err(Failure::new(libc::EPERM, c"the permit is the parent process's: acquire another in the child"));
    }
    if inside.thread != 0 && inside.thread != here() {
        let text = c"the permit is another thread's: let that one give it back, or acquire owned permits";
        return Err(Failure::new(libc::EPERM, text));
    }
    // SAFETY: `held` looked at it; the caller's promise that nobody else does just now.
    Ok(unsafe { &mut *permit.cast() })
}

/// What is the caller's is given back, and the answer is C's; of anything else nothing is said here.
#[inline(always)]
fn released(permit: *mut chappe_permit) -> Option<c_int> {
    let inside = input::quick(permit.cast::<Inside>())?;
    let inside = inside.as_mut_ptr();
    // SAFETY: a permit's memory, which is initialised as far as the caller has kept his promise; what is no permit has no magic. The
    // hold was written together with the magic, and is the thread's own.
    unsafe {
        if (*inside).magic != MAGIC || (*inside).thread != here() {
            return None;
        }
        let hold = (*inside).hold.assume_init_ref();
        if !hold.is_here() {
            return None;
        }
        (*inside).magic = 0;
        // Behind the border: with a waiter, or as a lease, there is much to do that may find memory written over.
        Some(done(|| {
            hold.release_here();
            Ok(())
        }))
    }
}

fn release(permit: *mut chappe_permit) -> Answer<()> {
    let inside = ours(permit)?;
    inside.magic = 0;
    // SAFETY: written together with the magic, which is gone now; the thread's own, or the process's.
    unsafe { inside.hold.assume_init_ref().release() };
    Ok(())
}

/// Gives a permit back. A permit that was taken away by force ends without effect. It never waits, unless the permit is
/// a lease: then it reads all of /proc once or more to find the processes that bear the lease's mark, and waits up to a
/// tenth of a second for processes that are just ending.
///
/// Errors: -EINVAL if it is not held; -EPERM if it is another thread's, or the parent process's; -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_permit_release(permit: *mut chappe_permit) -> c_int {
    released(permit).unwrap_or_else(|| done(|| release(permit)))
}

/// Gives `n` permits back, the last one first; those of several pools, too. If one cannot be, the others are all the same. Leases come
/// last; those of one pool take as long together as one does by itself.
///
/// Errors: as `chappe_permit_release`, of the first that could not be given back.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_permit_release_many(permits: *mut chappe_permit, n: usize) -> c_int {
    done(|| {
        let all = input::array_out(permits, n)?;
        let (mut worst, mut leases) = (Ok(()), Vec::new());
        for permit in all.iter_mut().rev() {
            worst = release_or_keep(permit.as_mut_ptr(), &mut leases).and(worst);
        }
        while let Some(first) = leases.first().copied() {
            let (its, others) = leases.into_iter().partition(|hold: &Hold| hold.is_of_pool_of(&first));
            let its: Vec<Hold> = its;
            // SAFETY: each the thread's own, or the process's, and nobody's any more; of one pool.
            unsafe { Hold::release_leases(&its) };
            leases = others;
        }
        worst
    })
}

/// Gives back what is no lease.
fn release_or_keep(permit: *mut chappe_permit, leases: &mut Vec<Hold>) -> Answer<()> {
    let inside = ours(permit)?;
    // SAFETY: `ours` saw the magic, together with which it was written.
    let hold = unsafe { inside.hold.assume_init() };
    if !hold.is_leased() {
        return release(permit);
    }
    inside.magic = 0;
    leases.push(hold);
    Ok(())
}

/// Which of its pool's permits it is, counted from 0.
///
/// Errors: -EINVAL if it is not held; -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_permit_index(permit: *const chappe_permit) -> i64 {
    answer(|| Ok(held(permit)?.1.index().into()))
}

/// 1: it is held, and still the caller's. 0: it was taken away by force, or its pool was removed; or it is another thread's or
/// process's.
///
/// Errors: -EINVAL if it is not held; -EFAULT.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_permit_is_valid(permit: *const chappe_permit) -> c_int {
    answer(|| {
        let (inside, hold) = held(permit)?;
        let mine = inside.thread == 0 || inside.thread == here();
        // SAFETY: the thread's own, or the process's.
        Ok((mine && unsafe { hold.is_valid() }).into())
    })
}

/// Makes a permit a lease, too: it is free only when it was given back (or its holder died) *and* the job that inherits the lease is
/// gone. To be called before the job starts; named pools only.
///
/// Answers an open file, close-on-exec, which the job must inherit: clear the flag after the fork. It is the caller's to close at
/// any time. Writes into `mark`, with a 0 behind it, what the environment variable CHAPPE_LEASE must be in the job.
///
/// Errors: -ERANGE if the mark has no room in `size` bytes (512 are enough unless jobs nest deeply): then there is no lease; -ESTALE
/// if the permit was taken away by force; -EBUSY if it is a lease already, and that one's file is open; -EOPNOTSUPP if its pool is
/// private; -EINVAL, -EPERM, -EFAULT as `chappe_permit_release`; the system's.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_permit_lease(permit: *mut chappe_permit, mark: *mut c_char, size: usize) -> c_int {
    answer(|| leased(&[permit], mark, size))
}

/// As `chappe_permit_lease`, of `n` permits of one pool at once: one open file and one mark for all of them.
///
/// Errors: -EINVAL also if `n` is 0, or they are of several pools, or two are copies of one; -ERANGE (each permit needs some 32 bytes more); else as
/// `chappe_permit_lease`, and then none is a lease that was none before.
#[unsafe(no_mangle)]
pub extern "C" fn chappe_permit_lease_many(
    permits: *mut chappe_permit,
    n: usize,
    mark: *mut c_char,
    size: usize,
) -> c_int {
    answer(|| {
        let all: Vec<_> = input::array_out(permits, n)?.iter_mut().map(MaybeUninit::as_mut_ptr).collect();
        leased(&all, mark, size)
    })
}

fn leased(permits: &[*mut chappe_permit], mark: *mut c_char, size: usize) -> Answer<c_int> {
    let room = input::buffer(mark.cast(), size)?;
    // SAFETY: `ours` saw the magic, together with which it was written.
    let hold = |permit: &*mut chappe_permit| Ok(*unsafe { ours(*permit)?.hold.assume_init_ref() });
    let before = permits.iter().map(hold).collect::<Answer<Vec<Hold>>>()?;
    let mut holds = before.clone();
    let Some(first) = before.first() else {
        return Err(Failure::new(libc::EINVAL, c"a lease of no permit keeps nothing"));
    };
    if !before.iter().all(|hold| hold.is_of_pool_of(first)) {
        return Err(Failure::new(libc::EINVAL, c"one lease is for permits of one pool: these are of several"));
    }
    let mut by_index: Vec<&Hold> = before.iter().collect();
    by_index.sort_by_key(|hold| hold.index());
    if by_index.windows(2).any(|two| two[0].is(two[1])) {
        return Err(Failure::new(libc::EINVAL, c"one lease has each permit once: two of these are copies of one"));
    }
    // SAFETY: the thread's own, or the process's; of one pool.
    let made = unsafe { Hold::lease_many(&mut holds) }.map_err(Failure::from).and_then(|lease| {
        let needed = lease.cookie().len() + 1;
        if needed > size {
            return Err(Failure::told(libc::ERANGE, format_args!("the mark needs {needed} bytes")));
        }
        Ok((lease.as_fd().try_clone_to_owned()?, lease))
    });
    for ((permit, hold), before) in permits.iter().zip(&mut holds).zip(before) {
        if made.is_err() {
            // SAFETY: as above; no job has been told.
            unsafe { hold.take_back_lease(before) };
        }
        ours(*permit)?.hold = MaybeUninit::new(*hold);
    }
    let (file, lease) = made?;
    input::copy_text(room, lease.cookie());
    Ok(file.into_raw_fd())
}
