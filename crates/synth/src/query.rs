//! Queries: which records, and what of them; a program with names.
//!
//! ```text
//! where    price > $limit && sym in ['A', 'B']            an expression that is true or false
//! select   *                                              all fields, as they are
//! select   sym, price * double(qty) as value, qty         columns: each a field, or an expression with a name
//! select   count(), sum(qty), max(price) as high          aggregates: one row of all records that pass
//! select   sum(qty), last(price) by sym, side             the same by key: one row for each pair of sym and side
//! select   sym, mean(price) as m by sym order m desc top 10      the ten greatest of these rows, the greatest first
//! select   sum(qty) by sym every 10000 on ts late 500            the same over windows: see `every` below
//! ```
//!
//! [`Query::parse`] takes all of it in one text: `where price > 10 select sym, sum(qty) by sym`.
//!
//! Behind aggregates (and `by`) stands which records they are over, if not all: `every 1000` (records), `every 10s` (by the clock), `every 10000 on ts`
//! (by a field, in whatever it counts), with `hop 2000` where windows begin more often than they end, and `late 500` for records that come
//! late ([`Window`]). The first column of the rows is then `window`, where it begins.
//!
//! Rows are records themselves: [`Query::rows`] is their schema, laid out by the C rule, so that queries can be put behind each
//! other ([`Bound::then`]). An int is an `i64` there, a uint a `u64`, a double an `f64`; a field that is only named keeps its
//! type and its bytes.

use crate::build::{fuse, specialise};
use crate::check::{Checker, Parameter};
use crate::complaint::{Complaint, Span};
use crate::ir::{Column, Kind, Op, Source, Type, Value, Verified, With};
use crate::lex::{Kind as Lexeme, Lexer};
use crate::list::{Added, How, Items, Keyed, Order};
use crate::schema::{FieldType, Schema};
use crate::time;
use crate::tree::Parser;
use crate::window::Window;

/// A checked query over records of one schema. Its parameters have no values yet: see [`Query::bind`].
#[derive(Clone, Debug)]
pub struct Query {
    schema: Schema,
    text: String,
    program: Verified,
    params: Vec<(String, Kind)>,
    rows: Option<Schema>,
    keyed: Option<Keyed>,
    window: Option<Window>,
    order: Vec<Order>,
    top: Option<u64>,
}

/// The names that stand in a query's text, of fields and others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mentions {
    /// As they are written, once each.
    pub names: Vec<String>,
    /// It asks for all fields.
    pub all: bool,
}

/// Why a query has no program for these parameters.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// A parameter that was given no value.
    #[error("parameter `${0}` has no value: it needs one of type {1} (`--param {0}=VALUE`)")]
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
    /// let wrong = Query::filter(&trade, "prise > qty").unwrap_err();
    /// assert_eq!(wrong.to_string().lines().next(), Some("there is no field `prise`: is it `price`? (line 1, column 1)"));
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
            holds(&mut checker, &mut parser)?;
            parser.end()?;
        }
        let mut items = Items::default();
        if let Some(text) = list {
            checker.begin(text);
            let mut parser = Parser::new(text)?;
            items = Items::read(schema, &mut checker, &mut parser)?;
            parser.end()?;
        }
        let shown = match (condition, list) {
            (Some(c), Some(l)) => format!("where {c} select {l}"),
            (Some(c), None) => c.to_owned(),
            (None, l) => format!("select {}", l.unwrap_or("*")),
        };
        Query::made(schema, checker, items, shown, condition.or(list).unwrap_or_default())
    }

    /// All of a query in one text: `where EXPRESSION`, `select LIST`, or both. Without a list: all fields.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    ///
    /// ```
    /// use chappe_synth::{Query, Schema};
    /// let trade = Schema::parse("price: f64, qty: i32, sym: str[8]").unwrap();
    /// let query = Query::parse(&trade, "where price > 10 select sym, sum(qty * price) as value by sym order value desc").unwrap();
    /// assert_eq!(query.rows().unwrap().to_string(), "sym: str[8] @ 0, value: f64 @ 8; size 16");
    /// ```
    pub fn parse(schema: &Schema, text: &str) -> Result<Query, Complaint> {
        let mut checker = Checker::new(schema);
        let mut parser = Parser::new(text)?;
        checker.begin(text);
        let first = parser.peek().span;
        let has_condition = parser.take_word("where")?;
        if has_condition {
            holds(&mut checker, &mut parser)?;
        }
        let items = if parser.take_word("select")? {
            Items::read(schema, &mut checker, &mut parser)?
        } else {
            if !has_condition {
                parser.no_capitals()?;
                return parser.complain(
                    first,
                    "a query begins with `where` or `select`: `where price > 10 select sym, sum(qty) by sym`",
                );
            }
            Items::all(schema, &parser)?
        };
        if matches!(&parser.peek().kind, Lexeme::Name(n) if n == "where") {
            return parser.complain(parser.peek().span, "`where` stands before `select`");
        }
        parser.end()?;
        Query::made(schema, checker, items, text.to_owned(), text)
    }

    /// Which names stand in a text, so that no other field need be read for it.
    ///
    /// # Errors
    /// What is no token.
    pub fn mentions(text: &str) -> Result<Mentions, Complaint> {
        let (mut lexer, mut found) = (Lexer::new(text), Mentions { names: Vec::new(), all: true });
        let mut before_column = false;
        loop {
            let kind = lexer.next()?.kind;
            let begins = matches!(&kind, Lexeme::Sign(",")) || matches!(&kind, Lexeme::Name(n) if n == "select");
            match kind {
                Lexeme::End => return Ok(found),
                Lexeme::Sign("*") if before_column => {
                    found.all = true;
                    // Whatever follows, all are asked for.
                    return Ok(found);
                }
                Lexeme::Name(name) | Lexeme::Quoted(name) => {
                    found.all &= name != "select";
                    if !found.names.contains(&name) {
                        found.names.push(name);
                    }
                }
                _ => {}
            }
            before_column = begins;
        }
    }

    fn made(
        schema: &Schema,
        checker: Checker<'_>,
        items: Items,
        shown: String,
        text: &str,
    ) -> Result<Query, Complaint> {
        let params: Vec<(String, Kind)> =
            checker.params.iter().map(|p: &Parameter| (p.name.clone(), p.kind.unwrap_or(Kind::Int))).collect();
        let mut builder = checker.builder;
        builder.program.params = params.iter().map(|(_, kind)| *kind).collect();
        builder.program.columns = items.columns;
        builder.program.row = items.row;
        builder.program.aggregates = items.aggregates;
        let program = builder.finish().map_err(|e| Complaint::new(text, Span::default(), e.to_string()))?;
        let Items { rows, keyed, window, order, top, .. } = items;
        Ok(Query { schema: schema.clone(), text: shown, program, params, rows, keyed, window, order, top })
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

    /// Over which windows it adds up; none: the whole stream is one.
    pub fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    /// By what its rows are ordered, the first one first.
    pub fn order(&self) -> &[Order] {
        &self.order
    }

    /// How many rows are wanted; none: all.
    pub fn top(&self) -> Option<u64> {
        self.top
    }

    /// Whether it adds up.
    pub fn sums_up(&self) -> bool {
        self.keyed.is_some() || !self.program.aggregates.is_empty()
    }

    /// Whether its answer depends on how texts of any length compare with each other: they are ordered, or the least or greatest of them is asked for. Texts
    /// that are written out in it are the asker's own.
    pub fn compares_texts(&self) -> bool {
        let is_text = |kind: FieldType| kind == FieldType::Str;
        let added = self.keyed.iter().flat_map(|keyed| &keyed.added);
        let least = |added: &Added| matches!(added.how, How::Min | How::Max) && added.kind == Kind::Text;
        let fields = self.rows().unwrap_or(&self.schema).fields();
        let ordered = |order: &Order| fields.get(order.field).is_some_and(|field| is_text(field.kind));
        let compared = |op: &Op| matches!(op, Op::Text { with: With::Value(_), .. });
        added.into_iter().any(least) || self.order.iter().any(ordered) || self.program.ops.iter().any(compared)
    }

    /// The query for these values of its parameters: they become constants of its program. An int or a uint is taken where another
    /// number is asked for, if it is one; a text where a number, a bool or a time is, if it says one.
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
                (Value::Text(text), kind) if *kind != Kind::Text => read(text, *kind),
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
        if self.query.sums_up() || self.query.top.is_some() || !self.query.order.is_empty() {
            return Err(BindError::Chain("the first adds up or orders, and has no row for each record"));
        }
        if second.query.window.is_some() {
            return Err(BindError::Chain("the second adds up over windows, by fields of its own records"));
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

/// What a text says where no text is asked for: a number as it is written, `true`, `false`, a time for `time($name)`.
fn read(text: &[u8], kind: Kind) -> Option<Value> {
    let plain = std::str::from_utf8(text).ok()?;
    match kind {
        Kind::Int if text.get(4) == Some(&b'-') => time::parse(text).map(Value::Int),
        Kind::Int => plain.parse().ok().map(Value::Int),
        Kind::Uint => plain.parse().ok().map(Value::Uint),
        Kind::Double => plain.parse().ok().map(Value::Double),
        Kind::Bool => plain.parse().ok().map(Value::Bool),
        Kind::Text => None,
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

/// The condition is the program's filter.
fn holds(checker: &mut Checker<'_>, parser: &mut Parser<'_>) -> Result<(), Complaint> {
    let root = parser.expression()?;
    // Before the types: half of `a is null` is no condition.
    parser.no_sql()?;
    let id = checker.predicate(parser, root)?;
    checker.builder.program.filter = Some(id);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_in_the_words_of_sql_is_told_what_is_written_here() {
        let schema = Schema::parse("a: i64?, b: str[8]").unwrap();
        for (text, here) in [
            ("where a is null select b", "`is` is of SQL, or Python: write `x == null`"),
            ("where b LIKE 'x%' select a", "x.startsWith('a')"),
            ("where a BETWEEN 1 and 2 select a", "write `1 <= x && x <= 2`"),
            ("SELECT a", "`SELECT` is written in small letters: `select`"),
            ("where a > 1 SELECT b", "`SELECT` is written in small letters: `select`"),
            ("select a WHERE a > 1", "`WHERE` is written in small letters: `where`"),
            ("select a where a > 1", "`where` stands before `select`"),
            ("select sum(a) BY b", "`BY` is written in small letters: `by`"),
            ("select AVG(a)", "there is no function `AVG`: write `mean`"),
            ("select COUNT(*)", "`COUNT` is written in small letters: `count`"),
            ("select distinct a", "write `distinct(x)` for how many there are"),
        ] {
            let said = Query::parse(&schema, text).unwrap_err().to_string();
            assert!(said.contains(here), "{text}: {said}");
        }
        // Columns may have such names.
        let schema = Schema::parse("Order: i64, distinct: i64, BY: i64").unwrap();
        for text in ["where Order > BY select distinct, BY", "select distinct(distinct) as n", "where distinct < 3"] {
            assert!(Query::parse(&schema, text).is_ok(), "{text}");
        }
    }
}
