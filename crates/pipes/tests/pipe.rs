//! Lanes before real pipes: what is read is what was written, whichever way it went.

mod machine;

use chappe_lane::{Lane, Pipe, Reader, Writer};
use chappe_pipes::{Descriptor, Meeting, Others, Place, Run};
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
fn a_lane_that_begins_in_the_middle_of_a_stream_loses_no_byte() {
    if !has_lanes("a_lane_that_begins_in_the_middle_of_a_stream_loses_no_byte") {
        return;
    }
    let scene = Scene::new();
    let [read, write] = scene.ends();
    let lane = scene.lane(&read);
    let mut got = vec![0; 300];
    assert_eq!(write.write(&bytes(0, 1000)).expect("room"), 1000);
    assert_eq!(read.read(&mut got).expect("bytes"), 300);
    assert!(!lane.catch_up(), "nobody counts");
    assert!(scene.lane(&write).begin_late() && !scene.lane(&write).begin_late(), "once");
    let writer = scene.writer(&write);
    assert_eq!(writer.write(&bytes(1000, 500)).expect("room"), 500);
    assert!(lane.catch_up() && lane.catch_up());
    let reader = scene.reader(&read);
    assert_eq!(writer.write(&bytes(1500, 400_000)).expect("room"), 400_000);
    assert_eq!(read.held(), 1200, "the rest is in the ring");
    let mut at = 300;
    for count in [1000, 200, 300_000, 100_000] {
        let mut got = vec![0; count];
        assert_eq!(reader.read(&mut got).expect("bytes"), count);
        assert!(got == bytes(at, count), "other bytes at {at}");
        at += count;
    }
    writer.write(&bytes(at, 70_000)).expect("room");
    reader.demote().expect("it may push");
    assert!(scene.place.words().is_plain() && scene.rest() == bytes(at, 70_000));
}

/// Whether this machine's `/proc` tells which process has which descriptor.
fn run(test: &str) -> Option<Run> {
    let run = Run::of_this_process().expect("a /proc of this machine's");
    let (reader, _writer) = io::pipe().expect("a pipe");
    let is_told = run.others(reader.as_raw_fd()).is_some();
    if !is_told {
        eprintln!("not tested: {test}: there are processes here at which this user may not look");
    }
    is_told.then_some(run)
}

#[test]
fn a_process_that_has_an_end_is_seen_with_what_it_has_it_for() {
    let _none = no_fork();
    let Some(run) = run("a_process_that_has_an_end_is_seen_with_what_it_has_it_for") else { return };
    let [(reader, writer), (told, tell), (lasts, last)] = [(); 3].map(|()| io::pipe().expect("a pipe"));
    let seen = || [&reader as &dyn AsRawFd, &writer].map(|end| run.others(end.as_raw_fd()).expect("as before"));
    assert_eq!(seen(), [Others::default(); 2]);
    // SAFETY: the child calls the system alone.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: descriptors of its own; it ends when its parent has closed the last pipe.
        unsafe {
            libc::close(reader.as_raw_fd());
            libc::close(last.as_raw_fd());
            libc::write(tell.as_raw_fd(), c"x".as_ptr().cast(), 1);
            libc::read(lasts.as_raw_fd(), [0u8; 1].as_mut_ptr().cast(), 1);
            libc::_exit(0);
        }
    }
    (&told).read_exact(&mut [0]).expect("the child says that it is ready");
    assert_eq!(seen(), [Others { read: false, write: true }; 2]);
    drop(last);
    // SAFETY: this test's child.
    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    assert_eq!(seen(), [Others::default(); 2]);
    let elsewhere = Run { processes: run.processes + 1, ..run };
    assert_eq!(elsewhere.others(reader.as_raw_fd()), None, "another namespace may have more processes");
    let file = std::fs::File::open("/proc/self/stat").expect("a file");
    assert_eq!(run.others(file.as_raw_fd()), None, "no pipe");
}

#[test]
fn a_reader_finds_the_lane_that_the_writer_of_its_pipe_has_begun() {
    let folder = std::env::temp_dir().join(format!("chappe-lanes-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("room");
    let name = std::ffi::CString::new(folder.to_str().expect("text")).expect("no 0");
    let meeting = Meeting(&name);
    assert!(meeting.join(7).expect("it is open").is_none(), "no writer has come");
    let writers = meeting.begin(7).expect("room");
    writers.words().tail.store(1 << 4, Ordering::SeqCst);
    let readers = meeting.join(7).expect("room").expect("it is there");
    assert_eq!(readers.words().tail.load(Ordering::SeqCst), 1 << 4);
    assert!(meeting.join(8).expect("it is open").is_none());
    let next = meeting.begin(7).expect("room");
    assert_eq!(next.words().tail.load(Ordering::SeqCst), 0, "the next pipe of that number has a lane of its own");
    meeting.end(7);
    assert!(meeting.join(7).expect("it is open").is_none());
    std::fs::remove_dir(&folder).expect("it is empty");
    assert!(meeting.begin(7).is_err());
    in_child(|| {
        limit_to(libc::RLIMIT_FSIZE, 500_000);
        meeting.begin(7).is_err_and(|why| why.raw_os_error() == Some(libc::EFBIG))
    });
}
