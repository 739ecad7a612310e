//! A few things side by side without asking for memory: the arms of a choice, the pools of `chappe_acquire_any`.

use crate::failure::Answer;
use std::mem::MaybeUninit;

/// How many lie on the stack. More are asked for.
const FEW: usize = 16;

/// Hands `then` the answers of `each` for 0 to n - 1, if all are good.
pub fn gathered<T: Copy, R>(
    n: usize,
    mut each: impl FnMut(usize) -> Answer<T>,
    then: impl FnOnce(&[T]) -> Answer<R>,
) -> Answer<R> {
    if n > FEW {
        let all = (0..n).map(each).collect::<Answer<Vec<T>>>()?;
        return then(&all);
    }
    let mut few = [const { MaybeUninit::uninit() }; FEW];
    for (at, one) in few.iter_mut().enumerate().take(n) {
        one.write(each(at)?);
    }
    // SAFETY: the first n were written just now.
    then(unsafe { std::slice::from_raw_parts(few.as_ptr().cast(), n) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    #[test]
    fn few_and_many_are_the_same() {
        for n in [0, 1, FEW, FEW + 1, 1000] {
            let sum = gathered(n, Ok, |all| Ok((all.len(), all.iter().sum::<usize>()))).map_err(|e| e.errno());
            assert_eq!(sum, Ok((n, n * n.saturating_sub(1) / 2)));
        }
        let second = |at| if at == 1 { Err(Failure::new(libc::EBADF, c"no")) } else { Ok(at) };
        assert_eq!(gathered(2, second, |_| Ok(())).map_err(|e| e.errno()), Err(libc::EBADF));
    }
}
