//! All suites in one program: it links what they share once.
#![recursion_limit = "256"]

mod support;

mod bounded;
mod choice;
mod choice_borrows;
mod choice_default;
mod choice_macro;
mod choice_macro_forms;
mod choice_waiting;
mod clocks;
mod closing;
mod errors;
mod fairness;
mod go_programs;
mod iterators;
mod panics;
mod rendezvous;
mod stress;
mod stress_choices;
mod traits;
mod unbounded;
mod zero_sized;
