//! Times: nanoseconds since 1970, in UTC; read as people and programs write them, and written by RFC 3339.
//!
//! | text | is |
//! |---|---|
//! | `2026-11-29T07:00:00.25+01:00`, `2026-11-29 06:00:00`, `2026-11-29` | RFC 3339; without a zone it is UTC |
//! | `29/Nov/2026:07:00:00 +0100` | as web servers write it |
//! | `1764399600`, `1764399600.25`, `1764399600250` | since 1970: below 10^11 seconds, below 10^14 milliseconds, below 10^17 microseconds, else nanoseconds |

use std::io::Write;

pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Digits from the front of a text.
pub(crate) struct Rest<'a>(pub &'a [u8]);

impl Rest<'_> {
    /// A number of so few digits that it fits.
    pub fn number(&mut self, digits: usize) -> Option<i64> {
        let (front, rest) = self.0.split_at_checked(digits)?;
        let number = front.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| 10 * n + i64::from(b - b'0')))?;
        self.0 = rest;
        Some(number)
    }

    pub fn one_of(&mut self, signs: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        signs.contains(first).then(|| self.0 = rest)?;
        Some(*first)
    }

    /// Behind a point: as part of so much; digits beyond nanoseconds are left out.
    fn fraction(&mut self, mut of: i64) -> Option<i64> {
        if self.one_of(b".,").is_none() {
            return Some(0);
        }
        of /= 10;
        let mut sum = self.number(1)? * of;
        while let Some(digit) = self.number(1) {
            of /= 10;
            sum += digit * of;
        }
        Some(sum)
    }

    /// `07:00:00`, and a fraction.
    fn clock(&mut self) -> Option<i64> {
        let hours = self.number(2)?;
        self.one_of(b":")?;
        let minutes = self.number(2)?;
        let seconds = if self.one_of(b":").is_some() { self.number(2)? } else { 0 };
        let fits = hours < 24 && minutes < 60 && seconds <= 60;
        fits.then_some((3600 * hours + 60 * minutes + seconds) * SECOND + self.fraction(SECOND)?)
    }

    /// How far a zone is ahead of UTC; nothing is UTC.
    pub fn zone(&mut self) -> Option<i64> {
        let sign = match self.one_of(b"Zz+-") {
            None | Some(b'Z' | b'z') => return Some(0),
            Some(b'-') => -1,
            Some(_) => 1,
        };
        let hours = self.number(2)?;
        self.one_of(b":");
        let minutes = if self.0.is_empty() { 0 } else { self.number(2)? };
        (hours < 24 && minutes < 60).then_some(sign * (3600 * hours + 60 * minutes) * SECOND)
    }
}

/// The days from 1970 to a day; none: there is no such day.
pub(crate) fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let long = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=long).contains(&day) {
        return None;
    }
    // Years that begin in March have the leap day at their end.
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, in_era) = (year.div_euclid(400), year.rem_euclid(400));
    Some(era * 146_097 + in_era * 365 + in_era / 4 - in_era / 100 + of_year - 719_468)
}

/// The day so many days from 1970 on.
fn day_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, in_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let of_year = in_era - (365 * year + year / 4 - year / 100);
    let part = (5 * of_year + 2) / 153;
    let month = (part + 2) % 12 + 1;
    (era * 400 + year + i64::from(month <= 2), month, of_year - (153 * part + 2) / 5 + 1)
}

pub(crate) fn together(days: i64, clock: i64, ahead: i64) -> Option<i64> {
    let all = i128::from(days) * 86_400 * i128::from(SECOND) + i128::from(clock) - i128::from(ahead);
    i64::try_from(all).ok()
}

/// The times that there are.
pub const RANGE: &str = "1677-09-21T00:12:44Z to 2262-04-11T23:47:16Z";

/// Whether a text that is no time begins with a year in which there is none.
pub fn is_far(text: &[u8]) -> bool {
    let mut rest = Rest(text.trim_ascii());
    let year = rest.number(4);
    rest.one_of(b"-").is_some() && year.is_some_and(|year| !(1678..2262).contains(&year))
}

/// A time from its text; none: it is none, or before 1677 or after 2262.
pub fn parse(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii();
    let mut rest = Rest(text);
    let time = match text {
        [_, _, _, _, b'-', ..] => {
            let year = rest.number(4)?;
            rest.one_of(b"-")?;
            let month = rest.number(2)?;
            rest.one_of(b"-")?;
            let days = days(year, month, rest.number(2)?)?;
            if rest.0.is_empty() {
                return together(days, 0, 0);
            }
            rest.one_of(b"Tt ")?;
            let clock = rest.clock()?;
            rest.one_of(b" ");
            together(days, clock, rest.zone()?)?
        }
        [_, _, b'/', ..] => {
            let day = rest.number(2)?;
            rest.one_of(b"/")?;
            let (name, behind) = rest.0.split_at_checked(3)?;
            let month = MONTHS.iter().position(|m| *m == name)? as i64 + 1;
            rest.0 = behind;
            rest.one_of(b"/")?;
            let days = days(rest.number(4)?, month, day)?;
            rest.one_of(b":")?;
            let clock = rest.clock()?;
            rest.one_of(b" ");
            together(days, clock, rest.zone()?)?
        }
        _ => return epoch(text),
    };
    rest.0.is_empty().then_some(time)
}

/// A number since 1970: its size says of what.
fn epoch(text: &[u8]) -> Option<i64> {
    let minus = text.first() == Some(&b'-');
    let mut rest = Rest(&text[usize::from(minus)..]);
    let digits = rest.0.iter().take_while(|b| b.is_ascii_digit()).count();
    if !(1..=19).contains(&digits) {
        return None;
    }
    let (front, behind) = rest.0.split_at(digits);
    rest.0 = behind;
    // Nineteen digits are more than 64 bits hold, and the least number has no opposite there.
    let whole = front.iter().fold(0, |n: i128, b| 10 * n + i128::from(b - b'0'));
    let unit = match digits {
        0..=11 => SECOND,
        12..=14 => 1_000_000,
        15..=17 => 1_000,
        _ => 1,
    };
    let time = whole * i128::from(unit) + i128::from(rest.fraction(unit)?);
    rest.0.is_empty().then_some(i64::try_from(if minus { -time } else { time }).ok()?)
}

/// Writes a time by RFC 3339, in UTC, with as many digits behind the seconds as it has.
pub fn write(time: i64, out: &mut Vec<u8>) {
    let (seconds, part) = (time.div_euclid(SECOND), time.rem_euclid(SECOND));
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = day_of(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}").expect("a vector takes all");
    if part > 0 {
        let start = out.len();
        write!(out, ".{part:09}").expect("a vector takes all");
        while out.len() > start && out.last() == Some(&b'0') {
            out.pop();
        }
    }
    out.push(b'Z');
}

/// The same as a text.
pub fn written(time: i64) -> String {
    let mut out = Vec::new();
    write(time, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written_and_back() {
        let same = |text: &str| assert_eq!(parse(text.as_bytes()).map(written).as_deref(), Some(text));
        for text in [
            "1970-01-01T00:00:00Z",
            "2026-11-29T07:00:00.25Z",
            "1999-12-31T23:59:59.999999999Z",
            "2024-02-29T12:00:00Z",
            "1900-03-01T00:00:00Z",
            "2000-02-29T00:00:00.000000001Z",
            "1677-09-22T00:00:00Z",
            "2262-04-11T00:00:00Z",
        ] {
            same(text);
        }
        let is = |text: &str, other: &str| assert_eq!(parse(text.as_bytes()), parse(other.as_bytes()), "{text}");
        for text in [
            "2026-11-29T08:00:00+01:00",
            "2026-11-29 07:00:00",
            "29/Nov/2026:08:00:00 +0100",
            "2026-11-29t06:30-00:30",
            "1795935600",
            "1795935600000",
            "1795935600000000",
            "1795935600000000000",
            "1795935600.0",
        ] {
            is(text, "2026-11-29T07:00:00Z");
        }
        is("2026-11-29", "2026-11-29T00:00:00Z");
        is("-1.5", "1969-12-31T23:59:58.5Z");
        assert_eq!(parse(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse(written(i64::MIN).as_bytes()), Some(i64::MIN));
        // Days of 800 years.
        for day in (-200_000..100_000).step_by(11) {
            let (year, month, of_month) = day_of(day);
            assert_eq!(days(year, month, of_month), Some(day));
        }
    }

    #[test]
    fn a_text_that_is_no_time_is_refused() {
        for text in [
            "",
            "-",
            "x",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "2026-11-29T24:00:00Z",
            "2026-11-29T07:00:00Zx",
            "2026-11-29T",
            "29/Now/2026:07:00:00 +0000",
            "2300-01-01",
            "99999999999999999999",
            "9999999999999999999",
            "9223372036854775808",
            "-9223372036854775809",
            "1.2.3",
            "2026-11-29T07:00:00+1",
        ] {
            let time = parse(text.as_bytes());
            assert!(time.is_none() || text == "2026", "{text} is {time:?}");
        }
    }
}
