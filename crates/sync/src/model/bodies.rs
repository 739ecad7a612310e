//! Objects of an arena that are a body and nothing else, for the explorer: made, changed as a member changes them, removed.

use super::{Actor, MapAt, MonitorAt, StackAt};
use crate::counter;
use crate::map::atlas::Atlas;
use crate::server::form as server;
use chappe_arena::layout::Kind;
use chappe_arena::{ArenaError, Map, Place};
use chappe_plat::atomic::Ordering;
use chappe_structures::desk::{Desk, Sizes};
use chappe_structures::mcas::{self, Field, Step};
use chappe_structures::table::{Change, Decide};
use chappe_wait::body;
use chappe_wait::body::{Body, Form};

/// A service, words that change together, a counter, or a lock with helping.
#[derive(Clone, Copy)]
pub struct BareAt {
    /// The arena.
    pub map: &'static Map,
    /// The object.
    pub place: Place,
}

const SIZES: Sizes = Sizes { state: 16, request: 8, answer: 8, spare: 4 };

fn shape(map: &Map) -> mcas::Shape {
    mcas::Shape { words: 2, parties: map.geometry().members, records: 4 }
}

struct Puts(u64, [u8; 8]);

impl Decide for Puts {
    fn decide(&mut self, old: Option<&[u8]>) -> Change<'_> {
        self.1 = self.0.to_ne_bytes();
        if old.is_some() { Change::Remove } else { Change::Put(&self.1) }
    }
}

impl BareAt {
    /// Makes one of this kind. The explorer has no more of a lock with helping than its body: the rest is the C library's.
    ///
    /// # Errors
    /// As [`Map::make`].
    ///
    /// # Panics
    /// For another kind.
    pub fn make(map: &'static Map, name: &str, kind: Kind) -> Result<BareAt, ArenaError> {
        let words = shape(map);
        let (bytes, numbers) = match kind {
            Kind::Server => (SIZES.bytes(), [SIZES.state, SIZES.request, SIZES.answer, SIZES.spare]),
            Kind::Words => (words.bytes(), [words.words, words.parties, words.records, 0]),
            Kind::Counter | Kind::HelpLock => (64, [0; 4]),
            other => panic!("{other:?} is more than a body"),
        };
        let place = body::make(map, &map.admin(), name, kind, Some((bytes, Form { numbers, types: [0; 2] })), |at| {
            if kind == Kind::Server {
                // SAFETY: so many zeroed bytes from a multiple of 64, of which no other thread knows yet.
                unsafe { Desk::new(at, SIZES) }.begin_with(&[0; 16]);
            }
        })?;
        Ok(BareAt { map, place })
    }

    /// Removes it.
    pub fn remove(&self) {
        self.map.unmake(&self.map.admin(), self.place);
    }
}

impl Actor {
    /// The body of an object, if this member may change it.
    fn its_body(&self, map: &'static Map, place: Place) -> Option<Body<'static>> {
        Body::of(map, place).filter(|body| body.may_change(self.who.main.member))
    }

    /// Changes it once, if it may.
    pub fn changes(&self, of: BareAt) {
        let me = self.who.main.member as u16;
        let Some(body) = self.its_body(of.map, of.place) else { return };
        match of.place.head.kind() {
            Some(Kind::Server) => {
                let add = |state: &mut [u8], request: &[u8], answer: &mut [u8]| {
                    answer.copy_from_slice(&state[..8]);
                    state[..8].copy_from_slice(request);
                };
                let Some(desk) = server::in_body(&body) else { return };
                // A server that is full refuses.
                let _ = desk.call(me, &7u64.to_ne_bytes(), &mut [0; 8], &add);
            }
            Some(Kind::Words) if shape(of.map).bytes() <= body.room => {
                // SAFETY: within the body, as was just seen; it was zeroed when it was made, and is touched by atomic words only.
                let field: Field<'_> = unsafe { Field::new(body.at, shape(of.map)) };
                if field.enter(me, u64::from(self.who.main.generation) + 1) {
                    let steps = [0, 1].map(|word| (word, field.load(word)));
                    field.swap(me, &steps.map(|(word, old)| Step { word, old, new: old + 1 }));
                    field.leave(me);
                }
            }
            Some(Kind::Counter) => {
                if let Some(word) = counter::in_body(&body) {
                    word.fetch_add(1, Ordering::SeqCst); // SeqCst: as in `Counter`.
                }
            }
            _ => {}
        }
    }

    /// Puts an entry into a map, or takes it out again, if it may.
    pub fn changes_map(&self, of: MapAt) {
        let Some(_) = self.its_body(of.map, of.place) else { return };
        if let Some(atlas) = Atlas::of(of.map, of.place) {
            let mut puts = Puts(7, [0; 8]);
            // A map that is full refuses.
            let _ = atlas.table.change(self.who.main.member as u16, &1u64.to_ne_bytes(), &mut [0; 8], &mut puts);
            atlas.changed();
        }
    }

    /// Pushes onto a stack and pops from it, if it may.
    pub fn changes_stack(&self, of: StackAt) {
        let Some(body) = self.its_body(of.map, of.place) else { return };
        if let Some(pile) = crate::stack::form::in_body(&body) {
            // A stack that is full refuses.
            let _ = pile.push(self.who.main.member as u16, &[7; 16]);
            pile.pop(&mut [0; 16]);
        }
    }

    /// Waits in a monitor for a moment, and calls a waiter, if it may.
    pub fn changes_monitor(&self, of: MonitorAt) {
        let Some(_) = self.its_body(of.map, of.place) else { return };
        if let Some(room) = of.room() {
            let me = self.in_room();
            room.enter(me);
            let wait = room.announce(me, 0);
            room.signal(0);
            room.leave();
            room.rest(me, wait, Some(chappe_plat::clock::now() + 1_000));
        }
    }
}
