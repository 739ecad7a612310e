//! Broadcast tubes themselves: made, opened, looked at, removed; and what a subscription is to be.

use super::ends::{Publisher, Subscription};
use super::subscribe::{Slow, Subscribe};
use crate::handle::Handle;
use crate::named::{Named, NamedKind};
use crate::registry::ArenaOptions;
use crate::tube::named::{Record, TubeError};
use crate::tube::schema::Parsed;
use chappe_arena::layout::{BLOCK, Kind as ObjectKind, MAX_BLOCKS};
use chappe_arena::{Admin, ArenaError, Map, Place, Who};
use chappe_plat::atomic::Ordering;
use chappe_structures::broadcast::place::{MOST_SLOTS, MOST_SUBSCRIPTIONS, Shape};
use chappe_tube::broadcast::cast::{self, Cast, Mapped, Unattached, by};
use chappe_wait::attachment::{attachment, process_attachment};
use chappe_wait::waiters::{Waiter, bytes, waiters};
use std::marker::PhantomData;

/// What a broadcast tube is made as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroadcastOptions {
    /// How many messages it has room for (64): at least 2, at most 65,536; rounded up to a power of two.
    pub slots: u32,
    /// Of a tube of bytes: the most that one message can have (256). With a schema it is the schema's; plain data has its own.
    pub size: u32,
    /// Of a tube of bytes: where a message begins in memory (8; a power of two, at most 64).
    pub align: u32,
    /// How many may subscribe at a time (16; at most 256). Each takes 1.1 KB and 8 bytes for 32 slots.
    pub subscribers: u32,
    /// The fields of a message, in the text form of `chappe::synth::Schema`: `price: f64, sym: str[8]`. Without the feature `synth`, it
    /// must be in canonical form.
    pub schema: Option<String>,
}

impl Default for BroadcastOptions {
    fn default() -> BroadcastOptions {
        BroadcastOptions { slots: 64, size: 256, align: 8, subscribers: 16, schema: None }
    }
}

/// A subscription, as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BroadcastSubscriber {
    /// Whose it is.
    pub who: Who,
    /// What becomes of messages for which it is too slow.
    pub slow: Slow,
    /// Its filter, with its parameters; empty for all.
    pub filter: String,
    /// How many messages are there for it.
    pub messages: u32,
    /// How many it has received.
    pub received: u64,
    /// How many it has lost because it was too slow.
    pub lost: u64,
}

/// A broadcast tube, as it stands: see [`Broadcast::info`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BroadcastInfo {
    /// How many messages it has room for.
    pub slots: u32,
    /// The most bytes of a message.
    pub size: u32,
    /// How many may subscribe.
    pub capacity: u32,
    /// The fields of its messages, in canonical form.
    pub schema: Option<String>,
    /// The schema's hash.
    pub schema_hash: Option<u64>,
    /// How many messages somebody wanted, since it was made (what was passed over because its publisher was too slow counts, too).
    pub sent: u64,
    /// The processes that publish, one entry a publisher.
    pub publishers: Vec<Who>,
    /// How many times a publisher has come since it was made; wraps.
    pub publishers_came: u32,
    /// How many publishers have died, or broken off, since it was made, modulo 2^19.
    pub publishers_died: u32,
    /// The subscribers.
    pub subscribers: Vec<BroadcastSubscriber>,
    /// The waiters, for a message or for room.
    pub waiting: Vec<Waiter>,
    /// Bytes of the arena's data that it takes.
    pub bytes: u64,
}

pub(crate) fn info(map: &'static Map, place: Place) -> Option<BroadcastInfo> {
    let cast = Cast::of(map, place)?;
    let shape = cast.ring.shape();
    let one = |(who, member)| {
        let sub = cast.ring.sub(who);
        BroadcastSubscriber {
            who: map.who(member),
            slow: Slow::of(cast.ring.terms(who)),
            filter: cast.text(who).map_or_else(String::new, |(_, text)| super::route::shown(&text)),
            messages: cast.ring.pending(who),
            received: sub.taken.load(Ordering::Relaxed), // Relaxed: an onlooker.
            lost: u64::from(cast.ring.lost(who)) + sub.dropped.load(Ordering::Relaxed), // Relaxed: as above.
        }
    };
    Some(BroadcastInfo {
        slots: shape.slots,
        size: shape.size,
        capacity: shape.subscriptions,
        schema: cast.schema(),
        schema_hash: Some(cast.schema_hash()).filter(|hash| *hash != 0),
        sent: cast.ring.claimed(),
        publishers_came: cast.came(),
        publishers_died: cast.died(),
        publishers: cast.publishers().map(|member| map.who(member)).collect(),
        subscribers: cast.subscriptions().map(one).collect(),
        waiting: waiters(map, place),
        bytes: bytes(map, place),
    })
}

/// A broadcast tube, named or private: to send, take a [`Publisher`], to receive, [`subscribe`](Broadcast::subscribe).
///
/// `T` is plain data, or `[u8]`: then each message has as many bytes as were sent. A tube with a schema is one of `[u8]`, whose messages have
/// the schema's size.
///
/// Python: `chappe.Broadcast`. Shell: `chappe tube create --broadcast`.
pub struct Broadcast<T: ?Sized> {
    handle: Handle,
    of: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Clone for Broadcast<T> {
    fn clone(&self) -> Broadcast<T> {
        Broadcast { handle: self.handle.clone(), of: PhantomData }
    }
}

impl<T: ?Sized> std::fmt::Debug for Broadcast<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Broadcast({:?})", self.name())
    }
}

fn hash_of<T: ?Sized>() -> u64 {
    chappe_arena::hash(&crate::called::plain_name::<T>())
}

/// What is to be made: its shape, and its schema with that one's hash.
pub(crate) struct Plan {
    shape: Shape,
    schema: String,
    hash: u64,
}

fn plan<T: Record + ?Sized>(options: &BroadcastOptions) -> Result<Plan, TubeError> {
    let (mut size, mut align) = (options.size, options.align);
    if let Some((its, aligned)) = T::__plain() {
        size = u32::try_from(its).unwrap_or(u32::MAX);
        align = u32::try_from(aligned).unwrap_or(u32::MAX);
    }
    let (schema, hash) = match &options.schema {
        None => (String::new(), 0),
        Some(text) => {
            let parsed = Parsed::new(text)?;
            if T::__plain().is_some() && parsed.size != size {
                let has = format!("a schema of {} bytes", parsed.size);
                return Err(TubeError::Schema { what: format!("the messages have {size} bytes each, and not {has}") });
            }
            size = parsed.size;
            (parsed.text, parsed.hash)
        }
    };
    if !align.is_power_of_two() || align > BLOCK as u32 {
        return Err(TubeError::Align { align: align.into() });
    }
    let limit = |what, count: u32, most: u32| -> Result<(), TubeError> {
        let within = (1..=most).contains(&count);
        if within { Ok(()) } else { Err(TubeError::Capacity { what, count: count.into(), most: most.into() }) }
    };
    limit("slots", options.slots, MOST_SLOTS)?;
    limit("subscribers", options.subscribers, MOST_SUBSCRIPTIONS)?;
    limit("bytes a message", size.max(1), 1 << 30)?;
    let slots = options.slots.next_power_of_two().max(2);
    let shape = Shape { slots, size, align, subscriptions: options.subscribers };
    if cast::blocks_wanted(shape, schema.len()).is_none_or(|blocks| blocks > MAX_BLOCKS) {
        let count = u64::from(slots) * u64::from(size);
        return Err(TubeError::Capacity { what: "bytes", count, most: u64::from(MAX_BLOCKS) * BLOCK as u64 });
    }
    Ok(Plan { shape, schema, hash })
}

impl<T: Record + ?Sized> NamedKind for Broadcast<T> {
    const KIND: ObjectKind = ObjectKind::Broadcast;
    type Error = TubeError;
    type Plan<'a> = Plan;

    fn room(plan: &Plan) -> Result<ArenaOptions, TubeError> {
        let blocks = cast::blocks_wanted(plan.shape, plan.schema.len()).unwrap_or(0);
        Ok(ArenaOptions::with_room(u64::from(blocks) * BLOCK as u64))
    }

    fn lay_out(plan: &Plan, map: &'static Map, admin: &Admin, name: &str) -> Result<Place, ArenaError> {
        cast::make(map, admin, name, plan.shape, hash_of::<T>(), (plan.hash, &plan.schema))
    }

    fn attach(handle: Handle, wanted: Option<&Plan>) -> Result<Broadcast<T>, TubeError> {
        let seen = Cast::of(handle.map, handle.place).and_then(|cast| {
            let hashes = (cast.hash(), cast.schema_hash());
            // After them: they are this tube's.
            handle.seen((cast, hashes))
        });
        let (cast, (its, schema)) = seen.ok_or_else(|| handle.vanished())?;
        let has = cast.ring.shape();
        let plain = T::__plain();
        let other = plain.is_some_and(|(size, align)| (size, align) != (has.size as usize, has.align as usize));
        // Messages that say what they are can be had as bytes.
        let described = plain.is_none() && schema != 0;
        if (its != hash_of::<T>() && !described) || other {
            let wanted = plain.map_or_else(
                || "bytes of any number".to_owned(),
                |(size, align)| format!("{} ({size} bytes, aligned to {align})", std::any::type_name::<T>()),
            );
            let has = format!("messages of another type, of {} bytes aligned to {}", has.size, has.align);
            return Err(TubeError::OtherType { name: handle.name(), has, wanted });
        }
        if let Some(wanted) = wanted.filter(|w| w.shape != has || w.hash != schema) {
            let told = |shape: Shape, schema: &str| {
                let Shape { slots, size, align, subscriptions } = shape;
                let schema = if schema.is_empty() { String::new() } else { format!(", of `{schema}`") };
                format!("{slots} slots of {size} bytes aligned to {align}, for {subscriptions} subscribers{schema}")
            };
            let its = cast.schema().unwrap_or_default();
            let (has, wanted) = (told(has, &its), told(wanted.shape, &wanted.schema));
            return Err(TubeError::OtherShape { name: handle.name(), has, wanted });
        }
        Ok(Broadcast { handle, of: PhantomData })
    }

    fn in_use(handle: &Handle) -> Option<String> {
        let info = info(handle.map, handle.place)?;
        let mut all = info.publishers.iter().chain(info.subscribers.iter().map(|s| &s.who));
        let (first, publish, subscribe) = (all.next()?, info.publishers.len(), info.subscribers.len());
        Some(format!("{publish} publish, {subscribe} subscribe, first pid {} `{}`", first.pid, first.label))
    }
}

impl<T: Record + ?Sized> Broadcast<T> {
    /// Opens a tube by name.
    ///
    /// # Errors
    /// `OtherType` if its messages are no `T`; `Object`: there is none, or it is something else.
    pub fn open(name: &str) -> Result<Broadcast<T>, TubeError> {
        Named::open(name)
    }

    /// Opens a tube by name whose messages have these fields.
    ///
    /// # Errors
    /// `OtherShape` if they have others, or none are said; `Schema`: the text makes no sense; else as [`Broadcast::open`].
    pub fn open_of(name: &str, schema: &str) -> Result<Broadcast<T>, TubeError> {
        let wanted = Parsed::new(schema)?;
        let tube = Broadcast::open(name)?;
        wanted.check(tube.name(), tube.schema()?)?;
        Ok(tube)
    }

    /// Makes a tube by name, and its arena, with room for it, if need be.
    ///
    /// # Errors
    /// `Capacity`, `Align`, `Schema`; `Object`: there is one already, or the arena has no room.
    pub fn create(name: &str, options: &BroadcastOptions) -> Result<Broadcast<T>, TubeError> {
        Named::make(name, &plan::<T>(options)?, false)
    }

    /// Opens a tube by name, or makes it.
    ///
    /// # Errors
    /// `OtherShape` if it is there and was made with other options; else as [`Broadcast::open`] and [`Broadcast::create`].
    pub fn open_or_create(name: &str, options: &BroadcastOptions) -> Result<Broadcast<T>, TubeError> {
        Named::make(name, &plan::<T>(options)?, true)
    }

    /// A tube among the threads of this process. It goes with its last handle.
    ///
    /// # Errors
    /// `Capacity`, `Align`, `Schema`; `Object`: there is no room in this process's own arena (64 MiB).
    pub fn private(options: &BroadcastOptions) -> Result<Broadcast<T>, TubeError> {
        Named::private(&plan::<T>(options)?)
    }

    /// Attaches a publisher. The first of a process starts a thread that stands for it, once for each arena.
    ///
    /// # Errors
    /// `Capacity` if 128 publish already; `Dead`; `Object` if the arena cannot take another member.
    pub fn publisher(&self) -> Result<Publisher<T>, TubeError> {
        let (cast, owner, admin) = self.coming()?;
        let at = cast
            .enter(&admin, owner)
            .map_err(|why| self.unattached(why, "publishers", cast::MOST_PUBLISHERS as u64))?;
        drop(admin);
        Ok(Publisher::new(cast, self.handle.clone(), owner, at))
    }

    /// Subscribes: from now on. What is sent from here on is there for it, until it is dropped or its process dies.
    ///
    /// With the feature `synth`, a text is a filter: `tube.subscribe("price > 10.0")`.
    ///
    /// # Errors
    /// `Schema`: the filter makes no sense for this tube, with the place; `Capacity` if as many subscribe as may, or the slots that
    /// may be kept for those that drop the newest are taken; `Dead`; `Object` if the arena cannot take another member.
    pub fn subscribe(&self, how: impl Into<Subscribe>) -> Result<Subscription<T>, TubeError> {
        let how = how.into();
        let own = super::route::Own::new(&self.cast()?, &how)?;
        let (cast, owner, admin) = self.coming()?;
        let most = u64::from(cast.ring.shape().subscriptions);
        // Before it is there: of what is sent for it, nothing has been yet.
        let told = cast.died();
        let who = cast
            .subscribe(&admin, owner, how.slow.terms(), own.text())
            .map_err(|why| self.unattached(why, "subscribers", most))?;
        drop(admin);
        Ok(Subscription::new(cast, self.handle.clone(), (owner, who), told, own))
    }

    /// As members, both of whose deaths are seen: of the process, and of this thread in the middle of this.
    fn coming(&self) -> Result<(Mapped, u64, Admin), TubeError> {
        let map = self.handle.map;
        let joined = process_attachment(map)?;
        attachment(map, |_| ())?;
        map.recover_dead();
        let admin = map.admin();
        Ok((self.cast()?, by(joined.index, joined.generation), admin))
    }

    fn unattached(&self, why: Unattached, what: &'static str, most: u64) -> TubeError {
        match why {
            Unattached::Dead => TubeError::Dead { name: self.name() },
            Unattached::Full => TubeError::Capacity { what, count: most + 1, most },
            Unattached::Crowded(room) => TubeError::Capacity {
                what: "slots kept for who drops the newest",
                count: u64::from(room) + 1,
                most: room.into(),
            },
        }
    }
}

impl<T: ?Sized> Broadcast<T> {
    /// Its name: `ticks`, or `lab/ticks` in another arena than `default`; empty for a private one.
    pub fn name(&self) -> String {
        self.handle.name()
    }

    fn cast(&self) -> Result<Mapped, TubeError> {
        let cast = Cast::of(self.handle.map, self.handle.place).filter(Mapped::is_live);
        cast.ok_or_else(|| TubeError::Dead { name: self.name() })
    }

    /// The fields of its messages, in canonical form.
    ///
    /// # Errors
    /// `Dead` if it was removed.
    pub fn schema(&self) -> Result<Option<String>, TubeError> {
        Ok(self.cast()?.schema())
    }

    /// How it stands, put together from single looks while others go on.
    ///
    /// # Errors
    /// `Dead` if it was removed.
    pub fn info(&self) -> Result<BroadcastInfo, TubeError> {
        self.cast()?;
        info(self.handle.map, self.handle.place).ok_or_else(|| TubeError::Dead { name: self.name() })
    }

    /// Whether it was removed.
    pub fn is_dead(&self) -> bool {
        self.handle.is_dead()
    }
}

impl Broadcast<[u8]> {
    /// Removes a tube by name, whatever it carries. One that somebody publishes to or subscribes to is refused unless `force`: then its users
    /// get `Dead`.
    ///
    /// # Errors
    /// `Object`: there is none, it is in use, or something else.
    pub fn remove(name: &str, force: bool) -> Result<(), TubeError> {
        Named::<Broadcast<[u8]>>::remove(name, force)
    }
}
