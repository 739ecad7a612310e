//! An engine in this process: the model of etcd behind a lock, with watches, and with what a test lets go wrong. It has no clock of its own: a lease ends
//! when the test says so.

use crate::model::Model;
use chappe_remote::connection::{Connection, News as Stream};
use chappe_remote::engine::{Change, EngineError, Entry, Keys, LeaseId, News, Op, Revision, Txn, TxnReply, Watch};
use chappe_remote::keys::{self, Holder, Space};
use chappe_remote::pulse::{Hold, Pulse};
use chappe_remote::site::Site;
use chappe_remote::{Patience, Remote};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// How long a call takes of which no answer comes.
const UNANSWERED: Duration = Duration::from_millis(20);

/// How long nothing may happen that a test waits for.
const WATCHDOG: Duration = Duration::from_secs(60);

struct State {
    model: Model,
    /// All changes that there have been, by revision.
    history: Vec<(Revision, Vec<Change>)>,
    leases: i64,
    pulses: BTreeMap<LeaseId, Weak<Pulse>>,
    holds: Vec<Weak<Hold>>,
    /// It does nothing, and does not answer.
    silent: bool,
    /// So many transactions more are done, and then all are refused.
    refuses: Option<usize>,
    /// So many transactions are done, and then their answer is lost, and it is silent.
    last: Option<usize>,
    /// What leases get, if that is another time than was asked for.
    ttl: Option<Duration>,
    /// Transactions that were done, and glances.
    calls: usize,
    glances: usize,
    /// Before so many transactions that compare something, somebody else changes the object that they are about.
    churns: usize,
    /// It lets those wait that ask for a lease, and so many do.
    holds_grants: (bool, usize),
    /// The bytes of its database, and how many there may be.
    size: Option<(u64, u64)>,
    /// How long the last one would wait that asked for that.
    sized: Option<Duration>,
    /// It says nothing of transactions that read or write such a key.
    mute: Option<String>,
    /// The threads that asked for a transaction.
    callers: Vec<ThreadId>,
}

pub struct Fake {
    own: Weak<Fake>,
    state: Mutex<State>,
    changed: Condvar,
}

pub fn space() -> Space {
    Space::new("w").unwrap()
}

impl Fake {
    pub fn new() -> Arc<Fake> {
        let state = State {
            model: Model::new(),
            history: vec![],
            leases: 0,
            pulses: BTreeMap::new(),
            holds: vec![],
            silent: false,
            refuses: None,
            last: None,
            ttl: None,
            calls: 0,
            glances: 0,
            churns: 0,
            holds_grants: (false, 0),
            size: None,
            sized: None,
            mute: None,
            callers: vec![],
        };
        Arc::new_cyclic(|own| Fake { own: own.clone(), state: Mutex::new(state), changed: Condvar::new() })
    }

    /// A program on some machine.
    pub fn program(self: &Arc<Fake>) -> Remote {
        let site = Site { space: space(), called: "@lab".into(), url: "fake://lab".into() };
        Remote::over(Arc::clone(self) as Arc<dyn Connection>, site, Duration::from_secs(3600), "test").unwrap()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, mut state: MutexGuard<'_, State>, changes: Vec<Change>) {
        let Some(revision) = changes.first().map(Change::revision) else { return };
        let holds: Vec<Arc<Hold>> = state.holds.iter().filter_map(Weak::upgrade).collect();
        state.history.push((revision, changes.clone()));
        drop(state);
        self.changed.notify_all();
        for hold in holds {
            let of_it = |change: &&Change| {
                hold.keys().iter().any(|keys| keys.have(change.key())) && change.revision() > hold.token()
            };
            let changes: Vec<Change> = changes.iter().filter(of_it).cloned().collect();
            hold.changed(&changes);
        }
    }

    /// Waits until something is so.
    pub fn until(&self, is: impl Fn(&Model) -> bool) {
        let mut state = self.state();
        while !is(&state.model) {
            let (next, time) = self.changed.wait_timeout(state, WATCHDOG).unwrap_or_else(PoisonError::into_inner);
            assert!(!time.timed_out(), "it never is so: {:?}", next.model.entries.keys());
            state = next;
        }
    }

    /// Waits until so many wait.
    pub fn until_waiting(&self, object: &str, many: usize) {
        let queue = space().queue(object);
        self.until(|model| model.found(&queue).count() == many);
    }

    /// The holder of a permit, and the token.
    pub fn holder(&self, pool: &str, index: u32) -> Option<(Holder, Revision)> {
        let state = self.state();
        let entry = state.model.entries.get(&space().held(pool, index))?;
        Some((keys::read(&entry.value)?, entry.modified))
    }

    /// All keys that are there.
    pub fn keys(&self) -> Vec<String> {
        self.state().model.entries.keys().map(|key| key.trim_start_matches("chappe/1/w/").to_owned()).collect()
    }

    pub fn leases(&self) -> usize {
        self.state().model.leases.len()
    }

    pub fn calls(&self) -> usize {
        self.state().calls
    }

    pub fn glances(&self) -> usize {
        self.state().glances
    }

    /// Somebody writes the size of each object that is there before each of so many transactions that compare something.
    pub fn churns(&self, times: usize) {
        self.state().churns = times;
    }

    pub fn churned(&self) -> usize {
        self.state().churns
    }

    /// The engine ends all leases that there are, and `tells`, or not yet, those whose they are.
    pub fn ends_leases(&self, tells: bool) {
        let mut state = self.state();
        let leases: Vec<LeaseId> = state.model.leases.iter().copied().collect();
        let mut pulses = Vec::new();
        let mut all = Vec::new();
        for lease in leases {
            pulses.extend(state.pulses.remove(&lease).and_then(|pulse| pulse.upgrade()));
            all.push(state.model.revoke(lease));
        }
        drop(state);
        if tells {
            pulses.iter().for_each(|pulse| pulse.ended());
        }
        for changes in all {
            self.change(self.state(), changes);
        }
    }

    /// Leases that are made from now on get this time to live.
    pub fn grants(&self, ttl: Duration) {
        self.state().ttl = Some(ttl);
    }

    /// Deletes keys, as `release --force` and others do.
    pub fn deletes(&self, keys: Keys) {
        let mut state = self.state();
        let (_, changes) = state.model.txn(&Txn::of(vec![Op::Delete(keys)]));
        self.change(state, changes);
    }

    /// Writes a key.
    pub fn puts(&self, key: String, value: &[u8]) {
        let mut state = self.state();
        let (_, changes) = state.model.txn(&Txn::of(vec![Op::Put { key, value: value.to_vec(), lease: None }]));
        self.change(state, changes);
    }

    /// It does nothing from now on, and does not answer; or it does again.
    pub fn is_silent(&self, silent: bool) {
        let mut state = self.state();
        (state.silent, state.last) = (silent, None);
        drop(state);
        self.changed.notify_all();
    }

    /// So many transactions more are done, and then all are refused; or none.
    pub fn refuses_after(&self, transactions: Option<usize>) {
        self.state().refuses = transactions;
    }

    /// All leases are renewed.
    pub fn renews(&self) {
        let pulses: Vec<Arc<Pulse>> = self.state().pulses.values().filter_map(Weak::upgrade).collect();
        pulses.iter().for_each(|pulse| pulse.renewed(chappe_remote::pulse::now(), Duration::from_secs(3600)));
    }

    pub fn silent(&self) -> bool {
        self.state().silent
    }

    /// It is silent after so many more transactions: the last is done, and its answer is lost.
    pub fn is_silent_after(&self, transactions: usize) {
        self.state().last = Some(transactions);
    }

    /// How long the last one would have waited that asked for the size.
    pub fn sized(&self) -> Option<Duration> {
        self.state().sized
    }

    /// It does nothing, and says nothing, of an object from now on.
    pub fn is_mute_about(&self, object: &str) {
        self.state().mute = Some(space().held(object, 0));
    }

    /// Its database has so many bytes of those that it may have.
    pub fn has(&self, bytes: u64, of: u64) {
        self.state().size = Some((bytes, of));
    }

    /// Those that ask for a lease wait from now on, or not any more.
    pub fn holds_grants(&self, holds: bool) {
        self.state().holds_grants.0 = holds;
        self.changed.notify_all();
    }

    /// Waits until somebody waits for a lease.
    pub fn until_granting(&self) {
        let mut state = self.state();
        while state.holds_grants.1 == 0 {
            let (next, time) = self.changed.wait_timeout(state, WATCHDOG).unwrap_or_else(PoisonError::into_inner);
            assert!(!time.timed_out(), "nobody asks for a lease");
            state = next;
        }
    }

    /// The threads that have asked for a transaction from now on.
    pub fn callers(&self) -> Vec<ThreadId> {
        std::mem::take(&mut self.state().callers)
    }

    fn unanswered(&self, state: MutexGuard<'_, State>) -> EngineError {
        // As a client does: one that asks again at once asks in vain.
        drop(self.changed.wait_timeout(state, UNANSWERED));
        EngineError::Unknown("it is silent".into())
    }
}

impl Connection for Fake {
    fn txn(&self, txn: &Txn) -> Result<TxnReply, EngineError> {
        let mut state = self.state();
        let caller = std::thread::current().id();
        if !state.callers.contains(&caller) {
            state.callers.push(caller);
        }
        let mute = |key: &String| txn.when.iter().any(|compare| compare.keys == Keys::One(key.clone()));
        if state.silent || state.mute.as_ref().is_some_and(mute) {
            return Err(self.unanswered(state));
        }
        match &mut state.refuses {
            Some(0) => return Err(EngineError::Refused("no".into())),
            Some(left) => *left -= 1,
            None => {}
        }
        state.calls += 1;
        if state.churns > 0 && !txn.when.is_empty() {
            state.churns -= 1;
            let sizes = state.model.entries.values().filter(|entry| entry.key.ends_with("/size"));
            let put = |entry: &Entry| Op::Put { key: entry.key.clone(), value: entry.value.clone(), lease: None };
            let again = Txn::of(sizes.map(put).collect());
            let changes = state.model.txn(&again).1;
            self.change(state, changes);
            state = self.state();
        }
        let (reply, changes) = state.model.txn(txn);
        let lost = match &mut state.last {
            Some(left) => {
                *left -= 1;
                *left == 0
            }
            None => false,
        };
        if lost {
            (state.silent, state.last) = (true, None);
        }
        self.change(state, changes);
        if lost { Err(EngineError::Unknown("the answer is lost".into())) } else { reply }
    }

    fn glance(&self, txn: &Txn, _most: Duration) -> Result<TxnReply, EngineError> {
        let mut state = self.state();
        if state.silent {
            return Err(self.unanswered(state));
        }
        state.glances += 1;
        let (reply, changes) = state.model.txn(txn);
        assert!(changes.is_empty(), "a glance changes nothing");
        reply
    }

    fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), EngineError> {
        let mut state = self.state();
        state.holds_grants.1 += 1;
        assert!(!state.holds_grants.0 || state.holds_grants.1 == 1, "two threads of a program ask for a lease at once");
        self.changed.notify_all();
        while state.holds_grants.0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.holds_grants.1 -= 1;
        if state.silent {
            return Err(self.unanswered(state));
        }
        state.leases += 1;
        let lease = LeaseId(state.leases);
        state.model.grant(lease);
        Ok((lease, state.ttl.unwrap_or(ttl)))
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<Duration, EngineError> {
        let state = self.state();
        if state.silent {
            return Err(self.unanswered(state));
        }
        if state.model.leases.contains(&lease) { Ok(Duration::from_secs(3600)) } else { Err(EngineError::LeaseGone) }
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), EngineError> {
        let mut state = self.state();
        if state.silent {
            return Err(self.unanswered(state));
        }
        let changes = state.model.revoke(lease);
        self.change(state, changes);
        Ok(())
    }

    fn watch(&self, keys: &[Keys], from: Revision) -> Result<Stream, EngineError> {
        let state = self.state();
        if state.silent {
            return Err(self.unanswered(state));
        }
        let told = state.history.iter().take_while(|(revision, _)| *revision < from).count();
        drop(state);
        Ok(Box::new(FakeWatch { fake: self.own.upgrade().unwrap(), keys: keys.to_vec(), told, part: 0 }))
    }

    fn size(&self, most: Duration) -> Option<(u64, u64)> {
        let mut state = self.state();
        state.sized = Some(most);
        state.size
    }

    fn renew(&self, lease: LeaseId, pulse: Weak<Pulse>) {
        self.state().pulses.insert(lease, pulse);
    }

    fn attend(&self, hold: Weak<Hold>) {
        self.state().holds.push(hold);
    }
}

/// Changes of the history, each revision's as one for each of the watched keys.
struct FakeWatch {
    fake: Arc<Fake>,
    keys: Vec<Keys>,
    told: usize,
    part: usize,
}

impl Watch for FakeWatch {
    fn next(&mut self, patience: Option<Duration>) -> News {
        let fake = Arc::clone(&self.fake);
        let mut state = fake.state();
        let until = patience.and_then(|patience| Instant::now().checked_add(patience));
        loop {
            while let Some((_, changes)) = state.history.get(self.told) {
                if let Some(keys) = self.keys.get(self.part) {
                    self.part += 1;
                    let changes: Vec<Change> =
                        changes.iter().filter(|change| keys.have(change.key())).cloned().collect();
                    if !changes.is_empty() {
                        return News::Changes(self.part - 1, changes);
                    }
                } else {
                    (self.told, self.part) = (self.told + 1, 0);
                }
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return News::Nothing;
            }
            state = match left {
                Some(left) => fake.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => fake.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Waits for a permit on a thread of its own.
pub fn waits(
    remote: &Remote,
    pool: &'static str,
    patience: Patience,
) -> std::thread::JoinHandle<Result<chappe_remote::Permit, chappe_remote::RemoteError>> {
    let pool = remote.pool(pool).unwrap();
    std::thread::spawn(move || pool.acquire_many(1, patience))
}
