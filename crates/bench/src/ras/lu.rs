//! The LU decomposition of netbsd-restartable-sequences, section 5: row-parallel, its threads meet at one lock.
//!
//! For each column all threads take rows below the diagonal, a few at a time, from a counter that the lock guards, and make them zero in
//! that column; a thread that finds none left arrives at a barrier whose count the lock guards as well. So each thread takes the lock some
//! fourteen times a column: 14,000 times for a matrix of 1000 x 1000, as in the paper. What sleeps at the barrier sleeps on a futex,
//! whatever the lock is.
//!
//! No row is touched by two threads in one column, and the arithmetic of a row does not depend on the thread: the result is the serial one,
//! bit for bit, or the lock let two in at once.
//!
//! The guarded number: the next row to be taken in the low half, the number of arrived threads in the high one.

use crate::guarded::Guarded;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// A thread takes the rows of a column in about so many goes.
const GOES: usize = 12;

/// A square matrix, row after row.
pub struct Matrix {
    size: usize,
    cells: Vec<f64>,
}

impl Matrix {
    /// The same every time, with a diagonal that outweighs its row: no row has to be exchanged with another.
    pub fn example(size: usize) -> Matrix {
        let mut seed = 1u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f64 / f64::from(1 << 24)
        };
        let mut cells: Vec<f64> = (0..size * size).map(|_| next()).collect();
        (0..size).for_each(|i| cells[i * size + i] += size as f64);
        Matrix { size, cells }
    }

    /// By one thread, without a lock.
    pub fn decompose(&mut self) {
        let n = self.size;
        for k in 0..n {
            let (done, below) = self.cells.split_at_mut((k + 1) * n);
            below.chunks_exact_mut(n).for_each(|row| eliminate(k, &done[k * n..], row));
        }
    }
}

/// Makes the row zero in this column, and keeps the factor there.
fn eliminate(k: usize, pivot: &[f64], row: &mut [f64]) {
    let factor = row[k] / pivot[k];
    row[k] = factor;
    row[k + 1..].iter_mut().zip(&pivot[k + 1..]).for_each(|(cell, above)| *cell -= factor * above);
}

/// The matrix, while threads share it.
struct Shared<'m> {
    cells: &'m [UnsafeCell<f64>],
    size: usize,
}

// SAFETY: each row is changed only by the thread that took its number from the counter, and read as a pivot only in columns after the one
// in which it was last changed: a barrier is between.
unsafe impl Sync for Shared<'_> {}

impl Shared<'_> {
    fn row(&self, i: usize) -> *mut f64 {
        self.cells[i * self.size].get()
    }

    fn work(&self, lock: &impl Guarded, column: &AtomicU32, threads: usize) -> u64 {
        let (n, mut operations) = (self.size, 0);
        for k in 0..n {
            let below = n - k - 1;
            let some = below.div_ceil(GOES * threads);
            loop {
                operations += 1;
                let (from, to) = lock.with(|word| {
                    let next = *word as u32 as usize;
                    let to = (next + some).min(below);
                    *word += (to - next) as u64;
                    (next, to)
                });
                if from == to {
                    break;
                }
                for i in from..to {
                    // SAFETY: row k is not changed any more, and ours is another, which no other thread has taken in this column.
                    let (pivot, row) = unsafe {
                        let row = |i| self.row(i);
                        (std::slice::from_raw_parts(row(k), n), std::slice::from_raw_parts_mut(row(k + 1 + i), n))
                    };
                    eliminate(k, pivot, row);
                }
            }
            operations += 1;
            let last = lock.with(|word| {
                let arrived = (*word >> 32) as usize + 1;
                *word = if arrived == threads { 0 } else { ((arrived as u64) << 32) | u64::from(*word as u32) };
                arrived == threads
            });
            let now = k as u32;
            if last {
                // Release: all rows of this column, which were passed on through the lock, to a thread that sees the next one.
                column.store(now + 1, Ordering::Release);
                wake_all(column);
            }
            // Acquire: pairs with the store above.
            while column.load(Ordering::Acquire) == now {
                crate::raw::wait(column, now, crate::raw::Scope::Private);
            }
        }
        operations
    }
}

fn wake_all(word: &AtomicU32) {
    let call = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address as a key only.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), call, i32::MAX) };
}

/// How long it took, and how often a thread took the lock.
pub struct Outcome {
    /// Nanoseconds, from before the first thread starts until the last has ended.
    pub ns: f64,
    /// Operations of the lock, over the number of threads.
    pub operations: f64,
}

/// The matrix, and what must come of it.
pub struct Problem {
    given: Matrix,
    solved: Matrix,
}

impl Problem {
    /// Of this size.
    pub fn new(size: usize) -> Problem {
        let (given, mut solved) = (Matrix::example(size), Matrix::example(size));
        solved.decompose();
        Problem { given, solved }
    }

    /// By so many threads, whose counter and barrier this lock guards. Its number must be zero, and is again.
    ///
    /// # Panics
    /// When the result is wrong: the lock let two in at once.
    pub fn solve(&self, lock: &impl Guarded, threads: usize) -> Outcome {
        let size = self.given.size;
        let mut cells = self.given.cells.clone();
        let (column, operations) = (AtomicU32::new(0), AtomicU64::new(0));
        let began = Instant::now();
        {
            // SAFETY: a cell is laid out as what it holds, and no other thread has these while the slice lives.
            let shared = unsafe { &*(&raw mut cells[..] as *const [UnsafeCell<f64>]) };
            let shared = Shared { cells: shared, size };
            std::thread::scope(|s| {
                for _ in 0..threads {
                    let thread = std::thread::Builder::new().stack_size(64 << 10);
                    let work = || {
                        let done = shared.work(lock, &column, threads);
                        // Relaxed: read after all have ended.
                        operations.fetch_add(done, Ordering::Relaxed);
                    };
                    thread.spawn_scoped(s, work).expect("a thread");
                }
            });
        }
        let ns = began.elapsed().as_nanos() as f64;
        assert!(cells == self.solved.cells, "two were in at once: not what one thread finds");
        Outcome { ns, operations: operations.into_inner() as f64 / threads as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factors_multiplied_are_the_matrix() {
        let n = 30;
        let (given, mut solved) = (Matrix::example(n), Matrix::example(n));
        solved.decompose();
        let cell = |i: usize, j: usize| solved.cells[i * n + j];
        for i in 0..n {
            for j in 0..n {
                let below = |k: usize| if k == i { 1.0 } else { cell(i, k) };
                let product: f64 = (0..=i.min(j)).map(|k| below(k) * cell(k, j)).sum();
                assert!((product - given.cells[i * n + j]).abs() < 1e-9, "{i} {j}");
            }
        }
    }

    #[test]
    fn any_number_of_threads_finds_what_one_finds_and_asks_the_lock_each_time() {
        let (problem, lock) = (Problem::new(40), std::sync::Mutex::new(0));
        for threads in [1, 2, 7] {
            let outcome = problem.solve(&lock, threads);
            // Each finds none left, and arrives, in each column; and one thread takes each row.
            assert!(outcome.operations >= 80.0 && outcome.ns > 0.0, "{threads}: {}", outcome.operations);
        }
        assert_eq!(*lock.lock().unwrap(), 0);
    }
}
