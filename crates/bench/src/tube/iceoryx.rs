//! iceoryx2 as a way between processes: a topic with one publisher and one subscriber, which copy the record in and out as all others in
//! the tables do. Only with the feature `iceoryx2`.
//!
//! A subscriber cannot wait. It asks again and again, or waits for an event that the publisher raises after each record.
//! A publisher that finds no room tries again until there is.

use crate::tube::floor::Waiting;
use crate::tube::wire::Wire;
use iceoryx2::port::backpressure_strategy::BackpressureStrategy;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};

const ROOM: usize = 64;

/// What its names in /dev/shm begin with.
fn prefix() -> String {
    format!("chappe-bench-{}-iceoryx2-", std::process::id())
}

/// Removes what it leaves in /dev/shm for later runs; nothing else does.
pub fn clean() {
    let files = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    for file in files.filter(|f| f.file_name().as_encoded_bytes().starts_with(prefix().as_bytes())) {
        // A file left behind is no reason to fail.
        let _ = std::fs::remove_file(file.path());
    }
}

/// A topic, of which there is nothing until an end is taken.
pub struct Topic {
    config: Config,
    name: ServiceName,
    record: usize,
    waiting: Waiting,
}

impl Topic {
    /// For records of this length; its files lie with the arenas.
    ///
    /// # Panics
    /// When there is no [`House`](crate::house::House).
    pub fn new(record: usize, waiting: Waiting) -> Topic {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        set_log_level(LogLevel::Error);
        let mut config = Config::default();
        let root = std::env::var("CHAPPE_DIR").expect("the house names its directory") + "/iceoryx2";
        let root = Path::new(root.as_bytes()).expect("a path that it accepts");
        config.global.set_root_path(&root);
        config.global.prefix = FileName::new(prefix().as_bytes()).expect("a name that it accepts");
        let name = format!("topic-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        Topic { config, name: ServiceName::new(&name).expect("a name that it accepts"), record, waiting }
    }

    /// One for each way.
    pub fn pair(record: usize, waiting: Waiting) -> [Topic; 2] {
        [Topic::new(record, waiting), Topic::new(record, waiting)]
    }

    fn open(&self) -> Services {
        let node = NodeBuilder::new()
            .config(&self.config)
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()
            .expect("a node");
        let topic = node
            .service_builder(&self.name)
            .publish_subscribe::<[u8]>()
            .max_publishers(1)
            .max_subscribers(1)
            .history_size(0)
            .subscriber_max_buffer_size(ROOM)
            .enable_safe_overflow(false)
            .open_or_create()
            .expect("a topic");
        let events = node.service_builder(&self.name).event().open_or_create().expect("events");
        Services { topic, events, _node: node }
    }
}

/// What an end needs, in the process that has it.
struct Services {
    topic: publish_subscribe::PortFactory<ipc::Service, [u8], ()>,
    events: event::PortFactory<ipc::Service>,
    _node: Node<ipc::Service>,
}

impl Wire for Topic {
    fn sender(&self) -> impl FnMut(&[u8]) {
        let services = self.open();
        let publisher = services
            .topic
            .publisher_builder()
            .initial_max_slice_len(self.record)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()
            .expect("a publisher");
        let notifier = services.events.notifier_builder().create().expect("a notifier");
        move |record| {
            let _keep = &services;
            let copied = || publisher.loan_slice_uninit(record.len()).expect("room").write_from_slice(record);
            // A subscriber is not connected before its first look; what finds no room until then is lost.
            while copied().send().expect("a topic") == 0 {
                spin_loop();
            }
            if self.waiting == Waiting::Asleep {
                notifier.notify().expect("somebody listens");
            }
        }
    }

    fn receiver(&self) -> impl FnMut(&mut [u8]) {
        let services = self.open();
        let subscriber = services.topic.subscriber_builder().create().expect("a subscriber");
        let listener = services.events.listener_builder().create().expect("a listener");
        move |record| {
            let _keep = &services;
            loop {
                if let Some(sample) = subscriber.receive().expect("a topic") {
                    record.copy_from_slice(&sample);
                    return;
                }
                match self.waiting {
                    Waiting::Spinning => spin_loop(),
                    Waiting::Asleep => drop(listener.blocking_wait(|_| {}).expect("events")),
                }
            }
        }
    }
}
