//! The states of aggregates, group by group.
//!
//! Each aggregate of each group has two words: what it has so far, and how many values that is made of (of `first` and `last`: which record it
//! was, counted from 1). 0 of them are NULL. What does not fit a word lies beside: texts, sets, all values of a quantile.
//!
//! A sum of integers has 127 bits, more than any number of records can fill: the first word is its low 64 bits, the second one the bits
//! above them and, as its lowest bit, that there is a value. Only its final value must fit, so neither the order of the values nor the
//! number of the threads that add them up makes a difference.

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
    words: Vec<[u64; 2]>,
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
        16 * self.words.capacity() + size_of::<Beside>() * self.beside.capacity() + self.beside_bytes
    }

    /// Forgets all groups.
    pub fn clear(&mut self) {
        self.words.clear();
        self.beside.clear();
        self.beside_bytes = 0;
    }

    /// One group more.
    pub fn group(&mut self) {
        self.words.extend(self.added.iter().map(|a| [start(a), 0]));
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
                (How::Sum, Kind::Double) => {
                    *state = [(f64::from_bits(state[0]) + f64::from_bits(value)).to_bits(), state[1] + 1]
                }
                (How::Sum, kind) => *state = summed(*state, wide(kind, value)),
                (How::Mean, kind) => {
                    *state = [(f64::from_bits(state[0]) + double(kind, value)).to_bits(), state[1] + 1]
                }
                (How::Min, kind) => *state = [least(kind).step(state[0], value), state[1] + 1],
                (How::Max, kind) => *state = [greatest(kind).step(state[0], value), state[1] + 1],
                (How::First, _) if state[1] != 0 => {}
                (How::First | How::Last, _) => *state = [value, order + 1],
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
            let [value, count] = other.words[of * many + at];
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
                    *state = [(f64::from_bits(state[0]) + f64::from_bits(value)).to_bits(), state[1] + count];
                }
                (How::Sum, _) => *state = summed(*state, sum([value, count])),
                (How::Min, kind) => *state = [least(kind).step(state[0], value), state[1] + count],
                (How::Max, kind) => *state = [greatest(kind).step(state[0], value), state[1] + count],
                (How::First, _) if state[1] == 0 || count < state[1] => *state = [value, count],
                (How::Last, _) if count >= state[1] => *state = [value, count],
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
        let [value, count] = self.words[group * self.added.len() + at];
        match added.how {
            How::Count | How::Distinct => return Ok(Outcome::Word(count)),
            _ if count == 0 => return Ok(Outcome::Null),
            How::Mean => return Ok(Outcome::Word(settled((f64::from_bits(value) / count as f64).to_bits()))),
            _ => {}
        }
        Ok(match (added.how, added.kind) {
            (How::Sum, Kind::Int | Kind::Uint) => {
                let sum = sum([value, count]);
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
fn sum([low, high]: [u64; 2]) -> i128 {
    i128::from(high.cast_signed() >> 1) << 64 | i128::from(low)
}

/// The state with a value more.
#[inline]
fn summed(state: [u64; 2], value: i128) -> [u64; 2] {
    let sum = sum(state) + value;
    [sum as u64, ((sum >> 64) as u64) << 1 | 1]
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
