//! What senders of a named tube say when they leave, explored: receivers know how many have not ended well.

mod crash;

use chappe_crashsim::{Fate, Search, World, reached};
use chappe_sync::model::{Came, NamedAt};
use crash::Stage;
use std::cell::Cell;

/// Some senders leave, and may be killed; when nobody is there any more, a receiver asks how many have not ended well.
fn endings(world: &World, names: &[&'static str]) {
    let (stage, _) = Stage::with_blocks(world, 10, &[], 6, 32);
    let tube = NamedAt::make(stage.map, "t", 2, [false, false], false).expect("a tube");
    let come = |name: &&'static str| {
        let name = *name;
        let p = world.prepare(name);
        let me = stage.member(p, name);
        p.before(|| me.attach(tube, true).expect("there may be many"));
        let leaving = world.share(Cell::new(false));
        stage.reaper(stage.lasting(p, move || {
            leaving.set(true);
            me.detach(tube, true);
        }));
        (p, leaving)
    };
    let senders: Vec<_> = names.iter().map(come).collect();
    let q = world.prepare("receiver").immortal();
    let me = stage.member(q, "receiver");
    q.before(|| me.attach(tube, false).expect("nobody is there"));
    stage.reaper(stage.lasting(q, move || {
        assert_eq!(me.get(tube, None), Came::Gone);
        let died = tube.died();
        let killed = senders.iter().filter(|(p, _)| p.fate() == Fate::Killed);
        let sure = killed.clone().filter(|(_, leaving)| !leaving.get()).count() as u32;
        let most = killed.count() as u32;
        assert!((sure..=most).contains(&died), "{died} have not ended well, of {sure} to {most}");
        reached(if died == 0 { "all well" } else { "one died" });
    }));
}

#[test]
fn who_has_left_has_ended_well_and_who_was_killed_before_has_not() {
    let mut outcomes = Vec::new();
    for (which, names) in [("one", &["one"][..]), ("two", &["one", "other"])] {
        for search in [
            Search::depth(&format!("endings_{which}_schedules"), 2).schedules(10_000),
            Search::sweep(&format!("endings_{which}_sweep")).kills(1),
            Search::depth(&format!("endings_{which}_depth"), 2).kills(1).schedules(5_000),
            Search::priorities(&format!("endings_{which}_pct"), 4).schedules(5_000),
            Search::uniform(&format!("endings_{which}_dice")).kills(2).schedules(2_000),
        ] {
            let report = search.run(|world: &World| endings(world, names));
            report.assert_clean();
            outcomes.extend(report.outcomes().keys().cloned().collect::<Vec<_>>());
        }
    }
    assert!(["all well", "one died"].iter().all(|o| outcomes.iter().any(|it| it == o)), "{outcomes:?}");
}
