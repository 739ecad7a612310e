//! What a reference tells the clocks of its graph that are locked to it: how many frames went by, and when.
//!
//! Each [`Graph`](crate::Graph) has [`References`] of its own, so graphs that share their kinds share no clock. Bodies meet there when they are made: a
//! clock leaves a [`Teller`] under the name of its reference, and the reference takes all of its name before its first block.
//!
//! - I1: a reference never waits for a clock. What a full tube has no room for is told with a later telling, and at the end by way of `rest`.
//! - I2: a clock hears of all frames before it learns that its reference has ended: `rest` is written before the tube's sender goes.

use crate::contest::Contest;
use chappe_sync::tube::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Tellings that wait for a clock whose thread is held up; further ones are told together.
pub const TELLINGS: usize = 256;

/// So many frames have gone by, at this time of the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Telling {
    pub at: u64,
    pub frames: u64,
    pub rate: f64,
}

/// Where bodies of a graph meet: the clocks that wait for the first telling of a reference, by its name; and its jobs.
#[derive(Default)]
pub struct References(Mutex<HashMap<String, Vec<Teller>>>, pub Contest);

impl fmt::Debug for References {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("References")
    }
}

impl References {
    /// For a clock: what it hears of the reference of that name.
    pub fn listen(&self, name: &str) -> Listener {
        let (teller, listener) = pair();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(name.to_owned()).or_default().push(teller);
        listener
    }

    /// For the reference of that name: the clocks that listen.
    pub fn take(&self, name: &str) -> Vec<Teller> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name).unwrap_or_default()
    }
}

/// A reference's end of what it tells one clock.
pub struct Teller {
    tell: Sender<Telling>,
    /// Frames that the clock was not told yet.
    untold: u64,
    rest: Arc<Mutex<Option<Telling>>>,
}

/// The clock's end.
pub struct Listener {
    hear: Receiver<Telling>,
    rest: Arc<Mutex<Option<Telling>>>,
}

/// Both ends.
pub fn pair() -> (Teller, Listener) {
    let (tell, hear) = tube::bounded(TELLINGS);
    let rest = Arc::default();
    (Teller { tell, untold: 0, rest: Arc::clone(&rest) }, Listener { hear, rest })
}

impl Teller {
    /// So many frames more have gone by. Never waits (I1).
    pub fn tell(&mut self, at: u64, frames: u64, rate: f64) {
        self.untold += frames;
        // A clock that is held up is told later; one that has ended needs nothing.
        if self.tell.try_send(Telling { at, frames: self.untold, rate }).is_ok() {
            self.untold = 0;
        }
    }

    /// No frame comes any more. Never waits (I1).
    pub fn end(self, at: u64, rate: f64) {
        if self.untold > 0 {
            // I2: the sender goes when this returns.
            *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Telling { at, frames: self.untold, rate });
        }
    }
}

impl Listener {
    /// What was told last, where the tube had no room: once, after the tube's end (I2).
    fn rest(&self) -> Option<Telling> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The next telling, if there is one.
    ///
    /// # Errors
    /// There is none, or none will come.
    pub fn try_recv(&self) -> Result<Telling, TryRecvError> {
        match self.hear.try_recv() {
            Err(TryRecvError::Disconnected) => self.rest().ok_or(TryRecvError::Disconnected),
            told => told,
        }
    }

    /// Waits for the next telling until then; for ever if no time is given.
    ///
    /// # Errors
    /// None has come by then, or none will come.
    pub fn recv(&self, until: Option<Instant>) -> Result<Telling, RecvTimeoutError> {
        let told = match until {
            Some(until) => self.hear.recv_deadline(until),
            None => self.hear.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match told {
            Err(RecvTimeoutError::Disconnected) => self.rest().ok_or(RecvTimeoutError::Disconnected),
            told => told,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_reference_ends_without_waiting_for_a_clock_that_hears_nothing() {
        let (mut teller, listener) = pair();
        (0..TELLINGS as u64 + 44).for_each(|at| teller.tell(at, 64, 48_000.0));
        // On a thread of its own, so that one that waits is a failure and no test without end.
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            teller.end(1_000, 48_000.0);
            let _ = done.send(());
        });
        ended.recv_timeout(Duration::from_secs(20)).expect("the end waits for the clock");
        let told: Vec<Telling> = std::iter::from_fn(|| listener.recv(None).ok()).collect();
        assert_eq!(told.len(), TELLINGS + 1);
        assert_eq!(told[TELLINGS], Telling { at: 1_000, frames: 44 * 64, rate: 48_000.0 });
        assert_eq!(told.iter().map(|t| t.frames).sum::<u64>(), 300 * 64);
        assert_eq!(listener.try_recv(), Err(TryRecvError::Disconnected));
    }

    #[test]
    fn the_rest_comes_by_each_way_of_hearing_it() {
        let told = |hears: fn(&Listener) -> Option<Telling>| {
            let (mut teller, listener) = pair();
            (0..=TELLINGS as u64).for_each(|at| teller.tell(at, 1, 1.0));
            teller.end(0, 1.0);
            std::iter::from_fn(|| hears(&listener)).map(|t| t.frames).sum::<u64>()
        };
        let now = |listener: &Listener| listener.recv(Some(Instant::now())).ok();
        for hears in [|l: &Listener| l.try_recv().ok(), |l: &Listener| l.recv(None).ok(), now] {
            assert_eq!(told(hears), TELLINGS as u64 + 1);
        }
    }
}
