//! The public interface of words that change together.

use crate::bodied::{Bodied, Plan, SharedError, fits, unmake};
use crate::registry::Arena;
use chappe_arena::layout::Kind;
use chappe_arena::{ArenaError, Map};
use chappe_structures::mcas::{Field, MOST, MOST_PARTIES, MOST_WORDS, Shape, Step};
use chappe_wait::attachment::{attachment, party_at_hand};
use chappe_wait::body::{Body, Form};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

/// Why words were not made, or not changed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WordsError {
    /// So many can not change at once.
    #[error("{count} words cannot change at once: 1 to 8 can")]
    Count {
        /// How many were given.
        count: usize,
    },
    /// There is no such word.
    #[error("there is no word {word}: these are {words}, numbered from 0")]
    Foreign {
        /// Which was named.
        word: u32,
        /// How many there are.
        words: u32,
    },
    /// One word is named twice.
    #[error("word {word} is named twice: name each once, with its last value")]
    Twice {
        /// Which.
        word: u32,
    },
    /// A signal handler was called in the middle of an operation of this thread on the same words.
    #[error("this signal handler interrupted an operation on the same words: read them, or let the thread change them")]
    Interrupting,
    /// More threads are attached to the arena than can change words, and this one is beyond them.
    #[error(
        "the calling thread is member {member} of its arena, and only the first {most} can change words: let fewer be attached at a time"
    )]
    Member {
        /// Its number.
        member: u32,
        /// How many can.
        most: u32,
    },
    /// There cannot be so many.
    #[error("there cannot be {count} words: 1 to {MOST_WORDS} are possible")]
    Capacity {
        /// How many were asked for.
        count: u32,
    },
    /// There is no memory for them.
    #[error("there is no memory for {bytes} bytes of words and records")]
    Memory {
        /// How much.
        bytes: usize,
    },
    /// The thread cannot become a member of the process's arena.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// Named ones were not made or opened, or were removed.
    #[error(transparent)]
    Shared(#[from] SharedError),
}

/// One word of an operation: what it must have, and what it gets.
pub type Change = Step;

pub(crate) struct Memory {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is touched only as atomic words, through what was made of it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub fn zeroed(bytes: usize) -> Option<Memory> {
        let layout = Layout::from_size_align(bytes.max(64), 64).ok()?;
        // SAFETY: not of size 0.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Memory { at, layout })
    }

    pub fn at(&self) -> NonNull<u8> {
        self.at
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: from `alloc_zeroed`, with this layout.
        unsafe { dealloc(self.at.as_ptr(), self.layout) };
    }
}

/// Words of 64 bits, of which up to eight change at once: all of them, or none. For the threads of this process, or named, for processes. If a
/// process is killed in the middle of a change, either all words are changed or none; later operations on the words complete it.
///
/// No operation waits for another thread, however long that is stopped: a thread that meets an operation under way finishes it (helping). Lock-free:
/// an operation begins again only because another one has changed one of its words meanwhile. Reading a word writes nothing. No operation makes a
/// system call, or allocates, after a thread's first.
///
/// Signals: a handler may read words. A handler that interrupts its thread in the middle of a change cannot change any:
/// [`WordsError::Interrupting`]. In a forked child they are a copy.
///
/// Sizes: 16 bytes a word, and 1,152 for each thread that can change any: for each member that the arena has room for, 8,192 at most. In a larger arena
/// a thread that attaches behind so many others cannot change words: [`WordsError::Member`].
///
/// Paper: synthesis, 5.1.3 and figure 5.3 (CAS2); nonblocking-real-time, 2.1 and 6 (MWCAS).
///
/// ```
/// use chappe_sync::words::{Change, Words};
/// let accounts = Words::private(3)?;
/// accounts.store(0, 100)?;
/// let pay = |from: u32, to: u32, sum: u64| loop {
///     let [a, b] = accounts.load_all([from, to])?;
///     let steps = [Change { word: from, old: a, new: a - sum }, Change { word: to, old: b, new: b + sum }];
///     if accounts.mcas(&steps)? {
///         return Ok::<(), chappe_sync::words::WordsError>(());
///     }
/// };
/// pay(0, 2, 30)?;
/// assert_eq!(accounts.load_all([0, 1, 2])?, [70, 0, 30]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Words {
    field: Field<'static>,
    of: Of,
}

#[derive(Clone)]
enum Of {
    Private(&'static Map, #[allow(dead_code, reason = "it goes with the last handle")] Arc<Memory>),
    Named(Bodied),
}

/// How many of an arena's members can change words: each takes memory.
fn parties(members: u32) -> u32 {
    members.min(MOST_PARTIES)
}

/// The words in a body; none if there cannot be such.
pub(crate) fn in_body<'m>(body: &Body<'m>) -> Option<Field<'m>> {
    let [words, parties, records, _] = body.form.numbers;
    let shape = Shape { words, parties, records };
    if !shape.is_possible() || shape.bytes() > body.room {
        return None;
    }
    // SAFETY: within the body, as was just seen; it was zeroed when they were made, and is touched by atomic words only.
    Some(unsafe { Field::new(body.at, shape) })
}

/// Of which size it is, and what is in it: see [`Figures`](crate::bodied::Figures).
pub(crate) fn figures(body: &Body<'static>) -> Option<(i64, u32, u32)> {
    in_body(body).map(|words| (words.shape().words.into(), 0, 8))
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Words({})", self.len())
    }
}

impl Words {
    /// Makes some for the threads of this process. All are 0.
    ///
    /// # Errors
    /// `Capacity`, `Memory`; `Arena` when there is no address space for the private arena.
    pub fn private(words: u32) -> Result<Words, WordsError> {
        if !(1..=MOST_WORDS).contains(&words) {
            return Err(WordsError::Capacity { count: words });
        }
        let map = Arena::try_private()?.map();
        let shape = Shape { words, parties: parties(map.geometry().members), records: 4 };
        let bytes = shape.bytes();
        let memory = Memory::zeroed(bytes).ok_or(WordsError::Memory { bytes })?;
        // SAFETY: so many zeroed bytes from a multiple of 64, that go with the last handle.
        let field = unsafe { Field::new(memory.at(), shape) };
        Ok(Words { field, of: Of::Private(map, Arc::new(memory)) })
    }

    fn at(named: Bodied) -> Result<Words, WordsError> {
        let field = in_body(&named.body).ok_or_else(|| named.gone())?;
        Ok(Words { field, of: Of::Named(named) })
    }

    /// Attaches some by name.
    ///
    /// # Errors
    /// `Shared`: there are none, or it is something else.
    pub fn open(name: &str) -> Result<Words, WordsError> {
        Words::at(Bodied::open(Kind::Words, name)?)
    }

    fn made(name: &str, words: u32, first: &[u64], or_open: bool) -> Result<Words, WordsError> {
        let words = fits(Kind::Words, "words", words.into(), 1, MOST_WORDS)?;
        let of = |members: u32| {
            let shape = Shape { words, parties: parties(members), records: 4 };
            (shape.bytes(), Form { numbers: [words, shape.parties, 4, 0], types: [0, 0] })
        };
        let fill = |at: NonNull<u8>, form: Form| {
            let [words, parties, records, _] = form.numbers;
            // SAFETY: so many zeroed bytes from a multiple of 64, of which no other thread knows yet.
            let field = unsafe { Field::new(at, Shape { words, parties, records }) };
            first.iter().enumerate().for_each(|(i, value)| field.begin_with(i as u32, *value));
        };
        let named = Bodied::make(&Plan { kind: Kind::Words, of: &of, fill: &fill }, name, or_open)?;
        let made = Words::at(named.clone())?;
        if made.len() == words {
            return Ok(made);
        }
        let said = |n: u32| format!("{n} words");
        Err(named.other_shape(said(made.len()), said(words)).into())
    }

    /// Makes some by name, all 0, and their arena, with room for them, if need be.
    ///
    /// # Errors
    /// `Shared`: there cannot be so many; there are some already, or the arena has no room.
    pub fn create(name: &str, words: u32) -> Result<Words, WordsError> {
        Words::made(name, words, &[], false)
    }

    /// Attaches some by name, or makes them.
    ///
    /// # Errors
    /// `Shared`: there is another number of them; else as [`Words::open`] and [`Words::create`].
    pub fn open_or_create(name: &str, words: u32) -> Result<Words, WordsError> {
        Words::made(name, words, &[], true)
    }

    /// The same; new ones begin with these values, as many as there are to be.
    pub(crate) fn begun_with(name: &str, first: &[u64]) -> Result<Words, WordsError> {
        Words::made(name, first.len() as u32, first, true)
    }

    /// Removes some by name. Words that another process has changed and may change again are refused unless `force`: then their users get `Dead`.
    ///
    /// # Errors
    /// `Shared`: there are none, they are in use, or it is something else.
    pub fn unmake(name: &str, force: bool) -> Result<(), WordsError> {
        Ok(unmake(Kind::Words, name, force, figures, |_| None)?)
    }

    /// Their name; empty for private ones.
    pub fn name(&self) -> String {
        match &self.of {
            Of::Private(..) => String::new(),
            Of::Named(named) => named.handle.name(),
        }
    }

    /// Whether they were removed.
    pub fn is_dead(&self) -> bool {
        matches!(&self.of, Of::Named(named) if named.handle.is_dead())
    }

    #[inline(always)]
    fn seen<T>(&self, what: T) -> Result<T, WordsError> {
        match &self.of {
            Of::Private(..) => Ok(what),
            Of::Named(named) => Ok(named.seen(what)?),
        }
    }

    /// How many there are.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> u32 {
        self.field.shape().words
    }

    #[inline(always)]
    fn checked(&self, word: u32) -> Result<u32, WordsError> {
        let words = self.len();
        if word < words { Ok(word) } else { Err(WordsError::Foreign { word, words }) }
    }

    /// Reads a word. Never waits.
    ///
    /// # Errors
    /// `Foreign`; of named ones `Shared`, if they were removed.
    #[inline]
    pub fn load(&self, word: u32) -> Result<u64, WordsError> {
        self.seen(self.field.load(self.checked(word)?))
    }

    /// Reads several words at one moment.
    ///
    /// # Errors
    /// `Foreign`.
    #[inline]
    pub fn load_all<const K: usize>(&self, words: [u32; K]) -> Result<[u64; K], WordsError> {
        for word in words {
            self.checked(word)?;
        }
        self.seen(self.field.load_all(&words))
    }

    /// Changes up to eight words at once, each from its expected value to its new one. Answers whether they were changed: if not, at least one word
    /// had another value, and none was changed. A word whose new value equals the expected one is only compared.
    ///
    /// # Errors
    /// `Count`, `Foreign`, `Twice`, `Interrupting`, `Arena`.
    #[inline]
    pub fn mcas(&self, changes: &[Change]) -> Result<bool, WordsError> {
        if !(1..=MOST).contains(&changes.len()) {
            return Err(WordsError::Count { count: changes.len() });
        }
        if changes.windows(2).all(|w| w[0].word < w[1].word) {
            self.checked(changes[changes.len() - 1].word)?;
            return self.swap(changes);
        }
        self.mcas_sorted(changes)
    }

    #[cold]
    fn mcas_sorted(&self, changes: &[Change]) -> Result<bool, WordsError> {
        let mut sorted = [Step::default(); MOST];
        let sorted = &mut sorted[..changes.len()];
        sorted.copy_from_slice(changes);
        sorted.sort_unstable_by_key(|c| c.word);
        if let Some(w) = sorted.windows(2).find(|w| w[0].word == w[1].word) {
            return Err(WordsError::Twice { word: w[0].word });
        }
        self.checked(sorted[sorted.len() - 1].word)?;
        self.swap(sorted)
    }

    #[inline(always)]
    fn swap(&self, steps: &[Step]) -> Result<bool, WordsError> {
        let (me, life) = match &self.of {
            Of::Private(map, _) => match party_at_hand(map) {
                Some((me, _)) => (me.member as u16, me.generation),
                None => attachment(map, |attachment| (attachment.joined.index as u16, attachment.joined.generation))?,
            },
            Of::Named(named) => named.me()?,
        };
        let field = self.field;
        if u32::from(me) >= field.shape().parties {
            return Err(WordsError::Member { member: me.into(), most: field.shape().parties });
        }
        // Not 0, which stands for no member.
        if !field.enter(me, u64::from(life) + 1) {
            return Err(WordsError::Interrupting);
        }
        let done = field.swap(me, steps);
        field.leave(me);
        Ok(done)
    }

    /// Stores a value in a word, whatever its value was.
    ///
    /// # Errors
    /// As [`Words::mcas`].
    pub fn store(&self, word: u32, value: u64) -> Result<(), WordsError> {
        self.update([word], |now| *now = [value]).map(|_| ())
    }

    /// Changes words by a function of their values, which is called again each time that another thread has changed one of them first. The
    /// values that it is given were there at one moment. It must not wait for another thread. Answers the old values.
    ///
    /// # Errors
    /// As [`Words::mcas`].
    #[inline]
    pub fn update<const K: usize>(
        &self,
        words: [u32; K],
        mut function: impl FnMut(&mut [u64; K]),
    ) -> Result<[u64; K], WordsError> {
        loop {
            let old = self.load_all(words)?;
            let mut new = old;
            function(&mut new);
            let change = |i: usize| Change { word: words[i], old: old[i], new: new[i] };
            if self.mcas(&std::array::from_fn::<_, K, _>(change))? {
                return Ok(old);
            }
        }
    }
}
