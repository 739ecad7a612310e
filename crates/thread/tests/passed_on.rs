//! Threads that are ready behind one that computes go on in the proc that idles.

use chappe_thread::{Builder, Runtime, Thread, park, sleep, spawn, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Computes, without a safe point, until that is so. SeqCst here and below: a flag, and no cost that counts.
fn computes_until(is_so: &AtomicBool) {
    let began = Instant::now();
    while !is_so.load(SeqCst) {
        std::hint::spin_loop();
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "the thread that waits here runs nowhere, though a proc idles"
        );
    }
}

/// A thread that is ready behind one that computes goes on in the proc that idles, however it has become ready, and whichever was first: that, or the
/// proc's idling.
#[test]
fn no_thread_stays_behind_one_that_computes_while_a_proc_idles() {
    let flag = || Arc::new(AtomicBool::new(false));
    let sets = |flag: &Arc<AtomicBool>| {
        let flag = flag.clone();
        move || flag.store(true, SeqCst)
    };
    // Begun by it.
    Runtime::new(2).unwrap().run(|| {
        let ran = flag();
        spawn(sets(&ran));
        computes_until(&ran);
    });
    // The same after it was the only thread, for which its proc has idled.
    Runtime::new(2).unwrap().run(|| {
        sleep(Duration::from_millis(1));
        let ran = flag();
        spawn(sets(&ran));
        computes_until(&ran);
    });
    // Its time is up.
    Runtime::new(2).unwrap().run(|| {
        let (waits, ran) = (flag(), flag());
        let (about, sets) = (sets(&waits), sets(&ran));
        spawn(move || {
            about();
            sleep(Duration::from_millis(1));
            sets();
        });
        while !waits.load(SeqCst) {
            yield_now();
        }
        computes_until(&ran);
    });
    // The other proc is busy until the thread is ready: it was left in the queue, or it was woken, by a kernel thread or by a thread of the other proc.
    for (is_woken, by_kernel) in [(false, false), (true, true), (true, false)] {
        let runtime = Runtime::new(2).unwrap();
        let ((tells, told), (goes, gone)) = (channel::<Option<Thread>>(), channel::<Option<Thread>>());
        let begun = flag();
        let begins = sets(&begun);
        let other = Builder::new().pinned().spawn_on(&runtime, move || {
            begins();
            // It keeps its kernel thread.
            gone.recv().unwrap().iter().for_each(Thread::unpark);
        });
        computes_until(&begun);
        let here = Builder::new().pinned().spawn_on(&runtime, move || {
            let (waits, ran) = (flag(), flag());
            let (about, sets, until) = (sets(&waits), sets(&ran), ran.clone());
            if !is_woken {
                let computes = spawn(move || {
                    tells.send(None).unwrap();
                    computes_until(&until);
                });
                spawn(sets);
                return computes.join().unwrap();
            }
            let woken = spawn(move || {
                about();
                park();
                sets();
            });
            while !waits.load(SeqCst) {
                yield_now();
            }
            tells.send(Some(woken.thread())).unwrap();
            computes_until(&ran);
        });
        let thread = told.recv().unwrap();
        if by_kernel {
            thread.iter().for_each(Thread::unpark);
        }
        goes.send(thread.filter(|_| !by_kernel)).unwrap();
        other.unwrap().join().unwrap();
        here.unwrap().join().unwrap();
    }
}
