//! Where a run keeps its arenas.

use std::path::PathBuf;

/// A directory of this run's own, removed at its end; what a killed run has left is removed by the next.
pub struct Home(pub PathBuf);

const PREFIX: &str = "chappe-injector-";

impl Home {
    /// Makes it, and makes all processes forked from here keep arenas there.
    pub fn enter() -> Result<Home, String> {
        let home = Home::make().map_err(|e| e.to_string())?;
        // SAFETY: this process has one thread.
        unsafe { std::env::set_var("CHAPPE_DIR", &home.0) };
        Ok(home)
    }

    /// Makes it.
    pub fn make() -> std::io::Result<Home> {
        for entry in std::fs::read_dir("/dev/shm")?.flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|n| n.strip_prefix(PREFIX)) else { continue };
            if pid.parse::<u32>().is_ok() && !PathBuf::from(format!("/proc/{pid}")).exists() {
                // Another user's stays.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let path = PathBuf::from(format!("/dev/shm/{PREFIX}{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Home(path))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What cannot be removed is the next run's business.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
