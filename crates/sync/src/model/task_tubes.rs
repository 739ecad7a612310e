//! Tasks at the ends of tubes, for the explorer.

use super::named::{message, of_me};
use super::tubes::{got, received};
use super::{Actor, Came, Dropped, Got, NamedAt, TaskEnd, TubeAt};
use chappe_tube::body::arms::{In, Out};
use chappe_tube::letter::Letter;
use chappe_tube::named::arms::{self, Not, recv_taken, send_taken, try_recv, try_send};
use chappe_wait::operation::Taken;
use std::mem::MaybeUninit;

impl Actor {
    /// Receives as a task. Dropped: nothing.
    pub fn recv_as_task(&self, tube: &TubeAt, dropped: Dropped) -> Got {
        let tube = tube.tube();
        loop {
            match received(tube.try_recv()) {
                Got::Nothing => {}
                got => return got,
            }
            match self.wait_as_task(&In(tube), || 1, 0, || (), dropped) {
                (TaskEnd::Over(Ok(())), Some(taken)) => match received(tube.recv_taken(taken)) {
                    Got::Nothing => {}
                    got => return got,
                },
                (TaskEnd::Over(over), _) => panic!("{over:?}"),
                _ => return Got::Nothing,
            }
        }
    }

    /// Sends as a task. Dropped: nothing, unless another thread had met it.
    pub fn send_as_task(&self, tube: &TubeAt, message: u64, dropped: Dropped) -> Got {
        let tube = tube.tube();
        loop {
            match got(tube.try_send(message)) {
                Got::Nothing => {}
                got => return got,
            }
            let letter = tube.has_meetings().then(|| Letter::new(message));
            let packet = letter.as_ref().map_or(0, Letter::address);
            let (end, taken) = self.wait_as_task(&Out(tube), || 1, packet, || (), dropped);
            let is_met = |taken: &Taken| packet != 0 && taken.word.0 == packet;
            if taken.as_ref().is_some_and(is_met) {
                letter.expect("it has a packet").leave();
                return Got::Sent;
            }
            letter.into_iter().for_each(|letter| assert_eq!(letter.open(), message));
            match (end, taken) {
                (TaskEnd::Over(Ok(())), Some(taken)) => match got(tube.send_taken(taken, message)) {
                    Got::Nothing => {}
                    got => return got,
                },
                (TaskEnd::Over(over), _) => panic!("{over:?}"),
                _ => return Got::Nothing,
            }
        }
    }

    /// Sends to another process as a task. Dropped: nothing.
    pub fn put_as_task(&self, tube: NamedAt, message: u64, dropped: Dropped) -> Came {
        let (pipe, record, me) = (tube.pipe(), message.to_le_bytes(), of_me(self));
        loop {
            match try_send(&pipe, me, &record) {
                Err(Not::Now) => {}
                over => return over.map_or_else(Came::from, |()| Came::Sent),
            }
            match self.wait_as_task(&arms::Out(pipe), || 1, 0, || (), dropped) {
                (TaskEnd::Over(Ok(())), Some(taken)) => match send_taken(&pipe, me, taken, &record) {
                    Err(Not::Now) => {}
                    over => return over.map_or_else(Came::from, |()| Came::Sent),
                },
                (TaskEnd::Over(_), _) => return Came::Dead,
                _ => return Came::Nothing,
            }
        }
    }

    /// Receives from another process as a task. Dropped: nothing.
    pub fn get_as_task(&self, tube: NamedAt, dropped: Dropped) -> Came {
        let (pipe, mut buffer) = (tube.pipe(), [MaybeUninit::new(0); 8]);
        let received = match try_recv(&pipe, &mut buffer) {
            Err(Not::Now) => match self.wait_as_task(&arms::In(pipe), || 1, 0, || (), dropped) {
                (TaskEnd::Over(Ok(())), Some(taken)) => recv_taken(&pipe, taken, &mut buffer),
                (TaskEnd::Over(_), _) => Err(Not::Dead),
                _ => Err(Not::Now),
            },
            over => over,
        };
        received.map_or_else(Came::from, |received| Came::Message(message(buffer), received.again))
    }
}
