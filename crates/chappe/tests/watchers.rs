//! One reaper watches for all: what the others do when it is killed, and what it sees of many members.

#[allow(dead_code, reason = "not every program uses all of it")]
mod house;

use chappe::{Arena, Pool, recoveries};
use house::{Actor, Dice, House, LONG, ROLE, eventually, listen, say};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Wake, Waker};

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let pool = Pool::open(&role).unwrap();
    say("waits");
    let permit = pool.acquire().unwrap();
    say(&format!("has it, backstops {}", recoveries().backstops));
    listen();
    permit.release();
}

/// The process that watches for all.
fn watcher() -> Option<u32> {
    let thread = Arena::open("default").unwrap().map().header().watch.word().load(Ordering::SeqCst) & 0x3fff_ffff;
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

fn is_the(pid: Option<u32>) -> impl Fn(&Actor) -> bool {
    move |actor| pid == Some(actor.child.id())
}

#[test]
fn a_standby_takes_the_place_of_a_killed_watcher() {
    let house = House::new("watcher");
    let pool = Pool::create("p", 1).unwrap();
    let mut holder = house.actor("p");
    holder.hear();
    assert_eq!(holder.hear(), "has it, backstops 0");
    let mut waiting: Vec<Actor> = (0..3).map(|_| house.actor("p")).collect();
    eventually("all wait", || pool.waiters().len() == 3);
    for left in (1..=2).rev() {
        eventually("one of them watches", || waiting.iter().any(is_the(watcher())));
        let now = watcher();
        let at = waiting.iter().position(is_the(now)).unwrap();
        waiting.swap_remove(at).kill();
        eventually("another one watches", || waiting.iter().any(is_the(watcher())));
        eventually("what the first one had is taken back", || pool.waiters().len() == left);
    }
    holder.kill();
    assert_eq!((waiting[0].hear(), waiting[0].hear()), ("waits".into(), "has it, backstops 0".into()));
}

#[test]
fn a_thread_that_ends_among_many_is_seen_at_once() {
    const MANY: u32 = 200;
    let _house = House::new("many");
    let pool: &'static Pool = Box::leak(Box::new(Pool::create("p", MANY).unwrap()));
    static HAVE: AtomicUsize = AtomicUsize::new(0);
    let last: Vec<_> = (0..MANY)
        .map(|i| {
            let thread = std::thread::Builder::new().stack_size(128 * 1024).spawn(move || {
                std::mem::forget(pool.acquire().unwrap());
                HAVE.fetch_add(1, Ordering::SeqCst);
                std::thread::park();
                // Alone, and without what is done at the end of a thread.
                // SAFETY: no thread waits for this one, nor uses what is on its stack.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            });
            eventually("it has one", || HAVE.load(Ordering::SeqCst) > i as usize);
            thread.unwrap()
        })
        .collect();
    std::thread::scope(|s| {
        let waiter = s.spawn(|| drop(pool.acquire_timeout(LONG).unwrap()));
        eventually("one waits", || pool.waiters().len() == 1);
        last.last().unwrap().thread().unpark();
        waiter.join().unwrap();
    });
    assert_eq!(recoveries().backstops, 0);
}

/// No other test here waits in the private arena: the task's wait alone brings its reaper.
#[test]
fn a_private_permit_of_a_thread_that_died_goes_to_a_task() {
    struct Woken(std::sync::mpsc::Sender<()>);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    let pool: &'static Pool = Box::leak(Box::new(Pool::private(1).unwrap()));
    let (has, held) = channel();
    let holder = std::thread::spawn(move || {
        std::mem::forget(pool.acquire().unwrap());
        has.send(()).unwrap();
        std::thread::park();
        // SAFETY: no thread waits for this one, nor uses what is on its stack.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    held.recv().unwrap();
    let (tell, woken) = channel();
    let waker = Waker::from(Arc::new(Woken(tell)));
    let mut acquire = Box::pin(pool.acquire_async());
    assert!(acquire.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    holder.thread().unpark();
    woken.recv_timeout(LONG).expect("the death is noticed");
    assert!(acquire.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}

#[test]
#[ignore = "storm: kills watchers and holders at random"]
fn deaths_are_found_while_watchers_are_killed() {
    let house = House::new("storm");
    let pool = Pool::create("p", 1).unwrap();
    let mut dice = Dice(7);
    let mut holder = house.actor("p");
    holder.hear();
    holder.hear();
    let mut waiting: Vec<Actor> = Vec::new();
    for round in 0..150 {
        while waiting.len() < 6 {
            waiting.push(house.actor("p"));
        }
        eventually("all wait", || pool.waiters().len() == 6);
        // Some of the waiters, the watcher perhaps, and the holder, in any order.
        let mut victims: Vec<Actor> = Vec::new();
        if dice.roll(3) > 0
            && let Some(at) = waiting.iter().position(is_the(watcher()))
        {
            victims.push(waiting.swap_remove(at));
        }
        for _ in 0..dice.roll(4) {
            victims.push(waiting.swap_remove(dice.roll(waiting.len())));
        }
        victims.insert(dice.roll(victims.len() + 1), holder);
        victims.iter_mut().for_each(|v| v.child.kill().unwrap());
        victims.into_iter().for_each(Actor::kill);
        let mut next = None;
        eventually("the next one has it", || {
            next = pool.holders().first().map(|holder| holder.who.pid);
            waiting.iter().any(is_the(next))
        });
        let at = waiting.iter().position(is_the(next)).unwrap();
        holder = waiting.swap_remove(at);
        holder.hear();
        assert_eq!(holder.hear(), "has it, backstops 0", "in round {round}");
    }
}
