//! Descriptors of the ends of named tubes: readable when there is something, from whatever process, and not before.

#[allow(dead_code, reason = "not every program uses all of it")]
mod house;

use chappe::tube::named::{Kind, NotReceived, NotSent, Receiver, Sender, Tube, TubeOptions};
use chappe::{Arena, ArenaOptions, select};
use house::{Actor, House, LONG, ROLE, eventually, listen, say};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(20);

fn options(slots: u32, kind: Kind) -> TubeOptions {
    TubeOptions { slots, kind, ..TubeOptions::default() }
}

fn jobs(slots: u32) -> Tube<u64> {
    Tube::create("jobs", &options(slots, Kind::Mpmc)).unwrap()
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    select! { readable(fd) -> r => { r.unwrap(); true } default => false }
}

#[track_caller]
fn becomes_readable(fd: BorrowedFd<'_>) {
    select! { readable(fd) -> r => r.unwrap(), default(LONG) => panic!("it does not become readable") }
}

#[track_caller]
fn stays_unreadable(fd: BorrowedFd<'_>) {
    select! { readable(fd) -> _ => panic!("there is nothing"), default(SHORT) => {} }
}

/// The numbers of this process's threads that watch. A thread that one of them has just started has its name for a moment.
fn watchers() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|t| t.unwrap().file_name().into_string().unwrap());
    let is_one = |tid: &String| {
        std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).is_ok_and(|name| name.trim() == "chappe-watcher")
    };
    tasks.filter(is_one).collect()
}

fn is_asleep(tid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).is_ok_and(|stat| stat.contains(") S "))
}

/// How many eventfds are open.
fn descriptors() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().map(|fd| fd.unwrap().path());
    all.filter(|fd| std::fs::read_link(fd).is_ok_and(|to| to.ends_with("anon_inode:[eventfd]"))).count()
}

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let jobs = Tube::<u64>::open("jobs").unwrap();
    match role.split_once(' ').unwrap() {
        // Does as it is told, with a blocking end.
        ("send", _) => {
            let mut sender = Some(jobs.sender().unwrap());
            say("ready");
            loop {
                match listen().as_str() {
                    "" => return,
                    "drop" => sender = None,
                    n => sender.as_ref().unwrap().send(n.parse().unwrap()).unwrap(),
                }
                say("done");
            }
        }
        ("receive", _) => {
            let mut receiver = Some(jobs.receiver().unwrap());
            say("ready");
            loop {
                match listen().as_str() {
                    "" => return,
                    "drop" => {
                        receiver = None;
                        say("done");
                    }
                    _ => say(&receiver.as_ref().unwrap().recv().unwrap().to_string()),
                }
            }
        }
        // Sends so many by its descriptor alone.
        ("pour", n) => {
            let sender = jobs.sender().unwrap();
            (0..n.parse().unwrap()).for_each(|n| send_polling(&sender, n));
            say("done");
            listen();
        }
        other => panic!("no such role: {other:?}"),
    }
}

fn tell(actor: &mut Actor, what: &str) {
    actor.tell(what);
    assert_eq!(actor.hear(), "done");
}

fn started(house: &House, role: &str) -> Actor {
    let mut actor = house.actor(role);
    assert_eq!(actor.hear(), "ready");
    actor
}

/// As a runtime would.
fn send_polling(sender: &Sender<u64>, message: u64) {
    loop {
        match sender.try_send(message) {
            Ok(()) => return,
            Err(NotSent::Full(_)) if sender.rearm() => becomes_readable(sender.descriptor().unwrap()),
            Err(NotSent::Full(_)) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

/// None: all senders have gone.
fn recv_polling(receiver: &Receiver<u64>) -> Option<u64> {
    loop {
        match receiver.try_recv() {
            Ok(message) => return Some(message),
            Err(NotReceived::Empty) if receiver.rearm() => becomes_readable(receiver.descriptor().unwrap()),
            Err(NotReceived::Empty) => {}
            Err(NotReceived::Disconnected { .. }) => return None,
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn a_message_from_another_process_makes_it_readable() {
    let house = House::new("fd-message");
    let receiver = jobs(4).receiver().unwrap();
    let fd = receiver.descriptor().unwrap();
    assert_eq!(receiver.descriptor().unwrap().as_raw_fd(), fd.as_raw_fd(), "one for the handle");
    let mut sender = started(&house, "send _");
    stays_unreadable(fd);
    for round in 0..20 {
        tell(&mut sender, &round.to_string());
        becomes_readable(fd);
        assert!(!receiver.rearm(), "there is something");
        assert!(is_readable(fd));
        assert_eq!(receiver.try_recv().unwrap(), round);
        assert!(receiver.rearm());
        assert!(receiver.rearm(), "once more is the same");
        assert!(!is_readable(fd));
    }
    stays_unreadable(fd);
    tell(&mut sender, "drop");
    becomes_readable(fd);
    assert!(!receiver.rearm(), "nobody sends any more");
    assert!(is_readable(fd));
}

#[test]
fn a_hole_makes_the_senders_readable() {
    let house = House::new("fd-hole");
    let sender = jobs(2).sender().unwrap();
    let fd = sender.descriptor().unwrap();
    assert!(is_readable(fd), "there is room at once");
    (0..2).for_each(|n| sender.try_send(n).unwrap());
    assert!(sender.rearm());
    stays_unreadable(fd);
    let mut receiver = started(&house, "receive _");
    receiver.tell("recv");
    assert_eq!(receiver.hear(), "0");
    becomes_readable(fd);
    sender.try_send(2).unwrap();
    assert!(sender.rearm());
    stays_unreadable(fd);
    tell(&mut receiver, "drop");
    becomes_readable(fd);
    assert!(matches!(sender.try_send(3), Err(NotSent::Disconnected { .. })));
}

#[test]
fn a_descriptor_that_is_asked_for_late_knows_what_is_there() {
    let _house = House::new("fd-late");
    let tube = Tube::<[u8]>::create("bytes", &options(1, Kind::Spsc)).unwrap();
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    assert!(receiver.rearm() && !sender.rearm(), "also without a descriptor");
    sender.send(b"hello").unwrap();
    assert!(is_readable(receiver.descriptor().unwrap()) && !is_readable(sender.descriptor().unwrap()));
    assert_eq!(receiver.recv().unwrap(), b"hello");
    becomes_readable(sender.descriptor().unwrap());
    assert!(receiver.rearm() && !is_readable(receiver.descriptor().unwrap()));
    drop(sender);
    becomes_readable(receiver.descriptor().unwrap());
}

#[test]
fn the_death_of_the_other_end_makes_it_readable() {
    let house = House::new("fd-death");
    let tube = jobs(1);
    let receiver = tube.receiver().unwrap();
    let other = started(&house, "send _");
    let fd = receiver.descriptor().unwrap();
    stays_unreadable(fd);
    other.kill();
    becomes_readable(fd);
    assert!(matches!(receiver.try_recv(), Err(NotReceived::SenderDied { .. })));
    drop(receiver);
    let sender = tube.sender().unwrap();
    let other = started(&house, "receive _");
    sender.send(1).unwrap();
    let fd = sender.descriptor().unwrap();
    stays_unreadable(fd);
    other.kill();
    becomes_readable(fd);
    assert!(matches!(sender.try_send(1), Err(NotSent::Disconnected { .. })));
}

#[test]
fn a_removed_tube_makes_both_ends_readable() {
    let _house = House::new("fd-removed");
    for asks_late in [false, true] {
        let (empty, full) = (jobs(1), Tube::<u64>::create("full", &options(1, Kind::Mpmc)).unwrap());
        let (receiver, sender) = (empty.receiver().unwrap(), full.sender().unwrap());
        let _others = (empty.sender().unwrap(), full.receiver().unwrap());
        sender.send(1).unwrap();
        if !asks_late {
            assert!(!is_readable(receiver.descriptor().unwrap()));
            stays_unreadable(sender.descriptor().unwrap());
        }
        ["jobs", "full"].iter().for_each(|name| Tube::remove(name, true).unwrap());
        becomes_readable(receiver.descriptor().unwrap());
        becomes_readable(sender.descriptor().unwrap());
        assert!(matches!(receiver.try_recv(), Err(NotReceived::Dead { .. })));
        assert!(!receiver.rearm() && !sender.rearm());
        assert!(is_readable(receiver.descriptor().unwrap()) && is_readable(sender.descriptor().unwrap()));
    }
}

#[test]
fn a_removed_arena_makes_its_ends_readable() {
    let _house = House::new("fd-arena");
    let tube = jobs(1);
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    let fd = receiver.descriptor().unwrap();
    stays_unreadable(fd);
    Arena::remove("default", true).unwrap();
    becomes_readable(fd);
    assert!(receiver.try_recv().is_err() && !receiver.rearm());
    assert!(is_readable(fd));
    drop((sender, receiver));
    eventually("nobody needs its thread any more", || watchers().is_empty());
}

#[test]
fn an_arena_without_room_for_the_thread_says_so() {
    let _house = House::new("fd-full");
    eventually("threads of other tests have ended", || watchers().is_empty());
    // This thread's place and the process's.
    Arena::create("default", &ArenaOptions { members: Some(2), ..ArenaOptions::default() }).unwrap();
    let tube = jobs(1);
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    let before = descriptors();
    let e = receiver.descriptor().unwrap_err().to_string();
    assert!(e.contains("member"), "{e}");
    assert!(receiver.rearm());
    sender.send(1).unwrap();
    assert_eq!(receiver.recv().unwrap(), 1);
    eventually("its thread has ended", || watchers().is_empty());
    assert_eq!(descriptors(), before);
}

#[test]
fn many_ends_of_an_arena_have_one_thread_and_those_who_do_not_ask_have_none() {
    let house = House::new("fd-many");
    eventually("threads of other tests have ended", || watchers().is_empty());
    let tubes: Vec<_> =
        (0..40).map(|i| Tube::<u64>::create(&format!("t{i}"), &options(2, Kind::Mpmc)).unwrap()).collect();
    let ends: Vec<_> = tubes.iter().map(|t| (t.sender().unwrap(), t.receiver().unwrap())).collect();
    ends[0].0.send(1).unwrap();
    assert!(ends[0].1.recv().is_ok() && ends[0].1.recv_timeout(Duration::from_millis(1)).is_err());
    let before = descriptors();
    assert!(ends.iter().all(|(sender, receiver)| !sender.rearm() && receiver.rearm()));
    assert_eq!((descriptors(), watchers().len()), (before, 0), "nobody has asked for one");
    let fds: Vec<_> = ends.iter().map(|(_, receiver)| receiver.descriptor().unwrap()).collect();
    assert_eq!(descriptors(), before + 40);
    eventually("there is one thread for all", || watchers().len() == 1);
    assert!(fds.iter().all(|fd| !is_readable(*fd)));
    for (i, (sender, receiver)) in ends.iter().enumerate() {
        sender.send(i as u64).unwrap();
        becomes_readable(fds[i]);
        assert!(fds[i + 1..].iter().all(|fd| !is_readable(*fd)), "{i}");
        assert_eq!(receiver.try_recv().unwrap(), i as u64);
    }
    assert!(ends.iter().all(|(_, receiver)| receiver.rearm()));
    // All at once.
    ends.iter().for_each(|(sender, _)| sender.send(7).unwrap());
    fds.iter().for_each(|fd| becomes_readable(*fd));
    drop(ends);
    assert_eq!(descriptors(), before, "closed with their handles");
    eventually("nobody needs it any more", || watchers().is_empty());
    // And again.
    let receiver = tubes[1].receiver().unwrap();
    while receiver.try_recv().is_ok() {}
    let fd = receiver.descriptor().unwrap();
    tubes[1].sender().unwrap().send(1).unwrap();
    becomes_readable(fd);
    drop(house);
}

#[test]
#[ignore = "storm: counts switches while it sleeps"]
fn a_descriptor_that_is_not_armed_again_costs_nothing() {
    let _house = House::new("fd-idle");
    eventually("threads of other tests have ended", || watchers().is_empty());
    let tube = jobs(4);
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    let (ready, other) = (receiver.descriptor().unwrap(), tube.receiver().unwrap());
    assert!(is_readable(sender.descriptor().unwrap()));
    let empty = Tube::<u64>::create("empty", &options(1, Kind::Mpmc)).unwrap().receiver().unwrap();
    assert!(!is_readable(empty.descriptor().unwrap()));
    sender.send(1).unwrap();
    becomes_readable(ready);
    eventually("there is one thread", || watchers().len() == 1);
    let tid = watchers().remove(0);
    // How often it was not running, of its own will or not.
    let slept = || {
        let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
        let counts = status.lines().filter(|l| l.contains("ctxt_switches")).map(|l| l.rsplit('\t').next().unwrap());
        counts.map(|n| n.parse::<u64>().unwrap()).sum::<u64>()
    };
    // It has said that something is there, and sleeps again.
    let mut before = 0;
    eventually("it does nothing any more", || {
        let now = slept();
        std::thread::sleep(SHORT);
        std::mem::replace(&mut before, now) == now && is_asleep(&tid) && slept() == now
    });
    for n in 0..1000 {
        sender.send(n).unwrap();
        other.recv().unwrap();
    }
    std::thread::sleep(SHORT);
    assert_eq!(slept(), before, "it runs though nobody asked it to");
}

/// A handle is dropped while the thread waits for its end, or is just about to.
#[test]
#[ignore = "storm: drops that race a thread"]
fn a_dropped_handle_has_gone_at_once() {
    let _house = House::new("fd-drop");
    for round in 0..300u64 {
        let tube = Tube::<u64>::create("jobs", &options(2, Kind::Spsc)).unwrap();
        let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
        (0..2).for_each(|n| sender.send(n).unwrap());
        let number = sender.descriptor().unwrap().as_raw_fd();
        assert!(sender.rearm());
        if round % 3 == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        drop(sender);
        // The number comes again, and is not written to.
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(round > 0 || reader.as_raw_fd() == number || writer.as_raw_fd() == number);
        let again = tube.sender().unwrap();
        assert!(matches!(receiver.try_recv(), Ok(0)));
        drop(again);
        assert!(matches!(receiver.try_recv(), Ok(1)));
        assert!(matches!(receiver.try_recv(), Err(NotReceived::Disconnected { .. })));
        assert!(!is_readable(reader.as_fd()));
        assert!(!receiver.rearm());
        assert!(is_readable(receiver.descriptor().unwrap()));
        drop(receiver);
        let watched = tube.receiver().unwrap();
        watched.descriptor().unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_nanos(300 * round) {}
        drop(watched);
        Tube::remove("jobs", false).unwrap();
        assert!(tube.is_dead());
    }
}

/// Both ends by their descriptors alone, in several processes; none misses anything.
#[test]
#[ignore = "storm: processes that race"]
fn no_wake_up_is_missed() {
    const COUNT: u64 = 3000;
    let house = House::new("fd-pour");
    for kind in [Kind::Mpmc, Kind::Spsc] {
        let tube = Tube::<u64>::create("jobs", &options(3, kind)).unwrap();
        let receiver = tube.receiver().unwrap();
        let senders = if kind == Kind::Mpmc { 2 } else { 1 };
        let mut actors: Vec<_> = (0..senders).map(|_| house.actor(&format!("pour {COUNT}"))).collect();
        let sums: u64 = std::thread::scope(|s| {
            // Another one shares them, and blocks.
            let other = (kind == Kind::Mpmc).then(|| {
                let receiver = tube.receiver().unwrap();
                s.spawn(move || std::iter::from_fn(|| receiver.recv().ok()).sum::<u64>())
            });
            let start = Instant::now();
            let mine = std::thread::scope(|s| {
                // The ends go when all have said that they are done: one could be that before another has come, and then nobody
                // would send any more.
                s.spawn(|| {
                    actors.iter_mut().for_each(|actor| assert_eq!(actor.hear(), "done"));
                    actors.drain(..).for_each(Actor::ended);
                });
                std::iter::from_fn(|| recv_polling(&receiver)).sum::<u64>()
            });
            assert!(start.elapsed() < LONG);
            mine + other.map_or(0, |o| o.join().unwrap())
        });
        assert_eq!(sums, senders * (0..COUNT).sum::<u64>());
        drop(receiver);
        eventually("it can be removed", || Tube::remove("jobs", false).is_ok());
    }
}

fn forked(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child uses what chappe promises to work after a fork, and ends by _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let how = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
        // SAFETY: always safe.
        unsafe { libc::_exit(how) };
    }
    assert!(pid > 0);
    pid
}

#[track_caller]
fn ends_well(pid: i32) {
    let (mut status, start) = (0, Instant::now());
    // SAFETY: our own child.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == 0 {
        if start.elapsed() > 2 * LONG {
            // SAFETY: our own child.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0);
}

#[test]
fn a_child_has_descriptors_of_its_own() {
    let _house = House::new("fd-fork");
    let tube = jobs(4);
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    let parents = receiver.descriptor().unwrap();
    let back = Tube::<u64>::create("back", &options(4, Kind::Mpmc)).unwrap();
    let (answer, answers) = (back.sender().unwrap(), back.receiver().unwrap());
    let go = Tube::<u64>::create("go", &options(4, Kind::Mpmc)).unwrap();
    let (gone, going) = (go.sender().unwrap(), go.receiver().unwrap());
    let pid = forked(|| {
        assert!(receiver.rearm(), "it has none yet, and there is nothing");
        let own = receiver.descriptor().unwrap();
        assert_ne!(own.as_raw_fd(), parents.as_raw_fd());
        assert!(!is_readable(own));
        eventually("it has a thread of its own", || watchers().len() == 1);
        answer.send(1).unwrap();
        becomes_readable(own);
        going.recv().unwrap();
        // The parent's edge is not the child's to take.
        assert!(!receiver.rearm());
        assert_eq!(receiver.recv().unwrap(), 7);
        answer.send(2).unwrap();
        assert!(receiver.rearm());
        assert!(!is_readable(own));
        0
    });
    assert_eq!(answers.recv_timeout(LONG).unwrap(), 1);
    sender.send(7).unwrap();
    becomes_readable(parents);
    gone.send(0).unwrap();
    assert_eq!(answers.recv_timeout(LONG).unwrap(), 2);
    ends_well(pid);
    assert!(is_readable(parents), "until the parent arms it again");
    // How often it was said: by the parent's thread, and not by the child's.
    let mut said = [0; 8];
    std::fs::File::from(parents.try_clone_to_owned().unwrap()).read_exact(&mut said).unwrap();
    assert_eq!(u64::from_ne_bytes(said), 1);
    assert!(receiver.rearm() && !is_readable(parents));
    sender.send(8).unwrap();
    becomes_readable(parents);
    assert_eq!(receiver.recv().unwrap(), 8);
}

#[test]
fn a_child_does_not_watch_its_parents_only_end() {
    let _house = House::new("fd-single");
    let tube = Tube::<u64>::create("jobs", &options(4, Kind::Spsc)).unwrap();
    let mut ends = Some((tube.sender().unwrap(), tube.receiver().unwrap()));
    let fd = ends.as_ref().unwrap().1.descriptor().unwrap().try_clone_to_owned().unwrap();
    let child = forked(|| {
        let (sender, receiver) = ends.take().unwrap();
        for refused in [receiver.descriptor().map(drop), sender.descriptor().map(drop)] {
            let e = refused.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::PermissionDenied);
            assert!(e.to_string().contains("belongs to the parent process"), "{e}");
        }
        assert!(!receiver.rearm() && !sender.rearm(), "an operation says why at once");
        drop((sender, receiver));
        0
    });
    ends_well(child);
    let (sender, receiver) = ends.unwrap();
    assert!(!is_readable(fd.as_fd()));
    sender.send(1).unwrap();
    becomes_readable(fd.as_fd());
    assert!(!receiver.rearm());
}

/// Forks while another thread asks for descriptors, arms them and drops them.
#[test]
#[ignore = "storm: forks that race threads"]
fn a_child_of_a_busy_process_finds_no_lock_held() {
    let _house = House::new("fd-busy");
    let tube = jobs(4);
    let (stop, kept) = (std::sync::atomic::AtomicBool::new(false), tube.receiver().unwrap());
    kept.descriptor().unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            let sender = tube.sender().unwrap();
            // SeqCst: nothing depends on it.
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                let receiver = tube.receiver().unwrap();
                receiver.descriptor().unwrap();
                sender.send(1).unwrap();
                let _ = receiver.rearm();
                while receiver.try_recv().is_ok() {}
                let _ = receiver.rearm();
            }
        });
        for _ in 0..60 {
            let pid = forked(|| {
                kept.descriptor().unwrap();
                let (mine, sender) = (tube.receiver().unwrap(), tube.sender().unwrap());
                let fd: OwnedFd = mine.descriptor().unwrap().try_clone_to_owned().unwrap();
                // The parent may be faster.
                for _ in 0..3 {
                    let _ = sender.try_send(2);
                    if !mine.rearm() {
                        becomes_readable(fd.as_fd());
                    }
                    let _ = mine.try_recv();
                }
                0
            });
            ends_well(pid);
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst); // SeqCst: as above.
    });
    assert!(Arena::open("default").unwrap().members().len() < 20, "nobody's attachment is left");
}
