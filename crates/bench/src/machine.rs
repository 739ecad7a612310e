//! What a figure means nothing without: the machine, the kernel, the compiler, and how busy it was.

use std::ffi::CStr;
use std::fs::read_to_string;

/// One line for each.
pub fn facts() -> String {
    let cpu = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map_or("unknown", |m| m.trim_start_matches([' ', '\t', ':']));
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let rustc = std::process::Command::new("rustc").arg("--version").output();
    let rustc = rustc.map_or_else(|_| "rustc unknown".into(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    format!("{} processors, {model}\nLinux {}, {}, {rustc}\n{}", processors(), kernel.trim(), c_library(), load())
}

/// How many processors we may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How busy it is just now.
pub fn load() -> String {
    let all = read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load average {}", all.split(' ').next().unwrap_or("unknown"))
}

fn c_library() -> String {
    if cfg!(target_env = "gnu") {
        // SAFETY: gives a C string that lives as long as the program.
        let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
        format!("glibc {}", version.to_string_lossy())
    } else {
        "musl".to_owned()
    }
}
