//! Forks in the middle of another thread's first operation, at every system call of it.
//!
//! A subject is a forked child that has used nothing yet. Its first thread does the operation, and is led from system call to
//! system call by a debugger's means (ptrace): it stands still before each. (What it has done by the time it comes out of one, it has
//! done before the next, too.) At the n-th such place the subject's
//! second thread forks, and the child does the same operation. It must come to its end. One subject for each n, until the
//! operation has no n-th place. In the gate a third of the places, another third with each commit.
//!
//! A fork may have to wait for what the first thread has locked. Then the director lets that one go on: which is what happens at this
//! place without a debugger, too.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A child that has not come to its end after this long hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often the director looks for a stop before it sleeps in between.
const LOOKS: u32 = 4;

/// What director and subject have in common. Zeros are one.
#[derive(Default)]
struct Board {
    first: AtomicI32,
    second: AtomicI32,
    /// The first thread may begin; it has come to the end.
    go: AtomicU32,
    over: AtomicU32,
    /// The second thread is to fork; it begins to; it has; and the child's status.
    fork: AtomicU32,
    forking: AtomicU32,
    forked: AtomicU32,
    done: AtomicU32,
    status: AtomicI32,
}

fn nap() {
    std::thread::sleep(Duration::from_micros(50));
}

fn board() -> &'static Board {
    let (len, both) = (size_of::<Board>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping; it stays.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), len, both, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    // SAFETY: just mapped, zeroed, aligned to a page.
    unsafe { &*at.cast::<Board>() }
}

/// The operation, and where it answers.
type Subject = (&'static Board, fn());

extern "C" fn second(subject: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `lives` has given it.
    let (board, operation) = unsafe { *subject.cast::<Subject>() };
    // SAFETY: takes nothing.
    board.second.store(unsafe { libc::gettid() }, SeqCst);
    while board.fork.load(SeqCst) == 0 {
        nap();
    }
    board.forking.store(1, SeqCst);
    // SAFETY: the child does what is said to work there, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        operation();
        // SAFETY: ends this process.
        unsafe { libc::_exit(0) };
    }
    board.forked.store(1, SeqCst);
    let mut status = 0;
    // SAFETY: our own child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    board.status.store(status, SeqCst);
    board.done.store(1, SeqCst);
    std::ptr::null_mut()
}

/// The subject's life.
fn lives(board: &'static Board, operation: fn()) -> ! {
    // SAFETY: no pointers; if the director dies, so does this.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let subject: Subject = (board, operation);
    let mut thread = std::mem::MaybeUninit::uninit();
    let argument = (&raw const subject).cast_mut().cast();
    // SAFETY: the argument outlives the thread, which ends with this process.
    let begun = unsafe { libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), second, argument) };
    assert_eq!(begun, 0);
    // SAFETY: takes nothing.
    board.first.store(unsafe { libc::gettid() }, SeqCst);
    while board.go.load(SeqCst) == 0 {
        nap();
    }
    operation();
    board.over.store(1, SeqCst);
    loop {
        nap();
    }
}

/// A subject that is ended with its children, which are in its group.
struct Running(libc::pid_t);

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: our own child, and the group that it leads.
        unsafe {
            libc::kill(-self.0, libc::SIGKILL);
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), libc::__WALL);
        }
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "in vain: {what}");
        nap();
    }
}

/// The traced thread's next stop. False: it does not come to one.
fn stops(tid: libc::pid_t, over: impl Fn() -> bool) -> bool {
    let mut status = 0;
    let began = Instant::now();
    for look in 0.. {
        // SAFETY: our own tracee.
        match unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
            0 if over() => return false,
            0 => assert!(began.elapsed() < PATIENCE, "the first thread hangs"),
            _ => return libc::WIFSTOPPED(status),
        }
        // A director that only yielded would keep the processor from the subject, where there are other programs.
        if look < LOOKS { std::thread::yield_now() } else { nap() }
    }
    unreachable!("there is no end of looks")
}

/// Whether the stopped thread is about to make a system call, and does not come out of one.
fn enters(tid: libc::pid_t) -> bool {
    let mut info = std::mem::MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let room = size_of::<libc::ptrace_syscall_info>();
    // SAFETY: our own tracee, which is stopped, and a place of that size.
    unsafe {
        libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, tid, room, info.as_mut_ptr());
        info.assume_init().op == libc::PTRACE_SYSCALL_INFO_ENTRY
    }
}

fn sleeps(pid: libc::pid_t, tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"))
}

/// Forks at the n-th place; answers n, or how many places there were before the operation was over. None: tracing is refused here.
fn forks_at(n: usize, name: &str, operation: fn()) -> Option<usize> {
    let board = board();
    // SAFETY: the child begins threads by the C library alone, and ends by being killed.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: no pointers.
        unsafe { libc::setpgid(0, 0) };
        lives(board, operation);
    }
    let running = Running(pid);
    until("both threads", || board.first.load(SeqCst) != 0 && board.second.load(SeqCst) != 0);
    let tid = board.first.load(SeqCst);
    let trace = |request: libc::c_uint, data: libc::c_int| {
        // SAFETY: our own tracee; none of these requests has a pointer.
        unsafe { libc::ptrace(request, tid, 0usize, libc::c_long::from(data)) == 0 }
    };
    if !trace(libc::PTRACE_SEIZE, libc::PTRACE_O_TRACESYSGOOD) {
        return None;
    }
    trace(libc::PTRACE_INTERRUPT, 0);
    assert!(stops(tid, || false));
    board.go.store(1, SeqCst);
    let mut at = 0;
    while at < n {
        trace(libc::PTRACE_SYSCALL, 0);
        if !stops(tid, || board.over.load(SeqCst) == 1) || board.over.load(SeqCst) == 1 {
            return Some(at);
        }
        at += usize::from(enters(tid));
    }
    board.fork.store(1, SeqCst);
    let second = board.second.load(SeqCst);
    let mut asleep = 0;
    until("the fork, or that it waits", || {
        let waits = board.forking.load(SeqCst) == 1 && sleeps(pid, second);
        asleep = if waits { asleep + 1 } else { 0 };
        board.forked.load(SeqCst) == 1 || asleep > 3
    });
    trace(libc::PTRACE_CONT, 0);
    let began = Instant::now();
    while board.done.load(SeqCst) == 0 {
        assert!(began.elapsed() < PATIENCE, "{name}: the child that was forked at the {n}th place hangs");
        // A signal for it to stop at would be one of the C library's; it goes on.
        let mut status = 0;
        // SAFETY: our own tracee.
        if unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL | libc::WNOHANG) } > 0 {
            assert!(libc::WIFSTOPPED(status), "{name}: the parent has ended: {status:x}");
            trace(libc::PTRACE_CONT, 0);
        }
        nap();
    }
    let status = board.status.load(SeqCst);
    assert_eq!(status, 0, "{name}: the child that was forked at the {n}th place has ended so");
    drop(running);
    Some(n)
}

/// The first place, and how many on the next one is.
fn places() -> (usize, usize) {
    let turn = std::env::var("CHAPPE_TEST_TURN").ok().and_then(|turn| turn.parse::<usize>().ok());
    turn.map_or((1, 1), |turn| (1 + turn % 3, 3))
}

/// Forks at every place of an operation that is a process's first. Answers how many places it has; none where tracing is refused.
pub fn at_every_place(name: &str, before_each: impl Fn(), operation: fn()) -> Option<usize> {
    // The first stop is that of the thread as it waits to begin.
    let (mut n, each) = places();
    loop {
        before_each();
        let came = forks_at(n, name, operation)?;
        if came < n {
            return Some(came);
        }
        n += each;
    }
}
