//! Questions over records: which of them, what of each, sums, over all or windows: as `chappe query` and `chappe recv --select`, in the same language.

use crate::filter::params_of;
use chappe::synth::ir::{NO_TEXT, load, text_of};
use chappe::synth::{
    self, Evaluator, Field, FieldType, Live, Ordered, Records, Rows, Scalar, Schema, Summary, SummaryError, Trust,
    Windows,
};
use pyo3::exceptions::{PyMemoryError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// What a question keeps.
struct Kept {
    evaluator: Evaluator,
    windows: Option<Windows>,
    ordered: Option<Ordered>,
}

/// A question over records of a schema. It is given records, and answers rows as dicts; what is added up comes when its window ends, or at the end.
#[pyclass(frozen, module = "chappe")]
pub struct Query {
    kept: Mutex<Kept>,
    size: usize,
    rows: Schema,
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn refused(e: SummaryError) -> PyErr {
    match e {
        SummaryError::Memory { .. } => PyMemoryError::new_err(e.to_string()),
        e => PyOverflowError::new_err(e.to_string()),
    }
}

/// A text as Python has it: what is no UTF-8 has U+FFFD in its place.
fn text<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyAny> {
    PyString::new(py, &String::from_utf8_lossy(bytes)).into_any()
}

fn value<'py>(py: Python<'py>, field: &Field, row: &[u8], texts: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let at = field.at as usize;
    let scalar = match field.kind {
        FieldType::Text(width) => {
            let bytes = &row[at..at + width as usize];
            return Ok(text(py, &bytes[..bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len())]));
        }
        FieldType::Str => {
            let word = load(row, field.at, Scalar::U64);
            let is_there = word >> 32 != NO_TEXT >> 32;
            return Ok(if is_there { text(py, text_of(word, texts)) } else { py.None().into_bound(py) });
        }
        FieldType::Maybe(scalar) if row[at + scalar.width() as usize] == 0 => return Ok(py.None().into_bound(py)),
        FieldType::Maybe(scalar) | FieldType::Scalar(scalar) => scalar,
    };
    let word = load(row, field.at, scalar);
    Ok(match scalar {
        Scalar::Bool => (word != 0).into_pyobject(py)?.to_owned().into_any(),
        Scalar::F32 | Scalar::F64 => f64::from_bits(word).into_pyobject(py)?.into_any(),
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => word.into_pyobject(py)?.into_any(),
        _ => word.cast_signed().into_pyobject(py)?.into_any(),
    })
}

impl Query {
    fn dicts<'py>(&self, py: Python<'py>, rows: &[u8], texts: &[u8]) -> PyResult<Bound<'py, PyList>> {
        let all = PyList::empty(py);
        for row in rows.chunks_exact(self.rows.size() as usize) {
            let dict = PyDict::new(py);
            for field in self.rows.fields() {
                dict.set_item(&field.name, value(py, field, row, texts)?)?;
            }
            all.append(dict)?;
        }
        Ok(all)
    }
}

#[pymethods]
impl Query {
    #[new]
    #[pyo3(signature = (schema, text, params = None))]
    fn new(schema: &str, text: &str, params: Option<&Bound<'_, PyDict>>) -> PyResult<Query> {
        let schema =
            Schema::parse(&crate::tube::canonical(schema)?).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let wrong = |e: &dyn std::fmt::Display| PyValueError::new_err(format!("the question makes no sense: {e}"));
        let query = synth::Query::parse(&schema, text).map_err(|e| wrong(&e))?;
        let params = params_of(params)?;
        let params: Vec<(&str, synth::Value)> = params.iter().map(|(name, v)| (name.as_str(), v.clone())).collect();
        let live = Live::new(&query, &params, Trust::Own).map_err(|e| wrong(&e))?;
        let windows = Windows::new(&query).map(|windows| windows.limit(Summary::MEMORY));
        let ordered = if windows.is_some() { None } else { Ordered::new(&query) };
        let rows = query.rows().unwrap_or(&schema).clone();
        let kept = Mutex::new(Kept { evaluator: live.evaluator(), windows, ordered });
        Ok(Query { kept, size: schema.size() as usize, rows })
    }

    /// Bytes of a record.
    #[getter]
    fn size(&self) -> usize {
        self.size
    }

    /// Takes records, one behind the other, and answers the rows that are done by them.
    fn add<'py>(&self, py: Python<'py>, records: &[u8]) -> PyResult<Bound<'py, PyList>> {
        if !records.len().is_multiple_of(self.size) {
            let what = format!("{} bytes are no whole records of {} bytes", records.len(), self.size);
            return Err(PyValueError::new_err(what));
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { evaluator, windows, ordered } = &mut *kept;
        let records = Records::new(records, self.size, self.size);
        let mut done = Rows::default();
        if let Some(windows) = windows {
            let ended = |rows: &Rows| done.extend(&self.rows, rows);
            windows.add(evaluator, records, now, ended).map_err(refused)?;
        } else {
            evaluator.project(records, &mut done.bytes);
            if let Some(ordered) = ordered {
                ordered.add(&done.bytes, &[]);
                done = Rows::default();
                if ordered.size() > Summary::MEMORY {
                    let what = format!("the rows to be ordered need more than {} bytes", Summary::MEMORY);
                    return Err(PyMemoryError::new_err(what));
                }
            }
        }
        self.dicts(py, &done.bytes, &done.texts)
    }

    /// The rows that come when there are no more records.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = Rows::default();
        if let Some(windows) = &mut kept.windows {
            windows.finish(|rows| done.extend(&self.rows, rows)).map_err(refused)?;
        } else if let Some(ordered) = kept.ordered.take() {
            done = ordered.finish();
        }
        self.dicts(py, &done.bytes, &done.texts)
    }

    /// Whether no further record changes the answer.
    #[getter]
    fn enough(&self) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.ordered.as_ref().is_some_and(Ordered::is_full)
    }

    /// Seconds until a window ends by the clock, if one is open.
    #[getter]
    fn ends_in(&self) -> Option<f64> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.windows.as_ref()?.ends_in(now()).map(|ns| ns as f64 / 1e9)
    }
}
