//! Stages that select records, select their fields, and write them as text. The expressions are those of
//! [`chappe_synth`]: closures and vector plans.

use super::stage;
use crate::kind::{Call, Kind, Plan, Wrong};
use crate::stage::{Body, Fault, Out, Stage};
use crate::types::{Block, Element, Type};
use chappe_rows::{Style, Writer};
use chappe_synth::{Bound, Evaluator, FieldType, Live, LiveError, Query, Records, Scalar, Schema, Trust};
use std::sync::Arc;

fn schema(call: &Call<'_>) -> Result<Arc<Schema>, Wrong> {
    let input = call.input()?;
    match &input.element {
        Element::Record(schema) => Ok(Arc::clone(schema)),
        _ => Err(call.mismatch(input, "records", "`records FILE SCHEMA` reads them")),
    }
}

/// A query over each block.
struct Run {
    evaluator: Evaluator,
    size: usize,
}

impl Stage for Run {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let mut rows = Vec::with_capacity(block.len());
        let bytes = block.octets();
        self.evaluator.project(Records::new(bytes, self.size, self.size), &mut rows);
        if rows.is_empty() {
            Ok(())
        } else {
            out.put(Block { data: crate::types::Data::Bytes(rows), again: block.again })
        }
    }
}

/// A stage that asks this of each record.
///
/// # Errors
/// It makes no sense any more.
pub fn queries(asked: &Bound) -> Result<Box<dyn Stage>, LiveError> {
    let size = asked.query().schema().size() as usize;
    let live = Live::new(asked.query(), &[], Trust::Own)?;
    Ok(Box::new(Run { evaluator: live.evaluator(), size }))
}

fn query(call: &Call<'_>, condition: bool) -> Result<Plan, Wrong> {
    let schema = schema(call)?;
    let (text, span) = call.needs_text(0, if condition { "expression" } else { "list" })?;
    let (filter, list) = if condition { (Some(text), None) } else { (None, Some(text)) };
    let wrong = |what: &str| Wrong::at(span, what.to_owned());
    let query = Query::new(&schema, filter, list).map_err(|e| wrong(e.message()))?;
    if query.sums_up() {
        return Err(wrong(
            "a stream has no end to sum up to: let it end in `tube \"NAME\"`; `chappe recv NAME --select` sums up what it receives",
        ));
    }
    if query.top().is_some() || !query.order().is_empty() {
        return Err(wrong("a stream has no end, so it has no order and no first rows: leave `order` and `top` out"));
    }
    let gives =
        query.rows().map_or(Element::Record(Arc::clone(&schema)), |rows| Element::Record(Arc::new(rows.clone())));
    let asked = query.bind(&[]).map_err(|e| wrong(&e.to_string()))?;
    let run = queries(&asked).map_err(|e| wrong(&e.to_string()))?;
    let rate = if condition { None } else { call.input()?.rate };
    Ok(Plan::filter(Type { rate, ..Type::of(gives) }, move || Ok(Body::Stage(run))).asks(asked))
}

/// Records to lines.
struct ToLines {
    writer: Writer,
}

impl Stage for ToLines {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let mut text = Vec::new();
        self.writer.rows(block.octets(), &[], &mut text);
        out.put(Block { data: crate::types::Data::Bytes(text), again: block.again })
    }
}

/// A number of each record.
struct Take {
    at: usize,
    scalar: Scalar,
    size: usize,
}

impl Stage for Take {
    fn put(&mut self, mut block: Block, out: &mut dyn Out) -> Result<(), Fault> {
        let at = self.at;
        macro_rules! number {
            ($t:ty, $r:expr) => {
                <$t>::from_le_bytes($r[at..at + size_of::<$t>()].try_into().expect("a field lies in its record")) as f32
            };
        }
        let one = |r: &[u8]| match self.scalar {
            Scalar::Bool => f32::from(u8::from(r[at] != 0)),
            Scalar::I8 => number!(i8, r),
            Scalar::I16 => number!(i16, r),
            Scalar::I32 => number!(i32, r),
            Scalar::I64 => number!(i64, r),
            Scalar::U8 => number!(u8, r),
            Scalar::U16 => number!(u16, r),
            Scalar::U32 => number!(u32, r),
            Scalar::U64 => number!(u64, r),
            Scalar::F32 => number!(f32, r),
            Scalar::F64 => number!(f64, r),
        };
        let numbers = block.octets().chunks_exact(self.size).map(one).collect();
        out.put(Block { data: crate::types::Data::F32(numbers), again: block.again })
    }
}

fn field(call: &Call<'_>) -> Result<Plan, Wrong> {
    let schema = schema(call)?;
    let (name, span) = call.needs_text(0, "name")?;
    let names = || schema.fields().iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
    let field = schema
        .field(name)
        .ok_or_else(|| Wrong::at(span, format!("there is no field `{name}`: there are {}", names())))?;
    let FieldType::Scalar(scalar) = field.kind else {
        return Err(Wrong::at(span, format!("`{name}` is a text, and no number")));
    };
    let (at, size) = (field.at as usize, schema.size() as usize);
    let gives = Type { rate: call.input()?.rate, ..Type::of(Element::F32) };
    Ok(Plan::filter(gives, move || stage(Take { at, scalar, size })))
}

/// The kinds.
pub fn kinds() -> Vec<Kind> {
    let to_lines = |json: bool| {
        move |call: &Call<'_>| {
            let schema = schema(call)?;
            let writer = Writer::new(if json { Style::Json } else { Style::Csv }, &schema);
            Ok(Plan::filter(Type::of(Element::Line), move || stage(ToLines { writer })))
        }
    };
    vec![
        Kind::new("where", "\"EXPRESSION\"", "the records for which it is true", |call| query(call, true)),
        Kind::new("select", "\"LIST\"", "other records, of expressions: \"price * 2 as double, sym\"", |call| {
            query(call, false)
        }),
        Kind::new("field", "NAME", "one number of each record", field),
        Kind::new("csv", "", "records as rows of text, with their names first", to_lines(false)),
        Kind::new("json", "", "records as JSON, one a line", to_lines(true)),
    ]
}
