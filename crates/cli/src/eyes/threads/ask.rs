//! What `chappe threads` asks of a thread: suspend, resume, and so on.

use super::read::{image, unreadable};
use crate::args::threads::{Asks, Threads};
use crate::said::{Failure, failed, write};
use anyhow::{Context as _, Result, anyhow, bail};
use chappe::thread::image::Image;
use chappe::thread::outside::{Failed, Request, ask};
use std::io::ErrorKind;
use std::time::Duration;

/// How long the process may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a thread's end is looked for.
const OFTEN: Duration = Duration::from_millis(5);

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
            _ => image(pid)?,
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
        Err(Failed::System(e)) => Err(failed(unreadable(pid, e))),
        Err(e) => Err(failed(anyhow!("process {pid}: {e}"))),
    }
}
