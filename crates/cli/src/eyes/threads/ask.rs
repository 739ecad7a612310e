//! What `chappe threads` asks of a thread: suspend, resume, and so on.

use super::Threads;
use crate::{Failure, failed, write};
use anyhow::{Context as _, Result, anyhow, bail};
use chappe::thread::image::Image;
use chappe::thread::outside::{Failed, Request, ask};
use std::io::ErrorKind;
use std::time::Duration;

/// How long the process may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a thread's end is looked for.
const OFTEN: Duration = Duration::from_millis(5);

/// What is asked of a thread.
#[derive(clap::Args, Debug, Default)]
#[group(multiple = false)]
pub struct Asks {
    /// Keep a thread from running; it still runs interrupts
    #[arg(long, value_name = "THREAD")]
    pub suspend: Option<u32>,
    /// Keep a thread from running anything
    #[arg(long, value_name = "THREAD")]
    pub stop: Option<u32>,
    /// Let it go on
    #[arg(long, value_name = "THREAD")]
    pub resume: Option<u32>,
    /// End a thread: its stack is unwound
    #[arg(long, value_name = "THREAD")]
    pub destroy: Option<u32>,
    /// Let a thread go on that is parked
    #[arg(long, value_name = "THREAD")]
    pub unpark: Option<u32>,
    /// Have a thread run its handler of a signal, 0 to 31
    #[arg(long, value_name = "THREAD:SIGNAL")]
    pub signal: Option<String>,
    /// Have a thread run what the program offers by that name
    #[arg(long, value_name = "THREAD:NAME")]
    pub interrupt: Option<String>,
    /// Tell a thread of events: a number whose bits 0 to 23 they are
    #[arg(long, value_name = "THREAD:EVENTS")]
    pub notify: Option<String>,
    /// Begin what the program offers by that name, and print the new thread's number
    #[arg(long, value_name = "NAME")]
    pub create: Option<String>,
    /// Wait until a thread has ended
    #[arg(long, value_name = "THREAD")]
    pub wait: Option<u32>,
}

fn pair(text: &str) -> Result<(u32, &str)> {
    let (thread, what) = text.split_once(':').context("say which thread and what, as 3:1")?;
    Ok((thread.parse().with_context(|| format!("`{thread}` is no thread's number"))?, what))
}

fn number(text: &str) -> Result<u32> {
    let hex = text.strip_prefix("0x").map(|hex| u32::from_str_radix(hex, 16));
    hex.unwrap_or_else(|| text.parse()).with_context(|| format!("`{text}` is no number"))
}

impl Asks {
    /// What the process is asked.
    fn request(&self) -> Result<Option<Request>> {
        let simple = [
            (self.suspend, Request::Suspend as fn(u32) -> Request),
            (self.stop, Request::Stop),
            (self.resume, Request::Resume),
            (self.destroy, Request::Destroy),
            (self.unpark, Request::Unpark),
        ];
        if let Some((thread, request)) = simple.into_iter().find_map(|(thread, make)| Some((thread?, make))) {
            return Ok(Some(request(thread)));
        }
        Ok(if let Some(text) = &self.signal {
            let (thread, signal) = pair(text)?;
            Some(Request::Signal(thread, number(signal)?))
        } else if let Some(text) = &self.notify {
            let (thread, events) = pair(text)?;
            Some(Request::Notify(thread, number(events)?))
        } else if let Some(text) = &self.interrupt {
            let (thread, name) = pair(text)?;
            Some(Request::Interrupt(thread, name.to_owned()))
        } else {
            self.create.clone().map(Request::Create)
        })
    }
}

/// Waits for a thread's end. Another that has its number by then is not told apart.
fn wait(pid: u32, number: u32) -> Result<()> {
    let mut seen = false;
    loop {
        let image = match Image::of(pid) {
            Ok(Some(image)) => image,
            // It went with its process.
            Err(e) if seen && e.kind() == ErrorKind::NotFound => return Ok(()),
            _ => super::image(pid)?,
        };
        if !image.threads.iter().any(|t| t.number == number) {
            return if seen { Ok(()) } else { bail!("process {pid}: it has no light thread {number}") };
        }
        seen = true;
        std::thread::sleep(OFTEN);
    }
}

/// Does it. `None`: nothing is asked.
pub fn run(a: &Threads) -> Result<Option<u8>, Failure> {
    let Some(pid) = a.pid else { return Ok(None) };
    if let Some(number) = a.asks.wait {
        wait(pid, number).map_err(failed)?;
        return Ok(Some(0));
    }
    let Some(request) = a.asks.request().map_err(failed)? else { return Ok(None) };
    match ask(pid, &request, PATIENCE) {
        Ok(made) => {
            if let Some(number) = made {
                write(format!("{number}\n").as_bytes())?;
            }
            Ok(Some(0))
        }
        Err(Failed::System(e)) => Err(failed(super::unreadable(pid, e))),
        Err(e) => Err(failed(anyhow!("process {pid}: {e}"))),
    }
}
