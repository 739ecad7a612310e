//! A stream that is received: whether records of it went to others.

use super::passed::Passed;
use crate::args::Recv;
use anyhow::{Result, bail};
use chappe::tube::named::Tube;

/// Of a stream: each record comes behind the one before, or others have what is in between.
pub struct Course {
    name: String,
    /// There was another receiver when chappe came.
    others: bool,
    /// How many times one had come by then.
    came: u32,
    /// How many numbers there are.
    numbers: u64,
    next: Option<u64>,
}

impl Course {
    /// Where nothing says that it is no stream.
    pub fn of(tube: &Tube<[u8]>, a: &Recv) -> Result<Option<Course>> {
        let info = tube.info()?;
        if a.lines || a.records || a.tag || info.schema.is_some() {
            return Ok(None);
        }
        Ok(Some(Course {
            name: tube.name(),
            others: info.receivers.len() > 1,
            came: info.receivers_came,
            numbers: u64::from(info.slots) << 32,
            next: None,
        }))
    }

    /// Looks whether this number is the next one. One that a sender gave up is no gap.
    pub fn step(&mut self, number: u64, tube: &Tube<[u8]>, passed: &Passed) -> Result<()> {
        let next = self.next.replace((number + 1) % self.numbers).unwrap_or(number);
        if number == next {
            return Ok(());
        }
        let missing = number.wrapping_sub(next) % self.numbers;
        let told = passed.told();
        if missing > self.numbers / 2 {
            bail!(
                "the stream of `{}` is out of order: behind {told} comes record {number}, which was sent before record \
                 {}; another receiver had it. Let one at a time receive a stream, or say --lines or --records",
                self.name,
                (next + self.numbers - 1) % self.numbers
            );
        }
        self.gap(missing, next, tube, &told)
    }

    fn gap(&self, missing: u64, next: u64, tube: &Tube<[u8]>, told: &str) -> Result<()> {
        if !self.others && tube.info()?.receivers_came == self.came {
            return Ok(());
        }
        bail!(
            "the stream of `{}` has a gap: behind {told}, records {next} to {} went to another receiver. Let one at a time \
             receive a stream, or say --lines or --records",
            self.name,
            (next + missing - 1) % self.numbers
        )
    }

    /// Nothing comes any more.
    pub fn end(&self, tube: &Tube<[u8]>, passed: &Passed) -> Result<()> {
        let Some(next) = self.next else { return Ok(()) };
        let missing = (tube.info()?.sent % self.numbers).wrapping_sub(next) % self.numbers;
        if missing == 0 || missing > self.numbers / 2 {
            return Ok(());
        }
        self.gap(missing, next, tube, &passed.told())
    }
}
