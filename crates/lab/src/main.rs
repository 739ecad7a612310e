//! The program behind `chappe lab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    chappe_lab::command::main()
}
