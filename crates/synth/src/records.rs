//! Many records, as they lie in memory.

/// Records of one length, at equal distances from each other.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    size: usize,
    stride: usize,
    len: usize,
    texts: &'a [u8],
}

impl<'a> Records<'a> {
    /// As many records as there are in the bytes: each begins `stride` bytes behind the one before it, and has `size`. The last
    /// one may lack what lies between two.
    ///
    /// # Panics
    /// When the stride is less than the size, or the size 0.
    pub fn new(bytes: &'a [u8], size: usize, stride: usize) -> Records<'a> {
        assert!(size > 0 && stride >= size, "records of {size} bytes every {stride}");
        let len = if bytes.len() < size { 0 } else { (bytes.len() - size) / stride + 1 };
        Records { bytes, size, stride, len, texts: &[] }
    }

    /// With the bytes in which the texts of any length lie.
    #[must_use]
    pub fn with_texts(self, texts: &'a [u8]) -> Records<'a> {
        Records { texts, ..self }
    }

    /// The bytes in which the texts of any length lie.
    pub fn texts(&self) -> &'a [u8] {
        self.texts
    }

    /// Bytes of each.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How far one begins behind the other.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// From the first byte of the first one.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// One of them, with whatever lies behind it.
    pub fn get(&self, at: usize) -> &'a [u8] {
        &self.bytes[at * self.stride..]
    }

    /// Some of them.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn part(&self, from: usize, len: usize) -> Records<'a> {
        assert!(from + len <= self.len, "{len} records from {from} on, of {}", self.len);
        let bytes = if len == 0 { &[] } else { &self.bytes[from * self.stride..] };
        Records { bytes, size: self.size, stride: self.stride, len, texts: self.texts }
    }
}
