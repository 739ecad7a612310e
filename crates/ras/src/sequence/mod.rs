//! Per-CPU operations, each of them one restartable section: plain loads and stores that no other thread sees half done.
//!
//! netbsd-restartable-sequences, section 2: a thread that is taken off the processor within a sequence begins it anew. In the paper the
//! kernel resets it to the first instruction; Linux resumes it at an abort address, and the caller begins anew, with a fresh look at where
//! it is now. The paper's machines have one processor; here each processor has words of its own.
//!
//! All sections begin alike. `area` is what the kernel keeps for the calling thread (`chappe_plat::rseq`), `index` the field of it that
//! says which slot is the thread's ([`Index`]); `owner` is a word of the slot: the slot's number, or [`CLOSED`]. One comparison tells both
//! whether the thread is still where it was when it chose the slot, and whether another thread has closed the slot, to have it alone (the
//! protocol is in `per_cpu.rs`).
//!
//! ```text
//!     begin     area.descriptor = this section     from here on the kernel aborts
//!               if area.index != slot.owner: Moved
//!
//!     operation             steps between                                           commit
//!     compare_store         if *word != expect: Differs                             *word = new
//!     add                                                                           *word = *word + n
//!     add_two               v = pair.version; (x, y) = pair.buffer[v]
//!                           pair.buffer[v + 1] = (x + a, y + b)                     pair.version = v + 1
//!     push                  last.next = *head                                       *head = first
//!     pop                   node = *head; if none: Differs; next = node.next        *head = next
//!     copy                  n = *length; if n + count > room: Differs
//!                           buffer[n..n + count] = words                            *length = n + count
//!     fetch                 old = *word                                             *word = new
//! ```
//!
//! - I1: one store commits, and it is the section's last instruction: an aborted thread has stored nothing that any other thread looks at.
//!   What is stored before it lies where no thread looks until then: in the buffer that is not the current one, behind the length, in a
//!   node that is the caller's own. (`stp` is not one store, so two words need the version.)
//! - I2: between storing the descriptor and the section's first instruction there is none: aborted in between, the kernel would take the
//!   descriptor away, and the section would go on without.
//! - I3: nothing in a section calls or traps. `pop` reads `node.next` of what may by then be another thread's node, if the slot was taken
//!   over: so nodes stay readable as long as the list exists (type-stable).
//! - I4: the comparison precedes all other loads of the section (aarch64: `ldar`), so that a thread that finds the slot open finds it as
//!   the thread that opened it left it.
//! - E1: the commit of a word that others read while sections go on is a release (aarch64: `stlr`): compare_store, add_two, copy and fetch.
//!   `add` orders no other words; a list is read by others only after a fence has aborted its sections.
//! - E2: the reader of a pair loads version, buffer, version again. So what a section stores to a buffer comes after all versions stored
//!   before (aarch64: `dmb ishst`).
//!
//! A section is aborted if its thread is preempted, is moved, has a signal delivered, is traced step by step, or is told so by
//! `rseq::fence`. Nothing is promised about how often in a row: the caller tries a few times, and then has another way. Between two tries
//! everything may have changed, the processor too.
//!
//! Each section has a symbol, `chappe_ras_OPERATION_N` with N from 1 in each object file, so that debuggers and profilers can tell where a
//! thread is; descriptors and exit points are listed where debuggers look for them (`__rseq_cs_ptr_array`, `__rseq_exit_point_array`). The
//! kernel may read a descriptor long after its section has ended, until the thread enters another: a library that has sections in it is
//! never unmapped.
//!
//! No breakpoints in a section, no uprobes, and no calls of functions by a debugger while a thread is within one: the kernel then finds
//! the thread elsewhere, forgets the section, and the rest of that pass is not aborted any more. gdb's breakpoints harm nothing
//! after `set displaced-stepping off`; single steps never do.
//!
//! Not between vfork and exec: the child sees its parent's area, which says a processor, but the kernel aborts nothing of the child's.
//!
//! Never for memory that processes share: the fence reaches the sections of one process only.

use chappe_plat::atomic::{AtomicU32, AtomicU64};

#[cfg(all(target_arch = "aarch64", not(feature = "sim")))]
#[path = "aarch64.rs"]
mod machine;
#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), feature = "sim"))]
#[path = "absent.rs"]
mod machine;
#[cfg(all(target_arch = "x86_64", not(feature = "sim")))]
#[path = "x86_64.rs"]
mod machine;

#[cfg(feature = "inject")]
pub mod inject;
mod operand;

pub(crate) use machine::{enter, fence, has_concurrency_ids, slots};
pub use operand::{Link, Outcome, Pair};

/// The owner of a slot that one thread has for itself. No processor and no concurrency id has this number.
pub const CLOSED: u32 = 0x7fff_ffff;

/// By what the slot of a thread is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Index {
    /// The processor that it runs on.
    Cpu = CPU_ID,
    /// A small number of which no two running threads of the process have the same: fewer slots are in use where there are more
    /// processors than threads. The kernel keeps it from 6.3 on.
    ConcurrencyId = CONCURRENCY_ID,
}

// Where these numbers are in the area.
const CPU_ID: usize = 4;
const CONCURRENCY_ID: usize = 24;
#[cfg(not(feature = "sim"))]
const _: () = {
    use chappe_plat::rseq;
    assert!(CPU_ID == rseq::CPU_ID && CONCURRENCY_ID == rseq::CONCURRENCY_ID);
    // The sections name it by number.
    assert!(rseq::DESCRIPTOR == 8);
};

/// How threads find their slots: what is the same for all of them, for as long as the process is there.
#[derive(Clone, Copy, Debug)]
pub struct Finder {
    /// Of each thread's area from its thread pointer.
    offset: usize,
    /// Where in it the slot's number is.
    field: usize,
}

impl Finder {
    /// Finds out where the areas are. Only after `gate::sequences` has answered.
    pub fn new(index: Index) -> Finder {
        Finder { offset: machine::offset(), field: index as usize }
    }

    /// The calling thread's view.
    #[inline(always)]
    pub fn here(self) -> Here {
        Here { area: machine::area(self.offset), field: self.field, _this_thread: std::marker::PhantomData }
    }
}

/// The calling thread's view of its area: of use to this thread alone, and for the next operation.
#[derive(Clone, Copy)]
pub struct Here {
    /// As the machine wants it.
    area: usize,
    field: usize,
    _this_thread: std::marker::PhantomData<*const ()>,
}

impl Here {
    /// The number of the thread's slot a moment ago; for a thread without an area (yet), a number that no slot has.
    #[inline(always)]
    pub fn slot(self) -> u32 {
        let slot = machine::number(self.area, self.field);
        // An area that is not the kernel's has no processor's number, but may have a concurrency id's.
        if self.field != CPU_ID && (machine::number(self.area, CPU_ID) as i32) < 0 { u32::MAX } else { slot }
    }

    /// `*word` becomes `new` if it is `expect`.
    ///
    /// # Safety
    /// `owner` and `word` are of one slot, which was chosen by this [`Here::slot`], or is another's of the same index: then it is `Moved`.
    /// The owner is the slot's number, or [`CLOSED`]. Only sections on that slot write to `word`, or the thread that has closed it.
    #[inline(always)]
    pub unsafe fn compare_store(self, owner: &AtomicU32, word: &AtomicU64, expect: u64, new: u64) -> Outcome<()> {
        // SAFETY: the caller's.
        counted(unsafe { machine::compare_store(self.area, self.field, owner, word, expect, new) })
    }

    /// Adds `n` to `*word`, modulo 2^64.
    ///
    /// # Safety
    /// As [`Here::compare_store`].
    #[inline(always)]
    pub unsafe fn add(self, owner: &AtomicU32, word: &AtomicU64, n: u64) -> Outcome<()> {
        // SAFETY: the caller's.
        counted(unsafe { machine::add(self.area, self.field, owner, word, n) })
    }

    /// Adds to both counters of a pair, modulo 2^64.
    ///
    /// # Safety
    /// As [`Here::compare_store`], of the pair.
    #[inline(always)]
    pub unsafe fn add_two(self, owner: &AtomicU32, pair: &Pair, a: u64, b: u64) -> Outcome<()> {
        // SAFETY: the caller's.
        counted(unsafe { machine::add_two(self.area, self.field, owner, pair, a, b) })
    }

    /// Puts a chain of nodes, or one that is `first` and `last`, at the head of a list.
    ///
    /// # Safety
    /// As [`Here::compare_store`], of the list's head. The nodes are the caller's own, linked from `first` to `last`, and readable
    /// as long as the list is there.
    #[inline(always)]
    pub unsafe fn push(self, owner: &AtomicU32, head: &AtomicU64, first: u64, last: u64) -> Outcome<()> {
        // SAFETY: the caller's.
        counted(unsafe { machine::push(self.area, self.field, owner, head, first, last) })
    }

    /// Takes the node at the head of a list; its address.
    ///
    /// # Safety
    /// As [`Here::push`].
    #[inline(always)]
    pub unsafe fn pop(self, owner: &AtomicU32, head: &AtomicU64) -> Outcome<u64> {
        // SAFETY: the caller's.
        counted(unsafe { machine::pop(self.area, self.field, owner, head) })
    }

    /// Appends words to those of `buffer` that `length` counts.
    ///
    /// # Safety
    /// As [`Here::compare_store`], of `length` and all of the buffer.
    #[inline(always)]
    pub unsafe fn copy(
        self,
        owner: &AtomicU32,
        length: &AtomicU64,
        buffer: &[AtomicU64],
        words: &[u64],
    ) -> Outcome<()> {
        // SAFETY: the caller's.
        counted(unsafe { machine::copy(self.area, self.field, owner, length, buffer, words) })
    }

    /// Takes what is in `*word`, and leaves `new`.
    ///
    /// # Safety
    /// As [`Here::compare_store`].
    #[inline(always)]
    pub unsafe fn fetch(self, owner: &AtomicU32, word: &AtomicU64, new: u64) -> Outcome<u64> {
        // SAFETY: the caller's.
        counted(unsafe { machine::fetch(self.area, self.field, owner, word, new) })
    }
}

#[cfg(feature = "inject")]
fn counted<T>(outcome: Outcome<T>) -> Outcome<T> {
    inject::count(&outcome);
    outcome
}

#[cfg(not(feature = "inject"))]
#[inline(always)]
fn counted<T>(outcome: Outcome<T>) -> Outcome<T> {
    outcome
}
