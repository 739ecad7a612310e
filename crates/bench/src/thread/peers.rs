//! The programs that measure a row: ours, and the peers'.

use crate::table::{Case, Table};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The word by which the program calls itself for a part.
pub const WORD: &str = "thread-part";

/// A program that measures a row.
#[derive(Clone, Copy)]
pub enum Peer {
    Ours(&'static str),
    /// With so many processors.
    Go(u32),
    /// Fibers, or contexts alone.
    Boost,
}

pub struct Bench {
    pub me: PathBuf,
    pub go: Option<PathBuf>,
    pub boost: Option<PathBuf>,
}

impl Bench {
    pub fn command(&self, peer: Peer, args: &[String]) -> Option<Command> {
        let mut command = match peer {
            Peer::Ours(name) => {
                let mut command = Command::new(&self.me);
                command.arg(WORD).arg(name);
                command
            }
            Peer::Go(procs) => {
                let mut command = Command::new(self.go.as_ref()?);
                command.env("GOMAXPROCS", procs.to_string());
                command
            }
            Peer::Boost => Command::new(self.boost.as_ref()?),
        };
        command.args(args);
        Some(command)
    }

    /// One figure.
    pub fn figure(&self, peer: Peer, args: &[String]) -> f64 {
        let mut command = self.command(peer, args).expect("the caller has looked");
        let output = command.stderr(Stdio::inherit()).output().expect("it begins");
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(output.status.success(), "{command:?} ended with {}", output.status);
        text.parse().unwrap_or_else(|e| panic!("{command:?} said {text}: {e}"))
    }

    /// A table of one row as several peers do it; the first peer is the baseline.
    pub fn table(&self, title: &str, rounds: u32, peers: &[(&str, Peer, &[&str])]) -> Table {
        let there = peers.iter().filter(|(_, peer, _)| match peer {
            Peer::Ours(_) => true,
            Peer::Go(_) => self.go.is_some(),
            Peer::Boost => self.boost.is_some(),
        });
        let cases = there.map(|(name, peer, args)| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            Case::new(*name, move || self.figure(*peer, &args))
        });
        let table = Table::measure(title, rounds, cases.collect());
        println!("{}", table.report());
        table
    }
}

/// The ratio of the least figures: what both can do when nobody disturbs them.
pub fn least(table: &Table, name: &str, baseline: &str) -> f64 {
    table.row(name).quantile(0.0) / table.row(baseline).quantile(0.0)
}
