//! The command, as its users meet it: the built binary in processes of its own.

mod acquire;
mod bad_input;
mod barrier;
mod book;
mod bpftrace;
mod broken;
mod browser;
mod crowd;
mod doctor;
mod elsewhere;
#[cfg(feature = "remote")]
mod engine_storm;
mod eyes;
mod filters;
mod first;
mod foreground;
mod gpus;
#[cfg(feature = "graph")]
mod graph;
mod guard;
#[cfg(feature = "graph")]
mod jack;
mod jobserver;
mod jobserver_make;
mod jobserver_old;
#[cfg(feature = "remote")]
mod keeper;
#[cfg(feature = "remote")]
mod lan;
mod late;
mod lateness;
mod lease;
mod lock;
mod look;
mod many;
mod map;
mod namespaces;
mod objects;
mod pipe;
mod place;
mod query;
#[cfg(feature = "remote")]
mod remote;
mod room;
mod run;
mod run_io;
mod schema;
mod sem;
mod signals;
mod slow;
#[cfg(feature = "term")]
mod submit;
#[cfg(feature = "term")]
mod term;
#[cfg(feature = "term")]
mod term_library;
#[cfg(feature = "term")]
mod term_storm;
mod terminal;
mod threads;
#[cfg(feature = "top")]
mod top;
mod tube;
mod users;
