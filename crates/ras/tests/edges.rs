//! What operations answer where they cannot do what they are for: closed slots, a refused fence, single steps, threads that are
//! new.

#![cfg(not(feature = "sim"))]

use chappe_plat::topology;
use chappe_ras::sequence::{Link, Outcome};
use chappe_ras::{Counter, FreeList, Index, PairCounter, PerCpu, SeizeError, gate};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Whether there are sections here; else says that the test is none.
fn sections(test: &str) -> bool {
    let there = gate::sequences();
    if !there {
        println!("not tested: {test}: no sequences here");
    }
    there
}

/// On another thread, which runs on that processor only.
fn on<R: Send>(cpu: u32, work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|s| {
        let work = || {
            topology::allow(&[cpu]).expect("it is allowed");
            work()
        };
        s.spawn(work).join().expect("it does not fail")
    })
}

/// Two processors, or says that the test is none.
fn two_processors(test: &str) -> Option<(u32, u32)> {
    match topology::allowed().expect("the kernel tells")[..] {
        [a, b, ..] => Some((a, b)),
        _ => {
            println!("not tested: {test}: one processor only");
            None
        }
    }
}

/// A section may be aborted at any time: until it says something else.
fn until_it_runs<T, R: PartialEq>(words: &PerCpu<T>, section: impl Fn() -> Outcome<R>) -> Outcome<R> {
    assert!(!words.is_empty());
    loop {
        let outcome = section();
        if outcome != Outcome::Aborted {
            return outcome;
        }
    }
}

struct Log {
    length: AtomicU64,
    words: [AtomicU64; 4],
}

#[repr(C)]
struct Node(Link);

#[test]
fn each_operation_does_what_its_line_says() {
    if !sections("each_operation_does_what_its_line_says") {
        return;
    }
    on(topology::allowed().expect("the kernel tells")[0], one_after_the_other);
}

/// On one processor, whose slot stays the same.
fn one_after_the_other() {
    let words = PerCpu::new(Index::Cpu, || AtomicU64::new(7));
    // SAFETY: only this thread writes.
    let swap = |old, new| words.attempt(|h, s| unsafe { h.compare_store(s.owner(), s.value(), old, new) });
    // SAFETY: as above.
    let add = |n| words.attempt(|h, s| unsafe { h.add(s.owner(), s.value(), n) });
    // SAFETY: as above.
    let fetch = |new| words.attempt(|h, s| unsafe { h.fetch(s.owner(), s.value(), new) });
    assert_eq!(until_it_runs(&words, || swap(8, 1)), Outcome::Differs);
    assert_eq!(until_it_runs(&words, || swap(7, u64::MAX)), Outcome::Done(()));
    assert_eq!(until_it_runs(&words, || add(4)), Outcome::Done(()));
    assert_eq!(until_it_runs(&words, || fetch(9)), Outcome::Done(3));
    assert_eq!(until_it_runs(&words, || fetch(7)), Outcome::Done(9));

    let (a, b) = (Node(Link::new()), Node(Link::new()));
    let lists = PerCpu::new(Index::Cpu, || AtomicU64::new(0));
    // SAFETY: as above; the nodes stay.
    let push = |n: &Node| lists.attempt(|h, s| unsafe { h.push(s.owner(), s.value(), n.0.address(), n.0.address()) });
    // SAFETY: as above.
    let pop = || lists.attempt(|h, s| unsafe { h.pop(s.owner(), s.value()) });
    assert_eq!(until_it_runs(&lists, pop), Outcome::Differs);
    assert_eq!(until_it_runs(&lists, || push(&a)), Outcome::Done(()));
    assert_eq!(until_it_runs(&lists, || push(&b)), Outcome::Done(()));
    assert_eq!(until_it_runs(&lists, pop), Outcome::Done(b.0.address()));
    assert_eq!(until_it_runs(&lists, pop), Outcome::Done(a.0.address()));
    assert_eq!(until_it_runs(&lists, pop), Outcome::Differs);

    let logs = PerCpu::new(Index::Cpu, || Log { length: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; 4] });
    // SAFETY: as above.
    let copy = |w: &[u64]| logs.attempt(|h, s| unsafe { h.copy(s.owner(), &s.value().length, &s.value().words, w) });
    assert_eq!(until_it_runs(&logs, || copy(&[1, 2, 3])), Outcome::Done(()));
    assert_eq!(until_it_runs(&logs, || copy(&[4, 5])), Outcome::Differs);
    assert_eq!(until_it_runs(&logs, || copy(&[])), Outcome::Done(()));
    assert_eq!(until_it_runs(&logs, || copy(&[4])), Outcome::Done(()));
    let log = logs.value(logs.here().expect("there is a slot"));
    assert_eq!(log.length.load(SeqCst), 4);
    assert_eq!([0, 1, 2, 3].map(|n: usize| log.words[n].load(SeqCst)), [1, 2, 3, 4]);
}

#[test]
fn a_thread_that_finds_its_slot_seized_loses_nothing() {
    if !sections("a_thread_that_finds_its_slot_seized_loses_nothing") {
        return;
    }
    let words = PerCpu::new(Index::Cpu, || AtomicU64::new(0));
    // SAFETY: as said: sections only.
    let add = || words.attempt(|h, s| unsafe { h.add(s.owner(), s.value(), 1) });
    let seized: Vec<_> = (0..words.len()).map(|slot| words.seize(slot).expect("nobody has it")).collect();
    assert_eq!(add(), Outcome::Moved);
    assert_eq!(words.seize(0).err(), Some(SeizeError::Busy));
    assert_eq!(seized.iter().map(|s| s.load(SeqCst)).sum::<u64>(), 0);
    drop(seized);
    assert_eq!(until_it_runs(&words, add), Outcome::Done(()));
}

#[test]
fn a_thread_that_is_new_needs_nothing_to_begin_with() {
    let counter = Counter::new(Index::ConcurrencyId);
    std::thread::scope(|s| (0..8).for_each(|_| _ = s.spawn(|| (0..1000).for_each(|_| counter.add(1)))));
    assert_eq!(counter.sum(), 8000);
    assert_eq!(counter.drain(), Ok(8000));
    assert_eq!(counter.sum(), 0);
}

#[test]
fn a_node_given_back_on_another_processor_is_found() {
    let name = "a_node_given_back_on_another_processor_is_found";
    let Some((a, b)) = two_processors(name) else { return };
    for index in [Index::Cpu, Index::ConcurrencyId] {
        let list = FreeList::new(index, 5, || ());
        on(a, || drop([0; 5].map(|_| list.take().expect("all are free"))));
        on(b, || {
            let all = [0; 5].map(|_| list.take().expect("all are free"));
            assert!(list.take().is_none());
            drop(all);
        });
        on(a, || assert_eq!(std::iter::from_fn(|| list.take()).map(std::mem::forget).count(), 5));
    }
}

/// The kernel refuses membarrier to this thread from now on.
fn refuse_the_fence() {
    answer_the_fence(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
}

fn answer_the_fence(by: u32) {
    let code = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let is_it =
        libc::sock_filter { jf: 1, ..code((libc::BPF_JMP | libc::BPF_JEQ) as u16, libc::SYS_membarrier as u32) };
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut filter = [
        code((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0),
        is_it,
        code(answer, by),
        code(answer, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program lives until the call returns; it binds this thread alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program), 0);
    }
}

#[test]
fn a_refused_fence_loses_nothing() {
    let name = "a_refused_fence_loses_nothing";
    let Some((a, b)) = two_processors(name) else { return };
    if !sections(name) {
        return;
    }
    let (counter, list) = (Counter::new(Index::Cpu), FreeList::new(Index::Cpu, 1, || ()));
    // On `b` what is drained before the fence is refused; on `a` what the fence would be for.
    on(b, || counter.add(2));
    on(a, || {
        counter.add(5);
        drop(list.take().expect("it is free"));
    });
    on(b, || {
        refuse_the_fence();
        assert_eq!(counter.drain(), Err(SeizeError::Refused));
        assert_eq!(counter.sum(), 7, "what was drained before is put back");
        assert!(list.take().is_none(), "it lies where only that processor's sections may take it");
        counter.add(1);
    });
    on(b, || {
        assert_eq!(counter.drain(), Ok(8));
        assert!(list.take().is_some());
    });
}

/// How often the calling thread's fence was refused.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Refuses it, as if there were no such system call, and counts.
#[cfg(target_arch = "x86_64")]
extern "C" fn refuse_and_count(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    REFUSED.fetch_add(1, SeqCst);
    // SAFETY: what the kernel has saved of the thread, which goes on with it.
    unsafe {
        (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RAX as usize] = -i64::from(libc::ENOSYS)
    };
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_refused_fence_is_asked_for_once_a_call() {
    let name = "a_refused_fence_is_asked_for_once_a_call";
    let Some((a, b)) = two_processors(name) else { return };
    if !sections(name) {
        return;
    }
    let list = FreeList::new(Index::Cpu, 1, || ());
    on(a, || drop(list.take().expect("it is free")));
    on(b, || {
        // SAFETY: plain data, and a handler that may run anywhere.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = refuse_and_count as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()), 0);
        }
        answer_the_fence(libc::SECCOMP_RET_TRAP);
        for asked in 1..=10 {
            assert!(list.take().is_none(), "it lies where only that processor's sections may take it");
            assert_eq!(REFUSED.load(SeqCst), asked, "once each time");
        }
    });
    on(a, || assert!(list.take().is_some()));
}

/// Under a tracer that has it go step by step no section ever ends.
#[test]
fn a_single_stepped_thread_makes_progress() {
    let (counter, pair) = (Counter::new(Index::Cpu), PairCounter::new(Index::Cpu));
    let list = FreeList::new(Index::Cpu, 2, || ());
    on(topology::allowed().expect("the kernel tells")[0], || drop((list.take(), list.take())));
    // SAFETY: the child takes no lock and allocates nothing; it ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: tracing, a signal to itself, and its end.
        unsafe {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0 {
                libc::_exit(77);
            }
            libc::raise(libc::SIGSTOP);
        }
        counter.add(3);
        pair.add(1, 3);
        let took = [list.take(), list.take(), list.take()].map(|thing| thing.is_some());
        let right = counter.sum() == 3 && pair.sum() == (1, 3) && took == [true, true, false] && list.take().is_some();
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let (mut status, mut steps) = (0, 0);
    // SAFETY: our child, which is stopped each time.
    unsafe {
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        while libc::WIFSTOPPED(status) && steps < 100_000 {
            steps += 1;
            libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0);
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        }
        if !libc::WIFEXITED(status) {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
            panic!("it was still on its way after {steps} steps");
        }
    }
    if libc::WEXITSTATUS(status) == 77 {
        println!("not tested: a_single_stepped_thread_makes_progress: nobody can be traced here");
        return;
    }
    assert_eq!(libc::WEXITSTATUS(status), 0, "something is lost or doubled");
    assert!(steps > 100, "{steps}");
}
