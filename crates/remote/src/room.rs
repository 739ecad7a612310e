//! How full an engine may be: what is sent stands in its history until that is compacted, and an engine without room does nothing for locks either.

/// How full a database may be before nothing more is sent, in percent of its quota.
const FULL: u64 = 80;
/// The quota of a member that does not say it.
const USUAL_QUOTA: u64 = 2 << 30;
/// How many bytes are sent between two looks.
pub const LOOK_EACH: usize = 8 << 20;
/// What its administrator can do.
pub const ADVICE: &str =
    "compact it, defragment each member, then disarm the alarm; --auto-compaction-retention does the first";

/// How full, if a database of so many bytes and this quota (0: not said) is nearly so.
pub fn nearly_full((bytes, quota): (u64, u64)) -> Option<String> {
    let quota = if quota == 0 { USUAL_QUOTA } else { quota };
    (bytes.saturating_mul(100) / quota >= FULL).then(|| format!("its database has {bytes} of {quota} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_nearly_full_at_four_fifths_of_what_it_may_have() {
        assert_eq!((nearly_full((79, 100)), nearly_full((0, 0))), (None, None));
        assert_eq!(nearly_full((80, 100)).unwrap(), "its database has 80 of 100 bytes");
        assert!(nearly_full((USUAL_QUOTA, 0)).is_some());
    }
}
