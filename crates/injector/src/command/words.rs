//! What the command reads and says.

use std::io::Write;
use std::str::FromStr;

pub fn say(text: &str) {
    // A reader that has gone still gets the exit status.
    let _ = writeln!(std::io::stdout(), "{text}");
}

pub fn refused() -> usize {
    eprintln!(
        "this system does not let a process be traced (ptrace): a container needs CAP_SYS_PTRACE or a seccomp profile \
         that allows it, and a debugger must not trace the injector"
    );
    3
}

pub fn number<T: FromStr>(arg: Option<&&str>) -> Result<T, String> {
    let arg = arg.ok_or("a number is missing")?;
    arg.parse().map_err(|_| format!("`{arg}` is not a number that fits here"))
}
