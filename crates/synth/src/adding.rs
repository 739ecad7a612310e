//! The states of aggregates, group by group.
//!
//! Each aggregate of each group has three words: what it has so far, how many values that is made of (of `first` and `last`: which record it
//! was, counted from 1), and what a sum of doubles has lost by rounding. 0 of them are NULL. What does not fit a word lies beside: texts, sets, all values of a quantile.
//!
//! A sum of integers has 127 bits, more than any number of records can fill: the first word is its low 64 bits, the second one the bits
//! above them and, as its lowest bit, that there is a value. Only its final value must fit, so neither the order of the values nor the
//! number of the threads that add them up makes a difference.
//!
//! A sum of doubles keeps what each addition rounds away (Knuth's two-sum, as Ogita, Rump and Oishi's Sum2 has it): it is the double nearest to the sum of the
//! values unless those nearly cancel out (1 in 10^16), so it, too, is the same by whatever threads and blocks (but where a part of
//! the sum alone is beyond doubles).

use crate::ir::{Kind, settled, text_of};
use crate::list::{Added, How, greatest, least};
use crate::table::Table;

/// What does not fit a word.
enum Beside {
    Text(Vec<u8>),
    Set(Table),
    Values(Vec<f64>),
}

impl Beside {
    fn size(&self) -> usize {
        match self {
            Beside::Text(t) => t.capacity(),
            Beside::Set(t) => t.size(),
            Beside::Values(v) => 8 * v.capacity(),
        }
    }
}

/// A result.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Outcome<'a> {
    /// There was no value.
    Null,
    /// As values are kept while a program runs.
    Word(u64),
    /// A text.
    Text(&'a [u8]),
}

/// The states of all groups.
#[derive(Default)]
pub struct States {
    added: Vec<Added>,
    words: Vec<[u64; 3]>,
    beside: Vec<Beside>,
    beside_bytes: usize,
}

/// An integer sum that does not fit 64 bits: the number of the aggregate.
#[derive(Debug, PartialEq, Eq)]
pub struct Overflow(pub usize);

impl States {
    /// For these aggregates, without groups.
    pub fn new(added: &[Added]) -> States {
        States { added: added.to_vec(), ..States::default() }
    }

    /// Bytes of memory.
    pub fn size(&self) -> usize {
        24 * self.words.capacity() + size_of::<Beside>() * self.beside.capacity() + self.beside_bytes
    }

    /// Forgets all groups.
    pub fn clear(&mut self) {
        self.words.clear();
        self.beside.clear();
        self.beside_bytes = 0;
    }

    /// One group more.
    pub fn group(&mut self) {
        self.words.extend(self.added.iter().map(|a| [start(a), 0, 0]));
    }

    /// Adds a row to a group. `order` is the number of its record.
    #[inline]
    pub fn add(&mut self, group: usize, row: &[u8], texts: &[u8], order: u64) {
        let many = self.added.len();
        for at in 0..many {
            let added = self.added[at];
            if added.there.is_some_and(|there| row[there as usize] == 0) {
                continue;
            }
            let value = match added.at {
                None => 0,
                Some(at) if added.kind == Kind::Bool => u64::from(row[at as usize]),
                Some(at) => u64::from_le_bytes(row[at as usize..at as usize + 8].try_into().expect("8 bytes")),
            };
            let state = &mut self.words[group * many + at];
            match (added.how, added.kind) {
                (_, Kind::Text) => {
                    if value >> 32 != u64::from(u32::MAX) {
                        self.text(group * many + at, added.how, text_of(value, texts), order + 1);
                    }
                }
                (How::Count, _) => state[1] += 1,
                (How::Sum, Kind::Double) => sum_doubles(state, f64::from_bits(value), 1),
                (How::Sum, kind) => sum_integers(state, wide(kind, value)),
                (How::Mean, kind) => sum_doubles(state, double(kind, value), 1),
                (How::Min, kind) => *state = [least(kind).step(state[0], value), state[1] + 1, 0],
                (How::Max, kind) => *state = [greatest(kind).step(state[0], value), state[1] + 1, 0],
                (How::First, _) if state[1] != 0 => {}
                (How::First | How::Last, _) => *state = [value, order + 1, 0],
                (How::Distinct, kind) => {
                    let same = if kind == Kind::Double { one_of_equals(value) } else { value };
                    self.member(group * many + at, &same.to_le_bytes());
                }
                (How::Quantile(_), kind) => {
                    let value = double(kind, value);
                    if !value.is_nan() {
                        self.value(group * many + at, value);
                    }
                }
            }
        }
    }

    /// What lies beside a state, made if it is not there.
    fn beside(&mut self, at: usize, make: impl FnOnce() -> Beside) -> &mut Beside {
        if self.words[at][0] == 0 {
            let new = make();
            self.beside_bytes += new.size();
            self.beside.push(new);
            self.words[at][0] = self.beside.len() as u64;
        }
        let number = self.words[at][0] as usize - 1;
        &mut self.beside[number]
    }

    fn member(&mut self, at: usize, key: &[u8]) {
        let Beside::Set(set) = self.beside(at, || Beside::Set(Table::default())) else { return };
        let before = set.size();
        set.add(key);
        let (now, many) = (set.size(), set.len() as u64);
        self.beside_bytes += now - before;
        self.words[at][1] = many;
    }

    fn value(&mut self, at: usize, value: f64) {
        let Beside::Values(values) = self.beside(at, || Beside::Values(Vec::new())) else { return };
        let before = values.capacity();
        values.push(value);
        self.beside_bytes += 8 * (values.capacity() - before);
        self.words[at][1] += 1;
    }

    fn text(&mut self, at: usize, how: How, text: &[u8], order: u64) {
        let seen = self.words[at][1];
        match how {
            How::Count => self.words[at][1] += 1,
            How::Distinct => self.member(at, text),
            _ => {
                let Beside::Text(has) = self.beside(at, || Beside::Text(Vec::new())) else { return };
                let takes = seen == 0
                    || match how {
                        How::Min => text < has.as_slice(),
                        How::Max => text > has.as_slice(),
                        How::First => order < seen,
                        _ => order >= seen,
                    };
                if takes {
                    let before = has.capacity();
                    has.clear();
                    has.extend_from_slice(text);
                    self.beside_bytes += has.capacity() - before;
                    self.words[at][1] = order;
                }
            }
        }
    }

    /// Adds what another has added of one of its groups to one of these.
    pub fn merge(&mut self, group: usize, other: &States, of: usize) {
        let many = self.added.len();
        for at in 0..many {
            let (here, added) = (group * many + at, self.added[at]);
            let [value, count, low] = other.words[of * many + at];
            if count == 0 {
                continue;
            }
            let beside = || &other.beside[value as usize - 1];
            let state = &mut self.words[here];
            match (added.how, added.kind) {
                (How::Count, _) => state[1] += count,
                (How::Distinct, _) => {
                    if let Beside::Set(set) = beside() {
                        set.iter().for_each(|key| self.member(here, key));
                    }
                }
                (How::Quantile(_), _) => {
                    if let Beside::Values(values) = beside() {
                        values.iter().for_each(|value| self.value(here, *value));
                    }
                }
                (how, Kind::Text) => {
                    if let Beside::Text(text) = beside() {
                        self.text(here, how, text, count);
                    }
                }
                (How::Sum, Kind::Double) | (How::Mean, _) => {
                    sum_doubles(state, f64::from_bits(value), count);
                    state[2] = (f64::from_bits(state[2]) + f64::from_bits(low)).to_bits();
                }
                (How::Sum, _) => sum_integers(state, integers(value, count)),
                (How::Min, kind) => *state = [least(kind).step(state[0], value), state[1] + count, 0],
                (How::Max, kind) => *state = [greatest(kind).step(state[0], value), state[1] + count, 0],
                (How::First, _) if state[1] == 0 || count < state[1] => *state = [value, count, 0],
                (How::Last, _) if count >= state[1] => *state = [value, count, 0],
                (How::First | How::Last, _) => {}
            }
        }
    }

    /// What an aggregate of a group has come to.
    ///
    /// # Errors
    /// A sum that does not fit.
    pub fn outcome(&mut self, group: usize, at: usize) -> Result<Outcome<'_>, Overflow> {
        let added = self.added[at];
        let [value, count, low] = self.words[group * self.added.len() + at];
        match added.how {
            How::Count | How::Distinct => return Ok(Outcome::Word(count)),
            _ if count == 0 => return Ok(Outcome::Null),
            How::Mean => return Ok(Outcome::Word(settled((doubles(value, low) / count as f64).to_bits()))),
            _ => {}
        }
        Ok(match (added.how, added.kind) {
            (How::Sum, Kind::Int | Kind::Uint) => {
                let sum = integers(value, count);
                let fits =
                    if added.kind == Kind::Int { i64::try_from(sum).is_ok() } else { u64::try_from(sum).is_ok() };
                if !fits {
                    return Err(Overflow(at));
                }
                Outcome::Word(value)
            }
            (How::Quantile(part), _) => match &mut self.beside[value as usize - 1] {
                Beside::Values(values) => Outcome::Word(quantile(values, part).to_bits()),
                _ => Outcome::Null,
            },
            (_, Kind::Text) => match &self.beside[value as usize - 1] {
                Beside::Text(text) => Outcome::Text(text),
                _ => Outcome::Null,
            },
            (How::Sum, Kind::Double) => Outcome::Word(settled(doubles(value, low).to_bits())),
            (_, Kind::Double) => Outcome::Word(settled(value)),
            _ => Outcome::Word(value),
        })
    }
}

fn start(added: &Added) -> u64 {
    match (added.how, added.kind) {
        (_, Kind::Text) => 0,
        (How::Min, kind) => least(kind).start(),
        (How::Max, kind) => greatest(kind).start(),
        _ => 0,
    }
}

/// An integer of 64 bits.
#[inline]
fn wide(kind: Kind, value: u64) -> i128 {
    if kind == Kind::Int { value.cast_signed().into() } else { value.into() }
}

/// What a state of a sum of integers has so far.
#[inline]
fn integers(low: u64, high: u64) -> i128 {
    i128::from(high.cast_signed() >> 1) << 64 | i128::from(low)
}

/// A value more.
#[inline]
fn sum_integers(state: &mut [u64; 3], value: i128) {
    let sum = integers(state[0], state[1]) + value;
    *state = [sum as u64, ((sum >> 64) as u64) << 1 | 1, 0];
}

/// So many values more, which are this.
#[inline]
fn sum_doubles(state: &mut [u64; 3], value: f64, many: u64) {
    let (before, low) = (f64::from_bits(state[0]), f64::from_bits(state[2]));
    let sum = before + value;
    let added = sum - before;
    let lost = (before - (sum - added)) + (value - added);
    *state = [sum.to_bits(), state[1] + many, (low + lost).to_bits()];
}

/// What a state of a sum of doubles has come to. NaN and the infinities have lost nothing.
fn doubles(sum: u64, low: u64) -> f64 {
    let sum = f64::from_bits(sum);
    if sum.is_finite() { sum + f64::from_bits(low) } else { sum }
}

fn double(kind: Kind, value: u64) -> f64 {
    match kind {
        Kind::Double => f64::from_bits(value),
        Kind::Int => value as i64 as f64,
        _ => value as f64,
    }
}

/// Of doubles that are equal, one; of NaNs as well.
fn one_of_equals(bits: u64) -> u64 {
    if f64::from_bits(bits) == 0.0 { 0 } else { settled(bits) }
}

fn quantile(values: &mut [f64], part: f64) -> f64 {
    let place = part * (values.len() - 1) as f64;
    let (below, between) = (place.floor() as usize, place.fract());
    let (_, low, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let low = *low;
    let next = above.iter().copied().min_by(f64::total_cmp);
    match next {
        Some(next) if between > 0.0 => low + (next - low) * between,
        _ => low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summed(of: impl Iterator<Item = f64>) -> [u64; 3] {
        let mut state = [0; 3];
        of.for_each(|value| sum_doubles(&mut state, value, 1));
        state
    }

    fn value(state: [u64; 3]) -> f64 {
        doubles(state[0], state[2])
    }

    #[test]
    fn prices_add_up_to_the_cent_in_any_order_and_in_parts() {
        let cents: Vec<u64> = (0..200_000u64).map(|n| n * n % 49_999 + 1).collect();
        let exact = cents.iter().sum::<u64>() as f64 / 100.0;
        let prices: Vec<f64> = cents.iter().map(|n| *n as f64 / 100.0).collect();
        assert_ne!(prices.iter().sum::<f64>(), exact, "a plain sum is another");
        assert_eq!(value(summed(prices.iter().copied())), exact);
        assert_eq!(value(summed(prices.iter().rev().copied())), exact);
        let added = [Added { how: How::Sum, kind: Kind::Double, at: Some(0), there: None, field: 0 }];
        let mut parts = prices.chunks(4321).map(|part| {
            let mut states = States::new(&added);
            states.group();
            part.iter().for_each(|price| states.add(0, &price.to_le_bytes(), &[], 0));
            states
        });
        let mut all = parts.next().unwrap();
        parts.for_each(|part| all.merge(0, &part, 0));
        assert_eq!(all.outcome(0, 0), Ok(Outcome::Word(exact.to_bits())));
    }

    #[test]
    fn infinities_and_nan_stay_in_a_sum() {
        let infinity = f64::INFINITY;
        assert_eq!(value(summed([1.0, infinity, -5.0].into_iter())), infinity);
        assert_eq!(value(summed([f64::MAX, f64::MAX].into_iter())), infinity);
        assert!(value(summed([infinity, -infinity].into_iter())).is_nan());
        assert!(value(summed([f64::NAN, 1.0].into_iter())).is_nan());
        assert_eq!(value(summed([1e100, 1.0, -1e100].into_iter())), 1.0);
    }
}
