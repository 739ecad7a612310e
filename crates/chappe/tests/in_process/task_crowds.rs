//! More tasks than an object gives seats to: they wait in their order, cost no member, and none is forgotten.

use crate::tasks::{LONG, bell, block_on, in_a_house, of_each_kind, poll};
use chappe::{AcquireError, Arena, ArenaOptions, Condvar, DownError, Mutex, Pool, Priority, Semaphore};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};

/// How many tasks of a process have seats at a semaphore or pool that serves in order; and at other objects.
const SEATS: usize = 64;
const FEW: usize = 8;

/// Says which task is to be polled.
struct Calls(usize, Sender<usize>);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        let _ = self.1.send(self.0);
    }
}

/// Tasks that wait, and which of them are to be polled.
struct Tasks<F> {
    all: Vec<Option<Pin<Box<F>>>>,
    wakers: Vec<Waker>,
    called: Receiver<usize>,
}

impl<T, E: std::fmt::Debug, F: Future<Output = Result<T, E>>> Tasks<F> {
    /// So many, which have been polled once, in order.
    fn new(n: usize, make: impl Fn() -> F) -> Tasks<F> {
        let (call, called) = channel();
        let wakers = (0..n).map(|at| Waker::from(Arc::new(Calls(at, call.clone())))).collect();
        let mut tasks = Tasks { all: Vec::new(), wakers, called };
        for at in 0..n {
            tasks.all.push(Some(Box::pin(make())));
            assert!(tasks.poll(at).is_none(), "nothing is there");
        }
        tasks
    }

    /// What the task came to.
    fn poll(&mut self, at: usize) -> Option<T> {
        let task = self.all[at].as_mut()?;
        let Poll::Ready(over) = task.as_mut().poll(&mut Context::from_waker(&self.wakers[at])) else { return None };
        self.all[at] = None;
        Some(over.expect("it is served"))
    }

    /// Polls those that are called, until so many are served: in which order.
    fn serve(&mut self, n: usize) -> Vec<usize> {
        let mut order = Vec::new();
        while order.len() < n {
            let at = self.called.recv_timeout(LONG).expect("a task is called");
            order.extend(self.poll(at).map(|_| at));
        }
        order
    }
}

#[test]
fn tasks_without_number_cost_an_object_few_members() {
    const MANY: usize = 5_000;
    of_each_kind("crowd", |s| {
        let mut tasks = Tasks::new(MANY, || s.down_async());
        assert_eq!(s.waiters().len(), SEATS);
        let is_private = s.name().is_empty();
        if !is_private {
            let map = Arena::open("default").unwrap().map();
            let used = (0..map.members_used()).filter(|member| map.occupant(*member).is_some()).count();
            assert!(used < SEATS + 16, "{used} members are in use");
        }
        s.up_many(MANY as u32).unwrap();
        tasks.serve(MANY);
        assert_eq!((s.value(), s.waiters().len()), (0, 0));
    });
}

#[test]
fn a_crowd_is_granted_units_in_the_order_in_which_it_came() {
    const MANY: usize = 2 * SEATS + 8;
    of_each_kind("crowd_order", |s| {
        let mut tasks = Tasks::new(MANY, || s.down_async());
        for first in 0..MANY {
            s.up().unwrap();
            // A call of a waker proves no grant: it may have been meant for the task that had the seat before. So all the others are polled.
            (first + 1..MANY).for_each(|later| assert!(tasks.poll(later).is_none(), "{later} before {first}"));
            assert!(tasks.poll(first).is_some(), "{first} was granted the unit");
        }
    });
}

#[test]
fn a_crowd_of_dropped_tasks_passes_its_seats_on() {
    of_each_kind("crowd_dropped", |s| {
        let mut tasks = Tasks::new(400, || s.down_async());
        (0..400).filter(|at| at % 4 > 0).for_each(|at| tasks.all[at] = None);
        // Among the dropped were some that had been called and had not sat down.
        s.up_many(100).unwrap();
        let mut order = tasks.serve(100);
        order.sort_unstable();
        assert!(order.iter().all(|at| at % 4 == 0));
        assert_eq!((s.value(), s.waiters().len()), (0, 0));
        // All have gone, and no right to a seat with them.
        let _next = Tasks::new(SEATS, || s.down_async());
        assert_eq!(s.waiters().len(), SEATS);
    });
}

#[test]
fn a_task_overtakes_none_that_stands() {
    of_each_kind("crowd_line", |s| {
        let mut tasks = Tasks::new(SEATS + 1, || s.down_async());
        s.up_many(SEATS as u32 + 1).unwrap();
        assert_eq!(s.value(), 1, "the last one has no seat yet");
        let (waker, _, woken) = bell();
        let mut late = pin!(s.down_async());
        assert!(poll(&mut late, &waker).is_pending());
        let order = tasks.serve(SEATS + 1);
        assert_eq!((order.len(), s.value()), (SEATS + 1, 0));
        assert!(poll(&mut late, &waker).is_pending());
        s.up().unwrap();
        woken.recv_timeout(LONG).unwrap();
        assert!(matches!(poll(&mut late, &waker), Poll::Ready(Ok(()))));
    });
}

#[test]
fn tasks_stand_in_an_arena_that_is_full() {
    in_a_house("crowd_full", || {
        let small = ArenaOptions { members: Some(16), objects: Some(8), cells: Some(8), data: Some(64) };
        let arena = Arena::open_or_create("small", &small).unwrap();
        let pool = Pool::create_in(arena, "p", 1).unwrap();
        let (other, waker) = (Semaphore::open_or_create("small/s", 0).unwrap(), bell().0);
        let held = pool.acquire_owned().unwrap();
        let mut tasks = Tasks::new(40, || pool.acquire_async());
        assert!(pool.waiters().len() < 16);
        let refused = poll(&mut pin!(other.down_async()), &waker);
        assert!(matches!(refused, Poll::Ready(Err(DownError::Arena(_)))), "nobody would call it");
        drop(held);
        assert_eq!(tasks.serve(40).len(), 40);
        assert_eq!((pool.available(), pool.waiters().len()), (1, 0));
    });
}

#[test]
fn a_crowd_has_its_seats_again_when_an_arena_is_not_full_any_more() {
    in_a_house("crowd_rises", || {
        let small = ArenaOptions { members: Some(16), objects: Some(8), cells: Some(8), data: Some(64) };
        let arena = Arena::open_or_create("small", &small).unwrap();
        let pool = Pool::create_in(arena, "p", 1).unwrap();
        let other = Semaphore::open_or_create("small/s", 0).unwrap();
        let held = pool.acquire_owned().unwrap();
        let others = Tasks::new(8, || other.down_async());
        let mut tasks = Tasks::new(40, || pool.acquire_async());
        let few = pool.waiters().len();
        drop(others);
        drop(held);
        let order = tasks.serve(10);
        assert!(pool.waiters().len() > few, "{few} sat, and as many sit");
        assert!(order.is_sorted(), "tasks that tried in vain keep their places");
        assert_eq!(tasks.serve(30).len(), 30);
    });
}

#[test]
fn a_task_that_found_no_seat_is_overtaken_by_none_that_stands_behind_it() {
    in_a_house("crowd_full_order", || {
        let small = ArenaOptions { members: Some(16), objects: Some(8), cells: Some(8), data: Some(64) };
        let arena = Arena::open_or_create("small", &small).unwrap();
        let pool = Pool::create_in(arena, "p", 1).unwrap();
        let other = Semaphore::open_or_create("small/s", 0).unwrap();
        let held = pool.acquire_owned().unwrap();
        let mut tasks = Tasks::new(40, || pool.acquire_async());
        let sit = pool.waiters().len();
        drop(held);
        // It has its permit and no seat, and has called the next two. A task of another object has its seat.
        let first = tasks.poll(0);
        let others = Tasks::new(1, || other.down_async());
        assert!(tasks.poll(sit).is_none(), "it finds no seat, and stands again");
        assert!(first.is_some());
        drop(others);
        assert!(tasks.poll(sit + 1).is_none());
        assert_eq!(pool.waiters().len(), sit - 1, "it has been called, and lets the one before it sit down");
        assert!(tasks.poll(sit).is_none());
        assert_eq!(pool.waiters().len(), sit);
        drop(first);
        assert_eq!(tasks.serve(39).len(), 39);
    });
}

#[test]
fn each_of_a_crowds_notifications_is_heard() {
    let (m, c) = (Mutex::private(()).unwrap(), Condvar::private().unwrap());
    let mut tasks = Tasks::new(2 * SEATS, || c.wait_async(block_on(m.lock_async()).unwrap()));
    (0..2 * SEATS).for_each(|_| c.notify_one());
    assert_eq!(tasks.serve(2 * SEATS).len(), 2 * SEATS);
}

#[test]
fn those_who_stand_are_called_by_priority() {
    let pool = Pool::private_by(1, chappe::Discipline::Priority { aging: None }).unwrap();
    let held = pool.acquire_owned().unwrap();
    let mut tasks = Tasks::new(FEW + 1, || pool.acquire_async());
    let (waker, _, woken) = bell();
    let mut high = pin!(pool.acquire_async());
    assert!(Priority(9).during(|| poll(&mut high, &waker).is_pending()));
    drop(held);
    assert_eq!(tasks.serve(1), [0]);
    woken.recv_timeout(LONG).expect("it is called before the one that came before it");
    assert!(poll(&mut high, &waker).is_pending(), "the permit was the next one's by then");
    assert_eq!(tasks.serve(1), [1]);
    let Poll::Ready(Ok(permit)) = poll(&mut high, &waker) else { panic!("it has the highest priority") };
    drop(permit);
    assert_eq!(tasks.serve(FEW - 1).len(), FEW - 1);
}

#[test]
fn a_removed_pools_crowd_is_told() {
    in_a_house("crowd_removed", || {
        let pool = Pool::create("p", 1).unwrap();
        let held = pool.acquire_owned().unwrap();
        let (mut all, (waker, ..)) = (Vec::new(), bell());
        all.resize_with(SEATS + 8, || Box::pin(pool.acquire_async()));
        assert!(all.iter_mut().all(|task| poll(&mut task.as_mut(), &waker).is_pending()));
        Pool::remove("p", true).unwrap();
        let dead = |over: Poll<Result<_, AcquireError>>| matches!(over, Poll::Ready(Err(AcquireError::Dead { .. })));
        assert!(all.iter_mut().all(|task| dead(poll(&mut task.as_mut(), &waker))));
        drop(held);
    });
}

#[test]
fn a_crowd_at_a_removed_object_ends_though_its_slot_is_anothers() {
    in_a_house("crowd_slot", || {
        let few = ArenaOptions { members: Some(256), objects: Some(8), cells: Some(8), data: Some(64) };
        let arena = Arena::open_or_create("few", &few).unwrap();
        let old = Semaphore::create_in(&arena, "old", 0).unwrap();
        let others = (0..).map_while(|at| Semaphore::create_in(&arena, &format!("s{at}"), 0).ok()).count();
        assert!(others > 0);
        let waker = bell().0;
        let mut all: Vec<_> = (0..SEATS + 3).map(|_| Box::pin(old.down_async())).collect();
        let mut dead = |at: std::ops::Range<usize>| {
            let polled = all[at].iter_mut().map(|task| poll(&mut task.as_mut(), &waker));
            polled.filter(|over| matches!(over, Poll::Ready(Err(DownError::Dead { .. })))).count()
        };
        assert_eq!(dead(0..SEATS + 3), 0);
        Semaphore::remove("few/old", true).unwrap();
        assert_eq!(dead(0..SEATS), SEATS, "those behind them were called, and were not polled");
        let new = Semaphore::create_in(&arena, "new", 0).expect("the slot is free again, and there is no other");
        let mut tasks = Tasks::new(SEATS + 3, || new.down_async());
        assert_eq!(new.waiters().len(), SEATS);
        assert_eq!(dead(SEATS..SEATS + 3), 3);
        new.up_many(SEATS as u32 + 3).unwrap();
        assert_eq!(tasks.serve(SEATS + 3).len(), SEATS + 3);
        assert_eq!((new.value(), new.waiters().len()), (0, 0));
    });
}

#[test]
fn each_of_a_mutexs_crowd_locks() {
    let m = Mutex::private(0).unwrap();
    let held = block_on(m.lock_async()).unwrap();
    let mut tasks = Tasks::new(3 * FEW, || m.lock_async());
    drop(held);
    assert_eq!(tasks.serve(3 * FEW).len(), 3 * FEW);
    assert!(m.try_lock().is_ok());
}
