//! The lock of an arena's administration: the right to change the set of objects.

use crate::gate::{self, Gates, Pass};
use crate::map::Map;
#[cfg(not(feature = "sim"))]
use chappe_plat::atomic::Ordering;
use chappe_plat::futex::{self, Scope};
use chappe_plat::later::Busy;
use chappe_plat::life::Claim;
use chappe_plat::light::Shield;
#[cfg(not(feature = "sim"))]
use chappe_plat::process;
use chappe_plat::{Life, clock};

/// The longest sleep of a waiter for `admin`: see [`Map::admin`].
const LOOK_AGAIN_NS: u64 = 10_000_000;
/// After so many looks (a second at most) a waiter asks the system whether the holder's thread exists.
#[cfg(not(feature = "sim"))]
const DOUBTS: u32 = 50;
/// How often a waiter with a time limit looks again.
#[cfg(not(feature = "sim"))]
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(5);

/// The right to change the set of objects; given back on drop and at any death.
pub struct Admin {
    map: &'static Map,
    gates: Gates,
    /// A light thread that ended here would leave the lock to its kernel thread, which lives.
    _shield: Shield,
    /// Last: wakers that are due meanwhile are called when the lock is released.
    _busy: Busy,
}

impl Admin {
    /// Of the calling thread, which has just taken the lock.
    fn taken(map: &'static Map, gates: Gates, shield: Shield) -> Admin {
        Admin { map, gates, _shield: shield, _busy: Busy::begin() }
    }

    /// The arena.
    pub(crate) fn map(&self) -> &'static Map {
        self.map
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        let _pass = self.gates.pass(gate::ADMIN);
        self.map.header().admin.release();
    }
}

impl Map {
    /// Takes the right to change the set of objects; blocks while a living thread holds it.
    ///
    /// This is not the C library's blocking lock. There, a holder that is killed between releasing the lock and waking the next waiter
    /// leaves that waiter asleep if a third thread has taken the lock meanwhile: the kernel handles only a word without an owner, and the
    /// third thread does not know of the sleeper. So each new holder marks the lock as watched, and releases it with a wake. A sleeper also
    /// looks again by itself, in case the holder dies between the two.
    ///
    /// The lock is claimed and released in its gate (gate.rs), so that a mark always means its holder's death. If the arena's file cannot
    /// be opened although threads of several namespaces use it, the lock is taken without the gate, since this function returns no error.
    pub fn admin(&'static self) -> Admin {
        let shield = Shield::raise();
        let (lock, gates) = (&self.header().admin, self.admin_gates());
        #[cfg(not(feature = "sim"))]
        let mut looks = 0u32;
        while !self.claim_admin(&gates.pass(gate::ADMIN)) {
            if let Some(seen) = lock.watch() {
                futex::wait(lock.word(), seen, Some(clock::now() + LOOK_AGAIN_NS), Scope::Shared);
            }
            #[cfg(not(feature = "sim"))]
            {
                looks += 1;
                if looks.is_multiple_of(DOUBTS) {
                    self.mark_lost_admin(&gates.pass(gate::ADMIN));
                }
            }
        }
        lock.watch();
        Admin::taken(self, gates, shield)
    }

    fn admin_gates(&self) -> Gates {
        self.gates().unwrap_or(Gates::NONE)
    }

    /// G2 of the gates.
    fn claim_admin(&self, pass: &Pass<'_>) -> bool {
        let lock = &self.header().admin;
        !(pass.counts() && matches!(lock.probe(), Life::Alive(_))) && lock.try_claim() != Claim::Busy
    }

    /// As [`Map::admin`], waiting at most so long. None: a living holder still has it.
    #[cfg(not(feature = "sim"))]
    pub fn admin_within(&'static self, most: std::time::Duration) -> Option<Admin> {
        let shield = Shield::raise();
        let (gates, until) = (self.admin_gates(), std::time::Instant::now() + most);
        while !gates.try_pass(gate::ADMIN).is_some_and(|pass| self.claim_admin(&pass)) {
            if std::time::Instant::now() >= until {
                return None;
            }
            if let Some(pass) = gates.try_pass(gate::ADMIN) {
                self.mark_lost_admin(&pass);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        self.header().admin.watch();
        Some(Admin::taken(self, gates, shield))
    }

    /// Marks the lock if its word names as holder a thread that does not exist or does not map the arena: the word was written over, or has
    /// lost its mark (repair.rs). Otherwise the next waiter would wait for ever. Where threads of another PID namespace have used the arena
    /// this cannot be decided.
    ///
    /// In the gate no thread takes or releases the lock. A thread that holds it maps the arena until it has died, and then the kernel marks
    /// the word.
    #[cfg(not(feature = "sim"))]
    fn mark_lost_admin(&self, _pass: &Pass<'_>) {
        let lock = &self.header().admin;
        let Life::Alive(tid) = lock.probe() else { return };
        // Acquire: as in `gates`.
        let here = self.header().namespace.load(Ordering::Acquire);
        if !self.is_private()
            && here == process::namespace()
            && !(process::is_thread(tid) && process::maps_inode(tid, self.inode()))
        {
            lock.mark_dead(tid);
        }
    }
}
