//! Lanes before real pipes: what is read is what was written, whichever way it went.

mod machine;

use chappe_lane::{Lane, Pipe, Reader, Writer};
use chappe_pipes::{Descriptor, Place, Table};
use machine::has_lanes;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A pipe, and the memory of its lane.
struct Scene {
    place: Place,
    reader: PipeReader,
    writer: PipeWriter,
}

/// The byte at a position of the stream.
fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

fn bytes(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(byte).collect()
}

fn do_not_block(fd: RawFd) {
    // SAFETY: a call that touches no memory.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) }, 0);
}

impl Scene {
    fn new() -> Scene {
        let (reader, writer) = io::pipe().expect("a pipe");
        Scene { place: Place::new().expect("memory"), reader, writer }
    }

    fn ends(&self) -> [Descriptor<'_>; 2] {
        [self.reader.as_raw_fd(), self.writer.as_raw_fd()].map(|fd| Descriptor::new(fd, &self.place))
    }

    fn lane<'a>(&'a self, end: &'a Descriptor<'a>) -> Lane<'a, Descriptor<'a>> {
        Lane { words: self.place.words(), pipe: end }
    }

    fn reader<'a>(&'a self, end: &'a Descriptor<'a>) -> Reader<'a, Descriptor<'a>> {
        self.lane(end).reader().expect("no push").expect("a new lane")
    }

    fn writer<'a>(&'a self, end: &'a Descriptor<'a>) -> Writer<'a, Descriptor<'a>> {
        self.lane(end).writer().expect("no push").expect("a new lane")
    }

    /// All that is left, once no writer is.
    fn rest(self) -> Vec<u8> {
        drop(self.writer);
        let (mut rest, mut reader) = (Vec::new(), self.reader);
        reader.read_to_end(&mut rest).expect("bytes");
        rest
    }
}

#[test]
fn a_process_that_writes_and_reads_goes_through_memory_alone() {
    if !has_lanes("a_process_that_writes_and_reads_goes_through_memory_alone") {
        return;
    }
    let scene = Scene::new();
    let [read, write] = scene.ends();
    assert!(read.may_push() && write.may_push());
    let (reader, writer) = (scene.reader(&read), scene.writer(&write));
    let mut at = 0;
    // The ring's end is passed a few times.
    for size in [1, 1024, 4096, 65_536, 300_000].repeat(10) {
        assert_eq!(writer.write(&bytes(at, size)).expect("room"), size);
        assert_eq!(read.held(), 0, "the kernel's pipe was not used");
        let mut got = vec![0; size];
        assert_eq!(reader.read(&mut got).expect("bytes"), size);
        assert!(got == bytes(at, size), "other bytes");
        at += size;
    }
}

#[test]
fn a_demotion_finds_room_behind_a_pipe_whose_pages_are_half_empty() {
    if !has_lanes("a_demotion_finds_room_behind_a_pipe_whose_pages_are_half_empty") {
        return;
    }
    let scene = Scene::new();
    let [read, write] = scene.ends();
    let writer = scene.writer(&write);
    do_not_block(scene.writer.as_raw_fd());
    let mut at = 0;
    let fill = |at: &mut usize, sizes: &[usize]| {
        for size in sizes.iter().cycle() {
            match writer.write(&bytes(*at, *size)) {
                Ok(count) => *at += count,
                Err(why) => return assert_eq!(why.kind(), io::ErrorKind::WouldBlock),
            }
        }
    };
    // The kernel's pipe, before a reader comes: no two of these have room in one page.
    fill(&mut at, &[2, 4095]);
    assert!(at < 40_000, "pages are half empty");
    let reader = scene.reader(&read);
    fill(&mut at, &[4096]);
    assert!(at > 700_000, "the ring is full, too: {at}");
    let mut first = vec![0; 1000];
    assert_eq!(reader.read(&mut first).expect("bytes"), 1000);
    fill(&mut at, &[100]);
    reader.demote().expect("it may push");
    assert!(scene.lane(&write).writer().is_ok_and(|writer| writer.is_none()), "it is the kernel's");
    assert_eq!(writer.write(b"x").expect("room"), 1);
    first.extend(scene.rest());
    assert!(first[..at] == bytes(0, at) && first[at..] == *b"x", "{} bytes of {at}", first.len());
}

#[test]
fn a_demotion_needs_no_free_descriptor_below_the_soft_limit() {
    if !has_lanes("a_demotion_needs_no_free_descriptor_below_the_soft_limit") {
        return;
    }
    let scene = Scene::new();
    let [read, write] = scene.ends();
    let reader = scene.reader(&read);
    let writer = scene.writer(&write);
    writer.write(b"ring").expect("room");
    in_child(|| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a place for the limit, and one that is read.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
            limit.rlim_cur = 3;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
        writer.write(b" and pipe").is_ok_and(|count| count == 9)
    });
    let mut got = [0; 20];
    let count = reader.read(&mut got).expect("bytes");
    assert_eq!(got[..count], *b"ring and pipe");
}

#[test]
fn a_demotion_that_may_open_nothing_fails_and_leaves_the_bytes_to_the_next() {
    if !has_lanes("a_demotion_that_may_open_nothing_fails_and_leaves_the_bytes_to_the_next") {
        return;
    }
    let scene = Scene::new();
    let [read, write] = scene.ends();
    let (reader, writer) = (scene.reader(&read), scene.writer(&write));
    writer.write(b"ring").expect("room");
    in_child(|| {
        limit_to(libc::RLIMIT_NOFILE, 3);
        let refused = |why: io::Error| why.raw_os_error() == Some(libc::EMFILE);
        writer.write(b"lost").is_err_and(refused) && writer.demote().is_err_and(refused)
    });
    assert_eq!(writer.write(b" and pipe").expect("room"), 9);
    let mut got = [0; 20];
    let count = reader.read(&mut got).expect("bytes");
    assert_eq!(got[..count], *b"ring and pipe");
}

/// Both limits, for good.
fn limit_to(what: Resource, most: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a limit that is read.
    unsafe { libc::setrlimit(what, &raw const limit) };
}

#[cfg(target_env = "musl")]
type Resource = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Resource = libc::__rlimit_resource_t;

#[test]
fn a_table_larger_than_the_process_may_make_is_an_error() {
    in_child(|| {
        limit_to(libc::RLIMIT_FSIZE, 1_000_000);
        Table::new().is_err_and(|why| why.raw_os_error() == Some(libc::EFBIG))
    });
}

#[test]
fn a_pipe_of_packets_has_no_lane() {
    let mut fds = [0; 2];
    // SAFETY: a place for two descriptors, which are new.
    let [reader, writer] = unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_DIRECT | libc::O_CLOEXEC), 0);
        fds.map(|fd| OwnedFd::from_raw_fd(fd))
    };
    let place = Place::new().expect("memory");
    let end = Descriptor::new(writer.as_raw_fd(), &place);
    assert!(Lane { words: place.words(), pipe: &end }.writer().is_ok_and(|writer| writer.is_none()));
    assert_eq!((place.words().stage.load(Ordering::SeqCst), place.words().owners().count()), (1, 0));
    drop(reader);
}

#[test]
fn the_memory_of_an_end_that_was_dropped_stays_as_long_as_its_thread() {
    if !has_lanes("the_memory_of_an_end_that_was_dropped_stays_as_long_as_its_thread") {
        return;
    }
    for _ in 0..3 {
        let scene = Scene::new();
        let [read, write] = scene.ends();
        let at = std::ptr::from_ref(scene.place.words()).addr();
        // The next round's claim goes through this thread's list of words.
        let _dropped = (scene.reader(&read), scene.writer(&write));
        drop(scene);
        let page = at as *mut libc::c_void;
        let mut resident = [0; 1];
        // SAFETY: a place for one page's answer; an address that is not mapped is an error.
        assert_eq!(unsafe { libc::mincore(page, 1, resident.as_mut_ptr()) }, 0, "it is mapped");
    }
}

/// A child has a copy of each descriptor of its parent for as long as it runs: no test sees the last end of a pipe closed meanwhile.
static FORK: Mutex<()> = Mutex::new(());

fn no_fork() -> MutexGuard<'static, ()> {
    FORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs it in a forked child, which says whether it went well.
fn in_child(act: impl FnOnce() -> bool) {
    let _only = no_fork();
    // SAFETY: the child calls nothing that another thread of its parent could have locked.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let status = i32::from(!act());
        // SAFETY: ends the process.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: a place for the status.
    assert_eq!((unsafe { libc::waitpid(child, &raw mut status, 0) }, status), (child, 0));
}

#[test]
fn a_forked_child_writes_behind_its_parent_and_owns_nothing() {
    if !has_lanes("a_forked_child_writes_behind_its_parent_and_owns_nothing") {
        return;
    }
    let scene = Scene::new();
    let [read, write] = scene.ends();
    let reader = scene.reader(&read);
    let writer = scene.writer(&write);
    assert_eq!(writer.write(b"parent").expect("room"), 6);
    in_child(|| writer.write(b" child").is_ok_and(|count| count == 6));
    assert_eq!(read.held(), 12, "both are in the kernel's pipe");
    assert_eq!(writer.write(b" parent").expect("room"), 7);
    let mut got = [0; 30];
    assert_eq!(reader.read(&mut got).expect("bytes"), 19);
    assert_eq!(got[..19], *b"parent child parent");
}

/// A pipe in whose pushing a signal comes.
struct Disturbed<'a>(Descriptor<'a>);

static HANDLED: AtomicU32 = AtomicU32::new(0);
/// How often the handler had run when the first push was over.
static HANDLED_WITHIN: AtomicU32 = AtomicU32::new(9);

extern "C" fn handle(_: i32) {
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

impl Pipe for Disturbed<'_> {
    type Error = io::Error;
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn held(&self) -> u64 {
        self.0.held()
    }
    fn push(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: a signal for this thread, which has a handler.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
        HANDLED_WITHIN.store(HANDLED.load(Ordering::SeqCst), Ordering::SeqCst);
        self.0.push(bytes)
    }
    fn widen(&self) -> bool {
        self.0.widen()
    }
    fn refusal(&self) -> Option<io::Error> {
        self.0.refusal()
    }
    fn interrupted(&self) -> io::Error {
        self.0.interrupted()
    }
    fn size(&self) -> u64 {
        self.0.size()
    }
    fn atomic(&self) -> usize {
        self.0.atomic()
    }
    fn put(&self, at: u64, bytes: &[u8]) {
        self.0.put(at, bytes);
    }
    fn get(&self, at: u64, into: &mut [u8]) {
        self.0.get(at, into);
    }
}

#[test]
fn a_signal_in_a_demotion_is_handled_behind_it() {
    if !has_lanes("a_signal_in_a_demotion_is_handled_behind_it") {
        return;
    }
    let scene = Scene::new();
    let [read, write] = scene.ends().map(Disturbed);
    let words = scene.place.words();
    // SAFETY: a handler that touches an atomic.
    unsafe { libc::signal(libc::SIGUSR1, handle as extern "C" fn(i32) as usize) };
    let reader = Lane { words, pipe: &read }.reader().expect("no push").expect("a new lane");
    let writer = Lane { words, pipe: &write }.writer().expect("no push").expect("a new lane");
    assert_eq!(writer.write(b"in the ring").expect("room"), 11);
    writer.demote().expect("it may push");
    assert_eq!((HANDLED_WITHIN.load(Ordering::SeqCst), HANDLED.load(Ordering::SeqCst)), (0, 1));
    let mut got = [0; 20];
    assert_eq!(reader.read(&mut got).expect("bytes"), 11);
}

/// Both ends, and their descriptors.
fn with_ends(act: impl FnOnce(Reader<Descriptor>, Writer<Descriptor>, PipeReader, PipeWriter)) {
    let Scene { place, reader: read_end, writer: write_end } = Scene::new();
    let [read, write] = [read_end.as_raw_fd(), write_end.as_raw_fd()].map(|fd| Descriptor::new(fd, &place));
    let lane = |pipe| Lane { words: place.words(), pipe };
    let (reader, writer) = (lane(&read).reader().expect("no push"), lane(&write).writer().expect("no push"));
    let (reader, writer) = (reader.expect("a new lane"), writer.expect("a new lane"));
    assert_eq!(writer.write(b"last").expect("room"), 4);
    act(reader, writer, read_end, write_end);
}

#[test]
fn the_end_of_a_lane_and_a_broken_one_are_told_by_the_kernel() {
    if !has_lanes("the_end_of_a_lane_and_a_broken_one_are_told_by_the_kernel") {
        return;
    }
    let _none = no_fork();
    with_ends(|reader, writer, _read_end, write_end| {
        writer.release();
        drop(write_end);
        let mut got = [0; 10];
        assert_eq!([(); 2].map(|()| reader.read(&mut got).expect("the pipe is whole")), [4, 0]);
    });
    with_ends(|reader, writer, read_end, _write_end| {
        reader.release();
        drop(read_end);
        assert_eq!(writer.write(b"x").expect_err("nobody reads").kind(), io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_pipe_that_was_entered_has_one_lane_in_all_processes() {
    if !has_lanes("a_pipe_that_was_entered_has_one_lane_in_all_processes") {
        return;
    }
    let table = Table::new().expect("memory");
    let [(reader, writer), (other, _w), (unknown, _v)] = [(); 3].map(|()| io::pipe().expect("a pipe"));
    assert!(table.enter(&reader).expect("a pipe") && table.enter(&other).expect("a pipe"));
    in_child(|| {
        let Ok(Some(place)) = table.place(&writer) else { return false };
        let end = Descriptor::new(writer.as_raw_fd(), &place);
        let Ok(Some(writer)) = Lane { words: place.words(), pipe: &end }.writer() else { return false };
        let is_written = writer.write(b"by the child").is_ok();
        writer.release();
        is_written
    });
    let place = table.place(&reader).expect("it is open").expect("it was entered");
    assert_eq!(place.words().kernel_end.load(Ordering::SeqCst), 12, "written before a reader came");
    let untouched = table.place(&other).expect("it is open").expect("it was entered");
    assert_eq!(untouched.words().tail.load(Ordering::SeqCst), 0);
    assert!(table.place(&unknown).expect("it is open").is_none(), "nobody has entered it");
    let file = std::fs::File::open("/proc/self/stat").expect("a file");
    assert!(table.place(&file).expect("it is open").is_none() && table.enter(&file).is_err(), "no pipe");
}

#[test]
fn a_slot_is_used_once_and_a_full_table_leaves_pipes_to_the_kernel() {
    let table = Table::new().expect("memory");
    let (reader, _writer) = io::pipe().expect("a pipe");
    // As if the number came again for another pipe.
    for _ in 0..1024 {
        assert!(table.enter(&reader).expect("a pipe"));
        let place = table.place(&reader).expect("it is open").expect("it was entered");
        assert_eq!(place.words().tail.fetch_add(1 << 4, Ordering::SeqCst), 0, "a lane that nobody has had");
    }
    assert!(!table.enter(&reader).expect("a pipe"), "no slot is left");
    assert!(table.place(&reader).expect("it is open").is_none(), "so it is the kernel's");
}
