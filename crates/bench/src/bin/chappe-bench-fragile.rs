//! The benchmarks built with the feature `fragile`, for a comparison with the build that ships.

use std::process::ExitCode;

fn main() -> ExitCode {
    chappe_bench::command::main()
}
