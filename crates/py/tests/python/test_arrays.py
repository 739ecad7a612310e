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
        for dtype, shape in ((other, ()), (np.float64, (3,)), (trade, (2,)), (None, ())):
            with self.assertRaisesRegex(chappe.Mismatch, "trades"):
                chappe.Tube("trades", dtype=dtype, shape=shape)
        again = pickle.loads(pickle.dumps(tube))
        self.assertEqual((again.dtype, again.name), (trade, "trades"))

    def test_what_does_not_fit_is_refused(self):
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
