//! Interpreters of expressions that others have made.

use super::trades::Trade;
use cel::{Context, Program, Value};

/// A condition by the crate `cel`: all fields as variables, as its users give them.
///
/// # Panics
/// When it does not take the condition.
pub fn cel(text: &str) -> impl FnMut(&Trade) -> bool {
    let program = Program::compile(text).expect("a condition");
    move |t| {
        let mut context = Context::default();
        let sym = std::str::from_utf8(&t.sym).expect("text").trim_end_matches('\0');
        context.add_variable_from_value("price", t.price);
        context.add_variable_from_value("volume", t.volume);
        context.add_variable_from_value("qty", i64::from(t.qty));
        context.add_variable_from_value("id", u64::from(t.id));
        context.add_variable_from_value("venue", t.venue);
        context.add_variable_from_value("sym", sym.to_owned());
        matches!(program.execute(&context), Ok(Value::Bool(true)))
    }
}

/// A condition by the crate `fasteval`, which knows numbers alone.
///
/// # Panics
/// When it does not take the condition.
pub fn fasteval(text: &str) -> impl FnMut(&Trade) -> bool {
    use fasteval::{Compiler, Evaler};
    let (parser, mut slab) = (fasteval::Parser::new(), fasteval::Slab::new());
    let parsed = parser.parse(text, &mut slab.ps).expect("a condition").from(&slab.ps);
    let compiled = parsed.compile(&slab.ps, &mut slab.cs);
    move |t| {
        let mut names = |name: &str, _: Vec<f64>| match name {
            "price" => Some(t.price),
            "qty" => Some(f64::from(t.qty)),
            _ => None,
        };
        compiled.eval(&slab, &mut names).expect("a value") != 0.0
    }
}
