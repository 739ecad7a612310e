//! `chappe gpus`: a pool of one permit for each GPU that the driver names, and their names, for `chappe acquire`.
//!
//! A pool has its GPU's name, which is what CUDA and ROCm want to know. So one whose GPU the driver names no more is found by its name alone, and removed.
//! One whose permit is held stays, and is told: a caller in a container or under a batch system may see a part of the GPUs, and the others' jobs would
//! lose their protection. Where the GPU has fallen off, its users remove it by `chappe rm --force`: then waiters of several pools go on with the others.

use crate::args::Gpus;
use crate::ended::TIMED_OUT;
use crate::said::{Failure, complain, failed, write};
use crate::signals::{self, Set};
use crate::{keep, time};
use anyhow::{Context, Result, anyhow, bail, ensure};
use chappe::{Arena, ObjectState, Pool, PoolError};
use serde_json::json;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What the driver calls a GPU, and a part of one: its name begins so.
const BEGINNINGS: [&str; 2] = ["GPU-", "MIG-"];

/// What the tools say where there is none.
const NONE: [&str; 3] = ["No devices were found", "No devices found", "No AMD GPUs"];

/// What ends chappe while it hears a tool, and then ends the tool first.
const ENDS: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// No tool's answer has more bytes.
const MOST: usize = 1 << 20;

/// Where the driver of NVIDIA's says which GPUs there are, for machines without its tools.
const PROC: &str = "/proc/driver/nvidia/gpus";

/// One that jobs may run on, and the GPU that it is a part of, if that is another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gpu {
    name: String,
    part_of: String,
}

/// What a tool has answered.
struct Listed {
    gpus: Vec<Gpu>,
    /// What it says of GPUs that it cannot name.
    complaints: Vec<String>,
}

/// Prints the names, and makes and removes pools.
///
/// # Errors
/// No tool answers; there is no GPU to use; a pool cannot be made. With status 124: all GPUs are in use just now.
pub fn run(a: &Gpus, json: bool) -> Result<u8, Failure> {
    let Listed { gpus, complaints } = ask(a.timeout).map_err(failed)?;
    for text in complaints {
        complain(json, &text);
    }
    let mut pools = Vec::new();
    for gpu in &gpus {
        pools.push(open(&gpu.name).map_err(failed)?);
    }
    let (removed, held) = fallen_off(&gpus).map_err(failed)?;
    for name in &removed {
        complain(
            json,
            &format!("the driver does not name {name} any more: it is out of service, and its pool is removed"),
        );
    }
    for (name, job) in &held {
        complain(
            json,
            &format!(
                "the driver does not name {name} here, and its permit is held by {job}: its pool stays; if the GPU has fallen off, `chappe rm --force {name}` sends the jobs that wait to the others"
            ),
        );
    }
    let used = if a.idle { used(a.timeout).map_err(failed)? } else { Vec::new() };
    // What computes on a GPU whose permit is taken is the job that has it.
    let passed_over = |gpu: &Gpu, pool: &Pool| used.contains(&gpu.part_of) && pool.available() > 0;
    let (over, free): (Vec<_>, Vec<_>) = gpus.iter().zip(&pools).partition(|(gpu, pool)| passed_over(gpu, pool));
    let names = |some: &[(&Gpu, &Pool)]| some.iter().map(|(gpu, _)| gpu.name.clone()).collect::<Vec<_>>();
    if json {
        write(
            format!("{}\n", json!({ "gpus": names(&free), "passed_over": names(&over), "removed": removed }))
                .as_bytes(),
        )?;
    } else {
        write(names(&free).iter().map(|name| format!("{name}\n")).collect::<String>().as_bytes())?;
    }
    match (free.is_empty(), over.len()) {
        (false, _) => Ok(0),
        (true, 0) => Err(failed(anyhow!("there is no GPU on this machine that its driver can use"))),
        (true, n) => {
            let why =
                anyhow!("programs without a permit compute on all {n} GPUs: try again later, or leave out --idle");
            Err(Failure { status: TIMED_OUT, why })
        }
    }
}

/// Attaches the pool of a GPU, or makes it.
fn open(name: &str) -> Result<Pool> {
    Pool::open_or_create(name, 1).map_err(|e| match e {
        PoolError::OtherSize { name, .. } => anyhow!(
            "pool `{name}` has several permits, and a GPU is for one job: `chappe pool resize {name} 1`, or `chappe rm {name}`"
        ),
        e => e.into(),
    })
}

/// Removes the pools of GPUs that are not named: which, and which others stay since a job has their permit: which, and which job.
fn fallen_off(gpus: &[Gpu]) -> Result<(Vec<String>, Vec<(String, String)>)> {
    // Where a pool without an arena in its name lies.
    let Ok(arena) = Arena::open(crate::look::DEFAULT) else { return Ok(Default::default()) };
    let (mut removed, mut held) = (Vec::new(), Vec::new());
    for info in arena.objects() {
        let is_gpu = BEGINNINGS.iter().any(|begin| info.name.starts_with(begin));
        if !is_gpu || !matches!(info.state, ObjectState::Pool(_)) || gpus.iter().any(|gpu| gpu.name == info.name) {
            continue;
        }
        match Pool::remove(&info.name, false) {
            // Another process was faster.
            Err(PoolError::Unknown { .. }) => {}
            Err(PoolError::InUse { first, .. }) => held.push((info.name, first)),
            done => {
                done?;
                removed.push(info.name);
            }
        }
    }
    Ok((removed, held))
}

/// Asks the first tool that is there.
fn ask(most: Duration) -> Result<Listed> {
    if let Some(said) = tool("nvidia-smi", &["-L"], most)? {
        return nvidia(&said);
    }
    if let Some(said) = tool("rocm-smi", &["--showuniqueid"], most)? {
        return rocm(&said);
    }
    let Ok(directories) = std::fs::read_dir(PROC) else {
        bail!(
            "neither nvidia-smi nor rocm-smi is there, nor {PROC}: without one of them it is not known which GPUs this machine has"
        )
    };
    let texts = directories.filter_map(|one| std::fs::read_to_string(one.ok()?.path().join("information")).ok());
    let mut gpus: Vec<Gpu> = texts.filter_map(|text| of_information(&text)).collect();
    gpus.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Listed { gpus, complaints: Vec::new() })
}

/// What a tool wrote, and how it ended.
struct Said {
    name: &'static str,
    out: String,
    err: String,
    status: ExitStatus,
}

/// Runs a tool, for at most so long; None: there is no such tool. What it has left running, with its output open, is not waited for.
fn tool(name: &'static str, args: &[&str], most: Duration) -> Result<Option<Said>> {
    let mut command = Command::new(name);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // From before its start: nothing that ends chappe leaves the tool behind.
    let (before, ends) = (Set::blocked_now(), Set::of(&signals::heeded(&ENDS)));
    ends.block();
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(move || {
            before.set();
            Ok(())
        });
    }
    // The tool may be a script: what the script has started ends with it.
    let started = command.process_group(0).spawn();
    let said = match started {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(anyhow!(e).context(format!("cannot run {name}"))),
        Ok(ran) => heard_whole(name, ran, most, &ends),
    };
    before.set();
    said
}

/// What the tool says, which is given up with all that it has started if that takes longer.
fn heard_whole(name: &'static str, mut ran: Child, most: Duration, ends: &Set) -> Result<Option<Said>> {
    let group = ran.id() as i32;
    match heard(&mut ran, most, ends) {
        Ok((status, [out, err])) => Ok(Some(Said { name, out, err, status })),
        Err(why) => {
            // One that waits inside of the driver does not end by that: nobody waits for it.
            signals::send(-group, libc::SIGKILL);
            Err(why.context(format!("{name} is given up, and no pool is changed")))
        }
    }
}

/// How it ended, and what it had written by then.
fn heard(ran: &mut Child, most: Duration, ends: &Set) -> Result<(ExitStatus, [String; 2])> {
    let (mut out, mut err) = (ran.stdout.take().context("a pipe")?, ran.stderr.take().context("a pipe")?);
    for fd in [out.as_raw_fd(), err.as_raw_fd()] {
        // SAFETY: a plain call on an open descriptor; nobody else has this end of the pipe.
        ensure!(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) } == 0, std::io::Error::last_os_error());
    }
    let told = ends.descriptor()?;
    // None: it has ended already, or the kernel tells nobody when it does.
    let end = keep::watch(ran.id() as i32).flatten();
    let (began, mut texts, mut open) = (Instant::now(), [Vec::new(), Vec::new()], [true; 2]);
    loop {
        if let Some(came) = ends.wait(Some(Duration::ZERO)) {
            signals::send(-(ran.id() as i32), libc::SIGKILL);
            signals::die_by(came.signal);
        }
        // First: behind its end it has no more to say.
        let ended = ran.try_wait()?;
        open = [open[0] && more(&mut out, &mut texts[0]), open[1] && more(&mut err, &mut texts[1])];
        ensure!(
            texts.iter().all(|text| text.len() <= MOST),
            "it has written more than 1 MiB, and no list of GPUs is so long"
        );
        if let Some(status) = ended {
            return Ok((status, texts.map(|text| String::from_utf8_lossy(&text).into_owned())));
        }
        let left = most.saturating_sub(began.elapsed());
        ensure!(
            !left.is_zero(),
            "it has not ended within {}: the driver may hang (`dmesg` shows what it says of itself); --timeout gives it longer",
            time::show(most)
        );
        let fd = |pipe: RawFd, open: bool| libc::pollfd {
            fd: if open { pipe } else { -1 },
            events: libc::POLLIN,
            revents: 0,
        };
        let mut all = [
            fd(out.as_raw_fd(), open[0]),
            fd(err.as_raw_fd(), open[1]),
            fd(end.as_ref().map_or(-1, AsRawFd::as_raw_fd), true),
            fd(told.as_raw_fd(), true),
        ];
        let pause = if end.is_some() { left } else { left.min(Duration::from_millis(5)) };
        let pause = i32::try_from(pause.as_millis()).unwrap_or(i32::MAX).max(1);
        // SAFETY: four valid entries; descriptors below 0 are left out. Where it fails, the loop looks again.
        unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, pause) };
    }
}

/// Reads what is there; whether more may come.
fn more(pipe: &mut impl Read, text: &mut Vec<u8>) -> bool {
    let mut part = [0; 4096];
    while text.len() <= MOST {
        match pipe.read(&mut part) {
            Ok(0) => return false,
            Ok(n) => text.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            // What came before an error is what it said.
            Err(e) => return e.kind() == ErrorKind::WouldBlock,
        }
    }
    true
}

impl Said {
    /// What it wrote.
    fn words(&self) -> String {
        match format!("{}{}", self.out, self.err).trim() {
            "" => "it says nothing (run it by itself)".into(),
            words => words.into(),
        }
    }

    /// Whether it has named all that there are: a tool that has failed, or says something that is not understood, has not, and no pool may be removed by that.
    fn listed(&self, gpus: Vec<Gpu>, complaints: Vec<String>, strange: &[&str]) -> Result<Listed> {
        let name = self.name;
        let says_none = NONE.iter().any(|none| self.out.contains(none) || self.err.contains(none));
        let explains = !complaints.is_empty() || gpus.is_empty() && says_none;
        ensure!(
            self.status.success() || explains && self.status.signal().is_none(),
            "{name} failed ({}), and no pool is changed: {}",
            self.status,
            self.words()
        );
        if gpus.is_empty() && !explains {
            let says = strange.first().map_or_else(|| self.words(), |line| format!("says `{line}`"));
            bail!("the answer of {name} is not understood, and no pool is changed: it names no GPU, and {says}");
        }
        let all = complaints.iter().map(String::as_str).chain(strange.iter().copied());
        Ok(Listed { gpus, complaints: all.map(|line| format!("{name}: {line}")).collect() })
    }
}

/// What `nvidia-smi -L` says: a line for each GPU, and one for each instance of a GPU that is parted, which is used in place of the whole.
fn nvidia(said: &Said) -> Result<Listed> {
    let (mut gpus, mut complaints): (Vec<Gpu>, Vec<String>) = (Vec::new(), Vec::new());
    let (mut whole, mut strange) = (String::new(), Vec::new());
    for line in said.out.lines().chain(said.err.lines()).map(str::trim) {
        let name =
            line.split_once("(UUID: ").and_then(|(_, rest)| rest.split_once(')')).map(|(name, _)| name.to_owned());
        match name {
            Some(name) if name.starts_with(BEGINNINGS[1]) => {
                gpus.retain(|gpu| gpu.name != whole);
                gpus.push(Gpu { name, part_of: whole.clone() });
            }
            Some(name) => {
                whole.clone_from(&name);
                gpus.push(Gpu { part_of: name.clone(), name });
            }
            // A GPU that does not answer is named by its place on the bus alone.
            None if line.contains("Unable to determine") => complaints.push(line.to_owned()),
            None if line.is_empty() || NONE.iter().any(|none| line.contains(none)) => {}
            None => strange.push(line),
        }
    }
    said.listed(gpus, complaints, &strange)
}

/// What `rocm-smi --showuniqueid` says: `GPU[0] : Unique ID: 0x9a6b`. ROCR_VISIBLE_DEVICES calls that `GPU-9a6b`. Between rules of `=`.
fn rocm(said: &Said) -> Result<Listed> {
    let (mut gpus, mut complaints, mut strange) = (Vec::new(), Vec::new(), Vec::new());
    let lines = said.out.lines().chain(said.err.lines()).map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('=')) {
        match line.split_once("Unique ID:").map(|(_, id)| id.trim()) {
            Some(id) => match id.strip_prefix("0x") {
                Some(id) => gpus.push(format!("{}{id}", BEGINNINGS[0])),
                None => complaints.push(format!("{line}: without one a job cannot be given this GPU")),
            },
            None if NONE.iter().any(|none| line.contains(none)) => {}
            None => strange.push(line),
        }
    }
    let gpus = gpus.into_iter().map(|name| Gpu { part_of: name.clone(), name });
    said.listed(gpus.collect(), complaints, &strange)
}

/// What the driver of NVIDIA's says of one GPU, in its directory of /proc.
fn of_information(text: &str) -> Option<Gpu> {
    let name = text.lines().find_map(|line| line.strip_prefix("GPU UUID:"))?.trim().to_owned();
    // One that was never initialised has no other name than question marks.
    name.starts_with(BEGINNINGS[0]).then_some(())?;
    (!name.contains('?')).then(|| Gpu { part_of: name.clone(), name })
}

/// The GPUs on which some program computes.
fn used(most: Duration) -> Result<Vec<String>> {
    let said = tool("nvidia-smi", &["--query-compute-apps=gpu_uuid", "--format=csv,noheader"], most)?;
    let said = said.context("--idle asks nvidia-smi which GPUs are in use, and it is not there")?;
    ensure!(said.status.success(), "nvidia-smi does not say which GPUs are in use ({}): {}", said.status, said.words());
    Ok(said.out.lines().map(|line| line.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(out: &str, err: &str, is_well: bool) -> Said {
        let status = std::os::unix::process::ExitStatusExt::from_raw(if is_well { 0 } else { 9 << 8 });
        Said { name: "tool", out: out.into(), err: err.into(), status }
    }

    fn names(listed: &Listed) -> Vec<&str> {
        listed.gpus.iter().map(|gpu| gpu.name.as_str()).collect()
    }

    #[test]
    fn instances_stand_for_the_gpu_that_is_parted_into_them() {
        let out = "GPU 0: A100 (UUID: GPU-a)\n  MIG 1g.5gb Device 0: (UUID: MIG-b)\n  MIG 1g.5gb Device 1: (UUID: MIG-c)\nGPU 1: A100 (UUID: GPU-d)\n";
        let listed = nvidia(&said(out, "", true)).unwrap();
        assert_eq!(names(&listed), ["MIG-b", "MIG-c", "GPU-d"]);
        assert_eq!(listed.gpus.iter().map(|gpu| gpu.part_of.as_str()).collect::<Vec<_>>(), ["GPU-a", "GPU-a", "GPU-d"]);
    }

    #[test]
    fn a_gpu_that_does_not_answer_is_said_and_the_others_are_named() {
        let lost = "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error";
        let listed = nvidia(&said("GPU 0: A100 (UUID: GPU-a)\n", lost, false)).unwrap();
        assert_eq!((names(&listed), listed.complaints.clone()), (vec!["GPU-a"], vec![format!("tool: {lost}")]));
        assert!(nvidia(&said(lost, "", false)).unwrap().gpus.is_empty(), "the only one");
        assert!(nvidia(&said("No devices were found\n", "", false)).unwrap().gpus.is_empty());
    }

    #[test]
    fn a_tool_that_failed_says_nothing_of_the_gpus() {
        let e = nvidia(&said("", "couldn't communicate with the NVIDIA driver\n", false)).err().unwrap().to_string();
        assert!(e.contains("(exit status: 9), and no pool is changed") && e.contains("couldn't communicate"), "{e}");
    }

    #[test]
    fn an_answer_that_is_not_understood_is_shown_and_is_not_no_gpu() {
        for (read, line) in [(nvidia as fn(&Said) -> _, "Liste der Karten:"), (rocm, "GPU[0]\t\t: Serial: 7")] {
            let e = read(&said(&format!("\n{line}\nmore\n"), "", true)).err().unwrap().to_string();
            assert!(e.contains(&format!("says `{line}`")) && e.contains("no pool is changed"), "{e}");
        }
        let listed = nvidia(&said("WARNING: infoROM\nGPU 0: A100 (UUID: GPU-a)\n", "", true)).unwrap();
        assert_eq!((names(&listed), listed.complaints.clone()), (vec!["GPU-a"], vec!["tool: WARNING: infoROM".into()]));
        for none in ["No devices were found\n", "No devices found.\n"] {
            assert!(nvidia(&said(none, "", true)).unwrap().gpus.is_empty());
        }
    }

    #[test]
    fn an_answer_that_says_nothing_or_breaks_off_is_no_list() {
        // As rocm-smi does it where its driver is not loaded.
        let e = rocm(&said("", "ERROR:root:Driver not initialized\n", true)).err().unwrap().to_string();
        assert!(e.contains("Driver not initialized") && e.contains("no pool is changed"), "{e}");
        for read in [nvidia as fn(&Said) -> _, rocm] {
            assert!(read(&said("", "", true)).is_err(), "it says nothing");
        }
        let part = "GPU 0: A100 (UUID: GPU-a)\n";
        assert!(nvidia(&said(part, "", false)).is_err(), "it failed, and does not say why");
        let killed = Said { status: ExitStatus::from_raw(libc::SIGKILL), ..said(part, "Unable to determine x", true) };
        assert!(nvidia(&killed).is_err(), "it was killed");
    }

    #[test]
    fn the_other_drivers_names_are_read() {
        let listed = rocm(&said("GPU[0]\t\t: Unique ID: 0x9a6b\nGPU[1]\t\t: Unique ID: N/A\n", "", true)).unwrap();
        assert_eq!(names(&listed), ["GPU-9a6b"]);
        assert!(listed.complaints[0].starts_with("tool: GPU[1]"), "{:?}", listed.complaints);
        let none =
            "===== ROCm System Management Interface =====\nWARNING: No AMD GPUs specified\n== End of ROCm SMI Log ==\n";
        assert!(rocm(&said(none, "", true)).unwrap().gpus.is_empty());
        let gpu = of_information("Model: \t\t A100\nGPU UUID: \t GPU-5e1c\nBus Type: \t PCIe\n").unwrap();
        assert_eq!(gpu, Gpu { name: "GPU-5e1c".into(), part_of: "GPU-5e1c".into() });
        assert_eq!(of_information("GPU UUID: \t GPU-????????-????\n"), None);
    }
}
