//! A client as the command is one: a connection, a lease that is renewed, and what it holds.

use crate::nodes::Nodes;
use chappe_remote::acquire::{Acquire, Grant, Of, Outcome, Want};
use chappe_remote::add::{self, Add};
use chappe_remote::drive::{self, Circumstances, DriveError};
use chappe_remote::engine::{Engine, Entry, Keys, Op, Reply, Txn};
use chappe_remote::etcd::{Etcd, Options, Session};
use chappe_remote::grant::{Attempt, End, Own};
use chappe_remote::keys::{self, Object, Space, Who};
use chappe_remote::life;
use chappe_remote::release::Release;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How long a lease lives that is to end soon.
pub const TTL: Duration = Duration::from_secs(3);

pub struct Person {
    pub etcd: Etcd,
    pub session: Session,
    pub space: Space,
    attempts: AtomicU32,
}

/// What it is told while it waits.
#[derive(Default)]
pub struct Told<'a> {
    /// Gets its place, each time that it changes.
    pub placed: Option<Sender<usize>>,
    /// It is to give up.
    pub gives_up: Option<&'a AtomicBool>,
}

/// Options for nodes that may have just been started.
pub fn options(nodes: &Nodes, namespace: &str) -> Options {
    let url = nodes.url(namespace);
    Options { connect_timeout: Duration::from_secs(60), ..Options::parse(&url).unwrap() }
}

impl Person {
    pub fn of(nodes: &Nodes, namespace: &str) -> Person {
        Person::with(&options(nodes, namespace))
    }

    /// One whose lease ends soon if nobody renews it.
    pub fn brief(nodes: &Nodes, namespace: &str) -> Person {
        let person = Person::of(nodes, namespace);
        Person { session: person.etcd.session(TTL).unwrap(), ..person }
    }

    /// Another one of the same connection, whose lease is asked for together with what it does next.
    pub fn anew(&self) -> Person {
        let session = self.etcd.session_ahead(life::USUAL, Duration::MAX);
        Person { etcd: self.etcd.clone(), session, space: self.space.clone(), attempts: AtomicU32::new(0) }
    }

    pub fn with(options: &Options) -> Person {
        let etcd = Etcd::connect(options).unwrap();
        let session = etcd.session(life::USUAL).unwrap();
        let space = Space::new(&options.namespace).unwrap();
        Person { etcd, session, space, attempts: AtomicU32::new(0) }
    }

    pub fn create(&self, pool: &str, permits: u32) {
        self.makes(pool, Object::Pool { permits });
    }

    pub fn makes(&self, name: &str, object: Object) {
        let put = Op::Put { key: self.space.size(name), value: keys::write(&object), lease: None };
        self.etcd.txn(&Txn::of(vec![put])).unwrap();
    }

    /// Adds units to a semaphore; answers how many there are then.
    pub fn adds(&self, sem: &str, n: u32) -> u32 {
        let mut machine = Add::new(self.space.clone(), self.attempt(), sem.to_owned(), n);
        match drive::add(&self.etcd, &mut machine, || false).unwrap() {
            add::Outcome::Added(value) => value,
            other => panic!("{other:?}"),
        }
    }

    fn attempt(&self) -> Attempt {
        // Relaxed: each gets another, whatever the order.
        let id = keys::attempt(self.session.lease(), self.attempts.fetch_add(1, Ordering::Relaxed) + 1);
        let who = Who { host: "here".into(), pid: std::process::id(), label: "test".into() };
        Attempt { id, lease: self.session.lease(), who }
    }

    /// An attempt to get `n` of one of these.
    pub fn machine(&self, pools: &[&str], n: u32, wait: bool) -> (Vec<String>, Acquire) {
        let by = self.attempt();
        let pools: Vec<String> = pools.iter().map(|pool| (*pool).to_owned()).collect();
        let want = Want { of: Of::Either, pools: pools.clone(), n, wait };
        want.check().unwrap();
        (pools, Acquire::new(self.space.clone(), by, want))
    }

    pub fn tries(&self, pools: &[&str], n: u32, wait: bool, told: &Told<'_>) -> Result<Outcome, DriveError> {
        let (pools, mut machine) = self.machine(pools, n, wait);
        drive::acquire(&self.etcd, &self.space, &pools, &mut machine, &Around { person: self, told })
    }

    /// Waits for it.
    pub fn takes(&self, pools: &[&str], n: u32) -> Grant {
        match self.tries(pools, n, true, &Told::default()) {
            Ok(Outcome::Granted(grant)) => grant,
            other => panic!("{other:?}"),
        }
    }

    /// Gives it back.
    pub fn gives(&self, pool: &str, grant: &Grant) {
        assert!(self.gives_late(pool, grant).is_empty(), "{grant:?} was another's by then");
    }

    /// Tries to give it back; what was another's by then.
    pub fn gives_late(&self, pool: &str, grant: &Grant) -> Vec<u32> {
        let own = Own { pool: pool.into(), token: grant.token, end: End::Left };
        self.ends(own, grant)
    }

    /// The same of a mutex with which it has finished.
    pub fn finishes(&self, mutex: &str, grant: &Grant) {
        let own = Own { pool: mutex.into(), token: grant.token, end: End::Finished };
        assert!(self.ends(own, grant).is_empty(), "{grant:?} was another's by then");
    }

    fn ends(&self, own: Own, grant: &Grant) -> Vec<u32> {
        let mut machine = Release::new(self.space.clone(), own, grant.indices.clone(), false);
        drive::release(&self.etcd, &mut machine, || false).unwrap()
    }

    /// What is there.
    pub fn finds(&self, keys: Keys) -> Vec<Entry> {
        let reply = self.etcd.txn(&Txn::of(vec![Op::Get(keys)])).unwrap();
        match reply.replies.into_iter().next() {
            Some(Reply::Found(found)) => found,
            other => panic!("{other:?}"),
        }
    }

    /// The attempt that holds a permit, and its token.
    pub fn holder(&self, pool: &str, index: u32) -> Option<(String, u64)> {
        let entry = self.finds(Keys::One(self.space.held(pool, index))).into_iter().next()?;
        Some((keys::read::<keys::Holder>(&entry.value).unwrap().id, entry.modified))
    }
}

struct Around<'a> {
    person: &'a Person,
    told: &'a Told<'a>,
}

impl Circumstances for Around<'_> {
    fn is_over(&self) -> bool {
        self.person.session.is_over()
    }

    fn gives_up(&self) -> bool {
        // Acquire: pairs with the test's release, after which it is to give up.
        self.told.gives_up.is_some_and(|gives_up| gives_up.load(Ordering::Acquire))
    }

    fn look_again(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn waits(&self, machine: &Acquire) {
        if let (Some(placed), Some(place)) = (&self.told.placed, machine.place()) {
            let _ = placed.send(place);
        }
    }
}
