//! `chappe gpus`, as it is written.

use crate::time::parse;
use std::time::Duration;

/// `chappe gpus`.
#[derive(clap::Args, Debug)]
pub struct Gpus {
    /// Leave out GPUs on which a program computes that has no permit (asks nvidia-smi)
    #[arg(long)]
    pub idle: bool,
    /// Give the driver's tool at most this long to answer (500ms, 30s, 5m, 1h, or seconds)
    #[arg(long, value_name = "DURATION", value_parser = parse, default_value = "60s")]
    pub timeout: Duration,
}

pub const SHORT: &str = "\
Examples:
  chappe acquire --env CUDA_VISIBLE_DEVICES $(chappe gpus) -- train
  chappe acquire --env ROCR_VISIBLE_DEVICES $(chappe gpus) -- train";

pub const END: &str = "\
Examples:
  chappe acquire --env CUDA_VISIBLE_DEVICES $(chappe gpus) -- train
  until gpus=$(chappe gpus --idle); do [ $? = 124 ] || exit; sleep 10; done
  chappe acquire --env CUDA_VISIBLE_DEVICES $gpus -- train

Which GPUs:
  those that nvidia-smi, else rocm-smi, else /proc/driver/nvidia lists.
  Of a GPU that is parted (MIG), its instances.

A GPU that has fallen off the bus is in no list: its pool is removed, and a
message says so. While a job has its permit the pool stays, since this caller
may see a part of the GPUs only, and the message names the job:
`chappe rm --force GPU` removes it all the same. Then jobs that wait for
several GPUs go on waiting for the others, at the end of their lines, and one
that waits for this one alone ends with 125.

Exit status:
  0 done; 1 there is no GPU to use, or no driver's tool answers; 2 wrong usage;
  124 by --idle: all GPUs are in use just now

With --json:
  {\"gpus\": [TEXT], \"passed_over\": [TEXT] (by --idle),
    \"removed\": [TEXT]}";
