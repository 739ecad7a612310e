//! What can be done with the objects of a namespace beside taking of them: make, look at, resize, remove.

use crate::connection::Link;
use crate::engine::{Compare, Engine, EngineError, Entry, Keys, Op, Reply, Test, Txn, TxnReply};
use crate::error::RemoteError;
use crate::grant;
use crate::keys::{self, Format, Head, MOST_PERMITS, Object, Space, Tail};
use crate::view::{Known, View};

/// A namespace of an engine, and what it is called.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its keys.
    pub space: Space,
    /// How it is written: `@lab`, `@`, or a URL.
    pub called: String,
    /// The engine.
    pub url: String,
}

fn is(key: String, is: Test) -> Compare {
    Compare { keys: Keys::One(key), is }
}

impl Site {
    /// How a name there is written.
    pub fn name(&self, own: &str) -> String {
        if self.called.starts_with('@') { format!("{}/{own}", self.called) } else { own.to_owned() }
    }

    /// That there is no such object.
    pub fn unknown(&self, kind: &'static str, own: &str) -> RemoteError {
        RemoteError::Unknown { kind, name: self.name(own), url: self.url.clone() }
    }

    /// That a newer version wrote there.
    pub fn newer(&self, format: u32) -> RemoteError {
        RemoteError::Newer { url: self.url.clone(), format }
    }

    fn does(&self, link: &Link, what: &str, txn: &Txn) -> Result<TxnReply, RemoteError> {
        link.txn(txn).map_err(|e| match e {
            // One that is full may have done it, and then says so.
            EngineError::Unknown(why) | EngineError::Full(why) => RemoteError::Unsure { what: what.to_owned(), why },
            e => RemoteError::Refused(e.to_string()),
        })
    }

    /// An object as it is; one that is not there is seen, too.
    ///
    /// # Errors
    /// `Newer`, `Silent`, `Refused`.
    pub fn look(&self, link: &Link, own: &str) -> Result<View, RemoteError> {
        let reply = match link.txn(&grant::look(&self.space, &[own.to_owned()])) {
            Ok(reply) => reply,
            Err(EngineError::Unknown(why)) => return Err(RemoteError::Silent { wanted: self.name(own), why }),
            Err(e) => return Err(RemoteError::Refused(e.to_string())),
        };
        let [Reply::Found(format), Reply::Found(entries)] = reply.replies.as_slice() else { return Err(senseless()) };
        match keys::newer(format) {
            Some(format) => Err(self.newer(format)),
            None => Ok(View::of(&self.space, own, entries, reply.revision)),
        }
    }

    /// One of this kind, or why not.
    ///
    /// # Errors
    /// `Unknown`, `Other`; and as [`Site::look`].
    pub fn see(&self, link: &Link, kind: &'static str, own: &str) -> Result<(View, Known), RemoteError> {
        let view = self.look(link, own)?;
        match view.object {
            None => Err(self.unknown(kind, own)),
            Some(known) if known.what.kind() == kind => Ok((view, known)),
            Some(known) => Err(RemoteError::Other { name: self.name(own), is: known.what, wanted: kind }),
        }
    }

    /// Makes an object.
    ///
    /// # Errors
    /// `Exists`: something is there. `Unsure`, `Newer`, `Refused`.
    pub fn make(&self, link: &Link, own: &str, object: Object) -> Result<(), RemoteError> {
        keys::check(object.kind(), own).map_err(RemoteError::Invalid)?;
        let (space, name) = (&self.space, self.name(own));
        let what = format!("{} `{name}` was made", object.kind());
        loop {
            let look = vec![Op::Get(Keys::One(space.format())), Op::Get(Keys::One(space.size(own)))];
            let reply = self.does(link, &what, &Txn::of(look))?;
            let [Reply::Found(format), Reply::Found(size)] = reply.replies.as_slice() else { return Err(senseless()) };
            if let Some(format) = keys::newer(format) {
                return Err(self.newer(format));
            }
            if let Some(entry) = size.first() {
                return Err(match keys::read::<Object>(&entry.value) {
                    Some(is) => RemoteError::Exists { name, is },
                    None => RemoteError::Refused(format!("what `{name}` is on {} cannot be read", self.url)),
                });
            }
            if self.does(link, &what, &makes(space, own, object, format.first()))?.held {
                return Ok(());
            }
            // Another was faster.
        }
    }

    /// Gives a pool another size. Permits beyond a smaller one stay with their holders, and are not granted again.
    ///
    /// # Errors
    /// `Unknown`, `Other`, `Invalid`; and as [`Site::make`].
    pub fn resize(&self, link: &Link, own: &str, permits: u32) -> Result<(), RemoteError> {
        let object = pool_of(permits)?;
        let what = format!("pool `{}` was resized", self.name(own));
        loop {
            let (_, known) = self.see(link, "pool", own)?;
            let key = self.space.size(own);
            let when = vec![is(key.clone(), Test::Modified(known.modified))];
            let then = vec![Op::Put { key, value: keys::write(&object), lease: None }];
            if self.does(link, &what, &Txn { when, then, otherwise: vec![] })?.held {
                return Ok(());
            }
        }
    }

    /// Removes an object, and all that is in it. With `force` also one that is in use, or a tube with records: its holders lose what they hold.
    ///
    /// # Errors
    /// `InUse`, `Unknown`; and as [`Site::make`].
    pub fn remove(&self, link: &Link, own: &str, force: bool) -> Result<(), RemoteError> {
        let (space, name) = (&self.space, self.name(own));
        let what = format!("`{name}` was removed");
        let pages = space.pages(own, 0, u64::MAX);
        let ends = [space.holders(own), space.queue(own), space.senders(own), space.claims(own), pages];
        loop {
            let view = self.look(link, own)?;
            let Some(known) = view.object else { return Err(self.unknown("object", own)) };
            let tube = self.does(link, &what, &Txn::of(ends[2..].iter().cloned().map(Op::Names).collect()))?;
            let count = |reply: &Reply| if let Reply::Found(found) = reply { found.len() } else { 0 };
            let held = view.held.len() + tube.replies.iter().map(count).sum::<usize>();
            if !force && held + view.queue.len() > 0 {
                return Err(RemoteError::InUse { kind: known.what.kind(), name, held, waiting: view.queue.len() });
            }
            let unused = ends.iter().map(|keys| Compare { keys: keys.clone(), is: Test::Absent });
            let when = if force { vec![] } else { unused.collect() };
            let then = vec![Op::Delete(space.pool(own)), Op::Delete(space.tube(own))];
            if self.does(link, &what, &Txn { when, then, otherwise: vec![] })?.held {
                return Ok(());
            }
        }
    }
}

/// A pool of so many permits.
///
/// # Errors
/// `Invalid`: too many, or none.
pub fn pool_of(permits: u32) -> Result<Object, RemoteError> {
    match permits {
        1..=MOST_PERMITS => Ok(Object::Pool { permits }),
        _ => Err(RemoteError::Invalid(format!("a pool on an engine has 1 to {MOST_PERMITS} permits, not {permits}"))),
    }
}

fn senseless() -> RemoteError {
    RemoteError::Refused("the engine's answer makes no sense".into())
}

/// Makes an object where there is none, and raises the format if it must. `format`: what stands there.
pub fn makes(space: &Space, own: &str, object: Object, format: Option<&Entry>) -> Txn {
    let has = format.and_then(|entry| keys::read::<Format>(&entry.value)).map_or(0, |format| format.format);
    let put = |key: String, value: Vec<u8>| Op::Put { key, value, lease: None };
    let mut then = vec![put(space.size(own), keys::write(&object))];
    if matches!(object, Object::Tube { .. }) {
        then.push(put(space.tail(own), keys::write(&Tail::default())));
        then.push(put(space.head(own), keys::write(&Head { pages: 0 })));
    }
    if has < object.format() {
        then.push(put(space.format(), keys::write(&Format { format: object.format() })));
    }
    let format = format.map_or(Test::Absent, |entry| Test::Modified(entry.modified));
    Txn { when: vec![is(space.size(own), Test::Absent), is(space.format(), format)], then, otherwise: vec![] }
}
