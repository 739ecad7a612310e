//! Engines for tests: nodes of etcd on loopback, with data of their own, which end with those that use them, or with the test program.

use std::ffi::OsString;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The engine that `cargo xtask engines` has built; `None`, with a line that says so: there is none.
pub fn program(name: &str) -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("engines").join(name);
    if built.exists() {
        return Some(built);
    }
    not_tested("what needs an engine: `cargo xtask engines` builds one, with Go");
    None
}

/// Says that something is not tested here, and why. `cargo xtask test` repeats it at its end.
pub fn not_tested(what: &str) {
    // Not by a macro: those are heard only of tests that fail.
    let _ = writeln!(std::io::stderr(), "not tested: {what}");
}

/// Some nodes that know each other.
pub struct Nodes {
    /// HOST:PORT of each, for clients.
    pub endpoints: Vec<String>,
    /// Its process, of each.
    pub pids: Vec<i32>,
    directory: PathBuf,
    /// The thread that started them: the kernel ends them with it.
    starter: Option<(Sender<()>, std::thread::JoinHandle<()>)>,
}

impl Nodes {
    /// Three nodes, which all tests have that run at the same time.
    pub fn three() -> Option<Arc<Nodes>> {
        static ALL: Mutex<Weak<Nodes>> = Mutex::new(Weak::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(nodes) = all.upgrade() {
            return Some(nodes);
        }
        let nodes = Arc::new(Nodes::own(3, &[])?);
        *all = Arc::downgrade(&nodes);
        Some(nodes)
    }

    /// Nodes of one's own, with more arguments; `https://` among them is what they speak to clients.
    pub fn own(many: usize, more: &[&str]) -> Option<Nodes> {
        // What they promise about power cuts is not looked at here.
        Some(Nodes::start(&program("etcd")?, many, &[&["--unsafe-no-fsync"], more].concat()))
    }

    /// Nodes of this program.
    pub fn start(etcd: &Path, many: usize, more: &[&str]) -> Nodes {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: each gets another, whatever the order.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (all, name) = (Path::new(env!("CARGO_TARGET_TMPDIR")), format!("nodes-{}-{number}", std::process::id()));
        sweep(all);
        let directory = all.join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let scheme = if more.contains(&"--cert-file") { "https" } else { "http" };
        let (clients, peers) = (ports(many), ports(many));
        let peer = |at: usize| format!("n{at}=http://127.0.0.1:{}", peers[at]);
        let cluster = (0..many).map(peer).collect::<Vec<_>>().join(",");
        let commands: Vec<Command> = (0..many)
            .map(|at| {
                let (client, peer) = (format!("{scheme}://127.0.0.1:{}", clients[at]), peer(at));
                let peer = peer.split_once('=').unwrap().1;
                let data: OsString = directory.join(format!("n{at}")).into();
                let log = std::fs::File::create(directory.join(format!("n{at}.log"))).unwrap();
                let mut command = Command::new(etcd);
                command.args(["--name", &format!("n{at}"), "--data-dir"]).arg(data);
                command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
                command.args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]);
                command.args(["--initial-cluster", &cluster, "--log-level", "error"]).args(more);
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
                // SAFETY: between fork and exec only a system call is made.
                unsafe {
                    command.pre_exec(|| {
                        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                        Ok(())
                    });
                }
                command
            })
            .collect();
        let ((stop, stopped), (told, pids)) = (channel(), channel());
        let starter = std::thread::spawn(move || {
            let mut nodes: Vec<Child> = commands.into_iter().map(|mut command| command.spawn().unwrap()).collect();
            told.send(nodes.iter().map(|node| node.id() as i32).collect()).unwrap();
            let _ = stopped.recv();
            for node in &mut nodes {
                let _ = node.kill();
                let _ = node.wait();
            }
        });
        let endpoints = clients.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        Nodes { endpoints, directory, pids: pids.recv().unwrap(), starter: Some((stop, starter)) }
    }

    /// A namespace there, as a URL.
    pub fn url(&self, namespace: &str) -> String {
        format!("etcd://{}/{namespace}", self.endpoints.join(","))
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        if let Some((stop, starter)) = self.starter.take() {
            drop(stop);
            let _ = starter.join();
        }
        if std::thread::panicking() {
            for at in 0..self.pids.len() {
                let log = std::fs::read_to_string(self.directory.join(format!("n{at}.log"))).unwrap_or_default();
                eprintln!("node {at} said: {}", log.get(..2000).unwrap_or(&log));
            }
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Removes the data of nodes whose test program was killed: its nodes have ended with it.
fn sweep(all: &Path) {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix("nodes-")?.split('-').next()?.parse::<u32>().ok());
        if of.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another program may do so at the same time.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Ports that are free now.
fn ports(many: usize) -> Vec<u16> {
    let all: Vec<TcpListener> = (0..many).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    all.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}
