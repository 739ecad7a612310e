//! Owned semaphores between processes: what a kill returns, and what it does not; which processes may post; the order of service.

use crate::house::{Actor, Dice, House, LONG, ROLE, eventually, listen, say};
use chappe::owned::{RobustSemaphore, ending};
use chappe::{
    Arena, ArenaOptions, DownError, Interrupt, ObjectError, ObjectId, ObjectState, Pool, PoolError, Semaphore, UpError,
    interruptible,
};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

fn arena() -> Arena {
    let small = ArenaOptions { members: Some(64), objects: Some(16), cells: Some(8), data: Some(64) };
    Arena::open_or_create("a", &small).unwrap()
}

fn made(name: &str) -> RobustSemaphore {
    RobustSemaphore::create_in(&arena(), Some(name)).unwrap()
}

fn answer<E: std::fmt::Debug>(done: Result<(), E>) {
    match done {
        Ok(()) => say("ok"),
        Err(e) => say(format!("{e:?}").split([' ', '(', '{']).next().unwrap()),
    }
}

/// In a child made by fork; how it ended.
fn forked(act: &dyn Fn() -> i32) -> i32 {
    // SAFETY: the child uses what chappe promises to work after a fork, and ends without cleaning up.
    in_child(unsafe { libc::fork() }, act)
}

/// The same, without the C library's handlers.
fn cloned(act: &dyn Fn() -> i32) -> i32 {
    // SAFETY: as in `forked`; it has a copy of this process's memory, its stack included.
    in_child(unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as i32, act)
}

fn in_child(pid: i32, act: &dyn Fn() -> i32) -> i32 {
    if pid == 0 {
        let status = act();
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(status) };
    }
    assert!(pid > 0);
    let mut status = 0;
    // SAFETY: a child of ours, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}

/// In a child that has this process's memory, and a stack of its own; until it has ended.
fn in_a_vfork(act: fn()) {
    extern "C" fn child(act: *mut libc::c_void) -> i32 {
        // SAFETY: what was given below.
        let act: fn() = unsafe { std::mem::transmute(act) };
        act();
        0
    }
    let mut stack = vec![0u128; 1 << 14];
    // SAFETY: the stack outlives the child, for which the parent waits; the child only looks, stores and ends.
    unsafe {
        let top = stack.as_mut_ptr_range().end.cast();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let pid = libc::clone(child, top, flags, act as *mut libc::c_void);
        assert!(pid > 0);
        assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid);
    }
}

fn named_and_ending() {
    chappe::raw::incarnation();
    ending();
}

/// What a child takes after a vfork of its own is a lock still.
fn stays_owned(child: fn(&dyn Fn() -> i32) -> i32, it: RobustSemaphore, vforked: fn()) -> Result<(), &'static str> {
    let status = child(&|| {
        in_a_vfork(vforked);
        i32::from(it.wait().is_err() || !it.is_owned() || it.post().is_err())
    });
    if status == 0 { Ok(()) } else { Err("child") }
}

/// What children do, one word of their parent's after another; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let it = match role.split_once(' ').unwrap() {
        ("at", numbers) => {
            let n: Vec<u64> = numbers.split(' ').map(|n| n.parse().unwrap()).collect();
            RobustSemaphore::at(ObjectId { arena: n[0], object: n[1] as u32, generation: n[2] as u32 }).unwrap()
        }
        (_, name) => RobustSemaphore::in_arena(&Arena::open("a").unwrap(), name).unwrap(),
    };
    loop {
        match listen().as_str() {
            "wait" => answer(it.wait()),
            "try" => answer(it.try_wait()),
            "post" => answer(it.post()),
            "wait in thread" => answer(std::thread::spawn(move || it.wait()).join().unwrap()),
            "post in thread" => answer(std::thread::spawn(move || it.post()).join().unwrap()),
            "fork and post" => {
                answer(if forked(&|| i32::from(it.post().is_err())) == 0 { Ok(()) } else { Err("child") })
            }
            "fork and exit" => {
                assert_eq!(
                    forked(&|| {
                        ending();
                        0
                    }),
                    0
                );
                say("ok");
            }
            "fork, then vfork" => answer(stays_owned(forked, it, ending)),
            "fork, then vfork that is named" => answer(stays_owned(forked, it, named_and_ending)),
            "clone, then vfork" => answer(stays_owned(cloned, it, ending)),
            "vfork and exit" => {
                in_a_vfork(ending);
                say("ok");
            }
            "wait beside an owned permit" => {
                // The member that stands for the process is there already, and the semaphore is taken without a wait.
                let _permit = Pool::open("a/p").unwrap().acquire_owned().unwrap();
                answer(it.wait());
            }
            "say that it ends" => {
                ending();
                say("ok");
            }
            "end" => {
                ending();
                std::process::exit(0);
            }
            "end, then wait in thread" => {
                ending();
                answer(std::thread::spawn(move || it.wait()).join().unwrap());
                std::process::exit(0);
            }
            // SAFETY: ends this process at once.
            "end at once" => unsafe { libc::_exit(0) },
            "loop" => {
                let place = std::env::var("CHAPPE_DIR").unwrap();
                turns(it, std::path::Path::new(&place));
            }
            _ => return,
        }
    }
}

fn does(actor: &mut Actor, what: &str) -> String {
    actor.tell(what);
    actor.hear()
}

fn waits(actor: &mut Actor, it: RobustSemaphore, place: usize) {
    actor.tell("wait");
    eventually("it waits", || it.waiters().len() == place);
}

#[test]
fn a_killed_holder_returns_it() {
    let house = House::new("killed");
    let it = made("s");
    for end in ["kill", "end at once", "by a thread"] {
        let mut holder = house.actor("by s");
        assert_eq!(does(&mut holder, if end == "by a thread" { "wait in thread" } else { "wait" }), "ok");
        assert_eq!(it.holder().unwrap().pid, holder.child.id());
        assert!(matches!(it.try_wait(), Err(DownError::WouldBlock)));
        let mut waiter = house.actor("by s");
        waits(&mut waiter, it, 1);
        match end {
            "end at once" => {
                holder.tell(end);
                holder.ended();
            }
            _ => holder.kill(),
        }
        assert_eq!(waiter.hear(), "ok", "{end}");
        assert_eq!(it.holder().unwrap().pid, waiter.child.id());
        assert_eq!(does(&mut waiter, "post"), "ok");
        assert!(it.is_owned() && it.value() == 1);
    }
    // No thread waits: the next that tries finds it.
    let mut holder = house.actor("by s");
    assert_eq!(does(&mut holder, "wait"), "ok");
    holder.kill();
    assert!(it.try_wait().is_ok());
    assert!(it.post().is_ok() && it.is_owned());
}

#[test]
fn an_orderly_end_returns_no_unit() {
    let house = House::new("ends");
    let it = made("s");
    let mut producer = house.actor("by s");
    assert_eq!(does(&mut producer, "wait"), "ok");
    producer.tell("end");
    producer.ended();
    assert!(matches!(it.try_wait(), Err(DownError::WouldBlock)));
    assert!(!it.is_owned());
    assert!(matches!(it.wait_timeout(Duration::from_millis(5)), Err(DownError::Timeout)));
    assert_eq!(it.value(), 0);
    // What another posts is all there is, and goes from one to the other; deaths keep it.
    assert!(it.post().is_ok());
    assert_eq!(it.value(), 1);
    let mut consumer = house.actor("by s");
    assert_eq!(does(&mut consumer, "wait"), "ok");
    consumer.kill();
    assert!(matches!(it.try_wait(), Err(DownError::WouldBlock)));
}

#[test]
fn a_unit_taken_by_another_thread_at_the_end_is_not_returned() {
    let house = House::new("late");
    let it = made("s");
    let mut producer = house.actor("by s");
    assert_eq!(does(&mut producer, "end, then wait in thread"), "ok");
    producer.ended();
    assert!(matches!(it.try_wait(), Err(DownError::WouldBlock)));
    assert!(!it.is_owned() && it.value() == 0);
}

#[test]
fn a_unit_taken_beside_an_owned_permit_is_not_returned() {
    let house = House::new("beside");
    let it = made("s");
    Pool::create("a/p", 1).unwrap();
    let mut producer = house.actor("by s");
    assert_eq!(does(&mut producer, "wait beside an owned permit"), "ok");
    producer.tell("end");
    producer.ended();
    assert!(matches!(it.try_wait(), Err(DownError::WouldBlock)));
    assert!(!it.is_owned());
}

#[test]
fn a_release_before_the_process_ends_keeps_the_semaphore_a_lock() {
    let house = House::new("in-time");
    let it = made("s");
    let mut holder = house.actor("by s");
    assert_eq!(does(&mut holder, "wait"), "ok");
    assert_eq!(does(&mut holder, "say that it ends"), "ok");
    assert!(it.is_owned() && it.holder().unwrap().pid == holder.child.id());
    assert_eq!(does(&mut holder, "post"), "ok");
    assert!(it.is_owned() && it.value() == 1);
    // Taken by another process, whose kill returns it.
    let mut next = house.actor("by s");
    assert_eq!(does(&mut next, "wait"), "ok");
    holder.kill();
    next.kill();
    assert!(it.try_wait().is_ok() && it.is_owned());
}

#[test]
fn the_end_of_a_child_is_not_its_parents() {
    let house = House::new("children");
    let it = made("s");
    for end in ["fork and exit", "vfork and exit"] {
        let mut holder = house.actor("by s");
        assert_eq!(does(&mut holder, "wait"), "ok");
        assert_eq!(does(&mut holder, end), "ok");
        assert!(it.is_owned(), "{end}");
        holder.kill();
        assert!(it.try_wait().is_ok(), "{end}");
        assert!(it.post().is_ok());
    }
}

#[test]
fn the_end_of_a_vforked_child_is_not_that_of_a_child_that_has_used_nothing_yet() {
    let house = House::new("vforks");
    let it = made("s");
    for how in ["fork, then vfork", "fork, then vfork that is named", "clone, then vfork"] {
        let mut parent = house.actor("by s");
        assert_eq!(does(&mut parent, "try"), "ok");
        assert_eq!(does(&mut parent, "post"), "ok");
        assert_eq!(does(&mut parent, how), "ok", "{how}");
        assert!(it.is_owned() && it.value() == 1, "{how}");
    }
}

#[test]
fn a_foreign_post_demotes_for_good() {
    let house = House::new("foreign");
    let it = made("s");
    let mut producer = house.actor("by s");
    assert_eq!(does(&mut producer, "wait"), "ok");
    assert!(it.post().is_ok(), "this process has not got it");
    assert!(!it.is_owned() && it.value() == 1);
    producer.kill();
    assert_eq!(it.value(), 1);
    assert!(it.try_wait().is_ok());
    assert!(matches!(it.try_wait(), Err(DownError::WouldBlock)), "the producer's unit is gone with it");
    assert!(it.holder().is_none());
    for _ in 0..3 {
        it.post().unwrap();
    }
    assert_eq!(it.value(), 3);
    // A holder that dies with a unit takes it along.
    let mut consumer = house.actor("by s");
    assert_eq!(does(&mut consumer, "wait"), "ok");
    consumer.kill();
    arena().map().recover_dead();
    assert!(!it.is_owned() && it.value() == 2);
}

#[test]
fn a_demoted_one_is_taken_and_given_back_as_before() {
    let house = House::new("as-before");
    let it = made("s");
    let mut other = house.actor("by s");
    assert_eq!(does(&mut other, "post"), "ok");
    assert_eq!(it.value(), 2);
    for _ in 0..2 {
        assert!(it.wait().is_ok());
    }
    let mut waiter = house.actor("by s");
    waits(&mut waiter, it, 1);
    it.post().unwrap();
    assert_eq!(waiter.hear(), "ok");
    it.post().unwrap();
    assert_eq!(does(&mut waiter, "post"), "ok");
    assert_eq!(it.value(), 2);
}

#[test]
fn a_forked_child_has_nothing_of_its_parents() {
    let house = House::new("forks");
    let it = made("s");
    let mut parent = house.actor("by s");
    assert_eq!(does(&mut parent, "wait"), "ok");
    assert_eq!(does(&mut parent, "fork and post"), "ok");
    assert!(!it.is_owned());
    assert_eq!((it.value(), it.holder().unwrap().pid), (1, parent.child.id()));
    assert_eq!(does(&mut parent, "post"), "ok");
    assert_eq!(it.value(), 2);
}

#[test]
fn any_thread_of_its_process_may_post() {
    let house = House::new("threads");
    let it = made("s");
    let mut one = house.actor("by s");
    for _ in 0..3 {
        assert_eq!(does(&mut one, "wait in thread"), "ok");
        assert!(matches!(it.try_wait(), Err(DownError::WouldBlock)), "the end of a thread returns nothing");
        assert_eq!(does(&mut one, "post in thread"), "ok");
        assert!(it.is_owned() && it.value() == 1);
    }
    assert_eq!(does(&mut one, "wait"), "ok");
    assert_eq!(does(&mut one, "post in thread"), "ok");
    // Twice is once too often for a lock.
    assert_eq!(does(&mut one, "post in thread"), "ok");
    assert!(!it.is_owned() && it.value() == 2);
}

#[test]
fn they_are_served_in_the_order_of_arrival_by_both() {
    let house = House::new("fifo");
    let it = made("s");
    assert!(it.wait().is_ok());
    let mut line: Vec<Actor> = (0..4).map(|_| house.actor("by s")).collect();
    for (place, waiter) in line.iter_mut().enumerate() {
        waits(waiter, it, place + 1);
    }
    let mut foreigner = house.actor("by s");
    for (turn, waiter) in line.iter_mut().enumerate() {
        // By turns of the count, and of the permit.
        match turn {
            1 => it.post().unwrap(),
            _ => assert_eq!(does(&mut foreigner, "post"), "ok"),
        }
        assert_eq!(waiter.hear(), "ok");
        eventually("the others wait on", || it.waiters().len() == 3 - turn);
    }
    assert_eq!(it.value(), 0);
}

#[test]
fn a_killed_waiter_holds_nobody_up() {
    let house = House::new("waiters");
    let it = made("s");
    let mut holder = house.actor("by s");
    assert_eq!(does(&mut holder, "wait"), "ok");
    let mut all: Vec<Actor> = (0..3).map(|_| house.actor("by s")).collect();
    for (place, waiter) in all.iter_mut().enumerate() {
        waits(waiter, it, place + 1);
    }
    all.remove(0).kill();
    holder.kill();
    assert_eq!(all[0].hear(), "ok");
    let first = all.remove(0);
    first.kill();
    assert_eq!(all[0].hear(), "ok");
    assert_eq!(does(&mut all[0], "post"), "ok");
    assert!(it.is_owned() && it.value() == 1);
}

#[test]
fn one_is_found_by_its_spot_in_another_process() {
    let house = House::new("spots");
    let it = RobustSemaphore::create_in(&arena(), None).unwrap();
    let ObjectId { arena: number, object, generation } = it.object_id();
    let mut other = house.actor(&format!("at {number} {object} {generation}"));
    assert_eq!(does(&mut other, "wait"), "ok");
    assert_eq!(it.holder().unwrap().pid, other.child.id());
    assert!(it.name().contains(&std::process::id().to_string()), "{}", it.name());
    other.kill();
    assert!(it.try_wait().is_ok());
    assert!(RobustSemaphore::remove_at(it.object_id()).unwrap());
    assert!(!RobustSemaphore::remove_at(it.object_id()).unwrap());
    assert!(matches!(RobustSemaphore::at(it.object_id()), Err(ObjectError::Unknown { .. })));
    let beyond = ObjectId { object: u32::MAX, ..it.object_id() };
    assert!(matches!(RobustSemaphore::at(beyond), Err(ObjectError::Unknown { .. })));
}

#[test]
fn removal_tells_who_waits_and_leaves_room() {
    let house = House::new("removed");
    let it = made("s");
    let before = arena().capacity().objects_used;
    assert!(it.wait().is_ok());
    let mut waiter = house.actor("by s");
    waits(&mut waiter, it, 1);
    assert!(matches!(it.remove(false), Err(ObjectError::InUse { .. })));
    it.remove(true).unwrap();
    assert_eq!(waiter.hear(), "Dead");
    assert!(matches!(it.post(), Err(UpError::Dead { .. })));
    assert!(matches!(it.try_wait(), Err(DownError::Dead { .. })));
    assert!(matches!(it.demote(), Err(UpError::Dead { .. })));
    it.remove(false).unwrap();
    for _ in 0..50 {
        let next = made("s");
        assert!(next.is_owned() && next.value() == 1, "as new");
        assert_eq!(arena().capacity().objects_used, before);
        assert!(matches!(it.post(), Err(UpError::Dead { .. })), "of the one before");
        assert!(next.wait().is_ok() && next.post().is_ok() && next.is_owned());
        next.remove(false).unwrap();
    }
}

#[test]
fn one_is_shown_as_one_thing_and_is_no_pool_nor_semaphore() {
    let house = House::new("shown");
    let it = made("s");
    let mut holder = house.actor("by s");
    assert_eq!(does(&mut holder, "wait"), "ok");
    let mut waiter = house.actor("by s");
    waits(&mut waiter, it, 1);
    let shown = || {
        let mut all = arena().objects();
        assert_eq!((all.len(), all[0].name.as_str(), all[0].kind), (1, "s", "owned semaphore"));
        all.remove(0)
    };
    let ObjectState::Owned { value: 0, holder: Some(who), demoted: false } = shown().state else {
        panic!("{:?}", shown())
    };
    assert_eq!((who.pid, who.process, shown().waiting), (holder.child.id(), true, 1));
    let has = arena().belongings(&who);
    assert_eq!(has.iter().map(ToString::to_string).collect::<Vec<_>>(), ["owned semaphore `a/s`"]);
    assert!(matches!(Pool::open("a/s"), Err(PoolError::OtherKind { is: "owned semaphore", .. })));
    assert!(matches!(Semaphore::open("a/s"), Err(ObjectError::OtherKind { is: "owned semaphore", .. })));
    assert!(Pool::list(arena()).is_empty());
    assert!(arena().damage().is_empty());
    holder.kill();
    assert_eq!(waiter.hear(), "ok");
    let mut foreigner = house.actor("by s");
    assert_eq!(does(&mut foreigner, "post"), "ok");
    assert!(matches!(shown().state, ObjectState::Owned { value: 1, holder: Some(_), demoted: true }));
    waiter.kill();
    arena().map().recover_dead();
    assert!(matches!(shown().state, ObjectState::Owned { value: 1, holder: None, demoted: true }));
    let righted = arena().put_right(LONG).unwrap();
    assert!(righted.freed.is_empty() && righted.parts == 0, "{righted:?}");
    assert_eq!(it.value(), 1);
}

#[test]
fn an_impossible_creation_or_name_is_refused() {
    let _house = House::new("refused");
    let it = made("s");
    let private = RobustSemaphore::create_in(&Arena::private(), None);
    assert!(matches!(private, Err(ObjectError::Private { .. })));
    assert!(matches!(RobustSemaphore::create_in(&arena(), Some("s")), Err(ObjectError::Exists { .. })));
    Semaphore::create("a/plain", 1).unwrap();
    assert!(matches!(RobustSemaphore::create_in(&arena(), Some("plain")), Err(ObjectError::OtherKind { .. })));
    assert!(matches!(RobustSemaphore::in_arena(&arena(), "plain"), Err(ObjectError::OtherKind { .. })));
    let Err(ObjectError::Unknown { existing, .. }) = RobustSemaphore::in_arena(&arena(), "t") else { panic!() };
    assert_eq!(existing, ["a/s"]);
    assert!(matches!(RobustSemaphore::in_arena(&arena(), "a b"), Err(ObjectError::Arena(_))));
    assert!(matches!(
        RobustSemaphore::at(Semaphore::open("a/plain").unwrap().object_id()),
        Err(ObjectError::Unknown { .. })
    ));
    let mut full = Vec::new();
    let why = loop {
        match RobustSemaphore::create_in(&arena(), None) {
            Ok(one) => full.push(one),
            Err(e) => break e,
        }
    };
    assert!(matches!(why, ObjectError::Arena(_)), "{why}");
    // Half of one is not left behind.
    let used = arena().capacity().objects_used;
    assert!(RobustSemaphore::create_in(&arena(), None).is_err());
    assert_eq!(arena().capacity().objects_used, used);
    assert!(it.is_owned() && !full.is_empty());
}

#[test]
fn its_value_has_a_limit_and_what_exceeds_it_changes_nothing() {
    let house = House::new("limit");
    let it = made("s");
    // So that it takes the permit first.
    RobustSemaphore::prepare(&arena()).unwrap();
    let mut other = house.actor("by s");
    assert_eq!(does(&mut other, "post"), "ok");
    // As if so many had posted: straight into the count's word.
    let map = arena().map();
    let permit = map.object(it.object_id().object);
    let count = map.object((permit.run.load(Ordering::SeqCst) & 0x1f_ffff) - 1);
    // SeqCst: a test, which counts on no weaker order.
    count.slot.word.fetch_add(u64::from(RobustSemaphore::MAX - 2) << 4, Ordering::SeqCst);
    assert_eq!(it.value(), RobustSemaphore::MAX, "all but one are in the count, one in the cell");
    for _ in 0..2 {
        assert!(matches!(it.post(), Err(UpError::Overflow { value: RobustSemaphore::MAX, .. })));
        assert_eq!(it.value(), RobustSemaphore::MAX);
    }
    it.wait().unwrap();
    assert_eq!((it.value(), it.holder().unwrap().pid), (RobustSemaphore::MAX - 1, std::process::id()));
    assert_eq!(does(&mut other, "post"), "ok");
    assert!(matches!(it.post(), Err(UpError::Overflow { .. })), "what it holds would exceed it, too");
    assert_eq!(it.value(), RobustSemaphore::MAX);
}

#[test]
fn a_wait_ends_in_time_and_when_it_is_interrupted() {
    let _house = House::new("times");
    let it = made("s");
    assert!(it.wait_deadline(Instant::now() - LONG).is_ok(), "one that is there is taken, whatever the time");
    assert!(matches!(it.wait_deadline(Instant::now()), Err(DownError::Timeout)));
    assert!(matches!(it.wait_timeout(Duration::from_millis(2)), Err(DownError::Timeout)));
    static INTERRUPT: Interrupt = Interrupt::new();
    let waits = std::thread::spawn(move || interruptible(&INTERRUPT, || it.wait()));
    eventually("it waits", || it.waiters().len() == 1);
    INTERRUPT.interrupt();
    assert!(matches!(waits.join().unwrap(), Err(DownError::Interrupted)));
    it.post().unwrap();
    assert!(it.is_owned() && it.value() == 1 && it.waiters().is_empty());
}

static HANDLED: AtomicI32 = AtomicI32::new(0);

#[test]
#[ignore = "storm: signals that race everything"]
fn a_handler_may_post_in_the_middle_of_anything() {
    static SPOT: AtomicPtr<ObjectId> = AtomicPtr::new(std::ptr::null_mut());
    extern "C" fn post(_: i32) {
        // SAFETY: stored before the first signal, and leaked.
        let spot = unsafe { *SPOT.load(Ordering::SeqCst) };
        let done = RobustSemaphore::at(spot).unwrap().post();
        HANDLED.fetch_add(if done.is_ok() { 1 } else { 1 << 16 }, Ordering::SeqCst);
    }
    let _house = House::new("handlers");
    let it = made("s");
    RobustSemaphore::prepare(&arena()).unwrap();
    // SeqCst: before the handler, which loads it.
    SPOT.store(Box::leak(Box::new(it.object_id())), Ordering::SeqCst);
    // SAFETY: the handler does only what may be done in one; zero is a valid empty mask.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = post as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    // A thread that has never used the arena, and one that waits, posts and is interrupted all the time.
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            // SAFETY: a signal to this very thread.
            assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
        });
        s.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                it.wait().unwrap();
                it.post().unwrap();
            }
        });
        use std::os::unix::thread::JoinHandleExt;
        let busy = std::thread::spawn(move || {
            // Until a signal has come, too: the sender may be stopped meanwhile.
            let mut rounds = 0;
            while rounds < 20_000 || HANDLED.load(Ordering::SeqCst) < 2 {
                it.wait().unwrap();
                it.post().unwrap();
                rounds += 1;
            }
        });
        let thread = busy.as_pthread_t() as libc::pthread_t;
        while !busy.is_finished() {
            // SAFETY: it is not joined yet.
            unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
            std::thread::sleep(Duration::from_micros(200));
        }
        busy.join().unwrap();
        stop.store(true, Ordering::SeqCst);
    });
    let posted = HANDLED.load(Ordering::SeqCst);
    assert!(posted > 1 && posted < 1 << 16, "{posted:x}");
    assert_eq!(it.value(), 1 + posted as u32);
    assert!(!it.is_owned());
}

/// Turns at the lock, for ever: each writes its number where the one before has taken its own away, or was killed.
fn turns(it: RobustSemaphore, dir: &std::path::Path) {
    use std::os::unix::fs::FileExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(dir.join(".inside")).unwrap();
    let me = std::process::id();
    say("ok");
    loop {
        it.wait().unwrap();
        let mut bytes = [0; 4];
        let there = if file.read_at(&mut bytes, 0).unwrap() == 4 { u32::from_le_bytes(bytes) } else { 0 };
        let state = |pid: u32| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            text.rsplit_once(") ")?.1.chars().next()
        };
        // A killed one's word may be marked a little before it is a zombie.
        if there != 0 {
            eventually("who was inside is dead", || matches!(state(there), None | Some('Z' | 'X')));
        }
        file.write_all_at(&me.to_le_bytes(), 0).unwrap();
        std::thread::yield_now();
        file.write_all_at(&0u32.to_le_bytes(), 0).unwrap();
        it.post().unwrap();
    }
}

#[test]
#[ignore = "storm: kills at random"]
fn a_lock_survives_random_kills() {
    let house = House::new("storm");
    let it = made("s");
    let mut dice = Dice(u64::from(std::process::id()) | 1);
    let begin = || {
        let mut one = house.actor("by s");
        assert_eq!(does(&mut one, "loop"), "ok");
        one
    };
    let mut all: Vec<Actor> = (0..3).map(|_| begin()).collect();
    for _ in 0..60 {
        std::thread::sleep(Duration::from_micros(dice.roll(3_000) as u64));
        all.remove(dice.roll(3)).kill();
        for one in &mut all {
            assert!(one.child.try_wait().unwrap().is_none(), "one has ended: two were inside");
        }
        all.push(begin());
        assert!(it.is_owned(), "a lock was demoted");
    }
    all.into_iter().for_each(Actor::kill);
    assert!(it.wait_timeout(LONG).is_ok(), "it was lost");
    assert!(matches!(it.try_wait(), Err(DownError::WouldBlock)), "it is there twice");
    it.post().unwrap();
    assert!(it.is_owned() && it.value() == 1);
}
