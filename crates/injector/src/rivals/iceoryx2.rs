//! iceoryx2 in the storms: a publish-subscribe service. Only with the feature `iceoryx2`.
//!
//! Its own configuration has dead nodes seen to whenever a node is made, a service is opened, and a node goes: that is
//! left on, and besides every process calls `blocking_cleanup_dead_nodes` between making a node and opening the service. The limits
//! of the service are well above what the storm needs. The configuration is made the *global* one: where a dead node
//! has left no details of itself, that is where the library looks.
//!
//! The last resort is `force_remove_service`, for when no other process uses it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;

use super::subject::{Here, Storm, Subject, for_a_second, message, read};

/// All of them.
pub fn all() -> Vec<Box<dyn Subject>> {
    vec![Box::new(Topic(Storm::Churned)), Box::new(Topic(Storm::Kept)), Box::new(Topic(Storm::Steady))]
}

struct Topic(Storm);

/// What the names in /dev/shm begin with, for the process of this number.
fn prefix(pid: &str) -> String {
    format!("chappe-injector-iceoryx2-{pid}-")
}

fn own_prefix() -> String {
    prefix(&std::process::id().to_string())
}

fn configuration(home: &Path) -> PathBuf {
    home.join("iceoryx2.toml")
}

fn because<E: std::fmt::Debug>(what: &str) -> impl Fn(E) -> String {
    move |e| format!("{what}: {e:?}")
}

/// The storm's configuration, global from here on.
fn configured(here: &Here) -> Result<&'static Config, String> {
    set_log_level(LogLevel::Fatal);
    let file = configuration(here.home);
    let file = FilePath::new(file.as_os_str().as_encoded_bytes()).map_err(because("the configuration's path"))?;
    Config::setup_global_config_from_file(&file).map_err(because("the configuration"))
}

fn made(config: &Config) -> Result<Node<ipc::Service>, String> {
    let builder = NodeBuilder::new().config(config).signal_handling_mode(SignalHandlingMode::Disabled);
    builder.create::<ipc::Service>().map_err(because("making a node"))
}

/// A node, the dead seen to.
fn node(here: &Here) -> Result<Node<ipc::Service>, String> {
    let node = made(configured(here)?)?;
    node.blocking_cleanup_dead_nodes(Duration::from_millis(100));
    Ok(node)
}

fn name() -> ServiceName {
    ServiceName::new("churn").expect("a name that it accepts")
}

fn topic(node: &Node<ipc::Service>) -> Result<PortFactory<ipc::Service, u64, ()>, String> {
    node.service_builder(&name())
        .publish_subscribe::<u64>()
        .max_publishers(32)
        .max_subscribers(32)
        .max_nodes(64)
        .subscriber_max_buffer_size(16)
        .open_or_create()
        .map_err(because("opening or creating the service"))
}

fn publisher(topic: &PortFactory<ipc::Service, u64, ()>) -> Result<Publisher<ipc::Service, u64, ()>, String> {
    topic.publisher_builder().create().map_err(because("making a publisher"))
}

fn subscriber(topic: &PortFactory<ipc::Service, u64, ()>) -> Result<Subscriber<ipc::Service, u64, ()>, String> {
    topic.subscriber_builder().create().map_err(because("making a subscriber"))
}

fn send(out: &Publisher<ipc::Service, u64, ()>, message: u64) -> Result<(), String> {
    out.send_copy(message).map(drop).map_err(because("sending"))
}

fn receive(into: &Subscriber<ipc::Service, u64, ()>) -> Result<Option<u64>, String> {
    let sample = into.receive().map_err(because("receiving"))?;
    sample.map(|sample| read(*sample).map(|_| *sample)).transpose()
}

impl Topic {
    fn turn(here: &mut Here) -> Result<(), String> {
        let node = node(here)?;
        let topic = topic(&node)?;
        let (out, into) = (publisher(&topic)?, subscriber(&topic)?);
        for number in 0..4 {
            send(&out, message(here.place(), number))?;
            here.dawdle(50);
        }
        for _ in 0..4 {
            receive(&into)?;
            here.dawdle(50);
        }
        Ok(())
    }

    fn stream(here: &mut Here) -> Result<(), String> {
        let node = node(here)?;
        let topic = topic(&node)?;
        let out = publisher(&topic)?;
        here.ready();
        let mut number = read(here.next())?.1;
        while !here.is_over() {
            send(&out, message(here.place(), number))?;
            number += 1;
            here.done(Ok(()));
            here.dawdle(30);
        }
        Ok(())
    }

    fn listen(here: &mut Here) -> Result<(), String> {
        let node = node(here)?;
        let topic = topic(&node)?;
        let into = subscriber(&topic)?;
        here.ready();
        while !here.is_over() {
            match receive(&into)? {
                Some(message) => here.hear(message)?,
                None => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        Ok(())
    }

    /// Keeps the service, and takes no part.
    fn hold(here: &mut Here) -> Result<(), String> {
        let node = node(here)?;
        let _topic = topic(&node)?;
        here.ready();
        while !here.is_over() {
            std::thread::sleep(Duration::from_millis(5));
            node.blocking_cleanup_dead_nodes(Duration::ZERO);
        }
        Ok(())
    }
}

impl Subject for Topic {
    fn name(&self) -> &'static str {
        "iceoryx2, topic"
    }

    fn storm(&self) -> Storm {
        self.0
    }

    fn set(&self, home: &Path) -> Result<(), String> {
        self.clean();
        let root = home.join("iceoryx2");
        let text = format!("[global]\nroot-path = {:?}\nprefix = {:?}\n", root, own_prefix());
        std::fs::write(configuration(home), text).map_err(|e| e.to_string())
    }

    fn keep(&self, here: &mut Here) {
        let came = if self.0 == Storm::Steady { Topic::listen(here) } else { Topic::hold(here) };
        here.done(came);
    }

    fn work(&self, here: &mut Here) {
        match self.0 {
            Storm::Steady => {
                let came = Topic::stream(here);
                here.done(came);
            }
            _ => here.turns(Topic::turn),
        }
    }

    fn prove(&self, here: &mut Here) -> Result<(), String> {
        let node = node(here)?;
        let topic = topic(&node)?;
        let out = publisher(&topic)?;
        if self.0 == Storm::Steady {
            return here.be_heard(|message| send(&out, message));
        }
        let into = subscriber(&topic)?;
        for_a_second("nothing was received", || {
            send(&out, message(here.place(), 0))?;
            Ok(receive(&into)?.is_some())
        })
    }

    fn last_resort(&self, here: &mut Here) -> Option<Result<(), String>> {
        let force = || {
            let mut config = configured(here)?.clone();
            // The code that recovers the dead may be what hangs.
            config.global.node.cleanup_dead_nodes_on_creation = false;
            config.global.node.cleanup_dead_nodes_on_destruction = false;
            let node = made(&config)?;
            // SAFETY: the storm is over: no other process uses the service.
            let removed = unsafe { node.force_remove_service(&name(), MessagingPattern::PublishSubscribe) };
            removed.map(drop).map_err(because("force_remove_service"))
        };
        Some(force())
    }

    /// Files in /dev/shm: this process's, and those of earlier ones that were killed.
    fn clean(&self) {
        for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            let file = entry.file_name();
            let Some(rest) = file.to_str().and_then(|f| f.strip_prefix("chappe-injector-iceoryx2-")) else { continue };
            let Some((pid, _)) = rest.split_once('-') else { continue };
            let ours = pid.parse() == Ok(std::process::id());
            if ours || !Path::new("/proc").join(pid).exists() {
                // One left behind is no reason to fail.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
