//! Which traits the types have, how they are shown, and where they may be kept.

use chappe::tube::{
    IntoIter, Iter, ReadyTimeoutError, Receiver, RecvError, RecvTimeoutError, Select, SelectTimeoutError,
    SelectedOperation, SendError, SendTimeoutError, Sender, TryIter, TryReadyError, TryRecvError, TrySelectError,
    TrySendError, after, bounded, never, tick, unbounded,
};

use crate::support::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomPinned;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{LazyLock, MutexGuard};
use std::thread;

/// Whether a type has a trait, as a constant: an inherent constant goes before that of a trait.
macro_rules! has {
    ($type:ty: $bound:path) => {{
        trait Fallback {
            const HAS: bool = false;
        }
        struct Probe<T: ?Sized>(std::marker::PhantomData<T>);
        impl<T: ?Sized> Fallback for Probe<T> {}
        #[allow(dead_code, reason = "used where the type has the trait")]
        impl<T: ?Sized + $bound> Probe<T> {
            const HAS: bool = true;
        }
        #[allow(dead_code, reason = "uses the other constant, lest it be dead where the type has the trait")]
        fn fallback_is_used() -> bool {
            <Probe<str> as Fallback>::HAS
        }
        <Probe<$type>>::HAS
    }};
}

#[test]
fn ends_are_send_and_sync_exactly_when_the_message_is_send() {
    assert!(has!(Sender<u8>: Send) && has!(Sender<u8>: Sync));
    assert!(has!(Receiver<u8>: Send) && has!(Receiver<u8>: Sync));
    // The message need not be Sync: it is only ever in one place.
    assert!(has!(Sender<Cell<u8>>: Send) && has!(Sender<Cell<u8>>: Sync));
    assert!(has!(Receiver<Cell<u8>>: Send) && has!(Receiver<Cell<u8>>: Sync));
    assert!(!has!(Sender<Rc<u8>>: Send) && !has!(Sender<Rc<u8>>: Sync));
    assert!(!has!(Receiver<Rc<u8>>: Send) && !has!(Receiver<Rc<u8>>: Sync));
    // Sync but not Send.
    assert!(!has!(Sender<MutexGuard<'static, u8>>: Send) && !has!(Sender<MutexGuard<'static, u8>>: Sync));
    assert!(!has!(Receiver<MutexGuard<'static, u8>>: Send) && !has!(Receiver<MutexGuard<'static, u8>>: Sync));
}

#[test]
fn iterators_are_send_and_sync_exactly_when_the_receiver_is() {
    assert!(has!(Iter<'static, u8>: Send) && has!(Iter<'static, u8>: Sync));
    assert!(has!(TryIter<'static, u8>: Send) && has!(TryIter<'static, u8>: Sync));
    assert!(has!(IntoIter<u8>: Send) && has!(IntoIter<u8>: Sync));
    assert!(!has!(Iter<'static, Rc<u8>>: Send) && !has!(Iter<'static, Rc<u8>>: Sync));
    assert!(!has!(TryIter<'static, Rc<u8>>: Send) && !has!(TryIter<'static, Rc<u8>>: Sync));
    assert!(!has!(IntoIter<Rc<u8>>: Send) && !has!(IntoIter<Rc<u8>>: Sync));
}

#[test]
fn a_choice_is_send_and_sync_but_a_chosen_operation_is_neither() {
    assert!(has!(Select<'static>: Send) && has!(Select<'static>: Sync));
    assert!(!has!(SelectedOperation<'static>: Send) && !has!(SelectedOperation<'static>: Sync));
}

#[test]
fn a_chosen_operation_cannot_be_duplicated() {
    assert!(!has!(SelectedOperation<'static>: Clone));
    assert!(has!(Select<'static>: Clone) && has!(Select<'static>: Default));
}

#[test]
fn ends_are_unwind_safe_whatever_the_message() {
    assert!(has!(Sender<Cell<u8>>: UnwindSafe) && has!(Sender<Cell<u8>>: RefUnwindSafe));
    assert!(has!(Receiver<Cell<u8>>: UnwindSafe) && has!(Receiver<Cell<u8>>: RefUnwindSafe));
    assert!(has!(Sender<&'static mut u8>: UnwindSafe) && has!(Receiver<&'static mut u8>: RefUnwindSafe));
}

#[test]
fn ends_and_iterators_are_unpin() {
    assert!(has!(Sender<PhantomPinned>: Unpin) && has!(Sender<u8>: Unpin));
    assert!(has!(Receiver<u8>: Unpin) && has!(Iter<'static, PhantomPinned>: Unpin) && has!(IntoIter<u8>: Unpin));
}

#[test]
fn errors_are_as_send_and_sync_as_their_message() {
    assert!(has!(SendError<u8>: Send) && has!(TrySendError<u8>: Sync) && has!(SendTimeoutError<u8>: Send));
    assert!(!has!(SendError<Rc<u8>>: Send) && !has!(TrySendError<Rc<u8>>: Send));
    assert!(!has!(SendTimeoutError<Rc<u8>>: Send) && !has!(SendError<Cell<u8>>: Sync));
    fn plain<T: Send + Sync + Copy + Eq + Debug + UnwindSafe + 'static>() {}
    plain::<RecvError>();
    plain::<TryRecvError>();
    plain::<RecvTimeoutError>();
    plain::<TrySelectError>();
    plain::<SelectTimeoutError>();
    plain::<TryReadyError>();
    plain::<ReadyTimeoutError>();
}

#[test]
fn ends_are_cloned_and_shown_whatever_the_message() {
    struct Opaque;
    let (tx, rx) = bounded::<Opaque>(1);
    let (tx2, rx2) = (tx.clone(), rx.clone());
    tx2.send(Opaque).unwrap_or_else(|_| panic!("closed"));
    assert!(rx2.recv().is_ok());
    assert_eq!(format!("{tx:?} {rx:?}"), "Sender { .. } Receiver { .. }");
    assert_eq!(format!("{:?} {:?}", rx.iter(), rx.try_iter()), "Iter { .. } TryIter { .. }");
    assert_eq!(format!("{:?}", rx.into_iter()), "IntoIter { .. }");
}

#[test]
fn every_flavour_is_shown_alike_and_on_one_line() {
    for (tx, rx) in [bounded::<u8>(0), bounded(1), unbounded()] {
        assert_eq!(format!("{tx:#?} {rx:#?}"), "Sender { .. } Receiver { .. }");
    }
    assert_eq!(format!("{:?} {:?}", after(ms(1)), tick(ms(1))), "Receiver { .. } Receiver { .. }");
    assert_eq!(format!("{:?}", never::<u8>()), "Receiver { .. }");
}

#[test]
fn choices_are_shown() {
    let (tx, _rx) = unbounded();
    let mut choice = Select::new();
    choice.send(&tx);
    assert_eq!(format!("{choice:?}"), "Select { .. }");
    let chosen = choice.select();
    assert_eq!(format!("{chosen:?}"), "SelectedOperation { .. }");
    chosen.send(&tx, 1).unwrap();
}

#[test]
fn messages_that_are_not_send_travel_within_a_thread() {
    let (tx, rx) = unbounded();
    let message = Rc::new(5);
    tx.send(message.clone()).unwrap();
    assert_eq!(Rc::strong_count(&message), 2);
    assert!(Rc::ptr_eq(&rx.recv().unwrap(), &message));
    tx.send(message.clone()).unwrap();
    drop((tx, rx));
    assert_eq!(Rc::strong_count(&message), 1);
}

#[test]
fn one_end_is_shared_by_reference_among_threads() {
    let (tx, rx) = bounded(1);
    let received: usize = thread::scope(|scope| {
        let tx = &tx;
        for n in 0..3 {
            scope.spawn(move || (0..100).for_each(|_| tx.send(n).unwrap()));
        }
        let rx = &rx;
        let takers: Vec<_> = (0..3).map(|_| scope.spawn(move || rx.iter().take(100).sum::<usize>())).collect();
        takers.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(received, 300);
}

static SHARED: LazyLock<(Sender<u32>, Receiver<u32>)> = LazyLock::new(unbounded);

#[test]
fn a_channel_lives_in_a_static() {
    thread::spawn(|| SHARED.0.send(11).unwrap()).join().unwrap();
    assert_eq!(SHARED.1.recv(), Ok(11));
    assert!(SHARED.1.is_empty());
}

#[test]
fn ends_pass_through_catch_unwind_and_still_work() {
    let (tx, rx) = bounded(2);
    let result = catch_unwind(|| {
        tx.send(Cell::new(1)).unwrap();
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(result.is_err());
    tx.send(Cell::new(2)).unwrap();
    assert_eq!((rx.recv().unwrap().get(), rx.recv().unwrap().get()), (1, 2));
    assert!(catch_unwind(AssertUnwindSafe(|| rx.try_recv().unwrap_err().is_empty())).unwrap());
}

#[test]
fn messages_may_borrow_and_ends_may_be_kept_in_collections() {
    let text = String::from("one two three");
    let mut ends: HashMap<&str, (Sender<&str>, Receiver<&str>)> = HashMap::new();
    for word in text.split(' ') {
        ends.entry(word).or_insert_with(|| bounded(1)).0.send(word).unwrap();
    }
    for (word, (_, rx)) in &ends {
        assert_eq!(rx.try_recv().as_ref(), Ok(word));
    }
    assert_eq!(ends.len(), 3);
}

#[test]
fn functions_can_be_passed_as_values() {
    let make = [bounded::<u8>];
    let (tx, rx) = make[0](1);
    let send: fn(&Sender<u8>, u8) -> Result<(), SendError<u8>> = Sender::send;
    let recv: fn(&Receiver<u8>) -> Result<u8, RecvError> = Receiver::recv;
    send(&tx, 1).unwrap();
    assert_eq!(recv(&rx), Ok(1));
    assert_eq!([2, 3].into_iter().map(|n| tx.try_send(n)).filter(Result::is_ok).count(), 1);
}

#[test]
fn ends_are_generic_over_unsized_behind_pointers() {
    let (tx, rx) = unbounded::<Box<dyn Fn(i32) -> i32 + Send>>();
    tx.send(Box::new(|n| n + 1)).unwrap();
    assert_eq!(rx.recv().map(|f| f(1)).ok(), Some(2));
    let (tx, rx) = unbounded::<Box<[u8]>>();
    tx.send(vec![1, 2].into()).unwrap();
    assert_eq!(rx.recv().unwrap().len(), 2);
}
