//! Terminals whose screen, history and end outlive their programs: a screen that is plain data, in memory that processes share.
//!
//! | module | what |
//! |---|---|
//! | [`feed`], [`screen`] | bytes in, a screen out: no input and no output of its own |
//! | [`store`] | that screen as words without pointers |
//! | [`layout`] | the file, and the protocol of its words |
//! | [`place`] | files: made, found, removed |
//! | [`words`] | the steps on those words, and the loops of writers, holders and keepers |
//! | [`holder`] | the one that reads the program and writes the screen |
//! | [`view`], [`search`] | looking and waiting, for a text |
//! | [`typed`], [`keys`], [`kill`] | typing, what keys send, signals |
//! | [`paint`] | a screen on another terminal |
#![deny(missing_docs)]

pub mod cell;
pub mod feed;
pub mod grid;
pub mod holder;
pub mod intern;
pub mod keys;
pub mod kill;
pub mod layout;
pub mod line;
pub mod modes;
pub mod paint;
mod perform;
pub mod place;
pub mod screen;
pub mod search;
mod sgr;
pub mod store;
pub mod typed;
pub mod view;
pub mod words;
