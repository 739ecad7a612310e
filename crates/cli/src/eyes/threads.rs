//! `chappe threads`: the light threads of a process, read out of its memory.
//!
//! The process does nothing for it, and may be stopped. Shares of processors come from looking often at what its procs are running.

mod ask;
#[cfg(feature = "backtrace")]
mod backtrace;
mod read;

use crate::args::threads::Threads;
use crate::look;
use crate::said::{Failure, failed, wanted, write};
use anyhow::{Context as _, Result};
use chappe::Arena;
use chappe::thread::image::{Image, Seen};
use read::{Frame, image, image_of_core};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

impl Threads {
    /// What is shown.
    fn image(&self) -> Result<Image> {
        match (&self.core, self.pid) {
            (Some(core), _) => image_of_core(core),
            (None, pid) => image(pid.context("say which process")?),
        }
    }
}

/// How often the procs are sampled.
const OFTEN: Duration = Duration::from_micros(500);

/// What is waited for by name, and for how long.
type Waits = (String, f64);

/// What each thread of a process waits for by name: by attachment.
fn named(pid: u32) -> HashMap<u32, Waits> {
    let mut all = HashMap::new();
    for name in Arena::list().unwrap_or_default() {
        // An arena that cannot be opened has no waiters to report.
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
fn shares(image: &Image, time: Duration) -> Option<Shares> {
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
    match thread.attachment.and_then(|attachment| named.get(&attachment)) {
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
    let mut text = format!("process {}: {} light threads\n", image.pid(), all.len());
    for (runtime, proc) in procs {
        let its: Vec<&Seen> = all.iter().copied().filter(|t| (t.runtime, t.proc) == (runtime, proc)).collect();
        let _ = writeln!(text, "  proc {runtime}.{proc}: {}", its.len());
        text += &lines(&its, named, shares, "    ");
    }
    text
}

fn as_json(
    image: &Image,
    named: &HashMap<u32, Waits>,
    shares: Option<&HashMap<u32, f64>>,
    frames: Option<&HashMap<u32, Vec<Frame>>>,
) -> Value {
    let frame = |f: &Frame| json!({ "address": format!("{:#x}", f.at), "function": f.function, "place": f.place });
    let thread = |t: &Seen| {
        let object = t.attachment.and_then(|attachment| named.get(&attachment));
        let mut shown = json!({
            "number": t.number, "name": t.name, "state": t.state.as_str(),
            "waits_for": Some(&t.waits).filter(|waits| !waits.is_empty()),
            "object": object.map(|(object, _)| object), "since_seconds": object.map(|(_, seconds)| seconds),
            "runtime": t.runtime, "proc": t.proc, "level": t.level, "pinned": t.pinned,
            "cpu": shares.map(|shares| shares.get(&t.number).copied().unwrap_or_default()),
            "stack": t.stack, "stack_size": t.stack_size,
        });
        if let Some(frames) = frames {
            shown["frames"] = frames.get(&t.number).map(|all| all.iter().map(frame).collect::<Vec<_>>()).into();
        }
        shown
    };
    json!({ "pid": image.pid(), "threads": image.threads.iter().map(thread).collect::<Vec<_>>() })
}

/// The stacks, by number.
#[cfg(feature = "backtrace")]
fn stacks(image: &Image) -> Result<HashMap<u32, Vec<Frame>>> {
    let mut walker = backtrace::Walker::of(image);
    Ok(image.threads.iter().map(|t| (t.number, walker.frames(image, t))).collect())
}

#[cfg(not(feature = "backtrace"))]
fn stacks(_: &Image) -> Result<HashMap<u32, Vec<Frame>>> {
    crate::built::need("backtrace").map(|()| HashMap::new())
}

/// Each thread with its stack.
fn with_stacks(threads: &str, image: &Image, frames: &HashMap<u32, Vec<Frame>>) -> String {
    let mut text = String::from(threads);
    for thread in &image.threads {
        let name = thread.name.as_ref().map_or(String::new(), |name| format!(" ({})", look::plain(name)));
        let _ = writeln!(text, "\nthread {}{name} is {}", thread.number, thread.state.as_str());
        match frames.get(&thread.number).filter(|frames| !frames.is_empty()) {
            Some(frames) => {
                for (n, frame) in frames.iter().enumerate() {
                    let _ = writeln!(text, "  {n:>3}  {}", look::plain(&frame.to_string()));
                }
            }
            None => text += "       it runs: what a processor has of its stack, a debugger shows\n",
        }
    }
    text
}

/// A thread that has kept its proc for long.
struct Late {
    number: u32,
    so_long: Duration,
    /// The system call in which its kernel thread was found, each time that it was looked at after so long.
    call: Option<String>,
}

/// The system call that a kernel thread sleeps in.
fn sleeps_in(pid: u32, tid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let number: i64 = text.split_whitespace().next()?.parse().ok()?;
    let known = [
        (libc::SYS_read, "read"),
        (libc::SYS_readv, "readv"),
        (libc::SYS_pread64, "pread64"),
        (libc::SYS_write, "write"),
        (libc::SYS_writev, "writev"),
        (libc::SYS_pwrite64, "pwrite64"),
        (libc::SYS_futex, "futex"),
        (libc::SYS_futex_waitv, "futex_waitv"),
        (libc::SYS_nanosleep, "nanosleep"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_ppoll, "ppoll"),
        (libc::SYS_pselect6, "pselect6"),
        (libc::SYS_epoll_pwait, "epoll_pwait"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_sendmsg, "sendmsg"),
        (libc::SYS_accept, "accept"),
        (libc::SYS_accept4, "accept4"),
        (libc::SYS_connect, "connect"),
        (libc::SYS_openat, "openat"),
        (libc::SYS_fsync, "fsync"),
        (libc::SYS_fdatasync, "fdatasync"),
        (libc::SYS_flock, "flock"),
        (libc::SYS_wait4, "wait4"),
        (libc::SYS_waitid, "waitid"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_poll, "poll"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_select, "select"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_epoll_wait, "epoll_wait"),
    ];
    let name = known.into_iter().find(|(n, _)| *n == number).map(|(_, name)| name.to_owned());
    // -1: it is in the kernel, and not by a call.
    (number >= 0).then(|| name.unwrap_or_else(|| format!("system call {number}")))
}

/// The threads that kept their proc for longer than that without a pause: seen by each proc's count of dispatches.
fn late(pid: u32, image: &Image, most: Duration, time: Duration) -> Result<Vec<Late>> {
    let begun = Instant::now();
    let mut since: Vec<_> = image.turns()?.into_iter().map(|turn| (turn, begun)).collect();
    let mut longest: HashMap<u32, Late> = HashMap::new();
    while begun.elapsed() < time {
        std::thread::sleep(OFTEN);
        // What was read at the beginning of the look has gone on at least until then.
        let now = Instant::now();
        for (turn, (last, from)) in image.turns()?.into_iter().zip(&mut since) {
            if turn != *last {
                (*last, *from) = (turn, now);
            } else if let Some(number) = turn.thread
                && now.duration_since(*from) >= most
            {
                let so_long = now.duration_since(*from);
                let call = sleeps_in(pid, turn.kernel_thread);
                let late = longest.entry(number).or_insert_with(|| Late { number, so_long, call: call.clone() });
                late.so_long = so_long.max(late.so_long);
                late.call = late.call.take().filter(|last| call.as_ref() == Some(last));
            }
        }
    }
    let mut all: Vec<_> = longest.into_values().collect();
    all.sort_by_key(|late| (std::cmp::Reverse(late.so_long), late.number));
    Ok(all)
}

/// `--warn`.
fn warn(a: &Threads, image: &Image, most: Duration, json: bool) -> Result<u8, Failure> {
    // A tenth of a second is the default of --sample, for shares.
    let time = if a.sample == Duration::from_millis(100) { Duration::from_secs(1) } else { a.sample };
    let late = late(image.pid(), image, most, time).map_err(failed)?;
    let name = |number: u32| image.threads.iter().find(|t| t.number == number).and_then(|t| t.name.clone());
    if json {
        let one = |l: &Late| json!({ "number": l.number, "name": name(l.number), "seconds": l.so_long.as_secs_f64(), "call": l.call });
        let all = late.iter().map(one).collect::<Vec<_>>();
        write(format!("{}\n", json!({ "pid": image.pid(), "late": all })).as_bytes())?;
    } else {
        for Late { number, so_long, call } in &late {
            let name = name(*number).map_or(String::new(), |name| format!(" ({})", look::plain(&name)));
            let ms = so_long.as_millis();
            let line = match call {
                Some(call) => format!(
                    "thread {number}{name} has blocked its proc for {ms} ms, in {call}: thread::block_in_place lets the others go on\n"
                ),
                None => format!("thread {number}{name} has computed for {ms} ms without a pause\n"),
            };
            write(line.as_bytes())?;
        }
    }
    Ok(if late.is_empty() { 0 } else { 3 })
}

/// What share of a processor each thread uses, by its number.
type Shares = HashMap<u32, f64>;

/// One look, for the shares first.
fn looked(a: &Threads) -> Result<(Image, HashMap<u32, Waits>, Option<Shares>)> {
    let image = a.image()?;
    let named = if image.threads.iter().any(|t| t.attachment.is_some()) { named(image.pid()) } else { HashMap::new() };
    let shares = if a.core.is_some() { None } else { shares(&image, a.sample) };
    Ok((image, named, shares))
}

/// `--top`.
fn top(a: &Threads) -> Result<u8, Failure> {
    let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    let mut looks = 0;
    loop {
        let (image, named, shares) = looked(a).map_err(failed)?;
        let share = |t: &Seen| shares.as_ref().and_then(|s| s.get(&t.number)).copied().unwrap_or_default();
        let mut all: Vec<&Seen> = image.threads.iter().collect();
        all.sort_by(|x, y| share(y).total_cmp(&share(x)).then(x.number.cmp(&y.number)));
        let text = lines(&all, &named, shares.as_ref(), "");
        let read = wanted(format!("{clear}process {}: {} light threads\n{text}", image.pid(), all.len()).as_bytes())?;
        looks += 1;
        if !read || a.count.is_some_and(|count| looks >= count) {
            return Ok(0);
        }
        if a.sample < SHORTEST {
            std::thread::sleep(SHORTEST);
        }
    }
}

/// Of a look of `--top`.
const SHORTEST: Duration = Duration::from_millis(50);

/// Runs it.
pub fn run(a: &Threads, json: bool) -> Result<u8, Failure> {
    if let Some(status) = ask::run(a)? {
        return Ok(status);
    }
    if a.top {
        return top(a);
    }
    if let Some(most) = a.warn {
        let image = a.image().map_err(failed)?;
        return warn(a, &image, most, json);
    }
    let (image, named, shares) = looked(a).map_err(failed)?;
    let frames = a.backtrace.then(|| stacks(&image)).transpose().map_err(failed)?;
    let text = if json {
        format!("{}\n", as_json(&image, &named, shares.as_ref(), frames.as_ref()))
    } else {
        let text = as_text(a, &image, &named, shares.as_ref());
        frames.map_or(text.clone(), |frames| with_stacks(&text, &image, &frames))
    };
    write(text.as_bytes())?;
    Ok(0)
}
