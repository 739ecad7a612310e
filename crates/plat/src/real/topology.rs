//! Which processors there are, and on which of them a thread may run.

use std::io;

/// One more than the highest number that a processor of this machine can ever have.
pub fn possible() -> usize {
    let read = super::process::read_all("/sys/devices/system/cpu/possible");
    let text = read.and_then(|b| String::from_utf8(b).ok()).unwrap_or_default();
    let last = text.trim().rsplit([',', '-']).next().and_then(|n| n.parse::<usize>().ok());
    // SAFETY: asks for a number.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    last.map_or(0, |n| n + 1).max(usize::try_from(configured).unwrap_or(1)).max(1)
}

/// For how many seconds these processors of the machine have been idle since it began, all together. To a clock tick, and nothing where /proc does not say it.
pub fn idle(counts: impl Fn(u32) -> bool) -> Option<f64> {
    let text = super::process::read_all("/proc/stat")?;
    // SAFETY: a plain call that takes a number.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let ticks = idle_in(std::str::from_utf8(&text).ok()?, counts).filter(|_| per_second > 0)?;
    Some(ticks as f64 / per_second as f64)
}

/// Ticks, of the lines of single processors: `cpu0 user nice system idle iowait ...`. They stand behind that of all.
fn idle_in(text: &str, counts: impl Fn(u32) -> bool) -> Option<u64> {
    let lines = text.lines().map_while(|line| line.strip_prefix("cpu")?.split_once(' '));
    let mut lines = lines.filter(|(number, _)| number.parse().is_ok_and(&counts)).peekable();
    lines.peek()?;
    lines.try_fold(0, |sum, (_, numbers)| {
        let numbers: Option<Vec<u64>> = numbers.split_whitespace().map(|n| n.parse().ok()).collect();
        Some(sum + numbers?.get(3..5)?.iter().sum::<u64>())
    })
}

/// On which processors the calling thread may run.
///
/// # Errors
/// The kernel's.
pub fn allowed() -> io::Result<Vec<u32>> {
    // SAFETY: plain data; zeros are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours, of the size that is said.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: within the set's bounds.
    Ok((0..libc::CPU_SETSIZE as u32).filter(|n| unsafe { libc::CPU_ISSET(*n as usize, &set) }).collect())
}

/// Lets the calling thread run on these processors only.
///
/// # Errors
/// The kernel's: none of them is there, or none is allowed.
pub fn allow(cpus: &[u32]) -> io::Result<()> {
    // SAFETY: plain data; zeros are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus.iter().filter(|n| **n < libc::CPU_SETSIZE as u32) {
        // SAFETY: within the set's bounds.
        unsafe { libc::CPU_SET(*cpu as usize, &mut set) };
    }
    // SAFETY: the set is ours, of the size that is said.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The processor that the calling thread was on a moment ago. Needs no area of rseq's.
pub fn here() -> Option<u32> {
    // SAFETY: asks for a number.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Lets the calling thread run on all processors that its process may use but this one, whatever it was kept to before. False:
/// there is no other, the process is confined to this one.
///
/// # Errors
/// The kernel's, if it says nothing of that: a filter.
pub fn allow_others(cpu: u32) -> io::Result<bool> {
    let others: Vec<u32> = (0..possible() as u32).filter(|n| *n != cpu).collect();
    match allow(&others) {
        Ok(()) => Ok(true),
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_kept_to_one_processor() {
        std::thread::spawn(|| {
            let all = allowed().unwrap();
            assert!(!all.is_empty() && (*all.last().unwrap() as usize) < possible());
            allow(&all[..1]).unwrap();
            assert_eq!(allowed().unwrap(), all[..1]);
            assert!(allow(&[]).is_err());
        })
        .join()
        .unwrap();
    }
    #[test]
    fn idle_time_is_that_of_the_processors_that_are_asked_for() {
        let text = "cpu  1 2 4 9000 500 8\ncpu0 1 2 4 1000 500 8 16\ncpu1 1 2 4 7 60 8\ncpu3 0 0 0 1 1\nintr 7 7 7 7 7 7\ncpu4 1 1 1 1 1\n";
        let idle = |of: &[u32]| idle_in(text, |number| of.contains(&number));
        assert_eq!(
            [&[0][..], &[1, 3], &[0, 1, 2, 3, 4], &[2], &[]].map(idle),
            [Some(1500), Some(69), Some(1569), None, None]
        );
        for text in ["cpu  1 2 4 5 6", "cpu0 1 2 4 5", "cpu0 1 x 3 4 5", ""] {
            assert_eq!(idle_in(text, |_| true), None, "{text}");
        }
        let own = allowed().unwrap();
        assert!(super::idle(|number| own.contains(&number)).is_some_and(|seconds| seconds >= 0.0));
    }

    #[test]
    fn a_thread_that_was_kept_to_one_processor_can_go_to_the_others() {
        std::thread::spawn(|| {
            let all = allowed().unwrap();
            allow(&all[..1]).unwrap();
            assert_eq!(here(), Some(all[0]));
            // All that the process has: it is as confined as this thread was, or it has those at least.
            let others = allow_others(all[0]).unwrap();
            assert!(others || all.len() == 1);
            let now = allowed().unwrap();
            assert!(if others {
                all[1..].iter().all(|n| now.contains(n)) && !now.contains(&all[0])
            } else {
                now == all
            });
        })
        .join()
        .unwrap();
    }
}
