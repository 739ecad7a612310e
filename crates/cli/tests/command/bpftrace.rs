//! The scripts of `examples/bpftrace`, run by bpftrace on this program while it waits, hands on and dies.

use crate::place::{Place, kill, not_tested, until};
use std::fs::File;
use std::process::{Child, Command, Stdio};

const SCRIPTS: [&str; 3] = ["waits", "handoffs", "deaths"];

struct Script {
    child: Child,
    name: &'static str,
}

impl Script {
    fn begin(here: &Place, name: &'static str) -> Option<Script> {
        let script = format!("{}/../../examples/bpftrace/{name}.bt", env!("CARGO_MANIFEST_DIR"));
        let file = |end: &str| File::create(here.file(&format!("{name}.{end}"))).unwrap();
        let mut command = Command::new("bpftrace");
        command.args([&script, env!("CARGO_BIN_EXE_chappe")]).stdin(Stdio::null());
        let child = command.stdout(file("out")).stderr(file("err")).spawn().ok()?;
        Some(Script { child, name })
    }

    fn said(&self, here: &Place) -> String {
        let read = |end: &str| std::fs::read_to_string(here.file(&format!("{}.{end}", self.name))).unwrap_or_default();
        read("out") + &read("err")
    }

    /// What it has said once it has ended.
    fn end(mut self, here: &Place) -> String {
        kill(self.child.id(), libc::SIGINT);
        self.child.wait().unwrap();
        self.said(here)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "storm: needs bpftrace, root and a kernel with uprobes, and seconds"]
fn the_three_scripts_see_a_wait_a_hand_off_and_a_death() {
    let here = Place::new();
    let mut scripts = Vec::new();
    for name in SCRIPTS {
        match Script::begin(&here, name) {
            Some(script) => scripts.push(script),
            None => return not_tested("the scripts of examples/bpftrace: no bpftrace is installed"),
        }
    }
    for script in &mut scripts {
        // Once its probes are there it says so; where they may not be, it ends.
        let ready = until("the probes are attached", || {
            let ended = script.child.try_wait().unwrap().is_some();
            (ended || script.said(&here).contains("Attaching")).then_some(!ended)
        });
        if !ready {
            eprintln!("{}", script.said(&here));
            return not_tested("the scripts of examples/bpftrace: this kernel or user may not attach probes");
        }
    }
    // "Attaching" comes before the last one is; a hand-off each second, until all have seen one.
    here.ok(&["pool", "create", "gpu"]);
    let all = |what: &[(&str, &str)], scripts: &[Script]| {
        what.iter().all(|(name, text)| scripts.iter().any(|s| s.name == *name && s.said(&here).contains(text)))
    };
    let mut round = 0;
    until("a hand-off and a death are seen", || {
        round += 1;
        let (holder, job) = here.holder(&format!("holder{round}"), &["gpu"]);
        let waiter = Place::spawn(&mut here.command(&["acquire", "gpu", "--", "true"]));
        until("one waits", || (here.json(&["show", "gpu"])["waiting"] == 1).then_some(()));
        kill(holder.pid(), libc::SIGKILL);
        // What it has left running keeps the permit until it ends, too.
        kill(job, libc::SIGKILL);
        drop(holder);
        assert_eq!(waiter.end().status, Some(0));
        let seen =
            [("handoffs", "@grants[default, gpu]"), ("handoffs", "@wakes["), ("deaths", "of arena default dead")];
        all(&seen, &scripts).then_some(())
    });
    let said: Vec<(&str, String)> = scripts.into_iter().map(|s| (s.name, s.end(&here))).collect();
    let waits = &said.iter().find(|(name, _)| *name == "waits").unwrap().1;
    assert!(waits.contains("@waited_us[default, gpu]"), "{waits}");
}
