//! Tasks wait as threads do: in the same line, without losing what they are handed. No runtime: the tests poll by hand.

use crate::house::{House, eventually};
use chappe::task::Down;
use chappe::{AcquireError, Arena, DownError, LockError, Mutex, Pool, Semaphore};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A wake-up that has not come by then is lost.
pub const LONG: Duration = Duration::from_secs(20);

/// Says when it is woken, and how often. Its count is SeqCst: no cost that counts in a test.
pub struct Bell(Sender<()>, AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        let _ = self.0.send(());
    }
}

impl Bell {
    pub fn count(&self) -> usize {
        self.1.load(Ordering::SeqCst)
    }
}

pub fn bell() -> (Waker, Arc<Bell>, Receiver<()>) {
    let (send, recv) = channel();
    let bell = Arc::new(Bell(send, AtomicUsize::new(0)));
    (Waker::from(bell.clone()), bell, recv)
}

pub fn poll<F: Future + ?Sized>(future: &mut Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// Runs a future to its end on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let (waker, _, woken) = bell();
    let mut future = pin!(future);
    loop {
        match poll(&mut future, &waker) {
            Poll::Ready(over) => return over,
            Poll::Pending => woken.recv().expect("the waker is there"),
        }
    }
}

/// A private semaphore, and one of an arena that the test removes at its end.
pub fn of_each_kind(name: &str, test: impl Fn(&Semaphore)) {
    test(&Semaphore::private(0).unwrap());
    in_a_house(name, || test(&Semaphore::create("s", 0).unwrap()));
}

pub fn in_a_house(name: &str, test: impl FnOnce()) {
    let _house = House::new(name);
    test();
}

#[test]
fn a_saved_wake_up_is_taken_at_the_first_poll() {
    of_each_kind("first", |s| {
        s.up().unwrap();
        let (waker, bell, _woken) = bell();
        assert!(matches!(poll(&mut pin!(s.down_async()), &waker), Poll::Ready(Ok(()))));
        assert_eq!((s.value(), bell.1.load(Ordering::SeqCst)), (0, 0));
    });
}

#[test]
fn a_task_that_waits_is_woken_by_the_grant() {
    of_each_kind("woken", |s| {
        let (waker, _, woken) = bell();
        let mut down = pin!(s.down_async());
        assert!(poll(&mut down, &waker).is_pending());
        assert!(poll(&mut down, &waker).is_pending(), "a poll for no reason changes nothing");
        s.up().unwrap();
        woken.recv().unwrap();
        assert!(matches!(poll(&mut down, &waker), Poll::Ready(Ok(()))));
        assert_eq!(s.value(), 0);
    });
}

#[test]
fn the_waker_of_the_last_poll_is_called() {
    of_each_kind("last", |s| {
        let ((first, old, _), (second, ..)) = (bell(), bell());
        let (third, _, woken) = bell();
        let mut down = pin!(s.down_async());
        assert!(poll(&mut down, &first).is_pending());
        assert!(poll(&mut down, &second).is_pending());
        assert!(poll(&mut down, &third).is_pending());
        s.up().unwrap();
        woken.recv().unwrap();
        assert_eq!(old.1.load(Ordering::SeqCst), 0);
        assert!(matches!(poll(&mut down, &third), Poll::Ready(Ok(()))));
    });
}

#[test]
fn tasks_and_threads_are_served_in_one_line() {
    of_each_kind("line", |s| {
        let (waker, ..) = bell();
        let (said, order) = channel();
        std::thread::scope(|scope| {
            let mut first = pin!(s.down_async());
            assert!(poll(&mut first, &waker).is_pending());
            let tell = said.clone();
            scope.spawn(move || {
                s.down().unwrap();
                tell.send("thread").unwrap();
            });
            while s.waiters().len() < 2 {
                std::thread::yield_now();
            }
            let mut last = pin!(s.down_async());
            assert!(poll(&mut last, &waker).is_pending());
            s.up().unwrap();
            assert!(matches!(poll(&mut first, &waker), Poll::Ready(Ok(()))));
            assert!(poll(&mut last, &waker).is_pending());
            s.up().unwrap();
            assert_eq!(order.recv().unwrap(), "thread");
            assert!(poll(&mut last, &waker).is_pending());
            s.up().unwrap();
            assert!(matches!(poll(&mut last, &waker), Poll::Ready(Ok(()))));
        });
        assert_eq!(s.value(), 0);
    });
}

#[test]
fn a_dropped_tasks_wake_up_goes_to_the_next_waiter() {
    of_each_kind("dropped", |s| {
        let (waker, ..) = bell();
        let mut second = pin!(s.down_async());
        {
            let mut first = pin!(s.down_async());
            assert!(poll(&mut first, &waker).is_pending());
            assert!(poll(&mut second, &waker).is_pending());
            s.up().unwrap();
            assert!(poll(&mut second, &waker).is_pending(), "it was handed to the first");
        }
        assert!(matches!(poll(&mut second, &waker), Poll::Ready(Ok(()))));
        assert_eq!((s.value(), s.waiters().len()), (0, 0));
    });
}

#[test]
fn the_last_dropped_tasks_wake_up_is_saved() {
    of_each_kind("saved", |s| {
        let (waker, ..) = bell();
        {
            let mut down = pin!(s.down_async());
            assert!(poll(&mut down, &waker).is_pending());
            s.up().unwrap();
        }
        assert_eq!((s.value(), s.waiters().len()), (1, 0));
    });
}

#[test]
fn a_dropped_task_leaves_the_line_and_its_waker() {
    of_each_kind("leaves", |s| {
        let (waker, bell, _woken) = bell();
        {
            let mut down = pin!(s.down_async());
            assert!(poll(&mut down, &waker).is_pending());
            assert_eq!(s.waiters().len(), 1);
        }
        assert_eq!(s.waiters().len(), 0);
        drop(waker);
        assert_eq!(Arc::strong_count(&bell), 1, "no waker is kept");
    });
}

#[test]
fn a_wait_that_is_over_keeps_no_waker() {
    of_each_kind("kept", |s| {
        let (waker, bell, _woken) = bell();
        let mut down = pin!(s.down_async());
        assert!(poll(&mut down, &waker).is_pending());
        s.up().unwrap();
        // The driver of a named one may be about to call it.
        assert!(matches!(poll(&mut down, &waker), Poll::Ready(Ok(()))));
        drop(waker);
        while Arc::strong_count(&bell) > 1 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_barging_semaphores_task_tries_again_in_its_old_place() {
    let s = Semaphore::private_barging(0).unwrap();
    let (waker, _, woken) = bell();
    let mut down = pin!(s.down_async());
    assert!(poll(&mut down, &waker).is_pending());
    s.up().unwrap();
    woken.recv().unwrap();
    s.try_down().expect("newcomers may overtake");
    assert!(poll(&mut down, &waker).is_pending());
    s.up().unwrap();
    woken.recv().unwrap();
    assert!(matches!(poll(&mut down, &waker), Poll::Ready(Ok(()))));
}

#[test]
fn a_dropped_task_passes_on_what_it_was_told_of() {
    let s = Semaphore::private_barging(0).unwrap();
    let (waker, ..) = bell();
    let (mut second, next) = (pin!(s.down_async()), bell());
    {
        let mut first = pin!(s.down_async());
        assert!(poll(&mut first, &waker).is_pending());
        assert!(poll(&mut second, &next.0).is_pending());
        s.up().unwrap();
    }
    next.2.recv().unwrap();
    assert!(matches!(poll(&mut second, &next.0), Poll::Ready(Ok(()))));
}

#[test]
fn a_removed_semaphores_tasks_are_told() {
    in_a_house("removed", || {
        let s = Semaphore::create("s", 0).unwrap();
        let (waker, _, woken) = bell();
        let mut down = pin!(s.down_async());
        assert!(poll(&mut down, &waker).is_pending());
        Semaphore::remove("s", true).unwrap();
        woken.recv().unwrap();
        assert!(matches!(poll(&mut down, &waker), Poll::Ready(Err(DownError::Dead { .. }))));
    });
}

#[test]
fn many_tasks_and_threads_lose_no_wake_up() {
    of_each_kind("many", |s| {
        const EACH: usize = 200;
        std::thread::scope(|scope| {
            for tasks in [true, true, false] {
                scope.spawn(move || {
                    for _ in 0..EACH {
                        if tasks { block_on(s.down_async()).unwrap() } else { s.down().unwrap() }
                    }
                });
            }
            scope.spawn(move || (0..3 * EACH).for_each(|_| s.up().unwrap()));
        });
        assert_eq!((s.value(), s.waiters().len()), (0, 0));
    });
}

fn pools(name: &str, test: impl Fn(&Pool)) {
    test(&Pool::private(1).unwrap());
    in_a_house(name, || test(&Pool::create("p", 1).unwrap()));
}

#[test]
fn a_permit_of_a_task_belongs_to_the_process() {
    pools("owned", |pool| {
        let held = pool.acquire_owned().unwrap();
        let (waker, _, woken) = bell();
        let mut acquire = pin!(pool.acquire_async());
        assert!(poll(&mut acquire, &waker).is_pending());
        drop(held);
        woken.recv().unwrap();
        let Poll::Ready(Ok(permit)) = poll(&mut acquire, &waker) else { panic!("it was granted") };
        assert!(permit.is_valid());
        std::thread::scope(|scope| scope.spawn(move || drop(permit)).join().unwrap());
        assert_eq!(pool.available(), 1);
        drop(block_on(pool.acquire_async()).unwrap());
        assert_eq!(pool.available(), 1);
    });
}

#[test]
fn a_permit_that_a_dropped_task_was_granted_goes_to_the_next() {
    pools("passed", |pool| {
        let held = pool.acquire_owned().unwrap();
        let (waker, ..) = bell();
        let mut second = pin!(pool.acquire_async());
        {
            let mut first = pin!(pool.acquire_async());
            assert!(poll(&mut first, &waker).is_pending());
            assert!(poll(&mut second, &waker).is_pending());
            drop(held);
        }
        let Poll::Ready(Ok(permit)) = poll(&mut second, &waker) else { panic!("it was passed on") };
        assert_eq!(pool.available(), 0);
        drop(permit);
        assert_eq!(pool.available(), 1);
    });
}

fn pairs(name: &str, test: impl Fn(&Pool)) {
    test(&Pool::private(2).unwrap());
    in_a_house(name, || test(&Pool::create("p", 2).unwrap()));
}

#[test]
fn a_task_takes_several_permits_at_one_moment() {
    pairs("several", |pool| {
        let held = [pool.acquire_owned().unwrap(), pool.acquire_owned().unwrap()];
        let whose = || pool.holders().into_iter().map(|holder| holder.who).collect::<Vec<_>>();
        let the_processs = whose();
        let (waker, _, woken) = bell();
        let mut both = pin!(pool.acquire_many_async(2));
        assert!(poll(&mut both, &waker).is_pending());
        let [one, other] = held;
        drop(one);
        assert!(poll(&mut both, &waker).is_pending());
        assert!(pool.try_acquire().is_err(), "one is set aside for the task");
        drop(other);
        woken.recv_timeout(LONG).unwrap();
        let Poll::Ready(Ok(permits)) = poll(&mut both, &waker) else { panic!("both were granted") };
        assert_eq!((permits.len(), permits.indices().sum::<u32>(), pool.available()), (2, 1, 0));
        assert!(permits.is_valid());
        assert_eq!(whose(), the_processs);
        std::thread::spawn(move || drop(permits)).join().unwrap();
        assert_eq!((pool.available(), pool.waiters().len()), (2, 0));
        assert_eq!(block_on(pool.acquire_many_async(2)).unwrap().len(), 2);
        assert!(block_on(pool.acquire_many_async(0)).unwrap().is_empty());
    });
}

#[test]
fn permits_set_aside_for_a_dropped_task_go_to_the_next() {
    pairs("aside", |pool| {
        let [one, other] = [(); 2].map(|()| pool.acquire_owned().unwrap());
        let (waker, ..) = bell();
        let (mut single, next) = (pin!(pool.acquire_async()), bell());
        {
            let mut both = pin!(pool.acquire_many_async(2));
            assert!(poll(&mut both, &waker).is_pending());
            assert!(poll(&mut single, &next.0).is_pending());
            drop(one);
            assert!(poll(&mut single, &next.0).is_pending(), "it is set aside for the first");
        }
        next.2.recv_timeout(LONG).expect("it goes to the next");
        assert!(matches!(poll(&mut single, &next.0), Poll::Ready(Ok(_))));
        // The same with both of them granted.
        let mut next = pin!(pool.acquire_async());
        let third = pool.acquire_owned().unwrap();
        {
            let mut both = pin!(pool.acquire_many_async(2));
            assert!(poll(&mut both, &waker).is_pending());
            assert!(poll(&mut next, &waker).is_pending());
            drop((other, third));
            assert!(poll(&mut next, &waker).is_pending(), "the first was granted both");
        }
        assert!(matches!(poll(&mut next, &waker), Poll::Ready(Ok(_))));
        assert_eq!((pool.available(), pool.waiters().len()), (2, 0));
    });
}

#[test]
fn a_task_that_wants_more_permits_than_there_are_is_told() {
    pairs("too_many", |pool| {
        let (waker, _, woken) = bell();
        let too_many = |over| match over {
            Poll::Ready(Err(AcquireError::TooMany { wanted, permits, .. })) => (wanted, permits),
            _ => panic!("they can never be had"),
        };
        assert_eq!(too_many(poll(&mut pin!(pool.acquire_many_async(3)), &waker)), (3, 2));
        let held = pool.acquire_owned().unwrap();
        let mut both = pin!(pool.acquire_many_async(2));
        assert!(poll(&mut both, &waker).is_pending());
        pool.resize(1).unwrap();
        woken.recv_timeout(LONG).expect("the pool has too few by now");
        assert_eq!(too_many(poll(&mut both, &waker)), (2, 1));
        drop(held);
    });
}

#[test]
fn a_removed_pools_tasks_are_told() {
    in_a_house("gone", || {
        let pool = Pool::create("p", 1).unwrap();
        let held = pool.acquire_owned().unwrap();
        let (waker, _, woken) = bell();
        let mut acquire = pin!(pool.acquire_async());
        assert!(poll(&mut acquire, &waker).is_pending());
        Pool::remove("p", true).unwrap();
        woken.recv().unwrap();
        assert!(matches!(poll(&mut acquire, &waker), Poll::Ready(Err(AcquireError::Dead { .. }))));
        drop(held);
    });
}

#[test]
fn a_process_may_have_more_tasks_than_a_thread_holds_attachments() {
    let wait_at = |all: &[Semaphore]| {
        let (waker, bell, woken) = bell();
        let mut tasks: Vec<_> = at_each(all).collect();
        let mut cx = Context::from_waker(&waker);
        assert!(tasks.iter_mut().all(|down| down.as_mut().poll(&mut cx).is_pending()));
        all.iter().for_each(|s| s.up_many(50).unwrap());
        (0..1_500).for_each(|_| woken.recv().unwrap());
        assert!(tasks.iter_mut().all(|down| matches!(down.as_mut().poll(&mut cx), Poll::Ready(Ok(())))));
        // A wake under way may be repeated by another thread.
        assert!(all.iter().all(|s| s.value() == 0));
        assert!(bell.1.load(Ordering::SeqCst) >= 1_500);
    };
    wait_at(&[(); 30].map(|()| Semaphore::private(0).unwrap()));
    in_a_house("many_tasks", || wait_at(&thirty()));
}

fn thirty() -> Vec<Semaphore> {
    (0..30).map(|at| Semaphore::create(&format!("s{at}"), 0).unwrap()).collect()
}

/// Fifty tasks at each semaphore: all have seats.
fn at_each(all: &[Semaphore]) -> impl Iterator<Item = Pin<Box<Down<'_>>>> {
    all.iter().flat_map(|s| (0..50).map(move |_| Box::pin(s.down_async())))
}

#[test]
fn members_of_a_burst_of_tasks_are_the_arenas_again() {
    let burst = |all: Vec<Semaphore>, map: &chappe_arena::Map| {
        let used = || (0..map.members_used()).filter(|member| map.occupant(*member).is_some()).count();
        let mut cx = Context::from_waker(Waker::noop());
        let mut tasks: Vec<_> = at_each(&all).collect();
        assert!(tasks.iter_mut().all(|down| down.as_mut().poll(&mut cx).is_pending()));
        assert!(used() >= 1_500);
        drop(tasks);
        // Two sixteenths are kept, for tasks and for light threads; and the driver, this thread, the reaper's threads. (In the private arena,
        // other tests have some, too, for a while.)
        let most = map.geometry().members as usize / 8 + 64;
        eventually("most members are the arena's again", || used() <= most);
    };
    burst((0..30).map(|_| Semaphore::private(0).unwrap()).collect(), Arena::private().map());
    in_a_house("burst", || burst(thirty(), Arena::open("default").unwrap().map()));
}

#[test]
fn a_forked_child_is_refused_what_a_task_of_its_parent_waits_for() {
    in_a_house("inherited", || {
        let (s, pool) = (Semaphore::create("s", 0).unwrap(), Pool::create("p", 1).unwrap());
        let held = pool.acquire_owned().unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        let (mut down, mut acquire) = (Box::pin(s.down_async()), Box::pin(pool.acquire_async()));
        let mut many = Box::pin(pool.acquire_many_async(1));
        let mutex = Mutex::create("m", 0u32).unwrap();
        let guard = mutex.lock().unwrap();
        let mut lock = Box::pin(mutex.lock_async());
        assert!(lock.as_mut().poll(&mut cx).is_pending());
        assert!(down.as_mut().poll(&mut cx).is_pending() && acquire.as_mut().poll(&mut cx).is_pending());
        assert!(many.as_mut().poll(&mut cx).is_pending());
        // SAFETY: the child polls, which allocates nothing that another thread may have locked, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = matches!(down.as_mut().poll(&mut cx), Poll::Ready(Err(DownError::Inherited { .. })))
                && matches!(acquire.as_mut().poll(&mut cx), Poll::Ready(Err(AcquireError::Inherited { .. })))
                && matches!(many.as_mut().poll(&mut cx), Poll::Ready(Err(AcquireError::Inherited { .. })))
                && matches!(lock.as_mut().poll(&mut cx), Poll::Ready(Err(LockError::Inherited { .. })));
            drop((down, acquire, many, lock));
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = -1;
        // SAFETY: a child of ours, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child is refused");
        // The parent's waits go on.
        assert_eq!((s.waiters().len(), pool.waiters().len()), (1, 2));
        s.up().unwrap();
        drop((held, guard));
        assert!(matches!(lock.as_mut().poll(&mut cx), Poll::Ready(Ok(_))));
        assert!(matches!(down.as_mut().poll(&mut cx), Poll::Ready(Ok(()))));
        assert!(matches!(acquire.as_mut().poll(&mut cx), Poll::Ready(Ok(_))));
        assert!(matches!(many.as_mut().poll(&mut cx), Poll::Ready(Ok(_))));
    });
}

#[test]
fn futures_may_go_from_thread_to_thread() {
    fn is_send<T: Send>(_: &T) {}
    let (s, pool) = (Semaphore::private(0).unwrap(), Pool::private(1).unwrap());
    is_send(&s.down_async());
    is_send(&pool.acquire_async());
    is_send(&pool.acquire_many_async(1));
    let mut down = Box::pin(s.down_async());
    let (waker, _, woken) = bell();
    assert!(down.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    s.up().unwrap();
    woken.recv().unwrap();
    std::thread::scope(|scope| {
        let over = scope.spawn(|| down.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        assert!(over.join().unwrap());
    });
}

#[test]
fn a_waiting_future_has_200_bytes_at_most() {
    let (s, m) = (Semaphore::private(0).unwrap(), Mutex::private(0u64).unwrap());
    let (tx, rx) = chappe::tube::bounded::<u64>(1);
    let sizes = [
        size_of_val(&s.down_async()),
        size_of_val(&m.lock_async()),
        size_of_val(&rx.recv_async()),
        size_of_val(&tx.send_async(0)),
    ];
    assert!(sizes.iter().all(|size| *size <= 200), "{sizes:?}");
}
