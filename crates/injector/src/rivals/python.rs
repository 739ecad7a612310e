//! Python's `multiprocessing` in the storms: each round is a run of `rivals/churn.py`, which directs it.
//!
//! Its manual offers no recovery for a lock or a queue whose user was killed, and warns of it; the structure that it is
//! safe to kill in is a pipe for each sender, which is one of the rows.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::subject::{Churn, Dice, Round, Storm, Wedge};
use crate::patience::within;

/// The script; it is handed over, so that no path to it is needed.
const SCRIPT: &str = include_str!("../../rivals/churn.py");

/// What the table calls it, its storm, and what the script calls it.
pub const OBJECTS: [(&str, Storm, &str); 4] = [
    ("multiprocessing.Lock", Storm::Kept, "lock"),
    ("multiprocessing.Queue", Storm::Kept, "queue"),
    ("multiprocessing.Queue", Storm::Steady, "queue-steady"),
    ("a Pipe for each sender", Storm::Steady, "pipe-steady"),
];

/// Its version, if there is one here.
pub fn version() -> Option<String> {
    let print = "import platform; print(platform.python_version())";
    let output = Command::new("python3").args(["-c", print]).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// All rounds of the object that the script calls so.
///
/// # Errors
/// What the script says that is no finding.
pub fn rounds(object: &str, churn: Churn) -> Result<Vec<Round>, String> {
    let mut dice = Dice(churn.seed | 1);
    (0..churn.rounds).map(|_| round(object, churn, dice.roll(u64::MAX >> 12))).collect()
}

fn round(object: &str, churn: Churn, seed: u64) -> Result<Round, String> {
    let start = Instant::now();
    let mut child = Command::new("python3")
        .args(["-c", SCRIPT, object])
        .args(["--kills", &churn.kills.to_string(), "--seed", &seed.to_string()])
        .args(["--limit", &churn.limit.as_secs_f64().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("python3: {e}"))?;
    // Each kill may take what a witness may, and the end as much for each process: but then the first would have ended it.
    let most = churn.limit * 20 + Duration::from_millis(200).saturating_mul(churn.kills as u32);
    let ended = within(most, || child.try_wait().is_ok_and(|s| s.is_some()));
    if !ended {
        // It is ours and still there. Its own processes end with it.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    let mut text = String::new();
    child.stdout.take().map(|mut out| out.read_to_string(&mut text)).transpose().map_err(|e| e.to_string())?;
    if !ended || !status.success() {
        return Err(format!("the script did not come to its end: {status}"));
    }
    Ok(Round { took: start.elapsed(), ..read(&text) })
}

/// What the script has printed.
fn read(text: &str) -> Round {
    let of = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    let number = |key| of(key).and_then(|n| n.parse().ok()).unwrap_or(0);
    Round {
        kills: number("kills"),
        turns: number("turns"),
        refused: number("refused"),
        fell: number("fell"),
        last: of("last").map(str::to_owned),
        wedge: of("wedged").map(|said| Wedge { said: said.to_owned(), stays: number("stays") != 0, resort: None }),
        took: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_the_script_is_parsed() {
        let round = read("python 3.11\nkills 7\nturns 139\nrefused 8\nfell 0\nlast a b\nwedged no answer\nstays 1\n");
        let wedge = round.wedge.expect("it is wedged");
        assert_eq!((round.kills, round.turns, round.refused, round.fell), (7, 139, 8, 0));
        assert_eq!((wedge.said.as_str(), wedge.stays, round.last.as_deref()), ("no answer", true, Some("a b")));
        assert!(read("kills 7\n").wedge.is_none());
    }
}
