//! What `chappe send` and `chappe recv` can be told.

use crate::format::{self, Format};
use crate::time::parse;
use chappe::tube::broadcast::Slow;
use std::time::Duration;

/// `chappe send`.
#[derive(clap::Args, Debug)]
pub struct Send {
    /// The tube
    pub name: String,
    /// Each line is a record, without its end
    #[arg(long, short, conflicts_with = "records")]
    pub lines: bool,
    /// Each record has all the bytes that the tube's can have; an error if the last one has fewer
    #[arg(long, short)]
    pub records: bool,
    /// Send a stream, too, on when its receivers have gone: another may come. To a broadcast tube: do not wait for the first one either
    #[arg(long, short)]
    pub follow: bool,
    /// End records, too, with status 1 when the last receiver has gone, as the writer of a pipe does
    #[arg(long, conflicts_with = "follow")]
    pub pipe: bool,
    /// Wait at most this long for room for each record, and for the first receiver of a broadcast tube (500ms, 30s, 5m, 1h, or seconds), then exit with 124
    #[arg(long, value_name = "DURATION", value_parser = parse)]
    pub timeout: Option<Duration>,
    /// Read records as text, by the tube's schema
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["lines", "records"])]
    pub format: Option<Format>,
}

/// The end of its short help.
pub const SEND_SHORT: &str = "\
Exit status: 0 all of it was sent; 1 not all of it; 124 there was no room in time";

/// The end of its help.
pub const SEND_END: &str = "\
With --lines, --records and --format, and to a tube with a schema, each record
is for one receiver: receivers come and go, and while there is none `send` fills
the tube and then waits for room. Without them stdin is a stream: it goes in
records of the tube's size, the last one shorter, and `chappe recv` puts it
together. A stream ends with status 1 when a receiver came and the last has gone.

Exit status:
  0    all of it was sent
  1    not all: stderr says how much was, and what became of the rest
  124  the same, because there was no room in time

With --json:
  {\"name\": TEXT, \"records\": N, \"bytes\": N, \"ms\": N} on stdout at the end";

/// `chappe recv`.
#[derive(clap::Args, Debug, Default)]
pub struct Recv {
    /// The tubes, all in one arena
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// End each record with a line end
    #[arg(long, short)]
    pub lines: bool,
    /// Take what comes as records, not as one stream: others may receive some of them
    #[arg(long, short)]
    pub records: bool,
    /// Write the tube's name and a tab before each record
    #[arg(long, short = 'g')]
    pub tag: bool,
    /// Go on when there is no sender: one may come
    #[arg(long, short)]
    pub follow: bool,
    /// End after so many records
    #[arg(long, short = 'n', value_name = "N")]
    pub count: Option<u64>,
    /// Wait at most this long for each record (500ms, 30s, 5m, 1h, or seconds), then exit with 124
    #[arg(long, value_name = "DURATION", value_parser = parse)]
    pub timeout: Option<Duration>,
    /// Write records as text, by the tube's schema
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with = "lines")]
    pub format: Option<Format>,
    /// Write only records for which this is true: 'price > $min && sym == "X"'. Others are received, too, and dropped; a broadcast tube does not even send them
    #[arg(long = "where", value_name = "EXPR")]
    pub condition: Option<String>,
    /// What to write of each record: 'sym, price * 2.0 as double'; or aggregates of all, at the end: 'count(), max(price) by sym'
    #[arg(long, value_name = "LIST")]
    pub select: Option<String>,
    /// A parameter of the expressions
    #[arg(long, value_name = "NAME=VALUE", value_parser = format::param)]
    pub param: Vec<(String, chappe::synth::Value)>,
    /// What `chappe query --tube` asks.
    #[arg(skip)]
    pub query: Option<format::Whole>,
    /// What a broadcast tube does when this receiver is too slow: block (senders wait), drop-oldest, or drop-newest:N (keep N)
    #[arg(long, value_name = "HOW", value_parser = slow)]
    pub slow: Option<Slow>,
}

impl Recv {
    /// Whether fields are asked for, by the schema.
    pub fn has_fields(&self) -> bool {
        self.format.is_some() || self.condition.is_some() || self.select.is_some() || self.query.is_some()
    }
}

/// How a subscriber lags, as it is written: `block`, `drop-oldest`, `drop-newest:8`.
fn slow(text: &str) -> Result<Slow, String> {
    match text.split_once(':') {
        None if text == "block" => Ok(Slow::Block),
        None if text == "drop-oldest" => Ok(Slow::DropOldest),
        Some(("drop-newest", most)) => match most.parse() {
            Ok(most) if most > 0 => Ok(Slow::DropNewest(most)),
            _ => Err(format!("`{most}` is no number of records to keep")),
        },
        _ => Err(format!("`{text}` is none of: block, drop-oldest, drop-newest:N")),
    }
}

/// The end of its short help.
pub const RECV_SHORT: &str = "\
Examples:
  chappe recv --lines --tag --follow jobs urgent
  chappe recv trades --format csv --where 'price > 100.0' --select 'ts, price'

Exit status: 0 the tubes are empty and have no sender, --count was reached, or what reads stdout has
gone (`| head`; the rest stays in the tubes); 1 an error;
3 a sender died before it was done; 124 no record came in time";

/// The end of its help.
pub const RECV_END: &str = "\
Examples:
  chappe tube create t; tar c . | chappe send t &
  chappe recv t | tar x
  chappe recv --lines --tag --follow jobs urgent
  chappe recv trades --format csv --where 'price > 100.0' --select 'ts, price'

Exit status:
  0    the tubes are empty and have no sender, --count was reached, or what
       reads stdout has gone (`| head`): the rest stays in the tubes
  1    an error
  3    the tubes are empty and have no sender, and a sender died, or ended
       with an error, before it was done: what was written may be a part
  124  no record came in time

Without --lines, --records, --tag and a format it is a stream, which has one
receiver at a time: what another receives meanwhile is missing, and what that
leaves behind when it dies comes late. Then this ends with an error that names
the gap. What a receiver before this one left behind comes first, in order.

With sums, windows or an order Ctrl-C ends it with those of what has come,
and its status is that of the signal (0 with --follow).

At a tube that is empty and has no sender this waits for the next one, and ends
when all that came have gone, whether they have sent anything or not.

A record that another receiver had when it died comes once more, and stderr
says so. With --json: {\"records\": N, \"bytes\": N, \"again\": N, \"ms\": N} on
stderr at the end; with status 3 also \"sender_died\": true.";
