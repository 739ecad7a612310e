//! Children that were not made by the C library's fork: each is refused, or is a member of its own; none leaves a slot behind.
//!
//! One test alone: a child of a bare clone has the locks of the C library as they are at that moment.

use chappe::{AcquireError, Arena, ArenaError, Permit, Pool};
use std::path::PathBuf;
use std::time::Duration;

const CHILDREN: u32 = 1000;
/// What children leave.
const REFUSED: i32 = 10;
const SERVED: i32 = 11;
const OTHER: i32 = 12;

/// Asks for a permit that is free, or for one that is not, and says what came of it. No exit handlers: they are the parent's.
fn ask(pool: &Pool) -> i32 {
    let said = match pool.acquire_timeout(Duration::from_millis(1)) {
        Err(AcquireError::Arena(ArenaError::Unwatched { .. })) => REFUSED,
        Err(AcquireError::System(e)) if e.kind() == std::io::ErrorKind::Unsupported => REFUSED,
        Err(AcquireError::Timeout) | Ok(_) => SERVED,
        Err(_) => OTHER,
    };
    // SAFETY: ends this process alone.
    unsafe { libc::_exit(said) }
}

fn left(child: libc::pid_t) -> i32 {
    assert!(child > 0, "{}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: a child of ours, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "a child has ended by signal {}", libc::WTERMSIG(status));
    libc::WEXITSTATUS(status)
}

fn by_clone(pool: &Pool) -> i32 {
    // SAFETY: as a fork, but the C library does not know of it: the child makes calls of ours only, and ends.
    match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
        0 => ask(pool),
        child => left(child as libc::pid_t),
    }
}

fn by_clone3(pool: &Pool) -> i32 {
    // `struct clone_args`: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls.
    let arguments = [0u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
    // SAFETY: as above; the struct is valid.
    match unsafe { libc::syscall(libc::SYS_clone3, arguments.as_ptr(), size_of_val(&arguments)) } {
        0 => ask(pool),
        child => left(child as libc::pid_t),
    }
}

fn by_fork(pool: &Pool) -> i32 {
    // SAFETY: the child makes calls of ours, and ends.
    match unsafe { libc::fork() } {
        0 => ask(pool),
        child => left(child),
    }
}

/// As the first fork(2) was: without the C library, and so without its handlers.
#[cfg(target_arch = "x86_64")]
fn by_raw_fork(pool: &Pool) -> i32 {
    // SAFETY: as in `by_clone`.
    match unsafe { libc::syscall(libc::SYS_fork) } {
        0 => ask(pool),
        child => left(child as libc::pid_t),
    }
}

extern "C" fn in_parents_memory(pool: *mut libc::c_void) -> i32 {
    // SAFETY: the pool of the thread that waits for us.
    ask(unsafe { &*pool.cast::<Pool>() })
}

/// As vfork, on a stack of its own: the parent's thread sleeps until the child has ended.
fn by_vfork(pool: &Pool) -> i32 {
    on_its_own_stack(pool, libc::CLONE_VM | libc::CLONE_VFORK)
}

/// In the parent's memory, while the parent goes on: here it does nothing but wait.
fn by_clone_vm(pool: &Pool) -> i32 {
    on_its_own_stack(pool, libc::CLONE_VM)
}

fn on_its_own_stack(pool: &Pool, flags: i32) -> i32 {
    let mut stack = vec![0u128; 16 * 1024];
    let flags = flags | libc::SIGCHLD;
    // SAFETY: the stack outlives the child, and so does the pool.
    let child = unsafe {
        libc::clone(
            in_parents_memory,
            stack.as_mut_ptr_range().end.cast(),
            flags,
            std::ptr::from_ref(pool).cast_mut().cast(),
        )
    };
    left(child)
}

/// After so long it is a mistake, however busy the machine is.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

fn slots(arena: &Arena) -> u32 {
    arena.map().members_used()
}

#[test]
fn children_of_whatever_call_are_refused_or_members_and_leave_no_slot() {
    let home = PathBuf::from(format!("/dev/shm/chappe-clones-{}", std::process::id()));
    std::fs::create_dir(&home).expect("a directory of its own");
    // SAFETY: this program has one test, which has not begun a thread yet.
    unsafe { std::env::set_var("CHAPPE_DIR", &home) };
    let pool = Pool::create("clones/p", 1).expect("a pool");
    let held: Permit = pool.acquire().expect("it is free");
    let arena = Arena::open("clones").expect("it is there");
    for (what, by, expected) in [
        ("clone", by_clone as fn(&Pool) -> i32, REFUSED),
        ("clone3", by_clone3, REFUSED),
        #[cfg(target_arch = "x86_64")]
        ("fork without the C library", by_raw_fork, REFUSED),
        ("clone with CLONE_VM and CLONE_VFORK", by_vfork, REFUSED),
        ("clone with CLONE_VM", by_clone_vm, REFUSED),
        ("fork", by_fork, SERVED),
    ] {
        assert_eq!(by(&pool), expected, "{what}");
        let before = slots(&arena);
        for _ in 1..CHILDREN {
            assert_eq!(by(&pool), expected, "{what}");
        }
        // The reaper may have the last child in hand: then it frees the slot.
        let began = std::time::Instant::now();
        while slots(&arena) > before && began.elapsed() < PATIENCE {
            arena.map().recover_dead();
            std::thread::yield_now();
        }
        assert!(slots(&arena) <= before, "{what}: {} slots are in use, {before} before", slots(&arena));
        assert_eq!(pool.available(), 0, "{what}: the permit of a living thread came back");
    }
    drop(held);
    assert!(pool.try_acquire().is_ok());
    std::fs::remove_dir_all(&home).expect("its own");
}
