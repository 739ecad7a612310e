//! How much room the files below a directory take: a parallel walk. Directories go through a tube to some light threads; what they find goes
//! through another.
//!
//! ```sh
//! cargo run --release --example du -- /usr/share
//! ```

use chappe::thread::{self, Runtime};
use chappe::tube::unbounded;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A file: how many bytes it takes on the disk, and, if it has several names, what tells it from others.
type Found = (u64, Option<(u64, u64)>);

fn found(of: &fs::Metadata) -> Found {
    let many = of.nlink() > 1 && !of.is_dir();
    (of.blocks() * 512, many.then(|| (of.dev(), of.ino())))
}

/// What is in a directory: the files' sizes, and the directories.
fn read(dir: &Path) -> io::Result<(Vec<Found>, Vec<PathBuf>)> {
    let (mut files, mut dirs) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // Of a link itself, not of what it leads to.
        let about = entry.metadata()?;
        files.push(found(&about));
        if about.is_dir() {
            dirs.push(entry.path());
        }
    }
    Ok((files, dirs))
}

/// The bytes of all below, and how many directories could not be read.
fn du(root: &Path, workers: usize) -> io::Result<(u64, usize)> {
    let (to_read, reads) = unbounded::<PathBuf>();
    let (tell, told) = unbounded();
    for _ in 0..workers {
        let (reads, tell) = (reads.clone(), tell.clone());
        drop(thread::spawn(move || {
            while let Ok(dir) = reads.recv() {
                // The disk may take its time: the others of this proc go on.
                let found = thread::block_in_place(|| read(&dir));
                if tell.send((dir, found)).is_err() {
                    return;
                }
            }
        }));
    }
    let (mut total, _) = found(&fs::symlink_metadata(root)?);
    let (mut open, mut failed, mut seen) = (1, 0, HashSet::new());
    to_read.send(root.to_owned()).expect("somebody reads");
    while open > 0 {
        let (dir, found) = told.recv().expect("somebody tells");
        open -= 1;
        match found {
            Ok((files, dirs)) => {
                let new = files.into_iter().filter(|(_, file)| file.is_none_or(|file| seen.insert(file)));
                total += new.map(|(bytes, _)| bytes).sum::<u64>();
                open += dirs.len();
                dirs.into_iter().for_each(|dir| to_read.send(dir).expect("somebody reads"));
            }
            Err(e) => {
                eprintln!("du: {}: {e}", dir.display());
                failed += 1;
            }
        }
    }
    Ok((total, failed))
}

fn main() -> ExitCode {
    let roots: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let procs = std::thread::available_parallelism().map_or(1, usize::from).min(64);
    let runtime = match Runtime::new(procs) {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("du: {e}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = 0;
    for root in if roots.is_empty() { vec![PathBuf::from(".")] } else { roots } {
        match runtime.run(|| du(&root, 4 * procs)) {
            Ok((bytes, some)) => {
                println!("{}\t{}", bytes.div_ceil(1024), root.display());
                failed += some;
            }
            Err(e) => {
                eprintln!("du: {}: {e}", root.display());
                failed += 1;
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[test]
fn it_finds_what_du_finds() {
    let root = std::env::temp_dir().join(format!("chappe-du-{}", std::process::id()));
    for dir in 0..20 {
        let dir = root.join(format!("{dir}/deep/er"));
        fs::create_dir_all(&dir).unwrap();
        (0..10).for_each(|file| fs::write(dir.join(file.to_string()), vec![1; file * 3000]).unwrap());
        fs::hard_link(dir.join("7"), dir.join("again")).unwrap();
        std::os::unix::fs::symlink("/", dir.join("away")).unwrap();
    }
    let theirs = std::process::Command::new("du").args(["-s", "--block-size=1"]).arg(&root).output().unwrap();
    let theirs = String::from_utf8(theirs.stdout).unwrap();
    for procs in [1, 2] {
        let (bytes, failed) = Runtime::new(procs).unwrap().run(|| du(&root, 4)).unwrap();
        assert_eq!((Some(bytes.to_string().as_str()), failed), (theirs.split('\t').next(), 0));
    }
    fs::remove_dir_all(&root).unwrap();
}
