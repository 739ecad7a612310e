//! Durations as people write them.

use std::time::Duration;

/// Reads `500ms`, `30s`, `5m`, `1h`, `2d`, or plain seconds (`30`, `0.5`).
///
/// # Errors
/// What is wrong with the text.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write 500ms, 30s, 5m, 1h, 2d or plain seconds");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(wrong()),
    };
    let seconds: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds * scale).map_err(|_| format!("`{text}` is too long a time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("30", 30_000),
            ("0.5", 500),
            ("1.5m", 90_000),
            ("1h", 3_600_000),
            ("2d", 172_800_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_would_do() {
        for text in ["", "s", "5 s", "-1", "1.2.3", "5min", "inf", "nan", "ten"] {
            let why = parse(text).unwrap_err();
            assert!(why.contains("write 500ms, 30s"), "{text}: {why}");
        }
        assert!(parse("99999999999999999999999d").unwrap_err().contains("too long"));
    }
}
