//! Numbers in decimal with so many places, by fixed-point arithmetic: synthesis, 7.4.1.
//!
//! A double is `m * 2^e` with 53 bits of `m`; with `p` places it is the integer nearest to `m * 10^p * 2^e`. With 22 places at most,
//! `m * 10^p` has at most 127 bits: one multiplication, one shift and one look at the bits that are shifted out give each digit exactly, as the C
//! library's arithmetic of any length does. The integer's digits are `itoa`'s. Nothing here blocks or allocates.

/// How much room a number needs: 36 digits, 22 places, a point and a sign.
pub const FIXED_BYTES: usize = 64;

/// The most places that [`fixed`] prints.
pub const FIXED_PLACES: u32 = 22;

/// `value` with so many places behind the point, as `printf("%.*f")` and `format!("{:.*}")` print it: rounded to the nearest, a half to
/// the even digit. None: it is no finite number, 2^117 or more, or has more than [`FIXED_PLACES`] places; those two print it then.
///
/// ```
/// let mut room = [0; chappe_synth::FIXED_BYTES];
/// assert_eq!(chappe_synth::fixed(-2.675, 2, &mut room), Some(&b"-2.67"[..]));
/// assert_eq!(chappe_synth::fixed(f64::NAN, 2, &mut room), None);
/// ```
#[must_use]
pub fn fixed(value: f64, places: u32, room: &mut [u8; FIXED_BYTES]) -> Option<&[u8]> {
    let bits = value.to_bits();
    let (raised, below) = ((bits >> 52) & 0x7ff, bits & ((1 << 52) - 1));
    // The value is `whole * 2^power`.
    let (whole, power) = if raised == 0 { (below, -1074) } else { (below | 1 << 52, raised as i32 - 1075) };
    if raised == 0x7ff || power > 64 || places > FIXED_PLACES {
        return None;
    }
    // Of an integer all places are 0: they are put behind its digits.
    let (number, scaled) = if power >= 0 {
        (u128::from(whole) << power, 0)
    } else {
        (rounded(u128::from(whole) * 10u128.pow(places), power.unsigned_abs()), places as usize)
    };
    let places = places as usize;
    let mut digits = itoa::Buffer::new();
    // Most numbers fit in a word, whose digits are had sooner.
    let digits = match u64::try_from(number) {
        Ok(short) => digits.format(short),
        Err(_) => digits.format(number),
    };
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        room[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    if value.is_sign_negative() {
        put(b"-");
    }
    let before = digits.len().saturating_sub(scaled);
    let (front, behind) = digits.as_bytes().split_at(before);
    put(if front.is_empty() { b"0" } else { front });
    if places > 0 {
        put(b".");
        put(&[b'0'; FIXED_PLACES as usize][..places - behind.len()]);
        put(behind);
    }
    Some(&room[..at])
}

/// `number / 2^power`, a half to the even one.
fn rounded(number: u128, power: u32) -> u128 {
    // `number` is less than 2^127: so it is less than half of 2^128 and more.
    if power > 127 {
        return 0;
    }
    let (down, rest, half) = (number >> power, number & ((1 << power) - 1), 1u128 << (power - 1));
    down + u128::from(rest > half || rest == half && down & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(value: f64, places: u32) {
        let mut room = [0; FIXED_BYTES];
        let text = fixed(value, places, &mut room).map(|t| String::from_utf8_lossy(t).into_owned());
        let wanted = (value.abs() < 2f64.powi(117)).then(|| format!("{value:.*}", places as usize));
        assert_eq!(text, wanted, "{value:e} {places}");
    }

    #[test]
    fn each_digit_is_that_of_arithmetic_of_any_length() {
        // 0.5 and 2.5: halves; 2.675 lies below its half; the least number; each side of where it gives up.
        let edges =
            [0.0, 0.5, 1.5, 2.5, 2.675, 0.125, 9.995, 999.9999, 5e-324, 1e-22, 4.999e-23, 1e22, f64::MAX, f64::NAN];
        let powers = (-1074..1024).map(|power| 2f64.powi(power));
        for value in edges.into_iter().chain(powers).chain([f64::INFINITY]) {
            for places in [0, 1, 2, 3, 6, 17, 22] {
                same(value, places);
                same(-value, places);
                same(value * 1.7, places);
                same(f64::from_bits(value.to_bits().wrapping_sub(1)), places);
            }
        }
        // Every exponent, and bits without an order (Knuth's multiplier).
        let mut bits = 1u64;
        for _ in 0..100_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            same(f64::from_bits(bits), (bits >> 33) as u32 % 23);
            // Most of those are far from 1: the same digits from 2^-32 to 2^32.
            same(f64::from_bits(bits & !(0x7ff << 52) | (991 + (bits >> 40) % 64) << 52), (bits >> 33) as u32 % 23);
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_left_to_others() {
        let mut room = [0; FIXED_BYTES];
        assert_eq!(fixed(1.0, 23, &mut room), None);
        assert_eq!(fixed(f64::NEG_INFINITY, 0, &mut room), None);
        assert_eq!(fixed(-((1u128 << 116) as f64) * 1.9, 22, &mut room).map(<[u8]>::len), Some(36 + 1 + 1 + 22));
    }
}
