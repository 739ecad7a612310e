//! What the tables ask of a channel between threads, and the peers that do it.
//!
//! A kind of channel is a type without a value: it makes a channel, sends and receives. The ends are what the library
//! has, borrowed for change, since some of them may be used by one thread only.

use bytemuck::Pod;
use std::hint::{black_box, spin_loop};

/// What is sent: a number, in so many bytes.
pub trait Message: Pod + Send {
    /// For titles.
    const NAME: &'static str;
    /// With this number.
    fn of(number: u64) -> Self;
    /// Its number; all of it has been read.
    fn number(self) -> u64;
}

impl Message for u64 {
    const NAME: &'static str = "u64";
    #[inline(always)]
    fn of(number: u64) -> u64 {
        number
    }
    #[inline(always)]
    fn number(self) -> u64 {
        black_box(self)
    }
}

impl Message for [u64; 8] {
    const NAME: &'static str = "64 bytes";
    #[inline(always)]
    fn of(number: u64) -> [u64; 8] {
        [number; 8]
    }
    #[inline(always)]
    fn number(self) -> u64 {
        black_box(&self)[0]
    }
}

/// A kind of channel.
pub trait Channel: 'static {
    /// Of its rows.
    const NAME: &'static str;
    /// The end that sends.
    type Sender<T: Message>: Send;
    /// The end that receives.
    type Receiver<T: Message>: Send;
    /// One with room for so many messages.
    fn make<T: Message>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>);
    /// Sends; waits while it is full.
    fn send<T: Message>(to: &mut Self::Sender<T>, message: T);
    /// Receives; waits while it is empty.
    fn recv<T: Message>(from: &mut Self::Receiver<T>) -> T;
}

/// A kind whose ends wait by themselves, with methods `send` and `recv` that answer with a `Result`.
macro_rules! channel {
    (
        $(#[$doc:meta])* $kind:ident, $name:literal,
        $($make:ident)::+, $($sender:ident)::+, $($receiver:ident)::+
    ) => {
        $(#[$doc])*
        pub struct $kind;

        impl $crate::tube::channel::Channel for $kind {
            const NAME: &'static str = $name;
            type Sender<T: $crate::tube::channel::Message> = $($sender)::+<T>;
            type Receiver<T: $crate::tube::channel::Message> = $($receiver)::+<T>;
            fn make<T: $crate::tube::channel::Message>(capacity: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
                $($make)::+(capacity)
            }
            #[inline(always)]
            fn send<T: $crate::tube::channel::Message>(to: &mut Self::Sender<T>, message: T) {
                assert!(to.send(message).is_ok(), "the receiver is there");
            }
            #[inline(always)]
            fn recv<T: $crate::tube::channel::Message>(from: &mut Self::Receiver<T>) -> T {
                from.recv().expect("the sender is there")
            }
        }
    };
}
pub(crate) use channel;

channel!(
    /// crossbeam-channel's.
    Crossbeam, "crossbeam", crossbeam_channel::bounded, crossbeam_channel::Sender, crossbeam_channel::Receiver
);
channel!(
    /// flume's.
    Flume, "flume", flume::bounded, flume::Sender, flume::Receiver
);
channel!(
    /// kanal's.
    Kanal, "kanal", kanal::bounded, kanal::Sender, kanal::Receiver
);
channel!(
    /// Rust's own: one receiver.
    Std, "std::sync::mpsc", std::sync::mpsc::sync_channel, std::sync::mpsc::SyncSender, std::sync::mpsc::Receiver
);

/// rtrb's ring: one sender, one receiver, which cannot wait and so ask again and again.
pub struct Rtrb;

impl Channel for Rtrb {
    const NAME: &'static str = "rtrb, spinning";
    type Sender<T: Message> = rtrb::Producer<T>;
    type Receiver<T: Message> = rtrb::Consumer<T>;
    fn make<T: Message>(capacity: usize) -> (rtrb::Producer<T>, rtrb::Consumer<T>) {
        rtrb::RingBuffer::new(capacity)
    }
    #[inline(always)]
    fn send<T: Message>(to: &mut rtrb::Producer<T>, mut message: T) {
        while let Err(rtrb::PushError::Full(back)) = to.push(message) {
            message = back;
            spin_loop();
        }
    }
    #[inline(always)]
    fn recv<T: Message>(from: &mut rtrb::Consumer<T>) -> T {
        loop {
            match from.pop() {
                Ok(message) => return message,
                Err(rtrb::PopError::Empty) => spin_loop(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tube::ours;

    fn in_order<C: Channel, T: Message>() {
        let (mut to, mut from) = C::make::<T>(2);
        std::thread::scope(|s| {
            s.spawn(|| (0..1000).for_each(|n| C::send(&mut to, T::of(n))));
            (0..1000).for_each(|n| assert_eq!(C::recv(&mut from).number(), n, "{}", C::NAME));
        });
    }

    #[test]
    fn every_kind_delivers_all_in_order() {
        fn both<C: Channel>() {
            in_order::<C, u64>();
            in_order::<C, [u64; 8]>();
        }
        both::<Crossbeam>();
        both::<Flume>();
        both::<Kanal>();
        both::<Std>();
        both::<Rtrb>();
        both::<ours::Spsc>();
        both::<ours::Mpsc>();
        both::<ours::Mpmc>();
    }
}
