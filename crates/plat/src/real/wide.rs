//! The widest vector instructions that this processor has, for loops over blocks of numbers.
//!
//! What is built runs on every processor of its architecture, and so has the narrowest vectors; [`wide`] compiles one loop a second time, for
//! those of 256 bits, and looks once a call which may run. The results are the same bit for bit: no operation is fused or reordered.

/// Runs this with wide vectors where there are some: a closure around a loop, which is compiled for both.
#[inline(always)]
pub fn wide<R>(run: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these instructions.
        return unsafe { with_avx2(run) };
    }
    run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R>(run: impl FnOnce() -> R) -> R {
    run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_gives_the_same_with_wide_vectors_to_the_bit() {
        let numbers: Vec<f32> = (0..1003).map(|i| (i as f32).sin() * 1e3).collect();
        let (mut one, mut other) = (numbers.clone(), numbers);
        let work = |all: &mut [f32]| all.iter_mut().for_each(|x| *x = *x * 1.1 + 0.25);
        work(&mut one);
        wide(|| work(&mut other));
        assert!(one.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
