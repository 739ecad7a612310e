//! `chappe threads`: the light threads of a process, read out of its memory.
//!
//! The process does nothing for it, and may be stopped. Shares of processors come from looking often at what its procs are running.

use crate::{Failure, failed, look, time, write};
use anyhow::{Context, Result, bail};
use chappe::Arena;
use chappe::thread::image::{Image, Seen};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// `chappe threads`.
#[derive(clap::Args, Debug)]
pub struct Threads {
    /// The process
    pub pid: u32,
    /// How long to look at what runs, for the shares of processors; 0 for not at all
    #[arg(long, value_name = "DURATION", value_parser = time::parse, default_value = "100ms")]
    pub sample: Duration,
    /// By proc
    #[arg(long)]
    pub tree: bool,
}

/// The end of its help.
pub const END: &str = "\
STATE is running, ready, waiting, suspended, or blocking: in a call that keeps
a kernel thread. CPU is the share of the samples in which a proc was running it. STACK is
what it uses of its stack, where it is not running.

With --json:
  {\"pid\": N, \"threads\": [{\"number\": N, \"name\": TEXT or null,
    \"state\": TEXT, \"waits_for\": TEXT or null, \"object\": TEXT or null,
    \"since_seconds\": N or null, \"runtime\": N, \"proc\": N, \"level\": N,
    \"pinned\": BOOL, \"cpu\": N or null, \"stack\": N or null,
    \"stack_size\": N}]}

Reading another process's memory takes the right to debug it: the same user,
and, where kernel.yama.ptrace_scope is 1, root, or a process that the reader
has begun.

Exit status:
  0 done; 1 there is no such process, it has no light threads, or it cannot be
  read";

/// How often one looks.
const OFTEN: Duration = Duration::from_micros(500);

/// What is waited for by name, and for how long.
type Waits = (String, f64);

/// Who of a process waits for what by name: by seat.
fn named(pid: u32) -> HashMap<u32, Waits> {
    let mut all = HashMap::new();
    for name in Arena::list().unwrap_or_default() {
        // One that cannot be looked at has nobody that could be told of.
        let Ok(arena) = Arena::open(&name) else { continue };
        for object in arena.objects() {
            for waiter in arena.waiters(&object.name).unwrap_or_default() {
                if waiter.who.pid == pid {
                    let shown = if name == "default" { object.name.clone() } else { format!("{name}:{}", object.name) };
                    all.insert(waiter.who.member, (shown, waiter.waiting.as_secs_f64()));
                }
            }
        }
    }
    all
}

/// The share of each thread, by number.
fn shares(image: &Image, time: Duration) -> Option<HashMap<u32, f64>> {
    let (begun, mut seen, mut looks) = (Instant::now(), Vec::new(), 0u32);
    while begun.elapsed() < time {
        image.running(&mut seen).ok()?;
        looks += 1;
        std::thread::sleep(OFTEN);
    }
    let mut shares = HashMap::new();
    seen.into_iter().for_each(|number| *shares.entry(number).or_insert(0.0) += 1.0 / f64::from(looks));
    (looks > 0).then_some(shares)
}

/// What it waits for, in words, and since when.
fn waits(thread: &Seen, named: &HashMap<u32, Waits>) -> String {
    match thread.seat.and_then(|seat| named.get(&seat)) {
        Some((object, seconds)) => format!("waits for {object} since {seconds:.1} s"),
        None => thread.waits.clone(),
    }
}

/// One line for each.
fn lines(threads: &[&Seen], named: &HashMap<u32, Waits>, shares: Option<&HashMap<u32, f64>>, indent: &str) -> String {
    let mut text = format!(
        "{indent}{:>8} {:<16} {:<9} {:>4} {:>5} {:>5} {:>9}  WAITS\n",
        "THREAD", "NAME", "STATE", "PROC", "LEVEL", "CPU", "STACK"
    );
    for thread in threads {
        let cpu = shares.map_or("-".into(), |shares| {
            format!("{:.0}%", 100.0 * shares.get(&thread.number).copied().unwrap_or_default())
        });
        let stack = thread.stack.map_or("-".into(), |bytes| format!("{:.1}K", bytes as f64 / 1024.0));
        let name = look::plain(thread.name.as_deref().unwrap_or("-"));
        let proc = format!("{}.{}", thread.runtime, thread.proc);
        let line = format!(
            "{indent}{:>8} {name:<16} {:<9} {proc:>4} {:>5} {cpu:>5} {stack:>9}  {}",
            thread.number,
            thread.state.as_str(),
            thread.level,
            look::plain(&waits(thread, named))
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn as_text(a: &Threads, image: &Image, named: &HashMap<u32, Waits>, shares: Option<&HashMap<u32, f64>>) -> String {
    let all: Vec<&Seen> = image.threads.iter().collect();
    if !a.tree {
        return lines(&all, named, shares, "");
    }
    let mut procs: Vec<(u32, u32)> = all.iter().map(|t| (t.runtime, t.proc)).collect();
    procs.sort_unstable();
    procs.dedup();
    let mut text = format!("process {}: {} light threads\n", a.pid, all.len());
    for (runtime, proc) in procs {
        let its: Vec<&Seen> = all.iter().copied().filter(|t| (t.runtime, t.proc) == (runtime, proc)).collect();
        let _ = writeln!(text, "  proc {runtime}.{proc}: {}", its.len());
        text += &lines(&its, named, shares, "    ");
    }
    text
}

fn as_json(a: &Threads, image: &Image, named: &HashMap<u32, Waits>, shares: Option<&HashMap<u32, f64>>) -> Value {
    let thread = |t: &Seen| {
        let object = t.seat.and_then(|seat| named.get(&seat));
        json!({
            "number": t.number, "name": t.name, "state": t.state.as_str(),
            "waits_for": Some(&t.waits).filter(|waits| !waits.is_empty()),
            "object": object.map(|(object, _)| object), "since_seconds": object.map(|(_, seconds)| seconds),
            "runtime": t.runtime, "proc": t.proc, "level": t.level, "pinned": t.pinned,
            "cpu": shares.map(|shares| shares.get(&t.number).copied().unwrap_or_default()),
            "stack": t.stack, "stack_size": t.stack_size,
        })
    };
    json!({ "pid": a.pid, "threads": image.threads.iter().map(thread).collect::<Vec<_>>() })
}

fn image(pid: u32) -> Result<Image> {
    match Image::of(pid) {
        Ok(Some(image)) => Ok(image),
        Ok(None) => bail!("process {pid} has no light threads, or a chappe of another version made them"),
        Err(e) if e.kind() == ErrorKind::NotFound => bail!("there is no process {pid}"),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => bail!(
            "process {pid} may not be read: run this as its user, and, where kernel.yama.ptrace_scope is 1, as root"
        ),
        Err(e) => Err(e).with_context(|| format!("cannot read process {pid}")),
    }
}

/// Runs it.
pub fn run(a: &Threads, json: bool) -> Result<u8, Failure> {
    let image = image(a.pid).map_err(failed)?;
    let named = if image.threads.iter().any(|t| t.seat.is_some()) { named(a.pid) } else { HashMap::new() };
    let shares = shares(&image, a.sample);
    let text = if json {
        format!("{}\n", as_json(a, &image, &named, shares.as_ref()))
    } else {
        as_text(a, &image, &named, shares.as_ref())
    };
    write(text.as_bytes())?;
    Ok(0)
}
