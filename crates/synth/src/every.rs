//! What stands behind `every` in a list: a length of windows, by what, how often one begins, how late records may be.

use crate::complaint::Complaint;
use crate::ir::Kind;
use crate::lex::{Kind as Lexeme, Token};
use crate::nearest::suggestion;
use crate::schema::{Schema, written};
use crate::tree::Parser;
use crate::window::{By, Decimal, MAX_WINDOWS, Step, Window, is_time, number};

/// Reads what stands behind `every`.
///
/// # Errors
/// What makes no sense, and where.
pub fn window(schema: &Schema, parser: &mut Parser<'_>) -> Result<Window, Complaint> {
    let every = parser.take()?;
    let mut by = if let Lexeme::Time(_) = every.kind { By::Clock } else { By::Number };
    if parser.take_word("on")? {
        let token = parser.take()?;
        let (Lexeme::Name(name) | Lexeme::Quoted(name)) = token.kind else {
            return parser.complain(token.span, "a field is missing here: the one that says when a record was");
        };
        let Some(field) = schema.field(&name) else {
            let near = suggestion(&name, schema.fields().iter().map(|f| f.name.as_str()));
            return parser.complain(token.span, format!("there is no field `{name}`{near}"));
        };
        if number(field.kind).is_none() {
            return parser.complain(token.span, format!("windows are over numbers, and `{name}` is none"));
        }
        by = By::Field(field.clone());
    }
    let length = step(&by, &every, parser)?;
    let hop = if parser.take_word("hop")? { Some(parser.take()?) } else { None };
    let (hop, many) = match &hop {
        None => (length, 1),
        Some(token) => {
            let hop = step(&by, token, parser)?;
            let (exact, many) = match (length, hop) {
                (Step::Whole(length), Step::Whole(hop)) => (length.is_multiple_of(hop), length / hop),
                (Step::Double(Decimal { value: length, .. }), Step::Double(Decimal { value: hop, .. })) => {
                    let many = (length / hop).round();
                    ((many * hop - length).abs() <= length * 1e-9, many as u64)
                }
                _ => (false, 1),
            };
            if many == 0 {
                let message = "a hop is no longer than its window: else what lies between two windows would be in none";
                return parser.complain(token.span, message);
            }
            if !exact {
                return parser
                    .complain(token.span, "a window has a whole number of hops: hop 5 or 2 for every 10, not hop 3");
            }
            if many > MAX_WINDOWS {
                let message =
                    format!("each record would be in {many} windows, and it may be in {MAX_WINDOWS}: hop further");
                return parser.complain(token.span, message);
            }
            (hop, many)
        }
    };
    let mut late = if let Step::Double(_) = hop { Step::Double(Decimal::new(0.0)) } else { Step::Whole(0) };
    let span = parser.peek().span;
    if parser.take_word("late")? {
        let By::Field(_) = by else {
            return parser
                .complain(span, "only windows by a field have records that come late: every 10000 on ts late 500");
        };
        let token = parser.take()?;
        if token.kind != Lexeme::Int(0) {
            late = step(&by, &token, parser)?;
        }
    }
    Ok(Window { by, hop, many, late })
}

/// A length of windows, by what time is.
fn step(by: &By, token: &Token, parser: &Parser<'_>) -> Result<Step, Complaint> {
    let is_double = matches!(by, By::Field(field) if number(field.kind) == Some(Kind::Double));
    if token.kind == Lexeme::Sign("-") {
        return parser.complain(token.span, "a length is missing here, and none is negative");
    }
    let step = match (&token.kind, by) {
        (Lexeme::Int(n), By::Field(_)) if is_double => Some(Step::Double(Decimal::new(*n as f64))),
        (Lexeme::Double(n), By::Field(_)) if is_double => Some(Step::Double(Decimal::new(*n))),
        (Lexeme::Time(n), By::Clock) => Some(Step::Whole(*n)),
        (Lexeme::Time(n), By::Field(field)) if is_time(field.kind) => Some(Step::Whole(*n)),
        (Lexeme::Int(n), By::Field(field)) if !is_time(field.kind) => Some(Step::Whole(*n)),
        (Lexeme::Int(n), By::Number) => Some(Step::Whole(*n)),
        _ => None,
    };
    match (step, by) {
        (Some(Step::Whole(0)), _) => parser.complain(token.span, "nothing is in a window of 0"),
        (Some(Step::Double(d)), _) if d.value <= 0.0 => parser.complain(token.span, "nothing is in a window of 0"),
        (Some(step), _) => Ok(step),
        (None, By::Number) if matches!(token.kind, Lexeme::Double(_)) => {
            parser.complain(token.span, "records are whole: write every 1000, or every 2.5 on a field")
        }
        (None, By::Number) => parser.complain(
            token.span,
            "windows are so many records (every 1000), so much time (every 10s), or so much of a field (every 10000 on ts)",
        ),
        (None, By::Field(field)) if is_time(field.kind) => {
            parser.complain(token.span, format!("`{}` is a time: write one, as in every 10s, 500ms, 5m, 1h", field.name))
        }
        (None, By::Clock) => parser.complain(token.span, "a time is missing here, as in 10s, 500ms, 5m, 1h"),
        (None, By::Field(field)) => {
            let name = written(&field.name);
            let message = format!("`{}` has a unit of its own: write a number of what it counts, as in every 10000 on {name}", field.name);
            parser.complain(token.span, message)
        }
    }
}
