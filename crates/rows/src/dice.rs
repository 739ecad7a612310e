//! Numbers for tests, the same in each run.

/// Gives numbers below what it is asked for.
pub fn dice() -> impl FnMut(u64) -> u64 {
    let mut seed = 1u64;
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    }
}
