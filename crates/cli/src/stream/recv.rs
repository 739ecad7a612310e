//! `chappe recv`: from tubes into a pipe.

use super::course::Course;
use super::hear::hear;
use super::passed::{Ended, FOLLOW, Passed};
use super::writer::{Writer, unwritten};
use crate::args::Recv;
use crate::ended::TIMED_OUT;
use crate::format::Output;
use crate::interrupt::Interrupt;
use crate::said::{Failure, failed, tell};
use crate::{signals, time, tube};
use anyhow::{Result, anyhow, ensure};
use chappe::Select;
use chappe::tube::named::{Awaited, Loan, NotReceived, Receiver, Tube};
use serde_json::json;
use std::io::{ErrorKind, IsTerminal, stdout};
use std::time::Instant;

/// How `recv` exits if a sender has not ended well.
const SENDER_DIED: u8 = 3;

/// What became of a wait for a record.
enum Next<'a> {
    Record(usize, Loan<'a, [u8]>),
    /// No sender is left at any of them.
    End,
    TimedOut,
}

/// Runs `chappe recv`.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn recv(a: &Recv, json: bool) -> Result<u8, Failure> {
    chappe::set_label(&format!("chappe recv {}", a.names.join(" ")));
    let mut passed = Passed::new(json || stdout().is_terminal(), None);
    let received = match a.names.iter().find(|name| tube::is_broadcast(name)) {
        Some(name) if a.names.len() == 1 => hear(name, a, &mut passed),
        Some(name) => Err(anyhow!("`{name}` is a broadcast tube: receive from it alone")),
        None if a.slow.is_some() => Err(anyhow!("--slow is for broadcast tubes: a tube's senders wait for room")),
        None => receive(a, &mut passed),
    };
    drop(passed.bar.take());
    if json {
        let Passed { records, bytes, again, .. } = &passed;
        let mut told = json!({ "records": records, "bytes": bytes, "again": again, "ms": passed.ms() });
        if passed.lost > 0 {
            told["lost"] = passed.lost.into();
        }
        if matches!(received, Ok(Ended::Stopped)) {
            told["stopped"] = true.into();
        }
        if matches!(received, Ok(Ended::Died)) {
            told["sender_died"] = true.into();
        }
        tell(told);
    } else if passed.again > 0 {
        let came = if passed.again == 1 { "1 record" } else { &format!("{} records", passed.again) };
        tell(format_args!(
            "chappe: {came} came once more: a receiver that had it before has died, or could not write it"
        ));
    } else if passed.lost > 0 {
        tell(format_args!("chappe: {} were lost: this was too slow (--slow block makes senders wait)", passed.lost));
    }
    match received {
        Ok(Ended::Done) => Ok(0),
        // With --follow there is no other end.
        Ok(Ended::Stopped) if a.follow => Ok(0),
        Ok(Ended::Stopped) => {
            if !json {
                tell(format_args!("chappe: Ctrl-C ended it: the answer is of what had come ({})", passed.told()));
            }
            signals::die_by(libc::SIGINT)
        }
        Ok(Ended::Died) => {
            let name = passed.died.take().unwrap_or_default();
            let why = anyhow!(
                "a sender of `{name}` died, or stopped with an error, before it was done: what came ({}) may be a part",
                passed.told()
            );
            Err(Failure { status: SENDER_DIED, why })
        }
        Ok(Ended::TimedOut) => {
            Err(Failure { status: TIMED_OUT, why: anyhow!("no record came in time from {}", a.names.join(", ")) })
        }
        Err(e) => Err(failed(e)),
    }
}

fn receive(a: &Recv, passed: &mut Passed) -> Result<Ended> {
    let (mut receivers, mut tubes) = (Vec::new(), Vec::new());
    for name in &a.names {
        tubes.push(Tube::<[u8]>::open(name)?);
    }
    let schema = match tubes.as_slice() {
        [only] => only.schema()?,
        all => agreed(all, a)?,
    };
    // What is asked is looked at before this is a receiver: a sender whose only receiver goes at once has none any more.
    let mut out = Writer::new(a, schema)?;
    let mut awaited = Awaited::new(&tubes)?;
    for tube in &tubes {
        receivers.push(tube.receiver()?);
    }
    let mut courses = tubes.iter().map(|tube| Course::of(tube, a)).collect::<Result<Vec<_>>>()?;
    let patience = || a.timeout.map(|timeout| Instant::now() + timeout);
    let mut end = patience();
    let interrupt = if out.keeps() { Some(Interrupt::new()?) } else { None };
    // Which of them had a sender at the last look: one without is ready at once, and would end each wait.
    let mut open = vec![true; receivers.len()];
    let mut turns = 0u32;
    while a.count.is_none_or(|count| passed.records < count) {
        let mut died = None;
        turns = turns.wrapping_add(1);
        // While records are there, they are added up together.
        let is_turn = interrupt.is_some() && turns.is_multiple_of(4096);
        let ready =
            if let ([only], false) = (receivers.as_slice(), is_turn) { at_once(only, &mut died)? } else { None };
        let found = match ready {
            Some(ready) => ready,
            None => {
                out.with_fields(Output::add_up)?;
                let mut until = time::sooner(end, out.ends_in());
                if let Some(interrupt) = &interrupt {
                    let waited_for =
                        receivers.iter().zip(&open).filter(|(_, open)| **open).map(|(receiver, _)| receiver);
                    if interrupt.before(waited_for, until)? {
                        interrupt.taken();
                        return out.with_fields(Output::finish).map(|()| Ended::Stopped);
                    }
                    until = Some(Instant::now());
                }
                next(&receivers, until, &mut died, &mut open)?
            }
        };
        if let Some(which) = died {
            passed.sender_died(&a.names[which], a);
        }
        let (which, record) = match found {
            Next::Record(which, record) => (which, record),
            Next::End
                if (a.follow && is_open(&tubes)?)
                    || (!passed.some && passed.died.is_none() && awaited.may_come(&tubes)?) =>
            {
                if end.is_some_and(|end| Instant::now() >= end) {
                    return out.with_fields(Output::finish).map(|()| Ended::TimedOut);
                }
                out.with_fields(Output::pause)?;
                std::thread::sleep(FOLLOW);
                open.fill(true);
                continue;
            }
            Next::End => {
                out.with_fields(Output::finish)?;
                for (course, tube) in courses.iter().zip(&tubes) {
                    course.as_ref().map_or(Ok(()), |course| course.end(tube, passed))?;
                }
                return Ok(if passed.died.is_some() { Ended::Died } else { Ended::Done });
            }
            Next::TimedOut if end.is_none_or(|end| Instant::now() < end) => {
                out.with_fields(Output::time_goes_by)?;
                continue;
            }
            Next::TimedOut => return out.with_fields(Output::finish).map(|()| Ended::TimedOut),
        };
        if let Some(course) = &mut courses[which]
            && let Err(gap) = course.step(record.position(), &tubes[which], passed)
        {
            record.put_back();
            return Err(gap);
        }
        let written = out.put(&record, a.tag.then(|| a.names[which].as_str()), a.lines);
        let is_written = if let Err(e) = written {
            // What was not read goes to another receiver, as when chappe is killed here.
            record.put_back();
            // The reader may have seen enough.
            ensure!(e.kind() == ErrorKind::BrokenPipe, "{}; the record goes to the next receiver", unwritten(&e));
            return Ok(Ended::Done);
        } else {
            written?
        };
        passed.some = true;
        passed.again += u64::from(record.again() && is_written);
        if is_written {
            passed.add(record.len());
        }
        record.release()?;
        end = patience();
    }
    out.with_fields(Output::finish)?;
    Ok(Ended::Done)
}

/// The schema of several tubes, if that is needed: all have the same.
fn agreed(tubes: &[Tube<[u8]>], a: &Recv) -> Result<Option<String>> {
    if !a.has_fields() {
        return Ok(None);
    }
    let all = tubes.iter().map(Tube::schema).collect::<Result<Vec<_>, _>>()?;
    ensure!(all.windows(2).all(|two| two[0] == two[1]), "the tubes have different schemas: receive from one at a time");
    Ok(all.into_iter().next().flatten())
}

/// The next record; and the tube of which a sender has died, if that is news. Which have a sender.
fn next<'a>(
    receivers: &'a [Receiver<[u8]>],
    end: Option<Instant>,
    died: &mut Option<usize>,
    open: &mut [bool],
) -> Result<Next<'a>> {
    match receivers {
        [only] => one(only, end, died),
        all => any(all, end, died, open),
    }
}

/// The record of the only tube, or what is told of its end, if that is there without a wait.
fn at_once<'a>(receiver: &'a Receiver<[u8]>, died: &mut Option<usize>) -> Result<Option<Next<'a>>> {
    Ok(match receiver.try_borrow() {
        Err(NotReceived::Empty | NotReceived::Interrupted | NotReceived::Disconnected { .. }) => None,
        Err(NotReceived::SenderDied { .. }) => {
            // It is told once.
            *died = Some(0);
            Some(Next::End)
        }
        borrowed => Some(Next::Record(0, borrowed?)),
    })
}

/// Whether a sender of one of them may still come.
fn is_open(tubes: &[Tube<[u8]>]) -> Result<bool> {
    for tube in tubes {
        if !tube.info()?.sealed {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The record of the only tube.
fn one<'a>(receiver: &'a Receiver<[u8]>, end: Option<Instant>, died: &mut Option<usize>) -> Result<Next<'a>> {
    let borrowed = match end {
        Some(end) => receiver.borrow_deadline(end),
        None => receiver.borrow(),
    };
    Ok(match borrowed {
        Err(NotReceived::SenderDied { .. }) => {
            *died = Some(0);
            Next::End
        }
        Err(NotReceived::Timeout) => Next::TimedOut,
        Err(NotReceived::Disconnected { .. }) => Next::End,
        borrowed => Next::Record(0, borrowed?),
    })
}

/// The same of whichever has one first.
fn any<'a>(
    receivers: &'a [Receiver<[u8]>],
    end: Option<Instant>,
    died: &mut Option<usize>,
    open: &mut [bool],
) -> Result<Next<'a>> {
    open.fill(true);
    let mut choice = Select::new();
    for receiver in receivers {
        choice.recv_on(receiver);
    }
    let mut left = receivers.len();
    while left > 0 {
        let which = match end {
            None => choice.ready(),
            Some(end) => match choice.ready_deadline(end) {
                Ok(which) => which,
                Err(_) => return Ok(Next::TimedOut),
            },
        };
        match receivers[which].try_borrow() {
            // Another one was faster.
            Err(NotReceived::Empty) => {}
            Err(e @ (NotReceived::Disconnected { .. } | NotReceived::SenderDied { .. })) => {
                if matches!(e, NotReceived::SenderDied { .. }) {
                    *died = Some(which);
                }
                choice.remove(which);
                open[which] = false;
                left -= 1;
            }
            borrowed => return Ok(Next::Record(which, borrowed?)),
        }
    }
    Ok(Next::End)
}
