//! `chappe arena`.

use crate::share::{self, Share};
use crate::size;
use clap::Subcommand;

/// The end of its help.
pub const END: &str = "\
Examples:
  chappe arena create big --members 10000 --data 1G
  CHAPPE_DIR=/dev/shm/team chappe arena create default --share group";

/// `chappe arena`.
#[derive(Subcommand, Debug)]
pub enum ArenaCommand {
    /// Make an arena; with --share, a directory of arenas for several users
    ///
    /// What is left out gets a default that suits hundreds of processes.
    ///
    /// With --share, the directory that CHAPPE_DIR names is made for several users; all of them set CHAPPE_DIR to it:
    ///   CHAPPE_DIR=/dev/shm/team chappe arena create default --share group
    /// All of them may make, use and await what is in its arenas. Only the user that made an arena, and root, may remove or
    /// resize what is in it, take permits by force, and remove the arena.
    ///
    /// JSON: {"name": TEXT, "path": TEXT, "members": N, "objects": N, "cells": N, "data": N}
    #[command(verbatim_doc_comment)]
    Create {
        /// Its name
        name: String,
        /// How many threads can use it at once
        #[arg(long, value_name = "N")]
        members: Option<u32>,
        /// How many objects it can have
        #[arg(long, value_name = "N")]
        objects: Option<u32>,
        /// How many permits its pools can have together, beyond the first of each
        #[arg(long, value_name = "N")]
        cells: Option<u32>,
        /// How many bytes its mutexes' data and its tubes can take together (65536, 64K, 1M)
        #[arg(long, value_name = "BYTES", value_parser = size::parse)]
        data: Option<u64>,
        /// Make the directory CHAPPE_DIR for several users: `group` (your own), `group:NAME`, or `all`
        #[arg(long, value_name = "WITH", value_parser = share::parse)]
        share: Option<Share>,
    },
    /// Remove an arena that is not in use, and all that is in it
    ///
    /// A job that keeps a permit or a lock of it uses it, too, also when the chappe that started it was killed.
    ///
    /// JSON: {"removed": TEXT}
    Rm {
        /// The arena
        name: String,
        /// Also one in use, one that is damaged, and one of another version
        #[arg(long)]
        force: bool,
    },
}
