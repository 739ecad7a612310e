//! One of a laboratory's GPUs, whichever is free first, for as long as this process certainly has it: pools on etcd, which many machines share.
//!
//! ```sh
//! chappe pool create --on etcd://127.0.0.1/lab gpu0 gpu1
//! cargo run --example remote_pool --features remote -- etcd://127.0.0.1/lab
//! ```

use chappe::remote::{self, Patience, Remote, Token};
use chappe::{Semaphore, select};
use std::error::Error;
use std::time::Duration;

/// What a store does that is written to under a permit: it refuses a writer that has been followed by another.
fn write(newest: &mut Option<Token>, token: Token, step: u32) -> Result<(), Box<dyn Error>> {
    if newest.is_some_and(|newest| token < newest) {
        return Err(format!("step {step}: token {token} is old").into());
    }
    *newest = Some(token);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(place) = std::env::args().nth(1) else { return Err("say where the engine is: @NAME or a URL".into()) };
    let lab = Remote::open(&place)?;
    let (gpu0, gpu1) = (lab.pool("gpu0")?, lab.pool("gpu1")?);
    let (which, permit) = remote::acquire_any(&[&gpu0, &gpu1], Patience::For(Duration::from_secs(60)))?;
    println!("GPU {which}");
    let (done, mut newest) = (Semaphore::private(0)?, None);
    for step in 0..10 {
        write(&mut newest, permit.check()?, step)?;
        done.up()?;
        // Whatever is waited for, the loss of the permit is heard of.
        select! {
            down(done) -> said => said?,
            readable(permit) -> _ => break,
        }
    }
    Ok(permit.release()?)
}
