//! Engines that cannot be used, and what they are told apart by.

use crate::control::{etcdctl, signal, until};
use crate::nodes::{Nodes, not_tested};
use crate::person::{Person, Told, options};
use chappe_remote::RemoteError;
use chappe_remote::acquire::Outcome;
use chappe_remote::engine::{Engine, EngineError, Op, Txn};
use chappe_remote::etcd::{Etcd, Options};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Has no patience with those that are not there.
fn hurried(url: &str) -> Options {
    Options { connect_timeout: Duration::from_millis(300), ..Options::parse(url).unwrap() }
}

fn said(options: &Options) -> String {
    Etcd::connect(options).expect_err("it is refused").to_string()
}

fn put(value: String) -> Txn {
    Txn::of(vec![Op::Put { key: "chappe/1/n/x".into(), value: value.into_bytes(), lease: None }])
}

#[test]
#[ignore = "storm: it waits for engines that are not there"]
fn each_endpoint_that_does_not_answer_is_named_with_its_reason() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (silent, nobody) = (silent.local_addr().unwrap().port(), {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap();
        closed.local_addr().unwrap().port()
    });
    let said = said(&hurried(&format!("etcd://127.0.0.1:{silent},127.0.0.1:{nobody},no-such-host.invalid/n")));
    for part in ["127.0.0.1:", "no answer within", "refused", "no-such-host.invalid:2379"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// An engine of a distribution that ends living leases.
fn old() -> Option<&'static Path> {
    let at = Path::new("/usr/bin/etcd");
    let out = Command::new(at).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.contains("etcd Version: 3.4.2").then_some(at)
}

#[test]
#[ignore = "storm: it starts an engine"]
fn an_engine_that_ends_living_leases_is_refused_by_name() {
    let Some(old) = old() else {
        not_tested("an old engine is refused: /usr/bin/etcd is none (Debian's etcd-server is 3.4.23)");
        return;
    };
    let nodes = Nodes::start(old, 1, &[]);
    let options = options(&nodes, "n");
    let said = said(&options);
    for part in ["etcd 3.4.2", "ends leases that are being renewed", "3.5.13", "--allow-old-engine"] {
        assert!(said.contains(part), "{said}");
    }
    let allowed = Options { allow_old_engine: true, ..options };
    let person = Person::with(&allowed);
    person.create("a", 1);
    let grant = person.takes(&["a"], 1);
    person.gives("a", &grant);
}

#[test]
#[ignore = "storm: it starts engines"]
fn without_a_quorum_nothing_begins_and_what_is_under_way_ends_at_its_deadline() {
    let Some(nodes) = Nodes::own(3, &[]) else { return };
    let person = Person::brief(&nodes, "n");
    person.create("a", 1);
    let grant = person.takes(&["a"], 1);
    signal(&nodes, 0, libc::SIGSTOP);
    signal(&nodes, 1, libc::SIGSTOP);
    // What is stopped may still be answering.
    until("the engine answers nothing", || person.etcd.grant(crate::person::TTL).is_err());
    let other = Etcd::connect(&hurried(&nodes.url("n"))).map(|etcd| etcd.session(crate::person::TTL));
    assert!(matches!(other, Err(RemoteError::Unreachable { .. }) | Ok(Err(EngineError::Unknown(_)))), "{other:?}");
    until("the session is over", || person.session.is_over());
    signal(&nodes, 0, libc::SIGCONT);
    signal(&nodes, 1, libc::SIGCONT);
    let next = Person::of(&nodes, "n").takes(&["a"], 1);
    assert!(next.token > grant.token);
}

#[test]
#[ignore = "storm: it starts an engine"]
fn a_full_engine_says_what_to_do_and_nothing_is_granted() {
    let Some(nodes) = Nodes::own(1, &["--quota-backend-bytes", "2000000"]) else { return };
    let person = Person::of(&nodes, "n");
    person.create("a", 1);
    let refused = (0..100).find_map(|_| person.etcd.txn(&put("x".repeat(400_000))).err());
    match refused {
        Some(EngineError::Full(why)) => assert!(why.contains("compact and defragment it"), "{why}"),
        other => panic!("{other:?}"),
    }
    match person.tries(&["a"], 1, true, &Told::default()) {
        Ok(Outcome::Refused(why)) => assert!(why.contains("quota"), "{why}"),
        other => panic!("{other:?}"),
    }
    let statuses = Etcd::statuses(&options(&nodes, "n")).unwrap();
    assert!(statuses[0].errors.iter().any(|error| error.contains("NOSPACE")), "{statuses:?}");
}

#[test]
#[ignore = "storm: it starts an engine"]
fn a_user_has_its_namespace_and_proves_itself_again_when_it_must() {
    let Some(nodes) = Nodes::own(1, &["--bcrypt-cost", "4"]) else { return };
    drop(Etcd::connect(&options(&nodes, "n")).unwrap());
    for line in [
        "user add root:secret",
        "user grant-role root root",
        "role add lab",
        "role grant-permission lab --prefix=true readwrite chappe/1/n/",
        "user add ann:pass",
        "user grant-role ann lab",
        "auth enable",
    ] {
        etcdctl(&nodes, &line.split(' ').collect::<Vec<_>>());
    }
    let user = |name: &str, password: &str, namespace: &str| Options {
        user: Some((name.into(), password.into())),
        ..options(&nodes, namespace)
    };
    let nobody = match Etcd::connect(&options(&nodes, "n")) {
        Ok(etcd) => etcd.txn(&put("1".into())).expect_err("it has no user").to_string(),
        Err(e) => e.to_string(),
    };
    assert!(nobody.contains("wants a user and a password"), "{nobody}");
    let wrong = said(&user("ann", "wrong", "n"));
    assert!(wrong.contains("user `ann`") && wrong.contains("authentication failed"), "{wrong}");
    let ann = Person::with(&user("ann", "pass", "n"));
    ann.create("a", 1);
    let grant = ann.takes(&["a"], 1);
    // Whose role is deleted, is not believed any more what it has proved before.
    for line in ["role add gone", "user grant-role ann gone", "role delete gone"] {
        etcdctl(&nodes, &["--user", "root:secret"].into_iter().chain(line.split(' ')).collect::<Vec<_>>());
    }
    ann.gives("a", &grant);
    let other = Person::with(&user("ann", "pass", "other"));
    let refused = other.tries(&["a"], 1, true, &Told::default());
    match refused {
        Ok(Outcome::Refused(why)) => assert!(why.contains("readwrite on the namespace's prefix"), "{why}"),
        other => panic!("{other:?}"),
    }
}
