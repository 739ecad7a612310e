//! Durations as people write and read them.

pub use chappe::durations::parse;
use std::time::{Duration, Instant};

/// `--grace`: a duration, or `never`.
///
/// # Errors
/// As [`parse`].
pub fn parse_grace(text: &str) -> Result<Grace, String> {
    if text == "never" { Ok(Grace(None)) } else { Ok(Grace(Some(parse(text)?))) }
}

/// How long a job may go on after it was asked to end; `None`: as long as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace(pub Option<Duration>);

/// `850ms`, `12s`, `3m12s`, `5h03m`, `2d04h`: two units at most.
pub fn show(d: Duration) -> String {
    let s = d.as_secs();
    match s {
        0 => format!("{}ms", d.as_millis()),
        1..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86400 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d{:02}h", s / 86400, s % 86400 / 3600),
    }
}

/// The local time `ago` before now, with the date unless it is less than a day.
pub fn at(ago: Duration) -> String {
    // SAFETY: asks for the time, with no place to put it.
    let now = unsafe { libc::time(std::ptr::null_mut()) };
    let then = now - i64::try_from(ago.as_secs()).unwrap_or(0);
    // SAFETY: an all-zero tm is a valid value, and is filled in here.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&then, &mut tm);
        tm
    };
    let clock = format!("{:02}:{:02}:{:02}", tm.tm_hour, tm.tm_min, tm.tm_sec);
    if ago < Duration::from_secs(86400) {
        return clock;
    }
    format!("{}-{:02}-{:02} {clock}", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday)
}

/// What comes first: this time, or the end of what still lasts so long.
pub fn sooner(end: Option<Instant>, lasts: Option<Duration>) -> Option<Instant> {
    let lasts = lasts.map(|left| Instant::now() + left + Duration::from_millis(1));
    [end, lasts].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_with_two_units_at_most() {
        for (ms, text) in [
            (5, "5ms"),
            (12_345, "12s"),
            (192_000, "3m12s"),
            (3_600_000, "1h00m"),
            (18_180_000, "5h03m"),
            (187_200_000, "2d04h"),
        ] {
            assert_eq!(show(Duration::from_millis(ms)), text);
        }
    }
}
