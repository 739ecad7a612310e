//! Numbers of bytes as people write them.

/// Reads `65536`, or `64K`, `1M`, `2G`: each 1024 of the one before, also written `64KiB`, in either case.
///
/// # Errors
/// What is wrong with the text.
pub fn parse(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => Some(0),
        "k" | "kib" => Some(10),
        "m" | "mib" => Some(20),
        "g" | "gib" => Some(30),
        _ => None,
    };
    let Some(shift) = shift.filter(|_| !number.is_empty()) else {
        return Err(format!("`{text}` is not a number of bytes: write 65536, 64K or 64KiB (each 1024), 1M, 1G"));
    };
    let number: Option<u64> = number.parse().ok();
    number.and_then(|n| n.checked_mul(1 << shift)).ok_or_else(|| format!("`{text}` is too many bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65_536),
            ("64K", 65_536),
            ("64k", 65_536),
            ("64KiB", 65_536),
            ("1M", 1 << 20),
            ("3MiB", 3 << 20),
            ("2G", 2 << 30),
            ("4gib", 4 << 30),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_would_do() {
        for text in ["", "K", "64KB", "64 K", "1.5M", "-1", "0x10", "1T", "64Ki", "ten", "1KM"] {
            let why = parse(text).unwrap_err();
            assert!(why.contains("write 65536, 64K"), "{text}: {why}");
        }
        for text in ["99999999999999999999", "99999999999999G"] {
            assert!(parse(text).unwrap_err().contains("too many"), "{text}");
        }
    }
}
