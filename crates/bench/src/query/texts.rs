//! Files to measure queries with. The same seed makes the same file.

use std::io::{Result, Write};

/// What is in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `ts,sym,side,px,qty,venue,note`: 1,000 symbols, some of them far more often than others, one quantity in 64 empty.
    Trades,
    /// The same with quotes, and commas, quotes and line ends in notes.
    Quoted,
    /// The same as an object a line.
    Json,
    /// Lines as web servers write them.
    Log,
    /// A capture file: questions to DNS, and segments of TCP.
    Capture,
}

/// Numbers of a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Small numbers more often.
    fn skewed(&mut self, n: u64) -> u64 {
        let (a, b) = (self.below(n), self.below(n));
        a * b / n
    }
}

const VENUES: [&str; 5] = ["XETR", "XPAR", "XLON", "XNAS", "XNYS"];
const PATHS: [&str; 6] = ["/", "/login", "/orders", "/trades?limit=100", "/app.js", "/favicon.ico"];

fn line(form: Form, row: u64, dice: &mut Dice) -> Vec<u8> {
    let ts = 1_700_000_000_000 + row * 37 + dice.below(37);
    let (sym, side) = (dice.skewed(1000), ["B", "S"][dice.below(2) as usize]);
    let (px, qty) = (1000 + dice.below(49_000), 1 + dice.below(500));
    let qty = if dice.below(64) == 0 { String::new() } else { qty.to_string() };
    let venue = VENUES[dice.skewed(5) as usize];
    let (whole, part) = (px / 100, px % 100);
    let text = match form {
        Form::Trades => format!("{ts},S{sym:03},{side},{whole}.{part:02},{qty},{venue},n{}\n", dice.below(100_000)),
        Form::Quoted => {
            let note = ["plain", "with, a comma", "with \"\"quotes\"\"", "two\nlines"][dice.below(4) as usize];
            format!("{ts},\"S{sym:03}\",\"{side}\",{whole}.{part:02},{qty},\"{venue}\",\"{note}\"\n")
        }
        Form::Json => {
            let qty = if qty.is_empty() { "null".into() } else { qty };
            let note = dice.below(100_000);
            format!(
                "{{\"ts\":{ts},\"sym\":\"S{sym:03}\",\"side\":\"{side}\",\"px\":{whole}.{part:02},\"qty\":{qty},\"venue\":\"{venue}\",\"note\":\"n{note}\"}}\n"
            )
        }
        Form::Log => {
            let (path, status) =
                (PATHS[dice.skewed(6) as usize], [200, 200, 200, 304, 404, 500][dice.below(6) as usize]);
            let ip = [10, dice.below(4), dice.below(256), dice.below(256)].map(|n| n.to_string()).join(".");
            format!(
                "{ip} - - [29/Nov/2026:07:{:02}:{:02} +0000] \"GET {path} HTTP/1.1\" {status} {}\n",
                row / 60 % 60,
                row % 60,
                dice.skewed(100_000)
            )
        }
        Form::Capture => return packet(row, dice),
    };
    text.into_bytes()
}

/// A packet of a capture file: one in four asks DNS.
fn packet(row: u64, dice: &mut Dice) -> Vec<u8> {
    let (a, b) = (dice.below(250) as u8, dice.below(250) as u8);
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, a, 10, 0, 1, b];
    if row.is_multiple_of(4) {
        ip[9] = 17;
        let name = format!("host{}", dice.skewed(1000));
        let mut question = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.len() as u8];
        question.extend(name.bytes());
        question.extend(b"\x07example\x00\x00\x01\x00\x01");
        ip.extend([0xc3, 0x50, 0, 53]);
        ip.extend((8 + question.len() as u16).to_be_bytes());
        ip.extend([0, 0]);
        ip.extend(question);
    } else {
        ip.extend([0x01, 0xbb, 0xd4, 0x31, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        ip.resize(ip.len() + dice.below(1200) as usize, b'x');
    }
    let total = (ip.len() as u16).to_be_bytes();
    ip[2..4].copy_from_slice(&total);
    let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip].concat();
    let (at, length) = (1_700_000_000 + row / 1000, frame.len() as u32);
    let head = [at as u32, (row % 1000) as u32 * 1000, length, length];
    head.into_iter().flat_map(u32::to_le_bytes).chain(frame).collect()
}

/// Writes at least so many bytes.
///
/// # Errors
/// The system's.
pub fn write(form: Form, bytes: u64, seed: u64, out: &mut impl Write) -> Result<()> {
    let (mut dice, mut written) = (Dice(seed), 0);
    match form {
        Form::Trades | Form::Quoted => out.write_all(b"ts,sym,side,px,qty,venue,note\n")?,
        Form::Capture => {
            let head = [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65_535, 1];
            out.write_all(&head.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>())?;
        }
        Form::Json | Form::Log => {}
    }
    for row in 0.. {
        if written >= bytes {
            break;
        }
        let line = line(form, row, &mut dice);
        out.write_all(&line)?;
        written += line.len() as u64;
    }
    out.flush()
}
