//! Times by a pattern, as strftime(3) writes them: `%d.%m.%Y %H:%M:%S`.
//!
//! | | is | | is |
//! |---|---|---|---|
//! | `%Y` | the year, four digits | `%y` | its last two: 69 to 99 are 1969 to 1999 |
//! | `%m` `%d` `%e` | month, day (`%e`: a blank may stand first) | `%b` `%B` `%h` | the month's English name, short or whole |
//! | `%j` | the day of the year | `%a` `%A` | the weekday's name, which says nothing |
//! | `%H` `%M` `%S` | hour, minute, second | `%I` `%p` | the hour from 1 to 12, and AM or PM |
//! | `%f` | a part of a second, one to nine digits | `%s` | seconds since 1970 |
//! | `%z` | `+01:00`, `+0100`, `Z` | `%Z` | `UTC`, `GMT` or `Z` |
//! | `%F` `%D` `%T` `%R` | `%Y-%m-%d`, `%m/%d/%y`, `%H:%M:%S`, `%H:%M` | `%%` `%n` `%t` | itself, blanks |
//!
//! A blank of the pattern is any number of blanks, as it is to strptime(3). Numbers have as many digits as they need, up to their most. What a pattern does
//! not say is the first of its kind; without a zone it is UTC.

use crate::time::{MONTHS, Rest, SECOND, days, together};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Stands in the text as in the pattern.
    Byte(u8),
    /// Any number of blanks.
    Blanks,
    /// `%` and this letter.
    Of(u8),
}

/// How times of a column are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimePattern {
    text: String,
    parts: Vec<Part>,
}

/// What a text has said so far.
struct Said {
    year: i64,
    month: i64,
    day: i64,
    of_year: Option<i64>,
    hour: i64,
    afternoon: Option<bool>,
    minute: i64,
    second: i64,
    part: i64,
    ahead: i64,
    epoch: Option<i64>,
}

impl TimePattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// A letter that means nothing here; nothing that says a day.
    pub fn parse(text: &str) -> Result<TimePattern, String> {
        let mut parts = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'%' => match bytes.next() {
                    Some(b'F') => parts.extend(expanded(b"Y-m-d")),
                    Some(b'D') => parts.extend(expanded(b"m/d/y")),
                    Some(b'T') => parts.extend(expanded(b"H:M:S")),
                    Some(b'R') => parts.extend(expanded(b"H:M")),
                    Some(b'n' | b't') => parts.push(Part::Blanks),
                    Some(b'%') => parts.push(Part::Byte(b'%')),
                    Some(b'h') => parts.push(Part::Of(b'b')),
                    Some(letter) if b"YymdejbBaAHIMSpfszZ".contains(&letter) => parts.push(Part::Of(letter)),
                    Some(letter) => {
                        return Err(format!(
                            "`%{}` is not known in a pattern of times",
                            char::from(letter).escape_default()
                        ));
                    }
                    None => return Err("a pattern of times ends with `%`: `%%` is that sign".into()),
                },
                b' ' | b'\t' => parts.push(Part::Blanks),
                other => parts.push(Part::Byte(other)),
            }
        }
        let says = |all: &[u8]| parts.iter().any(|part| matches!(part, Part::Of(letter) if all.contains(letter)));
        if !says(b"s") && !(says(b"Yy") && (says(b"j") || (says(b"mbB") && says(b"de")))) {
            return Err("a pattern of times says the day: `%Y-%m-%d`, `%Y %j` or `%s`".into());
        }
        Ok(TimePattern { text: text.to_owned(), parts })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A time from its text; none: the pattern does not fit, or there is no such time.
    pub fn time(&self, text: &[u8]) -> Option<i64> {
        let mut rest = Rest(text.trim_ascii());
        let mut said = Said {
            year: 1970,
            month: 1,
            day: 1,
            of_year: None,
            hour: 0,
            afternoon: None,
            minute: 0,
            second: 0,
            part: 0,
            ahead: 0,
            epoch: None,
        };
        for part in &self.parts {
            match part {
                Part::Byte(byte) => _ = rest.one_of(&[*byte])?,
                Part::Blanks => rest.0 = rest.0.trim_ascii_start(),
                Part::Of(letter) => said.take(*letter, &mut rest)?,
            }
        }
        if rest.0.is_empty() { said.time() } else { None }
    }
}

/// Letters, and what stands between them.
fn expanded(short: &'static [u8]) -> impl Iterator<Item = Part> {
    short.iter().map(|b| if b.is_ascii_alphabetic() { Part::Of(*b) } else { Part::Byte(*b) })
}

/// One to so many digits.
fn digits(rest: &mut Rest<'_>, most: usize) -> Option<i64> {
    let many = rest.0.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
    if many == 0 { None } else { rest.number(many) }
}

/// How many letters stand there.
fn letters(rest: &Rest<'_>) -> usize {
    rest.0.iter().take_while(|b| b.is_ascii_alphabetic()).count()
}

impl Said {
    fn take(&mut self, letter: u8, rest: &mut Rest<'_>) -> Option<()> {
        match letter {
            b'Y' => self.year = digits(rest, 4)?,
            b'y' => {
                let year = rest.number(2)?;
                self.year = if year < 69 { 2000 + year } else { 1900 + year };
            }
            b'm' => self.month = digits(rest, 2)?,
            b'd' | b'e' => {
                rest.0 = rest.0.trim_ascii_start();
                self.day = digits(rest, 2)?;
            }
            b'j' => self.of_year = Some(digits(rest, 3)?),
            b'b' | b'B' => {
                let (name, behind) = rest.0.split_at(letters(rest));
                let short = name.get(..3)?;
                self.month = MONTHS.iter().position(|m| m.eq_ignore_ascii_case(short))? as i64 + 1;
                rest.0 = behind;
            }
            b'a' | b'A' => {
                let many = letters(rest);
                rest.0 = &rest.0[many..];
            }
            b'H' | b'I' => {
                rest.0 = rest.0.trim_ascii_start();
                self.hour = digits(rest, 2).filter(|h| letter == b'H' || (1..=12).contains(h))?;
                if letter == b'I' {
                    self.hour %= 12;
                }
            }
            b'p' => {
                let (name, behind) = rest.0.split_at_checked(2)?;
                self.afternoon = Some(name.eq_ignore_ascii_case(b"PM"));
                (name.eq_ignore_ascii_case(b"AM") || self.afternoon == Some(true)).then_some(())?;
                rest.0 = behind;
            }
            b'M' => self.minute = digits(rest, 2)?,
            b'S' => self.second = digits(rest, 2)?,
            b'f' => {
                let many = rest.0.iter().take(9).take_while(|b| b.is_ascii_digit()).count();
                self.part = digits(rest, 9)? * 10i64.pow(9 - many as u32);
            }
            b's' => {
                let minus = rest.one_of(b"-").is_some();
                let seconds = digits(rest, 10)?;
                self.epoch = Some(if minus { -seconds } else { seconds });
            }
            b'z' => self.ahead = rest.zone()?,
            _ => {
                let (name, behind) = rest.0.split_at(letters(rest));
                matches!(name, b"UTC" | b"GMT" | b"Z").then_some(())?;
                rest.0 = behind;
            }
        }
        Some(())
    }

    fn time(&self) -> Option<i64> {
        if let Some(seconds) = self.epoch {
            return seconds.checked_mul(SECOND)?.checked_add(self.part);
        }
        let days = match self.of_year {
            Some(day) => {
                let first = days(self.year, 1, 1)?;
                let long = days(self.year + 1, 1, 1)? - first;
                (1..=long).contains(&day).then(|| first + day - 1)?
            }
            None => days(self.year, self.month, self.day)?,
        };
        let hour = self.hour + if self.afternoon == Some(true) && self.hour < 12 { 12 } else { 0 };
        let fits = hour < 24 && self.minute < 60 && self.second <= 60;
        let clock = fits.then_some((3600 * hour + 60 * self.minute + self.second) * SECOND + self.part)?;
        together(days, clock, self.ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::written;

    #[test]
    fn times_are_read_by_the_pattern_that_is_said() {
        let read = |pattern: &str, text: &str| TimePattern::parse(pattern).unwrap().time(text.as_bytes()).map(written);
        for (pattern, text, time) in [
            ("%d.%m.%Y %H:%M:%S", "29.11.2026 07:00:01", "2026-11-29T07:00:01Z"),
            ("%d.%m.%Y %H:%M:%S", " 9.1.2026   7:00:01", "2026-01-09T07:00:01Z"),
            ("%b %e %H:%M:%S %Y", "Nov  9 07:00:00 2026", "2026-11-09T07:00:00Z"),
            ("%A, %d %B %Y", "Sunday, 29 november 2026", "2026-11-29T00:00:00Z"),
            ("%m/%d/%y %I:%M %p", "11/29/26 12:05 AM", "2026-11-29T00:05:00Z"),
            ("%D %I:%M%p", "11/29/69 12:05PM", "1969-11-29T12:05:00Z"),
            ("%Y%m%d%H%M%S%z", "20261129080000+0100", "2026-11-29T07:00:00Z"),
            ("[%F %T.%f]", "[2026-11-29 07:00:00.25]", "2026-11-29T07:00:00.25Z"),
            ("%Y-%j %R %Z", "2024-366 23:59 UTC", "2024-12-31T23:59:00Z"),
            ("%s.%f", "1795935600.5", "2026-11-29T07:00:00.5Z"),
        ] {
            assert_eq!(read(pattern, text).as_deref(), Some(time), "{pattern}");
        }
        for (pattern, text) in [
            ("%d.%m.%Y", "30.02.2026"),
            ("%d.%m.%Y", "29.11.2026 x"),
            ("%F %H", "2026-11-29 24"),
            ("%F %I", "2026-11-29 13"),
            ("%Y %j", "2026 366"),
            ("%F %Z", "2026-11-29 CET"),
            ("%F", "2300-01-01"),
            ("%F", ""),
        ] {
            assert_eq!(read(pattern, text), None, "{pattern}: {text}");
        }
    }

    #[test]
    fn a_pattern_that_cannot_say_a_time_is_refused() {
        let wrong = |text: &str| TimePattern::parse(text).unwrap_err();
        assert!(wrong("%Q").contains("`%Q` is not known") && wrong("%Y%").contains("ends with `%`"));
        assert!(wrong("%H:%M").contains("says the day") && wrong("%Y-%m").contains("says the day"));
    }
}
