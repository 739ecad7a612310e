//! Where a stream ends, to receivers that have come before its senders.

use super::error::TubeError;
use super::made::Tube;

/// Says to a receiver that found nothing and no sender whether one may come yet.
///
/// A tube outlives its users: one that is empty and has no sender may have had one long ago. The stream that a receiver waits for is that of the
/// senders that are there at [`Awaited::new`], or come later, and has ended when all of them have gone, whether they have sent anything or not.
#[derive(Debug)]
pub struct Awaited {
    /// Of each tube: how many times one had come that had gone before the begin, and how many times one had come at the last look.
    came: Vec<(u32, u32)>,
}

impl Awaited {
    /// Of these tubes, before a receiver is attached. Does not wait.
    ///
    /// # Errors
    /// As [`Tube::info`].
    pub fn new<T: ?Sized>(tubes: &[Tube<T>]) -> Result<Awaited, TubeError> {
        let now = |tube: &Tube<T>| {
            let info = tube.info()?;
            Ok((info.senders_came.wrapping_sub(info.senders.len() as u32), info.senders_came))
        };
        Ok(Awaited { came: tubes.iter().map(now).collect::<Result<_, TubeError>>()? })
    }

    /// To be asked when no message was there and no sender: true: look again after a while. Does not wait.
    ///
    /// # Errors
    /// As [`Tube::info`].
    pub fn may_come<T: ?Sized>(&mut self, tubes: &[Tube<T>]) -> Result<bool, TubeError> {
        let (mut news, mut some, mut open) = (false, false, false);
        for (tube, (first, seen)) in tubes.iter().zip(&mut self.came) {
            let info = tube.info()?;
            // One that came behind the look that found none may have sent.
            news |= std::mem::replace(seen, info.senders_came) != info.senders_came;
            some |= info.senders_came != *first;
            open |= !info.sealed;
        }
        Ok(news || (open && !some))
    }
}
