//! What a choice has taken at an end of a named tube, and how it is completed: sent, received, or read in place.

use super::ends::{Receiver, Sender, as_unwritten, number};
use super::error::{NotReceived, NotSent};
use super::fault::{Fault, fits, not_received, not_sent};
use super::message::Record;
use super::place::Loan;
use chappe_tube::named::arms::{Not, borrowed, give_up, recv_taken, reserved, send_taken};
use chappe_wait::attachment::attachment;
use chappe_wait::attachment::party;
use chappe_wait::operation::Taken;
use chappe_wait::patience::Until;

impl<T: Record + ?Sized> Sender<T> {
    /// Sends the message by what a choice has taken.
    pub(crate) fn finish(&self, taken: Taken, message: T::Owned) -> Result<(), T::Owned> {
        let (pipe, record) = (&self.out.0, T::__bytes(&message));
        let sent = attachment(pipe.map, |attachment| {
            let me = number(&party(attachment));
            if record.len() <= pipe.ring.size() as usize {
                return send_taken(pipe, me, taken, record);
            }
            give_up(pipe, reserved(taken, me)?);
            Err(Not::Lost)
        });
        match sent {
            Ok(Ok(())) => Ok(()),
            // Its slot was passed over while the caller was elsewhere, and others have filled all there are.
            Ok(Err(Not::Now)) => self.put(record, Until::Forever, || ()).map_err(|_| message),
            _ => Err(message),
        }
    }
}

impl<T: Record + ?Sized> Receiver<T> {
    /// Receives the message that a choice has taken.
    pub(crate) fn finish(&self, taken: Taken) -> Option<(T::Owned, bool)> {
        let (pipe, mut again) = (&self.into.0, false);
        let message = T::__owned(pipe.ring.size() as usize, |bytes| {
            let received = recv_taken(pipe, taken, as_unwritten(bytes)).ok()?;
            again = received.again;
            Some(received.len as usize)
        })?;
        Some((message, again))
    }

    /// The same, in place.
    pub(crate) fn lend(&self, taken: Taken) -> Option<Loan<'_, T>> {
        let pipe = &self.into.0;
        Some(Loan::new(pipe, borrowed(pipe, taken).ok()?))
    }
}

impl Sender<[u8]> {
    /// Sends the record by what a choice has taken; `None`: the tube is dead.
    pub(crate) fn finish_record(&self, taken: Option<Taken>, record: &[u8]) -> Result<(), NotSent> {
        let pipe = &self.out.0;
        let failed = |why| Err(not_sent(pipe, why, Until::Forever, ()));
        let Some(taken) = taken else { return failed(Not::Dead.into()) };
        let fits = fits(pipe, record.len());
        let sent = attachment(pipe.map, |attachment| {
            let me = number(&party(attachment));
            if fits.is_ok() {
                return Ok(send_taken(pipe, me, taken, record));
            }
            give_up(pipe, reserved(taken, me)?);
            Err(Not::Lost)
        });
        match sent {
            Ok(Ok(Ok(()))) => Ok(()),
            // Its slot was passed over while the caller was elsewhere, and others have filled all there are.
            Ok(Ok(Err(Not::Now))) => self.put(record, Until::Forever, || ()),
            Ok(Ok(Err(why))) => failed(why.into()),
            Ok(Err(why)) => fits.and_then(|()| failed(why.into())),
            Err(e) => failed(Fault::Arena(e)),
        }
    }
}

impl Receiver<[u8]> {
    /// Receives the record that a choice has taken; `None`: the tube is dead.
    pub(crate) fn finish_into(&self, taken: Option<Taken>, buffer: &mut [u8]) -> Result<(usize, bool), NotReceived> {
        let pipe = &self.into.0;
        let received = taken.ok_or(Not::Dead).and_then(|taken| recv_taken(pipe, taken, as_unwritten(buffer)));
        received
            .map(|r| (r.len as usize, r.again))
            .map_err(|why| not_received(&self.into.at, why.into(), Until::Forever))
    }

    /// The same, in place.
    pub(crate) fn finish_loan(&self, taken: Option<Taken>) -> Result<Loan<'_, [u8]>, NotReceived> {
        let pipe = &self.into.0;
        let lent = taken.ok_or(Not::Dead).and_then(|taken| borrowed(pipe, taken));
        lent.map(|it| Loan::new(pipe, it)).map_err(|why| not_received(&self.into.at, why.into(), Until::Forever))
    }
}
