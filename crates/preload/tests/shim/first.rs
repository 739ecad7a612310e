//! Forks while another thread is in the middle of the process's first use of a semaphore.
//!
//! This program runs itself once more with the library in front, and forks there (`forked`).

use crate::forked;
use crate::stage::{Stage, not_tested, well};
use std::mem::MaybeUninit;

const PART: &str = "CHAPPE_SHIM_FIRST";

/// A semaphore of its own memory is used, and times out.
fn used(shared: i32) {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, whose first bytes are a semaphore from here on; it stays.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), 4096, both, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        let semaphore = at.cast::<libc::sem_t>();
        assert_eq!(libc::sem_init(semaphore, shared, 1), 0);
        assert_eq!(libc::sem_wait(semaphore), 0);
        let mut soon = MaybeUninit::<libc::timespec>::uninit();
        libc::clock_gettime(libc::CLOCK_REALTIME, soon.as_mut_ptr());
        assert_eq!(libc::sem_timedwait(semaphore, soon.as_ptr()), -1);
        assert_eq!(libc::sem_post(semaphore), 0);
        assert_eq!(libc::sem_destroy(semaphore), 0);
    }
}

/// What runs with the library in front; as a test it does nothing.
#[test]
fn actor() {
    let Ok(part) = std::env::var(PART) else { return };
    let operation: fn() = match part.as_str() {
        "threads" => || used(0),
        "processes" => || used(1),
        other => panic!("no such part: {other}"),
    };
    match forked::at_every_place(&part, || (), operation) {
        Some(places) => println!("\nsays: {places}"),
        None => println!("\nsays: untraced"),
    }
}

#[test]
fn a_child_forked_at_any_place_of_the_first_wait_gets_on() {
    let stage = Stage::new();
    for part in ["threads", "processes"] {
        let mut c = stage.under(std::env::current_exe().expect("this test is a file"));
        c.args(["--exact", "first::actor", "--nocapture", "--test-threads=1"]).env(PART, part);
        let said = well(&mut c);
        let places = said.lines().find_map(|l| l.strip_prefix("says: ")).unwrap_or_else(|| panic!("{part}:\n{said}"));
        match places.parse::<usize>() {
            Ok(places) => assert!(places > 3, "{part}: {places} places"),
            Err(_) => not_tested("forks at each place of a first wait: nobody may be traced here"),
        }
    }
}
