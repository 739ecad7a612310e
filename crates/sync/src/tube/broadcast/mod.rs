//! Broadcast tubes: each subscriber gets each message that it wants, between processes or threads.
//!
//! ```no_run
//! use chappe_sync::tube::broadcast::{Broadcast, BroadcastOptions, Slow, Subscribe};
//! let ticks = Broadcast::<[u64; 2]>::open_or_create("ticks", &BroadcastOptions::default())?;
//! let publisher = ticks.publisher()?;
//! // In another process, or another thread:
//! let subscription = Broadcast::<[u64; 2]>::open("ticks")?.subscribe(Subscribe::to_all().slow(Slow::DropOldest))?;
//! publisher.send([1, 2])?;
//! assert_eq!(subscription.recv()?, [1, 2]);
//! println!("{} lost", subscription.lost());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A message is copied once, however many get it, and it is sent to all or, if its publisher is killed before that, to nobody. All
//! subscriptions see all messages in one order. A subscription sees every message whose `send` begins after
//! [`subscribe`](Broadcast::subscribe) has returned.
//!
//! What becomes of messages for which a subscriber is too slow is its own choice ([`Slow`]): publishers wait for it; or it loses
//! the oldest that it has not received; or, once it has so many, the newest. What it loses is counted
//! ([`Subscription::lost`]). It goes when its handle is dropped, and when its process dies, at whatever instruction: then nobody waits
//! for it any more.
//!
//! A tube with a schema takes filters ([`Subscribe::filter`], feature `synth`): `price > $limit && sym == 'X'`. The
//! publisher evaluates all filters at once, before anything else. A subscriber that does not want a message is not
//! woken, and the message takes none of its room; a message that no subscriber wants is not even copied. Filters of
//! other users are interpreted, with a bound. A subscriber also tests each message that it gets: so a publisher that
//! does not know its filter yet costs time, but no wrong message gets through.
//!
//! When all publishers have gone, or died, a subscriber receives the messages that are there and then `Disconnected`.
//! If a publisher that was there since it subscribed died, or broke off, it gets `SenderDied` first, once. Before the
//! first publisher has come, it waits. A message that is sent while there is no subscription is lost.
//!
//! Paper: synthesis, 3.2.3 and 5.2; nix-semaphores-tubes, 3.

pub(crate) mod heard;

#[cfg(not(feature = "sim"))]
mod ends;
#[cfg(not(feature = "sim"))]
mod made;
#[cfg(not(feature = "sim"))]
mod route;
#[cfg(not(feature = "sim"))]
mod subscribe;

#[cfg(not(feature = "sim"))]
pub use self::{
    ends::{Publisher, Subscription},
    made::{Broadcast, BroadcastInfo, BroadcastOptions, BroadcastSubscriber},
    subscribe::{Slow, Subscribe},
};
#[cfg(not(feature = "sim"))]
pub(crate) use made::info;
