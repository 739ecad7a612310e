//! What the keeper does, as the process that it is: `chappe keep --remote`.

use super::hold::Hold;
use super::keeper::{Begin, Keeper, Now, is_stopped};
use super::line::{Crew, wait_until};
use crate::args::OnLoss;
use chappe::remote::drive;
use chappe::remote::engine::LeaseId;
use chappe::remote::etcd::{Etcd, now};
use chappe::remote::keys::Space;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long a killed job may take to end, before it is killed again.
const AGAIN: Duration = Duration::from_millis(500);

/// How long a lease may be on its way that a process asked for before it was killed.
const COMES: Duration = Duration::from_secs(10);

/// What chappe tells.
struct Told {
    pipe: File,
    part: Vec<u8>,
}

impl Told {
    /// What has come, as far as it is whole; `None`: chappe is gone.
    fn read(&mut self) -> Option<Vec<Now>> {
        let mut bytes = [0; 4096];
        match self.pipe.read(&mut bytes) {
            Ok(0) => return None,
            Ok(some) => self.part.extend_from_slice(&bytes[..some]),
            Err(_) => return Some(vec![]),
        }
        let end = self.part.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.part.split_off(end);
        let lines = std::mem::replace(&mut self.part, rest);
        Some(lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

/// `chappe keep --remote`.
pub fn keep() {
    // SAFETY: a plain system call. What chappe has inherited is not for it, such as the line of a job in which chappe runs itself.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    let mut first = String::new();
    let _ = std::io::stdin().read_to_string(&mut first);
    let (Ok(pipe), Ok(line)) = (moved(libc::STDOUT_FILENO), moved(libc::STDERR_FILENO)) else { return };
    let parts = first.split_once('\n');
    let read =
        parts.and_then(|(begin, state)| Some((serde_json::from_str(begin).ok()?, serde_json::from_str(state).ok()?)));
    let Some((begin, state)): Option<(Begin, Now)> = read else { return };
    let chappe = std::os::unix::process::parent_id() as i32;
    let mut crew = Crew::new(line, String::new(), chappe);
    let state = beside(chappe, &begin, state, Told { pipe: pipe.into(), part: vec![] }, &mut crew);
    if !state.done {
        take_over(begin, state, &crew);
    }
}

/// What is open there; nothing is from then on.
fn moved(fd: RawFd) -> io::Result<OwnedFd> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: a plain call on an open descriptor.
    let to = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: the same.
    if to < 0 || unsafe { libc::dup2(nothing.as_raw_fd(), fd) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(to) })
}

/// Beside chappe, until that is gone; answers what it told last.
fn beside(chappe: i32, begin: &Begin, mut state: Now, mut told: Told, crew: &mut Crew) -> Now {
    know(crew, &Now::default(), &state);
    let (mut asked, mut next) = (false, Duration::ZERO);
    loop {
        let life = state.life();
        // Before that no process of the job can be there.
        let may_run = state.held.is_some() && begin.on_loss != OnLoss::Warn;
        let due = if begin.on_loss == OnLoss::Term && !asked { life.term_at() } else { life.kill_at() };
        if wait_until(&told.pipe, if may_run { due.max(next) } else { Duration::MAX }) {
            let Some(news) = told.read() else { return state };
            for new in news {
                know(crew, &state, &new);
                (state, asked, next) = (new, false, Duration::ZERO);
            }
        } else if now() >= life.kill_at() {
            crew.kill();
            // Until there is something new: a chappe that has ended its job may stay stopped for long.
            next = if crew.has_ended() { Duration::MAX } else { now() + AGAIN };
        } else {
            asked = true;
            // Else it has asked itself.
            if is_stopped(chappe) {
                crew.ask_to_end();
            }
        }
    }
}

/// What is new of the job's processes.
fn know(crew: &mut Crew, old: &Now, new: &Now) {
    if old.lease != new.lease {
        crew.is_marked(new.mark());
    }
    if let (None, Some((pid, own_group))) = (old.job, new.job) {
        crew.begins(pid, own_group);
    }
    crew.leaves(&new.left[old.left.len().min(new.left.len())..]);
}

/// chappe is gone.
fn take_over(begin: Begin, state: Now, crew: &Crew) {
    let Some(lease) = state.lease.map(LeaseId) else { return };
    let (mut life, came) = (state.life(), connecting(&begin));
    // One that can end before its work is done needs a successor: so not when nothing is left but to give all back.
    let needs = state.held.is_some() && !crew.has_ended();
    let own = needs.then(|| crew.line().try_clone().and_then(|line| Keeper::start(begin.clone(), state.clone(), line)));
    let own = own.and_then(Result::ok);
    let Some(etcd) = connected(&begin, &state, crew, &came) else { return own.into_iter().for_each(Keeper::end) };
    let mut own = own;
    let mut is_lost = life.is_over(now()) && begin.on_loss == OnLoss::Warn;
    if let (Some(held), true) = (&state.held, needs && !is_lost) {
        let session = etcd.renewing(lease, life);
        let mut hold = Hold::of(etcd.clone(), session, held.clone(), begin.on_loss, own.take());
        hold.stay_until_the_end_of(crew);
        is_lost = hold.is_lost();
        own = hold.keeper();
    }
    // The head of the queue has it sooner if it is handed over.
    if let (Some(held), Ok(space), false) = (&state.held, Space::new(&begin.options.namespace), is_lost) {
        let _ = drive::release(&etcd, &mut held.release(space), || true);
    }
    // What is not answered is repeated for as long as there is something to end; and so is that of a lease which chappe had asked for when it was killed,
    // and which may come yet, with a place in line under it.
    let (mut may_come, since) = (state.held.is_none(), now());
    while !etcd.ends(lease).is_ok_and(|was_there| was_there || !may_come) && !life.is_over(now()) {
        std::thread::sleep(Duration::from_millis(100));
        may_come &= now() < since + COMES;
    }
    own.into_iter().for_each(Keeper::end);
}

/// Connects; meanwhile the job ends in time. `None`: the lease is over, and with it the job, unless that is only warned.
fn connected(begin: &Begin, state: &Now, crew: &Crew, came: &Receiver<Etcd>) -> Option<Etcd> {
    let (mut life, mut asked) = (state.life(), false);
    loop {
        // One that connects at once is there before the first look.
        if let Ok(etcd) = came.recv_timeout(Duration::from_millis(50)) {
            return Some(etcd);
        }
        let (at, ends) = (now(), begin.on_loss != OnLoss::Warn && state.held.is_some());
        if life.is_over(at) {
            if !ends || crew.has_ended() {
                return None;
            }
            crew.kill();
        } else if begin.on_loss == OnLoss::Term && ends && at >= life.term_at() && !asked {
            asked = true;
            crew.ask_to_end();
        }
    }
}

/// On a thread of its own: a try may take longer than the job has.
fn connecting(begin: &Begin) -> Receiver<Etcd> {
    let ((done, came), options) = (channel(), begin.options.clone());
    let body = move || {
        loop {
            match Etcd::connect(&options) {
                Ok(etcd) => return drop(done.send(etcd)),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    // It ends with the process. Without it the job is ended when the lease is.
    let _ = std::thread::Builder::new().name("chappe-connect".into()).spawn(body);
    came
}
