//! What programs see of a mutual exclusion and of a semaphore while nodes stop: some order of all that they did explains each answer.

use crate::both::{Act, Answer, Both, Event, assert_linearizable, is_linearizable};
use crate::control::signal;
use crate::nodes::Nodes;
use chappe_remote::place::Place;
use chappe_remote::{Permit, Remote, RemoteError};
use std::time::{Duration, Instant};

/// What came of a call; none that is certain, if it has no answer.
fn came<T>(of: Result<T, RemoteError>, answer: impl FnOnce(T) -> Answer) -> Option<Answer> {
    match of {
        Ok(value) => Some(answer(value)),
        Err(RemoteError::WouldBlock { .. }) => Some(Answer::WouldBlock),
        Err(_) => None,
    }
}

/// What one program does, and what it was told.
fn acts(lab: &Remote, number: usize, round: u64, since: Instant) -> Vec<Event<Act, Answer>> {
    let (pool, sem) = (lab.pool(&format!("p{round}")).unwrap(), lab.semaphore(&format!("s{round}")).unwrap());
    let mut random = (round << 8 | number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let (mut held, mut all): (Option<Permit>, Vec<_>) = (None, Vec::new());
    for turn in 0..12 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let what = match (random % 5, &held) {
            // What it holds at its end is given back, too.
            (_, Some(_)) if turn == 11 => Act::Give(number),
            (0 | 1, None) if turn < 11 => Act::Take(number),
            (0 | 1, Some(_)) => Act::Give(number),
            (2, _) => Act::Up(1 + (random >> 32) as u32 % 2),
            (3, _) => Act::Down,
            _ => Act::Value,
        };
        let now = || since.elapsed().as_nanos() as u64;
        let begun = now();
        let answer = match what {
            Act::Take(_) => came(pool.try_acquire(), |permit| {
                held = Some(permit);
                Answer::Done
            }),
            Act::Give(_) => held.take().and_then(|permit| came(permit.release(), |()| Answer::Done)),
            Act::Up(n) => came(sem.up(n), Answer::Value),
            Act::Down => came(sem.try_down(), |()| Answer::Done),
            Act::Value => came(sem.value(), Answer::Value),
        };
        all.push(Event { who: number, what, answer, begun, ended: now() });
        if let (Act::Take(by), None) = (what, answer) {
            // What was granted all the same is given back at some time.
            all.push(Event { who: number, what: Act::Give(by), answer: None, begun, ended: begun });
        }
    }
    all
}

#[test]
#[ignore = "storm: it stops engines"]
fn histories_of_permits_and_units_beside_stopped_nodes_are_linearizable() {
    let Some(nodes) = Nodes::own(3, &[]) else { return };
    let mut place = Place::url(&nodes.url("history")).unwrap();
    place.options.connect_timeout = Duration::from_secs(60);
    let programs: Vec<Remote> = (0..4).map(|_| Remote::connect(&place, "test").unwrap()).collect();
    let (since, mut certain, mut calls) = (Instant::now(), 0, 0);
    for round in 0..40 {
        programs[0].create_pool(&format!("p{round}"), 1).unwrap();
        programs[0].create_semaphore(&format!("s{round}"), 0).unwrap();
        let history: Vec<Event<Act, Answer>> = std::thread::scope(|scope| {
            let own = |(number, lab)| scope.spawn(move || acts(lab, number, round, since));
            let all: Vec<_> = programs.iter().enumerate().map(own).collect();
            let at = round as usize % 3;
            signal(&nodes, at, libc::SIGSTOP);
            std::thread::sleep(Duration::from_millis(50 * (round % 8)));
            signal(&nodes, at, libc::SIGCONT);
            all.into_iter().flat_map(|one| one.join().unwrap()).collect()
        });
        assert_linearizable(Both::default(), &history);
        calls += history.len();
        certain += history.iter().filter(|event| event.answer.is_some()).count();
        // Two that have it at once are found out.
        let last = history.iter().map(|event| event.ended).max().unwrap();
        let take = |begun| Event { who: 9, what: Act::Take(9), answer: Some(Answer::Done), begun, ended: begun + 1 };
        let twice = [history, vec![take(last + 1), take(last + 3)]].concat();
        assert!(!is_linearizable(Both::default(), &twice));
    }
    println!("{calls} calls, {certain} with an answer");
    assert!(certain * 10 > calls * 9, "{certain} of {calls} calls had an answer");
}
