//! Error traps of light threads: each runs its thread's handler, which mends the cause or ends the thread alone; what the thread held comes back.
//! Where no handler takes it, the process ends as it would have, and the report names the thread.
#![cfg(target_arch = "x86_64")]

use chappe_sync::{Barrier, LockError, Mutex, Pool, RwLock};
use chappe_thread::{
    AfterTrap, Builder, JoinHandle, Runtime, Trap, TrapKind, block_in_place, current, set_trap, spawn, yield_now,
};
use std::hint::black_box;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};

/// No memory is there.
const NOWHERE: usize = 0x1238;

fn touch(address: usize) {
    // SAFETY: what it does is what is tried; the tests' threads hold nothing that others rely on.
    unsafe { black_box(address as *mut u8).write_volatile(1) };
}

fn divide() {
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("xor ecx, ecx", "div ecx", out("ecx") _, inout("eax") 1 => _, inout("edx") 0 => _);
    }
}

fn no_instruction() {
    // SAFETY: as above.
    unsafe { std::arch::asm!("ud2") };
}

#[inline(never)]
fn dig(depth: u64) -> u64 {
    let room = black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { dig(depth + 1) + room[3] }
}

/// A page, of a file that is shorter if it has a length of 0, or that may not be written.
fn page(protection: i32, of_a_file: bool) -> usize {
    // SAFETY: a new mapping.
    unsafe {
        let file = if of_a_file { libc::memfd_create(c"short".as_ptr(), 0) } else { -1 };
        let flags = if of_a_file { libc::MAP_SHARED } else { libc::MAP_PRIVATE | libc::MAP_ANONYMOUS };
        let at = libc::mmap(std::ptr::null_mut(), 4096, protection, flags, file, 0);
        assert_ne!(at, libc::MAP_FAILED);
        at as usize
    }
}

fn ends() {
    // SAFETY: nothing refers to the frames of the tests' threads.
    unsafe { set_trap(|_| AfterTrap::End) };
}

fn trap_of<T>(thread: JoinHandle<T>) -> Trap {
    match thread.join() {
        Ok(_) => panic!("it has ended by itself"),
        Err(why) => *why.downcast::<Trap>().expect("a trap"),
    }
}

/// The kind of a trap, its address if that is known, and what is trapped.
type Case = (TrapKind, Option<usize>, fn(usize));

/// The mask of signals, and the floating-point modes without the exceptions that were met.
fn surroundings() -> (u64, u32) {
    let (mut mask, mut modes) = (0u64, 0u32);
    // SAFETY: writes these words; the C library's set is longer.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set);
        (&raw mut mask).copy_from((&raw const set).cast(), 1);
        std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut modes);
    }
    (mask, modes & !0x3f)
}

#[test]
fn each_error_trap_ends_its_thread_alone() {
    let short = page(libc::PROT_READ | libc::PROT_WRITE, true);
    let (tx, rx) = chappe_sync::tube::bounded(1);
    Runtime::new(1).unwrap().run(move || {
        // Rounding down, which the thread that ends has not asked for.
        let down = 0x3f80u32;
        // SAFETY: a mode of the processor.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const down) };
        let before = surroundings();
        let other = spawn(move || rx.recv());
        yield_now();
        let kinds: [Case; 4] = [
            (TrapKind::Arithmetic, None, |_| divide()),
            (TrapKind::Memory, Some(NOWHERE), |_| touch(NOWHERE)),
            (TrapKind::Bus, Some(short), touch),
            (TrapKind::Instruction, None, |_| no_instruction()),
        ];
        for (kind, address, act) in kinds {
            let trap = trap_of(spawn(move || {
                ends();
                act(short);
            }));
            assert_eq!((trap.kind, trap.used_up), (kind, None));
            assert_eq!(trap.address, address.unwrap_or(trap.instruction), "{trap}");
            assert_eq!(surroundings(), before, "{trap}");
        }
        let trap = trap_of(
            Builder::new()
                .stack_size(32 * 1024)
                .spawn(|| {
                    ends();
                    dig(0)
                })
                .unwrap(),
        );
        assert_eq!((trap.kind, trap.used_up), (TrapKind::Memory, Some(32 * 1024)));
        // The others have not noticed, and neither have those that are still to come.
        tx.send(5).unwrap();
        assert_eq!(other.join().unwrap(), Ok(5));
        assert_eq!(spawn(|| 6).join().unwrap(), 6);
        assert_eq!(surroundings(), before);
    });
}

#[test]
fn a_thread_that_nobody_joins_ends_by_a_trap_as_well_and_its_stack_is_nobody_elses() {
    Runtime::new(1).unwrap().run(|| {
        let place = Arc::new(AtomicUsize::new(0));
        let its = Arc::clone(&place);
        drop(spawn(move || {
            ends();
            let mine = black_box(17u64);
            its.store(&raw const mine as usize, SeqCst);
            touch(NOWHERE);
        }));
        yield_now();
        for _ in 0..10 {
            assert_eq!(spawn(|| black_box([1u64; 256])[3]).join().unwrap(), 1);
        }
        // SAFETY: its stack is never given back.
        assert_eq!(unsafe { (place.load(SeqCst) as *const u64).read_volatile() }, 17);
        // What it was given stays with it.
        assert_eq!(Arc::strong_count(&place), 2);
    });
}

#[test]
fn a_cause_that_the_handler_mends_is_met_once() {
    static TRAPS: AtomicU32 = AtomicU32::new(0);
    Runtime::new(1).unwrap().run(|| {
        let at = page(libc::PROT_READ, false);
        let writes = spawn(move || {
            let mend = move |trap: &Trap| {
                TRAPS.fetch_add(1, SeqCst);
                assert_eq!((trap.kind, trap.address), (TrapKind::Memory, at + 8));
                // SAFETY: our own page.
                assert_eq!(unsafe { libc::mprotect(at as *mut _, 4096, libc::PROT_READ | libc::PROT_WRITE) }, 0);
                AfterTrap::Again
            };
            // SAFETY: it ends no thread.
            unsafe { set_trap(mend) };
            let float = black_box(1.5f64);
            touch(at + 8);
            touch(at + 8);
            float * 2.0
        });
        assert_eq!(writes.join().unwrap(), 3.0);
        assert_eq!(TRAPS.load(SeqCst), 1);
        // SAFETY: our own page.
        assert_eq!(unsafe { ((at + 8) as *const u8).read_volatile() }, 1);
    });
}

#[test]
fn a_trapped_threads_permit_returns_and_its_mutex_says_owner_died() {
    Runtime::new(1).unwrap().run(|| {
        let mutex = Arc::new(Mutex::private(0u32).unwrap());
        let pool = Arc::new(Pool::private(1).unwrap());
        let (its, permits) = (Arc::clone(&mutex), Arc::clone(&pool));
        let holds = spawn(move || {
            ends();
            let _permit = permits.acquire().unwrap();
            let mut guard = its.lock().unwrap();
            *guard = 7;
            yield_now();
            touch(NOWHERE);
        });
        let (its, permits) = (Arc::clone(&mutex), Arc::clone(&pool));
        let waits = spawn(move || {
            drop(permits.acquire().unwrap());
            match its.lock() {
                Err(LockError::OwnerDied(guard)) => *guard,
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(trap_of(holds).address, NOWHERE);
        assert_eq!(waits.join().unwrap(), 7);
        drop(pool.try_acquire().unwrap());
    });
}

/// The member of a thread that has died is nobody else's: what it had begun is seen by nobody as his own.
#[test]
fn a_trapped_threads_member_dies_and_serves_no_other_thread() {
    Runtime::new(1).unwrap().run(|| {
        let (lock, barrier) = (Arc::new(RwLock::private(1u32).unwrap()), Arc::new(Barrier::private(2).unwrap()));
        for writes in [false, true] {
            let its = Arc::clone(&lock);
            let holds = spawn(move || {
                ends();
                let _guards = if writes { (None, its.write().ok()) } else { (its.read().ok(), None) };
                touch(NOWHERE);
            });
            assert_eq!(trap_of(holds).address, NOWHERE);
            let its = Arc::clone(&lock);
            let next = spawn(move || match its.try_write() {
                Ok(guard) => *guard,
                Err(chappe_sync::RwLockError::OwnerDied(guard)) if writes => *guard,
                Err(e) => panic!("{e}"),
            });
            assert_eq!(next.join().unwrap(), 1);
        }
        let its = Arc::clone(&barrier);
        let arrives = spawn(move || {
            ends();
            let _arrival = its.arrive().unwrap();
            touch(NOWHERE);
        });
        assert_eq!(trap_of(arrives).address, NOWHERE);
        let its = Arc::clone(&barrier);
        assert!(!spawn(move || its.arrive().unwrap().is_over()).join().unwrap());
    });
}

#[test]
fn more_threads_die_than_have_attachments() {
    Runtime::new(1).unwrap().run(|| {
        let pool = Arc::new(Pool::private(1).unwrap());
        for _ in 0..5_000 {
            let its = Arc::clone(&pool);
            let holds = spawn(move || {
                ends();
                let _permit = its.acquire().unwrap();
                touch(NOWHERE);
            });
            assert_eq!(trap_of(holds).address, NOWHERE);
        }
        drop(pool.try_acquire().unwrap());
    });
}

const WHAT: &str = "CHAPPE_TEST_TRAP";

fn in_a_process(what: &str) -> Output {
    let me = std::env::current_exe().unwrap();
    Command::new(me).args(["--exact", "body", "--nocapture", "--test-threads=1"]).env(WHAT, what).output().unwrap()
}

static HEARD: AtomicUsize = AtomicUsize::new(0);

extern "C" fn programs_own(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's; the instruction is "mov byte ptr [...], 1" of `touch`, and is passed over.
    unsafe {
        HEARD.store((*info).si_addr() as usize, SeqCst);
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        registers[libc::REG_RIP as usize] = AFTER.load(SeqCst) as i64;
    }
}

static AFTER: AtomicUsize = AtomicUsize::new(0);

/// A write whose successor is known.
fn touch_and_pass_over(address: usize) {
    // SAFETY: the handler goes on behind it.
    unsafe {
        std::arch::asm!("lea {after}, [rip + 2f]", "mov [{place}], {after}", "mov byte ptr [{at}], 1", "2:",
            after = out(reg) _, place = in(reg) AFTER.as_ptr(), at = in(reg) address);
    }
}

/// Goes down until so many bytes are left, then acts.
#[inline(never)]
fn act_at(end: usize, act: fn()) -> u8 {
    let pad = black_box([0u8; 32]);
    if &raw const pad as usize > end { act_at(end, act) + pad[0] } else { (act(), pad[3]).1 }
}

const STACK: usize = 64 * 1024;

/// Acts in threads that have ever more of their stack left, until one cannot be ended.
fn used_up_in(act: fn()) {
    used_up(0, act, |_| ());
}

fn used_up(first: usize, act: fn(), then: impl Fn(usize)) {
    for left in (first..STACK / 4).step_by(48) {
        let thread = Builder::new().stack_size(STACK).name("faulty").spawn(move || {
            ends();
            let top = black_box(0u8);
            act_at(&raw const top as usize - STACK + left, act);
        });
        drop(thread.unwrap().join());
        then(left);
    }
}

/// Says how far it has come. A thread that ends has kept no other from making objects of the same arena.
fn creates() {
    let first = std::env::var("CHAPPE_TEST_FROM").unwrap().parse().unwrap();
    drop(Pool::open_or_create("first", 1));
    // SAFETY: ends this process if a thread waits for what another has left locked.
    unsafe { libc::alarm(30) };
    let act = || drop(Barrier::open_or_create("second", 2).map(|second| drop(second.join())));
    used_up(first, act, |left| {
        let _ = Barrier::remove("second", true);
        std::thread::spawn(|| Pool::create("third", 1).map(drop).and_then(|()| Pool::remove("third", true)))
            .join()
            .unwrap()
            .unwrap();
        println!("> {left}");
    });
}

/// A party of a named barrier that dies between two rounds is missed, as one that was killed.
fn between_rounds() {
    let barrier = Barrier::create("b", 2).unwrap();
    barrier.join().unwrap();
    let dies = spawn(|| {
        ends();
        let barrier = Barrier::open("b").unwrap();
        barrier.join().unwrap();
        touch(NOWHERE);
    });
    assert_eq!(trap_of(dies).address, NOWHERE);
    let turned = barrier.wait_timeout(std::time::Duration::from_secs(30));
    println!("> {turned:?}");
}

fn one_thread(handler: Option<fn(&Trap) -> AfterTrap>, act: fn()) {
    let thread = Builder::new().name("faulty").spawn(move || {
        if let Some(handler) = handler {
            // SAFETY: nothing refers to the frames of this thread.
            unsafe { set_trap(handler) };
        }
        act();
    });
    drop(thread.unwrap().join());
}

/// What the others run, in a process of their own.
#[test]
fn body() {
    match std::env::var(WHAT).as_deref() {
        Ok("kernel thread") => {
            spawn(|| ()).join().unwrap();
            std::thread::spawn(|| touch(NOWHERE)).join().unwrap();
        }
        Ok("kernel thread's stack") => {
            spawn(|| ()).join().unwrap();
            drop(std::thread::Builder::new().name("deep".into()).spawn(|| dig(0)).unwrap().join());
        }
        Ok("no handler") => one_thread(None, || touch(NOWHERE)),
        Ok("passed") => one_thread(Some(|_| AfterTrap::Pass), divide),
        Ok("trap inside") => one_thread(
            Some(|_| {
                divide();
                AfterTrap::Again
            }),
            || touch(NOWHERE),
        ),
        Ok("waits inside") => one_thread(
            Some(|_| {
                chappe_thread::park();
                AfterTrap::Again
            }),
            || touch(NOWHERE),
        ),
        Ok("away") => one_thread(Some(|_| AfterTrap::End), || block_in_place(no_instruction)),
        Ok("interrupt") => one_thread(Some(|_| AfterTrap::End), || {
            current().interrupt(divide).unwrap();
            yield_now();
        }),
        Ok("another stack") => one_thread(Some(|_| AfterTrap::End), || {
            extern "C" fn faulty(_: i32) {
                touch(NOWHERE);
            }
            // SAFETY: a handler on the stack for handlers.
            unsafe {
                let mut action = std::mem::zeroed::<libc::sigaction>();
                action.sa_sigaction = faulty as *const () as usize;
                action.sa_flags = libc::SA_ONSTACK;
                libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
                let mut own = std::mem::zeroed::<libc::sigset_t>();
                libc::sigaddset(&raw mut own, libc::SIGUSR1);
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const own, std::ptr::null_mut());
                libc::raise(libc::SIGUSR1);
            }
        }),
        Ok(sent) if sent.starts_with("sent ") => {
            spawn(|| ()).join().unwrap();
            // SAFETY: to this process.
            unsafe { libc::raise(sent["sent ".len()..].parse().unwrap()) };
        }
        // SAFETY: it is freed at once.
        Ok("allocates") => used_up_in(|| unsafe { libc::free(black_box(libc::malloc(100_000))) }),
        Ok("creates") => creates(),
        Ok("between rounds") => between_rounds(),
        Ok("locks") => used_up_in(|| drop(Pool::private(1).unwrap().acquire().unwrap())),
        Ok("program's own handler") => {
            // SAFETY: the action is whole.
            unsafe {
                let mut action = std::mem::zeroed::<libc::sigaction>();
                action.sa_sigaction = programs_own as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
            }
            one_thread(None, || {
                touch_and_pass_over(NOWHERE);
                assert_eq!(HEARD.swap(0, SeqCst), NOWHERE);
            });
            std::thread::spawn(|| touch_and_pass_over(NOWHERE + 1)).join().unwrap();
            assert_eq!(HEARD.swap(0, SeqCst), NOWHERE + 1);
            // One that has a handler does not come there.
            one_thread(Some(|_| AfterTrap::End), || touch_and_pass_over(NOWHERE));
            assert_eq!(HEARD.load(SeqCst), 0);
            std::process::exit(0);
        }
        _ => {}
    }
}

#[test]
fn a_trap_that_no_handler_takes_ends_the_process_and_names_the_thread() {
    use std::os::unix::process::ExitStatusExt;
    let named = "(faulty) got ";
    let segv = "(faulty) got SIGSEGV at address 0x1238 in the instruction at 0x";
    let cases = [
        ("no handler", libc::SIGSEGV, segv, ""),
        ("passed", libc::SIGFPE, "(faulty) got SIGFPE in the instruction at 0x", ""),
        ("trap inside", libc::SIGFPE, "(faulty) got SIGFPE", "inside of its handler of traps"),
        ("waits inside", libc::SIGSEGV, segv, "an interrupt of a light thread must not wait"),
        ("away", libc::SIGILL, "(faulty) got SIGILL", "cannot be ended within block_in_place"),
        ("interrupt", libc::SIGFPE, "(faulty) got SIGFPE", "cannot be ended in an interrupt"),
        ("another stack", libc::SIGSEGV, segv, "on another stack"),
    ];
    std::thread::scope(|scope| {
        for (what, signal, first, second) in cases {
            scope.spawn(move || {
                let output = in_a_process(what);
                let said = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.signal(), Some(signal), "{what}: {said}");
                assert!(said.contains(first) && said.contains(second), "{what}: {said}");
                assert_eq!(said.matches(named).count(), 1, "{what}: {said}");
            });
        }
    });
}

#[test]
fn a_stack_used_up_where_locks_are_held_ends_the_process_and_not_the_thread() {
    use std::os::unix::process::ExitStatusExt;
    for (what, why) in [("allocates", "within the C library"), ("locks", "cannot be ended")] {
        let output = in_a_process(what);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{what}: {said}");
        assert!(said.contains("has used up its stack") && said.contains(why), "{what}: {said}");
    }
}

/// A directory for arenas, removed afterwards.
struct House(std::path::PathBuf);

impl House {
    fn new(name: &str) -> House {
        let path = format!("/dev/shm/chappe-test-traps-{name}-{}", std::process::id()).into();
        std::fs::create_dir(&path).unwrap();
        House(path)
    }

    fn run(&self, what: &str, from: usize) -> (Output, String) {
        let me = std::env::current_exe().unwrap();
        let mut it = Command::new(me);
        it.args(["--exact", "body", "--nocapture", "--test-threads=1"]).env(WHAT, what).env("CHAPPE_DIR", &self.0);
        let output = it.env("CHAPPE_TEST_FROM", from.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output, said)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_stack_used_up_at_any_depth_leaves_no_lock_of_an_arena_behind() {
    use std::os::unix::process::ExitStatusExt;
    let house = House::new("creates");
    let mut from = 0;
    loop {
        let (output, said) = house.run("creates", from);
        let last = said.lines().filter_map(|line| line.split_once("> ")?.1.parse::<usize>().ok()).next_back();
        if output.status.success() {
            break;
        }
        // It ends as a whole where the thread has a lock, and only so.
        let why = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "from {from}, last {last:?}: {why}");
        assert!(why.contains("cannot be ended"), "from {from}, last {last:?}: {why}");
        from = last.map_or(from, |last| last + 48) + 48;
    }
}

#[test]
fn a_party_that_is_trapped_between_two_rounds_is_missed() {
    let (output, said) = House::new("between").run("between rounds", 0);
    assert!(output.status.success() && said.contains("PartyDied"), "{said}");
}

#[test]
fn a_trap_that_is_no_light_threads_goes_where_it_went() {
    use std::os::unix::process::ExitStatusExt;
    for (what, signal, words) in [
        ("kernel thread", Some(libc::SIGSEGV), ""),
        ("kernel thread's stack", Some(libc::SIGABRT), "thread 'deep'"),
        ("sent 8", Some(libc::SIGFPE), ""),
        ("sent 11", Some(libc::SIGSEGV), ""),
        ("sent 7", Some(libc::SIGBUS), ""),
        ("sent 4", Some(libc::SIGILL), ""),
        ("program's own handler", None, ""),
    ] {
        let output = in_a_process(what);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), signal, "{what}: {said}");
        assert!(said.contains(words) && !said.contains("light thread"), "{what}: {said}");
        assert!(signal.is_some() || output.status.success(), "{what}: {said}");
    }
}

/// Go makes a panic of a trap in its own code, which `recover` ends, and ends the process at a stack that is used up.
#[test]
#[ignore = "peer: builds a program in Go"]
fn go_recovers_from_a_nil_pointer_and_not_from_a_stack_that_is_used_up() {
    let home = std::env::temp_dir().join(format!("chappe-traps-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    let source = home.join("traps.go");
    let program = r#"package main
import ("fmt"; "os")
func dig(n int) int { return dig(n+1) + n }
func main() {
	done := make(chan any)
	go func() {
		defer func() { done <- recover() }()
		if len(os.Args) > 1 { fmt.Println(dig(0)) }
		var p *int
		*p = 1
	}()
	fmt.Println("went on after:", <-done)
}
"#;
    std::fs::write(&source, program).unwrap();
    let run = |arguments: &[&str]| {
        let mut go = Command::new("go");
        go.arg("run").arg(&source).args(arguments).env("GOCACHE", home.join("cache"));
        go.output().inspect_err(|why| eprintln!("not tried: go: {why}")).ok()
    };
    if let (Some(nil), Some(deep)) = (run(&[]), run(&["deep"])) {
        let said = String::from_utf8_lossy(&nil.stdout);
        assert!(said.contains("went on after: runtime error: invalid memory address"), "{said}");
        let said = String::from_utf8_lossy(&deep.stderr);
        assert!(!deep.status.success() && said.contains("stack overflow"), "{said}");
    }
    std::fs::remove_dir_all(home).unwrap();
}
