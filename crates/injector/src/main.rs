//! The injector as a program; [`command`] says what it does.

use std::process::ExitCode;

#[cfg(target_arch = "x86_64")]
mod command;

#[cfg(target_arch = "x86_64")]
fn main() -> ExitCode {
    command::run()
}

#[cfg(not(target_arch = "x86_64"))]
fn main() -> ExitCode {
    eprintln!("the injector reads x86-64 instructions and sets x86 debug registers: nothing can be tried here");
    ExitCode::from(3)
}
