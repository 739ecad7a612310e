//! Tasks of a runtime that share permits, with each other, with threads and with other processes: all wait in one line, and no thread
//! waits for a task.
//!
//! ```sh
//! cargo run --example async_pool
//! ```

use chappe::{AcquireError, Pool};
use std::cell::Cell;
use std::rc::Rc;
use tokio::task::{LocalSet, yield_now};

async fn job(gpus: Pool, busy: Rc<Cell<usize>>) -> Result<u32, AcquireError> {
    // Dropped before it is ready (a time-out, another branch of a choice), it has taken nothing.
    let permit = gpus.acquire_async().await?;
    busy.set(busy.get() + 1);
    assert!(busy.get() <= 2, "two permits");
    yield_now().await;
    busy.set(busy.get() - 1);
    Ok(permit.index())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Between processes, shell jobs among them: `Pool::open_or_create("gpus", 2)`.
    let (gpus, busy) = (Pool::private(2)?, Rc::new(Cell::new(0)));
    let jobs = LocalSet::new();
    let all: Vec<_> = (0..8).map(|_| jobs.spawn_local(job(gpus.clone(), Rc::clone(&busy)))).collect();
    jobs.await;
    for job in all {
        println!("a job had GPU {}", job.await??);
    }
    assert_eq!(gpus.available(), 2);
    Ok(())
}

#[test]
fn two_permits_serve_all_jobs() -> Result<(), Box<dyn std::error::Error>> {
    main()
}
