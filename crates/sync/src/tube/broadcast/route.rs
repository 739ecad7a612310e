//! Which subscriptions want a message: what a publisher knows of their filters, and how a subscriber tests its own.
//!
//! All filters of a tube become one routine, a `Switchboard` of `chappe::synth`: the publisher asks it once for each message (Synthesis
//! 3.2.3). A thread beside the publisher reads the filters, and patches the routine, when a subscription comes, goes or changes;
//! until it has, the publisher sends that one everything, and the subscriber's own test decides. So no publisher waits for a
//! filter, and none is wrong for long or short.
//!
//! A filter is stored as text: the expression, and for each parameter a zero byte, its name, `=`, a letter for its
//! type, its value. A filter of another user (of a process that belongs to another user) is interpreted only, and the
//! number of its operations is bounded.

use super::heard::Test;
use super::subscribe::Subscribe;
use crate::tube::named::TubeError;
use chappe_structures::broadcast::place::{MOST_TEXT, Mask};
use chappe_tube::broadcast::cast::Mapped;

#[cfg(feature = "synth")]
pub(super) use with::{Own, Router};
#[cfg(not(feature = "synth"))]
pub(super) use without::{Own, Router};

/// A stored filter, for people.
pub(super) fn shown(text: &[u8]) -> String {
    let mut parts = text.split(|b| *b == 0).map(String::from_utf8_lossy);
    let mut shown = parts.next().unwrap_or_default().into_owned();
    for (at, part) in parts.enumerate() {
        let (name, value) = part.split_once('=').unwrap_or((&part, " "));
        shown += if at == 0 { " with $" } else { ", $" };
        shown += &format!("{name} = {}", value.get(1..).unwrap_or_default());
    }
    shown
}

/// The subscriptions, as a publisher saw them last.
#[derive(Default)]
struct View {
    changes: Option<u32>,
    live: Mask,
    /// Of each subscription: its owner and the version of its text.
    seen: Vec<Option<(u64, u32)>>,
}

impl View {
    /// Looks at them anew if something has changed; `tell` hears of each that is new, has changed or has gone.
    #[inline(always)]
    fn refresh(&mut self, cast: &Mapped, tell: impl FnMut(u32, Option<(u32, u32, Vec<u8>)>)) {
        let changes = cast.changes();
        if self.changes != Some(changes) {
            self.look(cast, changes, tell);
        }
    }

    #[cold]
    fn look(&mut self, cast: &Mapped, changes: u32, mut tell: impl FnMut(u32, Option<(u32, u32, Vec<u8>)>)) {
        self.seen.resize(cast.ring.shape().subscriptions as usize, None);
        let mut now: Vec<Option<u32>> = vec![None; self.seen.len()];
        cast.subscriptions().for_each(|(who, member)| now[who as usize] = Some(member));
        let mut whole = true;
        for (who, member) in (0..).zip(now) {
            let seen = &mut self.seen[who as usize];
            let bit = 1 << (who % 64);
            let live = &mut self.live[who as usize / 64];
            *live = if member.is_some() { *live | bit } else { *live & !bit };
            let text = member.map(|member| (member, cast.text(who)));
            match text {
                // Its owner is just writing it: it gets everything, and is looked at again.
                Some((_, None)) => {
                    whole = false;
                    *seen = None;
                    tell(who, None);
                }
                Some((member, Some((version, text)))) => {
                    let is = Some((u64::from(member), version));
                    if *seen != is {
                        *seen = is;
                        tell(who, Some((member, version, text)));
                    }
                }
                None => {
                    if seen.take().is_some() {
                        tell(who, None);
                    }
                }
            }
        }
        self.changes = whole.then_some(changes);
    }
}

/// Refuses a filter that is too long to be stored.
fn fits(text: &[u8]) -> Result<(), TubeError> {
    let (len, most) = (text.len(), MOST_TEXT);
    if len <= most {
        return Ok(());
    }
    Err(TubeError::Schema {
        what: format!("the filter and its parameters have {len} bytes; at most {most} are possible"),
    })
}

#[cfg(not(feature = "synth"))]
mod without {
    use super::{Mapped, Mask, Subscribe, Test, TubeError, View, fits};

    /// A subscriber's own test: there is none.
    pub(crate) struct Own;

    impl Own {
        pub fn new(_cast: &Mapped, how: &Subscribe) -> Result<Own, TubeError> {
            fits(how.filter.as_deref().unwrap_or_default().as_bytes())?;
            Ok(Own)
        }
        pub fn text(&self) -> &[u8] {
            &[]
        }
    }

    impl Test for Own {
        fn passes(&mut self, _record: &[u8]) -> bool {
            true
        }
    }

    /// Every subscription gets every message; a subscriber with a filter tests it.
    #[derive(Default)]
    pub(in super::super) struct Router(View);

    impl Router {
        #[inline(always)]
        pub fn wanted(&mut self, cast: &Mapped, _record: &[u8]) -> Mask {
            self.0.refresh(cast, |_, _| ());
            self.0.live
        }
    }
}

#[cfg(feature = "synth")]
mod with {
    use super::{MOST_TEXT, Mapped, Mask, Subscribe, Test, TubeError, View, fits};
    use crate::tube::schema::wrong;
    use chappe_plat::{dir, process, thread};
    use chappe_synth::{
        Bound, Evaluator, Live, Query, Schema, Subscription, Switchboard, SwitchboardReader, Trust, Value,
    };
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    fn encoded(filter: &str, params: &[(String, Value)]) -> Vec<u8> {
        let mut text = filter.as_bytes().to_vec();
        for (name, value) in params {
            text.push(0);
            text.extend(name.as_bytes());
            match value {
                Value::Int(n) => text.extend(format!("=i{n}").bytes()),
                Value::Uint(n) => text.extend(format!("=u{n}").bytes()),
                Value::Double(d) => text.extend(format!("=d{d:?}").bytes()),
                Value::Bool(b) => text.extend(format!("=b{b}").bytes()),
                Value::Text(t) => {
                    text.extend(b"=t");
                    text.extend(t);
                }
            }
        }
        text
    }

    /// The query that a stored filter is, with its parameters. None: it is none.
    fn decoded(schema: &Schema, text: &[u8]) -> Option<Bound> {
        let mut parts = text.split(|b| *b == 0);
        let query = Query::filter(schema, std::str::from_utf8(parts.next()?).ok()?).ok()?;
        let mut params = Vec::new();
        for part in parts {
            let at = part.iter().position(|b| *b == b'=')?;
            let (name, value) = (std::str::from_utf8(&part[..at]).ok()?, &part[at + 1..]);
            let (kind, value) = value.split_first()?;
            let number = || std::str::from_utf8(value).ok();
            params.push((
                name,
                match kind {
                    b'i' => Value::Int(number()?.parse().ok()?),
                    b'u' => Value::Uint(number()?.parse().ok()?),
                    b'd' => Value::Double(number()?.parse().ok()?),
                    b'b' => Value::Bool(value == b"true"),
                    _ => Value::Text(value.to_vec()),
                },
            ));
        }
        query.bind(&params).ok()
    }

    /// A subscriber's own test.
    pub(crate) struct Own {
        text: Vec<u8>,
        filter: Option<Filter>,
    }

    struct Filter {
        expression: String,
        params: Vec<(String, Value)>,
        live: Arc<Live>,
        evaluator: Evaluator,
        size: usize,
    }

    impl Own {
        pub fn new(cast: &Mapped, how: &Subscribe) -> Result<Own, TubeError> {
            let Some(expression) = &how.filter else { return Ok(Own { text: Vec::new(), filter: None }) };
            let name = crate::handle::shown(cast.map, cast.place);
            let none =
                || TubeError::Schema { what: format!("tube `{name}` has no schema that a filter could be over") };
            let schema =
                Schema::parse(&cast.schema().ok_or_else(none)?).map_err(wrong("the tube's schema is damaged"))?;
            let text = encoded(expression, &how.params);
            if text.len() != expression.len() && expression.contains('\0') {
                return Err(TubeError::Schema { what: "a filter has no zero bytes".into() });
            }
            let params: Vec<(&str, Value)> = how.params.iter().map(|(name, v)| (name.as_str(), v.clone())).collect();
            if params.iter().any(|(_, value)| matches!(value, Value::Text(t) if t.contains(&0))) {
                return Err(TubeError::Schema { what: "a parameter has no zero bytes".into() });
            }
            let live = Live::filter(&schema, expression, &params).map_err(wrong("the filter makes no sense"))?;
            fits(&text)?;
            let evaluator = live.evaluator();
            let (expression, params, size) = (expression.clone(), how.params.clone(), schema.size() as usize);
            Ok(Own { text, filter: Some(Filter { expression, params, live, evaluator, size }) })
        }

        pub fn text(&self) -> &[u8] {
            &self.text
        }

        /// Gives parameters other values; what then is to be stored.
        pub fn set(&mut self, params: &[(&str, Value)]) -> Result<&[u8], TubeError> {
            let none = || TubeError::Schema { what: "the subscription has no filter, and so no parameters".into() };
            let filter = self.filter.as_mut().ok_or_else(none)?;
            let mut all = filter.params.clone();
            for (name, value) in params {
                if matches!(value, Value::Text(t) if t.contains(&0)) {
                    return Err(TubeError::Schema { what: format!("parameter `{name}` has no zero bytes") });
                }
                match all.iter_mut().find(|(has, _)| has == name) {
                    Some((_, has)) => *has = value.clone(),
                    None => all.push(((*name).to_owned(), value.clone())),
                }
            }
            let text = encoded(&filter.expression, &all);
            fits(&text)?;
            let refs: Vec<(&str, Value)> = all.iter().map(|(name, v)| (name.as_str(), v.clone())).collect();
            filter.live.set(&refs).map_err(wrong("the parameters do not fit"))?;
            (filter.params, self.text) = (all, text);
            Ok(&self.text)
        }
    }

    impl Test for Own {
        #[inline]
        fn passes(&mut self, record: &[u8]) -> bool {
            match &mut self.filter {
                None => true,
                Some(filter) => record.len() >= filter.size && filter.evaluator.test(record),
            }
        }
    }

    /// What the thread beside a publisher is asked to do.
    enum Job {
        /// This subscription has this filter.
        Put(u32, u32, Trust, Vec<u8>),
        /// It has gone.
        Take(u32),
    }

    /// All filters of a tube as one routine.
    struct Routes {
        reader: SwitchboardReader,
        wanted: Vec<u64>,
        jobs: Sender<Job>,
        done: Receiver<(u32, u32)>,
        /// Jobs that are not done yet.
        open: usize,
    }

    /// What a publisher asks.
    #[derive(Default)]
    pub(in super::super) struct Router {
        view: View,
        /// Whose filters the routine has.
        routed: Mask,
        /// None: nobody has a filter yet, or there can be no routine.
        routes: Option<Routes>,
        refused: bool,
    }

    impl Router {
        /// The subscriptions that want a record.
        #[inline(always)]
        pub fn wanted(&mut self, cast: &Mapped, record: &[u8]) -> Mask {
            let Router { view, routed, routes, refused } = self;
            view.refresh(cast, |who, text| {
                routed[who as usize / 64] &= !(1 << (who % 64));
                ask(cast, routes, refused, who, text);
            });
            let mut wanted = view.live;
            if let Some(routes) = routes {
                if routes.open > 0 {
                    take_up(view, routed, routes);
                }
                if *routed != Mask::default() {
                    let said = routes.reader.route(record, &mut routes.wanted);
                    for (i, word) in wanted.iter_mut().enumerate() {
                        *word &= !routed[i] | said.get(i).copied().unwrap_or(0);
                    }
                }
            }
            wanted
        }
    }

    /// The filters that the thread has taken in meanwhile.
    #[cold]
    fn take_up(view: &View, routed: &mut Mask, routes: &mut Routes) {
        while let Ok((who, version)) = routes.done.try_recv() {
            routes.open -= 1;
            if view.seen[who as usize].is_some_and(|(_, now)| now == version) {
                routed[who as usize / 64] |= 1 << (who % 64);
            }
        }
    }

    /// Has the thread take in, or away, a filter.
    #[cold]
    fn ask(
        cast: &Mapped,
        routes: &mut Option<Routes>,
        refused: &mut bool,
        who: u32,
        text: Option<(u32, u32, Vec<u8>)>,
    ) {
        let text = text.filter(|(_, _, text)| !text.is_empty() && text.len() <= MOST_TEXT);
        if routes.is_none() && text.is_some() && !*refused {
            *routes = begin(cast);
            *refused = routes.is_none();
        }
        let Some(routes) = routes else { return };
        let job = match text {
            Some((member, version, text)) => {
                let pid = cast.map.who(member).pid;
                let owner = dir::owner_of(std::path::Path::new(&format!("/proc/{pid}")));
                let trust = if owner == Some(process::uid()) { Trust::Own } else { Trust::Foreign };
                routes.open += 1;
                Job::Put(who, version, trust, text)
            }
            None => Job::Take(who),
        };
        // A thread that has ended answers nothing: everybody gets everything.
        let _ = routes.jobs.send(job);
    }

    fn begin(cast: &Mapped) -> Option<Routes> {
        let schema = Schema::parse(&cast.schema()?).ok()?;
        let board = Switchboard::new(&schema);
        let (jobs, to_do) = channel::<Job>();
        let (did, done) = channel();
        let reader = board.reader();
        thread::background("chappe-router", move || {
            for job in to_do {
                match job {
                    Job::Put(who, version, trust, text) => {
                        let bound = decoded(&schema, &text);
                        let is_in = bound.is_some_and(|bound| board.put(Subscription(who), &bound, trust).is_ok());
                        // Of one that makes no sense, or is too large, nothing is known: an odd version is nobody's.
                        let _ = did.send((who, if is_in { version } else { u32::MAX }));
                    }
                    Job::Take(who) => _ = board.unsubscribe(Subscription(who)),
                }
            }
        })
        .ok()?;
        Some(Routes { reader, wanted: Vec::new(), jobs, done, open: 0 })
    }
}
