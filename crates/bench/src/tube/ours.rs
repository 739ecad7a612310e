//! Tubes as the tables between threads use them.

use crate::tube::channel::channel;
use crate::tube::chooser::choice;

use chappe::tube;

channel!(
    /// One sender, one receiver.
    Spsc, "tube, spsc", tube::spsc, tube::SingleSender, tube::SingleReceiver
);
channel!(
    /// Many senders, one receiver.
    Mpsc, "tube, mpsc", tube::mpsc, tube::Sender, tube::SingleReceiver
);
channel!(
    /// Many senders, many receivers: what `bounded` makes.
    Mpmc, "tube, mpmc", tube::bounded, tube::Sender, tube::Receiver
);
choice!(
    /// A choice that is set up once.
    Choice, "tube, Select",
    /// A choice written where it is made.
    ChoiceInPlace, "tube, select!", Mpmc, tube
);
