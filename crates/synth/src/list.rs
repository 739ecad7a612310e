//! The list of a query: columns or aggregates, what they are added up by, how their rows are ordered, and how many are wanted.

use crate::check::{Checker, Low};
use crate::complaint::{Complaint, Span};
use crate::every;
use crate::ir::{Aggregate, Column, Fold, Id, Kind, MAX_AGGREGATES, MAX_COLUMNS, Source};
use crate::lex::Kind as Lexeme;
use crate::nearest::suggestion;
use crate::schema::{Field, FieldType, Scalar, Schema};
use crate::tree::{NodeId, Parser, What};
use crate::window::{Window, is_time};
use crate::words::AGGREGATES;

/// By which field rows are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Its number among the fields of a row.
    pub field: usize,
    /// The greatest first.
    pub descending: bool,
}

/// What is made of a value of many records. NULL counts for none of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum How {
    /// How many there are.
    Count,
    /// All together. Of integers it is checked.
    Sum,
    /// The mean, a double.
    Mean,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The first one.
    First,
    /// The last one.
    Last,
    /// How many different ones.
    Distinct,
    /// The value below which this part of them lies, between two of them linearly.
    Quantile(f64),
}

/// An aggregate over rows that the program writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Added {
    /// How.
    pub how: How,
    /// What its value is.
    pub kind: Kind,
    /// Where that stands in the row; a count of records has none.
    pub at: Option<u32>,
    /// Where the byte stands that says whether there is one; none: always.
    pub there: Option<u32>,
    /// Its number among the fields of the result.
    pub field: usize,
}

/// What is added up by key: the program writes rows of keys and values, and these say what becomes of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Keyed {
    /// The keys, one behind the other at the row's begin: what each is, and its number among the fields of the result.
    pub keys: Vec<(FieldType, usize)>,
    /// The aggregates.
    pub added: Vec<Added>,
}

/// A list, read.
#[derive(Default)]
pub struct Items {
    /// What the program writes.
    pub columns: Vec<Column>,
    /// How many bytes that has.
    pub row: u32,
    /// What the program adds up by itself.
    pub aggregates: Vec<Aggregate>,
    /// What comes out, if it is not the records.
    pub rows: Option<Schema>,
    /// What is added up of the rows that the program writes.
    pub keyed: Option<Keyed>,
    /// Over which windows.
    pub window: Option<Window>,
    /// How rows are ordered.
    pub order: Vec<Order>,
    /// How many are wanted.
    pub top: Option<u64>,
}

/// One of the list, before it has a place.
struct Item {
    name: String,
    span: Span,
    what: ItemKind,
}

enum ItemKind {
    /// A column: what it is, what it is made of, and what says whether it has a value. The field, if it is one.
    Column(FieldType, Source, Option<Id>, Option<String>),
    Aggregate(How, Option<Argument>, FieldType),
}

/// What an aggregate is over.
#[derive(Clone, Copy)]
struct Argument {
    id: Id,
    kind: Kind,
    there: Option<Id>,
}

impl Items {
    /// All fields, as they are.
    ///
    /// # Errors
    /// There are too many.
    pub fn all(schema: &Schema, parser: &Parser<'_>) -> Result<Items, Complaint> {
        Items::plain(fields(schema).collect(), parser)
    }

    /// Reads a list with all that follows it.
    ///
    /// # Errors
    /// What makes no sense, and where.
    pub fn read(schema: &Schema, checker: &mut Checker<'_>, parser: &mut Parser<'_>) -> Result<Items, Complaint> {
        let mut items: Vec<Item> = Vec::new();
        loop {
            if parser.take_sign("*")? {
                items.extend(fields(schema));
            } else {
                let item = item(schema, checker, parser, items.len())?;
                items.push(item);
            }
            if items.len() > MAX_COLUMNS {
                return parser.complain(parser.peek().span, format!("a list has at most {MAX_COLUMNS} columns"));
            }
            if !parser.take_sign(",")? {
                break;
            }
        }
        let by = parser.peek().span;
        let keys = if parser.take_word("by")? { keys(schema, parser)? } else { Vec::new() };
        let every = parser.peek().span;
        let window = if parser.take_word("every")? { Some(every::window(schema, parser)?) } else { None };
        let folded = items.iter().filter(|i| matches!(i.what, ItemKind::Aggregate(..))).count();
        if folded == 0 && !keys.is_empty() {
            let message = format!("`by` is for aggregates: {}", AGGREGATES.join(", "));
            return parser.complain(by, message);
        }
        if folded == 0 && window.is_some() {
            let message = format!("`every` is for aggregates: {}", AGGREGATES.join(", "));
            return parser.complain(every, message);
        }
        if folded > MAX_AGGREGATES {
            return parser.complain(by, format!("there are at most {MAX_AGGREGATES} aggregates"));
        }
        let mut read = if folded == 0 {
            Items::plain(items, parser)?
        } else {
            Items::folded(items, &keys, window.as_ref(), by, parser)?
        };
        read.window = window;
        read.tail(parser)?;
        Ok(read)
    }

    fn plain(items: Vec<Item>, parser: &Parser<'_>) -> Result<Items, Complaint> {
        unique(items.iter().map(|i| (&i.name, i.span)), parser)?;
        let mut sources = Vec::new();
        let mut kinds = Vec::new();
        for item in items {
            if let ItemKind::Column(kind, source, there, _) = item.what {
                sources.push((source, there));
                kinds.push((item.name, kind));
            }
        }
        let rows = laid_out(kinds, parser)?;
        let mut columns = Vec::new();
        for (field, (source, there)) in rows.fields().iter().zip(sources) {
            columns.push(Column { at: field.at, source });
            if let (Some(there), FieldType::Maybe(scalar)) = (there, field.kind) {
                columns.push(Column { at: field.at + scalar.width(), source: Source::Value(there) });
            }
        }
        Ok(Items { columns, row: rows.size(), rows: Some(rows), ..Items::default() })
    }

    fn folded(
        items: Vec<Item>,
        keys: &[Field],
        window: Option<&Window>,
        by: Span,
        parser: &Parser<'_>,
    ) -> Result<Items, Complaint> {
        // Of windows the first column says which one.
        let begin = window.map(|w| ("window".to_owned(), w.column()));
        let before = usize::from(begin.is_some());
        let listed = |key: &Field| {
            items.iter().position(|i| matches!(&i.what, ItemKind::Column(_, _, _, Some(name)) if *name == key.name))
        };
        // Keys that the list does not have come first.
        let unlisted: Vec<&Field> = keys.iter().filter(|k| listed(k).is_none()).collect();
        let key_fields: Vec<(FieldType, usize)> = keys
            .iter()
            .map(|k| {
                let field = listed(k).map(|at| unlisted.len() + at);
                let field = field.unwrap_or_else(|| unlisted.iter().position(|u| u.name == k.name).unwrap_or(0));
                (k.kind, before + field)
            })
            .collect();
        let first = begin.iter().map(|(name, _)| (name, by)).chain(unlisted.iter().map(|k| (&k.name, by)));
        unique(first.chain(items.iter().map(|i| (&i.name, i.span))), parser)?;
        let mut results: Vec<(String, FieldType)> =
            begin.into_iter().chain(unlisted.iter().map(|k| (k.name.clone(), k.kind))).collect();
        let mut aggregates = Vec::new();
        for item in items {
            match item.what {
                ItemKind::Column(kind, _, _, Some(field)) if keys.iter().any(|k| k.name == field) => {
                    results.push((item.name, kind));
                }
                ItemKind::Column(..) => {
                    let message = "columns and aggregates do not mix: write `last(...)`, or name the field behind `by`";
                    return parser.complain(item.span, message);
                }
                ItemKind::Aggregate(how, of, kind) => {
                    aggregates.push((how, of, results.len()));
                    results.push((item.name, kind));
                }
            }
        }
        let rows = Some(laid_out(results, parser)?);
        let simple: Option<Vec<Aggregate>> =
            if keys.is_empty() { aggregates.iter().map(|(how, of, _)| fold(*how, *of)).collect() } else { None };
        if let Some(aggregates) = simple {
            return Ok(Items { aggregates, rows, ..Items::default() });
        }
        // A row for the table: the keys one behind the other, then the values. No gaps: each byte of a key is written.
        let (mut columns, mut end) = (Vec::new(), 0);
        for k in keys {
            columns.push(Column { at: end, source: Source::Copy { from: k.at, width: k.kind.width() } });
            end += k.kind.width();
        }
        let mut added = Vec::new();
        for (how, of, field) in aggregates {
            let (mut at, mut there) = (None, None);
            if let Some(of) = of {
                at = Some(end);
                columns.push(Column { at: end, source: Source::Value(of.id) });
                end += if of.kind == Kind::Bool { 1 } else { 8 };
                // A text says by itself whether it is there.
                if let Some(id) = of.there.filter(|_| of.kind != Kind::Text) {
                    there = Some(end);
                    columns.push(Column { at: end, source: Source::Value(id) });
                    end += 1;
                }
            }
            added.push(Added { how, kind: of.map_or(Kind::Uint, |of| of.kind), at, there, field });
        }
        Ok(Items { columns, row: end, rows, keyed: Some(Keyed { keys: key_fields, added }), ..Items::default() })
    }

    /// `order FIELD [desc], ... top N`, behind the list.
    fn tail(&mut self, parser: &mut Parser<'_>) -> Result<(), Complaint> {
        let fields = self.rows.as_ref().map_or(&[][..], Schema::fields);
        if parser.take_word("order")? {
            // As SQL writes it.
            parser.take_word("by")?;
            loop {
                let token = parser.take()?;
                let (Lexeme::Name(name) | Lexeme::Quoted(name)) = token.kind else {
                    return parser.complain(token.span, "a column is missing here: what rows are ordered by");
                };
                let Some(field) = fields.iter().position(|f| f.name == name) else {
                    let near = suggestion(&name, fields.iter().map(|f| f.name.as_str()));
                    return parser.complain(token.span, format!("there is no column `{name}` in the list{near}"));
                };
                let descending = parser.take_word("desc")?;
                if !descending {
                    parser.take_word("asc")?;
                }
                self.order.push(Order { field, descending });
                if !parser.take_sign(",")? {
                    break;
                }
            }
        }
        if parser.take_word("top")? {
            let token = parser.take()?;
            let Lexeme::Int(n) = token.kind else {
                return parser.complain(token.span, "a number is missing here: how many rows, as in `top 10`");
            };
            self.top = Some(n);
        }
        let next = parser.peek();
        if let Lexeme::Name(word) = &next.kind
            && let "by" | "every" = word.as_str()
        {
            return parser.complain(next.span, format!("`{word}` stands before `order` and `top`"));
        }
        Ok(())
    }
}

fn fields(schema: &Schema) -> impl Iterator<Item = Item> {
    schema.fields().iter().map(|f| {
        let source = Source::Copy { from: f.at, width: f.kind.width() };
        let what = ItemKind::Column(f.kind, source, None, Some(f.name.clone()));
        Item { name: f.name.clone(), span: Span::default(), what }
    })
}

fn laid_out(kinds: Vec<(String, FieldType)>, parser: &Parser<'_>) -> Result<Schema, Complaint> {
    Schema::laid_out(kinds).or_else(|why| parser.complain(Span::default(), why))
}

/// Behind `by`.
fn keys(schema: &Schema, parser: &mut Parser<'_>) -> Result<Vec<Field>, Complaint> {
    let mut keys: Vec<Field> = Vec::new();
    loop {
        let token = parser.take()?;
        let (Lexeme::Name(name) | Lexeme::Quoted(name)) = token.kind else {
            return parser.complain(token.span, "a field is missing here: what is added up by");
        };
        let Some(field) = schema.field(&name) else {
            let near = suggestion(&name, schema.fields().iter().map(|f| f.name.as_str()));
            return parser.complain(token.span, format!("there is no field `{name}`{near}"));
        };
        if keys.iter().any(|k| k.name == name) {
            return parser.complain(token.span, format!("`{name}` stands there twice"));
        }
        keys.push(field.clone());
        if !parser.take_sign(",")? {
            return Ok(keys);
        }
    }
}

/// What the engines add up by themselves: what is never NULL, and cannot overflow or be rounded.
fn fold(how: How, of: Option<Argument>) -> Option<Aggregate> {
    let fold = match (how, of) {
        (How::Count, None) => return Some(Aggregate { fold: Fold::Count, value: None }),
        (_, Some(Argument { there: Some(_), .. })) => return None,
        (How::Min, Some(Argument { kind: Kind::Text, .. }) | None) => return None,
        (How::Max | How::Last, Some(Argument { kind: Kind::Text, .. }) | None) => return None,
        (How::Min, Some(of)) => least(of.kind),
        (How::Max, Some(of)) => greatest(of.kind),
        (How::Last, Some(_)) => Fold::Last,
        _ => return None,
    };
    Some(Aggregate { fold, value: of.map(|of| of.id) })
}

/// The fold to the least of numbers.
pub fn least(kind: Kind) -> Fold {
    match kind {
        Kind::Double => Fold::MinDouble,
        Kind::Int => Fold::MinS,
        _ => Fold::MinU,
    }
}

/// The fold to the greatest of numbers.
pub fn greatest(kind: Kind) -> Fold {
    match kind {
        Kind::Double => Fold::MaxDouble,
        Kind::Int => Fold::MaxS,
        _ => Fold::MaxU,
    }
}

fn unique<'a>(names: impl Iterator<Item = (&'a String, Span)>, parser: &Parser<'_>) -> Result<(), Complaint> {
    let mut seen = std::collections::HashSet::new();
    for (name, span) in names {
        if !seen.insert(name) {
            return parser.complain(span, format!("there are two columns `{name}`: write `as` and another name"));
        }
    }
    Ok(())
}

fn item(schema: &Schema, checker: &mut Checker<'_>, parser: &mut Parser<'_>, at: usize) -> Result<Item, Complaint> {
    let root = parser.expression()?;
    let span = parser.nodes[root].span;
    let aggregate = match &parser.nodes[root].what {
        What::Call(name, of) => AGGREGATES.iter().find(|a| **a == name.as_str()).map(|name| (*name, of.clone())),
        _ => None,
    };
    let (default, what) = match aggregate {
        Some((name, of)) => {
            // The call is no expression: what is checked ends before it.
            parser.nodes[root].what = What::Bool(true);
            over_many(schema, checker, parser, name, &of, span)?
        }
        None => column(schema, checker, parser, root, at)?,
    };
    let mut name = default;
    if parser.take_word("as")? {
        let token = parser.take()?;
        let (Lexeme::Name(given) | Lexeme::Quoted(given)) = token.kind else {
            return parser.complain(token.span, "a name is missing behind `as`");
        };
        name = given;
    }
    Ok(Item { name, span, what })
}

fn column(
    schema: &Schema,
    checker: &mut Checker<'_>,
    parser: &Parser<'_>,
    root: NodeId,
    at: usize,
) -> Result<(String, ItemKind), Complaint> {
    if let What::Name(name) = &parser.nodes[root].what
        && let Some(field) = schema.field(name)
    {
        checker.check(parser, root)?;
        let source = Source::Copy { from: field.at, width: field.kind.width() };
        return Ok((name.clone(), ItemKind::Column(field.kind, source, None, Some(name.clone()))));
    }
    let (id, kind) = checker.value(parser, root)?;
    let there = checker.there(root);
    let kind = stored(kind, there.is_some());
    Ok((format!("column{}", at + 1), ItemKind::Column(kind, Source::Value(id), there, None)))
}

/// What a value of expressions is in a row.
fn stored(kind: Kind, may_be_null: bool) -> FieldType {
    let scalar = match kind {
        Kind::Int => Scalar::I64,
        Kind::Uint => Scalar::U64,
        Kind::Double => Scalar::F64,
        Kind::Bool => Scalar::Bool,
        Kind::Text => return FieldType::Str,
    };
    if may_be_null { FieldType::Maybe(scalar) } else { FieldType::Scalar(scalar) }
}

fn over_many(
    schema: &Schema,
    checker: &mut Checker<'_>,
    parser: &Parser<'_>,
    name: &str,
    of: &[NodeId],
    span: Span,
) -> Result<(String, ItemKind), Complaint> {
    let count = FieldType::Scalar(Scalar::U64);
    let (&value, part) = match (name, of) {
        ("count", []) => return Ok((name.to_owned(), ItemKind::Aggregate(How::Count, None, count))),
        ("quantile", [value, part]) => (value, Some(quantile(parser, *part)?)),
        ("quantile", _) => return parser.complain(span, "`quantile` takes a value and a part: quantile(price, 0.99)"),
        (_, [value]) => (value, None),
        _ => return parser.complain(span, format!("`{name}` takes one argument here")),
    };
    let low = checker.check(parser, value)?;
    let (id, kind) = match low {
        Low::TextField { .. } => {
            let message = format!("`{name}` is not for strings of fixed length");
            return parser.complain(parser.nodes[value].span, message);
        }
        Low::TextValue(id) => (id, Kind::Text),
        _ => checker.value(parser, value)?,
    };
    let there = checker.there(value);
    let numbers = matches!(kind, Kind::Int | Kind::Uint | Kind::Double);
    // One of the values of a time is a time.
    let field = if let What::Name(name) = &parser.nodes[value].what { schema.field(name) } else { None };
    let one_of_them = field.map(|f| f.kind).filter(|k| is_time(*k));
    let as_it_is = stored(kind, there.is_some());
    let one_of_them = one_of_them.unwrap_or(as_it_is);
    let (how, kind_of, fits) = match name {
        "count" => (How::Count, count, true),
        "distinct" => (How::Distinct, count, true),
        "sum" => (How::Sum, as_it_is, numbers),
        "min" => (How::Min, one_of_them, numbers || kind == Kind::Text),
        "max" => (How::Max, one_of_them, numbers || kind == Kind::Text),
        "first" => (How::First, one_of_them, true),
        "last" => (How::Last, one_of_them, true),
        "mean" => (How::Mean, stored(Kind::Double, there.is_some()), numbers),
        _ => (How::Quantile(part.unwrap_or(0.5)), stored(Kind::Double, there.is_some()), numbers),
    };
    if !fits {
        return parser.complain(span, format!("`{name}` is not for {kind}s"));
    }
    let named = match &parser.nodes[value].what {
        What::Name(field) => format!("{name}_{field}"),
        _ => name.to_owned(),
    };
    Ok((named, ItemKind::Aggregate(how, Some(Argument { id, kind, there }), kind_of)))
}

/// Which part of the values, from 0 to 1.
fn quantile(parser: &Parser<'_>, node: NodeId) -> Result<f64, Complaint> {
    let part = match parser.nodes[node].what {
        What::Double(part) => part,
        What::Int(part) => part as f64,
        _ => f64::NAN,
    };
    if (0.0..=1.0).contains(&part) {
        return Ok(part);
    }
    parser.complain(
        parser.nodes[node].span,
        "a part is a number from 0 to 1 that is written out, as in quantile(price, 0.99)",
    )
}
