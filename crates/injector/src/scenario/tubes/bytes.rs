//! Tubes of bytes: a record comes whole, of its own length, or not at all.

use std::sync::atomic::Ordering::SeqCst;

use chappe::tube::named::{NotReceived, NotSent, Receiver, Sender, Tube, TubeOptions};

use super::super::Operation;
use super::super::Scene::{Alone, Met, Stopped};
use super::super::world::{World, fault, fine};
use crate::board::{Fault, Verdict};

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Send,
    Reserve,
    Receive,
    ReceiveInto,
}

#[derive(Clone, Copy)]
struct Bytes {
    name: &'static str,
    how: How,
}

/// The most bytes of a record, and how many records there is room for.
const MOST: usize = 40;
const SLOTS: u32 = 3;
/// The victim has received its record.
const DONE: usize = 16;
/// How many records others have sent.
const SENT: usize = 17;

/// A record of this length: its reader can tell whether it is whole.
fn record(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + length) as u8).collect()
}

fn is_whole(it: &[u8]) -> bool {
    *it == record(it.len())
}

/// The victim's, and one that another process sends.
const VICTIMS: usize = 31;
const OTHERS: usize = 12;

fn tube() -> Result<Tube<[u8]>, (Fault, String)> {
    fine("opening the tube", Tube::open("t"))
}

fn sender() -> Result<Sender<[u8]>, (Fault, String)> {
    fine("attaching a sender", tube()?.sender())
}

fn receiver() -> Result<Receiver<[u8]>, (Fault, String)> {
    fine("attaching a receiver", tube()?.receiver())
}

/// The lengths of all records that are there.
fn drain(from: &Receiver<[u8]>) -> Result<Vec<usize>, (Fault, String)> {
    let mut lengths = Vec::new();
    loop {
        match from.try_recv() {
            Ok(it) if is_whole(&it) => lengths.push(it.len()),
            Ok(it) => return fault(Fault::Torn, format!("a torn record: {it:x?}")),
            Err(NotReceived::Empty | NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. }) => {
                return Ok(lengths);
            }
            Err(e) => return fault(Fault::Torn, format!("receiving: {e}")),
        }
    }
}

/// There is room. It is not sent if the only receiver has gone, as the victim may have.
fn send_another(w: &World, out: &Sender<[u8]>) -> Verdict {
    match out.try_send(&record(OTHERS)) {
        Ok(()) => {
            w.stage().word(SENT).fetch_add(1, SeqCst);
            Ok(())
        }
        Err(NotSent::Disconnected { .. }) => Ok(()),
        Err(e) => fault(Fault::Wedged, format!("past the victim: {e}")),
    }
}

impl Bytes {
    fn sends(&self) -> bool {
        matches!(self.how, How::Send | How::Reserve)
    }

    fn operation(self) -> Operation {
        Operation::of(self.name, &[Alone, Met, Stopped])
            .build(move |w| {
                w.make("p", 1)?;
                let options = TubeOptions { slots: SLOTS, size: MOST as u32, ..TubeOptions::default() };
                fine("making the tube", Tube::<[u8]>::create("t", &options))?;
                w.count_waiters_of("t");
                if self.sends() { Ok(()) } else { fine("sending", sender()?.try_send(&record(VICTIMS))) }
            })
            .perform(move |w| {
                w.warm("p");
                if self.sends() {
                    let mut out = sender().expect("there may be many");
                    let it = record(VICTIMS);
                    w.stage().begin();
                    let done = match self.how {
                        How::Send => out.send(&it).is_ok(),
                        _ => out.reserve().is_ok_and(|mut slot| {
                            slot[..VICTIMS].copy_from_slice(&it);
                            slot.commit(VICTIMS).is_ok()
                        }),
                    };
                    w.stage().end(done);
                    std::mem::forget(out);
                    return;
                }
                let into = receiver().expect("there may be many");
                let mut buffer = [0; MOST];
                w.stage().begin();
                let whole = match self.how {
                    How::Receive => into.recv().is_ok_and(|it| is_whole(&it)),
                    _ => into.recv_into(&mut buffer).is_ok_and(|(length, _)| is_whole(&buffer[..length])),
                };
                w.stage().word(DONE).store(1, SeqCst);
                w.stage().end(whole);
                std::mem::forget(into);
            })
            // Another sends too.
            .meet(|w| send_another(w, &sender()?))
            .others(|w| {
                // One slot is the stopped one's at most.
                let out = sender()?;
                (1..SLOTS).try_for_each(|_| send_another(w, &out))
            })
            .check(move |w| {
                // Sees to the victim.
                w.demand(|| chappe::doctor().is_ok() && w.is_recovered(), "the dead victim is not recovered:")?;
                let lengths = drain(&receiver()?)?;
                let its = lengths.iter().filter(|length| **length == VICTIMS).count();
                let (others, sent) = (lengths.len() - its, w.stage().word(SENT).load(SeqCst) as usize);
                let kept = w.stage().word(DONE).load(SeqCst) != 0;
                if its > 1 || kept && its > 0 || others > sent {
                    return fault(Fault::Doubled, format!("there are records of {lengths:?} bytes"));
                }
                if others < sent {
                    return fault(Fault::Lost, format!("{sent} were sent by others, and {others} have come"));
                }
                if self.sends() && w.was_done() && its == 0 {
                    return fault(Fault::Lost, "what the victim had sent has not come");
                }
                let (out, into) = (sender()?, receiver()?);
                let room = || (0..=SLOTS).take_while(|_| out.try_send(&record(OTHERS)).is_ok()).count() as u32;
                let mut had = 0;
                let whole = w.stage().until(|| {
                    had = room();
                    drain(&into).is_ok() && had == SLOTS
                });
                if !whole {
                    return fault(Fault::Leaked, format!("there is room for {had} records, not {SLOTS}"));
                }
                drop((out, into));
                w.in_order(&["p", "t"])
            })
    }
}

/// All of them.
pub fn all() -> Vec<Operation> {
    let scenario = |name, how| Bytes { name, how }.operation();
    vec![
        scenario("tube send, bytes", How::Send),
        scenario("tube reserve, commit, bytes", How::Reserve),
        scenario("tube recv, bytes", How::Receive),
        scenario("tube recv_into, bytes", How::ReceiveInto),
    ]
}
