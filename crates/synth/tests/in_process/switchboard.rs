//! A switchboard answers what each subscription would answer for itself, while they come and go.

use crate::dice::{self, Dice};
use chappe_synth::{LiveError, Query, Records, Schema, Subscription, Switchboard, Trust};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn random_filter(dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => {
            let depth = 1 + dice.below(2);
            dice::expression(dice, 'b', depth, false)
        }
        1 => format!("t == '{}' && d > {}", dice.of(&["A", "AB", "ABC"]), dice.below(10)),
        2 => {
            let (low, high) = (dice.below(50), dice.below(50));
            format!("y >= -{low}.0 && y < {high}.5 && e in [{}, {}]", dice.below(9), dice.below(9))
        }
        _ => format!("h > {}u && x != 1.5 && (c <= {} || c == 7)", dice.below(9), dice.below(9)),
    }
}

#[test]
fn a_board_answers_as_each_filter_does() {
    let schema = dice::schema();
    let size = schema.size() as usize;
    let mut dice = Dice(21);
    let board = Switchboard::new(&schema);
    let mut reader = board.reader();
    let mut there: Vec<(Subscription, String, chappe_synth::closure::Closures)> = Vec::new();
    let (mut wanted, mut yes) = (Vec::new(), 0);
    for round in 0..200 {
        if round % 4 == 3 && dice.below(2) == 0 && !there.is_empty() {
            let (who, ..) = there.swap_remove(dice.below(there.len()));
            assert!(board.unsubscribe(who) && !board.unsubscribe(who));
        } else {
            let text = random_filter(&mut dice);
            let bound = Query::filter(&schema, &text).unwrap().bind(&[]).unwrap();
            let Some(closures) = chappe_synth::closure::Closures::new(bound.program()) else { continue };
            there.push((board.subscribe(&bound, Trust::Own).unwrap(), text, closures));
        }
        let bytes = dice::records(&mut dice, &schema, 6);
        let records = Records::new(&bytes, size, size);
        for at in 0..records.len() {
            let record = records.get(at);
            let words = reader.route(record, &mut wanted);
            let mut expected = vec![0u64; words.len()];
            for (who, text, closures) in &there {
                let passes = closures.test(record);
                let bit = words[who.0 as usize / 64] >> (who.0 % 64) & 1 == 1;
                assert_eq!(bit, passes, "{text}: {who:?}");
                expected[who.0 as usize / 64] |= u64::from(passes) << (who.0 % 64);
                yes += usize::from(passes);
            }
            assert_eq!(words, expected);
        }
    }
    assert!(there.len() > 80 && yes > 4_000, "{} {yes}", there.len());
}

#[test]
fn numbers_are_used_again_and_other_records_refused() {
    let schema = Schema::parse("a: i32").unwrap();
    let filter = |text: &str| Query::filter(&schema, text).unwrap().bind(&[]).unwrap();
    let board = Switchboard::new(&schema);
    let all: Vec<Subscription> =
        (0..70).map(|i| board.subscribe(&filter(&format!("a > {i}")), Trust::Own).unwrap()).collect();
    assert!(all.iter().enumerate().all(|(i, s)| s.0 as usize == i));
    let mut wanted = Vec::new();
    let mut reader = board.reader();
    assert_eq!(reader.route(&3i32.to_le_bytes(), &mut wanted), [7, 0]);
    assert!(board.unsubscribe(all[1]));
    assert_eq!(reader.route(&3i32.to_le_bytes(), &mut wanted), [5, 0]);
    assert_eq!(board.subscribe(&filter("a == 3"), Trust::Own).unwrap(), all[1]);
    assert_eq!(reader.route(&3i32.to_le_bytes(), &mut wanted), [7, 0]);
    all[5..].iter().for_each(|s| assert!(board.unsubscribe(*s)));
    assert_eq!(reader.route(&9i32.to_le_bytes(), &mut wanted), [0b11101]);
    let other = Query::filter(&Schema::parse("b: i32").unwrap(), "b > 1").unwrap().bind(&[]).unwrap();
    assert_eq!(board.subscribe(&other, Trust::Own), Err(LiveError::Schema));
}

/// One routes numbered records, without a pause; another subscribes and takes away. What was subscribed before a record and was there after it
/// saw it; nobody else's bit is ever there.
#[test]
fn no_subscriber_misses_a_record_while_others_come_and_go() {
    let schema = Schema::parse("n: u64").unwrap();
    let always = Query::filter(&schema, "n >= 0u").unwrap().bind(&[]).unwrap();
    let board = Switchboard::new(&schema);
    let first = board.subscribe(&always, Trust::Own).unwrap();
    let (now, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    std::thread::scope(|s| {
        let router = s.spawn({
            let (mut reader, now, stop) = (board.reader(), now.clone(), stop.clone());
            move || {
                let (mut wanted, mut seen, mut n) = (Vec::new(), Vec::<(u64, u64)>::new(), 0u64);
                while !stop.load(Ordering::SeqCst) {
                    now.store(n, Ordering::SeqCst);
                    let words = reader.route(&n.to_le_bytes(), &mut wanted)[0];
                    assert!(words >> first.0 & 1 == 1, "the first one missed {n}");
                    seen.push((n, words));
                    n += 1;
                }
                seen
            }
        });
        // Records that each one must have seen: begun after it was there, and ended before it went; then those that it must not.
        let mut spans = Vec::new();
        let wait = || {
            let from = now.load(Ordering::SeqCst) + 1;
            while now.load(Ordering::SeqCst) < from + 2 {
                std::thread::yield_now();
            }
            from..now.load(Ordering::SeqCst)
        };
        for _ in 0..300 {
            let who = board.subscribe(&always, Trust::Own).unwrap();
            let there = wait();
            assert!(board.unsubscribe(who));
            spans.push((who, there, wait()));
        }
        stop.store(true, Ordering::SeqCst);
        let seen = router.join().unwrap();
        for (who, there, gone) in spans {
            assert!(there.clone().chain(gone.clone()).all(|n| seen[n as usize].0 == n));
            let has = |n: u64| seen[n as usize].1 >> who.0 & 1 == 1;
            assert!(there.clone().all(has), "of {there:?} one was lost");
            assert!(!gone.clone().any(has), "of {gone:?} one went to one who had gone");
        }
    });
}
