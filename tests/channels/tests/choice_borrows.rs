//! An arm may do what it likes with what its operands borrow: the choice has been made. In every edition: `tests/edition-2021`
//! has this file as a suite of its own.

use chappe::tube::{Receiver, RecvError, Sender, bounded, never, unbounded};
use chappe::{AcquireError, DownError, Permit, Pool, Semaphore, select, select_biased};
use std::time::Duration;

/// Somebody with ends of tubes, a semaphore and a pool, whose methods change it.
struct Desk {
    rx: Receiver<u32>,
    tx: Sender<u32>,
    stop: Semaphore,
    slots: Pool,
    log: Vec<u32>,
}

impl Desk {
    fn new() -> (Desk, Sender<u32>, Receiver<u32>) {
        let ((tx, rx), (out, other)) = (bounded(4), bounded(4));
        let (stop, slots) = (Semaphore::private(0).unwrap(), Pool::private(1).unwrap());
        (Desk { rx, tx: out, stop, slots, log: Vec::new() }, tx, other)
    }

    fn handle(&mut self, message: Result<u32, RecvError>) {
        match message {
            Ok(message) => self.log.push(message),
            Err(RecvError) => self.rx = never(),
        }
    }

    fn stopped(&mut self, how: Result<(), DownError>) {
        how.unwrap();
        self.stop = Semaphore::private(0).unwrap();
        self.log.push(100);
    }

    fn step(&mut self) {
        select! {
            recv(self.rx) -> message => self.handle(message),
            down(self.stop) -> how => self.stopped(how),
            default => self.log.push(200),
        }
    }

    fn step_biased(&mut self) {
        select_biased! {
            down(self.stop) -> how => self.stopped(how),
            recv(self.rx) -> message => self.handle(message),
            send(self.tx, self.log.len() as u32) -> sent => {
                sent.unwrap();
                self.tx = self.tx.clone();
                self.log.push(300);
            }
            default(Duration::ZERO) => self.log.push(200),
        }
    }

    fn take(&mut self) {
        // The permit borrows the pool, and nothing else.
        select! {
            acquire(self.slots) -> permit => {
                self.log.push(400);
                let permit: Result<Permit<'_>, AcquireError> = permit;
                drop(permit.unwrap());
                self.slots = Pool::private(2).unwrap();
            }
            recv(self.rx) -> message => self.handle(message),
        }
    }
}

#[test]
fn an_arm_changes_whom_its_operand_belongs_to() {
    let (mut desk, tx, other) = Desk::new();
    tx.send(1).unwrap();
    desk.step();
    desk.step();
    desk.stop.up().unwrap();
    desk.step();
    desk.stop.up().unwrap();
    tx.send(2).unwrap();
    desk.step_biased();
    desk.step_biased();
    desk.step_biased();
    assert_eq!(other.recv(), Ok(5));
    desk.take();
    assert_eq!(desk.slots.permits(), 2);
    assert_eq!(desk.log, [1, 200, 100, 100, 2, 300, 400]);
    drop(tx);
    desk.step();
    assert_eq!(select! { recv(desk.rx) -> _ => 0, default => 1 }, 1, "it was replaced by one that never receives");
}

#[test]
fn an_arm_replaces_its_own_operand() {
    let ((tx, mut rx), (other_tx, mut other)) = (unbounded(), unbounded());
    (0..3).for_each(|n| tx.send(n).unwrap());
    (10..13).for_each(|n| other_tx.send(n).unwrap());
    drop((tx, other_tx));
    let (mut got, mut open) = (Vec::new(), 2);
    while open > 0 {
        select! {
            recv(rx) -> m => match m {
                Ok(m) => got.push(m),
                Err(_) => { rx = never(); open -= 1 }
            },
            recv(other) -> m => match m {
                Ok(m) => got.push(m),
                Err(_) => { other = never(); open -= 1 }
            },
        }
    }
    got.sort_unstable();
    assert_eq!(got, [0, 1, 2, 10, 11, 12]);
    let (mut sink, source) = bounded(1);
    select_biased! {
        send(sink, 1) -> sent => { sent.unwrap(); sink = bounded(0).0 }
        default => unreachable!(),
    }
    assert_eq!(source.try_recv(), Ok(1));
    assert!(sink.try_send(2).is_err());
}

#[test]
fn a_default_replaces_an_operand_and_a_semaphore_too() {
    let (mut rx, mut stop) = (never::<u8>(), Semaphore::private(0).unwrap());
    let (_tx, full) = bounded(1);
    _tx.send(7).unwrap();
    select! {
        recv(rx) -> _ => unreachable!(),
        down(stop) -> _ => unreachable!(),
        default => { rx = full; stop = Semaphore::private(1).unwrap(); }
    }
    assert_eq!(rx.try_recv(), Ok(7));
    select_biased! {
        down(stop) -> r => { r.unwrap(); stop = Semaphore::private(5).unwrap() }
        recv(rx) -> _ => unreachable!(),
    }
    assert_eq!(stop.value(), 5);
}

/// Within the recursion limit that every crate has unless it says otherwise.
#[test]
fn thirty_two_arms_are_none_too_many() {
    let (tx, rx): (Vec<_>, Vec<_>) = (0..32).map(|_| unbounded::<usize>()).unzip();
    for n in [0, 15, 31] {
        tx[n].send(n).unwrap();
        let got = select! {
            recv(rx[0]) -> m => (m.unwrap(), 0),
            recv(rx[1]) -> m => (m.unwrap(), 1),
            recv(rx[2]) -> m => (m.unwrap(), 2),
            recv(rx[3]) -> m => (m.unwrap(), 3),
            recv(rx[4]) -> m => (m.unwrap(), 4),
            recv(rx[5]) -> m => (m.unwrap(), 5),
            recv(rx[6]) -> m => (m.unwrap(), 6),
            recv(rx[7]) -> m => (m.unwrap(), 7),
            recv(rx[8]) -> m => (m.unwrap(), 8),
            recv(rx[9]) -> m => (m.unwrap(), 9),
            recv(rx[10]) -> m => (m.unwrap(), 10),
            recv(rx[11]) -> m => (m.unwrap(), 11),
            recv(rx[12]) -> m => (m.unwrap(), 12),
            recv(rx[13]) -> m => (m.unwrap(), 13),
            recv(rx[14]) -> m => (m.unwrap(), 14),
            recv(rx[15]) -> m => (m.unwrap(), 15),
            recv(rx[16]) -> m => (m.unwrap(), 16),
            recv(rx[17]) -> m => (m.unwrap(), 17),
            recv(rx[18]) -> m => (m.unwrap(), 18),
            recv(rx[19]) -> m => (m.unwrap(), 19),
            recv(rx[20]) -> m => (m.unwrap(), 20),
            recv(rx[21]) -> m => (m.unwrap(), 21),
            recv(rx[22]) -> m => (m.unwrap(), 22),
            recv(rx[23]) -> m => (m.unwrap(), 23),
            recv(rx[24]) -> m => (m.unwrap(), 24),
            recv(rx[25]) -> m => (m.unwrap(), 25),
            recv(rx[26]) -> m => (m.unwrap(), 26),
            recv(rx[27]) -> m => (m.unwrap(), 27),
            recv(rx[28]) -> m => (m.unwrap(), 28),
            recv(rx[29]) -> m => (m.unwrap(), 29),
            recv(rx[30]) -> m => (m.unwrap(), 30),
            recv(rx[31]) -> m => (m.unwrap(), 31),
            default => unreachable!(),
        };
        assert_eq!(got, (n, n));
    }
    for n in [31, 7] {
        tx[n].send(n).unwrap();
    }
    let got = select_biased! {
        recv(rx[0]) -> m => { (m.unwrap(), 0) },
        recv(rx[1]) -> m => { (m.unwrap(), 1) },
        recv(rx[2]) -> m => { (m.unwrap(), 2) },
        recv(rx[3]) -> m => { (m.unwrap(), 3) },
        recv(rx[4]) -> m => { (m.unwrap(), 4) },
        recv(rx[5]) -> m => { (m.unwrap(), 5) },
        recv(rx[6]) -> m => { (m.unwrap(), 6) },
        recv(rx[7]) -> m => { (m.unwrap(), 7) },
        recv(rx[8]) -> m => { (m.unwrap(), 8) },
        recv(rx[9]) -> m => { (m.unwrap(), 9) },
        recv(rx[10]) -> m => { (m.unwrap(), 10) },
        recv(rx[11]) -> m => { (m.unwrap(), 11) },
        recv(rx[12]) -> m => { (m.unwrap(), 12) },
        recv(rx[13]) -> m => { (m.unwrap(), 13) },
        recv(rx[14]) -> m => { (m.unwrap(), 14) },
        recv(rx[15]) -> m => { (m.unwrap(), 15) },
        recv(rx[16]) -> m => { (m.unwrap(), 16) },
        recv(rx[17]) -> m => { (m.unwrap(), 17) },
        recv(rx[18]) -> m => { (m.unwrap(), 18) },
        recv(rx[19]) -> m => { (m.unwrap(), 19) },
        recv(rx[20]) -> m => { (m.unwrap(), 20) },
        recv(rx[21]) -> m => { (m.unwrap(), 21) },
        recv(rx[22]) -> m => { (m.unwrap(), 22) },
        recv(rx[23]) -> m => { (m.unwrap(), 23) },
        recv(rx[24]) -> m => { (m.unwrap(), 24) },
        recv(rx[25]) -> m => { (m.unwrap(), 25) },
        recv(rx[26]) -> m => { (m.unwrap(), 26) },
        recv(rx[27]) -> m => { (m.unwrap(), 27) },
        recv(rx[28]) -> m => { (m.unwrap(), 28) },
        recv(rx[29]) -> m => { (m.unwrap(), 29) },
        recv(rx[30]) -> m => { (m.unwrap(), 30) },
        recv(rx[31]) -> m => { (m.unwrap(), 31) },
    };
    assert_eq!(got, (7, 7));
}
