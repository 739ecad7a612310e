//! What the keeper does, as the process that it is: `chappe keep --line N`.

use super::hold::Hold;
use super::keeper::{Begin, Keeper, Now};
use super::line::{ask_to_end, has_ended, kill, wait};
use crate::args::OnLoss;
use chappe::remote::drive;
use chappe::remote::engine::{Engine, LeaseId};
use chappe::remote::etcd::{Etcd, Options, now};
use chappe::remote::keys::Space;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// What chappe has told so far.
struct Told {
    pipe: File,
    part: Vec<u8>,
}

impl Told {
    /// The next lines, as far as they have come; `None`: chappe is gone.
    fn lines(&mut self) -> Option<Vec<String>> {
        let mut bytes = [0; 4096];
        match self.pipe.read(&mut bytes) {
            Ok(0) => return None,
            Ok(some) => self.part.extend_from_slice(&bytes[..some]),
            Err(_) => return Some(vec![]),
        }
        let mut lines = Vec::new();
        while let Some(end) = self.part.iter().position(|byte| *byte == b'\n') {
            let rest = self.part.split_off(end + 1);
            lines.push(String::from_utf8_lossy(&std::mem::replace(&mut self.part, rest)).into_owned());
        }
        Some(lines)
    }
}

/// `chappe keep --line N`.
pub fn keep(line: RawFd) {
    // SAFETY: chappe started this process with both, for it alone.
    let (line, pipe) = unsafe { (OwnedFd::from_raw_fd(line), File::from_raw_fd(0)) };
    // SAFETY: a plain call on an open descriptor.
    unsafe { libc::fcntl(line.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    let chappe = std::os::unix::process::parent_id() as i32;
    let (mut told, mut begin, mut state) = (Told { pipe, part: vec![] }, None::<Begin>, Now::default());
    let mut asked = false;
    loop {
        let life = state.life();
        let (due, at) = (state.job.is_some() && begin.is_some(), now());
        let next = match life.kill_at().saturating_sub(at) {
            _ if !due => Duration::from_secs(3600),
            Duration::ZERO => Duration::from_millis(500),
            left => left.min(life.every()).max(Duration::from_millis(10)),
        };
        let came = wait(&told.pipe, next);
        let at = now();
        let warns = begin.as_ref().is_some_and(|begin| begin.on_loss == OnLoss::Warn);
        if due && !came && !warns {
            let stopped = is_stopped(chappe);
            if at >= life.kill_at() {
                kill(state.job, &line);
            } else if at >= life.term_at() && stopped && !asked {
                asked = true;
                ask_to_end(state.job);
            }
        }
        if !came {
            continue;
        }
        let Some(lines) = told.lines() else { break };
        for text in lines {
            if begin.is_none() {
                begin = serde_json::from_str(&text).ok();
            } else if let Ok(new) = serde_json::from_str(&text) {
                state = new;
                asked = false;
            }
        }
    }
    if let Some(begin) = begin
        && !state.done
    {
        take_over(begin, state, line);
    }
}

fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// chappe is gone.
fn take_over(begin: Begin, state: Now, line: OwnedFd) {
    let (lease, mut life) = (LeaseId(begin.lease), state.life());
    let own = line.try_clone().and_then(|line| Keeper::start(begin.clone(), state.clone(), line));
    let options = Options { connect_timeout: Duration::from_millis(200), ..begin.options.clone() };
    let etcd = loop {
        match Etcd::connect(&options) {
            Ok(etcd) => break etcd,
            Err(_) if !life.is_over(now()) => {
                if begin.on_loss == OnLoss::Term && now() >= life.term_at() {
                    ask_to_end(state.job);
                }
            }
            Err(_) => {
                if state.held.is_some() && begin.on_loss != OnLoss::Warn {
                    kill(state.job, &line);
                }
                return;
            }
        }
    };
    let session = etcd.renewing(lease, life);
    if let (Some(held), false) = (&state.held, has_ended(&line)) {
        let mut hold = Hold::of(etcd.clone(), session, held.clone(), begin.on_loss, own.ok());
        hold.stay_until_the_line_ends(state.job, &line);
        if let Ok(space) = Space::new(&begin.options.namespace)
            && !hold.is_lost()
        {
            let _ = drive::release(&etcd, &mut held.release(space), || true);
        }
        let _ = etcd.revoke(lease);
        return hold.end();
    }
    // The head of the queue has it sooner if it is handed over.
    if let (Some(held), Ok(space)) = (&state.held, Space::new(&begin.options.namespace)) {
        let _ = drive::release(&etcd, &mut held.release(space), || true);
    }
    let _ = etcd.revoke(lease);
    if let Ok(own) = own {
        own.end();
    }
}
