//! An uncontended acquire and release makes no system call.
//!
//! The operation runs a thousand times in a forked process from which the kernel refuses every system call but the
//! end: a filter (seccomp) raises SIGSYS, whose handler notes which call it was. A control shows that the filter bites.

use chappe::{Pool, acquire_any};
use chappe_bench::house::House;
use chappe_bench::process::{Child, shared};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

const NONE: u32 = 0;
const BEGUN: u32 = 1;
const DONE: u32 = 2;
const CAUGHT: u32 = 1000;

static NOTE: Mutex<Option<&'static AtomicU32>> = Mutex::new(None);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

extern "C" fn caught(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; of SIGSYS its second word behind the call's address is the number.
    let number = unsafe { info.cast::<u8>().add(24).cast::<u32>().read() };
    // Nobody else in this process uses the lock.
    if let Ok(note) = NOTE.try_lock()
        && let Some(note) = *note
    {
        note.store(CAUGHT + number, Ordering::SeqCst);
    }
    // SAFETY: takes a number, does not return; the filter lets it pass.
    unsafe { libc::_exit(0) };
}

/// From here on this process may end, and nothing else.
fn forbid() {
    let rule = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let filter = [
        // The number of the call.
        rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        rule(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_exit_group as u32, 0, 1),
        rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_TRAP, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program and the action are valid for the calls; the handler touches an atomic and ends the process.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = caught as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()), 0);
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// The first system call that a thousand runs of the operation make, after ten to get used to it.
fn system_call(mut operation: impl FnMut()) -> Option<u32> {
    let note = shared::<AtomicU32>();
    *NOTE.lock().unwrap() = Some(note);
    let child = Child::fork(|| {
        (0..10).for_each(|_| operation());
        forbid();
        note.store(BEGUN, Ordering::SeqCst);
        (0..1000).for_each(|_| operation());
        note.store(DONE, Ordering::SeqCst);
    });
    let status = child.end();
    match note.load(Ordering::SeqCst) {
        DONE => None,
        n if n >= CAUGHT => Some(n - CAUGHT),
        NONE => panic!("the process ended before it was told to be silent: status {status:#x}"),
        _ => panic!("the process ended in the middle: status {status:#x}"),
    }
}

fn pools(kind: &str) -> Vec<(String, Pool)> {
    let pool = |n: u32| if kind == "private" { Pool::private(n) } else { Pool::create(&format!("{kind}{n}"), n) };
    [1, 4, 64].map(|n| (format!("{kind}, N = {n}"), pool(n).unwrap())).into()
}

#[test]
fn the_filter_bites() {
    let _turn = ONE_AT_A_TIME.lock();
    let asks = || {
        // SAFETY: takes nothing, cannot fail.
        unsafe { libc::getppid() };
    };
    assert_eq!(system_call(asks), Some(libc::SYS_getppid as u32));
    assert_eq!(system_call(|| ()), None);
    // A permit that is not free, and a sleep for it.
    let pool = Pool::private(1).unwrap();
    let wait = || {
        let _held = pool.acquire().unwrap();
        assert!(pool.acquire_timeout(std::time::Duration::from_millis(1)).is_err());
    };
    assert!(system_call(wait).is_some());
}

#[test]
fn an_uncontended_pair_makes_none() {
    let _turn = ONE_AT_A_TIME.lock();
    let _house = House::new("calls");
    for (name, pool) in pools("private").iter().chain(&pools("named")) {
        assert_eq!(system_call(|| pool.acquire().unwrap().release()), None, "{name}");
        assert_eq!(system_call(|| pool.try_acquire().unwrap().release()), None, "try_acquire, {name}");
    }
}

#[test]
fn a_choice_with_one_ready_makes_none() {
    let _turn = ONE_AT_A_TIME.lock();
    let _house = House::new("calls-choice");
    for kind in ["private", "named"] {
        let make = |n| if kind == "private" { Pool::private(1) } else { Pool::create(&format!("arm{n}"), 1) };
        let pools: Vec<Pool> = (0..4).map(|n| make(n).unwrap()).collect();
        let choose = || {
            let arms = [&pools[0], &pools[1], &pools[2], &pools[3]];
            let held = [arms[0].acquire().unwrap(), arms[1].acquire().unwrap(), arms[3].acquire().unwrap()];
            let (which, permit) = acquire_any(&arms).unwrap();
            assert_eq!(which, 2);
            drop((permit, held));
        };
        assert_eq!(system_call(choose), None, "{kind}");
    }
}
