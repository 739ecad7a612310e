//! Control groups: where one may be made for a stage, and what its weight is called there.
//!
//! cgroup v2 has `cpu.weight`. Where the controller `cpu` is still v1's, `cpu.shares` is the same in other units. A group is made beside or
//! below chappe's own: in the nearest one that passes `cpu` on to its children, or can be made to, and that chappe may change. v2 refuses
//! to pass anything on from a group that has processes itself (but the root); so it is seldom chappe's own, and often its parent.
//!
//! What is left when `chappe pipe` is killed with -9 is the group with its stages in it. They go on with their weight; the next `chappe
//! pipe` that uses weights removes groups of dead ones that have become empty.

use super::kernel::Kernel;
use std::fs::read_to_string;
use std::io;
use std::path::{Path, PathBuf};

/// How chappe's groups' names begin; the process's number and the stage's come behind it.
const PREFIX: &str = "chappe-pipe-";
/// The usual weight, of 10,000.
pub const USUAL: f64 = 100.0;

/// A hierarchy in which groups may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    mount: PathBuf,
    /// Chappe's own group in it.
    own: PathBuf,
    /// Whether it is v2.
    second: bool,
}

/// A stage's group.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    /// Where its processes came from.
    home: PathBuf,
    second: bool,
}

fn error(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}

impl Hierarchy {
    /// That of the controller `cpu`, for a process.
    ///
    /// # Errors
    /// There is none.
    pub fn find(pid: u32) -> io::Result<Hierarchy> {
        let mounts = read_to_string("/proc/self/mountinfo")?;
        let own = read_to_string(format!("/proc/{pid}/cgroup"))?;
        Hierarchy::told(&mounts, &own).ok_or_else(|| error("no control groups with the controller `cpu` are mounted"))
    }

    fn told(mounts: &str, own: &str) -> Option<Hierarchy> {
        // `36 35 98:0 /root /mount opts ... - type source superopts`
        let mounted = |kind: &str, controller: Option<&str>| {
            mounts.lines().find_map(|line| {
                let (before, after) = line.split_once(" - ")?;
                let mut after = after.split(' ');
                let is = after.next()? == kind;
                let options = after.nth(1).unwrap_or_default();
                let has = controller.is_none_or(|c| options.split(',').any(|o| o == c));
                (is && has).then(|| PathBuf::from(before.split(' ').nth(4).unwrap_or("/")))
            })
        };
        let path = |controllers: &str| {
            own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (names, path) = (parts.next()?, parts.next()?);
                let is =
                    if controllers.is_empty() { names.is_empty() } else { names.split(',').any(|n| n == controllers) };
                is.then(|| path.trim_start_matches('/').to_owned())
            })
        };
        if let (Some(mount), Some(own)) = (mounted("cgroup", Some("cpu")), path("cpu")) {
            return Some(Hierarchy { own: mount.join(own), mount, second: false });
        }
        let (mount, own) = (mounted("cgroup2", None)?, path("")?);
        Some(Hierarchy { own: mount.join(own), mount, second: true })
    }

    /// Groups in which one may be made, the nearest first.
    fn places(&self) -> Vec<&Path> {
        self.own.ancestors().take_while(|p| p.starts_with(&self.mount)).collect()
    }

    /// Whether `cpu` is passed on to a group's children; if it is not, tries to have it so.
    fn passes_on(&self, place: &Path, kernel: &mut dyn Kernel) -> io::Result<()> {
        let has = |file: &str| {
            read_to_string(place.join(file)).is_ok_and(|text| text.split_ascii_whitespace().any(|c| c == "cpu"))
        };
        if !self.second || has("cgroup.subtree_control") {
            return Ok(());
        }
        if !has("cgroup.controllers") {
            return Err(error("the controller `cpu` is not passed on to it"));
        }
        kernel.write(&place.join("cgroup.subtree_control"), "+cpu")
    }

    /// Makes a group for a stage, and moves these processes there.
    ///
    /// # Errors
    /// Why not, of the last place that was tried.
    pub fn make(&self, stage: usize, pids: &[i32], kernel: &mut dyn Kernel) -> io::Result<Group> {
        let mut why = error("there is no group in which one could be made");
        for place in self.places() {
            let path = place.join(format!("{PREFIX}{}-{stage}", std::process::id()));
            let made = self.passes_on(place, kernel).and_then(|()| kernel.make_group(&path));
            if let Err(e) = made {
                why = e;
                continue;
            }
            let group = Group { path, home: self.own.clone(), second: self.second };
            match pids.iter().try_for_each(|pid| group.take(*pid, kernel)) {
                Ok(()) => return Ok(group),
                Err(e) => why = e,
            }
            group.remove(pids, kernel);
        }
        Err(why)
    }

    /// Removes what dead ones left behind, where it is empty.
    pub fn sweep(&self, kernel: &mut dyn Kernel) {
        for place in self.places() {
            for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let pid = name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
                if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                    // One that has processes is refused by the system, and stays.
                    let _ = kernel.remove_group(&entry.path());
                }
            }
        }
    }
}

/// A weight of 10,000 for a share of a processor: more than the share itself needs, since no stage takes more than it uses.
pub fn weight(share: f64) -> f64 {
    (share * 10_000.0).clamp(USUAL, 10_000.0)
}

impl Group {
    /// Takes a process in, with what it starts from now on.
    ///
    /// # Errors
    /// The system's. That it has gone is none.
    pub fn take(&self, pid: i32, kernel: &mut dyn Kernel) -> io::Result<()> {
        match kernel.write(&self.path.join("cgroup.procs"), &pid.to_string()) {
            Err(e) if e.raw_os_error() != Some(libc::ESRCH) => Err(e),
            _ => Ok(()),
        }
    }

    /// Changes its weight.
    ///
    /// # Errors
    /// The system's.
    pub fn weigh(&self, share: f64, kernel: &mut dyn Kernel) -> io::Result<()> {
        let weight = weight(share);
        let (file, number) = if self.second { ("cpu.weight", weight) } else { ("cpu.shares", weight * 1024.0 / USUAL) };
        kernel.write(&self.path.join(file), &format!("{number:.0}"))
    }

    /// Moves all processes back, and removes it.
    pub fn remove(&self, pids: &[i32], kernel: &mut dyn Kernel) {
        let there = read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        let there: Vec<i32> = there.lines().filter_map(|l| l.parse().ok()).collect();
        for pid in pids.iter().chain(&there) {
            // A process that is gone needs no place.
            let _ = kernel.write(&self.home.join("cgroup.procs"), &pid.to_string());
        }
        // If a process has been forked in it since, it stays until the next sweep.
        let _ = kernel.remove_group(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::fake::Fake;
    use super::*;

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn the_first_version_is_taken_where_it_has_the_controller() {
        let own = "3:cpu,cpuacct:/jobs/a\n0::/user.slice/s\n";
        let both = Hierarchy::told(&format!("{V2}{V1}"), own).unwrap();
        assert_eq!((both.own.to_str().unwrap(), both.second), ("/sys/fs/cgroup/cpu/jobs/a", false));
        let second = Hierarchy::told(V2, own).unwrap();
        assert_eq!((second.own.to_str().unwrap(), second.second), ("/sys/fs/cgroup/user.slice/s", true));
        let places: Vec<_> = second.places().iter().map(|p| p.to_str().unwrap()).collect();
        assert_eq!(places, ["/sys/fs/cgroup/user.slice/s", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"]);
        assert_eq!(Hierarchy::told("1 2 0:3 / /proc rw - proc proc rw\n", own), None);
    }

    #[test]
    fn a_group_is_made_in_the_nearest_place_that_passes_the_controller_on() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("user/shell");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("cgroup.controllers"), "memory\n").unwrap();
        std::fs::write(root.path().join("user/cgroup.controllers"), "cpu memory\n").unwrap();
        std::fs::write(root.path().join("user/cgroup.subtree_control"), "cpu\n").unwrap();
        let hierarchy = Hierarchy { mount: root.path().into(), own: own.clone(), second: true };
        let mut kernel = Fake::default();
        let group = hierarchy.make(2, &[7, 8], &mut kernel).unwrap();
        let expected = root.path().join(format!("user/{PREFIX}{}-2", std::process::id()));
        assert_eq!(group.path, expected);
        assert_eq!(kernel.files[&expected.join("cgroup.procs")], "8");
        group.weigh(0.15, &mut kernel).unwrap();
        assert_eq!(kernel.files[&expected.join("cpu.weight")], "1500");
        group.remove(&[7, 8], &mut kernel);
        assert_eq!(kernel.files[&own.join("cgroup.procs")], "8");
        assert!(kernel.groups.is_empty());
        kernel.refuses_groups = true;
        assert_eq!(hierarchy.make(2, &[7], &mut kernel).unwrap_err().kind(), io::ErrorKind::Other);
    }

    #[test]
    fn the_first_version_has_shares() {
        let root = tempfile::tempdir().unwrap();
        let hierarchy = Hierarchy { mount: root.path().into(), own: root.path().into(), second: false };
        let mut kernel = Fake::default();
        let group = hierarchy.make(1, &[7], &mut kernel).unwrap();
        for (share, shares) in [(0.0, "1024"), (0.1, "10240"), (3.0, "102400")] {
            group.weigh(share, &mut kernel).unwrap();
            assert_eq!(kernel.files[&group.path.join("cpu.shares")], shares);
        }
    }

    #[test]
    fn groups_of_dead_processes_are_swept_and_those_of_living_ones_stay() {
        let root = tempfile::tempdir().unwrap();
        let (dead, live) = (format!("{PREFIX}999999999-1"), format!("{PREFIX}{}-1", std::process::id()));
        let mut kernel = Fake::default();
        for name in [&dead, &live, &"other-999999999-1".to_owned()] {
            std::fs::create_dir(root.path().join(name)).unwrap();
            kernel.groups.insert(root.path().join(name));
        }
        Hierarchy { mount: root.path().into(), own: root.path().into(), second: true }.sweep(&mut kernel);
        assert!(!kernel.groups.contains(&root.path().join(&dead)));
        assert_eq!(kernel.groups.len(), 2);
    }
}
