//! What the kernel takes for the operations of the Synthesis thesis' tables 2.1, 7.1 (appendix A), 7.3 and 7.4, beside chappe's tubes.
//!
//! Each operation is done by one thread, on one processor, to memory: files are in /dev/shm, so no disk is in the way.

use crate::handoff::{Course, Sides, semaphores};
use crate::house::House;
use crate::process::pin;
use crate::raw::Scope;
use crate::table::{Case, Table};
use crate::tube::named::Own;
use chappe::Role;
use chappe::tube::named::Kind;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

const MANY: u32 = 2_000;
const PAGE: usize = 4096;

fn check(result: isize, wanted: usize) {
    assert_eq!(usize::try_from(result), Ok(wanted), "{}", std::io::Error::last_os_error());
}

/// A pipe of this process.
struct Pipe([i32; 2]);

impl Pipe {
    fn new() -> Pipe {
        let mut ends = [0; 2];
        // SAFETY: there is room for two.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0, "a pipe");
        Pipe(ends)
    }

    fn pair(&self, buffer: &mut [u8]) {
        let length = buffer.len();
        // SAFETY: the buffer is that long.
        check(unsafe { libc::write(self.0[1], buffer.as_ptr().cast(), length) }, length);
        // SAFETY: as above.
        check(unsafe { libc::read(self.0[0], buffer.as_mut_ptr().cast(), length) }, length);
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        for fd in self.0 {
            // SAFETY: ours, and not used any more.
            unsafe { libc::close(fd) };
        }
    }
}

fn private<const N: usize>() -> Case<'static> {
    let (to, from) = chappe::tube::spsc::<[u8; N]>(64);
    let record = [7u8; N];
    Case::repeat("tube, private", MANY, move || {
        to.send(std::hint::black_box(record)).expect("the receiver is there");
        from.recv().expect("the sender is there")
    })
}

fn named(tube: &Own<[u8]>, length: usize) -> Case<'_> {
    let (to, from) = (tube.sender().expect("an end"), tube.receiver().expect("an end"));
    let mut buffer = vec![7u8; length];
    Case::repeat("tube, named", MANY, move || {
        to.send(&buffer).expect("the receiver is there");
        from.recv_into(&mut buffer).expect("the sender is there")
    })
}

fn written<const N: usize>(title: &str, rounds: u32) {
    let (pipe, tube) = (Pipe::new(), Own::bytes(Kind::Spsc, 64, N));
    let mut buffer = vec![7u8; N];
    let cases = vec![
        Case::repeat("pipe: write and read", MANY, move || pipe.pair(&mut buffer)),
        private::<N>(),
        named(&tube, N),
    ];
    print!("{}", Table::measure(format!("{title}: write and read {N} B"), rounds * 4, cases).report());
}

fn file(house: &House) -> File {
    let path = house.path().join("file");
    let file = File::options().create(true).truncate(true).write(true).read(true).open(path).expect("a file");
    file.write_all_at(&[7; PAGE], 0).expect("room in /dev/shm");
    file
}

fn on_one(work: impl FnOnce() + Send) {
    std::thread::scope(|s| {
        let measured = s.spawn(|| {
            pin(0);
            work();
        });
        measured.join().expect("the measuring thread");
    });
}

/// Tables 2.1 and 2.2: pipes, files, the shortest system call, a context switch.
///
/// # Panics
/// When the system refuses a pipe, a file or a thread.
pub fn overheads(house: &House, rounds: u32) {
    on_one(|| {
        written::<1>("table 2.1", rounds);
        written::<1024>("table 2.1", rounds);
        let file = file(house);
        let (mut one, mut many) = ([7u8; 1], [7u8; 1024]);
        let (a, b) = (&file, &file);
        let cases = vec![
            // SAFETY: takes nothing, cannot fail. Not the C library's: some remember the answer.
            Case::repeat("kernel: getppid", MANY, || unsafe { libc::syscall(libc::SYS_getppid) }),
            Case::repeat("kernel: file, write and read 1 B", MANY, move || {
                a.write_all_at(&one, 0).and_then(|()| a.read_exact_at(&mut one, 0)).expect("a file")
            }),
            Case::repeat("kernel: file, write and read 1,024 B", MANY, move || {
                b.write_all_at(&many, 0).and_then(|()| b.read_exact_at(&mut many, 0)).expect("a file")
            }),
        ];
        print!("{}", Table::measure("table 2.1: the kernel alone", rounds * 4, cases).report());
    });
    let course = Course { sides: Sides::Threads, on: (0, 0), trips: 500 };
    let posix = [0, 0].map(|n| crate::peers::Semaphore::new(n, Scope::Private));
    let ours = [0, 0].map(|n| chappe::Semaphore::private(n).expect("a semaphore"));
    let cases = vec![
        Case::new("sem_t", || semaphores(course, &posix[0], &posix[1], Role::Sleeper) / 2.0),
        Case::new("semaphore, private", || semaphores(course, &ours[0], &ours[1], Role::Sleeper) / 2.0),
    ];
    print!("{}", Table::measure("table 2.1: a context switch, threads, one processor", rounds, cases).report());
}

/// The loops of appendix A's programs 2 to 4, beside tubes that a program calls itself. The programs themselves: `emulated`.
///
/// # Panics
/// When the system refuses a pipe or a file.
pub fn programs(rounds: u32) {
    on_one(|| {
        written::<1>("table 7.1, program 2", rounds);
        written::<1024>("table 7.1, program 3", rounds);
        written::<4096>("table 7.1, program 4", rounds);
    });
}

/// Table 7.3: files and devices.
///
/// # Panics
/// When the system refuses a file.
pub fn devices(house: &House, rounds: u32) {
    on_one(|| {
        let (file, null) = (&file(house), &File::open("/dev/null").expect("/dev/null"));
        let path =
            std::ffi::CString::new(house.path().join("file").into_os_string().into_encoded_bytes()).expect("no zero");
        let (mut one, mut page, mut rest) = ([0u8; 1], [0u8; PAGE], [0u8; 64]);
        let cases = vec![
            Case::repeat("kernel: open and close a file", MANY, move || {
                // SAFETY: a C string.
                let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY) };
                // SAFETY: ours, or -1, which is refused.
                unsafe { libc::close(fd) }
            }),
            Case::repeat("kernel: read 1 B of a file", MANY, move || file.read_exact_at(&mut one, 0)),
            Case::repeat("kernel: read 4 KiB of a file", MANY, move || file.read_exact_at(&mut page, 0)),
            Case::repeat("kernel: read /dev/null", MANY, move || {
                // SAFETY: the buffer is that long.
                unsafe { libc::read(null.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len()) }
            }),
        ];
        print!("{}", Table::measure("table 7.3: files and devices", rounds * 4, cases).report());
    });
}

/// Table 7.4: faults, pages given, copied and taken back.
///
/// # Panics
/// When the system refuses memory.
pub fn memory(rounds: u32) {
    const PAGES: usize = 256;
    /// Pages of this process's own.
    struct Pages(*mut u8);
    impl Pages {
        fn new() -> Pages {
            let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: new memory, wherever there is room.
            let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGES * PAGE, rights, kind, -1, 0) };
            assert_ne!(at, libc::MAP_FAILED, "memory");
            // SAFETY: ours; small pages are what is measured.
            unsafe { libc::madvise(at, PAGES * PAGE, libc::MADV_NOHUGEPAGE) };
            Pages(at.cast())
        }
        fn touch(&self) {
            // SAFETY: within the mapping.
            (0..PAGES).for_each(|n| unsafe { self.0.add(n * PAGE).write_volatile(1) });
        }
        fn free(&self) {
            // SAFETY: ours, and nothing refers to what is in it.
            assert_eq!(unsafe { libc::madvise(self.0.cast(), PAGES * PAGE, libc::MADV_DONTNEED) }, 0);
        }
    }
    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: ours, and not used any more.
            unsafe { libc::munmap(self.0.cast(), PAGES * PAGE) };
        }
    }
    let each = |began: std::time::Instant| began.elapsed().as_nanos() as f64 / PAGES as f64;
    on_one(|| {
        let (pages, other) = (Pages::new(), Pages::new());
        other.touch();
        let (a, b) = (&pages, &other);
        let cases = vec![
            Case::new("kernel: fault, a zeroed page", || {
                a.free();
                let began = std::time::Instant::now();
                a.touch();
                each(began)
            }),
            Case::new("kernel: free a page", || {
                a.touch();
                let began = std::time::Instant::now();
                a.free();
                each(began)
            }),
            Case::new("memcpy of a page", || {
                a.touch();
                let began = std::time::Instant::now();
                // SAFETY: both are that long, and do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(b.0, a.0, PAGES * PAGE) };
                each(began)
            }),
            Case::new("tube, private: a record of a page, sent and received", || {
                let (to, from) = chappe::tube::spsc::<[u8; PAGE]>(4);
                let began = std::time::Instant::now();
                for _ in 0..PAGES {
                    to.send([1; PAGE]).expect("the receiver is there");
                    std::hint::black_box(from.recv().expect("the sender is there"));
                }
                each(began)
            }),
        ];
        print!("{}", Table::measure("table 7.4: a page of 4 KiB", rounds * 4, cases).report());
    });
}
