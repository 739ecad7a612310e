//! What survivors can see of a victim that is killed: when two points of its operation are the same to them.
//!
//! Killed before one instruction or before the next, a process leaves the same world if the instruction in between has
//! changed nothing that outlives the process. Then one trial tells of both. What outlives a process, or is looked at by
//! the kernel when it ends, is:
//!
//! - the memory that it shares: every mapping that /proc calls shared, whole: the arenas, and the board;
//! - what it has asked of the kernel: files, locks, names, sleepers that it woke, its own sleep. So what comes before a
//!   system call is never the same as what comes after it;
//! - its robust list, which the kernel walks: the head with the entry that is being worked on, and each link. Head and
//!   links may lie in the victim's own memory, so they are read there.
//!
//! [`Sight::look`] compares these, byte for byte, with what they were when it looked last. Points between which nothing
//! has changed are one **state**. Everything else ends with the victim: registers, its own memory, what it has loaded and
//! not yet acted upon. This holds for a victim that dies, also if others go on while it is stopped before. It does not
//! for one that goes on afterwards: what it has loaded by then matters to it.
//!
//! Others may write meanwhile (a reaper, a helper on its way to sleep). That is taken for the victim's doing: there are
//! more states than need be. Of a victim's further threads the same is seen as before: they are not led, and what they
//! do between the director's stop and the kill is up to the scheduler, whatever the instruction was. A child that has
//! been forked has a copy of its parent's memory, which no later instruction of the parent reaches. What nobody does
//! here is not seen: two processes that share one address space (`vfork`), or a look into another's memory.

use crate::step::Kind;

/// Where the kernel finds a thread's robust list: the first link, where the word is, the entry being worked on.
const HEAD: usize = 24;
/// The kernel walks so many links at most.
const LINKS: usize = 2048;
/// So many runs of bytes can be asked for at once.
const RUNS: usize = 1024;

/// A run of bytes in the victim.
#[derive(Clone, Copy)]
struct Run {
    address: u64,
    length: usize,
}

/// What is compared of one victim.
pub struct Sight {
    pid: libc::pid_t,
    /// The mappings that it shares.
    shared: Vec<Run>,
    head: u64,
    /// Those, the head, and what links of the list are its own.
    runs: Vec<Run>,
    before: Vec<u8>,
    now: Vec<u8>,
}

impl Sight {
    /// Looks at a stopped victim for the first time. An error says what cannot be seen.
    pub fn new(pid: libc::pid_t) -> Result<Sight, String> {
        let mut sight =
            Sight { pid, shared: Vec::new(), head: 0, runs: Vec::new(), before: Vec::new(), now: Vec::new() };
        sight.learn()?;
        sight.follow()?;
        Ok(sight)
    }

    /// Whether anything has changed since the last look; `ran` is the instruction that the victim has run meanwhile.
    ///
    /// # Errors
    /// Says what could not be seen.
    pub fn look(&mut self, ran: Kind) -> Result<bool, String> {
        if ran == Kind::Call {
            // It may have mapped something, or another list.
            self.learn()?;
            self.follow()?;
            return Ok(true);
        }
        read_all(self.pid, &self.runs, &mut self.now)?;
        if self.now == self.before {
            return Ok(false);
        }
        // A link may have moved: which of them are its own is found out anew.
        self.follow()?;
        Ok(true)
    }

    /// Which mappings it shares, and where its robust list begins.
    fn learn(&mut self) -> Result<(), String> {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).map_err(|e| format!("maps: {e}"))?;
        self.shared = text.lines().filter_map(shared).collect();
        let (mut head, mut length) = (0u64, 0usize);
        // SAFETY: writes to the two places, which are of the sizes that it wants.
        let got = unsafe { libc::syscall(libc::SYS_get_robust_list, self.pid, &mut head, &mut length) };
        if got != 0 {
            return Err(format!("its robust list: {}", std::io::Error::last_os_error()));
        }
        self.head = head;
        Ok(())
    }

    /// Walks the list as the kernel does, and takes what is there for what was before.
    fn follow(&mut self) -> Result<(), String> {
        self.runs.clone_from(&self.shared);
        if self.head != 0 {
            self.runs.push(Run { address: self.head, length: HEAD });
            let mut link = self.word(self.head)?;
            for _ in 0..LINKS {
                // The lowest bit tells of priority inheritance.
                let at = link & !1;
                if at == self.head {
                    break;
                }
                if !self.shared.iter().any(|run| (run.address..run.address + run.length as u64).contains(&at)) {
                    self.runs.push(Run { address: at, length: 8 });
                }
                // Where it cannot be read the kernel stops too.
                let Ok(next) = self.word(at) else { break };
                link = next;
            }
        }
        // What is read together is compared together: nothing is missed that changed during the walk.
        read_all(self.pid, &self.runs, &mut self.before)
    }

    fn word(&self, address: u64) -> Result<u64, String> {
        let mut bytes = Vec::new();
        read_all(self.pid, &[Run { address, length: 8 }], &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes.try_into().map_err(|_| "a word is not eight bytes")?))
    }
}

/// The run of a line of /proc/PID/maps, if it is shared and can be read.
fn shared(line: &str) -> Option<Run> {
    let mut words = line.split_ascii_whitespace();
    let (range, mode) = (words.next()?, words.next()?);
    if !(mode.starts_with('r') && mode.ends_with('s')) {
        return None;
    }
    let (from, to) = range.split_once('-')?;
    let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
    Some(Run { address: from, length: (to - from) as usize })
}

/// Reads all the runs, one behind the other.
fn read_all(pid: libc::pid_t, runs: &[Run], into: &mut Vec<u8>) -> Result<(), String> {
    let length = runs.iter().map(|run| run.length).sum();
    into.resize(length, 0);
    let far: Vec<libc::iovec> = runs
        .iter()
        .map(|run| libc::iovec { iov_base: run.address as *mut libc::c_void, iov_len: run.length })
        .collect();
    let near = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: length };
    assert!(far.len() <= RUNS, "{} runs", far.len());
    // SAFETY: `near` is ours and as long as it says; a bad place in the victim is an error, not a fault.
    let got = unsafe { libc::process_vm_readv(pid, &near, 1, far.as_ptr(), far.len() as u64, 0) };
    if got == length as isize {
        return Ok(());
    }
    Err(format!("its memory: {got} of {length} bytes, {}", std::io::Error::last_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_shared_is_compared() {
        let at = |line| shared(line).map(|run| (run.address, run.length));
        assert_eq!(at("7f00000-7f02000 rw-s 00000000 00:1a 3 /dev/shm/chappe-0/default"), Some((0x7f00000, 0x2000)));
        assert_eq!(at("7f00000-7f02000 rw-p 00000000 00:00 0 "), None);
        assert_eq!(at("7f00000-7f02000 ---s 00000000 00:00 0 "), None);
    }
}
