//! Wakers that panic, stop, lock, and end things: none of that harms another waiter, or the thread that gives.

use crate::tasks::{LONG, bell, of_each_kind, poll};
use chappe::tube::bounded;
use chappe::{DownError, Pool, Semaphore, select_async};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

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

/// Panics when it is dropped: as a waker, and as what one panics with.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new("by intent"));
        }
    }
}

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_payload_that_panics_harms_no_granter() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new(Bomb));
        }
    }
    of_each_kind("payload", |s| {
        let ((waker, _, woken), harmful) = (bell(), Waker::from(Arc::new(Panics)));
        let (mut first, mut second) = (pin!(s.down_async()), pin!(s.down_async()));
        assert!(poll(&mut first, &harmful).is_pending());
        assert!(poll(&mut second, &waker).is_pending());
        let given = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| s.up_many(2)));
        given.expect("no panic comes to the granter").unwrap();
        woken.recv_timeout(LONG).unwrap();
        assert!(matches!(poll(&mut second, &waker), Poll::Ready(Ok(()))));
        assert!(matches!(poll(&mut first, &waker), Poll::Ready(Ok(()))));
    });
}

#[test]
fn a_waker_that_panics_when_it_is_dropped_harms_no_wait() {
    of_each_kind("dropped_waker", |s| {
        let (waker, _, woken) = bell();
        {
            let mut down = pin!(s.down_async());
            assert!(poll(&mut down, &Waker::from(Arc::new(Bomb))).is_pending());
            assert!(poll(&mut down, &waker).is_pending(), "the old waker is dropped");
        }
        let mut next = pin!(s.down_async());
        assert!(poll(&mut next, &waker).is_pending());
        s.up().unwrap();
        woken.recv_timeout(LONG).expect("the seat calls the next task's waker");
        assert!(matches!(poll(&mut next, &waker), Poll::Ready(Ok(()))));
    });
}

/// Its first call does not return before it is told to: as a granter that is stopped there.
#[test]
fn a_granter_that_is_stopped_in_a_wake_keeps_no_task_asleep() {
    struct Stops(std::sync::Mutex<Option<Receiver<()>>>, Sender<()>);
    impl Wake for Stops {
        fn wake(self: Arc<Self>) {
            let first = self.0.lock().unwrap().take();
            self.1.send(()).unwrap();
            if let Some(go_on) = first {
                let _ = go_on.recv();
            }
        }
    }
    let s = Semaphore::private(0).unwrap();
    let ((go_on, stopped), (called, calls)) = (channel(), channel());
    let waker = Waker::from(Arc::new(Stops(std::sync::Mutex::new(Some(stopped)), called)));
    let mut down = pin!(s.down_async());
    assert!(poll(&mut down, &waker).is_pending());
    let (other, ..) = bell();
    let mut second = pin!(s.down_async());
    assert!(poll(&mut second, &other).is_pending());
    std::thread::scope(|scope| {
        scope.spawn(|| s.up().unwrap());
        calls.recv_timeout(LONG).unwrap();
        // The first call may not have woken the task yet: the next granter repeats it.
        s.up().unwrap();
        let again = calls.recv_timeout(LONG);
        go_on.send(()).unwrap();
        again.expect("another granter repeats the wake");
    });
    assert!(matches!(poll(&mut down, &waker), Poll::Ready(Ok(()))));
    assert!(matches!(poll(&mut second, &other), Poll::Ready(Ok(()))));
}

/// Does what it is given when it is first called, and says that it has.
struct Does(std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>, Sender<()>);

impl Wake for Does {
    fn wake(self: Arc<Self>) {
        // A second call, of another granter, says nothing; it may come from within the first.
        let act = self.0.lock().unwrap().take();
        if let Some(act) = act {
            act();
            let _ = self.1.send(());
        }
    }
}

fn that_does(act: impl FnOnce() + Send + 'static) -> (Waker, Receiver<()>) {
    let (done, said) = channel();
    (Waker::from(Arc::new(Does(std::sync::Mutex::new(Some(Box::new(act))), done))), said)
}

/// A pool is made larger under the lock of its arena's administration, which the end of an object takes.
#[test]
fn a_waker_may_end_objects_while_its_pool_is_made_larger() {
    let pool: &'static Pool = Box::leak(Box::new(Pool::private(1).unwrap()));
    let held = pool.acquire_owned().unwrap();
    let last = Semaphore::private(0).unwrap();
    let (waker, done) = that_does(move || drop(last));
    let mut acquire = Box::pin(pool.acquire_async());
    assert!(acquire.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    std::thread::spawn(|| pool.resize(2).unwrap());
    done.recv_timeout(LONG).expect("the waker comes to its end");
    assert!(acquire.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    drop(held);
}

/// A thread that leaves an arena gives back what it has there while it goes through its own memberships.
#[test]
fn a_waker_may_use_objects_while_the_thread_that_wakes_leaves_the_arena() {
    let pool: &'static Pool = Box::leak(Box::new(Pool::private(1).unwrap()));
    std::thread::spawn(|| {
        std::mem::forget(pool.acquire().unwrap());
        let (waker, done) = that_does(|| drop(Pool::private(1).unwrap().acquire().unwrap()));
        let mut acquire = pin!(pool.acquire_async());
        assert!(poll(&mut acquire, &waker).is_pending());
        Semaphore::private(0).unwrap().leave();
        done.recv_timeout(LONG).expect("the waker comes to its end");
        assert!(poll(&mut acquire, &waker).is_ready());
    })
    .join()
    .unwrap();
}

/// The operation that calls the waker goes on as the member that it began as.
#[test]
fn a_waker_cannot_have_the_thread_that_wakes_leave_the_arena() {
    let leave = || Semaphore::private(0).unwrap().leave();
    std::thread::spawn(move || {
        let (pool, s) = (Pool::private(1).unwrap(), Semaphore::private(0).unwrap());
        // It goes back when its holder leaves.
        std::mem::forget(pool.acquire().unwrap());
        let (waker, done) = that_does(leave);
        let mut down = pin!(s.down_async());
        assert!(poll(&mut down, &waker).is_pending());
        s.up().unwrap();
        done.recv_timeout(LONG).expect("the waker comes to its end");
        assert!(pool.try_acquire().is_err());
        leave();
        assert!(pool.try_acquire().is_ok());
    })
    .join()
    .unwrap();
}

/// It gives back what it has leaked when its locals go, of which its memberships are one.
#[test]
fn a_waker_may_use_objects_while_the_thread_that_wakes_ends() {
    let pool: &'static Pool = Box::leak(Box::new(Pool::private(1).unwrap()));
    let mut acquire = Box::pin(pool.acquire_async());
    let (had, has) = channel();
    let (end, ends) = channel();
    let thread = std::thread::spawn(move || {
        std::mem::forget(pool.acquire().unwrap());
        had.send(()).unwrap();
        let () = ends.recv().unwrap();
    });
    has.recv().unwrap();
    let (waker, done) = that_does(|| drop(Pool::private(1).unwrap().acquire().unwrap()));
    assert!(acquire.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    end.send(()).unwrap();
    thread.join().unwrap();
    done.recv_timeout(LONG).expect("the waker comes to its end");
    assert!(acquire.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}

/// A light thread that is destroyed inside of a waker ends behind it, not in it.
#[test]
fn a_light_thread_that_is_destroyed_in_a_waker_ends_behind_it() {
    let s: &'static Semaphore = Box::leak(Box::new(Semaphore::private(0).unwrap()));
    let gates: &'static [Semaphore; 2] = Box::leak(Box::new([(); 2].map(|()| Semaphore::private(0).unwrap())));
    let (waker, done) = that_does(|| {
        gates[0].up().unwrap();
        gates[1].down().unwrap();
    });
    let mut down = pin!(s.down_async());
    assert!(poll(&mut down, &waker).is_pending());
    let ended = chappe::thread::Runtime::new(1).unwrap().run(|| {
        let light = chappe::thread::spawn(|| {
            s.up().unwrap();
            loop {
                chappe::thread::yield_now();
            }
        });
        gates[0].down().unwrap();
        light.thread().destroy().unwrap();
        (0..16).for_each(|_| chappe::thread::yield_now());
        gates[1].up().unwrap();
        light.join().map(|_: ()| ()).unwrap_err().is::<chappe::thread::Destroyed>()
    });
    assert!(ended);
    done.recv_timeout(LONG).expect("the waker came to its end");
    assert!(poll(&mut down, &waker).is_ready());
}

/// Its task ends other waits of the same object while it is woken.
#[test]
fn a_waker_may_drop_the_waits_of_the_object_that_woke_it() {
    type Downs = Pin<Box<dyn Future<Output = Result<(), DownError>> + Send>>;
    struct Drops(std::sync::Mutex<Option<Downs>>);
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

/// Each of its copies panics when it is dropped.
static SPITEFUL: RawWakerVTable =
    RawWakerVTable::new(|_| RawWaker::new(std::ptr::null(), &SPITEFUL), |_| (), |_| (), |_| panic!("a waker's drop"));

#[test]
fn a_waker_whose_drop_panics_in_a_poll_loses_no_grant() {
    // SAFETY: its functions use nothing.
    let spiteful = ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &SPITEFUL)) });
    of_each_kind("spiteful", |s| {
        for chooses in [false, true] {
            let mut down: Pin<Box<dyn Future<Output = bool>>> = if chooses {
                Box::pin(async { select_async! { down(s) -> over => over.is_ok() }.await })
            } else {
                Box::pin(async { s.down_async().await.is_ok() })
            };
            assert!(poll(&mut down.as_mut(), &spiteful).is_pending());
            assert!(poll(&mut down.as_mut(), Waker::noop()).is_pending(), "the one before is dropped");
            assert!(poll(&mut down.as_mut(), &spiteful).is_pending());
            s.up().unwrap();
            assert!(matches!(poll(&mut down.as_mut(), &spiteful), Poll::Ready(true)));
        }
        let (tx, rx) = bounded(1);
        let mut recv = pin!(rx.recv_async());
        assert!(poll(&mut recv, &spiteful).is_pending());
        tx.send(7).unwrap();
        assert!(matches!(poll(&mut recv, &spiteful), Poll::Ready(Ok(7))));
        assert_eq!(s.value(), 0);
    });
}

#[test]
fn a_task_that_was_told_in_vain_is_called_again() {
    let (tx, rx) = bounded(1);
    let (waker, _, woken) = bell();
    let mut recv = pin!(rx.recv_async());
    assert!(poll(&mut recv, &waker).is_pending());
    for round in 0..3 {
        tx.send(round).unwrap();
        woken.recv_timeout(LONG).expect("it is called in each round");
        if round < 2 {
            assert_eq!(rx.try_recv(), Ok(round), "another is faster");
            assert!(poll(&mut recv, &waker).is_pending());
        }
    }
    assert!(matches!(poll(&mut recv, &waker), Poll::Ready(Ok(2))));
}
