//! The runtimes in which tasks are polled.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// What is polled.
pub type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One that is measured.
#[derive(Clone, Copy)]
pub enum Runtime {
    /// A queue of tasks, and nothing else.
    Hand,
    /// tokio with this thread.
    Current,
    /// tokio with two threads.
    Multi,
    /// smol's executor.
    Smol,
}

pub const ALL: [Runtime; 4] = [Runtime::Hand, Runtime::Current, Runtime::Multi, Runtime::Smol];

impl Runtime {
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Hand => "by hand",
            Runtime::Current => "tokio, one thread",
            Runtime::Multi => "tokio, two threads",
            Runtime::Smol => "smol",
        }
    }

    /// Runs all of them to their ends.
    pub fn run(self, jobs: Vec<Job>) {
        match self {
            Runtime::Hand => by_hand(jobs),
            Runtime::Current => {
                on_tokio(&tokio::runtime::Builder::new_current_thread().build().expect("a runtime"), jobs)
            }
            Runtime::Multi => {
                on_tokio(
                    &tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime"),
                    jobs,
                );
            }
            Runtime::Smol => {
                let executor = async_executor::Executor::new();
                let all: Vec<_> = jobs.into_iter().map(|job| executor.spawn(job)).collect();
                block_on(executor.run(async {
                    for one in all {
                        one.await;
                    }
                }));
            }
        }
    }
}

fn on_tokio(runtime: &tokio::runtime::Runtime, jobs: Vec<Job>) {
    runtime.block_on(async {
        let all: Vec<_> = jobs.into_iter().map(tokio::task::spawn).collect();
        for one in all {
            one.await.expect("it ends");
        }
    });
}

/// Lets the others go on once.
pub struct Yield(pub bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The tasks that are to be polled.
#[derive(Default)]
struct Queue {
    ready: Mutex<VecDeque<usize>>,
    some: Condvar,
}

struct Call {
    at: usize,
    /// It is in the queue.
    queued: AtomicBool,
    queue: Arc<Queue>,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        // AcqRel: pairs with the store before the poll, so that the poll sees what the waker tells of.
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.queue.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.at);
            self.queue.some.notify_one();
        }
    }
}

fn by_hand(jobs: Vec<Job>) {
    let queue = Arc::new(Queue::default());
    let mut all: Vec<Option<Job>> = jobs.into_iter().map(Some).collect();
    let call = |at| Arc::new(Call { at, queued: AtomicBool::new(true), queue: queue.clone() });
    let calls: Vec<Arc<Call>> = (0..all.len()).map(call).collect();
    let wakers: Vec<Waker> = calls.iter().map(|call| Waker::from(call.clone())).collect();
    queue.ready.lock().unwrap_or_else(PoisonError::into_inner).extend(0..all.len());
    let mut left = all.len();
    while left > 0 {
        let ready = queue.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ready = queue.some.wait_while(ready, |ready| ready.is_empty()).unwrap_or_else(PoisonError::into_inner);
        let Some(at) = ready.pop_front() else { continue };
        drop(ready);
        // AcqRel: as in `wake_by_ref`.
        calls[at].queued.swap(false, Ordering::AcqRel);
        let Some(job) = &mut all[at] else { continue };
        if job.as_mut().poll(&mut Context::from_waker(&wakers[at])).is_ready() {
            all[at] = None;
            left -= 1;
        }
    }
}

/// Unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls one on this thread, which sleeps meanwhile.
pub fn block_on<F: Future>(future: F) -> F::Output {
    thread_local! {
        static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
    }
    let mut future = pin!(future);
    WAKER.with(|waker| {
        loop {
            match future.as_mut().poll(&mut Context::from_waker(waker)) {
                Poll::Ready(over) => return over,
                Poll::Pending => thread::park(),
            }
        }
    })
}
