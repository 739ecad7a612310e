//! The explorer itself, in one program: mistakes that it must find, and what it models.

mod buffers;
mod controls;
mod faults;
mod guard;
mod kernel;
mod speed;
