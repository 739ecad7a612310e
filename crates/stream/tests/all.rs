//! All tests of graphs in one program: machine code, terminals and transforms are linked once. One file alone: `cargo test -p chappe-stream -- clocks::`.

mod apart;
mod clocks;
mod disk;
mod examples;
mod fair;
mod fused;
mod graphs;
mod music;
mod parts;
mod parts_storm;
mod patience;
mod recorder;
mod serial;
mod signals;
mod speed;
