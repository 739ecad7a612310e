//! Tasks at the ends of tubes: in one line with threads, and nothing is lost, whichever future is dropped.

use crate::asleep::{this_thread, until_asleep};
use crate::tasks::{LONG, bell, block_on, in_a_house, poll};
use chappe::Select;
use chappe::task::{Receiving, Sending};
use chappe::thread;
use chappe::tube::named::{NotReceived, NotSent, Tube, TubeOptions};
use chappe::tube::{Receiver, Sender, after, bounded, never, spsc, tick, unbounded};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Tubes in which a message waits for its receiver.
fn with_slots(test: impl Fn(Sender<u32>, Receiver<u32>)) {
    let (sender, receiver) = bounded(1);
    test(sender, receiver);
    let (sender, receiver) = unbounded();
    test(sender, receiver);
}

fn is_ready<T: PartialEq + std::fmt::Debug, E: std::fmt::Debug>(over: Poll<Result<T, E>>, what: &T) -> bool {
    matches!(over, Poll::Ready(Ok(got)) if got == *what)
}

#[test]
fn a_message_that_is_there_is_received_at_the_first_poll() {
    with_slots(|sender, receiver| {
        sender.send(1).unwrap();
        let (waker, woken, _) = bell();
        assert!(is_ready(poll(&mut pin!(receiver.recv_async()), &waker), &1));
        assert!(is_ready(poll(&mut pin!(sender.send_async(2)), &waker), &()));
        assert_eq!((receiver.recv().unwrap(), woken.count()), (2, 0));
    });
}

#[test]
fn a_message_wakes_the_task_that_waits_for_it() {
    with_slots(|sender, receiver| {
        let (waker, _, woken) = bell();
        let mut waits = pin!(receiver.recv_async());
        assert!(poll(&mut waits, &waker).is_pending());
        assert!(poll(&mut waits, &waker).is_pending(), "a poll for no reason changes nothing");
        sender.send(1).unwrap();
        woken.recv_timeout(LONG).unwrap();
        assert!(is_ready(poll(&mut waits, &waker), &1));
    });
}

#[test]
fn room_wakes_the_task_that_waits_for_it() {
    let (sender, receiver) = bounded(1);
    sender.send(1).unwrap();
    let (waker, _, woken) = bell();
    let mut waits = pin!(sender.send_async(2));
    assert!(poll(&mut waits, &waker).is_pending());
    assert_eq!(receiver.recv(), Ok(1));
    woken.recv_timeout(LONG).unwrap();
    assert!(is_ready(poll(&mut waits, &waker), &()));
    assert_eq!(receiver.recv(), Ok(2));
}

#[test]
fn the_only_ends_of_a_line_are_tasks() {
    let (mut sender, mut receiver) = spsc(1);
    std::thread::scope(|scope| {
        scope.spawn(move || (0..1000).for_each(|i| block_on(sender.send_async(i)).unwrap()));
        (0..1000).for_each(|i| assert_eq!(block_on(receiver.recv_async()), Ok(i)));
        assert!(block_on(receiver.recv_async()).is_err(), "the sender has gone");
    });
}

#[test]
fn a_dropped_tasks_notice_of_a_message_goes_to_the_next() {
    with_slots(|sender, receiver| {
        let (waker, ..) = bell();
        let (next_waker, _, woken) = bell();
        let mut next = pin!(receiver.recv_async());
        {
            let mut first = pin!(receiver.recv_async());
            assert!(poll(&mut first, &waker).is_pending());
            assert!(poll(&mut next, &next_waker).is_pending());
            sender.send(1).unwrap();
            assert!(woken.try_recv().is_err(), "the first one was told");
        }
        woken.recv_timeout(LONG).expect("the next is told");
        assert!(is_ready(poll(&mut next, &next_waker), &1));
    });
}

#[test]
fn a_dropped_tasks_notice_of_room_goes_to_the_next() {
    let (sender, receiver) = bounded(1);
    sender.send(0).unwrap();
    let (waker, ..) = bell();
    let (next_waker, _, woken) = bell();
    let mut next = pin!(sender.send_async(2));
    {
        let mut first = pin!(sender.send_async(1));
        assert!(poll(&mut first, &waker).is_pending());
        assert!(poll(&mut next, &next_waker).is_pending());
        assert_eq!(receiver.recv(), Ok(0));
        assert!(woken.try_recv().is_err(), "the first one was told");
    }
    woken.recv_timeout(LONG).expect("the next is told");
    assert!(is_ready(poll(&mut next, &next_waker), &()));
    assert_eq!(receiver.recv(), Ok(2));
}

#[test]
fn a_send_that_is_cancelled_gives_its_message_back_unless_it_was_met() {
    for slots in [0, 1] {
        let (sender, receiver) = bounded::<u32>(slots);
        (0..slots).for_each(|_| sender.send(0).unwrap());
        let (waker, ..) = bell();
        let mut waits = sender.send_async(7);
        assert!(poll(&mut Pin::new(&mut waits), &waker).is_pending());
        assert_eq!(waits.cancel(), Some(7), "nobody came");
        (0..slots).for_each(|_| assert_eq!(receiver.try_recv(), Ok(0)));
        assert!(receiver.try_recv().is_err(), "it was not sent");
        assert_eq!(sender.send_async(8).cancel(), Some(8), "it was never polled");
    }
    let (sender, receiver) = bounded::<u32>(0);
    let (waker, ..) = bell();
    let mut waits = sender.send_async(7);
    assert!(poll(&mut Pin::new(&mut waits), &waker).is_pending());
    assert_eq!(receiver.try_recv(), Ok(7));
    assert_eq!(waits.cancel(), None, "it was sent");
}

#[test]
fn a_task_that_leaves_a_line_of_tubes_tells_nobody() {
    let (_sender, receiver) = bounded::<u32>(1);
    let (waker, first, _) = bell();
    let (next_waker, next_bell, _) = bell();
    let mut next = pin!(receiver.recv_async());
    {
        let mut one = pin!(receiver.recv_async());
        assert!(poll(&mut one, &waker).is_pending());
        assert!(poll(&mut next, &next_waker).is_pending());
    }
    assert_eq!((first.count(), next_bell.count()), (0, 0));
    drop(waker);
    assert_eq!(Arc::strong_count(&first), 1, "no waker is kept");
}

#[test]
fn the_end_of_the_other_end_is_told_to_tasks() {
    for slots in [0, 1] {
        let (sender, receiver) = bounded::<u32>(slots);
        let (waker, _, woken) = bell();
        let mut waits = pin!(receiver.recv_async());
        assert!(poll(&mut waits, &waker).is_pending());
        drop(sender);
        woken.recv_timeout(LONG).unwrap();
        assert!(matches!(poll(&mut waits, &waker), Poll::Ready(Err(_))));
        let (sender, receiver) = bounded::<u32>(slots);
        (0..slots).for_each(|_| sender.send(0).unwrap());
        let mut waits = pin!(sender.send_async(7));
        assert!(poll(&mut waits, &waker).is_pending());
        drop(receiver);
        woken.recv_timeout(LONG).unwrap();
        assert!(matches!(poll(&mut waits, &waker), Poll::Ready(Err(e)) if e.0 == 7), "the message comes back");
    }
}

#[test]
fn more_tasks_than_an_end_has_seats_are_served() {
    let (sender, receiver) = bounded(4);
    let (waker, _, woken) = bell();
    let mut all: Vec<Pin<Box<Receiving<'_, u32>>>> = Vec::new();
    all.resize_with(200, || Box::pin(receiver.recv_async()));
    all.iter_mut().for_each(|task| assert!(poll(&mut task.as_mut(), &waker).is_pending()));
    let mut got = Vec::new();
    for i in 0..200 {
        sender.send(i).unwrap();
        while got.len() <= i as usize {
            let before = got.len();
            all.retain_mut(|task| match poll(&mut task.as_mut(), &waker) {
                Poll::Ready(message) => {
                    got.push(message.unwrap());
                    false
                }
                Poll::Pending => true,
            });
            if got.len() == before {
                woken.recv_timeout(LONG).expect("one is told");
            }
        }
    }
    assert_eq!(got, (0..200).collect::<Vec<_>>());
}

#[test]
fn a_task_that_sends_meets_who_comes_to_receive() {
    let (sender, receiver) = bounded(0);
    let (waker, _, woken) = bell();
    let mut sends = pin!(sender.send_async(1));
    assert!(poll(&mut sends, &waker).is_pending());
    assert_eq!(receiver.try_recv(), Ok(1));
    woken.recv_timeout(LONG).unwrap();
    assert!(is_ready(poll(&mut sends, &waker), &()));
    assert!(receiver.try_recv().is_err());
}

#[test]
fn a_task_that_receives_is_told_of_a_sender_that_waits() {
    let (sender, receiver) = bounded(0);
    let (waker, _, woken) = bell();
    let mut receives = pin!(receiver.recv_async());
    assert!(poll(&mut receives, &waker).is_pending());
    std::thread::scope(|scope| {
        let sends = scope.spawn(|| sender.send(1));
        woken.recv_timeout(LONG).expect("it is told");
        loop {
            match poll(&mut receives, &waker) {
                Poll::Ready(message) => break assert_eq!(message, Ok(1)),
                // The sender was told to wait a little less long, and comes again.
                Poll::Pending => woken.recv_timeout(LONG).expect("it is told again"),
            }
        }
        sends.join().unwrap().unwrap();
    });
}

#[test]
fn tasks_meet_tasks_whoever_comes_first() {
    let (sender, receiver) = bounded(0);
    let ((to_send, _, send), (to_receive, _, receive)) = (bell(), bell());
    for sends_first in [true, false] {
        let (mut sends, mut receives) = (pin!(sender.send_async(1)), pin!(receiver.recv_async()));
        if sends_first {
            assert!(poll(&mut sends, &to_send).is_pending());
        } else {
            assert!(poll(&mut receives, &to_receive).is_pending());
            assert!(poll(&mut sends, &to_send).is_pending());
            receive.recv_timeout(LONG).expect("the one that receives acts");
        }
        assert!(is_ready(poll(&mut receives, &to_receive), &1));
        send.recv_timeout(LONG).unwrap();
        assert!(is_ready(poll(&mut sends, &to_send), &()));
    }
}

#[test]
fn a_dropped_receivers_notice_of_a_sender_goes_to_the_next() {
    let (sender, receiver) = bounded(0);
    let (waker, ..) = bell();
    let (next_waker, _, woken) = bell();
    let (mut sends, mut next) = (pin!(sender.send_async(1)), pin!(receiver.recv_async()));
    {
        let mut first = pin!(receiver.recv_async());
        assert!(poll(&mut first, &waker).is_pending());
        assert!(poll(&mut next, &next_waker).is_pending());
        assert!(poll(&mut sends, &waker).is_pending());
        assert!(woken.try_recv().is_err(), "the first one was told");
    }
    woken.recv_timeout(LONG).expect("the next is told");
    assert!(is_ready(poll(&mut next, &next_waker), &1));
}

/// Its first calls say that they have come, and return when they are told to.
struct Gated(Mutex<Vec<mpsc::Receiver<()>>>, mpsc::Sender<()>);

impl Wake for Gated {
    fn wake(self: Arc<Self>) {
        let gate = self.0.lock().unwrap().pop();
        if let Some(gate) = gate {
            let _ = self.1.send(());
            let _ = gate.recv();
        }
    }
}

/// Says that it was woken: `None`.
struct Says(mpsc::Sender<Option<u32>>);

impl Wake for Says {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(None);
    }
}

/// A thread comes to receive while a light thread, which has looked for one to meet, does not wait yet: it tells nobody. The light thread tells the
/// task that is first in line, which is dropped.
#[test]
fn a_dropped_receivers_notice_of_a_light_sender_goes_to_the_next() {
    // Alone in a process: a thread of another test that ends repeats a call that has begun, and then the light thread, which is to be
    // stopped in that call, finds it done.
    const ALONE: &str = "CHAPPE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "task_tubes::a_dropped_receivers_notice_of_a_light_sender_goes_to_the_next";
        let said = child.args(["--exact", name]).env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&said.stdout);
        assert!(said.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let (sender, receiver) = bounded(0);
    let sender: &'static Sender<u32> = Box::leak(Box::new(sender));
    let receiver: &'static Receiver<u32> = Box::leak(Box::new(receiver));
    let ((one_goes_on, one), (light_goes_on, light)) = (mpsc::channel(), mpsc::channel());
    let ((called, calls), (said, events)) = (mpsc::channel(), mpsc::channel());
    let gated = Waker::from(Arc::new(Gated(Mutex::new(vec![light, one]), called)));
    let told = Waker::from(Arc::new(Says(said.clone())));
    let (mut stops, mut first) = (Box::pin(receiver.recv_async()), Box::pin(receiver.recv_async()));
    assert!(poll(&mut stops.as_mut(), &gated).is_pending());
    assert!(poll(&mut first.as_mut(), &told).is_pending());
    // The teller of the first task is stopped in its waker: the next that looks for one to meet repeats the call, in the middle of that look.
    let teller = std::thread::spawn(|| block_on(sender.send_async(0)));
    calls.recv_timeout(LONG).expect("it is told");
    assert_eq!(receiver.try_recv(), Ok(0));
    let sends = thread::spawn(|| sender.send(1));
    calls.recv_timeout(LONG).expect("the light thread repeats the call");
    let (here, name) = mpsc::channel();
    std::thread::spawn(move || {
        here.send(this_thread()).unwrap();
        said.send(receiver.recv().ok())
    });
    let receives = name.recv().unwrap();
    let mut meets = Select::new();
    meets.send(sender);
    let began = Instant::now();
    while meets.try_ready().is_err() {
        assert!(began.elapsed() < LONG, "the receiver does not wait");
        std::thread::yield_now();
    }
    until_asleep(&receives);
    light_goes_on.send(()).unwrap();
    // If the thread's member is far from the tasks', the light thread sees it all the same, and tells nobody.
    let mut event = events.recv_timeout(LONG).expect("the light thread tells the task, or meets the thread");
    drop((first, stops));
    while event.is_none() {
        event = events.recv_timeout(LONG).expect("the light thread is told of the thread");
    }
    assert_eq!(event, Some(1));
    sends.join().unwrap().unwrap();
    one_goes_on.send(()).unwrap();
    teller.join().unwrap().unwrap();
}

/// Counts how many of it are there.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(there: &Arc<AtomicUsize>) -> Counted {
        there.fetch_add(1, Ordering::SeqCst); // SeqCst: no cost that counts in a test.
        Counted(there.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst); // SeqCst: as above.
    }
}

fn count(there: &AtomicUsize) -> usize {
    there.load(Ordering::SeqCst) // SeqCst: as above.
}

#[test]
fn a_message_of_a_dropped_task_is_dropped_once_or_received() {
    let there = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = bounded(0);
    let (waker, ..) = bell();
    {
        drop(sender.send_async(Counted::new(&there)));
        let mut sends = pin!(sender.send_async(Counted::new(&there)));
        assert!(poll(&mut sends, &waker).is_pending());
    }
    assert_eq!(count(&there), 0, "it was not sent");
    let received = {
        let mut sends = pin!(sender.send_async(Counted::new(&there)));
        assert!(poll(&mut sends, &waker).is_pending());
        receiver.try_recv().expect("it was met")
    };
    assert_eq!(count(&there), 1, "its future was dropped when it had been met");
    drop(received);
    assert_eq!(count(&there), 0);
}

/// The waker drops its task: while the thread that has met that is in the middle of it.
struct Drops(Mutex<Option<Pin<Box<Sending<'static, Counted>>>>>);

impl Wake for Drops {
    fn wake(self: Arc<Self>) {
        let task = self.0.lock().unwrap().take();
        drop(task);
    }
}

#[test]
fn a_task_that_its_waker_drops_when_it_is_met_has_sent() {
    let there = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = bounded(0);
    let sender: &'static Sender<Counted> = Box::leak(Box::new(sender));
    let task = Arc::new(Drops(Mutex::new(None)));
    let mut sends = Box::pin(sender.send_async(Counted::new(&there)));
    assert!(poll(&mut sends.as_mut(), &Waker::from(task.clone())).is_pending());
    *task.0.lock().unwrap() = Some(sends);
    let message = receiver.try_recv().expect("it was met");
    assert!(task.0.lock().unwrap().is_none(), "the waker was called");
    assert_eq!(count(&there), 1);
    drop(message);
    assert_eq!(count(&there), 0);
}

#[test]
fn light_threads_and_tasks_meet() {
    let ((ask, asked), (answer, answered)) = (bounded(0), bounded(0));
    let serves = thread::spawn(move || {
        while let Ok(n) = asked.recv() {
            answer.send(n + 1).unwrap();
        }
    });
    for n in 0..100 {
        block_on(ask.send_async(n)).unwrap();
        assert_eq!(block_on(answered.recv_async()), Ok(n + 1));
    }
    drop(ask);
    assert!(block_on(answered.recv_async()).is_err());
    serves.join().unwrap();
}

#[test]
fn a_clock_wakes_the_task_that_waits_for_it() {
    block_on(after(Duration::ZERO).recv_async()).unwrap();
    let strokes = tick(Duration::from_millis(1));
    (0..3).for_each(|_| assert!(block_on(strokes.recv_async()).is_ok()));
    let (late, ever) = (after(Duration::from_secs(3600)), never::<u32>());
    let (waker, woken, _) = bell();
    {
        let (mut waits, mut for_ever) = (pin!(late.recv_async()), pin!(ever.recv_async()));
        assert!(poll(&mut waits, &waker).is_pending());
        assert!(poll(&mut waits, &waker).is_pending());
        assert!(poll(&mut for_ever, &waker).is_pending());
    }
    drop(waker);
    assert_eq!((woken.count(), Arc::strong_count(&woken)), (0, 1), "no waker is kept");
}

fn is_send<F: Future + Send>(future: F) -> F {
    future
}

#[test]
fn tasks_send_and_receive_through_a_named_tube() {
    in_a_house("task_tube", || {
        let tube = Tube::<u64>::create("t", &TubeOptions { slots: 1, ..TubeOptions::default() }).unwrap();
        let (mut sender, mut receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
        let ((to_send, _, send), (to_receive, _, receive)) = (bell(), bell());
        {
            let mut receives = pin!(is_send(receiver.recv_async()));
            assert!(poll(&mut receives, &to_receive).is_pending());
            assert!(is_ready(poll(&mut pin!(is_send(sender.send_async(1))), &to_send), &()));
            receive.recv_timeout(LONG).unwrap();
            assert!(is_ready(poll(&mut receives, &to_receive), &1));
        }
        sender.try_send(2).unwrap();
        {
            let mut sends = pin!(sender.send_async(3));
            assert!(poll(&mut sends, &to_send).is_pending());
            assert_eq!(receiver.recv().unwrap(), 2);
            send.recv_timeout(LONG).unwrap();
            assert!(is_ready(poll(&mut sends, &to_send), &()));
        }
        assert_eq!(block_on(receiver.recv_async()).unwrap(), 3);
        let mut receives = pin!(receiver.recv_async());
        assert!(poll(&mut receives, &to_receive).is_pending());
        drop(sender);
        receive.recv_timeout(LONG).unwrap();
        let over = poll(&mut receives, &to_receive);
        assert!(matches!(over, Poll::Ready(Err(NotReceived::Disconnected { .. }))), "{over:?}");
    });
}

#[test]
fn a_dropped_tasks_notice_at_a_named_tube_goes_to_the_next() {
    in_a_house("task_tube_dropped", || {
        let tube = Tube::<u64>::create("t", &TubeOptions { slots: 1, ..TubeOptions::default() }).unwrap();
        let sender = tube.sender().unwrap();
        let (mut one, mut other) = (tube.receiver().unwrap(), tube.receiver().unwrap());
        let (waker, _, told) = bell();
        let (next_waker, _, woken) = bell();
        let mut next = pin!(other.recv_async());
        {
            let mut first = pin!(one.recv_async());
            assert!(poll(&mut first, &waker).is_pending());
            assert!(poll(&mut next, &next_waker).is_pending());
            sender.send(1).unwrap();
            told.recv_timeout(LONG).expect("the first one is told");
        }
        woken.recv_timeout(LONG).expect("the next is told");
        assert!(is_ready(poll(&mut next, &next_waker), &1));
        let (mut one, mut other) = (tube.sender().unwrap(), tube.sender().unwrap());
        sender.send(2).unwrap();
        let receiver = tube.receiver().unwrap();
        let mut next = pin!(other.send_async(4));
        {
            let mut first = pin!(one.send_async(3));
            assert!(poll(&mut first, &waker).is_pending());
            assert!(poll(&mut next, &next_waker).is_pending());
            assert_eq!(receiver.recv().unwrap(), 2);
            told.recv_timeout(LONG).expect("the first one is told");
        }
        woken.recv_timeout(LONG).expect("the next is told");
        assert!(is_ready(poll(&mut next, &next_waker), &()));
        assert_eq!(receiver.recv().unwrap(), 4);
    });
}

#[test]
fn records_of_bytes_go_through_tasks() {
    in_a_house("task_tube_bytes", || {
        let tube = Tube::<[u8]>::create("t", &TubeOptions { size: 8, ..TubeOptions::default() }).unwrap();
        let (mut sender, mut receiver) = (tube.sender().unwrap(), tube.receiver().unwrap());
        block_on(sender.send_async(b"abc")).unwrap();
        assert_eq!(block_on(receiver.recv_async()).unwrap(), b"abc");
        let over = block_on(sender.send_async(b"123456789"));
        assert!(matches!(over, Err(NotSent::TooLong { len: 9, .. })));
    });
}
