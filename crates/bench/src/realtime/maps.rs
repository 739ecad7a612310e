//! Looking up a key of a map with a thousand entries: between threads beside locked maps, and between processes beside a server's socket.
//!
//! A peer that is not on this machine has no row, and no aim.

use crate::house::House;
use crate::table::{Aim, Case, Table, times};
use chappe::{Map, MapOptions};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::RwLock;
use std::time::{Duration, Instant};

const ENTRIES: u64 = 1_000;
const COUNT: u32 = 20_000;
const ASKED: u32 = 500;

/// A Redis of our own, which goes with this.
struct Redis {
    child: Child,
    socket: std::path::PathBuf,
}

impl Redis {
    fn start() -> Option<Redis> {
        let socket = std::env::temp_dir().join(format!("chappe-bench-redis-{}", std::process::id()));
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let redis = Redis { child, socket };
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            if UnixStream::connect(&redis.socket).is_ok() {
                return Some(redis);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// Sends one command and reads one answer, of at most so many bytes.
    fn ask(stream: &mut UnixStream, words: &[&[u8]]) -> usize {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        stream.write_all(&request).expect("a server");
        let mut answer = [0; 64];
        stream.read(&mut answer).expect("an answer")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// One look-up a transaction, as a process must that is to see what others have written.
#[cfg(feature = "lmdb")]
fn beside_lmdb(rounds: u32, keys: &[u64], named: &Map<u64, u64>) -> Option<Aim> {
    use lmdb::{Environment, Transaction, WriteFlags};
    let home = std::path::PathBuf::from(format!("/dev/shm/chappe-bench-lmdb-{}", std::process::id()));
    std::fs::create_dir(&home).ok()?;
    let environment = Environment::new().set_map_size(1 << 24).open(&home).ok()?;
    let base = environment.open_db(None).ok()?;
    let mut writes = environment.begin_rw_txn().ok()?;
    for key in 0..ENTRIES {
        writes.put(base, &key.to_ne_bytes(), &key.to_ne_bytes(), WriteFlags::empty()).ok()?;
    }
    writes.commit().ok()?;
    let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    let timed = |get: &dyn Fn(u64) -> u64| {
        let start = Instant::now();
        let sum: u64 = keys.iter().map(|k| get(*k)).sum();
        assert_eq!(sum, keys.iter().sum::<u64>());
        start.elapsed().as_nanos() as f64 / f64::from(COUNT)
    };
    let table = Table::measure(
        "map look-up between processes, beside lmdb",
        rounds,
        vec![
            Case::new("lmdb, a transaction each", || {
                timed(&|k| {
                    let reads = environment.begin_ro_txn().expect("a reader");
                    number(reads.get(base, &k.to_ne_bytes()).expect("there"))
                })
            }),
            Case::new("lmdb, all in one transaction", || {
                let reads = environment.begin_ro_txn().expect("a reader");
                timed(&|k| number(reads.get(base, &k.to_ne_bytes()).expect("there")))
            }),
            Case::new("chappe::Map, named", || timed(&|k| named.get(&k).expect("alive").expect("there"))),
        ],
    );
    println!("{}", table.report());
    let _ = std::fs::remove_dir_all(&home);
    Some(Aim::at_most("named Map get beside lmdb", 0.1, table.ratio("chappe::Map, named"), times))
}

/// The tables, and what was wanted.
///
/// # Panics
/// When an object cannot be made.
pub fn measure(_house: &House, rounds: u32) -> Vec<Aim> {
    let options = MapOptions { entries: 2 * ENTRIES as u32, ..MapOptions::default() };
    let private = Map::<u64, u64>::private(&options).expect("room");
    let named = Map::<u64, u64>::create("realtime-map", &options).expect("room");
    let locked = RwLock::new(HashMap::new());
    let shards: Vec<_> = (0..16).map(|_| parking_lot::RwLock::new(HashMap::new())).collect();
    let shard = |key: u64| &shards[(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize];
    let sharded = dashmap::DashMap::new();
    for key in 0..ENTRIES {
        private.insert(&key, &key).expect("room");
        named.insert(&key, &key).expect("room");
        locked.write().expect("whole").insert(key, key);
        shard(key).write().insert(key, key);
        sharded.insert(key, key);
    }
    let mut at = 0u64;
    let mut key = || {
        at = (at + 7) % ENTRIES;
        at
    };
    let keys: Vec<u64> = (0..COUNT).map(|_| key()).collect();
    let each = |get: &dyn Fn(u64) -> u64| {
        let start = Instant::now();
        let sum: u64 = keys.iter().map(|k| get(*k)).sum();
        assert_eq!(sum, keys.iter().sum::<u64>());
        start.elapsed().as_nanos() as f64 / f64::from(COUNT)
    };
    let threads = Table::measure(
        "map look-up between threads",
        rounds,
        vec![
            Case::new("dashmap (locks for shards)", || each(&|k| *sharded.get(&k).expect("there"))),
            Case::new("RwLock<HashMap>", || each(&|k| *locked.read().expect("whole").get(&k).expect("there"))),
            Case::new("16 shards under parking_lot::RwLock", || each(&|k| *shard(k).read().get(&k).expect("there"))),
            Case::new("chappe::Map, private", || each(&|k| private.get(&k).expect("alive").expect("there"))),
        ],
    );
    println!("{}", threads.report());
    let mut aims = vec![Aim::at_most("Map get beside dashmap", 1.0, threads.ratio("chappe::Map, private"), times)];
    #[cfg(feature = "lmdb")]
    aims.extend(beside_lmdb(rounds, &keys, &named));
    let Some(redis) = Redis::start() else {
        println!("\nno redis-server here: no row for it");
        return aims;
    };
    let mut stream = UnixStream::connect(&redis.socket).expect("a server");
    for key in 0..ENTRIES {
        Redis::ask(&mut stream, &[b"SET", key.to_string().as_bytes(), key.to_string().as_bytes()]);
    }
    let processes = Table::measure(
        "map look-up between processes",
        rounds,
        vec![
            Case::new("Redis over a Unix socket", || {
                let start = Instant::now();
                for key in keys.iter().take(ASKED as usize) {
                    assert!(Redis::ask(&mut stream, &[b"GET", key.to_string().as_bytes()]) > 5);
                }
                start.elapsed().as_nanos() as f64 / f64::from(ASKED)
            }),
            Case::new("chappe::Map, named", || each(&|k| named.get(&k).expect("alive").expect("there"))),
        ],
    );
    println!("{}", processes.report());
    aims.push(Aim::at_most("named Map get beside Redis", 0.02, processes.ratio("chappe::Map, named"), times));
    aims
}
