/// The lines that may write late by design: at most eight.
pub const EXEMPT: [Exempt; 8] = [
    Exempt {
        file: "crates/wait/src/owner.rs",
        code: "o.slot.word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()",
        why: "a lock is taken by one swap, then its head is looked at, and the lock given back: the word has the number of the slot (I8 of mutexes)",
    },
    Exempt {
        file: "crates/sync/src/drain.rs",
        code: "self.slot.word.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()",
        why: "a cell is freed, or taken and given back, by one swap of its exact word; the next maker continues the word's version",
    },
    Exempt {
        file: "crates/sync/src/permit.rs",
        code: "let _ = o.hint.compare_exchange(hint, given, Ordering::Relaxed, Ordering::Relaxed); // Relaxed: as above.",
        why: "a hint, which a pool believes only after a look at the cell; other kinds have another value there, or do not read it",
    },
    Exempt {
        file: "crates/sync/src/owned/flags.rs",
        code: "let set = || flags.compare_exchange(seen, seen | PLAIN, Ordering::SeqCst, Ordering::SeqCst).is_ok();",
        why: "the flags have ten bits of the permit's generation (I9); other kinds do not read them",
    },
    Exempt {
        file: "crates/sync/src/condvar.rs",
        code: "&& let Err([there, since]) = o.slot.pair().compare_exchange([word, seen], [word, to])",
        why: "`since` is raised in one swap with the word, which has the number of the slot's use; the next maker stores its word first, and `since` then",
    },
    Exempt {
        file: "crates/sync/src/semaphore_word.rs",
        code: "o.slot.word.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()",
        why: "a unit is taken or added by one swap of the exact word, which has the slot's number",
    },
    Exempt {
        file: "crates/sync/src/semaphore_word.rs",
        code: "let done = o.slot.pair().compare_exchange([from.units.0, from.stamp], [to.0, next.stamp]).is_ok();",
        why: "the exact word and its stamp: a late waiter raises the next semaphore's stamp, others' swaps begin again, and no unit moves",
    },
    Exempt {
        file: "crates/arena/src/member.rs",
        code: "let _ = m.ident.compare_exchange(ident, ident & !0xffff_ffff, Ordering::AcqRel, Ordering::Acquire);",
        why: "a dead member's thread id is forgotten by one swap of the word, which has its generation",
    },
];
