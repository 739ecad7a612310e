//! The message of a task that waits to send through a tube without slots, where the thread that meets the task takes it. It stays where it is when the
//! task moves, and outlives the task's wait, if the thread that has met it is not done: see ABANDONED in `handoff`.

use chappe_wait::handoff::Handoff;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

#[repr(C)]
struct Parcel<T> {
    packet: Handoff,
    message: UnsafeCell<MaybeUninit<T>>,
}

/// A message and its packet. To be opened, unless its task was met; then to be left.
#[must_use = "it is leaked"]
pub struct Letter<T>(NonNull<Parcel<T>>);

impl<T> Letter<T> {
    pub fn new(message: T) -> Letter<T> {
        let message = UnsafeCell::new(MaybeUninit::new(message));
        let parcel = Box::leak(Box::new(Parcel { packet: Handoff::of_task(std::ptr::null_mut()), message }));
        parcel.packet.says(parcel.message.get().cast());
        Letter(NonNull::from(parcel))
    }

    fn packet(&self) -> &Handoff {
        // SAFETY: it is there until it is freed, with the letter.
        unsafe { &self.0.as_ref().packet }
    }

    /// The packet's address, for the acting threads.
    pub fn address(&self) -> u64 {
        self.packet().address()
    }

    /// The message, which nobody has met, nor will.
    pub fn open(self) -> T {
        // SAFETY: the box that was leaked; the message is in it.
        unsafe { Box::from_raw(self.0.as_ptr()).message.into_inner().assume_init() }
    }

    /// The task was met, and has sent. The last user of the letter frees it: this, or the thread that takes the message.
    pub fn leave(self) {
        if self.packet().abandon(free::<T>) {
            // SAFETY: the message was taken, and the other thread has said so as its last act.
            unsafe { free::<T>(self.0.as_ptr().cast()) }
        }
    }
}

/// # Safety
/// It is a letter's packet, whose message was taken, and nobody uses it any more.
unsafe fn free<T>(packet: *mut Handoff) {
    // SAFETY: the caller's promise; the packet comes first.
    drop(unsafe { Box::from_raw(packet.cast::<Parcel<T>>()) });
}
