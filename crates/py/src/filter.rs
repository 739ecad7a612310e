//! Filters: which records a receiver wants, by an expression over the tube's schema, with parameters.
//!
//! A tube gives each record to one receiver, so one that this receiver does not want is received all the same, and gone: as by
//! `chappe recv --where`. (A subscription's filter travels to the publishers instead: see `broadcast`.)

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};

use chappe::synth::{Evaluator, Live, Schema, Value};
use std::sync::{Arc, Mutex, PoisonError};

/// So many filters a handle keeps: what is compiled for one is there for the next call with the same expression.
const KEPT: usize = 16;

/// The value of a parameter.
fn value_of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    // A bool is an int in Python, and is asked for first.
    if given.is_instance_of::<PyBool>() {
        return Ok(Value::Bool(given.extract()?));
    }
    if given.is_instance_of::<PyInt>() {
        let signed = given.extract::<i64>().map(Value::Int);
        return signed
            .or_else(|_| given.extract::<u64>().map(Value::Uint))
            .map_err(|_| PyValueError::new_err(format!("parameter `{name}` does not fit 64 bits: {given}")));
    }
    if given.is_instance_of::<PyFloat>() {
        return Ok(Value::Double(given.extract()?));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(Value::Text(given.extract::<String>()?.into_bytes()));
    }
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(Value::Text(bytes.as_bytes().to_vec()));
    }
    let kind = given.get_type();
    Err(PyTypeError::new_err(format!("parameter `{name}` is a bool, int, float, str or bytes, not {kind}")))
}

/// Parameters by name.
///
/// # Errors
/// `TypeError`, `ValueError`.
pub fn params_of(params: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, Value)>> {
    let one = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let name: String = name.extract()?;
        let value = value_of(&name, &value)?;
        Ok((name, value))
    };
    params.into_iter().flat_map(|p| p.iter()).map(one).collect()
}

/// Says that parameters without a filter are none.
pub fn without_filter() -> PyErr {
    PyTypeError::new_err("parameters are those of a filter: give `where`, too")
}

/// An expression, ready to be asked by one thread.
pub struct Filter {
    expression: String,
    params: Vec<(String, Value)>,
    live: Arc<Live>,
    evaluator: Evaluator,
    size: usize,
}

impl Filter {
    fn new(schema: Option<String>, tube: &str, expression: &str, params: Vec<(String, Value)>) -> PyResult<Filter> {
        let none = || PyValueError::new_err(format!("tube `{tube}` has no schema that a filter could be over"));
        let damaged = |e| PyValueError::new_err(format!("the schema of tube `{tube}` is damaged: {e}"));
        let schema = Schema::parse(&schema.ok_or_else(none)?).map_err(damaged)?;
        let wrong = |e| PyValueError::new_err(format!("the filter makes no sense: {e}"));
        let live = Live::filter(&schema, expression, &by_name(&params)).map_err(wrong)?;
        let (evaluator, size) = (live.evaluator(), schema.size() as usize);
        Ok(Filter { expression: expression.to_owned(), params, live, evaluator, size })
    }

    fn set(&mut self, params: Vec<(String, Value)>) -> PyResult<()> {
        if self.params != params {
            let wrong = |e| PyValueError::new_err(format!("the parameters do not fit: {e}"));
            self.live.set(&by_name(&params)).map_err(wrong)?;
            self.params = params;
        }
        Ok(())
    }

    /// Whether a record is wanted.
    pub fn passes(&mut self, record: &[u8]) -> bool {
        record.len() >= self.size && self.evaluator.test(record)
    }
}

fn by_name(params: &[(String, Value)]) -> Vec<(&str, Value)> {
    params.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
}

/// The filters by which a handle has received, those in use aside.
#[derive(Default)]
pub struct Filters(Mutex<Vec<Filter>>);

impl Filters {
    /// One of this expression, with these parameters; of no expression none.
    ///
    /// # Errors
    /// `ValueError`: it makes no sense for this schema, with the place; `TypeError`.
    pub fn lend(
        &self,
        expression: Option<&str>,
        params: Option<&Bound<'_, PyDict>>,
        tube: &str,
        schema: impl FnOnce() -> PyResult<Option<String>>,
    ) -> PyResult<Option<Filter>> {
        let params = params_of(params)?;
        let Some(expression) = expression else {
            return if params.is_empty() { Ok(None) } else { Err(without_filter()) };
        };
        let had = {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().position(|filter| filter.expression == expression).map(|at| kept.remove(at))
        };
        let Some(mut filter) = had else { return Filter::new(schema()?, tube, expression, params).map(Some) };
        match filter.set(params) {
            Ok(()) => Ok(Some(filter)),
            Err(e) => {
                self.back(Some(filter));
                Err(e)
            }
        }
    }

    /// Gives it back.
    pub fn back(&self, filter: Option<Filter>) {
        let Some(filter) = filter else { return };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(filter);
        if kept.len() > KEPT {
            kept.remove(0);
        }
    }
}
