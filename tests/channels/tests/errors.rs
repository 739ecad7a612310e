//! Each error says what happened, can be matched and compared, and hands the unsent message back.

use chappe::tube::{
    ReadyTimeoutError, RecvError, RecvTimeoutError, Select, SelectTimeoutError, SendError, SendTimeoutError,
    TryReadyError, TryRecvError, TrySelectError, TrySendError, bounded,
};

use crate::support::*;
use std::error::Error;

/// A message that can neither be compared nor shown nor copied.
struct Opaque;

#[test]
fn errors_of_sending_are_shown_without_their_message() {
    // The quotation marks are part of it.
    assert_eq!(format!("{:?}", SendError(Opaque)), r#""SendError(..)""#);
    assert_eq!(format!("{:?}", TrySendError::Full(Opaque)), r#""Full(..)""#);
    assert_eq!(format!("{:?}", TrySendError::Disconnected(Opaque)), r#""Disconnected(..)""#);
    // The two variants of this one look alike.
    assert_eq!(format!("{:?}", SendTimeoutError::Timeout(Opaque)), r#""SendTimeoutError(..)""#);
    assert_eq!(format!("{:?}", SendTimeoutError::Disconnected(Opaque)), r#""SendTimeoutError(..)""#);
}

#[test]
fn errors_of_sending_say_what_happened() {
    assert_eq!(SendError(Opaque).to_string(), "sending on a disconnected channel");
    assert_eq!(TrySendError::Full(Opaque).to_string(), "sending on a full channel");
    assert_eq!(TrySendError::Disconnected(Opaque).to_string(), "sending on a disconnected channel");
    assert_eq!(SendTimeoutError::Timeout(Opaque).to_string(), "timed out waiting on send operation");
    assert_eq!(SendTimeoutError::Disconnected(Opaque).to_string(), "sending on a disconnected channel");
}

#[test]
fn errors_of_receiving_are_shown_by_name() {
    assert_eq!(format!("{RecvError:?}"), "RecvError");
    assert_eq!(format!("{:?}", TryRecvError::Empty), "Empty");
    assert_eq!(format!("{:?}", TryRecvError::Disconnected), "Disconnected");
    assert_eq!(format!("{:?}", RecvTimeoutError::Timeout), "Timeout");
    assert_eq!(format!("{:?}", RecvTimeoutError::Disconnected), "Disconnected");
}

#[test]
fn errors_of_receiving_say_what_happened() {
    assert_eq!(RecvError.to_string(), "receiving on an empty and disconnected channel");
    assert_eq!(TryRecvError::Empty.to_string(), "receiving on an empty channel");
    assert_eq!(TryRecvError::Disconnected.to_string(), "receiving on an empty and disconnected channel");
    assert_eq!(RecvTimeoutError::Timeout.to_string(), "timed out waiting on receive operation");
    assert_eq!(RecvTimeoutError::Disconnected.to_string(), "channel is empty and disconnected");
}

#[test]
fn errors_of_choosing_are_shown_and_say_what_happened() {
    assert_eq!(format!("{TrySelectError:?}"), "TrySelectError");
    assert_eq!(format!("{SelectTimeoutError:?}"), "SelectTimeoutError");
    assert_eq!(format!("{TryReadyError:?}"), "TryReadyError");
    assert_eq!(format!("{ReadyTimeoutError:?}"), "ReadyTimeoutError");
    assert_eq!(TrySelectError.to_string(), "all operations in select would block");
    assert_eq!(SelectTimeoutError.to_string(), "timed out waiting on select");
}

#[test]
fn choosing_fails_with_the_error_of_its_form() {
    let mut choice = Select::new();
    assert_eq!(choice.try_select().err(), Some(TrySelectError));
    assert_eq!(choice.select_timeout(ms(1)).err(), Some(SelectTimeoutError));
    assert_eq!(choice.select_deadline(std::time::Instant::now()).err(), Some(SelectTimeoutError));
    assert_eq!(choice.try_ready(), Err(TryReadyError));
    assert_eq!(choice.ready_timeout(ms(1)), Err(ReadyTimeoutError));
    assert_eq!(choice.ready_deadline(std::time::Instant::now()), Err(ReadyTimeoutError));
}

#[test]
fn the_kind_of_a_failed_send_can_be_asked() {
    let full = TrySendError::Full(Opaque);
    assert!(full.is_full() && !full.is_disconnected());
    let gone = TrySendError::Disconnected(Opaque);
    assert!(!gone.is_full() && gone.is_disconnected());
    let late = SendTimeoutError::Timeout(Opaque);
    assert!(late.is_timeout() && !late.is_disconnected());
    let gone = SendTimeoutError::Disconnected(Opaque);
    assert!(!gone.is_timeout() && gone.is_disconnected());
}

#[test]
fn the_kind_of_a_failed_receive_can_be_asked() {
    assert!(TryRecvError::Empty.is_empty() && !TryRecvError::Empty.is_disconnected());
    assert!(!TryRecvError::Disconnected.is_empty() && TryRecvError::Disconnected.is_disconnected());
    assert!(RecvTimeoutError::Timeout.is_timeout() && !RecvTimeoutError::Timeout.is_disconnected());
    assert!(!RecvTimeoutError::Disconnected.is_timeout() && RecvTimeoutError::Disconnected.is_disconnected());
}

#[test]
fn the_message_comes_out_of_every_error_of_sending() {
    assert_eq!(SendError(String::from("a")).into_inner(), "a");
    assert_eq!(TrySendError::Full(String::from("b")).into_inner(), "b");
    assert_eq!(TrySendError::Disconnected(String::from("c")).into_inner(), "c");
    assert_eq!(SendTimeoutError::Timeout(String::from("d")).into_inner(), "d");
    assert_eq!(SendTimeoutError::Disconnected(String::from("e")).into_inner(), "e");
    // The fields are public too.
    let SendError(message) = SendError(6);
    assert_eq!(message, 6);
    assert_eq!(SendError(7).0, 7);
}

#[test]
fn the_plain_errors_turn_into_the_richer_ones() {
    assert_eq!(TrySendError::from(SendError(1)), TrySendError::Disconnected(1));
    assert_eq!(SendTimeoutError::from(SendError(1)), SendTimeoutError::Disconnected(1));
    assert_eq!(TryRecvError::from(RecvError), TryRecvError::Disconnected);
    assert_eq!(RecvTimeoutError::from(RecvError), RecvTimeoutError::Disconnected);
}

#[test]
fn a_question_mark_turns_the_plain_errors_into_the_richer_ones() {
    fn send(message: u8) -> Result<(), TrySendError<u8>> {
        let (tx, _) = bounded(1);
        tx.send(message)?;
        Ok(())
    }
    fn send_soon(message: u8) -> Result<(), SendTimeoutError<u8>> {
        let (tx, _) = bounded(1);
        tx.send(message)?;
        Ok(())
    }
    fn recv() -> Result<u8, TryRecvError> {
        let (_, rx) = bounded(1);
        Ok(rx.recv()?)
    }
    fn recv_soon() -> Result<u8, RecvTimeoutError> {
        let (_, rx) = bounded(1);
        Ok(rx.recv()?)
    }
    assert_eq!(send(3), Err(TrySendError::Disconnected(3)));
    assert_eq!(send_soon(4), Err(SendTimeoutError::Disconnected(4)));
    assert_eq!(recv(), Err(TryRecvError::Disconnected));
    assert_eq!(recv_soon(), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn they_are_errors_that_a_box_can_hold() {
    fn all() -> Vec<Box<dyn Error + Send + Sync>> {
        vec![
            Box::new(SendError(1)),
            Box::new(TrySendError::Full(1)),
            Box::new(SendTimeoutError::Timeout(1)),
            Box::new(RecvError),
            Box::new(TryRecvError::Empty),
            Box::new(RecvTimeoutError::Timeout),
            Box::new(TrySelectError),
            Box::new(SelectTimeoutError),
        ]
    }
    for error in all() {
        assert!(!error.to_string().is_empty());
        assert!(error.source().is_none());
    }
    fn boxed() -> Result<(), Box<dyn Error>> {
        let (tx, _) = bounded(1);
        tx.send(Opaque)?;
        Ok(())
    }
    assert!(boxed().unwrap_err().downcast_ref::<SendError<Opaque>>().is_some());
}

#[test]
fn they_are_compared_by_kind_and_message() {
    assert_eq!(SendError(1), SendError(1));
    assert_ne!(SendError(1), SendError(2));
    assert_ne!(TrySendError::Full(1), TrySendError::Disconnected(1));
    assert_ne!(TrySendError::Full(1), TrySendError::Full(2));
    assert_ne!(SendTimeoutError::Timeout(1), SendTimeoutError::Disconnected(1));
    assert_ne!(SendTimeoutError::Timeout(1), SendTimeoutError::Timeout(2));
    assert_ne!(TryRecvError::Empty, TryRecvError::Disconnected);
    assert_ne!(RecvTimeoutError::Timeout, RecvTimeoutError::Disconnected);
}

#[test]
fn they_are_copied_when_their_message_is() {
    fn copies<T: Copy + PartialEq + std::fmt::Debug>(value: T) {
        let copy = value;
        assert_eq!(copy, value);
    }
    copies(SendError(1));
    copies(TrySendError::Full(1));
    copies(SendTimeoutError::Timeout(1));
    copies(RecvError);
    copies(TryRecvError::Empty);
    copies(RecvTimeoutError::Timeout);
    copies(TrySelectError);
    copies(SelectTimeoutError);
    copies(TryReadyError);
    copies(ReadyTimeoutError);
    let words = TrySendError::Full(String::from("x"));
    assert_eq!(words.clone(), words);
}

#[test]
fn every_variant_can_be_matched_exhaustively() {
    let try_send = |error| match error {
        TrySendError::Full(n) => n,
        TrySendError::Disconnected(n) => n + 10,
    };
    let send_timeout = |error| match error {
        SendTimeoutError::Timeout(n) => n,
        SendTimeoutError::Disconnected(n) => n + 10,
    };
    let try_recv = |error| match error {
        TryRecvError::Empty => 1,
        TryRecvError::Disconnected => 2,
    };
    let recv_timeout = |error| match error {
        RecvTimeoutError::Timeout => 1,
        RecvTimeoutError::Disconnected => 2,
    };
    let (tx, rx) = bounded(0);
    assert_eq!(tx.try_send(1).map_err(try_send), Err(1));
    assert_eq!(tx.send_timeout(1, ms(1)).map_err(send_timeout), Err(1));
    assert_eq!(rx.try_recv().map_err(try_recv), Err(1));
    assert_eq!(rx.recv_timeout(ms(1)).map_err(recv_timeout), Err(1));
    drop(rx);
    assert_eq!(tx.try_send(1).map_err(try_send), Err(11));
    assert_eq!(tx.send_timeout(1, ms(1)).map_err(send_timeout), Err(11));
    let (_, rx) = bounded::<u8>(0);
    assert_eq!(rx.try_recv().map_err(try_recv), Err(2));
    assert_eq!(rx.recv_timeout(ms(1)).map_err(recv_timeout), Err(2));
}
