//! The performance index of netbsd-restartable-sequences, section 4.3.

/// M = 100 (t_NI - t) / t_NI: by how much a mechanism that takes `t` improves on an interlocked instruction in a function of its
/// own. 0: by nothing; 100: it costs nothing; below 0: it is dearer.
pub fn index(not_inlined: f64, t: f64) -> f64 {
    100.0 * (not_inlined - t) / not_inlined
}

/// For people: a whole number, as in the paper's table 2.
pub fn show(index: f64) -> String {
    format!("{:.0}", index.round() + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_time_is_no_improvement_and_no_time_is_all_of_it() {
        assert_eq!(index(8.0, 8.0), 0.0);
        assert_eq!(index(8.0, 0.0), 100.0);
        assert_eq!(index(8.0, 2.0), 75.0);
        assert_eq!(index(8.0, 16.0), -100.0);
        assert_eq!([show(-0.2), show(74.6), show(-4999.6)], ["0", "75", "-5000"]);
    }
}
