"""Arrays of numpy in tubes: without a copy, checked, and of no use once they were given back."""

import pickle
import unittest

import chappe
from house import Case

try:
    import numpy as np
except ImportError:
    print("not tested: arrays in tubes: they need numpy")
    raise unittest.SkipTest("no numpy") from None


class Arrays(Case):
    def test_a_structured_dtype_is_the_schema(self):
        trade = np.dtype([("price", "<f8"), ("qty", "<i4"), ("live", "?"), ("sym", "S8"), ("_rest", "V3")])
        tube = chappe.Tube("described", slots=4, dtype=trade)
        text = "price: f64 @ 0, qty: i32 @ 8, live: bool @ 12, sym: str[8] @ 13; size 24"
        self.assertEqual((tube.schema, chappe.Tube("described").schema), (text, text))
        tube.send((1.5, 7, True, b"ABC", b""))
        got = tube.recv()
        self.assertEqual((type(got), got["price"], got["qty"], bool(got["live"]), got["sym"]), (np.void, 1.5, 7, True, b"ABC"))
        got["qty"] = 8                                  # a copy of its own
        with tube.reserve() as slot:
            slot["qty"] = 9
        with tube.borrow() as record:
            self.assertEqual(record["qty"], 9)
        again = pickle.loads(pickle.dumps(tube))
        self.assertEqual((again.dtype, again.schema), (trade, text))
        other = np.dtype([("price", "<f8"), ("qty", "<u4")])
        for create in (None, False):
            with self.assertRaisesRegex(chappe.Mismatch, "qty: u32"):
                chappe.Tube("described", dtype=other, create=create)
        without = chappe.Tube("without", dtype=trade, schema=False)
        self.assertIsNone(without.schema)
        self.assertEqual(pickle.loads(pickle.dumps(without)).schema, None)
        plain = chappe.Tube("described-not", slots=4, size=24)
        with self.assertRaisesRegex(chappe.Mismatch, "no schema"):
            chappe.Tube(plain.name, dtype=trade)

    def test_a_field_that_no_schema_has_is_named(self):
        for field, says in (
            (("inner", [("a", "<i4")]), "fields of its own"),
            (("inner", "<f4", (3,)), r"array of shape \(3,\)"),
            (("inner", ">i4"), "other order"),
            (("inner", "U4"), 'use "S"'),
            (("inner", "<f2"), "none of bool"),
            (("inner", "M8[s]"), "int64"),
            (("in-ner", "<i4"), "letters"),
        ):
            dtype = np.dtype([("a", "<i4"), field])
            for make in (chappe.Tube, chappe.Broadcast):
                with self.assertRaisesRegex(TypeError, f"field `{field[0]}`.*{says}.*schema=False"):
                    make(dtype=dtype)
            self.assertIsNone(chappe.Tube(dtype=dtype, schema=False).schema)
        with self.assertRaisesRegex(TypeError, "field `size`.*another name"):
            chappe.Tube(dtype=np.dtype([("size", "<i4")]))
        with self.assertRaisesRegex(TypeError, "one structured record"):
            chappe.Tube(dtype=np.float32, schema=True)

    def test_subscribers_get_records_that_pass(self):
        trade = np.dtype([("price", "<f8"), ("qty", "<i4"), ("sym", "S8")])
        trades = chappe.Broadcast("shared-trades", slots=16, dtype=trade)
        dear = chappe.Broadcast("shared-trades", dtype=trade).subscribe("price > $limit && sym == $what", limit=100, what="X")
        for price, sym in ((99, b"X"), (101, b"Y"), (102, b"X"), (103, b"X")):
            trades.send((price, 1, sym))
        got = dear.recv()
        self.assertEqual((type(got), got["price"], got["sym"]), (np.void, 102, b"X"))
        dear.set(limit=200)
        self.assertIsNone(dear.try_recv())
        with self.assertRaisesRegex(chappe.Mismatch, "qty: u32"):
            chappe.Broadcast("shared-trades", dtype=np.dtype([("price", "<f8"), ("qty", "<u4"), ("sym", "S8")]))

    def test_an_array_lies_in_the_tube(self):
        tube = chappe.Tube("frames", slots=2, dtype=np.float32, shape=(3, 4))
        with tube.reserve() as a:
            a[:] = np.arange(12).reshape(3, 4)
            self.assertEqual(a.ctypes.data % 64, 0)
        with tube.borrow() as a:
            self.assertEqual((a.shape, a.dtype, float(a.sum())), ((3, 4), np.float32, 66.0))
            self.assertFalse(a.flags.writeable)
            kept, part, more = a.copy(), a[1:], a + 1
            self.assertIs(type(more), np.ndarray)
        for use in (lambda: a[0], lambda: part[0, 0], lambda: a + 1, lambda: np.sum(a), lambda: repr(a), a.tolist):
            with self.assertRaisesRegex(ValueError, "frames"):
                use()
        self.assertEqual((kept[2, 3], more[0, 0]), (11, 1))

    def test_structured_records_are_checked(self):
        trade = np.dtype([("ts", "<u8"), ("price", "<f8"), ("symbol", "S8")])
        tube = chappe.Tube("trades", dtype=trade)
        tube.send(np.array((7, 1.5, b"ABC"), dtype=trade))
        got = chappe.Tube("trades", dtype=trade).recv()
        self.assertEqual((got["ts"], got["price"], got["symbol"]), (7, 1.5, b"ABC"))
        other = np.dtype([("ts", "<u8"), ("price", "<f8"), ("name", "S8")])
        for dtype, shape in ((other, ()), (np.float64, (3,)), (trade, (2,))):
            with self.assertRaisesRegex(chappe.Mismatch, "trades"):
                chappe.Tube("trades", dtype=dtype, shape=shape)
        again = pickle.loads(pickle.dumps(tube))
        self.assertEqual((again.dtype, again.name), (trade, "trades"))

    def test_an_array_that_does_not_fit_is_refused(self):
        tube = chappe.Tube(dtype=np.int32, shape=(2,))
        with self.assertRaises(TypeError):
            tube.send(np.zeros(2))
        with self.assertRaises(ValueError):
            tube.send(np.zeros(3, np.int32))
        with self.assertRaises(TypeError):
            tube.put("object")
        with self.assertRaises(TypeError):
            chappe.Tube(dtype=object)
        with self.assertRaises(ValueError):
            chappe.Tube(dtype=np.int32, shape=(0,))
        with self.assertRaises(ValueError):
            chappe.Tube(dtype=np.int32, shape=(2,), size=9)

    def test_arrays_in_objects_go_beside_the_pickle(self):
        tube = chappe.Tube(size=1 << 16)
        tube.put({"a": np.arange(1000), "b": np.ones(3)})
        got = tube.get()
        got["a"][0] = 5
        self.assertEqual((int(got["a"].sum()), got["b"].tolist()), (499505, [1, 1, 1]))


if __name__ == "__main__":
    unittest.main()
