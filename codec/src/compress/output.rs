//! Room that an encoder fills and that may turn out too small.

/// A cursor over a slice that an encoder fills and that may turn out too small.
pub(super) struct Output<'a> {
    pub(super) bytes: &'a mut [u8],
    pub(super) at: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn push(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(self.at)? = byte;
        self.at += 1;
        Some(())
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.at.checked_add(bytes.len())?;
        self.bytes.get_mut(self.at..end)?.copy_from_slice(bytes);
        self.at = end;
        Some(())
    }
}
