//! The machine's clock, which windows by the clock go by.

use std::time::SystemTime;

/// Nanoseconds since 1970, as [`Windows::add`](chappe_synth::Windows::add) takes them.
pub fn clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
