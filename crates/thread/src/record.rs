//! The records of light threads, and their stacks.
//!
//! Records lie densely in one table, 128 bytes each: those of ten thousand threads fill some 310 pages, not ten
//! thousand. A record is never freed, so any holder of a reference may read it, or wake its thread, at any time. Each
//! record has a stack of the default size, at the same index of a second region of address space; a thread with a stack
//! of another size gets it from the kernel.
//!
//! ```text
//!   records   | 1 | 2 | 3 | ...                       128 bytes each
//!   stacks    | guard . . . . top | guard . . . . top | ...   128 KiB each: a thread that waits has touched one page
//! ```
//!
//! A core file holds the records that were used, and the stacks of the first [`DUMPED`] threads. The regions are
//! reserved for millions of threads: a program that writes or reads a core file through a pipe would have to go through
//! all of them.
//!
//! The tops of the stacks are shifted against each other by some cache lines. Otherwise those of all threads would lie
//! in the same sets of the cache.
//!
//! Ownership: a record's cells belong to the kernel thread that runs the thread, or to the proc whose queue holds it;
//! I1 and I2 of `proc` keep that unique. Its atomics may be read by any thread. Other processes read records by
//! `image`. A thread that ends leaves its record and stack to its proc's free list, or to the table's; the record's
//! generation (`words::asked`) then distinguishes the next thread.

use crate::modes::Modes;
use crate::stack;
use crate::switch::{self, Entry};
use crate::trap::{AfterTrap, Trap};
use crate::words::token::EMPTY;
use chappe_plat::atomic::{AtomicU32, AtomicU64, Ordering};
use chappe_plat::light::asked::{GENERATION, INSIDE};
use chappe_plat::light::{self, Record, Waits, asked};
use chappe_plat::{Made, sanitizer, stacks};
use std::cell::{Cell, UnsafeCell};
use std::io;
use std::ptr::{from_ref, null_mut};
use std::sync::{Arc, Mutex};

/// The size of a default stack, with its guard.
pub(crate) const STACK: usize = 128 * 1024;
/// The smallest that may be asked for.
pub(crate) const SMALLEST: usize = 16 * 1024;
/// The most threads that there can be at once, if the address space is not limited. (Miri has all of it in memory.)
pub(crate) const MOST: usize = if cfg!(miri) { 1 << 6 } else { 1 << 24 };
/// The fewest, if the address space is limited.
pub(crate) const FEWEST: usize = 1 << 12;
/// So many threads' stacks are in a core file, at most.
pub(crate) const DUMPED: usize = 1 << 14;
/// The number when the table is made; it grows with use.
const DUMPED_FIRST: usize = 1 << 6;
const COLOURS: usize = 8;
const COLOUR: usize = 128;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"CHAPPE\r\t");
/// Of what is read here: of another build's only if this is the same.
pub(crate) const VERSION: u32 = 6;

/// In place of the first record.
#[repr(C, align(128))]
pub(crate) struct Header {
    pub magic: u64,
    pub version: u32,
    /// How many records have ever been used.
    pub fresh: AtomicU32,
    pub most: u64,
    pub stacks: u64,
    /// The descriptor of the page in which others ask, plus one; 0: none. See `outside`.
    pub control: AtomicU32,
}

impl Header {
    pub fn new(most: usize, stacks: *mut u8) -> Header {
        let fresh = AtomicU32::new(1);
        Header {
            magic: MAGIC,
            version: VERSION,
            fresh,
            most: most as u64,
            stacks: stacks as u64,
            control: AtomicU32::new(0),
        }
    }
}

const _: () = assert!(size_of::<Header>() == size_of::<Thread>());

/// What has been asked of a thread, beside its record.
#[repr(C, align(32))]
pub(crate) struct Asks {
    /// The last interrupt that was put in.
    pub interrupts: AtomicU64,
    /// See `words::told`.
    pub signals: AtomicU64,
    /// See `words::told`.
    pub events: AtomicU64,
}

/// A handler of a signal.
pub(crate) type Handler = Arc<dyn Fn() + Send + Sync>;
/// A handler of error traps.
pub(crate) type TrapHandler = Arc<dyn Fn(&Trap) -> AfterTrap + Send + Sync>;

/// The data of a thread that has a name, a stack of another size, thread-locals or signal handlers.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Extra {
    /// This and the next three: for readers in other processes, see `image`.
    pub name_at: usize,
    pub name_len: usize,
    pub stack_at: usize,
    pub stack_len: usize,
    pub name: Option<String>,
    /// A stack of another size: where, and how large.
    pub stack: Option<(usize, usize)>,
    pub locals: Vec<(usize, Box<dyn std::any::Any>)>,
    /// What it does on signals, by their numbers.
    pub handlers: Vec<(u32, Handler)>,
    /// What it does on error traps.
    pub trap: Option<TrapHandler>,
    /// It is in that.
    pub in_trap: bool,
    /// The trap that has ended it: its frames were left as they were.
    pub trapped: Option<Trap>,
}

impl Extra {
    pub fn new(name: Option<String>, stack: Option<(usize, usize)>) -> Extra {
        let (name_at, name_len) = name.as_ref().map_or((0, 0), |name| (name.as_ptr() as usize, name.len()));
        let (stack_at, stack_len) = stack.unwrap_or_default();
        Extra { name_at, name_len, stack_at, stack_len, name, stack, ..Extra::default() }
    }
}

/// A light thread.
#[repr(C, align(128))]
pub(crate) struct Thread {
    /// What the protocols see.
    pub core: Record,
    /// Where its stack was left.
    pub sp: Cell<usize>,
    /// The proc that runs it, or will.
    pub proc: AtomicU64,
    /// The next in the run queue, or among those that are free.
    pub next: Cell<*const Thread>,
    /// The link to the next thread in an inbox. While the thread is away, and so in no inbox: the kernel thread that it
    /// blocks.
    pub inbox: AtomicU64,
    /// While the thread is not running: its value of the TLS word that names its attachment. (The other TLS words are
    /// guesses, which hold for any thread that runs there.)
    pub tls: Cell<usize>,
    pub extra: UnsafeCell<Option<Box<Extra>>>,
    /// See `end`.
    pub end: AtomicU32,
    /// 1: no kernel thread runs on its stack.
    pub off: AtomicU32,
    pub level: Cell<u8>,
    /// It stays with its proc.
    pub pinned: Cell<bool>,
    /// It is away from its proc, in something that blocks.
    pub away: Cell<bool>,
    /// It has begun, and not ended: cleared before the generation rises.
    pub lives: Cell<bool>,
    /// When it must run at the latest to be in time, in nanoseconds; 0: it has not said. See `due`.
    pub latest: Cell<u64>,
    /// Its floating-point modes, while it is not running, if it keeps some.
    pub modes: Cell<Modes>,
}

const _: () = assert!(size_of::<Thread>() == 128);

// SAFETY: the cells belong to the proc that runs the thread or has it in its queue: one proc at a time (I1 and I2 of
// `proc`).
unsafe impl Sync for Thread {}

impl Thread {
    pub fn number(&self) -> u32 {
        self.core.number
    }

    /// The generation of the thread that has the record now.
    pub fn generation(&self) -> u32 {
        // Relaxed: of one that lives, it does not change.
        self.core.control.load(Ordering::Relaxed) >> GENERATION
    }

    /// Whether the thread, which is the calling one, runs an interrupt: it must not wait.
    pub fn is_inside(&self) -> bool {
        self.core.control.load(Ordering::Relaxed) & INSIDE != 0 // Relaxed: the thread's own.
    }

    /// Panics if the thread runs an interrupt: an interrupt runs inside the thread's own wait, so it must not begin
    /// another.
    #[inline(always)]
    pub fn may_wait(&self) {
        assert!(!self.is_inside(), "an interrupt of a light thread must not wait: it may tell, give and try");
    }

    /// Whether it keeps floating-point modes of its own.
    pub fn keeps_modes(&self) -> bool {
        // Relaxed: set before it begins, and taken away after it has ended, by the side that comes then.
        self.core.control.load(Ordering::Relaxed) & asked::MODES != 0
    }

    /// It is the next but one: its stack is fetched meanwhile, and the record of the one after it.
    #[inline(always)]
    pub fn is_near(&self) {
        switch::expect(self.sp.get(), 3);
        switch::expect(self.next.get() as usize, 2);
    }

    #[allow(clippy::mut_from_ref, reason = "the thread's own")]
    pub fn extra(&self) -> &mut Extra {
        // SAFETY: called by the thread itself, or by its maker before it runs.
        unsafe { &mut *self.extra.get() }.get_or_insert_default()
    }

    pub fn name(&self) -> Option<&str> {
        // SAFETY: as above; the name is set before it runs.
        unsafe { &*self.extra.get() }.as_ref()?.name.as_deref()
    }

    /// What it does on a signal.
    pub fn handler(&self, number: u32) -> Option<Handler> {
        // SAFETY: the thread's own.
        let extra = unsafe { &*self.extra.get() }.as_ref()?;
        extra.handlers.iter().find(|(n, _)| *n == number).map(|(_, handler)| Handler::clone(handler))
    }

    /// The trap that has ended it, if one has.
    pub fn trapped(&self) -> Option<Trap> {
        // SAFETY: asked by the owner of what is left of it.
        unsafe { &*self.extra.get() }.as_ref()?.trapped
    }

    /// Where its stack lies: the lowest byte above the guard, and the top.
    pub fn stack(&self) -> (usize, usize) {
        // SAFETY: set before it runs.
        if let Some((at, len)) = unsafe { &*self.extra.get() }.as_ref().and_then(|extra| extra.stack) {
            return (at + stacks::page(), at + len);
        }
        let at = table().stacks as usize + self.number() as usize * STACK;
        (at + stacks::page(), at + STACK)
    }

    /// The top of its stack.
    #[inline(always)]
    fn top(&self) -> usize {
        // SAFETY: set before it runs.
        match unsafe { &*self.extra.get() } {
            None => table().stacks as usize + (self.number() as usize + 1) * STACK,
            Some(_) => self.stack().1,
        }
    }

    /// Lays out what is to run on the stack, and leaves room for something of that size and alignment at its top: answers where.
    ///
    /// # Safety
    /// The thread is new.
    #[inline(always)]
    pub unsafe fn lay_out(&self, size: usize, align: usize) -> *mut u8 {
        let top = self.top() - self.number() as usize % COLOURS * COLOUR;
        let place = (top - size) & !(align.max(16) - 1);
        place as *mut u8
    }

    /// The same: what is to run.
    ///
    /// # Safety
    /// As above; `place` is what `lay_out` answered.
    pub unsafe fn begin_with(&self, place: *mut u8, entry: Entry, given: *mut ()) {
        let top = (place as usize & !15) as *mut u8;
        // SAFETY: the stack below is this thread's.
        self.sp.set(unsafe { switch::prepare(top, entry, given) });
    }
}

/// The light thread that is running here.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Thread> {
    // SAFETY: a record is the first part of a thread, and there is no other scheduler.
    light::current().map(|record| unsafe { &*from_ref(record).cast::<Thread>() })
}

pub(crate) fn of(record: &'static Record) -> &'static Thread {
    // SAFETY: as in `current`.
    unsafe { &*from_ref(record).cast::<Thread>() }
}

struct Table {
    records: *mut Thread,
    stacks: *mut u8,
    asks: *mut Asks,
    most: usize,
    /// The free records that no proc keeps.
    spare: Mutex<Vec<usize>>,
}

// SAFETY: the addresses of two regions that the process's table keeps for good.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

impl Table {
    fn make() -> io::Result<Table> {
        let mut most = MOST;
        loop {
            match Table::of(most) {
                Err(_) if most > FEWEST => most /= 4,
                made => return made,
            }
        }
    }

    fn of(most: usize) -> io::Result<Table> {
        let records = stacks::reserve(most * size_of::<Thread>(), c"chappe-threads")?;
        let drop_records = || {
            // SAFETY: just reserved.
            unsafe { stacks::give_back(records, most * size_of::<Thread>()) };
        };
        let stacks = stacks::reserve(most * STACK, c"chappe-stacks").inspect_err(|_| drop_records())?;
        let asks = stacks::reserve(most * size_of::<Asks>(), c"chappe-asks").inspect_err(|_| {
            drop_records();
            // SAFETY: just reserved.
            unsafe { stacks::give_back(stacks, most * STACK) };
        })?;
        // SAFETY: the first record, which is no thread's.
        unsafe { records.cast::<Header>().write(Header::new(most, stacks)) };
        let table = Table { records: records.cast(), stacks, asks: asks.cast(), most, spare: Mutex::new(Vec::new()) };
        table.dump(0, DUMPED_FIRST);
        Ok(table)
    }

    /// The records of these numbers are in a core file from now on, and so are the stacks of the first [`DUMPED`].
    /// Never all of a region, lest the kernel join it with its neighbour.
    fn dump(&self, from: usize, to: usize) {
        let to = to.min(self.most - 1);
        let theirs = from..to.min(DUMPED);
        // SAFETY: within the regions.
        unsafe {
            stacks::dump(self.records.add(from).cast(), to.saturating_sub(from) * size_of::<Thread>());
            if !theirs.is_empty() {
                stacks::dump(self.stacks.add(theirs.start * STACK), theirs.len() * STACK);
            }
        }
    }
}

/// Drops only a table that lost the race to become the process's table: a reader of the process's memory must not find
/// two.
impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: reserved so, and nobody else has seen them.
        unsafe {
            stacks::give_back(self.records.cast(), self.most * size_of::<Thread>());
            stacks::give_back(self.stacks, self.most * STACK);
            stacks::give_back(self.asks.cast(), self.most * size_of::<Asks>());
        }
    }
}

static TABLE: Made<Table> = Made::new();

/// How many records have ever been used.
pub(crate) fn fresh() -> &'static AtomicU32 {
    // SAFETY: written when the table was made.
    unsafe { &(*table().records.cast::<Header>()).fresh }
}

/// The descriptor of the page in which others ask, plus one.
pub(crate) fn control() -> &'static AtomicU32 {
    // SAFETY: as above.
    unsafe { &(*table().records.cast::<Header>()).control }
}

#[inline(always)]
fn table() -> &'static Table {
    TABLE.get().expect("a thread was made, so the table was")
}

/// What has been asked of a thread.
pub(crate) fn asks(thread: &Thread) -> &'static Asks {
    // SAFETY: within the region, which has zeros where nobody has written.
    unsafe { &*table().asks.add(thread.number() as usize) }
}

/// Why there is no more room.
pub(crate) fn prepare() -> io::Result<()> {
    sanitizer::prepare();
    TABLE.get_or_try(Table::make)?;
    Ok(())
}

/// Of a thread that is not in use: one that others have left, or a new one.
pub(crate) fn take() -> io::Result<&'static Thread> {
    let table = table();
    if let Some(at) = light::lock(&table.spare).pop() {
        // SAFETY: it came from the table.
        return Ok(unsafe { &*(at as *const Thread) });
    }
    // Relaxed: a number of its own.
    let number = fresh().fetch_add(1, Ordering::Relaxed);
    if number as usize >= table.most {
        fresh().fetch_sub(1, Ordering::Relaxed);
        return Err(io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!("there are {} light threads already, as many as the address space has room for", table.most - 1),
        ));
    }
    if number as usize >= DUMPED_FIRST && number.is_power_of_two() {
        table.dump(number as usize, 2 * number as usize);
    }
    // SAFETY: within the regions; of this number nobody else knows.
    unsafe {
        stacks::guard(table.stacks.add(number as usize * STACK), stacks::page()).map_err(|source| {
            io::Error::new(
                source.kind(),
                format!("no guard for the stack of light thread {number} ({source}): each takes a mapping before Linux 6.13; raise vm.max_map_count"),
            )
        })?;
        let low = table.stacks as usize + number as usize * STACK;
        stack::is_stack(low + stacks::page()..low + STACK);
        let at = table.records.add(number as usize);
        at.write(Thread {
            core: Record {
                word: AtomicU64::new(0),
                token: AtomicU32::new(EMPTY),
                number,
                waits: Cell::new(Waits::Nothing),
                control: AtomicU32::new(0),
                at: Cell::new(0),
                kept: Cell::new(null_mut()),
                ends: Cell::new(std::ptr::null()),
            },
            sp: Cell::new(0),
            proc: AtomicU64::new(0),
            next: Cell::new(std::ptr::null()),
            inbox: AtomicU64::new(0),
            tls: Cell::new(0),
            extra: UnsafeCell::new(None),
            end: AtomicU32::new(0),
            off: AtomicU32::new(1),
            level: Cell::new(0),
            pinned: Cell::new(false),
            away: Cell::new(false),
            lives: Cell::new(false),
            latest: Cell::new(0),
            modes: Cell::new(0),
        });
        // Of what it has there.
        sanitizer::is_root(at as usize..at.add(1) as usize);
        Ok(&*at)
    }
}

/// Gives some back.
pub(crate) fn put(threads: impl Iterator<Item = &'static Thread>) {
    let mut spare = light::lock(&table().spare);
    spare.extend(threads.map(|thread| std::ptr::from_ref(thread) as usize));
}

/// A stack of another size.
pub(crate) fn own_stack(size: usize) -> io::Result<(usize, usize)> {
    let refused = |why: &str| {
        let text = format!(
            "no memory for a stack of {size} bytes ({why}): ask for less, or raise the limit of the address space (ulimit -v)"
        );
        io::Error::new(io::ErrorKind::OutOfMemory, text)
    };
    let page = stacks::page();
    let len = size.checked_next_multiple_of(page).and_then(|len| len.checked_add(page));
    let len = len.ok_or_else(|| refused("more than there are addresses"))?;
    let at = stacks::reserve(len, c"chappe-stack").map_err(|e| refused(&e.to_string()))?;
    // SAFETY: just reserved.
    unsafe { stacks::dump(at, len) };
    // SAFETY: just reserved.
    if let Err(e) = unsafe { stacks::guard(at, page) } {
        // SAFETY: as above.
        unsafe { stacks::give_back(at, len) };
        return Err(refused(&e.to_string()));
    }
    stack::is_stack(at as usize + page..at as usize + len);
    Ok((at as usize, len))
}

/// It goes.
///
/// # Safety
/// It is one of `own_stack`'s, and nobody is on it.
pub(crate) unsafe fn drop_stack((at, len): (usize, usize)) {
    stack::is_no_stack(at + stacks::page()..at + len);
    // SAFETY: the caller's promise.
    unsafe { stacks::give_back(at as *mut u8, len) };
}

/// One more than the last record that has ever been used. A thread that finds the table full counts one too many for a moment.
fn counted(table: &Table) -> u32 {
    // Acquire: those that are counted are there, or about to be.
    fresh().load(Ordering::Acquire).min(table.most as u32)
}

/// All records that have ever been used.
pub(crate) fn all() -> impl Iterator<Item = &'static Thread> {
    let table = TABLE.get();
    // SAFETY: within the table: zeros, or a record.
    (1..table.map_or(1, counted)).filter_map(move |n| table.map(|t| unsafe { &*t.records.add(n as usize) }))
}

/// The record of that number, if it has ever been used.
pub(crate) fn number(number: u32) -> Option<&'static Thread> {
    let table = TABLE.get()?;
    let used = (1..counted(table)).contains(&number);
    // SAFETY: within the table.
    used.then(|| unsafe { &*table.records.add(number as usize) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use chappe_plat::process::read_memory;

    #[test]
    #[cfg_attr(miri, ignore = "reads the process's memory by a system call")]
    fn a_table_that_came_second_is_not_found() {
        prepare().unwrap();
        // Of several threads that make one, all but one drop theirs.
        let second = Table::make().unwrap();
        let (me, at) = (std::process::id(), second.records as u64);
        let (mut mark, mut now) = ([0; 8], [0; 8]);
        read_memory(me, at, &mut mark).unwrap();
        assert_ne!(mark, [0; 8]);
        drop(second);
        assert!(read_memory(me, at, &mut now).is_err() || now != mark);
    }
}
