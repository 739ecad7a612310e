//! Tables of light threads that the lab shows as rows of the papers: few runs of each, since the lab comes again.

use super::peers::{Bench, Peer};
use crate::table::{Table, Unit};
use std::path::{Path, PathBuf};

/// The program in Go: its files, for a build elsewhere.
pub const GO_SOURCES: [(&str, &str); 3] = [
    ("go.mod", include_str!("../../go/go.mod")),
    ("main.go", include_str!("../../go/main.go")),
    ("power.go", include_str!("../../go/power.go")),
];

/// What measures them: this program, which knows [`WORD`](super::WORD), and the one in Go, if there is one.
pub struct Rows(Bench);

impl Rows {
    /// With these programs.
    pub fn new(me: &Path, go: Option<PathBuf>) -> Rows {
        Rows(Bench { me: me.to_owned(), go, boost: None })
    }

    /// plan9-semaphores, section 4: the power series.
    ///
    /// # Panics
    /// If a part fails; so do the others.
    pub fn series(&self, rounds: u32) {
        let ours = Peer::Ours("chappe");
        let peers: [(&str, Peer, &[&str]); 4] = [
            ("light threads, one proc", ours, &["power", "1"]),
            ("light threads, two procs", ours, &["power", "2"]),
            ("go, one processor", Peer::Go(1), &["power", "200"]),
            ("go, two processors", Peer::Go(2), &["power", "200"]),
        ];
        self.0.table("power series, N = 200", rounds, &peers);
    }

    /// Synthesis, table 3.3: from one thread to the next.
    ///
    /// # Panics
    /// As above.
    pub fn switches(&self, rounds: u32) {
        let (ours, go, tokio) = (Peer::Ours("chappe"), Peer::Go(1), Peer::Ours("tokio"));
        for number in ["2", "10000"] {
            let args = ["yield", number];
            let mut peers: Vec<(&str, Peer, &[&str])> =
                vec![("light threads", ours, &args), ("go", go, &args), ("tokio", tokio, &args)];
            if number == "2" {
                peers.push(("corosensei (no scheduler)", Peer::Ours("corosensei"), &args));
            }
            self.0.table(&format!("to the next of {number} threads, and back in turn"), rounds, &peers);
        }
        let peers: [(&str, Peer, &[&str]); 5] = [
            ("light threads", ours, &["rendezvous"]),
            ("go", go, &["rendezvous"]),
            ("tokio, one slot", tokio, &["rendezvous"]),
            ("may, unbounded", Peer::Ours("may"), &["rendezvous"]),
            ("kernel threads, std's sync_channel", Peer::Ours("kernel"), &["rendezvous"]),
        ];
        self.0.table("a message there and back, on one proc", rounds, &peers);
        let peers: [(&str, Peer, &[&str]); 2] =
            [("raw futex", Peer::Ours("kernel"), &["futex"]), ("light threads of two procs", ours, &["across"])];
        self.0.table("there and back between two kernel threads that sleep", rounds, &peers);
    }

    /// Synthesis, tables 5.2 and 5.3: what is done to a thread.
    ///
    /// # Panics
    /// As above.
    pub fn operations(&self, rounds: u32) {
        let (ours, go, tokio) = (Peer::Ours("chappe"), Peer::Go(1), Peer::Ours("tokio"));
        let peers: [(&str, Peer, &[&str]); 5] = [
            ("light threads", ours, &["create"]),
            ("go", go, &["create"]),
            ("tokio", tokio, &["create"]),
            ("may", Peer::Ours("may"), &["create"]),
            ("kernel threads", Peer::Ours("kernel"), &["create"]),
        ];
        self.0.table("create, run and exit", rounds, &peers);
        let peers: [(&str, Peer, &[&str]); 3] =
            [("light threads", ours, &["alt"]), ("go", go, &["alt"]), ("tokio, one slot", tokio, &["alt"])];
        self.0.table("a choice of three channels, a message", rounds, &peers);
        let peers: [(&str, Peer, &[&str]); 2] = [("light threads", ours, &["make"]), ("go, collected", go, &["make"])];
        self.0.table("make and drop a rendezvous tube", rounds, &peers);
    }

    /// Synthesis, table 3.6: what a thread that waits takes of memory.
    ///
    /// # Panics
    /// As above.
    pub fn memory(&self) {
        let args = ["memory".to_owned(), "10000".to_owned()];
        let there: [(&str, Option<Peer>); 3] = [
            ("light threads", Some(Peer::Ours("chappe"))),
            ("go", self.0.go.is_some().then_some(Peer::Go(1))),
            ("tokio", Some(Peer::Ours("tokio"))),
        ];
        let of = |(name, peer): (&str, Option<Peer>)| Some((name.to_owned(), vec![self.0.figure(peer?, &args)]));
        let rows = there.into_iter().filter_map(of).collect();
        print!("{}", Table::counted("a thread blocked in recv, of 10,000", Unit::Bytes, rows).report());
    }
}
