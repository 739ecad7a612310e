//! Whether two rows differ by more than they differ from themselves.
//!
//! Rounds come in pairs: both rows had the machine's mood of that moment. So what is looked at are the ratios, round by round. They
//! *differ* if the middle four fifths of the ratios lie on one side of 1, and a sign test says that chance alone would do so
//! seldom: as often as a fair coin shows so lopsided a result in as many throws.

/// What became of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The ratio below which a tenth lies.
    pub low: f64,
    /// The middle one.
    pub middle: f64,
    /// The ratio above which a tenth lies.
    pub high: f64,
    /// How often chance does this.
    pub chance: f64,
}

/// What happens to one in a hundred is not taken for a difference that happened.
const SELDOM: f64 = 0.01;

impl Spread {
    /// Of these ratios.
    ///
    /// # Panics
    /// When there are none.
    pub fn of(ratios: &[f64]) -> Spread {
        let mut sorted = ratios.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64).round() as usize];
        let (less, more) =
            (ratios.iter().filter(|r| **r < 1.0).count() as u32, ratios.iter().filter(|r| **r > 1.0).count() as u32);
        Spread { low: at(0.1), middle: at(0.5), high: at(0.9), chance: sign_test(less, more) }
    }

    /// Whether the difference is larger than the spread.
    pub fn differs(&self) -> bool {
        (self.high < 1.0 || self.low > 1.0) && self.chance <= SELDOM
    }

    /// For people.
    pub fn show(&self) -> String {
        let what = match () {
            () if !self.differs() => "within the spread",
            () if self.middle < 1.0 => "FASTER",
            () => "SLOWER",
        };
        format!("{:.3} ({:.3} to {:.3})  p {:.2}  {what}", self.middle, self.low, self.high, self.chance)
    }
}

/// How often a fair coin, thrown as often, shows one side as seldom as the rarer of these, or more seldom; either side.
pub fn sign_test(less: u32, more: u32) -> f64 {
    let all = f64::from(less + more);
    // From none upwards: the ways to choose so many of all, over all ways, in logarithms for the sake of many throws.
    let (mut ways, mut sum) = (-all * 2f64.ln(), 0.0);
    for k in 0..=less.min(more) {
        sum += ways.exp();
        ways += ((all - f64::from(k)) / f64::from(k + 1)).ln();
    }
    (2.0 * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coin_is_as_fair_as_it_is_said_to_be() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(sign_test(0, 1), 1.0) && close(sign_test(0, 0), 1.0) && close(sign_test(5, 5), 1.0));
        assert!(close(sign_test(0, 5), 2.0 / 32.0) && close(sign_test(1, 4), 12.0 / 32.0));
        assert!(close(sign_test(4, 1), sign_test(1, 4)) && sign_test(0, 2000) < 1e-100);
    }

    #[test]
    fn only_a_spread_on_one_side_of_one_is_a_difference() {
        let both: Vec<f64> = (0..40).map(|n| 0.98 + 0.001 * f64::from(n)).collect();
        assert!(!Spread::of(&both).differs());
        let one: Vec<f64> = both.iter().map(|r| r - 0.1).collect();
        assert!(Spread::of(&one).differs() && Spread::of(&one).show().contains("FASTER"));
        // Of a few rounds one cannot tell.
        assert!(!Spread::of(&one[..3]).differs());
    }
}
