//! Helping locks and monitors between processes: what they keep apart, what a kill leaves, and what is refused.

use crate::house::{House, ROLE, eventually, listen, say};
use chappe::words::Words;
use chappe::{HelpError, HelpLock, Monitor, MonitorError, SharedError, lock_all};
use std::time::Duration;

/// The same twice whenever no thread is between them.
type Twice = [u64; 2];

/// Whatever was torn is made whole.
fn locked(lock: &HelpLock<Twice>) -> chappe::HelpGuard<'_, Twice> {
    match lock.lock() {
        Ok(guard) => guard,
        Err(HelpError::OwnerDied { mut guard, .. }) => {
            guard[1] = guard[0];
            guard.make_consistent();
            guard
        }
        Err(e) => panic!("{e}"),
    }
}

/// The same of a monitor.
fn inside(monitor: &Monitor<Twice>) -> chappe::Inside<'_, Twice> {
    match monitor.enter() {
        Err(MonitorError::Lock(HelpError::OwnerDied { .. })) => {
            let mut inside = monitor.enter_torn().unwrap();
            inside[1] = inside[0];
            inside.make_consistent();
            inside
        }
        entered => entered.unwrap(),
    }
}

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "hold" => {
            let lock = HelpLock::<Twice>::inherited_open("lock").unwrap();
            let mut guard = lock.lock().unwrap();
            guard[0] += 1;
            say("half");
            listen();
            guard[1] += 1;
            drop(guard);
            say("out");
            listen();
        }
        "inside" => {
            let monitor = Monitor::<Twice>::open("monitor").unwrap();
            let mut inside = inside(&monitor);
            inside[0] += 1;
            say("half");
            listen();
            inside[1] += 1;
        }
        "wait" => {
            let monitor = Monitor::<Twice>::open("monitor").unwrap();
            let inside = monitor.enter().unwrap();
            say("waits");
            let answer = match inside.wait("some") {
                Ok(_) => "called".to_owned(),
                Err(e) => e.to_string(),
            };
            say(&answer);
            listen();
        }
        "take" => {
            let monitor = Monitor::<Twice>::open("monitor").unwrap();
            say("ready");
            loop {
                let mut inside = inside(&monitor);
                while inside[0] == 0 {
                    inside = match inside.wait("some") {
                        Ok(inside) => inside,
                        Err(MonitorError::Lock(HelpError::OwnerDied { .. })) => self::inside(&monitor),
                        Err(e) => panic!("{e}"),
                    };
                }
                *inside = [inside[0] - 1; 2];
                inside.signal("room").unwrap();
            }
        }
        "count" => {
            let lock = HelpLock::<Twice>::inherited_open("lock").unwrap();
            say("ready");
            loop {
                let mut guard = locked(&lock);
                guard[0] += 1;
                guard[1] += 1;
            }
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
fn a_holder_that_is_killed_is_told_until_the_data_is_whole() {
    let house = House::new("helplock-killed");
    let lock = HelpLock::inherited_create("lock", [5u64; 2]).unwrap();
    let mut holder = house.actor("hold");
    assert_eq!(holder.hear(), "half");
    assert!(matches!(lock.try_lock(), Err(HelpError::WouldBlock { .. })));
    holder.child.kill().unwrap();
    let Err(HelpError::OwnerDied { guard, .. }) = lock.lock() else { panic!("it was killed") };
    assert_eq!(*guard, [6, 5], "as it left it");
    drop(guard);
    let told = lock.with(|_| ()).unwrap_err();
    assert!(matches!(told, HelpError::OwnerDied { .. }) && told.to_string().contains("lock"), "{told}");
    drop(locked(&lock));
    assert_eq!(lock.with(|d| *d).unwrap(), [6, 6]);
    lock.lock().unwrap().condemn();
    assert!(matches!(lock.lock(), Err(HelpError::Condemned { .. })));
    assert!(matches!(HelpLock::<Twice>::inherited_open("lock").unwrap().lock(), Err(HelpError::Condemned { .. })));
}

#[test]
fn an_object_of_another_type_is_refused_by_name() {
    let _house = House::new("helplock-refused");
    let lock = HelpLock::inherited_create("lock", 7u64).unwrap();
    assert_eq!(HelpLock::inherited_named("lock", 9u64).unwrap().with(|n| *n).unwrap(), 7);
    assert!(matches!(HelpLock::inherited_create("lock", 0u64), Err(HelpError::Shared(SharedError::Object(_)))));
    let other = HelpLock::<u32>::inherited_open("lock").unwrap_err().to_string();
    assert!(other.contains("`lock`") && other.contains("u32"), "{other}");
    let none = HelpLock::<u64>::inherited_open("nowhere").unwrap_err().to_string();
    assert!(none.contains("nowhere"), "{none}");
    assert!(matches!(Monitor::<u64>::open("lock"), Err(MonitorError::Shared(SharedError::Object(_)))));
    let held = lock.lock().unwrap();
    let same = HelpLock::<u64>::inherited_open("lock").unwrap();
    let again = same.lock().unwrap_err();
    assert!(matches!(again, HelpError::Deadlock { .. }), "recursion, by another handle: {again}");
    drop(held);
    HelpLock::unmake("lock", false).unwrap();
    assert!(matches!(lock.lock(), Err(HelpError::Shared(SharedError::Dead { .. }))));

    let monitor = Monitor::create("monitor", 1u64, &["a", "b"]).unwrap();
    assert_eq!(Monitor::<u64>::open("monitor").unwrap().conditions().collect::<Vec<_>>(), ["a", "b"]);
    let other = Monitor::open_or_create("monitor", 1u64, &["a"]).unwrap_err().to_string();
    assert!(other.contains("`monitor`") && other.contains("[\"a\", \"b\"]"), "{other}");
    for names in [&["", "b"][..], &["a", "a"], &["a name that is longer than a name may be"]] {
        assert!(matches!(Monitor::create("more", 1u64, names), Err(MonitorError::Name { .. })), "{names:?}");
    }
    let names: Vec<String> = (0..17).map(|i| format!("c{i}")).collect();
    let many: Vec<&str> = names.iter().map(String::as_str).collect();
    let many = Monitor::create("more", 1u64, &many).unwrap_err().to_string();
    assert!(many.contains("17 conditions") && many.contains("16"), "{many}");
    let unknown = monitor.enter().unwrap().signal("c").unwrap_err().to_string();
    assert!(unknown.contains("`c`") && unknown.contains("`a`, `b`"), "{unknown}");
    let inner = Monitor::create("inner", 0u64, &["x"]).unwrap();
    let held = monitor.enter().unwrap();
    let nested = inner.enter().unwrap().wait("x").unwrap_err().to_string();
    assert!(nested.contains("`inner`") && nested.contains("`monitor`"), "{nested}");
    drop(held);
    let (inside, came) = inner.enter().unwrap().wait_timeout("x", Duration::from_millis(1)).unwrap();
    assert!(!came);
    drop(inside);
    Monitor::unmake("inner", false).unwrap();
    assert!(matches!(inner.enter(), Err(MonitorError::Shared(SharedError::Dead { .. }))));
}

#[test]
fn several_named_ones_are_locked_in_the_order_of_their_names() {
    let _house = House::new("helplock-several");
    let all: Vec<_> = ["c", "a", "b"].iter().map(|n| HelpLock::inherited_create(n, 0u64).unwrap()).collect();
    let own = HelpLock::inherited("own", 0u64).unwrap();
    let locks = [&all[0], &own, &all[1], &all[2]];
    for (i, mut guard) in lock_all(&locks).unwrap().into_iter().enumerate() {
        *guard = i as u64;
    }
    assert_eq!(locks.map(|l| l.with(|n| *n).unwrap()), [0, 1, 2, 3]);
    // The first by name is refused: none of the others was locked before it.
    all[1].lock().unwrap().condemn();
    assert!(matches!(lock_all(&locks), Err(HelpError::Condemned { .. })));
    assert!(locks.iter().filter(|l| l.name() != all[1].name()).all(|l| l.try_lock().is_ok()), "one stayed locked");
}

#[test]
fn all_who_wait_in_a_monitor_are_told_when_one_dies_inside() {
    let house = House::new("monitor-told");
    let monitor = Monitor::create("monitor", [1u64; 2], &["some"]).unwrap();
    let mut waiting: Vec<_> = (0..2).map(|_| house.actor("wait")).collect();
    waiting.iter_mut().for_each(|w| assert_eq!(w.hear(), "waits"));
    // They have left it by the time that we are inside.
    let mut inner = house.actor("inside");
    assert_eq!(inner.hear(), "half");
    inner.child.kill().unwrap();
    // Nobody else comes inside.
    for w in &mut waiting {
        let told = w.hear();
        assert!(told.contains("died") && told.contains("monitor"), "{told}");
    }
    assert!(matches!(monitor.enter(), Err(MonitorError::Lock(HelpError::OwnerDied { .. }))));
    assert_eq!(*inside(&monitor), [2, 2]);
}

#[test]
fn a_signal_reaches_another_process_and_a_removal_wakes_it() {
    let house = House::new("monitor-called");
    let monitor = Monitor::create("monitor", [1u64; 2], &["some"]).unwrap();
    let mut one = house.actor("wait");
    assert_eq!(one.hear(), "waits");
    monitor.enter().unwrap().signal("some").unwrap();
    assert_eq!(one.hear(), "called");
    let mut other = house.actor("wait");
    assert_eq!(other.hear(), "waits");
    drop(monitor.enter().unwrap());
    let used = Monitor::unmake("monitor", false).unwrap_err().to_string();
    assert!(used.contains("changes it"), "{used}");
    Monitor::unmake("monitor", true).unwrap();
    let told = other.hear();
    assert!(told.contains("was removed"), "{told}");
}

/// Children take what we put there, and are killed at random; what is there stays whole, and none sleeps while there is something.
#[test]
#[ignore = "storm: kills at random"]
fn random_kills_tear_nothing_and_lose_no_signal() {
    let house = House::new("monitor-kills");
    let monitor = Monitor::create("monitor", [0u64; 2], &["some", "room"]).unwrap();
    let lock = HelpLock::inherited_create("lock", [0u64; 2]).unwrap();
    let begin = |role: &str| {
        let mut actor = house.actor(role);
        assert_eq!(actor.hear(), "ready");
        actor
    };
    let mut takers: Vec<_> = (0..3).map(|_| begin("take")).collect();
    let mut counters: Vec<_> = (0..2).map(|_| begin("count")).collect();
    let mut dice = 1u64;
    for round in 0..300 {
        for _ in 0..20 {
            let mut inside = inside(&monitor);
            assert_eq!(inside[0], inside[1], "torn");
            *inside = [inside[0] + 1; 2];
            inside.signal("some").unwrap();
        }
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros(dice >> 52));
        let i = (dice >> 40) as usize;
        takers[i % 3].child.kill().unwrap();
        takers[i % 3] = begin("take");
        if round % 3 == 0 {
            counters[i % 2].child.kill().unwrap();
            counters[i % 2] = begin("count");
        }
        let guard = locked(&lock);
        assert_eq!(guard[0], guard[1], "torn");
    }
    eventually("all was taken", || inside(&monitor)[0] == 0);
    assert!(locked(&lock)[0] > 0);
}

/// A word of steps that is named as one of the other form.
#[test]
fn a_lock_of_steps_is_no_inherited_one() {
    let _house = House::new("helplock-forms");
    let steps = HelpLock::steps_named("steps", 1u64).unwrap();
    assert!(matches!(steps.lock(), Err(HelpError::Steps { .. })));
    assert!(HelpLock::<u64>::inherited_open("steps").is_err());
    assert_eq!(Words::open("steps").unwrap().load(0).unwrap(), 1);
}
