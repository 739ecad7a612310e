//! An arm of a choice.

use crate::descriptor::descriptor;
use chappe_wait::operation::Arm;
use std::os::fd::{AsFd, AsRawFd};

/// An arm of a choice: an operation that it may choose.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Armed<'a>(pub(crate) &'a dyn Arm);

#[inline(always)]
pub(crate) fn operations<'s, 'a>(arms: &'s [Armed<'a>]) -> &'s [&'a dyn Arm] {
    // SAFETY: an arm is nothing but its operation.
    unsafe { &*(std::ptr::from_ref(arms) as *const [&'a dyn Arm]) }
}

impl<'a> Armed<'a> {
    pub(crate) fn new(operation: &'a dyn Arm) -> Armed<'a> {
        Armed(operation)
    }
    /// One that waits until a descriptor can be read, as long as that is open.
    pub fn readable<F: AsFd>(fd: &'a F) -> Armed<'a> {
        Armed(descriptor(fd.as_fd().as_raw_fd(), false))
    }

    /// The same until it can be written.
    pub fn writable<F: AsFd>(fd: &'a F) -> Armed<'a> {
        Armed(descriptor(fd.as_fd().as_raw_fd(), true))
    }

    pub(crate) fn address(self) -> *const () {
        std::ptr::from_ref(self.0).cast()
    }
}
