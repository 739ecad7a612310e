//! A semaphore that many machines share: a counter of units, which nobody owns.

use crate::acquire::{Of, Want};
use crate::add::{Add, Outcome};
use crate::drive;
use crate::error::RemoteError;
use crate::keys::Object;
use crate::session::{Interrupt, Patience, Session};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a unit that is added waits for the engine.
const PATIENCE: Duration = Duration::from_secs(5);

/// A semaphore on an engine. Its waiters are served in the order of arrival. A unit that was given to a waiter that dies before it returns is spent.
#[derive(Clone)]
pub struct Semaphore {
    session: Arc<Session>,
    name: String,
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Semaphore({:?})", self.name)
    }
}

impl Semaphore {
    pub(crate) fn new(session: Arc<Session>, name: String) -> Semaphore {
        Semaphore { session, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds so many units: those that the head of the queue waits for are its own at once. Answers how many are left.
    ///
    /// # Errors
    /// `Overflow`, `Unknown`, `Other`, `Newer`, `Refused`, `Silent`: nothing was added. `Unsure`: it is not known. `Inherited`.
    pub fn up(&self, units: u32) -> Result<u32, RemoteError> {
        let (site, called) = (&self.session.site, self.session.site.name(&self.name));
        let what = || format!("{units} units were added to `{called}`");
        let link = self.session.link()?;
        if units == 0 {
            return self.value();
        }
        let until = Instant::now() + PATIENCE;
        let (machine, came) = loop {
            let (leased, by) = self.session.begin(&called)?;
            let mut machine = Add::new(site.space.clone(), by, self.name.clone(), units);
            let gives_up = || Instant::now() >= until || leased.pulse.is_over();
            match drive::add(link, &mut machine, gives_up) {
                // Nothing was added, and the lease has ended: it was not known here.
                Ok(Outcome::Lost) if Instant::now() < until => leased.pulse.ended(),
                came => break (machine, came),
            }
        };
        Err(match came {
            Ok(Outcome::Added(left)) => {
                self.session.forget(&self.name, machine.id());
                return Ok(left);
            }
            Ok(Outcome::NoSem) => site.unknown("semaphore", &self.name),
            Ok(Outcome::Other(is)) => RemoteError::Other { name: called, is, wanted: "semaphore" },
            Ok(Outcome::TooMany(value)) => RemoteError::Overflow { name: called, value, more: units },
            Ok(Outcome::Newer(format)) => site.newer(format),
            Ok(Outcome::Refused(why)) => RemoteError::Refused(why),
            Ok(Outcome::Lost) => {
                let why = "each lease ended before".into();
                RemoteError::Silent { wanted: format!("adding to `{called}`"), why }
            }
            Ok(Outcome::Unsure(why)) | Err(why) => RemoteError::Unsure { what: what(), why },
        })
    }

    /// Waits for a unit, in the order of arrival, and takes it.
    ///
    /// # Errors
    /// `Unknown`, `Other`, `Removed`, `Silent`, `Newer`, `Refused`, `Inherited`. `Unsure`: this process was stopped or cut off while it waited, and a
    /// unit may have been spent on it.
    pub fn down(&self) -> Result<(), RemoteError> {
        self.down_until(Patience::Forever, None)
    }

    /// Takes a unit if there is one and nobody waits for it.
    ///
    /// # Errors
    /// `WouldBlock`; and as [`Semaphore::down`].
    pub fn try_down(&self) -> Result<(), RemoteError> {
        self.down_until(Patience::Now, None)
    }

    /// Waits at most so long; a unit that is there is taken however short that is.
    ///
    /// # Errors
    /// `Timeout`: nothing was taken; and as [`Semaphore::down`].
    pub fn down_timeout(&self, timeout: Duration) -> Result<(), RemoteError> {
        self.down_until(Patience::For(timeout), None)
    }

    /// The same, until somebody wants it to end.
    #[doc(hidden)]
    pub fn down_until(&self, patience: Patience, interrupt: Interrupt<'_>) -> Result<(), RemoteError> {
        let wait = patience != Patience::Now;
        let want = Want { of: Of::Units, pools: vec![self.name.clone()], n: 1, wait };
        let won = self.session.acquire(&want, patience, interrupt)?;
        self.session.forget(&self.name, &won.grant.id);
        Ok(())
    }

    /// How many units there are.
    ///
    /// # Errors
    /// `Unknown`, `Other`, `Silent`, `Newer`, `Refused`, `Inherited`.
    pub fn value(&self) -> Result<u32, RemoteError> {
        let (_, known) = self.session.site.see(self.session.link()?, "semaphore", &self.name)?;
        match known.what {
            Object::Sem { value } => Ok(value),
            is => Err(RemoteError::Other { name: self.session.site.name(&self.name), is, wanted: "semaphore" }),
        }
    }
}
