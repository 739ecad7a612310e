//! What the tables ask of a choice among channels, and the peers that have one.
//!
//! crossbeam has two: `Select` is set up once and chooses again and again; `select!` is written where it is made, here
//! with four arms. flume's `Selector` is used up by each choice.

use crate::tube::channel::{Channel, Crossbeam, Flume};

/// The receivers of a kind of choice.
pub type Receiver<C> = <<C as Choice>::Channel as Channel>::Receiver<u64>;

/// A kind of choice.
pub trait Choice: 'static {
    /// Of its rows.
    const NAME: &'static str;
    /// Over channels of this kind.
    type Channel: Channel;
    /// Set up.
    type Chooser<'a>;
    /// Sets it up, over these.
    fn over(receivers: &[Receiver<Self>]) -> Self::Chooser<'_>;
    /// Waits for a message of any of them: which, and the message.
    fn choose(chooser: &mut Self::Chooser<'_>) -> (usize, u64);
}

/// What chooses as crossbeam does.
macro_rules! choice {
    (
        $(#[$doc:meta])* $kind:ident, $name:literal,
        $(#[$doc_in_place:meta])* $in_place:ident, $name_in_place:literal, $channel:ident, $module:ident
    ) => {
        $(#[$doc])*
        pub struct $kind;

        impl $crate::tube::chooser::Choice for $kind {
            const NAME: &'static str = $name;
            type Channel = $channel;
            type Chooser<'a> = ($module::Select<'a>, &'a [$module::Receiver<u64>]);
            fn over(receivers: &[$module::Receiver<u64>]) -> Self::Chooser<'_> {
                let mut select = $module::Select::new();
                receivers.iter().for_each(|r| {
                    select.recv(r);
                });
                (select, receivers)
            }
            #[inline]
            fn choose((select, receivers): &mut Self::Chooser<'_>) -> (usize, u64) {
                let chosen = select.select();
                let arm = chosen.index();
                (arm, chosen.recv(&receivers[arm]).expect("the sender is there"))
            }
        }

        $(#[$doc_in_place])*
        pub struct $in_place;

        impl $crate::tube::chooser::Choice for $in_place {
            const NAME: &'static str = $name_in_place;
            type Channel = $channel;
            type Chooser<'a> = &'a [$module::Receiver<u64>; 4];
            fn over(receivers: &[$module::Receiver<u64>]) -> Self::Chooser<'_> {
                receivers.try_into().expect("it has four arms")
            }
            #[inline]
            fn choose(chooser: &mut Self::Chooser<'_>) -> (usize, u64) {
                let [a, b, c, d] = *chooser;
                let (arm, message) = $module::select! {
                    recv(a) -> message => (0, message),
                    recv(b) -> message => (1, message),
                    recv(c) -> message => (2, message),
                    recv(d) -> message => (3, message),
                };
                (arm, message.expect("the sender is there"))
            }
        }
    };
}
pub(crate) use choice;

choice!(
    /// crossbeam's, set up once.
    CrossbeamSelect, "crossbeam, Select",
    /// crossbeam's, written where it is made.
    CrossbeamInPlace, "crossbeam, select!", Crossbeam, crossbeam_channel
);

/// flume's: made anew for each choice.
pub struct FlumeSelector;

impl Choice for FlumeSelector {
    const NAME: &'static str = "flume, Selector";
    type Channel = Flume;
    type Chooser<'a> = &'a [flume::Receiver<u64>];
    fn over(receivers: &[flume::Receiver<u64>]) -> &[flume::Receiver<u64>] {
        receivers
    }
    #[inline]
    fn choose(chooser: &mut &[flume::Receiver<u64>]) -> (usize, u64) {
        let mut selector = flume::Selector::new();
        for (arm, receiver) in chooser.iter().enumerate() {
            selector = selector.recv(receiver, move |message| (arm, message.expect("the sender is there")));
        }
        selector.wait()
    }
}
