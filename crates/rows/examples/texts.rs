//! Makes files to measure queries with: `texts trades|quoted|json|log BYTES SEED`, to stdout. The same seed makes the same file.
//!
//! `trades` are `ts,sym,side,px,qty,venue,note`, 1,000 symbols, some of them far more often than others, one quantity in 64 empty; `quoted` the same
//! with quotes, and commas, quotes and line ends in notes; `json` the same as an object a line; `log` lines as web servers write them.

use std::io::{BufWriter, Write};

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

fn line(form: &str, row: u64, dice: &mut Dice) -> String {
    let ts = 1_700_000_000_000 + row * 37 + dice.below(37);
    let (sym, side) = (dice.skewed(1000), ["B", "S"][dice.below(2) as usize]);
    let (px, qty) = (1000 + dice.below(49_000), 1 + dice.below(500));
    let qty = if dice.below(64) == 0 { String::new() } else { qty.to_string() };
    let venue = VENUES[dice.skewed(5) as usize];
    let (whole, part) = (px / 100, px % 100);
    match form {
        "trades" => format!("{ts},S{sym:03},{side},{whole}.{part:02},{qty},{venue},n{}\n", dice.below(100_000)),
        "quoted" => {
            let note = ["plain", "with, a comma", "with \"\"quotes\"\"", "two\nlines"][dice.below(4) as usize];
            format!("{ts},\"S{sym:03}\",\"{side}\",{whole}.{part:02},{qty},\"{venue}\",\"{note}\"\n")
        }
        "json" => {
            let qty = if qty.is_empty() { "null".into() } else { qty };
            let note = dice.below(100_000);
            format!(
                "{{\"ts\":{ts},\"sym\":\"S{sym:03}\",\"side\":\"{side}\",\"px\":{whole}.{part:02},\"qty\":{qty},\"venue\":\"{venue}\",\"note\":\"n{note}\"}}\n"
            )
        }
        "log" => {
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
        other => {
            eprintln!("`{other}` is none of trades, quoted, json, log");
            std::process::exit(2);
        }
    }
}

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [form, bytes, seed] = words.as_slice() else {
        eprintln!("use: texts trades|quoted|json|log BYTES SEED");
        std::process::exit(2);
    };
    let number = |text: &str| text.parse::<u64>().map_err(std::io::Error::other);
    let (bytes, mut dice) = (number(bytes)?, Dice(number(seed)?));
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let mut written = 0;
    if matches!(form.as_str(), "trades" | "quoted") {
        out.write_all(b"ts,sym,side,px,qty,venue,note\n")?;
    }
    for row in 0.. {
        if written >= bytes {
            break;
        }
        let line = line(form, row, &mut dice);
        out.write_all(line.as_bytes())?;
        written += line.len() as u64;
    }
    out.flush()
}
