//! Light threads of all processes that this user may read: how many, and what they do. `chappe threads` has one process in full.
//!
//! Whether a process has light threads can be seen in its memory alone, and to look for them in every process would cost more than all else
//! here. So a process that had none is looked at again some looks later: see `AGAIN`.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;

/// After how many looks a process without light threads is looked at again, at the least: not all in the same look.
const AGAIN: u32 = 5;

/// The light threads of one process.
#[derive(Clone, Debug)]
pub struct LightSeen {
    /// The process.
    pub pid: u32,
    /// What it calls itself.
    pub name: String,
    /// How many are running, ready, waiting, in a call that blocks, suspended.
    pub states: [u32; 5],
    /// A line each, for a view of the process: at most [`LINES`].
    #[cfg_attr(not(feature = "top"), expect(dead_code, reason = "for the screen alone"))]
    pub lines: Vec<String>,
}

/// How many threads of a process are told of one by one.
pub const LINES: usize = 200;

impl LightSeen {
    /// All of them.
    pub fn count(&self) -> u32 {
        self.states.iter().sum()
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn of(_: u32) -> Option<LightSeen> {
        None
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn of(pid: u32) -> Option<LightSeen> {
        use chappe::thread::image::{Image, Seen, State};
        const STATES: [State; 5] = [State::Running, State::Ready, State::Waiting, State::Blocking, State::Suspended];
        let image = Image::of(pid).ok()??;
        // What is stopped is suspended, and more.
        let state = |t: &Seen| if t.state == State::Stopped { State::Suspended } else { t.state };
        let states = STATES.map(|s| image.threads.iter().filter(|t| state(t) == s).count() as u32);
        let line = |t: &Seen| {
            let name = t.name.as_deref().unwrap_or("-");
            format!("{}  {name}  {}  {}", t.number, t.state.as_str(), t.waits).trim_end().to_owned()
        };
        let lines = image.threads.iter().take(LINES).map(line).collect();
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned();
        Some(LightSeen { pid, name, states, lines })
    }

    /// For `--json` and the page.
    pub fn as_json(&self) -> Value {
        let [running, ready, waiting, blocking, suspended] = self.states;
        json!({
            "pid": self.pid, "name": self.name, "threads": self.count(), "running": running, "ready": ready, "waiting": waiting,
            "blocking": blocking, "suspended": suspended,
        })
    }
}

/// Looks again and again.
#[derive(Default)]
pub struct Looker {
    /// Processes that had none, by number and time of start, and for how many looks they are left alone.
    none: HashMap<(u32, u64), u32>,
}

/// When a process began, in the kernel's ticks; 0 for one of the kernel's own, which has no memory.
fn start(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

impl Looker {
    /// The processes that have light threads, the most first.
    pub fn look(&mut self) -> Vec<LightSeen> {
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let me = std::process::id();
        let pids = pids.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| *pid != me);
        let (mut all, mut none) = (Vec::new(), HashMap::new());
        for pid in pids {
            let Some(began) = start(pid) else { continue };
            match self.none.get(&(pid, began)) {
                Some(left) if *left > 0 => {
                    none.insert((pid, began), left - 1);
                }
                _ => match LightSeen::of(pid) {
                    Some(seen) => all.push(seen),
                    None => {
                        none.insert((pid, began), AGAIN + pid % AGAIN);
                    }
                },
            }
        }
        // Those that have gone are forgotten.
        self.none = none;
        all.sort_by_key(|l| (std::cmp::Reverse(l.count()), l.pid));
        all
    }
}
