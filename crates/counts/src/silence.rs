//! Which system call an operation makes, if any, and how many.
//!
//! It runs a thousand times in a forked process from which the kernel refuses every system call but the end: a filter
//! (seccomp) raises SIGSYS, whose handler notes which call it was.

use crate::process::{Child, shared};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

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

/// What the kernel calls on SIGSYS.
pub type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// From here on the kernel makes these system calls of this process, and raises SIGSYS in place of any other. The handler
/// keeps to what a handler may do: atomics, and the calls that are let through.
///
/// # Panics
/// When the kernel has no such filters.
pub fn catch_all_but(these: &[libc::c_long], handler: Handler) {
    catch(these, false, handler);
}

/// The same, but `futex(2)` wakes: its waits are caught. Of the calling thread only, and of those that it starts.
///
/// # Panics
/// As above.
pub fn catch_all_but_wakes_and(these: &[libc::c_long], handler: Handler) {
    catch(these, true, handler);
}

fn catch(these: &[libc::c_long], wakes: bool, handler: Handler) {
    let rule = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    // The number of the call.
    let mut filter = vec![rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for call in these {
        filter.push(rule(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *call as u32, 0, 1));
        filter.push(rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    }
    if wakes {
        // The operation of a futex call is its second argument: at byte 24, its lower half first. Any other call is caught.
        filter.push(rule(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_futex as u32, 0, 4));
        filter.push(rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 24, 0, 0));
        filter.push(rule(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, !(libc::FUTEX_PRIVATE_FLAG as u32), 0, 0));
        filter.push(rule(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::FUTEX_WAKE as u32, 0, 1));
        filter.push(rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    }
    filter.push(rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_TRAP, 0, 0));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and the action are valid for the calls; the handler has the arguments that SA_SIGINFO promises.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()), 0);
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// The first system call that a thousand runs of the operation make, after ten to get used to it.
///
/// # Panics
/// When the operation does.
pub fn system_call(mut operation: impl FnMut()) -> Option<u32> {
    system_call_after(|| (), |()| operation())
}

/// The same of an operation on what `prepare` makes, in the same process. Threads that it starts there are not silenced.
///
/// # Panics
/// When the operation does.
pub fn system_call_after<T>(prepare: impl FnOnce() -> T, operation: impl FnMut(&mut T)) -> Option<u32> {
    system_call_within(|all| all(), prepare, operation)
}

/// The same, in whatever `within` calls it in: a light thread. Only the kernel thread that that runs on is silenced.
///
/// # Panics
/// When the operation does.
pub fn system_call_within<T>(
    within: impl FnOnce(&mut (dyn FnMut() + Send)),
    prepare: impl FnOnce() -> T,
    mut operation: impl FnMut(&mut T),
) -> Option<u32> {
    /// What is used by one thread, which another waits for.
    struct Sole<T>(T);
    // SAFETY: it is called once, by one thread, while the one that made it waits.
    unsafe impl<T> Send for Sole<T> {}
    let _turn = ONE_AT_A_TIME.lock();
    let note = shared::<AtomicU32>();
    *NOTE.lock().expect("nobody panics with it") = Some(note);
    let child = Child::fork(|| {
        let all = || {
            let mut on = prepare();
            (0..10).for_each(|_| operation(&mut on));
            // It may end, and nothing else.
            catch_all_but(&[libc::SYS_exit_group], caught);
            note.store(BEGUN, Ordering::SeqCst); // SeqCst: the parent reads it after the end.
            (0..1000).for_each(|_| operation(&mut on));
            note.store(DONE, Ordering::SeqCst); // SeqCst: as above.
            // SAFETY: takes a number, does not return; the filter lets it pass.
            unsafe { libc::_exit(0) };
        };
        let mut all = Sole(Some(all));
        within(&mut move || {
            let all = &mut all;
            if let Some(all) = all.0.take() {
                all();
            }
        });
    });
    let status = child.end();
    match note.load(Ordering::SeqCst) {
        DONE => None,
        n if n >= CAUGHT => Some(n - CAUGHT),
        NONE => panic!("the process ended before it was told to be silent: status {status:#x}"),
        _ => panic!("the process ended in the middle: status {status:#x}"),
    }
}

/// Futex calls, all others, and whether the process came to its end.
type Counts = [AtomicU32; 3];

/// Where the handler counts.
static COUNTS: AtomicPtr<Counts> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn counts(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: as in `caught`.
    let number = unsafe { info.cast::<u8>().add(24).cast::<u32>().read() };
    // SAFETY: it points to memory that is never unmapped, since before the filter.
    let counts = unsafe { &*COUNTS.load(Ordering::SeqCst) };
    counts[usize::from(i64::from(number) != libc::SYS_futex)].fetch_add(1, Ordering::SeqCst);
}

/// How many futex calls, and how many others, so many runs of an operation make on what `prepare` makes in the same process. They are counted instead of
/// made: it must not wait. Threads that `prepare` starts make theirs, and end with the process.
///
/// # Panics
/// When the operation does.
pub fn counted<T>(times: u32, prepare: impl FnOnce() -> T, mut operation: impl FnMut(&mut T)) -> (u32, u32) {
    // SeqCst, all: as in `caught`, it counts no costs.
    let note = shared::<Counts>();
    let child = Child::fork(|| {
        let mut on = prepare();
        // SeqCst, all here: counts of a bench, read when the other threads have ended.
        COUNTS.store(std::ptr::from_ref(note).cast_mut(), Ordering::SeqCst);
        catch_all_but(&[libc::SYS_exit_group, libc::SYS_rt_sigreturn], counts);
        (0..times).for_each(|_| operation(&mut on));
        note[2].store(1, Ordering::SeqCst); // SeqCst: as above.
        // SAFETY: takes a number, does not return. What `prepare` has made is not dropped: that would wait.
        unsafe { libc::_exit(0) };
    });
    let status = child.end();
    let [futex, other, done] = [0, 1, 2].map(|i| note[i].load(Ordering::SeqCst)); // SeqCst: as above.
    assert_eq!((status, done), (0, 1), "the process ended in the middle");
    (futex, other)
}
