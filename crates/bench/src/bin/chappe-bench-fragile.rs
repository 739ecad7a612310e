//! The same program with the feature `fragile`, for what ships to be compared with.

use std::process::ExitCode;

fn main() -> ExitCode {
    chappe_bench::command::main()
}
