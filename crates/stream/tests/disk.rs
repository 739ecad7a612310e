//! Files that are read ahead, and disks with many transfers in flight: the order is kept, and what goes wrong is said. (`target` lies on a file system with direct
//! transfers; where it does not, `disk` says so, and so does this.)

use chappe_stream::{Graph, run};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Bytes of which no two blocks are alike.
fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn quoted(path: &Path) -> String {
    format!("{:?}", path.display().to_string())
}

fn written(dir: &Path, name: &str, len: usize) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes(len)).unwrap();
    path
}

fn failed(text: &str) -> String {
    match Graph::new(text) {
        Err(wrong) => wrong.to_string(),
        Ok(graph) => graph.run().and_then(chappe_stream::Running::wait).unwrap_err().to_string(),
    }
}

/// Whether files in this directory have direct transfers.
fn is_direct(dir: &Path) -> bool {
    let path = written(dir, "probe", 4096);
    match Graph::new(&format!("disk {} | null", quoted(&path))) {
        Ok(_) => true,
        Err(wrong) => {
            assert!(wrong.to_string().contains("takes no direct transfers"), "{wrong}");
            println!("not tested: there are no direct transfers in {}", dir.display());
            false
        }
    }
}

#[test]
fn blocks_of_many_reads_come_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    for (len, block, reads) in [(0, 8192, 4), (1, 8192, 4), (100_003, 1000, 7), (65_536, 8192, 16), (50_000, 65_536, 2)]
    {
        let path = written(dir.path(), "in", len);
        let (from, to) = (quoted(&path), quoted(&out));
        run(&format!("file {from} block={block} reads={reads} | file {to}")).unwrap();
        assert!(std::fs::read(&out).unwrap() == bytes(len), "{len} {block} {reads}");
    }
    let path = written(dir.path(), "in", 4002);
    let why = failed(&format!("raw {} as=f32 block=10 reads=3 | null", quoted(&path)));
    assert!(why.contains("the last 2 bytes are no whole frame of 4 bytes"), "{why}");
    // A reader that wants no more ends it, and nobody waits for the rest.
    let report = run(&format!("file {} block=100 reads=8 | take 150 | count | null", quoted(&path))).unwrap();
    assert_eq!(report.node("count").unwrap().says.as_deref(), Some("150 frames"));
}

/// From now on the kernel does not say what its cache has, and gives no ring: in this thread, and in those that it begins.
fn can_tell_nothing() {
    let rule = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let (load, equal) = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
    let answer = |action: u32| rule(libc::BPF_RET | libc::BPF_K, action, 0, 0);
    let refuse = |why: i32| answer(libc::SECCOMP_RET_ERRNO | why as u32);
    let mut rules = vec![rule(load, 0, 0, 0)];
    rules.extend([rule(equal, libc::SYS_io_uring_setup as u32, 0, 1), refuse(libc::EPERM)]);
    // The flags are the sixth argument, at byte 56.
    rules.extend([rule(equal, libc::SYS_preadv2 as u32, 0, 3), rule(load, 56, 0, 0)]);
    rules.extend([rule(equal, libc::RWF_NOWAIT as u32, 0, 1), refuse(libc::EOPNOTSUPP)]);
    rules.push(answer(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
    // SAFETY: the program is valid for the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

#[test]
fn a_file_of_which_the_kernel_tells_nothing_is_read_all_the_same() {
    const ROLE: &str = "CHAPPE_TEST_ROLE";
    if std::env::var(ROLE).is_ok() {
        // The graph's threads begin behind it.
        can_tell_nothing();
    } else {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "disk::a_file_of_which_the_kernel_tells_nothing_is_read_all_the_same"]);
        let done = again.args(["--test-threads=1", "--nocapture"]).env(ROLE, "refused").output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&done.stderr));
    }
    // On a disk, in memory, and where a file says that it has no bytes, or more than it has.
    for dir in [Path::new(env!("CARGO_TARGET_TMPDIR")), Path::new("/dev/shm")] {
        let dir = tempfile::tempdir_in(dir).unwrap();
        let (out, path) = (dir.path().join("out"), written(dir.path(), "in", 3_000_001));
        let file = std::fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        for block in [4096, 100_000] {
            // SAFETY: takes numbers. A file in memory stays there.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
            run(&format!("file {} block={block} reads=4 | file {}", quoted(&path), quoted(&out))).unwrap();
            assert!(std::fs::read(&out).unwrap() == bytes(3_000_001), "{} {block}", dir.path().display());
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    for path in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        let Ok(has) = std::fs::read(path) else { continue };
        assert_ne!(std::fs::metadata(path).unwrap().len(), has.len() as u64, "{path}");
        run(&format!("file {path:?} block=7 reads=3 | file {}", quoted(&out))).unwrap();
        assert_eq!(std::fs::read(&out).unwrap(), has, "{path}");
    }
}

#[test]
fn a_disk_has_what_was_written_to_it() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if !is_direct(dir.path()) {
        return;
    }
    let (disk, out) = (dir.path().join("disk"), dir.path().join("out"));
    for len in [0, 5, 4096, 300_001] {
        let path = written(dir.path(), "in", len);
        let (from, by, to) = (quoted(&path), quoted(&disk), quoted(&out));
        let report = run(&format!("file {from} | disk {by} block=65536 in_flight=3")).unwrap();
        assert_eq!(report.node("disk").unwrap().says, Some(format!("{len} bytes on the device")));
        assert!(std::fs::read(&disk).unwrap() == bytes(len), "{len}");
        run(&format!("disk {by} block=8192 in_flight=5 | file {to}")).unwrap();
        assert!(std::fs::read(&out).unwrap() == bytes(len), "{len}");
    }
    let text = include_str!("../../../examples/graphs/disk.graph");
    let copy = dir.path().join("copy.disk");
    let text = text.replace("\"in.wav\"", &quoted(&dir.path().join("in"))).replace("\"copy.disk\"", &quoted(&copy));
    run(&text).unwrap();
    assert!(std::fs::read(&copy).unwrap() == bytes(300_001));
    let why = failed(&format!("disk {} block=1000 | null", quoted(&disk)));
    assert!(
        why.contains("`block` of `disk` is 1000, and the blocks of") && why.contains("a multiple of that"),
        "{why}"
    );
    let why = failed(&format!("file {} | disk {} block=1000", quoted(&out), quoted(&disk)));
    assert!(why.contains("`block` of `disk` is 1000"), "{why}");
}

#[test]
fn a_file_that_shrinks_and_a_disk_that_is_replaced_are_told() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = written(dir.path(), "in", 20_000);
    let graph = Graph::new(&format!("file {} block=4096 reads=2 | null", quoted(&path))).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(5000).unwrap();
    let why = graph.run().unwrap().wait().unwrap_err().to_string();
    assert!(why.contains("had 20000 bytes, and has become shorter while it was read: it ends after 5000"), "{why}");
    for stage in ["file", "lines", "raw", "records"] {
        let path = written(dir.path(), "in", 20_000);
        let schema = if stage == "records" { " \"n: u32\"" } else { "" };
        let graph = Graph::new(&format!("{stage} {}{schema} | null", quoted(&path))).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(5000).unwrap();
        let why = graph.run().unwrap().wait().unwrap_err().to_string();
        assert!(why.contains("had 20000 bytes, and has become shorter"), "{stage}: {why}");
    }
    if !is_direct(dir.path()) {
        return;
    }
    for (way, says) in [("fault", None), ("keep", Some("names another file or disk now: the old one was read"))] {
        let (path, out) = (written(dir.path(), "in", 20_000), dir.path().join("out"));
        let text = format!("disk {} block=4096 new_disk={way} | file {}", quoted(&path), quoted(&out));
        let graph = Graph::new(&text).unwrap();
        std::fs::rename(written(dir.path(), "new", 100), &path).unwrap();
        let ran = graph.run().unwrap().wait();
        match says {
            None => {
                let why = ran.unwrap_err().to_string();
                assert!(why.contains("is another file or disk now, after 0 bytes: `new_disk=keep`"), "{why}");
            }
            Some(says) => {
                let report = ran.unwrap();
                assert!(report.node("disk").unwrap().says.as_ref().unwrap().contains(says), "{report:?}");
                assert!(std::fs::read(&out).unwrap() == bytes(20_000));
            }
        }
    }
}

#[test]
fn a_file_without_positions_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let gone = dir.path().join("gone");
    for (text, why) in [
        (
            "file \"/dev/null\" reads=2 | null".to_owned(),
            "`/dev/null` is no file and no disk, and has no places to read at: leave `reads=` out",
        ),
        (format!("file {} reads=2 | null", quoted(&gone)), "cannot open"),
        (format!("disk {} | null", quoted(&gone)), "No such file"),
        (format!("disk {} | null", quoted(dir.path())), "no file and no disk"),
        ("sine 440 seconds=0.1 | disk \"/dev/null\"".to_owned(), "`/dev/null` is no file and no disk"),
        (format!("disk {} in_flight=0 | null", quoted(&gone)), "must be from 1 to 256"),
        (format!("file {} reads=0 | null", quoted(&gone)), "must be from 1 to 256"),
        (format!("disk {} new_disk=maybe | null", quoted(&gone)), "one of fault, keep"),
    ] {
        let said = failed(&text);
        assert!(said.contains(why), "{text}: {said}");
    }
}
