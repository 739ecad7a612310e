//! Descriptors that light threads read and write: see [`Io`].

use chappe_plat::poll::{SocketAddr, TcpListener, TcpStream, UnixListener, UnixStream, set_nonblocking};
use chappe_sync::select;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;

/// Something with a descriptor (a socket, a pipe, a terminal) whose reads and writes wait lightly: they give the processor up, and take no
/// kernel thread. Of a kernel thread they block it.
///
/// ```
/// use chappe_thread::{Io, Runtime, spawn};
/// use std::io::{Read, Write};
/// Runtime::new(1)?.run(|| {
///     let (reader, writer) = std::io::pipe()?;
///     let (mut reader, mut writer) = (Io::new(reader)?, Io::new(writer)?);
///     let echo = spawn(move || {
///         let mut all = String::new();
///         reader.read_to_string(&mut all).map(|_| all)
///     });
///     writer.write_all(b"hello")?;
///     drop(writer);
///     assert_eq!(echo.join().unwrap()?, "hello");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// One thread of the process, `chappe-poll`, sleeps on all descriptors that anybody waits for; so a million idle connections cost a
/// page each and nothing else. Regular files are always ready: for those there is [`File`](crate::File).
///
/// To wait for a descriptor *or* something else there is the arm `readable(fd)` of `select!`.
#[derive(Debug)]
pub struct Io<T>(T);

impl<T: AsFd> Io<T> {
    /// Makes its descriptor one that does not block (`O_NONBLOCK`, which is the open file's: other processes that have it find it so, too).
    ///
    /// # Errors
    /// The system's.
    pub fn new(inner: T) -> io::Result<Io<T>> {
        set_nonblocking(inner.as_fd())?;
        Ok(Io(inner))
    }

    /// What it is made of.
    pub fn get_ref(&self) -> &T {
        &self.0
    }

    /// What it was made of; its descriptor stays one that does not block.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// Does something that reads, as often as the system says that it would block; waits in between.
    ///
    /// # Errors
    /// What `act` says, but for `WouldBlock` and `Interrupted`.
    pub fn read_with<R>(&self, act: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.with(act, || select! { readable(self.0) -> r => r })
    }

    /// The same for something that writes.
    ///
    /// # Errors
    /// As above.
    pub fn write_with<R>(&self, act: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.with(act, || select! { writable(self.0) -> r => r })
    }

    fn with<R>(&self, mut act: impl FnMut(&T) -> io::Result<R>, wait: impl Fn() -> io::Result<()>) -> io::Result<R> {
        loop {
            match act(&self.0) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => wait()?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl Io<TcpListener> {
    /// Waits for a connection.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self) -> io::Result<(Io<TcpStream>, SocketAddr)> {
        let (stream, from) = self.read_with(TcpListener::accept)?;
        Ok((Io::new(stream)?, from))
    }
}

impl Io<UnixListener> {
    /// Waits for a connection.
    ///
    /// # Errors
    /// The system's.
    pub fn accept(&self) -> io::Result<Io<UnixStream>> {
        Io::new(self.read_with(UnixListener::accept)?.0)
    }
}

impl<T: AsFd> Read for &Io<T>
where
    for<'a> &'a T: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(|mut inner| inner.read(buffer))
    }
}

impl<T: AsFd> Read for Io<T>
where
    for<'a> &'a T: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl<T: AsFd> Write for &Io<T>
where
    for<'a> &'a T: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_with(|mut inner| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_with(|mut inner| inner.flush())
    }
}

impl<T: AsFd> Write for Io<T>
where
    for<'a> &'a T: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}
