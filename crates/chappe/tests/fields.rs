//! Structs as schemas: what `#[derive(chappe::Fields)]` writes, and tubes that are made with it.

use bytemuck::{Pod, Zeroable};
use chappe::tube::named::{NotSent, Tube, TubeError, TubeOptions};
use chappe::{Fields, directory};

/// A trade, with what the derive must get past: attributes, visibility, padding, a type with angle brackets.
#[derive(Fields, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Trade {
    /// In euros.
    pub price: f64,
    #[doc(hidden)]
    pub(crate) qty: i32,
    sym: [u8; 8],
    _padding: [u8; 4],
}

// SAFETY: zeros are a trade.
unsafe impl Zeroable for Trade {}
// SAFETY: numbers and bytes, no gap between them.
unsafe impl Pod for Trade {}

#[derive(Fields)]
struct Mixed {
    live: bool,
    far: <[u8; 3] as Same>::This,
    r#type: u16,
    near: f32,
}

trait Same {
    type This;
}

impl<T> Same for T {
    type This = T;
}

#[test]
fn a_struct_is_a_schema_where_the_compiler_put_its_fields() {
    let wanted = "price: f64 @ 0, qty: i32 @ 8, sym: str[8] @ 12; size 24";
    assert_eq!(Trade::schema().to_string(), wanted);
    let one = Mixed { live: true, far: *b"abc", r#type: 2, near: 0.5 };
    assert_eq!((one.live, one.far, one.r#type, one.near), (true, *b"abc", 2, 0.5));
    let mixed = Mixed::schema();
    assert_eq!(mixed.size() as usize, size_of::<Mixed>());
    for (name, at) in [("live", std::mem::offset_of!(Mixed, live)), ("far", std::mem::offset_of!(Mixed, far))] {
        assert_eq!(mixed.field(name).unwrap().at as usize, at);
    }
    assert!(mixed.field("type").is_some() && mixed.field("near").is_some());
}

#[test]
fn a_tube_keeps_the_schema_of_its_type() {
    let place = std::path::PathBuf::from(format!("/dev/shm/chappe-fields-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    // SAFETY: the one test of this binary that looks at the environment, before it has made an arena.
    unsafe { std::env::set_var("CHAPPE_DIR", &place) };
    assert!(directory().unwrap().starts_with(&place));
    let (options, schema) = (TubeOptions::default(), Trade::schema().to_string());
    let tube = Tube::<Trade>::open_or_create_of("trades", &options, &schema).unwrap();
    assert_eq!(tube.schema().unwrap(), Some(schema.clone()));
    let again = Tube::<Trade>::open_or_create_of("trades", &options, &schema).unwrap();
    let trade = Trade { price: 1.5, qty: 3, sym: *b"X\0\0\0\0\0\0\0", _padding: [0; 4] };
    let receiver = again.receiver().unwrap();
    tube.sender().unwrap().send(trade).unwrap();
    assert_eq!(receiver.recv().unwrap(), trade);

    // As bytes: readers by the schema could not get past a record of another size, however it was sent.
    let bytes = Tube::<[u8]>::open("trades").unwrap();
    let mut sender = bytes.sender().unwrap();
    let short = |sent: Result<(), NotSent>| {
        assert!(matches!(sent, Err(NotSent::TooShort { len: 5, wanted: 24, .. })), "{sent:?}");
    };
    short(sender.send(b"hello"));
    short(sender.try_send_ahead(b"hello"));
    short(sender.reserve().unwrap().commit(5));
    let whole = bytemuck::bytes_of(&trade);
    assert!(matches!(sender.send(&[whole, b"x"].concat()), Err(NotSent::TooLong { len: 25, most: 24, .. })));
    sender.send(whole).unwrap();
    sender.reserve().unwrap().commit(24).unwrap();
    assert_eq!(receiver.recv().unwrap(), trade);
    assert_eq!(tube.info().unwrap().messages, 1, "none of the others was sent");

    let other = schema.replace("qty", "amount");
    let refused = Tube::<Trade>::open_or_create_of("trades", &options, &other).unwrap_err();
    assert!(matches!(refused, TubeError::OtherShape { .. }));
    assert!(refused.to_string().contains("amount"), "{refused}");
    Tube::<Trade>::create("plain", &options).unwrap();
    let refused = Tube::<Trade>::open_or_create_of("plain", &options, &schema).unwrap_err();
    assert!(refused.to_string().contains("no schema"), "{refused}");
    std::fs::remove_dir_all(&place).unwrap();
}
