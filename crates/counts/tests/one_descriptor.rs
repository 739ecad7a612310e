//! Ten thousand named pools cost a process one descriptor at most, one mapping, and 128 bytes each beside the index.

use chappe_counts::footprint::{MANY, take};
use chappe_counts::house::House;

#[test]
fn ten_thousand_pools_take_one_descriptor() {
    let _house = House::new("descriptors");
    let f = take();
    assert!(f.descriptors_before >= 3, "a process has at least three: {f:?}");
    assert!(f.descriptors_after <= f.descriptors_before + 1, "{MANY} pools: {f:?}");
    assert_eq!(f.mappings, 1, "{f:?}");
    // The object itself, and two places of eight bytes in the index of names.
    assert_eq!(f.bytes_each, 128 + 16, "{f:?}");
}
