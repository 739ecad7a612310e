//! Tubes with only one sender and one receiver store plainly: no last message's wake-up is lost all the same, also where one
//! of the two processes may not ask the kernel for its fence.

#[allow(dead_code, reason = "not every program uses all of it")]
mod house;

use chappe::tube::named::{Kind, Receiver, Sender, Tube, TubeOptions};
use chappe::{Role, set_role};
use house::{Dice, House, LONG, ROLE, listen, say};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

fn tube(name: &str) -> Tube<u64> {
    Tube::open_or_create(name, &TubeOptions { slots: 1, kind: Kind::Spsc, ..TubeOptions::default() }).unwrap()
}

/// From here on membarrier fails in this process.
fn refuse_membarrier() {
    let rule = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        rule(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_membarrier as u32, 0, 1),
        rule(libc::BPF_RET | libc::BPF_K, refused, 0, 0),
        rule(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program is valid for the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
        assert_eq!(libc::syscall(libc::SYS_membarrier, 0, 0, 0), -1);
    }
}

/// Sends one message, and waits until it is back; never both are on their way.
fn there_and_back(there: &Sender<u64>, back: &Receiver<u64>, rounds: u64) {
    for n in 0..rounds {
        there.send_timeout(n, LONG).unwrap();
        assert_eq!(back.recv_timeout(LONG).unwrap(), n);
    }
}

/// What the other process does; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if let Some(kind) = role.strip_prefix("asks ") {
        return asks(kind);
    }
    if role.contains("refused") {
        refuse_membarrier();
    }
    if role.contains("sleeper") {
        set_role(Role::Sleeper);
    }
    let (there, back) = (tube("there").receiver().unwrap(), tube("back").sender().unwrap());
    say("ready");
    let mut dice = Dice(1);
    while let Ok(n) = there.recv() {
        // About when the other goes to sleep.
        for _ in 0..dice.roll(200) {
            std::hint::spin_loop();
        }
        back.send(n).unwrap();
    }
    listen();
}

/// Waits, in a process that loses what it needs for the fence after it has come.
fn asks(what: &str) {
    let kind = if what.contains("mpmc") { Kind::Mpmc } else { Kind::Spsc };
    let options = TubeOptions { slots: 1, kind, ..TubeOptions::default() };
    let tube = Tube::<u64>::open_or_create(what, &options).unwrap();
    let (sender, receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    refuse_membarrier();
    set_role(Role::Sleeper);
    let soon = Duration::from_millis(1);
    let waits = if what.contains("recv") {
        std::panic::catch_unwind(AssertUnwindSafe(|| assert!(receiver.recv_timeout(soon).is_err())))
    } else {
        sender.send(1).unwrap();
        std::panic::catch_unwind(AssertUnwindSafe(|| assert!(sender.send_timeout(2, soon).is_err())))
    };
    let why = waits.err().map(|why| why.downcast_ref::<&str>().map_or_else(String::new, |why| (*why).to_owned()));
    say(&why.unwrap_or("slept".into()));
    // Without what else it would do when it ends.
    std::process::exit(0);
}

/// Who sleeps where the other end goes without fences has asked for its own: it is told that it cannot have it any more. What
/// is sure to be lost otherwise is too rare to wait for.
#[test]
fn who_sleeps_has_asked_for_its_fence() {
    for what in ["recv", "send"] {
        let house = House::new(what);
        let said = house.actor(&format!("asks spsc-{what}")).hear();
        assert!(said.contains("no longer allows membarrier"), "{said}");
        assert_eq!(house.actor(&format!("asks mpmc-{what}")).hear(), "slept");
    }
}

fn round_trips(other: &str, role: Role, rounds: u64) {
    let house = House::new(&other.replace(' ', "-"));
    let mut actor = house.actor(other);
    assert_eq!(actor.hear(), "ready");
    let (there, back) = (tube("there").sender().unwrap(), tube("back").receiver().unwrap());
    role.during(|| there_and_back(&there, &back, rounds));
    drop(there);
    actor.ended();
}

#[test]
fn no_wake_up_is_lost_of_single_messages() {
    round_trips("sleeper", Role::Sleeper, 30_000);
    round_trips("spins first", Role::Sleeper, 30_000);
    round_trips("spins first", Role::TimeSharing, 30_000);
}

/// It made the tubes: so nobody goes without fences there.
#[test]
fn who_may_not_ask_for_fences_makes_a_tube_with_them() {
    round_trips("refused sleeper", Role::Sleeper, 3_000);
}

/// The tubes were made by who may: it stores plainly, and the other looks again and again.
#[test]
fn who_may_not_ask_for_fences_finds_what_was_sent_without() {
    let house = House::new("without");
    let (there, back) = (tube("there"), tube("back"));
    let mut actor = house.actor("refused sleeper");
    assert_eq!(actor.hear(), "ready");
    let (there, back) = (there.sender().unwrap(), back.receiver().unwrap());
    Role::Sleeper.during(|| there_and_back(&there, &back, 3_000));
    drop(there);
    actor.ended();
}
