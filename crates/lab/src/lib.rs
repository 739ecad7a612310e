//! `chappe lab`: the papers' measurements, run again on the reader's machine, with peers beside them.
//!
//! A *row* is one table or figure of a paper. Each is an entry of [`rows`], and runs in a process of its own: a row that
//! fails takes no other along. Its tables are those that the benchmarks of `chappe-bench` make while it runs; each table's cases take turns
//! within the run, so a ratio compares what both had of the same moments.
//!
//! | module | what it does |
//! |---|---|
//! | [`row`], [`rows`] | what is measured |
//! | [`run`] | starts each row, shows the progress, collects |
//! | [`report`] | what came out, as JSON |
//! | [`statistics`] | medians, and intervals by the bootstrap |
//! | [`sides`] | which cases are chappe's, which a peer's, which a floor |
//! | [`verdict`] | where chappe is slower than the best peer |
//! | [`compare`] | what changed between two reports beyond noise |
//! | [`html`], [`plot`] | the report as one page |

pub mod command;
pub mod compare;
pub mod html;
pub mod machine;
pub mod plot;
pub mod report;
pub mod row;
pub mod rows;
pub mod run;
pub mod sides;
pub mod statistics;
pub mod verdict;
