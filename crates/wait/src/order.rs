//! The order in which the arms of a choice are tried, and dice for unordered choices: each arm that is ready has an equal chance,
//! whatever its kind, and an object that occurs in two arms has two chances.

#[cfg(not(feature = "sim"))]
use chappe_plat::clock;
#[cfg(not(feature = "sim"))]
use std::cell::Cell;

#[cfg(not(feature = "sim"))]
thread_local! {
    /// The state of the dice, which decide the arm that is tried first.
    static DICE: Cell<u32> = const { Cell::new(0) };
}

/// The order in which arms are tried: as listed, or by the dice, so that each ready arm is equally likely to be found first.
pub struct Order {
    at: usize,
    /// Up to 64 arms: those that have not had their turn, one bit each. More: numbers below a power of two, by a linear congruence
    /// of full period: about equally likely.
    left: u64,
    mask: u64,
    factor: u64,
    more: u64,
    arms: usize,
    biased: bool,
}

impl Order {
    #[inline(always)]
    pub fn new(arms: usize, biased: bool) -> Order {
        if !biased && arms.wrapping_sub(1) < 64 {
            return Order::among(u64::MAX >> (64 - arms), arms);
        }
        let mut order = Order { at: 0, left: 0, mask: 0, factor: 1, more: 1, arms, biased };
        if !biased && arms > 0 {
            order.set_out();
            order.skip_far();
        }
        order
    }

    /// Some of up to 64 arms, by the dice.
    #[inline(always)]
    pub fn among(some: u64, arms: usize) -> Order {
        let mut order = Order { at: usize::MAX, left: some, mask: 0, factor: 1, more: 1, arms, biased: false };
        order.skip();
        order
    }

    #[cold]
    fn set_out(&mut self) {
        let roll = || u64::from(roll());
        self.mask = self.arms.next_power_of_two() as u64 - 1;
        (self.factor, self.more) = (roll() << 2 | 1, roll() | 1);
        self.left = self.mask + 1;
        self.at = roll() as usize;
    }

    /// The arm whose turn it is.
    #[inline]
    pub fn peek(&self) -> Option<usize> {
        (self.at < self.arms).then_some(self.at)
    }

    /// Moves on to the next arm.
    #[inline(always)]
    pub fn skip(&mut self) {
        if self.biased {
            self.at = self.at.wrapping_add(1);
        } else if self.mask != 0 {
            self.skip_far();
        } else if self.left & self.left.wrapping_sub(1) == 0 {
            // The last arm, or none: then beyond all.
            self.at = self.left.trailing_zeros() as usize;
            self.left = 0;
        } else {
            self.skip_by_dice();
        }
    }

    fn skip_by_dice(&mut self) {
        let mut rest = self.left;
        for _ in 0..one_of(self.left.count_ones()) {
            rest &= rest - 1;
        }
        self.at = rest.trailing_zeros() as usize;
        self.left &= !(1 << self.at);
    }

    #[cold]
    fn skip_far(&mut self) {
        let mut at = self.at as u64;
        loop {
            if self.left == 0 {
                self.at = usize::MAX;
                return;
            }
            self.left -= 1;
            at = at.wrapping_mul(self.factor).wrapping_add(self.more) & self.mask;
            if at < self.arms as u64 {
                self.at = at as usize;
                return;
            }
        }
    }
}

/// One of so many, all equally likely.
#[inline]
pub fn one_of(many: u32) -> u32 {
    ((u64::from(roll()) * u64::from(many)) >> 32) as u32
}

/// The explorer itself decides which arm comes first.
#[cfg(feature = "sim")]
fn roll() -> u32 {
    0
}

/// A cheap generator (xorshift, 32 bits), one for each thread: which arm is tried first need not be secret.
#[cfg(not(feature = "sim"))]
#[inline(always)]
fn roll() -> u32 {
    let mut x = DICE.get();
    if x == 0 {
        x = seed();
    }
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    DICE.set(x);
    x
}

#[cfg(not(feature = "sim"))]
#[cold]
fn seed() -> u32 {
    // Different for each thread.
    (clock::now() as u32 ^ (DICE.with(std::ptr::from_ref) as usize as u32).wrapping_mul(0x9e37_79b9)) | 1
}
