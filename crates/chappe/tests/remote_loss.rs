//! The loss of what is held on an engine, beside other arms of a choice.

use chappe::remote::engine::{Change, Keys};
use chappe::remote::life::Life;
use chappe::remote::pulse::{Pulse, now};
use chappe::{Semaphore, select};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_lost_permit_ends_a_choice_with_semaphores() {
    let pulse = Arc::new(Pulse::new(Life::new(now(), Duration::from_secs(3600))));
    let (held, sem) = (pulse.holds(vec![Keys::One("held".into())], 5).unwrap(), Semaphore::private(1).unwrap());
    let hold = &*held;
    let lost = || {
        select! {
            down(sem) -> said => { said.unwrap(); false }
            readable(hold) -> said => { said.unwrap(); true }
        }
    };
    assert!(!lost(), "it is held, and the semaphore has a unit");
    let thief = Arc::clone(&held);
    let takes = std::thread::spawn(move || thief.changed(&[Change::Deleted { key: "held".into(), at: 6 }]));
    assert!(lost(), "it waits until the loss is told");
    assert!(takes.join().unwrap());
}
