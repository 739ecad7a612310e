//! What many clients cost an engine, by its own metrics, beside what the model says: `docs/many-machines.md` has the figures.

use crate::control::until;
use crate::nodes::Nodes;
use crate::person::Person;
use chappe_remote::place::Place;
use chappe_remote::{Patience, Pool, Remote};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How many there are.
const CLIENTS: usize = 500;
/// How long nothing is done but waiting.
const IDLE: Duration = Duration::from_secs(10);

/// What is counted, by its name and its labels.
const COUNTED: [(&str, &[&str]); 8] = [
    // Answered ones: a stream's end counts as received, too.
    ("renewals", &["grpc_server_msg_sent_total", "LeaseKeepAlive"]),
    ("reads and transactions", &["grpc_server_started_total", "\"Txn\""]),
    ("leases made", &["grpc_server_started_total", "LeaseGrant"]),
    ("watch messages", &["grpc_server_msg_sent_total", "Watch"]),
    ("events", &["etcd_debugging_mvcc_events_total"]),
    ("watchers", &["etcd_debugging_mvcc_watcher_total"]),
    ("bytes to the engine", &["etcd_network_client_grpc_received_bytes_total"]),
    ("bytes from the engine", &["etcd_network_client_grpc_sent_bytes_total"]),
];

type Sums = BTreeMap<&'static str, f64>;

/// The sums of all nodes.
fn counted(nodes: &Nodes) -> Sums {
    let mut sums = Sums::new();
    for endpoint in &nodes.endpoints {
        let mut stream = TcpStream::connect(endpoint).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            for (name, parts) in COUNTED {
                if line.starts_with(parts[0]) && parts[1..].iter().all(|part| line.contains(part)) {
                    let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
                    *sums.entry(name).or_default() += value.unwrap_or(0.0);
                }
            }
        }
    }
    sums
}

/// Prints what was counted meanwhile, for each of `per`.
fn tell(what: &str, before: &Sums, after: &Sums, per: f64, unit: &str) -> Sums {
    let mut each = Sums::new();
    println!("{what}, for each {unit}:");
    for (name, sum) in after {
        let more = match *name {
            // A level.
            "watchers" => *sum,
            _ => (sum - before.get(name).unwrap_or(&0.0)) / per,
        };
        println!("  {name}: {more:.1}");
        each.insert(name, more);
    }
    each
}

/// All clients stay until this goes, also if the test has failed.
struct Stay<'a>(&'a AtomicU32);

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed); // Relaxed: it only ends a wait.
    }
}

/// What so many clients cost that are in these pools, each of which has one permit.
fn costs(nodes: &Nodes, pools: usize) {
    let namespace = format!("crowd{pools}");
    let mut place = Place::url(&nodes.url(&namespace)).unwrap();
    place.options.connect_timeout = Duration::from_secs(60);
    let own = Remote::connect(&place, "crowd").unwrap();
    let all: Vec<Pool> = (0..pools).map(|at| own.create_pool(&format!("p{at}"), 1).unwrap()).collect();
    let held: Vec<_> = all.iter().map(|pool| pool.acquire().unwrap()).collect();
    let (had, wait) = (AtomicU32::new(0), &AtomicU32::new(1));
    let (idle, each) = std::thread::scope(|scope| {
        let _stay = Stay(wait);
        for at in 0..CLIENTS {
            let (place, had) = (&place, &had);
            std::thread::Builder::new()
                .stack_size(256 << 10)
                .spawn_scoped(scope, move || {
                    let one = Remote::connect(place, "crowd").unwrap();
                    let pool = one.pool(&format!("p{}", at % pools)).unwrap();
                    let permit = pool.acquire_many(1, Patience::Forever).unwrap();
                    permit.release().unwrap();
                    // Relaxed: a sum.
                    had.fetch_add(1, Ordering::Relaxed);
                    // All stay, and renew their leases, until the last has had its permit. Relaxed: it only ends a wait.
                    while wait.load(Ordering::Relaxed) != 0 {
                        std::thread::sleep(Duration::from_millis(50));
                    }
                })
                .unwrap();
        }
        let begun = Instant::now();
        let waiting = || all.iter().map(|pool| pool.info().unwrap().waiting).sum::<u32>();
        until("all clients wait", || waiting() >= CLIENTS as u32);
        println!("{CLIENTS} clients wait for {pools} pools {:.1} s after", begun.elapsed().as_secs_f64());
        // What they were told of those behind them is through.
        std::thread::sleep(Duration::from_secs(3));
        let (before, begun) = (counted(nodes), Instant::now());
        std::thread::sleep(IDLE);
        let (idle, took) = (counted(nodes), begun.elapsed().as_secs_f64());
        let idle = tell("idle", &before, &idle, took, "second");
        let (before, begun) = (counted(nodes), Instant::now());
        drop(held);
        // Relaxed: as above.
        until("all have had a permit", || had.load(Ordering::Relaxed) >= CLIENTS as u32);
        let took = begun.elapsed().as_secs_f64();
        println!("{CLIENTS} hand-overs in {took:.1} s: {:.0} a second", CLIENTS as f64 / took);
        let each = tell("handed over", &before, &counted(nodes), CLIENTS as f64, "hand-over");
        (idle, each)
    });
    drop(own);
    // Model: a renewal each TTL/5 of 10 s, and nothing else.
    let (renewals, txns) = (idle["renewals"], idle["reads and transactions"]);
    assert!(renewals < CLIENTS as f64 * 0.5 * 1.2 + 1.0, "{renewals} renewals a second");
    assert!(txns < 2.0, "{txns} transactions a second by those that only wait");
    // Model: the giver looks and writes; those that come did so before. Each is told of two changes, of the permit and of the ticket, while it waits: on
    // average half of a queue does.
    let (txns, events) = (each["reads and transactions"], each["events"]);
    assert!(txns < 6.0, "{txns} transactions a hand-over");
    let queue = (CLIENTS / pools) as f64;
    assert!(events < queue * 1.5 + 10.0, "{events} events a hand-over");
    let person = Person::of(nodes, &namespace);
    let left = person.finds(person.space.all());
    assert_eq!(left.len(), pools + 1, "nothing is left but the sizes and the format");
}

#[test]
#[ignore = "storm: it starts an engine"]
fn a_wait_and_a_permit_that_are_over_leave_no_watch_at_the_engine() {
    let Some(nodes) = Nodes::own(1, &[]) else { return };
    let mut place = Place::url(&nodes.url("watches")).unwrap();
    place.options.connect_timeout = Duration::from_secs(60);
    let (one, other) = (Remote::connect(&place, "test").unwrap(), Remote::connect(&place, "test").unwrap());
    let (mine, theirs) = (one.create_pool("a", 1).unwrap(), other.pool("a").unwrap());
    for _ in 0..10 {
        let held = mine.acquire().unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| theirs.acquire().unwrap().release().unwrap());
            until("it waits", || waits.is_finished() || mine.info().unwrap().waiting > 0);
            held.release().unwrap();
            waits.join().unwrap();
        });
    }
    until("no watch is left", || counted(&nodes)["watchers"] <= 0.0);
}

#[test]
#[ignore = "storm: 500 clients at once"]
fn five_hundred_waiters_cost_an_engine_what_the_model_says() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain system calls on our own limit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    let Some(nodes) = Nodes::own(3, &[]) else { return };
    for pools in [1, 50] {
        costs(&nodes, pools);
    }
}
