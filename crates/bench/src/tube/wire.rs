//! What the tables ask of a way for records from one process to another, and the kernel's own that do it.
//!
//! A way is made before the fork; each side then takes its end. A record has the length that both sides know.

use std::ffi::CString;
use std::io;

/// A way from one process to another.
pub trait Wire: Sync {
    /// The end that sends, in the process and thread that does: a function that sends a record.
    fn sender(&self) -> impl FnMut(&[u8]);
    /// The end that receives: a function that waits for a record and puts it here.
    fn receiver(&self) -> impl FnMut(&mut [u8]);
}

fn whole(done: isize, record: &[u8], what: &str) {
    assert_eq!(done, record.len() as isize, "{what}: {}", io::Error::last_os_error());
}

/// A pair of descriptors, for reading and for writing.
struct Ends([i32; 2]);

impl Drop for Ends {
    fn drop(&mut self) {
        // SAFETY: both are ours, and open.
        self.0.iter().for_each(|fd| unsafe {
            libc::close(*fd);
        });
    }
}

/// A pipe, as large as it is made.
pub struct Pipe(Ends);

impl Pipe {
    /// Makes one.
    ///
    /// # Panics
    /// When the system refuses.
    #[expect(clippy::new_without_default, reason = "it takes descriptors")]
    pub fn new() -> Pipe {
        let mut ends = [0; 2];
        // SAFETY: there is room for two.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0, "{}", io::Error::last_os_error());
        Pipe(Ends(ends))
    }
}

impl Wire for Pipe {
    fn sender(&self) -> impl FnMut(&[u8]) {
        |record| {
            // SAFETY: the record is valid for its length. A pipe that blocks takes all of it.
            let done = unsafe { libc::write(self.0.0[1], record.as_ptr().cast(), record.len()) };
            whole(done, record, "write");
        }
    }
    fn receiver(&self) -> impl FnMut(&mut [u8]) {
        |record| {
            let mut got = 0;
            while got < record.len() {
                let rest = &mut record[got..];
                // SAFETY: there is room for so many.
                let done = unsafe { libc::read(self.0.0[0], rest.as_mut_ptr().cast(), rest.len()) };
                assert!(done > 0, "read: {}", io::Error::last_os_error());
                got += done as usize;
            }
        }
    }
}

/// A pair of Unix sockets that keep records apart (SEQPACKET).
pub struct Socket(Ends);

impl Socket {
    /// Makes one.
    ///
    /// # Panics
    /// When the system refuses.
    #[expect(clippy::new_without_default, reason = "it takes descriptors")]
    pub fn new() -> Socket {
        let mut ends = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: there is room for two.
        let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
        assert_eq!(made, 0, "{}", io::Error::last_os_error());
        Socket(Ends(ends))
    }
}

impl Wire for Socket {
    fn sender(&self) -> impl FnMut(&[u8]) {
        |record| {
            // SAFETY: the record is valid for its length.
            let done = unsafe { libc::send(self.0.0[1], record.as_ptr().cast(), record.len(), 0) };
            whole(done, record, "send");
        }
    }
    fn receiver(&self) -> impl FnMut(&mut [u8]) {
        |record| {
            // SAFETY: there is room for so many.
            let done = unsafe { libc::recv(self.0.0[0], record.as_mut_ptr().cast(), record.len(), 0) };
            whole(done, record, "recv");
        }
    }
}

/// A POSIX message queue of ten messages, which is the usual. A record that is longer than a message may be goes in pieces.
pub struct Queue {
    queue: libc::mqd_t,
    piece: usize,
}

/// Bytes that a message may have, unless the system's administrator allows more.
const MESSAGE: usize = 8192;

impl Queue {
    /// Makes one for records of this length, if the system has such queues.
    pub fn new(record: usize) -> Option<Queue> {
        let name = CString::new(format!("/chappe-bench-{}", std::process::id())).ok()?;
        let piece = record.min(MESSAGE);
        // SAFETY: all zeroes are attributes; the calls read them and the name.
        let queue = unsafe {
            let mut attr: libc::mq_attr = std::mem::zeroed();
            attr.mq_maxmsg = 10;
            attr.mq_msgsize = piece as _;
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
            let queue = libc::mq_open(name.as_ptr(), flags, 0o600 as libc::mode_t, &raw mut attr);
            // It is reached by descriptor from here on.
            libc::mq_unlink(name.as_ptr());
            queue
        };
        (queue >= 0).then_some(Queue { queue, piece })
    }
}

impl Wire for Queue {
    fn sender(&self) -> impl FnMut(&[u8]) {
        |record| {
            for piece in record.chunks(self.piece) {
                // SAFETY: the piece is valid for its length.
                let done = unsafe { libc::mq_send(self.queue, piece.as_ptr().cast(), piece.len(), 0) };
                assert_eq!(done, 0, "mq_send: {}", io::Error::last_os_error());
            }
        }
    }
    fn receiver(&self) -> impl FnMut(&mut [u8]) {
        |record| {
            for piece in record.chunks_mut(self.piece) {
                let (to, nobody) = (piece.as_mut_ptr().cast(), std::ptr::null_mut());
                // SAFETY: there is room for so many; the priority is not asked for.
                let done = unsafe { libc::mq_receive(self.queue, to, piece.len(), nobody) };
                whole(done, piece, "mq_receive");
            }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: it is ours, and open.
        unsafe { libc::mq_close(self.queue) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Child;
    use crate::tube::floor::Ring;

    fn carries(wire: &impl Wire, record: usize) {
        let child = Child::fork(|| {
            let mut send = wire.sender();
            (0..200).for_each(|n| send(&vec![n; record]));
        });
        let mut receive = wire.receiver();
        let mut got = vec![0; record];
        for n in 0..200 {
            receive(&mut got);
            assert!(got.iter().all(|byte| *byte == n));
        }
        assert_eq!(child.end(), 0);
    }

    #[test]
    fn every_way_delivers_whole_records_in_order() {
        for record in [64, 1024, 65_536] {
            carries(&Pipe::new(), record);
            carries(&Socket::new(), record);
            if let Some(queue) = Queue::new(record) {
                carries(&queue, record);
            }
        }
        carries(&Ring::<64>::make(), 64);
        carries(&Ring::<65_536>::make(), 65_536);
    }
}
