//! Named tubes themselves: making, opening, inspecting and removing them.

use super::ends::{Receiver, Sender};
use super::error::TubeError;
use super::message::Record;
use crate::called::{Called, Had};
use crate::handle::Handle;
use crate::named::{Named, NamedKind};
use crate::registry::{Arena, ArenaOptions};
use crate::tube::schema::Parsed;
use chappe_arena::layout::USUAL_MEMBERS;
use chappe_arena::layout::{BLOCK, Kind as ObjectKind, MAX_BLOCKS};
use chappe_arena::{Admin, ArenaError, Map, Place, Who};
use chappe_structures::record::{MOST_SLOTS, Shape};
use chappe_tube::named::arms::Mapped;
use chappe_tube::named::pipe::{self, Pipe, Side};
use chappe_wait::attachment::attachment;
use chappe_wait::waiters::{Waiter, bytes, waiters};
use std::marker::PhantomData;

/// How many handles each end may have at a time. An end with only one is faster, and a second handle is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// One sender, one receiver.
    Spsc,
    /// Many senders, one receiver.
    Mpsc,
    /// One sender, many receivers.
    Spmc,
    /// Many of both.
    #[default]
    Mpmc,
}

impl Kind {
    fn new(one_sender: bool, one_receiver: bool) -> Kind {
        match (one_sender, one_receiver) {
            (true, true) => Kind::Spsc,
            (false, true) => Kind::Mpsc,
            (true, false) => Kind::Spmc,
            (false, false) => Kind::Mpmc,
        }
    }

    fn has_one_sender(self) -> bool {
        matches!(self, Kind::Spsc | Kind::Spmc)
    }

    fn has_one_receiver(self) -> bool {
        matches!(self, Kind::Spsc | Kind::Mpsc)
    }
}

/// The options with which a tube is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TubeOptions {
    /// How many messages it has room for (64; at most 524,288).
    pub slots: u32,
    /// Of a tube of bytes: the most bytes that one record can have (256). A tube of plain data has its type's size.
    pub size: u32,
    /// Of a tube of bytes: where a record begins in memory (8; a power of two, at most 64). Plain data has its own.
    pub align: u32,
    /// How many handles each end may have at a time (many).
    pub kind: Kind,
    /// If a receiver dies before it has released a message, the message is dropped, and counted, instead of being
    /// delivered once more.
    pub drops: bool,
}

impl Default for TubeOptions {
    fn default() -> TubeOptions {
        TubeOptions { slots: 64, size: 256, align: 8, kind: Kind::Mpmc, drops: false }
    }
}

impl TubeOptions {
    fn shape(&self) -> Shape {
        let (one_sender, one_receiver) = (self.kind.has_one_sender(), self.kind.has_one_receiver());
        let TubeOptions { slots, size, align, drops, .. } = *self;
        Shape { slots, size, align, one_sender, one_receiver, drops }
    }
}

fn told(shape: Shape) -> String {
    let Shape { slots, size, align, one_sender, one_receiver, drops } = shape;
    let kind = format!("{:?}", Kind::new(one_sender, one_receiver)).to_lowercase();
    let drops = if drops { ", drops what a dead receiver had" } else { "" };
    format!("{kind}, {slots} slots of {size} bytes aligned to {align}{drops}")
}

/// A tube's state: see [`Tube::info`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TubeInfo {
    /// How many handles each end may have at a time.
    pub kind: Kind,
    /// How many messages it has room for.
    pub slots: u32,
    /// The most bytes of a message.
    pub size: u32,
    /// How many messages are there.
    pub messages: usize,
    /// How many were sent since the tube was made, as its slots tell: reservations that were given up count too, and
    /// slots that were passed over because their sender was too slow.
    pub sent: u64,
    /// How many of those have left the tube: received, released, or dropped.
    pub received: u64,
    /// The processes that have a sender.
    pub senders: Vec<Who>,
    /// The processes that have a receiver.
    pub receivers: Vec<Who>,
    /// How many times a process has come to the receivers' end since it was made; wraps.
    pub receivers_came: u32,
    /// The same of the senders' end.
    pub senders_came: u32,
    /// How many senders have gone without having ended well: died, or broke off.
    pub senders_died: u32,
    /// The threads that wait for room, in the order of arrival.
    pub senders_waiting: Vec<Waiter>,
    /// The threads that wait for a message, in the order of arrival.
    pub receivers_waiting: Vec<Waiter>,
    /// How many messages were to be delivered once more, because their receiver had died.
    pub redelivered: u64,
    /// How many were dropped because their receivers had died.
    pub dropped: u64,
    /// Whether a dead receiver's message is dropped at once.
    pub drops: bool,
    /// Whether no sender may come any more.
    pub sealed: bool,
    /// Bytes of the arena's data that it takes.
    pub bytes: u64,
    /// The fields of its records, in canonical form.
    pub schema: Option<String>,
    /// The schema's hash.
    pub schema_hash: Option<u64>,
}

pub(crate) fn info(map: &'static Map, place: Place) -> Option<TubeInfo> {
    let pipe = Pipe::of(map, place)?;
    let Shape { slots, size, one_sender, one_receiver, drops, .. } = pipe.shape();
    let passed = pipe.ring.passed();
    let who = |side| pipe.attached(side).map(|member| map.who(member)).collect();
    let info = TubeInfo {
        kind: Kind::new(one_sender, one_receiver),
        slots,
        size,
        messages: pipe.ring.len(),
        sent: passed.sent,
        received: passed.received,
        senders: who(Side::Senders),
        receivers: who(Side::Receivers),
        receivers_came: pipe.came(Side::Receivers),
        senders_came: pipe.came(Side::Senders),
        senders_died: pipe.died(),
        senders_waiting: waiters(map, pipe.end),
        receivers_waiting: waiters(map, pipe.place),
        redelivered: pipe.ring.redelivered(),
        dropped: pipe.ring.dropped(),
        drops,
        sealed: pipe.is_sealed(),
        bytes: bytes(map, place),
        schema: pipe.schema(),
        schema_hash: Some(pipe.schema_hash()).filter(|hash| *hash != 0),
    };
    // After all looks: they were at this tube.
    pipe.has_blocks().then_some(info)
}

/// A named tube; to send or to receive, attach an end of it.
///
/// `T` is plain data, or `[u8]`: then each message has as many bytes as were sent, up to [`TubeOptions::size`].
///
/// ```no_run
/// use chappe_sync::tube::named::{Tube, TubeOptions};
/// let jobs = Tube::<[u64; 2]>::open_or_create("jobs", &TubeOptions { slots: 256, ..TubeOptions::default() })?;
/// let sender = jobs.sender()?;
/// sender.send([1, 2])?;
/// // In another process, or another thread:
/// let receiver = Tube::<[u64; 2]>::open("jobs")?.receiver()?;
/// let job = receiver.borrow()?;
/// println!("{:?}, {}", *job, if job.again() { "perhaps done before" } else { "new" });
/// job.release()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tube<T: ?Sized> {
    handle: Handle,
    of: PhantomData<fn(&T)>,
}

impl<T: ?Sized> Clone for Tube<T> {
    fn clone(&self) -> Tube<T> {
        Tube { handle: self.handle.clone(), of: PhantomData }
    }
}

impl<T: ?Sized> std::fmt::Debug for Tube<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tube({:?})", self.name())
    }
}

/// Of the messages' type: its name without the modules it is in.
fn hash_of<T: ?Sized>() -> u64 {
    chappe_arena::hash(&crate::called::plain_name::<T>())
}

/// Refuses impossible shapes.
fn check(shape: Shape) -> Result<(), TubeError> {
    if !(1..=MOST_SLOTS).contains(&shape.slots) {
        let (count, most) = (shape.slots.into(), MOST_SLOTS.into());
        return Err(TubeError::Capacity { what: "slots", count, most });
    }
    if !shape.align.is_power_of_two() || shape.align > BLOCK as u32 {
        return Err(TubeError::Align { align: shape.align.into() });
    }
    if pipe::blocks_wanted(shape, 1).is_none_or(|blocks| blocks > MAX_BLOCKS) {
        let count = u64::from(shape.slots) * u64::from(shape.size);
        return Err(TubeError::Capacity { what: "bytes", count, most: u64::from(MAX_BLOCKS) * BLOCK as u64 });
    }
    Ok(())
}

/// What a tube is made as, or must be.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    shape: Shape,
    /// Whether a tube that is there must have this shape.
    exact: bool,
    /// The size and alignment of plain data.
    plain: Option<(u32, u32)>,
    /// The messages' type, as a hash, and as errors call it.
    hash: u64,
    called: &'a str,
    /// The schema: its hash, and its text.
    schema: (u64, &'a str),
}

impl Plan<'_> {
    fn of<T: Record + ?Sized>(options: &TubeOptions) -> Result<Plan<'static>, TubeError> {
        let (plain, mut shape) = (plain::<T>()?, options.shape());
        (shape.size, shape.align) = plain.unwrap_or((shape.size, shape.align));
        let called = std::any::type_name::<T>();
        Ok(Plan { shape, exact: true, plain, hash: hash_of::<T>(), called, schema: (0, "") })
    }
}

impl<T: Record + ?Sized> NamedKind for Tube<T> {
    const KIND: ObjectKind = ObjectKind::Tube;
    type Error = TubeError;
    type Plan<'a> = Plan<'a>;

    fn room(plan: &Plan<'_>) -> Result<ArenaOptions, TubeError> {
        check(plan.shape)?;
        let blocks = pipe::blocks_wanted(plan.shape, USUAL_MEMBERS);
        Ok(ArenaOptions::with_room(blocks.map_or(0, |blocks| u64::from(blocks) * BLOCK as u64)))
    }

    fn lay_out(plan: &Plan<'_>, map: &'static Map, admin: &Admin, name: &str) -> Result<Place, ArenaError> {
        pipe::made::make(map, admin, name, plan.shape, plan.hash, plan.schema)
    }

    fn attach(handle: Handle, wanted: Option<&Plan<'_>>) -> Result<Tube<T>, TubeError> {
        let Plan { shape, exact, plain, hash, called, .. } = match wanted {
            Some(plan) => *plan,
            None => Plan { exact: false, ..Plan::of::<T>(&TubeOptions::default())? },
        };
        let seen = Pipe::of(handle.map, handle.place).and_then(|pipe| {
            let seen = (pipe.shape(), pipe.hash(), pipe.schema_hash());
            // After them: they are this tube's.
            pipe.has_blocks().then_some(seen)
        });
        let (has, its, schema) = seen.ok_or_else(|| handle.vanished())?;
        let other = plain.is_some_and(|(size, align)| (size, align) != (has.size, has.align));
        // Records with a schema can be opened as bytes.
        let described = plain.is_none() && schema != 0;
        if (its != hash && !described) || other {
            let wanted = plain.map_or_else(
                || format!("{called} of any length"),
                |(size, align)| format!("{called} ({size} bytes, aligned to {align})"),
            );
            let has = format!("messages of another type, of {} bytes aligned to {}", has.size, has.align);
            return Err(TubeError::OtherType { name: handle.name(), has, wanted });
        }
        if exact && shape != has {
            return Err(TubeError::OtherShape { name: handle.name(), has: told(has), wanted: told(shape) });
        }
        Ok(Tube { handle, of: PhantomData })
    }

    fn in_use(handle: &Handle) -> Option<String> {
        let info = info(handle.map, handle.place)?;
        let (senders, receivers) = (info.senders.len(), info.receivers.len());
        let waiting = info.senders_waiting.len() + info.receivers_waiting.len();
        // A waiter is attached; or it was, and its process's watcher for descriptors has not yet heard that it left.
        if senders + receivers + info.messages == 0 {
            return None;
        }
        let first = info.senders.iter().chain(&info.receivers).next();
        let first = first.map_or_else(String::new, |who| format!(", first pid {} `{}`", who.pid, who.label));
        let (messages, ends) = (info.messages, format!("{senders} process(es) send, {receivers} receive{first}"));
        Some(format!("{messages} message(s) in it; {ends}; {waiting} waiting"))
    }

    fn unmake(handle: &Handle, admin: &Admin, force: bool) -> Result<(), TubeError> {
        let pipe = Pipe::of(handle.map, handle.place).filter(Mapped::is_live);
        let pipe = pipe.ok_or_else(|| TubeError::Dead { name: handle.name() })?;
        if !force {
            Self::close(handle)?;
        }
        pipe::made::unmake(handle.map, admin, &pipe);
        Ok(())
    }
}

impl<T: ?Sized> Tube<T> {
    /// The tube's name: `jobs`, or `lab/jobs` in another arena than `default`.
    pub fn name(&self) -> String {
        self.handle.name()
    }

    fn pipe(&self) -> Result<Mapped, TubeError> {
        let pipe = Pipe::of(self.handle.map, self.handle.place).filter(Mapped::is_live);
        pipe.ok_or_else(|| TubeError::Dead { name: self.name() })
    }

    /// The tube's state, put together from single looks while others go on.
    ///
    /// # Errors
    /// `Dead` if it was removed.
    pub fn info(&self) -> Result<TubeInfo, TubeError> {
        self.pipe()?;
        info(self.handle.map, self.handle.place).ok_or_else(|| TubeError::Dead { name: self.name() })
    }

    /// Lets no more senders attach. Those that are attached may go on, and what is in the tube is still received. When
    /// they have gone, receivers get `Disconnected`, also if there never was a sender. This cannot be undone.
    ///
    /// # Errors
    /// `Dead` if it was removed; `Object` if the arena cannot take another member.
    pub fn seal(&self) -> Result<(), TubeError> {
        // If this thread dies before it has told the waiters, recovery must see it.
        attachment(self.handle.map, |_| ())?;
        let admin = self.handle.map.admin();
        self.pipe()?.seal(&admin);
        Ok(())
    }

    /// Whether the tube was removed.
    pub fn is_dead(&self) -> bool {
        self.handle.is_dead()
    }
}

impl<T: Record + ?Sized> Tube<T> {
    /// Attaches a sender. The first sender of a process attaches the process; that starts a thread, once for each
    /// arena.
    ///
    /// # Errors
    /// `Single` if there may be only one, and there is; `Sealed`, `Dead`; `Object` if the arena cannot take another member.
    pub fn sender(&self) -> Result<Sender<T>, TubeError> {
        Sender::new(self.handle.map, self.handle.place)
    }

    /// Attaches a receiver. The first receiver of a process attaches the process; that starts a thread, once for each
    /// arena.
    ///
    /// # Errors
    /// `Single` if there may be only one, and there is; `Dead`; `Object` if the arena cannot take another member.
    pub fn receiver(&self) -> Result<Receiver<T>, TubeError> {
        Receiver::new(self.handle.map, self.handle.place)
    }
}

/// A type's size and alignment, as a tube has them; `None` for bytes.
fn plain<T: Record + ?Sized>() -> Result<Option<(u32, u32)>, TubeError> {
    let Some((size, align)) = T::__plain() else { return Ok(None) };
    if align > BLOCK {
        return Err(TubeError::Align { align: align as u64 });
    }
    match u32::try_from(size) {
        Ok(size) => Ok(Some((size, align as u32))),
        Err(_) => Err(TubeError::Capacity { what: "bytes in a message", count: size as u64, most: u32::MAX.into() }),
    }
}

impl<T: Record + ?Sized> Tube<T> {
    /// Opens a tube by name: `jobs`, or `lab/jobs` for one in arena `lab`.
    ///
    /// # Errors
    /// `OtherType` if its messages are no `T` (size, alignment, name without modules); `Object`: there is none, or it is something
    /// else.
    pub fn open(name: &str) -> Result<Tube<T>, TubeError> {
        Named::open(name)
    }

    /// Makes a tube by name, and its arena, with room for it, if need be.
    ///
    /// # Errors
    /// `Capacity`, `Align`; `Object`: there is one already, or the arena has no room.
    pub fn create(name: &str, options: &TubeOptions) -> Result<Tube<T>, TubeError> {
        Named::make(name, &Plan::of::<T>(options)?, false)
    }

    /// Opens a tube by name, or makes it.
    ///
    /// # Errors
    /// `OtherShape` if it is there and was made with other options; else as [`Tube::open`] and [`Tube::create`].
    pub fn open_or_create(name: &str, options: &TubeOptions) -> Result<Tube<T>, TubeError> {
        Named::make(name, &Plan::of::<T>(options)?, true)
    }
}

impl<T: Record + ?Sized> Tube<T> {
    /// Makes a tube by name whose records have these fields, in the text form of `chappe::synth::Schema`: `ts: u64, price: f64, sym:
    /// str[8]`. Of a tube of bytes the schema says how long each is. Without the feature `synth`, the text must be in canonical form.
    ///
    /// `chappe show` prints the fields, `chappe recv --format json` decodes by them. Also a tube of plain data with a schema can be opened as
    /// one of bytes.
    ///
    /// # Errors
    /// `Schema`: the text makes no sense, with the place, or is of another size than the data; else as [`Tube::create`].
    pub fn create_of(name: &str, options: &TubeOptions, schema: &str) -> Result<Tube<T>, TubeError> {
        Tube::described(name, options, schema, false)
    }

    /// Opens a tube by name, or makes it with these fields as [`Tube::create_of`] does.
    ///
    /// # Errors
    /// `OtherShape` if it is there and was made with other options or another schema; else as [`Tube::open`] and [`Tube::create_of`].
    pub fn open_or_create_of(name: &str, options: &TubeOptions, schema: &str) -> Result<Tube<T>, TubeError> {
        Tube::described(name, options, schema, true)
    }

    /// Opens a tube by name that has these fields.
    ///
    /// # Errors
    /// `OtherShape` if it has others, or none; `Schema`: the text makes no sense; else as [`Tube::open`].
    pub fn open_of(name: &str, schema: &str) -> Result<Tube<T>, TubeError> {
        let schema = Parsed::new(schema)?;
        let tube = Tube::open(name)?;
        schema.check(tube.name(), tube.schema()?)?;
        Ok(tube)
    }

    fn described(name: &str, options: &TubeOptions, schema: &str, or_open: bool) -> Result<Tube<T>, TubeError> {
        let schema = Parsed::new(schema)?;
        let mut plan = Plan::of::<T>(options)?;
        plan.schema = (schema.hash, &schema.text);
        match T::__plain() {
            None => plan.shape.size = schema.size,
            Some((size, _)) if size != schema.size as usize => {
                let what = format!("the records have {size} bytes, and by the schema {}", schema.size);
                return Err(TubeError::Schema { what });
            }
            Some(_) => {}
        }
        let tube: Tube<T> = Named::make(name, &plan, or_open)?;
        schema.check(tube.name(), tube.schema()?)?;
        Ok(tube)
    }

    /// The fields of its records, in canonical form, if it has a schema.
    ///
    /// # Errors
    /// `Dead` if it was removed.
    pub fn schema(&self) -> Result<Option<String>, TubeError> {
        Ok(self.pipe()?.schema())
    }
}

impl Tube<[u8]> {
    /// Makes a tube with a generated name, for a caller that keeps this handle.
    ///
    /// # Errors
    /// As [`Tube::create`].
    #[doc(hidden)]
    pub fn unnamed(arena: &Arena, options: &TubeOptions) -> Result<Tube<[u8]>, TubeError> {
        Named::unnamed(arena, &Plan::of::<[u8]>(options)?)
    }

    /// Removes this very tube, with its messages and its attached ends. False: it is not there any more. A thread that
    /// cannot be a member any more, since it ends, can call this too.
    #[doc(hidden)]
    pub fn destroy(&self) -> bool {
        let (map, place) = (self.handle.map, self.handle.place);
        let admin = map.admin();
        let pipe = Pipe::of(map, place).filter(Mapped::is_live);
        if let Some(pipe) = &pipe {
            pipe::made::unmake(map, &admin, pipe);
        }
        pipe.is_some()
    }

    /// A tube of records of which only a type name and a size are known.
    pub(crate) fn called(name: &str, had: Had, of: Called<'_>, options: &TubeOptions) -> Result<Tube<[u8]>, TubeError> {
        let (size, align) = (u32::try_from(of.size).unwrap_or(u32::MAX), u32::try_from(of.align).unwrap_or(u32::MAX));
        let (shape, exact) = (Shape { size, align, ..options.shape() }, had == Had::Either);
        let (plain, hash) = (Some((size, align)), chappe_arena::hash(of.name));
        Named::obtain(name, had, &Plan { shape, exact, plain, hash, called: of.name, schema: (0, "") })
    }

    /// Removes a tube by name, whatever it carries. A tube that has messages, or an attached end, is refused unless
    /// `force`: then the messages are lost, and its users get `Dead`.
    ///
    /// # Errors
    /// `Object`: there is none, it is in use, or something else.
    pub fn remove(name: &str, force: bool) -> Result<(), TubeError> {
        Named::<Tube<[u8]>>::remove(name, force)
    }
}
