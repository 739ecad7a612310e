//! A scope of systemd's for a terminal that was made in a login session: what ends with the session does not end it.
//!
//! The keeper asks the user's own manager to put it into a scope, before it has any child. Where there is no such manager, or it does not answer, the terminal
//! stays where it is, and nothing is said: it is no worse than before. A terminal made in a service or a container stays there: its bounds and its end are meant for it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the manager may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it is looked whether it has done it.
const LOOK: Duration = Duration::from_millis(2);

/// Moves this process into a scope of its own, where that is wanted and can be had. True: it has one.
pub fn enter(name: &str) -> bool {
    let cgroup = || std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let before = cgroup();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").unwrap_or_default();
    if !is_wanted(&before, Path::new(&runtime)) {
        return false;
    }
    let Ok(mut asked) = ask(OsStr::new("busctl"), name, std::process::id()) else { return false };
    let until = Instant::now() + PATIENCE;
    loop {
        let ended = asked.try_wait();
        let is_there = cgroup() != before;
        let is_refused = !matches!(ended, Ok(None)) && !matches!(ended, Ok(Some(status)) if status.success());
        if is_there || is_refused || Instant::now() >= until {
            // It may have ended.
            let _ = asked.kill();
            let _ = asked.wait();
            return is_there;
        }
        std::thread::sleep(LOOK);
    }
}

/// In a session's scope, with a manager of the user's.
fn is_wanted(cgroup: &str, runtime: &Path) -> bool {
    let in_session = |line: &str| line.rsplit('/').any(|part| part.starts_with("session-") && part.ends_with(".scope"));
    cgroup.lines().any(in_session) && !runtime.as_os_str().is_empty() && runtime.join("systemd/private").exists()
}

/// The manager's service, object and interface.
fn manager() -> [String; 3] {
    let service = "org.freedesktop.systemd1";
    [service.into(), format!("/{}", service.replace('.', "/")), format!("{service}.Manager")]
}

/// Asks for it.
fn ask(busctl: &OsStr, name: &str, pid: u32) -> std::io::Result<Child> {
    // What a unit's name may have: letters, digits and these.
    let fit = |c: char| if c.is_ascii_alphanumeric() || ":-_.".contains(c) { c } else { '_' };
    let unit = format!("chappe-term-{}-{pid}.scope", name.chars().map(fit).collect::<String>());
    let mut command = Command::new(busctl);
    command.args(["--user", "--quiet", "call"]).args(manager()).args(["StartTransientUnit", "ssa(sv)a(sa(sv))", &unit]);
    command.args(["fail", "1", "PIDs", "au", "1", &pid.to_string(), "0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_a_login_session_with_a_manager_is_left() {
        let here = tempfile::tempdir().unwrap();
        let session = "0::/user.slice/user-1000.slice/session-3.scope\n";
        assert!(!is_wanted(session, here.path()));
        std::fs::create_dir(here.path().join("systemd")).unwrap();
        std::fs::write(here.path().join("systemd/private"), "").unwrap();
        assert!(is_wanted(session, here.path()));
        assert!(is_wanted("12:pids:/\n1:name=systemd:/user.slice/session-c1.scope\n", here.path()));
        for elsewhere in ["0::/system.slice/runner.service\n", "0::/\n", "", "0::/user.slice/my-session-3.scope\n"] {
            assert!(!is_wanted(elsewhere, here.path()), "{elsewhere}");
        }
        assert!(!is_wanted(session, Path::new("")));
    }

    #[test]
    fn the_manager_is_asked_for_a_scope_with_this_process() {
        let here = tempfile::tempdir().unwrap();
        let (busctl, said) = (here.path().join("busctl"), here.path().join("said"));
        std::fs::write(&busctl, format!("#!/bin/sh\necho \"$*\" > '{}'\n", said.display())).unwrap();
        std::fs::set_permissions(&busctl, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(ask(busctl.as_os_str(), "a@b", 42).unwrap().wait().unwrap().success());
        let manager = manager().join(" ");
        assert_eq!(manager.matches("freedesktop").count(), 3);
        let call = "StartTransientUnit ssa(sv)a(sa(sv)) chappe-term-a_b-42.scope fail 1 PIDs au 1 42 0";
        assert_eq!(std::fs::read_to_string(said).unwrap(), format!("--user --quiet call {manager} {call}\n"));
        assert!(ask(here.path().join("none").as_os_str(), "a", 42).is_err());
    }
}
