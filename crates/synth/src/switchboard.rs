//! All subscriptions of a stream as one decision: a record goes in, a bit for each subscription that wants it comes out.
//!
//! An executable data structure (Synthesis 3.2.3): the list of subscriptions is not walked, it is what is executed. Each filter
//! is a conjunction, and most of its terms compare a value with a constant: `sym == 'X'`, `price > 10.0`, `side in [1, 2]`.
//! For each value that subscriptions compare so (a *dimension*), the constants of all of them cut its range into regions, and
//! each region has a row of bits: which subscriptions' terms hold there. So a record costs, for each dimension, one load, one
//! search among the cuts (without branches) and one AND of rows, however many subscriptions there are:
//!
//! ```text
//!   price        10        25            40            cuts, sorted
//!          0110 | 0111    | 1011        | 1001          a row for each region
//!   sym    ...                                          AND, dimension by dimension
//!   then the terms that are no such comparison, of those subscriptions alone whose bit is still there
//! ```
//!
//! Values that several subscriptions compute are computed once: their programs are merged, operation by operation.
//!
//! A thread that subscribes or unsubscribes makes a new board and publishes it ([`crate::published`]). A reader that
//! routes records takes it up with its next record, at the price of one load that it makes anyway. A subscription sees
//! every record whose routing begins after [`Switchboard::subscribe`] has returned, and none after
//! [`Switchboard::unsubscribe`] has.

use crate::build::{Builder, merge};
use crate::closure::{Bools, Closures, Words, bool_of, word_of};
use crate::interpret::Interpreter;
use crate::ir::{Bin, Id, MAX_OPS, Op, Type, Verified};
use crate::published::{Published, Reader};
use crate::query::Bound;
use crate::refused::{FOREIGN_OPS, LiveError, MAX_SUBSCRIPTIONS, Trust};
use crate::schema::{Scalar, Schema};
use std::collections::HashMap;
use std::sync::Arc;

/// A subscription's number: that of its bit. It is given to another when this one has gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Subscription(pub u32);

/// One filter, as it was subscribed.
struct Filter {
    program: Verified,
    /// None: too deep for closures.
    closures: Option<Closures>,
}

/// A value that is compared with constants.
enum Source {
    Load(u32, Scalar),
    Masked(u32, u64),
    Computed(Words),
}

/// In what order the values of a dimension lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Unsigned,
    Signed,
    Double,
}

impl Order {
    /// A number that grows as the value does. Of doubles, 0 and -0 have one, and every NaN has that which nothing reaches.
    #[inline(always)]
    fn rank(self, bits: u64) -> u64 {
        const SIGN: u64 = 1 << 63;
        match self {
            Order::Unsigned => bits,
            Order::Signed => bits ^ SIGN,
            Order::Double => {
                let bits = (f64::from_bits(bits) + 0.0).to_bits();
                if f64::from_bits(bits).is_nan() {
                    u64::MAX
                } else if bits & SIGN != 0 {
                    !bits
                } else {
                    bits | SIGN
                }
            }
        }
    }

    /// The greatest rank that a comparison can hold for.
    fn last(self) -> u64 {
        if self == Order::Double { self.rank(f64::INFINITY.to_bits()) } else { u64::MAX }
    }
}

/// One value, the cuts through its range, and the rows of the regions between them.
struct Dimension {
    source: Source,
    order: Order,
    cuts: Vec<u64>,
    /// `cuts.len() + 1` rows.
    rows: Vec<u64>,
}

impl Dimension {
    #[inline]
    fn row(&self, record: &[u8], words: usize) -> &[u64] {
        let bits = match &self.source {
            Source::Load(at, kind) => crate::ir::load(record, *at, *kind),
            Source::Masked(at, mask) => crate::ir::load(record, *at, Scalar::U64) & mask,
            Source::Computed(f) => f(record),
        };
        let region = region(&self.cuts, self.order.rank(bits));
        &self.rows[region * words..][..words]
    }
}

/// How many cuts are at most `rank`: by halves, without a branch that depends on the rank.
#[inline]
fn region(cuts: &[u64], rank: u64) -> usize {
    let (mut from, mut len) = (0, cuts.len());
    if len == 0 {
        return 0;
    }
    while len > 1 {
        let half = len / 2;
        from += if cuts[from + half - 1] <= rank { half } else { 0 };
        len -= half;
    }
    from + usize::from(cuts[from] <= rank)
}

/// A version of the whole.
struct Board {
    filters: Vec<Option<Arc<Filter>>>,
    words: usize,
    /// The bits of the subscriptions that are there and not in `alone`.
    merged: Vec<u64>,
    dimensions: Vec<Dimension>,
    /// Terms that are no comparison with a constant, by subscription.
    rest: Vec<Option<Bools>>,
    /// The bits of the subscriptions with such terms.
    has_rest: Vec<u64>,
    /// The subscriptions that are tested one by one.
    alone: Vec<(u32, Arc<Filter>)>,
}

/// The subscriptions of a stream of records of one schema.
pub struct Switchboard {
    schema: Schema,
    board: Published<Board>,
}

/// Routes records: each thread that does so has one.
pub struct SwitchboardReader {
    switchboard: Arc<Switchboard>,
    reader: Reader<Board>,
    interpreter: Interpreter,
}

impl Switchboard {
    /// Without subscriptions.
    pub fn new(schema: &Schema) -> Arc<Switchboard> {
        Arc::new(Switchboard { schema: schema.clone(), board: Published::new(Board::new(Vec::new())) })
    }

    /// Adds a subscription; what it selects is not looked at, only which records. It takes the least free number.
    ///
    /// # Errors
    /// Another user's that is too large; [`LiveError::Full`]; [`LiveError::Schema`] if it is over other records.
    pub fn subscribe(&self, filter: &Bound, trust: Trust) -> Result<Subscription, LiveError> {
        let filter = self.made(filter, trust)?;
        let mut number = 0;
        self.board.replace(|board| {
            let mut filters = board.filters.clone();
            number = filters.iter().position(Option::is_none).unwrap_or(filters.len());
            if number == MAX_SUBSCRIPTIONS {
                return Err(LiveError::Full);
            }
            if number == filters.len() {
                filters.push(None);
            }
            filters[number] = Some(filter);
            Ok(Board::new(filters))
        })?;
        Ok(Subscription(number as u32))
    }

    /// Adds a subscription under a number that the caller has given it, in the place of whatever had it.
    ///
    /// # Errors
    /// As [`Switchboard::subscribe`]: [`LiveError::Full`] for a number that there is not.
    pub fn put(&self, number: Subscription, filter: &Bound, trust: Trust) -> Result<(), LiveError> {
        let (filter, at) = (self.made(filter, trust)?, number.0 as usize);
        if at >= MAX_SUBSCRIPTIONS {
            return Err(LiveError::Full);
        }
        self.board.replace(|board| {
            let mut filters = board.filters.clone();
            filters.resize_with(filters.len().max(at + 1), || None);
            filters[at] = Some(filter);
            Ok(Board::new(filters))
        })
    }

    /// A filter as the board keeps it.
    fn made(&self, filter: &Bound, trust: Trust) -> Result<Arc<Filter>, LiveError> {
        if *filter.query().schema() != self.schema {
            return Err(LiveError::Schema);
        }
        let ops = filter.program().ops.len();
        if trust == Trust::Foreign && ops > FOREIGN_OPS {
            return Err(LiveError::Foreign(ops));
        }
        let mut only = (**filter.program()).clone();
        (only.columns, only.aggregates, only.row) = (Vec::new(), Vec::new(), 0);
        let only = Builder::from(only).finish().map_err(|e| LiveError::Bind(e.into()))?;
        Ok(Arc::new(Filter { closures: Closures::new(&only), program: only }))
    }

    /// Takes a subscription away. Whether it was there.
    pub fn unsubscribe(&self, who: Subscription) -> bool {
        let change = |board: &Board| {
            let mut filters = board.filters.clone();
            filters.get_mut(who.0 as usize).and_then(Option::take).ok_or(())?;
            while filters.last().is_some_and(Option::is_none) {
                filters.pop();
            }
            Ok::<_, ()>(Board::new(filters))
        };
        self.board.replace(change).is_ok()
    }

    /// To be used by one thread that routes records.
    pub fn reader(self: &Arc<Switchboard>) -> SwitchboardReader {
        SwitchboardReader {
            reader: self.board.reader(),
            switchboard: self.clone(),
            interpreter: Interpreter::default(),
        }
    }
}

impl SwitchboardReader {
    /// Which subscriptions want a record: bit `n % 64` of word `n / 64` for subscription `n`. The words are as many as there must be.
    ///
    /// # Panics
    /// When the record is shorter than the schema's.
    #[inline]
    pub fn route<'w>(&mut self, record: &[u8], wanted: &'w mut Vec<u64>) -> &'w [u64] {
        let record = &record[..self.switchboard.schema.size() as usize];
        let board = self.switchboard.board.get(&mut self.reader);
        wanted.clear();
        wanted.extend_from_slice(&board.merged);
        for dimension in &board.dimensions {
            for (w, row) in wanted.iter_mut().zip(dimension.row(record, board.words)) {
                *w &= row;
            }
        }
        for (word, has_rest) in board.has_rest.iter().enumerate() {
            let mut open = wanted[word] & has_rest;
            while open != 0 {
                let bit = open.trailing_zeros();
                open &= open - 1;
                let holds = board.rest[word * 64 + bit as usize].as_ref().is_none_or(|rest| rest(record));
                wanted[word] &= !(u64::from(!holds) << bit);
            }
        }
        for (number, filter) in &board.alone {
            let passes = match &filter.closures {
                Some(closures) => closures.test(record),
                None => self.interpreter.run(&filter.program, &[], record),
            };
            wanted[*number as usize / 64] |= u64::from(passes) << (number % 64);
        }
        wanted
    }
}

/// What one subscription asks of one dimension: ranges of ranks, both ends included.
type Ranges = Vec<(u64, u64)>;

/// Terms that compare a value with constants, gathered by value.
#[derive(Default)]
struct Gathered {
    /// In the order in which they came.
    values: Vec<(Id, Order)>,
    index: HashMap<Id, usize>,
    /// By dimension and subscription.
    asked: Vec<HashMap<usize, Ranges>>,
}

impl Gathered {
    /// Takes a term in, if it is such a comparison. An equality fits either order of words.
    fn take(&mut self, builder: &Builder, who: usize, term: Id) -> bool {
        let Some((value, order, ranges)) = ranges(builder, term) else { return false };
        let at = *self.index.entry(value).or_insert_with(|| {
            self.values.push((value, order.unwrap_or(Order::Unsigned)));
            self.asked.push(HashMap::new());
            self.values.len() - 1
        });
        let fixed = self.values[at].1;
        if order.is_some_and(|o| o != fixed) {
            return false;
        }
        let ranges = ranges(fixed);
        let asked = self.asked[at].entry(who).or_insert_with(|| vec![(0, u64::MAX)]);
        let mut both = Vec::new();
        for (a, b) in asked.iter() {
            both.extend(ranges.iter().map(|(c, d)| (*a.max(c), *b.min(d))).filter(|(lo, hi)| lo <= hi));
        }
        *asked = both;
        true
    }
}

type MakeRanges = Box<dyn Fn(Order) -> Ranges>;

/// A term as ranges of one value. No order: any will do.
fn ranges(builder: &Builder, term: Id) -> Option<(Id, Option<Order>, MakeRanges)> {
    let Op::Bin(bin, a, b) = builder.program.ops[term as usize] else { return None };
    if bin == Bin::Or {
        // `x in [1, 2]`: all over one value.
        let (x, order, left) = ranges(builder, a)?;
        let (y, other, right) = ranges(builder, b)?;
        let order = order.or(other);
        let joined: MakeRanges = Box::new(move |o| [left(o), right(o)].concat());
        return (x == y && (other.is_none() || other == order)).then_some((x, order, joined));
    }
    let (ca, cb) = (builder.constant(a), builder.constant(b));
    let order = match bin {
        Bin::Eq => None,
        Bin::LtS | Bin::LeS => Some(Order::Signed),
        Bin::LtU | Bin::LeU => Some(Order::Unsigned),
        Bin::EqDouble | Bin::LtDouble | Bin::LeDouble => Some(Order::Double),
        _ => return None,
    };
    let strict = matches!(bin, Bin::LtS | Bin::LtU | Bin::LtDouble);
    let equal = matches!(bin, Bin::Eq | Bin::EqDouble);
    let (value, constant, below) = match (ca, cb) {
        (None, Some(c)) => (a, c, true),
        (Some(c), None) => (b, c, false),
        _ => return None,
    };
    let make = move |order: Order| {
        if order == Order::Double && f64::from_bits(constant).is_nan() {
            return Vec::new();
        }
        let (c, last) = (order.rank(constant), order.last());
        let range = match (equal, below, strict) {
            (true, _, _) => Some((c, c)),
            (_, true, true) => c.checked_sub(1).map(|hi| (0, hi)),
            (_, true, false) => Some((0, c)),
            (_, false, true) => c.checked_add(1).map(|lo| (lo, last)),
            (_, false, false) => Some((c, last)),
        };
        range.into_iter().filter(|(lo, hi)| lo <= hi).collect()
    };
    Some((value, order, Box::new(make)))
}

fn set(row: &mut [u64], bit: usize) {
    row[bit / 64] |= 1 << (bit % 64);
}

impl Board {
    fn new(filters: Vec<Option<Arc<Filter>>>) -> Board {
        let words = filters.len().div_ceil(64);
        let mut board = Board {
            words,
            merged: vec![0; words],
            dimensions: Vec::new(),
            rest: Vec::new(),
            has_rest: vec![0; words],
            alone: Vec::new(),
            filters: Vec::new(),
        };
        board.rest.resize_with(filters.len(), || None);
        let mut builder = Builder::default();
        let mut gathered = Gathered::default();
        let mut left: Vec<(usize, Vec<Id>)> = Vec::new();
        for (number, filter) in filters.iter().enumerate() {
            let Some(filter) = filter else { continue };
            if filter.closures.is_none() || builder.program.ops.len() + filter.program.ops.len() > MAX_OPS / 2 {
                board.alone.push((number as u32, filter.clone()));
                continue;
            }
            set(&mut board.merged, number);
            builder.program.record = filter.program.record;
            let place = merge(&mut builder, &filter.program);
            let Some(root) = filter.program.filter else { continue };
            let mut terms = Vec::new();
            conjuncts(&builder, place[root as usize], &mut terms);
            terms.retain(|term| !gathered.take(&builder, number, *term));
            if !terms.is_empty() {
                left.push((number, terms));
            }
        }
        let rest: Vec<(usize, Id)> = left.into_iter().map(|(number, terms)| (number, builder.all(&terms))).collect();
        let program = &builder.program;
        for (number, id) in rest {
            set(&mut board.has_rest, number);
            board.rest[number] = Some(bool_of(program, id));
        }
        for ((value, order), asked) in gathered.values.iter().zip(&gathered.asked) {
            let source = match program.ops[*value as usize] {
                Op::Load { at, kind } => Source::Load(at, kind),
                Op::Bin(Bin::AndWord, x, mask) => match (program.ops[x as usize], builder.constant(mask)) {
                    (Op::Load { at, kind: Scalar::U64 }, Some(mask)) => Source::Masked(at, mask),
                    _ => Source::Computed(word_of(program, *value)),
                },
                _ => Source::Computed(word_of(program, *value)),
            };
            debug_assert!(program.type_of(*value) != Type::Bool, "bools are not compared with constants");
            board.dimensions.push(dimension(source, *order, asked, &board.merged));
        }
        board.filters = filters;
        board
    }
}

/// The terms of a conjunction.
fn conjuncts(builder: &Builder, id: Id, terms: &mut Vec<Id>) {
    match builder.program.ops[id as usize] {
        Op::Bin(Bin::And, a, b) => {
            conjuncts(builder, a, terms);
            conjuncts(builder, b, terms);
        }
        _ => terms.push(id),
    }
}

fn dimension(source: Source, order: Order, asked: &HashMap<usize, Ranges>, merged: &[u64]) -> Dimension {
    let words = merged.len();
    let mut cuts: Vec<u64> = asked
        .values()
        .flatten()
        .flat_map(|(lo, hi)| [Some(*lo), hi.checked_add(1)])
        .flatten()
        .filter(|c| *c > 0)
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    // A subscription without a term in this dimension has its bit in every row.
    let mut free = merged.to_vec();
    asked.keys().for_each(|who| free[who / 64] &= !(1 << (who % 64)));
    let mut rows = free.repeat(cuts.len() + 1);
    for (who, ranges) in asked {
        for (lo, hi) in ranges {
            for at in region(&cuts, *lo)..=region(&cuts, *hi) {
                set(&mut rows[at * words..][..words], *who);
            }
        }
    }
    Dimension { source, order, cuts, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_found_as_by_counting() {
        for len in 0..40u64 {
            let cuts: Vec<u64> = (0..len).map(|i| 3 * i + 5).collect();
            for rank in 0..140 {
                let counted = cuts.iter().filter(|c| **c <= rank).count();
                assert_eq!(region(&cuts, rank), counted, "{len} {rank}");
            }
        }
    }

    #[test]
    fn ranks_grow_as_doubles_do() {
        let inf = f64::INFINITY;
        let values = [-inf, -1e300, -1.0, -f64::MIN_POSITIVE, 0.0, f64::MIN_POSITIVE, 1.0, 1e300, inf];
        let ranks: Vec<u64> = values.iter().map(|v| Order::Double.rank(v.to_bits())).collect();
        assert!(ranks.is_sorted_by(|a, b| a < b));
        assert_eq!(Order::Double.rank((-0.0f64).to_bits()), Order::Double.rank(0));
        assert!(Order::Double.rank((-f64::NAN).to_bits()) > Order::Double.last());
    }
}
