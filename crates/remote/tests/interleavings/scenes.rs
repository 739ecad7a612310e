//! The scenes.

use super::{search, walk};
use crate::world::{Act, Faults, World};
use chappe_remote::acquire::Want;

fn hold(pools: &[&str]) -> Act {
    Act::Hold(Want { pools: pools.iter().map(|pool| (*pool).to_owned()).collect(), n: 1, wait: true }, false)
}

fn gives_up(pools: &[&str]) -> Act {
    let Act::Hold(want, _) = hold(pools) else { unreachable!() };
    Act::Hold(want, true)
}

fn many(pool: &str, n: u32) -> Act {
    Act::Hold(Want { pools: vec![pool.to_owned()], n, wait: true }, false)
}

fn at_once(pools: &[&str]) -> Act {
    let Act::Hold(want, _) = hold(pools) else { unreachable!() };
    Act::Hold(Want { wait: false, ..want }, false)
}

fn one_permit(faults: Faults) -> World {
    World::new(&[("a", 1)], &[&[hold(&["a"])], &[hold(&["a"])]], faults)
}

fn three_in_line(faults: Faults) -> World {
    let acts = [hold(&["a"])];
    World::new(&[("a", 1)], &[&acts, &acts, &acts], faults)
}

fn choice(faults: Faults) -> World {
    World::new(&[("a", 1), ("b", 1)], &[&[hold(&["a"])], &[hold(&["b"])], &[hold(&["a", "b"])]], faults)
}

fn chooser(faults: Faults) -> World {
    World::new(&[("a", 1), ("b", 0)], &[&[hold(&["a"]), hold(&["a"])], &[hold(&["a", "b"])]], faults)
}

fn several(faults: Faults) -> World {
    World::new(&[("a", 2)], &[&[many("a", 2)], &[hold(&["a"])], &[many("a", 2)]], faults)
}

fn impatient(faults: Faults) -> World {
    World::new(&[("a", 1)], &[&[hold(&["a"])], &[gives_up(&["a"])]], faults)
}

fn hurried(faults: Faults) -> World {
    World::new(&[("a", 1), ("b", 1)], &[&[hold(&["a"])], &[at_once(&["a", "b"])]], faults)
}

fn grows(faults: Faults) -> World {
    World::new(&[("a", 1)], &[&[hold(&["a"])], &[hold(&["a"])], &[Act::Resize("a".into(), 2)]], faults)
}

fn shrinks(faults: Faults) -> World {
    World::new(&[("a", 2)], &[&[many("a", 2)], &[many("a", 2)], &[Act::Resize("a".into(), 1)]], faults)
}

fn forced(faults: Faults) -> World {
    World::new(&[("a", 1)], &[&[hold(&["a"])], &[hold(&["a"])], &[Act::Force("a".into(), 0)]], faults)
}

fn removed(faults: Faults) -> World {
    let clients: [&[Act]; 3] = [&[hold(&["a"])], &[hold(&["a", "b"])], &[Act::Remove("b".into())]];
    World::new(&[("a", 1), ("b", 1)], &clients, faults)
}

const NONE: Faults = Faults { lost: 0, late: 0, kills: 0, stops: 0, cuts: 0, breaks: 0 };

#[test]
fn one_permit_has_one_holder_although_answers_are_lost() {
    search(one_permit(Faults { lost: 1, late: 1, ..NONE }));
}

#[test]
fn three_clients_have_one_permit_in_the_order_of_arrival() {
    search(three_in_line(Faults { cuts: 1, ..NONE }));
    search(one_permit(Faults { kills: 1, ..NONE }));
}

#[test]
fn a_choice_has_one_place_and_gets_one_permit() {
    search(choice(NONE));
}

#[test]
fn a_stopped_chooser_holds_up_nobody() {
    search(chooser(Faults { stops: 1, ..NONE }));
}

#[test]
fn several_permits_are_had_at_once_or_not_at_all() {
    search(several(NONE));
}

#[test]
fn one_that_gives_up_leaves_nothing_behind() {
    search(impatient(Faults { lost: 1, late: 1, ..NONE }));
}

#[test]
fn one_that_does_not_wait_is_refused_only_if_nothing_is_free() {
    search(hurried(Faults { late: 1, ..NONE }));
}

#[test]
fn a_pool_of_another_size_serves_those_that_wait() {
    search(grows(Faults { lost: 1, ..NONE }));
    search(shrinks(NONE));
}

#[test]
fn a_permit_taken_by_force_goes_to_the_head() {
    search(forced(Faults { lost: 1, ..NONE }));
}

#[test]
fn a_removed_pool_leaves_nobody_waiting() {
    search(removed(NONE));
}

#[test]
fn a_lease_that_ends_early_and_a_watch_that_breaks_lose_nothing() {
    search(one_permit(Faults { cuts: 1, breaks: 1, ..NONE }));
}

#[test]
#[ignore = "storm: each scene whole, with more that goes wrong"]
fn scenes_in_which_more_goes_wrong() {
    let scenes =
        [one_permit, three_in_line, choice, chooser, several, impatient, hurried, grows, shrinks, forced, removed];
    let one = |at: usize| Faults {
        lost: u8::from(at == 0),
        late: u8::from(at == 1),
        kills: u8::from(at == 2),
        stops: u8::from(at == 3),
        cuts: u8::from(at == 4),
        breaks: u8::from(at == 5),
    };
    for (scene, fault) in scenes.iter().flat_map(|scene| (0..6).map(move |at| (scene, one(at)))) {
        search(scene(fault));
    }
    search(one_permit(Faults { lost: 1, late: 1, kills: 1, ..NONE }));
    search(three_in_line(Faults { cuts: 1, breaks: 1, ..NONE }));
}

#[test]
#[ignore = "storm: random walks of larger scenes"]
fn large_scenes_walked_at_random() {
    let faults = Faults { lost: 4, late: 4, kills: 2, stops: 3, cuts: 2, breaks: 3 };
    let both = [hold(&["a", "b"]), gives_up(&["b", "c"]), hold(&["c"]), gives_up(&["a", "b", "c"])];
    let other = [many("b", 2), hold(&["b", "a"]), at_once(&["c", "a"]), many("b", 2)];
    let clients: [&[Act]; 6] = [&both, &both, &other, &other, &[hold(&["a"]), hold(&["a"])], &both];
    let admin = [Act::Resize("b".into(), 3), Act::Resize("b".into(), 2)];
    let all = [&clients[..], &[&admin]].concat();
    let scene = World::new(&[("a", 1), ("b", 2), ("c", 1)], &all, faults);
    let moves: usize = (0..5_000).map(|seed| walk(&scene, seed)).sum();
    eprintln!("{moves} moves");
}
