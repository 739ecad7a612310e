//! A process that does nothing, for the tests of what looks at processes. It ends with its handle, also when the test fails.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The process.
pub struct Asleep(pub Child);

impl Asleep {
    /// Starts it, and waits until it sleeps: what it needs to begin is not counted as its work.
    pub fn new(stdin: Stdio, stdout: Stdio) -> Asleep {
        let it = Asleep(Command::new("sleep").arg("1000").stdin(stdin).stdout(stdout).spawn().expect("sleep starts"));
        let (stat, began) = (format!("/proc/{}/stat", it.0.id()), Instant::now());
        while !std::fs::read_to_string(&stat).is_ok_and(|text| text.contains("(sleep) S ")) {
            assert!(began.elapsed() < Duration::from_secs(60), "it does not begin to sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
        it
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        // Our child: it has ended already, or ends by this.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
