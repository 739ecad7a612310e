//! Calls to an engine, at one of its endpoints after the other, on the thread of their own that all calls share.

use super::messages as m;
use super::options::Options;
use crate::engine::EngineError;
use prost::Message;
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::{self, StreamExt, wrappers::ReceiverStream};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// How long a request may take at one endpoint.
pub const PATIENCE: Duration = Duration::from_millis(1500);

/// How long an answer is waited for.
#[derive(Clone, Copy)]
pub struct Patience {
    /// At each endpoint.
    pub each: Duration,
    /// At all of them.
    pub most: Duration,
}

impl Patience {
    /// Of a small request whose caller has time.
    pub const USUAL: Patience = Patience { each: PATIENCE, most: Duration::MAX };
}

/// How long nothing is asked of endpoints of which none has answered.
pub const PAUSE: Duration = Duration::from_millis(100);

/// What an engine answers to a request that may go on. Both end with this.
pub struct Answers<Q, A> {
    stream: Streaming<A>,
    /// The request goes on until it is dropped.
    _more: Option<mpsc::Sender<Q>>,
}

impl<Q, A> Answers<Q, A> {
    /// The next one; `None`: there are no more.
    ///
    /// # Errors
    /// The engine's, or that it is gone.
    pub async fn message(&mut self) -> Result<Option<A>, Status> {
        self.stream.message().await
    }
}

/// Why a call came to nothing.
pub enum Failure {
    /// It was not sent: another endpoint may do it.
    Unsent(String),
    /// It may have been done.
    Unknown(String),
    /// The lease has ended.
    LeaseGone,
    /// The user must prove again that it is the user.
    Token,
    /// It was not done, and will not be.
    Refused(String),
    /// There is no room: a member that is at its quota's edge applies a transaction, and then says so.
    Full(String),
}

impl Failure {
    /// In words.
    pub fn text(self) -> String {
        match self {
            Failure::Unsent(why) | Failure::Unknown(why) | Failure::Refused(why) | Failure::Full(why) => why,
            Failure::LeaseGone => EngineError::LeaseGone.to_string(),
            Failure::Token => "the engine wants a user and a password".into(),
        }
    }
}

struct End {
    name: String,
    channel: Channel,
}

impl End {
    /// A pool may have more keys than fit what a message may have elsewhere.
    fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }
}

/// The connections. What is `Cell` here is only used on their thread.
pub struct Client {
    ends: Vec<End>,
    /// The endpoint that is asked next.
    at: Cell<usize>,
    user: Option<(String, String)>,
    token: RefCell<Option<AsciiMetadataValue>>,
    /// How many leases are asked for that are used already.
    coming: watch::Sender<u32>,
}

/// A lease that is asked for, until this is dropped.
pub struct Coming(watch::Sender<u32>);

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.send_modify(|coming| *coming -= 1);
    }
}

/// Asks for something under a lease. The engine may do that before it makes a lease that was asked for ahead of it, finds none, and does nothing: then it is asked
/// again behind that, once.
async fn behind_leases<A, F>(
    coming: &watch::Sender<u32>,
    until: Option<Instant>,
    ask: impl Fn() -> F,
) -> Result<A, EngineError>
where
    F: Future<Output = Result<A, EngineError>>,
{
    let ahead = *coming.borrow() > 0;
    let answer = ask().await;
    if !ahead || !matches!(answer, Err(EngineError::LeaseGone)) {
        return answer;
    }
    let mut coming = coming.subscribe();
    let came = coming.wait_for(|coming| *coming == 0);
    let came = match until {
        Some(until) => tokio::time::timeout_at(until.into(), came).await.is_ok(),
        None => came.await.is_ok(),
    };
    if came { ask().await } else { Err(EngineError::Unknown("the engine has not made the lease in time".into())) }
}

impl Client {
    /// Connections that are made when they are needed.
    ///
    /// # Errors
    /// A file that is not what it should be, an endpoint that is none.
    pub fn new(options: &Options) -> Result<Client, String> {
        let end = |name: &String| -> Result<End, String> {
            let scheme = if options.tls.is_some() { "https" } else { "http" };
            let bad = |e: tonic::transport::Error| format!("endpoint `{name}`: {}", chain(&e));
            let mut endpoint = Endpoint::from_shared(format!("{scheme}://{name}"))
                .map_err(bad)?
                .connect_timeout(Duration::from_millis(1500))
                .tcp_nodelay(true)
                // An endpoint that is cut off swallows what is sent to it, and says nothing. etcd ends a connection on which it is asked more
                // often than each 5 s (its `grpc-keepalive-min-time`) whether it is there.
                .http2_keep_alive_interval(Duration::from_secs(6))
                .keep_alive_timeout(Duration::from_secs(2))
                .keep_alive_while_idle(true);
            if let Some(tls) = &options.tls {
                let mut config = ClientTlsConfig::new().assume_http2(true);
                if let Some(ca) = &tls.ca {
                    config = config.ca_certificate(Certificate::from_pem(ca));
                }
                if let Some((cert, key)) = &tls.own {
                    config = config.identity(Identity::from_pem(cert, key));
                }
                endpoint = endpoint.tls_config(config).map_err(bad)?;
            }
            Ok(End { name: name.clone(), channel: endpoint.connect_lazy() })
        };
        let ends = options.endpoints.iter().map(end).collect::<Result<Vec<End>, String>>()?;
        // Clients begin at different endpoints.
        let at = Cell::new(chappe_plat::process::pid() as usize % ends.len().max(1));
        Ok(Client { ends, at, user: options.user.clone(), token: RefCell::new(None), coming: watch::Sender::new(0) })
    }

    /// A lease is asked for that is used before the answer has come.
    pub fn comes(&self) -> Coming {
        self.coming.send_modify(|coming| *coming += 1);
        Coming(self.coming.clone())
    }

    /// A call under a lease that may not be there yet.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    pub async fn call_under_lease<Q, A>(
        &self,
        path: &'static str,
        message: Q,
        patience: Patience,
        repeats: bool,
    ) -> Result<A, EngineError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let until = Instant::now().checked_add(patience.most);
        behind_leases(&self.coming, until, || {
            let most = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            self.call(path, message.clone(), Patience { most, ..patience }, repeats)
        })
        .await
    }

    /// How many endpoints there are.
    pub fn ends(&self) -> usize {
        self.ends.len()
    }

    /// The endpoint that is asked next, by number.
    pub fn at(&self) -> usize {
        self.at.get()
    }

    /// Has another endpoint than this one asked. Of several calls that one endpoint has let down, each turns away from it.
    pub fn turn(&self, from: usize) {
        if self.at.get() == from {
            self.at.set((from + 1) % self.ends.len());
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &*self.token.borrow() {
            request.metadata_mut().insert("token", token.clone());
        }
        // An endpoint that has lost the others says so, and does not let its clients wait.
        request.metadata_mut().insert("hasleader", AsciiMetadataValue::from_static("true"));
        request
    }

    /// One call at one endpoint.
    async fn once<Q, A>(&self, at: usize, path: &'static str, message: Q, within: Duration) -> Result<A, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let end = &self.ends[at];
        let mut grpc = end.grpc();
        let call = async {
            grpc.ready().await.map_err(|e| Failure::Unsent(format!("{}: {}", end.name, explained(&chain(&e)))))?;
            let codec = ProstCodec::<Q, A>::default();
            let answer = grpc.unary(self.request(message), PathAndQuery::from_static(path), codec).await;
            answer.map(|answer| answer.into_inner()).map_err(|status| failure(&end.name, &status))
        };
        match tokio::time::timeout(within, call).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Unknown(format!("{}: no answer within {} ms", end.name, within.as_millis()))),
        }
    }

    /// A call, at other endpoints too where it was not sent; with `repeats`, also where the answer was lost.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    pub async fn call<Q, A>(
        &self,
        path: &'static str,
        message: Q,
        patience: Patience,
        repeats: bool,
    ) -> Result<A, EngineError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let (mut reasons, mut proved) = (Vec::new(), false);
        let until = Instant::now().checked_add(patience.most);
        let left = || until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        while reasons.len() < self.ends.len() {
            let (at, within) = (self.at(), patience.each.min(left()));
            if within.is_zero() && !reasons.is_empty() {
                break;
            }
            match self.once(at, path, message.clone(), within).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::LeaseGone) => return Err(EngineError::LeaseGone),
                Err(Failure::Refused(why)) => return Err(EngineError::Refused(why)),
                Err(Failure::Full(why)) => return Err(EngineError::Full(why)),
                Err(Failure::Token) if !proved && self.user.is_some() => {
                    proved = true;
                    self.prove(within).await?;
                }
                Err(Failure::Token) => return Err(EngineError::Refused(Failure::Token.text())),
                Err(Failure::Unsent(why)) => {
                    reasons.push(why);
                    self.turn(at);
                }
                Err(Failure::Unknown(why)) => {
                    reasons.push(why);
                    self.turn(at);
                    if !repeats {
                        break;
                    }
                }
            }
        }
        // A caller that asks again at once asks in vain.
        tokio::time::sleep(PAUSE.min(left())).await;
        Err(EngineError::Unknown(reasons.join("; ")))
    }

    /// Proves that the user is the user, if there is one.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    pub async fn prove(&self, within: Duration) -> Result<(), EngineError> {
        let Some((name, password)) = self.user.clone() else { return Ok(()) };
        self.token.take();
        let message = m::AuthenticateRequest { name: name.clone(), password };
        let at = self.at();
        match self.once::<_, m::AuthenticateResponse>(at, AUTHENTICATE, message, within).await {
            Ok(answer) => {
                let token = answer.token.parse::<AsciiMetadataValue>();
                *self.token.borrow_mut() = Some(token.map_err(|e| EngineError::Refused(e.to_string()))?);
                Ok(())
            }
            Err(Failure::Refused(why)) if why.contains("authentication is not enabled") => Ok(()),
            Err(Failure::Unknown(why) | Failure::Unsent(why)) => {
                self.turn(at);
                Err(EngineError::Unknown(why))
            }
            Err(Failure::Refused(why) | Failure::Full(why)) => {
                Err(EngineError::Refused(format!("user `{name}`: {why}")))
            }
            Err(Failure::LeaseGone | Failure::Token) => Err(EngineError::Refused(format!("user `{name}` is refused"))),
        }
    }

    /// A stream of answers to some messages; the engine may answer as long as the stream is kept.
    ///
    /// # Errors
    /// As [`EngineError`] has it.
    pub async fn stream<Q, A>(
        &self,
        at: usize,
        path: &'static str,
        messages: Vec<Q>,
        open: bool,
        within: Duration,
    ) -> Result<Answers<Q, A>, EngineError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let end = &self.ends[at];
        let mut grpc = end.grpc();
        let (more, rest) = mpsc::channel(1);
        let messages = tokio_stream::iter(messages).chain(ReceiverStream::new(rest));
        // Some engines end the stream when the client has nothing more to say. None ends it while the request goes on, though its reader has left.
        let more = open.then_some(more);
        let opened = async {
            grpc.ready().await.map_err(|e| Failure::Unknown(format!("{}: {}", end.name, chain(&e))))?;
            let codec = ProstCodec::<Q, A>::default();
            let path = PathAndQuery::from_static(path);
            let answer = grpc.streaming(self.request(messages), path, codec).await;
            answer.map(|answer| answer.into_inner()).map_err(|status| failure(&end.name, &status))
        };
        let why = match tokio::time::timeout(within, opened).await {
            Ok(Ok(stream)) => return Ok(Answers { stream, _more: more }),
            Ok(Err(Failure::LeaseGone)) => return Err(EngineError::LeaseGone),
            Ok(Err(Failure::Refused(why) | Failure::Full(why))) => return Err(EngineError::Refused(why)),
            Ok(Err(Failure::Token)) => {
                self.prove(within).await?;
                "the user had to be proved again".into()
            }
            Ok(Err(Failure::Unknown(why) | Failure::Unsent(why))) => why,
            Err(_) => format!("{}: no answer within {} ms", end.name, within.as_millis()),
        };
        Err(EngineError::Unknown(why))
    }

    /// An endpoint's name, and its status, or why it has none.
    pub async fn status(&self, at: usize, within: Duration) -> (String, Result<m::StatusResponse, Failure>) {
        let status = self.once::<_, m::StatusResponse>(at, STATUS, m::Nothing {}, within).await;
        (self.ends[at].name.clone(), status)
    }

    /// The status of the first endpoint that answers, which is asked from then on; or each endpoint's reason. Each is asked, if shortly, also when the
    /// time is up.
    ///
    /// # Errors
    /// It refuses.
    pub async fn first_status(&self, until: Instant) -> Result<Result<m::StatusResponse, Vec<String>>, EngineError> {
        let within = || until.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(50), PATIENCE);
        let mut reasons = Vec::new();
        // One that has proved itself is not asked again: meanwhile others' renewals would go without a token.
        let (mut wants_proof, mut again) = (self.token.borrow().is_none(), false);
        while reasons.len() < self.ends.len() {
            if std::mem::take(&mut wants_proof) {
                match self.prove(within()).await {
                    Err(EngineError::Unknown(why)) => return Ok(Err(vec![why])),
                    proved => proved?,
                }
            }
            let at = self.at();
            match self.status(at, within()).await.1 {
                Ok(status) => return Ok(Ok(status)),
                Err(Failure::Token) if self.user.is_some() && self.token.borrow().is_some() && !again => {
                    (again, wants_proof) = (true, true);
                }
                Err(Failure::Unsent(why) | Failure::Unknown(why)) => {
                    reasons.push(why);
                    self.turn(at);
                }
                Err(refused) => return Err(EngineError::Refused(refused.text())),
            }
        }
        Ok(Err(reasons))
    }
}

const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
const STATUS: &str = "/etcdserverpb.Maintenance/Status";

fn failure(end: &str, status: &Status) -> Failure {
    let said = status.message();
    let text = || format!("{end}: {}", explained(&said_by(status)));
    match status.code() {
        Code::NotFound if said.contains("requested lease not found") => Failure::LeaseGone,
        Code::Unauthenticated => Failure::Token,
        Code::InvalidArgument if said.contains("user name is empty") || said.contains("auth store is old") => {
            Failure::Token
        }
        Code::ResourceExhausted if said.contains("too many requests") => Failure::Unsent(text()),
        Code::ResourceExhausted if said.contains("database space exceeded") => Failure::Full(text()),
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented => Failure::Refused(text()),
        _ if unconnected(status) => Failure::Unsent(text()),
        _ => Failure::Unknown(text()),
    }
}

/// Whether there was no connection to send it on.
fn unconnected(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(e) = source {
        if e.is::<tonic::ConnectError>() {
            return true;
        }
        source = e.source();
    }
    false
}

fn said_by(status: &Status) -> String {
    joined(status.message().to_owned(), status.source())
}

/// An error with all that it comes from.
pub fn chain(e: &dyn Error) -> String {
    joined(e.to_string(), e.source())
}

/// What is new in each, from the outermost.
fn joined(first: String, mut source: Option<&dyn Error>) -> String {
    let mut parts = vec![first];
    parts.retain(|first| !first.is_empty());
    while let Some(e) = source {
        let text = e.to_string();
        // What stands between the parts of the client says nothing by itself.
        if text != "transport error" && !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        source = e.source();
    }
    parts.join(": ")
}

/// The same, with what to do where that is known.
pub fn explained(text: &str) -> String {
    const CLOSED: &str =
        "it closes the connection: it may want TLS (etcds://), or a client's certificate (`cert` and `key`)";
    const OTHER_NAME: &str = "its certificate is for another name";
    const PLAIN: &str = "it does not speak TLS: write etcd:// for it";
    const KNOWN: [(&str, &str); 13] = [
        ("InvalidContentType", PLAIN),
        ("tls handshake eof", PLAIN),
        ("frame with invalid size", "it may speak TLS: write etcds:// for it"),
        ("UnknownIssuer", "its certificate is not from the authority in `ca`"),
        ("Expired", "its certificate has expired"),
        ("NotValidForName", OTHER_NAME),
        ("not valid for name", OTHER_NAME),
        ("received fatal alert", "it refuses the client's certificate, or wants one (`cert` and `key`)"),
        ("connection closed", CLOSED),
        ("broken pipe", CLOSED),
        ("permission denied", "the user's role needs readwrite on the namespace's prefix"),
        (
            "database space exceeded",
            "the engine's disk quota is used up: compact and defragment it, then disarm the alarm",
        ),
        ("no leader", "its members have no quorum"),
    ];
    match KNOWN.iter().find(|(sign, _)| text.contains(sign)) {
        Some((_, advice)) => format!("{advice} ({text})"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn a_request_that_overtook_its_lease_is_made_once_more_behind_it() {
        let asked_with = |leases: u32, answers: [bool; 2]| {
            let (coming, asked) = (watch::Sender::new(leases), Rc::new(Cell::new(0)));
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let answer = runtime.block_on(behind_leases(&coming, None, || {
                // The lease comes while it is asked for the first time.
                coming.send_replace(0);
                let at = asked.replace(asked.get() + 1);
                async move { if answers[at] { Ok(()) } else { Err(EngineError::LeaseGone) } }
            }));
            (asked.get(), answer)
        };
        assert_eq!(asked_with(1, [false, true]), (2, Ok(())));
        assert_eq!(asked_with(1, [false, false]), (2, Err(EngineError::LeaseGone)), "it has ended");
        assert_eq!(asked_with(1, [true, true]), (1, Ok(())));
        assert_eq!(asked_with(0, [false, true]), (1, Err(EngineError::LeaseGone)), "none was asked for");
    }
}
