//! Numbers from text.

/// A number of digits alone, or with a sign before them; none: it is no such number, or does not fit.
#[inline]
pub fn int(text: &[u8]) -> Option<i64> {
    let (minus, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    // 18 digits always fit.
    if digits.is_empty() || digits.len() > 18 {
        return std::str::from_utf8(text).ok()?.parse().ok();
    }
    let mut n = 0i64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n = 10 * n + i64::from(digit);
    }
    Some(if minus { -n } else { n })
}

/// The same without a sign.
pub fn uint(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Powers of ten that doubles have exactly.
const TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// The double nearest to a decimal number; none: it is no number, or larger than doubles are.
#[inline]
pub fn double(text: &[u8]) -> Option<f64> {
    let (minus, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    // At most 18 digits: no product wraps.
    if digits.len() <= 19 {
        let (mut n, mut behind, mut seen) = (0u64, None, 0);
        for (at, b) in digits.iter().enumerate() {
            let digit = b.wrapping_sub(b'0');
            if digit <= 9 {
                n = n.wrapping_mul(10).wrapping_add(u64::from(digit));
                seen += 1;
            } else if *b == b'.' && behind.is_none() {
                behind = Some(at);
            } else {
                return slowly(text);
            }
        }
        let decimals = behind.map_or(0, |point| digits.len() - point - 1);
        // Both are exact, so one division rounds once.
        if seen > 0 && seen <= 18 && n <= 1 << 53 {
            let value = n as f64 / TENS[decimals];
            return Some(if minus { -value } else { value });
        }
    }
    slowly(text)
}

#[cold]
fn slowly(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    // Infinity has no digit.
    (number.is_finite() || !text.iter().any(u8::is_ascii_digit)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_standard_library() {
        let mut next = crate::dice::dice();
        let (mut whole, mut real) = (0, 0);
        for _ in 0..200_000 {
            let len = 1 + next(22);
            let text: String =
                (0..len).map(|_| b"0123456789012345678901234567890123456789.-+e"[next(44) as usize] as char).collect();
            let (a, b) = (int(text.as_bytes()), text.parse::<i64>().ok());
            assert_eq!(a, b, "{text}");
            let (x, y) = (double(text.as_bytes()), text.parse::<f64>().ok().filter(|y| y.is_finite()));
            assert_eq!(x.map(f64::to_bits), y.map(f64::to_bits), "{text}");
            whole += u32::from(a.is_some());
            real += u32::from(x.is_some());
        }
        assert!(whole > 20_000 && real > 50_000, "{whole} {real}");
        for text in [
            "",
            "-",
            ".",
            "9223372036854775808",
            "-9223372036854775808",
            "1e400",
            "inf",
            "NaN",
            "9007199254740993",
            "0.1",
            "\u{660}",
        ] {
            assert_eq!(int(text.as_bytes()), text.parse::<i64>().ok(), "{text}");
            let number = text.parse::<f64>().ok().filter(|_| text != "1e400");
            assert_eq!(double(text.as_bytes()).map(f64::to_bits), number.map(f64::to_bits), "{text}");
        }
    }
}
