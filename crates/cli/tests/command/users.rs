//! Several users of one directory: whatever the umask, the kernel's `fs.protected_regular`, and the order in which they come.
//!
//! The users are processes with other numbers, which only root can start.

use super::place::{CHAPPE, Place, Ran, executable, not_tested, until};
use chappe::term::layout;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A group that the users have in common.
const GROUP: u32 = 54320;
/// Two users; each has a group of its own.
const ANNE: u32 = 54321;
const BERT: u32 = 54322;

/// Says why nothing is tested where this is not root.
fn is_root() -> bool {
    // SAFETY: takes nothing.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        not_tested("several users: only root can start processes of others");
    }
    root
}

/// A place that others can enter, and the binary in it.
fn place() -> Place {
    let here = Place::new();
    open_to_all(here.path());
    executable(&here.file("chappe"), &std::fs::read(CHAPPE).expect("the command"));
    here
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("our own");
}

/// `chappe` as another user would run it.
fn by(here: &Place, user: u32, umask: u32, args: &[&str]) -> Command {
    let mut c = here.program(here.file("chappe").to_str().expect("text"), args);
    c.current_dir("/");
    let groups = [GROUP, user];
    let check = |done: i32| if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: system calls alone between fork and exec.
    unsafe {
        c.pre_exec(move || {
            check(libc::setgroups(groups.len(), groups.as_ptr()))?;
            check(libc::setresgid(user, user, user))?;
            check(libc::setresuid(user, user, user))?;
            libc::umask(umask);
            Ok(())
        });
    }
    c
}

#[track_caller]
fn ran(here: &Place, user: u32, umask: u32, args: &[&str]) -> Ran {
    Place::spawn(&mut by(here, user, umask, args)).end()
}

#[track_caller]
fn ok(here: &Place, user: u32, umask: u32, args: &[&str]) -> String {
    let ran = ran(here, user, umask, args);
    assert_eq!(ran.status, Some(0), "user {user}, umask {umask:03o}, {args:?}: {ran:?}");
    ran.out
}

/// A setting of the kernel, put back when the test is over. One test at a time has it, of all processes.
struct Setting {
    file: std::fs::File,
    before: String,
}

impl Setting {
    const PATH: &str = "/proc/sys/fs/protected_regular";

    fn take() -> Option<Setting> {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(Setting::PATH).ok()?;
        // SAFETY: an open descriptor.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
            return None;
        }
        let before = std::fs::read_to_string(Setting::PATH).ok()?;
        Some(Setting { file, before })
    }

    fn set(&self, value: &str) -> bool {
        use std::os::unix::fs::FileExt;
        self.file.write_all_at(value.as_bytes(), 0).is_ok()
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        self.set(&self.before);
    }
}

/// The users that a directory is shared with.
const SHARED: [(u32, u32); 2] = [(0o1777, 0o666), (0o2770, 0o660)];

/// Shares the place's directory of arenas as Anne would.
fn share(here: &Place, mode: u32, umask: u32) {
    // She may make a directory there.
    std::fs::remove_dir(here.arenas()).expect("root may");
    std::fs::set_permissions(here.path(), std::fs::Permissions::from_mode(0o1777)).expect("our own");
    let with = if mode & 0o2000 != 0 { format!("group:{GROUP}") } else { "all".to_owned() };
    ok(here, ANNE, umask, &["arena", "create", "default", "--share", &with]);
    let is = std::fs::metadata(here.arenas()).expect("just made");
    assert_eq!((is.mode() & 0o7777, is.uid()), (mode, ANNE));
    assert!(mode & 0o2000 == 0 || is.gid() == GROUP);
}

/// All that two users do in one directory. `mode`: of the directory; `files`: of what is made in it.
fn two_users_share(mode: u32, files: u32, first: u32, second: u32) {
    let here = place();
    let case = format!("mode {mode:o}, umask {first:03o} and {second:03o}");
    share(&here, mode, first);
    let anne = |args: &[&str]| ok(&here, ANNE, first, args);
    let bert = |args: &[&str]| ok(&here, BERT, second, args);

    // Each makes an arena, a pool and a lease that the other then uses.
    anne(&["acquire", "--create", "gpu", "--", "true"]);
    bert(&["acquire", "gpu", "--", "true"]);
    bert(&["acquire", "--create", "berts/gpu", "--", "true"]);
    anne(&["acquire", "berts/gpu", "--", "true"]);
    // What one has the other waits for, and sees whose it is.
    let held = Place::spawn(&mut by(
        &here,
        BERT,
        second,
        &[
            "acquire",
            "gpu",
            "--",
            "sh",
            "-c",
            &format!("echo > {0}/up; while [ ! -e {0}/go ]; do sleep 0.02; done", here.arenas().display()),
        ],
    ));
    until("the job runs", || here.arenas().join("up").exists().then_some(()));
    let refused = ran(&here, ANNE, first, &["acquire", "--nonblock", "gpu", "--", "true"]);
    assert_eq!(refused.status, Some(124), "{case}: {refused:?}");
    assert!(anne(&["show", "gpu"]).contains(&held.pid().to_string()), "{case}");
    std::fs::write(here.arenas().join("go"), "").expect("root may");
    assert!(held.status().success(), "{case}");
    std::fs::remove_file(here.arenas().join("go")).expect("root may");
    std::fs::remove_file(here.arenas().join("up")).expect("root may");
    // Wake-ups and records.
    bert(&["sem", "create", "ready"]);
    anne(&["sem", "up", "ready"]);
    bert(&["sem", "down", "ready"]);
    anne(&["tube", "create", "lines", "--size", "64"]);
    std::fs::write(here.file("text"), "hello").expect("room");
    let text = std::fs::File::open(here.file("text")).expect("just written");
    let sends = Place::spawn(by(&here, BERT, second, &["send", "lines"]).stdin(text));
    assert_eq!(anne(&["recv", "lines"]), "hello", "{case}");
    assert!(sends.status().success(), "{case}");

    for entry in std::fs::read_dir(here.arenas()).expect("root may") {
        let entry = entry.expect("root may");
        let is = entry.metadata().expect("root may");
        assert_eq!(is.mode() & 0o7777, files, "{case}: {:?}", entry.file_name());
        assert!(mode & 0o2000 == 0 || is.gid() == GROUP, "{case}: {:?} is of group {}", entry.file_name(), is.gid());
    }
}

#[test]
fn two_users_share_a_directory_whatever_their_umask_and_the_kernels_protection() {
    if !is_root() {
        return;
    }
    let setting = Setting::take();
    for protected in ["0", "1", "2"] {
        if !setting.as_ref().is_some_and(|s| s.set(protected)) {
            not_tested("fs.protected_regular cannot be set here");
            continue;
        }
        for (mode, files) in SHARED {
            two_users_share(mode, files, 0o022, 0o022);
            two_users_share(mode, files, 0o077, 0o022);
            two_users_share(mode, files, 0o022, 0o077);
            two_users_share(mode, files, 0o077, 0o077);
        }
    }
}

#[test]
fn a_lock_waits_for_another_users_job() {
    if !is_root() {
        return;
    }
    for (mode, _) in SHARED {
        let here = place();
        share(&here, mode, 0o077);
        let anne = |args: &[&str]| ran(&here, ANNE, 0o077, args);
        assert_eq!(anne(&["lock", "--shared", "key", "--", "true"]).status, Some(0));
        let go = here.arenas().join("go");
        let script = format!("(while [ ! -e {} ]; do sleep 0.02; done) >/dev/null 2>&1 &", go.display());
        ok(&here, BERT, 0o077, &["lock", "key", "--", "sh", "-c", &script]);
        let refused = anne(&["lock", "--nonblock", "key", "--", "true"]);
        assert!(refused.status == Some(124) && refused.err.contains("kept for a job, "), "{refused:?}");
        std::fs::write(go, "").expect("root may");
        assert_eq!(anne(&["lock", "key", "--", "true"]).status, Some(0));
    }
}

#[test]
fn a_file_that_keeps_another_user_out_is_named_with_its_owner_and_mode() {
    if !is_root() {
        return;
    }
    let here = place();
    std::fs::set_permissions(here.arenas(), std::fs::Permissions::from_mode(0o1777)).expect("root may");
    ok(&here, ANNE, 0o022, &["pool", "create", "gpu"]);
    std::fs::set_permissions(here.arenas().join("default"), std::fs::Permissions::from_mode(0o600)).expect("root may");
    let refused = ran(&here, BERT, 0o022, &["show", "gpu"]);
    assert_eq!(refused.status, Some(1), "{refused:?}");
    for part in ["/default belongs to user 54321, and its mode 600 keeps you out", "--share"] {
        assert!(refused.err.contains(part), "{refused:?}");
    }
    // A look at all arenas shows the others, and why not this one.
    ok(&here, BERT, 0o022, &["pool", "create", "own/p"]);
    let seen = ran(&here, BERT, 0o022, &["top", "--once", "--interval", "50ms"]);
    assert!(seen.status == Some(1) && seen.out.contains("own/p"), "{seen:?}");
    assert!(seen.out.contains("arena default: ") && seen.out.contains("keeps you out"), "{seen:?}");
    let text = ok(&here, BERT, 0o022, &["metrics"]);
    assert!(text.contains("chappe_arena_up{arena=\"default\"} 0"), "{text}");
}

#[test]
fn only_the_owner_of_an_arena_and_root_remove_resize_and_take_by_force() {
    if !is_root() {
        return;
    }
    for (mode, _) in SHARED {
        let here = place();
        share(&here, mode, 0o022);
        for args in
            [&["pool", "create", "gpu"][..], &["sem", "create", "ready"], &["tube", "create", "lines", "--size", "64"]]
        {
            ok(&here, ANNE, 0o022, args);
        }
        let script = format!("echo > {0}; while [ ! -e {0}.go ]; do sleep 0.02; done", here.file("up").display());
        let mut c = by(&here, ANNE, 0o022, &["acquire", "gpu", "--", "sh", "-c", &script]);
        let held = Place::spawn(&mut c);
        until("the job runs", || here.file("up").exists().then_some(()));
        let refused: [(&[&str], &str); 10] = [
            (&["pool", "resize", "gpu", "3"], "resize"),
            (&["release", "gpu", "--force"], "take by force"),
            (&["pool", "rm", "gpu", "--force"], "remove"),
            (&["rm", "gpu", "--force"], "remove"),
            (&["rm", "ready"], "remove"),
            (&["sem", "rm", "ready", "--force"], "remove"),
            (&["tube", "rm", "lines", "--force"], "remove"),
            (&["rm", "lines"], "remove"),
            (&["arena", "rm", "default"], "remove"),
            (&["arena", "rm", "default", "--force"], "remove"),
        ];
        for (args, act) in refused {
            let ran = ran(&here, BERT, 0o022, args);
            let says =
                format!("arena `default` belongs to user {ANNE}: only that user and root may {act} what is in it");
            assert!(ran.status == Some(1) && ran.err.contains(&says), "{mode:o} {args:?}: {ran:?}");
        }
        assert!(ok(&here, ANNE, 0o022, &["show", "gpu"]).contains(&held.pid().to_string()), "nothing was changed");
        // Root may, and the owner.
        here.ok(&["pool", "resize", "gpu", "2"]);
        ok(&here, ANNE, 0o022, &["release", "gpu:0", "--force"]);
        std::fs::write(here.file("up.go"), "").expect("our own");
        assert!(held.status().success());
        for args in [&["rm", "ready"][..], &["rm", "lines"], &["pool", "rm", "gpu"], &["arena", "rm", "default"]] {
            ok(&here, ANNE, 0o022, args);
        }
    }
}

#[test]
#[cfg(feature = "term")]
fn another_users_terminal_is_looked_at_and_not_used_and_a_private_one_not_seen() {
    if !is_root() {
        return;
    }
    for (mode, _) in SHARED {
        let here = place();
        share(&here, mode, 0o077);
        let anne = |args: &[&str]| ok(&here, ANNE, 0o077, args);
        let bert = |args: &[&str]| ran(&here, BERT, 0o077, args);
        let script = "read -r x; echo \"said $x\"; read -r x; exit 3";
        anne(&["term", "run", "seen", "--", "sh", "-c", script]);
        anne(&["term", "run", "--private", "unseen", "--", "sh", "-c", script]);
        let job = ["--name", "job", "--", "sh", "-c", "echo $SECRET; read -r x"];
        anne(&[&["submit", "--create", "-p", "gpu", "--private"][..], &job].concat());
        // What others can do to it, and what only its user and root can.
        let uses: [&[&str]; 6] = [
            &["term", "send", "seen", "x"],
            &["term", "kill", "seen"],
            &["term", "resize", "seen", "40x10"],
            &["term", "attach", "seen"],
            &["term", "rm", "seen"],
            &["submit", "--retry", "job"],
        ];
        for args in uses {
            let refused = bert(args);
            let says = "is another user's: only that user and root may use it";
            assert!(refused.status != Some(0) && refused.err.contains(says), "{mode:o} {args:?}: {refused:?}");
        }
        for args in [&["term", "show", "unseen"][..], &["term", "wait", "--exit", "unseen"]] {
            let refused = bert(args);
            let says = "terminal `unseen` is another user's: only that user and root may look at it";
            assert!(refused.status != Some(0) && refused.err.contains(says), "{refused:?}");
        }
        let taken = bert(&["term", "run", "unseen", "--", "true"]);
        assert!(taken.err.contains("of another user: take another name"), "{taken:?}");
        anne(&["term", "send", "seen", "--enter", "hello"]);
        assert_eq!(bert(&["term", "wait", "seen", "^said"]).out, "said hello\n");
        assert_eq!(bert(&["term", "show", "seen"]).out, "hello\nsaid hello\n");
        let all = bert(&["term", "ls"]).out;
        assert!(all.contains(&format!("running, user {ANNE}")) && !all.contains("unseen"), "{all}");
        // What is typed, and a job's environment, are in a file of their user's alone.
        let typed = std::fs::read_dir(here.arenas()).expect("root may").map(|entry| entry.expect("root may"));
        let typed: Vec<_> = typed.filter(|entry| entry.file_name().to_string_lossy().starts_with(".typed-")).collect();
        assert_eq!(typed.len(), 3);
        assert!(typed.iter().all(|entry| entry.metadata().expect("root may").mode() & 0o7777 == 0o600));
        // Root is another user, and may.
        here.ok(&["term", "send", "unseen", "--enter", "from root"]);
        here.ok(&["term", "wait", "unseen", "said from root"]);
        let other = root_is_led_to_no_process_of_another(&here);
        for name in ["seen", "unseen", "job"] {
            anne(&["term", "send", name, "--enter", "x"]);
        }
        let waited = bert(&["term", "wait", "--exit", "seen"]);
        assert_eq!(waited.status, Some(3), "{waited:?}");
        here.ok(&["term", "rm", "seen"]);
        drop(other);
        anne(&["term", "wait", "--exit", "job"]);
        // It would be root's job, with what its user has written.
        let refused = here.run(&["submit", "--retry", "job"]);
        assert!(refused.err.contains("only that user can run it again"), "{refused:?}");
        anne(&["submit", "--retry", "job", "--name", "again"]);
        let unseen = bert(&["term", "show", "again"]);
        assert!(unseen.err.contains("only that user and root may look at it"), "as private as the first: {unseen:?}");
        anne(&["term", "send", "again", "--enter", "x"]);
        anne(&["term", "wait", "--exit", "again"]);
        anne(&["term", "rm", "unseen", "job", "again"]);
        let left =
            std::fs::read_dir(here.arenas()).expect("root may").map(|entry| entry.expect("root may").file_name());
        assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with(".t")));
    }
}

/// What a terminal's user can write says that its command is a process of root's: root's `kill` does not reach that.
fn root_is_led_to_no_process_of_another(here: &Place) -> impl Drop + use<> {
    struct Child(std::process::Child);
    impl Drop for Child {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let mut child = Child(Command::new("sleep").arg("1000").process_group(0).spawn().unwrap());
    let pid = child.0.id();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let started: u64 = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
    let file = std::fs::File::options().read(true).write(true).open(here.arenas().join(".term-unseen")).unwrap();
    let (at, mut own) = (layout::PROGRAM as u64 * 8, [0; 16]);
    file.read_exact_at(&mut own, at).unwrap();
    let words = [u64::from(pid), started].map(u64::to_le_bytes).concat();
    file.write_all_at(&words, at).unwrap();
    let refused = here.run(&["term", "kill", "--signal", "KILL", "unseen"]);
    file.write_all_at(&own, at).unwrap();
    assert!(refused.status != Some(0) && refused.err.contains("Operation not permitted"), "{refused:?}");
    assert!(child.0.try_wait().unwrap().is_none(), "the process of root's runs");
    child
}

#[test]
#[cfg(feature = "term")]
fn an_own_terminal_in_a_read_only_directory_is_not_called_another_users() {
    if !is_root() {
        return;
    }
    let here = place();
    chown(here.arenas(), Some(ANNE), Some(ANNE)).expect("root may");
    let mode = |mode| std::fs::set_permissions(here.arenas(), std::fs::Permissions::from_mode(mode)).expect("root may");
    mode(0o700);
    ok(&here, ANNE, 0o077, &["term", "run", "own", "--", "true"]);
    ok(&here, ANNE, 0o077, &["term", "wait", "--exit", "own"]);
    mode(0o500);
    let refused = ran(&here, ANNE, 0o077, &["term", "rm", "own"]);
    assert!(refused.status == Some(1) && refused.err.contains("without the right to write in"), "{refused:?}");
    mode(0o700);
    ok(&here, ANNE, 0o077, &["term", "rm", "own"]);
}

/// At the limit of processes one wants to look.
#[test]
fn a_command_that_can_start_no_thread_looks_or_says_so() {
    if !is_root() {
        return;
    }
    let here = place();
    share(&here, 0o1777, 0o077);
    ok(&here, ANNE, 0o077, &["pool", "create", "gpu"]);
    let limited = |args: &[&str]| {
        let mut c = by(&here, ANNE, 0o077, args);
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a system call alone between fork and exec. What this user has already counts as too many.
        unsafe {
            c.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        Place::spawn(&mut c).end()
    };
    for args in [&["ls"][..], &["show", "gpu"], &["metrics"], &["top", "--once", "--interval", "50ms"]] {
        let ran = limited(args);
        assert!(ran.status == Some(0) && ran.out.contains("gpu"), "{args:?}: {ran:?}");
    }
    let doctor = limited(&["doctor"]);
    assert!(doctor.status.is_some_and(|status| status < 2) && !doctor.err.contains("panicked"), "{doctor:?}");
    let watch = limited(&["watch", "--once", "--timeout", "50ms", "gpu.free > 1", "--", "true"]);
    assert_eq!(watch.status, Some(124), "{watch:?}");
    let jobserver = limited(&["jobserver", "--permits", "2", "--", "true"]);
    assert!(jobserver.status == Some(125) && jobserver.err.contains("cannot start a thread: "), "{jobserver:?}");
}

#[test]
fn a_directory_with_something_in_it_or_of_another_user_is_not_opened_to_others() {
    let here = Place::new();
    here.ok(&["pool", "create", "private"]);
    let text = here.fails(1, &["arena", "create", "more", "--share", "all"]);
    assert!(text.contains("has mode 755 and is not empty: set CHAPPE_DIR to a directory that is empty"), "{text}");
    assert!(here.fails(2, &["arena", "create", "more", "--share", "everybody"]).contains("`group:NAME`, or `all`"));
    let text = here.fails(1, &["arena", "create", "more", "--share", "group:no-such-group"]);
    assert!(text.ends_with("no group `no-such-group`; `getent group` lists those that there are\n"), "{text}");
    let ran = Place::spawn(here.command(&["arena", "create", "more", "--share", "all"]).env_remove("CHAPPE_DIR")).end();
    assert!(ran.status == Some(1) && ran.err.contains("export CHAPPE_DIR=/dev/shm/team"), "{ran:?}");
    // One that is empty is opened; a second arena is made in one that is shared.
    let other = here.file("other");
    for arena in ["default", "more"] {
        let mut c = here.command(&["arena", "create", arena, "--share", "group"]);
        assert!(Place::spawn(c.env("CHAPPE_DIR", &other)).status().success());
    }
    assert_eq!(std::fs::metadata(&other).expect("just made").mode() & 0o7777, 0o2770);
}

/// What another user has put where this user's directory should be, removed when the test is over.
struct Squat(std::path::PathBuf);

impl Drop for Squat {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_directory_that_another_user_made_first_is_named_and_done_without() {
    if !is_root() {
        return;
    }
    let here = place();
    // One that no other run of this test has.
    let carl = 1_000_000 + std::process::id();
    let squat = Squat(format!("/dev/shm/chappe-{carl}").into());
    std::fs::create_dir(&squat.0).expect("nobody has this number");
    chown(&squat.0, Some(BERT), None).expect("root may");
    let run = |runtime: Option<&Path>, args: &[&str]| {
        let mut c = by(&here, carl, 0o022, args);
        c.env_remove("CHAPPE_DIR").env_remove("XDG_RUNTIME_DIR");
        if let Some(runtime) = runtime {
            c.env("XDG_RUNTIME_DIR", runtime);
        }
        Place::spawn(&mut c).end()
    };
    let refused = run(None, &["pool", "create", "gpu"]);
    let says = format!("{} was made by user {BERT}, and is to be user {carl}'s", squat.0.display());
    assert!(refused.status == Some(1) && refused.err.contains(&says), "{refused:?}");
    assert!(refused.err.contains("set CHAPPE_DIR") && refused.err.contains("XDG_RUNTIME_DIR"), "{refused:?}");

    let runtime = here.file("runtime");
    std::fs::create_dir(&runtime).expect("room");
    // Not his own yet.
    assert_eq!(run(Some(&runtime), &["pool", "create", "gpu"]).status, Some(1));
    chown(&runtime, Some(carl), None).expect("root may");
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).expect("root may");
    let made = run(Some(&runtime), &["pool", "create", "gpu"]);
    assert_eq!(made.status, Some(0), "{made:?}");
    assert!(runtime.join("chappe/default").exists());
    // The other user's directory goes, and a newcomer finds the pool all the same.
    std::fs::remove_dir(&squat.0).expect("root may");
    let shown = run(Some(&runtime), &["acquire", "gpu", "--", "true"]);
    assert_eq!(shown.status, Some(0), "{shown:?}");
}
