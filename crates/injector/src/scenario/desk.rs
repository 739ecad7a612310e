//! What one survivor has of tubes: their ends, and what came last.

use std::cell::{Cell, RefCell};

use chappe::tube::named::{Receiver, Sender};

/// What tubes carry here.
pub type Message = [u64; 4];

/// How many processes write.
pub const WRITERS: u64 = 4;

/// The ends of both tubes that one survivor has, and what it last received from each writer.
#[derive(Default)]
pub struct Desk {
    pub(super) out: [RefCell<Option<Sender<Message>>>; 2],
    pub(super) into: [RefCell<Option<Receiver<Message>>>; 2],
    pub(super) last: [[Cell<u64>; WRITERS as usize]; 2],
}
