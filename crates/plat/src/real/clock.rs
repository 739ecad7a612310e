//! The monotonic clock, in nanoseconds since boot.
//!
//! A time namespace shifts that clock by an offset. So there are two readings. [`now`] and [`coarse`] are the caller's own, for deadlines, which the
//! kernel compares with the same clock. [`common`] and [`common_coarse`] have the offset taken away: processes of different time namespaces may
//! compare them. Only these go into words that other processes read.

use super::process;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

fn read(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: ts is a valid place to write a timespec; the clock ids below always exist on Linux.
    unsafe { libc::clock_gettime(clock, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Now, precisely (about 25 ns).
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Now, to the last tick (1 to 10 ms), at a fifth of the price.
#[inline]
pub fn coarse() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE)
}

/// [`now`], without the time namespace's offset.
pub fn common() -> u64 {
    now().wrapping_add_signed(-offset())
}

/// [`coarse`], without the time namespace's offset.
#[inline]
pub fn common_coarse() -> u64 {
    coarse().wrapping_add_signed(-offset())
}

/// Now, with the time that the machine was asleep: for what must have ended when it wakes.
pub fn boot() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// Nanoseconds of a processor that the calling kernel thread has used (about 200 ns).
pub fn used() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds since 1970, by the time of day: it may be set.
pub fn time_of_day() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Whether something (NTP, PTP) keeps the time of day synchronised, as the kernel was told.
///
/// # Errors
/// The kernel does not say: a seccomp filter refuses adjtimex(2) (EPERM), or the kernel has none (ENOSYS).
pub fn disciplined() -> io::Result<bool> {
    // SAFETY: zeroes are a valid request: it asks for the state and changes nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the struct lives through the call.
    if unsafe { libc::adjtimex(&raw mut state) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(state.status & libc::STA_UNSYNC == 0)
}

/// Nanoseconds since boot, time asleep counted, without the time namespace's offset; none where the offset is not known.
pub(crate) fn common_boot() -> Option<u64> {
    Some(read(libc::CLOCK_BOOTTIME).wrapping_add_signed(-boot_offset()?))
}

/// What the caller's time namespace adds to the clock that counts time asleep; none where that is not known.
pub(crate) fn boot_offset() -> Option<i64> {
    offsets().map(|(_, boot)| boot)
}

/// The process whose offset is kept, and the offset. A child may be in another time namespace.
static OF: AtomicU64 = AtomicU64::new(0);
static OFFSET: AtomicI64 = AtomicI64::new(0);

#[inline]
fn offset() -> i64 {
    // Acquire: the offset is this process's.
    if OF.load(Ordering::Acquire) == process::incarnation() {
        // Relaxed: written before.
        return OFFSET.load(Ordering::Relaxed);
    }
    find_offset()
}

#[cold]
fn find_offset() -> i64 {
    let found = offsets().map_or(0, |(monotonic, _)| monotonic);
    OFFSET.store(found, Ordering::Relaxed); // Relaxed: published below; all threads of a process find the same.
    // Release: pairs with `offset`.
    OF.store(process::incarnation(), Ordering::Release);
    found
}

/// The offsets of the monotonic clock and of the one that counts time asleep, in nanoseconds.
fn offsets() -> Option<(i64, i64)> {
    let inode = |file: &str| std::fs::metadata(format!("/proc/self/ns/{file}")).ok().map(|m| m.ino());
    match (inode("time"), inode("time_for_children")) {
        // No time namespaces, or /proc does not say.
        (None, _) if std::fs::exists("/proc/self/ns/pid").unwrap_or(false) => return Some((0, 0)),
        (None, _) => return None,
        // The file below is about the children's.
        (own, childrens) if own != childrens => return None,
        _ => {}
    }
    parse(&String::from_utf8_lossy(&process::read_all("/proc/self/timens_offsets")?))
}

/// `monotonic  seconds  nanoseconds`, and a line for `boottime`.
fn parse(text: &str) -> Option<(i64, i64)> {
    let of = |clock: &str| {
        let line = text.lines().find(|l| l.starts_with(clock))?;
        let mut fields = line.split_ascii_whitespace().skip(1).map(str::parse::<i64>);
        Some(fields.next()?.ok()? * 1_000_000_000 + fields.next()?.ok()?)
    };
    Some((of("monotonic")?, of("boottime")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_as_the_kernel_writes_them() {
        let text = "monotonic           86400         0\nboottime           -7200  500000000\n";
        assert_eq!(parse(text), Some((86_400_000_000_000, -7_199_500_000_000)));
        assert_eq!(parse("monotonic 1"), None);
    }

    #[test]
    fn the_common_clock_is_the_own_one_without_the_offset() {
        let (before, common, after) = (now(), common(), now());
        let offset = offset();
        assert!((before..=after).contains(&common.wrapping_add_signed(offset)), "{before} {common} {after} {offset}");
    }

    /// From here on these calls fail with that error in this thread, and in no other one.
    fn refuse(calls: &[libc::c_long], error: i32) {
        let rule = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut filter = vec![rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
        for call in calls {
            filter.push(rule(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *call as u32, 0, 1));
            filter.push(rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | error as u32, 0, 0));
        }
        filter.push(rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: the program is valid for the call.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
        }
    }

    #[test]
    fn a_kernel_that_does_not_say_whether_the_time_is_synchronised_is_an_error() {
        for error in [libc::EPERM, libc::ENOSYS] {
            let asks = std::thread::spawn(move || {
                refuse(&[libc::SYS_adjtimex, libc::SYS_clock_adjtime], error);
                disciplined().map_err(|e| e.raw_os_error())
            });
            assert_eq!(asks.join().unwrap(), Err(Some(error)));
        }
    }
}
