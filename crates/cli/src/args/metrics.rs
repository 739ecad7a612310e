//! `chappe metrics`.

use std::net::SocketAddr;
use std::path::PathBuf;

/// `chappe metrics`.
#[derive(clap::Args, Debug)]
pub struct Metrics {
    /// Only this arena; or the pools of an engine, @REMOTE
    pub arena: Option<String>,
    /// Write the figures into this file, whole or not at all: for node_exporter's textfile directory
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    pub output: Option<PathBuf>,
    /// Answer GET /metrics at this address until a signal ends it
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
}
