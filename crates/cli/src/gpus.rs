//! `chappe gpus`: a pool of one permit for each GPU that the driver names, and their names, for `chappe acquire`.
//!
//! A pool has its GPU's name, which is what CUDA and ROCm want to know. So one whose GPU the driver names no more is found by its name alone, and removed.
//! One whose permit is held stays, and is told: a caller in a container or under a batch system may see a part of the GPUs, and the others' jobs would
//! lose their protection. Where the GPU has fallen off, its users remove it by `chappe rm --force`: then waiters of several pools go on with the others.

use crate::args::Gpus;
use crate::ended::TIMED_OUT;
use crate::said::{Failure, complain, failed, write};
use crate::{time, within};
use anyhow::{Context, Result, anyhow, bail, ensure};
use chappe::{Arena, ObjectState, Pool, PoolError};
use serde_json::json;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// What the driver calls a GPU, and a part of one: its name begins so.
const BEGINNINGS: [&str; 2] = ["GPU-", "MIG-"];

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
    is_well: bool,
}

/// Runs a tool, for at most so long; None: there is no such tool.
fn tool(name: &'static str, args: &[&str], most: Duration) -> Result<Option<Said>> {
    let mut command = Command::new(name);
    let mut ran = match command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        ran => ran.with_context(|| format!("cannot run {name}"))?,
    };
    let began = Instant::now();
    let (tell, told) = channel();
    let (mut out, mut err) = (ran.stdout.take().expect("a pipe"), ran.stderr.take().expect("a pipe"));
    within::thread(name, move || {
        let complaint = within::thread(name, move || all_of(&mut err));
        let out = all_of(&mut out);
        // Nobody may wait for it any more.
        let _ = tell.send(complaint.map(|thread| (out, thread.join().unwrap_or_default())));
    })?;
    if let Ok(said) = told.recv_timeout(most) {
        let (out, err) = said?;
        // It has said all. What may hang now is its end, where the driver's files are closed.
        loop {
            if let Some(status) = ran.try_wait()? {
                return Ok(Some(Said { name, out, err, is_well: status.success() }));
            }
            if began.elapsed() >= most {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    // One that waits inside of the driver does not end by that: nobody waits for it.
    let _ = ran.kill();
    bail!(
        "{name} has not ended within {}, and no pool is changed: the driver may hang (`dmesg` shows what it says of itself); --timeout gives \
         it longer",
        time::show(most)
    )
}

/// What comes to the end, as text.
fn all_of(pipe: &mut impl Read) -> String {
    let mut all = Vec::new();
    // What came before an error is what it said.
    let _ = pipe.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

impl Said {
    /// What it wrote.
    fn words(&self) -> String {
        match format!("{}{}", self.out, self.err).trim() {
            "" => "it says nothing (run it by itself)".into(),
            words => words.into(),
        }
    }

    /// Where it names no GPU: whether there is none, or it has failed.
    fn listed(&self, gpus: Vec<Gpu>, complaints: Vec<String>) -> Result<Listed> {
        let none = self.out.contains("No devices were found") || !complaints.is_empty();
        ensure!(
            self.is_well || none || !gpus.is_empty(),
            "{} failed, and no pool is changed: {}",
            self.name,
            self.words()
        );
        Ok(Listed { gpus, complaints: complaints.iter().map(|line| format!("{}: {line}", self.name)).collect() })
    }
}

/// What `nvidia-smi -L` says: a line for each GPU, and one for each instance of a GPU that is parted, which is used in place of the whole.
fn nvidia(said: &Said) -> Result<Listed> {
    let (mut gpus, mut complaints): (Vec<Gpu>, Vec<String>) = (Vec::new(), Vec::new());
    let mut whole = String::new();
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
            None => {}
        }
    }
    said.listed(gpus, complaints)
}

/// What `rocm-smi --showuniqueid` says: `GPU[0] : Unique ID: 0x9a6b`. ROCR_VISIBLE_DEVICES calls that `GPU-9a6b`.
fn rocm(said: &Said) -> Result<Listed> {
    let id = |line: &str| Some(line.trim().split_once("Unique ID: 0x")?.1.trim().to_owned());
    let gpus = said.out.lines().filter_map(id).map(|id| format!("{}{id}", BEGINNINGS[0]));
    said.listed(gpus.map(|name| Gpu { part_of: name.clone(), name }).collect(), Vec::new())
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
    ensure!(said.is_well, "nvidia-smi does not say which GPUs are in use: {}", said.words());
    Ok(said.out.lines().map(|line| line.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(out: &str, err: &str, is_well: bool) -> Said {
        Said { name: "tool", out: out.into(), err: err.into(), is_well }
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
        assert!(e.contains("no pool is changed") && e.contains("couldn't communicate"), "{e}");
    }

    #[test]
    fn the_other_drivers_names_are_read() {
        let listed = rocm(&said("GPU[0]\t\t: Unique ID: 0x9a6b\nGPU[1]\t\t: Unique ID: N/A\n", "", true)).unwrap();
        assert_eq!(names(&listed), ["GPU-9a6b"]);
        let gpu = of_information("Model: \t\t A100\nGPU UUID: \t GPU-5e1c\nBus Type: \t PCIe\n").unwrap();
        assert_eq!(gpu, Gpu { name: "GPU-5e1c".into(), part_of: "GPU-5e1c".into() });
        assert_eq!(of_information("GPU UUID: \t GPU-????????-????\n"), None);
    }
}
