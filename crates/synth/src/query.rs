//! Queries: which records, and what of them; a program with names.
//!
//! ```text
//! where    price > $limit && sym in ['A', 'B']            an expression that is true or false
//! select   *                                              all fields, as they are
//! select   sym, price * double(qty) as value, qty         columns: each a field, or an expression with a name
//! select   count(), sum(qty), max(price) as high          aggregates: one row of all records that pass
//! select   sum(qty), last(price) by sym, side             the same by key: one row for each pair of sym and side
//! ```
//!
//! Rows are records themselves: [`Query::rows`] is their schema, laid out by the C rule, so that queries can be put behind each
//! other ([`Bound::then`]). An int is an `i64` there, a uint a `u64`, a double an `f64`; a field that is only named keeps its
//! type and its bytes.

use crate::build::{fuse, specialise};
use crate::check::{Checker, Low, Parameter};
use crate::complaint::{Complaint, Span};
use crate::ir::{Aggregate, Column, Fold, Kind, MAX_AGGREGATES, MAX_COLUMNS, Source, Type, Value, Verified};
use crate::lex::Kind as Lexeme;
use crate::schema::{Field, FieldType, Scalar, Schema};
use crate::tree::{Node, NodeId, Parser, What};

/// What is added up by key: the program writes rows of keys and values, and these say what becomes of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Keyed {
    /// The first so many bytes of each row are its key.
    pub width: u32,
    /// For each aggregate where its value stands in the row; a count has none.
    pub folds: Vec<(Fold, Option<u32>)>,
}

/// A checked query over records of one schema. Its parameters have no values yet: see [`Query::bind`].
#[derive(Clone, Debug)]
pub struct Query {
    schema: Schema,
    text: String,
    program: Verified,
    params: Vec<(String, Kind)>,
    rows: Option<Schema>,
    keyed: Option<Keyed>,
}

/// Why a query has no program for these parameters.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// A parameter that was given no value.
    #[error("parameter `${0}` has no value: give it one, {1}")]
    Missing(String, Kind),
    /// A parameter that the query does not have.
    #[error("the query has no parameter `${0}`")]
    Unknown(String),
    /// A value that does not fit.
    #[error("parameter `${0}` is of type {1}: `{2}` does not fit")]
    Type(String, Kind, String),
    /// Two queries that do not fit each other.
    #[error("the second query is over records of another schema than the rows of the first ({0})")]
    Chain(&'static str),
    /// What comes of it is too large.
    #[error(transparent)]
    Program(#[from] crate::ir::ProgramError),
}

impl Query {
    /// Which records: a predicate alone. Records that pass are taken as they are.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    ///
    /// ```
    /// use chappe_synth::{Query, Schema};
    /// let trade = Schema::parse("price: f64, qty: i32, sym: str[8]").unwrap();
    /// assert!(Query::filter(&trade, "price > $limit && sym == 'X'").is_ok());
    /// let wrong = Query::filter(&trade, "price > qty").unwrap_err();
    /// assert_eq!(wrong.to_string().lines().next(), Some("a double is needed here, and this is an int: write `double(qty)` (line 1, column 9)"));
    /// ```
    pub fn filter(schema: &Schema, expression: &str) -> Result<Query, Complaint> {
        Query::new(schema, Some(expression), None)
    }

    /// Which records, and what of them: see the module's head for the texts. No list: all fields.
    ///
    /// # Errors
    /// What is wrong with a text, and where.
    pub fn new(schema: &Schema, condition: Option<&str>, list: Option<&str>) -> Result<Query, Complaint> {
        let mut checker = Checker::new(schema);
        if let Some(text) = condition {
            let mut parser = Parser::new(text)?;
            checker.begin(text);
            let root = parser.expression()?;
            parser.end()?;
            let id = checker.predicate(&parser, root)?;
            checker.builder.program.filter = Some(id);
        }
        let mut items = Items::default();
        if let Some(text) = list {
            checker.begin(text);
            items = Items::read(schema, &mut checker, text)?;
        }
        let shown = match (condition, list) {
            (Some(c), Some(l)) => format!("where {c} select {l}"),
            (Some(c), None) => c.to_owned(),
            (None, l) => format!("select {}", l.unwrap_or("*")),
        };
        let all = condition.or(list).unwrap_or_default();
        let params: Vec<(String, Kind)> =
            checker.params.iter().map(|p: &Parameter| (p.name.clone(), p.kind.unwrap_or(Kind::Int))).collect();
        let mut builder = checker.builder;
        builder.program.params = params.iter().map(|(_, kind)| *kind).collect();
        builder.program.columns = items.columns;
        builder.program.row = items.rows.as_ref().map_or(0, Schema::size);
        let mut rows = items.rows;
        if items.keyed.is_some() || !items.aggregates.is_empty() {
            rows = Some(items.results);
        }
        builder.program.aggregates = items.aggregates;
        let program = builder.finish().map_err(|e| Complaint::new(all, Span::default(), e.to_string()))?;
        Ok(Query { schema: schema.clone(), text: shown, program, params, rows, keyed: items.keyed })
    }

    /// Of which records.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What comes out: rows of this schema. None: the records that pass, as they are.
    pub fn rows(&self) -> Option<&Schema> {
        self.rows.as_ref()
    }

    /// The parameters, in the order in which they were met.
    pub fn params(&self) -> &[(String, Kind)] {
        &self.params
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The general program, which has the parameters in it.
    pub fn program(&self) -> &Verified {
        &self.program
    }

    /// What is added up by key.
    pub fn keyed(&self) -> Option<&Keyed> {
        self.keyed.as_ref()
    }

    /// The query for these values of its parameters: they become constants of its program. An int or a uint is taken where another
    /// number is asked for, if it is one.
    ///
    /// # Errors
    /// A parameter without a value, or with one that does not fit; a value for a parameter that is not there.
    pub fn bind(&self, values: &[(&str, Value)]) -> Result<Bound, BindError> {
        if let Some((name, _)) = values.iter().find(|(name, _)| !self.params.iter().any(|(p, _)| p == name)) {
            return Err(BindError::Unknown((*name).to_owned()));
        }
        let mut params = Vec::with_capacity(self.params.len());
        for (name, kind) in &self.params {
            // The last one counts, as on a command line.
            let Some((_, value)) = values.iter().rev().find(|(n, _)| n == name) else {
                return Err(BindError::Missing(name.clone(), *kind));
            };
            let fits = match (value, kind) {
                (Value::Int(n), Kind::Uint) => u64::try_from(*n).ok().map(Value::Uint),
                (Value::Uint(n), Kind::Int) => i64::try_from(*n).ok().map(Value::Int),
                (Value::Int(n), Kind::Double) => Some(Value::Double(*n as f64)),
                (Value::Uint(n), Kind::Double) => Some(Value::Double(*n as f64)),
                (value, kind) => (value.kind() == *kind).then(|| value.clone()),
            };
            let Some(value) = fits else { return Err(BindError::Type(name.clone(), *kind, value.to_string())) };
            params.push(value);
        }
        let program = specialise(&self.program, &params)?;
        Ok(Bound { query: self.clone(), params, program })
    }
}

/// A query with values for all of its parameters: what engines are made for.
#[derive(Clone, Debug)]
pub struct Bound {
    query: Query,
    params: Vec<Value>,
    program: Verified,
}

impl Bound {
    /// The query, with its names.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// The values of the parameters, in the query's order.
    pub fn params(&self) -> &[Value] {
        &self.params
    }

    /// The program, with the parameters as constants.
    pub fn program(&self) -> &Verified {
        &self.program
    }

    /// This query, and behind it another over its rows, as one: nothing is written between the two.
    ///
    /// # Errors
    /// [`BindError::Chain`] if the second is not over the first's rows, or the first adds up.
    pub fn then(&self, second: &Bound) -> Result<Bound, BindError> {
        let rows = self.query.rows().unwrap_or(self.query.schema());
        if *rows != second.query.schema {
            return Err(BindError::Chain("their layouts differ"));
        }
        if self.query.keyed.is_some() || !self.program.aggregates.is_empty() {
            return Err(BindError::Chain("the first adds up, and has no row for each record"));
        }
        let mut first = self.program.clone();
        if self.query.rows.is_none() {
            first = whole(&first)?;
        }
        let mut behind = second.program.clone();
        if second.query.rows.is_none() {
            behind = columns_of(&behind, &first)?;
        }
        let mut program = fuse(&first, &behind)?;
        let mut query = second.query.clone();
        query.schema = self.query.schema.clone();
        query.text = format!("{} | {}", self.query.text, second.query.text);
        query.params.clear();
        if self.query.rows.is_none() && second.query.rows.is_none() {
            // Both only choose: so does what comes of them.
            let mut plain = (*program).clone();
            (plain.columns, plain.row) = (Vec::new(), 0);
            program = plain.verify()?;
        } else if query.rows.is_none() {
            query.rows = Some(second.query.schema.clone());
        }
        // The general program is the specialised one: its parameters are constants for good.
        query.program = program.clone();
        Ok(Bound { query, params: Vec::new(), program })
    }
}

/// A program that only chooses, as one that copies what it has chosen.
fn whole(program: &Verified) -> Result<Verified, BindError> {
    let mut p = (**program).clone();
    p.columns = vec![Column { at: 0, source: Source::Copy { from: 0, width: p.record } }];
    p.row = p.record;
    Ok(p.verify()?)
}

/// A program that only chooses among rows, as one that copies each column of what it has chosen.
fn columns_of(program: &Verified, rows: &Verified) -> Result<Verified, BindError> {
    let mut p = (**program).clone();
    let copied = |c: &Column| {
        let width = match c.source {
            Source::Copy { width, .. } => width,
            Source::Value(id) if rows.type_of(id) == Type::Bool => 1,
            Source::Value(_) => 8,
        };
        Column { at: c.at, source: Source::Copy { from: c.at, width } }
    };
    p.columns = rows.columns.iter().map(copied).collect();
    p.row = p.record;
    Ok(p.verify()?)
}

/// A list of columns or aggregates, read.
struct Items {
    columns: Vec<Column>,
    aggregates: Vec<Aggregate>,
    /// What the program writes.
    rows: Option<Schema>,
    /// What comes out, if that is something else.
    results: Schema,
    keyed: Option<Keyed>,
}

impl Default for Items {
    fn default() -> Items {
        let results = Schema::of(Vec::new(), 0);
        Items { columns: Vec::new(), aggregates: Vec::new(), rows: None, results, keyed: None }
    }
}

/// One of the list, before it has a place.
struct Item {
    name: String,
    span: Span,
    what: ItemKind,
}

enum ItemKind {
    Column(FieldType, Source),
    Aggregate(Fold, Option<(u32, Kind)>, FieldType),
}

/// Lays fields out by the C rule.
fn layout(kinds: impl Iterator<Item = (String, FieldType)>) -> (Vec<Field>, u32) {
    let (mut end, mut align, mut fields) = (0u32, 1, Vec::new());
    for (name, kind) in kinds {
        let own = match kind {
            FieldType::Scalar(s) => s.width(),
            FieldType::Text(_) => 1,
        };
        align = align.max(own);
        let at = end.next_multiple_of(own);
        end = at + kind.width();
        fields.push(Field { name, kind, at });
    }
    (fields, end.next_multiple_of(align))
}

impl Items {
    fn read(schema: &Schema, checker: &mut Checker<'_>, text: &str) -> Result<Items, Complaint> {
        let mut parser = Parser::new(text)?;
        let mut items: Vec<Item> = Vec::new();
        loop {
            if parser.take_sign("*")? {
                for f in schema.fields() {
                    let source = Source::Copy { from: f.at, width: f.kind.width() };
                    let what = ItemKind::Column(f.kind, source);
                    items.push(Item { name: f.name.clone(), span: Span::default(), what });
                }
            } else {
                let item = item(schema, checker, &mut parser, items.len())?;
                items.push(item);
            }
            if items.len() > MAX_COLUMNS {
                return parser.complain(parser.peek().span, format!("a list has at most {MAX_COLUMNS} columns"));
            }
            if !parser.take_sign(",")? {
                break;
            }
        }
        let mut keys = Vec::new();
        let by = parser.peek().span;
        if parser.take_word("by")? {
            loop {
                let token = parser.take()?;
                let Lexeme::Name(name) = token.kind else {
                    return parser.complain(token.span, "a field is missing here: what is added up by");
                };
                let Some(field) = schema.field(&name) else {
                    return parser.complain(token.span, format!("there is no field `{name}`"));
                };
                keys.push(field.clone());
                if !parser.take_sign(",")? {
                    break;
                }
            }
        }
        parser.end()?;
        let folded = items.iter().filter(|i| matches!(i.what, ItemKind::Aggregate(..))).count();
        if folded == 0 && !keys.is_empty() {
            return parser.complain(by, "`by` is for aggregates: count(), sum(x), min(x), max(x), last(x)");
        }
        if folded > 0 && folded < items.len() {
            let plain = items.iter().find(|i| matches!(i.what, ItemKind::Column(..))).map_or(by, |i| i.span);
            let message = "columns and aggregates do not mix: write `last(...)`, or name the field behind `by`";
            return parser.complain(plain, message);
        }
        if folded > MAX_AGGREGATES {
            return parser.complain(by, format!("there are at most {MAX_AGGREGATES} aggregates"));
        }
        if folded == 0 { Items::plain(items, &parser) } else { Items::folded(items, &keys, &parser) }
    }

    fn plain(items: Vec<Item>, parser: &Parser<'_>) -> Result<Items, Complaint> {
        unique(items.iter().map(|i| (&i.name, i.span)), parser)?;
        let mut sources = Vec::new();
        let mut kinds = Vec::new();
        for item in items {
            if let ItemKind::Column(kind, source) = item.what {
                sources.push(source);
                kinds.push((item.name, kind));
            }
        }
        let (fields, size) = layout(kinds.into_iter());
        let columns = fields.iter().zip(&sources).map(|(f, source)| Column { at: f.at, source: *source }).collect();
        Ok(Items { columns, rows: Some(Schema::of(fields, size)), ..Items::default() })
    }

    fn folded(items: Vec<Item>, keys: &[Field], parser: &Parser<'_>) -> Result<Items, Complaint> {
        let names = keys.iter().map(|k| (&k.name, Span::default()));
        unique(names.chain(items.iter().map(|i| (&i.name, i.span))), parser)?;
        let mut aggregates = Vec::new();
        let mut results: Vec<(String, FieldType)> = keys.iter().map(|k| (k.name.clone(), k.kind)).collect();
        for item in items {
            if let ItemKind::Aggregate(fold, value, kind) = item.what {
                results.push((item.name, kind));
                aggregates.push((fold, value));
            }
        }
        let (fields, size) = layout(results.into_iter());
        let results = Schema::of(fields, size);
        if keys.is_empty() {
            let aggregates =
                aggregates.iter().map(|(fold, v)| Aggregate { fold: *fold, value: v.map(|(id, _)| id) }).collect();
            return Ok(Items { aggregates, results, ..Items::default() });
        }
        // A row for the table: the keys one behind the other, then the values. No gaps: each byte of a key is written.
        let (mut columns, mut end) = (Vec::new(), 0);
        for k in keys {
            columns.push(Column { at: end, source: Source::Copy { from: k.at, width: k.kind.width() } });
            end += k.kind.width();
        }
        let (width, mut folds) = (end, Vec::new());
        for (fold, value) in aggregates {
            folds.push((fold, value.map(|_| end)));
            if let Some((id, kind)) = value {
                columns.push(Column { at: end, source: Source::Value(id) });
                end += if kind == Kind::Bool { 1 } else { 8 };
            }
        }
        let rows = Some(Schema::of(Vec::new(), end));
        Ok(Items { columns, rows, results, keyed: Some(Keyed { width, folds }), ..Items::default() })
    }
}

fn unique<'a>(names: impl Iterator<Item = (&'a String, Span)>, parser: &Parser<'_>) -> Result<(), Complaint> {
    let mut seen: Vec<&String> = Vec::new();
    for (name, span) in names {
        if seen.contains(&name) {
            return parser.complain(span, format!("there are two columns `{name}`: write `as` and another name"));
        }
        seen.push(name);
    }
    Ok(())
}

fn item(schema: &Schema, checker: &mut Checker<'_>, parser: &mut Parser<'_>, at: usize) -> Result<Item, Complaint> {
    let first = parser.nodes.len();
    let root = parser.expression()?;
    let span = parser.nodes[root].span;
    let fold = match &parser.nodes[root].what {
        What::Call(name, of) if matches!(name.as_str(), "count" | "sum" | "min" | "max" | "last") => {
            Some((name.clone(), of.clone()))
        }
        _ => None,
    };
    let (default, what) = match fold {
        Some((name, of)) => {
            // The call is no expression: what is checked ends before it.
            let Node { what, .. } = &mut parser.nodes[root];
            *what = What::Bool(true);
            aggregate(checker, parser, &name, &of, span)?
        }
        None => column(schema, checker, parser, root, at)?,
    };
    debug_assert!(first <= root, "nodes are added behind each other");
    let mut name = default;
    if parser.take_word("as")? {
        let token = parser.take()?;
        let Lexeme::Name(given) = token.kind else {
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
        return Ok((name.clone(), ItemKind::Column(field.kind, source)));
    }
    let (id, kind) = checker.value(parser, root)?;
    Ok((format!("column{}", at + 1), ItemKind::Column(FieldType::Scalar(stored(kind)), Source::Value(id))))
}

/// What a value of expressions is in a row.
fn stored(kind: Kind) -> Scalar {
    match kind {
        Kind::Int | Kind::Text => Scalar::I64,
        Kind::Uint => Scalar::U64,
        Kind::Double => Scalar::F64,
        Kind::Bool => Scalar::Bool,
    }
}

fn aggregate(
    checker: &mut Checker<'_>,
    parser: &Parser<'_>,
    name: &str,
    of: &[NodeId],
    span: Span,
) -> Result<(String, ItemKind), Complaint> {
    if name == "count" {
        if !of.is_empty() {
            return parser.complain(span, "`count` takes no argument: it counts the records that pass");
        }
        let kind = FieldType::Scalar(Scalar::U64);
        return Ok((name.to_owned(), ItemKind::Aggregate(Fold::Count, None, kind)));
    }
    let &[of] = of else {
        return parser.complain(span, format!("`{name}` takes one argument here"));
    };
    let low = checker.check(parser, of)?;
    if let Low::TextField { .. } = low {
        return parser.complain(parser.nodes[of].span, format!("`{name}` is not for strings"));
    }
    let (id, kind) = checker.value(parser, of)?;
    let fold = match (name, kind) {
        ("last", _) => Fold::Last,
        ("sum", Kind::Int | Kind::Uint) => Fold::Sum,
        ("sum", Kind::Double) => Fold::SumDouble,
        ("min", Kind::Int) => Fold::MinS,
        ("min", Kind::Uint) => Fold::MinU,
        ("min", Kind::Double) => Fold::MinDouble,
        ("max", Kind::Int) => Fold::MaxS,
        ("max", Kind::Uint) => Fold::MaxU,
        ("max", Kind::Double) => Fold::MaxDouble,
        _ => return parser.complain(span, format!("`{name}` is not for {kind}s")),
    };
    let suffix = match &parser.nodes[of].what {
        What::Name(field) => format!("{name}_{field}"),
        _ => name.to_owned(),
    };
    Ok((suffix, ItemKind::Aggregate(fold, Some((id, kind)), FieldType::Scalar(stored(kind)))))
}
