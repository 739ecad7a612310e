//! Which engines are safe: those that do not end leases which are being renewed.
//!
//! Until 3.4.30 and 3.5.12 an old leader whose disk was slow could end leases after a new one had renewed them: holders lose their permits
//! while their deadlines have not passed.

/// Checks an engine's version.
///
/// # Errors
/// Which one is needed, and why.
pub fn check(version: &str) -> Result<(), String> {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor)), patch) = (parts.next(), parts.next(), parts.next().flatten()) else {
        return Err(format!("the engine says that its version is `{version}`, which is none of etcd's"));
    };
    let is_safe = match (major, minor) {
        (3, 4) => patch >= Some(31),
        (3, 5) => patch >= Some(13),
        (3, 0..=3) | (0..=2, _) => false,
        _ => true,
    };
    if is_safe {
        return Ok(());
    }
    Err(format!(
        "etcd {version} ends leases that are being renewed when its leader's disk is slow: two jobs would run under one permit. It must be \
         3.6 or newer, 3.5 from 3.5.13 on, or 3.4 from 3.4.31 on; --allow-old-engine uses it all the same"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_that_end_living_leases_are_refused() {
        for version in ["3.4.31", "3.5.13", "3.5.21", "3.6.0", "3.7.3", "3.8.0-alpha.0", "4.0.0"] {
            assert_eq!(check(version), Ok(()), "{version}");
        }
        for version in ["3.4.23", "3.4.30", "3.5.12", "3.3.99", "2.3.8", "3.4", "", "x"] {
            assert!(check(version).is_err(), "{version}");
        }
    }
}
