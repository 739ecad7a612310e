//! What the guide and the README show in Rust: `crates/cli/tests/command/book.rs` holds that each of their blocks stands here, line for line.

use chappe::tube::broadcast::{BroadcastOptions, Subscription};
use chappe::{Permit, Semaphore};
use std::error::Error;

type Done = Result<(), Box<dyn Error>>;

#[test]
fn each_block_of_the_guide_in_rust_does_what_it_shows() -> Done {
    let directory = format!("/dev/shm/chappe-test-{}-guide", std::process::id());
    std::fs::create_dir(&directory)?;
    // SAFETY: the only test of this program, and its only thread that knows of the environment.
    unsafe { std::env::set_var("CHAPPE_DIR", &directory) };
    let done = readme()
        .and_then(|()| barrier())
        .and_then(|()| mutex())
        .and_then(|()| map())
        .and_then(|()| words())
        .and_then(|()| monitor())
        .and_then(|()| broadcast())
        .and_then(|()| schema())
        .and_then(|()| callback());
    light::begin();
    std::fs::remove_dir_all(&directory)?;
    done
}

fn work(message: u64) {
    assert_eq!(message, 7);
}

fn train(permit: Permit) {
    drop(permit);
}

fn readme() -> Done {
    use chappe::{Pool, Semaphore, acquire_any, select};

    let (gpu0, gpu1) = (Pool::open_or_create("gpu0", 1)?, Pool::open_or_create("gpu1", 1)?);
    let (which, permit) = acquire_any(&[&gpu0, &gpu1])?; // blocks; served in the order of arrival
    drop(permit); // or this process is killed

    let (tx, rx) = chappe::tube::bounded::<u64>(64); // crossbeam-channel's names and errors
    let stop = Semaphore::open_or_create("stop", 0)?;
    select! {
        recv(rx) -> message => work(message?),
        acquire(gpu0) -> permit => train(permit?),
        down(stop) -> _ => return Ok(()),
    }
    drop(tx);
    assert!(which < 2);
    Ok(())
}

fn barrier() -> Done {
    use chappe::Barrier;

    let barrier = Barrier::private(3)?; // between processes: Barrier::open_or_create("step", 3)
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let turn = barrier.wait().unwrap();
                if turn.index == 0 {
                    println!("round {} has turned", turn.round); // one of the three says so
                }
            });
        }
    });
    Ok(())
}

fn mutex() -> Done {
    use chappe::{LockError, Mutex, MutexGuard};

    // From one account to the other. Between processes: `Mutex::open_or_create("accounts", [100, 0])`.
    let accounts = Mutex::private([100i64, 0])?;
    let died = std::thread::scope(|s| {
        s.spawn(|| {
            let mut both = accounts.lock().expect("nobody has died yet");
            both[0] -= 30;
            panic!("killed in the middle");
        })
        .join()
    });
    assert!(died.is_err());

    match accounts.lock() {
        Err(LockError::OwnerDied(mut both)) => {
            assert_eq!(*both, [70, 0]); // as it was left
            both[0] = 100;
            MutexGuard::make_consistent(&mut both);
        }
        other => panic!("it is torn: {other:?}"),
    }
    assert!(accounts.lock().is_ok());
    Ok(())
}

fn map() -> Done {
    use chappe::{Map, MapOptions};

    let options = MapOptions { entries: 10_000, ..MapOptions::default() };
    let done = Map::<u64, [u32; 2]>::open_or_create("done", &options)?;
    done.insert(&7, &[1, 0])?;
    done.update(&7, |old| old.map(|[runs, failures]| [runs + 1, failures]))?;
    for entry in done.iter()? {
        let (job, [runs, failures]) = entry?;
        println!("{job}: {runs} runs, {failures} failures");
    }
    assert_eq!(done.get(&7)?, Some([2, 0]));
    Ok(())
}

fn words() -> Done {
    use chappe::words::{Change, Words};

    let accounts = Words::private(3)?;
    accounts.store(0, 100)?;
    let [a, b] = accounts.load_all([0, 2])?;
    let done = accounts.mcas(&[Change { word: 0, old: a, new: a - 30 }, Change { word: 2, old: b, new: b + 30 }])?;
    // The same, until no other thread comes in between:
    accounts.update([0, 2], |w| {
        w[0] -= 30;
        w[1] += 30;
    })?;
    assert_eq!((done, accounts.load_all([0, 2])?), (true, [40, 60]));
    Ok(())
}

fn monitor() -> Done {
    use chappe::Monitor;

    let jobs = Monitor::private("jobs", vec!["the first"], &["not empty"])?;
    let mut inside = jobs.enter()?;
    while inside.is_empty() {
        inside = inside.wait("not empty")?; // leaves, waits, enters again
    }
    assert_eq!(inside.pop(), Some("the first"));
    Ok(())
}

fn buy(record: &[u8]) {
    assert_eq!(record[..8], 120.0_f64.to_le_bytes());
}

fn choice(dear: &Subscription<[u8]>) -> Done {
    let stop = Semaphore::private(0)?;
    chappe::select! {
        recv(dear) -> record => buy(&record?), // only what the filter wants
        down(stop) -> _ => return Ok(()),
    }
    Ok(())
}

fn broadcast() -> Done {
    let schema = Some("price: f64".into());
    let made = Broadcast::<[u8]>::create("trades", &BroadcastOptions { schema, ..BroadcastOptions::default() })?;
    let publisher = made.publisher()?;

    use chappe::synth::Value;
    use chappe::tube::broadcast::{Broadcast, Slow, Subscribe};

    let trades = Broadcast::<[u8]>::open("trades")?;
    let wanted = Subscribe::to_all().filter("price > $limit").param("limit", Value::Double(100.0));
    let dear = trades.subscribe(wanted.slow(Slow::DropOldest))?;
    publisher.send(&99.5_f64.to_le_bytes())?;
    publisher.send(&120.0_f64.to_le_bytes())?;
    choice(&dear)?;
    publisher.send(&130.0_f64.to_le_bytes())?;
    let record = dear.recv()?; // waits
    dear.set(&[("limit", Value::Double(50.0))])?;
    assert_eq!(record[..], 130.0_f64.to_le_bytes());
    Ok(())
}

fn schema() -> Done {
    use chappe::Fields;
    use chappe::tube::named::{Tube, TubeOptions};

    #[derive(Fields, Clone, Copy)]
    #[repr(C)]
    struct Trade {
        price: f64,
        qty: i32,
        sym: [u8; 4],
    }
    // SAFETY: numbers and bytes without a gap; zeros are one. The feature `derive` of bytemuck writes both.
    unsafe impl bytemuck::Zeroable for Trade {}
    // SAFETY: as above.
    unsafe impl bytemuck::Pod for Trade {}

    let schema = Trade::schema().to_string();
    let trades = Tube::<Trade>::open_or_create_of("orders", &TubeOptions::default(), &schema)?;
    assert_eq!(trades.info()?.size, 16);
    Ok(())
}

fn callback() -> Done {
    use chappe::synth::Period;

    let period = Period::new(64, 0, 2)?; // 64 samples, no input, two output channels
    let mut callback = period.callback()?; // for the device's thread
    let mut left = period.play(0, 0.5, 8)?; // to channel 0, half as loud, from a ring of 8 periods
    left.push(&[0.25; 64])?; // from any thread; false when the ring is full

    let mut output = [0.0; 128]; // channel after channel
    callback.run(&[], &mut output)?;
    assert_eq!(output[0], 0.125);
    Ok(())
}

mod light {
    pub fn begin() {
        main();
    }

    use chappe::{thread, tube};

    #[chappe::main]
    fn main() {
        let (tx, rx) = tube::bounded(0);
        for page in ["a", "b", "c"] {
            let tx = tx.clone();
            thread::spawn(move || tx.send(page.len()).unwrap());
        }
        drop(tx);
        println!("{}", rx.iter().sum::<usize>());
    }
}
