"""Records as arrays of numpy. Imported when a tube with a dtype is made: the package itself does without numpy."""

import math
import operator

import numpy as np


def layout(dtype, shape):
    """The dtype and shape, the name that their layout has in the tube's head, and the size of a record."""
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"{dtype} has references to objects, which mean nothing in another process")
    try:
        shape = (shape,) if isinstance(shape, int) else tuple(map(operator.index, shape))
    except TypeError:
        raise TypeError(f"a shape is a number, or a tuple of numbers, not {shape!r}") from None
    if any(n < 0 for n in shape):
        raise ValueError(f"no array has the shape {shape}")
    size = dtype.itemsize * math.prod(shape)
    if size >= 1 << 32:
        raise ValueError(f"records of {dtype} and shape {shape} have {size} bytes: a tube carries up to {(1 << 32) - 1}")
    if size == 0:
        raise ValueError(f"records of {dtype} and shape {shape} would have no bytes")
    return dtype, shape, f"numpy {np.lib.format.dtype_to_descr(dtype)!r} {shape}", size


# What a field's kind and size are in a schema.
_SCALARS = {
    ("b", 1): "bool",
    **{("i", n): f"i{8 * n}" for n in (1, 2, 4, 8)},
    **{("u", n): f"u{8 * n}" for n in (1, 2, 4, 8)},
    **{("f", n): f"f{8 * n}" for n in (4, 8)},
}


# Names that expressions and schemas read as something else.
_RESERVED = {"true", "false", "null", "in", "as", "by", "size", "where"}


def schema_of(dtype):
    """The schema of a structured dtype, as text: what `#[derive(chappe::Fields)]` and `<chappe/schema.h>` make of a struct.

    A field whose name begins with `_` is left out. TypeError, with its name, for one that a schema has no type for.
    """

    def refused(why):
        return TypeError(
            f"field `{name}` of {dtype} cannot be in a schema: {why}; or make the tube with `schema=False`: then it has no schema, "
            "and no filter"
        )

    fields = []
    for name in dtype.names:
        if name.startswith("_"):
            continue
        field, at = dtype.fields[name][:2]
        if not (name.isascii() and name.isidentifier()):
            raise refused("its name is no word of letters, digits and `_`")
        if name in _RESERVED:
            raise refused("expressions read its name as something else: give it another name")
        if field.names is not None:
            raise refused("it has fields of its own: make each of them a field of the record")
        if field.subdtype is not None:
            raise refused(f"it is an array of shape {field.shape}: make each element a field of the record")
        if field.kind == "S" and field.itemsize:
            fields.append(f"{name}: str[{field.itemsize}] @ {at}")
            continue
        scalar = _SCALARS.get((field.kind, field.itemsize))
        if scalar is None:
            why = {
                "U": 'text takes four bytes a letter in it: use "S"',
                "M": "a schema has no dates: use int64",
                "m": "a schema has no times: use int64",
            }.get(field.kind, f"{field} is none of bool, int8 to int64, uint8 to uint64, float32, float64, S")
            raise refused(why)
        if not field.isnative:
            raise refused("its bytes are in the other order: use a little-endian type")
        fields.append(f"{name}: {scalar} @ {at}")
    if not fields:
        raise TypeError(f"{dtype} has no field that a schema could name")
    return f"{', '.join(fields)}; size {dtype.itemsize}"


def described(dtype, shape, schema):
    """The schema of records of a dtype and shape, or None for those that have none; `schema` is what the user said."""
    if schema is False or (schema is None and (dtype.names is None or shape != ())):
        return None
    if dtype.names is None or shape != ():
        raise TypeError(f"a schema is that of one structured record, not of {dtype} and shape {shape}")
    return schema_of(dtype)


def checked(tube, data):
    """The bytes of an array of the tube's dtype and shape; whatever else it is, TypeError or ValueError."""
    try:
        given = np.asarray(data)
    except ValueError as error:
        raise ValueError(f"tube `{tube.name}` carries arrays of shape {tube.shape}: {error}") from error
    if isinstance(data, (np.ndarray, np.generic)) and given.dtype != tube.dtype:
        raise TypeError(f"tube `{tube.name}` carries {tube.dtype}, not {given.dtype}")
    try:
        given = np.asarray(data, dtype=tube.dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(f"tube `{tube.name}` carries {tube.dtype}: {error}") from error
    if given.shape != tube.shape:
        raise ValueError(f"tube `{tube.name}` carries arrays of shape {tube.shape}, not {given.shape}")
    return given.tobytes()


def array(data, dtype, shape):
    """A record that was copied out: an array, or of a structured dtype and no shape one record (`numpy.void`)."""
    made = np.frombuffer(bytearray(data), dtype=dtype)
    return made[0] if dtype.names is not None and shape == () else made.reshape(shape)


class InSlots:
    """The arrays that lie in the slots of a tube."""

    # Of how many slots they are kept: to make one takes several times as long as to send it.
    MOST = 1024

    def __init__(self, name, dtype, shape, memory):
        self._name, self._dtype, self._shape, self._memory = name, dtype, shape, memory
        self._read, self._written = {}, {}

    def __call__(self, at, size, writable):
        """The array at an address, and its token, which says whether it still lies there: `[True, the tube's name]`."""
        kept = self._written if writable else self._read
        plain = kept.get(at)
        if plain is None:
            plain = np.frombuffer(self._memory(at, size, writable), dtype=self._dtype).reshape(self._shape)
            if len(kept) < self.MOST:
                kept[at] = plain
        made = plain.view(InPlace)
        token = made._token = [True, self._name]
        return made, token


def _plain(value):
    if isinstance(value, InPlace):
        value._check()
        return value.view(np.ndarray)
    if isinstance(value, (tuple, list)):
        return type(value)(_plain(v) for v in value)
    return value


_get, _set = np.ndarray.__getitem__, np.ndarray.__setitem__


class InPlace(np.ndarray):
    """An array whose memory is a record of a tube. It raises ValueError once the record was given back, and so does each view of
    it. What is computed from it is a plain array.
    """

    _token = None

    def __array_finalize__(self, obj):
        # A copy has memory of its own, and no base.
        if self.base is not None:
            self._token = getattr(obj, "_token", None)

    def _check(self):
        if self._token is not None and not self._token[0]:
            raise ValueError(f"this array was a record of tube `{self._token[1]}`, which has been given back")

    def __getitem__(self, key):
        token = self._token
        if token is not None and not token[0]:
            self._check()
        return _get(self, key)

    def __setitem__(self, key, value):
        token = self._token
        if token is not None and not token[0]:
            self._check()
        _set(self, key, value)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **named):
        if out is not None:
            named["out"] = tuple(_plain(o) for o in out)
        made = getattr(ufunc, method)(*(_plain(i) for i in inputs), **{k: _plain(v) for k, v in named.items()})
        return out[0] if out is not None and len(out) == 1 else made

    def __array_function__(self, func, types, args, kwargs):
        return func(*(_plain(a) for a in args), **{k: _plain(v) for k, v in kwargs.items()})

    def __repr__(self):
        self._check()
        return repr(self.view(np.ndarray))

    def __str__(self):
        self._check()
        return str(self.view(np.ndarray))

    def __reduce__(self):
        self._check()
        return np.array(self.view(np.ndarray)).__reduce__()

    def __reduce_ex__(self, protocol):
        self._check()
        return np.array(self.view(np.ndarray)).__reduce_ex__(protocol)

    def copy(self, order="C"):
        """An array of its own."""
        self._check()
        return np.array(self.view(np.ndarray), order=order)

    def tobytes(self, order="C"):
        """As of any array."""
        self._check()
        return super().tobytes(order)

    def tolist(self):
        """As of any array."""
        self._check()
        return super().tolist()
