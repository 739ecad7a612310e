//! The identity of this process, and whether another process still exists.

use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

/// Reads another process's memory, as a debugger may; it need not do anything for that.
///
/// # Errors
/// `EFAULT`: not all of it is there. `NotFound`, `PermissionDenied`.
#[cfg(not(feature = "loom"))]
pub fn read_memory(pid: u32, at: u64, into: &mut [u8]) -> std::io::Result<()> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: at as usize as *mut _, iov_len: into.len() };
    // SAFETY: the kernel writes so many bytes of ours at most.
    let read = unsafe { libc::process_vm_readv(pid as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0) };
    match read {
        n if n == into.len() as isize => Ok(()),
        n if n >= 0 => Err(std::io::Error::from_raw_os_error(libc::EFAULT)),
        _ => match std::io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ESRCH) => Err(std::io::ErrorKind::NotFound.into()),
            e => Err(e),
        },
    }
}

/// Ends the process, as its `main` would.
pub fn exit(status: i32) -> ! {
    std::process::exit(status)
}

/// This process.
pub fn pid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::getpid() as u32 }
}

/// This thread.
pub fn tid() -> u32 {
    // By its number: glibc 2.28, with which wheels run, lacks the function.
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// The effective user.
pub fn uid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() }
}

/// The inode of this process's PID namespace (0 where /proc is not there). A process keeps its namespace for its life.
pub fn namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    /// The process that has looked, and what it found.
    // Ordering: Release and Acquire on the first publish the second; Relaxed: all threads write the same there.
    static LOOKED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let me = incarnation();
    if LOOKED[0].load(Ordering::Acquire) == me {
        return LOOKED[1].load(Ordering::Relaxed);
    }
    // Not by the process's own entry, which is empty once its first thread has ended.
    let found = std::fs::metadata("/proc/thread-self/ns/pid").map_or(0, |m| m.ino());
    if found != 0 {
        LOOKED[1].store(found, Ordering::Relaxed);
        LOOKED[0].store(me, Ordering::Release);
    }
    found
}

/// The contents of a file of /proc, whose length is not known beforehand: in as few calls as possible.
pub(crate) fn read_all(path: &str) -> Option<Vec<u8>> {
    let mut file = std::fs::File::open(path).ok()?;
    let mut all = Vec::with_capacity(8192);
    file.read_to_end(&mut all).ok()?;
    Some(all)
}

/// The fields of a process's `stat` from the third on: its state is the first of them.
fn stat(pid: u32) -> Option<String> {
    fields(&read_all(&format!("/proc/{pid}/stat"))?)
}

fn fields(stat: &[u8]) -> Option<String> {
    let after = stat.iter().rposition(|b| *b == b')')?;
    Some(String::from_utf8_lossy(stat.get(after + 2..)?).into_owned())
}

/// When the process started, in clock ticks since boot, or `None` if there is no such process.
pub fn start_time(pid: u32) -> Option<u64> {
    started(&stat(pid)?)
}

/// How long after boot the process or thread started, to a clock tick.
pub fn start(tid: u32) -> Option<Duration> {
    // SAFETY: a plain call that takes a number.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|n| *n > 0)?;
    Some(Duration::from_millis(start_time(tid)?.saturating_mul(1000) / per_second))
}

/// A thread of the process with this name, if it has one.
///
/// # Errors
/// Its threads cannot be seen.
pub fn thread_named(pid: u32, wanted: &str) -> io::Result<Option<u32>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    let mut threads = threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(threads.find(|thread| name(*thread).is_some_and(|name| name == wanted)))
}

fn started(fields: &str) -> Option<u64> {
    fields.split(' ').nth(19)?.parse().ok()
}

/// Whether the process that started then (0: unknown) has ended; false where that cannot be determined.
pub fn has_ended(pid: u32, start_time: u64) -> bool {
    match stat(pid).map(|fields| (started(&fields), is_over(&fields))) {
        Some((now, over)) => over || start_time != 0 && now != Some(start_time),
        // No such process; or /proc hides it, or there is no /proc, or it cannot be read for want of descriptors.
        None => {
            // SAFETY: signal 0 is none: the call only looks.
            let r = unsafe { libc::kill(pid as libc::pid_t, 0) };
            r != 0 && is_none_such(&io::Error::last_os_error())
        }
    }
}

/// Whether a call refused because the number is no process's.
fn is_none_such(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::ESRCH)
}

/// Whether all threads of a process have ended, though no process has waited for it.
fn is_over(fields: &str) -> bool {
    let threads = || fields.split(' ').nth(17).and_then(|n| n.parse::<u32>().ok());
    fields.starts_with(['Z', 'X']) && threads().is_some_and(|n| n <= 1)
}

/// How many threads of this process are left, if its first one has ended; none while that goes on, and where it cannot be seen.
pub fn left_by_the_first() -> Option<u32> {
    let fields = fields(&read_all("/proc/self/stat")?)?;
    let threads: u32 = fields.split(' ').nth(17)?.parse().ok()?;
    // The first is counted until all have ended.
    fields.starts_with('Z').then(|| threads.saturating_sub(1))
}

/// What a process does, as ps says it in a letter: `T` is stopped, `Z` has ended and was not waited for.
pub fn state(pid: u32) -> Option<char> {
    stat(pid)?.chars().next()
}

/// The numbers of all processes that this one can see.
///
/// # Errors
/// There is no /proc.
pub fn all() -> io::Result<Vec<u32>> {
    Ok(std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// The process that it is a child of.
pub fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.split(' ').nth(1)?.parse().ok()
}

/// Its process group, and the one that its terminal has in the foreground.
pub fn groups(pid: u32) -> Option<(i32, i32)> {
    let stat = stat(pid)?;
    let field = |at: usize| stat.split(' ').nth(at)?.parse().ok();
    Some((field(2)?, field(5)?))
}

/// The session that it is in.
pub fn session(pid: u32) -> Option<u32> {
    stat(pid)?.split(' ').nth(3)?.parse().ok()
}

/// Whether it was started with this variable and value in its environment; false where that cannot be seen.
pub fn environment_has(pid: u32, variable: &[u8]) -> bool {
    read_all(&format!("/proc/{pid}/environ")).is_some_and(|all| all.split(|byte| *byte == 0).any(|one| one == variable))
}

/// Whether a thread with this id is there, in this PID namespace.
pub fn is_thread(tid: u32) -> bool {
    // SAFETY: signal 0 is none: the call only looks.
    let r = unsafe { libc::syscall(libc::SYS_tkill, tid as libc::pid_t, 0) };
    r == 0 || !is_none_such(&io::Error::last_os_error())
}

/// Whether a thread with this id may still run, in this PID namespace: it is there, and the process that it was of has not ended. (The thread that
/// has led a process is there until the process has been waited for.)
pub fn is_thread_of(tid: u32, pid: u32) -> bool {
    is_thread(tid) && (tid != pid || !watch_exit(pid).is_ok_and(|fd| poll_readable(&[&fd], 0)[0]))
}

/// The short name of a process, as ps shows it.
pub fn name(pid: u32) -> Option<String> {
    let raw = read_all(&format!("/proc/{pid}/comm"))?;
    Some(String::from_utf8_lossy(&raw).trim_end().to_owned())
}

/// Whether the process maps a file with this inode: false once it has called exec, or its memory is gone; true where that
/// cannot be seen: another user's process, want of descriptors.
pub fn maps_inode(pid: u32, inode: u64) -> bool {
    let lists = |maps: &[u8]| {
        let text = String::from_utf8_lossy(maps);
        text.lines().any(|l| l.split_ascii_whitespace().nth(4).is_some_and(|i| i.parse() == Ok(inode)))
    };
    match read_all(&format!("/proc/{pid}/maps")) {
        None => true,
        Some(maps) if !maps.is_empty() => lists(&maps),
        // Its first thread has ended; others may go on.
        Some(_) => std::fs::read_dir(format!("/proc/{pid}/task")).map_or(true, |mut tasks| {
            let maps = |task: std::fs::DirEntry| read_all(&format!("{}/maps", task.path().display()));
            tasks.any(|task| task.ok().and_then(maps).is_none_or(|maps| lists(&maps)))
        }),
    }
}

/// Whether this process maps a file with this inode that has no name any more.
pub(crate) fn maps_what_was_deleted(inode: u64) -> bool {
    // As in `namespace`.
    let maps = read_all("/proc/thread-self/maps").unwrap_or_default();
    let text = String::from_utf8_lossy(&maps);
    let is_it = |l: &str| l.split_ascii_whitespace().nth(4).is_some_and(|i| i.parse() == Ok(inode));
    text.lines().any(|l| is_it(l) && l.ends_with(" (deleted)"))
}

/// A descriptor that becomes readable when every thread of the process has gone.
///
/// # Errors
/// `ESRCH` when there is no such process; others as the system gives them.
pub fn watch_exit(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the descriptor it returns is ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fd is a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sends a signal to a process, or to the group of a number below 0; false: there is none of this number.
///
/// # Errors
/// The system's: it is not permitted, or no such signal.
pub fn signal(to: i32, signal: i32) -> io::Result<bool> {
    // SAFETY: a plain system call.
    sent(unsafe { libc::kill(to, signal) } == 0)
}

/// The same to the process of a descriptor from [`watch_exit`], whatever has got its number since.
///
/// # Errors
/// As [`signal`].
pub fn signal_by(to: &OwnedFd, signal: i32) -> io::Result<bool> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a plain system call; without information, null.
    sent(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, to.as_raw_fd(), signal, none, 0) } == 0)
}

/// Does something with the rights of a user: this process's, or one that root's calling thread becomes for that time.
///
/// # Errors
/// The system's: the caller is not root.
pub fn as_user<R>(user: u32, then: impl FnOnce() -> R) -> io::Result<R> {
    struct Back([u32; 3]);
    impl Drop for Back {
        fn drop(&mut self) {
            let ([real, effective, saved], same) = (self.0, u32::MAX);
            // First the effective one, with which the rights come back.
            if become_user([same, effective, same]).and_then(|()| become_user([real, effective, saved])).is_err() {
                // With another's rights nothing may go on.
                std::process::abort();
            }
        }
    }
    if uid() == user {
        return Ok(then());
    }
    let mut ids = [0; 3];
    let [real, effective, saved] = &mut ids;
    // SAFETY: a plain system call, on three numbers of this function.
    if unsafe { libc::getresuid(real, effective, saved) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let back = Back(ids);
    if let Err(e) = become_user([user, user, ids[1]]) {
        std::mem::forget(back);
        return Err(e);
    }
    Ok(then())
}

/// Sets the calling thread's real, effective and saved user: the C library's function would set all threads'.
fn become_user([real, effective, saved]: [u32; 3]) -> io::Result<()> {
    // SAFETY: a plain system call.
    match unsafe { libc::syscall(libc::SYS_setresuid, real, effective, saved) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn sent(is_done: bool) -> io::Result<bool> {
    let e = io::Error::last_os_error();
    match is_done {
        true => Ok(true),
        false if is_none_such(&e) => Ok(false),
        false => Err(e),
    }
}

/// From now on the calling thread has a table of descriptors of its own, with none in it: what it opens gets numbers that the rest of the
/// process knows nothing of. Before Linux 5.9 nothing happens.
pub fn have_no_files() {
    // SAFETY: a plain system call. What it closes are the thread's copies.
    unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE) };
}

/// Sleeps until one of the descriptors is readable; `timeout_ms` of -1 waits for ever. Tells which are.
pub fn poll_readable(fds: &[&OwnedFd], timeout_ms: i32) -> Vec<bool> {
    let mut list: Vec<libc::pollfd> =
        fds.iter().map(|f| libc::pollfd { fd: f.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    // SAFETY: the list is valid for its length.
    unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, timeout_ms) };
    list.iter().map(|p| p.revents != 0).collect()
}

/// Has `before` called ahead of every fork of this process, by the thread that forks, and `after` behind it, in the
/// parent and in the child. Not for vfork and bare clone.
///
/// # Panics
/// When there is no memory for two pointers.
pub fn around_forks(before: extern "C" fn(), after: extern "C" fn()) {
    // SAFETY: both are functions that stay; the C library keeps their addresses.
    let r = unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    assert_eq!(r, 0, "no memory for a fork handler");
}

static IDENTITY: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A number that is this process's alone: a forked child sees another one.
///
/// It lives in a page that the kernel wipes in the child (MADV_WIPEONFORK), so that no handler has to
/// run and a bare `clone` is seen too. Where that is refused (before Linux 4.14, a seccomp filter) a fork handler wipes it: then a
/// bare `clone` is seen only by the number of its thread, when it joins an arena ([`crate::life::fit`]). The fast path is two loads.
#[inline]
pub fn incarnation() -> u64 {
    // Acquire: pairs with the release in `incarnation_slow` that publishes the page.
    let page = IDENTITY.load(Ordering::Acquire);
    if !page.is_null() {
        // SAFETY: the page is never unmapped once published.
        // Relaxed: only the value itself matters; a wiped page reads zero.
        let here = unsafe { (*page).load(Ordering::Relaxed) };
        if here != 0 {
            return here;
        }
    }
    incarnation_slow()
}

/// The same, if the process has a number already: a mere look. In a child of vfork [`incarnation`] would give its parent, whose memory
/// it is in, a number with the wrong pid.
pub fn incarnation_if_any() -> Option<u64> {
    // Acquire: as in `incarnation`.
    let page = IDENTITY.load(Ordering::Acquire);
    // SAFETY: as in `incarnation`.
    // Relaxed: as in `incarnation`.
    let here = if page.is_null() { 0 } else { unsafe { (*page).load(Ordering::Relaxed) } };
    (here != 0).then_some(here)
}

/// Whether this is the process whose [`incarnation`] has these low 32 bits (never 0). Makes no call.
#[inline(always)]
pub fn is_incarnation(low: u32) -> bool {
    is_incarnation_in(low, u32::MAX)
}

/// The same where [`incarnation`] has been asked before, in this process or the one that it was forked from: two loads.
#[inline(always)]
pub fn is_still(low: u32) -> bool {
    if !crate::ROBUST {
        return true;
    }
    // Acquire: as in `incarnation`.
    let page = IDENTITY.load(Ordering::Acquire);
    debug_assert!(!page.is_null() && low != 0, "`incarnation` has been asked");
    // SAFETY: as in `incarnation`; the thread that asked it first has published the page.
    // Relaxed: as in `incarnation`; a wiped page reads zero, which no process has.
    unsafe { (*page).load(Ordering::Relaxed) as u32 == low }
}

/// The same of those of its low bits that `mask` has: as many as there are forks in a line.
#[inline(always)]
pub fn is_incarnation_in(low: u32, mask: u32) -> bool {
    if !crate::ROBUST {
        return true;
    }
    // Acquire: as in `incarnation`.
    let page = IDENTITY.load(Ordering::Acquire);
    // SAFETY: as in `incarnation`.
    // Relaxed: as in `incarnation`; a wiped page reads zero, which no process has.
    let here = if page.is_null() { 0 } else { unsafe { (*page).load(Ordering::Relaxed) } };
    here != 0 && here as u32 & mask == low & mask
}

/// What the kernel does in a forked child, where it refused to.
extern "C" fn wipe() {
    // Acquire: as in `incarnation`.
    let page = IDENTITY.load(Ordering::Acquire);
    if !page.is_null() {
        // SAFETY: as in `incarnation`.
        unsafe { (*page).store(0, Ordering::Relaxed) }; // Relaxed: a child has one thread.
    }
}

#[cold]
fn incarnation_slow() -> u64 {
    // Acquire: as in `incarnation`.
    let mut page = IDENTITY.load(Ordering::Acquire);
    if page.is_null() {
        // SAFETY: a fresh anonymous page; nobody has its address yet.
        let fresh = unsafe {
            let p = libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert!(p != libc::MAP_FAILED, "no memory for one page");
            if libc::madvise(p, 4096, libc::MADV_WIPEONFORK) != 0 {
                assert_eq!(libc::pthread_atfork(None, None, Some(wipe)), 0, "no memory for a fork handler");
            }
            p.cast::<AtomicU64>()
        };
        // AcqRel: publishes the page; the loser's page is left mapped, one page once.
        page = match IDENTITY.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(theirs) => theirs,
        };
    }
    // Relaxed: the counter only has to give different numbers along one line of forks.
    let mine = NEXT.fetch_add(1, Ordering::Relaxed) | (u64::from(pid()) << 32);
    // SAFETY: as in `incarnation`.
    // AcqRel: the first of several threads names the process.
    match unsafe { (*page).compare_exchange(0, mine, Ordering::AcqRel, Ordering::Acquire) } {
        Ok(_) => mine,
        Err(theirs) => theirs,
    }
}

/// Whether this process has no child, not even one that has ended and was not waited for.
pub fn is_childless() -> bool {
    // SAFETY: an all-zero siginfo is a valid value, and a valid place for the call to fill in; it takes no child away.
    let asked = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let all = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        libc::waitid(libc::P_ALL, 0, &raw mut info, all)
    };
    asked < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_readable_list_has_not_ended() {
        let here = start_time(pid()).expect("/proc");
        assert!(!has_ended(pid(), here) && has_ended(pid(), here + 1) && !has_ended(pid(), 0));
        let mut child = std::process::Command::new("true").spawn().expect("`true` can be run");
        let (number, begun) = (child.id(), start_time(child.id()).expect("it is not waited for yet"));
        let over = watch_exit(number).expect("it is not waited for yet");
        assert!(poll_readable(&[&over], -1)[0]);
        assert!(has_ended(number, begun) && !maps_inode(number, 1), "one that nobody has waited for has no list");
        child.wait().expect("it has ended");
        assert!(has_ended(number, begun) && has_ended(number, 0));
        assert!(!maps_inode(pid(), u64::MAX));
    }

    /// From here on the calling process may not give the kernel advice.
    fn refuse_advice() {
        let rule = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut filter = [
            rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            rule(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_madvise as u32, 0, 1),
            rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
            rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the program is valid for the call.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
        }
    }

    /// The exit status of a child that does this.
    fn child_ends_with(what: impl FnOnce() -> i32) -> i32 {
        let mut status = 0;
        // SAFETY: the child does little, and ends without the parent's handlers; the status has a place.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(what());
            }
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        }
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_child_has_a_number_of_its_own_where_no_page_may_be_wiped() {
        let ended = child_ends_with(|| {
            refuse_advice();
            // As in a new program: the page that is there was made when advice was taken.
            // Release: pairs with the load of this word by which a thread learns that the page is wiped.
            IDENTITY.store(std::ptr::null_mut(), Ordering::Release);
            let mine = incarnation();
            let other = child_ends_with(|| if incarnation() != mine && incarnation() == incarnation() { 7 } else { 8 });
            if incarnation() == mine { other } else { 9 }
        });
        assert_eq!(ended, 7);
    }

    #[test]
    fn a_process_goes_on_without_its_first_thread() {
        use std::os::unix::fs::MetadataExt;
        extern "C" fn sleep(_: *mut libc::c_void) -> *mut libc::c_void {
            loop {
                // SAFETY: takes nothing.
                unsafe { libc::pause() };
            }
        }
        // SAFETY: the child begins a thread of the C library's, whose attributes are the usual ones, and ends its own.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut thread = std::mem::zeroed();
                let begun = libc::pthread_create(&mut thread, std::ptr::null(), sleep, std::ptr::null_mut());
                libc::syscall(if begun == 0 { libc::SYS_exit } else { libc::SYS_exit_group }, 0);
            }
            child as u32
        };
        let fields = || stat(child).expect("it is not waited for yet");
        while !fields().starts_with('Z') {
            std::thread::yield_now();
        }
        let program = std::fs::metadata("/proc/self/exe").expect("/proc").ino();
        assert!(!has_ended(child, started(&fields()).expect("a time")), "one thread lives");
        assert!(maps_inode(child, program) && !maps_inode(child, u64::MAX));
        // SAFETY: a child of ours.
        assert_eq!(unsafe { libc::kill(child as i32, libc::SIGKILL) }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::waitpid(child as i32, std::ptr::null_mut(), 0) }, child as i32);
    }
}
