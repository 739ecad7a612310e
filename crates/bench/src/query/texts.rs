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
    /// Some of it as records of 32 bytes: `ts: i64, px: f64, qty: i64, sym: str[8]`.
    Records,
    /// Lines as web servers write them.
    Log,
    /// A capture file: questions to DNS, and segments of TCP.
    Capture,
    /// As New York's Taxi and Limousine Commission publishes trips of yellow cabs: 18 columns, times without a zone, some counts of passengers empty.
    Taxi,
    /// As GitHub Archive publishes events: an object a line, objects within, members that only some events have.
    Events,
    /// The combined log of Apache and nginx: with the page before, and the browser.
    Combined,
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
        Form::Records => {
            let numbers = [ts, (px as f64 / 100.0).to_bits(), qty.parse().unwrap_or(0)];
            return [&numbers.map(u64::to_le_bytes).concat(), format!("S{sym:03}\0\0\0\0").as_bytes()].concat();
        }
        Form::Capture => return packet(row, dice),
        Form::Taxi => taxi(row, dice),
        Form::Events => event(row, dice),
        Form::Combined => {
            let (path, status) =
                (PATHS[dice.skewed(6) as usize], [200, 200, 200, 304, 404, 500][dice.below(6) as usize]);
            let ip = [203, 0, 113, dice.below(256)].map(|n| n.to_string()).join(".");
            let user = if dice.below(8) == 0 { "ann" } else { "-" };
            let bytes = if status == 304 { "-".into() } else { dice.skewed(100_000).to_string() };
            let referer = ["-", "https://example.com/"][dice.below(2) as usize];
            format!(
                "{ip} - {user} [29/Nov/2026:07:{:02}:{:02} +0000] \"GET {path} HTTP/1.1\" {status} {bytes} \"{referer}\" \"{}\"\n",
                row / 60 % 60,
                row % 60,
                AGENTS[dice.skewed(3) as usize],
            )
        }
    };
    text.into_bytes()
}

const AGENTS: [&str; 3] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "curl/8.16.0",
];
const TAXI: &str = "VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,passenger_count,trip_distance,RatecodeID,\
    store_and_fwd_flag,PULocationID,DOLocationID,payment_type,fare_amount,extra,mta_tax,tip_amount,tolls_amount,\
    improvement_surcharge,total_amount,congestion_surcharge\n";

fn taxi(row: u64, dice: &mut Dice) -> String {
    let time = |minutes: u64| {
        format!("2026-11-{:02} {:02}:{:02}:{:02}", 1 + minutes / 1440 % 28, minutes / 60 % 24, minutes % 60, row % 60)
    };
    let (minutes, miles) = (row / 9, 20 + dice.skewed(1500));
    let passengers = if dice.below(32) == 0 { String::new() } else { (1 + dice.skewed(6)).to_string() };
    let (fare, tip) = (300 + miles * 250 / 100, dice.skewed(900));
    let money = |cents: u64| format!("{}.{:02}", cents / 100, cents % 100);
    format!(
        "{},{},{},{passengers},{},1,N,{},{},{},{},0.5,0.5,{},0.0,0.3,{},2.5\n",
        1 + dice.below(2),
        time(minutes),
        time(minutes + miles / 20),
        money(miles),
        1 + dice.below(263),
        1 + dice.below(263),
        1 + dice.skewed(4),
        money(fare),
        money(tip),
        money(fare + tip + 380),
    )
}

fn event(row: u64, dice: &mut Dice) -> String {
    let (actor, repo) = (dice.skewed(200_000), dice.skewed(5_000));
    let kind = ["PushEvent", "PushEvent", "WatchEvent", "IssuesEvent"][dice.below(4) as usize];
    let payload = match kind {
        "PushEvent" => {
            let commits: Vec<String> = (0..=dice.below(3))
                .map(|n| {
                    format!(
                        "{{\"sha\":\"{:016x}\",\"author\":{{\"email\":\"u{actor}@example.com\",\"name\":\"User {actor}\"}},\"message\":\"Say \\\"{n}\\\"\\nonce\",\"distinct\":true}}",
                        dice.next()
                    )
                })
                .collect();
            format!(
                "{{\"push_id\":{row},\"size\":{},\"ref\":\"refs/heads/main\",\"commits\":[{}]}}",
                commits.len(),
                commits.join(",")
            )
        }
        "WatchEvent" => "{\"action\":\"started\"}".into(),
        _ => format!(
            "{{\"action\":\"opened\",\"issue\":{{\"number\":{},\"title\":\"It fails\",\"labels\":[]}}}}",
            dice.below(900)
        ),
    };
    let org =
        if dice.below(4) == 0 { format!(",\"org\":{{\"id\":{repo},\"login\":\"org{repo}\"}}") } else { String::new() };
    format!(
        "{{\"id\":\"{}\",\"type\":\"{kind}\",\"actor\":{{\"id\":{actor},\"login\":\"user{actor}\",\"gravatar_id\":\"\",\"url\":\"https://api.github.com/users/user{actor}\"}},\
         \"repo\":{{\"id\":{repo},\"name\":\"org{repo}/project{repo}\",\"url\":\"https://api.github.com/repos/org{repo}/project{repo}\"}},\
         \"payload\":{payload},\"public\":true,\"created_at\":\"2026-11-29T{:02}:{:02}:{:02}Z\"{org}}}\n",
        50_000_000_000 + row,
        row / 3600 % 24,
        row / 60 % 60,
        row % 60,
    )
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
        Form::Taxi => out.write_all(TAXI.as_bytes())?,
        Form::Records | Form::Json | Form::Log | Form::Events | Form::Combined => {}
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
