//! Random choices: the same ones in each run that begins with the same number.

/// A sequence of numbers of its own.
pub struct Dice(u64);

impl Dice {
    /// Begins somewhere.
    pub fn new(seed: u64) -> Dice {
        Dice(seed | 1)
    }

    /// A number below `below`.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    /// A place to begin for another one.
    pub fn seed(&mut self) -> u64 {
        self.roll(u64::MAX >> 12)
    }
}
