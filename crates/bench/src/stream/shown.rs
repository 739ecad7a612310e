//! Sections 6.3.2 and 7.5 of the thesis: music is read as it sounds, transformed, and shown in a window: 88,200 points a second, 60 pictures a second.
//!
//! The command runs the graph on a pseudo-terminal of 80 columns and 24 rows, which this process reads, and looks at no picture. The figure is the
//! processor time of the command for each second of music, its begin and end taken off by a run of no music.

use crate::table::{Case, Table};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::ptr::{null, null_mut};

/// Seconds of music.
const SECONDS: u32 = 1;
const RATE: u32 = 88_200;

/// The two ends of a pseudo-terminal.
fn terminal() -> Result<(File, File), String> {
    let (mut outer, mut inner) = (-1, -1);
    let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: both point to a number each; the name and the settings are left out.
    if unsafe { libc::openpty(&mut outer, &mut inner, null_mut(), null(), &size) } != 0 {
        return Err(format!("there is no pseudo-terminal: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: they were opened just now, and are nobody else's.
    Ok(unsafe { (OwnedFd::from_raw_fd(outer).into(), OwnedFd::from_raw_fd(inner).into()) })
}

/// Processor time of the command that runs a graph and loses nothing, in nanoseconds.
fn ran(chappe: &Path, graph: &str) -> Result<f64, String> {
    let (mut outer, inner) = terminal()?;
    // Read to its end, so that no picture waits for room.
    let drain = std::thread::spawn(move || {
        let mut picture = [0; 65_536];
        while outer.read(&mut picture).is_ok_and(|bytes| bytes > 0) {}
    });
    let mut command = Command::new(chappe);
    command.args(["graph", "run", "--quiet", "-"]).stdin(Stdio::piped()).stdout(inner).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", chappe.display()))?;
    // It has the terminal's end now; the last one that closes it ends the thread above.
    drop(command);
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(graph.as_bytes()).map_err(|e| e.to_string())?;
    }
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said).map_err(|e| e.to_string())?;
    }
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::uninit());
    // SAFETY: our child, which nobody has waited for; both are filled in.
    let usage = unsafe {
        if libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr()) < 0 {
            return Err(std::io::Error::last_os_error().to_string());
        }
        usage.assume_init()
    };
    drain.join().map_err(|_| "the terminal's reader has failed".to_owned())?;
    // With `--quiet` it says what was lost, and nothing else.
    if status != 0 || !said.is_empty() {
        return Err(format!("{} graph run: {said}", chappe.display()));
    }
    let ns = |t: libc::timeval| t.tv_sec as f64 * 1e9 + t.tv_usec as f64 * 1e3;
    Ok(ns(usage.ru_utime) + ns(usage.ru_stime))
}

/// Measures and prints. `chappe`: the command, with graphs.
///
/// # Errors
/// There is no command `chappe` with graphs.
///
/// # Panics
/// When the command fails or drops a point.
pub fn measure(chappe: &Path, rounds: u32) -> Result<(), String> {
    let graph = |seconds: f64| format!("sine 440 rate={RATE} seconds={seconds} | pace | spectrum 1024 | window");
    // As many points as are whole windows: none is left over.
    let seconds = f64::from(SECONDS * RATE / 1024 * 1024) / f64::from(RATE);
    let none = ran(chappe, &graph(1024.0 / f64::from(RATE)))?;
    let case = Case::new("spectrum and window", || {
        let took = ran(chappe, &graph(seconds)).unwrap_or_else(|e| panic!("{e}"));
        (took - none).max(0.0) / seconds
    });
    let table = Table::measure("processor time of a second of 88,200 points", rounds.clamp(1, 3), vec![case]);
    println!("{}", table.report());
    println!("  {:.2} % of a processor (5 % at most are wanted)", table.rows()[0].quantile(0.5) / 1e7);
    Ok(())
}
