//! What may be written in a `select!`, what of it is evaluated and when, and how control leaves an arm.

use chappe::tube::{
    Receiver, RecvError, SendError, Sender, after, bounded, never, select, select_biased, tick, unbounded,
};

use crate::support::*;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn arms_are_separated_as_in_a_match() {
    let (_tx, rx) = holding([1; 20]);
    let (_keep, idle) = unbounded::<u8>();
    // Blocks need no comma, expressions do, the last arm may have one.
    select! {
        recv(rx) -> _ => {}
        recv(idle) -> _ => {}
    }
    select! {
        recv(rx) -> _ => {},
        recv(idle) -> _ => {},
    }
    select! {
        recv(rx) -> _ => (),
        recv(idle) -> _ => {}
        default => ()
    }
    select! {
        default => {}
        recv(rx) -> _ => drop(Box::new(1)),
        recv(idle) -> _ => unreachable!()
    }
    select! { recv(rx) -> _ => {} recv(idle) -> _ => {} default(ms(1)) => {} }
    let n = select! {
        recv(rx) -> got => if got.is_ok() { 1 } else { 2 },
        recv(idle) -> _ => match 3 { 3 => 3, _ => 4 },
    };
    assert_eq!(n, 1);
    select_biased! {
        recv(rx) -> _ => {}
        recv(idle) -> _ => {},
        default => ()
    }
    assert_eq!(rx.len(), 13);
}

#[test]
fn a_comma_may_follow_the_arguments() {
    let (tx, rx) = holding([1]);
    select! { recv(rx,) -> got => assert_eq!(got, Ok(1)), default() => panic!() }
    select! { send(tx, 2,) -> sent => sent.unwrap(), default(ms(1),) => panic!() }
    select! { recv(rx,) -> got => assert_eq!(got, Ok(2)), send(full().0, 1,) -> _ => panic!(), }
    assert!(select! { recv(rx) -> _ => false, default() => true });
}

#[test]
fn any_irrefutable_pattern_takes_the_result() {
    let (tx, rx) = holding([1, 2, 3]);
    select! { recv(rx) -> _ => {} }
    select! {
        recv(rx) -> mut got => {
            got = got.map(|n| n * 10);
            assert_eq!(got, Ok(20));
        }
    }
    select! { recv(rx) -> ref got => assert_eq!(got, &Ok(3)) }
    select! { send(tx, 4) -> (Ok(()) | Err(SendError(_))) => {} }
    select! { recv(rx) -> _named => {} }
    select! { send(tx, 5) -> _ => {} }
    assert_eq!(rx.len(), 1);
}

#[test]
fn the_whole_is_an_expression() {
    let (_tx, rx) = holding([40]);
    let sum = 2 + select! { recv(rx) -> got => got.unwrap(), default => 0 };
    assert_eq!(sum, 42);
    let text: String = select! {
        recv(rx) -> _ => String::new(),
        default => "none".into(),
    };
    assert_eq!(text, "none");
    fn tail(rx: &Receiver<u8>) -> Option<u8> {
        select! {
            recv(rx) -> got => got.ok(),
            default => None,
        }
    }
    assert_eq!(tail(&holding([1]).1), Some(1));
    assert_eq!(tail(&unbounded().1), None);
}

#[test]
fn arms_may_diverge() {
    let (_tx, rx) = holding([3]);
    let n: u8 = select! {
        recv(rx) -> got => got.unwrap(),
        recv(never::<()>()) -> _ => unreachable!(),
        default => panic!(),
    };
    assert_eq!(n, 3);
}

#[test]
fn break_and_continue_leave_the_arm_for_the_loop() {
    let (_tx, rx) = holding(0..10);
    let mut odd = Vec::new();
    loop {
        select! {
            recv(rx) -> got => {
                let n = got.unwrap();
                if n % 2 == 0 {
                    continue;
                }
                odd.push(n);
            }
            default => break,
        }
    }
    assert_eq!(odd, [1, 3, 5, 7, 9]);
}

#[test]
fn break_with_a_value_and_a_label() {
    let (_tx, rx) = holding(0..10);
    let idle = never::<u8>();
    let found = 'outer: loop {
        loop {
            select! {
                recv(rx) -> got => if got == Ok(7) { break 'outer got },
                recv(idle) -> _ => continue 'outer,
            }
        }
    };
    assert_eq!(found, Ok(7));
    assert_eq!(rx.len(), 2);
}

#[test]
fn while_and_for_loops_are_left_too() {
    let (_tx, rx) = holding(0..10);
    let mut turns = 0;
    while turns < 100 {
        turns += 1;
        select! { recv(rx) -> got => if got == Ok(3) { break }, default => unreachable!() }
    }
    assert_eq!(turns, 4);
    for turn in 0..100 {
        select_biased! { recv(rx) -> _ => continue, default => { turns = turn; break } }
    }
    assert_eq!(turns, 6);
}

#[test]
fn return_and_question_mark_leave_the_function() {
    fn take(rx: &Receiver<u8>) -> Result<u8, RecvError> {
        loop {
            select! {
                recv(rx) -> got => {
                    let n = got?;
                    if n > 2 {
                        return Ok(n);
                    }
                }
                recv(never::<u8>()) -> _ => unreachable!(),
            }
        }
    }
    let (tx, rx) = holding([1, 2, 3, 1]);
    drop(tx);
    assert_eq!(take(&rx), Ok(3));
    assert_eq!(take(&rx), Err(RecvError));
}

#[test]
fn channels_are_given_as_values_references_and_smart_pointers() {
    let (tx, rx) = holding(0..9);
    let by_arc = Arc::new(rx.clone());
    let by_rc = Rc::new(tx.clone());
    let reference = &rx;
    select! { recv(rx) -> got => assert_eq!(got, Ok(0)) }
    select! { recv(&rx) -> got => assert_eq!(got, Ok(1)) }
    select! { recv(&&rx) -> got => assert_eq!(got, Ok(2)), default => panic!() }
    select! { recv(reference) -> got => assert_eq!(got, Ok(3)), recv(never::<u8>()) -> _ => panic!() }
    select! { recv(by_arc) -> got => assert_eq!(got, Ok(4)), recv(&never::<u8>()) -> _ => panic!() }
    select! { recv(Box::new(rx.clone())) -> got => assert_eq!(got, Ok(5)), recv(never::<u8>()) -> _ => panic!() }
    select! { recv(rx.clone()) -> got => assert_eq!(got, Ok(6)), default(ms(1)) => panic!() }
    select! { send(by_rc, 9) -> sent => sent.unwrap() }
    select! { send(&tx, 10) -> sent => sent.unwrap(), recv(never::<u8>()) -> _ => panic!() }
    select! { send(tx.clone(), 11) -> sent => sent.unwrap(), default => panic!() }
    // All of them are still ours.
    assert!(rx.try_iter().eq([7, 8, 9, 10, 11]));
    drop((tx, by_rc, by_arc));
}

#[test]
fn channels_are_fields_elements_and_results_of_calls() {
    struct Ends {
        tx: Sender<u8>,
        rxs: Vec<Receiver<u8>>,
    }
    impl Ends {
        fn rx(&self, n: usize) -> &Receiver<u8> {
            &self.rxs[n]
        }
    }
    let (tx, rx) = unbounded();
    let ends = Ends { tx, rxs: vec![never(), rx] };
    select! { send(ends.tx, 1) -> sent => sent.unwrap(), recv(ends.rxs[0]) -> _ => unreachable!() }
    select! { recv(ends.rxs[0]) -> _ => unreachable!(), recv(ends.rxs[1]) -> got => assert_eq!(got, Ok(1)) }
    select! { send(&ends.tx, 2) -> sent => sent.unwrap() }
    select! { recv(ends.rx(0)) -> _ => unreachable!(), recv(ends.rx(1)) -> got => assert_eq!(got, Ok(2)) }
    let by_mut = &mut { ends };
    by_mut.rxs.swap(0, 1);
    select! { recv(by_mut.rxs[1]) -> _ => unreachable!(), default => {} }
}

#[test]
fn a_temporary_channel_lives_until_it_is_chosen() {
    let start = Instant::now();
    select! {
        recv(after(ms(20))) -> told => assert!(told.unwrap() >= start + ms(20)),
        recv(tick(LONG)) -> _ => unreachable!(),
        recv(never::<Vec<u8>>()) -> _ => unreachable!(),
    }
    assert!(start.elapsed() >= ms(20));
    select! { recv(holding([String::from("kept")]).1) -> got => assert_eq!(got.unwrap(), "kept") }
}

struct Noted<'a, T>(&'static str, &'a RefCell<Vec<&'static str>>, T);

impl<T> Deref for Noted<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.2
    }
}

impl<T> Drop for Noted<'_, T> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

#[test]
fn temporaries_outlive_the_body_and_go_last_first() {
    let notes = RefCell::new(Vec::new());
    let note = |what| notes.borrow_mut().push(what);
    let (_tx, rx) = holding([1, 2]);
    select! {
        recv(Noted("first", &notes, rx.clone())) -> _ => note("body"),
        recv(Noted("second", &notes, never::<u8>())) -> _ => unreachable!(),
    }
    assert_eq!(notes.take(), ["body", "second", "first"]);
    select! { recv(Noted("only", &notes, rx.clone())) -> _ => note("body"), default => unreachable!() }
    assert_eq!(notes.take(), ["body", "only"]);
    select! { recv(Noted("only", &notes, rx.clone())) -> _ => unreachable!(), default => note("default") }
    assert_eq!(notes.take(), ["default", "only"]);
}

#[test]
fn channels_then_the_timeout_then_only_the_chosen_message_are_evaluated() {
    let notes = RefCell::new(Vec::new());
    let note = |what| notes.borrow_mut().push(what);
    let (full, _full_rx) = full();
    let (tx, rx) = unbounded();
    select! {
        recv({ note("r1"); never::<u8>() }) -> _ => unreachable!(),
        send({ note("s1"); full.clone() }, { note("m1"); 1 }) -> _ => unreachable!(),
        default({ note("timeout"); ms(1) }) => panic!("timed out"),
        send({ note("s2"); tx.clone() }, { note("m2"); 2 }) -> sent => { note("body"); sent.unwrap() }
        recv({ note("r2"); never::<u8>() }) -> _ => unreachable!(),
    }
    assert_eq!(notes.take(), ["r1", "s1", "s2", "r2", "timeout", "m2", "body"]);
    select! {
        send({ note("s1"); full.clone() }, { note("m1"); 1 }) -> _ => unreachable!(),
        default({ note("timeout"); ms(1) }) => note("default"),
    }
    assert_eq!(notes.take(), ["s1", "timeout", "default"]);
    select! {
        default => note("default"),
        send({ note("s1"); full }, { note("m1"); 1 }) -> _ => unreachable!(),
    }
    assert_eq!(notes.take(), ["s1", "default"]);
    select_biased! {
        send({ note("s1"); &tx }, { note("m1"); 1 }) -> sent => { note("body"); sent.unwrap() }
        send({ note("s2"); &tx }, { note("m2"); 1 }) -> _ => unreachable!(),
    }
    assert_eq!(notes.take(), ["s1", "s2", "m1", "body"]);
    assert!(rx.try_iter().eq([2, 1]));
}

#[test]
fn each_channel_expression_is_evaluated_once() {
    let calls = Cell::new(0);
    let (_tx, rx) = holding([1]);
    let channel = || {
        calls.set(calls.get() + 1);
        &rx
    };
    select! { recv(channel()) -> got => assert!(got.is_ok()), recv(never::<u8>()) -> _ => {} }
    assert_eq!(calls.get(), 1);
    select! { recv(channel()) -> _ => unreachable!(), recv(channel()) -> _ => unreachable!(), default(ms(5)) => {} }
    assert_eq!(calls.get(), 3);
}

#[test]
fn arms_borrow_and_change_what_is_around_them() {
    let (tx, rx) = holding([1, 2, 3]);
    drop(tx);
    let mut total = 0;
    let mut log = Vec::new();
    while let Some(()) = select! {
        recv(rx) -> got => got.ok().map(|n| { total += n; log.push(n) }),
        recv(never::<()>()) -> _ => None,
    } {}
    assert_eq!((total, log), (6, vec![1, 2, 3]));
}

#[test]
fn a_select_inside_an_arm() {
    let (_tx_a, a) = holding([1]);
    let (_tx_b, b) = holding([2]);
    let sum = select! {
        recv(a) -> x => select! {
            recv(b) -> y => x.unwrap() + y.unwrap(),
            recv(a) -> _ => unreachable!(),
        },
        recv(never::<u8>()) -> _ => 0,
    };
    assert_eq!(sum, 3);
}

#[test]
fn a_select_inside_a_channel_expression_and_a_message() {
    let (_tx_a, a) = holding([1]);
    let (_tx_b, b) = holding([2]);
    let (out, collected) = bounded(1);
    select! {
        recv(select! { recv(a) -> _ => &b, default => &a }) -> got => assert_eq!(got, Ok(2)),
        recv(never::<u8>()) -> _ => unreachable!(),
    }
    select! {
        send(out, select! { recv(a) -> _ => 1, default => 2 }) -> sent => sent.unwrap(),
        default => unreachable!(),
    }
    assert_eq!(collected.try_recv(), Ok(2));
}

#[test]
fn an_arm_may_use_its_own_channel() {
    let (tx, rx) = holding([1, 2]);
    select! {
        recv(rx) -> got => {
            assert_eq!(got, Ok(1));
            assert_eq!(rx.recv(), Ok(2));
            tx.send(3).unwrap();
            select! { recv(rx) -> got => assert_eq!(got, Ok(3)), default => panic!() }
        }
        recv(rx) -> got => {
            assert_eq!(got, Ok(1));
            assert_eq!(rx.try_iter().collect::<Vec<_>>(), [2]);
        }
    }
}

#[test]
fn a_channel_given_by_name_is_only_borrowed() {
    let (tx, rx) = holding([1]);
    let mut slot = Some(rx);
    if let Some(rx) = slot.take() {
        select! { recv(rx) -> got => assert_eq!(got, Ok(1)) }
        drop(rx);
    }
    assert_eq!(tx.send(2), Err(SendError(2)));
}

#[test]
fn names_inside_the_macro_do_not_clash_with_ours() {
    // Such names as an implementation may want to use itself.
    let (s, r) = holding([1u32]);
    let (sel, oper, index, token, timeout, res, msg, _sel, _r, _s) = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
    let total: u32 = select! {
        recv(r) -> msg => msg.unwrap() + sel + oper + index + token + timeout + res + _sel + _r + _s,
        send(full().0, 0) -> _ => 0,
        default(Duration::from_millis(timeout as u64)) => 0,
    };
    assert_eq!(total, 1 + 1 + 2 + 3 + 4 + 5 + 6 + 8 + 9 + 10);
    assert_eq!(msg, 7);
    select! { send(s, msg + res + oper) -> sent => sent.unwrap(), recv(never::<u8>()) -> _ => {} }
    assert_eq!(r.try_recv(), Ok(15));
}

#[test]
fn the_macros_work_by_path_and_under_shadowed_names() {
    #[allow(dead_code, reason = "only its name matters")]
    enum Option {
        None,
    }
    #[allow(dead_code, reason = "only its name matters")]
    struct Result;
    let (_tx, rx) = holding([1, 2]);
    chappe::tube::select! { recv(rx) -> got => assert!(got.is_ok()), recv(rx) -> got => assert!(got.is_ok()) }
    chappe::tube::select_biased! { recv(rx) -> got => assert!(got.is_ok()), default => panic!() }
}

#[test]
fn unsized_borrowed_and_generic_messages() {
    fn pass<T: PartialEq + std::fmt::Debug + Clone>(message: T) {
        let (tx, rx) = bounded(1);
        select! { send(tx, message.clone()) -> sent => assert!(sent.is_ok()), recv(never::<T>()) -> _ => panic!() }
        select! { recv(rx) -> got => assert_eq!(got.as_ref(), Ok(&message)), recv(never::<T>()) -> _ => panic!() }
    }
    let text = String::from("borrowed");
    pass::<Box<str>>("boxed".into());
    pass(text.as_str());
    pass(&[1, 2, 3][..]);
    pass(());
    pass((1u8, 2u64, "three"));
}
