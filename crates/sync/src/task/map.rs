//! Tasks that wait for a map to change.

use super::hear::Hear;
use super::wait::Failed;
use crate::map::{Datum, Event, MapError, Watch};
use chappe_wait::operation::Refused;

impl<K: Datum + ?Sized, V: Datum + ?Sized> Watch<'_, K, V> {
    /// As [`Watch::next`], for a task: waits until something has changed since the last look, without blocking the thread that polls.
    ///
    /// Every waiter is notified of each change. A future that is dropped has looked at nothing: the next one answers what has changed since the last
    /// answer. In a forked child, a future that it inherited is refused.
    ///
    /// # Errors
    /// `Dead`; `Inherited`; `Object` if the arena has no place for the task.
    pub async fn next_async(&mut self) -> Result<Vec<Event>, MapError> {
        loop {
            let events = self.changes()?;
            if !events.is_empty() {
                return Ok(events);
            }
            // I4 of the atlas: the map may have changed before the bit was set.
            match Hear::new(self.site(), &*self, Watch::look_again).await {
                Ok(()) => {}
                Err(Failed::Arena(e)) => return Err(e.into()),
                Err(Failed::Refused(Refused::Inherited(_))) => return Err(MapError::Inherited { name: self.name() }),
                // The next look says so.
                Err(Failed::Refused(_)) => {}
            }
        }
    }
}
