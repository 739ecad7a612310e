//! Where a text that comes in pieces is cut: behind its last whole record.

use crate::format::{Format, Looked};
use crate::infer::Column;
use crate::seps::PAD;
use chappe_synth::{FieldType, Schema};

/// The most bytes of a record: 64 MiB. Fewer where tests are to see that it ends there.
pub const MAX_RECORD_TEXT: usize = if cfg!(debug_assertions) { 1 << 23 } else { 1 << 26 };

/// What a text may begin with: it says the order of bytes, and is no part of the first name.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Cuts the text of one input.
#[derive(Clone, Debug)]
pub struct Cut {
    format: Format,
    looked: Looked,
    begins: bool,
}

impl Cut {
    /// At the begin of an input.
    pub fn new(format: &Format) -> Cut {
        Cut { format: format.clone(), looked: Looked::default(), begins: true }
    }

    /// Another input begins.
    pub fn begin(&mut self) {
        (self.looked, self.begins) = (Looked::default(), true);
    }

    /// How many bytes of a text are whole records; none: there is none yet. The text is what is left from the last time with what has come since, and
    /// behind its `len` bytes room for a look too far. The mark at an input's begin is taken out of it, and where the input has `ended` a last
    /// line end that is missing is put there: then all of it is whole.
    pub fn whole(&mut self, text: &mut Vec<u8>, len: &mut usize, ended: bool) -> Option<usize> {
        if self.begins && (*len >= MARK.len() || ended) {
            self.begins = false;
            if text[..*len].starts_with(MARK) {
                text.copy_within(MARK.len()..*len, 0);
                *len -= MARK.len();
                text[*len..].fill(0);
                self.looked = Looked::default();
            }
        }
        if ended {
            if *len > 0 && text[*len - 1] != b'\n' {
                text[*len] = b'\n';
                *len += 1;
                text.resize(text.len().max(*len + PAD), 0);
            }
            return Some(*len);
        }
        let whole = self.format.whole(text, *len, &mut self.looked);
        self.begins &= whole.is_none();
        whole
    }

    /// Whether whole records at an input's begin are more than the line of names.
    pub fn has_more_than_names(&self, text: &[u8], whole: usize) -> bool {
        let is_csv = matches!(self.format, Format::Csv(_));
        !is_csv || (whole > 0 && self.format.whole(text, whole - 1, &mut Looked::default()).is_some())
    }
}

impl Format {
    /// What the columns of a text are, by its begin, or by `all` of it: each of them is guessed. And those that have no value there: they are texts, and
    /// a number that comes later is none ([`Parser::doubting`](crate::Parser::doubting)).
    ///
    /// # Errors
    /// A first line that names no columns, too many of them, nothing to look at.
    pub fn infer(&self, begin: &[u8], all: bool) -> Result<(Schema, Vec<String>), String> {
        let seen = self.seen(begin, all)?;
        let empty = |(name, column): &(String, Column)| (column.is_empty() && !all).then(|| name.clone());
        let empty = seen.iter().filter_map(empty).collect();
        Ok((Schema::laid_out(seen.into_iter().map(|(name, column)| (name, column.field())))?, empty))
    }

    /// What the values of each column are at the begin of a text.
    ///
    /// # Errors
    /// As [`Format::infer`].
    pub(crate) fn seen(&self, begin: &[u8], all: bool) -> Result<Vec<(String, Column)>, String> {
        let mut text = begin.to_vec();
        let mut len = text.len();
        text.resize(len + 1 + PAD, 0);
        let mut cut = Cut::new(self);
        let whole = cut.whole(&mut text, &mut len, all);
        let whole = whole.filter(|whole| *whole > 0 && (all || cut.has_more_than_names(&text, *whole)));
        let len = whole.ok_or("there is no whole record at its begin")?;
        let (columns, from) =
            self.names(&mut text, len).map_err(|e| format!("the first line: {}", e.told(&[], &[])))?;
        let wanted: Vec<String> = columns.iter().filter(|c| !c.is_empty()).cloned().collect();
        let kinds = self.guess(&text, len, from, &columns, &wanted)?;
        Ok(wanted.into_iter().zip(kinds).collect())
    }
}

/// What is read as text may be empty: each number of a schema may be NULL, and its fields lie one behind the other.
///
/// # Errors
/// Too large ones.
pub fn with_nulls(schema: &Schema) -> Result<Schema, String> {
    Schema::laid_out(schema.fields().iter().map(|f| (f.name.clone(), nullable(f.kind))))
}

/// What a field is that may be empty.
pub fn nullable(kind: FieldType) -> FieldType {
    match kind {
        FieldType::Scalar(scalar) => FieldType::Maybe(scalar),
        other => other,
    }
}
