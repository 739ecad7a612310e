//! What a report's figures mean nothing without.

use serde::{Deserialize, Serialize};
use std::fs::read_to_string;

/// The machine, and how busy it was.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model.
    pub processor: String,
    /// How many of them this program may use.
    pub processors: usize,
    /// Whether it is a virtual machine, as the processor says.
    pub virtual_machine: bool,
    /// The kernel's release.
    pub kernel: String,
    /// The frequency governor, or why there is none.
    pub governor: String,
    /// What the kernel does against the processor's flaws: `name: what`.
    pub mitigations: Vec<String>,
    /// The load average before the run and after it.
    pub load: (f64, f64),
    /// Compiler and C library.
    pub facts: String,
    /// Seconds since 1970 at the beginning.
    pub began: u64,
    /// Seconds that all took.
    pub seconds: f64,
}

/// The load average of the last minute.
pub fn load() -> f64 {
    let all = read_to_string("/proc/loadavg").unwrap_or_default();
    all.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

impl Machine {
    /// This one, just now.
    pub fn look() -> Machine {
        let cpu = read_to_string("/proc/cpuinfo").unwrap_or_default();
        let of = |key: &str| {
            let line = cpu.lines().find(|l| l.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let governor = read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        let mut mitigations: Vec<String> = std::fs::read_dir("/sys/devices/system/cpu/vulnerabilities")
            .map(|dir| {
                dir.flatten()
                    .filter_map(|e| {
                        let what = read_to_string(e.path()).ok()?;
                        (what.trim() != "Not affected").then(|| format!("{}: {}", e.file_name().display(), what.trim()))
                    })
                    .collect()
            })
            .unwrap_or_default();
        mitigations.sort();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Machine {
            processor: of("model name").unwrap_or_else(|| "unknown".into()),
            processors: chappe_bench::machine::processors(),
            virtual_machine: of("flags").is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor")),
            kernel: read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            governor: governor.map_or_else(|_| "none that this machine shows".into(), |g| g.trim().to_owned()),
            mitigations,
            load: (load(), load()),
            facts: chappe_bench::machine::facts(),
            began: now.map_or(0, |n| n.as_secs()),
            seconds: 0.0,
        }
    }
}
