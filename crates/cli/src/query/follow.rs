//! `chappe query --follow`: a question about files that grow, until Ctrl-C, SIGTERM or SIGHUP; then what was added up is written.
//!
//! inotify(7) says when something happens; a look each second finds what it does not say (files of other machines, files behind links).

use super::ends;
use super::files::{Files, Looked, Takes};
use super::question::{asked, form, say, style, tell};
use crate::args::Query;
use crate::notify::Notify;
use crate::progress::Late;
use crate::signals::{Set, heeded};
use anyhow::{Error, Result, ensure};
use chappe::rows::{AskError, Growing, Report, no_text};
use std::collections::HashSet;
use std::io::{stdin, stdout};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often is looked when nothing is said.
const LOOK: Duration = Duration::from_secs(1);

/// Runs the command.
///
/// # Errors
/// What makes no sense, or cannot be read or written.
pub fn run(a: &Query, json: bool) -> Result<()> {
    let began = Instant::now();
    let mut files = Files::new(&a.files)?;
    let signals = Set::of(&heeded(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]));
    signals.block();
    let news = News::of(files.named(), signals.descriptor()?);
    let bar = Late::new(!json, None);
    let mut out = ends::Answer::new(&bar, None);
    let mut answer = Answer {
        a,
        json,
        names: Vec::new(),
        begun: HashSet::new(),
        foreign: HashSet::new(),
        out: Some(&mut out),
        growing: None,
        bar,
    };
    let followed = follow(&mut files, &news, &mut answer);
    // The sums are written at once; another Ctrl-C ends that.
    signals.wait(Some(Duration::ZERO));
    signals.unblock();
    let finished = followed.and_then(|looked| match (answer.growing, looked) {
        (None, _) => Ok(Report::default()),
        (Some(growing), Looked::Enough) => Ok(growing.finish()?),
        // What has no line end yet may go on.
        (Some(growing), _) => Ok(growing.stop()?),
    });
    answer.bar.clear();
    tell(finished, began, json)
}

fn follow(files: &mut Files, news: &News, answer: &mut Answer<'_, '_>) -> Result<Looked> {
    loop {
        let began = Instant::now();
        let looked = files.look(answer)?;
        let took = began.elapsed();
        if looked == Looked::Enough || files.is_over() {
            return Ok(looked);
        }
        if let Some(growing) = &mut answer.growing {
            growing.time_goes_by()?;
        }
        let soon = [files.ends().map(|at| at.saturating_duration_since(began)), answer.ends_in(), Some(LOOK)];
        let most = if looked == Looked::More { Some(Duration::ZERO) } else { soon.into_iter().flatten().min() };
        let came = news.wait(most.unwrap_or(LOOK), files.stdin.is_some())?;
        if came.ends {
            // What is there by now is counted.
            return files.look(answer);
        }
        if came.stdin && files.read_stdin(answer)? == Looked::Enough {
            return Ok(Looked::Enough);
        }
        // Looking takes at most a third of the time, however much happens.
        std::thread::sleep(took * 2);
    }
}

/// What has come, in what it comes to.
struct Answer<'a, 'o> {
    a: &'a Query,
    json: bool,
    /// All texts, and whether each is named: one that only lies in a directory is left out if it cannot be read.
    names: Vec<(String, bool)>,
    /// Those of which something has come.
    begun: HashSet<usize>,
    /// Those that are left out.
    foreign: HashSet<usize>,
    out: Option<&'o mut ends::Answer>,
    growing: Option<Growing<'o>>,
    bar: Late,
}

impl Answer<'_, '_> {
    fn ends_in(&self) -> Option<Duration> {
        self.growing.as_ref().and_then(Growing::ends_in)
    }

    /// A file of a directory is none that can be read: the others go on.
    fn leave_out(&mut self, text: usize, why: &str) {
        say(&format!("chappe: {why}; it is left out"));
        self.foreign.insert(text);
        self.growing.iter_mut().for_each(|growing| growing.leave_out(text));
    }

    fn unless_foreign(&mut self, text: usize, came: Result<bool, AskError>) -> Result<bool> {
        match came {
            Err(AskError::Head(name, why)) if !self.names[text].1 => {
                self.leave_out(text, &format!("{name}: {why}"));
                Ok(true)
            }
            came => Ok(came?),
        }
    }
}

impl Takes for Answer<'_, '_> {
    fn begin(&mut self, name: &str, named: bool) {
        self.growing.iter_mut().for_each(|growing| _ = growing.begin(name));
        self.names.push((name.to_owned(), named));
    }

    fn begin_anew(&mut self, text: usize) {
        if let Some(growing) = &mut self.growing {
            say(&format!("chappe: {} was truncated: it is read from its begin", growing.name(text)));
            growing.begin_anew(text);
        }
        self.begun.remove(&text);
        self.foreign.remove(&text);
    }

    fn piece(&mut self, text: usize, piece: &[u8]) -> Result<bool> {
        let (name, named) = self.names[text].clone();
        if self.begun.insert(text)
            && let Some(why) = no_text(piece)
        {
            let why = format!("{name}: {why}");
            ensure!(!named, why);
            // It says nothing of the others.
            self.leave_out(text, &why);
            return Ok(true);
        }
        if self.growing.is_none() {
            let format = form(self.a, &name, piece)?;
            let Some(out) = self.out.take() else { return Ok(false) };
            let mut growing = Growing::new(asked(self.a, format, 1)?, style(self.a, self.json), out);
            self.names.iter().for_each(|(name, _)| _ = growing.begin(name));
            self.foreign.iter().for_each(|text| growing.leave_out(*text));
            self.growing = Some(growing);
        }
        if self.foreign.contains(&text) {
            return Ok(true);
        }
        self.bar.add(piece.len());
        let came = self.growing.as_mut().map_or(Ok(false), |growing| growing.piece(text, piece));
        self.unless_foreign(text, came)
    }

    fn end(&mut self, text: usize) -> Result<bool> {
        let came = self.growing.as_mut().map_or(Ok(true), |growing| growing.end(text));
        self.unless_foreign(text, came)
    }
}

/// Where it is told that there may be more.
struct News {
    signals: OwnedFd,
    notify: Option<Notify>,
}

/// What was told.
struct Came {
    /// It is to end.
    ends: bool,
    /// stdin has something, or has ended.
    stdin: bool,
}

impl News {
    /// Of files and directories. Where the system has no room for that, a look each second is all.
    fn of(named: &[PathBuf], signals: OwnedFd) -> News {
        let notify = Notify::new().ok();
        for path in named {
            // A file comes and goes by its directory.
            let dir = if path.is_dir() {
                path
            } else {
                path.parent().filter(|p| *p != Path::new("")).unwrap_or(Path::new("."))
            };
            let of = libc::IN_MODIFY | libc::IN_CREATE | libc::IN_MOVE | libc::IN_DELETE | libc::IN_CLOSE_WRITE;
            notify.iter().for_each(|notify| _ = notify.watch(dir, of));
        }
        News { signals, notify }
    }

    /// Waits for news, at most so long. When the reader of what is written has gone, it is to end, too.
    fn wait(&self, most: Duration, stdin_too: bool) -> Result<Came> {
        let entry = |fd: i32, events| libc::pollfd { fd, events, revents: 0 };
        let notify = self.notify.as_ref().map_or(-1, |notify| notify.as_fd().as_raw_fd());
        let from = if stdin_too { stdin().as_raw_fd() } else { -1 };
        let mut list = [
            entry(self.signals.as_raw_fd(), libc::POLLIN),
            entry(notify, libc::POLLIN),
            entry(from, libc::POLLIN),
            entry(stdout().as_raw_fd(), 0),
        ];
        let ms = i32::try_from(most.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: four valid entries; descriptors below 0 are left out.
        if unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, ms) } < 0 {
            let e = std::io::Error::last_os_error();
            return if e.kind() == std::io::ErrorKind::Interrupted {
                Ok(Came { ends: false, stdin: false })
            } else {
                Err(Error::new(e))
            };
        }
        if let Some(notify) = &self.notify {
            notify.events();
        }
        let gone = list[3].revents & (libc::POLLERR | libc::POLLHUP) != 0;
        Ok(Came { ends: list[0].revents != 0 || gone, stdin: list[2].revents != 0 })
    }
}
