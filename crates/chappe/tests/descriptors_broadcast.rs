//! Descriptors of subscriptions: readable when there is a message that the filter wants, from whatever process, and not before.

#[path = "house/asleep.rs"]
mod asleep;
#[allow(dead_code, reason = "not every program uses all of it")]
mod house;

use asleep::{this_thread, until_asleep};
use chappe::tube::broadcast::{Broadcast, BroadcastOptions, Publisher, Subscribe, Subscription};
use chappe::tube::named::NotReceived;
use chappe::{Select, select};
use house::{House, LONG, ROLE, eventually, listen, say};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(20);

fn options() -> BroadcastOptions {
    BroadcastOptions { slots: 16, size: 8, schema: Some("n: i64".into()), ..BroadcastOptions::default() }
}

fn made() -> Broadcast<[u8]> {
    Broadcast::create("ticks", &options()).unwrap()
}

fn send(publisher: &Publisher<[u8]>, n: i64) {
    publisher.send(&n.to_le_bytes()).unwrap();
}

fn taken(subscription: &Subscription<[u8]>) -> Option<i64> {
    let got = subscription.try_recv().ok()?;
    Some(i64::from_le_bytes(got[..].try_into().unwrap()))
}

/// Sends what no subscriber wants until it is not copied any more: all filters are taken in.
fn settled(publisher: &Publisher<[u8]>, tube: &Broadcast<[u8]>) {
    eventually("the filters are taken in", || {
        let before = tube.info().unwrap().sent;
        send(publisher, 0);
        tube.info().unwrap().sent == before
    });
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

/// As a runtime would. None: all publishers have gone.
fn recv_polling(subscription: &Subscription<[u8]>) -> Option<i64> {
    loop {
        match subscription.try_recv() {
            Ok(got) => return Some(i64::from_le_bytes(got[..].try_into().unwrap())),
            Err(NotReceived::Empty) if subscription.rearm() => becomes_readable(subscription.descriptor().unwrap()),
            Err(NotReceived::Empty) => {}
            Err(NotReceived::Disconnected { .. }) => return None,
            Err(e) => panic!("{e}"),
        }
    }
}

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    assert_eq!(role, "publish");
    let publisher = Broadcast::<[u8]>::open("ticks").unwrap().publisher().unwrap();
    say("ready");
    while let Ok(n) = listen().parse() {
        send(&publisher, n);
        say("sent");
    }
}

#[test]
fn only_a_message_that_passes_the_filter_makes_it_readable() {
    let house = House::new("fd-filter");
    let tube = made();
    let subscription = tube.subscribe("n > 100").unwrap();
    let fd = subscription.descriptor().unwrap();
    assert_eq!(subscription.descriptor().unwrap().as_raw_fd(), fd.as_raw_fd(), "one for the subscription");
    let publisher = tube.publisher().unwrap();
    settled(&publisher, &tube);
    assert_eq!(taken(&subscription), None);
    assert!(subscription.rearm());
    let mut other = house.actor("publish");
    assert_eq!(other.hear(), "ready");
    for round in 0..10 {
        (0..50).for_each(|n| send(&publisher, n));
        stays_unreadable(fd);
        // The other process's publisher may not know the filter yet: what it sends is dropped where the descriptor is armed again.
        other.tell(&(1000 + round).to_string());
        assert_eq!(other.hear(), "sent");
        becomes_readable(fd);
        assert!(!subscription.rearm(), "there is something");
        assert!(is_readable(fd));
        assert_eq!(taken(&subscription), Some(1000 + round));
        assert!(subscription.rearm());
        assert!(!is_readable(fd));
    }
}

#[test]
fn arming_drops_what_came_before_the_filter_was_known() {
    let _house = House::new("fd-dropped");
    let tube = made();
    let publisher = tube.publisher().unwrap();
    let subscription = tube.subscribe("n > 100").unwrap();
    // Nobody's filter is taken in by the first message: it is there, and not wanted.
    send(&publisher, 1);
    let fd = subscription.descriptor().unwrap();
    assert!(subscription.rearm());
    assert!(!is_readable(fd) && subscription.is_empty());
    send(&publisher, 101);
    assert_eq!(recv_polling(&subscription), Some(101));
}

#[test]
fn a_publisher_that_goes_or_is_killed_makes_it_readable() {
    let house = House::new("fd-gone");
    let tube = made();
    let subscription = tube.subscribe(Subscribe::to_all()).unwrap();
    let fd = subscription.descriptor().unwrap();
    stays_unreadable(fd);
    let publisher = tube.publisher().unwrap();
    stays_unreadable(fd);
    drop(publisher);
    becomes_readable(fd);
    assert!(matches!(subscription.try_recv(), Err(NotReceived::Disconnected { .. })));
    let mut other = house.actor("publish");
    assert_eq!(other.hear(), "ready");
    assert!(subscription.rearm(), "another one has come");
    other.kill();
    becomes_readable(fd);
    assert!(matches!(subscription.try_recv(), Err(NotReceived::SenderDied { .. })));
    assert!(!subscription.rearm(), "nobody publishes");
    // A removed tube has something to tell as well.
    let publisher = tube.publisher().unwrap();
    assert!(subscription.rearm());
    Broadcast::remove("ticks", true).unwrap();
    becomes_readable(fd);
    assert!(matches!(subscription.try_recv(), Err(NotReceived::Dead { .. })));
    drop(publisher);
}

#[test]
fn two_subscriptions_of_one_tube_are_told_apart() {
    let _house = House::new("fd-two");
    let tube = made();
    let low = tube.subscribe("n < 0").unwrap();
    let high = tube.subscribe("n > 0").unwrap();
    let publisher = tube.publisher().unwrap();
    settled(&publisher, &tube);
    let (low_fd, high_fd) = (low.descriptor().unwrap(), high.descriptor().unwrap());
    for n in 1..20 {
        assert_eq!((taken(&low), taken(&high)), (None, None));
        assert!(low.rearm() && high.rearm());
        let (wants, its, others) = if n % 2 == 0 { (&low, low_fd, high_fd) } else { (&high, high_fd, low_fd) };
        let message = if n % 2 == 0 { -n } else { n };
        send(&publisher, message);
        becomes_readable(its);
        assert!(!is_readable(others));
        assert_eq!(taken(wants), Some(message));
    }
    // One goes while it is armed: the other one is as before.
    assert!(low.rearm() && high.rearm());
    drop(low);
    send(&publisher, 7);
    assert_eq!(recv_polling(&high), Some(7));
}

#[test]
fn a_thread_that_waits_itself_takes_the_watchers_place() {
    let _house = House::new("fd-own-wait");
    let tube = made();
    let subscription = tube.subscribe("n > 0").unwrap();
    let stop = chappe::Semaphore::private(0).unwrap();
    let publisher = tube.publisher().unwrap();
    settled(&publisher, &tube);
    let fd = subscription.descriptor().unwrap();
    for round in 1..20 {
        assert_eq!(taken(&subscription), None);
        assert!(subscription.rearm() && !is_readable(fd));
        // It is told though the watcher stood for it; and the poller looks for itself.
        if round % 2 == 0 {
            let waited = subscription.recv_timeout(Duration::from_millis(1));
            assert!(matches!(waited, Err(NotReceived::Timeout)), "{waited:?}");
        } else {
            let mut select = Select::new();
            select.recv_on(&subscription);
            select.down(&stop);
            assert!(select.select_timeout(Duration::from_millis(1)).is_err());
        }
        assert!(is_readable(fd), "the watcher does not stand for it any more");
        assert!(subscription.rearm() && !is_readable(fd));
        std::thread::scope(|scope| {
            let publisher = tube.publisher().unwrap();
            scope.spawn(move || send(&publisher, round));
            let got = subscription.recv_timeout(LONG).unwrap();
            assert_eq!(i64::from_le_bytes(got[..].try_into().unwrap()), round);
        });
        // Armed again, it is told of what comes.
        assert!(subscription.rearm());
        send(&publisher, -round);
        stays_unreadable(fd);
        send(&publisher, 100 + round);
        assert_eq!(recv_polling(&subscription), Some(100 + round));
    }
}

#[test]
fn a_message_that_a_choice_only_looked_at_makes_it_readable() {
    let _house = House::new("fd-held");
    let tube = made();
    let subscription = tube.subscribe(Subscribe::to_all()).unwrap();
    let publisher = tube.publisher().unwrap();
    send(&publisher, 5);
    let mut select = Select::new();
    select.recv_on(&subscription);
    assert_eq!(select.try_ready().unwrap(), 0);
    let fd = subscription.descriptor().unwrap();
    assert!(is_readable(fd) && !subscription.rearm() && is_readable(fd));
    assert_eq!(taken(&subscription), Some(5));
    assert!(subscription.rearm() && !is_readable(fd));
}

#[test]
fn a_choice_that_does_not_wait_leaves_it_readable_while_a_message_is_held() {
    let _house = House::new("fd-held-armed");
    let tube = made();
    let subscription = tube.subscribe("n > 0").unwrap();
    let publisher = tube.publisher().unwrap();
    settled(&publisher, &tube);
    assert_eq!(taken(&subscription), None);
    let fd = subscription.descriptor().unwrap();
    for n in 1..100 {
        assert!(subscription.rearm() && !is_readable(fd));
        send(&publisher, n);
        // It is armed; the look takes the message out of the tube, mostly before the watching thread is awake.
        let mut select = Select::new();
        select.recv_on(&subscription);
        let ready = if n % 2 == 0 { select.try_ready().ok() } else { select.ready_timeout(LONG).ok() };
        assert_eq!(ready, Some(0));
        assert!(is_readable(fd), "a poller sleeps on message {n}, which is held");
        assert_eq!(taken(&subscription), Some(n));
    }
}

/// The threads of this process that watch: their entries in /proc. Those of other tests' arenas stay for a second.
fn watchers() -> Vec<PathBuf> {
    let is_watcher = |t: &PathBuf| std::fs::read_to_string(t.join("comm")).is_ok_and(|n| n.trim() == "chappe-watcher");
    std::fs::read_dir("/proc/self/task").unwrap().map(|t| t.unwrap().path()).filter(is_watcher).collect()
}

/// How many times a thread has gone to sleep.
fn sleeps(thread: &Path) -> u64 {
    let status = std::fs::read_to_string(thread.join("status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn the_watching_thread_sleeps_while_none_is_armed() {
    let _house = House::new("fd-asleep");
    let tube = made();
    let subscription = tube.subscribe(Subscribe::to_all()).unwrap();
    let publisher = tube.publisher().unwrap();
    let others = watchers();
    subscription.descriptor().unwrap();
    let watcher = watchers().into_iter().find(|one| !others.contains(one)).expect("it has started");
    for way in 0..3 {
        assert!(subscription.rearm());
        stays_unreadable(subscription.descriptor().unwrap());
        send(&publisher, 0);
        // It is disarmed in the watcher's place, mostly before that is awake.
        match way {
            0 => assert!(!subscription.rearm()),
            1 => {
                let mut select = Select::new();
                select.recv_on(&subscription);
                assert_eq!(select.try_ready().unwrap(), 0);
            }
            _ => assert_eq!(taken(&subscription), Some(0)),
        }
        while taken(&subscription).is_some() {}
        if way == 2 {
            // A receive that waits takes its place.
            assert!(subscription.rearm());
            assert!(subscription.recv_timeout(Duration::from_millis(1)).is_err());
        }
        let before = sleeps(&watcher);
        for n in 1..=200 {
            send(&publisher, n);
            assert_eq!(taken(&subscription), Some(n));
            std::thread::yield_now();
        }
        let woken = sleeps(&watcher) - before;
        assert!(woken < 20, "way {way}: woken {woken} times for nothing");
    }
}

#[test]
fn a_choice_that_prefers_the_first_of_two_subscriptions_hears_the_second() {
    let _house = House::new("two-heard");
    let tube = made();
    let low = tube.subscribe("n < 0").unwrap();
    let high = tube.subscribe("n > 0").unwrap();
    let publisher = tube.publisher().unwrap();
    settled(&publisher, &tube);
    for n in 1..20 {
        std::thread::scope(|scope| {
            let (publisher, me) = (tube.publisher().unwrap(), this_thread());
            scope.spawn(move || {
                until_asleep(&me);
                send(&publisher, n);
            });
            let mut select = Select::new_biased();
            select.recv_on(&low);
            select.recv_on(&high);
            let began = Instant::now();
            let chosen = select.select_timeout(LONG).unwrap();
            assert_eq!(chosen.index(), 1);
            chosen.recv_on(&high).unwrap();
            // A choice whose time is up looks once more, at all arms.
            assert!(began.elapsed() < LONG, "it was found when the time was up");
        });
    }
}

#[test]
fn a_private_tubes_subscription_is_awaited_alike() {
    let _house = House::new("fd-private");
    let tube = Broadcast::<[u8]>::private(&options()).unwrap();
    let subscription = tube.subscribe("n % 3 == 0").unwrap();
    let publisher = tube.publisher().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || (0..3000).for_each(|n| send(&publisher, n)));
        for n in 0..1000 {
            assert_eq!(recv_polling(&subscription), Some(3 * n));
        }
        assert_eq!(recv_polling(&subscription), None);
    });
}
