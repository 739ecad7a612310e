//! Misuse panics with a known text. A panic of the user loses nothing but what was already taken.

use chappe::SendingEnd;
use chappe::tube::{Select, bounded, mpsc, never, select, select_biased, spmc, spsc, unbounded};

use crate::support::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[test]
#[should_panic(expected = "no operations have been added to `Select`")]
fn select_without_operations() {
    let _ = Select::new().select();
}

#[test]
#[should_panic(expected = "no operations have been added to `Select`")]
fn ready_without_operations() {
    let _ = Select::new().ready();
}

#[test]
#[should_panic(expected = "no operations have been added to `Select`")]
fn a_biased_select_without_operations() {
    let _ = Select::new_biased().select();
}

#[test]
#[should_panic(expected = "no operations have been added to `Select`")]
fn a_biased_ready_without_operations() {
    let _ = Select::new_biased().ready();
}

#[test]
#[should_panic(expected = "no operations have been added to `Select`")]
fn select_after_the_only_operation_was_removed() {
    let (_tx, rx) = bounded::<u8>(1);
    let mut choice = Select::new();
    let i = choice.recv(&rx);
    choice.remove(i);
    let _ = choice.select();
}

#[test]
#[should_panic(expected = "index out of bounds; 0 >= 0")]
fn removing_from_an_empty_choice() {
    Select::new().remove(0);
}

#[test]
#[should_panic(expected = "index out of bounds; 7 >= 2")]
fn removing_an_operation_that_was_never_added() {
    let (tx, rx) = bounded::<u8>(1);
    let mut choice = Select::new();
    choice.recv(&rx);
    choice.send(&tx);
    choice.remove(7);
}

#[test]
#[should_panic(expected = "no operation with this index")]
fn removing_an_operation_twice() {
    let (tx, rx) = bounded::<u8>(1);
    let mut choice = Select::new();
    let i = choice.recv(&rx);
    choice.send(&tx);
    choice.remove(i);
    choice.remove(i);
}

#[test]
#[should_panic(expected = "dropped `SelectedOperation` without completing the operation")]
fn dropping_a_chosen_send() {
    // A closed channel, for in an open one a place may stay reserved and so wedge it.
    let (tx, _) = unbounded::<u8>();
    let mut choice = Select::new();
    choice.send(&tx);
    drop(choice.select());
}

#[test]
#[should_panic(expected = "dropped `SelectedOperation` without completing the operation")]
fn dropping_a_chosen_receive() {
    let (tx, rx) = unbounded();
    tx.send(1).unwrap();
    let mut choice = Select::new();
    choice.recv(&rx);
    drop(choice.select());
}

#[test]
#[should_panic(expected = "dropped `SelectedOperation` without completing the operation")]
fn dropping_what_try_select_chose() {
    let (_, closed) = bounded::<u8>(1);
    let mut choice = Select::new();
    choice.recv(&closed);
    let _ = choice.try_select();
}

#[test]
#[should_panic(expected = "dropped `SelectedOperation` without completing the operation")]
fn dropping_what_select_timeout_chose() {
    let (_, closed) = bounded::<u8>(1);
    let mut choice = Select::new();
    choice.recv(&closed);
    let _ = choice.select_timeout(LONG);
}

#[test]
#[should_panic(expected = "dropped `SelectedOperation` without completing the operation")]
fn leaving_from_within_a_message_expression() {
    let (tx, _) = unbounded::<u8>();
    loop {
        #[allow(unreachable_code, clippy::diverging_sub_expression, reason = "what leaves is the test")]
        {
            select! { send(tx, break) -> _ => {}, recv(never::<u8>()) -> _ => {} }
        }
    }
}

// The four below panic while the chosen operation is still open, whose own drop then panics too: the process aborts.

#[test]
fn completing_a_send_with_another_sender() {
    dies_saying("completing_a_send_with_another_sender", &["passed a sender that wasn't selected"], || {
        let ((tx, _rx), (other, _other_rx)) = (unbounded::<u8>(), unbounded::<u8>());
        let mut choice = Select::new();
        choice.send(&tx);
        let _ = choice.select().send(&other, 1);
    });
}

#[test]
fn completing_a_send_with_a_clone_of_the_sender() {
    // It must be the very same value, not merely the same channel.
    dies_saying("completing_a_send_with_a_clone_of_the_sender", &["passed a sender that wasn't selected"], || {
        let (tx, _rx) = unbounded::<u8>();
        let clone = tx.clone();
        let mut choice = Select::new();
        choice.send(&tx);
        let _ = choice.select().send(&clone, 1);
    });
}

#[test]
fn completing_a_receive_with_another_receiver() {
    dies_saying("completing_a_receive_with_another_receiver", &["passed a receiver that wasn't selected"], || {
        let ((tx, rx), (_other_tx, other)) = (unbounded(), unbounded::<u8>());
        tx.send(1).unwrap();
        let mut choice = Select::new();
        choice.recv(&rx);
        let _ = choice.select().recv(&other);
    });
}

#[test]
fn completing_a_send_as_a_receive() {
    dies_saying("completing_a_send_as_a_receive", &["passed a receiver that wasn't selected"], || {
        let (tx, rx) = unbounded::<u8>();
        let mut choice = Select::new();
        choice.send(&tx);
        let _ = choice.select().recv(&rx);
    });
}

#[test]
fn panicking_in_a_message_expression() {
    dies_saying("panicking_in_a_message_expression", &["no message today"], || {
        let (tx, _rx) = unbounded::<u8>();
        #[allow(unreachable_code, clippy::diverging_sub_expression, reason = "what leaves is the test")]
        {
            select! { send(tx, panic!("no message today")) -> _ => {}, recv(never::<u8>()) -> _ => {} }
        }
    });
}

#[test]
fn the_right_operation_among_equals_can_be_completed() {
    // The counterpart of the above: with the same end added twice, either operation takes that end.
    let (tx, rx) = unbounded();
    let mut choice = Select::new();
    choice.send(&tx);
    choice.send(&tx);
    for n in 0..20 {
        choice.select().send(&tx, n).unwrap();
    }
    assert_eq!(rx.len(), 20);
}

#[test]
fn a_forgotten_chosen_operation_does_not_panic() {
    let (tx, rx) = unbounded();
    tx.send(Box::new(1)).unwrap();
    let (_, closed) = bounded::<u8>(1);
    let mut choice = Select::new();
    choice.recv(&closed);
    std::mem::forget(choice.select());
    // The choice and the other channel go on working.
    choice.remove(0);
    choice.recv(&rx);
    assert_eq!(choice.select().recv(&rx).as_deref(), Ok(&1));
}

#[test]
fn a_panic_in_an_arm_passes_through_and_loses_nothing_else() {
    let (tx, rx) = unbounded();
    tx.send(1).unwrap();
    tx.send(2).unwrap();
    let caught = catch_unwind(|| {
        select! {
            recv(rx) -> got => resume_unwind(Box::new(got.unwrap())),
            recv(never::<()>()) -> _ => unreachable!(),
        }
    });
    assert_eq!(caught.unwrap_err().downcast_ref(), Some(&1));
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), [2]);
    tx.send(3).unwrap();
    assert_eq!(select! { recv(rx) -> got => got, default => Ok(0) }, Ok(3));
}

#[test]
fn a_panic_in_a_channel_expression_takes_nothing() {
    let (tx, rx) = unbounded();
    tx.send(1).unwrap();
    let caught = catch_unwind(|| {
        #[allow(unreachable_code, clippy::diverging_sub_expression, reason = "what leaves is the test")]
        {
            select_biased! {
                recv(rx) -> _ => {}
                recv({ resume_unwind(Box::new("expression")); never::<()>() }) -> _ => {}
            }
        }
    });
    assert!(caught.is_err());
    assert_eq!(rx.recv(), Ok(1));
}

#[test]
fn a_panic_while_iterating_leaves_the_rest() {
    let (tx, rx) = bounded(4);
    (0..4).for_each(|n| tx.send(n).unwrap());
    let caught = catch_unwind(|| {
        for n in &rx {
            if n == 1 {
                resume_unwind(Box::new("enough"));
            }
        }
    });
    assert!(caught.is_err());
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_choice_works_on_after_a_panic_of_its_user() {
    let (tx, rx) = unbounded();
    tx.send(1).unwrap();
    tx.send(2).unwrap();
    let mut choice = Select::new();
    choice.recv(&rx);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let got = choice.select().recv(&rx).unwrap();
        resume_unwind(Box::new(got));
    }));
    assert!(caught.is_err());
    assert_eq!(choice.select().recv(&rx), Ok(2));
}

#[test]
fn the_message_in_flight_of_a_panicking_receiver_is_dropped_once() {
    in_time(|| {
        let tally = Tally::default();
        let (tx, rx) = bounded(0);
        let receiver = thread::spawn(move || {
            let _token = rx.recv().unwrap();
            resume_unwind(Box::new("on purpose"));
        });
        tx.send(tally.token()).unwrap();
        assert!(receiver.join().is_err());
        assert!(tx.send(tally.token()).is_err());
        assert_eq!(tally.made(), 2);
        tally.assert_each_dropped_once();
    });
}

#[test]
#[should_panic(expected = "SendError")]
fn unwrapping_a_failed_send() {
    struct Opaque;
    let (tx, _) = bounded(1);
    tx.send(Opaque).unwrap();
}

#[test]
#[should_panic(expected = "RecvError")]
fn unwrapping_a_failed_receive() {
    let (_, rx) = bounded::<u8>(1);
    rx.recv().unwrap();
}

/// Panics when it is dropped, and counts how often that was.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        resume_unwind(Box::new("dropped"));
    }
}

/// Messages whose drop panics, `count` of them, in a tube both of whose ends go: one panic comes out, what is left leaks, and the
/// process goes on.
fn one_panic_comes_out<S: SendingEnd<Message = Bomb>, R>(make: impl Fn() -> (S, R), send: impl Fn(&S, Bomb)) {
    for receiver_first in [false, true] {
        for count in [1, 2, 3] {
            let drops = Arc::new(AtomicUsize::new(0));
            let (tx, rx) = make();
            (0..count).for_each(|_| send(&tx, Bomb(Arc::clone(&drops))));
            // Either of the two may be when they are dropped.
            let mut caught = 0;
            let mut catch =
                |dropped: &mut dyn FnMut()| caught += usize::from(catch_unwind(AssertUnwindSafe(dropped)).is_err());
            let (mut tx, mut rx) = (Some(tx), Some(rx));
            if receiver_first {
                catch(&mut || drop(rx.take()));
                catch(&mut || drop(tx.take()));
            } else {
                catch(&mut || drop(tx.take()));
                catch(&mut || drop(rx.take()));
            }
            assert_eq!((caught, drops.load(Ordering::SeqCst)), (1, 1), "{count} messages");
        }
    }
}

#[test]
fn messages_whose_drop_panics_do_not_end_the_process() {
    one_panic_comes_out(|| bounded(3), |tx, bomb| tx.send(bomb).unwrap());
    one_panic_comes_out(unbounded, |tx, bomb| tx.send(bomb).unwrap());
    one_panic_comes_out(|| spsc(3), |tx, bomb| tx.send(bomb).unwrap());
    one_panic_comes_out(|| mpsc(3), |tx, bomb| tx.send(bomb).unwrap());
    one_panic_comes_out(|| spmc(3), |tx, bomb| tx.send(bomb).unwrap());
}

/// What is dropped while another panic unwinds is dropped, as long as it does not panic itself.
#[test]
fn messages_are_dropped_while_another_panic_unwinds() {
    let tally = Tally::default();
    let ((tx, rx), (more, rest)) = (bounded(3), unbounded());
    for _ in 0..3 {
        tx.send(tally.token()).unwrap();
        more.send(tally.token()).unwrap();
    }
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let _ends = (tx, rx, more, rest);
        resume_unwind(Box::new("on purpose"));
    }));
    assert!(caught.is_err());
    assert_eq!(tally.made(), 6);
    tally.assert_each_dropped_once();
}
