//! Numbers as people write them on a command line: `32M`, `10G`, `1_000_000`.

/// Bytes: a number, and after it at most one of K, M, G, T, in powers of 1024; a `B` or `iB` behind it
/// changes nothing.
///
/// # Errors
/// A sentence, when it is no such number or too large.
pub fn bytes(text: &str) -> Result<u64, String> {
    scaled(text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text), 1024)
}

/// A count: a number, and after it at most one of K, M, G, T, in powers of 1000.
///
/// # Errors
/// A sentence, when it is no such number or too large.
pub fn count(text: &str) -> Result<u64, String> {
    scaled(text, 1000)
}

fn scaled(text: &str, base: u64) -> Result<u64, String> {
    let unit = text.chars().last().map(|last| last.to_ascii_uppercase());
    let power = unit.and_then(|unit| "KMGT".find(unit)).map(|at| at as u32 + 1);
    let digits = if power.is_some() { &text[..text.len() - 1] } else { text };
    let number: u64 = digits
        .replace('_', "")
        .parse()
        .map_err(|_| format!("{text:?} is not a number, optionally followed by K, M, G or T"))?;
    number.checked_mul(base.pow(power.unwrap_or(0))).ok_or_else(|| format!("{text} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers() {
        for (text, value) in
            [("0", 0), ("512", 512), ("32M", 32 << 20), ("32MiB", 32 << 20), ("2kB", 2048), ("10g", 10 << 30)]
        {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        assert_eq!(count("10M"), Ok(10_000_000));
        assert_eq!(count("1_000"), Ok(1000));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "M", "-1", "1.5G", "1X", "9999999999T", "é"] {
            assert!(bytes(text).is_err(), "{text:?}");
        }
    }
}
