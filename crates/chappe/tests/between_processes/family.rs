//! Objects that have no name, in memory that processes share: spots, and the arena of a family.

use crate::house::{House, LONG, ROLE, eventually, listen, say};
use chappe::{Arena, ArenaOptions, DownError, ObjectError, ObjectId, Semaphore, UpError};

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (what, rest) = role.split_once(' ').unwrap();
    match what {
        "up" => Semaphore::at(read(rest)).unwrap().up().unwrap(),
        // Makes one in a family of its own, and lives on, or a child of it does.
        "make" => {
            let made = Semaphore::unnamed(&Arena::family().unwrap(), 0).unwrap();
            if rest == "fork" && forked(wait_for_ever) != 0 {
                say(&write(made.object_id()));
                return;
            }
            say(&write(made.object_id()));
            listen();
        }
        other => panic!("no such role: {other:?}"),
    }
}

/// Nobody waits for it, nor reads what it says; if the test fails, it ends by itself.
fn wait_for_ever() -> i32 {
    // SAFETY: no other code of this process has the descriptors.
    unsafe {
        libc::alarm(30);
        (0..3).for_each(|fd| _ = libc::close(fd));
    }
    loop {
        std::thread::park();
    }
}

fn write(spot: ObjectId) -> String {
    format!("{} {} {}", spot.arena, spot.object, spot.generation)
}

fn read(text: &str) -> ObjectId {
    let numbers: Vec<u64> = text.split(' ').map(|n| n.parse().unwrap()).collect();
    ObjectId { arena: numbers[0], object: numbers[1] as u32, generation: numbers[2] as u32 }
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
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0);
}

fn families() -> Vec<String> {
    Arena::list().unwrap().into_iter().filter(|name| name.starts_with("family-")).collect()
}

#[test]
fn a_semaphore_of_a_family_is_one_for_a_process_and_those_that_it_forks() {
    let _house = House::new("family-forked");
    let spot = Semaphore::unnamed(&Arena::family().unwrap(), 0).unwrap().object_id();
    let there = Semaphore::at(spot).unwrap();
    for _ in 0..3 {
        let child = forked(|| {
            Semaphore::at(spot).unwrap().up().unwrap();
            // The family is the same there.
            assert_eq!(families().len(), 1);
            let its = Semaphore::unnamed(&Arena::family().unwrap(), 3).unwrap().object_id();
            assert_eq!((its.arena, families().len()), (spot.arena, 1));
            0
        });
        there.down_timeout(LONG).unwrap();
        ends_well(child);
    }
    assert!(there.name().starts_with(&format!("{}/semaphore@{}.", families()[0], std::process::id())));
}

#[test]
fn an_unrelated_process_finds_it_by_its_spot() {
    let house = House::new("family-unrelated");
    let made = Semaphore::unnamed(&Arena::family().unwrap(), 0).unwrap();
    house.actor(&format!("up {}", write(made.object_id()))).ended();
    made.try_down().unwrap();
    let mut other = house.actor("make alone");
    let its = Semaphore::at(read(&other.hear())).unwrap();
    its.up().unwrap();
    assert!(its.value() == 1 && made.value() == 0 && families().len() == 2);
}

#[test]
fn a_family_that_nobody_has_mapped_goes_when_another_is_made() {
    let house = House::new("family-end");
    let mut first = house.actor("make alone");
    first.hear();
    let mut forks = house.actor("make fork");
    let spot = read(&forks.hear());
    forks.ended();
    assert_eq!(families().len(), 2);
    // Its child lives, and so does the other.
    let mut second = house.actor("make alone");
    second.hear();
    assert_eq!(families().len(), 3);
    first.kill();
    assert_eq!(families().len(), 3, "nobody has looked");
    let mut third = house.actor("make alone");
    third.hear();
    assert_eq!(families().len(), 3);
    Semaphore::at(spot).unwrap().up().unwrap();
    drop((second, third));
    // We have that of the child mapped now.
    let mut last = house.actor("make alone");
    last.hear();
    assert_eq!(families().len(), 2);
    let child = last_child_of_the_test();
    // SAFETY: it is not our child any more, but no other's either: it was found by what it runs.
    unsafe { libc::kill(child, libc::SIGKILL) };
    eventually("it has gone", || !std::fs::exists(format!("/proc/{child}")).unwrap() || is_zombie(child));
}

#[test]
fn a_lasting_arena_survives_its_file_and_others_report_the_loss() {
    let house = House::new("family-unlinked");
    let options = ArenaOptions { members: Some(16), objects: Some(16), ..ArenaOptions::default() };
    let lasting = Arena::open_or_create_lasting("lasting", &options).unwrap();
    let all = [Arena::family().unwrap(), lasting];
    let waits = |semaphore: Semaphore| std::thread::spawn(move || semaphore.down());
    let kept: Vec<Semaphore> = all.iter().map(|arena| Semaphore::unnamed(arena, 0).unwrap()).collect();
    let waiters: Vec<_> = kept.iter().map(|semaphore| waits(semaphore.clone())).collect();
    for arena in &all {
        std::fs::remove_file(arena.path().unwrap()).unwrap();
    }
    // The second is told in a round that began after all these had lost their files, and ended.
    for other in ["first", "second"] {
        let arena = Arena::create(other, &options).unwrap();
        let waiter = waits(Semaphore::unnamed(&arena, 0).unwrap());
        std::fs::remove_file(arena.path().unwrap()).unwrap();
        assert!(matches!(waiter.join().unwrap(), Err(DownError::Dead { .. })), "{other}");
    }
    for (semaphore, waiter) in kept.iter().zip(waiters) {
        semaphore.up().unwrap();
        waiter.join().unwrap().unwrap();
        semaphore.up().unwrap();
        assert_eq!(semaphore.value(), 1);
        // Others cannot find it any more.
        assert!(!semaphore.is_there());
    }
    let cut_off = chappe::doctor::surroundings().findings;
    let told = cut_off.iter().filter(|f| f.advice.as_ref().is_some_and(|a| a.contains("among themselves"))).count();
    assert_eq!(told, 2, "{cut_off:?}");
    // A newcomer gets another.
    let next = Arena::open_or_create_lasting("lasting", &options).unwrap();
    assert!(next != lasting && Arena::family().unwrap() != all[0]);
    drop(house);
}

/// What the actor has forked and left behind: the process that runs this program in this house, and is no child of ours.
fn last_child_of_the_test() -> i32 {
    let house = std::env::var("CHAPPE_DIR").unwrap();
    let runs = |pid: i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let has = |what: &str| environment.split(|b| *b == 0).any(|v| v == what.as_bytes());
        has(&format!("CHAPPE_DIR={house}")) && has(&format!("{ROLE}=make fork"))
    };
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok());
    let found: Vec<i32> = all.filter(|pid| runs(*pid)).collect();
    assert_eq!(found.len(), 1);
    found[0]
}

fn is_zombie(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

/// What only looks like one must not be removed: a named arena, and a file.
#[test]
fn the_sweep_removes_nothing_else() {
    let house = House::new("family-sweep");
    let directory = std::env::var("CHAPPE_DIR").unwrap();
    Semaphore::create("family-tree/wish", 3).unwrap();
    let lookalike = format!("{directory}/family-0123456789abcdef");
    std::fs::write(&lookalike, "photographs").unwrap();
    let e = Arena::create("family-0123456789abcdee", &chappe::ArenaOptions::default()).unwrap_err();
    assert!(e.to_string().contains("reserved"), "{e}");
    let mut other = house.actor("make alone");
    other.hear();
    let names = families();
    assert!(names.len() == 3 && names.contains(&"family-tree".into()), "{names:?}");
    assert!(std::fs::exists(lookalike).unwrap());
    assert_eq!(Semaphore::open("family-tree/wish").unwrap().value(), 3);
}

#[test]
fn one_that_was_removed_is_made_anew() {
    let _house = House::new("family-removed");
    let spot = Semaphore::unnamed(&Arena::family().unwrap(), 1).unwrap().object_id();
    Arena::remove(&Arena::family().unwrap().name(), true).unwrap();
    assert!(matches!(Semaphore::at(spot).unwrap().down(), Err(DownError::Dead { .. })));
    let next = Semaphore::unnamed(&Arena::family().unwrap(), 1).unwrap();
    assert_ne!(next.object_id().arena, spot.arena);
    next.down().unwrap();
    // Its file alone, too.
    std::fs::remove_file(Arena::family().unwrap().path().unwrap()).unwrap();
    assert_ne!(Semaphore::unnamed(&Arena::family().unwrap(), 0).unwrap().object_id().arena, next.object_id().arena);
}

#[test]
fn a_wish_for_it_is_fulfilled_by_the_next_fork() {
    let _house = House::new("family-wish");
    // It stands for the rest of this program: so whatever forks here has a house.
    Arena::family_at_fork();
    let before = families();
    let child = forked(|| i32::from(families().is_empty()));
    ends_well(child);
    assert!(before.is_empty() && families().len() == 1);
    assert_eq!(Arena::family().unwrap().name(), families()[0]);
}

#[test]
fn a_private_semaphore_is_a_copy_in_a_forked_child() {
    // It forks: that may make a family where another test has its own (see above).
    let _house = House::new("family-private");
    let spot = Semaphore::unnamed(&Arena::private(), 1).unwrap().object_id();
    let child = forked(|| {
        let its = Semaphore::at(spot).unwrap();
        its.down().unwrap();
        its.up_many(5).unwrap();
        i32::from(its.value() != 5 || !Semaphore::remove_at(spot).unwrap())
    });
    ends_well(child);
    let ours = Semaphore::at(spot).unwrap();
    assert_eq!(ours.value(), 1);
    assert!(Semaphore::remove_at(spot).unwrap());
    assert!(matches!(ours.down(), Err(DownError::Dead { .. })));
}

#[test]
fn an_object_id_without_an_object_is_refused() {
    let _house = House::new("family-refused");
    for arena in [Arena::private(), Arena::family().unwrap()] {
        let made = Semaphore::unnamed(&arena, 1).unwrap();
        let spot = made.object_id();
        for other in
            [ObjectId { generation: spot.generation + 1, ..spot }, ObjectId { object: spot.object + 100, ..spot }]
        {
            let none = Semaphore::at(other).unwrap();
            assert!(matches!(none.down(), Err(DownError::Dead { .. })));
            assert!(matches!(none.try_down(), Err(DownError::Dead { .. })));
            assert!(matches!(none.up(), Err(UpError::Dead { .. })));
            assert!(!Semaphore::remove_at(other).unwrap());
        }
        let e = Semaphore::at(ObjectId { object: u32::MAX, ..spot }).unwrap_err();
        assert!(matches!(e, ObjectError::Unknown { .. }), "{e}");
        for arena in [0, 2, spot.arena ^ 1 << 40, u64::MAX] {
            let e = Semaphore::at(ObjectId { arena, ..spot }).unwrap_err();
            assert!(matches!(e, ObjectError::Arena(_)) && e.to_string().contains(&format!("{arena:x}")), "{e}");
        }
        assert_eq!(made.value(), 1);
        let waiter = made.clone();
        made.down().unwrap();
        std::thread::scope(|s| {
            let waits = s.spawn(move || waiter.down());
            eventually("it waits", || made.waiters().len() == 1);
            assert!(Semaphore::remove_at(spot).unwrap());
            assert!(matches!(waits.join().unwrap(), Err(DownError::Dead { .. })));
        });
        assert!(!Semaphore::remove_at(spot).unwrap());
        // Another one in its place is another.
        let next = Semaphore::unnamed(&arena, 1).unwrap();
        assert!(next.object_id() != spot && matches!(made.try_down(), Err(DownError::Dead { .. })));
        assert!(Semaphore::remove_at(next.object_id()).unwrap());
    }
    assert!(matches!(Semaphore::unnamed(&Arena::private(), u32::MAX), Err(ObjectError::Value { .. })));
}
