//! TLS: what is wrong is said by its name.

use crate::nodes::{Nodes, not_tested};
use crate::person::Person;
use chappe_remote::etcd::{Etcd, Options, Tls};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Certificates, in a directory that goes with this.
struct Papers(PathBuf);

impl Papers {
    /// An authority and another, a certificate of the engine and one that has expired, and a client's.
    fn made() -> Option<Papers> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: each gets another, whatever the order.
        let name = format!("papers-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&to).unwrap();
        let papers = Papers(to);
        let script = r#"
            set -e
            for ca in ca other; do
                openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $ca.key -out $ca.pem -subj /CN=$ca -days 2 \
                    -addext basicConstraints=critical,CA:TRUE
            done
            for one in server client expired; do
                openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $one.key -out $one.csr -subj /CN=$one
                days=2
                [ $one = expired ] && days=-1
                printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n' > $one.ext
                openssl x509 -req -in $one.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out $one.pem -days $days -extfile $one.ext
            done"#;
        let out = Command::new("sh").args(["-c", script]).current_dir(&papers.0).output().unwrap();
        if !out.status.success() {
            let why = String::from_utf8_lossy(&out.stderr);
            not_tested(&format!("TLS: openssl cannot make certificates: {why}"));
            return None;
        }
        Some(papers)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap()
    }
}

impl Drop for Papers {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(url: &str, tls: Option<Tls>, seconds: u64) -> Options {
    Options { tls, connect_timeout: Duration::from_secs(seconds), ..Options::parse(url).unwrap() }
}

#[test]
#[ignore = "storm: it starts engines"]
fn a_bad_certificate_is_reported_with_the_reason() {
    let Some(papers) = Papers::made() else { return };
    let (cert, key, ca) = (papers.at("server.pem"), papers.at("server.key"), papers.at("ca.pem"));
    let secured = ["--cert-file", &cert, "--key-file", &key, "--client-cert-auth", "--trusted-ca-file", &ca];
    let Some(nodes) = Nodes::own(1, &secured) else { return };
    let (plain, url) = (nodes.url("n"), nodes.url("n").replace("etcd:", "etcds:"));
    let own = || Some((papers.read("client.pem"), papers.read("client.key")));
    let right = Tls { ca: Some(papers.read("ca.pem")), own: own() };
    let person = Person::with(&options(&url, Some(right.clone()), 60));
    person.create("a", 1);
    let grant = person.takes(&["a"], 1);
    person.gives("a", &grant);

    let said =
        |url: &str, tls: Option<Tls>| Etcd::connect(&options(url, tls, 1)).expect_err("it is refused").to_string();
    let other = said(&url, Some(Tls { ca: Some(papers.read("other.pem")), own: own() }));
    assert!(other.contains("not from the authority in `ca`"), "{other}");
    let without = said(&url, Some(Tls { ca: Some(papers.read("ca.pem")), own: None }));
    assert!(without.contains("`cert` and `key`"), "{without}");
    let no_ca = said(&url, Some(Tls::default()));
    assert!(no_ca.contains("`ca`"), "{no_ca}");
    let plainly = said(&plain, None);
    assert!(plainly.contains("etcds://"), "{plainly}");
    let name = said(&url.replace("127.0.0.1", "localhost"), Some(right.clone()));
    assert!(name.contains("for another name"), "{name}");
    let broken = said(&url, Some(Tls { ca: Some(b"no certificate".to_vec()), own: None }));
    assert!(broken.contains("`ca`"), "{broken}");

    let Some(open) = Nodes::own(1, &[]) else { return };
    drop(Etcd::connect(&options(&open.url("n"), None, 60)).unwrap());
    let tls = said(&open.url("n").replace("etcd:", "etcds:"), Some(right));
    assert!(tls.contains("it does not speak TLS"), "{tls}");
}

#[test]
#[ignore = "storm: it starts an engine"]
fn a_certificate_that_has_expired_is_refused() {
    let Some(papers) = Papers::made() else { return };
    let (cert, key) = (papers.at("expired.pem"), papers.at("expired.key"));
    let Some(nodes) = Nodes::own(1, &["--cert-file", &cert, "--key-file", &key]) else { return };
    let url = nodes.url("n").replace("etcd:", "etcds:");
    let tls = Some(Tls { ca: Some(papers.read("ca.pem")), own: None });
    let said = Etcd::connect(&options(&url, tls, 5)).expect_err("it is refused").to_string();
    assert!(said.contains("has expired"), "{said}");
}
