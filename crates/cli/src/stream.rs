//! `chappe send` and `chappe recv`: between a tube and a pipe.

mod course;
mod hear;
mod passed;
mod recv;
mod send;
mod writer;

pub use recv::recv;
pub use send::send;
