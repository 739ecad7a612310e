//! What wakes a loop that is not Rust's.

use crate::tasks::poll;
use chappe::Semaphore;
use chappe::woken::Woken;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::pin;

fn is_readable(woken: &Woken) -> bool {
    let mut one = libc::pollfd { fd: woken.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry of ours.
    unsafe { libc::poll(&raw mut one, 1, 0) == 1 }
}

#[test]
fn woken_tasks_are_listed_and_the_descriptor_is_readable_until_they_are_taken() {
    let woken = Woken::new().unwrap();
    assert!(!is_readable(&woken) && woken.take().is_empty());
    let (first, second) = (woken.waker(1), woken.waker(2));
    for round in 0..2 {
        first.wake_by_ref();
        assert!(is_readable(&woken), "round {round}");
        second.wake_by_ref();
        first.wake_by_ref();
        assert_eq!(woken.take(), [1, 2, 1]);
        assert!(!is_readable(&woken) && woken.take().is_empty(), "round {round}");
    }
    // One that outlives the loop wakes nobody.
    drop(woken);
    second.wake();
}

#[test]
fn a_granter_notes_the_number_of_the_task() {
    let (woken, s) = (Woken::new().unwrap(), Semaphore::private(0).unwrap());
    let (mut one, mut other) = (pin!(s.down_async()), pin!(s.down_async()));
    let (first, second) = (woken.waker(7), woken.waker(8));
    assert!(poll(&mut one, &first).is_pending());
    assert!(poll(&mut other, &second).is_pending());
    s.up().unwrap();
    let mut taken = woken.take();
    taken.dedup();
    assert_eq!(taken, [7]);
    assert!(poll(&mut one, &first).is_ready());
}
