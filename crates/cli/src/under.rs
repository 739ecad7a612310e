//! A job under what chappe has taken for it: a permit, or a lock.
//!
//! The order at its end: the terminal goes back, processes of the job that have closed the lease's file are kept track of
//! ([`keep`](crate::keep)). The caller then closes its copy of the lease, gives back what it has, and ends as the job did.

use crate::args::Job;
use crate::ended::{not_started, say};
use crate::family::Process;
use crate::job::{Start, wants_own_group};
use crate::keep;
use crate::said::Failure;
use crate::supervise::{Beside, Ended, Watch};
use crate::terminal::Terminal;
use chappe::{LEASE_VARIABLE, Lease};
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// A job that is to be run.
pub struct Under<'a> {
    /// The command and its arguments.
    pub command: &'a [OsString],
    /// What its environment has beyond chappe's own; the lease's mark is added.
    pub environment: Vec<(&'a str, OsString)>,
    /// What keeps the object taken for it.
    pub lease: Option<&'a Lease>,
    /// The object's name.
    pub object: &'a str,
    /// What else the command and all that it starts have open; closed here once they have it.
    pub line: Option<OwnedFd>,
    /// What is looked after beside it.
    pub beside: Option<&'a mut dyn Beside>,
    /// How it is run.
    pub how: &'a Job,
    /// Whether chappe's own messages are JSON.
    pub json: bool,
    /// Whether SIGXFSZ is to have its default action again.
    pub file_size: bool,
}

/// What became of it.
pub struct Ran {
    /// How its first process ended.
    pub ended: Ended,
    /// After how long.
    pub after: Duration,
    /// The processes that it left running.
    pub left: Vec<Process>,
    /// The first signal that chappe got meanwhile and that asks for an end, if one came.
    pub asked: Option<i32>,
}

impl Under<'_> {
    /// Runs it to the end of its first process.
    ///
    /// # Errors
    /// That it could not be started.
    pub fn run(mut self) -> Result<Ran, Failure> {
        self.environment.extend(self.lease.map(|lease| (LEASE_VARIABLE, lease.cookie().into())));
        let line = self.line.take();
        let inherits: Vec<_> =
            self.lease.iter().map(|lease| lease.as_fd()).chain(line.as_ref().map(AsFd::as_fd)).collect();
        let terminal = Terminal::find();
        let own_group = wants_own_group(&terminal, self.how.foreground);
        let watch = Watch::begin(own_group);
        let start = Start {
            command: self.command,
            environment: &self.environment,
            inherits: &inherits,
            mask: watch.before,
            file_size: self.file_size,
            own_group,
        };
        let job = start.start(&terminal).map_err(|e| not_started(&self.command[0], &e))?;
        drop(line);
        #[cfg(feature = "term")]
        crate::term::started(job.pid);
        let from = Instant::now();
        let beside = self.beside.as_deref_mut().map(|beside| beside as &mut dyn Beside);
        let ended = watch.stay(&job, &terminal, self.how.grace.0, beside);
        let own = self.beside.as_ref().and_then(|beside| beside.own());
        let survivors = keep::survivors(own);
        if let Some(lease) = self.lease
            && let Err(e) = keep::look_after(&survivors, lease, self.object, watch.before)
        {
            say(self.json, &e.to_string());
        }
        Ok(Ran { ended, after: from.elapsed(), left: survivors, asked: watch.asked.get() })
    }
}
