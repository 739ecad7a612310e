//! Records in a page: each behind its length, four bytes, the lowest first.

/// The most bytes of a page that has several records.
pub const PAGE: usize = 64 << 10;
/// The most records of a page.
pub const RECORDS: usize = 1000;
/// The most bytes of a record: an engine takes no transaction of 1.5 MiB.
pub const MOST_RECORD: usize = 1 << 20;

/// Whether a page of so many bytes and records takes another record of this length.
pub fn has_room(page: &[u8], records: usize, length: usize) -> bool {
    records == 0 || records < RECORDS && page.len() + 4 + length <= PAGE
}

/// Appends a record, of at most [`MOST_RECORD`] bytes.
pub fn append(page: &mut Vec<u8>, record: &[u8]) {
    // The maker of the record has checked its length.
    page.extend(u32::try_from(record.len()).unwrap_or(u32::MAX).to_le_bytes());
    page.extend_from_slice(record);
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
    fn a_page_is_full_by_bytes_or_by_records_and_takes_one_record_of_any_size() {
        assert!(has_room(&[], 0, MOST_RECORD));
        assert!(has_room(&[0; 100], 1, PAGE - 104) && !has_room(&[0; 100], 1, PAGE - 103));
        assert!(!has_room(&[0; 5000], RECORDS, 1));
    }
}
