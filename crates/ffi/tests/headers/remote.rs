//! What is on an engine, in three languages: each call of Rust's has its row, and each row is of calls that are there.

use super::own;
use std::collections::BTreeSet;
use std::fs;

/// Rust's call; C's; Python's, of `Remote` or of what it makes. In brackets why there is none.
const CALLS: &[(&str, &str, &str)] = &[
    ("Remote::open", "open", "__new__"),
    ("Remote::connect", "open", "__new__"),
    ("Remote::over", "(an engine of one's own is Rust's)", "(as in C)"),
    ("Remote::pool", "(calls take its name)", "(calls take its name)"),
    ("Remote::mutex", "(calls take its name)", "(calls take its name)"),
    ("Remote::semaphore", "(calls take its name)", "(calls take its name)"),
    ("Remote::tube", "(calls take its name)", "(calls take its name)"),
    ("Remote::create_pool", "create_pool", "create_pool"),
    ("Remote::create_mutex", "create_mutex", "create_mutex"),
    ("Remote::create_semaphore", "create_semaphore", "create_semaphore"),
    ("Remote::create_tube", "create_tube", "create_tube"),
    ("Remote::remove", "remove", "remove"),
    ("Pool::name", "(the caller has it)", "(the caller has it)"),
    ("Pool::acquire", "acquire", "acquire"),
    ("Pool::try_acquire", "acquire", "acquire"),
    ("Pool::acquire_timeout", "acquire", "acquire"),
    ("Pool::acquire_many", "acquire", "acquire"),
    ("Pool::info", "look_at_pool", "look_at_pool"),
    ("Pool::resize", "resize_pool", "resize_pool"),
    ("acquire_any", "acquire", "acquire"),
    ("Permit::check", "check", "check"),
    ("Permit::lost", "lost", "fileno"),
    ("Permit::left", "left", "left"),
    ("Permit::pool", "acquire", "which"),
    ("Permit::indices", "indices", "indices"),
    ("Permit::release", "release", "release"),
    ("Token::get", "check", "check"),
    ("Mutex::name", "(the caller has it)", "name"),
    ("Mutex::lock", "lock", "lock"),
    ("Mutex::try_lock", "lock", "lock"),
    ("Mutex::lock_timeout", "lock", "lock"),
    ("LockError::into_guard", "lock", "lock"),
    ("Guard::name", "(the caller has it)", "name"),
    ("Guard::check", "check", "check"),
    ("Guard::lost", "lost", "fileno"),
    ("Guard::left", "left", "left"),
    ("Guard::owner_died", "lock", "owner_died"),
    ("Guard::make_consistent", "consistent", "consistent"),
    ("Guard::unlock", "release", "release"),
    ("Guard::abandon", "abandon", "abandon"),
    ("Semaphore::name", "(the caller has it)", "(the caller has it)"),
    ("Semaphore::up", "up", "up"),
    ("Semaphore::down", "down", "down"),
    ("Semaphore::try_down", "down", "down"),
    ("Semaphore::down_timeout", "down", "down"),
    ("Semaphore::value", "value", "value"),
    ("Tube::name", "(the caller has it)", "(the caller has it)"),
    ("Tube::sender", "open_sender", "sender"),
    ("Tube::receiver", "open_receiver", "receiver"),
    ("Tube::follower", "open_receiver", "receiver"),
    ("Tube::seal", "seal", "seal"),
    ("Sender::send", "send", "send"),
    ("Sender::send_all", "send", "send_all"),
    ("Sender::abandon", "abandon_sender", "Sender.abandon"),
    ("Sender's drop", "close_sender", "Sender.close"),
    ("Receiver::recv", "recv", "recv"),
    ("Receiver::try_recv", "recv", "recv"),
    ("Receiver::recv_timeout", "recv", "recv"),
    ("Receiver::check", "check_receiver", "Receiver.check"),
    ("Receiver::abandon", "abandon_receiver", "Receiver.abandon"),
    ("Receiver's drop", "close_receiver", "Receiver.close"),
    ("Remote's drop", "close", "(its last reference)"),
];

/// The public calls of these modules of the library, as `Type::call`.
fn of_rust() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for module in ["remote", "permit", "mutex", "semaphore", "tube"] {
        let text = fs::read_to_string(own(&format!("../remote/src/{module}.rs"))).unwrap();
        let (mut of, mut hidden) = (String::new(), false);
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("impl ") {
                of = rest.split([' ', '<']).next().unwrap().to_owned() + "::";
            } else if line == "}" {
                of.clear();
            }
            let name = line.trim_start().strip_prefix("pub fn ").and_then(|rest| rest.split(['(', '<']).next());
            if let Some(name) = name.filter(|_| !hidden) {
                all.insert(of.clone() + name);
            }
            hidden = line.trim() == "#[doc(hidden)]" || hidden && line.trim_start().starts_with("#[");
        }
    }
    all
}

fn named(calls: impl Iterator<Item = &'static str>) -> BTreeSet<&'static str> {
    calls.filter(|call| !call.starts_with('(')).collect()
}

#[test]
fn c_and_python_have_every_call_of_a_remote_object() {
    let rows: BTreeSet<String> =
        CALLS.iter().map(|(call, ..)| (*call).to_owned()).filter(|call| !call.contains('\'')).collect();
    assert_eq!(rows, of_rust(), "left: the table; right: the library");
    let header = fs::read_to_string(own("include/chappe/remote.h")).unwrap();
    let declared = header.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()));
    let c = declared.filter_map(|line| Some(line.split_once('(')?.0.split_once(" chappe_remote_")?.1));
    assert_eq!(named(CALLS.iter().map(|(_, c, _)| *c)), c.collect(), "left: the table; right: the header");
    let (text, compiled) = ("../py/python/chappe/remote.py", "../py/src/remote.rs");
    let [text, compiled] = [text, compiled].map(|path| fs::read_to_string(own(path)).unwrap());
    let mut of = "";
    let mut python = BTreeSet::new();
    for line in text.lines() {
        if let Some(class) = line.strip_prefix("class ") {
            of = class.split([':', '(']).next().unwrap();
        }
        if let Some(name) = line.strip_prefix("    def ").and_then(|rest| rest.split('(').next()) {
            python.extend([name.to_owned(), format!("{of}.{name}")]);
        }
    }
    let methods = compiled.lines().filter_map(|line| line.strip_prefix("    fn ")?.split('(').next());
    python.extend(methods.map(|name| if name == "new" { "__new__".into() } else { name.to_owned() }));
    let lacks: Vec<&str> =
        named(CALLS.iter().map(|(.., python)| *python)).into_iter().filter(|call| !python.contains(*call)).collect();
    assert_eq!(lacks, [""; 0]);
}
