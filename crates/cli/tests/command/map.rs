//! Maps, as shell users have them.

use crate::place::{Place, feed, until};
use serde_json::json;
use std::process::Stdio;

#[test]
fn an_entry_is_found_until_it_is_deleted() {
    let here = Place::new();
    assert_eq!(here.ok(&["map", "create", "shards", "-m", "2"]), "");
    here.ok(&["map", "put", "shards", "a", "host1"]);
    assert_eq!(here.ok(&["map", "get", "shards", "a"]), "host1\n");
    assert_eq!(here.ok(&["map", "get", "shards", "a", "--raw"]), "host1");
    assert_eq!(here.fails(1, &["map", "get", "shards", "b"]), "");
    assert_eq!(here.fails(1, &["map", "put", "shards", "a", "host2", "--new"]), "");
    assert_eq!(here.fails(1, &["map", "put", "shards", "a", "host2", "--if", "host3"]), "");
    here.ok(&["map", "put", "shards", "a", "host2", "--if", "host1"]);
    here.ok(&["map", "put", "shards", "b", "tab\there", "--new"]);
    assert_eq!(here.ok(&["map", "ls", "shards"]).lines().next(), Some("a\thost2"));
    let full = here.fails(1, &["map", "put", "shards", "c", "x"]);
    assert!(full.starts_with("chappe: map `shards` is full: it was made for 2 entries"), "{full}");
    let row = &here.json(&["ls"])[0];
    assert_eq!((&row["kind"], &row["used"], &row["entries"]), (&json!("map"), &json!(2), &json!(2)));
    assert!(
        here.ok(&["show", "shards"]).starts_with("shards: map, 2 of 2 entries, keys of 64 and values of 256 bytes")
    );
    let used = here.fails(1, &["map", "rm", "shards"]);
    let keys = here.fails(1, &["map", "rm", "shards", "k1"]);
    assert!(keys.contains("there is no map `k1`") && keys.contains("`chappe map delete shards k1`"), "{keys}");
    assert!(used.contains("in use: 2 entries in it") && used.contains("--force"), "{used}");
    here.fails(1, &["map", "delete", "shards", "b", "--if", "x"]);
    assert_eq!(here.json(&["map", "delete", "shards", "a"]), json!({"key": "a", "old": "host2", "done": true}));
    here.ok(&["map", "del", "shards", "b"]);
    here.fails(1, &["map", "delete", "shards", "b"]);
    here.ok(&["map", "rm", "shards"]);
    assert_eq!(here.ok(&["ls"]), "");
}

#[test]
fn a_line_that_is_put_is_the_line_that_is_got() {
    let here = Place::new();
    here.ok(&["map", "create", "m"]);
    for (raw, got) in [(&[][..], "host3\n"), (&["--raw"], "host3\n\n")] {
        let mut child = here.command(&[&["map", "put", "m", "k"], raw].concat()).stdin(Stdio::piped()).spawn().unwrap();
        feed(&mut child, b"host3\n");
        assert!(child.wait().unwrap().success());
        assert_eq!(here.ok(&["map", "get", "m", "k"]), got);
    }
    let mut child = here.command(&["map", "put", "m", "k"]).stdin(Stdio::piped()).spawn().unwrap();
    feed(&mut child, &[b'x'; 5000]);
    let ran = child.wait_with_output().unwrap();
    assert!(
        !ran.status.success() && String::from_utf8_lossy(&ran.stderr).contains("longer than the 256 bytes"),
        "{ran:?}"
    );
}

#[test]
fn an_object_that_is_no_map_is_refused_in_words() {
    let here = Place::new();
    let none = here.fails(1, &["map", "get", "m", "a"]);
    assert!(none.contains("there is no map `m`") && none.contains("`chappe map create m` makes one"), "{none}");
    let number = here.fails(1, &["map", "create", "12"]);
    assert!(number.contains("did you mean `--entries 12`"), "{number}");
    let large = here.fails(1, &["map", "create", "m", "-m", "2000000"]);
    assert!(large.contains("cannot have 2000000 entries"), "{large}");
    for option in ["--entries", "--key-size", "--value-size"] {
        let large = here.fails(1, &["map", "create", "m", option, "9999999999"]);
        assert!(large.contains("cannot have 9999999999 "), "{large}");
    }
    here.ok(&["sem", "create", "s"]);
    let other = here.fails(1, &["map", "put", "s", "a", "b"]);
    assert!(other.contains("is a semaphore, not a map"), "{other}");
    here.ok(&["map", "create", "m"]);
    let key = here.fails(1, &["map", "put", "m", "", "b"]);
    assert!(key.contains("a key of 0 byte(s)"), "{key}");
    let long = here.fails(1, &["map", "put", "m", &"k".repeat(65), "b"]);
    assert!(long.contains("takes keys of 1 to 64"), "{long}");
}

#[test]
fn a_watch_writes_each_change() {
    let here = Place::new();
    here.ok(&["map", "create", "m"]);
    here.ok(&["map", "put", "m", "a", "1"]);
    let watcher = Place::spawn(&mut here.command(&["map", "watch", "m", "-n", "3", "--json"]));
    here.wait_for_waiters("m", 1);
    here.ok(&["map", "put", "m", "b", "2"]);
    here.wait_for_waiters("m", 1);
    until("it is heard", || {
        // The watcher may not have looked yet; whatever it misses in between, it sees what lasts.
        (here.json(&["ls"])[0]["waiting"] == 1).then_some(())
    });
    here.ok(&["map", "delete", "m", "a"]);
    let ran = watcher.end();
    let lines: Vec<serde_json::Value> = ran.out.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(lines[0], json!({"key": "a", "old": null, "new": "1"}));
    assert!(lines.len() == 3, "{lines:?}");
    // A reader that has seen enough ends the watch, which has no limit of its own.
    let (reader, writer) = std::io::pipe().unwrap();
    let mut unread = here.command(&["map", "watch", "m"]).stdout(writer).spawn().unwrap();
    drop(reader);
    // What is there may have been written before; the watch ends with the next change that it writes.
    let mut changes = 0;
    let ended = until("the watch ends", || {
        changes += 1;
        here.ok(&["map", "put", "m", "b", &changes.to_string()]);
        unread.try_wait().unwrap()
    });
    assert!(ended.success(), "{ended}");
    let late = here.fails(124, &["map", "watch", "m", "a", "--timeout", "10ms"]);
    assert!(late.contains("nothing has changed in map `m` for 10ms"), "{late}");
}
