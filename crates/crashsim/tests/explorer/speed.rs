//! How fast it goes: not a gate, a figure to look at.

use chappe_crashsim::atomic::{AtomicU32, Ordering::SeqCst};
use chappe_crashsim::{Search, World};

fn hundred_steps(world: &World) {
    let word = world.share(AtomicU32::new(0));
    for name in ["a", "b", "c"] {
        world.process(name, move || {
            for _ in 0..33 {
                word.fetch_add(1, SeqCst);
            }
        });
    }
}

#[test]
#[ignore = "storm: a measurement"]
fn schedules_a_second() {
    for search in [
        Search::uniform("speed_uniform").kills(1),
        Search::priorities("speed_priorities", 3).kills(1),
        Search::depth("speed_depth", 3).kills(1),
    ] {
        search.schedules(200_000).run(hundred_steps).assert_clean();
    }
}
