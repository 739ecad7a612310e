//! `chappe acquire`: a permit of whichever pool has one first, or several of one pool, and a job under it.
//!
//! What was taken belongs to chappe and (without `--close`) is leased before the job starts, so that it is free only when chappe has given it
//! back or died *and* the job, with what it left running, has ended. The order at the end: what [`under`](crate::under) does, chappe's copy of the lease is
//! closed, the permit is given back, and chappe ends as its job did.

use crate::args::Acquire;
use crate::ended::{FAILED, as_it_did, label, say};
use crate::look::{Name, arena_of, ms};
use crate::said::Failure;
use crate::said::tell;
use crate::take::{self, Until};
use crate::under::Under;
use chappe::Priority;
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Instant;

/// Runs the command. `file_size`: SIGXFSZ had its default action when chappe started.
///
/// # Errors
/// With the status that says which kind of failure it is.
pub fn run(a: &Acquire, json: bool, file_size: bool) -> Result<u8, Failure> {
    let failed = |why| Failure { status: FAILED, why };
    chappe::set_label(&label(&a.command));
    let pools = take::pools(a).map_err(failed)?;
    if !a.nested {
        take::refuse_nested(&pools).map_err(failed)?;
    }
    chappe::set_priority(Priority(a.priority));
    let began = Instant::now();
    let (index, mut held) = take::wait(&pools, a.count, Until::of(a.timeout, a.nonblock), json)?;
    let waited = began.elapsed();

    let pool = &pools[index];
    let indices = held.indices();
    let (called, pool_name) = (Name::of(pool), pool.name());
    let names: Vec<String> = indices.iter().map(|i| called.permit(*i)).collect();
    let (name, permit_index) = (&names[0], indices[0]);
    let lease = (!a.job.close).then(|| held.lease()).transpose().map_err(|e| failed(e.into()))?;
    if json {
        let event = json!({
            "event": "acquired", "permit": name, "permits": names, "pool": pool_name, "index": index,
            "permit_index": permit_index, "waited_ms": ms(waited),
        });
        tell(event);
    }

    let command = a.replace.as_ref().map_or_else(|| a.command.clone(), |mark| filled_in(&a.command, mark, name));
    let mut environment = vec![
        ("CHAPPE_PERMIT", name.clone().into()),
        ("CHAPPE_PERMITS", names.join(" ").into()),
        ("CHAPPE_COUNT", names.len().to_string().into()),
        ("CHAPPE_INDEX", index.to_string().into()),
        ("CHAPPE_PERMIT_INDEX", permit_index.to_string().into()),
        ("CHAPPE_PERMIT_INDEXES", indices.iter().map(u32::to_string).collect::<Vec<_>>().join(" ").into()),
    ];
    environment
        .extend(a.env.iter().map(|variable| (variable.as_str(), device(&pool_name, pool.permits(), &indices).into())));
    let under = Under {
        command: &command,
        environment,
        lease: lease.as_ref(),
        object: &pool_name,
        line: None,
        beside: None,
        how: &a.job,
        json,
        file_size,
    };
    let ran = under.run()?;
    drop(lease);
    let removed = pool.is_removed();
    let lost: Vec<String> = held.lost().into_iter().map(|i| called.permit(i)).collect();
    drop(held);
    if json {
        let (status, signal) = ran.ended.parts();
        let event = json!({
            "event": "ended", "permit": name, "permits": names, "status": status, "signal": signal,
            "held_ms": ms(ran.after), "left_running": ran.left.len(), "taken_away": !lost.is_empty(),
            "lost": lost, "removed": removed,
        });
        tell(event);
    } else if removed {
        say(false, &format!("pool {pool_name} was removed while the command ran"));
    } else if let Some((last, first)) = lost.split_last() {
        let (s, and) = if first.is_empty() { (" ", String::new()) } else { ("s ", first.join(", ") + " and ") };
        let were = if first.is_empty() { "was" } else { "were" };
        say(false, &format!("permit{s}{and}{last} {were} taken away while the command ran"));
    }
    Ok(as_it_did(ran.ended, arena_of(pool)))
}

/// What was taken, as programs that are given devices by a variable want to know it.
pub fn device(pool: &str, permits: u32, indices: &[u32]) -> String {
    if permits == 1 {
        return pool.rsplit('/').next().unwrap_or(pool).to_owned();
    }
    indices.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// The command with `mark` replaced by the permit's name, wherever it stands in a word.
pub fn filled_in(command: &[OsString], mark: &str, permit: &str) -> Vec<OsString> {
    let mark = mark.as_bytes();
    let fill = |word: &OsString| {
        let mut rest = word.as_bytes();
        let mut out = Vec::with_capacity(rest.len());
        while let Some(at) = rest.windows(mark.len()).position(|w| w == mark) {
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(permit.as_bytes());
            rest = &rest[at + mark.len()..];
        }
        out.extend_from_slice(rest);
        OsString::from_vec(out)
    };
    command.iter().map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_filled_in_wherever_it_stands() {
        let words = ["{}", "a{}b{}c", "{", "{{}}", "plain", ""].map(OsString::from);
        assert_eq!(filled_in(&words, "{}", "gpu:1"), ["gpu:1", "agpu:1bgpu:1c", "{", "{gpu:1}", "plain", ""]);
        assert_eq!(filled_in(&["%%%".into()], "%%", "p"), ["p%"]);
    }

    #[test]
    fn an_argument_that_is_not_text_stays_as_it_is() {
        let word = OsString::from_vec(vec![0xff, b'{', b'}', 0xfe]);
        assert_eq!(filled_in(&[word], "{}", "p")[0].as_bytes(), b"\xffp\xfe");
    }
}
