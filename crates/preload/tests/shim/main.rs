//! The library, as programs meet it: programs in C and Python, in processes of their own, with and without it.
//!
//! Needs a C compiler (`cc`), python3 and stress-ng; what is not there is said, and not tested.

mod alike;
mod exported;
mod first;
#[path = "../../../chappe/tests/house/forked.rs"]
mod forked;
mod kills;
mod owned;
mod python;
mod sight;
mod stage;
mod stress;
