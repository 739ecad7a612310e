//! Where there are no sequences, or not as usual: the verdict says why, and all operations work.
//!
//! Each test runs this program once more, as `actor`, in surroundings of its own. What the child counts must come out right:
//! that is the operations' own contract, wherever they run.

#![cfg(not(feature = "sim"))]

mod surroundings;

use chappe_plat::rseq::{self, Area};
use chappe_plat::topology;
use chappe_ras::gate::{self, Verdict};
use chappe_ras::lock::CpuLock;
use chappe_ras::mechanism::Flag;
use chappe_ras::{Counter, FreeList, Index, PairCounter};
use std::cell::Cell;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use surroundings::{EMULATOR, NO_AREA_OF_THE_LIBRARY, PART, answer, child, has, not_tested, refuse, said, said_by};

const THREADS: u64 = 4;
const EACH: u64 = 20_000;

/// What children do; nothing when it is run as a test.
#[test]
fn actor() {
    let Ok(part) = std::env::var(PART) else { return };
    match part.as_str() {
        "plain" => {}
        "few" => return tell(count(2, 200)),
        // An emulator has no such filters; it needs none.
        "no rseq" if std::env::var_os(EMULATOR).is_some() => {}
        "no rseq" => refuse(&[libc::SYS_rseq]),
        "no membarrier" => refuse(&[libc::SYS_membarrier]),
        "membarrier later" => {
            // Things that are in use by then: locks are biased, and nobody can take that away any more.
            let things = Things::new();
            things.count(1, EACH);
            things.count(THREADS, EACH);
            refuse(&[libc::SYS_membarrier]);
            things.count(THREADS, EACH);
            return tell(things.sum());
        }
        "somebody else's" => {
            assert_eq!(register_another(), 0);
            // Of this thread before any other.
            gate::verdict();
        }
        "somebody else's in one thread" => return another_in_one_thread(),
        "one processor" => {
            topology::allow(&topology::allowed().unwrap()[..1]).unwrap();
            return tell_aborts();
        }
        "one processor and a fence that is none" => {
            topology::allow(&topology::allowed().unwrap()[..1]).unwrap();
            answer(&[libc::SYS_membarrier], 0);
        }
        "confined" => {
            let joined = std::fs::write(std::env::var_os(CONFINED).unwrap(), std::process::id().to_string());
            if joined.is_err() || topology::allowed().unwrap().len() > 1 {
                return println!("says: refused");
            }
            return tell_aborts();
        }
        "real time" => {
            if !be_first() {
                return println!("says: refused");
            }
            gate::verdict();
            assert!(is_first(), "the caller stays as it is");
            be_last();
        }
        "first in a handler" => first_in_a_handler(),
        "registered before" => registered_before(),
        "asked last" => return println!("says: {}", word(asked_last())),
        "many threads" => (0..200).for_each(|_| _ = count(2, 20)),
        "forks" => return forks(),
        other => panic!("no such part: {other}"),
    }
    tell(count(THREADS, EACH));
}

/// Says what the parent asks about.
fn tell(count: u64) {
    println!("says: {}", word(gate::verdict()));
    println!("says: {:?}", rseq::prepare());
    println!("says: {count}");
    println!("says: {}", gate::biases());
}

/// Says how many aborts it took, too.
fn tell_aborts() {
    println!("says: {}", word(gate::verdict()));
    let Verdict::Proven { aborts } = gate::verdict() else { return };
    println!("says: {aborts}");
}

/// The number of aborts is of no interest.
fn word(verdict: Verdict) -> String {
    match verdict {
        Verdict::Proven { .. } => "Proven".into(),
        other => format!("{other:?}"),
    }
}

/// A number behind a flag.
struct Guarded(Flag, Cell<u64>);

// SAFETY: the number is touched by the thread that has acquired the flag.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn add(&self) {
        self.0.acquire();
        self.1.set(self.1.get() + 1);
        // SAFETY: acquired above.
        unsafe { self.0.release() };
    }
}

/// One of each kind.
struct Things {
    counters: [Counter; 2],
    pair: PairCounter,
    nodes: FreeList<()>,
    locked: [CpuLock<u64>; 2],
    flagged: Guarded,
}

impl Things {
    fn new() -> Things {
        Things {
            counters: [Counter::new(Index::Cpu), Counter::new(Index::ConcurrencyId)],
            pair: PairCounter::new(Index::Cpu),
            nodes: FreeList::new(Index::Cpu, 16, || ()),
            locked: [CpuLock::new(0), CpuLock::new(0)],
            flagged: Guarded(Flag::new(), Cell::new(0)),
        }
    }

    /// Operations of each kind, by some threads at once.
    fn count(&self, threads: u64, each: u64) {
        assert!(threads * 2 <= 16);
        let all = || {
            assert_eq!(gate::sequences(), gate::verdict().is_proven());
            for _ in 0..each {
                self.counters.iter().for_each(|c| c.add(1));
                self.pair.add(1, 2);
                self.locked.iter().for_each(|l| *l.lock() += 1);
                self.flagged.add();
                drop(self.nodes.take().expect("there are enough for all"));
            }
        };
        std::thread::scope(|s| (0..threads).for_each(|_| _ = s.spawn(all)));
    }

    /// How often it was counted: all say the same.
    fn sum(self) -> u64 {
        let [by_cpu, by_id] = self.counters.map(|c| c.sum());
        assert_eq!((by_id, self.pair.sum()), (by_cpu, (by_cpu, 2 * by_cpu)));
        assert_eq!((self.locked.map(CpuLock::into_inner), self.flagged.1.get()), ([by_cpu; 2], by_cpu));
        by_cpu
    }
}

fn count(threads: u64, each: u64) -> u64 {
    let things = Things::new();
    things.count(threads, each);
    things.sum()
}

/// What some other library would do that has areas of its own.
fn register_another() -> i64 {
    #[repr(align(32))]
    struct Another([u32; 8]);
    let area: &'static mut Another = Box::leak(Box::new(Another([0, u32::MAX, 0, 0, 0, 0, 0, 0])));
    // SAFETY: it is never freed.
    unsafe { libc::syscall(libc::SYS_rseq, area.0.as_mut_ptr(), 32, 0, 0x1234_5678) }
}

/// The calling thread gets a real-time priority. False: it may not.
fn be_first() -> bool {
    let some = libc::sched_param { sched_priority: 10 };
    // SAFETY: of the calling thread alone.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const some) == 0 }
}

fn is_first() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::sched_getscheduler(0) == libc::SCHED_FIFO }
}

fn be_last() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: of the calling thread alone.
    assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const none) }, 0);
}

/// What handlers count with.
static HANDLED: AtomicPtr<Counter> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn count_one(_: libc::c_int) {
    // SAFETY: it is leaked.
    unsafe { &*HANDLED.load(SeqCst) }.add(1);
}

/// New threads, whose first use of anything is in a handler that interrupts an allocation: it would wait for ever for a lock that
/// its own thread has.
fn first_in_a_handler() {
    const NEW: u64 = 300;
    let counter: &'static Counter = Box::leak(Box::new(Counter::new(Index::Cpu)));
    HANDLED.store(std::ptr::from_ref(counter).cast_mut(), SeqCst);
    // SAFETY: a handler that is called with this signal alone.
    unsafe { libc::signal(libc::SIGUSR1, count_one as *const () as usize) };
    for n in 0..NEW {
        // SAFETY: ends this process if this one hangs: all of them may take their time.
        unsafe { libc::alarm(30) };
        let (begun, over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|s| {
            let allocates = s.spawn(|| {
                let mut size = 4096;
                // SAFETY: asks for its name.
                begun.store(unsafe { libc::pthread_self() }, SeqCst);
                while !over.load(SeqCst) {
                    // Too large for what an allocator keeps for each thread.
                    drop(std::hint::black_box([vec![0_u8; size], vec![1; 2 * size]]));
                    size = size % 60_000 + 1024;
                }
                rseq::cpu().is_some()
            });
            while begun.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            (0..n * 50 % 3000).for_each(|_| std::hint::spin_loop());
            // SAFETY: the thread has not been joined.
            assert_eq!(unsafe { libc::pthread_kill(begun.load(SeqCst), libc::SIGUSR1) }, 0);
            while counter.sum() <= n {
                std::thread::yield_now();
            }
            over.store(true, SeqCst);
            // Where sequences are not used it needs none.
            assert!(allocates.join().unwrap() || !gate::sequences(), "the handler's thread has an area");
        });
    }
    assert_eq!(counter.sum(), NEW);
}

/// A handler that comes just before a thread registers its area registers it: it is there.
fn registered_before() {
    gate::verdict();
    let registers = || {
        let area = rseq::thread_pointer().wrapping_add_signed(rseq::offset());
        // SAFETY: this thread's own area, and what the thread read before the handler came.
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_rseq, area, 32, 0, rseq::SIGNATURE), 0);
            (*((area + rseq::CPU_ID) as *const AtomicU32)).store(u32::MAX, SeqCst);
        }
        // The kernel says where a thread is when it comes back to a processor: one that nobody takes off has to leave by itself.
        let told = || {
            std::thread::sleep(Duration::from_micros(1));
            rseq::cpu().is_some()
        };
        rseq::enter() && (0..1000).any(|_| told())
    };
    assert!((0..20).all(|_| std::thread::spawn(registers).join().unwrap()));
}

/// What a thread finds that asks first of all when its area has gone.
fn asked_last() -> Verdict {
    extern "C" fn ask(_: *mut c_void) {
        assert!(rseq::cpu().is_none() && !rseq::enter(), "it has gone, for good");
        gate::verdict();
    }
    let last = std::thread::spawn(|| {
        assert_eq!(rseq::prepare(), Area::Own);
        assert!(rseq::cpu().is_some() || rseq::enter());
        let mut key = 0;
        // SAFETY: a valid place; a value that nobody follows. Those that were made first are called first.
        unsafe {
            assert_eq!(libc::pthread_key_create(&raw mut key, Some(ask)), 0);
            assert_eq!(libc::pthread_setspecific(key, std::ptr::without_provenance(1)), 0);
        }
    });
    last.join().unwrap();
    gate::verdict()
}

fn another_in_one_thread() {
    gate::verdict();
    let other = std::thread::spawn(|| {
        assert_eq!(register_another(), 0);
        assert!(rseq::cpu().is_none() && !rseq::enter(), "this thread has no area of ours");
        count(1, EACH)
    });
    tell(count(THREADS - 1, EACH) + other.join().unwrap());
}

/// Children of forks that come while another thread decides: each has a verdict, of its parent or of its own.
fn forks() {
    let asks = std::thread::spawn(gate::verdict);
    let mut ended = Vec::new();
    for _ in 0..8 {
        // SAFETY: the child asks for the verdict, which takes no lock, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // The children are many, and all want the same processor: some may not see enough.
            let fine = matches!(gate::verdict(), Verdict::Proven { .. } | Verdict::Unproven);
            // SAFETY: ends this process.
            unsafe { libc::_exit(i32::from(!fine)) };
        }
        ended.push(child);
    }
    for child in ended {
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
    assert_eq!(asks.join().unwrap(), gate::verdict());
    tell(count(THREADS, EACH));
}

/// Whether there are sequences here at all; says so if not.
fn has_sequences(test: &str) -> bool {
    let proven = gate::verdict().is_proven();
    if !proven {
        not_tested(test, gate::verdict());
    }
    proven
}

fn all_of_it() -> String {
    (THREADS * EACH).to_string()
}

#[test]
#[ignore = "storm: the self-test must find the time for its verdict"]
fn the_librarys_area_is_used_if_it_has_one() {
    if !has_sequences("the_librarys_area_is_used_if_it_has_one") || rseq::prepare() != Area::Library {
        return;
    }
    assert_eq!(said(&mut child(&[], "plain")), ["Proven", "Library", &all_of_it(), "true"]);
}

#[test]
#[ignore = "storm: the self-test must find the time for its verdict"]
fn without_the_librarys_area_each_thread_has_one_of_its_own() {
    if !has_sequences("without_the_librarys_area_each_thread_has_one_of_its_own") {
        return;
    }
    let (name, value) = NO_AREA_OF_THE_LIBRARY;
    let wanted = ["Proven", "Own", &all_of_it(), "true"];
    assert_eq!(said(child(&[], "plain").env(name, value)), wanted);
    // The kernel would end the process if it found the area of a thread that has ended.
    assert_eq!(said(child(&[], "many threads").env(name, value)), wanted);
}

#[test]
#[ignore = "storm: the self-test must find the time for its verdict"]
fn one_processor_is_enough() {
    const TEST: &str = "one_processor_is_enough";
    if !has_sequences(TEST) {
        return;
    }
    let Some(confinement) = Confinement::new() else {
        return not_tested(TEST, "nobody can be confined to one processor here");
    };
    let all = said(child(&[], "confined").env(CONFINED, confinement.0.join("cgroup.procs")));
    if all[0] == "refused" {
        return not_tested(TEST, "a control group does not confine here");
    }
    assert_eq!(all, ["Proven", "3"]);
}

/// Where a child says that it is to be confined.
const CONFINED: &str = "CHAPPE_RAS_CONFINED";

/// A control group of one processor.
struct Confinement(PathBuf);

impl Confinement {
    fn new() -> Option<Confinement> {
        let name = format!("chappe-ras-{}", std::process::id());
        let group = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"].iter().find_map(|parent| {
            let group = Confinement(Path::new(parent).join(&name));
            std::fs::create_dir(&group.0).ok()?;
            group.0.join("cpuset.cpus").exists().then_some(group)
        })?;
        let one = topology::allowed().ok()?[0].to_string();
        std::fs::write(group.0.join("cpuset.cpus"), one).ok()?;
        // The first version wants to be told, the second need not.
        let _ = std::fs::write(group.0.join("cpuset.mems"), "0");
        Some(group)
    }
}

impl Drop for Confinement {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Though the thread that asks is kept to one processor: those of its process that are elsewhere are not.
#[test]
#[ignore = "storm: the self-test must find the time for its verdict"]
fn the_fence_is_tried_wherever_the_process_may_run() {
    const TEST: &str = "the_fence_is_tried_wherever_the_process_may_run";
    if !has_sequences(TEST) || topology::allowed().unwrap().len() < 2 {
        return not_tested(TEST, "it takes sequences and two processors");
    }
    let all = said(&mut child(&[], "one processor"));
    assert!(all[0] == "Proven" && all[1].parse::<u32>().unwrap() >= 9, "{all:?}");
    assert_eq!(said(&mut child(&[], "one processor and a fence that is none"))[0], "Broken");
}

#[test]
#[ignore = "storm: the self-test must find the time for its verdict"]
fn a_caller_of_real_time_priority_has_a_verdict() {
    const TEST: &str = "a_caller_of_real_time_priority_has_a_verdict";
    if !has_sequences(TEST) {
        return;
    }
    let all = said_by(&mut child(&[], "real time"), 3);
    if all[0] == "refused" {
        return not_tested(TEST, "no thread may have such a priority here");
    }
    assert_eq!((&all[0][..], &all[2]), ("Proven", &all_of_it()));
}

/// In a child that has areas of its own.
#[track_caller]
fn with_own_areas(test: &str, part: &str) -> Option<Vec<String>> {
    let (name, value) = NO_AREA_OF_THE_LIBRARY;
    has_sequences(test).then(|| said(child(&[], part).env(name, value)))
}

#[test]
#[ignore = "storm: signals that race allocations"]
fn a_thread_that_is_new_in_a_handler_gets_its_area_whatever_was_interrupted() {
    let test = "a_thread_that_is_new_in_a_handler_gets_its_area_whatever_was_interrupted";
    let Some(all) = with_own_areas(test, "first in a handler") else { return };
    assert_eq!(all, ["Proven", "Own", &all_of_it(), "true"]);
}

#[test]
#[ignore = "storm: the self-test must find the time for its verdict"]
fn an_area_registered_in_a_handler_stays_registered() {
    let Some(all) = with_own_areas("an_area_registered_in_a_handler_stays_registered", "registered before") else {
        return;
    };
    assert_eq!(all, ["Proven", "Own", &all_of_it(), "true"]);
}

#[test]
#[ignore = "storm: the self-test must find the time for its verdict"]
fn a_verdict_asked_for_after_the_area_is_gone_is_given() {
    let test = "a_verdict_asked_for_after_the_area_is_gone_is_given";
    let Some(all) = with_own_areas(test, "asked last") else { return };
    assert_eq!(all, ["Proven"]);
}

#[test]
#[ignore = "storm: forks that race the self-test"]
fn a_forked_child_has_a_verdict() {
    if !has_sequences("a_forked_child_has_a_verdict") {
        return;
    }
    for _ in 0..5 {
        assert_eq!(said(&mut child(&[], "forks"))[0], "Proven");
    }
}

#[test]
fn without_rseq_all_falls_back() {
    let (name, value) = NO_AREA_OF_THE_LIBRARY;
    let wanted = ["NoArea(38)", "None(38)", &all_of_it(), "true"];
    assert_eq!(said(child(&[], "no rseq").env(name, value)), wanted);
}

#[test]
fn without_the_fence_all_falls_back_though_there_is_an_area() {
    if !has_sequences("without_the_fence_all_falls_back_though_there_is_an_area") {
        return;
    }
    let wanted = ["NoFence(38)", "NoFence(38)", &all_of_it(), "true"];
    assert_eq!(said(&mut child(&[], "no membarrier")), wanted);
    let (name, value) = NO_AREA_OF_THE_LIBRARY;
    assert_eq!(said(child(&[], "no membarrier").env(name, value)), wanted);
}

#[test]
#[ignore = "storm: the self-test must find the time for its verdict"]
fn a_filter_that_comes_later_harms_nothing() {
    if !has_sequences("a_filter_that_comes_later_harms_nothing") {
        return;
    }
    let all = said(&mut child(&[], "membarrier later"));
    assert_eq!((&all[0][..], &all[2]), ("Proven", &((2 * THREADS + 1) * EACH).to_string()));
}

#[test]
#[ignore = "storm: the self-test must find the time for its verdict"]
fn an_area_that_another_library_registered_is_left_alone() {
    if !has_sequences("an_area_that_another_library_registered_is_left_alone") {
        return;
    }
    let (name, value) = NO_AREA_OF_THE_LIBRARY;
    let wanted = format!("NoArea({})", libc::EINVAL);
    let all = said(child(&[], "somebody else's").env(name, value));
    assert_eq!(all, [&wanted, &wanted.replace("NoArea", "None"), &all_of_it(), "true"]);
    // Of one thread: it alone goes without.
    let all = said(child(&[], "somebody else's in one thread").env(name, value));
    assert_eq!(all, ["Proven", "Own", &all_of_it(), "true"]);
}

#[test]
fn the_environment_switches_off() {
    let all = said(child(&[], "plain").env("CHAPPE_SEQUENCES", "off"));
    assert_eq!((all[0].as_str(), &all[2], all[3].as_str()), ("SwitchedOff", &all_of_it(), "true"));
    let all = said(child(&[], "plain").env("CHAPPE_BIAS", "off"));
    assert_eq!((&all[2], all[3].as_str()), (&all_of_it(), "false"));
    assert_ne!(all[0], "SwitchedOff");
}

#[test]
#[ignore = "storm: valgrind takes its time"]
fn under_valgrind_all_falls_back() {
    if std::env::var_os(EMULATOR).is_some() {
        return not_tested("under_valgrind_all_falls_back", "this is in an emulator already");
    }
    if !has("valgrind") {
        not_tested("under_valgrind_all_falls_back", "valgrind is not installed");
        return;
    }
    let all = said(&mut child(&["valgrind", "-q", "--error-exitcode=9"], "few"));
    assert_eq!((&all[0], &all[2][..]), (&"NoArea(38)".to_owned(), "400"));
}

#[test]
fn in_an_emulator_all_falls_back() {
    if std::env::var_os(EMULATOR).is_some() {
        let all = said(&mut child(&[], "few"));
        assert_eq!((&all[0], &all[2][..]), (&"NoArea(38)".to_owned(), "400"));
        return;
    }
    let emulator = format!("qemu-{}", std::env::consts::ARCH);
    if !has(&emulator) {
        not_tested("in_an_emulator_all_falls_back", format_args!("{emulator} is not installed"));
        return;
    }
    let all = said(&mut child(&[&emulator], "few"));
    assert_eq!((&all[0], &all[2][..]), (&"NoArea(38)".to_owned(), "400"));
}
