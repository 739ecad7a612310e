//! For the tests: three light threads that wait for each other, and for nobody else.

fn main() {
    chappe_thread::run_main(|| {
        let (a, b) = (chappe_sync::tube::bounded::<u8>(0), chappe_sync::tube::bounded::<u8>(0));
        let (tx, rx) = (a.0.clone(), b.1.clone());
        let left = chappe_thread::Builder::new().name("left").spawn(move || (tx.send(1).is_ok(), rx.recv().is_ok()));
        let (tx, rx) = (b.0.clone(), b.1.clone());
        let right = chappe_thread::Builder::new().name("right").spawn(move || (rx.recv().is_ok(), tx.send(1).is_ok()));
        let both = (left.unwrap().join().is_ok(), right.unwrap().join().is_ok());
        drop((a, b));
        assert_eq!(both, (true, true));
    });
}
