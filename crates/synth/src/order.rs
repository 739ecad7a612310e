//! Rows in order: all of them, or as many as are wanted.
//!
//! By each field of [`Query::order`] in turn; NULL comes last, NaN behind all other numbers. Of rows that are equal the one that came first
//! is the first.

use crate::ir::{NO_TEXT, load, text_of};
use crate::list::Order;
use crate::query::Query;
use crate::schema::{FieldType, Scalar, Schema};
use std::cmp::Ordering;

/// Rows that came out, and the texts of any length of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rows {
    /// One behind the other.
    pub bytes: Vec<u8>,
    /// Where the texts lie that they name.
    pub texts: Vec<u8>,
}

impl Rows {
    /// Adds a row, and the texts that it names, which lie in `texts`.
    pub fn push(&mut self, schema: &Schema, row: &[u8], texts: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(row);
        for field in schema.fields().iter().filter(|f| f.kind == FieldType::Str) {
            let at = field.at as usize;
            let word = u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"));
            if word >> 32 != NO_TEXT >> 32 {
                let moved = self.text(text_of(word, texts));
                self.bytes[start + at..start + at + 8].copy_from_slice(&moved.to_le_bytes());
            }
        }
    }

    /// Adds rows with their texts.
    pub fn extend(&mut self, schema: &Schema, more: &Rows) {
        more.bytes.chunks_exact(schema.size() as usize).for_each(|row| self.push(schema, row, &more.texts));
    }

    /// Adds a text: the word that names it. Texts have 4 GiB in all; what goes beyond names none.
    pub fn text(&mut self, text: &[u8]) -> u64 {
        let Ok(at) = u32::try_from(self.texts.len() + text.len()) else { return NO_TEXT };
        self.texts.extend_from_slice(text);
        ((text.len() as u64) << 32) | (u64::from(at) - text.len() as u64)
    }
}

/// Keeps rows until all have come.
pub struct Ordered {
    schema: Schema,
    order: Vec<Order>,
    top: Option<usize>,
    rows: Rows,
}

impl Ordered {
    /// For a query that orders its rows or wants some of them; none: it takes them as they come.
    pub fn new(query: &Query) -> Option<Ordered> {
        let schema = query.rows().unwrap_or(query.schema()).clone();
        let top = query.top().map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let (order, rows) = (query.order().to_vec(), Rows::default());
        (!order.is_empty() || top.is_some()).then_some(Ordered { schema, order, top, rows })
    }

    /// Bytes of memory: of the rows, and of what bringing them in order needs beside them.
    pub fn size(&self) -> usize {
        let rows = self.rows.bytes.capacity() + self.rows.texts.capacity();
        rows + self.rows.bytes.len() + self.rows.texts.len() + size_of::<usize>() * self.many()
    }

    fn many(&self) -> usize {
        self.rows.bytes.len() / self.schema.size() as usize
    }

    /// Adds rows, and the texts that they name.
    pub fn add(&mut self, rows: &[u8], texts: &[u8]) {
        let size = self.schema.size() as usize;
        for row in rows.chunks_exact(size) {
            self.rows.push(&self.schema, row, texts);
        }
        // What cannot be among the first any more need not be kept.
        if let Some(top) = self.top
            && self.many() >= top.saturating_mul(2).saturating_add(1024)
        {
            self.settle();
        }
    }

    /// These rows, those that are wanted of them in order.
    pub(crate) fn of(self, rows: Rows) -> Rows {
        Ordered { rows, ..self }.finish()
    }

    /// Whether no more rows are needed: as many as are wanted have come, and they are taken as they come.
    pub fn is_full(&self) -> bool {
        self.order.is_empty() && self.top.is_some_and(|top| self.many() >= top)
    }

    fn settle(&mut self) {
        let (many, size) = (self.many(), self.schema.size() as usize);
        let wanted = self.top.unwrap_or(usize::MAX).min(many);
        if self.order.is_empty() && wanted == many {
            return;
        }
        let Rows { bytes, texts } = std::mem::take(&mut self.rows);
        let row = |at: usize| &bytes[at * size..(at + 1) * size];
        let mut places: Vec<usize> = (0..many).collect();
        if !self.order.is_empty() {
            // Of equal ones the first is the first, without the room that a stable sort takes.
            places.sort_unstable_by(|a, b| compare(&self.schema, &self.order, &texts, row(*a), row(*b)).then(a.cmp(b)));
        }
        self.rows.bytes.reserve_exact(wanted * size);
        if wanted == many {
            self.rows.texts.reserve_exact(texts.len());
        }
        for at in places.into_iter().take(wanted) {
            self.rows.push(&self.schema, row(at), &texts);
        }
    }

    /// All rows that are wanted, in order.
    pub fn finish(mut self) -> Rows {
        self.settle();
        self.rows
    }
}

fn compare(schema: &Schema, order: &[Order], texts: &[u8], a: &[u8], b: &[u8]) -> Ordering {
    for by in order {
        let field = &schema.fields()[by.field];
        let at = field.at as usize;
        let (x, y) = (&a[at..], &b[at..]);
        let (found, nulls) = match field.kind {
            FieldType::Scalar(scalar) => (numbers(scalar, x, y), (false, false)),
            FieldType::Maybe(scalar) => {
                let there = scalar.width() as usize;
                (numbers(scalar, x, y), (x[there] == 0, y[there] == 0))
            }
            FieldType::Text(width) => {
                let text = |bytes: &'_ [u8]| bytes[..width as usize].split(|b| *b == 0).next().map(<[u8]>::to_vec);
                (text(x).cmp(&text(y)), (false, false))
            }
            FieldType::Str => {
                let (x, y) = (load(x, 0, Scalar::U64), load(y, 0, Scalar::U64));
                let none = |word: u64| word >> 32 == NO_TEXT >> 32;
                (text_of(x, texts).cmp(text_of(y, texts)), (none(x), none(y)))
            }
        };
        let found = match nulls {
            (true, true) => Ordering::Equal,
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            _ if by.descending => found.reverse(),
            _ => found,
        };
        if found.is_ne() {
            return found;
        }
    }
    Ordering::Equal
}

fn numbers(scalar: Scalar, x: &[u8], y: &[u8]) -> Ordering {
    let (x, y) = (load(x, 0, scalar), load(y, 0, scalar));
    match scalar {
        Scalar::F32 | Scalar::F64 => {
            let (x, y) = (f64::from_bits(x), f64::from_bits(y));
            // Equal zeros are equal, whatever their signs.
            x.partial_cmp(&y).unwrap_or_else(|| x.is_nan().cmp(&y.is_nan()))
        }
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 | Scalar::Time => (x as i64).cmp(&(y as i64)),
        _ => x.cmp(&y),
    }
}
