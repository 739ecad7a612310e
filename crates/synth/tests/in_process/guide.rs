//! What the guide's chapter on queries quotes.

#[test]
fn a_filter_as_the_guide_has_it() -> Result<(), Box<dyn std::error::Error>> {
    let mut record = [0; 24];
    record[..8].copy_from_slice(&11.0f64.to_le_bytes());
    record[12] = b'X';
    let mut passed = 0;
    {
        use chappe_synth::{Live, Schema, Value}; // or chappe::synth

        let trade = Schema::parse("price: f64, qty: i32, sym: str[8]")?;
        let filter = Live::filter(&trade, "price > $limit && sym == 'X'", &[("limit", Value::Int(10))])?;
        let mut evaluator = filter.evaluator(); // one for each thread
        if evaluator.test(&record) {
            passed += 1;
        }
        filter.set(&[("limit", Value::Double(12.5))])?; // holds from the next record on
        assert!(!evaluator.test(&record));
    }
    assert_eq!(passed, 1);
    Ok(())
}
