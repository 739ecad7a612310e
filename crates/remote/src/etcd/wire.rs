//! The engine's words as messages, and back.

use super::messages as m;
use crate::engine::{Change, Compare, Entry, Keys, LeaseId, Op, Reply, Revision, Test, Txn, TxnReply};

/// A key, and the end of a range; the latter empty for one key alone.
pub fn range(keys: &Keys) -> (Vec<u8>, Vec<u8>) {
    match keys {
        Keys::One(key) => (key.clone().into_bytes(), vec![]),
        Keys::Under(prefix) => {
            let mut end = prefix.clone().into_bytes();
            // Prefixes end in `/`, which is not the last byte there is.
            if let Some(last) = end.last_mut() {
                *last += 1;
            }
            (prefix.clone().into_bytes(), end)
        }
        Keys::Between(from, to) => (from.clone().into_bytes(), to.clone().into_bytes()),
    }
}

fn signed(revision: Revision) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

fn unsigned(revision: i64) -> Revision {
    Revision::try_from(revision).unwrap_or_default()
}

pub fn txn(txn: &Txn) -> m::TxnRequest {
    let all = |ops: &[Op]| ops.iter().map(|op| m::RequestOp { request: Some(request(op)) }).collect();
    m::TxnRequest {
        compare: txn.when.iter().map(compare).collect(),
        success: all(&txn.then),
        failure: all(&txn.otherwise),
    }
}

/// A transaction that reads what the member that is asked has.
pub fn glance(from: &Txn) -> m::TxnRequest {
    let mut message = txn(from);
    for op in message.success.iter_mut().chain(&mut message.failure) {
        if let Some(m::Request::Range(range)) = &mut op.request {
            range.serializable = true;
        }
    }
    message
}

fn compare(compare: &Compare) -> m::Compare {
    let (key, range_end) = range(&compare.keys);
    let (target, with) = match compare.is {
        Test::Absent => (1, m::CompareWith::CreateRevision(0)),
        Test::Created(at) => (1, m::CompareWith::CreateRevision(signed(at))),
        Test::Modified(at) => (2, m::CompareWith::ModRevision(signed(at))),
    };
    m::Compare { target, key, with: Some(with), range_end }
}

fn request(op: &Op) -> m::Request {
    match op {
        Op::Put { key, value, lease } => m::Request::Put(m::PutRequest {
            key: key.clone().into_bytes(),
            value: value.clone(),
            lease: lease.map_or(0, |lease| lease.0),
        }),
        Op::Delete(keys) => {
            let (key, range_end) = range(keys);
            m::Request::DeleteRange(m::DeleteRangeRequest { key, range_end })
        }
        Op::Get(keys) => {
            let (key, range_end) = range(keys);
            m::Request::Range(m::RangeRequest { key, range_end, ..m::RangeRequest::default() })
        }
        Op::Names(keys) => {
            let (key, range_end) = range(keys);
            m::Request::Range(m::RangeRequest { key, range_end, keys_only: true, ..m::RangeRequest::default() })
        }
        Op::First(keys) => {
            let (key, range_end) = range(keys);
            let first = m::RangeRequest { limit: 1, sort_order: 1, sort_target: 2, ..m::RangeRequest::default() };
            m::Request::Range(m::RangeRequest { key, range_end, ..first })
        }
        Op::Txn(within) => m::Request::Txn(txn(within)),
    }
}

/// What an engine answered.
pub fn reply(response: m::TxnResponse) -> TxnReply {
    TxnReply {
        revision: response.header.map_or(0, |header| unsigned(header.revision)),
        held: response.succeeded,
        replies: replies(response.responses),
    }
}

fn replies(responses: Vec<m::ResponseOp>) -> Vec<Reply> {
    let one = |response: m::ResponseOp| match response.response {
        Some(m::Response::Range(range)) => Reply::Found(range.kvs.into_iter().map(entry).collect()),
        Some(m::Response::Txn(txn)) => Reply::Txn(txn.succeeded, replies(txn.responses)),
        Some(m::Response::Put(_) | m::Response::DeleteRange(_)) | None => Reply::Done,
    };
    responses.into_iter().map(one).collect()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

fn entry(kv: m::KeyValue) -> Entry {
    Entry {
        key: text(kv.key),
        value: kv.value,
        created: unsigned(kv.create_revision),
        modified: unsigned(kv.mod_revision),
        lease: (kv.lease != 0).then_some(LeaseId(kv.lease)),
    }
}

/// A change that a watch told.
pub fn change(event: m::Event) -> Option<Change> {
    let entry = entry(event.kv?);
    Some(match event.kind {
        0 => Change::Put(entry),
        _ => Change::Deleted { at: entry.modified, key: entry.key },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn a_range_ends_behind_its_last_key() {
        let (from, to) = range(&Keys::Under("chappe/1/lab/pool/a/".into()));
        assert!(from.as_slice() < b"chappe/1/lab/pool/a/zzz".as_slice());
        assert_eq!(to, b"chappe/1/lab/pool/a0");
        assert_eq!(range(&Keys::One("k".into())), (b"k".to_vec(), vec![]));
    }

    #[test]
    fn messages_have_the_numbers_of_the_interface() {
        // Written by hand from etcd's rpc.proto: field number * 8 + kind.
        let put = Op::Put { key: "k".into(), value: "v".into(), lease: Some(LeaseId(7)) };
        let when = Compare { keys: Keys::Under("p/".into()), is: Test::Created(3) };
        let all = Txn { when: vec![when], then: vec![put], otherwise: vec![Op::First(Keys::One("k".into()))] };
        let compare = [0x10, 1, 0x1a, 2, b'p', b'/', 0x28, 3, 0x82, 4, 2, b'p', b'0'];
        let put = [0x12, 8, 0x0a, 1, b'k', 0x12, 1, b'v', 0x18, 7];
        let first = [0x0a, 9, 0x0a, 1, b'k', 0x18, 1, 0x28, 1, 0x30, 2];
        let mut wanted = vec![0x0a, compare.len() as u8];
        wanted.extend(compare);
        wanted.extend([0x12, put.len() as u8]);
        wanted.extend(put);
        wanted.extend([0x1a, first.len() as u8]);
        wanted.extend(first);
        assert_eq!(txn(&all).encode_to_vec(), wanted);
    }
}
