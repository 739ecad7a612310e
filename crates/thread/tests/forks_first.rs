//! Forks while another thread is in the middle of making the first light thread: at every system call of it the child gets on.

#[path = "../../chappe/tests/house/forked.rs"]
mod forked;

use chappe_thread::Runtime;
use std::io::ErrorKind;

/// Where the parent has begun to make some, the child is told so.
fn begun() {
    match chappe_thread::Builder::new().spawn(|| 7) {
        Ok(handle) => assert_eq!(handle.join().unwrap(), 7),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Unsupported),
    }
}

fn standard() {
    assert!(Runtime::standard().is_ok());
}

/// One test: it forks.
/// A child in which the parent has begun to make the ring makes plain calls.
fn file() {
    let _ = chappe_thread::file_way();
}

#[test]
fn a_child_forked_at_any_place_of_a_first_light_thread_gets_on() {
    for (name, operation) in
        [("a light thread", begun as fn()), ("the standard runtime", standard), ("the ring for files", file)]
    {
        match forked::at_every_place(name, || (), operation) {
            Some(places) => assert!(places > 3, "{name}: {places} places"),
            None => eprintln!("not tested: forks at each place of {name}: nobody may be traced here"),
        }
    }
}
