//! A TCP echo server: a light thread for each connection.
//!
//! ```sh
//! cargo run --release --example echo -- 127.0.0.1:7000
//! ```

use chappe::thread::{self, Io};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;

fn echo(stream: &Io<TcpStream>) -> io::Result<()> {
    let (mut from, mut to) = (stream, stream);
    let mut buffer = vec![0; 4096];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            n => to.write_all(&buffer[..n])?,
        }
    }
}

fn serve(listener: TcpListener) -> io::Result<()> {
    let listener = Io::new(listener)?;
    loop {
        let (stream, from) = listener.accept()?;
        drop(thread::spawn(move || echo(&stream).unwrap_or_else(|e| eprintln!("echo: {from}: {e}"))));
    }
}

#[chappe::main]
fn main() -> ExitCode {
    let at = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7000".into());
    match TcpListener::bind(&at).and_then(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("echo: {at}: {e}");
            ExitCode::FAILURE
        }
    }
}

#[test]
fn each_client_gets_its_own_bytes_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let runtime = thread::Runtime::new(1).unwrap();
    let _server = runtime.spawn(move || serve(listener));
    runtime.run(|| {
        thread::scope(|s| {
            for number in 0..50u8 {
                s.spawn(move || {
                    let mut stream = Io::new(TcpStream::connect(at).unwrap()).unwrap();
                    let text = vec![number; 10_000];
                    let mut heard = vec![0; text.len()];
                    for _ in 0..3 {
                        stream.write_all(&text).unwrap();
                        stream.read_exact(&mut heard).unwrap();
                        assert!(heard == text);
                    }
                });
            }
        });
    });
}
