//! Light threads beside Go's, tokio's tasks, may's and corosensei's coroutines, Boost's fibers, and kernel threads: one run.
//!
//! Aims are told by the least of each row: all rows are of fixed work, and what disturbs a run only adds.
//!
//! Rows of one proc are told in processor time, which is that on the wall but for what other processes take; the others in time on the wall.
//!
//! Each figure is one process that measures one row as one peer does it (`parts`; Go's are `crates/bench/go`, Boost's
//! `crates/bench/c/fibers.cpp`), so that nobody has another's memory or threads; the peers of a row take turns.

mod files;
pub mod late;
mod load;
mod parts;
mod peers;
mod rows;
mod used;

pub use peers::WORD;
use peers::{Bench, Peer, least};
pub use rows::{GO_SOURCES, Rows};

use crate::table::{Aim, Case, Table, times};
use std::cell::RefCell;
use std::path::Path;

/// Does a part, and prints its figure. False: there is none such.
pub fn part(args: &[&str]) -> bool {
    let figure = parts::run(args);
    figure.iter().for_each(|figure| println!("{figure}"));
    figure.is_some()
}

fn plain(unit: &'static str) -> impl Fn(f64) -> String {
    move |figure| format!("{figure:.0} {unit}")
}

/// Requests at a server, as a client with `CONNECTIONS` connections makes them.
fn http(bench: &Bench, rounds: u32) -> Vec<Aim> {
    let root = std::env::temp_dir().join(format!("chappe-bench-http-{}", std::process::id()));
    std::fs::create_dir_all(&root).expect("a directory");
    std::fs::write(root.join("page.txt"), [b'x'; 1024]).expect("a file");
    let shown = root.display().to_string();
    let cpu: RefCell<Vec<(String, Vec<f64>)>> = RefCell::default();
    let peers = [("chappe", Peer::Ours("chappe")), ("go net/http", Peer::Go(2))];
    let mut cases = Vec::new();
    for (name, peer) in peers {
        let Some(mut command) = bench.command(peer, &["http".to_owned(), shown.clone()]) else { continue };
        cpu.borrow_mut().push((name.to_owned(), Vec::new()));
        let cpu = &cpu;
        cases.push(Case::new(name, move || {
            let load = load::measure(&mut command, "/page.txt");
            let mut cpu = cpu.borrow_mut();
            cpu.iter_mut().filter(|(of, _)| of == name).for_each(|(_, all)| all.push(load.cpu));
            load.time
        }));
    }
    let time = Table::measure("HTTP, 64 connections, 1 KiB: time a request", rounds, cases);
    println!("{}", time.report());
    let cpu = Table::of("the same: CPU of the server a request", cpu.into_inner());
    println!("{}", cpu.report());
    std::fs::remove_dir_all(&root).expect("it was ours");
    if bench.go.is_none() {
        return Vec::new();
    }
    let what = "HTTP: time a request (one divided by requests a second) / Go's net/http";
    vec![
        Aim::at_most(what, 1.0, least(&time, "chappe", "go net/http"), times),
        Aim::at_most("HTTP: CPU a request / Go's net/http", 1.0, least(&cpu, "chappe", "go net/http"), times),
    ]
}

/// All rows.
///
/// # Panics
/// If a part fails.
pub fn measure(go: Option<&Path>, boost: Option<&Path>, rounds: u32) -> Vec<Aim> {
    let me = std::env::current_exe().expect("a program has a file");
    let bench = Bench { me, go: go.map(Path::to_owned), boost: boost.map(Path::to_owned) };
    if bench.go.is_none() {
        println!("no `go` here: its rows and the aims beside it are left out");
    }
    if bench.boost.is_none() {
        println!("no Boost.Fiber here (libboost-fiber-dev, libboost-context-dev): its rows are left out");
    }
    let (ours, go) = (Peer::Ours("chappe"), Peer::Go(1));
    let mut aims = Vec::new();
    let beside = |aims: &mut Vec<Aim>, what: &str, most: f64, table: &Table| {
        if bench.go.is_some() {
            aims.push(Aim::at_most(format!("{what} / Go"), most, least(table, "chappe", "go"), times));
        }
    };

    let power = bench.table(
        "power series, N = 200",
        rounds,
        &[
            ("chappe, one proc", ours, &["power", "1"]),
            ("chappe, two procs", ours, &["power", "2"]),
            ("go, one", Peer::Go(1), &["power", "200"]),
            ("go, two", Peer::Go(2), &["power", "200"]),
        ],
    );
    if bench.go.is_some() {
        let best = power.best(&["go, one", "go, two"]).to_owned();
        let what = "power series N = 200, one proc / the better of Go's";
        aims.push(Aim::at_most(what, 0.4, least(&power, "chappe, one proc", &best), times));
    }
    aims.push(Aim::at_most(
        "power series, two procs / one",
        1.0,
        least(&power, "chappe, two procs", "chappe, one proc"),
        times,
    ));

    let table = bench.table(
        "the same: time of the processor",
        rounds,
        &[("chappe", ours, &["powercpu", "1"]), ("go", go, &["powercpu", "200"])],
    );
    beside(&mut aims, "power series, one proc, processor time", 0.4, &table);

    let tokio = Peer::Ours("tokio");
    let table = bench.table(
        "there and back, one proc",
        rounds,
        &[
            ("chappe", ours, &["rendezvous"]),
            ("go", go, &["rendezvous"]),
            ("tokio, one slot", tokio, &["rendezvous"]),
            ("may, unbounded", Peer::Ours("may"), &["rendezvous"]),
            ("boost.fiber", Peer::Boost, &["rendezvous"]),
            ("kernel threads, sync_channel", Peer::Ours("kernel"), &["rendezvous"]),
        ],
    );
    beside(&mut aims, "there and back, one proc", 0.2, &table);

    let table = bench.table(
        "a choice of three, a message",
        rounds,
        &[("chappe", ours, &["alt"]), ("go", go, &["alt"]), ("tokio, one slot", tokio, &["alt"])],
    );
    beside(&mut aims, "a choice of three", 0.2, &table);

    let table = bench.table(
        "create, run, exit",
        rounds,
        &[
            ("chappe", ours, &["create"]),
            ("go", go, &["create"]),
            ("tokio", tokio, &["create"]),
            ("may", Peer::Ours("may"), &["create"]),
            ("boost.fiber", Peer::Boost, &["create"]),
            ("kernel threads", Peer::Ours("kernel"), &["create"]),
        ],
    );
    beside(&mut aims, "create, run, exit", 0.1, &table);

    for (number, most) in [("2", 0.15), ("10000", 0.3), ("100000", 1.0)] {
        let mut peers: Vec<(&str, Peer, &[&str])> = Vec::new();
        let args = ["yield", number];
        peers.push(("chappe", ours, &args));
        peers.push(("go", go, &args));
        peers.push(("tokio", tokio, &args));
        if number != "100000" {
            peers.push(("boost.fiber", Peer::Boost, &args));
        }
        if number == "2" {
            peers.push(("corosensei, no scheduler", Peer::Ours("corosensei"), &args));
            peers.push(("boost.context, no scheduler", Peer::Boost, &["switch"]));
        }
        let table = bench.table(&format!("yield among {number}"), rounds, &peers);
        beside(&mut aims, &format!("yield among {number}"), most, &table);
    }

    let few = rounds.min(3);
    let bytes = ["memory", "100000"];
    let table = bench.table(
        "bytes (not ns) of one blocked in recv, of 100,000",
        few,
        &[("chappe", ours, &bytes), ("go", go, &bytes), ("tokio", tokio, &bytes)],
    );
    let is = table.row("chappe").quantile(0.5);
    aims.push(Aim::at_most("memory of a thread blocked in recv", 4500.0, is, plain("B")));

    let million = bench.figure(ours, &["memory".to_owned(), "1000000".to_owned()]);
    println!("\n1,000,000 blocked in recv: {:.2} GiB", million * 1e6 / f64::from(1 << 30));
    aims.push(Aim::at_most("memory of 1,000,000", 8192.0, million * 1e6 / f64::from(1 << 20), plain("MiB")));
    let gone = bench.figure(ours, &["gone".to_owned(), "1000000".to_owned()]);
    aims.push(Aim::at_most("1,000,000 woken and gone, each", 1000.0, gone, plain("ns")));

    let table = bench.table(
        "across procs, both asleep, there and back",
        rounds,
        &[("futex", Peer::Ours("kernel"), &["futex"]), ("chappe", ours, &["across"])],
    );
    aims.push(Aim::at_most("across procs, both asleep / raw futex", 1.6, least(&table, "chappe", "futex"), times));

    let table = bench.table(
        "make and drop a rendezvous tube",
        rounds,
        &[("chappe", ours, &["make"]), ("go, collected", go, &["make"])],
    );
    aims.push(Aim::at_most("make and drop a rendezvous tube", 60.0, table.row("chappe").quantile(0.0), plain("ns")));
    let tube = bench.figure(ours, &["tube".to_owned()]);
    aims.push(Aim::at_most("bytes of a rendezvous tube", 160.0, tube, plain("B")));

    let table = bench.table(
        "fan-out of 8 that compute, each",
        few,
        &[
            ("one proc", ours, &["fan", "1"]),
            ("two procs", ours, &["fan", "2"]),
            ("go, one", Peer::Go(1), &["fan"]),
            ("go, two", Peer::Go(2), &["fan"]),
        ],
    );
    aims.push(Aim::at_most("fan-out: two procs / one", 1.0 / 1.9, least(&table, "two procs", "one proc"), times));

    aims.extend(files::measure(&bench, rounds));

    aims.extend(http(&bench, few));

    let woken = bench.figure(ours, &["idle".to_owned(), "10000".to_owned()]);
    aims.push(Aim::at_most("wake-ups a second with 10,000 blocked", 0.0, woken, plain("")));
    aims
}
