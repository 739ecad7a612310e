//! Tasks wait as threads do: in the same line, without losing what they are handed. No runtime: the tests poll by hand.

use crate::house::House;
use chappe::{AcquireError, DownError, Pool, Semaphore};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};

/// Says when it is woken, and how often.
struct Bell(Sender<()>, AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        let _ = self.0.send(());
    }
}

fn bell() -> (Waker, Arc<Bell>, Receiver<()>) {
    let (send, recv) = channel();
    let bell = Arc::new(Bell(send, AtomicUsize::new(0)));
    (Waker::from(bell.clone()), bell, recv)
}

fn poll<F: Future + ?Sized>(future: &mut Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// Runs a future to its end on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
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
fn of_each_kind(name: &str, test: impl Fn(&Semaphore)) {
    test(&Semaphore::private(0).unwrap());
    in_a_house(name, || test(&Semaphore::create("s", 0).unwrap()));
}

fn in_a_house(name: &str, test: impl FnOnce()) {
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
fn a_task_that_waits_is_woken_once_by_the_grant() {
    of_each_kind("woken", |s| {
        let (waker, bell, woken) = bell();
        let mut down = pin!(s.down_async());
        assert!(poll(&mut down, &waker).is_pending());
        assert!(poll(&mut down, &waker).is_pending(), "a poll for no reason changes nothing");
        s.up().unwrap();
        woken.recv().unwrap();
        assert!(matches!(poll(&mut down, &waker), Poll::Ready(Ok(()))));
        assert_eq!((s.value(), bell.1.load(Ordering::SeqCst)), (0, 1));
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
fn a_waker_that_panics_harms_no_other_waiter() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("by intent"));
        }
    }
    of_each_kind("panics", |s| {
        let (harmful, (waker, _, woken)) = (Waker::from(Arc::new(Panics)), bell());
        let (mut first, mut second) = (pin!(s.down_async()), pin!(s.down_async()));
        assert!(poll(&mut first, &harmful).is_pending());
        assert!(poll(&mut second, &waker).is_pending());
        s.up_many(2).unwrap();
        woken.recv().unwrap();
        assert!(matches!(poll(&mut second, &waker), Poll::Ready(Ok(()))));
        assert!(matches!(poll(&mut first, &waker), Poll::Ready(Ok(()))), "it was granted all the same");
    });
}

/// Its task ends other waits of the same object while it is woken.
#[test]
fn a_waker_may_drop_the_waits_of_the_object_that_woke_it() {
    struct Drops(std::sync::Mutex<Option<Pin<Box<dyn Future<Output = Result<(), DownError>> + Send>>>>);
    impl Wake for Drops {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let s: &'static Semaphore = Box::leak(Box::new(Semaphore::private(0).unwrap()));
    let drops = Arc::new(Drops(std::sync::Mutex::new(None)));
    let (waker, (other, ..)) = (Waker::from(drops.clone()), bell());
    let mut down = pin!(s.down_async());
    assert!(poll(&mut down, &waker).is_pending());
    let mut dropped: Pin<Box<dyn Future<Output = Result<(), DownError>> + Send>> = Box::pin(s.down_async());
    assert!(dropped.as_mut().poll(&mut Context::from_waker(&other)).is_pending());
    *drops.0.lock().unwrap() = Some(dropped);
    s.up_many(2).unwrap();
    assert!(drops.0.lock().unwrap().is_none());
    assert!(matches!(poll(&mut down, &waker), Poll::Ready(Ok(()))));
    assert_eq!((s.value(), s.waiters().len()), (1, 0));
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
    of_each_kind("crowd", |s| {
        let (waker, bell, woken) = bell();
        let mut all: Vec<_> = (0..1_500).map(|_| Box::pin(s.down_async())).collect();
        let mut cx = Context::from_waker(&waker);
        assert!(all.iter_mut().all(|down| down.as_mut().poll(&mut cx).is_pending()));
        s.up_many(1_500).unwrap();
        (0..1_500).for_each(|_| woken.recv().unwrap());
        assert!(all.iter_mut().all(|down| matches!(down.as_mut().poll(&mut cx), Poll::Ready(Ok(())))));
        assert_eq!((s.value(), bell.1.load(Ordering::SeqCst)), (0, 1_500));
    });
}

#[test]
fn futures_may_go_from_thread_to_thread() {
    fn is_send<T: Send>(_: &T) {}
    let (s, pool) = (Semaphore::private(0).unwrap(), Pool::private(1).unwrap());
    is_send(&s.down_async());
    is_send(&pool.acquire_async());
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
