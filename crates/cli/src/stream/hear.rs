//! `chappe recv` of a broadcast tube.

use super::passed::{Ended, FOLLOW, Passed};
use super::writer::{Writer, unwritten};
use crate::args::Recv;
use crate::format::Output;
use crate::interrupt::Interrupt;
use crate::time;
use anyhow::{Result, bail};
use chappe::synth::Schema;
use chappe::tube::broadcast::{Broadcast, Subscribe, Subscription};
use chappe::tube::named::NotReceived;
use std::io::ErrorKind;
use std::time::Instant;

/// Receives from a broadcast tube.
pub fn hear(name: &str, a: &Recv, passed: &mut Passed) -> Result<Ended> {
    let tube = Broadcast::<[u8]>::open(name)?;
    let mut out = Writer::new(a, tube.schema()?)?;
    let mut how = Subscribe::to_all().slow(a.slow.unwrap_or_default());
    if let Some(condition) = &a.condition {
        how = how.filter(condition.as_str());
        let names = parameters(&tube, condition)?;
        for (name, value) in a.param.iter().filter(|(name, _)| names.contains(name)) {
            how = how.param(name.as_str(), value.clone());
        }
    }
    // A stream has ended when a publisher that is there, or comes, has gone, whether it had anything to say or not.
    let info = tube.info()?;
    let mut seen = info.publishers_came;
    let before = seen.wrapping_sub(info.publishers.len() as u32);
    let subscription = tube.subscribe(how)?;
    let mut buffer = vec![0; tube.info()?.size as usize];
    let patience = || a.timeout.map(|timeout| Instant::now() + timeout);
    let mut end = patience();
    let interrupt = if out.keeps() { Some(Interrupt::new()?) } else { None };
    // Records since the last look whether Ctrl-C has come.
    let mut turns = 0u32;
    let ended = loop {
        out.with_fields(Output::add_up)?;
        if a.count.is_some_and(|count| passed.records >= count) {
            break Ended::Done;
        }
        let mut until = time::sooner(end, out.ends_in());
        if let Some(interrupt) = &interrupt {
            if turns == 0 && interrupt.before(std::slice::from_ref(&subscription), until)? {
                interrupt.taken();
                break Ended::Stopped;
            }
            until = Some(Instant::now());
        }
        let came = next_heard(&subscription, &mut buffer, until);
        turns = if came.is_ok() { (turns + 1) % 4096 } else { 0 };
        let len = match came {
            Ok(len) => len,
            Err(NotReceived::Timeout) if end.is_none_or(|end| Instant::now() < end) => {
                out.with_fields(Output::time_goes_by)?;
                continue;
            }
            Err(NotReceived::Timeout) => break Ended::TimedOut,
            Err(NotReceived::SenderDied { .. }) => {
                passed.sender_died(name, a);
                continue;
            }
            Err(NotReceived::Disconnected { .. })
                if a.follow
                    || (!passed.some && passed.died.is_none() && {
                        let came = tube.info()?.publishers_came;
                        // One that has come since the last look may have sent.
                        std::mem::replace(&mut seen, came) != came || came == before
                    }) =>
            {
                if end.is_some_and(|end| Instant::now() >= end) {
                    break Ended::TimedOut;
                }
                out.with_fields(Output::pause)?;
                std::thread::sleep(FOLLOW);
                continue;
            }
            Err(NotReceived::Disconnected { .. }) if passed.died.is_some() => break Ended::Died,
            Err(NotReceived::Disconnected { .. }) => break Ended::Done,
            Err(e) => return Err(e.into()),
        };
        passed.some = true;
        match out.put(&buffer[..len], a.tag.then_some(name), a.lines) {
            Ok(is_written) if is_written => passed.add(len),
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(Ended::Done),
            Err(e) => bail!("{}; the record is lost to this subscriber", unwritten(&e)),
        }
        end = patience();
    };
    passed.lost = subscription.lost();
    out.with_fields(Output::finish)?;
    Ok(ended)
}

/// The parameters of a condition: those of --select are not the filter's.
fn parameters(tube: &Broadcast<[u8]>, condition: &str) -> Result<Vec<String>> {
    let Some(schema) = tube.schema()? else { return Ok(Vec::new()) };
    let query = chappe::synth::Query::filter(&Schema::parse(&schema)?, condition)?;
    Ok(query.params().iter().map(|(name, _)| name.clone()).collect())
}

fn next_heard(from: &Subscription<[u8]>, buffer: &mut [u8], end: Option<Instant>) -> Result<usize, NotReceived> {
    match end {
        Some(end) => from.recv_into_deadline(buffer, end),
        None => from.recv_into(buffer),
    }
}
