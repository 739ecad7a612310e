//! The memory that a question takes has a bound: it is refused beyond [`Ask::memory`], and takes little more on the way there. The allocator counts, so
//! this is a program of its own.

use chappe_rows::{Ask, AskError, Format, Input, OnBad, Style, run};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes now, and at most.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: all that is asked for is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: counts, which nothing is read by; one thread has the question.
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // Relaxed: as above.
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const MEMORY: usize = 1 << 20;
/// What a thread has beside: parts of the text, and a batch of records.
const BESIDE: usize = 1 << 20;

#[test]
fn memory_of_a_query_is_bounded_and_more_is_refused() {
    let text: &'static str =
        String::leak("k,t\n".to_owned() + &(0..30_000).map(|n| format!("{n},text {n}\n")).collect::<String>());
    let (mut answered, mut refused) = (0, 0);
    for query in [
        "select count() as n by k",
        "select count() as n by t",
        "select count() as n, sum(k) as s by t order n desc, t top 3",
        "select distinct(t) as d",
        "select quantile(k, 0.9) as q",
        "select max(t) as m by k",
        "select k order k desc",
        "select t, k order t",
        "select k, t order t top 10",
        "select count() as n by t every 20000 on k",
        "select count() as n by k every 6000 on k hop 3000",
    ] {
        let ask = Ask {
            format: Format::Csv(b','),
            query: query.into(),
            params: Vec::new(),
            schema: None,
            on_bad: OnBad::Stop,
            memory: MEMORY,
            threads: 1,
        };
        for memory in [MEMORY, 16 * MEMORY] {
            let ask = Ask { memory, ..ask.clone() };
            // Relaxed: counts of one thread.
            let before = NOW.load(Relaxed);
            MOST.store(before, Relaxed);
            let input = Input { name: "t".into(), bytes: Box::new(text.as_bytes()) };
            let ran = run(&ask, vec![input], Style::Csv, &mut std::io::sink(), &mut |_| ());
            // Relaxed: as above.
            let most = MOST.load(Relaxed) - before;
            match ran {
                Ok(_) => answered += 1,
                Err(AskError::Memory(what)) => {
                    assert!(
                        what.contains(&format!("more than {memory} bytes"))
                            || what.contains(&format!("than the {memory} bytes")),
                        "{what}"
                    );
                    refused += 1;
                }
                Err(e) => panic!("{query}: {e}"),
            }
            // What grows has its old and its new room for a moment.
            assert!(most <= memory + memory / 2 + BESIDE, "{query} took {most} bytes of {memory}");
        }
    }
    assert!(answered >= 11 && refused >= 8, "{answered} answered, {refused} refused");
}
