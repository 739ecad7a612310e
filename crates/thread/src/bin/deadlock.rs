//! For the tests: three light threads that wait for each other, and for nobody else; with an argument, one that waits for ever while the
//! process's first kernel thread is busy with something else.

use chappe_sync::tube::{Receiver, Sender, bounded};
use chappe_thread::{Builder, Runtime, run_main, spawn};

fn busy_elsewhere() {
    let runtime = Runtime::new(1).expect("a runtime");
    runtime.report_deadlocks();
    let (tx, rx): (Sender<u8>, Receiver<u8>) = bounded(0);
    runtime.run(move || drop(spawn(move || rx.recv())));
    // Longer than all must idle before it is looked at.
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(tx);
}

fn main() {
    if std::env::args().len() > 1 {
        return busy_elsewhere();
    }
    run_main(|| {
        let (a, b) = (bounded::<u8>(0), bounded::<u8>(0));
        let (tx, rx) = (a.0.clone(), b.1.clone());
        let left = Builder::new().name("left").spawn(move || (tx.send(1).is_ok(), rx.recv().is_ok()));
        let (tx, rx) = (b.0.clone(), b.1.clone());
        let right = Builder::new().name("right").spawn(move || (rx.recv().is_ok(), tx.send(1).is_ok()));
        let both = (left.unwrap().join().is_ok(), right.unwrap().join().is_ok());
        drop((a, b));
        assert_eq!(both, (true, true));
    });
}
