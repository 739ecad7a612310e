//! Schemas: which fields a record has, and where.
//!
//! The text form, as a person writes it and as it is stored:
//!
//! ```text
//! price: f64, qty: i32, sym: str[8], live: bool @ 24; size 64
//! ```
//!
//! Fields are separated by commas or semicolons; the last entry may be `size N`. Where no `@` says where a field lies, the
//! C rule does: at the next multiple of its alignment behind the field before it. Without `size` a record ends at the next
//! multiple of its largest alignment. So the text of a C struct's members, in order, gives the layout that C gives it.
//! `@` may put a field anywhere, also unaligned (a packed struct), but not over another field, nor outside the record.
//!
//! | type | C | bytes | in expressions |
//! |---|---|---|---|
//! | `bool` | `bool` | 1; not 0 is true | bool |
//! | `i8 i16 i32 i64` | `int8_t ...` | 1 2 4 8 | int |
//! | `u8 u16 u32 u64` | `uint8_t ...` | 1 2 4 8 | uint |
//! | `f32 f64` | `float double` | 4 8 | double |
//! | `time` | `int64_t` | 8; nanoseconds since 1970: as text RFC 3339 ([`crate::time`]), or by a pattern ([`TimePattern`]) | int |
//! | `str[N]` | `char[N]` | N; ends at its first zero byte | string |
//! | `i64?` and so on | a struct of the number and a `bool` | one more: whether there is a value | as without `?`, or NULL |
//!
//! What is read from text has one more type, `str`: a text of any length, or NULL. Its 8 bytes say where it lies in the texts beside the
//! records ([`Records::with_texts`](crate::Records::with_texts)), so no tube has it. A name that expressions could not name stands between
//! backticks.
//!
//! All numbers are little-endian, as the machines that chappe runs on are.
//!
//! Two schemas are the same if they have the same canonical text ([`Schema::to_string`]), in which every field has its `@`; the
//! [`hash`](Schema::hash) is of that text.

use crate::complaint::{Complaint, Span};
use crate::lex::{Kind, Lexer, Token};
use crate::pattern::TimePattern;
use std::fmt;

/// The most bytes of a record.
pub const MAX_RECORD: u32 = 1 << 20;
/// The most fields of a record.
pub const MAX_FIELDS: usize = 1024;

/// A number or a bool, as it lies in a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is named as Rust's own type")]
pub enum Scalar {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    /// Nanoseconds since 1970, as an `i64`.
    Time,
}

impl Scalar {
    /// All of them.
    pub const ALL: [Scalar; 12] = [
        Scalar::Bool,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::U8,
        Scalar::U16,
        Scalar::U32,
        Scalar::U64,
        Scalar::F32,
        Scalar::F64,
        Scalar::Time,
    ];

    /// Bytes, and what the C rule aligns it to.
    pub fn width(self) -> u32 {
        match self {
            Scalar::Bool | Scalar::I8 | Scalar::U8 => 1,
            Scalar::I16 | Scalar::U16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 | Scalar::Time => 8,
        }
    }

    /// As the text form writes it.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I8 => "i8",
            Scalar::I16 => "i16",
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::U8 => "u8",
            Scalar::U16 => "u16",
            Scalar::U32 => "u32",
            Scalar::U64 => "u64",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
            Scalar::Time => "time",
        }
    }
}

/// What a field is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldType {
    /// A number or a bool.
    Scalar(Scalar),
    /// Text of at most so many bytes; it ends at its first zero byte.
    Text(u32),
    /// A number or a bool, and behind it a byte: 0 if there is no value.
    Maybe(Scalar),
    /// Where a text of any length lies among the texts beside the records, and how long it is: two words of 32 bits. A length of
    /// `u32::MAX` says that there is none.
    Str,
}

impl FieldType {
    /// Bytes.
    pub fn width(self) -> u32 {
        match self {
            FieldType::Scalar(s) => s.width(),
            FieldType::Maybe(s) => s.width() + 1,
            FieldType::Text(n) => n,
            FieldType::Str => 8,
        }
    }

    fn align(self) -> u32 {
        match self {
            FieldType::Scalar(s) | FieldType::Maybe(s) => s.width(),
            FieldType::Text(_) => 1,
            FieldType::Str => 4,
        }
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldType::Scalar(s) => f.write_str(s.name()),
            FieldType::Maybe(s) => write!(f, "{}?", s.name()),
            FieldType::Text(n) => write!(f, "str[{n}]"),
            FieldType::Str => f.write_str("str"),
        }
    }
}

/// A field of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: FieldType,
    /// Its first byte in the record.
    pub at: u32,
}

/// The fields of a record, in the order in which they lie in it, and how long it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    fields: Vec<Field>,
    size: u32,
}

/// What a Rust type is as a field of a record: numbers and `bool` as themselves, `[u8; N]` as `str[N]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a record",
    label = "a number, `bool`, or `[u8; N]` for text can be",
    note = "a field whose name begins with `_` is left out of the schema"
)]
pub trait AsField {
    /// It, in a schema.
    const KIND: FieldType;
}

macro_rules! as_fields {
    ($($rust:ty => $scalar:ident),*) => {
        $(impl AsField for $rust {
            const KIND: FieldType = FieldType::Scalar(Scalar::$scalar);
        })*
    };
}

as_fields!(bool => Bool, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

impl<const N: usize> AsField for [u8; N] {
    const KIND: FieldType = FieldType::Text(N as u32);
}

/// A struct whose fields are those of a record: `#[derive(chappe::Fields)]` writes it.
///
/// Each field has the place that Rust gives it, so `repr(C)` or not makes no difference. A field whose name begins with `_` is left out.
pub trait Fields {
    /// Its schema, for `Tube::create_of`, `BroadcastOptions::schema`, [`Query`](crate::Query).
    fn schema() -> Schema;
}

/// Names that expressions read as something else.
const RESERVED: [&str; 8] = ["true", "false", "null", "in", "as", "by", "size", "where"];

/// A field's name, refused while the program is compiled if no expression could name it.
#[doc(hidden)]
pub const fn field_name(name: &str) -> &str {
    let mut at = 0;
    while at < RESERVED.len() {
        let (a, b) = (RESERVED[at].as_bytes(), name.as_bytes());
        let (mut same, mut i) = (a.len() == b.len(), 0);
        while same && i < a.len() {
            same = a[i] == b[i];
            i += 1;
        }
        assert!(!same, "expressions read this field's name as something else: give the field another name");
        at += 1;
    }
    name
}

impl Schema {
    /// Reads the text form.
    ///
    /// # Errors
    /// What is no schema, with the place: unknown types, a name that is there twice or is reserved, fields that overlap or leave
    /// the record, too many or too large ones.
    ///
    /// ```
    /// let trade = chappe_synth::Schema::parse("price: f64, qty: i32, sym: str[8]").unwrap();
    /// assert_eq!(trade.size(), 24);
    /// assert_eq!(trade.to_string(), "price: f64 @ 0, qty: i32 @ 8, sym: str[8] @ 12; size 24");
    /// ```
    pub fn parse(text: &str) -> Result<Schema, Complaint> {
        Reader::new(text, Of::Tubes).schema().map(|(schema, _)| schema)
    }

    /// Reads the text form of what is read from text: `str` may stand without a length.
    ///
    /// # Errors
    /// As [`Schema::parse`].
    pub fn parse_columns(text: &str) -> Result<Schema, Complaint> {
        Reader::new(text, Of::Columns).schema().map(|(schema, _)| schema)
    }

    /// The same with patterns of times, each with the name of its field: `at: time '%d.%m.%Y %H:%M', sym: str`.
    ///
    /// # Errors
    /// As [`Schema::parse`]; what is no pattern.
    pub fn parse_text(text: &str) -> Result<(Schema, Vec<(String, TimePattern)>), Complaint> {
        Reader::new(text, Of::Text).schema()
    }

    /// Fields one behind the other, by the C rule. Of none, a record has one byte.
    ///
    /// # Errors
    /// Too many fields, or too large ones.
    pub fn laid_out(kinds: impl IntoIterator<Item = (String, FieldType)>) -> Result<Schema, String> {
        let (mut end, mut align, mut fields) = (0u32, 1, Vec::new());
        for (name, kind) in kinds {
            let own = kind.align();
            align = align.max(own);
            let at = end.next_multiple_of(own);
            end = at.saturating_add(kind.width());
            if end > MAX_RECORD {
                return Err(format!("`{name}` ends at {end}; a record has at most {MAX_RECORD} bytes"));
            }
            if fields.len() == MAX_FIELDS {
                return Err(format!("a record has at most {MAX_FIELDS} fields"));
            }
            fields.push(Field { name, kind, at });
        }
        Ok(Schema { fields, size: end.next_multiple_of(align).max(1) })
    }

    /// What `#[derive(chappe::Fields)]` calls: fields where the compiler put them.
    ///
    /// # Panics
    /// When there is none, or the record is larger than [`MAX_RECORD`].
    #[doc(hidden)]
    pub fn declared(fields: &[(&str, usize, FieldType)], size: usize) -> Schema {
        let text: Vec<String> = fields.iter().map(|(name, at, kind)| format!("{name}: {kind} @ {at}")).collect();
        let text = format!("{}; size {size}", text.join(", "));
        Schema::parse(&text).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The fields, in the order in which they lie in the record.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Bytes of a record.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// 64 bits that stand for the layout: FNV-1a of the canonical text. Not 0.
    pub fn hash(&self) -> u64 {
        let text = self.to_string();
        let hash =
            text.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        hash.max(1)
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, field) in self.fields.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {} @ {}", written(&field.name), field.kind, field.at)?;
        }
        write!(f, "; size {}", self.size)
    }
}

/// A field's name as expressions have it: between backticks, if they would not read it as a name.
pub fn written(name: &str) -> std::borrow::Cow<'_, str> {
    let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if letters && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty() && !RESERVED.contains(&name) {
        return name.into();
    }
    format!("`{}`", name.replace('`', "``")).into()
}

/// What a schema is of: what may stand in it.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Tubes,
    /// Texts of any length as well.
    Columns,
    /// And patterns of times.
    Text,
}

struct Reader<'a> {
    of: Of,
    patterns: Vec<(String, TimePattern)>,
    text: &'a str,
    lexer: Lexer<'a>,
    fields: Vec<(Field, Span)>,
    end: u32,
    align: u32,
}

impl Reader<'_> {
    fn new(text: &str, of: Of) -> Reader<'_> {
        Reader { of, patterns: Vec::new(), text, lexer: Lexer::new(text), fields: Vec::new(), end: 0, align: 1 }
    }

    fn complain<T>(&self, span: Span, message: impl Into<String>) -> Result<T, Complaint> {
        Err(Complaint::new(self.text, span, message))
    }

    fn number(&mut self, what: &str, most: u32) -> Result<(u32, Span), Complaint> {
        let token = self.lexer.next()?;
        match token.kind {
            Kind::Int(n) if n <= u64::from(most) => Ok((n as u32, token.span)),
            Kind::Int(_) => self.complain(token.span, format!("{what} is at most {most}")),
            _ => self.complain(token.span, format!("{what} is missing here: a number")),
        }
    }

    fn sign(&mut self, sign: &'static str) -> Result<(), Complaint> {
        let token = self.lexer.next()?;
        match token.kind {
            Kind::Sign(s) if s == sign => Ok(()),
            _ => self.complain(token.span, format!("`{sign}` is missing here: write `name: type`")),
        }
    }

    fn schema(mut self) -> Result<(Schema, Vec<(String, TimePattern)>), Complaint> {
        let mut size = None;
        let last = loop {
            let token = self.lexer.next()?;
            let after = match token.kind {
                Kind::End => break token.span,
                Kind::Sign("," | ";") => continue,
                Kind::Name(ref name) if name == "size" && size.is_none() => {
                    size = Some(self.number("the size of a record", MAX_RECORD)?);
                    self.lexer.next()?
                }
                Kind::Name(ref name) if RESERVED.contains(&name.as_str()) => {
                    let message = format!("`{name}` is a word of expressions: a field has another name");
                    return self.complain(token.span, message);
                }
                Kind::Name(ref name) | Kind::Quoted(ref name) => self.field(name.clone(), token.span)?,
                _ => return self.complain(token.span, "a field is missing here: write `name: type`"),
            };
            match after.kind {
                Kind::End => break after.span,
                Kind::Sign("," | ";") => {}
                _ => return self.complain(after.span, "a comma is missing between fields"),
            }
        };
        if self.fields.is_empty() {
            return self.complain(last, "a schema has at least one field: write `name: type`");
        }
        let size = match size {
            Some((size, span)) if size < self.end => {
                return self.complain(span, format!("the fields need {} bytes", self.end));
            }
            Some((size, _)) => size,
            None => self.end.next_multiple_of(self.align),
        };
        if size > MAX_RECORD {
            return self.complain(last, format!("a record has at most {MAX_RECORD} bytes, and this one has {size}"));
        }
        self.fields.sort_by_key(|(f, _)| f.at);
        for two in self.fields.windows(2) {
            let (first, second) = (&two[0].0, &two[1].0);
            if first.at + first.kind.width() > second.at {
                let message = format!("`{}` lies over `{}`", second.name, first.name);
                return self.complain(two[1].1, message);
            }
        }
        Ok((Schema { fields: self.fields.into_iter().map(|(f, _)| f).collect(), size }, self.patterns))
    }

    /// A field behind its name; answers what follows it.
    fn field(&mut self, name: String, span: Span) -> Result<Token, Complaint> {
        if self.fields.iter().any(|(f, _)| f.name == name) {
            return self.complain(span, format!("`{name}` is there already"));
        }
        if self.fields.len() == MAX_FIELDS {
            return self.complain(span, format!("a record has at most {MAX_FIELDS} fields"));
        }
        self.sign(":")?;
        let token = self.lexer.next()?;
        let mut next = None;
        let kind = match &token.kind {
            Kind::Name(n) if n == "str" => 'text: {
                let bracket = self.lexer.next()?;
                if self.of != Of::Tubes && bracket.kind != Kind::Sign("[") {
                    next = Some(bracket);
                    break 'text FieldType::Str;
                }
                if bracket.kind != Kind::Sign("[") {
                    return self.complain(bracket.span, "`[` is missing here: write `name: str[8]`, a text of 8 bytes");
                }
                let (n, span) = self.number("the length of a text", MAX_RECORD)?;
                if n == 0 {
                    return self.complain(span, "a text has at least one byte");
                }
                self.sign("]")?;
                FieldType::Text(n)
            }
            Kind::Name(n) => match Scalar::ALL.iter().find(|s| s.name() == n) {
                Some(scalar) => FieldType::Scalar(*scalar),
                None => {
                    let message =
                        format!("`{n}` is no type: there are bool, i8 to i64, u8 to u64, f32, f64, time, str[N]");
                    return self.complain(token.span, message);
                }
            },
            _ => {
                return self.complain(
                    token.span,
                    "a type is missing here: bool, i8 to i64, u8 to u64, f32, f64, time, str[N]",
                );
            }
        };
        let mut after = match next {
            Some(token) => token,
            None => self.lexer.next()?,
        };
        if let (FieldType::Scalar(Scalar::Time), Kind::Text(pattern), Of::Text) = (kind, &after.kind, self.of) {
            match TimePattern::parse(&String::from_utf8_lossy(pattern)) {
                Ok(pattern) => self.patterns.push((name.clone(), pattern)),
                Err(why) => return self.complain(after.span, why),
            }
            after = self.lexer.next()?;
        }
        let mut kind = kind;
        if let (FieldType::Scalar(scalar), Kind::Sign("?")) = (kind, &after.kind) {
            kind = FieldType::Maybe(scalar);
            after = self.lexer.next()?;
        }
        let at = if after.kind == Kind::Sign("@") {
            let (at, _) = self.number("the place of a field", MAX_RECORD)?;
            after = self.lexer.next()?;
            at
        } else {
            self.align = self.align.max(kind.align());
            self.end.next_multiple_of(kind.align())
        };
        let end = at + kind.width();
        if end > MAX_RECORD {
            return self.complain(span, format!("`{name}` ends at {end}; a record has at most {MAX_RECORD} bytes"));
        }
        // A field that is put in front of others does not move what follows it back over them.
        self.end = self.end.max(end);
        self.fields.push((Field { name, kind, at }, span));
        Ok(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        let e = Schema::parse(text).unwrap_err();
        format!("{}: {}", e.column(), e.message())
    }

    #[test]
    fn fields_lie_where_c_puts_them() {
        #[repr(C)]
        struct Mixed {
            a: u8,
            b: u16,
            c: u8,
            d: f64,
            e: [u8; 3],
            f: i32,
            g: bool,
        }
        let s = Schema::parse("a: u8, b: u16, c: u8, d: f64, e: str[3], f: i32, g: bool").unwrap();
        let at = |name: &str| s.field(name).unwrap().at as usize;
        assert_eq!(at("a"), std::mem::offset_of!(Mixed, a));
        assert_eq!(at("b"), std::mem::offset_of!(Mixed, b));
        assert_eq!(at("c"), std::mem::offset_of!(Mixed, c));
        assert_eq!(at("d"), std::mem::offset_of!(Mixed, d));
        assert_eq!(at("e"), std::mem::offset_of!(Mixed, e));
        assert_eq!(at("f"), std::mem::offset_of!(Mixed, f));
        assert_eq!(at("g"), std::mem::offset_of!(Mixed, g));
        assert_eq!(s.size() as usize, size_of::<Mixed>());
    }

    #[test]
    fn the_canonical_text_reads_back_as_itself() {
        let columns = Schema::parse_columns("`unit price`: f64?, `by`: str, c: bool?").unwrap();
        assert_eq!(columns.to_string(), "`unit price`: f64? @ 0, `by`: str @ 12, c: bool? @ 20; size 24");
        assert_eq!(Schema::parse_columns(&columns.to_string()).unwrap(), columns);
        for text in ["x: i8", "a: f32 @ 3, b: u8 @ 1", "p: f64\n; q: str[5]; size 100", "a: u8 @ 9, b: u64"] {
            let s = Schema::parse(text).unwrap();
            let again = Schema::parse(&s.to_string()).unwrap();
            assert_eq!((&again, again.hash()), (&s, s.hash()), "{text}");
        }
        let (a, b) = (Schema::parse("x: i32").unwrap(), Schema::parse("x: u32").unwrap());
        assert_ne!(a.hash(), b.hash());
    }

    #[test]
    fn schemas_that_lie_are_refused() {
        for (text, column, says) in [
            ("", 1, "at least one"),
            ("a: i33", 4, "no type"),
            ("a: i32, a: i64", 9, "already"),
            ("a: i32, b: i32 @ 2", 9, "`b` lies over `a`"),
            ("b: i64 @ 4, a: i64", 13, ""),
            ("a: str[0]", 8, "at least one byte"),
            ("a: str[2000000]", 8, "at most"),
            ("a: i64; size 7", 14, "need 8"),
            ("a: i64 @ 1048575", 1, "ends at"),
            ("a: i64 @ 99999999999999", 10, "at most"),
            ("in: i32", 1, "word of expressions"),
            ("a: str", 7, "str[8]"),
            ("a: str[3]?", 10, "comma"),
            ("a i32", 3, "`:`"),
            ("a: i32 b: i32", 8, "comma"),
            ("a: i32; size 8; 4", 17, "field is missing"),
        ] {
            if says.is_empty() {
                assert!(Schema::parse(text).is_ok(), "{text}");
                continue;
            }
            let e = wrong(text);
            assert!(e.starts_with(&format!("{column}: ")) && e.contains(says), "{text}: {e}");
        }
    }
}
