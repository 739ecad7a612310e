//! A namespace of an engine, as a program has it; its pools, and a choice among them.

use crate::acquire::{Of, Want};
use crate::connection::{Connection, Link};
use crate::error::RemoteError;
use crate::keys::{self, Object};
use crate::life;
use crate::mutex::Mutex;
use crate::permit::Permit;
#[cfg(feature = "etcd")]
use crate::place::Place;
use crate::semaphore::Semaphore;
use crate::session::{Interrupt, Patience, Session};
use crate::site::{Site, pool_of};
use crate::tube::{Tube, tube_of};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A namespace of an engine that many machines share. Clones share the connection, one thread for it, and one lease.
///
#[cfg_attr(feature = "etcd", doc = "```no_run")]
#[cfg_attr(not(feature = "etcd"), doc = "```ignore")]
/// use chappe_remote::Remote;
///
/// let lab = Remote::open("@lab")?; // of remotes.toml; or "etcd://h1,h2,h3/lab"
/// let permit = lab.pool("gpu0")?.acquire()?; // waits in the order of arrival of all machines
/// for step in 0..100 {
///     let token = permit.check()?; // an error if it is not certainly this process's any more
///     // ... write what the step made, with the token
/// #   let _ = (step, token);
/// }
/// permit.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Every operation blocks the calling thread, for as long as it waits, and for its round trips to the engine, some milliseconds each: two to take a
/// permit, a mutex or a unit, and one to give it back; two to add units; one to send or to receive what is there. The first operation asks for a lease
/// before. A light thread calls them by `blocking`. No operation waits for a process that has died or is stopped for longer than its lease's time to
/// live.
///
/// An engine that does not answer is asked on for 5 s by what has no time of its own, and then that is `Silent`; what waits in line or for a record waits
/// on. An operation with a time ends half a second after it at the latest, that of [`Semaphore::down_timeout`] three seconds. The last `Remote`, or what
/// came of it, ends the lease when it is dropped: a round trip, and without an answer 1.5 s for each endpoint.
///
/// In a forked child a `Remote` and all that came from it are void: each operation says `Inherited`. Open it anew there.
#[derive(Clone)]
pub struct Remote {
    session: Arc<Session>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({:?})", self.session.site.url)
    }
}

impl Remote {
    /// Connects: `@lab` is the engine `lab` of remotes.toml, `@` that of `CHAPPE_ON`, and a URL, `etcd://HOST[:PORT],.../NAMESPACE` or `etcds://`, says itself
    /// where the engine is. See [`place`](crate::place) for certificates, users and times to live. Feature `remote` of `chappe`.
    ///
    /// Blocks until one endpoint has answered, for 5 s at most, and 50 ms for each endpoint.
    ///
    /// # Errors
    /// `Invalid`, `Unreachable`, `OldEngine`, `Refused`.
    #[cfg(feature = "etcd")]
    pub fn open(place: &str) -> Result<Remote, RemoteError> {
        Remote::connect(&Place::of(place).map_err(RemoteError::Invalid)?, &own_label())
    }

    /// The same, of a place that the program has read or changed; `label` is what others see of this process.
    ///
    /// # Errors
    /// As [`Remote::open`].
    #[cfg(feature = "etcd")]
    pub fn connect(place: &Place, label: &str) -> Result<Remote, RemoteError> {
        let ttl = place.ttl.unwrap_or(life::USUAL);
        life::check(ttl).map_err(RemoteError::Invalid)?;
        Remote::over(Arc::new(place.connect()?), place.site(), ttl, label)
    }

    /// A namespace by a connection that is there, with leases of this time to live; `label` is what others see of this process.
    ///
    /// # Errors
    /// `Invalid`: a time to live that cannot be.
    pub fn over(
        connection: Arc<dyn Connection>,
        site: Site,
        ttl: Duration,
        label: &str,
    ) -> Result<Remote, RemoteError> {
        life::check(ttl).map_err(RemoteError::Invalid)?;
        Ok(Remote { session: Arc::new(Session::new(Link(connection), site, ttl, label)) })
    }

    /// A pool. Whether it is there is seen when it is used.
    ///
    /// # Errors
    /// `Invalid`: what is wrong with the name.
    pub fn pool(&self, name: &str) -> Result<Pool, RemoteError> {
        keys::check("pool", name).map_err(RemoteError::Invalid)?;
        Ok(Pool { session: Arc::clone(&self.session), name: name.to_owned() })
    }

    /// A mutex. Whether it is there is seen when it is used.
    ///
    /// # Errors
    /// `Invalid`: what is wrong with the name.
    pub fn mutex(&self, name: &str) -> Result<Mutex, RemoteError> {
        keys::check("mutex", name).map_err(RemoteError::Invalid)?;
        Ok(Mutex::new(Arc::clone(&self.session), name.to_owned()))
    }

    /// A semaphore. Whether it is there is seen when it is used.
    ///
    /// # Errors
    /// `Invalid`: what is wrong with the name.
    pub fn semaphore(&self, name: &str) -> Result<Semaphore, RemoteError> {
        keys::check("semaphore", name).map_err(RemoteError::Invalid)?;
        Ok(Semaphore::new(Arc::clone(&self.session), name.to_owned()))
    }

    /// Makes a pool of so many permits.
    ///
    /// # Errors
    /// `Exists`, `Invalid`, `Unsure`, `Newer`, `Refused`, `Inherited`.
    pub fn create_pool(&self, name: &str, permits: u32) -> Result<Pool, RemoteError> {
        self.make(name, pool_of(permits)?)?;
        self.pool(name)
    }

    /// Makes a mutex.
    ///
    /// # Errors
    /// As [`Remote::create_pool`].
    pub fn create_mutex(&self, name: &str) -> Result<Mutex, RemoteError> {
        self.make(name, Object::Mutex { taken: false })?;
        self.mutex(name)
    }

    /// Makes a semaphore of so many units.
    ///
    /// # Errors
    /// As [`Remote::create_pool`].
    pub fn create_semaphore(&self, name: &str, units: u32) -> Result<Semaphore, RemoteError> {
        if units > crate::add::MOST {
            let most = crate::add::MOST;
            return Err(RemoteError::Invalid(format!("a semaphore has 0 to {most} units, not {units}")));
        }
        self.make(name, Object::Sem { value: units })?;
        self.semaphore(name)
    }

    /// A tube. Whether it is there is seen when it is used.
    ///
    /// # Errors
    /// `Invalid`: what is wrong with the name.
    pub fn tube(&self, name: &str) -> Result<Tube, RemoteError> {
        keys::check("tube", name).map_err(RemoteError::Invalid)?;
        Ok(Tube::new(Arc::clone(&self.session), name.to_owned()))
    }

    /// Makes a tube with room for so many pages, each of up to 64 KiB or one record, and records of so many bytes at most, 1 MiB.
    ///
    /// # Errors
    /// As [`Remote::create_pool`].
    pub fn create_tube(&self, name: &str, pages: u64, record: u64) -> Result<Tube, RemoteError> {
        self.make(name, tube_of(pages, record)?)?;
        self.tube(name)
    }

    fn make(&self, name: &str, object: Object) -> Result<(), RemoteError> {
        self.session.site.make(self.session.link()?, name, object)
    }

    /// Removes an object of any kind, with all that is in it. With `force` also one that is in use: its holders lose what they hold, and its waiters are
    /// told that it was removed; and a tube with the records in it that nobody has received.
    ///
    /// # Errors
    /// `Unknown`, `InUse`: held or waited for, or there are records; `Unsure`, `Refused`, `Inherited`.
    pub fn remove(&self, name: &str, force: bool) -> Result<(), RemoteError> {
        self.session.site.remove(self.session.link()?, name, force)
    }
}

/// A pool of permits that many machines share: first come, first served.
#[derive(Clone)]
pub struct Pool {
    session: Arc<Session>,
    name: String,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({:?})", self.name)
    }
}

/// A pool as it was at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolInfo {
    /// How many permits it has.
    pub permits: u32,
    /// How many of them are held.
    pub held: u32,
    /// How many wait.
    pub waiting: u32,
}

impl Pool {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for a permit, in the order of arrival. One that loses its lease meanwhile begins anew at the end of the queue.
    ///
    /// # Errors
    /// `Unknown`, `Other`, `Removed`, `Silent`, `Newer`, `Refused`, `Inherited`. `System`: no descriptor is left for [`Permit::lost`], and what was granted is
    /// given back.
    pub fn acquire(&self) -> Result<Permit, RemoteError> {
        self.acquire_many(1, Patience::Forever)
    }

    /// Takes a permit if one is free and nobody waits for it.
    ///
    /// # Errors
    /// `WouldBlock`; and as [`Pool::acquire`].
    pub fn try_acquire(&self) -> Result<Permit, RemoteError> {
        self.acquire_many(1, Patience::Now)
    }

    /// Waits at most so long; one that is free is taken however short that is.
    ///
    /// # Errors
    /// `Timeout`; and as [`Pool::acquire`].
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Permit, RemoteError> {
        self.acquire_many(1, Patience::For(timeout))
    }

    /// Waits for so many permits, all at once or none. Those that come later wait behind it.
    ///
    /// # Errors
    /// `TooMany`, `Invalid`: never so many; `WouldBlock`, `Timeout`; and as [`Pool::acquire`].
    pub fn acquire_many(&self, permits: u32, patience: Patience) -> Result<Permit, RemoteError> {
        acquire(&self.session, vec![self.name.clone()], permits, patience, None).map(|(_, permit)| permit)
    }

    /// As it is now.
    ///
    /// # Errors
    /// `Unknown`, `Other`, `Silent`, `Newer`, `Refused`, `Inherited`.
    pub fn info(&self) -> Result<PoolInfo, RemoteError> {
        let (view, known) = self.session.site.see(self.session.link()?, "pool", &self.name)?;
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(PoolInfo { permits: known.what.permits(), held: count(view.held.len()), waiting: count(view.queue.len()) })
    }

    /// Gives it another size. Permits beyond a smaller one stay with their holders, and are not granted again.
    ///
    /// # Errors
    /// `Invalid`, `Unsure`; and as [`Pool::info`].
    pub fn resize(&self, permits: u32) -> Result<(), RemoteError> {
        self.session.site.resize(self.session.link()?, &self.name, permits)
    }
}

/// Waits for a permit of whichever of these pools has one first, of the first of those that have one now; answers which. It has one place in
/// the queues of all, and takes one permit.
///
/// # Errors
/// `TwoEngines`; `Invalid`: none, twice the same, or more than 32; `WouldBlock`, `Timeout`; and as [`Pool::acquire`].
pub fn acquire_any(pools: &[&Pool], patience: Patience) -> Result<(usize, Permit), RemoteError> {
    acquire_any_until(pools, patience, None)
}

/// The same, until somebody wants it to end.
#[doc(hidden)]
pub fn acquire_any_until(
    pools: &[&Pool],
    patience: Patience,
    interrupt: Interrupt<'_>,
) -> Result<(usize, Permit), RemoteError> {
    let Some(first) = pools.first() else { return Err(RemoteError::Invalid("no pool is named".into())) };
    if let Some(other) = pools.iter().find(|pool| !Arc::ptr_eq(&pool.session, &first.session)) {
        let url = |pool: &Pool| format!("`{}` of {}", pool.name, pool.session.site.url);
        return Err(RemoteError::TwoEngines { first: url(first), second: url(other) });
    }
    let names = pools.iter().map(|pool| pool.name.clone()).collect();
    acquire(&first.session, names, 1, patience, interrupt)
}

/// Several permits of one pool, until somebody wants it to end.
#[doc(hidden)]
pub fn acquire_many_until(
    pool: &Pool,
    permits: u32,
    patience: Patience,
    interrupt: Interrupt<'_>,
) -> Result<Permit, RemoteError> {
    acquire(&pool.session, vec![pool.name.clone()], permits, patience, interrupt).map(|(_, permit)| permit)
}

fn acquire(
    session: &Arc<Session>,
    pools: Vec<String>,
    n: u32,
    patience: Patience,
    interrupt: Interrupt<'_>,
) -> Result<(usize, Permit), RemoteError> {
    let want = Want { of: Of::Pools, pools, n, wait: patience != Patience::Now };
    let won = session.acquire(&want, patience, interrupt)?;
    let which = won.grant.pool;
    let pool = want.pools.into_iter().nth(which).unwrap_or_default();
    Ok((which, Permit::new(session, won, pool)?))
}

/// What this process is called, where it does not say it.
#[cfg(feature = "etcd")]
fn own_label() -> String {
    std::env::args_os().next().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
