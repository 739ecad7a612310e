//! The command, as its users meet it: the built binary in processes of its own.

mod acquire;
mod bad_input;
mod book;
mod broken;
mod crowd;
mod doctor;
mod jobserver;
mod jobserver_make;
mod lease;
mod look;
mod many;
mod objects;
mod place;
mod run;
mod sem;
mod signals;
mod terminal;
mod tube;
