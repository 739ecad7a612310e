//! What a program promises its user of an engine: with the model of etcd in this process, and with what goes wrong when the test says so.

mod fake;
#[path = "../interleavings/model.rs"]
mod model;
mod tubes;

use chappe_remote::acquire::{Acquire, Of, Outcome, Want};
use chappe_remote::connection::Link;
use chappe_remote::drive::{self, Circumstances};
use chappe_remote::engine::{Engine, Keys, LeaseId};
use chappe_remote::grant::{self, Attempt};
use chappe_remote::keys;
use chappe_remote::{Guard, LockError, Loss, Mutex, Patience, Permit, RemoteError, acquire_any, acquire_any_until};
use fake::{Fake, space, waits};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Whether it rings; waits for that as long as it takes, if so.
fn rings(held: &impl AsFd, waits: bool) -> bool {
    let mut one = libc::pollfd { fd: held.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, on our stack.
    unsafe { libc::poll(&raw mut one, 1, if waits { -1 } else { 0 }) > 0 }
}

/// One whose time is up from the beginning.
struct NoTime;

impl Circumstances for NoTime {
    fn is_over(&self) -> bool {
        false
    }

    fn gives_up(&self) -> bool {
        true
    }

    fn look_again(&self) -> Duration {
        Duration::from_secs(1)
    }
}

#[test]
fn a_permit_has_a_token_and_comes_back_and_leaves_nothing_behind() {
    let fake = Fake::new();
    let lab = fake.program();
    let pool = lab.create_pool("gpu", 2).unwrap();
    let (one, other) = (pool.acquire().unwrap(), pool.try_acquire().unwrap());
    let (first, second) = (one.check().unwrap(), other.check().unwrap());
    assert!(first < second && one.indices() != other.indices());
    assert_eq!(fake.holder("gpu", one.indices()[0]).unwrap().1, first.get());
    let info = pool.info().unwrap();
    assert_eq!((info.permits, info.held, info.waiting), (2, 2, 0));
    one.release().unwrap();
    drop(other);
    assert_eq!(fake.keys(), ["format", "pool/gpu/size"]);
    assert_eq!(fake.leases(), 1, "it goes on for the next");
    let calls = fake.calls();
    drop(pool.acquire().unwrap());
    assert_eq!(fake.calls() - calls, 2, "a take and a release: what it gave back is tried for first");
    drop((lab, pool));
    assert_eq!(fake.leases(), 0, "no program is left that could hold anything");
}

#[test]
fn a_permit_that_was_given_back_is_tried_for_first_if_it_is_as_it_was() {
    let fake = Fake::new();
    let lab = fake.program();
    let (pool, mutex) = (lab.create_pool("gpu", 2).unwrap(), lab.create_mutex("m").unwrap());
    let spent = |act: &dyn Fn()| {
        let calls = fake.calls();
        act();
        fake.calls() - calls
    };
    let pair = || drop(pool.acquire().unwrap());
    let locks = || drop(mutex.lock().unwrap());
    assert_eq!((spent(&pair), spent(&pair), spent(&locks), spent(&locks)), (2, 2, 2, 2));
    assert_eq!(fake.glances(), 2, "the first of each");
    pool.resize(3).unwrap();
    assert_eq!((spent(&pair), spent(&pair)), (3, 2), "refused, it has looked at once");
    dies(&fake, &mutex);
    drop(warned(mutex.lock()));
    drop(warned(mutex.lock()));
    let two = || drop(pool.acquire_many(2, Patience::Now).unwrap());
    assert_eq!((spent(&two), spent(&two)), (2, 2), "as many as are wanted");
    let other = fake.program().pool("gpu").unwrap();
    let all = other.acquire_many(3, Patience::Now).unwrap();
    assert!(matches!(pool.try_acquire(), Err(RemoteError::WouldBlock { .. })));
    drop(all);
    pair();
    // Another chappe has come, which knows more.
    fake.puts(space().format(), br#"{"format":9}"#);
    assert!(matches!(pool.acquire(), Err(RemoteError::Newer { .. })));
}

#[test]
fn a_holder_that_waited_hands_over_by_one_transaction() {
    let fake = Fake::new();
    let programs = [fake.program(), fake.program(), fake.program()];
    let pool = programs[0].create_pool("gpu", 1).unwrap();
    let first = pool.acquire().unwrap();
    let second = waits(&programs[1], "gpu", Patience::Forever);
    fake.until_waiting("gpu", 1);
    first.release().unwrap();
    let second = second.join().unwrap().unwrap();
    let third = waits(&programs[2], "gpu", Patience::Forever);
    fake.until_waiting("gpu", 1);
    let (calls, glances) = (fake.calls(), fake.glances());
    second.release().unwrap();
    assert!(third.join().unwrap().unwrap().check().is_ok());
    // The third gives it back, and has asked nothing more to have it.
    assert_eq!((fake.calls() - calls, fake.glances() - glances), (2, 2));
}

#[test]
fn one_that_loses_each_time_ends_when_its_time_is_up() {
    let fake = Fake::new();
    let lab = fake.program();
    lab.create_pool("gpu", 1).unwrap();
    let by = Attempt { id: keys::attempt(LeaseId(1), 1), lease: LeaseId(1), who: keys::Who::default() };
    let want = Want { of: Of::Pools, pools: vec!["gpu".into()], n: 1, wait: false };
    let mut machine = Acquire::new(space(), by, want.clone());
    fake.churns(1_000);
    let came = drive::acquire(&Link(fake.clone()), &space(), &want.pools, &mut machine, &NoTime);
    assert_eq!((came, fake.churned() > 900), (Ok(Outcome::Cancelled), true));
}

#[test]
fn a_look_that_was_made_while_the_lease_was_saves_a_transaction() {
    let fake = Fake::new();
    let lab = fake.program();
    lab.create_pool("gpu", 1).unwrap();
    let engine = Link(fake.clone());
    let want = Want { of: Of::Pools, pools: vec!["gpu".into()], n: 1, wait: false };
    let look = engine.txn(&grant::look(&space(), &want.pools));
    let (lease, _) = engine.grant(Duration::from_secs(3600)).unwrap();
    let by = Attempt { id: keys::attempt(lease, 1), lease, who: keys::Who::default() };
    let mut machine = Acquire::new(space(), by, want.clone());
    machine.answered(&look);
    let calls = fake.calls();
    let came = drive::acquire(&engine, &space(), &want.pools, &mut machine, &NoTime);
    assert!(matches!(came, Ok(Outcome::Granted(_))), "{came:?}");
    assert_eq!(fake.calls() - calls, 1, "a take alone");
}

#[test]
fn programs_wait_in_the_order_of_arrival_and_tokens_grow() {
    let fake = Fake::new();
    let programs = [fake.program(), fake.program(), fake.program()];
    let pool = programs[0].create_pool("gpu", 1).unwrap();
    let mut held = pool.acquire().unwrap();
    let waiters: Vec<_> = programs
        .iter()
        .zip(1..)
        .map(|(program, place)| {
            let waiter = waits(program, "gpu", Patience::Forever);
            fake.until_waiting("gpu", place);
            waiter
        })
        .collect();
    for waiter in waiters {
        let before = held.check().unwrap();
        held.release().unwrap();
        held = waiter.join().unwrap().unwrap();
        assert!(held.check().unwrap() > before);
    }
}

#[test]
fn a_choice_takes_the_first_that_has_a_permit_and_one_alone() {
    let fake = Fake::new();
    let lab = fake.program();
    let pools: Vec<_> = ["a", "b", "c"].iter().map(|name| lab.create_pool(name, 1).unwrap()).collect();
    let all: Vec<&_> = pools.iter().collect();
    let mut held: Vec<(usize, Permit)> = (0..3).map(|_| acquire_any(&all, Patience::Now).unwrap()).collect();
    assert_eq!(
        held.iter().map(|(which, permit)| (*which, permit.pool())).collect::<Vec<_>>(),
        [(0, "a"), (1, "b"), (2, "c")]
    );
    let waiter = {
        let pools = pools.clone();
        std::thread::spawn(move || acquire_any(&[&pools[0], &pools[2]], Patience::Forever))
    };
    fake.until_waiting("c", 1);
    drop(held.pop());
    let (which, permit) = waiter.join().unwrap().unwrap();
    assert_eq!((which, permit.pool()), (1, "c"));
    assert!(!fake.keys().iter().any(|key| key.contains("/wait/")), "it has no other place: {:?}", fake.keys());
    let elsewhere = fake.program().pool("b").unwrap();
    let said = acquire_any(&[&pools[0], &elsewhere], Patience::Now).unwrap_err().to_string();
    assert!(said.contains("two connections"), "{said}");
}

#[test]
fn a_wish_that_cannot_be_is_told_from_one_that_must_wait_and_takes_nothing() {
    let fake = Fake::new();
    let lab = fake.program();
    let pool = lab.create_pool("gpu", 2).unwrap();
    let two = pool.acquire_many(2, Patience::Forever).unwrap();
    assert_eq!(two.indices(), [0, 1]);
    assert!(matches!(pool.try_acquire(), Err(RemoteError::WouldBlock { .. })));
    let said = pool.acquire_timeout(Duration::from_millis(1)).unwrap_err();
    assert!(matches!(said, RemoteError::Timeout { .. }) && said.to_string().contains("@lab/gpu"), "{said}");
    let said = acquire_any_until(&[&pool], Patience::Forever, Some(&|| true)).unwrap_err();
    assert!(matches!(said, RemoteError::Interrupted { .. }), "{said}");
    fake.until_waiting("gpu", 0);
    assert!(matches!(pool.acquire_many(3, Patience::Forever), Err(RemoteError::TooMany { permits: 2, .. })));
    assert!(matches!(pool.acquire_many(0, Patience::Forever), Err(RemoteError::Invalid(_))));
    let said = lab.pool("cpu").unwrap().acquire().unwrap_err().to_string();
    assert_eq!(said, "there is no pool `@lab/cpu` on fake://lab: `chappe pool create @lab/cpu` makes it");
    assert!(matches!(lab.create_pool("gpu", 1), Err(RemoteError::Exists { .. })));
    assert!(matches!(lab.semaphore("gpu").unwrap().down(), Err(RemoteError::Other { wanted: "semaphore", .. })));
    assert!(lab.pool("a/b").is_err() && lab.pool("").is_err());
    let said = lab.remove("gpu", false).unwrap_err().to_string();
    assert!(said.contains("2 held, 0 waiting"), "{said}");
    drop(two);
    lab.remove("gpu", false).unwrap();
    assert_eq!(fake.keys(), ["format"]);
}

#[test]
fn a_mutex_is_no_pool_whose_holder_would_not_hear_of_a_death() {
    let fake = Fake::new();
    let lab = fake.program();
    let mutex = lab.create_mutex("m").unwrap();
    let pool = lab.create_pool("p", 1).unwrap();
    // Also where it is held: it is seen before it is waited for.
    let guard = mutex.lock().unwrap();
    assert!(matches!(lab.pool("m").unwrap().try_acquire(), Err(RemoteError::Other { wanted: "pool", .. })));
    drop(guard);
    assert!(matches!(lab.pool("m").unwrap().acquire(), Err(RemoteError::Other { wanted: "pool", .. })));
    let not = lab.mutex("p").unwrap().lock().unwrap_err();
    assert!(matches!(not, LockError::Remote(RemoteError::Other { wanted: "mutex", .. })), "{not}");
    drop(mutex.lock().unwrap());
    drop(pool.try_acquire().unwrap());
}

fn dies(fake: &Fake, mutex: &Mutex) {
    let guard = mutex.lock().unwrap_or_else(|e| e.into_guard().unwrap());
    fake.ends_leases(true);
    drop(guard);
}

fn warned(locked: Result<Guard, LockError>) -> Guard {
    match locked {
        Err(LockError::OwnerDied(guard)) => guard,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_next_holder_of_a_mutex_is_told_of_a_death_until_one_has_mended() {
    let fake = Fake::new();
    let (lab, other) = (fake.program(), fake.program());
    let (mutex, its) = (lab.create_mutex("m").unwrap(), other.mutex("m").unwrap());
    mutex.lock().unwrap().unlock().unwrap();
    dies(&fake, &mutex);
    let guard = warned(its.lock());
    assert!(guard.owner_died() && guard.check().is_ok());
    drop(guard);
    let guard = warned(mutex.try_lock());
    guard.make_consistent();
    guard.unlock().unwrap();
    drop(its.lock().unwrap());
    // A panic is a death.
    let panics = std::thread::spawn(move || {
        let _guard = its.lock().unwrap();
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panics.join().is_err());
    // What is locked by a destructor then has not panicked itself.
    struct Locks(Mutex);
    impl Drop for Locks {
        fn drop(&mut self) {
            warned(self.0.lock()).make_consistent();
        }
    }
    let locks = Locks(other.mutex("m").unwrap());
    let panics = std::thread::spawn(move || {
        let _locks = locks;
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panics.join().is_err());
    mutex.lock().unwrap().abandon();
    drop(warned(mutex.lock()));
    // A waiter hears of it, too.
    let holder = warned(mutex.lock());
    let waiter = std::thread::spawn({
        let mutex = other.mutex("m").unwrap();
        move || warned(mutex.lock())
    });
    fake.until_waiting("m", 1);
    drop(holder);
    assert!(waiter.join().unwrap().check().is_ok());
}

#[test]
fn units_are_added_and_taken_once_and_leave_nothing_behind() {
    let fake = Fake::new();
    let lab = fake.program();
    let sem = lab.create_semaphore("s", 1).unwrap();
    sem.down().unwrap();
    assert!(matches!(sem.try_down(), Err(RemoteError::WouldBlock { .. })));
    let waiter = std::thread::spawn({
        let sem = fake.program().semaphore("s").unwrap();
        move || sem.down()
    });
    fake.until_waiting("s", 1);
    assert_eq!(sem.up(3).unwrap(), 2, "the waiter has its own");
    waiter.join().unwrap().unwrap();
    assert_eq!(sem.value().unwrap(), 2);
    assert!(matches!(sem.up(u32::MAX), Err(RemoteError::Overflow { value: 2, .. })));
    assert_eq!(fake.keys(), ["format", "pool/s/size"]);
}

#[test]
fn a_permit_is_lost_by_the_local_clock_before_the_engine_gives_it_away() {
    let fake = Fake::new();
    let lab = fake.program();
    let pool = lab.create_pool("gpu", 1).unwrap();
    // Of 0.5 s the last 0.405 are not certain. Nobody renews it.
    fake.grants(Duration::from_millis(500));
    let permit = pool.acquire().unwrap();
    fake.is_silent(true);
    assert!(rings(&permit, true));
    assert_eq!((permit.check(), permit.left()), (Err(Loss::Unreachable), Duration::ZERO));
    assert!(fake.holder("gpu", 0).is_some(), "the engine has given it to nobody");
    let said = permit.release().unwrap_err().to_string();
    assert_eq!(said, format!("`@lab/gpu` is lost: {}", Loss::Unreachable));
    fake.is_silent(false);
}

#[test]
fn a_permit_that_was_taken_away_rings_and_its_release_leaves_the_next_holder_alone() {
    let fake = Fake::new();
    let (lab, other) = (fake.program(), fake.program());
    let pool = lab.create_pool("gpu", 1).unwrap();
    let permit = pool.acquire().unwrap();
    assert!(!rings(&permit, false) && permit.check().is_ok());
    let waiter = waits(&other, "gpu", Patience::Forever);
    fake.until_waiting("gpu", 1);
    fake.deletes(Keys::One(space().held("gpu", 0)));
    let next = waiter.join().unwrap().unwrap();
    assert!(rings(&permit, true));
    assert_eq!(permit.check(), Err(Loss::TakenAway));
    assert!(matches!(permit.release(), Err(RemoteError::Lost { why: Loss::TakenAway, .. })));
    assert_eq!(fake.holder("gpu", 0).unwrap().1, next.check().unwrap().get());
}

#[test]
fn a_lease_that_the_engine_ends_takes_all_with_it_and_the_next_permit_has_another() {
    let fake = Fake::new();
    let lab = fake.program();
    let pool = lab.create_pool("gpu", 2).unwrap();
    let permit = pool.acquire().unwrap();
    fake.ends_leases(true);
    assert!(rings(&permit, true));
    assert!(matches!(permit.check(), Err(Loss::Revoked | Loss::TakenAway)));
    let next = pool.acquire().unwrap();
    assert!(next.check().is_ok() && fake.leases() == 1);
    // It has not heard of the end of this one when it asks for the next.
    fake.ends_leases(false);
    let third = pool.acquire().unwrap();
    assert!(third.check().is_ok() && next.check().is_err());
}

#[test]
fn a_waiter_whose_lease_ends_begins_anew() {
    let fake = Fake::new();
    let (holder, lab) = (fake.program(), fake.program());
    let pool = holder.create_pool("gpu", 1).unwrap();
    let waiter = waits(&lab, "gpu", Patience::Forever);
    let first = waiter.join().unwrap().unwrap();
    let waiter = waits(&lab, "gpu", Patience::Forever);
    fake.until_waiting("gpu", 1);
    fake.ends_leases(true);
    // All leases ended, the holder's as well.
    let second = waiter.join().unwrap().unwrap();
    assert!(first.check().is_err() && second.check().is_ok());
    drop(second);
    drop(pool.try_acquire().unwrap());
}

#[test]
fn an_attempt_given_up_unanswered_keeps_nothing_when_the_engine_answers_again() {
    let fake = Fake::new();
    let (lab, other) = (fake.program(), fake.program());
    let pool = lab.create_pool("gpu", 1).unwrap();
    drop(pool.acquire().unwrap());
    // What it gave back is tried for, or the glance is answered and the take is done; its answer is lost.
    for pool in [pool.clone(), other.pool("gpu").unwrap()] {
        fake.is_silent_after(1);
        let said = acquire_any_until(&[&pool], Patience::Forever, Some(&|| fake.silent())).unwrap_err();
        assert!(matches!(said, RemoteError::Silent { .. }), "{said}");
        assert!(fake.holder("gpu", 0).is_some());
        fake.is_silent(false);
        fake.until(|model| !model.entries.contains_key(&space().held("gpu", 0)));
        drop(pool.acquire().unwrap());
    }
}

#[test]
fn a_free_permit_is_had_however_short_the_time_is() {
    let fake = Fake::new();
    let lab = fake.program();
    let (pool, mutex) = (lab.create_pool("gpu", 1).unwrap(), lab.create_mutex("m").unwrap());
    let sem = lab.create_semaphore("s", 1).unwrap();
    // Also where the lease is to be had before.
    let held = pool.acquire_timeout(Duration::ZERO).unwrap();
    drop(mutex.lock_timeout(Duration::ZERO).unwrap());
    sem.down_timeout(Duration::ZERO).unwrap();
    assert!(matches!(pool.acquire_timeout(Duration::ZERO), Err(RemoteError::Timeout { .. })));
    assert!(matches!(sem.down_timeout(Duration::ZERO), Err(RemoteError::Timeout { .. })));
    assert!(!fake.keys().iter().any(|key| key.contains("/wait/") || key.contains("fence")), "{:?}", fake.keys());
    fake.is_silent(true);
    let said = pool.acquire_timeout(Duration::ZERO).unwrap_err();
    assert!(matches!(said, RemoteError::Silent { .. }), "{said}");
    let said = acquire_any_until(&[&pool], Patience::Forever, Some(&|| true)).unwrap_err();
    assert!(matches!(said, RemoteError::Interrupted { .. }), "{said}");
    fake.is_silent(false);
    drop(held);
}

#[test]
fn a_thread_that_asks_for_a_lease_keeps_no_other_beyond_its_time() {
    let fake = Fake::new();
    let lab = fake.program();
    let pool = lab.create_pool("gpu", 2).unwrap();
    fake.holds_grants(true);
    let first = waits(&lab, "gpu", Patience::Forever);
    fake.until_granting();
    let said = pool.acquire_timeout(Duration::ZERO).unwrap_err();
    assert!(matches!(said, RemoteError::Silent { .. }), "{said}");
    let second = waits(&lab, "gpu", Patience::Forever);
    fake.holds_grants(false);
    let (first, second) = (first.join().unwrap().unwrap(), second.join().unwrap().unwrap());
    assert!(first.check().is_ok() && second.check().is_ok() && fake.leases() == 1);
}

#[test]
fn a_lease_that_has_ended_unheard_is_replaced_where_nothing_was_had_under_it() {
    let fake = Fake::new();
    let (lab, other) = (fake.program(), fake.program());
    let (sem, tube) = (lab.create_semaphore("s", 0).unwrap(), lab.create_tube("t", 4, 100).unwrap());
    let mut receiver = other.tube("t").unwrap().receiver().unwrap();
    let mut theirs = tube.receiver().unwrap();
    assert_eq!(sem.up(1).unwrap(), 1);
    fake.ends_leases(false);
    assert_eq!(sem.up(1).unwrap(), 2, "each was added once");
    fake.ends_leases(false);
    let mut sender = tube.sender().unwrap();
    // One hears of it by its first claim, the other by what the sender was told.
    for receiver in [&mut receiver, &mut theirs] {
        sender.send(b"a").unwrap();
        let record = receiver.try_recv().unwrap().unwrap();
        assert!(!record.again && receiver.check().is_ok());
    }
    fake.ends_leases(false);
    assert!(matches!(receiver.recv(), Err(RemoteError::Lost { why: Loss::Revoked, .. })), "it had a record");
    assert_eq!(receiver.check(), Err(Loss::Revoked));
}

#[test]
fn loose_ends_of_a_lease_are_tied_up_by_one_thread() {
    let fake = Fake::new();
    let lab = fake.program();
    let pool = lab.create_pool("gpu", 3).unwrap();
    let permits: Vec<Permit> = (0..3).map(|_| pool.acquire().unwrap()).collect();
    fake.refuses_after(Some(0));
    drop(permits);
    fake.callers();
    fake.refuses_after(None);
    fake.until(|model| model.found(&space().holders("gpu")).count() == 0);
    let own = std::thread::current().id();
    let callers = fake.callers();
    assert!(callers.len() == 1 && callers[0] != own, "{callers:?}");
}

#[test]
fn a_loose_end_that_has_no_answer_keeps_no_other_waiting() {
    let fake = Fake::new();
    let lab = fake.program();
    let permits = ["a", "b"].map(|name| lab.create_pool(name, 1).unwrap().acquire().unwrap());
    fake.refuses_after(Some(0));
    drop(permits);
    fake.is_mute_about("a");
    fake.refuses_after(None);
    fake.until(|model| model.found(&space().holders("b")).count() == 0);
    assert!(fake.holder("a", 0).is_some());
}

#[test]
fn a_permit_dropped_while_the_engine_is_silent_comes_back_when_it_answers_again() {
    let fake = Fake::new();
    let lab = fake.program();
    let mutex = lab.create_mutex("m").unwrap();
    let guard = mutex.lock().unwrap();
    fake.is_silent(true);
    let said = guard.unlock().unwrap_err();
    assert!(matches!(said, RemoteError::Silent { .. }) && said.to_string().contains("@lab/m"), "{said}");
    fake.is_silent(false);
    fake.until(|model| !model.entries.contains_key(&space().held("m", 0)));
    drop(mutex.lock().unwrap());
}

#[test]
fn a_permit_that_its_holder_was_told_is_lost_is_given_back_while_the_lease_goes_on() {
    let fake = Fake::new();
    let lab = fake.program();
    let mutex = lab.create_mutex("m").unwrap();
    let guard = mutex.lock().unwrap();
    // As if the process had been stopped for long: it rings, and the renewal that comes then is of a lease that goes on.
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 1 };
    let rings_at = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at_once };
    // SAFETY: the guard's own descriptor, and a valid time.
    let set = unsafe {
        libc::timerfd_settime(
            guard.as_fd().as_raw_fd(),
            libc::TFD_TIMER_ABSTIME,
            &raw const rings_at,
            std::ptr::null_mut(),
        )
    };
    assert!(set == 0 && rings(&guard, true));
    fake.renews();
    assert_eq!(guard.check(), Err(Loss::Unreachable));
    assert!(matches!(guard.unlock(), Err(RemoteError::Lost { why: Loss::Unreachable, .. })));
    assert!(fake.holder("m", 0).is_none(), "it would stay locked as long as the program runs");
    assert!(warned(mutex.try_lock()).check().is_ok(), "and its holder may have left something half done");
}

#[test]
fn a_refused_release_is_told_and_done_when_the_engine_takes_it() {
    let fake = Fake::new();
    let lab = fake.program();
    let pool = lab.create_pool("gpu", 1).unwrap();
    let permit = pool.acquire().unwrap();
    fake.refuses_after(Some(0));
    assert!(matches!(permit.release(), Err(RemoteError::Refused(_))));
    fake.refuses_after(None);
    fake.until(|model| !model.entries.contains_key(&space().held("gpu", 0)));
    let permit = pool.acquire().unwrap();
    // A waiter's place stands when it is refused: look, enqueue, and then the answer to what it reads again.
    let waiter = {
        let pool = pool.clone();
        std::thread::spawn(move || pool.acquire())
    };
    fake.until_waiting("gpu", 1);
    fake.refuses_after(Some(0));
    fake.deletes(Keys::One(space().held("gpu", 0)));
    assert!(matches!(waiter.join().unwrap(), Err(RemoteError::Refused(_))));
    assert!(permit.check().is_err());
    fake.refuses_after(None);
    fake.until_waiting("gpu", 0);
    assert!(fake.holder("gpu", 0).is_none());
}

#[test]
fn a_unit_that_was_granted_to_one_that_has_gone_leaves_nothing_behind() {
    let fake = Fake::new();
    let lab = fake.program();
    let sem = lab.create_semaphore("s", 1).unwrap();
    drop(sem.try_down().and_then(|()| sem.up(1)));
    // The glance is answered, the take is done, and its answer is lost.
    fake.is_silent_after(1);
    let said = sem.down_until(Patience::Forever, Some(&|| fake.silent())).unwrap_err();
    assert!(matches!(said, RemoteError::Unsure { .. }), "{said}");
    fake.is_silent(false);
    let own = space().pool("s");
    fake.until(|model| !model.found(&own).any(|entry| entry.key.contains("/got/")));
}

#[test]
fn a_forked_child_has_nothing_and_leaves_what_is_its_parents() {
    let fake = Fake::new();
    let lab = fake.program();
    let pool = lab.create_pool("gpu", 1).unwrap();
    let permit = pool.acquire().unwrap();
    let (guard, sem) = (lab.create_mutex("m").unwrap().lock().unwrap(), lab.create_semaphore("s", 1).unwrap());
    let tube = lab.create_tube("t", 4, 100).unwrap();
    let (mut sender, mut receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
    sender.send_all(&["a", "b"], Patience::Forever).unwrap();
    assert_eq!(receiver.recv().unwrap().unwrap().bytes, b"a");
    // SAFETY: the child takes no lock that another thread may have, and ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let void = permit.check() == Err(Loss::Inherited) && permit.left().is_zero();
        let refused = matches!(pool.acquire(), Err(RemoteError::Inherited { .. }));
        let inherited = |said: Option<RemoteError>| matches!(said, Some(RemoteError::Inherited { .. }));
        let refused = refused
            && guard.check() == Err(Loss::Inherited)
            && inherited(sem.down().err())
            && inherited(sem.up(1).err())
            && inherited(tube.sender().err())
            && inherited(sender.send(b"c").err().map(|said| said.why))
            // It has come to its parent.
            && inherited(receiver.recv().err());
        drop((permit, pool, lab, guard, sem, tube, sender, receiver));
        // Its own copy of the engine.
        let left = fake.leases() == 1 && fake.holder("gpu", 0).is_some();
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(if void && refused && left { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(permit.check().is_ok() && fake.holder("gpu", 0).is_some() && fake.leases() == 1);
    sender.send(b"c").unwrap();
    assert_eq!([receiver.recv(), receiver.recv()].map(|got| got.unwrap().unwrap().bytes), [b"b", b"c"]);
    assert!(guard.check().is_ok() && sem.value().unwrap() == 1);
}
