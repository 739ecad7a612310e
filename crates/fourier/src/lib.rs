//! The Fourier transform of real samples, for the stages of `chappe-stream`.
//!
//! A crate of its own because the library behind it is generic: a crate that names its types compiles all of its algorithms, for each
//! instruction set, which takes twice as long as all the rest of `chappe-stream`. Here that happens once, and no change of a stage
//! or of a test repeats it. The tests are those of the stages.

use realfft::{FftError, RealFftPlanner, RealToComplex};
use std::sync::Arc;

/// The plan of a transform of one size. Two may share it; it does not block.
#[derive(Clone)]
pub struct Fourier {
    plan: Arc<dyn RealToComplex<f32>>,
}

impl Fourier {
    /// Plans a transform of `size` samples.
    pub fn new(size: usize) -> Fourier {
        Fourier { plan: RealFftPlanner::<f32>::new().plan_fft_forward(size) }
    }

    /// The magnitudes of `size / 2 + 1` frequencies, from 0 to half of the rate, not scaled. The samples are overwritten.
    ///
    /// # Errors
    /// There are more or fewer samples than planned.
    pub fn magnitudes(&self, samples: &mut [f32]) -> Result<Vec<f32>, FftError> {
        let mut bins = self.plan.make_output_vec();
        self.plan.process(samples, &mut bins)?;
        Ok(bins.iter().map(|bin| bin.norm()).collect())
    }
}
