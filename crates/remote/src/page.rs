//! Records in a page: each behind its length, four bytes, the lowest first.

/// The most bytes of a page that has several records.
pub const PAGE: usize = 64 << 10;
/// The most records of a page.
pub const RECORDS: usize = 1000;
/// The most bytes of a record: an engine takes no transaction of 1.5 MiB.
pub const MOST_RECORD: usize = 1 << 20;

/// The most bytes of a transaction's pages.
pub const MOST_BYTES: usize = 512 << 10;
/// The most pages of a transaction.
pub const MOST_PAGES: usize = 8;
/// The most bytes that may stand in a tube: beside its history, an engine has room for 2 GiB if nobody said otherwise, and locks need some.
pub const MOST_THERE: u64 = 512 << 20;

/// The most pages of a claim in a tube of records of this length: what takes longer over a slow line than an answer may take never comes.
pub fn most(record: u64) -> u64 {
    (MOST_BYTES as u64 / largest(record)).clamp(1, MOST_PAGES as u64)
}

/// The bytes of the largest page.
fn largest(record: u64) -> u64 {
    record.saturating_add(4).max(PAGE as u64)
}

/// Whether a tube may have so many pages of such records.
///
/// # Errors
/// What is possible.
pub fn check(pages: u64, record: u64) -> Result<(), String> {
    if record > MOST_RECORD as u64 {
        return Err(format!("a record on an engine has at most {MOST_RECORD} bytes, not {record}"));
    }
    let most = MOST_THERE / largest(record);
    if !(1..=most).contains(&pages) {
        return Err(format!(
            "a tube on an engine has room for 1 to {most} pages of such records, {} MiB, not {pages}",
            MOST_THERE >> 20
        ));
    }
    Ok(())
}

/// Whether a page of so many bytes and records takes another record of this length.
fn has_room(page: &[u8], records: usize, length: usize) -> bool {
    records == 0 || records < RECORDS && page.len() + 4 + length <= PAGE
}

/// Appends a record, of at most [`MOST_RECORD`] bytes.
pub fn append(page: &mut Vec<u8>, record: &[u8]) {
    // The maker of the record has checked its length.
    page.extend(u32::try_from(record.len()).unwrap_or(u32::MAX).to_le_bytes());
    page.extend_from_slice(record);
}

/// The pages of one transaction, which fill record by record.
#[derive(Debug, Default)]
pub struct Batch {
    /// The pages.
    pub pages: Vec<Vec<u8>>,
    /// What is in each of them.
    pub counts: Vec<Count>,
}

/// What is in a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many records.
    pub records: usize,
    /// How many bytes they have.
    pub bytes: u64,
}

impl Batch {
    /// Appends a record, of at most [`MOST_RECORD`] bytes, to the last page or on one of its own; answers whether it has room for it.
    /// The first one has room.
    #[must_use]
    pub fn append(&mut self, record: &[u8]) -> bool {
        let fits = self
            .pages
            .last()
            .zip(self.counts.last())
            .is_some_and(|(page, count)| has_room(page, count.records, record.len()));
        if !fits {
            let bytes: usize = self.pages.iter().map(Vec::len).sum();
            if self.pages.len() >= MOST_PAGES || bytes > 0 && bytes + record.len().max(PAGE) > MOST_BYTES {
                return false;
            }
            self.pages.push(Vec::new());
            self.counts.push(Count::default());
        }
        if let (Some(page), Some(count)) = (self.pages.last_mut(), self.counts.last_mut()) {
            append(page, record);
            *count = Count { records: count.records + 1, bytes: count.bytes + record.len() as u64 };
        }
        true
    }
}

/// The records of a page; `None` behind the last whole one, if it is not whole.
pub fn records(page: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = Some(page);
    std::iter::from_fn(move || {
        let left = rest.filter(|left| !left.is_empty())?;
        let record = left.split_first_chunk::<4>().and_then(|(length, behind)| {
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            Some((behind.get(..length)?, behind.get(length..)?))
        });
        rest = record.map(|(_, behind)| behind);
        Some(record.map(|(record, _)| record))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_as_they_went_in() {
        let mut page = Vec::new();
        let all: [&[u8]; 4] = [b"a", b"", b"three\0", &[255; 300]];
        all.iter().for_each(|record| append(&mut page, record));
        assert_eq!(records(&page).collect::<Option<Vec<_>>>().unwrap(), all);
        assert_eq!(records(&page[..page.len() - 1]).last(), Some(None), "a part of a record");
        assert_eq!(records(&[]).count(), 0);
    }

    #[test]
    fn a_claim_and_a_tube_have_an_end_in_bytes() {
        assert_eq!([most(1), most(PAGE as u64 - 4), most(PAGE as u64), most(MOST_RECORD as u64)], [8, 8, 7, 1]);
        assert_eq!((check(8192, 100), check(512, MOST_RECORD as u64 - 4)), (Ok(()), Ok(())));
        for (pages, record) in [(0, 100), (8193, 100), (513, MOST_RECORD as u64 - 4), (1, MOST_RECORD as u64 + 1)] {
            assert!(check(pages, record).is_err(), "{pages} pages, {record} bytes");
        }
    }

    #[test]
    fn a_page_is_full_by_bytes_or_by_records_and_takes_one_record_of_any_size() {
        assert!(has_room(&[], 0, MOST_RECORD));
        assert!(has_room(&[0; 100], 1, PAGE - 104) && !has_room(&[0; 100], 1, PAGE - 103));
        assert!(!has_room(&[0; 5000], RECORDS, 1));
    }

    #[test]
    fn a_batch_is_full_by_pages_or_by_bytes_and_counts_what_is_in_it() {
        let full_of = |record: &[u8]| {
            let mut batch = Batch::default();
            while batch.append(record) {}
            let records: usize = batch.counts.iter().map(|count| count.records).sum();
            assert_eq!(batch.counts.iter().map(|count| count.bytes).sum::<u64>(), (records * record.len()) as u64);
            (batch.pages.len(), records)
        };
        assert_eq!(full_of(b""), (8, 8000));
        assert_eq!(full_of(&[0; PAGE - 4]), (8, 8));
        assert_eq!(full_of(&[0; PAGE]), (7, 7), "each has its length before it");
        assert_eq!(full_of(&[0; MOST_RECORD]), (1, 1), "the first one has room");
    }
}
