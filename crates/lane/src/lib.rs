//! A lane: the bytes of a pipe go through a ring in shared memory, and the kernel's pipe stays the pipe.
//!
//! Synthesis (section 1.3.5, table 7.1) ran unmodified programs over calls of its own. A lane is that for the pipe between two processes
//! of Linux. Nothing but the program's own data is ever in the kernel's pipe, so a program that reads the descriptor without knowing of the lane
//! reads right bytes or sleeps, and end of file, `EPIPE`, `EAGAIN` and `EINTR` come from the kernel. Two decisions are the lane's: a writer
//! that finds the ring full asks [`Pipe::refusal`] and sleeps on a futex; and a handler without `SA_RESTART` ends that sleep.
//!
//! ```text
//!                 head            kernel_end                      tail
//!   taken          |   K: kernel   |   R: ring, by position mod    |   not written
//!   ---------------+---------------+-------------------------------+------------->  positions of the stream
//! ```
//!
//! | word | written by | what |
//! |---|---|---|
//! | `tail` | all | position of the writer; `ASLEEP`: the reader sleeps in the kernel; `REAL`: the writer is in write(2); `OFF`: no more bytes into the ring; `RING`: a reader has come |
//! | `kernel_end` | the writer | where the last write(2) ended: what is older is in the kernel's pipe or taken |
//! | `wake_at` | the writer | with `FULL`: the writer is to be woken when the reader's position is this, or more |
//! | `head` | the reader | position of the reader; `INSIDE`: it is in read(2), or about to be; `FULL`: the writer sleeps; `OFF`: nothing more out of the ring |
//! | `stage` | the demoter | `OPEN`, `PUSHING` with what the kernel's pipe held before, `PLAIN` |
//! | `writer`, `reader` | the end's owner | robust words: one thread owns an end, and the kernel marks its death or exec |
//! | `guard` | the demoter | a robust word |
//!
//! **Invariants**
//! - I1 K is older than R. A write(2) begins only while R is empty: before a reader has come, or when the writer has claimed `ASLEEP`.
//! - I2 `ASLEEP` is set by a swap of `tail` that proves R empty. The writer that swaps it for `REAL` has claimed the sleeper: its bytes wake
//!   it. Where write(2) brings none, the writer sets `ASLEEP` again. `ASLEEP` that stands without a sleeper costs a system call.
//! - I3 The writer puts bytes into the ring, and then swaps `tail`: the swap fails once `ASLEEP` or `OFF` has come.
//! - I4 The reader copies bytes, and then swaps `head`: the swap fails once `OFF` has come, and nothing was taken.
//! - I5 `kernel_end` is stored before the `tail` that ends `REAL`, and loaded behind `tail`: bytes of K are never looked for in the ring.
//! - I6 While `REAL` is set R is empty, and `tail` does not count what write(2) has brought: `head` may be ahead of `tail`.
//! - I7 `tail - head` may be more than the ring's size: K counts.
//! - I8 After `OFF` in both words, and while the reader is not `INSIDE`, R stays as it is. `OFF` is final, and so is `PLAIN`.
//! - I9 The kernel's pipe has room for R beside K ([`Pipe::widen`]), or there is no lane. A page of K may be little more than half full, so
//!   a byte of K takes the room of two of the ring.
//! - I10 A writer that is copying bytes into the ring is interrupted by no other write of its thread: it marks that it copies, and then looks
//!   whether `tail` is what it has reckoned with. A handler's write before the mark has moved `tail`; one behind it demotes, and the swap
//!   of I3 fails.
//! - I11 A process that was forked owns nothing, though it has its parent's memory.
//! - I12 The reader's thread is not in its read(2) while it demotes, also in a handler that came when read(2) had ended, or will begin again: it
//!   takes its `INSIDE` away first, for a demoter may wait for that. It knows itself by the number in the reader's word: so all
//!   processes of a lane are in one PID namespace.
//! - I13 A lane may begin in the middle of a stream, if one process alone has the writing end, and one thread the reading end. The writer begins
//!   the count ([`Lane::begin_late`]) at a position that is higher than what the kernel's pipe can hold. What it holds ends at `kernel_end` while
//!   the writer is not in write(2): so the reader, outside its read(2), knows where that starts ([`Lane::catch_up`]). A call that a signal
//!   handler has interrupted is not over: an end that is in one begins nothing in the handler.
//!
//! **Edges** E1 `tail` release by the writer, acquire by the reader: the ring's bytes are there, and so is `kernel_end` (I5). E2 `head`
//! release by the reader, acquire by the writer: the places are free. E3 `stage` release by the demoter, acquire by all: what was pushed is
//! in the pipe. E4 `OFF` acquire and release: the demoter sees what the ends have done before. E5 `wake_at` is stored before the swap that
//! sets `FULL`, which is made again where `FULL` stands, and loaded behind the reader's swap of the same word: the reader misses no wake. All
//! sleeps are futexes with the value that was seen, so a wake that comes first is not lost.
//!
//! **Progress** An end never waits for the other one but where a pipe does. A writer that finds no room waits a millisecond for half of the
//! ring, and then for as much as it needs. A demoter waits for a reader that is `INSIDE` while R is not
//! empty: that reader's read(2) has bytes and returns, unless the process is stopped. All threads that find `OFF` wait for the demoter, or finish
//! what a dead one has left; signal handlers wait as long. A thread that has jumped out of read(2) in a handler is `INSIDE` until its next
//! call, which demotes.
//!
//! A demoter that may not push (another user's pipe behind setuid(2), no number for a descriptor, no `/proc`) leaves `PUSHING`, and its call
//! fails with that error. The ring's bytes stay, and every later call of anybody demotes first: until one may, no call succeeds. A process
//! without futex_waitv owns no end; where it demotes and has to wait, it looks each millisecond.
//!
//! **Deaths**
//! - The writer: what it has not counted in `tail` does not exist; what write(2) has brought is in K. The reader takes R, and then read(2)
//!   says what the kernel knows. The next writer demotes.
//! - The reader: what it has not counted in `head` was not taken; what read(2) has given it is gone, as with a pipe. The writer, or the next
//!   reader, demotes: K first, R behind it, wherever in K the dead one was.
//! - The demoter: the next one finds in `stage` what K held before the first push, and by FIONREAD how much was pushed since.
//! - A sleeper that was woken by a death and dies has the wake passed on by the kernel, through `baton`. A demoter that waits for a reader looks
//!   each millisecond: a writer may have had the wake of the reader's death, or have died with it.
//!
//! Everything that is not a call of the two owners demotes ([`Lane::demote`]): a second owner, a program that does not know of lanes, poll,
//! splice, a descriptor that is sent away. Explored with kills in `crates/sync/tests/crash_lane.rs`, with all stale reads in
//! `crates/sync/tests/loom_lane.rs`. Left out: readers that take bytes by system calls of their own while R is not empty, or while the owner
//! is in a call, and writers whose bytes are not counted. Nor does it bear a handler that demotes over its own thread's read(2), pushes in part, is
//! refused the rest, and leaves to that read(2) some of what it has pushed. A program that does not know of lanes gets the pipe behind a demotion.
//! A pipe of packets (`O_DIRECT`) has no lane ([`Pipe::is_stream`]); a program that makes its pipe one of packets later (`F_SETFL`) loses their
//! borders unless it is demoted before. Real pipes: `crates/pipes`.

mod demotion;
mod ends;
mod late;
mod words;

pub use ends::{Reader, Writer};
pub use words::{Lane, Pipe, Words};
