//! The page that the cast of one trial shares, and each member's view of it.
//!
//! An anonymous shared mapping that the director makes before it forks. Everything on it is a word that one
//! role writes and others poll: no lock, so a victim that dies at any instruction leaves it whole.
//!
//! | word | written by | says |
//! |---|---|---|
//! | `phase` | victim | where it is: `SETTING`, `INSIDE` the operation, `DONE`, `FAILED`; or `REFUSED` by ptrace |
//! | `ready` | keeper | the stage is set, the victim may start |
//! | `cue`, `answer` | director, keeper | a cue's number; the keeper answers with the same number |
//! | `notes` | each survivor its own | its verdict; read after it has exited |
//! | `backstops` | survivors | how often the backstop fired in them, added up at their ends |
//! | `told` | survivors | how often they were told that a holder had died with a mutex locked |
//! | `held` | keeper | a process that came while the victim was stopped had to wait for it |
//! | `aside` | recoverer | as `phase`, of the one that makes up for the victim's death |
//! | `settled` | keeper | when those that waited had got on, or all was there: nanoseconds of the system's clock |
//! | `words` | the scenario | whatever it needs; the controls keep their broken structures here |
//!
//! Orderings: every access is sequentially consistent. Nothing here is measured.

use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::patience::{pause, within};
use crate::step;

/// The victim has not begun its operation.
pub const SETTING: u32 = 0;
/// The victim is between [`Stage::begin`] and [`Stage::end`].
pub const INSIDE: u32 = 1;
/// The operation returned what the scenario expected.
pub const DONE: u32 = 2;
/// The operation returned something else: the scenario itself is wrong, or the object under test is.
pub const FAILED: u32 = 3;
/// The system does not let the victim be traced.
pub const REFUSED: u32 = 4;

/// How many words a scenario has for itself.
pub const WORDS: usize = 256;
/// The keeper's note. A helper's is one more than its number.
pub const KEEPER: usize = 0;
/// How many survivors can leave a note.
pub const NOTES: usize = 5;
const TEXT: usize = 1000;

/// The shared page.
#[repr(C)]
pub struct Board {
    /// Where the victim is.
    pub phase: AtomicU32,
    /// Where the recoverer is.
    aside: AtomicU32,
    /// The keeper has set the stage.
    pub ready: AtomicU32,
    cue: AtomicU64,
    answer: AtomicU64,
    /// How often the backstop fired in the survivors.
    pub backstops: AtomicU64,
    /// How often survivors locked a mutex, and were told of its holder's death.
    pub told: AtomicU64,
    /// Not 0: a process that came while the victim was stopped had to wait for it.
    pub held: AtomicU64,
    /// The threads that have begun, the victim's and the recoverer's: 0 for none yet.
    threads: [AtomicU32; 2],
    /// When all had got on, or all was found to be there.
    pub settled: AtomicU64,
    /// The scenario's own.
    pub words: [AtomicU64; WORDS],
    notes: [Note; NOTES],
}

#[repr(C)]
struct Note {
    fault: AtomicU32,
    length: AtomicU32,
    text: UnsafeCell<[u8; TEXT]>,
}

// SAFETY: atomics but for the notes' texts; each has one writer, and is read after that writer's process has ended.
unsafe impl Sync for Board {}

/// Memory that all processes forked from here on share: zeroed, and mapped for good.
///
/// # Safety
/// Zeros are a valid `T`, and the sharing processes write to it through atomics only, or in turns.
pub unsafe fn shared<T: Sync>() -> &'static T {
    // SAFETY: an anonymous mapping at an address of the kernel's choice replaces no other mapping.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size_of::<T>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    assert_ne!(page, libc::MAP_FAILED, "no memory for the board: {}", std::io::Error::last_os_error());
    // SAFETY: large enough, page-aligned, and never unmapped; zeros are valid, as the caller says.
    unsafe { &*page.cast::<T>() }
}

/// What the survivors can find wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// A survivor did not get on within the watchdog.
    Wedged = 1,
    /// State contradicts itself, or an operation failed that had no reason to.
    Torn = 2,
    /// A permit did not come back.
    Lost = 3,
    /// One permit, two holders.
    Doubled = 4,
    /// A slot is out of use after the dead have been swept.
    Leaked = 5,
}

/// A survivor's finding: nothing, or a fault and what it saw.
pub type Verdict = Result<(), (Fault, String)>;

/// What the director tells the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cue {
    /// The victim sleeps in its operation: do what wakes it, if the scenario has it woken.
    Asleep,
    /// The victim is stopped at the point: check that the others make progress all the same, or let one meet it.
    Stopped,
    /// The victim is dead: check, and return the verdict.
    Dead,
}

/// The process that is led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one that runs the operation.
    Victim,
    /// The one that recovers from the victim's death, while the survivors are stopped.
    Recoverer,
}

/// One cast member's view of the board.
#[derive(Clone, Copy)]
pub struct Stage {
    board: &'static Board,
    role: Role,
    /// What a survivor waits for at most.
    pub limit: Duration,
}

impl Stage {
    /// The board of this process, which directs one trial at a time.
    pub fn new(limit: Duration) -> Stage {
        static BOARD: OnceLock<&'static Board> = OnceLock::new();
        Stage {
            board: BOARD.get_or_init(|| {
                // SAFETY: all fields but the notes' texts are atomics, and a text has one writer and a reader that comes after it.
                unsafe { shared::<Board>() }
            }),
            role: Role::Victim,
            limit,
        }
    }

    /// The same for one in this role.
    pub fn of(&self, role: Role) -> Stage {
        Stage { role, ..*self }
    }

    /// Where the process in this role notes how far it is.
    pub fn phase_of(&self, role: Role) -> &'static AtomicU32 {
        match role {
            Role::Victim => &self.board.phase,
            Role::Recoverer => &self.board.aside,
        }
    }

    /// Which thread has begun the operation in this role: 0 for none yet.
    pub fn thread_of(&self, role: Role) -> &'static AtomicU32 {
        &self.board.threads[role as usize]
    }

    /// The system's clock, which all processes share, in nanoseconds.
    pub fn clock() -> u64 {
        // SAFETY: a zeroed timespec is valid, and a valid place for the clock.
        let now = unsafe {
            let mut now: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
            now
        };
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }

    /// The shared page.
    pub fn board(&self) -> &'static Board {
        self.board
    }

    /// One of the scenario's own words.
    pub fn word(&self, at: usize) -> &'static AtomicU64 {
        &self.board.words[at]
    }

    /// Clears the board for the next trial. Only while no cast member lives.
    pub fn clear(&self) {
        let b = self.board;
        b.phase.store(SETTING, SeqCst);
        b.aside.store(SETTING, SeqCst);
        b.ready.store(0, SeqCst);
        for note in &b.notes {
            note.fault.store(0, SeqCst);
        }
        b.threads.iter().for_each(|t| t.store(0, SeqCst));
        for word in [&b.cue, &b.answer, &b.backstops, &b.told, &b.held, &b.settled].into_iter().chain(&b.words) {
            word.store(0, SeqCst);
        }
    }

    // ---- the victim, the recoverer ----

    /// The operation starts here: the calling thread is the director's from now on.
    #[inline(always)]
    pub fn begin(&self) {
        let phase = self.phase_of(self.role);
        // SAFETY: takes nothing, cannot fail.
        self.thread_of(self.role).store(unsafe { libc::gettid() } as u32, SeqCst);
        phase.store(INSIDE, SeqCst);
        if !step::offer() {
            phase.store(REFUSED, SeqCst);
            loop {
                std::thread::park();
            }
        }
    }

    /// The operation ends here; `right` if it returned what the scenario expects.
    #[inline(always)]
    pub fn end(&self, right: bool) {
        self.phase_of(self.role).store(if right { DONE } else { FAILED }, SeqCst);
        step::here();
    }

    /// In a scenario whose victim is not traced: it is where the keeper wants it.
    pub fn arrive(&self) {
        self.board.phase.store(INSIDE, SeqCst);
    }

    // ---- the keeper ----

    /// The stage is set; the next cue is returned.
    pub fn ready(&self) -> Cue {
        self.board.ready.store(1, SeqCst);
        self.next_cue()
    }

    /// The cue has been acted upon; the next one is returned.
    pub fn acted(&self, cue: Cue) -> Cue {
        // A cue that came meanwhile is not answered by this.
        let given = self.board.cue.load(SeqCst);
        if given & 3 == cue as u64 + 1 {
            self.board.answer.store(given, SeqCst);
        }
        self.next_cue()
    }

    /// All have got on, or all is there: the first time counts.
    pub fn settle(&self) {
        // It fails if it is not the first.
        let _ = self.board.settled.compare_exchange(0, Stage::clock(), SeqCst, SeqCst);
    }

    /// Whether there is a later cue than `cue`, which is being acted upon.
    pub fn urged(&self, cue: Cue) -> bool {
        self.board.cue.load(SeqCst) & 3 != cue as u64 + 1
    }

    fn next_cue(&self) -> Cue {
        // The director always gives a last cue, or ends this process: no limit is needed.
        while self.board.cue.load(SeqCst) == self.board.answer.load(SeqCst) {
            pause();
        }
        match self.board.cue.load(SeqCst) & 3 {
            1 => Cue::Asleep,
            2 => Cue::Stopped,
            _ => Cue::Dead,
        }
    }

    // ---- any survivor ----

    /// Leaves a verdict on the board. Each survivor has a note of its own.
    pub fn judge(&self, whose: usize, verdict: &Verdict) {
        if let Err((fault, text)) = verdict {
            let note = &self.board.notes[whose];
            let bytes = &text.as_bytes()[..text.len().min(TEXT)];
            // SAFETY: the survivor is the only writer; the director reads after its exit.
            unsafe { (&mut *note.text.get())[..bytes.len()].copy_from_slice(bytes) };
            note.length.store(bytes.len() as u32, SeqCst);
            note.fault.store(*fault as u32, SeqCst);
        }
    }

    /// Waits until `true_now` says so, for the watchdog's time at most. Says whether it did.
    pub fn until(&self, true_now: impl FnMut() -> bool) -> bool {
        within(self.limit, true_now)
    }

    // ---- the director ----

    /// Gives a cue, without waiting for the answer.
    pub fn give(&self, cue: Cue) {
        let serial = self.board.cue.load(SeqCst) >> 2;
        self.board.cue.store((serial + 1) << 2 | (cue as u64 + 1), SeqCst);
    }

    /// Whether the keeper has acted upon the last cue.
    pub fn answered(&self) -> bool {
        self.board.answer.load(SeqCst) == self.board.cue.load(SeqCst)
    }

    /// The first verdict that is not good, after all survivors have exited, and what the other survivors found: a survivor that waits in
    /// vain for another says so first, and the other's verdict is the reason.
    pub fn verdict(&self) -> Verdict {
        let found = |note: &Note| {
            let fault = match note.fault.load(SeqCst) {
                0 => return None,
                1 => Fault::Wedged,
                3 => Fault::Lost,
                4 => Fault::Doubled,
                5 => Fault::Leaked,
                _ => Fault::Torn,
            };
            let length = note.length.load(SeqCst) as usize;
            // SAFETY: its writer stored the fault last, and writes no more.
            let text = unsafe { &(&*note.text.get())[..length] };
            Some((fault, String::from_utf8_lossy(text).into_owned()))
        };
        let all: Vec<_> = self.board.notes.iter().filter_map(found).collect();
        let Some((fault, _)) = all.first() else { return Ok(()) };
        Err((*fault, all.iter().map(|(_, text)| &**text).collect::<Vec<_>>().join("; another survivor: ")))
    }
}
