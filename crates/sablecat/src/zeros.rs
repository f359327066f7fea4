//! Whether bytes are what was never written.

/// How many bytes are looked at before it is asked whether to go on: as many as a processor has in a line,
/// which the compiler takes in a few vectors.
const STEP: usize = 64;

/// Whether all of them are zeros.
pub(crate) fn are_zeros(bytes: &[u8]) -> bool {
    bytes.chunks(STEP).all(|step| step.iter().fold(0, |any, byte| any | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::are_zeros;

    #[test]
    fn one_bit_anywhere_is_seen() {
        for len in [0, 1, 63, 64, 65, 200] {
            let mut bytes = vec![0; len];
            assert!(are_zeros(&bytes), "{len}");
            for at in 0..len {
                bytes[at] = 1 << (at % 8);
                assert!(!are_zeros(&bytes), "{at} of {len}");
                bytes[at] = 0;
            }
        }
    }
}
