//! Where things lie in a terminal's file, and the protocol of the words that its processes have in common.
//!
//! Two files a terminal: one that others may be let look at, and one that is its user's alone. The *keeper* starts the program and has its pseudo-terminal; the *holder*, its child, reads, parses and writes
//! the screen; *viewers* map the files to read alone; *writers* (`send`, `attach`) put bytes into a ring, for the holder to type.
//!
//! ```text
//!   control words | taken bytes | history | state 0 | state 1          typed bytes | note
//!   4 KiB           256 KiB       chosen    store.rs                   64 KiB        its maker's; how a job is submitted again
//!                                           what is beyond the screen's size is not backed by storage
//! ```
//!
//! The second file is its user's alone because passwords are typed, and a job's environment has tokens. Its name has its inode's number, which [`OWN`] in the
//! first one has: so it never is another terminal's, whatever was removed and made meanwhile. It has its name before the first file has one, and loses it after
//! that one: what a killed process leaves is a second file without a first one, which the next terminal's maker removes.
//!
//! | word | written by | what |
//! |---|---|---|
//! | [`EVENT`] | holder, keeper, writers | a count: something has changed. Sleepers wait on its low half |
//! | [`BELL`] | writers, keeper | a count: there is something to do for the holder |
//! | [`BEGUN`], [`DONE`] | holder | the version of the state that is being written, and the last one that is whole |
//! | [`FLOOR`] | holder | positions of the history below this one are overwritten |
//! | [`TAKEN`] | holder | how many bytes were taken from the program |
//! | [`STATUS`], [`STATUS_TIME`] | keeper | how the program ended, and when |
//! | [`OVER`] | holder | 1: what the program wrote until it ended is on the screen; 2: nothing can follow, as no process has the terminal open |
//! | [`PUT`], [`GIVEN`] | writers; holder | how many bytes were put into the ring of typed bytes, and taken out of it. [`CLOSED`] in `PUT`: what was being put is in doubt |
//! | [`GIVING`] | holder | what `GIVEN` is to be, plus 1, while bytes are being typed; else 0 |
//! | [`DOUBTS`] | holder | how often a holder was killed while it typed |
//! | [`SENDS`], [`MARK`] | writers | the number of the last text that was put, and where it begins |
//! | [`AT_SEND`] | holder | the last of these texts that was come to. Before it, as of that moment: [`AT_LINE`], the line of the cursor; [`AT_PLACE`], its row and column; [`AT_BYTE`], how many bytes the program had written; [`AT_TEXT`], a sum of the text before the cursor in its row |
//! | [`WANTED`], [`SIZED`] | writers; holder | the size that is wanted, with a number; the number of the last one that was answered, and whether it was refused |
//! | [`HOLDERS`] | keeper | how many holders there have been |
//! | [`JOB`] | the program | of a job: which process its command is |
//!
//! **Invariants**
//! - I1 State `DONE & 1` is whole: the holder writes the other one, and then moves `DONE`.
//! - I2 Each byte that was taken from the program lies in the ring of taken bytes before it counts, and is not overwritten before a state that
//!   comes from it is whole: `TAKEN - parsed` of that state is at most the ring's size.
//! - I3 In the ring, the [`READ`] bytes from `TAKEN` on are zero before the holder reads into them.
//! - I4 A state is a function of the state before it, of the bytes and of the sizes: each change of size has a state of its own.
//! - I5 `FLOOR` only grows, is where a record of the history begins, and is moved before what lies below it is overwritten.
//! - I6 Bytes are put by one writer at a time: it has the lock of byte [`WRITER_BYTE`] of the second file, which no other user can lock.
//! - I7 The keeper and its holders have one open file, which has the lock of byte [`ALIVE_BYTE`]: it is free when all of them have ended.
//!
//! **Edges**
//! - E1 `DONE` release, acquire by viewers: the state's words are written.
//! - E2 `BEGUN`, then a release fence, then the state's words; a viewer reads the words, then an acquire fence, then `BEGUN`: if that is not yet
//!   two versions later, none of what it has read is of a later version.
//! - E3 `FLOOR` and the history's words, as E2.
//! - E4 `PUT` release, acquire by the holder: the bytes are there. `GIVEN` release, acquire by writers: their place may be used again.
//! - E5 `STATUS`, `OVER`, `SIZED` release before `EVENT` moves; who has seen `EVENT` move sees them.
//!
//! **Progress** The holder waits for no one. A viewer that was overtaken copies again; a state is written at most once in a few hundred
//! microseconds. A writer waits for the one before it, and for the program to read.
//!
//! **Deaths**
//! - The holder, anywhere: the keeper starts another. That one takes state `DONE & 1` (I1), finds what the dead one had read and not counted
//!   (up to the last byte that is not zero: I3; bytes that are zero are ignored), and parses the bytes since (I2) to the same end (I4).
//!   It writes the same lines into the same places of the history.
//! - The holder, while it typed (`GIVING` is not 0): the program has got these bytes, or some, or none. Neither they nor what was put behind them is
//!   typed: the next holder closes the ring in the word that a writer has to swap to put more, `DOUBTS` grows, and the writer says so. So the program
//!   has got a beginning of the text, and never its end without its middle. Answers to the program's questions are typed at most once, too.
//! - The keeper: the holder goes on; how the program ends is not known to anyone. The next death ends the terminal.
//! - A job's `chappe`: the keeper, whose child its command is then, waits for that instead, and its end is the job's.
//! - Keeper and holder: the kernel hangs up, and the program gets SIGHUP. The file stays as it is; viewers see by I7 that it is over, and parse for themselves
//!   what no state comes from yet.
//! - A writer: what it had put and not counted in `PUT` does not exist. A viewer: nothing.

/// What the first word holds: `chapterm`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"chapterm");
/// The version of this layout.
pub const VERSION: u64 = 3;

/// Which file this is.
pub const IS_MAGIC: usize = 0;
/// Of which version.
pub const IS_VERSION: usize = 1;
/// How many words the history has.
pub const HISTORY_WORDS: usize = 2;
/// When the terminal was made: nanoseconds since 1970.
pub const BEGAN: usize = 3;
/// Process ids and start times of the keeper, the holder and the program.
pub const KEEPER: usize = 4;
/// See [`KEEPER`].
pub const HOLDER: usize = 6;
/// See [`KEEPER`].
pub const PROGRAM: usize = 8;
/// How many bytes the note has.
pub const NOTE: usize = 10;
/// The inode's number of the file that is its user's alone.
pub const OWN: usize = 11;
/// See [`KEEPER`]: of a job, its command; 0 as long as it waits for its permit. The program is `chappe`, and this command once `chappe` was killed.
pub const JOB: usize = 12;
/// See the table.
pub const EVENT: usize = 16;
/// See the table.
pub const BELL: usize = 17;
/// See the table.
pub const BEGUN: usize = 18;
/// See the table.
pub const DONE: usize = 19;
/// See the table.
pub const FLOOR: usize = 20;
/// See the table.
pub const TAKEN: usize = 21;
/// 0: it runs; `1 << 32 | N`: it has exited with N; `2 << 32 | N`: signal N ended it.
pub const STATUS: usize = 22;
/// See the table.
pub const STATUS_TIME: usize = 23;
/// See the table.
pub const OVER: usize = 24;
/// See the table.
pub const PUT: usize = 25;
/// See the table.
pub const GIVEN: usize = 26;
/// See the table.
pub const GIVING: usize = 27;
/// See the table.
pub const DOUBTS: usize = 28;
/// See the table.
pub const AT_LINE: usize = 29;
/// See the table.
pub const WANTED: usize = 30;
/// See the table.
pub const SIZED: usize = 31;
/// See the table.
pub const HOLDERS: usize = 32;
/// The length of the command's text, and the text.
pub const COMMAND: usize = 64;
/// How many bytes the command's text can have.
pub const MOST_COMMAND: usize = (CONTROL - COMMAND - 1) * 8;

/// See the table.
pub const SENDS: usize = 33;
/// See the table.
pub const MARK: usize = 34;
/// See the table.
pub const AT_SEND: usize = 35;
/// See the table.
pub const AT_BYTE: usize = 36;
/// Row in the high half, column in the low one; the column behind the last one: the cursor is past it.
pub const AT_PLACE: usize = 37;
/// See the table, and [`crate::line::sum`].
pub const AT_TEXT: usize = 38;

pub use crate::words::CLOSED;

/// How many words the control words are.
pub const CONTROL: usize = 512;
/// How many bytes can be put that were not typed yet.
pub const TYPED: usize = 64 << 10;
/// How many bytes can be taken that no whole state comes from.
pub const TAKEN_BYTES: usize = 256 << 10;
/// How many bytes are read at once.
pub const READ: usize = 4096;
/// How many bytes may be parsed before a state is written.
pub const UNSAVED: usize = TAKEN_BYTES / 4;

/// The byte of the file whose lock says that a keeper or a holder lives.
pub const ALIVE_BYTE: u64 = 0;
/// The byte of the second file whose lock the writer has.
pub const WRITER_BYTE: u64 = 1;

/// The byte of the file whose lock a recorder has.
pub const RECORD_BYTE: u64 = 2;

/// The least history, in bytes.
pub const LEAST_HISTORY: u64 = 64 << 10;
/// The most.
pub const MOST_HISTORY: u64 = 1 << 40;
/// The longest note, in bytes: the kernel's bound for a command with its environment, and some.
pub const MOST_NOTE: u64 = 8 << 20;

/// Where the taken bytes begin, in words.
pub const TAKEN_AT: usize = CONTROL;
/// Where the history begins.
pub const HISTORY_AT: usize = TAKEN_AT + TAKEN_BYTES / 8;

/// Where a state begins, with so many words of history.
pub fn state_at(history: usize, version: u64) -> usize {
    HISTORY_AT + history + (version & 1) as usize * crate::store::WORDS
}

/// How many words the first file has, with so many words of history.
pub fn words(history: usize) -> usize {
    state_at(history, 0) + 2 * crate::store::WORDS
}

/// Where the note begins in the second file.
pub const NOTE_AT: usize = TYPED / 8;

/// How many words the second file has, with so many bytes of note.
pub fn own_words(note: usize) -> usize {
    NOTE_AT + note.div_ceil(8)
}
