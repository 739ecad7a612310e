//! Members in several namespaces: never two holders, and what is not returned is said, with whose it is.
//!
//! A case is a set of namespaces that one side has of its own (`unshare`, as root; else it is not tested). The other side lives in the test's.

use crate::place::{CHAPPE, Place, Ran, Running, kill, not_tested, until, wait_for_go};
use std::process::Command;

/// One kind of namespace, and what `unshare` is asked for it.
const KINDS: [(&str, &[&str]); 5] = [
    ("pid", &["--pid", "--fork", "--mount-proc"]),
    ("mount", &["--mount"]),
    ("user", &["--user", "--map-root-user"]),
    ("ipc", &["--ipc"]),
    ("time", &["--time"]),
];

fn is_there(options: &[&str]) -> bool {
    let tried = Command::new("unshare").args(options).arg("true").stderr(std::process::Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// Which side has the namespaces of the case.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Holder,
    Looker,
}

struct Case {
    here: Place,
    options: Vec<&'static str>,
    side: Side,
    /// Whether the PID namespace is one of them.
    apart: bool,
    /// Whether the looker cannot see the holder's processes: it is in a PID or user namespace below. The test's own is above all others.
    blind: bool,
    called: String,
}

impl Case {
    /// None: these namespaces cannot be had.
    fn new(set: usize, side: Side) -> Option<Case> {
        let chosen = || KINDS.iter().enumerate().filter(move |(i, _)| set >> i & 1 == 1).map(|(_, kind)| kind);
        let options: Vec<&str> = chosen().flat_map(|(_, options)| options.iter().copied()).collect();
        let names: Vec<&str> = chosen().map(|(name, _)| *name).collect();
        let whose = if side == Side::Holder { "the holder's" } else { "the looker's" };
        let called = format!("{whose}: {}", names.join(", "));
        if !is_there(&options) {
            not_tested(&format!("namespaces that are {called}: unshare is refused"));
            return None;
        }
        let blind = side == Side::Looker && set & 0b101 != 0;
        Some(Case { here: Place::new(), options, side, apart: set & 1 == 1, blind, called })
    }

    fn command(&self, side: Side, args: &[&str]) -> Command {
        if side != self.side {
            return self.here.command(args);
        }
        let all: Vec<&str> = self.options.iter().copied().chain([CHAPPE]).chain(args.iter().copied()).collect();
        self.here.program("unshare", &all)
    }

    fn look(&self, args: &[&str]) -> Ran {
        Place::spawn(&mut self.command(Side::Looker, args)).end()
    }

    /// A job that closes every file and goes on until `go-NAME` is there, below a shell that the supervisor runs.
    fn hold(&self, name: &str) -> Running {
        let script = format!(
            "echo $$ > pid-{name}.new; mv pid-{name}.new pid-{name}; exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; {}",
            wait_for_go(name)
        );
        // The supervisor is not the first process of its namespace: that one's end would be everybody's.
        let inner = format!("trap '' TERM; \"$CHAPPE\" acquire --create p -- sh -c '{script}'; {}", wait_for_go(name));
        let mut command = if self.side == Side::Holder && self.apart {
            let all: Vec<&str> = self.options.iter().copied().chain(["sh", "-c", &inner]).collect();
            self.here.program("unshare", &all)
        } else {
            self.command(Side::Holder, &["acquire", "--create", "p", "--", "sh", "-c", &script])
        };
        let running = Place::spawn(&mut command);
        self.here.read(&format!("pid-{name}"));
        running
    }

    #[track_caller]
    fn refused(&self, when: &str) -> String {
        let ran = self.look(&["acquire", "--nonblock", "p", "--", "echo", "two"]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(124), ""), "{}: {when}: {ran:?}", self.called);
        ran.err
    }
}

/// The children of a process, and theirs, that run `chappe`.
fn supervisors(ancestor: u32) -> Vec<u32> {
    let stat = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
        Some((name.to_owned(), rest.split(' ').nth(1)?.parse::<u32>().ok()?))
    };
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    let all: Vec<(u32, String, u32)> = pids.filter_map(|pid| stat(pid).map(|(name, up)| (pid, name, up))).collect();
    let mut known = vec![ancestor];
    let mut at = 0;
    while let Some(parent) = known.get(at).copied() {
        known.extend(all.iter().filter(|(.., up)| *up == parent).map(|(pid, ..)| *pid));
        at += 1;
    }
    all.iter().filter(|(pid, name, _)| known.contains(pid) && name == "chappe").map(|(pid, ..)| *pid).collect()
}

/// The supervisor is killed while its job goes on, having closed the lease's file.
fn a_killed_supervisor(set: usize, side: Side) {
    let Some(case) = Case::new(set, side) else { return };
    let called = &case.called;
    let holder = case.hold("a");
    case.refused("its holder lives");
    let supervisor = until("the supervisor", || supervisors(holder.pid()).first().copied());
    kill(supervisor, libc::SIGKILL);
    until("its end", || (!crate::place::runs(supervisor)).then_some(()));
    let said = case.refused("its job lives");
    assert!(said.contains("a job whose holder is gone"), "{called}: {said}");
    // A process that cannot see the job says so, and whose it is.
    let blind = case.blind;
    assert_eq!(said.contains("nobody here can tell"), blind, "{called}: {said}");
    assert!(!blind || said.contains("begun by pid"), "{called}: {said}");
    case.here.go("a");
    drop(holder);
    until("the job's end", || (!case.here.file("pid-a").exists() || jobs(&case).is_empty()).then_some(()));
    if blind {
        // Still held, since nobody there can tell, or back already.
        let ran = case.look(&["acquire", "--nonblock", "p", "--", "echo", "two"]);
        assert!(ran.status == Some(124) || ran.out == "two\n", "{called}: its job has ended: {ran:?}");
        // A process that can tell has only to look.
        until(&format!("{called}: the permit"), || (case.here.free("p") == 1).then_some(()));
    }
    let next = case.look(&["acquire", "--timeout", "30s", "p", "--", "echo", "two"]);
    assert_eq!((next.status, next.out.as_str()), (Some(0), "two\n"), "{called}: {next:?}");
}

/// What bears a mark of a case's leases.
fn jobs(case: &Case) -> Vec<u32> {
    let dir = format!("CHAPPE_DIR={}", case.here.arenas().display()).into_bytes();
    let bears = |pid: &u32| {
        let all = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let has = |want: &[u8]| all.split(|b| *b == 0).any(|v| v.starts_with(want));
        has(&dir) && has(b"CHAPPE_LEASE=")
    };
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(bears).collect()
}

/// The holder and its job are killed at once while somebody waits.
fn a_killed_job(set: usize, side: Side) {
    let Some(case) = Case::new(set, side) else { return };
    let called = &case.called;
    let holder = case.hold("a");
    let next = Place::spawn(&mut case.command(Side::Looker, &["acquire", "p", "--", "echo", "two"]));
    case.here.wait_for_waiters("p", 1);
    let mut all = supervisors(holder.pid());
    all.extend(jobs(&case).into_iter().filter(|pid| !all.contains(pid)).collect::<Vec<_>>());
    for pid in all.into_iter().filter(|pid| *pid != next.pid()) {
        // SAFETY: a plain system call; it may have ended with another.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
    }
    until("its job's end", || jobs(&case).is_empty().then_some(()));
    drop(holder);
    // A look from where the job ran: a waiter elsewhere may not be able to tell.
    until(&format!("{called}: the permit's return"), || {
        let shown = case.here.json(&["show", "p"]);
        (shown["waiting"] == 0).then_some(())
    });
    let next = next.end();
    assert_eq!((next.status, next.out.as_str()), (Some(0), "two\n"), "{called}: {next:?}");
}

/// Each kind by itself, and all together.
const FEW: [usize; 6] = [0b00001, 0b00010, 0b00100, 0b01000, 0b10000, 0b11111];

#[test]
#[ignore = "storm: what a look tells depends on what else ends on the machine"]
fn a_job_that_closed_its_files_keeps_the_permit_in_the_eyes_of_other_namespaces() {
    for set in FEW {
        a_killed_supervisor(set, Side::Looker);
        a_killed_supervisor(set, Side::Holder);
    }
}

#[test]
#[ignore = "storm: kills, in six sets of namespaces"]
fn a_permit_of_a_killed_job_comes_back_to_other_namespaces() {
    for set in FEW {
        a_killed_job(set, Side::Looker);
        a_killed_job(set, Side::Holder);
    }
}

#[test]
#[ignore = "storm: all 32 sets of namespaces, on each side, with kills"]
fn every_set_of_namespaces() {
    for set in 0..32 {
        for side in [Side::Looker, Side::Holder] {
            a_killed_supervisor(set, side);
            a_killed_job(set, side);
        }
    }
}

/// A job whose supervisor ended in good order, and which closed its file, keeps the permit for processes that cannot see it; and gives it
/// to one of them when it ends.
#[test]
fn a_process_that_a_job_left_running_keeps_the_permit_in_other_namespaces() {
    let Some(case) = Case::new(1, Side::Looker) else { return };
    let script = format!(
        "({}) 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- >/dev/null 2>&1 & echo $! > left.new; mv left.new left",
        wait_for_go("left")
    );
    assert_eq!(case.here.job(&["--create", "p"], &format!("exec sh -c '{script}'")).end().status, Some(0));
    let left: u32 = case.here.read("left").parse().unwrap();
    case.refused("its job lives");
    let next = Place::spawn(&mut case.command(Side::Looker, &["acquire", "p", "--", "echo", "two"]));
    case.here.wait_for_waiters("p", 1);
    assert!(crate::place::runs(left));
    case.here.go("left");
    // Nobody looks from the job's namespace but what was left there to keep the permit.
    let ran = next.end();
    assert_eq!((ran.status, ran.out.as_str()), (Some(0), "two\n"), "{ran:?}");
}

/// Users that share /dev/shm, and not /var/tmp, share the leases: they lie beside the arena.
#[test]
fn leases_lie_beside_their_arena() {
    if !is_there(&["--mount"]) {
        return not_tested("a private /var/tmp: unshare is refused");
    }
    let here = Place::new();
    // The default directory, in a /dev/shm of the test's own; two mount namespaces below have it, each with its own /var/tmp.
    let script = "set -e; mount -t tmpfs shm /dev/shm; mount -t tmpfs tmp /var/tmp; unset CHAPPE_DIR
        apart='mount -t tmpfs tmp /var/tmp && exec \"$CHAPPE\" acquire \"$@\"'
        unshare --mount sh -c \"$apart\" sh --create p -- sh -c \"$1\" &
        while [ ! -e pid-a ]; do sleep 0.02; done
        supervisor=$(cat up-a); kill -9 $supervisor; wait || :
        status=0; unshare --mount sh -c \"$apart\" sh --nonblock p -- echo two || status=$?; echo status $status
        find /dev/shm/chappe-* -name '.lease-*' | wc -l; ls -A /var/tmp | grep -c chappe- || :
        touch go-a";
    // This place's path is another one's there.
    let job = "echo $PPID > up-a; echo $$ > pid-a.new; mv pid-a.new pid-a; i=0
        while [ ! -e go-a ] && [ $i -lt 3000 ]; do sleep 0.02; i=$((i+1)); done";
    let ran = Place::spawn(&mut here.program("unshare", &["--mount", "sh", "-c", script, "sh", job])).end();
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines, ["status 124", "1", "0"], "{ran:?}");
}

/// A doctor with a /dev/shm of its own takes nothing away that belongs to arenas elsewhere.
#[test]
fn a_doctor_elsewhere_removes_no_leases() {
    if !is_there(&["--mount"]) {
        return not_tested("a private /dev/shm: unshare is refused");
    }
    let here = Place::new();
    let script = "mount -t tmpfs shm /dev/shm && unset CHAPPE_DIR && \"$CHAPPE\" acquire --create p -- true &&
        before=$(find /dev/shm /var/tmp -name '*lease*' | sort) &&
        unshare --mount sh -c 'mount -t tmpfs shm /dev/shm && \"$CHAPPE\" pool create p && exec \"$CHAPPE\" doctor' >/dev/null &&
        [ \"$before\" = \"$(find /dev/shm /var/tmp -name '*lease*' | sort)\" ] && echo same";
    let ran = Place::spawn(&mut here.program("unshare", &["--mount", "sh", "-c", script])).end();
    assert_eq!(ran.out, "same\n", "{ran:?}");
}

/// Numbers of another namespace are said to be that.
#[test]
fn show_names_the_namespace_of_a_number() {
    let Some(case) = Case::new(1, Side::Holder) else { return };
    let holder = case.hold("a");
    let shown = case.here.json(&["show", "p"]);
    let inside = case.here.read("pid-a");
    let of = shown["holders"][0]["pid_namespace"].as_u64().expect("another namespace's");
    let supervisor = supervisors(holder.pid())[0];
    let link = std::fs::read_link(format!("/proc/{supervisor}/ns/pid")).unwrap();
    assert_eq!(link.to_string_lossy(), format!("pid:[{of}]"));
    assert!(case.here.ok(&["show", "p"]).contains(&format!(" of PID namespace {of} `")), "{inside}");
    case.here.go("a");
    holder.status();
}

/// Clocks of two time namespaces: what one writes down the other compares with its own.
#[test]
fn times_are_those_of_one_clock_in_all_time_namespaces() {
    for offset in ["86400", "-1000"] {
        let options = ["--time", "--monotonic", offset, "--boottime", offset];
        if !is_there(&[&options[..], &["--fork"]].concat()) {
            not_tested(&format!("a clock that is {offset} s ahead: unshare is refused"));
            continue;
        }
        let here = Place::new();
        let (holder, _) = here.holder("a", &["--create", "p"]);
        let all: Vec<&str> = options.iter().copied().chain(["--fork", CHAPPE]).collect();
        let waits: Vec<&str> = all.iter().copied().chain(["acquire", "p", "--", "echo", "two"]).collect();
        let next = Place::spawn(&mut here.program("unshare", &waits));
        here.wait_for_waiters("p", 1);
        let looks: Vec<&str> = all.iter().copied().chain(["--json", "show", "p"]).collect();
        let there = Place::spawn(&mut here.program("unshare", &looks)).end();
        let there: serde_json::Value = serde_json::from_str(&there.out).unwrap();
        for shown in [there, here.json(&["show", "p"])] {
            let (held, waiting) = (&shown["holders"][0]["held_ms"], &shown["waiters"][0]["waiting_ms"]);
            for time in [held, waiting] {
                // Not an hour, and not "nothing" because it is to come.
                assert!(time.as_u64().unwrap() < 600_000, "{offset}: {shown}");
            }
        }
        until("some time has passed", || (here.json(&["show", "p"])["holders"][0]["held_ms"] != 0).then_some(()));
        here.go("a");
        assert_eq!(next.end().out, "two\n");
        holder.end();
    }
}
