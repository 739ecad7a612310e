//! Terminals: what their programs are asked, and answer. `term.py` gives them Python's habits.

use crate::failure::{Failure, Kind, failure};
use crate::wait::{Limit, detached};
use chappe::raw::Time;
use chappe::term::keys;
use chappe::term::kill::KillError;
use chappe::term::modes::Modes;
use chappe::term::place::TermError;
use chappe::term::typed::TypeError;
use chappe::terminal::{After, Ended, Found, Mark, Terminal as Screen, TerminalError};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// A terminal in which a program runs, or has run.
#[pyclass(frozen, subclass, module = "chappe._chappe")]
pub struct Terminal(Screen);

/// What was asked of a terminal and is waited for: a file that can be read once the answer is there.
#[pyclass(frozen, module = "chappe._chappe")]
pub struct Awaited(Asked);

/// A line's number, its text, and what matched.
type Line = (u64, String, String, u64);

enum Asked {
    Text(chappe::terminal::Awaited<Found>),
    Exit(String, chappe::terminal::Awaited<Ended>),
}

/// An end as `subprocess` has it: the status, or minus the signal.
fn number(name: &str, ended: Ended) -> PyResult<i32> {
    match ended {
        Ended::Exited(status) => Ok(status.into()),
        Ended::Killed(signal) => Ok(-signal),
        Ended::Unknown => {
            let why = format!("how the command of terminal `{name}` ended is not known: its keeper was killed");
            Err(PyRuntimeError::new_err(why))
        }
    }
}

impl Terminal {
    fn modes(&self) -> Modes {
        self.0.screen().map(|now| now.modes()).unwrap_or_default()
    }
}

#[pymethods]
impl Terminal {
    #[new]
    fn new(py: Python<'_>, name: &str) -> PyResult<Terminal> {
        detached(py, || Screen::open(name)).map(Terminal).map_err(|e| failure(py, e))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// What it runs.
    #[getter]
    fn command(&self) -> String {
        self.0.command()
    }

    /// How its command has ended: its status, or minus the signal that ended it. None: it runs. Raises RuntimeError where that is not known, as its keeper was killed.
    #[getter]
    fn ended(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        let ended = self.0.ended().map_err(|e| failure(py, e))?;
        ended.map(|how| number(self.0.name(), how)).transpose()
    }

    fn _type(&self, py: Python<'_>, bytes: &[u8], timeout: Option<f64>) -> PyResult<String> {
        let patience = match Limit::of(timeout)?.time() {
            Time::Forever => None,
            Time::Now => Some(Duration::ZERO),
            Time::Within(patience) => Some(patience),
        };
        let raised = Cell::new(None);
        let goes_on = || {
            let is_raised = |e| raised.set(Some(e));
            Python::attach(|py| py.check_signals()).map_err(is_raised).is_ok()
        };
        let typed = detached(py, || self.0.send_while(bytes, patience, &goes_on));
        match raised.take() {
            // What a handler raised: as much was typed as was.
            Some(e) if typed.is_err() => Err(e),
            _ => typed.map(|mark: Mark| mark.to_string()).map_err(|e| failure(py, e)),
        }
    }

    fn _kill(&self, py: Python<'_>, signal: i32) -> PyResult<()> {
        detached(py, || self.0.kill(signal)).map_err(|e| failure(py, e))
    }

    fn _key(&self, py: Python<'_>, key: &str) -> PyResult<Vec<u8>> {
        keys::bytes(key, self.modes()).ok_or_else(|| failure(py, TerminalError::Key(key.into())))
    }

    fn _paste(&self, text: &str) -> Vec<u8> {
        keys::paste(text.as_bytes(), self.modes())
    }

    fn _text(&self, py: Python<'_>, regex: &str, after: Option<&str>) -> PyResult<Awaited> {
        let after = after.map(|mark| mark.parse::<After>().map_err(PyValueError::new_err)).transpose()?;
        Ok(Awaited(Asked::Text(self.0.text(regex, after).map_err(|e| failure(py, e))?)))
    }

    fn _exit(&self, py: Python<'_>) -> PyResult<Awaited> {
        Ok(Awaited(Asked::Exit(self.0.name().to_owned(), self.0.exit().map_err(|e| failure(py, e))?)))
    }

    /// The text on the screen, and before it so many of the lines that have left it.
    #[pyo3(signature = (history = 0))]
    fn show(&self, py: Python<'_>, history: u64) -> PyResult<String> {
        detached(py, || self.0.show(history)).map_err(|e| failure(py, e))
    }

    /// Gives it another size.
    fn resize(&self, py: Python<'_>, columns: u16, rows: u16) -> PyResult<()> {
        detached(py, || self.0.resize(columns, rows)).map_err(|e| failure(py, e))
    }

    /// Removes it: its command has ended.
    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.0.removed()).map_err(|e| failure(py, e))
    }
}

#[pymethods]
impl Awaited {
    /// The descriptor, for `select`.
    fn fileno(&self) -> i32 {
        match &self.0 {
            Asked::Text(text) => text.as_fd().as_raw_fd(),
            Asked::Exit(_, exit) => exit.as_fd().as_raw_fd(),
        }
    }

    /// The answer, once: line, text, what matched and how many lines were lost; or a number. None: it is not there yet.
    fn _take(&self, py: Python<'_>) -> PyResult<(Option<Line>, Option<i32>)> {
        match &self.0 {
            Asked::Text(text) => {
                let found = text.take().transpose().map_err(|e| failure(py, e))?;
                Ok((found.map(|Found { line, text, matched, lost, .. }| (line, text, matched, lost)), None))
            }
            Asked::Exit(name, exit) => {
                let ended = exit.take().transpose().map_err(|e| failure(py, e))?;
                Ok((None, ended.map(|how| number(name, how)).transpose()?))
            }
        }
    }
}

impl Failure for TerminalError {
    fn kind(&self) -> Kind {
        match self {
            TerminalError::Over(..)
            | TerminalError::Typing(_, TypeError::Over)
            | TerminalError::Signal(KillError::Ended(_) | KillError::Gone(_)) => Kind::Disconnected,
            TerminalError::Typing(_, TypeError::Unread { .. } | TypeError::Busy) | TerminalError::Timeout(..) => {
                Kind::Late
            }
            TerminalError::Expression(_) | TerminalError::Key(_) => Kind::Value,
            TerminalError::Full(_) => Kind::NoSpace,
            TerminalError::Terminal(TermError::Missing(_)) => Kind::NotFound,
            TerminalError::Terminal(TermError::NotYours(..)) | TerminalError::Typing(_, TypeError::NotYours) => {
                Kind::NotOurs
            }
            TerminalError::Terminal(TermError::InUse(_)) => Kind::InUse,
            TerminalError::Terminal(TermError::Name(..)) => Kind::Value,
            _ => Kind::System,
        }
    }
}
