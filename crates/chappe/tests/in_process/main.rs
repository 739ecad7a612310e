//! Objects between the threads of one process, in one program: what its suites share is built and linked once. None of them counts what
//! the process has, forks, or is started again as an actor: those have a program each. One that is to be alone starts itself again.

#[path = "../house/asleep.rs"]
mod asleep;
#[path = "../house/mod.rs"]
#[allow(dead_code, reason = "not every program uses all of it")]
mod house;

mod damaged;
mod deadlines;
mod helplock;
mod helplock_light;
mod long_queue;
mod model;
mod mutex_threads;
mod owned_slots;
mod priority;
mod select_macro;
mod semaphore_ends;
mod semaphore_model;
mod semaphore_order;
mod semaphore_units;
mod task_barriers;
mod task_choice;
mod task_crowds;
mod task_locks;
mod task_tubes;
mod task_wakers;
mod tasks;
mod threads;
mod tubes;
mod turnover;
mod woken;
mod words;
