//! Files that light threads read and write: by a ring, and, where the kernel permits none, by kernel threads that block. The last test runs all others once more so.

use chappe_plat::light;
use chappe_sync::{Interrupt, interruptible};
use chappe_thread::image::Image;
use chappe_thread::{
    Destroyed, File, FileWay, JoinHandle, Runtime, block_in_place, current, file_way, spawn, yield_now,
};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, PipeWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// What a process of this program is to be: "refused", it has no ring; or one of the roles below.
const ROLE: &str = "CHAPPE_TEST_ROLE";

fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Runs tests of this program in a process of that role.
fn in_role(role: &str, tests: &[&str]) {
    let done = Command::new(std::env::current_exe().unwrap()).args(tests).env(ROLE, role).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && !said.contains(" 0 passed"), "{role}: {:?}\n{said}", done.status);
}

/// A rule for calls: the number; of which argument which value is let through; what becomes of the call if it is not so.
fn rule(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn load(offset: u32) -> libc::sock_filter {
    rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

fn answer(action: u32) -> libc::sock_filter {
    rule(libc::BPF_RET | libc::BPF_K, action, 0, 0)
}

/// Of the calling kernel thread and those that it begins.
fn filter(mut rules: Vec<libc::sock_filter>) {
    let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
    // SAFETY: the program is valid for the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// From now on this call is refused.
fn refuse(call: libc::c_long) {
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    filter(vec![
        load(0),
        rule(equal, call as u32, 0, 1),
        answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ]);
}

/// A runtime with so many procs, in the role of this process.
fn runtime(procs: usize) -> Runtime {
    if role().as_deref() == Some("refused") {
        refuse(libc::SYS_io_uring_setup);
    }
    Runtime::new(procs).unwrap()
}

/// Whether there is a ring. Of a light thread.
fn by_ring() -> bool {
    match file_way() {
        FileWay::Ring => assert_ne!(role().as_deref(), Some("refused")),
        FileWay::KernelThread(why) => {
            if role().is_none() {
                eprintln!("not tested: files by a ring: {why}");
            }
            assert!(role().is_none() || why.contains("not permitted"), "{why}");
            return false;
        }
        other => panic!("{other}"),
    }
    true
}

fn one<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    runtime(1).run(body)
}

fn settle() {
    (0..20).for_each(|_| yield_now());
}

/// A file without a name.
fn nameless() -> File {
    let name = std::env::temp_dir().join(format!("chappe-files-{}-{:?}", std::process::id(), current().id()));
    let mut options = OpenOptions::new();
    let file = File::open_with(options.read(true).write(true).create_new(true), &name).unwrap();
    std::fs::remove_file(&name).unwrap();
    file
}

/// A pipe, whose reading end is taken for a file: a read of it waits until something is written.
fn pipe() -> (File, PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    (File::new(std::fs::File::from(OwnedFd::from(reader))).unwrap(), writer)
}

fn reads(mut file: File) -> JoinHandle<io::Result<Vec<u8>>> {
    spawn(move || {
        let mut place = [0; 64];
        let len = file.read(&mut place)?;
        Ok(place[..len].to_vec())
    })
}

fn is_destroyed<T>(thread: JoinHandle<T>) -> bool {
    thread.join().is_err_and(|why| why.is::<Destroyed>())
}

/// Writes and reads at places and at the position, and compares with a vector.
fn as_a_vector() {
    let (mut file, mut model, mut position) = (nameless(), Vec::<u8>::new(), 0usize);
    let mut dice = 7u64;
    let mut throw = |below: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (dice >> 33) as usize % below
    };
    let put = |model: &mut Vec<u8>, bytes: &[u8], at: usize| {
        let end = at + bytes.len();
        model.resize(model.len().max(end), 0);
        model[at..end].copy_from_slice(bytes);
    };
    for round in 0..120 {
        let (at, len) = (throw(20_000), throw(9_000));
        let bytes = vec![round as u8 + 1; len];
        let mut place = vec![0xee; len];
        match throw(7) {
            0 => {
                file.write_all_at(&bytes, at as u64).unwrap();
                put(&mut model, &bytes, at);
            }
            1 => {
                file.write_all(&bytes).unwrap();
                put(&mut model, &bytes, position);
                position += len;
            }
            2 => {
                let there = model.get(at..).unwrap_or_default();
                match file.read_exact_at(&mut place, at as u64) {
                    Ok(()) => assert_eq!(place, there[..len]),
                    Err(e) => assert!(e.kind() == ErrorKind::UnexpectedEof && there.len() < len),
                }
            }
            3 => {
                let there = model.get(position..).unwrap_or_default();
                let read = file.read(&mut place).unwrap();
                assert!(read <= len.min(there.len()) && (read > 0 || len == 0 || there.is_empty()));
                assert_eq!(place[..read], there[..read]);
                assert!(place[read..].iter().all(|byte| *byte == 0xee));
                position += read;
            }
            4 => {
                file.seek(SeekFrom::Start(at as u64)).unwrap();
                position = at;
            }
            5 => file.sync_data().unwrap(),
            _ => file.sync_all().unwrap(),
        }
    }
    file.rewind().unwrap();
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    assert!(all == model && !all.is_empty());
    assert!(file.get_ref().metadata().unwrap().len() == model.len() as u64);
}

#[test]
fn a_file_holds_what_was_written_whoever_reads_it() {
    for procs in [1, 2] {
        runtime(procs).run(|| {
            by_ring();
            as_a_vector();
            block_in_place(as_a_vector);
        });
    }
    // A kernel thread's calls block it; `nameless` asks for the number of a light one.
    let file = one(nameless);
    file.write_all_at(b"kernel", 3).unwrap();
    let mut word = [0; 6];
    file.read_exact_at(&mut word, 3).unwrap();
    file.sync_all().unwrap();
    assert_eq!(&word, b"kernel");
}

#[test]
fn a_direct_transfer_and_a_synchronous_write_hold_the_same() {
    use std::os::unix::fs::OpenOptionsExt;
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    one(|| {
        for flags in [libc::O_DIRECT, libc::O_DSYNC] {
            let name = std::env::temp_dir().join(format!("chappe-direct-{}-{flags}", std::process::id()));
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true).custom_flags(flags);
            let file = match File::open_with(&options, &name) {
                Ok(file) => file,
                Err(e) if flags == libc::O_DIRECT && e.kind() == ErrorKind::InvalidInput => {
                    eprintln!("not tested: direct transfers: this file system has none");
                    continue;
                }
                Err(e) => panic!("{e}"),
            };
            std::fs::remove_file(&name).unwrap();
            let (page, mut read) = (Page([7; 4096]), Page([0; 4096]));
            file.write_all_at(&page.0, 4096).unwrap();
            file.read_exact_at(&mut read.0, 4096).unwrap();
            assert!(read.0 == page.0);
            assert_eq!(file.read_at(&mut read.0, 8192).unwrap(), 0);
            if flags == libc::O_DIRECT {
                let at_once = file.append_at_once(&mut Vec::with_capacity(4096), 4096, 4096);
                assert_eq!(at_once.unwrap_err().kind(), ErrorKind::WouldBlock);
            }
        }
    });
}

#[test]
fn a_read_that_waits_holds_nobody_up() {
    one(|| {
        by_ring();
        let (file, mut writer) = pipe();
        let descriptor = file.get_ref().as_raw_fd();
        let reader = reads(file);
        settle();
        assert!(!reader.is_finished() && light::waits_from_outside() == by_ring());
        if by_ring() {
            let image = Image::of(std::process::id()).unwrap().unwrap();
            let seen = image.threads.iter().find(|seen| seen.number == reader.id().as_u32()).unwrap();
            assert_eq!(seen.waits, format!("waits for descriptor {descriptor}"));
        }
        writer.write_all(b"at last").unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), b"at last");
        // Its end is told, too.
        let (file, writer) = pipe();
        let reader = reads(file);
        settle();
        drop(writer);
        assert_eq!(reader.join().unwrap().unwrap(), b"");
    });
}

#[test]
fn a_named_pipe_that_is_full_holds_nobody_up() {
    one(|| {
        let name: PathBuf = std::env::temp_dir().join(format!("chappe-fifo-{}", std::process::id()));
        let path = std::ffi::CString::new(name.to_str().unwrap()).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        let mut file = File::open_with(OpenOptions::new().read(true).write(true), &name).unwrap();
        let mut other = std::fs::File::open(&name).unwrap();
        std::fs::remove_file(&name).unwrap();
        let size = 1 << 18;
        let writer = spawn(move || file.write_all(&vec![5; size]).map(|()| file));
        settle();
        assert!(!writer.is_finished());
        let mut read = 0;
        let mut place = vec![0; 1 << 14];
        while read < size {
            // A part is there: the pipe is full, or the last part of it is on its way.
            let part = block_in_place(|| other.read(&mut place)).unwrap();
            assert!(place[..part].iter().all(|byte| *byte == 5));
            read += part;
        }
        assert!(writer.join().unwrap().is_ok());
    });
}

fn kernel_threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn many_wait_and_take_no_kernel_threads() {
    const MANY: usize = 150;
    one(|| {
        let with_ring = by_ring();
        let mut readers = Vec::new();
        for number in 0..MANY {
            let (file, writer) = pipe();
            readers.push((reads(file), writer, number.to_string()));
        }
        settle();
        // Tests that run beside this one have some, too.
        assert!(!with_ring || kernel_threads() < MANY, "{} kernel threads", kernel_threads());
        for (reader, writer, text) in &mut readers {
            assert!(!reader.is_finished());
            writer.write_all(text.as_bytes()).unwrap();
        }
        for (reader, _, text) in readers {
            assert_eq!(reader.join().unwrap().unwrap(), text.as_bytes());
        }
    });
}

#[test]
fn a_reader_that_is_destroyed_takes_nothing_with_it() {
    one(|| {
        if !by_ring() {
            return;
        }
        let (file, mut writer) = pipe();
        // A pipe has no places.
        assert_eq!(file.read_at(&mut [0; 8], 0).unwrap_err().raw_os_error(), Some(libc::ESPIPE));
        let reader = reads(file);
        settle();
        reader.thread().destroy().unwrap();
        assert!(is_destroyed(reader));
        // Its file has gone with it: nobody reads any more.
        assert_eq!(writer.write_all(b"late").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn an_interrupted_wait_says_so_and_the_next_one_reads() {
    one(|| {
        if !by_ring() {
            return;
        }
        let (mut file, mut writer) = pipe();
        let stop = Arc::new(Interrupt::new());
        let by = Arc::clone(&stop);
        let reader = spawn(move || {
            let mut place = [0; 8];
            let first = interruptible(&by, || file.read(&mut place));
            by.clear();
            let second = interruptible(&by, || file.read(&mut place));
            (first, second, place)
        });
        settle();
        stop.interrupt();
        while stop.is_asked() {
            yield_now();
        }
        writer.write_all(b"again").unwrap();
        let (first, second, place) = reader.join().unwrap();
        assert_eq!(first.unwrap_err().raw_os_error(), Some(libc::ECANCELED));
        assert!(second.unwrap() == 5 && &place[..5] == b"again");
    });
}

#[test]
fn interrupts_run_on_top_of_the_wait_and_a_suspended_reader_keeps_its_result() {
    one(|| {
        if !by_ring() {
            return;
        }
        let (file, mut writer) = pipe();
        let reader = reads(file);
        settle();
        let (tx, rx) = chappe_sync::tube::bounded(1);
        reader.thread().interrupt(move || tx.send("on top").unwrap()).unwrap();
        assert_eq!(rx.recv(), Ok("on top"));
        settle();
        assert!(!reader.is_finished());
        reader.thread().suspend().unwrap();
        writer.write_all(b"kept").unwrap();
        while !reader.thread().is_out() {
            yield_now();
        }
        assert!(!reader.is_finished());
        reader.thread().resume().unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), b"kept");
    });
}

#[test]
fn an_interrupt_must_not_wait_for_a_file() {
    one(|| {
        if !by_ring() {
            return;
        }
        let (mut file, mut writer) = pipe();
        let (waiting, _other) = pipe();
        let reader = reads(waiting);
        settle();
        let (tx, rx) = chappe_sync::tube::bounded::<()>(1);
        // Its panic is its own; it says so on the error output.
        let procedure = move || {
            let _tells = tx;
            let _ = file.read(&mut [0; 8]);
        };
        reader.thread().interrupt(procedure).unwrap();
        assert!(rx.recv().is_err());
        assert!(writer.write_all(b"x").is_err(), "the file went with the procedure");
        reader.thread().destroy().unwrap();
        assert!(is_destroyed(reader));
    });
}

#[test]
fn a_forked_child_makes_plain_calls() {
    one(|| {
        by_ring();
        let file = nameless();
        file.write_all_at(b"inherited", 0).unwrap();
        let (mut reader, mut writer) = pipe();
        writer.write_all(b"piped").unwrap();
        // SAFETY: the child makes system calls, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let (mut word, mut place) = ([0; 9], [0; 5]);
            let well = file.read_exact_at(&mut word, 0).is_ok()
                && reader.read_exact(&mut place).is_ok()
                && file.write_all_at(b"child", 20).is_ok()
                // This one is never tried at once.
                && file.sync_data().is_ok()
                && (&word, &place) == (b"inherited", b"piped");
            // SAFETY: ends the child.
            unsafe { libc::_exit(if well { 0 } else { 1 }) };
        }
        let mut status = -1;
        // SAFETY: our own child.
        assert_eq!(block_in_place(|| unsafe { libc::waitpid(child, &raw mut status, 0) }), child);
        assert_eq!(status, 0);
        let mut word = [0; 5];
        file.read_exact_at(&mut word, 20).unwrap();
        assert_eq!(&word, b"child");
    });
}

/// The only calls that the kernel thread of the proc may make from now on: `preadv2` that does not wait, these, and the end of the process.
fn nothing_but(calls: &[libc::c_long]) {
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut rules = vec![load(0)];
    for call in calls.iter().chain(&[libc::SYS_exit_group]) {
        rules.extend([rule(equal, *call as u32, 0, 1), answer(libc::SECCOMP_RET_ALLOW)]);
    }
    // The flags are the sixth argument, at byte 56.
    rules.extend([rule(equal, libc::SYS_preadv2 as u32, 0, 3), load(56)]);
    rules.extend([rule(equal, libc::RWF_NOWAIT as u32, 0, 1), answer(libc::SECCOMP_RET_ALLOW)]);
    rules.push(answer(libc::SECCOMP_RET_KILL_PROCESS));
    filter(rules);
}

#[test]
fn a_cached_read_takes_one_call_and_an_uncached_one_more() {
    match role().as_deref() {
        None => {
            in_role("cached", &["--exact", "a_cached_read_takes_one_call_and_an_uncached_one_more"]);
            in_role("waits", &["--exact", "a_cached_read_takes_one_call_and_an_uncached_one_more"]);
        }
        Some("cached") => one(|| {
            let file = nameless();
            file.write_all_at(&[9; 4096], 0).unwrap();
            let mut place = [0; 4096];
            file.read_exact_at(&mut place, 0).unwrap();
            let mut all = Vec::with_capacity(8192);
            nothing_but(&[]);
            for _ in 0..100 {
                if file.read_at(&mut place, 0).unwrap() != 4096 {
                    std::process::abort();
                }
            }
            if file.append_at_once(&mut all, 8192, 0).unwrap() != 4096 || all != [9; 4096] {
                std::process::abort();
            }
            // At the end `append_at` is to be asked, which may wait for what this kernel cannot tell.
            let end = file.append_at_once(&mut all, 4096, 4096).map_err(|e| e.kind());
            if (end, all.len()) != (Err(ErrorKind::WouldBlock), 4096) {
                std::process::abort();
            }
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }),
        Some("waits") => one(|| {
            if !by_ring() {
                return;
            }
            let (mut file, writer) = pipe();
            let feeder = move |times: usize| {
                for _ in 0..times {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    (&writer).write_all(b"four").unwrap();
                }
                std::thread::park();
            };
            // Begun before: it is not under the filter.
            std::thread::spawn(move || feeder(20));
            let mut place = [0; 4];
            file.read_exact(&mut place).unwrap();
            nothing_but(&[libc::SYS_io_uring_enter, libc::SYS_futex]);
            for _ in 1..20 {
                if file.read(&mut place).unwrap() != 4 {
                    std::process::abort();
                }
            }
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }),
        Some(_) => {}
    }
}

#[test]
fn a_ring_that_is_refused_later_is_done_without() {
    match role().as_deref() {
        None => in_role("closed", &["--exact", "a_ring_that_is_refused_later_is_done_without"]),
        Some("closed") => one(|| {
            if !by_ring() {
                return;
            }
            let (file, mut first) = pipe();
            let before = reads(file);
            settle();
            refuse(libc::SYS_io_uring_enter);
            let (file, mut second) = pipe();
            let after = reads(file);
            settle();
            assert!(!before.is_finished() && !after.is_finished());
            second.write_all(b"by a kernel thread").unwrap();
            assert_eq!(after.join().unwrap().unwrap(), b"by a kernel thread");
            // What the ring had taken comes to its end.
            first.write_all(b"by the ring").unwrap();
            assert_eq!(before.join().unwrap().unwrap(), b"by the ring");
        }),
        Some(_) => {}
    }
}

#[test]
fn without_a_ring_all_of_it_holds_as_well() {
    if role().is_none() {
        in_role("refused", &["--skip", "without_a_ring"]);
    }
}
