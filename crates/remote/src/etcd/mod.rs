//! etcd, by gRPC: a thread of its own has the connections and a runtime for them. No caller's thread runs any of it.

mod client;
mod messages;
mod options;
mod version;
mod wire;

pub use options::{Options, Tls};
pub use version::check as check_version;

use crate::connection::{self, Connection};
use crate::engine::{Change, Engine, EngineError, Keys, LeaseId, News, Op, Revision, Txn, TxnReply, Watch};
use crate::error::RemoteError;
use crate::life::Life;
use crate::page;
pub use crate::pulse::now;
use crate::pulse::{Hold, Pulse};
use client::{Client, PATIENCE, PAUSE, Patience};
use messages as m;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

type Job = Box<dyn FnOnce(Rc<Client>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// What is held for less is not watched: a watch costs the engine more than the pair of requests. One that begins later is told within 0.1 s of what it missed.
pub const SHORT: Duration = Duration::from_millis(20);

/// Of the thread: what TLS and HTTP need in a build without optimisation.
const STACK: usize = 2 << 20;

/// An engine that is connected. Clones share the connections; they end with the last.
#[derive(Clone, Debug)]
pub struct Etcd {
    jobs: mpsc::UnboundedSender<Job>,
}

/// What an endpoint says of itself.
#[derive(Clone, Debug)]
pub struct Status {
    /// The endpoint.
    pub endpoint: String,
    /// Its version, or why it does not tell.
    pub version: Result<String, String>,
    /// Whether it knows a leader.
    pub leader: bool,
    /// Bytes of its database, and how many there may be (0: not said).
    pub size: (u64, u64),
    /// What is wrong with it.
    pub errors: Vec<String>,
    /// How long it took to answer.
    pub took: Duration,
}

impl Etcd {
    /// Connects: one endpoint has answered when this returns.
    ///
    /// Blocks for [`Options::connect_timeout`] at most.
    ///
    /// # Errors
    /// `Invalid`, `Unreachable`, `OldEngine`, `Refused`.
    pub fn connect(options: &Options) -> Result<Etcd, RemoteError> {
        let (etcd, until) = (Etcd::start(options)?, Instant::now() + options.connect_timeout);
        let mut said = None;
        loop {
            // What the end of the time cuts short says less.
            let whole = until.saturating_duration_since(Instant::now()) >= PATIENCE;
            let status = etcd.does(move |client| async move {
                let status = client.first_status(until).await.map_err(refused)?;
                if status.is_err() {
                    tokio::time::sleep(until.saturating_duration_since(Instant::now()).min(PAUSE)).await;
                }
                Ok(status)
            });
            match status.unwrap_or_else(|| Err(stopped()))? {
                Ok(status) => {
                    let checked = version::check(&status.version).map_err(RemoteError::OldEngine);
                    return checked.or_else(|e| if options.allow_old_engine { Ok(()) } else { Err(e) }).map(|()| etcd);
                }
                Err(reasons) => {
                    let reasons = if whole { reasons } else { said.take().unwrap_or(reasons) };
                    if Instant::now() >= until {
                        return Err(RemoteError::Unreachable { url: options.url(), reasons });
                    }
                    said = Some(reasons);
                }
            }
        }
    }

    /// The bytes of its database at an endpoint that answers, and how many there may be (0: not said).
    pub fn size(&self) -> Option<(u64, u64)> {
        self.size_within(PATIENCE)
    }

    fn size_within(&self, most: Duration) -> Option<(u64, u64)> {
        let until = Instant::now() + most.min(PATIENCE);
        let status = self.does(move |client| async move { client.first_status(until).await });
        let status = status?.ok()?.ok()?;
        Some((status.db_size.unsigned_abs(), status.db_size_quota.unsigned_abs()))
    }

    /// What each endpoint says of itself.
    ///
    /// # Errors
    /// `Invalid`, `Refused`. An endpoint that does not answer says so in its status.
    pub fn statuses(options: &Options) -> Result<Vec<Status>, RemoteError> {
        let etcd = Etcd::start(options)?;
        let all = etcd.does(move |client| async move {
            let mut all = Vec::new();
            // Of one that refuses the user each endpoint says so.
            let _ = client.prove(PATIENCE).await;
            for at in 0..client.ends() {
                let began = Instant::now();
                let (endpoint, status) = client.status(at, PATIENCE).await;
                let (size, leader, errors) = match &status {
                    Ok(s) => {
                        ((s.db_size.unsigned_abs(), s.db_size_quota.unsigned_abs()), s.leader != 0, s.errors.clone())
                    }
                    Err(_) => ((0, 0), false, vec![]),
                };
                let version = status.map(|status| status.version).map_err(client::Failure::text);
                all.push(Status { endpoint, version, leader, size, errors, took: began.elapsed() });
            }
            all
        });
        Ok(all.unwrap_or_default())
    }

    /// How long a lease would live without another renewal.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    pub fn left(&self, lease: LeaseId) -> Result<Duration, EngineError> {
        let message = m::LeaseRequest { id: lease.0 };
        let done = self.does(move |client| async move {
            client.call::<_, m::LeaseKeepAliveResponse>(TIME_TO_LIVE, message, Patience::USUAL, true).await
        });
        let answer = done.unwrap_or_else(|| Err(gone()))?;
        Ok(Duration::from_secs(u64::try_from(answer.ttl).unwrap_or_default()))
    }

    /// Ends a lease; answers whether it was there.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    pub fn ends(&self, lease: LeaseId) -> Result<bool, EngineError> {
        let message = m::LeaseRequest { id: lease.0 };
        let done = self.does(move |client| async move {
            client.call_under_lease::<_, m::Nothing>(REVOKE, message, Patience::USUAL, true).await
        });
        match done.unwrap_or_else(|| Err(gone())) {
            Ok(_) => Ok(true),
            Err(EngineError::LeaseGone) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The thread, without a connection.
    fn start(options: &Options) -> Result<Etcd, RemoteError> {
        let (jobs, mut todo) = mpsc::unbounded_channel::<Job>();
        let (options, (ready, is_ready)) = (options.clone(), channel());
        let body = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build() {
                Ok(runtime) => runtime,
                Err(e) => return drop(ready.send(Err(format!("cannot make a runtime: {e}")))),
            };
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let client = match Client::new(&options) {
                    Ok(client) => Rc::new(client),
                    Err(e) => return drop(ready.send(Err(e))),
                };
                let _ = ready.send(Ok(()));
                while let Some(job) = todo.recv().await {
                    tokio::task::spawn_local(job(Rc::clone(&client)));
                }
            });
        };
        chappe_plat::thread::background_with("chappe-remote", STACK, body)
            .map_err(|e| RemoteError::Invalid(format!("cannot start the engine's thread: {e}")))?;
        match is_ready.recv() {
            Ok(ready) => ready.map_err(RemoteError::Invalid)?,
            Err(_) => return Err(stopped()),
        }
        Ok(Etcd { jobs })
    }

    /// Does something on the engine's thread, and waits for it; `None`: the thread has ended.
    fn does<A, F>(&self, what: impl FnOnce(Rc<Client>) -> F + Send + 'static) -> Option<A>
    where
        A: Send + 'static,
        F: Future<Output = A> + 'static,
    {
        let (done, answer) = channel();
        self.begins(move |client| {
            let doing = what(client);
            async move { drop(done.send(doing.await)) }
        });
        answer.recv().ok()
    }

    fn begins<F>(&self, what: impl FnOnce(Rc<Client>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        // If the thread has ended, the job is dropped, and with it what its caller waits for.
        let _ = self.jobs.send(Box::new(move |client| Box::pin(what(client))));
    }

    /// Makes a lease that is renewed on the engine's thread, until the answer is dropped.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    pub fn session(&self, ttl: Duration) -> Result<Session, EngineError> {
        self.session_within(ttl, Duration::MAX)
    }

    /// The same, but waits for the answer so long at most.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    pub fn session_within(&self, ttl: Duration, most: Duration) -> Result<Session, EngineError> {
        let sent = now();
        let (lease, ttl) = Engine::grant_within(self, ttl, most)?;
        Ok(self.renewing(lease, Life::new(sent, ttl)))
    }

    /// The same, which waits for nothing: what is asked under the lease goes along with it, and not behind the answer. Another program, or another
    /// connection, may be told of the lease before it is there: [`Session::came`].
    pub fn session_ahead(&self, ttl: Duration, most: Duration) -> Session {
        let (sent, ttl, lease) = (now(), Duration::from_secs(ttl.as_secs_f64().ceil() as u64), unused());
        // The engine gives it no less time than that.
        let pulse = Arc::new(Pulse::new(Life::new(sent, ttl)));
        let (known, (tell, came)) = (Arc::downgrade(&pulse), channel());
        self.begins(move |client| {
            let coming = client.comes();
            async move {
                let granted = grant(&client, lease, ttl, most).await;
                if let (Ok((_, ttl)), Some(pulse)) = (&granted, known.upgrade()) {
                    pulse.renewed(sent, *ttl);
                }
                drop(coming);
                let _ = tell.send(granted.map(drop));
                // Without an answer it may be there, with what was asked under it: the renewals tell.
                renew(&client, lease, &known).await;
            }
        });
        Session { engine: self.clone(), lease, pulse, came: Mutex::new(Came::Asked(came)) }
    }

    /// Renews a lease that is there.
    pub fn renewing(&self, lease: LeaseId, life: Life) -> Session {
        let pulse = Arc::new(Pulse::new(life));
        Connection::renew(self, lease, Arc::downgrade(&pulse));
        Session { engine: self.clone(), lease, pulse, came: Mutex::new(Came::There) }
    }
}

/// The number of a lease that nobody has.
fn unused() -> LeaseId {
    // The keys of this hash are the process's own, and other ones each time; a child's would be its parent's.
    let mut hash = RandomState::new().build_hasher();
    (chappe_plat::process::incarnation(), chappe_plat::process::pid(), now()).hash(&mut hash);
    LeaseId((hash.finish() >> 1).max(1) as i64)
}

/// Makes a lease, of this number if it is not 0.
async fn grant(
    client: &Client,
    LeaseId(id): LeaseId,
    ttl: Duration,
    most: Duration,
) -> Result<(LeaseId, Duration), EngineError> {
    let message = m::LeaseGrantRequest { ttl: ttl.as_secs_f64().ceil() as i64, id };
    // One that was made without an answer ends by itself, with nothing under it; or it is there, if it has a number.
    let patience = Patience { most, ..Patience::USUAL };
    match client.call::<_, m::LeaseGrantResponse>(GRANT, message, patience, true).await {
        Ok(answer) => Ok((LeaseId(answer.id), Duration::from_secs(answer.ttl.unsigned_abs()))),
        Err(EngineError::Refused(why)) if id != 0 && why.contains("lease already exists") => Ok((LeaseId(id), ttl)),
        Err(e) => Err(e),
    }
}

fn stopped() -> RemoteError {
    RemoteError::Refused("the engine's thread has ended".into())
}

fn refused(e: EngineError) -> RemoteError {
    RemoteError::Refused(e.to_string())
}

/// Renews a lease, until it has ended or nobody wants it any more.
async fn renew(client: &Client, lease: LeaseId, pulse: &Weak<Pulse>) {
    let mut answered = true;
    loop {
        let Some(known) = pulse.upgrade().map(|pulse| pulse.life()) else { return };
        let (every, patience) = (known.every(), known.patience());
        // One that was not answered is tried again soon: until the members have a leader again, each refuses at once.
        let next = (known.deadline() + every).saturating_sub(known.ttl() + now());
        tokio::time::sleep(if answered { next } else { every.min(3 * PAUSE) }).await;
        answered = false;
        for _ in 0..client.ends() {
            let sent = now();
            // What is over is let go: nobody else would get what was held.
            if pulse.upgrade().is_none_or(|pulse| pulse.is_over()) {
                return;
            }
            let renewed = keep_alive(client, lease, patience).await;
            let Some(pulse) = pulse.upgrade() else { return };
            match renewed {
                Ok(ttl) => {
                    pulse.renewed(sent, ttl);
                    answered = true;
                    break;
                }
                Err(EngineError::LeaseGone) => return pulse.ended(),
                Err(_) => {}
            }
        }
    }
}

async fn keep_alive(client: &Client, lease: LeaseId, within: Duration) -> Result<Duration, EngineError> {
    let (at, request) = (client.at(), vec![m::LeaseRequest { id: lease.0 }]);
    let asked = async {
        let mut stream = client.stream::<_, m::LeaseKeepAliveResponse>(at, KEEP_ALIVE, request, false, within).await?;
        stream.message().await.map_err(|status| EngineError::Unknown(status.message().to_owned()))
    };
    let answer = tokio::time::timeout(within, asked).await.unwrap_or(Ok(None));
    match answer {
        Ok(Some(answer)) if answer.ttl > 0 => Ok(Duration::from_secs(answer.ttl.unsigned_abs())),
        Ok(Some(_)) => Err(EngineError::LeaseGone),
        Ok(None) => {
            client.turn(at);
            Err(EngineError::Unknown("no answer".into()))
        }
        Err(e) => {
            client.turn(at);
            Err(e)
        }
    }
}

/// A lease that is renewed while this is there.
#[derive(Debug)]
pub struct Session {
    engine: Etcd,
    lease: LeaseId,
    pulse: Arc<Pulse>,
    came: Mutex<Came>,
}

/// What is known of a lease that was asked for.
#[derive(Debug)]
enum Came {
    There,
    Asked(Receiver<Result<(), EngineError>>),
    Unanswered(EngineError),
}

impl Session {
    /// Waits until the engine has made the lease; at once, if that was waited for. What was granted under it tells the same.
    ///
    /// # Errors
    /// Why it did not say so.
    pub fn came(&self) -> Result<(), EngineError> {
        self.knows(|came| Some(came.recv().unwrap_or_else(|_| Err(gone()))))
    }

    /// Whether the engine has been asked for the lease in vain: it need not be there. What was granted under it nevertheless tells that it is.
    pub fn was_asked_in_vain(&self) -> bool {
        self.knows(|came| came.try_recv().ok()).is_err()
    }

    fn knows(
        &self,
        hear: impl FnOnce(&Receiver<Result<(), EngineError>>) -> Option<Result<(), EngineError>>,
    ) -> Result<(), EngineError> {
        // The few lines under the lock do not panic.
        let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        if let Came::Asked(answer) = &*came
            && let Some(answer) = hear(answer)
        {
            *came = answer.map_or_else(Came::Unanswered, |()| Came::There);
        }
        if let Came::Unanswered(why) = &*came { Err(why.clone()) } else { Ok(()) }
    }

    /// The lease.
    pub fn lease(&self) -> LeaseId {
        self.lease
    }

    /// Its life as it is now.
    pub fn life(&self) -> Life {
        self.pulse.life()
    }

    /// Whether what is held under it must be taken for lost. No I/O.
    pub fn is_over(&self) -> bool {
        self.pulse.is_over()
    }

    /// Ends the lease, and with it all that is held under it.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    pub fn end(self) -> Result<(), EngineError> {
        Engine::revoke(&self.engine, self.lease)
    }
}

const TXN: &str = "/etcdserverpb.KV/Txn";
const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
const WATCH: &str = "/etcdserverpb.Watch/Watch";

fn gone() -> EngineError {
    // A caller that asks again at once asks in vain.
    std::thread::sleep(PAUSE);
    EngineError::Unknown("the engine's thread has ended".into())
}

/// How long a transaction may take: with pages longer, over a line of [`SLOWEST`]. One to an endpoint that is cut off ends with its connection.
fn patience(txn: &Txn) -> Duration {
    const SLOWEST: usize = 64 << 10;
    let bytes = |op: &Op| match op {
        Op::Put { value, .. } => value.len(),
        Op::Get(Keys::Between(..)) => page::MOST_RECORD,
        _ => 0,
    };
    let bytes: usize = txn.then.iter().chain(&txn.otherwise).map(bytes).sum();
    PATIENCE + Duration::from_millis((bytes * 1000 / SLOWEST) as u64)
}

/// Whether to do it twice is to do it once.
fn only_reads(txn: &Txn) -> bool {
    let reads = |op: &Op| match op {
        Op::Get(_) | Op::First(_) | Op::Names(_) => true,
        Op::Put { .. } | Op::Delete(_) => false,
        Op::Txn(within) => only_reads(within),
    };
    txn.then.iter().chain(&txn.otherwise).all(reads)
}

impl Engine for Etcd {
    type Watch = Stream;

    fn txn(&self, txn: &Txn) -> Result<TxnReply, EngineError> {
        Engine::txn_within(self, txn, Duration::MAX)
    }

    fn txn_within(&self, txn: &Txn, most: Duration) -> Result<TxnReply, EngineError> {
        let (message, repeats, patience) = (wire::txn(txn), only_reads(txn), Patience { each: patience(txn), most });
        let done = self.does(move |client| async move {
            client.call_under_lease::<_, m::TxnResponse>(TXN, message, patience, repeats).await.map(wire::reply)
        });
        done.unwrap_or_else(|| Err(gone()))
    }

    fn glance(&self, txn: &Txn, most: Duration) -> Result<TxnReply, EngineError> {
        let (message, patience) = (wire::glance(txn), Patience { each: patience(txn), most });
        let done = self.does(move |client| async move {
            client.call::<_, m::TxnResponse>(TXN, message, patience, true).await.map(wire::reply)
        });
        done.unwrap_or_else(|| Err(gone()))
    }

    fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), EngineError> {
        Engine::grant_within(self, ttl, Duration::MAX)
    }

    fn grant_within(&self, ttl: Duration, most: Duration) -> Result<(LeaseId, Duration), EngineError> {
        let done = self.does(move |client| async move { grant(&client, LeaseId(0), ttl, most).await });
        done.unwrap_or_else(|| Err(gone()))
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<Duration, EngineError> {
        let done = self.does(move |client| async move { keep_alive(&client, lease, PATIENCE).await });
        done.unwrap_or_else(|| Err(gone()))
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), EngineError> {
        self.ends(lease).map(drop)
    }

    fn watch(&self, keys: &[Keys], from: Revision) -> Result<Stream, EngineError> {
        let requests = requests(keys, from);
        let (tell, news) = channel();
        let (alive, ended) = oneshot::channel();
        self.begins(move |client| async move {
            let follow = follow(&client, requests, |at, changes| tell.send(News::Changes(at, changes)).is_ok());
            tokio::select! {
                end = follow => drop(tell.send(end.unwrap_or(News::Nothing))),
                _ = ended => {}
            }
        });
        Ok(Stream { news, _alive: alive })
    }
}

impl Connection for Etcd {
    fn txn(&self, txn: &Txn) -> Result<TxnReply, EngineError> {
        Engine::txn(self, txn)
    }

    fn txn_within(&self, txn: &Txn, most: Duration) -> Result<TxnReply, EngineError> {
        Engine::txn_within(self, txn, most)
    }

    fn glance(&self, txn: &Txn, most: Duration) -> Result<TxnReply, EngineError> {
        Engine::glance(self, txn, most)
    }

    fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), EngineError> {
        Engine::grant(self, ttl)
    }

    fn grant_within(&self, ttl: Duration, most: Duration) -> Result<(LeaseId, Duration), EngineError> {
        Engine::grant_within(self, ttl, most)
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<Duration, EngineError> {
        Engine::keep_alive(self, lease)
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), EngineError> {
        Engine::revoke(self, lease)
    }

    fn watch(&self, keys: &[Keys], from: Revision) -> Result<connection::News, EngineError> {
        Ok(Box::new(Engine::watch(self, keys, from)?))
    }

    fn size(&self, most: Duration) -> Option<(u64, u64)> {
        self.size_within(most)
    }

    fn renew(&self, lease: LeaseId, pulse: Weak<Pulse>) {
        self.begins(move |client| async move { renew(&client, lease, &pulse).await });
    }

    fn attend(&self, hold: Weak<Hold>) {
        let Some(held) = hold.upgrade() else { return };
        let (keys, from) = (held.keys().to_vec(), held.token() + 1);
        let (alive, ended) = oneshot::channel::<()>();
        held.keeps(Box::new(alive));
        self.begins(move |client| async move {
            let attends = async {
                tokio::time::sleep(SHORT).await;
                attend(&client, &keys, from, &hold).await;
            };
            tokio::select! {
                () = attends => {}
                _ = ended => {}
            }
        });
    }
}

/// Watches what is held, until it is lost.
async fn attend(client: &Client, keys: &[Keys], mut from: Revision, hold: &Weak<Hold>) {
    loop {
        let tell = |_, changes: Vec<Change>| hold.upgrade().is_some_and(|hold| !hold.changed(&changes));
        if follow(client, requests(keys, from), tell).await.is_none() {
            return;
        }
        // What came meanwhile is read, as soon as the engine answers.
        loop {
            let Some(read) = hold.upgrade().filter(|hold| hold.loss().is_none()).map(|hold| hold.reads()) else {
                return;
            };
            match client.call::<_, m::TxnResponse>(TXN, wire::txn(&read), Patience::USUAL, true).await.map(wire::reply)
            {
                Ok(reply) => match hold.upgrade().and_then(|hold| hold.found(&reply)) {
                    Some(next) => break from = next,
                    None => return,
                },
                // It does not tell: as long as the lease is renewed, it is held.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// What begins a watch.
fn requests(keys: &[Keys], from: Revision) -> Vec<m::WatchRequest> {
    let request = |(at, keys): (usize, &Keys)| {
        let (key, range_end) = wire::range(keys);
        let start_revision = i64::try_from(from).unwrap_or(i64::MAX);
        let create = m::WatchCreateRequest { key, range_end, start_revision, watch_id: at as i64 + 1 };
        m::WatchRequest { create: Some(create) }
    };
    keys.iter().enumerate().map(request).collect()
}

/// Hands on what a watch tells, until that is not wanted any more, or the watch has ended: answers why.
async fn follow(
    client: &Client,
    requests: Vec<m::WatchRequest>,
    tell: impl Fn(usize, Vec<Change>) -> bool,
) -> Option<News> {
    let at = client.at();
    let opened = client.stream::<_, m::WatchResponse>(at, WATCH, requests, true, PATIENCE).await;
    let mut stream = match opened {
        Ok(stream) => stream,
        Err(e) => {
            client.turn(at);
            tokio::time::sleep(PAUSE).await;
            return Some(News::Broken(e.to_string()));
        }
    };
    loop {
        match stream.message().await {
            Ok(Some(said)) if said.canceled => {
                return Some(match said.compact_revision {
                    0 => News::Broken(format!("the engine ended the watch: {}", said.cancel_reason)),
                    at => News::Forgotten(format!("the engine has compacted its history up to revision {at}")),
                });
            }
            Ok(Some(said)) => {
                let changes: Vec<_> = said.events.into_iter().filter_map(wire::change).collect();
                let at = usize::try_from(said.watch_id - 1).unwrap_or_default();
                if !changes.is_empty() && !tell(at, changes) {
                    return None;
                }
            }
            Ok(None) => return Some(News::Broken("the engine ended the watch".into())),
            Err(status) => {
                client.turn(at);
                return Some(News::Broken(client::explained(status.message())));
            }
        }
    }
}

/// What a watch tells. It ends when this is dropped.
#[derive(Debug)]
pub struct Stream {
    news: Receiver<News>,
    /// Dropped with this, which the thread sees.
    _alive: oneshot::Sender<()>,
}

impl Watch for Stream {
    fn next(&mut self, patience: Option<Duration>) -> News {
        let ended = || News::Broken("the watch has ended".into());
        match patience {
            Some(patience) => match self.news.recv_timeout(patience) {
                Ok(news) => news,
                Err(RecvTimeoutError::Timeout) => News::Nothing,
                Err(RecvTimeoutError::Disconnected) => ended(),
            },
            None => self.news.recv().unwrap_or_else(|_| ended()),
        }
    }
}
