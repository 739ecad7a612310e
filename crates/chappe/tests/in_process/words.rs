//! Words that change together, between threads.

use chappe::words::{Change, Words, WordsError};

fn change(word: u32, old: u64, new: u64) -> Change {
    Change { word, old, new }
}

#[test]
fn all_words_change_or_none() {
    let words = Words::private(9).unwrap();
    assert!(words.mcas(&[change(0, 0, 1), change(1, 0, 2)]).unwrap());
    assert!(!words.mcas(&[change(0, 1, 5), change(1, 0, 5)]).unwrap());
    assert_eq!(words.load_all([0, 1]).unwrap(), [1, 2]);
    // In any order, and all eight.
    let steps: Vec<_> =
        (0..8).rev().map(|i| change(i, [1, 2, 0, 0, 0, 0, 0, 0][i as usize], u64::MAX - u64::from(i))).collect();
    assert!(words.mcas(&steps).unwrap());
    for i in 0..8 {
        assert_eq!(words.load(i).unwrap(), u64::MAX - u64::from(i));
    }
}

#[test]
fn an_impossible_mcas_is_refused_and_changes_nothing() {
    let words = Words::private(9).unwrap();
    assert!(matches!(words.mcas(&[]), Err(WordsError::Count { count: 0 })));
    let nine: Vec<_> = (0..9).map(|i| change(i, 0, 1)).collect();
    assert!(matches!(words.mcas(&nine), Err(WordsError::Count { count: 9 })));
    assert!(matches!(words.mcas(&[change(0, 0, 1), change(9, 0, 1)]), Err(WordsError::Foreign { word: 9, words: 9 })));
    assert!(matches!(words.mcas(&[change(9, 0, 1), change(0, 0, 1)]), Err(WordsError::Foreign { word: 9, words: 9 })));
    assert!(matches!(words.mcas(&[change(3, 0, 1), change(3, 1, 2)]), Err(WordsError::Twice { word: 3 })));
    assert!(matches!(words.load(9), Err(WordsError::Foreign { .. })));
    assert!(matches!(Words::private(0), Err(WordsError::Capacity { count: 0 })));
    for i in 0..9 {
        assert_eq!(words.load(i).unwrap(), 0);
    }
}

#[test]
fn no_thread_sees_a_half_and_no_change_is_lost() {
    const EACH: u64 = 5_000;
    let words = Words::private(4).unwrap();
    std::thread::scope(|s| {
        for first in 0..3 {
            let words = &words;
            s.spawn(move || {
                for _ in 0..EACH {
                    words.update([first, first + 1], |w| w.iter_mut().for_each(|v| *v += 1)).unwrap();
                }
            });
        }
        s.spawn(|| {
            for _ in 0..EACH {
                // Word 1 is one of two pairs, word 0 of one: never more than the two together.
                let [a, b, c, d] = words.load_all([0, 1, 2, 3]).unwrap();
                assert!(a + c == b + d, "{a} {b} {c} {d}");
            }
        });
    });
    assert_eq!(words.load_all([0, 1, 2, 3]).unwrap(), [EACH, 2 * EACH, 2 * EACH, EACH]);
}
