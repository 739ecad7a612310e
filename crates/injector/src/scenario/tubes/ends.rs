//! The ends of tubes, and tubes themselves: attaching, leaving, sealing, making and removing; and what the dead had in hand.

use chappe::tube::named::{Kind, NotReceived, NotSent, Tube, TubeError, TubeOptions};
use chappe::{Arena, ObjectError};

use super::super::Scene::{Alone, Met, Stopped, StoppedWaiter, Waiters};
use super::super::messages::{ACTOR, Found, HELPER, KEEPER, Message, Part, read};
use super::super::world::{World, fault, fine};
use super::super::{Operation, Reason};
use super::setting::{FEW, SLOTS, attended, check, receiver, sender};
use crate::board::{Fault, INSIDE, Verdict};

/// The victim attaches an end that no process has had. A waiter at the other is told, if the victim had come, when it has died.
fn attach(name: &'static str, kind: Kind, sends: bool) -> Operation {
    Operation::of(name, if sends { &[Alone, Waiters, Met, Stopped] } else { &[Alone, Met, Stopped] })
        .victim_holds(true)
        .held_up_by(Reason::Arena)
        .build(move |w| {
            w.make("p", 1)?;
            w.make_tube("t", kind, SLOTS)
        })
        .perform(move |w| {
            w.warm("p");
            let tube = w.tube("t").expect("the keeper has made it");
            attended(w, kind == Kind::Mpmc);
            w.stage().begin();
            let done = if sends {
                let end = tube.sender();
                end.map(std::mem::forget).is_ok()
            } else {
                tube.receiver().map(std::mem::forget).is_ok()
            };
            // Met: the process that came meanwhile may have the only one.
            w.stage().end(done || w.scene() == Met);
        })
        .wait_each(move |w, which| {
            if which > 0 && kind == Kind::Spsc {
                return Ok(());
            }
            w.fetch_slowly("t").map(drop)
        })
        .meet(move |w| {
            let tube = w.tube("t")?;
            if sends { w.is_single(tube.sender()).map(drop) } else { w.is_single(tube.receiver()).map(drop) }
        })
        .provide(|w| {
            // Nobody has come: they wait for the first one. One that came to its end is one that had come.
            if w.scene() == Waiters
                && !w.was_done()
                && w.is_stuck(|| true)
                && w.may_provide(1)
                && w.send_to("t").is_ok()
            {
                w.stop_sending("t");
            }
        })
        .check(|w| check(w, SLOTS, Part::Nothing))
}

/// The victim's end goes, the last of its side; it dies in the middle, or goes on. Waiters at the other are told.
#[derive(Clone, Copy)]
struct Close {
    name: &'static str,
    kind: Kind,
    sends: bool,
}

impl Close {
    fn many(&self) -> bool {
        self.kind == Kind::Mpmc
    }

    fn operation(self) -> Operation {
        Operation::of(
            self.name,
            if self.many() { &[Alone, Waiters, Met, Stopped, StoppedWaiter] } else { &[Alone, Waiters, Stopped] },
        )
        .victim_holds(true)
        .build(move |w| {
            w.make("p", 1)?;
            w.make_tube("t", self.kind, FEW)?;
            if self.sends || !(w.scene().waits() && self.many()) {
                return Ok(());
            }
            // Helpers are to wait for room, and the keeper is no receiver.
            w.post_all("t", KEEPER, FEW)
        })
        .perform(move |w| {
            if self.sends {
                let end = sender(w);
                attended(w, self.many());
                w.stage().begin();
                drop(end);
            } else {
                let end = receiver(w);
                attended(w, self.many());
                w.stage().begin();
                drop(end);
            }
            w.stage().end(true);
        })
        .wait_each(move |w, which| {
            w.expect_to_leave();
            if which > 0 && !self.many() {
                return Ok(());
            }
            let who = HELPER + which as u64;
            if self.sends {
                return match w.fetch_slowly("t")? {
                    Found::Ended => Ok(()),
                    other => fault(Fault::Torn, format!("nobody sends, and there is {other:?}")),
                };
            }
            if !self.many() {
                w.post_all("t", who, FEW)?;
            }
            w.post_slowly("t", who)
        })
        // Another comes to the same end.
        .meet(move |w| if self.sends { w.post_all("t", HELPER, 1) } else { w.receive_from("t") })
        .others(move |w| {
            w.expect_to_leave();
            let gone = w.stage().board().phase.load(std::sync::atomic::Ordering::SeqCst) != INSIDE;
            if w.scene() == StoppedWaiter {
                if !gone {
                    return Ok(());
                }
                return w.through("the last one has gone, and the waiter is not told:");
            }
            // The other end is looked at from outside: a waiter there would be told as well.
            let info = w.tube_info("t")?;
            let left = if self.sends { info.senders.len() } else { info.receivers.len() };
            if gone && left > 0 {
                return fault(Fault::Torn, format!("the last one has gone, and there are {left}"));
            }
            if self.sends {
                let found = w.copy_out("t")?;
                if gone && found != Found::Ended {
                    return fault(Fault::Torn, format!("the last sender has gone, and there is {found:?}"));
                }
            }
            Ok(())
        })
        .check(|w| check(w, FEW, Part::Nothing))
    }
}

/// A receiver has died with a message in hand, which the victim receives. Then it dies too.
#[derive(Clone, Copy)]
struct Again {
    name: &'static str,
    in_place: bool,
    /// The tube is one that drops what its receiver had when it died: then there is no message twice.
    drops: bool,
}

impl Again {
    /// A process sends, another borrows the first message and dies.
    fn leave_one_behind(&self, w: &World) -> Verdict {
        let borrow = || {
            let into = w.tube("t").and_then(|t| fine("attaching", t.receiver())).expect("the keeper has made it");
            let loan = into.borrow().expect("a message is there");
            assert!(!loan.again() && read(&loan).is_ok());
            std::mem::forget(loan);
            // SAFETY: ends this process at once: the loan is never given back.
            unsafe { libc::_exit(0) };
        };
        w.receive_from("t")?;
        w.post_all("t", KEEPER, 1)?;
        w.die_with(borrow, "does not borrow")?;
        let swept = || chappe::doctor().is_ok() && w.tube_info("t").is_ok_and(|i| i.redelivered + i.dropped == 1);
        w.demand(swept, "what a dead receiver had is neither there again nor dropped:")
    }

    fn operation(self) -> Operation {
        Operation::of(self.name, if self.drops { &[Alone] } else { &[Alone, Met, Stopped] })
            .held_up_by(Reason::Message)
            .build(move |w| {
                w.make("p", 1)?;
                w.make_tube("t", Kind::Mpmc, SLOTS)?;
                if self.drops {
                    fine("removing the one that delivers again", Tube::remove("t", false))?;
                    let options = TubeOptions { slots: SLOTS, drops: true, ..TubeOptions::default() };
                    fine("making one that drops", Tube::<Message>::create("t", &options))?;
                    return w.post_all("t", KEEPER, 2);
                }
                self.leave_one_behind(w)
            })
            .perform(move |w| {
                let into = receiver(w);
                w.stage().begin();
                let done = if self.in_place {
                    into.borrow().is_ok_and(|loan| {
                        let it = *loan;
                        let whole = w.hold_message("t", &it);
                        whole && loan.again() != self.drops && loan.release().is_ok() && w.keep_message("t", &it)
                    })
                } else {
                    into.recv_redelivered().is_ok_and(|(it, again)| again && w.keep_message("t", &it))
                };
                // Another may have received what was there again.
                w.stage().end(done || w.scene() != Alone);
                std::mem::forget(into);
            })
            .meet(|w| w.fetch_slowly("t").map(drop))
            .others(|w| w.messages_pass("t", 6, 1))
            .bereaved(|w| {
                // For the process that met the victim, and found nothing, if the victim has taken it along.
                if w.scene() == Met { w.post_all("t", KEEPER, 1) } else { Ok(()) }
            })
            .check(move |w| {
                // Looked at by two that died, or by one where that is enough, it is dropped: missing like one that was received.
                check(w, SLOTS, Part::Receives(true, u32::from(!self.drops)))
            })
    }
}

fn made() -> Result<Tube<Message>, TubeError> {
    Tube::create("t", &TubeOptions { slots: SLOTS, ..TubeOptions::default() })
}

fn opened() -> Result<Tube<Message>, TubeError> {
    Tube::open_or_create("t", &TubeOptions { slots: SLOTS, ..TubeOptions::default() })
}

/// As looking for any other object.
fn found() -> Result<Tube<Message>, ObjectError> {
    Tube::open("t").map_err(|e| match e {
        TubeError::Object(e) => e,
        other => panic!("opening it: {other}"),
    })
}

/// All of them.
pub fn all() -> Vec<Operation> {
    vec![
        attach("tube attach sender, spsc", Kind::Spsc, true),
        attach("tube attach sender, mpmc", Kind::Mpmc, true),
        attach("tube attach receiver, spsc", Kind::Spsc, false),
        Close { name: "tube close sender, spsc", kind: Kind::Spsc, sends: true }.operation(),
        Close { name: "tube close sender, mpmc", kind: Kind::Mpmc, sends: true }.operation(),
        Close { name: "tube close receiver, spsc", kind: Kind::Spsc, sends: false }.operation(),
        Close { name: "tube close receiver, mpmc", kind: Kind::Mpmc, sends: false }.operation(),
        // No process has ever sent. Waiters are told when it is sealed, and no sender comes after
        // that.
        Operation::of("tube seal", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| {
                w.make("p", 1)?;
                w.make_tube("t", Kind::Mpmc, SLOTS)
            })
            .perform(|w| {
                w.warm("p");
                let tube = w.tube("t").expect("the keeper has made it");
                w.stage().begin();
                let done = tube.seal();
                w.stage().end(done.is_ok());
            })
            .wait(|w| {
                let into = fine("attaching a receiver", w.tube("t")?.receiver())?;
                // No process has ever sent: so no sender has died.
                match into.recv() {
                    Err(NotReceived::Disconnected { .. }) if w.tube_info("t")?.sealed => Ok(()),
                    other => fault(Fault::Torn, format!("nobody sends: {other:?}")),
                }
            })
            .meet(|w| fine("sealing it too", w.tube("t")?.seal()))
            .bereaved(|w| {
                let sealed = w.tube_info("t")?.sealed;
                if w.was_done() && !sealed {
                    return fault(Fault::Lost, "it was sealed, and is not");
                }
                // Killed after it has sealed, and before it has told: its death is enough.
                if sealed { Ok(()) } else { fine("sealing it all the same", w.tube("t")?.seal()) }
            })
            .check(|w| {
                match w.tube("t")?.sender() {
                    Err(TubeError::Sealed { .. }) => {}
                    other => return fault(Fault::Torn, format!("a sender comes to a sealed tube: {other:?}")),
                }
                let ended = fine("attaching a receiver", w.tube("t")?.receiver())?.try_recv();
                if !matches!(ended, Err(NotReceived::Disconnected { .. })) {
                    return fault(Fault::Torn, format!("a sealed tube says {ended:?}"));
                }
                w.in_order(&["p", "t"])
            }),
        Again { name: "tube recv again", in_place: false, drops: false }.operation(),
        Again { name: "tube borrow again", in_place: true, drops: false }.operation(),
        Again { name: "tube borrow, drops", in_place: true, drops: true }.operation(),
        // The victim makes up for a receiver that has died with a message in hand, and for a sender
        // with a slot.
        Operation::of("tube recovery", &[Alone, Met, Stopped])
            .build(|w| {
                w.make("p", 1)?;
                w.make_tube("t", Kind::Mpmc, SLOTS)
            })
            .perform(|w| {
                w.warm("p");
                let arena = Arena::open("default").expect("the keeper has made it");
                // Now: a process that joins the arena recovers the dead at once.
                let hold = || {
                    let tube = w.tube("t").expect("the keeper has made it");
                    let (mut out, into) =
                        (tube.sender().expect("there may be many"), tube.receiver().expect("as above"));
                    (0..2).for_each(|_| out.try_send(w.write("t", ACTOR)).expect("there is room"));
                    std::mem::forget(into.borrow().expect("just sent"));
                    std::mem::forget(out.reserve().expect("there is room"));
                    // SAFETY: ends this process at once: neither slot is given back.
                    unsafe { libc::_exit(0) };
                };
                w.die_with(hold, "does not hold two slots").expect("it does");
                assert_eq!(w.tube_info("t").map(|i| i.redelivered), Ok(0), "another was faster");
                w.stage().begin();
                arena.map().recover_dead();
                w.stage().end(true);
            })
            .meet(|w| w.fetch_all("t", 1))
            .check(|w| {
                check(w, SLOTS, Part::Receives(false, 1))?;
                if w.marked("t") == 1 {
                    Ok(())
                } else {
                    fault(Fault::Lost, "what was borrowed did not come again, marked")
                }
            }),
        Operation::of("create tube", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| w.make_held("p", 1))
            .perform(|w| {
                w.warm("p");
                w.stage().begin();
                let made = made();
                w.stage().end(made.is_ok() || w.scene() == Met);
            })
            .meet(|w| {
                fine("making it too", opened())?;
                w.post_all("t", HELPER, 1)?;
                w.fetch_all("t", 1)
            })
            .check(|w| {
                // Another one that is made takes away what is left of one that was half made.
                if !w.has_made(found())? {
                    fine("making it anew", made())?;
                }
                check(w, SLOTS, Part::Nothing)
            }),
        // With waiters it is by force.
        Operation::of("remove tube", &[Alone, Waiters, Met, Stopped])
            .held_up_by(Reason::Arena)
            .build(|w| {
                // First, so that its slot is not the last that was taken.
                w.make_tube("t", Kind::Mpmc, FEW)?;
                w.make("p", 1)?;
                w.count_waiters_of("t");
                Ok(())
            })
            .perform(|w| {
                w.warm("p");
                w.stage().begin();
                let gone = Tube::remove("t", w.scene() == Waiters);
                // Met: the process that came meanwhile may have an end.
                w.stage().end(gone.is_ok() || w.scene() == Met);
            })
            // One waits to look at a message in place, the other to copy it out.
            .wait_each(|w, which| {
                let into = fine("attaching a receiver", w.tube("t")?.receiver())?;
                let got = if which == 0 { into.borrow().map(|loan| *loan) } else { into.recv() };
                match got {
                    Err(NotReceived::Dead { .. }) => Ok(()),
                    other => fault(Fault::Torn, format!("waiting at what is removed: {other:?}")),
                }
            })
            .meet(|w| {
                loop {
                    let options = TubeOptions { slots: FEW, ..TubeOptions::default() };
                    let tube = fine("making it again", Tube::<Message>::open_or_create("t", &options))?;
                    let out = match tube.sender() {
                        Ok(out) => out,
                        Err(TubeError::Dead { .. }) => continue,
                        Err(e) => return fault(Fault::Torn, format!("attaching a sender: {e}")),
                    };
                    let it = w.write("t", HELPER);
                    match out.try_send(it) {
                        Ok(()) => return Ok(()),
                        Err(NotSent::Dead { .. }) => w.tear_up("t", &it),
                        Err(e) => return fault(Fault::Torn, format!("sending: {e}")),
                    }
                }
            })
            .bereaved(|w| {
                if w.has_removed(found())? || w.scene() != Waiters {
                    return Ok(());
                }
                fine("removing it all the same", Tube::remove("t", true))
            })
            .check(|w| {
                let options = TubeOptions { slots: FEW, ..TubeOptions::default() };
                fine("making it again", Tube::<Message>::open_or_create("t", &options))?;
                if w.scene() == Met {
                    // The helper's message may have gone with the tube, if that was removed after it.
                    w.receive_from("t")?;
                }
                check(w, FEW, Part::Nothing)
            }),
    ]
}
