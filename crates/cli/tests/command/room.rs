//! Where nothing can be written: what is said of it, and which thing is missing.

use crate::place::{CHAPPE, Place, Ran, not_tested};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Runs `chappe` behind a shell's commands, in a mount namespace of its own. None: that is refused. The program is opened first: what is
/// mounted may hide it, where the checkout lies in /tmp.
fn in_mounts(here: &Place, mounts: &str, args: &[&str]) -> Option<Ran> {
    let script = format!("exec 9<\"$0\"; {mounts} || exit 99; exec /proc/self/fd/9 \"$@\"");
    let mut c = here.program("unshare", &[&["--mount", "sh", "-c", &script, CHAPPE], args].concat());
    let ran = Place::spawn(c.env("CHAPPE_PRELOAD", crate::run::library())).end();
    if ran.status == Some(99) || ran.err.contains("unshare failed") {
        not_tested(&format!("`{mounts}`: it is refused"));
        return None;
    }
    Some(ran)
}

#[test]
fn a_program_is_not_run_where_no_arena_can_be_made() {
    let here = Place::new();
    let arenas = here.arenas();
    let arenas = arenas.to_str().unwrap();
    let read_only = format!("mount --bind {arenas} {arenas} && mount -o remount,ro,bind {arenas}");
    let Some(ran) = in_mounts(&here, &read_only, &["run", "--", "echo", "started"]) else { return };
    assert_eq!((ran.status, ran.out.as_str()), (Some(125), ""), "{ran:?}");
    assert!(ran.err.contains("cannot make arenas in") && ran.err.contains("Read-only file system"), "{ran:?}");
    // The same with the directory that is made if need be.
    let no_directory = "unset CHAPPE_DIR XDG_RUNTIME_DIR; mount -t tmpfs -o ro t /dev/shm";
    let Some(ran) = in_mounts(&here, no_directory, &["run", "--", "echo", "started"]) else { return };
    assert_eq!((ran.status, ran.out.as_str()), (Some(125), ""), "{ran:?}");
    assert!(ran.err.contains("Read-only file system"), "{ran:?}");
}

#[test]
fn a_lack_of_room_is_reported_with_what_is_missing() {
    let here = Place::new();
    let make = ["pool", "create", "p"];
    let arenas = here.arenas();
    let small = |options: &str| format!("mount -t tmpfs -o mode=700,{options} t {}", arenas.display());
    for (options, missing) in [("size=64k", "bytes left: free some space there"), ("nr_inodes=2", "no inode is left")] {
        let Some(ran) = in_mounts(&here, &small(options), &make) else { return };
        assert_eq!(ran.status, Some(1), "{options}: {ran:?}");
        assert!(ran.err.contains("no room for arena `default`") && ran.err.contains(missing), "{options}: {ran:?}");
    }
    // With no inode at all it is the directory's lock that cannot be made; a job server has a directory of its own.
    let Some(ran) = in_mounts(&here, &small("nr_inodes=1"), &make) else { return };
    assert!(ran.status == Some(1) && ran.err.contains("no inode is left"), "{ran:?}");
    let full = format!(
        "mount -t tmpfs -o nr_inodes=1 t {0} && export TMPDIR={0} && mount --bind {0} /tmp && mount --bind {0} /dev/shm",
        arenas.display()
    );
    let Some(ran) = in_mounts(&here, &full, &["jobserver", "-p", "2", "--", "true"]) else { return };
    assert!(ran.status == Some(125) && ran.err.contains("no inode is left"), "{ran:?}");
    let mut limited = here.command(&make);
    // SAFETY: system calls only, between fork and exec.
    unsafe {
        limited.pre_exec(|| {
            let limit = libc::rlimit { rlim_cur: 65536, rlim_max: 65536 };
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
            Ok(())
        });
    }
    let ran = Place::spawn(&mut limited).end();
    assert!(ran.status == Some(1) && ran.err.contains("may not write files of that size"), "{ran:?}");
}

/// One that is made, and one that gets larger; what is there goes on.
#[cfg(feature = "term")]
#[test]
fn a_terminal_without_room_is_refused_and_another_goes_on() {
    let here = Place::new();
    let script = format!(
        "mount -t tmpfs -o mode=700,size=6m t {0} && c=/proc/self/fd/9 && {{
            $c term run a --history 64M -- true; echo status $?; ls -A {0}
            $c term run b --size 80x24 --history 64k -- sh -c 'echo up; read x' && $c term wait b up --timeout 5m
            head -c 100m /dev/zero > {0}/filler 2> /dev/null
            $c term resize b 2000x131; echo status $?; $c term show b; rm {0}/filler
            $c term resize b 100x30 && $c term send b --enter; $c term wait --exit b --timeout 5m
        }} 2>&1",
        here.arenas().display()
    );
    let Some(ran) = in_mounts(&here, &script, &["term", "show", "b", "--json"]) else { return };
    let wanted = [
        "no room for terminal `a` in",
        "bytes left: free some space there; or give it less --history\nstatus 125\n",
        "b\nup\nchappe: no room for 2000x131 of terminal `b`: the directory of arenas is full\nstatus 1\nup\n",
        "\"columns\":100,",
    ];
    let has_left = [".term-a", ".typed-"].iter().any(|kind| ran.out.contains(kind));
    assert!(wanted.iter().all(|text| ran.out.contains(text)) && !has_left, "{ran:?}");
}

#[test]
fn a_failed_write_to_stdout_is_an_error_also_of_help() {
    let here = Place::new();
    here.ok(&["pool", "create", "p"]);
    here.ok(&["man", "pages"]);
    let pages = std::fs::read_dir(here.file("pages")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let commands = pages.filter_map(|p| Some(p.strip_prefix("chappe")?.strip_suffix(".1")?.replace('-', " ")));
    let helps = commands.filter(|c| c != " lab").map(|c| format!("{c} --help"));
    for line in
        helps.chain(["--version", "-h", "ls", "doctor", "completions bash", "man", "metrics"].map(str::to_owned))
    {
        let args: Vec<&str> = line.split_whitespace().collect();
        let mut c = here.command(&args);
        let ran = Place::spawn(c.stdout(Stdio::from(File::options().write(true).open("/dev/full").unwrap()))).end();
        assert_eq!(ran.status, Some(1), "{line}: {ran:?}");
        assert!(ran.err.contains("cannot write to stdout") && ran.err.contains("No space left"), "{line}: {ran:?}");
    }
    // A reader that has seen enough is no error.
    let ran = Command::new("sh").args(["-c", "\"$0\" --help | true; echo done", CHAPPE]).output().unwrap();
    assert_eq!((ran.stdout.as_slice(), ran.stderr.as_slice()), (&b"done\n"[..], &b""[..]));
}
