//! `chappe doctor @REMOTE`: whether an engine can be used, and what its members say of themselves.

use super::Place;
use crate::look::{ms, plain};
use anyhow::{Result, anyhow, bail};
use chappe::remote::engine::{Engine, Op, Txn};
use chappe::remote::etcd::{Etcd, Status, check_version};
use chappe::remote::room::{ADVICE, nearly_full};
use chappe::remote::{RemoteError, keys, life};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// What is wrong.
struct Finding {
    kind: &'static str,
    what: String,
    advice: Option<&'static str>,
}

/// Examines it. Status 1 if it cannot be used.
///
/// # Errors
/// What is wrong with the options.
pub fn doctor(place: &Place, json: bool) -> Result<(String, u8)> {
    let members = Etcd::statuses(&place.options).map_err(|e| anyhow!(e))?;
    let mut findings: Vec<Finding> = members.iter().flat_map(of_member).collect();
    let used = use_it(place);
    if let Err(why) = &used {
        findings.push(Finding { kind: "unusable", what: why.clone(), advice: None });
    }
    let status = u8::from(used.is_err());
    let text = if json {
        as_json(place, &members, &findings, used.ok())
    } else {
        as_text(place, &members, &findings, used.ok())
    };
    Ok((text, status))
}

fn of_member(member: &Status) -> Vec<Finding> {
    const QUORUM: &str = "more than half of the members must run and reach each other";
    let mut all = Vec::new();
    let mut add = |kind, what, advice| all.push(Finding { kind, what: format!("{}: {what}", member.endpoint), advice });
    let version = match &member.version {
        Ok(version) => version,
        Err(why) => {
            add("unreachable", why.strip_prefix(&format!("{}: ", member.endpoint)).unwrap_or(why).to_owned(), None);
            return all;
        }
    };
    if let Err(why) = check_version(version) {
        add("old-engine", why, None);
    }
    if !member.leader {
        add("no-leader", "it knows no leader: nothing is granted".into(), Some(QUORUM));
    }
    if let Some(full) = nearly_full(member.size) {
        add("nearly-full", full, Some(ADVICE));
    }
    for error in &member.errors {
        add("alarm", error.clone(), error.contains("NOSPACE").then_some(ADVICE));
    }
    all
}

/// Refuses what would leave an engine without room for locks: what is sent stands in its history until that is compacted.
///
/// # Errors
/// How full it is, and what to do.
pub fn has_room(etcd: &Etcd) -> Result<()> {
    match etcd.size().and_then(nearly_full) {
        Some(full) => bail!(RemoteError::NearlyFull(full)),
        None => Ok(()),
    }
}

/// Does what a permit needs: reads, and makes a lease, writes under it and ends it. Answers how long each took.
fn use_it(place: &Place) -> Result<(Duration, Duration), String> {
    let etcd = place.connect().map_err(|e| e.to_string())?;
    let began = Instant::now();
    etcd.txn(&Txn::of(vec![Op::Get(place.space().pools())])).map_err(|e| format!("it cannot be read: {e}"))?;
    let read = began.elapsed();
    let (lease, _) = etcd.grant(life::SHORTEST).map_err(|e| format!("it gives no lease: {e}"))?;
    // What may be written there goes with the lease.
    let key = place.space().fence(&keys::attempt(lease, 1));
    let written = etcd.txn(&Txn::of(vec![Op::Put { key, value: vec![], lease: Some(lease) }]));
    etcd.revoke(lease).map_err(|e| format!("it does not end a lease: {e}"))?;
    written.map_err(|e| format!("it cannot be written: {e}"))?;
    Ok((read, began.elapsed() - read))
}

fn as_json(place: &Place, members: &[Status], findings: &[Finding], took: Option<(Duration, Duration)>) -> String {
    let member = |m: &Status| {
        let is_there = m.version.is_ok();
        json!({
            "endpoint": m.endpoint, "version": m.version.as_ref().ok(), "error": m.version.as_ref().err(), "leader": m.leader,
            "bytes": is_there.then_some(m.size.0), "quota": is_there.then_some(m.size.1).filter(|quota| *quota > 0),
            "took_ms": is_there.then(|| ms(m.took)), "alarms": m.errors,
        })
    };
    let members: Vec<Value> = members.iter().map(member).collect();
    let finding = |f: &Finding| json!({ "kind": f.kind, "what": f.what, "done": null, "advice": f.advice });
    let findings: Vec<Value> = findings.iter().map(finding).collect();
    let all = json!({
        "engine": place.options.url(), "members": members, "read_ms": took.map(|(read, _)| ms(read)),
        "lease_ms": took.map(|(_, lease)| ms(lease)), "findings": findings,
    });
    format!("{all}\n")
}

fn as_text(place: &Place, members: &[Status], findings: &[Finding], took: Option<(Duration, Duration)>) -> String {
    let mut text = format!("engine {}\n", place.options.url());
    for m in members {
        if let Ok(version) = &m.version {
            let (bytes, took) = (m.size.0, ms(m.took));
            let _ = writeln!(text, "  {}: etcd {version}, {bytes} bytes, answers in {took} ms", m.endpoint);
        }
    }
    if let Some((read, lease)) = took {
        let _ = writeln!(text, "  a read takes {} ms, a lease, from making to ending, {} ms", ms(read), ms(lease));
    }
    for finding in findings {
        let _ = writeln!(text, "  {}", plain(&finding.what));
        if let Some(advice) = finding.advice {
            let _ = writeln!(text, "    {advice}");
        }
    }
    if findings.is_empty() {
        text.push_str("  nothing is wrong\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_nearly_full_at_four_fifths_of_its_quota_or_of_the_usual_one() {
        assert_eq!(nearly_full((799, 1000)), None);
        assert_eq!(nearly_full((800, 1000)).unwrap(), "its database has 800 of 1000 bytes");
        assert!(nearly_full((1 << 30, 0)).is_none() && nearly_full((2 << 30, 0)).is_some());
    }
}
