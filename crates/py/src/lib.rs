//! `chappe._chappe`: what the Python package has of Rust. The package's own files give it Python's habits.
//!
//! | file | what |
//! |---|---|
//! | `wait.rs` | how a wait gives up the GIL, and how a signal ends it |
//! | `failure.rs` | which Python exception an error becomes |
//! | `place.rs` | names, and objects that nobody has named: they go with the last process that has them |
//! | `state.rs` `words.rs` | a mutex and a few words beside it, and a condition variable: what the compound objects are made of |
//! | `quick.rs` | the methods of locks and semaphores that are called most, without what a call costs otherwise |
//! | `clock.rs` | clocks: ticks, and what comes after a while |
//! | `task.rs` | waits of tasks, which a loop polls |
//! | `pickle.rs` | whether a pickle can hold a connection |
//! | `terminal.rs` | terminals, feature `term` |
//! | `remote.rs` | objects on an engine, feature `remote` |
//! | `pool.rs` `semaphore.rs` `lock.rs` `condition.rs` `barrier.rs` `tube.rs` `broadcast.rs` `map.rs` `select.rs` | the objects |

mod barrier;
mod broadcast;
mod clock;
mod condition;
mod failure;
mod filter;
mod had;
mod lock;
mod map;
mod pickle;
mod place;
mod pool;
mod query;
mod quick;
#[cfg(feature = "remote")]
mod remote;
mod select;
mod semaphore;
mod state;
mod task;
#[cfg(feature = "term")]
mod terminal;
mod tube;
mod wait;
mod words;

use pyo3::prelude::*;

/// The compiled part of the package `chappe`.
#[pymodule]
mod _chappe {
    #[pymodule_export]
    use super::barrier::{Arrival, Barrier};
    #[pymodule_export]
    use super::broadcast::{Broadcast, Subscription};
    #[pymodule_export]
    use super::clock::{Clock, after, tick};
    #[pymodule_export]
    use super::condition::{Condition, Event};
    #[pymodule_export]
    use super::lock::{Lock, RLock, RwLock};
    #[pymodule_export]
    use super::map::Map;
    #[pymodule_export]
    use super::pickle::unconnected;
    #[pymodule_export]
    use super::place::{before_fork, label, remove, show};
    #[pymodule_export]
    use super::pool::{Permit, Pool};
    #[pymodule_export]
    use super::query::Query;
    #[pymodule_export]
    use super::select::{select, select_task};
    #[pymodule_export]
    use super::semaphore::Semaphore;
    #[pymodule_export]
    use super::task::{Task, Woken};
    #[pymodule_export]
    use super::tube::{Loan, Slot, Tube};
    #[pymodule_export]
    use super::words::Words;

    #[cfg(any(feature = "remote", feature = "term"))]
    use pyo3::prelude::PyModuleMethods;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        #[cfg(feature = "term")]
        {
            module.add_class::<super::terminal::Terminal>()?;
            module.add_class::<super::terminal::Awaited>()?;
        }
        #[cfg(feature = "remote")]
        {
            module.add_class::<super::remote::Remote>()?;
            module.add_class::<super::remote::Permit>()?;
            module.add_class::<super::remote::Sender>()?;
            module.add_class::<super::remote::Receiver>()?;
        }
        super::quick::install(module.py())
    }
}
