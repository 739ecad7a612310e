//! The program that measures.

use std::process::ExitCode;

fn main() -> ExitCode {
    chappe_bench::command::main()
}
