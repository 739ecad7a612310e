//! What a program written for crossbeam-channel may rely on: suites that say `use channel::...`, run against whatever
//! `Cargo.toml` says that `channel` is. They hold the original now; tubes are to pass the same, with one line changed.
