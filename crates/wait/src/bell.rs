//! Doorbells: how another process wakes a light thread.
//!
//! A light thread that waits for something named does not sleep as a kernel thread does: its proc (the kernel thread that runs it) runs others.
//! So it has no word of its own on which a thread sleeps. Its attachment (its membership of the arena) names a bell (wait queue, I10); each proc
//! has one bell in each arena that its threads wait in. A granter rings that bell, and the proc, asleep or not, goes through the attachments
//! that wait at it. A granter of the same process rings it, too; only a granter to a private object unparks the thread itself. So a process
//! needs one sleeper a proc, and a grant costs one wake, whatever the number of its threads.
//!
//! ```text
//!   member 7   word ASLEEP, bell_of 4 --.
//!   member 9   word ASLEEP, bell_of 4 --+--> member 4   bell: count, SLEEPS   <-- proc 0 sleeps here, and on its own word (futex_waitv)
//! ```
//!
//! The bell's slot is an attachment that the process keeps and lends to no thread. Where the kernel cannot sleep on two words (before Linux 5.16), or
//! no attachment is left for a bell, the waiting thread keeps a kernel thread instead.

use crate::lent::holders::{self, Holders};
use crate::lent::take;
use chappe_arena::Map;
use chappe_plat::atomic::{AtomicU64, Ordering};
use chappe_plat::light::{self, Chime, Record};
use chappe_plat::process;
use std::sync::Mutex;

/// A proc's bell in an arena.
#[repr(C)]
pub struct Bell {
    chime: Chime,
    /// The member whose slot it is in.
    pub member: u32,
    /// The attachments that wait: a bit an attachment.
    waiting: Box<[AtomicU64]>,
    /// Which of these words are not 0: a bit a word. Set and cleared on the proc itself; a word may have become 0 since.
    some: Box<[AtomicU64]>,
    map: &'static Map,
    holders: &'static Holders,
}

/// The incarnation of the process, the arena, the proc, and its bell. `None`: no bell could be made.
type Known = (u64, usize, usize, Option<&'static Bell>);

static BELLS: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// The bell of the proc that runs the calling light thread, in that arena.
pub fn here(map: &'static Map) -> Option<&'static Bell> {
    let proc = light::proc()?;
    let (now, at) = (process::incarnation(), std::ptr::from_ref(map) as usize);
    let mut bells = light::lock(&BELLS);
    if let Some((.., bell)) = bells.iter().find(|(of, m, p, _)| (*of, *m, *p) == (now, at, proc)) {
        return *bell;
    }
    let bell = take(map).ok().map(|joined| {
        let chime = Chime::new(&map.member(joined.index).bell, answer);
        let words = |n: usize| (0..n).map(|_| AtomicU64::new(0)).collect::<Box<[AtomicU64]>>();
        let count = map.geometry().members.div_ceil(64) as usize;
        let (waiting, some, holders) = (words(count), words(count.div_ceil(64)), holders::holders(map));
        let bell = Box::leak(Box::new(Bell { chime, member: joined.index, waiting, some, map, holders }));
        let bell: &'static Bell = bell;
        light::listen(&bell.chime);
        bell
    });
    bells.push((now, at, proc, bell));
    bell
}

/// An attachment that waits at a bell, until this is dropped.
pub struct Enlisted(&'static Bell, u32);

impl Bell {
    /// Says that this attachment is about to wait here.
    pub fn enlist(&'static self, member: u32) -> Enlisted {
        self.chime.comes();
        // Relaxed: set on the proc itself; another clears it.
        self.waiting[member as usize / 64].fetch_or(1 << (member % 64), Ordering::Relaxed);
        let word = member / 64;
        self.some[word as usize / 64].fetch_or(1 << (word % 64), Ordering::Relaxed); // Relaxed: the proc's own.
        Enlisted(self, member)
    }
}

impl Drop for Enlisted {
    fn drop(&mut self) {
        // Relaxed: it is awake; if it is looked at once more, no harm is done.
        self.0.waiting[self.1 as usize / 64].fetch_and(!(1 << (self.1 % 64)), Ordering::Relaxed);
        self.0.chime.goes();
    }
}

/// The bell was rung: calls `up` with each thread whose wait is over.
fn answer(chime: &'static Chime, up: &mut dyn FnMut(&'static Record)) {
    // SAFETY: all chimes with this answer are the first part of a bell, and never go away.
    let bell = unsafe { &*std::ptr::from_ref(chime).cast::<Bell>() };
    for (i, some) in bell.some.iter().enumerate() {
        // Relaxed: the proc's own.
        for word in bits(some.load(Ordering::Relaxed)) {
            // Relaxed: the proc's own, or cleared since.
            let waiting = bell.waiting[i * 64 + word as usize].load(Ordering::Relaxed);
            if waiting == 0 {
                some.fetch_and(!(1 << word), Ordering::Relaxed); // Relaxed: the proc's own.
            }
            for bit in bits(waiting) {
                let member = (i as u32 * 64 + word) * 64 + bit;
                if !crate::wait::still_waits(bell.map, member)
                    && let Some(holders::Holder::Light(thread)) = holders::held_by(bell.holders, member)
                {
                    up(thread);
                }
            }
        }
    }
}

/// The bits of a word that are set, by number.
fn bits(word: u64) -> impl Iterator<Item = u32> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let bit = (rest != 0).then(|| rest.trailing_zeros())?;
        rest &= rest - 1;
        Some(bit)
    })
}
