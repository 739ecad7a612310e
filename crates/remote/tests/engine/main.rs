//! The protocol and the client on real engines: nodes of etcd that the tests start, and that `cargo xtask engines` has built.

mod both;
mod compared;
mod control;
mod crowd;
mod histories;
#[path = "../interleavings/model.rs"]
mod model;
mod nodes;
mod person;
mod pools;
mod programs;
mod refused;
mod secured;
mod unwell;
