//! `chappe top --web` in a real browser: Chromium without a window, driven by its DevTools protocol over two pipes.

use crate::place::{Place, Running, not_tested, until};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: room for two; they are nobody else's.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    number: u64,
    session: Option<String>,
}

impl Browser {
    /// None: there is none on this machine.
    fn new(here: &Place) -> Option<Browser> {
        let ((theirs_in, ours_out), (ours_in, theirs_out)) = (pipe(), pipe());
        let (reads, writes) = (theirs_in.as_raw_fd(), theirs_out.as_raw_fd());
        for program in PROGRAMS {
            let mut c = Command::new(program);
            c.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
            c.arg("--remote-debugging-pipe").arg(format!("--user-data-dir={}", here.file("profile").display()));
            c.arg("about:blank").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            // SAFETY: system calls alone between fork and exec. It reads from 3 and writes to 4; ours are put out of their way first.
            unsafe {
                c.pre_exec(move || {
                    let (r, w) = (libc::fcntl(reads, libc::F_DUPFD, 10), libc::fcntl(writes, libc::F_DUPFD, 10));
                    if libc::dup2(r, 3) == 3 && libc::dup2(w, 4) == 4 {
                        libc::close(r);
                        libc::close(w);
                        return Ok(());
                    }
                    Err(std::io::Error::last_os_error())
                });
            }
            if let Ok(child) = c.spawn() {
                let (to, from) = (File::from(ours_out), BufReader::new(File::from(ours_in)));
                return Some(Browser { child, to, from, number: 0, session: None });
            }
        }
        None
    }

    /// Calls a method; what happens meanwhile is left out.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("it listens");
        loop {
            let mut raw = Vec::new();
            assert!(self.from.read_until(0, &mut raw).expect("it answers") > 0, "the browser has gone");
            let answer: Value = serde_json::from_slice(&raw[..raw.len() - 1]).expect("JSON");
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn open(&mut self, address: &str) {
        let target = self.call("Target.createTarget", &json!({ "url": address }))["targetId"].clone();
        let session = self.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        self.session = Some(session["sessionId"].as_str().expect("a session").to_owned());
        self.call("Runtime.enable", &json!({}));
    }

    /// What a script answers, as text, or what it throws.
    fn eval(&mut self, script: &str) -> String {
        let answer = self.call("Runtime.evaluate", &json!({ "expression": format!("String({script})") }));
        let thrown = answer["exceptionDetails"]["exception"]["description"].as_str();
        thrown.or(answer["result"]["value"].as_str()).unwrap_or_default().to_owned()
    }

    fn wait_for(&mut self, script: &str, wanted: &str) {
        until(&format!("{script} has {wanted}"), || self.eval(script).contains(wanted).then_some(()));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The page's address, and the program that serves it.
fn serve(here: &Place) -> (Child, String) {
    let mut child = here.command(&["top", "--web"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().strip_prefix("chappe: ").unwrap().to_owned())
}

fn scene(here: &Place) -> (Running, Running) {
    here.ok(&["pool", "create", "gpu", "--permits", "2"]);
    here.ok(&["sem", "create", "arrived", "--value", "3"]);
    let holder = Place::spawn(&mut here.command(&["acquire", "gpu", "--", "sleep", "1000"]));
    until("the permit is held", || (here.free("gpu") == 1).then_some(()));
    let waiter = Place::spawn(&mut here.command(&["acquire", "-n", "2", "gpu", "--", "true"]));
    until("one waits", || (here.json(&["show", "gpu"])["waiting"] == 1).then_some(()));
    (holder, waiter)
}

#[test]
#[ignore = "storm: needs a browser, and seconds"]
fn the_page_shows_sorts_filters_and_looks_into_objects() {
    let here = Place::new();
    let Some(mut browser) = Browser::new(&here) else {
        return not_tested("the page of `chappe top --web`: no Chromium is installed");
    };
    let (holder, waiter) = scene(&here);
    let (mut child, address) = serve(&here);
    browser.open(&address);
    let (rows, detail) = ("document.querySelector('#rows').innerText", "document.querySelector('#detail').innerText");
    browser.wait_for(rows, "2 permits, 0 free, 2 held");
    browser.wait_for("document.querySelector('#processes').innerText", &waiter.pid().to_string());
    browser.wait_for("document.querySelector('#summary').innerText", "1 arenas, 2 objects, 1 waiting");
    // By waiters gpu is first; by name the other.
    let first = "document.querySelector('#rows tr').cells[0].innerText";
    browser.wait_for(first, "gpu");
    browser.eval("document.querySelector('[data-key=name]').click()");
    browser.wait_for(first, "arrived");
    // It looks into the pool.
    browser.eval("[...document.querySelectorAll('#rows tr')].find(r => r.cells[0].innerText === 'gpu').click()");
    browser.wait_for(detail, &format!("held by pid {}", holder.pid()));
    browser.wait_for(detail, &format!("1. in line: pid {}", waiter.pid()));
    // Pipes and light threads are a click away, and back.
    let mut pipeline = here.program("sh", &["-c", "yes | sleep 60"]);
    let pipeline = Place::spawn(&mut pipeline);
    browser.eval("document.querySelector('[data-view=pipes]').click()");
    browser.wait_for("document.querySelector('#pipes').innerText", "the reader is behind");
    assert_eq!(browser.eval("document.querySelector('[data-of=objects]').hidden"), "true");
    browser.eval("document.querySelector('[data-view=light]').click()");
    browser.wait_for("document.querySelector('[data-of=light]').hidden", "false");
    browser.eval("document.querySelector('[data-view=objects]').click()");
    browser.wait_for(rows, "2 permits, 0 free, 2 held");
    drop(pipeline);
    // It filters.
    let filter = "(f => { f.value = 'arr'; f.dispatchEvent(new Event('input')) })(document.querySelector('#filter'))";
    browser.eval(filter);
    browser.wait_for("document.querySelectorAll('#rows tr').length", "1");
    // A graph has as many points as there were looks.
    let points = "document.querySelector('#g-waiting polyline').getAttribute('points').split(' ').length > 1";
    browser.wait_for(points, "true");
    assert_eq!(browser.eval("document.querySelector('#error').innerText"), "");
    // What goes away is said, and the page goes on.
    here.ok(&["rm", "arrived"]);
    browser.wait_for("document.querySelectorAll('#rows tr').length", "0");
    child.kill().unwrap();
    child.wait().unwrap();
    browser.wait_for("document.querySelector('#error').innerText", "no answer");
    // Another token shows nothing.
    let (mut child, address) = serve(&here);
    browser.session = None;
    browser.open(&format!("{}0", &address[..address.len() - 1]));
    browser.wait_for("document.body?.innerText", if address.ends_with('0') { "chappe top" } else { "token" });
    child.kill().unwrap();
    child.wait().unwrap();
    drop((holder, waiter));
}
