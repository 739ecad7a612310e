//! The records of `bench synth`: 64 bytes each, in turns on either side of what is asked for.

use chappe::synth::{Records, Schema};

/// Bytes of a record.
pub const SIZE: usize = 64;
/// How many lie beside each other: 256 KiB, more than the first cache has.
pub const MANY: usize = 4_096;

/// A record as a program would declare it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Trade {
    /// From 0 to 19.
    pub price: f64,
    /// From 0 to 999.
    pub volume: f64,
    /// From 0 to 99.
    pub qty: i32,
    /// Its number.
    pub id: u32,
    /// From 0 to 6.
    pub venue: i64,
    /// `X` or `Y`.
    pub sym: [u8; 8],
    /// What nobody asks for.
    pub rest: [u8; 24],
}

// SAFETY: numbers and bytes, all of them zero.
unsafe impl bytemuck::Zeroable for Trade {}
// SAFETY: numbers and bytes one behind the other, laid out by C's rule, without a gap: 8 + 8 + 4 + 4 + 8 + 8 + 24 = 64.
unsafe impl bytemuck::Pod for Trade {}

const _: () = assert!(size_of::<Trade>() == SIZE);

/// The same for queries.
///
/// # Panics
/// Never: the text is right.
pub fn schema() -> Schema {
    let text = "price: f64, volume: f64, qty: i32, id: u32, venue: i64, sym: str[8], rest: str[24]";
    Schema::parse(text).expect("a schema")
}

/// One of them.
pub fn trade(n: u32) -> Trade {
    // Steps that have no factor in common with their range: each value comes as often, in no order that a processor could learn soon.
    let mixed = n.wrapping_mul(0x9e37_79b9) >> 7;
    let mut sym = [0; 8];
    sym[0] = if mixed.is_multiple_of(3) { b'X' } else { b'Y' };
    Trade {
        price: f64::from(mixed % 20),
        volume: f64::from(mixed / 7 % 1000),
        qty: (mixed / 11 % 100) as i32,
        id: n,
        venue: i64::from(mixed / 13 % 7),
        sym,
        rest: [0; 24],
    }
}

/// All of them.
pub fn trades() -> Vec<Trade> {
    (0..MANY as u32).map(trade).collect()
}

/// The same, for an engine.
pub fn records(all: &[Trade]) -> Records<'_> {
    Records::new(bytemuck::cast_slice(all), SIZE, SIZE)
}
