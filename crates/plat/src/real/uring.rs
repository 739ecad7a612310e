//! A ring of calls (io_uring): the kernel takes a [`Call`], and says later what became of it, while the caller goes on.
//!
//! ```text
//!   a submitter:  lock -- entry into the ring -- io_uring_enter -- unlock
//!   the kernel:   does it, perhaps at once -- completion into the ring -- the event is signalled
//!   the reaper:   woken by the event -- takes the completions out
//! ```
//!
//! - U1: under the submitters' lock each entry that was put in is taken by the kernel before the lock is given back, or the ring is closed: then no entry is
//!   submitted ever after. So an entry that the kernel has refused is never submitted late, when its memory has gone.
//! - U2: completions for which the ring has no place wait in the kernel (`IORING_FEAT_NODROP`). The reaper fetches them when it has made room.
//!
//! The kernel runs a part of what it has to do on the submitter's thread: a call that sleeps there may answer EINTR, as after a signal that is handled with
//! `SA_RESTART`.

use super::file::Call;
use super::poll::Event;
use crate::light::lock;
use io_uring::{EnterFlags, IoUring, Probe, opcode, squeue, types};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Mutex;

/// What the completion of a cancellation says, which is nobody's.
const NOBODY: u64 = 0;
/// How often a submission is repeated for which the kernel has no memory just now.
const TRIES: u32 = 1_000;

/// A ring, and the event that says that there is something in it.
pub struct Ring {
    ring: IoUring,
    event: Event,
    /// True: it is closed.
    submits: Mutex<bool>,
    reaps: Mutex<()>,
}

impl Ring {
    /// One with places for so many completions.
    ///
    /// # Errors
    /// `Unsupported`: this kernel's rings cannot do what is needed (before Linux 5.7). The system's: it has none, or permits none.
    pub fn new(completions: u32) -> io::Result<Ring> {
        let completions = completions.max(2);
        let ring =
            IoUring::builder().setup_cqsize(completions).setup_clamp().dontfork().build(completions.min(8) / 2)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::AsyncCancel::CODE];
        let params = ring.params();
        let features = params.is_feature_nodrop() && params.is_feature_rw_cur_pos() && params.is_feature_fast_poll();
        if !features || !needed.iter().all(|code| probe.is_supported(*code)) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "rings of Linux 5.7 or later are needed"));
        }
        let event = Event::new()?;
        ring.submitter().register_eventfd(event.as_fd().as_raw_fd())?;
        Ok(Ring { ring, event, submits: Mutex::new(false), reaps: Mutex::new(()) })
    }

    /// What is signalled with each completion.
    pub fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Asks for something. Its completion comes with that number, which is not 0.
    ///
    /// # Errors
    /// The kernel takes nothing (any more): it has not been asked, and is not asked later (U1).
    ///
    /// # Safety
    /// The memory is as [`Call::blocking`] wants it, and stays so until the completion has come.
    pub unsafe fn submit(&self, call: &Call, number: u64) -> io::Result<()> {
        let entry = match *call {
            Call::Read { fd, to, len, at } => {
                opcode::Read::new(types::Fd(fd), to, clamped(len)).offset(at.unwrap_or(u64::MAX)).build()
            }
            Call::Write { fd, from, len, at } => {
                opcode::Write::new(types::Fd(fd), from, clamped(len)).offset(at.unwrap_or(u64::MAX)).build()
            }
            Call::Sync { fd, data_only } => {
                let flags = if data_only { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
                opcode::Fsync::new(types::Fd(fd)).flags(flags).build()
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.enter(entry.user_data(number)) }
    }

    /// Asks that what was submitted with that number be given up. Its completion comes all the same: with ECANCELED or EINTR if it was given up, else with what it
    /// came to.
    pub fn cancel(&self, number: u64) {
        let entry = opcode::AsyncCancel::new(number).build().user_data(NOBODY);
        // SAFETY: no memory is named. If the kernel does not take it, the other comes to its own end.
        let _ = unsafe { self.enter(entry) };
    }

    /// # Safety
    /// What the entry names stays until its completion.
    unsafe fn enter(&self, entry: squeue::Entry) -> io::Result<()> {
        let mut closed = lock(&self.submits);
        if *closed {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the ring is closed"));
        }
        // SAFETY: the lock is ours, so there is no other view of this queue; the caller's promise. There is room, U1.
        unsafe { self.ring.submission_shared().push(&entry) }.expect("each entry is taken before the next is put in");
        let mut tries = 0;
        loop {
            // SAFETY: no argument.
            let entered = unsafe { self.ring.submitter().enter::<libc::sigset_t>(1, 0, 0, None) };
            // SAFETY: the lock is ours.
            if unsafe { self.ring.submission_shared() }.is_empty() {
                return Ok(());
            }
            match entered.map_err(|e| (e.raw_os_error(), e)) {
                Err((Some(libc::EINTR), _)) => {}
                Ok(_) | Err((Some(libc::EAGAIN | libc::EBUSY), _)) if tries < TRIES => {
                    tries += 1;
                    std::thread::yield_now();
                }
                entered => {
                    *closed = true;
                    return Err(entered.map_or_else(|(_, e)| e, |_| io::ErrorKind::OutOfMemory.into()));
                }
            }
        }
    }

    /// Calls something with the number and the result ([`outcome`] reads it) of each completion that has come.
    pub fn completions(&self, mut see: impl FnMut(u64, i32)) {
        let _reaps = lock(&self.reaps);
        loop {
            // SAFETY: the lock is ours, so there is no other view of this queue.
            for completion in unsafe { self.ring.completion_shared() } {
                if completion.user_data() != NOBODY {
                    see(completion.user_data(), completion.result());
                }
            }
            let closed = lock(&self.submits);
            // SAFETY: the lock is ours.
            let overflown = unsafe { self.ring.submission_shared() }.cq_overflow();
            drop(closed);
            if !overflown {
                return;
            }
            // U2. If it fails there is nothing to fetch them with; the next event tries again.
            // SAFETY: no argument, and nothing is submitted.
            if unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, EnterFlags::GETEVENTS.bits(), None) }
                .is_err()
            {
                return;
            }
        }
    }
}

/// What a result says.
///
/// # Errors
/// That of the call.
pub fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// What is said of a call that was given up.
pub fn given_up() -> io::Error {
    io::Error::from_raw_os_error(libc::ECANCELED)
}

/// Whether a call was given up, or a signal has ended it.
pub fn is_given_up(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ECANCELED | libc::EINTR))
}

fn clamped(len: usize) -> u32 {
    len.min(0x7fff_f000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::poll::is_ready;
    use std::io::Write;

    /// None, and it says so: there are no rings here.
    fn ring(completions: u32) -> Option<Ring> {
        Ring::new(completions).inspect_err(|e| eprintln!("not tested: there is no io_uring here: {e}")).ok()
    }

    /// Memory that is never freed: a test that fails unwinds, and the kernel may still write here afterwards.
    fn place<const N: usize>() -> &'static mut [u8; N] {
        Box::leak(Box::new([0; N]))
    }

    /// Waits for so many completions.
    fn completions(ring: &Ring, many: usize) -> Vec<(u64, i32)> {
        let (mut all, begun) = (Vec::new(), std::time::Instant::now());
        while all.len() < many {
            ring.completions(|number, result| all.push((number, result)));
            assert!(begun.elapsed().as_secs() < 20, "{} of {many} completions have come", all.len());
            std::thread::yield_now();
        }
        all
    }

    #[test]
    fn a_read_that_waits_completes_when_there_is_something_and_signals_the_event() {
        let Some(ring) = ring(8) else { return };
        let (reader, mut writer) = io::pipe().unwrap();
        let place = place::<8>();
        let call = Call::Read { fd: reader.as_raw_fd(), to: place.as_mut_ptr(), len: 8, at: None };
        // SAFETY: the memory is never freed, and is not looked at until the completion has come.
        unsafe { ring.submit(&call, 7) }.unwrap();
        assert!(!is_ready(ring.event().as_raw_fd(), false).unwrap());
        writer.write_all(b"now").unwrap();
        assert_eq!(completions(&ring, 1), [(7, 3)]);
        assert!(is_ready(ring.event().as_raw_fd(), false).unwrap());
        assert_eq!(&place[..3], b"now");
    }

    #[test]
    fn a_cancelled_operation_completes_too() {
        let Some(ring) = ring(8) else { return };
        let (reader, _writer) = io::pipe().unwrap();
        let place = place::<8>();
        let call = Call::Read { fd: reader.as_raw_fd(), to: place.as_mut_ptr(), len: 8, at: None };
        // SAFETY: the memory is never freed, and is not looked at until the completion has come.
        unsafe { ring.submit(&call, 7) }.unwrap();
        ring.cancel(8);
        ring.cancel(7);
        let (number, result) = completions(&ring, 1)[0];
        assert_eq!(number, 7);
        assert!([-libc::ECANCELED, -libc::EINTR].contains(&result), "{result}");
    }

    #[test]
    fn transfers_go_to_their_places_and_move_the_position() {
        use std::io::{Read, Seek, SeekFrom};
        let Some(ring) = ring(8) else { return };
        let name = std::env::temp_dir().join(format!("chappe-uring-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(true).open(&name).unwrap();
        std::fs::remove_file(&name).unwrap();
        let fd = file.as_raw_fd();
        let does = |call: Call| {
            // SAFETY: the memory is never freed, and is not looked at until the completion has come, for which we wait.
            unsafe { ring.submit(&call, 1) }.unwrap();
            outcome(completions(&ring, 1)[0].1).unwrap()
        };
        let writes = |bytes: &[u8], at| does(Call::Write { fd, from: bytes.as_ptr(), len: bytes.len(), at });
        assert_eq!((writes(b"one", None), writes(b"two", None), writes(b"N", Some(1))), (3, 3, 1));
        assert_eq!(file.stream_position().unwrap(), 6, "a write at a place leaves the position");
        let place = place::<4>();
        let reads = |place: &mut [u8; 4], at| does(Call::Read { fd, to: place.as_mut_ptr(), len: 4, at });
        assert_eq!((reads(place, Some(1)), &*place), (4, b"Netw"));
        assert_eq!((reads(place, None), reads(place, Some(6))), (0, 0), "the position is at the end");
        file.seek(SeekFrom::Start(4)).unwrap();
        assert_eq!((reads(place, None), &place[..2]), (2, &b"wo"[..]));
        file.rewind().unwrap();
        let mut all = String::new();
        file.read_to_string(&mut all).unwrap();
        assert_eq!(all, "oNetwo");
    }

    #[test]
    fn completions_that_find_no_place_come_later() {
        let Some(ring) = ring(2) else { return };
        let call = Call::Sync { fd: -1, data_only: true };
        for number in 1..=100 {
            // SAFETY: no memory is named.
            unsafe { ring.submit(&call, number) }.unwrap();
        }
        let mut numbers: Vec<_> = completions(&ring, 100).into_iter().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=100));
    }

    /// From now on the kernel refuses the calling thread to submit anything.
    fn refuse_to_enter() {
        let rule = |code: u32, k: u32, jf| libc::sock_filter { code: code as u16, jt: 0, jf, k };
        let mut rules = [
            rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            rule(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_io_uring_enter as u32, 1),
            rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
            rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
        ];
        let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
        // SAFETY: the program is valid for the call.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
        }
    }

    #[test]
    fn a_submission_that_the_kernel_refused_is_never_submitted_later() {
        let Some(ring) = ring(8) else { return };
        // SAFETY: no memory is named, in any of these.
        let refused = |number| unsafe { ring.submit(&Call::Sync { fd: -1, data_only: true }, number) }.is_err();
        std::thread::scope(|s| {
            let submits = || {
                refuse_to_enter();
                refused(1)
            };
            assert!(s.spawn(submits).join().unwrap());
        });
        // This thread may enter: what it put in would be submitted behind the other's.
        assert!(refused(2));
        ring.cancel(1);
        ring.completions(|number, _| panic!("{number} was submitted"));
    }
}
