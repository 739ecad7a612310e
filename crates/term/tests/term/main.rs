//! The screen against other terminals, any split of the stream, hostile streams, and the memory that processes have in common.

mod hostile;
mod memory;
mod oracle;
mod search;
mod split;
mod streams;
