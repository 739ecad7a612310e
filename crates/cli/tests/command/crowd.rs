//! Many at once.

use crate::place::{Place, Running, until};
use std::process::Stdio;

#[test]
#[ignore = "storm: processes that race"]
fn twenty_jobs_never_share_a_permit() {
    let here = Place::new();
    // Each job has an exclusive lock named after its permit for its life; a job that does not get it at once fails.
    // It ends once each pool is in use, or was: else one could do all, where few get on at once.
    let script = "exec 9>>lock-$CHAPPE_PERMIT; flock -n 9 || exit 77; echo $CHAPPE_PERMIT >> log; \
                  while [ -e log ] && ! [ -e lock-a -a -e lock-b -a -e lock-c ]; do sleep 0.01; done; sleep 0.02";
    let jobs: Vec<_> = (0..20).map(|_| here.job(&["--create", "a", "b", "c"], script)).collect();
    for job in jobs {
        let ran = job.end();
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    let log = here.read_now("log");
    assert_eq!(log.lines().count(), 20);
    for pool in ["a", "b", "c"] {
        assert_eq!(here.free(pool), 1);
        assert!(log.lines().any(|l| l == pool), "{pool} was never used");
    }
}

#[test]
#[ignore = "storm: processes that race"]
fn twenty_jobs_share_the_permits_of_one_pool() {
    let here = Place::new();
    here.ok(&["pool", "create", "slots", "--permits", "3"]);
    let script = "exec 9>>lock-$CHAPPE_PERMIT; flock -n 9 || exit 77; sleep 0.02";
    let jobs: Vec<_> = (0..20).map(|_| here.job(&["slots"], script)).collect();
    for job in jobs {
        let ran = job.end();
        assert_eq!(ran.status, Some(0), "{ran:?}");
    }
    assert_eq!(here.free("slots"), 3);
}

#[test]
#[ignore = "storm: processes that race"]
fn the_shell_example_uses_every_pool_and_no_permit_twice() {
    let here = Place::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shell/gpu-pool.sh");
    let mut c = here.program("sh", &[example]);
    c.stderr(Stdio::piped());
    let ran = Place::spawn(&mut c).end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    for line in ["gpu0", "gpu1", "gpu2", "40 jobs", "no two at once"] {
        assert!(ran.out.contains(line), "{line}: {ran:?}");
    }
}

#[test]
#[ignore = "storm: thousands of processes"]
fn four_thousand_commands_are_served_in_order_and_the_next_is_refused() {
    const WAITERS: usize = 4_000;
    let here = Place::new();
    let (holder, _) = here.holder("a", &["--create", "p"]);
    let begin = || here.job(&["p"], "echo $PPID >> log");
    let line = || -> Vec<u64> {
        let shown = here.json(&["show", "p"]);
        shown["waiters"].as_array().unwrap().iter().map(|w| w["pid"].as_u64().unwrap()).collect()
    };
    let mut waiters: Vec<Running> = Vec::new();
    while waiters.len() < WAITERS {
        waiters.extend((0..100).map(|_| begin()));
        until("they are in line", || (line().len() == waiters.len()).then_some(()));
    }
    // Those that watch are members, too: the table is full soon.
    let refused = until("a full table", || {
        let (before, next) = (line().len(), begin());
        let ended = until("it waits, or ends", || {
            (line().len() > before || !crate::place::runs(next.pid())).then(|| line().len() == before)
        });
        if ended {
            Some(next.end())
        } else {
            waiters.push(next);
            None
        }
    });
    assert_eq!(refused.status, Some(125), "{refused:?}");
    assert!(refused.err.contains("has all its 4095 member slots in use"), "{refused:?}");
    assert!(refused.err.contains("65535 are the most"), "{refused:?}");
    let line = line();
    here.go("a");
    assert_eq!(holder.end().status, Some(0));
    assert!(waiters.into_iter().all(|w| w.end().status == Some(0)));
    let served: Vec<u64> = here.read_now("log").lines().map(|l| l.parse().unwrap()).collect();
    assert_eq!(served, line);
}
